//! Crashes of a program with several threads, and the pool's own threads. The seed decides what the threads do, but
//! not in which order they run, so a failure may take a few runs to repeat.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ebbpool::storage::{FaultyDisk, page_lsn};
use ebbpool::{Log, Lsn, Pool, PoolOptions};

use crate::chance::Chance;
use crate::client::{CHECKPOINT, Life, Model, Setting, Step, Tally, apply};
use crate::lives::{EndCause, cut_amid, test_threads};
use crate::wal::{Record, Wal};

const THREADS: u64 = 3;
const STEPS: usize = 25;

struct SharedState<'a> {
    pool: &'a Pool,
    setting: &'a Setting,
    wal: &'a Wal,
    acknowledged: AtomicU64,
}

impl SharedState<'_> {
    fn step(&self, step: Step) -> Result<(), EndCause> {
        match step {
            Step::Change { page, offset, value } => {
                let record = Record { page, offset, value };
                let mut fixed = self.pool.fix_write(self.setting.number(self.pool, page))?;
                let lsn = self.wal.append(record);
                apply(&mut fixed, &record);
                fixed.set_lsn(lsn);
            }
            Step::Read { page } => drop(self.pool.fix_read(self.setting.number(self.pool, page))?),
            Step::WriteLog => _ = self.wal.write()?,
            Step::Commit => self.commit()?,
            Step::Flush { page } => self.pool.flush(self.setting.number(self.pool, page))?,
            Step::Checkpoint => {
                let covered = self.pool.checkpoint()?.covered;
                self.wal.append(Record { page: CHECKPOINT, offset: 0, value: if covered == Lsn::MAX { 0 } else { covered } });
                self.commit()?;
            }
        }
        Ok(())
    }

    fn commit(&self) -> Result<(), EndCause> {
        let end = self.wal.end_lsn();
        self.wal.force(end)?;
        self.acknowledged.fetch_max(end, Ordering::SeqCst);
        Ok(())
    }
}

/// Works until the power fails or all steps are done; returns the acknowledged LSN.
fn work(disk: &FaultyDisk, setting: &Setting, seed: u64) -> Result<Lsn, EndCause> {
    let wal = Arc::new(Wal::open(disk.bytes("log"))?.0);
    let log: Arc<dyn Log> = wal.clone();
    disk.watch(&log, page_lsn);
    let options = PoolOptions::new(setting.frames + THREADS as u32)
        .policy(setting.policy)?
        .log(log)
        .batch(setting.batch)
        .read_ahead(0)
        .dirty_budget(setting.budget, Duration::from_micros(50))
        .double_write(disk.pages("area", setting.page_size));
    let pool = setting.open(options, disk)?;
    let shared = SharedState { pool: &pool, setting, wal: &wal, acknowledged: AtomicU64::new(0) };
    let outcomes: Vec<Result<(), EndCause>> = std::thread::scope(|scope| {
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
            Err(EndCause::Wrong(what)) => return Err(EndCause::Wrong(what)),
            // The power is off, or a sync failed because it was.
            _ => continue,
        }
    }
    Ok(shared.acknowledged.into_inner())
}

fn recover(disk: &FaultyDisk, setting: &Setting, acknowledged: Lsn) -> Result<(), EndCause> {
    // The log has the right order of changes, because records were appended while the page was fixed.
    let (_, history) = Wal::open(disk.bytes("log"))?;
    let mut model = Model { history, acknowledged };
    Life::begin(disk, setting, &mut model, &mut Tally::default())?.end()
}

fn case(seed: u64) -> Result<(), String> {
    let message = |end| match end {
        EndCause::Wrong(what) => what,
        _ => "the power failed too early".to_string(),
    };
    let mut chance = Chance::new(seed);
    let setting = Setting { double_write: true, ..Setting::new(&mut chance) };
    let disk = FaultyDisk::new(seed);
    let at = 20 + chance.below(120);
    let acknowledged = cut_amid(&disk, seed, at, || work(&disk, &setting, seed).map_err(message))?;
    let recovered = recover(&disk, &setting, acknowledged).map_err(message);
    recovered.map_err(|what| format!("{what}, {setting:#?}"))
}

#[test]
fn changes_acknowledged_to_threads_survive_every_crash() {
    test_threads("ebbpool", |seed| case(seed).map(|()| 0));
}
