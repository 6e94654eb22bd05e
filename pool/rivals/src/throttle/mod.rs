//! What the pool's dirty budget costs in throughput and which stalls it prevents: the same workload with the default
//! options and without a budget, as a Markdown table.
//!
//! `throttle DIRECTORY [NAME=VALUE…]`; names and defaults are in `plan.rs`. The settings take turns, so that other
//! load on the machine affects them alike. A ratio compares the two runs of one round.

mod plan;
mod slow;
mod table;
mod workload;

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use ebbpool::storage::{FileOptions, FileStorage, MemoryStorage, Storage};
use ebbpool::{Pool, PoolOptions};

use plan::{Plan, StorageKind};
use workload::{Measured, Workload};

use crate::rivals::PAGE_SIZE;

/// Frames of the pool.
const FRAMES: u32 = 1_000;

/// Pages of the storage.
const PAGES: u32 = 10_000;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The pool's default options.
    Default,
    /// `dirty_budget(1.0, Duration::ZERO)`.
    NoBudget,
}

impl Setting {
    pub const ALL: [Setting; 2] = [Setting::Default, Setting::NoBudget];

    pub fn name(self) -> &'static str {
        match self {
            Setting::Default => "default",
            Setting::NoBudget => "no budget",
        }
    }
}

/// Measures as the arguments after `throttle` say.
pub fn main(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let plan = Plan::read(arguments)?;
    table::head();
    for &storage in &plan.storages {
        for policy in &plan.policies {
            for &workload in &plan.workloads {
                let rounds = (0..plan.rounds)
                    .map(|round| measure_round(&plan, storage, policy, workload, round))
                    .collect::<Result<Vec<_>, _>>()?;
                table::rows(storage, policy, workload, &rounds);
            }
        }
    }
    Ok(())
}

/// One run with each setting, in the order of [`Setting::ALL`]. Every other round begins with the last one.
fn measure_round(
    plan: &Plan,
    storage: StorageKind,
    policy: &str,
    workload: Workload,
    round: usize,
) -> Result<[Measured; 2], Box<dyn Error>> {
    let run = |setting| -> Result<Measured, Box<dyn Error>> {
        let pool = open(&plan.directory, storage, policy, setting)?;
        let measured = workload::run(&pool, workload, PAGES, plan.seconds)?;
        pool.close()?;
        Ok(measured)
    };
    let [first, second] = Setting::ALL;
    if round.is_multiple_of(2) {
        let measured = run(first)?;
        return Ok([measured, run(second)?]);
    }
    let measured = run(second)?;
    Ok([run(first)?, measured])
}

fn open(directory: &Path, storage: StorageKind, policy: &str, setting: Setting) -> Result<Pool, Box<dyn Error>> {
    let options = PoolOptions::new(FRAMES).policy(policy)?;
    let options = match setting {
        Setting::Default => options,
        Setting::NoBudget => options.dirty_budget(1.0, Duration::ZERO),
    };
    Ok(match storage {
        StorageKind::File => options.open(open_file(directory)?)?,
        StorageKind::Memory => options.open(grown(MemoryStorage::new(PAGE_SIZE))?)?,
        StorageKind::Slow => options.open(grown(slow::SlowStorage::new())?)?,
    })
}

fn grown<S: Storage>(storage: S) -> Result<S, Box<dyn Error>> {
    storage.grow(PAGES.into())?;
    Ok(storage)
}

/// A file all of whose pages were written once, because blocks that were never written can be slower. It has no name
/// once it is open, so that nothing is left of it.
fn open_file(directory: &Path) -> Result<FileStorage, Box<dyn Error>> {
    let path = directory.join(format!("throttle-{}.pages", std::process::id()));
    let open = |create| FileStorage::open(&path, &FileOptions::new().create(create).page_size(PAGE_SIZE));
    let pool = PoolOptions::new(FRAMES).open(open(true)?)?;
    for page in 0..u64::from(PAGES) {
        drop(pool.fix_new(page)?);
    }
    pool.close()?;
    let storage = open(false)?;
    std::fs::remove_file(&path)?;
    Ok(storage)
}
