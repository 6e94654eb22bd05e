//! The commands that have the figures of an advice.

use ebbpool_lab::PricingRequest;
use ebbpool_lab::advise::{Advice, AdviceQuestion, QuestionKind};
use ebbpool_lab::numbers::rounded;
use ebbpool_sim::AtEnd;
use schemars::JsonSchema;
use serde::Serialize;

use crate::shell::command_line;

/// A command, and the figures that it has.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct CommandLine {
    pub(crate) about: &'static str,
    pub(crate) command: String,
}

/// The word by which a command names a file: a dash at the front would make the path an option, or standard input.
pub(crate) fn file_word(path: &str) -> String {
    match path.starts_with('-') {
        true => format!("./{path}"),
        false => path.to_owned(),
    }
}

/// How a command names the trace of an advice, and its warm-up.
pub(crate) struct TraceWords {
    pub(crate) traces: Vec<String>,
    /// The warm-up as an option spells it.
    pub(crate) warmup: String,
    /// Options that say how the trace is read.
    pub(crate) reading: Vec<String>,
}

/// A command for each question of an advice.
pub(super) fn of_advice(advice: &Advice, trace: &TraceWords) -> Vec<CommandLine> {
    let questions = advice.questions.iter();
    let line = |question: &AdviceQuestion| CommandLine { about: question.about, command: command(question, trace) };
    questions.map(line).collect()
}

fn command(question: &AdviceQuestion, trace: &TraceWords) -> String {
    let frames: Vec<String> = question.frames.iter().map(u64::to_string).collect();
    let mut words = vec!["ebbpool".to_string()];
    let option = |name: &str, value: String| [name.to_string(), value];
    let policies = option("--policies", question.policies.join(","));
    let sizes = option("--frames", frames.join(","));
    let traces = trace.traces.clone();
    match &question.kind {
        QuestionKind::Compare(pricing) => {
            words.push("compare".into());
            words.extend(traces);
            words.extend(policies.into_iter().chain(sizes).chain(priced(pricing)));
            let rate = question.counting.rate;
            words.extend(rate.into_iter().flat_map(|rate| option("--rate", rate.to_string())));
        }
        QuestionKind::Curve(asymmetry, sample) => {
            words.push("curve".into());
            words.extend(traces);
            words.extend(policies.into_iter().chain(sizes));
            words.extend(option("--asymmetry", asymmetry.to_string()));
            let sample = sample.map(|share| format!("{}%", rounded(100.0 * share)));
            words.extend(sample.into_iter().flat_map(|share| option("--sample", share)));
        }
    }
    if trace.warmup != "0" {
        words.extend(option("--warmup", trace.warmup.clone()));
    }
    if question.counting.at_end == AtEnd::Free {
        words.extend(option("--at-end", "free".into()));
    }
    if let Some(schedule) = question.counting.checkpoints {
        words.extend(option("--checkpoints", schedule.to_string()));
    }
    words.extend(trace.reading.iter().cloned());
    command_line(&words)
}

fn priced(pricing: &[PricingRequest]) -> Vec<String> {
    let mut asymmetries = Vec::new();
    for request in pricing {
        match request {
            PricingRequest::Device { name, .. } => return vec!["--device".into(), name.clone()],
            PricingRequest::Asymmetry(spec) => asymmetries.push(spec.to_string()),
        }
    }
    vec!["--asymmetry".into(), asymmetries.join(",")]
}
