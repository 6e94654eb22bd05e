//! A program that uses the pool, logs its changes, and recovers.

use std::sync::Arc;
use std::time::Duration;

use ebbpool::storage::{FaultyDisk, PowerOff, Storage, page_lsn};
use ebbpool::{Log, Lsn, Pool, PoolError, PoolOptions, WriteGuard};
use ebbpool_cost::{OperationCosts, Unit};

use crate::chance::Chance;
use crate::lives::{Counts, EndCause, power_is_off};
use crate::wal::{RECORD, Record, Wal};

const POLICIES: [&str; 12] = [
    "lru", "clock", "cflru", "cflru-c", "lru-wsr", "cfdc:cluster=4", "casa", "fd-buffer:group=1", "arc", "2q", "fab:block=4",
    "bplru:block=4",
];

pub const PAGES: u64 = 12;

/// The page number of records of checkpoints, whose value is the LSN that the checkpoint covers.
pub const CHECKPOINT: u64 = u64::MAX;

/// The settings of a case, the same for all of its lives.
#[derive(Clone, Debug)]
pub struct Setting {
    pub policy: &'static str,
    pub frames: u32,
    /// The pages are those of this number of files, in turn.
    pub files: u64,
    pub page_size: usize,
    pub batch: u32,
    pub budget: f64,
    pub double_write: bool,
    /// No page is flushed, so that the double-write area fills up.
    pub calm: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    Change {
        page: u64,
        offset: u64,
        value: u64,
    },
    Read {
        page: u64,
    },
    /// The log is written to its file, and not synced.
    WriteLog,
    Commit,
    Flush {
        page: u64,
    },
    Checkpoint,
}

impl Setting {
    pub fn new(chance: &mut Chance) -> Self {
        Setting {
            policy: POLICIES[chance.below(POLICIES.len() as u64) as usize],
            frames: 1 + chance.below(8) as u32,
            files: [1, 1, 2, 3][chance.below(4) as usize],
            page_size: 1024 << chance.below(2),
            batch: 1 + chance.below(6) as u32,
            budget: [0.25, 0.6, 1.0][chance.below(3) as usize],
            double_write: chance.below(4) != 0,
            calm: chance.below(6) == 0,
        }
    }

    pub fn open(&self, options: PoolOptions, disk: &FaultyDisk) -> Result<Pool, PoolError> {
        let file = |name: String| Arc::new(disk.pages(&name, self.page_size)) as Arc<dyn Storage>;
        match self.files {
            1 => options.open(disk.pages("data", self.page_size)),
            files => options.open_files((0..files).map(|number| file(format!("data {number}")))),
        }
    }

    /// The number of a page in the pool.
    pub fn number(&self, pool: &Pool, page: u64) -> u64 {
        match self.files {
            1 => page,
            files => pool.of_file((page % files) as u32).number(page / files).expect("there is such a page"),
        }
    }

    pub fn step(&self, chance: &mut Chance) -> Step {
        let page = chance.below(PAGES);
        match chance.below(if self.calm { 12 } else { 16 }) {
            0..=8 => {
                Step::Change { page, offset: chance.below((self.page_size as u64 - 32) / 8) * 8, value: chance.below(u64::MAX) }
            }
            9..=10 => Step::Read { page },
            11 => Step::WriteLog,
            12..=13 => Step::Commit,
            14 => Step::Flush { page },
            _ => Step::Checkpoint,
        }
    }
}

/// What was acknowledged, and what recovery may find.
#[derive(Default)]
pub struct Model {
    /// All records in order; a crash removes some from the end.
    pub history: Vec<Record>,
    /// Records up to this LSN survive.
    pub acknowledged: Lsn,
}

impl Model {
    pub fn page(&self, page: u64, page_size: usize) -> Vec<u8> {
        let mut bytes = vec![0; page_size - 32];
        for record in self.history.iter().filter(|record| record.page == page) {
            apply(&mut bytes, record);
        }
        bytes
    }
}

pub fn apply(bytes: &mut [u8], record: &Record) {
    let at = record.offset as usize;
    bytes[at..at + 8].copy_from_slice(&record.value.to_le_bytes());
}

impl From<PoolError> for EndCause {
    fn from(error: PoolError) -> EndCause {
        match power_is_off(&error) {
            true => EndCause::PowerOff,
            false => EndCause::Wrong(error.to_string()),
        }
    }
}

impl From<std::io::Error> for EndCause {
    fn from(error: std::io::Error) -> EndCause {
        match PowerOff::caused(&error) {
            true => EndCause::PowerOff,
            false => EndCause::Wrong(error.to_string()),
        }
    }
}

/// Counts what happened, so that the test can check that it exercised the interesting cases.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub crashes: u64,
    pub redone: u64,
    pub reported: u64,
    pub recoveries: u64,
    pub steps: u64,
}

impl Counts for Tally {
    fn crashed(&mut self) {
        self.crashes += 1;
    }

    fn crashes(&self) -> u64 {
        self.crashes
    }

    fn add(&mut self, other: &Tally) {
        self.crashes += other.crashes;
        self.redone += other.redone;
        self.reported += other.reported;
        self.recoveries += other.recoveries;
        self.steps += other.steps;
    }
}

/// One run of the program, from its start to its end.
pub struct Life<'a> {
    setting: &'a Setting,
    model: &'a mut Model,
    tally: &'a mut Tally,
    wal: Arc<Wal>,
    pool: Pool,
}

