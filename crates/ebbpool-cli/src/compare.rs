//! `ebbpool compare`: which policy makes the bill smallest at which size and asymmetry.

use std::io::{self, IsTerminal, Write};

use ebbpool_sim::bound::{Question, RecordedTrace, solve_all};
use ebbpool_sim::{NoStore, Progress, Resolved, Row, SimError, Store, Sweep, Swept, TraceFacts};
use ebbpool_trace::output::OutputFile;
use ebbpool_trace::stats::Info;
use ebbpool_trace::{Metadata, Source, samples};

use crate::args::{CompareArgs, CompareFormat, constant};
use crate::cache::Cache;
use crate::charge::{Abilities, Charge, Measure};
use crate::results::{OfTrace, Record, WithDevice};
use crate::{Failure, progress, report, run, table, trace};

/// The sample that ships with Ebbpool.
pub(crate) static SAMPLE: &[u8] = samples::PG_TPCC;

/// All results over one trace: for each charge, each policy, each size.
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
    pub(crate) charges: Vec<Charge>,
    /// Those that were finished; `asymmetry` is an index into the charges.
    pub(crate) rows: Vec<Row>,
    /// For each charge, each policy, each size: nothing where an interruption came first.
    pub(crate) records: Vec<Option<Record>>,
    /// If asked for, what no policy can undercut, per reference: for each charge, each size.
    pub(crate) bounds: Option<Vec<f64>>,
    pub(crate) interrupted: bool,
    /// For a report: what the references are like.
    pub(crate) nature: Option<Info>,
    /// For a report of curves: what is known besides the results.
    pub(crate) curve: Option<report::Curve>,
}

impl Comparison {
    /// The results of each charge, policy by policy.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let records = self.records.chunks(self.policies.len() * self.sizes.len());
        let blocks = self.charges.iter().zip(records);
        blocks.map(|(charge, records)| Block {
            charge,
            records,
            sizes: self.sizes.len(),
        })
    }

    /// What no policy can undercut at the charge and size of those indices.
    pub(crate) fn bound(&self, charge: usize, size: usize) -> Option<f64> {
        let bounds = self.bounds.as_ref()?;
        bounds.get(charge * self.sizes.len() + size).copied()
    }

    /// The finished results, in order.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&Row, &Record)> {
        self.rows.iter().zip(self.records.iter().flatten())
    }

    /// What the bills of all charges are told in: several charges are asymmetries, of which none has
    /// a unit.
    pub(crate) fn measure(&self) -> Measure {
        self.charges
            .first()
            .map_or(Measure::PAGE_READS, Charge::measure)
    }

    fn done(&self) -> usize {
        self.records.iter().flatten().count()
    }
}

/// The results of one charge.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) charge: &'a Charge,
    records: &'a [Option<Record>],
    sizes: usize,
}

impl<'a> Block<'a> {
    /// Each policy's results, size by size.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &'a [Option<Record>]> {
        self.records.chunks(self.sizes)
    }

    /// All results at the size of that index but those whose device failed.
    pub(crate) fn column(&self, size: usize) -> impl Iterator<Item = &'a Record> {
        let column = self.records.iter().skip(size).step_by(self.sizes);
        column.flatten().filter(|record| !record.failed)
    }
}

