//! Runs the miniatures of many policies and sizes in one pass of a trace.

use ebbpool_policy::Foresight;
use ebbpool_trace::{Metadata, OptionalColumns, Source};
use hashbrown::HashMap;
use rayon::prelude::*;

use super::errors::PartTraffic;
use super::lru::{LruCurve, LruStack, Traffic};
use super::shards::{PageSample, Sampler};
use super::{TraceStep, for_each_part};
use crate::engine::{AtEnd, Chunk, RunningEngine};
use crate::error::SimError;
use crate::guest::SimPolicy;
use crate::probabilities;
use crate::stream::{
    FutureNotes, PassControl, SimCell, SimOptions, TraceFacts, TraceScan, check_references, columns_of, setup, workers,
};
use crate::sweep::{ENTRIES_PER_WAVE, LEAST_CELLS_PER_THREAD, STEPS_PER_WAVE};

/// A policy over a sample, and the policy and frames that it stands for.
pub(super) struct MiniatureJob {
    pub(super) stands_for: (String, u64),
    /// The policy with a number of frames, in proportion to the sample.
    pub(super) cell: SimCell,
    pub(super) sample: PageSample,
}

/// Jobs that share a pass.
pub(super) struct Wave {
    pub(super) jobs: Vec<MiniatureJob>,
}

impl Wave {
    /// Takes as many of the jobs as justify a pass and fit into memory, at least one.
    pub(super) fn first_of(todo: &mut Vec<MiniatureJob>, facts: &TraceFacts, threads: usize) -> Self {
        let least = LEAST_CELLS_PER_THREAD * threads.max(1);
        let (mut steps, mut entries) = (0.0, 0.0);
        let fits = |(at, job): (usize, &MiniatureJob)| {
            steps += job.sample.rate * facts.references as f64;
            entries += job.sample.rate * facts.distinct_pages as f64;
            let worth = at < least || steps <= STEPS_PER_WAVE as f64;
            at == 0 || (worth && entries <= ENTRIES_PER_WAVE as f64)
        };
        let count = todo.iter().enumerate().map(fits).take_while(|&fits| fits);
        let count = count.count();
        Wave { jobs: todo.drain(..count).collect() }
    }

    /// Runs the jobs through one pass of the trace. Returns the traffic of each job over the parts of
    /// its sample.
    pub(super) fn run(
        &self,
        source: &Source,
        options: &SimOptions,
        metadata: &Metadata,
        progress: &PassControl,
    ) -> Result<Vec<Vec<PartTraffic>>, SimError> {
        let mut samplers: Vec<Sampler> = Vec::new();
        let from: Vec<usize> = self.jobs.iter().map(|job| sampler_of(job.sample, &mut samplers)).collect();
        let scans = self.scan(&samplers, &from, source, metadata, progress)?;
        let workers = workers(options.threads)?;
        let mut runs = workers.install(|| self.part_runs(&samplers, &from, &scans, options, progress))?;
        let mut stacks: LruStacks =
            runs.iter().filter(|run| !self.jobs[run.job].sample.is_all()).map(|run| (run.from, LruStack::new())).collect();
        let columns = columns_of(runs.iter().map(|run| &run.engine));
        for_each_part(source, options, progress, columns, |step| {
            match step {
                TraceStep::Serve(chunk) => workers.install(|| {
                    samplers.par_iter_mut().for_each(|sampler| sampler.take(chunk));
                    advance(&mut runs, &mut stacks, &samplers, &scans, progress);
                }),
                TraceStep::StartCounting => {
                    for run in &mut runs {
                        let (sampler, part) = run.from;
                        let pages = samplers[sampler].part_chunk(part).pages;
                        run.engine.start_counting(pages);
                    }
                    stacks.values_mut().for_each(LruStack::start_counting);
                }
            }
            self.check_guests()
        })?;
        progress.check()?;
        let traffic = self.finish(runs, stacks, &samplers, options.at_end);
        self.check_guests()?;
        Ok(traffic)
    }

    fn check_guests(&self) -> Result<(), SimError> {
        let mut policies = self.jobs.iter().map(|job| &job.cell.policy);
        policies.try_for_each(SimPolicy::check)
    }

    /// A run for each part of each job's sample, which the job takes `from` a sampler.
    fn part_runs(
        &self,
        samplers: &[Sampler],
        from: &[usize],
        scans: &[Vec<TraceScan>],
        options: &SimOptions,
        progress: &PassControl,
    ) -> Result<Vec<PartRun>, SimError> {
        // A miniature's warm-up ends with the trace's, whatever part of it is in the sample.
        let uncut = SimOptions { warmup: if options.warmup == 0 { 0 } else { u64::MAX }, ..options.clone() };
        let parts_of = |(job, &sampler): (usize, &usize)| {
            let parts = 0..samplers[sampler].sample().parts() as usize;
            parts.map(move |part| (job, (sampler, part)))
        };
        let parts: Vec<(usize, PartIndex)> = from.iter().enumerate().flat_map(parts_of).collect();
        let run = |(job, from): (usize, PartIndex)| {
            let cell = &self.jobs[job].cell;
            let setup = setup(cell, &uncut, &scans[from.0][from.1], progress)?;
            Ok(PartRun { job, from, engine: cell.engine(setup, None)? })
        };
        parts.into_par_iter().with_max_len(1).map(run).collect()
    }