impl<'a> Life<'a> {
    /// Opens log and pool and recovers. Afterwards all acknowledged changes are in the pages, and no change is there
    /// in part.
    pub fn begin(
        disk: &FaultyDisk,
        setting: &'a Setting,
        model: &'a mut Model,
        tally: &'a mut Tally,
    ) -> Result<Self, EndCause> {
        let (wal, records) = Wal::open(disk.bytes("log"))?;
        check_history(model, &records)?;
        let wal = Arc::new(wal);
        let log: Arc<dyn Log> = wal.clone();
        disk.watch(&log, page_lsn);
        let mut options = PoolOptions::new(setting.frames)
            .policy(setting.policy)?
            .log(log)
            .background(false)
            .batch(setting.batch)
            .dirty_budget(setting.budget, Duration::ZERO)
            .patience(Duration::from_secs(5))
            .fixed_costs(OperationCosts { read: 1.0, write: 8.0, unit: Unit::PageReads });
        if setting.double_write {
            options = options.double_write(disk.pages("area", setting.page_size));
        }
        let pool = setting.open(options, disk)?;
        let mut life = Life { setting, model, tally, wal, pool };
        life.redo(&records)?;
        life.checkpoint()?;
        life.tally.recoveries += 1;
        Ok(life)
    }

    fn redo(&mut self, records: &[Record]) -> Result<(), EndCause> {
        let checkpoints = records.iter().filter(|record| record.page == CHECKPOINT);
        let covered = checkpoints.map(|record| record.value).max().unwrap_or(0);
        for (record, number) in records.iter().zip(1..) {
            let lsn = number * RECORD;
            if lsn <= covered || record.page == CHECKPOINT {
                continue;
            }
            let mut page = Self::fix(&self.pool, self.setting, self.tally, record.page, records)?;
            if page.lsn() < lsn {
                apply(&mut page, record);
                page.set_lsn(lsn);
                self.tally.redone += 1;
            }
        }
        for page in 0..PAGES {
            let found = match self.pool.fix_read(self.setting.number(&self.pool, page)) {
                Ok(fixed) => fixed.to_vec(),
                Err(_) => Self::fix(&self.pool, self.setting, self.tally, page, records)?.to_vec(),
            };
            self.compare(page, &found)?;
        }
        Ok(())
    }

    /// Fixes a page for writing. Without a double-write area a torn page is reported, and rebuilt from the log, which
    /// is never cut off here.
    fn fix<'p>(
        pool: &'p Pool,
        setting: &Setting,
        tally: &mut Tally,
        page: u64,
        records: &[Record],
    ) -> Result<WriteGuard<'p>, EndCause> {
        let number = setting.number(pool, page);
        match pool.fix_write(number) {
            Err(PoolError::Damaged { .. }) if !setting.double_write => tally.reported += 1,
            fixed => return Ok(fixed?),
        }
        let mut fixed = pool.fix_new(number)?;
        for (record, number) in records.iter().zip(1..) {
            if record.page == page {
                apply(&mut fixed, record);
                fixed.set_lsn(number * RECORD);
            }
        }
        Ok(fixed)
    }

    fn compare(&self, page: u64, found: &[u8]) -> Result<(), EndCause> {
        let right = self.model.page(page, self.setting.page_size);
        match found.iter().zip(&right).position(|(a, b)| a != b) {
            None if found.len() == right.len() => Ok(()),
            at => Err(EndCause::Wrong(format!("page {page} is wrong from byte {at:?} on"))),
        }
    }

    pub fn step(&mut self, step: Step) -> Result<(), EndCause> {
        self.tally.steps += 1;
        match step {
            Step::Change { page, offset, value } => {
                let record = Record { page, offset, value };
                let mut fixed = self.pool.fix_write(self.setting.number(&self.pool, page))?;
                let lsn = self.wal.append(record);
                self.model.history.push(record);
                apply(&mut fixed, &record);
                fixed.set_lsn(lsn);
            }
            Step::Read { page } => {
                let found = self.pool.fix_read(self.setting.number(&self.pool, page))?.to_vec();
                self.compare(page, &found)?;
            }
            Step::WriteLog => _ = self.wal.write()?,
            Step::Commit => self.commit()?,
            Step::Flush { page } => self.pool.flush(self.setting.number(&self.pool, page))?,
            Step::Checkpoint => self.checkpoint()?,
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), EndCause> {
        let end = self.wal.end_lsn();
        self.wal.force(end)?;
        self.model.acknowledged = end;
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), EndCause> {
        let covered = self.pool.checkpoint()?.covered;
        let record = Record {
            page: CHECKPOINT,
            offset: 0,
            // With an empty log there is no change to cover.
            value: if covered == Lsn::MAX { 0 } else { covered },
        };
        self.wal.append(record);
        self.model.history.push(record);
        self.commit()
    }

    /// Closes the pool.
    pub fn end(self) -> Result<(), EndCause> {
        Ok(self.pool.close().map_err(PoolError::from)?)
    }
}

/// Checks that the log has the records that were appended, and at least the acknowledged ones.
fn check_history(model: &mut Model, records: &[Record]) -> Result<(), EndCause> {
    let found = records.len() as u64 * RECORD;
    if found < model.acknowledged {
        let acknowledged = model.acknowledged;
        return Err(EndCause::Wrong(format!("the log ends at {found}, and {acknowledged} was acknowledged")));
    }
    if model.history.get(..records.len()) != Some(records) {
        return Err(EndCause::Wrong("the log has records that no thread appended".into()));
    }
    model.history.truncate(records.len());
    model.acknowledged = found;
    Ok(())
}
