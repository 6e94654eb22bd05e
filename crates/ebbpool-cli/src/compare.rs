//! `ebbpool compare`: which policy makes the bill smallest at which size and asymmetry.

use std::io::{self, IsTerminal, Write};

use ebbpool_sim::{Progress, Row, Sweep, TraceFacts};
use ebbpool_trace::Source;
use ebbpool_trace::output::OutputFile;

use crate::args::{CompareArgs, CompareFormat};
use crate::results::{Number, OfTrace, Record};
use crate::{Failure, progress, report, run, table};

/// The sample that ships with Ebbpool.
static SAMPLE: &[u8] = include_bytes!("../../../traces/pg-tpcc.parquet");

/// All results over one trace: for each asymmetry, each policy, each size.
pub(crate) struct Comparison {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) share_of: &'static str,
    pub(crate) facts: TraceFacts,
    pub(crate) warmup: u64,
    pub(crate) database_pages: Option<u64>,
    pub(crate) page_size: Option<u64>,
    /// As they were asked for.
    pub(crate) sizes: Vec<String>,
    /// What each size came to.
    pub(crate) frames: Vec<u64>,
    pub(crate) policies: Vec<String>,
    pub(crate) asymmetries: Vec<Number>,
    pub(crate) rows: Vec<Row>,
    /// One for each of `rows`.
    pub(crate) records: Vec<Record>,
}

impl Comparison {
    /// The results at the asymmetry of that index, policy by policy.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &[Record]> {
        self.records.chunks(self.policies.len() * self.sizes.len())
    }
}

pub(crate) fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let sweep = Sweep {
        policies: args.policies()?,
        sizes: args.frames.iter().map(|size| size.size).collect(),
        asymmetries: args.asymmetry.clone(),
        warmup: args.common.warmup.0,
        options: args.common.options(),
        time_lines: args.report.is_some(),
    };
    if args.format == CompareFormat::Parquet && io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "--format parquet is binary; send it to a file, as in > results.parquet".into(),
        ));
    }
    let sources = if args.traces.is_empty() {
        let options = args.common.reading.options();
        vec![Source::embedded("pg-tpcc", SAMPLE, &options)]
    } else {
        args.common.reading.sources(&args.traces)?
    };
    // A file that cannot be written is better known before the simulations than after.
    let report_file = args.report.as_ref().map(OutputFile::create).transpose()?;
    let mut comparisons = Vec::new();
    for source in &sources {
        comparisons.push(compare_one(args, &sweep, source)?);
    }
    if let Some(file) = report_file {
        report::write(file, &comparisons)?;
    }
    let records = comparisons
        .iter()
        .flat_map(|comparison| &comparison.records);
    let mut out = io::BufWriter::new(io::stdout().lock());
    match args.format {
        CompareFormat::Table => {
            for comparison in &comparisons {
                write!(out, "{}", table::of_comparison(comparison))?;
            }
        }
        CompareFormat::Json => {
            let records: Vec<&Record> = records.collect();
            serde_json::to_writer_pretty(&mut out, &records).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        CompareFormat::Csv => {
            let mut csv = csv::Writer::from_writer(&mut out);
            for record in records {
                csv.serialize(record).map_err(io::Error::other)?;
            }
            csv.flush()?;
        }
        CompareFormat::Parquet => {
            let records: Vec<&Record> = records.collect();
            out.write_all(&crate::results::parquet(&records)?)?;
        }
    }
    out.flush()?;
    if let Some(path) = &args.report {
        // A note that cannot be shown is no reason to fail.
        let _ = writeln!(io::stderr(), "report: {}", path.display());
    }
    Ok(())
}

fn compare_one(args: &CompareArgs, sweep: &Sweep, source: &Source) -> Result<Comparison, Failure> {
    let bar = progress::bar(source.label());
    let report = |share| progress::set(&bar, share);
    let progress = Progress {
        report: &report,
        stop: &progress::STOP,
    };
    let (rows, resolved, facts) = sweep.run(source, &progress)?;
    bar.finish_and_clear();
    run::report_notes(&resolved.notes);
    run::report_notes(&source.late_notes());
    let of_trace = OfTrace {
        label: source.label(),
        metadata: &resolved.metadata,
        facts,
        warmup: resolved.warmup,
    };
    let records = rows.iter().map(|row| {
        Record::new(
            &of_trace,
            sweep.policies[row.policy].to_string(),
            row.frames,
            sweep.asymmetries[row.asymmetry],
            &row.counts,
        )
    });
    let name = resolved.metadata.name.as_deref().unwrap_or(source.label());
    let title = format!(
        "{name}: {} references, {} distinct pages{}",
        facts.references,
        facts.distinct_pages,
        match resolved.metadata.database_pages {
            Some(pages) => format!(" of a database of {pages}"),
            None => String::new(),
        }
    );
    Ok(Comparison {
        name: name.into(),
        title,
        share_of: if resolved.metadata.database_pages.is_some() {
            "the database"
        } else {
            "the pages"
        },
        facts,
        warmup: resolved.warmup,
        database_pages: resolved.metadata.database_pages,
        page_size: resolved.metadata.page_size,
        sizes: args.frames.iter().map(|size| size.text.clone()).collect(),
        policies: sweep.policies.iter().map(|spec| spec.to_string()).collect(),
        asymmetries: sweep
            .asymmetries
            .iter()
            .map(|a| Number(a.ratio()))
            .collect(),
        records: records.collect(),
        frames: resolved.frames,
        rows,
    })
}
