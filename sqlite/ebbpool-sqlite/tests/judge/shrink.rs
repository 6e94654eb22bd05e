//! Makes programs that show a difference smaller.

use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::lockstep::{Finding, run};
use crate::price::Tally;
use crate::step::{CONNECTIONS, Program, Step};

/// After this time a program is small enough.
const LONGEST: Duration = Duration::from_secs(40);

struct Shrinker<'a> {
    bench: &'a Bench,
    program: Program,
    finding: Finding,
    end: Instant,
}

/// The smallest program found that shows a difference, and what it shows.
pub fn shrink(bench: &Bench, program: &Program, finding: &Finding) -> (Program, Finding) {
    let mut shrinker = Shrinker { bench, program: program.clone(), finding: finding.clone(), end: Instant::now() + LONGEST };
    // What comes after the difference has nothing to do with it.
    let mut first = program.steps.clone();
    first.truncate(finding.step + 1);
    shrinker.attempt(first);
    loop {
        let before = shrinker.program.steps.len();
        for c in 0..CONNECTIONS {
            shrinker.without(|step| step.connection() == Some(c));
        }
        shrinker.by_parts();
        if shrinker.program.steps.len() == before || shrinker.is_over() {
            return (shrinker.program, shrinker.finding);
        }
    }
}

impl Shrinker<'_> {
    fn is_over(&self) -> bool {
        Instant::now() > self.end || self.finding.is_hang
    }

    /// Goes on with fewer steps if they show a difference of the same kind.
    fn attempt(&mut self, steps: Vec<Step>) -> bool {
        if self.is_over() || steps.len() >= self.program.steps.len() {
            return false;
        }
        let program = Program { seed: self.program.seed, steps };
        match run(self.bench, &program, &mut Tally::default()) {
            Err(finding) if !finding.is_hang && kind(&finding) == kind(&self.finding) => {
                self.program = program;
                self.finding = finding;
                true
            }
            _ => false,
        }
    }

    fn without(&mut self, drops: impl Fn(&Step) -> bool) {
        let steps = self.program.steps.iter().filter(|step| !drops(step));
        let steps = steps.copied().collect();
        self.attempt(steps);
    }

    /// Drops halves, then smaller parts, then single steps.
    fn by_parts(&mut self) {
        let mut part = self.program.steps.len().div_ceil(2);
        while part > 0 {
            let mut from = 0;
            while from < self.program.steps.len() {
                let mut steps = self.program.steps.clone();
                steps.drain(from..(from + part).min(steps.len()));
                if !self.attempt(steps) {
                    from += part;
                }
            }
            part /= 2;
        }
    }
}

/// What a difference is about, without the values that differ from program to program.
pub fn kind(finding: &Finding) -> String {
    let letters = finding.why.chars().filter(|letter| !letter.is_ascii_digit());
    let words: String = letters.take_while(|letter| *letter != ':').collect();
    words.chars().take(40).collect()
}
