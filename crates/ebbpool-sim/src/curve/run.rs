//! Miniatures of many policies and sizes in one pass of a trace.

use ebbpool_policy::{Foresight, registry};
use ebbpool_trace::{Metadata, Source};
use hashbrown::HashMap;
use rayon::prelude::*;

use super::errors::OfPart;
use super::lru::{LruCurve, LruStack, Traffic};
use super::shards::{PageSample, Sampler};
use super::{Step, for_each_part};
use crate::engine::{Chunk, Drive};
use crate::error::SimError;
use crate::stream::{
    Cell, Notes, Options, Progress, Scan, TraceFacts, check_references, setup, unobserved, workers,
};
use crate::sweep::{ENTRIES_PER_WAVE, LEAST_CELLS_PER_THREAD, STEPS_PER_WAVE};

/// A cell over a sample, and the policy and frames that it stands for.
pub(super) struct Job {
    pub(super) stands_for: (String, u64),
    pub(super) cell: Cell,
    pub(super) sample: PageSample,
}

/// Jobs that share a pass.
pub(super) struct Wave {
    pub(super) jobs: Vec<Job>,
}

impl Wave {
    /// Takes as many of the jobs as a pass is worth and memory allows, at least one.
    pub(super) fn first_of(todo: &mut Vec<Job>, facts: &TraceFacts, threads: usize) -> Self {
        let least = LEAST_CELLS_PER_THREAD * threads.max(1);
        let (mut steps, mut entries) = (0.0, 0.0);
        let fits = |(at, job): (usize, &Job)| {
            steps += job.sample.rate * facts.references as f64;
            entries += job.sample.rate * facts.distinct_pages as f64;
            let worth = at < least || steps <= STEPS_PER_WAVE as f64;
            at == 0 || (worth && entries <= ENTRIES_PER_WAVE as f64)
        };
        let count = todo.iter().enumerate().map(fits).take_while(|&fits| fits);
        let count = count.count();
        Wave {
            jobs: todo.drain(..count).collect(),
        }
    }

    /// Runs the jobs through one pass of the trace, and gives what each comes to over the parts of its
    /// sample.
    pub(super) fn run(
        &self,
        source: &Source,
        options: &Options,
        metadata: &Metadata,
        progress: &Progress,
    ) -> Result<Vec<Vec<OfPart>>, SimError> {
        let mut samplers: Vec<Sampler> = Vec::new();
        let from: Vec<usize> = self
            .jobs
            .iter()
            .map(|job| sampler_of(job.sample, &mut samplers))
            .collect();
        let scans = self.scan(&samplers, &from, source, metadata, progress)?;
        // A miniature's warm-up ends with the trace's, whatever part of it is in the sample.
        let uncut = Options {
            warmup: if options.warmup == 0 { 0 } else { u64::MAX },
            ..options.clone()
        };
        let places = |(job, &sampler): (usize, &usize)| {
            let parts = 0..samplers[sampler].sample().parts() as usize;
            parts.map(move |part| (job, (sampler, part)))
        };
        let places: Vec<(usize, Place)> = from.iter().enumerate().flat_map(places).collect();
        let workers = workers(options.threads)?;
        let runs: Result<Vec<Run>, SimError> = workers.install(|| {
            let places = places.into_par_iter().with_max_len(1);
            let run = |(job, from): (usize, Place)| {
                let cell = &self.jobs[job].cell;
                let setup = setup(cell, &uncut, &scans[from.0][from.1], progress)?;
                Ok(Run {
                    job,
                    from,
                    ahead: !cell.policy.online(),
                    engine: unobserved(cell, setup),
                })
            };
            places.map(run).collect()
        });
        let mut runs = runs?;
        let mut stacks: HashMap<Place, LruStack> = runs
            .iter()
            .filter(|run| !self.jobs[run.job].sample.is_all())
            .map(|run| (run.from, LruStack::new()))
            .collect();
        for_each_part(source, options, progress, |step| match step {
            Step::Serve(chunk) => workers.install(|| {
                samplers
                    .par_iter_mut()
                    .for_each(|sampler| sampler.take(chunk));
                let taken = |(sampler, part): Place| samplers[sampler].taken(part);
                let mut stacks: Vec<_> = stacks.iter_mut().collect();
                rayon::join(
                    || {
                        let runs = runs.par_iter_mut().with_max_len(1);
                        runs.for_each(|run| {
                            // Many runs take seconds for a chunk; results of a stopped pass are not looked at.
                            if !progress.stopped() {
                                run.advance(&taken(run.from), &scans[run.from.0][run.from.1]);
                            }
                        });
                    },
                    || {
                        let stacks = stacks.par_iter_mut().with_max_len(1);
                        stacks.for_each(|(from, stack)| stack.advance(&taken(**from)));
                    },
                );
            }),
            Step::StartCounting => {
                runs.iter_mut().for_each(|run| run.engine.start_counting());
                stacks.values_mut().for_each(LruStack::start_counting);
            }
        })?;
        progress.check()?;
        let curves: HashMap<Place, LruCurve> = stacks
            .into_iter()
            .map(|(from, stack)| (from, stack.finish(options.at_end)))
            .collect();
        let mut found = vec![Vec::new(); self.jobs.len()];
        for mut run in runs {
            let (sampler, part) = run.from;
            let counts = run.engine.finish(samplers[sampler].taken(part).pages);
            let lru = curves.get(&run.from);
            let lru = lru.map_or_else(Traffic::default, |lru| {
                lru.at(self.jobs[run.job].cell.frames)
            });
            found[run.job].push((Traffic::of(&counts), lru));
        }
        Ok(found)
    }

