//! `ebbpool bound`: how small the bill could be.

use std::io::{self, Write};
use std::time::Instant;

use ebbpool_sim::bound::{Bound, Question, RecordedTrace, solve_all};
use ebbpool_sim::{AtEnd, Progress, Size};
use serde::Serialize;

use crate::args::{BoundArgs, RunFormat};
use crate::results::Number;
use crate::{Failure, progress, run, table};

/// One answer; the fields are contract. Costs are per reference, in page reads.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    pub(crate) trace: String,
    pub(crate) frames: u64,
    pub(crate) asymmetry: Number,
    pub(crate) at_end: &'static str,
    pub(crate) references: u64,
    pub(crate) lower_bound: f64,
    pub(crate) heuristic: Option<f64>,
    pub(crate) heuristic_policy: Option<&'static str>,
    /// What the heuristic costs more than the bound, as a share of the bound.
    pub(crate) gap: Option<f64>,
    /// Wall time from opening the trace.
    pub(crate) seconds: f64,
    pub(crate) iterations: u64,
}

impl Answer {
    fn new(trace: &str, reading: f64, question: &Question, bound: &Bound) -> Self {
        let references = bound.references as f64;
        Answer {
            trace: trace.into(),
            frames: question.frames,
            asymmetry: Number(question.asymmetry),
            at_end: match question.at_end {
                AtEnd::Free => "free",
                AtEnd::Flush => "flush",
            },
            references: bound.references,
            lower_bound: bound.lower_bound / references,
            heuristic: bound.heuristic.map(|bill| bill / references),
            heuristic_policy: bound.heuristic_policy,
            gap: bound.gap(),
            seconds: reading + bound.seconds,
            iterations: bound.iterations,
        }
    }
}

pub(crate) fn bound(args: &BoundArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let asymmetries = args.asymmetries()?;
    let source = args.reading.source(&args.traces)?;
    let reader = source.open()?;
    run::report_notes(reader.notes());
    let database_pages = reader.metadata().database_pages;
    drop(reader);
    let bar = progress::bar(source.label());
    let report = |share| progress::set(&bar, share);
    let progress = Progress {
        report: &report,
        stop: &progress::STOP,
    };
    let trace = RecordedTrace::read(&source, &progress)?;
    run::report_notes(&source.late_notes());
    let reading = start.elapsed().as_secs_f64();
    let pages = database_pages.unwrap_or(trace.distinct_pages());
    let frames_of = |size: &Size| match size {
        Size::Frames(frames) => *frames,
        Size::Share(share) => share.floor_of(pages).max(1),
    };
    let mut questions = Vec::new();
    for asymmetry in &asymmetries {
        for size in &args.frames {
            questions.push(Question {
                frames: frames_of(&size.size),
                asymmetry: asymmetry.ratio(),
                at_end: args.at_end(),
                warmup: 0,
            });
        }
    }
    let bounds = solve_all(&trace, &questions, args.threads(), &progress)?;
    bar.finish_and_clear();
    let answers: Vec<Answer> = questions
        .iter()
        .zip(&bounds)
        .map(|(question, bound)| Answer::new(source.label(), reading, question, bound))
        .collect();
    let mut out = io::stdout().lock();
    match (args.format, answers.as_slice()) {
        (RunFormat::Table, answers) => write!(out, "{}", table::of_bounds(answers))?,
        (RunFormat::Json, [answer]) => {
            serde_json::to_writer_pretty(&mut out, answer).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        (RunFormat::Json, answers) => {
            serde_json::to_writer_pretty(&mut out, answers).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    let done = bounds.iter().filter(|bound| !bound.interrupted).count();
    match done == bounds.len() {
        true => Ok(()),
        false => Err(Failure::Interrupted {
            done,
            all: bounds.len(),
            kept: "; what is printed holds, but more time would bring it closer",
        }),
    }
}
