//! Moves pages between frames and storage. This is the only module that reads, writes and syncs.

use ebbpool_cost::measured::MeasuredCosts;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ebbpool_cost::OperationCosts;
use ebbpool_policy::Costs;

use crate::double_write::{DoubleWriteArea, InPlaceWrites};
use crate::error::PoolError;
use crate::group_sync::{GroupSync, SyncError};
use crate::log::{Log, Lsn};
use crate::page::{Damage, PageFormat};
use crate::recent::RecentWrites;
use crate::spaces::PageSpaces;
use crate::stats::{Counters, ReadCause, WriteCause};
use crate::storage::{Read, Storage, Write, settled};
use crate::sync::{Instant, Mutex};

/// A page on its way to storage.
pub(crate) struct Outgoing<'a> {
    pub(crate) page: u64,
    pub(crate) lsn: Lsn,
    pub(crate) bytes: &'a mut [u8],
    pub(crate) cause: WriteCause,
    /// When the first of the changes was made that storage does not have.
    pub(crate) changed: Instant,
    /// Set by the write: what is in storage may be torn if the write failed.
    pub(crate) reached_storage: bool,
}

/// A page on its way from storage.
pub(crate) struct Incoming<'a> {
    pub(crate) page: u64,
    pub(crate) bytes: &'a mut [u8],
}

/// Costs are recorded as whole numbers of this fraction of their unit.
const PARTS: f64 = 1e6;

/// The number of reads and writes after which the costs are reported to the policy again.
const REPORT_EVERY: u64 = 64;

/// Reads, writes and syncs the pages of a storage.
pub(crate) struct PageIo {
    storage: Box<dyn Storage>,
    /// The storage takes writes.
    writable: bool,
    area: Option<DoubleWriteArea>,
    format: PageFormat,
    log: Arc<dyn Log>,
    syncs: GroupSync,
    fixed: Option<OperationCosts>,
    measured: Mutex<MeasuredCosts>,
    recent: Mutex<RecentWrites>,
    unsynced: UnsyncedChanges,
    pub(crate) spaces: PageSpaces,
    pub(crate) counters: Counters,
}