    /// The traffic of each job over the parts of its sample, and LRU's over the same parts.
    fn finish(&self, runs: Vec<PartRun>, stacks: LruStacks, samplers: &[Sampler], at_end: AtEnd) -> Vec<Vec<PartTraffic>> {
        let curves: HashMap<PartIndex, LruCurve> =
            stacks.into_iter().map(|(from, stack)| (from, stack.finish(at_end))).collect();
        let mut traffic = vec![Vec::new(); self.jobs.len()];
        for mut run in runs {
            let (sampler, part) = run.from;
            let counts = run.engine.finish(samplers[sampler].part_chunk(part).pages);
            let lru = curves.get(&run.from);
            let lru = lru.map_or_else(Traffic::default, |lru| lru.traffic_at(self.jobs[run.job].cell.frames));
            traffic[run.job].push((Traffic::from_counts(&counts), lru));
        }
        traffic
    }

    /// The scans of each part of each sample that policies need before they are run over it; takes
    /// a pass if a policy needs the future.
    fn scan(
        &self,
        samplers: &[Sampler],
        from: &[usize],
        source: &Source,
        metadata: &Metadata,
        progress: &PassControl,
    ) -> Result<Vec<Vec<TraceScan>>, SimError> {
        let foresight = |sampler: usize| {
            let jobs = self.jobs.iter().zip(from).filter(|&(_, &from)| from == sampler);
            let foresight = jobs.map(|(job, _)| job.cell.policy.capabilities().foresight());
            foresight.max().unwrap_or_default()
        };
        let mut ahead: Vec<(Sampler, Vec<FutureNotes>)> = Vec::new();
        for (at, sampler) in samplers.iter().enumerate() {
            let sample = sampler.sample();
            let notes = (0..sample.parts()).map(|_| FutureNotes::new(foresight(at)));
            ahead.push((Sampler::new(sample), notes.collect()));
        }
        if (0..samplers.len()).any(|at| foresight(at) > Foresight::Nothing) {
            let mut references = 0;
            let quiet = PassControl { report: &|_| {}, ..*progress };
            let options = SimOptions::default();
            let columns = OptionalColumns::default();
            for_each_part(source, &options, &quiet, columns, |step| {
                let TraceStep::Serve(chunk) = step else {
                    return Ok(());
                };
                references += chunk.references.len() as u64;
                for (sampler, notes) in &mut ahead {
                    sampler.take(chunk);
                    for (part, notes) in notes.iter_mut().enumerate() {
                        let part_chunk = sampler.part_chunk(part);
                        notes.push(&part_chunk, &part_chunk.pages[notes.pages()..]);
                    }
                }
                Ok(())
            })?;
            check_references(source, references)?;
        }
        let policies = self.jobs.iter().filter_map(|job| job.cell.policy.registered());
        let probabilities = probabilities::for_policies(source, policies)?;
        let scan = |notes: FutureNotes| {
            let (future, recorded) = notes.finish();
            TraceScan {
                references: u64::MAX,
                distinct_pages: u64::MAX,
                database_pages: metadata.database_pages,
                future,
                recorded,
                probabilities: probabilities.clone(),
            }
        };
        let of_sample = |(_, notes): (Sampler, Vec<FutureNotes>)| notes.into_iter().map(scan).collect();
        Ok(ahead.into_iter().map(of_sample).collect())
    }
}

/// Serves the references that the samplers have taken to the runs and to the LRU stacks.
fn advance(
    runs: &mut [PartRun],
    stacks: &mut LruStacks,
    samplers: &[Sampler],
    scans: &[Vec<TraceScan>],
    progress: &PassControl,
) {
    let chunk_of = |(sampler, part): PartIndex| samplers[sampler].part_chunk(part);
    let mut stacks: Vec<_> = stacks.iter_mut().collect();
    rayon::join(
        || {
            let runs = runs.par_iter_mut().with_max_len(1);
            runs.for_each(|run| {
                // Many runs take seconds for a chunk; the results of a stopped pass are not used.
                if !progress.stopped() {
                    run.advance(&chunk_of(run.from), &scans[run.from.0][run.from.1]);
                }
            });
        },
        || {
            let stacks = stacks.par_iter_mut().with_max_len(1);
            stacks.for_each(|(from, stack)| stack.advance(&chunk_of(**from)));
        },
    );
}

/// The index of a sample's sampler, which is added if there is none.
fn sampler_of(sample: PageSample, samplers: &mut Vec<Sampler>) -> usize {
    let existing = samplers.iter().position(|s| s.sample() == sample);
    existing.unwrap_or_else(|| {
        samplers.push(Sampler::new(sample));
        samplers.len() - 1
    })
}

/// The indexes of a sampler and of a part of its sample.
type PartIndex = (usize, usize);

/// LRU stacks by the parts that they are fed with.
type LruStacks = HashMap<PartIndex, LruStack>;

/// The run of a policy over a part of a sample.
struct PartRun {
    job: usize,
    from: PartIndex,
    engine: Box<dyn RunningEngine>,
}

impl PartRun {
    fn advance(&mut self, chunk: &Chunk, scan: &TraceScan) {
        self.engine.advance(&Chunk { future: scan.future.as_ref(), ..*chunk });
    }
}
