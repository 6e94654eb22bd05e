//! A file of the disk as a storage of pages.

use std::io;

use xxhash_rust::xxh3::xxh3_64;

use crate::storage::{Read, Storage, Write};

use super::fault::{DiskOperation, FaultEffect, PowerOff};
use super::{Handle, InFlight, State, Violation};

/// A file of pages on a [`FaultyDisk`](super::FaultyDisk).
#[derive(Clone)]
pub struct FaultyStorage {
    handle: Handle,
    page_size: usize,
}

impl FaultyStorage {
    pub(super) fn new(handle: Handle, page_size: usize) -> Self {
        FaultyStorage { handle, page_size: page_size.max(1) }
    }

    fn at(&self, page: u64) -> u64 {
        page.saturating_mul(self.page_size as u64)
    }

    fn write_ahead_violations(&self, writes: &[Write<'_>]) -> Vec<Violation> {
        let watch = self.handle.disk.0.watch.read();
        let Some(watch) = &*watch else {
            return Vec::new();
        };
        let overtaken = writes.iter().filter_map(|write| {
            let (lsn, durable) = watch.overtaken(write.buffer)?;
            Some(Violation::WriteAhead { file: self.handle.name.to_string(), page: write.page, lsn, durable })
        });
        overtaken.collect()
    }

    fn enter(&self, state: &mut State, page: u64, write: bool) {
        let file = self.handle.file;
        let clashes = |other: &InFlight| other.file == file && other.page == page && (write || other.write);
        if state.in_flight.iter().any(clashes) {
            state.violations.push(Violation::Overlap { file: self.handle.name.to_string(), page });
        }
        state.in_flight.push(InFlight { file, page, write });
    }

    fn leave(&self, state: &mut State, page: u64, write: bool) {
        let file = self.handle.file;
        let ended = InFlight { file, page, write };
        if let Some(at) = state.in_flight.iter().position(|other| *other == ended) {
            state.in_flight.swap_remove(at);
        }
    }

    fn submit(&self, state: &mut State, writes: &mut [Write<'_>]) {
        let mut crash = None;
        for write in writes {
            self.enter(state, write.page, true);
            let effect = state.begin(DiskOperation::Write, &self.handle, Some(write.page));
            write.outcome = effect.and_then(|effect| {
                if let Some(FaultEffect::Crash { seed }) = effect {
                    crash.get_or_insert(seed);
                }
                let to = |page| self.at(page);
                self.handle.apply_write(state, effect, to, write.page, write.buffer)
            });
        }
        // Last, because all of the batch is under way.
        if let Some(seed) = crash {
            state.crash(seed);
        }
    }
}

impl Storage for FaultyStorage {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn pages(&self) -> io::Result<u64> {
        Ok(self.handle.len()? / self.page_size as u64)
    }

    fn grow(&self, pages: u64) -> io::Result<()> {
        match self.pages()? < pages {
            true => self.handle.set_len(self.at(pages)),
            false => Ok(()),
        }
    }

    fn truncate(&self, pages: u64) -> io::Result<()> {
        match self.pages()? > pages {
            true => self.handle.set_len(self.at(pages)),
            false => Ok(()),
        }
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        {
            let state = &mut *self.handle.lock();
            for read in reads.iter_mut() {
                self.enter(state, read.page, false);
                let effect = state.begin(DiskOperation::Read, &self.handle, Some(read.page));
                let at = self.at(read.page);
                read.outcome = effect.and_then(|effect| {
                    if let Some(FaultEffect::Crash { seed }) = effect {
                        state.crash(seed);
                        return Err(PowerOff.into());
                    }
                    self.handle.apply_read(state, effect, at, read.buffer).map(drop)
                });
            }
        }
        for read in reads.iter() {
            self.handle.notify_observer(DiskOperation::Read, Some(read.page));
        }
        let state = &mut *self.handle.lock();
        for read in reads {
            self.leave(state, read.page, false);
            if let Err(off) = state.check_power(self.handle.start) {
                read.outcome = Err(off);
            }
        }
        None
    }

    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        let write_ahead_violations = self.write_ahead_violations(writes);
        let hash = |write: &Write<'_>| xxh3_64(write.buffer);
        let observed = self.handle.is_observed();
        let before: Vec<u64> = match observed {
            true => writes.iter().map(hash).collect(),
            false => Vec::new(),
        };
        {
            let state = &mut *self.handle.lock();
            state.violations.extend(write_ahead_violations);
            self.submit(state, writes);
        }
        for write in writes.iter().filter(|_| observed) {
            self.handle.notify_observer(DiskOperation::Write, Some(write.page));
        }
        let state = &mut *self.handle.lock();
        for (at, write) in writes.iter_mut().enumerate() {
            self.leave(state, write.page, true);
            if before.get(at).is_some_and(|&before| before != hash(write)) {
                state.violations.push(Violation::Changed { file: self.handle.name.to_string(), page: write.page });
            }
            if let Err(off) = state.check_power(self.handle.start) {
                write.outcome = Err(off);
            }
        }
        None
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync()
    }

    fn describe(&self) -> String {
        format!("simulated disk with faults, file {}", self.handle.name)
    }
}