impl PageIo {
    pub(crate) fn new(
        storage: Box<dyn Storage>,
        area: Option<DoubleWriteArea>,
        format: PageFormat,
        log: Arc<dyn Log>,
        fixed: Option<OperationCosts>,
        spaces: PageSpaces,
    ) -> Self {
        PageIo {
            writable: storage.writable(),
            storage,
            area,
            format,
            log,
            syncs: GroupSync::default(),
            fixed,
            measured: Mutex::new(MeasuredCosts::default()),
            recent: Mutex::new(RecentWrites::new()),
            unsynced: UnsyncedChanges::default(),
            spaces,
            counters: Counters::new(),
        }
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    pub(crate) fn format(&self) -> PageFormat {
        self.format
    }

    pub(crate) fn log(&self) -> &dyn Log {
        &*self.log
    }

    /// An error if no page may be changed.
    pub(crate) fn check_writable(&self) -> Result<(), PoolError> {
        match self.writable {
            true => self.check_unpoisoned(),
            false => Err(PoolError::ReadOnly),
        }
    }

    /// An error if nothing is written any more.
    pub(crate) fn check_unpoisoned(&self) -> Result<(), PoolError> {
        match self.syncs.poisoned() {
            None => Ok(()),
            Some(cause) => Err(PoolError::Poisoned { cause: cause.into() }),
        }
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.syncs.poisoned().is_some()
    }

    /// Why nothing is written any more.
    pub(crate) fn poisoned(&self) -> Option<String> {
        self.syncs.poisoned().map(str::to_owned)
    }

    /// Makes the file of page `end` end there.
    pub(crate) fn truncate(&self, end: u64) -> io::Result<()> {
        self.storage.truncate(end)?;
        // If it grows again, these read as zeros.
        self.recent.lock().forget(end..self.spaces.of(end).most());
        Ok(())
    }

    /// Reads pages, and returns each one's LSN.
    pub(crate) fn read(&self, pages: &mut [Incoming<'_>], cause: ReadCause) -> Vec<Result<Lsn, PoolError>> {
        let pending = |page: &'_ Incoming<'_>| page.page;
        let numbers: Vec<u64> = pages.iter().map(pending).collect();
        let mut reads: Vec<Read<'_>> = pages.iter_mut().map(|page| Read::new(page.page, page.bytes)).collect();
        let start = Instant::now();
        let cost = self.storage.read(&mut reads);
        let took = start.elapsed();
        let outcomes = reads.into_iter().map(|read| settled(read.outcome));
        let outcomes: Vec<io::Result<()>> = outcomes.collect();
        self.counters.read(cause).add(numbers.len() as u64);
        self.counters.read_latency.record(took);
        self.record(cost, took, numbers.len(), MeasuredCosts::record_read);
        let checked = pages.iter().zip(outcomes).map(|(page, outcome)| {
            let number = page.page;
            outcome.map_err(|source| PoolError::Read { page: number, source })?;
            self.check(page.bytes, number).map_err(|damage| PoolError::Damaged { page: number, damage })
        });
        let checked: Vec<Result<Lsn, PoolError>> = checked.collect();
        let failed = checked.iter().filter(|outcome| outcome.is_err()).count();
        self.counters.failed_reads.add(failed as u64);
        checked
    }

    fn check(&self, bytes: &[u8], page: u64) -> Result<Lsn, Damage> {
        let found = self.format.check(bytes, page)?;
        let end = self.log.end_lsn();
        if found > end {
            return Err(Damage::Ahead { found, end });
        }
        match self.recent.lock().lsn_of(page) {
            Some(written) if written > found => Err(Damage::Lost { found, written }),
            Some(_) if self.format.is_blank(bytes) => Err(Damage::Zeros),
            _ => Ok(found),
        }
    }

    /// Remembers the LSN of a write, so that a later read can find out that the write was lost. A raw page carries no
    /// LSN and cannot be checked so.
    fn remember(&self, page: u64, lsn: Lsn, result: &io::Result<()>) {
        if self.format == PageFormat::Raw {
            return;
        }
        let mut recent = self.recent.lock();
        match result {
            Ok(()) => recent.note(page, lsn),
            Err(_) => recent.note_failed(page, lsn),
        }
    }

    /// Writes pages, after making the log durable as far as they need it, and returns the outcome of each.
    pub(crate) fn write(&self, pages: &mut [Outgoing<'_>]) -> Vec<Result<(), PoolError>> {
        if pages.is_empty() {
            return Vec::new();
        }
        let forced = self.force_log(pages);
        let mut outcomes: Vec<Result<(), PoolError>> = pages.iter().map(|page| self.may_be_written(page, &forced)).collect();
        let mut order: Vec<usize> = (0..pages.len()).collect();
        order.retain(|&at| outcomes[at].is_ok());
        order.sort_unstable_by_key(|&at| pages[at].page);
        for &at in &order {
            let page = &mut pages[at];
            self.format.seal(page.bytes, page.page, page.lsn);
        }
        self.write_in_place(pages, &order, &mut outcomes);
        let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        self.counters.failed_writes.add(failed as u64);
        outcomes
    }

    /// Makes the log durable as far as the pages need it.
    fn force_log(&self, pages: &[Outgoing<'_>]) -> Result<(), Arc<io::Error>> {
        let highest = pages.iter().map(|page| page.lsn).max().unwrap_or(0);
        if highest <= self.log.durable_lsn() {
            return Ok(());
        }
        self.counters.log_forces.add(1);
        self.log.force(highest).map_err(Arc::new)
    }

    /// The write-ahead rule.
    fn may_be_written(&self, page: &Outgoing<'_>, forced: &Result<(), Arc<io::Error>>) -> Result<(), PoolError> {
        self.check_writable()?;
        let durable = self.log.durable_lsn();
        match forced {
            _ if page.lsn <= durable => Ok(()),
            Ok(()) => Err(PoolError::WriteAhead { page: page.page, lsn: page.lsn, durable }),
            Err(source) => Err(PoolError::Log { lsn: page.lsn, source: io::Error::new(source.kind(), Arc::clone(source)) }),
        }
    }

    fn write_in_place(&self, pages: &mut [Outgoing<'_>], order: &[usize], outcomes: &mut [Result<(), PoolError>]) {
        let mut writes: Vec<Write<'_>> = order.iter().map(|&at| Write::new(pages[at].page, &*pages[at].bytes)).collect();
        if writes.is_empty() {
            return;
        }
        let in_place = match self.save_images(&writes) {
            Ok(in_place) => in_place,
            Err(error) => return fail_all(pages, order, outcomes, &error),
        };
        let start = Instant::now();
        let cost = self.storage.write(&mut writes);
        let took = start.elapsed();
        self.counters.write_calls.add(1);
        self.counters.write_latency.record(took);
        self.record(cost, took, writes.len(), MeasuredCosts::record_write);
        if let Some(in_place) = in_place {
            let written = writes.iter().filter(|write| write.outcome.is_ok());
            in_place.finish(written.map(|write| write.page));
        }
        let results = writes.into_iter().map(|write| settled(write.outcome));
        let results: Vec<io::Result<()>> = results.collect();
        for (&at, result) in order.iter().zip(results) {
            let page = &mut pages[at];
            page.reached_storage = true;
            self.counters.write(page.cause).add(1);
            self.remember(page.page, page.lsn, &result);
            match result {
                Ok(()) => {
                    self.spaces.of(page.page).note_written(page.page);
                    self.unsynced.note(page.changed);
                }
                Err(source) => {
                    let page = page.page;
                    outcomes[at] = Err(PoolError::Write { page, source });
                }
            }
        }
    }

    /// How old the oldest change is that was written, and not synced since.
    pub(crate) fn unsynced_for(&self) -> Option<Duration> {
        self.unsynced.since().map(|since| since.elapsed())
    }

    /// Pages written to the double-write area.
    pub(crate) fn double_write_pages(&self) -> u64 {
        self.area.as_ref().map_or(0, DoubleWriteArea::pages_written)
    }

    /// Saves images of the pages in the double-write area. The pages are written in place only if this succeeds.
    fn save_images(&self, writes: &[Write<'_>]) -> io::Result<Option<InPlaceWrites<'_>>> {
        let Some(area) = &self.area else {
            return Ok(None);
        };
        let images: Vec<(u64, &[u8])> = writes.iter().map(|it| (it.page, it.buffer)).collect();
        let saved = area.save_images(&images, || Ok(self.sync_storage()?));
        saved.map(Some).inspect_err(|error| {
            if area.is_broken() {
                self.syncs.poison(error.to_string());
            }
        })
    }

    fn record(&self, cost: Option<f64>, took: Duration, pages: usize, each: impl Fn(&mut MeasuredCosts, u64)) {
        if self.fixed.is_some() {
            return;
        }
        let per_page = cost.unwrap_or_else(|| took.as_secs_f64() * 1e6 / pages.max(1) as f64);
        let mut measured = self.measured.lock();
        for _ in 0..pages {
            each(&mut measured, (per_page * PARTS) as u64);
        }
    }

    /// Makes everything written so far survive a crash.
    pub(crate) fn sync(&self) -> Result<(), PoolError> {
        self.sync_storage().map_err(|why| match why {
            SyncError::Failed(source) => {
                PoolError::Storage { what: "the storage cannot be synced, and the pool no longer writes", source }
            }
            SyncError::Poisoned(cause) => PoolError::Poisoned { cause },
        })
    }

    /// All acknowledgements of the pool depend on this function: those of a flush, a checkpoint and a close, of the
    /// background writer, and of the images that may be overwritten.
    fn sync_storage(&self) -> Result<(), SyncError> {
        self.syncs.sync(|| {
            let mark = self.area.as_ref().map(|area| (area, area.mark()));
            let unsynced = self.unsynced.take();
            let start = Instant::now();
            let synced = self.storage.sync();
            self.counters.syncs.add(1);
            self.counters.sync_latency.record(start.elapsed());
            if let (Ok(()), Some((area, mark))) = (&synced, mark) {
                area.note_synced(mark);
            }
            if let (Err(_), Some(since)) = (&synced, unsynced) {
                self.unsynced.note(since);
            }
            synced
        })
    }

    /// What a read and a write of a page cost lately.
    pub(crate) fn costs(&self) -> OperationCosts {
        let unit = self.storage.unit();
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        match self.measured.lock().averages() {
            Some((read, write)) => OperationCosts { read: read / PARTS, write: write / PARTS, unit },
            None => self.storage.assumed_costs(),
        }
    }

    /// The number of reads and writes so far.
    fn operations(&self) -> u64 {
        let reads: u64 = self.counters.reads.iter().map(|count| count.get()).sum();
        let writes: u64 = self.counters.writes.iter().map(|count| count.get()).sum();
        reads + writes
    }

    /// The costs to report to the policy, if enough operations have passed since the last report.
    pub(crate) fn costs_to_report(&self, reported_at: &mut u64) -> Option<Costs> {
        let operations = self.operations();
        if operations - *reported_at < REPORT_EVERY || self.fixed.is_some() {
            return None;
        }
        *reported_at = operations;
        Some(self.costs().into())
    }
}

/// Changes that were written and may not survive a crash, since no sync has begun after they were written. Whether their
/// pages are clean, or no longer resident, makes no difference.
#[derive(Debug, Default)]
struct UnsyncedChanges(Mutex<Option<Instant>>);

impl UnsyncedChanges {
    /// A page was written whose first change was made at this time. The caller notes that after the write, so that a
    /// sync which began during the write, and may not cover it, does not take the note.
    fn note(&self, changed: Instant) {
        let mut since = self.0.lock();
        *since = Some(since.map_or(changed, |since| since.min(changed)));
    }

    /// When the oldest of them was made.
    fn since(&self) -> Option<Instant> {
        *self.0.lock()
    }

    /// A sync that covers them begins.
    fn take(&self) -> Option<Instant> {
        self.0.lock().take()
    }
}

fn fail_all(pages: &[Outgoing<'_>], order: &[usize], outcomes: &mut [Result<(), PoolError>], error: &io::Error) {
    for &at in order {
        let page = pages[at].page;
        let source = io::Error::new(error.kind(), error.to_string());
        outcomes[at] = Err(PoolError::Write { page, source });
    }
}
