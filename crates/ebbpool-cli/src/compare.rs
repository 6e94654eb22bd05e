//! `ebbpool compare`: which policy makes the bill smallest at which size and asymmetry.

use std::io::{self, IsTerminal, Write};

use ebbpool_sim::{Progress, Sweep};
use ebbpool_trace::Source;

use crate::args::{CompareArgs, CompareFormat};
use crate::results::{OfTrace, Record};
use crate::{Failure, progress, report, run, table};

/// The sample that ships with Ebbpool.
static SAMPLE: &[u8] = include_bytes!("../../../traces/pg-tpcc.parquet");

/// All results over one trace: for each asymmetry, each policy, each size.
pub(crate) struct Comparison {
    pub(crate) title: String,
    pub(crate) share_of: &'static str,
    pub(crate) sizes: Vec<String>,
    pub(crate) policies: Vec<String>,
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
    let mut comparisons = Vec::new();
    for source in &sources {
        comparisons.push(compare_one(args, &sweep, source)?);
    }
    if let Some(path) = &args.report {
        report::write(path, &comparisons)?;
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
    let title = format!(
        "{}: {} references, {} distinct pages{}",
        resolved.metadata.name.as_deref().unwrap_or(source.label()),
        facts.references,
        facts.distinct_pages,
        match resolved.metadata.database_pages {
            Some(pages) => format!(" of a database of {pages}"),
            None => String::new(),
        }
    );
    Ok(Comparison {
        title,
        share_of: if resolved.metadata.database_pages.is_some() {
            "the database"
        } else {
            "the pages"
        },
        sizes: args.frames.iter().map(|size| size.text.clone()).collect(),
        policies: sweep.policies.iter().map(|spec| spec.to_string()).collect(),
        records: records.collect(),
    })
}