pub(crate) fn compare(args: &CompareArgs) -> Result<(), Failure> {
    if args.bound {
        if args.device.is_some() {
            return Err(Failure::Usage(
                "--bound needs a write that costs the same throughout, which one on a --device does not; bound an asymmetry instead".into(),
            ));
        }
        constant(args.asymmetries())?;
    }
    let sweep = Sweep {
        policies: match args.device {
            // Which policies there are is known once the device is.
            Some(_) => Vec::new(),
            None => args.policies(&Abilities::default())?,
        },
        sizes: args.frames.iter().map(|size| size.size).collect(),
        asymmetries: Vec::new(),
        warmup: args.common.warmup.0,
        options: args.common.options(),
        time_lines: args.report.is_some(),
        device: None,
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
    let asked = match args.device {
        Some(_) => Vec::new(),
        None => args
            .asymmetries()
            .map(|asymmetry| Charge::new(Some(asymmetry), None, &Metadata::default()))
            .collect::<Result<_, _>>()?,
    };
    // A file that cannot be written is better known before the simulations than after.
    let report_file = args.report.as_ref().map(OutputFile::create).transpose()?;
    let mut comparisons = Vec::new();
    for source in &sources {
        let (charges, policies) = match &args.device {
            None => (asked.clone(), sweep.policies.clone()),
            Some(device) => {
                let charge = Charge::new(None, Some(device), source.open()?.metadata())?;
                let policies = args.policies(&charge.abilities)?;
                (vec![charge], policies)
            }
        };
        let sweep = Sweep {
            policies,
            ..sweep.clone()
        };
        comparisons.push(compare_one(args, &sweep, charges, source)?);
        if comparisons.last().is_some_and(|last| last.interrupted) {
            break;
        }
    }
    if let Some(file) = report_file {
        report::write(file, &comparisons)?;
    }
    let records = comparisons
        .iter()
        .flat_map(|comparison| comparison.records.iter().flatten());
    let mut out = io::BufWriter::new(io::stdout().lock());
    match args.format {
        CompareFormat::Table => {
            for comparison in &comparisons {
                write!(out, "{}", table::of_comparison(comparison))?;
            }
        }
        CompareFormat::Json => {
            let results: Vec<WithDevice> = comparisons
                .iter()
                .flat_map(|comparison| {
                    comparison.results().map(|(row, record)| {
                        let charge = &comparison.charges[row.asymmetry];
                        WithDevice::new(record, charge, row.device.as_ref())
                    })
                })
                .collect();
            serde_json::to_writer_pretty(&mut out, &results).map_err(io::Error::from)?;
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
    let hint = match &args.report {
        Some(path) => format!("report: {}", path.display()),
        None if args.format == CompareFormat::Table && io::stdout().is_terminal() => {
            "charts: the same command with --report FILE.html".into()
        }
        None => String::new(),
    };
    if !hint.is_empty() {
        // A note that cannot be shown is no reason to fail.
        let _ = writeln!(io::stderr(), "{hint}");
    }
    match comparisons.last() {
        Some(last) if last.interrupted => Err(Failure::Interrupted {
            done: comparisons.iter().map(Comparison::done).sum(),
            all: sources.len() * last.records.len(),
            kept: match args.no_cache {
                true => "",
                false => "; the same command goes on from there",
            },
        }),
        _ => Ok(()),
    }
}

/// What no policy can undercut, per reference, for each charge, which is a plain asymmetry, and each
/// size: from the store as far as it knows. Nothing if there was an interruption.
fn bounds(
    args: &CompareArgs,
    charges: &[Charge],
    resolved: &Resolved,
    source: &Source,
    store: &dyn Store,
) -> Result<Option<Vec<f64>>, Failure> {
    let at_end = args.common.options().at_end;
    let questions = charges.iter().flat_map(|charge| {
        resolved.frames.iter().map(|&frames| Question {
            frames,
            asymmetry: charge.asymmetry.ratio(),
            at_end,
            warmup: resolved.warmup,
        })
    });
    let questions: Vec<Question> = questions.collect();
    let key = |question: &Question| format!("bound {question:?}");
    let known = |question: &Question| -> Option<f64> {
        serde_json::from_slice(&store.get(&key(question))?).ok()
    };
    let mut bounds: Vec<Option<f64>> = questions.iter().map(known).collect();
    let unknown: Vec<usize> = (0..bounds.len())
        .filter(|&at| bounds[at].is_none())
        .collect();
    if !unknown.is_empty() {
        let bar = progress::bar(source.label());
        let report = |share| progress::set(&bar, share);
        let progress = Progress {
            report: &report,
            stop: &progress::STOP,
        };
        let trace = match RecordedTrace::read(source, &progress) {
            Err(SimError::Interrupted) => return Ok(None),
            trace => trace?,
        };
        let asked: Vec<Question> = unknown.iter().map(|&at| questions[at].clone()).collect();
        let threads = args.common.options().threads;
        let found = solve_all(&trace, &asked, threads, &progress)?;
        bar.finish_and_clear();
        for ((at, question), found) in unknown.into_iter().zip(&asked).zip(found) {
            if found.interrupted {
                continue;
            }
            let bound = found.lower_bound / found.references as f64;
            if let Ok(value) = serde_json::to_vec(&bound) {
                store.put(&key(question), &value);
            }
            bounds[at] = Some(bound);
        }
    }
    Ok(bounds.into_iter().collect())
}

/// What the trace is like, from the store if it knows; nothing if there was an interruption.
pub(crate) fn nature(source: &Source, store: &dyn Store) -> Result<Option<Info>, Failure> {
    const KEY: &str = "trace info";
    let known = store.get(KEY);
    if let Some(info) = known.and_then(|kept| serde_json::from_slice(&kept).ok()) {
        return Ok(Some(info));
    }
    let info = match trace::figures(source.open()?, source.label()) {
        Err(Failure::Sim(SimError::Interrupted)) => return Ok(None),
        info => info?,
    };
    if let Ok(value) = serde_json::to_vec(&info) {
        store.put(KEY, &value);
    }
    Ok(Some(info))
}

/// Indices of the charges that one sweep serves: the plain asymmetries together, since a policy that
/// does not look at costs runs once for all of them, and each that changes or is a device alone.
fn parts(charges: &[Charge]) -> Vec<Vec<usize>> {
    let (plain, served): (Vec<usize>, Vec<usize>) =
        (0..charges.len()).partition(|&at| charges[at].device.is_none());
    let mut parts = vec![plain];
    parts.extend(served.into_iter().map(|at| vec![at]));
    parts.retain(|part| !part.is_empty());
    parts
}

/// Runs the sweep once for each part of the charges. What is missing when the caller asks to stop
/// is missing from the rows.
fn sweep_all(
    sweep: &Sweep,
    charges: &[Charge],
    source: &Source,
    store: &dyn Store,
) -> Result<Swept, SimError> {
    let bar = progress::bar(source.label());
    let parts = parts(charges);
    let mut all: Option<Swept> = None;
    for (done, part) in parts.iter().enumerate() {
        let report = |share| progress::set(&bar, (done as f64 + share) / parts.len() as f64);
        let progress = Progress {
            report: &report,
            stop: &progress::STOP,
        };
        let sweep = Sweep {
            asymmetries: part.iter().map(|&at| charges[at].asymmetry).collect(),
            device: part.first().and_then(|&at| charges[at].device.clone()),
            ..sweep.clone()
        };
        let swept = match (sweep.run(source, store, &progress), &mut all) {
            (Err(SimError::Interrupted), Some(all)) => {
                all.interrupted = true;
                break;
            }
            (swept, _) => swept?,
        };
        let rows = swept.rows.into_iter().map(|row| Row {
            asymmetry: part[row.asymmetry],
            ..row
        });
        match &mut all {
            None => {
                let rows = rows.collect();
                all = Some(Swept { rows, ..swept });
            }
            Some(all) => {
                all.rows.extend(rows);
                all.from_store += swept.from_store;
                all.interrupted = swept.interrupted;
            }
        }
        if swept.interrupted {
            break;
        }
    }
    bar.finish_and_clear();
    let mut all = all.ok_or(SimError::Interrupted)?;
    all.rows
        .sort_by_key(|row| (row.asymmetry, row.policy, row.size));
    Ok(all)
}

/// What a memory size in per cent is a share of.
pub(crate) fn share_of(metadata: &Metadata) -> &'static str {
    match metadata.database_pages {
        Some(_) => "the database",
        None => "the pages",
    }
}

/// A trace in a line.
pub(crate) fn title(name: &str, facts: TraceFacts, metadata: &Metadata) -> String {
    format!(
        "{name}: {} references, {} distinct pages{}",
        facts.references,
        facts.distinct_pages,
        match metadata.database_pages {
            Some(pages) => format!(" of a database of {pages}"),
            None => String::new(),
        }
    )
}

fn compare_one(
    args: &CompareArgs,
    sweep: &Sweep,
    charges: Vec<Charge>,
    source: &Source,
) -> Result<Comparison, Failure> {
    let cache = match args.no_cache {
        true => None,
        false => Cache::of(source),
    };
    let store: &dyn Store = match &cache {
        Some(cache) => cache,
        None => &NoStore,
    };
    let Swept {
        rows,
        resolved,
        facts,
        from_store,
        interrupted,
    } = sweep_all(sweep, &charges, source, store)?;
    let bounds = match args.bound && !interrupted {
        true => bounds(args, &charges, &resolved, source, store)?,
        false => None,
    };
    run::report_notes(&resolved.notes);
    if from_store > 0 {
        run::report_notes(&[format!(
            "{}: {from_store} of {} results are known from before; --no-cache computes them anew",
            source.label(),
            rows.len()
        )]);
    }
    let nature = match &args.report {
        Some(_) => nature(source, store)?,
        None => None,
    };
    let of_trace = OfTrace {
        label: source.label(),
        metadata: &resolved.metadata,
        facts,
        warmup: resolved.warmup,
    };
    let (policies, sizes) = (sweep.policies.len(), sweep.sizes.len());
    let mut records = vec![None; charges.len() * policies * sizes];
    for row in &rows {
        let place = (row.asymmetry * policies + row.policy) * sizes + row.size;
        let charge = &charges[row.asymmetry];
        let mut record = Record::new(
            &of_trace,
            sweep.policies[row.policy].to_string(),
            row.frames,
            charge.asymmetry,
            &row.counts,
        );
        if let Some(did) = &row.device {
            record.charge(charge, did);
            if let Some(failed) = &did.failed {
                run::report_notes(&[format!(
                    "{} with {} frames: {failed}; its figures end there",
                    record.policy, record.frames
                )]);
            }
        }
        let bound = row.asymmetry * sizes + row.size;
        record.lower_bound = bounds
            .as_ref()
            .and_then(|bounds| bounds.get(bound).copied());
        records[place] = Some(record);
    }
    let name = resolved.metadata.name.as_deref().unwrap_or(source.label());
    let device = charges.first().and_then(|charge| charge.name.as_ref());
    let title = format!(
        "{}{}",
        title(name, facts, &resolved.metadata),
        device.map_or(String::new(), |device| format!("; on {device}"))
    );
    Ok(Comparison {
        name: name.into(),
        title,
        share_of: share_of(&resolved.metadata),
        facts,
        warmup: resolved.warmup,
        database_pages: resolved.metadata.database_pages,
        page_size: resolved.metadata.page_size,
        sizes: args.frames.iter().map(|size| size.text.clone()).collect(),
        policies: sweep.policies.iter().map(|spec| spec.to_string()).collect(),
        charges,
        records,
        interrupted: interrupted || args.bound && bounds.is_none(),
        bounds,
        nature,
        curve: None,
        frames: resolved.frames,
        rows,
    })
}
