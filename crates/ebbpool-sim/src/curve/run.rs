//! Miniatures of many policies and sizes in one pass of a trace.

use ebbpool_trace::Source;
use rayon::prelude::*;

use super::lru::{LruCurve, LruStack, Traffic};
use super::shards::{PageSample, Sampler};
use super::{Estimate, Step, for_each_part};
use crate::engine::{Chunk, Counts, Drive};
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

    /// Runs the jobs through one pass of the trace.
    pub(super) fn run(
        &self,
        source: &Source,
        options: &Options,
        scan: &Scan,
        progress: &Progress,
    ) -> Result<Vec<Estimate>, SimError> {
        let mut samplers: Vec<Sampler> = Vec::new();
        let mut runs = Vec::new();
        // A miniature's warm-up ends with the trace's, whatever part of it is in the sample.
        let uncut = Options {
            warmup: if options.warmup == 0 { 0 } else { u64::MAX },
            ..options.clone()
        };
        for job in &self.jobs {
            let known = samplers.iter().position(|s| s.sample() == job.sample);
            let sampler = known.unwrap_or_else(|| {
                samplers.push(Sampler::new(job.sample));
                samplers.len() - 1
            });
            runs.push(Run {
                sampler,
                ahead: !job.cell.policy.online(),
                engine: unobserved(&job.cell, setup(&job.cell, &uncut, scan)),
            });
        }
        let stack = |sampler: &Sampler| (!sampler.sample().is_all()).then(LruStack::new);
        let mut stacks: Vec<Option<LruStack>> = samplers.iter().map(stack).collect();
        let workers = workers(options)?;
        for_each_part(source, options, scan, progress, |step| match step {
            Step::Serve(chunk) => workers.install(|| {
                samplers.par_iter_mut().for_each(|sampler| sampler.take(chunk));
                rayon::join(
                    || {
                        let runs = runs.par_iter_mut().with_max_len(1);
                        runs.for_each(|run| run.advance(&samplers[run.sampler].taken()));
                    },
                    || {
                        let stacks = stacks.par_iter_mut().zip(&samplers).with_max_len(1);
                        stacks.for_each(|(stack, sampler)| {
                            if let Some(stack) = stack {
                                stack.advance(&sampler.taken());
                            }
                        });
                    },
                );
            }),
            Step::StartCounting => {
                runs.iter_mut().for_each(|run| run.engine.start_counting());
                stacks.iter_mut().flatten().for_each(LruStack::start_counting);
            }
        })?;
        let finish = |stack: Option<LruStack>| stack.map(|stack| stack.finish(options.at_end));
        let curves: Vec<Option<LruCurve>> = stacks.into_iter().map(finish).collect();
        let found = self.jobs.iter().zip(runs).map(|(job, mut run)| {
            let counts = run.engine.finish(samplers[run.sampler].pages());
            let lru = curves[run.sampler].as_ref();
            job.estimate(&counts, lru.map(|lru| lru.at(job.cell.frames)))
        });
        Ok(found.collect())
    }
}

/// A policy on its way through a sample.
struct Run {
    sampler: usize,
    ahead: bool,
    engine: Box<dyn Drive>,
}

impl Run {
    fn advance(&mut self, chunk: &Chunk) {
        self.engine.advance(&match self.ahead {
            true => *chunk,
            false => Chunk { next: &[], ..*chunk },
        });
    }
}

impl Job {
    fn estimate(&self, counts: &Counts, lru: Option<Traffic>) -> Estimate {
        let traffic = Traffic {
            reads: counts.misses,
            writes: counts.writes,
            dirty_left: counts.dirty_left,
        };
        Estimate {
            traffic: traffic.scaled_up(&self.sample),
            sample: self.sample,
            lru: lru.map(|lru| lru.scaled_up(&self.sample)),
        }
    }
}
