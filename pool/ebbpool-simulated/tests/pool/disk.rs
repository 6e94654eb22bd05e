//! A storage on the faulty disk whose operations take time, fail, and complete out of order.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebbpool::storage::{EIO, ENOSPC, Fault, FaultyDisk, FaultyStorage, Read, SECTOR, Storage, Write};
use ebbpool_simulation::{Instant, fail, random, step, thread};

/// The frequencies of faults: each happens once in this many operations, never for 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultRates {
    /// The most microseconds that an operation takes.
    pub slow: u64,
    /// The writes of a batch are done one by one, in any order.
    pub reorder: u64,
    pub read_error: u64,
    pub write_error: u64,
    pub torn: u64,
    pub lost: u64,
    pub flipped: u64,
    pub sync_error: u64,
    pub log_error: u64,
    /// A write beyond the end of the file, or a growth, that finds no room for all of its bytes.
    pub full: u64,
    /// A read, a write or a sync that panics.
    pub panics: u64,
}

impl FaultRates {
    /// Sleeps for a random time, or not at all.
    pub fn pause(&self) {
        step();
        if self.slow > 0 && !random().is_multiple_of(4) {
            thread::sleep(Duration::from_micros(random() % self.slow));
        }
    }
}

/// The faults so far, to judge the errors of the pool.
#[derive(Default)]
pub struct FaultLog {
    /// Faults may happen.
    pub armed: AtomicBool,
    pub any: AtomicBool,
    pub sync_failed: AtomicBool,
    pub flipped: AtomicBool,
    /// A read of the double-write area returned a bit that was not written: the pool may have taken an image for rotted.
    pub image_flipped: AtomicBool,
    pub torn: AtomicBool,
    pub count: AtomicU64,
    /// When the power was last known to be on.
    pub last_on: Mutex<Option<Instant>>,
}

impl FaultLog {
    /// Notes the time, if the power is on: if it fails, then during the operation that follows.
    pub fn note_power(&self, disk: &FaultyDisk) {
        if !disk.is_off() {
            *self.last_on.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }

    /// Notes a fault, if faults may happen.
    pub fn happens(&self) -> bool {
        let armed = self.armed.load(Ordering::SeqCst);
        if armed {
            self.note(None);
        }
        armed
    }

    fn note(&self, which: Option<&AtomicBool>) {
        self.any.store(true, Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::SeqCst);
        if let Some(which) = which {
            which.store(true, Ordering::SeqCst);
        }
    }
}

/// Maps page numbers that are far apart to pages of the file.
#[derive(Default)]
pub struct PageMap(Mutex<(BTreeMap<u64, u64>, u64)>);

impl PageMap {
    fn of(&self, page: u64) -> u64 {
        let (page_map, _) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = page_map.len() as u64;
        *page_map.entry(page).or_insert(next)
    }

