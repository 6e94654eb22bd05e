//! Crashes of several threads at work, with the pool's own. What they do follows from the seed; in which
//! order does not, and so a failure may take a few runs to come again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ebbpool::storage::{Fault, FaultyDisk, Operation, page_lsn};
use ebbpool::{Log, Lsn, Pool, PoolOptions};

use crate::chance::Chance;
use crate::client::{CHECKPOINT, End, Life, Model, Setting, Step, Tally, apply};
use crate::wal::{Record, Wal};

const THREADS: u64 = 3;
const STEPS: usize = 25;

struct Shared<'a> {
    pool: &'a Pool,
    wal: &'a Wal,
    acknowledged: AtomicU64,
}

impl Shared<'_> {
    fn step(&self, step: Step) -> Result<(), End> {
        match step {
            Step::Change {
                page,
                offset,
                value,
            } => {
                let record = Record {
                    page,
                    offset,
                    value,
                };
                let mut fixed = self.pool.fix_write(page)?;
                let lsn = self.wal.append(record);
                apply(&mut fixed, &record);
                fixed.set_lsn(lsn);
            }
            Step::Read { page } => drop(self.pool.fix_read(page)?),
            Step::WriteLog => _ = self.wal.write()?,
            Step::Commit => self.commit()?,
            Step::Flush { page } => self.pool.flush(page)?,
            Step::Checkpoint => {
                let covered = self.pool.checkpoint()?.covered;
                self.wal.append(Record {
                    page: CHECKPOINT,
                    offset: 0,
                    value: if covered == Lsn::MAX { 0 } else { covered },
                });
                self.commit()?;
            }
        }
        Ok(())
    }

    fn commit(&self) -> Result<(), End> {
        let end = self.wal.end_lsn();
        self.wal.force(end)?;
        self.acknowledged.fetch_max(end, Ordering::SeqCst);
        Ok(())
    }
}

/// Works until the power fails or all is done; answers what was acknowledged.
fn work(disk: &FaultyDisk, setting: &Setting, seed: u64) -> Result<Lsn, End> {
    let wal = Arc::new(Wal::open(disk.bytes("log"))?.0);
    let log: Arc<dyn Log> = wal.clone();
    disk.watch(&log, page_lsn);
    let pool = PoolOptions::new(setting.frames + THREADS as u32)
        .policy(setting.policy)?
        .log(log)
        .batch(setting.batch)
        .read_ahead(0)
        .dirty_budget(setting.budget, Duration::from_micros(50))
        .double_write(disk.pages("area", setting.page_size))
        .open(disk.pages("data", setting.page_size))?;
    let shared = Shared {
        pool: &pool,
        wal: &wal,
        acknowledged: AtomicU64::new(0),
    };
    let outcomes: Vec<Result<(), End>> = std::thread::scope(|scope| {
        let threads = (0..THREADS).map(|thread| {
            let shared = &shared;
            scope.spawn(move || {
                let mut chance = Chance::new(seed * THREADS + thread);
                (0..STEPS).try_for_each(|_| shared.step(setting.step(&mut chance)))
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    for outcome in outcomes {
        match outcome {
            Err(End::Wrong(what)) => return Err(End::Wrong(what)),
            // The power is off, or it had failed to sync, which is the same then.
            _ => continue,
        }
    }
    Ok(shared.acknowledged.into_inner())
}

fn recover(disk: &FaultyDisk, setting: &Setting, acknowledged: Lsn) -> Result<(), End> {
    // What is in the log is the truth: it was appended while the page was fixed.
    let (_, history) = Wal::open(disk.bytes("log"))?;
    let mut model = Model {
        history,
        acknowledged,
    };
    Life::begin(disk, setting, &mut model, &mut Tally::default())?.end()
}

fn case(seed: u64) -> Result<(), String> {
    let told = |end| match end {
        End::PowerOff => "the power failed too early".to_string(),
        End::Wrong(what) => what,
    };
    let mut chance = Chance::new(seed);
    let setting = Setting {
        double_write: true,
        ..Setting::new(&mut chance)
    };
    let disk = FaultyDisk::new(seed);
    let crash = Fault::crash(Operation::Change, seed);
    disk.inject(crash.nth(20 + chance.below(120)));
    // Threads are to meet while something is being written.
    disk.observe(|io| {
        if io.operation != Operation::Read {
            std::thread::yield_now();
        }
    });
    let acknowledged = work(&disk, &setting, seed).map_err(told)?;
    disk.observe_no_more();
    if let Some(violation) = disk.violations().first() {
        return Err(violation.to_string());
    }
    disk.heal();
    disk.crash(seed);
    disk.restart();
    let recovered = recover(&disk, &setting, acknowledged).map_err(told);
    recovered.map_err(|what| format!("{what}, {setting:#?}"))
}

#[test]
fn what_threads_were_told_survives_every_crash() {
    let wanted = crate::setting("EBBPOOL_CRASHES").unwrap_or(crate::CRASHES) / 200;
    let first = crate::setting("EBBPOOL_CRASH_SEED").unwrap_or(1);
    for seed in first..first + wanted.max(1) {
        if let Err(what) = case(seed) {
            panic!(
                "{what}\n  again: EBBPOOL_CRASH_SEED={seed} cargo test -p ebbpool --test crash threads"
            );
        }
    }
}
