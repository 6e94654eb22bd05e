//! Miniatures of many policies and sizes in one pass of a trace.

use ebbpool_trace::Source;
use hashbrown::HashMap;
use rayon::prelude::*;

use super::errors::OfPart;
use super::lru::{LruCurve, LruStack, Traffic};
use super::shards::{PageSample, Sampler};
use super::{Step, for_each_part};
use crate::engine::{Chunk, Drive};
use crate::error::SimError;
use crate::stream::{Cell, Options, Progress, Scan, TraceFacts, setup, unobserved, workers};
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
        scan: &Scan,
        progress: &Progress,
    ) -> Result<Vec<Vec<OfPart>>, SimError> {
        let mut samplers: Vec<Sampler> = Vec::new();
        let mut runs = Vec::new();
        // A miniature's warm-up ends with the trace's, whatever part of it is in the sample.
        let uncut = Options {
            warmup: if options.warmup == 0 { 0 } else { u64::MAX },
            ..options.clone()
        };
        for (job, number) in self.jobs.iter().zip(0..) {
            let known = samplers.iter().position(|s| s.sample() == job.sample);
            let sampler = known.unwrap_or_else(|| {
                samplers.push(Sampler::new(job.sample));
                samplers.len() - 1
            });
            runs.extend((0..job.sample.parts() as usize).map(|part| Run {
                job: number,
                from: (sampler, part),
                ahead: !job.cell.policy.online(),
                engine: unobserved(&job.cell, setup(&job.cell, &uncut, scan)),
            }));
        }
        let mut stacks: HashMap<Place, LruStack> = runs
            .iter()
            .filter(|run| !self.jobs[run.job].sample.is_all())
            .map(|run| (run.from, LruStack::new()))
            .collect();
        let workers = workers(options)?;
        for_each_part(source, options, scan, progress, |step| match step {
            Step::Serve(chunk) => workers.install(|| {
                samplers
                    .par_iter_mut()
                    .for_each(|sampler| sampler.take(chunk));
                let taken = |(sampler, part): Place| samplers[sampler].taken(part);
                let mut stacks: Vec<_> = stacks.iter_mut().collect();
                rayon::join(
                    || {
                        let runs = runs.par_iter_mut().with_max_len(1);
                        runs.for_each(|run| run.advance(&taken(run.from)));
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
    fn advance(&mut self, chunk: &Chunk) {
        self.engine.advance(&match self.ahead {
            true => *chunk,
            false => Chunk {
                next: &[],
                ..*chunk
            },
        });
    }
}
