//! `ebbpool curve`: what policies do against memory size, and how much memory a target takes.

mod in_report;
mod record;
mod table;

use std::io::{self, Write};

use ebbpool_cost::Asymmetry;
use ebbpool_policy::PolicySpec;
use ebbpool_sim::{
    CleanPool, CurveOptions, Curves, Estimate, NoStore, Progress, SimError, Smallest, Store,
    Traffic,
};
use ebbpool_trace::Source;
use ebbpool_trace::output::OutputFile;

use crate::args::{CurveArgs, CurveFormat, policies};
use crate::cache::Cache;
use crate::charge::Abilities;
use crate::compare::{self, SAMPLE};
use crate::target::Target;
use crate::{Failure, progress, report, run};

/// Where no sizes are named there are so many at most, each half of the next.
const MOST_SIZES: usize = 16;

/// The fewest frames among them.
const FEWEST_FRAMES: u64 = 4;

/// What policies do against memory size, over one trace.
struct Study<'a> {
    curves: Curves<'a>,
    asymmetry: Asymmetry,
    policies: Vec<PolicySpec>,
    /// In frames, ascending.
    sizes: Vec<u64>,
    /// Of each policy, size by size.
    estimates: Vec<Vec<Estimate>>,
    answer: Option<Answer>,
    split: Option<Split>,
}

/// How much memory a target takes.
struct Answer {
    target: Target,
    baseline: Baseline,
    /// The most that there may be of the target's figure.
    limit: f64,
    /// Of each policy; nothing where no memory is enough.
    smallest: Vec<Option<Smallest>>,
}

/// What a target is less than.
struct Baseline {
    policy: PolicySpec,
    frames: u64,
}

/// fd-static with so many frames.
struct Split {
    frames: u64,
    pools: Vec<Pool>,
}

/// fd-static with one size of its clean pool.
struct Pool {
    clean: u64,
    /// By Two-Stack.
    estimated: Traffic,
    /// In a run.
    run: Estimate,
}

impl Study<'_> {
    /// A bill in page reads per reference.
    fn bill(&self, traffic: Traffic) -> f64 {
        let references = self.curves.lru().references();
        self.asymmetry.bill(traffic.reads, traffic.writes) / references as f64
    }

    /// A memory size as a share of the database.
    fn share(&self, frames: u64) -> String {
        let percent = 100.0 * frames as f64 / self.curves.pages() as f64;
        // Two digits that say something, however small the share is.
        let places = (1.0 - percent.log10().floor()).clamp(0.0, 9.0) as usize;
        format!("{percent:.places$}%")
    }
}

