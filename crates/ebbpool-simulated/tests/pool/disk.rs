//! A storage on the faulty disk whose operations take time, go wrong, and come out of order.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebbpool::storage::{EIO, ENOSPC, Fault, FaultyDisk, FaultyStorage, Read, Storage, Write};
use ebbpool_simulation::{fail, random, step, thread};

/// What goes wrong how often: once in this many operations, never for 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Troubles {
    /// Microseconds that an operation takes at most.
    pub slow: u64,
    /// The writes of a batch take their time one by one, in any order.
    pub reorder: u64,
    pub read_error: u64,
    pub write_error: u64,
    pub torn: u64,
    pub lost: u64,
    pub flipped: u64,
    pub sync_error: u64,
    pub log_error: u64,
    /// A read, a write or a sync that panics.
    pub panics: u64,
}

impl Troubles {
    /// Takes some time, or none.
    pub fn pause(&self) {
        step();
        if self.slow > 0 && !random().is_multiple_of(4) {
            thread::sleep(Duration::from_micros(random() % self.slow));
        }
    }
}

/// What has gone wrong so far, for judging what the pool says.
#[derive(Default)]
pub struct Mishaps {
    /// Something may go wrong.
    pub armed: AtomicBool,
    pub any: AtomicBool,
    pub sync_failed: AtomicBool,
    pub flipped: AtomicBool,
    pub torn: AtomicBool,
    pub count: AtomicU64,
}

impl Mishaps {
    /// Notes one, if there may be any.
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

/// Which page of the file holds which page, where their numbers are far apart.
#[derive(Default)]
pub struct Places(Mutex<(BTreeMap<u64, u64>, u64)>);

impl Places {
    fn of(&self, page: u64) -> u64 {
        let (places, _) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = places.len() as u64;
        *places.entry(page).or_insert(next)
    }

    fn length(&self, at_least: u64) -> u64 {
        let (_, length) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *length = (*length).max(at_least);
        *length
    }
}

/// See the [module](self).
pub struct Troubled {
    pub disk: FaultyDisk,
    pub name: &'static str,
    pub inner: FaultyStorage,
    pub troubles: Troubles,
    pub mishaps: Arc<Mishaps>,
    /// A write of this page was acknowledged and never happened.
    pub lost: Arc<dyn Fn(u64) + Send + Sync>,
    pub places: Option<Arc<Places>>,
    pub in_flight: Mutex<Vec<(u64, bool)>>,
}

fn one_in(count: u64) -> bool {
    count > 0 && random().is_multiple_of(count)
}

fn error() -> io::Error {
    io::Error::from_raw_os_error(EIO)
}

impl Troubled {
    fn goes_wrong(&self, one_in: u64) -> bool {
        one_in > 0
            && random().is_multiple_of(one_in)
            && self.mishaps.armed.load(Ordering::SeqCst)
            && !self.disk.is_off()
    }

    /// The pool is to take a storage that panics for one that fails.
    fn may_panic(&self, which: Option<&AtomicBool>) {
        if self.goes_wrong(self.troubles.panics) {
            self.mishaps.note(which);
            panic!("the storage panics, as the script has it");
        }
    }

    fn place(&self, page: u64) -> u64 {
        self.places.as_ref().map_or(page, |places| places.of(page))
    }

    fn enter(&self, page: u64, write: bool) {
        let mut others = self
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let clash = others
            .iter()
            .find(|other| other.0 == page && (write || other.1));
        if let Some(&(_, other)) = clash {
            let name = |write| if write { "written" } else { "read" };
            // The pool takes a storage that panics for one that fails.
            fail(format!(
                "page {page} of {} is to be {} while it is being {}",
                self.name,
                name(write),
                name(other)
            ));
        }
        others.push((page, write));
    }

    fn leave(&self, page: u64, write: bool) {
        let mut others = self
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = others.iter().position(|other| *other == (page, write)) {
            others.swap_remove(at);
        }
    }

    fn write_one(&self, write: &mut Write<'_>) {
        let place = self.place(write.page);
        let troubles = &self.troubles;
        if self.goes_wrong(troubles.write_error) {
            self.mishaps.note(None);
            write.outcome = Err(error());
            return;
        }
        if self.name == "data" && self.goes_wrong(troubles.lost) {
            self.mishaps.note(None);
            (self.lost)(write.page);
            write.outcome = Ok(());
            return;
        }
        if self.goes_wrong(troubles.torn) {
            self.mishaps.note(Some(&self.mishaps.torn));
            self.disk
                .inject(Fault::torn_write(EIO).of(self.name).at_page(place));
        }
        let mut writes = [Write {
            page: place,
            buffer: write.buffer,
            outcome: Ok(()),
        }];
        self.inner.write(&mut writes);
        let [written] = writes;
        write.outcome = written.outcome;
    }
}

impl Storage for Troubled {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> io::Result<u64> {
        match &self.places {
            Some(places) => Ok(places.length(0)),
            None => self.inner.pages(),
        }
    }

    fn grow(&self, pages: u64) -> io::Result<()> {
        step();
        if self.goes_wrong(self.troubles.write_error) {
            self.mishaps.note(None);
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        match &self.places {
            Some(places) => {
                places.length(pages);
                Ok(())
            }
            None => self.inner.grow(pages),
        }
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        self.may_panic(None);
        reads.iter().for_each(|read| self.enter(read.page, false));
        self.troubles.pause();
        for read in reads.iter_mut() {
            if self.goes_wrong(self.troubles.read_error) {
                self.mishaps.note(None);
                read.outcome = Err(error());
                continue;
            }
            let page = self.place(read.page);
            let mut one = [Read {
                page,
                buffer: &mut *read.buffer,
                outcome: Ok(()),
            }];
            self.inner.read(&mut one);
            let [one] = one;
            read.outcome = one.outcome;
            if self.goes_wrong(self.troubles.flipped) && read.outcome.is_ok() {
                self.mishaps.note(Some(&self.mishaps.flipped));
                let at = random() as usize % read.buffer.len();
                read.buffer[at] ^= 1 << (random() % 8);
            }
        }
        self.troubles.pause();
        reads.iter().for_each(|read| self.leave(read.page, false));
        None
    }

    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        self.may_panic(None);
        writes.iter().for_each(|write| self.enter(write.page, true));
        let before: Vec<Vec<u8>> = writes.iter().map(|write| write.buffer.to_vec()).collect();
        self.troubles.pause();
        let mut order: Vec<usize> = (0..writes.len()).collect();
        let reorder = one_in(self.troubles.reorder);
        if reorder {
            for at in (1..order.len()).rev() {
                order.swap(at, random() as usize % (at + 1));
            }
        }
        for at in order {
            if reorder {
                self.troubles.pause();
            }
            self.write_one(&mut writes[at]);
        }
        self.troubles.pause();
        for (write, before) in writes.iter().zip(before) {
            if write.buffer != before {
                fail(format!(
                    "page {} of {} changed while it was being written",
                    write.page, self.name
                ));
            }
            self.leave(write.page, true);
        }
        None
    }

    fn sync(&self) -> io::Result<()> {
        self.may_panic(Some(&self.mishaps.sync_failed));
        let fails = self.goes_wrong(self.troubles.sync_error);
        if fails {
            self.mishaps.note(Some(&self.mishaps.sync_failed));
        }
        self.troubles.pause();
        if fails {
            self.disk.inject(Fault::sync_that_drops(EIO).of(self.name));
        }
        let outcome = self.inner.sync();
        self.troubles.pause();
        outcome
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
