//! The clients of a life: the calls that they make, and the checks of the results.

use std::error::Error as _;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebbpool::storage::{FaultyDisk, PowerOff};
use ebbpool::{ClassedPool, CloseError, Log, Lsn, OptionsError, Pool, PoolError, PoolScan, ReadGuard, WriteGuard};
use ebbpool_simulation::{random, step, thread};

use crate::case::{Case, Life, STRAY, Step, When, class_of};
use crate::disk::FaultLog;
use crate::fixes::FixCounts;
use crate::model::{Content, Model};
use crate::wal::{Record, Wal, ZEROS};

/// The power is off: the thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerIsOff;

/// The payload of a panic that is part of the script.
struct ScriptedPanic;

/// No life allocates as many pages.
const MOST_ALLOCATED: u64 = 150;

/// The number of attempts of a repair while the disk fails.
const TRIES: u64 = 30;

/// The state that the threads of a life share.
pub struct LifeState {
    pub case: Arc<Case>,
    pub life: usize,
    pub pool: Pool,
    pub wal: Arc<Wal>,
    pub model: Arc<Model>,
    pub disk: FaultyDisk,
    pub faults: Arc<FaultLog>,
    /// By client, from life to life.
    pub scans: Arc<Mutex<Vec<PoolScan>>>,
    pub fixes: FixCounts,
}

fn is_power_off(error: &PoolError) -> bool {
    let off = PowerOff.to_string();
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = source {
        // An error that was wrapped in another one is recognised by its message.
        if inner.is::<PowerOff>() || inner.to_string().contains(&off) {
            return true;
        }
        source = inner.source();
    }
    error.source().is_some_and(|it| it.to_string().contains(&off))
}

pub fn sleep(microseconds: u64) {
    if microseconds > 0 {
        thread::sleep(Duration::from_micros(microseconds));
    }
}

impl LifeState {
    fn options(&self) -> &Life {
        &self.case.lives[self.life]
    }

    fn background(&self) -> bool {
        self.options().options.background
    }

