//! `ebbpool trace`: describes, converts and generates traces.

pub(crate) mod args;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::slice;
use std::sync::atomic::Ordering;

use ebbpool_cost::{one_line, spec};
use ebbpool_lab::numbers::pages_and_bytes;
use ebbpool_sim::{PageSample, SampledReferences, SimError};
use ebbpool_trace::stats::{ClassStatistics, Collector, Hottest, RequestStatistics, TraceStatistics};
use ebbpool_trace::{
    Batch, Format, Metadata, OptionalColumns, ReadOptions, Reader, Source, TABLE_SHAPES, TableShape, Writer, generators,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;
use crate::picture;
use crate::progress;
use crate::table;
use args::{ConvertArgs, EncodingArgs, GenerateArgs, InfoArgs, TraceArgs, TraceCommand};

const BATCH: usize = 1 << 16;

pub(crate) fn trace(args: &TraceArgs) -> Result<(), Failure> {
    match &args.command {
        TraceCommand::Info(args) => info(args),
        TraceCommand::Convert(args) => convert(args),
        TraceCommand::Generate(args) => generate(args),
        TraceCommand::Shapes(args) => shapes(args.word.as_deref()),
    }
}

/// Prints how tables of others are read.
fn shapes(word: Option<&str>) -> Result<(), Failure> {
    let has = |text: &str, word: &str| text.to_lowercase().contains(&word.to_lowercase());
    let is_wanted = |shape: &&TableShape| {
        let texts = [shape.whose, shape.lines, shape.columns];
        word.is_none_or(|word| texts.iter().any(|text| has(text, word)))
    };
    let mut found = TABLE_SHAPES.iter().filter(is_wanted).peekable();
    if found.peek().is_none() {
        return Err(Failure::Usage(format!(
            "no table has '{}'; ebbpool trace shapes lists all",
            one_line(word.unwrap_or_default())
        )));
    }
    let mut out = io::stdout().lock();
    for (at, TableShape { whose, lines, columns, references }) in found.enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{whose}")?;
        for line in lines.lines() {
            writeln!(out, "    {}", line.replace('\t', "  "))?;
        }
        let quote = if columns.contains(['|', '(', '*']) { "'" } else { "" };
        let page_size = if columns.contains("offset=") { " --page-size 4096" } else { "" };
        writeln!(out, "  --columns {quote}{columns}{quote}{page_size}")?;
        writeln!(out, "  {references}")?;
    }
    Ok(())
}

/// A trace's metadata and figures, with the fields of the JSON output.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TraceDescription {
    name: Option<String>,
    /// The formats of the trace's parts; null for a generator.
    format: Option<String>,
    page_size: Option<u64>,
    database_pages: Option<u64>,
    /// True if the trace was captured below a cache: it has only the references that the cache did not answer.
    #[serde(default)]
    below_cache: bool,
    #[serde(flatten)]
    info: TraceStatistics,
}

fn info(args: &InfoArgs) -> Result<(), Failure> {
    let source = args.reading.source(&args.traces)?;
    let reader = source.open_with(OptionalColumns::ALL)?;
    progress::report_notes(reader.notes());
    let format = formats(&source)?;
    let Metadata { name, page_size, database_pages, below_cache, .. } = reader.metadata().clone();
    let info = figures(reader, source.label())?;
    progress::report_notes(&source.late_notes());
    let description = TraceDescription { name, format, page_size, database_pages, below_cache, info };
    args.format.print(&description, report)?;
    Ok(())
}

/// The names of the formats of a trace's parts, each once.
fn formats(source: &Source) -> Result<Option<String>, Failure> {
    let mut names: Vec<&str> = Vec::new();
    for format in source.formats()?.into_iter().flatten() {
        if !names.contains(&format.name()) {
            names.push(format.name());
        }
    }
    Ok((!names.is_empty()).then(|| names.join(", ")))
}

/// Reads a trace to its end and computes its figures.
pub(crate) fn figures(mut reader: Reader, label: &str) -> Result<TraceStatistics, Failure> {
    let mut collector = Collector::new();
    for_each_batch(&mut reader, label, |batch| collector.add(batch))?;
    let mut info = collector.info(reader.metadata().database_pages);
    info.name_classes(&reader.classes().unwrap_or_default());
    Ok(info)
}

/// Passes a trace to `take` batch by batch, with a progress bar, until its end or Ctrl-C.
pub(crate) fn for_each_batch<E: Into<Failure>>(
    reader: &mut Reader,
    label: &str,
    mut take: impl FnMut(&Batch) -> Result<(), E>,
) -> Result<(), Failure> {
    let bar = progress::bar(label);
    let mut batch = Batch::with_capacity(BATCH);
    while reader.next_batch(&mut batch, BATCH)? {
        if progress::STOP.load(Ordering::Relaxed) {
            return Err(SimError::Interrupted.into());
        }
        take(&batch).map_err(Into::into)?;
        progress::set(&bar, reader.progress());
    }
    bar.finish_and_clear();
    Ok(())
}