pub(crate) fn curve(args: &CurveArgs) -> Result<(), Failure> {
    let abilities = Abilities::default();
    let policies = policies(&args.policies, &abilities)?;
    let baseline = abilities.policy(&args.baseline.policy)?;
    let source = match args.traces.is_empty() {
        true => Source::embedded("pg-tpcc", SAMPLE, &args.reading.options()),
        false => args.reading.source(&args.traces)?,
    };
    let cache = match args.no_cache {
        true => None,
        false => Cache::of(&source),
    };
    let store: &dyn Store = match &cache {
        Some(cache) => cache,
        None => &NoStore,
    };
    let asked = CurveOptions {
        warmup: args.warmup.0,
        options: args.options(),
        asymmetry: args.asymmetry.ratio(),
        sample: args.sample.map(|rate| rate.0),
    };
    // A file that cannot be written is better known before the simulations than after.
    let report_file = args.report.as_ref().map(OutputFile::create).transpose()?;
    let curves = watched(&source, "lru at every size", |progress| {
        Curves::new(&source, store, &asked, progress)
    })?;
    run::report_notes(curves.notes());
    let sizes = sizes(args, &curves);
    let mut study = Study {
        curves,
        asymmetry: args.asymmetry,
        policies,
        estimates: Vec::new(),
        sizes,
        answer: None,
        split: None,
    };
    study.estimates = watched(&source, "sizes", |progress| {
        let wanted: Vec<(&PolicySpec, u64)> = study
            .policies
            .iter()
            .flat_map(|policy| study.sizes.iter().map(move |&frames| (policy, frames)))
            .collect();
        let estimates = study.curves.at(&wanted, progress)?;
        let per_policy = estimates.chunks(study.sizes.len());
        Ok(per_policy.map(<[Estimate]>::to_vec).collect())
    })?;
    if let Some(target) = args.target {
        let frames = study.curves.frames(args.baseline.size.size);
        study.answer = Some(watched(&source, "target", |progress| {
            answer(&mut study, target, &baseline, frames, progress)
        })?);
    }
    if let Some(size) = &args.clean_pools {
        let frames = study.curves.frames(size.size);
        study.split = Some(watched(&source, "clean pools", |progress| {
            split(&mut study, frames, progress)
        })?);
    }
    if let Some(file) = report_file {
        let nature = compare::nature(&source, store)?;
        report::write(file, &[in_report::comparison(&study, &source, nature)])?;
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    match args.format {
        CurveFormat::Table => write!(out, "{}", table::of_study(&study, &source))?,
        CurveFormat::Json => {
            let records = record::of_study(&study, &source);
            serde_json::to_writer_pretty(&mut out, &records).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        CurveFormat::Csv => {
            let mut csv = csv::Writer::from_writer(&mut out);
            for record in record::of_study(&study, &source) {
                csv.serialize(record).map_err(io::Error::other)?;
            }
            csv.flush()?;
        }
    }
    out.flush()?;
    if let Some(path) = &args.report {
        // A note that cannot be shown is no reason to fail.
        let _ = writeln!(io::stderr(), "report: {}", path.display());
    }
    Ok(())
}

/// Does something under a progress bar.
fn watched<T>(
    source: &Source,
    what: &str,
    work: impl FnOnce(&Progress) -> Result<T, SimError>,
) -> Result<T, SimError> {
    let bar = progress::bar(&format!("{}: {what}", source.label()));
    let report = |share| progress::set(&bar, share);
    let done = work(&Progress {
        report: &report,
        stop: &progress::STOP,
    });
    bar.finish_and_clear();
    done
}

/// The sizes asked for, ascending; without any, all pages, half of them, and so on.
fn sizes(args: &CurveArgs, curves: &Curves) -> Vec<u64> {
    let mut sizes: Vec<u64> = args
        .frames
        .iter()
        .map(|size| curves.frames(size.size))
        .collect();
    if sizes.is_empty() {
        let all = curves.lru().distinct_pages();
        sizes.extend(
            std::iter::successors(Some(all), |frames| Some(frames / 2))
                .take_while(|&frames| frames >= FEWEST_FRAMES || frames == all)
                .take(MOST_SIZES),
        );
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn answer(
    study: &mut Study,
    target: Target,
    baseline: &PolicySpec,
    frames: u64,
    progress: &Progress,
) -> Result<Answer, SimError> {
    let estimate = study.curves.at(&[(baseline, frames)], progress)?;
    let estimate = estimate.first().copied().ok_or(SimError::Interrupted)?;
    let references = study.curves.lru().references();
    let asymmetry = study.asymmetry;
    let figure = |traffic| target.figure.of(traffic, references, asymmetry);
    let limit = target.limit(figure(estimate.traffic));
    let smallest = study.curves.smallest(
        &study.policies,
        &study.sizes,
        |traffic| figure(traffic) <= limit,
        progress,
    )?;
    Ok(Answer {
        target,
        baseline: Baseline {
            policy: baseline.clone(),
            frames,
        },
        limit,
        smallest,
    })
}

/// The clean pools that are shown, in per cent of the frames, beside the one with the least bill.
const CLEAN_POOLS: [u64; 10] = [1, 2, 5, 10, 25, 50, 75, 90, 95, 99];

/// Every clean pool by Two-Stack, and those that are shown in runs of fd-static too.
fn split(study: &mut Study, frames: u64, progress: &Progress) -> Result<Split, SimError> {
    let all = study.curves.clean_pools(frames, progress)?;
    let bill = |pool: &CleanPool| study.bill(pool.traffic);
    let best = all.iter().min_by(|a, b| bill(a).total_cmp(&bill(b)));
    let mut shown: Vec<u64> = CLEAN_POOLS
        .iter()
        .map(|percent| (u128::from(frames) * u128::from(*percent) / 100) as u64)
        .chain(best.map(|best| best.clean))
        .collect();
    shown.sort_unstable();
    shown.dedup();
    let pools: Vec<(&CleanPool, PolicySpec)> = all
        .iter()
        .filter(|pool| shown.contains(&pool.clean))
        .filter_map(|pool| {
            Some((
                pool,
                format!("fd-static:clean={}", pool.clean).parse().ok()?,
            ))
        })
        .collect();
    let wanted: Vec<_> = pools.iter().map(|(_, policy)| (policy, frames)).collect();
    let runs = study.curves.at(&wanted, progress)?;
    let pools = pools.iter().zip(runs).map(|((pool, _), run)| Pool {
        clean: pool.clean,
        estimated: pool.traffic,
        run,
    });
    Ok(Split {
        frames,
        pools: pools.collect(),
    })
}