    fn length(&self, at_least: u64) -> u64 {
        let (_, length) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *length = (*length).max(at_least);
        *length
    }
}

/// The lock of a file that one pool at a time may use.
pub struct FileLock(Arc<AtomicBool>);

impl FileLock {
    /// Takes the lock, which is free once the storage of the pool before has been dropped.
    pub fn take(in_use: &Arc<AtomicBool>) -> Self {
        assert!(
            !in_use.swap(true, Ordering::SeqCst),
            "a pool is opened, and a pool that does not exist any more still uses the file"
        );
        FileLock(Arc::clone(in_use))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// See the [module](self).
pub struct FaultyFileStorage {
    pub disk: FaultyDisk,
    pub name: &'static str,
    pub inner: FaultyStorage,
    pub fault_rates: FaultRates,
    pub faults: Arc<FaultLog>,
    /// Called for a page whose write was acknowledged and never happened.
    pub lost: Arc<dyn Fn(u64) + Send + Sync>,
    pub page_map: Option<Arc<PageMap>>,
    pub in_flight: Mutex<Vec<(u64, bool)>>,
    /// It reports how often the block of a page was erased.
    pub reports_erases: bool,
    /// Dropping it frees the file.
    #[expect(dead_code, reason = "it only has to be dropped with the storage")]
    pub lock: Option<FileLock>,
}

fn one_in(count: u64) -> bool {
    count > 0 && random().is_multiple_of(count)
}

fn error() -> io::Error {
    io::Error::from_raw_os_error(EIO)
}

impl FaultyFileStorage {
    fn fault_happens(&self, one_in: u64) -> bool {
        one_in > 0 && random().is_multiple_of(one_in) && self.faults.armed.load(Ordering::SeqCst) && !self.disk.is_off()
    }

    /// Panics with the frequency of panics: the pool has to treat that as a failure.
    fn may_panic(&self, which: Option<&AtomicBool>) {
        if self.fault_happens(self.fault_rates.panics) {
            self.faults.note(which);
            panic!("the storage panics, as the script says");
        }
    }

    fn place(&self, page: u64) -> u64 {
        self.page_map.as_ref().map_or(page, |page_map| page_map.of(page))
    }

    fn enter(&self, page: u64, write: bool) {
        let mut others = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let clash = others.iter().find(|other| other.0 == page && (write || other.1));
        if let Some(&(_, other)) = clash {
            let name = |write| if write { "written" } else { "read" };
            // Not a panic, because the pool treats a storage that panics as one that fails.
            fail(format!("page {page} of {} is requested to be {} while it is being {}", self.name, name(write), name(other)));
        }
        others.push((page, write));
    }

    fn leave(&self, page: u64, write: bool) {
        let mut others = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = others.iter().position(|other| *other == (page, write)) {
            others.swap_remove(at);
        }
    }

    /// Carries out an operation while the disk has room for a part of a page only.
    fn on_a_full_disk<R>(&self, operation: impl FnOnce() -> R) -> R {
        self.faults.note(Some(&self.faults.torn));
        let room = random() % (2 * self.page_size() as u64);
        self.disk.set_capacity(self.disk.used() + room);
        let outcome = operation();
        self.disk.set_capacity(u64::MAX);
        outcome
    }

    /// A write that fails, and leaves garbage in the last sector: also a page that is as it was is torn then.
    fn leave_garbage(&self, write: &mut Write<'_>, place: u64) {
        let mut garbage = write.buffer.to_vec();
        if let Some(sector) = garbage.get_mut(SECTOR..) {
            sector.iter_mut().for_each(|byte| *byte = random() as u8);
        }
        let mut writes = [Write::new(place, &garbage)];
        self.inner.write(&mut writes);
        let [written] = writes;
        write.outcome = written.outcome.and(Err(error()));
    }

    fn write_one(&self, write: &mut Write<'_>) {
        let place = self.place(write.page);
        self.faults.note_power(&self.disk);
        let fault_rates = &self.fault_rates;
        if self.fault_happens(fault_rates.write_error) {
            self.faults.note(None);
            write.outcome = Err(error());
            return;
        }
        if self.name == "data" && self.fault_happens(fault_rates.lost) {
            self.faults.note(None);
            (self.lost)(write.page);
            write.outcome = Ok(());
            return;
        }
        if self.fault_happens(fault_rates.torn) {
            self.faults.note(Some(&self.faults.torn));
            if self.name == "data" && random().is_multiple_of(2) {
                return self.leave_garbage(write, place);
            }
            self.disk.inject(Fault::torn_write(EIO).in_file(self.name).at_page(place));
        }
        let mut writes = [Write::new(place, write.buffer)];
        match self.fault_happens(fault_rates.full) {
            true => self.on_a_full_disk(|| self.inner.write(&mut writes)),
            false => self.inner.write(&mut writes),
        };
        let [written] = writes;
        write.outcome = written.outcome;
    }
}

impl Storage for FaultyFileStorage {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> io::Result<u64> {
        match &self.page_map {
            Some(page_map) => Ok(page_map.length(0)),
            None => self.inner.pages(),
        }
    }

    fn grow(&self, pages: u64) -> io::Result<()> {
        step();
        if self.fault_happens(self.fault_rates.write_error) {
            self.faults.note(None);
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        match &self.page_map {
            Some(page_map) => {
                page_map.length(pages);
                Ok(())
            }
            None if self.fault_happens(self.fault_rates.full) => self.on_a_full_disk(|| self.inner.grow(pages)),
            None => {
                self.faults.note_power(&self.disk);
                self.inner.grow(pages)
            }
        }
    }

    fn truncate(&self, pages: u64) -> io::Result<()> {
        step();
        if self.fault_happens(self.fault_rates.write_error) {
            self.faults.note(None);
            return Err(error());
        }
        if self.page_map.is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.faults.note_power(&self.disk);
        self.inner.truncate(pages)
    }

    fn erases_of(&self, page: u64) -> Option<u32> {
        self.reports_erases.then_some((page % 7) as u32)
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        self.may_panic(None);
        reads.iter().for_each(|read| self.enter(read.page, false));
        self.fault_rates.pause();
        for read in reads.iter_mut() {
            if self.fault_happens(self.fault_rates.read_error) {
                self.faults.note(None);
                read.outcome = Err(error());
                continue;
            }
            let page = self.place(read.page);
            let mut one = [Read::new(page, &mut *read.buffer)];
            self.inner.read(&mut one);
            let [one] = one;
            read.outcome = one.outcome;
            if self.fault_happens(self.fault_rates.flipped) && read.outcome.is_ok() {
                self.faults.note(Some(&self.faults.flipped));
                if self.name == "area" {
                    self.faults.image_flipped.store(true, Ordering::SeqCst);
                }
                let at = random() as usize % read.buffer.len();
                read.buffer[at] ^= 1 << (random() % 8);
            }
        }
        self.fault_rates.pause();
        reads.iter().for_each(|read| self.leave(read.page, false));
        None
    }

    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        self.may_panic(None);
        writes.iter().for_each(|write| self.enter(write.page, true));
        let before: Vec<Vec<u8>> = writes.iter().map(|write| write.buffer.to_vec()).collect();
        self.fault_rates.pause();
        let mut order: Vec<usize> = (0..writes.len()).collect();
        let reorder = one_in(self.fault_rates.reorder);
        if reorder {
            for at in (1..order.len()).rev() {
                order.swap(at, random() as usize % (at + 1));
            }
        }
        for at in order {
            if reorder {
                self.fault_rates.pause();
            }
            self.write_one(&mut writes[at]);
        }
        self.fault_rates.pause();
        for (write, before) in writes.iter().zip(before) {
            if write.buffer != before {
                fail(format!("page {} of {} changed while it was being written", write.page, self.name));
            }
            self.leave(write.page, true);
        }
        None
    }

    fn sync(&self) -> io::Result<()> {
        self.may_panic(Some(&self.faults.sync_failed));
        let fails = self.fault_happens(self.fault_rates.sync_error);
        if fails {
            self.faults.note(Some(&self.faults.sync_failed));
        }
        self.fault_rates.pause();
        if fails {
            self.disk.inject(Fault::sync_that_drops(EIO).in_file(self.name));
        }
        self.faults.note_power(&self.disk);
        let outcome = self.inner.sync();
        self.fault_rates.pause();
        outcome
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