fn report(description: &TraceDescription) -> String {
    let TraceDescription { name, format, page_size, database_pages, below_cache, info } = description;
    let unknown = || "unknown".to_string();
    let number = |number: Option<u64>| number.map_or_else(unknown, |number| number.to_string());
    let mut rows = vec![
        ("name", name.as_deref().map_or_else(unknown, one_line)),
        ("format", format.clone().unwrap_or_else(|| "generator".into())),
        ("page size", number(*page_size)),
        ("database pages", database_pages.map_or_else(unknown, |pages| pages_and_bytes(pages, *page_size))),
        ("references", info.references.to_string()),
        ("writes", format!("{} ({})", info.writes, percent(info.write_ratio))),
        ("distinct pages", pages_and_bytes(info.distinct_pages, *page_size)),
        ("  only read", info.pages_only_read.to_string()),
        ("  only written", info.pages_only_written.to_string()),
        ("  both", info.pages_both.to_string()),
        ("lowest page", number(info.lowest_page)),
        ("highest page", number(info.highest_page)),
        ("immediate repeats", info.immediate_repeats.to_string()),
        (
            "runs",
            format!(
                "{}, mean length {:.2}; {} of references go on a run",
                info.runs,
                info.mean_run_length,
                percent(info.sequential_share)
            ),
        ),
        ("first references", percent(info.cold_share)),
        (
            "stack distance",
            match info.stack_distance {
                None => "no page is referenced twice".into(),
                Some(distance) => {
                    format!("quartiles {} / {} / {} pages", distance.lower_quartile, distance.median, distance.upper_quartile)
                }
            },
        ),
    ];
    if *below_cache {
        let captured = "below a cache: it has only what the cache did not answer";
        rows.insert(4, ("captured", captured.into()));
    }
    if info.whole_writes > 0 {
        let writes = rows.iter().position(|(name, _)| *name == "writes").map_or(0, |at| at + 1);
        rows.insert(writes, ("  of whole pages", info.whole_writes.to_string()));
    }
    if info.trims > 0 {
        let pages = pages_and_bytes(info.trimmed_pages, *page_size);
        rows.push(("trims", format!("{}, of {pages}", info.trims)));
    }
    rows.extend(info.requests.iter().flat_map(of_requests));
    rows.extend(info.hottest.iter().map(of_hottest));
    let mut text = String::new();
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<20}{value}");
    }
    text += &classes(&info.classes);
    text += &curves(info, *database_pages);
    text
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The rows on times and rings.
fn of_requests(requests: &RequestStatistics) -> Vec<(&'static str, String)> {
    let RequestStatistics { duration_us, bulk_reads, bulk_writes, vacuums } = *requests;
    let mut rows = Vec::new();
    if duration_us > 0 {
        let seconds = duration_us as f64 / 1e6;
        rows.push(("time", format!("{seconds:.3} s from the first to the last")));
    }
    if bulk_reads + bulk_writes + vacuums > 0 {
        let rings = format!("{bulk_reads} of bulk reads, {bulk_writes} of bulk writes, {vacuums} of vacuum");
        rows.push(("through rings", rings));
    }
    rows
}

fn of_hottest(hottest: &Hottest) -> (&'static str, String) {
    let some_percent = |share: Option<f64>| share.map_or("-".into(), percent);
    let share = format!(
        "{} of references, {} of reads, {} of writes",
        percent(hottest.reference_share),
        some_percent(hottest.read_share),
        some_percent(hottest.write_share)
    );
    let label = match hottest.percent {
        1 => "hottest 1 % get",
        10 => "hottest 10 % get",
        _ => "hottest 20 % get",
    };
    (label, share)
}

/// The table of the classes with most references.
fn classes(classes: &[ClassStatistics]) -> String {
    const MOST: usize = 20;
    if classes.is_empty() {
        return String::new();
    }
    let mut rows = table::plain();
    let cells = ["class", "name", "pages", "references", "share"];
    table::add_row(&mut rows, cells.map(String::from).to_vec());
    for class in classes.iter().take(MOST) {
        let cells = vec![
            class.class.to_string(),
            class.name.as_deref().map_or_else(|| "-".into(), one_line),
            class.pages.to_string(),
            class.references.to_string(),
            percent(class.reference_share),
        ];
        table::add_row(&mut rows, cells);
    }
    let mut text = format!("\nClasses of pages: {}\n", classes.len());
    text += &table::finish(rows);
    if let Some(rest) = classes.get(MOST..).filter(|rest| !rest.is_empty()) {
        let share = rest.iter().map(|class| class.reference_share).sum();
        let _ = writeln!(text, "and {} more, with {}", rest.len(), percent(share));
    }
    text
}

