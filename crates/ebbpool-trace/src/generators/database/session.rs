//! Sessions: transactions of several clients, statement by statement in turn.

use super::super::References;
use super::super::random::Random;
use super::options::Options;
use crate::reference::Batch;

/// A benchmark's database and its mix of transactions.
pub(in super::super) trait Benchmark: Send {
    /// The database as its loader leaves it; what its size counts is the benchmark's matter.
    fn loaded(size: u64, options: &Options) -> Self;

    /// Pages of the database, with those that it will grow by.
    fn pages(&self) -> u64;

    /// Runs one transaction: all that it asks of the buffer goes to `transaction`.
    fn run(&mut self, transaction: &mut Transaction);
}

/// A transaction while it is being run.
pub(in super::super) struct Transaction<'a> {
    pub(in super::super) random: &'a mut Random,
    tape: &'a mut Tape,
    /// Number of the client.
    session: usize,
    /// Transactions count from 1.
    number: u32,
    /// The transactions that each session runs now, this one included.
    running: &'a [u32],
    oldest: u32,
    hint_bits: bool,
}

impl Transaction<'_> {
    pub(super) fn session(&self) -> usize {
        self.session
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The oldest transaction that may still want to see old versions.
    pub(super) fn oldest(&self) -> u32 {
        self.oldest
    }

    pub(super) fn is_running(&self, number: u32) -> bool {
        self.running.contains(&number)
    }

    pub(in super::super) fn read(&mut self, page: u64) {
        self.tape.references.push(page << 1);
    }

    pub(in super::super) fn write(&mut self, page: u64) {
        self.tape.references.push(page << 1 | 1);
    }

    /// A read that leaves the page dirty if `marks` and if that counts.
    pub(super) fn look(&mut self, page: u64, marks: bool) {
        let write = marks && self.hint_bits;
        self.tape.references.push(page << 1 | u64::from(write));
    }

    /// The references since the last statement's end are one statement: no other
    /// session's come in between.
    pub(in super::super) fn end_statement(&mut self) {
        let end = self.tape.references.len();
        if self.tape.ends.last() != Some(&end) && end > 0 {
            self.tape.ends.push(end);
        }
    }
}

/// The references of one transaction, as page and write in one number.
#[derive(Debug, Default)]
struct Tape {
    references: Vec<u64>,
    /// Where statements end among them.
    ends: Vec<usize>,
    /// References that are out.
    done: usize,
    /// Statements that are out.
    statements: usize,
}

impl Tape {
    fn clear(&mut self) {
        self.references.clear();
        self.ends.clear();
        self.done = 0;
        self.statements = 0;
    }
}

/// The stream of references that a benchmark's sessions make.
pub(in super::super) struct Sessions<B> {
    benchmark: B,
    random: Random,
    tapes: Vec<Tape>,
    running: Vec<u32>,
    number: u32,
    hint_bits: bool,
    warmup: u64,
    /// The session whose statement is under way.
    current: usize,
    /// Where its references end.
    until: usize,
}

impl<B: Benchmark> Sessions<B> {
    pub(in super::super) fn new(benchmark: B, options: &Options) -> Sessions<B> {
        Sessions {
            benchmark,
            random: Random::new(options.seed),
            tapes: (0..options.clients).map(|_| Tape::default()).collect(),
            running: vec![0; options.clients],
            number: 0,
            hint_bits: options.hint_bits,
            warmup: options.warmup,
            current: 0,
            until: 0,
        }
    }

    fn run(&mut self, session: usize) {
        self.number = self.number.wrapping_add(1).max(1);
        self.running[session] = self.number;
        let tape = &mut self.tapes[session];
        tape.clear();
        let oldest = self.running.iter().copied().min().unwrap_or(0);
        let mut transaction = Transaction {
            random: &mut self.random,
            tape,
            session,
            number: self.number,
            running: &self.running,
            oldest,
            hint_bits: self.hint_bits,
        };
        self.benchmark.run(&mut transaction);
        transaction.end_statement();
    }

    fn warm_up(&mut self) {
        let sessions = self.tapes.len();
        for transaction in 0..std::mem::take(&mut self.warmup) {
            self.run((transaction % sessions as u64) as usize);
        }
        for tape in &mut self.tapes {
            tape.clear();
        }
    }

    /// Goes on with the next statement of any session.
    fn next_statement(&mut self) {
        self.current = self.random.below(self.tapes.len() as u64) as usize;
        while self.tapes[self.current].statements == self.tapes[self.current].ends.len() {
            self.run(self.current);
        }
        let tape = &mut self.tapes[self.current];
        self.until = tape.ends[tape.statements];
        tape.statements += 1;
    }
}

impl<B: Benchmark> References for Sessions<B> {
    fn fill(&mut self, batch: &mut Batch, count: usize) {
        if self.warmup > 0 {
            self.warm_up();
        }
        let mut left = count;
        while left > 0 {
            if self.tapes[self.current].done == self.until {
                self.next_statement();
            }
            let tape = &mut self.tapes[self.current];
            let end = self.until.min(tape.done + left);
            for &reference in &tape.references[tape.done..end] {
                batch.push(reference >> 1, reference & 1 == 1);
            }
            left -= end - tape.done;
            tape.done = end;
        }
    }
}

/// Runs transactions one after the other, for tests.
#[cfg(test)]
pub(in super::super) mod recording {
    use super::*;

    pub(in super::super::super) struct Recorder {
        random: Random,
        running: Vec<u32>,
        number: u32,
    }

    impl Recorder {
        pub(in super::super::super) fn new(sessions: usize) -> Recorder {
            Recorder {
                random: Random::new(1),
                running: vec![0; sessions],
                number: 0,
            }
        }

        /// What a transaction of `session` asks for; it runs on until the session's
        /// next one.
        pub(in super::super::super) fn record(
            &mut self,
            session: usize,
            work: impl FnOnce(&mut Transaction),
        ) -> Vec<(u64, bool)> {
            self.number += 1;
            self.running[session] = self.number;
            let mut tape = Tape::default();
            work(&mut Transaction {
                random: &mut self.random,
                tape: &mut tape,
                session,
                number: self.number,
                running: &self.running,
                oldest: self.running.iter().copied().min().unwrap_or(0),
                hint_bits: true,
            });
            let references = tape.references.iter();
            references.map(|&one| (one >> 1, one & 1 == 1)).collect()
        }
    }
}