    /// The pool, for a page of the class that clients state.
    fn pool_of(&self, page: u64) -> ClassedPool<'_> {
        self.pool.of_class(class_of(page, self.case.classes))
    }

    /// Checks that the faults so far explain an error of the pool.
    pub fn judge(&self, error: PoolError) -> Result<(), PowerIsOff> {
        if self.disk.is_off() {
            return Err(PowerIsOff);
        }
        assert!(!is_power_off(&error), "the power is said to be off, and is not: {error}");
        let set = |flag: &std::sync::atomic::AtomicBool| flag.load(Ordering::SeqCst);
        let allowed = match &error {
            PoolError::Poisoned { .. } => set(&self.faults.sync_failed),
            PoolError::Read { .. }
            | PoolError::Write { .. }
            | PoolError::Log { .. }
            | PoolError::Grow { .. }
            | PoolError::Storage { .. } => set(&self.faults.any),
            PoolError::Damaged { page, .. } => {
                let torn = set(&self.faults.torn);
                let explained = |page: &mut crate::model::Page| page.excused || torn && page.breaks > 0;
                set(&self.faults.flipped) || self.model.page(*page, explained)
            }
            // Pages are in use, or have no places of their own in the file.
            PoolError::Truncate { source, .. } if matches!(source.kind(), ErrorKind::ResourceBusy | ErrorKind::Unsupported) => {
                true
            }
            PoolError::Truncate { .. } => set(&self.faults.any),
            PoolError::Latched { .. } | PoolError::AllPinned { .. } => self.case.is_tight(self.options()),
            // By now it may have been repaired.
            PoolError::Abandoned { page } => self.model.page(*page, |page| page.breaks > 0),
            _ => false,
        };
        assert!(allowed, "nothing explains the error: {error}");
        let tally = &mut self.model.state().tally;
        tally.refused += 1;
        tally.poisoned += u64::from(matches!(error, PoolError::Poisoned { .. }));
        tally.damaged += u64::from(matches!(error, PoolError::Damaged { .. }));
        Ok(())
    }

    /// The script of one client.
    pub fn client(&self, client: usize) {
        let mut own = Vec::new();
        for &step in &self.options().scripts[client] {
            self.model.state().tally.operations += 1;
            if self.step(client, step, &mut own).is_err() {
                return;
            }
        }
    }

    fn step(&self, client: usize, step: Step, own: &mut Vec<u64>) -> Result<(), PowerIsOff> {
        match step {
            Step::Read { page, hold } => self.read(page, hold),
            Step::Write { page, slot, value, hold, log_first } => self.write(page, slot, value, hold, log_first),
            Step::New { page } => self.new_page(page),
            Step::Downgrade { page, value, hold } => self.downgrade(page, value, hold),
            Step::Upgrade { page, value, hold } => self.upgrade(page, value, hold),
            Step::Try { page, write } => self.try_to_fix(page, write),
            Step::Within { page, write, patience } => self.within(page, write, Duration::from_micros(patience)),
            Step::Two { page, other, write, hold } => self.two(page.min(other), page.max(other), write, hold),
            Step::Again { page, hold } => self.again(page, hold),
            Step::TwoReads { page, other, hold } => self.two_reads(page, other, hold),
            Step::Optimistic { page } => {
                self.optimistic(page);
                Ok(())
            }
            Step::Hint { page } => {
                self.pool.prefetch(page, 0);
                Ok(())
            }
            Step::Throttle => {
                self.pool.throttle();
                Ok(())
            }
            Step::Scan { from, count } => self.scan(client, from as usize, count),
            Step::Allocate => self.allocate(own),
            Step::WriteOwn { which, value } => match pick(own, which) {
                Some(page) => self.write(page, value % 4, value, 0, true),
                None => Ok(()),
            },
            Step::Unlogged { which, value } => match pick(own, which) {
                Some(page) => self.unlogged(page, value),
                None => Ok(()),
            },
            Step::Free { which } => match pick(own, which) {
                Some(page) => self.free(page, own),
                None => Ok(()),
            },
            Step::Stray { page, free } => self.stray(page, free),
            Step::Flush { page } => self.flush(page),
            Step::Checkpoint => self.checkpoint(),
            Step::Commit => self.commit(),
            Step::Panic { page, value, when, repair_after } => self.panic(page, value, when, repair_after),
            Step::Discard { page, redo_after } => self.discard(page, redo_after),
            Step::Sleep { time } => {
                sleep(time);
                Ok(())
            }
            Step::Stats => {
                // While there come to be fewer frames, the others have pages still.
                let options = &self.options().options;
                self.stats(options.most_frames.unwrap_or(options.frames));
                Ok(())
            }
            Step::Resize { frames } => self.resize(frames),
        }
    }

    fn resize(&self, frames: u32) -> Result<(), PowerIsOff> {
        let most = self.options().options.most_frames;
        let frames = most.map_or(frames, |most| 1 + (frames - 1) % most);
        match self.pool.resize(frames) {
            Err(PoolError::Options(OptionsError::ResizeTo { .. })) if most.is_none() => Ok(()),
            Err(error) => self.judge(error),
            Ok(()) => {
                assert!(most.is_some(), "the pool was resized, which was not opened for that");
                self.model.state().tally.resized += 1;
                Ok(())
            }
        }
    }

    fn fix_read(&self, page: u64) -> Result<Option<ReadGuard<'_>>, PowerIsOff> {
        match self.fixes.of(|| self.pool_of(page).fix_read(page)) {
            Ok(guard) => {
                assert_eq!(guard.page(), page, "another page was fixed");
                Ok(Some(guard))
            }
            Err(error) => self.judge(error).map(|()| None),
        }
    }

    pub fn fixed_to_write(&self, page: u64) -> Result<WriteGuard<'_>, PoolError> {
        self.fixes.of(|| self.pool_of(page).fix_write(page))
    }

    pub fn fixed_new(&self, page: u64) -> Result<WriteGuard<'_>, PoolError> {
        self.fixes.of(|| self.pool_of(page).fix_new(page))
    }

    /// The class of a page that is still to be allocated is not known.
    fn allocated(&self) -> Result<WriteGuard<'_>, PoolError> {
        self.fixes.of(|| self.pool.allocate())
    }

    /// Fixes a page for writing; `None` also if another thread is going to repair it.
    fn fix_write(&self, page: u64) -> Result<Option<WriteGuard<'_>>, PowerIsOff> {
        match self.fixed_to_write(page) {
            Ok(guard) => {
                assert_eq!(guard.page(), page, "another page was fixed");
                let broken = self.model.page(page, |history| history.broken);
                Ok((!broken).then_some(guard))
            }
            Err(error) => self.judge(error).map(|()| None),
        }
    }

    fn read(&self, page: u64, hold: u64) -> Result<(), PowerIsOff> {
        let Some(guard) = self.fix_read(page)? else {
            return Ok(());
        };
        let found = Content::of(&guard);
        self.model.check(page, &found);
        sleep(hold);
        assert_eq!(Content::of(&guard), found, "page {page} changed under a reader's latch");
        Ok(())
    }

    fn append(&self, record: Record) -> Lsn {
        match self.case.logged {
            true => self.wal.append(record),
            false => 0,
        }
    }

    /// Changes a page that is fixed for writing.
    pub fn change(&self, guard: &mut WriteGuard<'_>, slot: u64, value: u64, log_first: bool) {
        let page = guard.page();
        let before = self.model.page(page, |history| *history.now());
        if slot != ZEROS {
            self.model.check(page, &Content::of(guard));
        }
        let record = Record { page, version: before.version + 1, slot, value };
        if !log_first {
            guard[..8].copy_from_slice(&record.version.to_le_bytes());
            step();
        }
        let lsn = self.append(record);
        let after = before.after(&record, lsn);
        after.write(guard);
        if lsn > 0 {
            guard.set_lsn(lsn);
        }
        self.model.page(page, |history| history.states.push(after));
        self.model.state().in_use.insert(page);
    }

    fn write(&self, page: u64, slot: u64, value: u64, hold: u64, log_first: bool) -> Result<(), PowerIsOff> {
        if let Some(mut guard) = self.fix_write(page)? {
            self.change(&mut guard, slot, value, log_first);
            sleep(hold);
            self.release(guard);
        }
        Ok(())
    }

    /// Unfixes a page that was changed: from now on the pool can write it.
    fn release(&self, guard: WriteGuard<'_>) {
        let page = guard.page();
        let version = self.model.page(page, |history| history.version());
        drop(guard);
        self.model.released(page, version);
    }

    fn new_page(&self, page: u64) -> Result<(), PowerIsOff> {
        // The page loses its content, so no other thread must repair it meanwhile.
        if self.model.page(page, |history| history.broken) {
            return Ok(());
        }
        match self.fixed_new(page) {
            Ok(mut guard) => {
                assert!(guard.iter().all(|&byte| byte == 0), "a new page is not zeros");
                self.change(&mut guard, ZEROS, 0, true);
                Ok(())
            }
            Err(error) => self.judge(error),
        }
    }

    fn downgrade(&self, page: u64, value: u64, hold: u64) -> Result<(), PowerIsOff> {
        if let Some(mut guard) = self.fix_write(page)? {
            self.change(&mut guard, 1, value, true);
            let guard = guard.downgrade();
            sleep(hold);
            self.model.check(page, &Content::of(&guard));
        }
        Ok(())
    }

    /// No thread changes the page between the two fixes.
    fn upgrade(&self, page: u64, value: u64, hold: u64) -> Result<(), PowerIsOff> {
        let Some(guard) = self.fix_read(page)? else {
            return Ok(());
        };
        let found = Content::of(&guard);
        sleep(hold);
        let refused = match self.fixes.tried(self.pool.upgrade(guard), Result::is_ok) {
            Ok(mut guard) => {
                assert_eq!(Content::of(&guard), found, "page {page} changed before it was upgraded");
                if !self.model.page(page, |history| history.broken) {
                    self.change(&mut guard, 1, value, true);
                }
                self.release(guard);
                return Ok(());
            }
            Err((guard, error)) => {
                assert_eq!(Content::of(&guard), found, "page {page} changed under a reader's latch");
                error
            }
        };
        match refused {
            PoolError::Latched { .. } => Ok(()),
            error => self.judge(error),
        }
    }

    fn try_to_fix(&self, page: u64, write: bool) -> Result<(), PowerIsOff> {
        let tried = match write {
            false => {
                let tried = self.fixes.tried(self.pool.try_fix_read(page), |it| matches!(it, Ok(Some(_))));
                tried.map(|guard| {
                    if let Some(guard) = guard {
                        self.model.check(page, &Content::of(&guard));
                    }
                })
            }
            true => {
                let tried = self.fixes.tried(self.pool.try_fix_write(page), |it| matches!(it, Ok(Some(_))));
                tried.map(|guard| {
                    if let Some(mut guard) = guard {
                        if !self.model.page(page, |history| history.broken) {
                            self.change(&mut guard, 2, page, true);
                        }
                        self.release(guard);
                    }
                })
            }
        };
        tried.or_else(|error| self.judge(error))
    }

    fn within(&self, page: u64, write: bool, patience: Duration) -> Result<(), PowerIsOff> {
        let pool = self.pool_of(page).within(patience);
        let fixed = match write {
            false => self.fixes.of(|| pool.fix_read(page)).map(|guard| self.model.check(page, &Content::of(&guard))),
            true => self.fixes.of(|| pool.fix_write(page)).map(|mut guard| {
                if !self.model.page(page, |history| history.broken) {
                    self.change(&mut guard, 3, page, false);
                }
                self.release(guard);
            }),
        };
        match fixed {
            Ok(()) | Err(PoolError::Latched { .. } | PoolError::AllPinned { .. }) => Ok(()),
            Err(error) => self.judge(error),
        }
    }

    fn two(&self, page: u64, other: u64, write: bool, hold: u64) -> Result<(), PowerIsOff> {
        if page == other {
            return self.read(page, hold);
        }
        if write {
            let Some(mut guard) = self.fix_write(page)? else {
                return Ok(());
            };
            self.change(&mut guard, 2, hold, true);
            self.read(other, hold)?;
            self.release(guard);
            Ok(())
        } else {
            let Some(guard) = self.fix_read(page)? else {
                return Ok(());
            };
            self.model.check(page, &Content::of(&guard));
            self.write(other, 3, hold, hold, true)
        }
    }

    fn again(&self, page: u64, hold: u64) -> Result<(), PowerIsOff> {
        let Some(guard) = self.fix_read(page)? else {
            return Ok(());
        };
        sleep(hold);
        self.read(page, 0)?;
        self.model.check(page, &Content::of(&guard));
        Ok(())
    }

    fn two_reads(&self, page: u64, other: u64, hold: u64) -> Result<(), PowerIsOff> {
        let Some(guard) = self.fix_read(page)? else {
            return Ok(());
        };
        sleep(hold);
        self.read(other, hold)?;
        self.model.check(page, &Content::of(&guard));
        Ok(())
    }

    fn optimistic(&self, page: u64) {
        let first = self.model.page(page, |history| history.version());
        let Some(reading) = self.pool.read_optimistically(page) else {
            return;
        };
        let size = self.pool.payload_size();
        let mut bytes = vec![0; size];
        let third = size / 3;
        for from in [0, third, 2 * third] {
            let to = if from == 2 * third { size } else { from + third };
            if !reading.read(from, &mut bytes[from..to]) {
                return;
            }
            step();
        }
        if !reading.validate() {
            return;
        }
        let found = Content::of(&bytes);
        self.model.page(page, |history| {
            let states = history.states.get(first as usize..).unwrap_or_default();
            assert!(
                history.broken || history.free || history.excused || history.breaks > 0 || states.contains(&found),
                "an optimistic read of page {page} returned content that it never had: {found:?}"
            );
        });
    }

    fn scan(&self, client: usize, from: usize, count: u64) -> Result<(), PowerIsOff> {
        let mut scan = {
            let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
            if scans.len() <= client {
                scans.resize_with(client + 1, PoolScan::new);
            }
            std::mem::take(&mut scans[client])
        };
        for at in from..from + count as usize {
            let page = self.case.pages[at % self.case.pages.len()];
            match self.fixes.of(|| self.pool_of(page).fix_scan(page, &mut scan)) {
                Ok(guard) => self.model.check(page, &Content::of(&guard)),
                Err(error) => self.judge(error)?,
            }
        }
        self.scans.lock().unwrap_or_else(PoisonError::into_inner)[client] = scan;
        Ok(())
    }

    fn allocate(&self, own: &mut Vec<u64>) -> Result<(), PowerIsOff> {
        let in_use = self.model.state().in_use.clone();
        match self.allocated() {
            Ok(mut guard) => {
                let page = guard.page();
                // A page that was freed meanwhile may be allocated.
                let still = self.model.state().in_use.contains(&page);
                assert!(!(in_use.contains(&page) && still), "page {page} is in use, and was allocated");
                assert!(guard.iter().all(|&byte| byte == 0), "a new page is not zeros");
                self.model.page(page, |history| {
                    history.free = false;
                    history.born = history.version() + 1;
                    history.floor = 0;
                });
                self.change(&mut guard, ZEROS, 0, true);
                own.push(page);
                Ok(())
            }
            Err(error) => self.judge(error),
        }
    }

    /// Fills a page as a bulk load does: its content is durable afterwards, and the log does not have it.
    fn unlogged(&self, page: u64, value: u64) -> Result<(), PowerIsOff> {
        let mut guard = match self.fixed_new(page) {
            Ok(guard) => guard,
            Err(error) => return self.judge(error),
        };
        let lsn = self.wal.end_lsn();
        self.model.page(page, |history| {
            history.unlogged.get_or_insert(history.version() + 1);
            let content = Content { version: history.version() + 1, lsn, slots: [value; 4] };
            history.states.push(content);
        });
        let content = self.model.page(page, |history| *history.now());
        content.write(&mut guard);
        drop(guard);
        self.flush(page)?;
        if self.model.page(page, |history| history.floor == content.version) {
            // It is in storage, so its content in memory may be discarded.
            if let Err(error) = self.pool.discard(page) {
                self.judge(error)?;
            }
            self.read(page, 0)?;
        }
        Ok(())
    }

    fn free(&self, page: u64, own: &mut Vec<u64>) -> Result<(), PowerIsOff> {
        self.model.page(page, |history| history.free = true);
        self.model.state().in_use.remove(&page);
        match self.pool.free(page) {
            Ok(_) => {
                own.retain(|&other| other != page);
                // If those behind it are free too, all of them may be cut off.
                if random().is_multiple_of(4) {
                    return self.pool.truncate(page).or_else(|error| self.judge(error));
                }
            }
            Err(error) => {
                self.model.page(page, |history| history.free = false);
                self.model.state().in_use.insert(page);
                return self.judge(error);
            }
        }
        Ok(())
    }

    /// The page has no changes, and others must not lose theirs, nor allocate pages in use, because it is dropped.
    fn stray(&self, page: u64, free: bool) -> Result<(), PowerIsOff> {
        // Allocation goes on after it, if another client allocates pages before it is dropped: no client may take that number, or
        // one of those, for a stray one, now or later.
        let page = page + MOST_ALLOCATED * self.model.next_stray();
        match self.fixed_to_write(page) {
            Ok(guard) => drop(guard),
            Err(PoolError::NoPage { .. }) if self.options().options.most_pages.is_some() => return Ok(()),
            Err(error) => return self.judge(error),
        }
        let dropped = match free {
            true => self.pool.free(page).map(drop),
            false => self.pool.discard(page),
        };
        dropped.or_else(|error| self.judge(error))
    }

    /// After all clients have ended: a number of no page, which was fixed and dropped, does not have allocation go on after it.
    pub fn a_stray_number_is_forgotten(&self) -> Result<(), PowerIsOff> {
        // A writer in the background may write the page before it is dropped.
        if self.case.scattered || self.options().options.most_pages.is_some() || self.background() {
            return Ok(());
        }
        let stray = STRAY + MOST_ALLOCATED * self.model.next_stray();
        drop(self.succeeds("a stray page is fixed", self.fixed_to_write(stray))?);
        self.succeeds("a stray page is dropped", self.pool.discard(stray))?;
        let stored = self.pool.pages();
        let mut allocated = Vec::new();
        // Numbers that are free come first.
        while allocated.last().is_none_or(|&last| last < stored) {
            let page = self.succeeds("a page is allocated", self.allocated())?.page();
            assert!(page < stray, "page {stray} was dropped, and page {page} is allocated after it");
            allocated.push(page);
        }
        for page in allocated {
            self.succeeds("a page is freed", self.pool.free(page))?;
        }
        Ok(())
    }

    /// After all clients have ended, and however often the number of frames has changed: each frame takes a page.
    pub fn every_frame_takes_a_page(&self) -> Result<(), PowerIsOff> {
        let others = (0..u64::from(self.pool.frames())).map(|at| STRAY - 1 - at);
        let guards: Result<Vec<_>, _> = others.map(|page| self.fixes.of(|| self.pool_of(page).fix_read(page))).collect();
        self.succeeds("as many pages are fixed as there are frames", guards).map(drop)
    }

    /// The version of a page that a call makes durable if it succeeds.
    fn version_now(&self, page: u64) -> Option<(u64, u64)> {
        let whole = |page: &mut crate::model::Page| (page.version(), page.breaks);
        let broken = self.model.page(page, |history| history.broken);
        (!broken).then(|| self.model.page(page, whole))
    }

    fn note_durable(&self, page: u64, before: Option<(u64, u64)>) {
        if let Some((version, breaks)) = before {
            self.model.page(page, |history| {
                if history.breaks == breaks && !history.free && version >= history.born {
                    history.floor = history.floor.max(version);
                }
            });
        }
    }

    fn flush(&self, page: u64) -> Result<(), PowerIsOff> {
        let before = self.version_now(page);
        match self.pool.flush(page) {
            Ok(()) => self.note_durable(page, before),
            Err(error) => self.judge(error)?,
        }
        Ok(())
    }

    pub fn all_versions_now(&self) -> Vec<(u64, Option<(u64, u64)>)> {
        let pages: Vec<u64> = self.model.state().pages.keys().copied().collect();
        pages.into_iter().map(|page| (page, self.version_now(page))).collect()
    }

    pub fn note_all_durable(&self, before: Vec<(u64, Option<(u64, u64)>)>) {
        before.into_iter().for_each(|(page, before)| self.note_durable(page, before));
    }

    pub fn checkpoint(&self) -> Result<(), PowerIsOff> {
        let before = self.all_versions_now();
        match self.pool.checkpoint() {
            Ok(done) => {
                self.model.state().tally.checkpoints += 1;
                if self.case.logged {
                    // Also if its log has no record yet.
                    assert!(done.covered != Lsn::MAX, "a checkpoint covers changes that are still to be made");
                    self.note_covered(done.covered)?;
                }
                if done.covered > 0 {
                    self.note_all_durable(before);
                }
                Ok(())
            }
            Err(error) => self.judge(error),
        }
    }

    /// Notes what a checkpoint covers, once the log is durable up to there: otherwise covered LSNs could be used
    /// again after a crash.
    fn note_covered(&self, covered: Lsn) -> Result<(), PowerIsOff> {
        self.commit()?;
        if self.wal.durable_lsn() >= covered {
            self.model.covers(covered);
        }
        Ok(())
    }

    pub fn commit(&self) -> Result<(), PowerIsOff> {
        let end = self.wal.end_lsn();
        match self.wal.force(end) {
            Ok(()) => {
                let mut state = self.model.state();
                state.acknowledged = state.acknowledged.max(end);
                Ok(())
            }
            Err(_) if self.disk.is_off() => Err(PowerIsOff),
            Err(error) => {
                let explained = self.faults.any.load(Ordering::SeqCst);
                assert!(explained, "nothing explains the log's error: {error}");
                Ok(())
            }
        }
    }

    /// Claims a page for a repair; false if another thread has claimed it.
    fn begin_break(&self, page: u64) -> bool {
        self.model.page(page, |history| {
            let free = !history.broken;
            if free {
                history.broken = true;
                history.breaks += 1;
            }
            free
        })
    }

    fn panic(&self, page: u64, value: u64, when: When, repair_after: u64) -> Result<(), PowerIsOff> {
        if !self.panic_while_changing(page, value, when)? {
            return Ok(());
        }
        sleep(repair_after);
        self.repair(page, 0)
    }

    /// Panics in the middle of a change, which leaves the page abandoned; false if the page cannot be fixed.
    fn panic_while_changing(&self, page: u64, value: u64, when: When) -> Result<bool, PowerIsOff> {
        let Some(mut guard) = self.fix_write(page)? else {
            return Ok(false);
        };
        if !self.begin_break(page) {
            return Ok(false);
        }
        let before = self.model.page(page, |history| *history.now());
        let record = Record { page, version: before.version + 1, slot: value % 4, value };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if when == When::BeforeAppend {
                guard[..8].copy_from_slice(&record.version.to_le_bytes());
                step();
                drop_in_panic(guard);
            }
            let lsn = self.append(record);
            if lsn > 0 {
                let after = before.after(&record, lsn);
                self.model.page(page, |history| history.states.push(after));
            }
            guard[..8].copy_from_slice(&record.version.to_le_bytes());
            step();
            if when == When::AfterSetLsn && lsn > 0 {
                guard.set_lsn(lsn);
            }
            drop_in_panic(guard)
        }));
        if let Err(payload) = outcome
            && !payload.is::<ScriptedPanic>()
        {
            resume_unwind(payload);
        }
        self.model.state().tally.abandoned += 1;
        Ok(true)
    }

    /// Panics in the middle of a change, discards the page, and closes the pool. The next life redoes the lost changes.
    pub fn close_after_a_panic(self, page: u64, when: When) -> Result<(), PowerIsOff> {
        let abandoned = self.panic_while_changing(page, 1, when)?;
        let LifeState { pool, model, disk, .. } = self;
        let pool = match pool.close().map_err(CloseError::into_parts) {
            _ if disk.is_off() => return Err(PowerIsOff),
            Ok(()) if !abandoned => return Ok(()),
            Err((pool, PoolError::Abandoned { page: named })) if abandoned && named == page => pool,
            Ok(()) => panic!("the pool is closed, and page {page} was abandoned"),
            Err((_, error)) => {
                panic!("all clients have ended, and the pool cannot be closed: {error}")
            }
        };
        if let Err(error) = pool.discard(page) {
            panic!("page {page} was abandoned, and cannot be discarded: {error}");
        }
        match pool.close() {
            Err(_) if disk.is_off() => Err(PowerIsOff),
            Err(error) => {
                panic!("page {page} was discarded, and the pool cannot be closed: {error}")
            }
            Ok(()) => {
                model.state().tally.closed_after_panics += 1;
                Ok(())
            }
        }
    }

    fn discard(&self, page: u64, redo_after: u64) -> Result<(), PowerIsOff> {
        match self.begin_break(page) {
            true => self.repair(page, redo_after),
            false => Ok(()),
        }
    }

    /// Discards a page, and redoes the lost changes from the log. Without a log the model adopts the content that is
    /// left.
    pub fn repair(&self, page: u64, redo_after: u64) -> Result<(), PowerIsOff> {
        let mut discarded = false;
        for _ in 0..TRIES {
            if !discarded {
                match self.pool.discard(page) {
                    Ok(()) => discarded = true,
                    Err(error) => {
                        self.judge(error)?;
                        sleep(1000);
                        continue;
                    }
                }
                sleep(redo_after);
            }
            match self.fixed_to_write(page) {
                Ok(mut guard) => {
                    self.redo(&mut guard);
                    guard.redone();
                    return Ok(());
                }
                Err(error @ PoolError::Damaged { .. }) => {
                    self.judge(error)?;
                    match self.fixed_new(page) {
                        Ok(mut guard) => {
                            self.rebuild(&mut guard);
                            guard.redone();
                            return Ok(());
                        }
                        Err(error) => self.judge(error)?,
                    }
                }
                Err(error) => self.judge(error)?,
            }
            sleep(1000);
        }
        Ok(())
    }

    /// Applies the changes that a page in storage lacks.
    pub fn redo(&self, guard: &mut WriteGuard<'_>) {
        let page = guard.page();
        let found = Content::of(guard);
        let missing = self.model.page(page, |history| {
            history.broken = false;
            let state = history.states.get(found.version as usize).copied();
            if history.excused {
                // The lost changes cannot be checked: the history begins anew.
                history.adopt(found);
                return Vec::new();
            }
            assert!(
                state == Some(found),
                "page {page} in storage has content that it never had: {found:?}, and should be {state:?}, of {} versions",
                history.version()
            );
            assert!(
                found.version >= history.floor,
                "page {page} is in storage as of version {}, and version {} was acknowledged as durable",
                found.version,
                history.floor
            );
            let missing = history.states.split_off(found.version as usize + 1);
            if self.case.logged {
                history.states.extend(&missing);
                return missing;
            }
            Vec::new()
        });
        self.model.state().tally.redone += missing.len() as u64;
        for state in missing {
            state.write(guard);
            guard.set_lsn(state.lsn);
        }
    }

    /// Rebuilds a page that is damaged in storage from the log, which is never cut off.
    pub fn rebuild(&self, guard: &mut WriteGuard<'_>) {
        let page = guard.page();
        let states = self.model.page(page, |history| {
            history.broken = false;
            if !self.case.logged || history.unlogged.is_some() || history.excused {
                history.adopt(Content::default());
                // Storage still has other content, and no LSN shows that.
                history.excused = true;
                history.unlogged.get_or_insert(0);
            }
            history.states.clone()
        });
        for state in &states[1..] {
            state.write(guard);
            guard.set_lsn(state.lsn);
        }
    }

    fn stats(&self, frames: u32) {
        let stats = self.pool.stats();
        let (resident, dirty) = (stats.resident, stats.dirty);
        assert!(resident <= frames && dirty <= frames, "{resident} resident and {dirty} dirty pages in {frames} frames");
    }

    /// Checks all pages after all clients have ended.
    pub fn check_all_pages(&self) -> Result<(), PowerIsOff> {
        if self.options().options.counts_fixes {
            self.fixes.check();
        }
        self.stats(self.pool.frames());
        let pages: Vec<u64> = self.model.state().pages.keys().copied().collect();
        for &page in &pages {
            if self.model.page(page, |history| history.broken) {
                self.repair(page, 0)?;
                let broken = self.model.page(page, |history| history.broken);
                assert!(!broken, "page {page} cannot be repaired");
            }
        }
        for &page in &pages {
            if self.model.page(page, |history| history.free) {
                continue;
            }
            match self.fixes.of(|| self.pool_of(page).fix_read(page)) {
                Ok(guard) => self.model.check(page, &Content::of(&guard)),
                Err(error @ PoolError::Damaged { .. }) => self.judge(error)?,
                Err(error) => {
                    if self.disk.is_off() {
                        return Err(PowerIsOff);
                    }
                    panic!("all clients have ended, and page {page} cannot be fixed: {error}");
                }
            }
            if !self.background() && self.pool.read_optimistically(page).is_some() {
                let before = self.pool.stats().waits_for_latches;
                for _ in 0..2 {
                    drop(self.fix_read(page)?);
                }
                let waits = self.pool.stats().waits_for_latches - before;
                assert!(waits == 0, "the only thread waited {waits} times for the latch of page {page}, which it read");
            }
        }
        Ok(())
    }

    /// Takes and checks a checkpoint after [`check_all_pages`](Self::check_all_pages).
    pub fn last_checkpoint(&self) -> Result<(), PowerIsOff> {
        let before = self.all_versions_now();
        let end = self.wal.end_lsn();
        let damaged = self.model.state().tally.damaged;
        match self.pool.checkpoint() {
            Ok(done) => {
                self.note_all_durable(before);
                if self.case.logged {
                    self.note_covered(done.covered)?;
                    // With a background writer a checkpoint may cover less than all changes.
                    assert!(
                        done.covered == end || self.background(),
                        "all clients have ended, and a checkpoint covers {} of {end}",
                        done.covered
                    );
                }
            }
            Err(_) if self.disk.is_off() => return Err(PowerIsOff),
            Err(error) => panic!("all clients have ended, and a checkpoint fails: {error}"),
        }
        if self.background() {
            sleep(500_000);
        }
        let stats = self.pool.stats();
        assert!(stats.dirty == 0 || damaged > 0, "{} pages are dirty after a checkpoint", stats.dirty);
        Ok(())
    }
}

fn drop_in_panic(guard: WriteGuard<'_>) -> ! {
    let _guard = guard;
    panic_any(ScriptedPanic)
}

fn pick(own: &[u64], which: u64) -> Option<u64> {
    let at = usize::try_from(which).ok()?.checked_rem(own.len())?;
    own.get(at).copied()
}