/// Charts of LRU's hit ratio and of the pages' popularity.
fn curves(info: &TraceStatistics, database_pages: Option<u64>) -> String {
    let mut text = String::new();
    if info.references > 0 {
        let what = match database_pages {
            Some(_) => "the database's",
            None => "the distinct",
        };
        let title = format!("\nHit ratio of LRU, by memory in per cent of {what} {} pages", info.lru_hit_ratio.of_pages);
        text += &picture::of_curve(&title, &info.lru_hit_ratio);
        let title = format!("\nShare of references to the hottest of the {} distinct pages", info.popularity.of_pages);
        text += &picture::of_curve(&title, &info.popularity);
    }
    text
}

fn convert(args: &ConvertArgs) -> Result<(), Failure> {
    let (from, to) = args.paths()?;
    let to = output_path(to);
    let format = format_of(to, &args.encoding)?;
    let source = args.reading.source(from)?;
    let outputs = [Some(to.to_owned()), format.sidecar(to)];
    Source::refuse_overwriting(slice::from_ref(&source), outputs.into_iter().flatten())?;
    let Some(share) = args.sample else {
        return write(&source, to, format, args.encoding.level);
    };
    let sample = SampledReferences::new(&source, PageSample { rate: share.0, grain: 1 })?.into_source();
    write(&sample, to, format, args.encoding.level)?;
    progress::report_notes(&[error_of(&source, &sample)?]);
    Ok(())
}

/// What LRU's hits in a sample say of those in the whole trace.
fn error_of(source: &Source, sample: &Source) -> Result<String, Failure> {
    let statistics = |source: &Source| {
        let mut collector = Collector::new();
        let mut reader = source.open_with(OptionalColumns::OPERATIONS)?;
        for_each_batch(&mut reader, source.label(), |batch| collector.add(batch))?;
        Ok::<_, Failure>(collector.info(None))
    };
    let (whole, sample) = (statistics(source)?, statistics(sample)?);
    let points = whole.lru_hit_ratio.points.iter().zip(&sample.lru_hit_ratio.points).filter(|(one, _)| one.percent >= 1.0);
    let differences = points.map(|(one, other)| 100.0 * (one.share - other.share).abs());
    Ok(format!(
        "the sample has {} of {} pages; with 1 % of the pages as frames or more, lru's hit ratio differs by at most {:.1} points from the whole trace's",
        sample.distinct_pages,
        whole.distinct_pages,
        differences.fold(0.0, f64::max)
    ))
}

fn generate(args: &GenerateArgs) -> Result<(), Failure> {
    if let (Some(generator), Some(to)) = (&args.generator, &args.to) {
        let to = output_path(to);
        let format = format_of(to, &args.encoding)?;
        let source = Source::generator(generator, &ReadOptions::default())?;
        return write(&source, to, format, args.encoding.level);
    }
    let mut text = String::new();
    for generator in generators() {
        let _ = writeln!(text, "{}\n    {}", generator.name, generator.summary);
        text += &spec::describe(generator.parameters);
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// The path of standard output.
const STANDARD_OUTPUT: &str = "/dev/stdout";

/// The path to write to, where `-` stands for standard output.
pub(crate) fn output_path(named: &Path) -> &Path {
    match named == Path::new("-") {
        true => Path::new(STANDARD_OUTPUT),
        false => named,
    }
}

/// The format of an output file, given by an option or by its name.
fn format_of(to: &Path, encoding: &EncodingArgs) -> Result<Format, Failure> {
    encoding.to_format.or_else(|| Format::of_name(to)).ok_or_else(|| {
        let written = Format::ALL.iter().filter(|format| format.is_written());
        let names: Vec<&str> = written.map(|format| format.name()).collect();
        Failure::Usage(format!(
            "the name {} does not show a format; give --to-format, one of: {}",
            to.display(),
            names.join(" ")
        ))
    })
}

fn write(source: &Source, to: &Path, format: Format, level: Option<i32>) -> Result<(), Failure> {
    let mut reader = source.open_with(OptionalColumns::ALL)?;
    progress::report_notes(reader.notes());
    let mut writer = Writer::create_for(&reader, to, format, level)?;
    progress::report_notes(&writer.omitted());
    for_each_batch(&mut reader, source.label(), |batch| writer.write(batch))?;
    progress::report_notes(&writer.omitted());
    if let Some(classes) = reader.classes() {
        writer.name_classes(classes.names());
    }
    let written = writer.finish()?;
    progress::report_notes(&source.late_notes());
    let summary = format!("{}: {} references, {} bytes", to.display(), written.references, written.bytes);
    // On standard output the summary would be part of the trace.
    match to == Path::new(STANDARD_OUTPUT) {
        true => progress::report_notes(&[summary]),
        false => writeln!(io::stdout(), "{summary}")?,
    }
    Ok(())
}
