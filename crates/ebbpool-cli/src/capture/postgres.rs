//! `ebbpool capture postgres`.

use ebbpool_capture::sources::postgres::PostgresSource;
use serde_json::json;

use super::args::PostgresArgs;
use super::{advise_args, advise_on, facts, print, run, say};
use crate::failure::Failure;

pub(super) fn capture(args: &PostgresArgs) -> Result<(), Failure> {
    let mut source = PostgresSource::open(args.pid)?;
    say(&source.description());
    let frames = source.server.settings.shared_buffers;
    let about = [
        ("--server", "postgresql".to_owned()),
        ("--frames", frames.to_string()),
    ];
    // Checked before the capture; the warm-up is known after it.
    advise_args(&args.session, &args.advice, &about)?;
    let captured = run(&mut source, &args.session)?;
    let counts = source.counts();
    let mut facts = facts("postgresql", &captured);
    let more = [
        ("version", json!(source.server.major)),
        ("data_directory", json!(source.server.data)),
        ("process", json!(source.process().0)),
        ("requests", json!(counts.requests)),
        ("repeats", json!(counts.repeats)),
        ("ring_requests", json!(counts.ring_requests)),
        ("extensions", json!(counts.extensions)),
        ("unrequested_writes", json!(counts.unrequested)),
        ("settings", json!(source.server.settings)),
        ("frames", json!(frames)),
    ];
    facts.extend(more.map(|(name, value)| (name.to_owned(), value)));
    let warmup = captured.recorder.resident_references().to_string();
    let about = about.into_iter().chain([("--warmup", warmup)]);
    let about: Vec<(&str, String)> = about.collect();
    let advice = advise_args(&args.session, &args.advice, &about)?;
    let sample = captured.report.sample;
    let trace = source.trace(captured.recorder, !args.no_names);
    let written = trace.write(&args.session.output, facts)?;
    print(&trace, &written, &args.session)?;
    if sample < 1.0 && advice.is_some() {
        say(&format!(
            "the trace has 1 page of {:.0}: divide sizes of memory by this number and multiply counts by it, as in --frames {}; no advice is printed, since its sizes would be those of the sample",
            1.0 / sample,
            (frames as f64 * sample).round()
        ));
        return Ok(());
    }
    advise_on(advice)
}