    /// What has to be known of each part of each sample before policies are run over it; takes a
    /// pass if one of them looks ahead.
    fn scan(
        &self,
        samplers: &[Sampler],
        from: &[usize],
        source: &Source,
        metadata: &Metadata,
        progress: &Progress,
    ) -> Result<Vec<Vec<Scan>>, SimError> {
        let foresight = |sampler: usize| {
            let jobs = self
                .jobs
                .iter()
                .zip(from)
                .filter(|&(_, &from)| from == sampler);
            let foresight = jobs.map(|(job, _)| registry::foresight(&job.cell.policy));
            foresight.max().unwrap_or_default()
        };
        let mut ahead: Vec<(Sampler, Vec<Notes>)> = Vec::new();
        for (at, sampler) in samplers.iter().enumerate() {
            let sample = sampler.sample();
            let notes = (0..sample.parts()).map(|_| Notes::new(foresight(at)));
            ahead.push((Sampler::new(sample), notes.collect()));
        }
        if (0..samplers.len()).any(|at| foresight(at) > Foresight::Nothing) {
            let mut references = 0;
            let quiet = Progress {
                report: &|_| {},
                ..*progress
            };
            let options = Options::default();
            for_each_part(source, &options, &quiet, |step| {
                let Step::Serve(chunk) = step else { return };
                references += chunk.references.len() as u64;
                for (sampler, notes) in &mut ahead {
                    sampler.take(chunk);
                    for (part, notes) in notes.iter_mut().enumerate() {
                        let taken = sampler.taken(part);
                        notes.push(taken.references, &taken.pages[notes.pages()..]);
                    }
                }
            })?;
            check_references(source, references)?;
        }
        let scan = |notes: Notes| {
            let (future, recorded) = notes.finish();
            Scan {
                references: u64::MAX,
                distinct_pages: u64::MAX,
                database_pages: metadata.database_pages,
                future,
                recorded,
            }
        };
        let of_sample = |(_, notes): (Sampler, Vec<Notes>)| notes.into_iter().map(scan).collect();
        Ok(ahead.into_iter().map(of_sample).collect())
    }
}

/// The sampler of a sample, which is added if there is none.
fn sampler_of(sample: PageSample, samplers: &mut Vec<Sampler>) -> usize {
    let known = samplers.iter().position(|s| s.sample() == sample);
    known.unwrap_or_else(|| {
        samplers.push(Sampler::new(sample));
        samplers.len() - 1
    })
}

/// A sampler and a part of its sample.
type Place = (usize, usize);

/// A policy on its way through a part of a sample.
struct Run {
    job: usize,
    from: Place,
    ahead: bool,
    engine: Box<dyn Drive>,
}

impl Run {
    fn advance(&mut self, chunk: &Chunk, scan: &Scan) {
        self.engine.advance(&Chunk {
            future: scan.future.as_ref().filter(|_| self.ahead),
            ..*chunk
        });
    }
}
