//! A simulated disk that fails on demand: for tests of the pool, and of programs that use it.
//!
//! ```
//! use ebbpool::storage::{EIO, Fault, FaultyDisk, DiskOperation, PowerOff, Storage, Write};
//!
//! let disk = FaultyDisk::new(42);
//! let data = disk.pages("data", 4096);
//! let log = disk.bytes("log");
//!
//! // The second write to the data fails; the power fails during the third sync of any file.
//! disk.inject(Fault::failing(DiskOperation::Write, EIO).in_file("data").nth(2));
//! disk.inject(Fault::crash(DiskOperation::Sync, 7).nth(3));
//!
//! log.append(b"begin")?;
//! log.sync()?;
//! let mut writes = [1, 2].map(|page| Write::new(page, &[7; 4096]));
//! data.write(&mut writes);
//! assert!(writes[0].outcome.is_ok() && writes[1].outcome.is_err());
//! data.sync()?;
//! log.append(b"commit")?;
//! assert!(PowerOff::caused(&log.sync().unwrap_err()));
//!
//! disk.restart();
//! let mut found = [0; 64];
//! let length = disk.bytes("log").read_at(0, &mut found)?;
//! assert!(found[..length].starts_with(b"begin"));
//! # Ok::<(), std::io::Error>(())
//! ```

mod bytes;
mod dice;
mod fault;
mod pages;
mod platter;
#[cfg(test)]
mod tests;
mod watch;

use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::log::{Log, Lsn};

use dice::Dice;
use fault::{FaultEffect, Schedule};
use platter::Platter;
use watch::LogWatch;

pub use bytes::FaultyFile;
pub use fault::{DiskOperation, Fault, PowerOff};
pub use pages::FaultyStorage;
pub use watch::Violation;

/// The number of bytes that a crash does not tear: a write may reach the disk in part, but a sector never does.
pub const SECTOR: usize = 512;

/// Linux's error number for a device that failed.
pub const EIO: i32 = 5;

/// Linux's error number for a device that is full.
pub const ENOSPC: i32 = 28;

/// Linux's error number for a call that a signal interrupted.
pub const EINTR: i32 = 4;

/// A simulated disk: a few files in memory, behind a volatile cache that they share.
///
/// Reads return what was written at once, and it survives a [`crash`](Self::crash) once the file was synced. The seed
/// decides which of the other writes survive a crash: all, none, or any subset, and of each write any subset of its
/// [sectors](SECTOR). A sector that does not survive holds the old bytes or, rarely, garbage. A file that became
/// longer may have its old length. No other bytes appear, and garbage appears only in bytes that an unsynced write
/// covers.
///
/// The same calls, faults and seeds give the same bytes. Any thread may use a handle. Handles that were opened before
/// a crash fail even after [`restart`](Self::restart), like those of a process that the crash ended.
#[derive(Clone)]
pub struct FaultyDisk(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    watch: RwLock<Option<LogWatch>>,
    observer: RwLock<Option<Arc<Observer>>>,
}

type Observer = dyn Fn(&Io<'_>) + Send + Sync;

struct State {
    files: Vec<(String, Platter)>,
    schedule: Schedule,
    counts: IoCounts,
    dice: Dice,
    powered: bool,
    /// The number of the disk's start: handles of earlier starts fail.
    start: u32,
    in_flight: Vec<InFlight>,
    violations: Vec<Violation>,
    /// Bytes of all files together.
    capacity: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct InFlight {
    file: usize,
    page: u64,
    write: bool,
}

/// The numbers of operations that were called, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoCounts {
    /// Pages read, and reads of bytes.
    pub reads: u64,
    /// Pages written, and writes of bytes.
    pub writes: u64,
    /// Syncs of a file.
    pub syncs: u64,
    /// Changes of a file's length.
    pub resizes: u64,
}

impl IoCounts {
    /// The operations that change something: the number of places for a [crash](Fault::crash).
    pub fn changes(&self) -> u64 {
        self.writes + self.syncs + self.resizes
    }

    fn count(&mut self, operation: DiskOperation) {
        match operation {
            DiskOperation::Read => self.reads += 1,
            DiskOperation::Write => self.writes += 1,
            DiskOperation::Sync => self.syncs += 1,
            _ => self.resizes += 1,
        }
    }
}

/// An operation under way, as an [observer](FaultyDisk::observe) sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Io<'a> {
    /// The file's name.
    pub file: &'a str,
    /// The operation: a read, a write, a sync, or a resize.
    pub operation: DiskOperation,
    /// The page, if a page is read or written.
    pub page: Option<u64>,
}

impl FaultyDisk {
    /// An empty disk. The seed decides what no fault specifies, such as which sectors of a [torn
    /// write](Fault::torn_write) are written.
    pub fn new(seed: u64) -> Self {
        FaultyDisk::with(seed, Vec::new())
    }

    fn with(seed: u64, files: Vec<(String, Platter)>) -> Self {
        FaultyDisk(Arc::new(Shared {
            state: Mutex::new(State {
                files,
                schedule: Schedule::default(),
                counts: IoCounts::default(),
                dice: Dice::new(seed),
                powered: true,
                start: 0,
                in_flight: Vec::new(),
                violations: Vec::new(),
                capacity: u64::MAX,
            }),
            watch: RwLock::new(None),
            observer: RwLock::new(None),
        }))
    }

    /// A file of pages of `page_size` bytes each, which is created if there is none of that name.
    pub fn pages(&self, name: &str, page_size: usize) -> FaultyStorage {
        FaultyStorage::new(self.open(name), page_size)
    }

    /// A file of bytes, such as a log, which is created if there is none of that name.
    pub fn bytes(&self, name: &str) -> FaultyFile {
        FaultyFile::new(self.open(name))
    }

    fn open(&self, name: &str) -> Handle {
        let mut state = self.0.state.lock();
        let existing = state.files.iter().position(|(file, _)| file == name);
        let file = existing.unwrap_or_else(|| {
            state.files.push((name.into(), Platter::default()));
            state.files.len() - 1
        });
        Handle { disk: self.clone(), name: name.into(), file, start: state.start }
    }

    /// Injects a fault.
    pub fn inject(&self, fault: Fault) {
        self.0.state.lock().schedule.add(fault);
    }

    /// Removes all faults that have not happened yet, and the limit of [`set_capacity`](Self::set_capacity). The effects of
    /// past faults remain.
    pub fn heal(&self) {
        let mut state = self.0.state.lock();
        state.schedule.clear();
        state.capacity = u64::MAX;
    }

    /// From now on a write or resize that would make all files together longer than this many bytes fails with [`ENOSPC`], as
    /// on a full file system: bytes that are there or [reserved](FaultyFile::reserve) can be written, and what becomes shorter makes
    /// room. A write that fails so has written what there was room for.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.state.lock().capacity = bytes;
    }

    /// The bytes of all files together, reserved ones included.
    pub fn used(&self) -> u64 {
        self.0.state.lock().used()
    }

    /// The power fails now. Every call fails with [`PowerOff`] until [`restart`](Self::restart); handles that were
    /// opened before fail for ever. The seed decides what survives of the writes that were not synced.
    pub fn crash(&self, seed: u64) {
        self.0.state.lock().crash(seed);
    }

    /// Switches the power on again. Without a crash before, the disk crashes first, with a seed of its own. Files
    /// have to be opened again. Faults that have not happened yet remain.
    pub fn restart(&self) {
        let mut state = self.0.state.lock();
        if state.powered {
            let seed = state.dice.below(u64::MAX);
            state.crash(seed);
        }
        state.powered = true;
        state.start += 1;
        state.in_flight.clear();
    }

    /// True from a crash until the disk is restarted.
    pub fn is_off(&self) -> bool {
        !self.0.state.lock().powered
    }

    /// A separate disk with the same bytes as this one has at this moment, durable ones and others, and without
    /// faults. A test can crash the copy as if it were this disk, and let this one go on.
    pub fn fork(&self, seed: u64) -> FaultyDisk {
        FaultyDisk::with(seed, self.0.state.lock().files.clone())
    }

    /// Flips one bit of a file, on the disk and in its cache; false if the file is shorter.
    pub fn flip(&self, file: &str, byte: u64, bit: u8) -> bool {
        let mut state = self.0.state.lock();
        let byte = usize::try_from(byte).unwrap_or(usize::MAX);
        let mut files = state.files.iter_mut();
        let file = files.find(|(name, _)| name == file);
        file.is_some_and(|(_, platter)| platter.flip(byte, bit))
    }

    /// The operations so far, failed ones included.
    pub fn counts(&self) -> IoCounts {
        self.0.state.lock().counts
    }

    /// From now on it is a [violation](Violation::WriteAhead) to write a page whose LSN is beyond the durable LSN of
    /// the log. `lsn_of` returns the LSN of a page, or `None` if it has none; use
    /// [`page_lsn`](crate::storage::page_lsn) for pages of a pool with checked pages. The disk holds only a weak
    /// reference to the log.
    pub fn watch(&self, log: &Arc<dyn Log>, lsn_of: fn(&[u8]) -> Option<Lsn>) {
        *self.0.watch.write() = Some(LogWatch::new(log, lsn_of));
    }

    /// The violations so far; empty if there are none.
    pub fn violations(&self) -> Vec<Violation> {
        self.0.state.lock().violations.clone()
    }

    /// Calls `see` during every operation, before it is acknowledged: a write is not synced then, and a sync has not
    /// synced anything yet. `see` may use the disk, crash it, or change the buffer's page through the pool.
    pub fn observe(&self, see: impl Fn(&Io<'_>) + Send + Sync + 'static) {
        *self.0.observer.write() = Some(Arc::new(see));
    }

    /// Removes the observer that [`observe`](Self::observe) set.
    pub fn observe_no_more(&self) {
        *self.0.observer.write() = None;
    }
}

impl fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        let files: Vec<_> = state.files.iter().map(|(n, p)| (n, p.len())).collect();
        f.debug_struct("FaultyDisk")
            .field("files", &files)
            .field("powered", &state.powered)
            .field("counts", &state.counts)
            .finish_non_exhaustive()
    }
}

impl State {
    fn crash(&mut self, seed: u64) {
        if !self.powered {
            return;
        }
        let mut dice = Dice::new(seed);
        for (_, platter) in &mut self.files {
            platter.crash(&mut dice);
        }
        self.powered = false;
    }

    fn used(&self) -> u64 {
        self.files.iter().map(|(_, platter)| platter.taken() as u64).sum()
    }

    /// The length up to which a file may grow.
    fn longest(&self, file: usize) -> u64 {
        let taken = self.files[file].1.taken() as u64;
        taken.saturating_add(self.capacity.saturating_sub(self.used()))
    }

    fn check_power(&self, start: u32) -> io::Result<()> {
        match self.powered && self.start == start {
            true => Ok(()),
            false => Err(PowerOff.into()),
        }
    }

    /// Counts an operation, and returns the effect of a fault on it.
    fn begin(&mut self, operation: DiskOperation, file: &Handle, page: Option<u64>) -> io::Result<Option<FaultEffect>> {
        self.check_power(file.start)?;
        self.counts.count(operation);
        Ok(self.schedule.next(operation, &file.name, page))
    }
}

/// A file, as it was opened in one start of the disk.
#[derive(Clone)]
struct Handle {
    disk: FaultyDisk,
    name: Arc<str>,
    file: usize,
    start: u32,
}

impl Handle {
    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        self.disk.0.state.lock()
    }

    /// Calls the observer. The caller does not hold the lock.
    fn notify_observer(&self, operation: DiskOperation, page: Option<u64>) {
        let observer = self.disk.0.observer.read().clone();
        if let Some(observer) = observer {
            let file = &self.name;
            observer(&Io { file, operation, page });
        }
    }

    fn is_observed(&self) -> bool {
        self.disk.0.observer.read().is_some()
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.lock();
        state.check_power(self.start)?;
        Ok(state.files[self.file].1.len() as u64)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        {
            let state = &mut *self.lock();
            let effect = state.begin(DiskOperation::Resize, self, None)?;
            match effect {
                Some(FaultEffect::Fail(errno)) => return Err(io::Error::from_raw_os_error(errno)),
                _ if length > state.longest(self.file) => {
                    return Err(io::Error::from_raw_os_error(ENOSPC));
                }
                _ => state.files[self.file].1.set_len(length)?,
            }
            if let Some(FaultEffect::Crash { seed }) = effect {
                state.crash(seed);
            }
        }
        self.notify_observer(DiskOperation::Resize, None);
        self.lock().check_power(self.start)
    }

    fn reserve(&self, to: u64) -> io::Result<()> {
        let state = &mut *self.lock();
        state.check_power(self.start)?;
        match to > state.longest(self.file) {
            true => Err(io::Error::from_raw_os_error(ENOSPC)),
            false => state.files[self.file].1.reserve(to),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let effect = {
            let state = &mut *self.lock();
            let effect = state.begin(DiskOperation::Sync, self, None)?;
            if let Some(FaultEffect::SyncDrops(_)) = effect {
                // At once, so that a sync that begins while this one is under way has nothing left to do and
                // succeeds, as with a kernel that reports an error only once.
                let platter = &mut state.files[self.file].1;
                platter.sync_and_drop(&mut state.dice);
            }
            effect
        };
        self.notify_observer(DiskOperation::Sync, None);
        let state = &mut *self.lock();
        state.check_power(self.start)?;
        match effect {
            Some(FaultEffect::SyncLies) => {}
            Some(FaultEffect::Fail(errno) | FaultEffect::SyncDrops(errno)) => {
                return Err(io::Error::from_raw_os_error(errno));
            }
            Some(FaultEffect::Crash { seed }) => {
                state.crash(seed);
                return Err(PowerOff.into());
            }
            _ => state.files[self.file].1.sync(),
        }
        Ok(())
    }

    /// Carries out a write with the effect of a fault on it; `to` maps its place to an offset in bytes.
    fn apply_write(
        &self,
        state: &mut State,
        effect: Option<FaultEffect>,
        to: impl Fn(u64) -> u64,
        place: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        let longest = state.longest(self.file);
        let platter = &mut state.files[self.file].1;
        match effect {
            Some(FaultEffect::Fail(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(FaultEffect::Part(errno)) => {
                platter.write_part(to(place), bytes, &mut state.dice)?;
                Err(io::Error::from_raw_os_error(errno))
            }
            Some(FaultEffect::Lost) => Ok(()),
            Some(FaultEffect::Misplaced { to: other }) => platter.write(to(other), bytes),
            _ => {
                let offset = to(place);
                let room = longest.saturating_sub(offset).min(bytes.len() as u64) as usize;
                if room > 0 {
                    platter.write(offset, &bytes[..room])?;
                }
                match room == bytes.len() {
                    true => Ok(()),
                    false => Err(io::Error::from_raw_os_error(ENOSPC)),
                }
            }
        }
    }

    fn apply_read(&self, state: &mut State, effect: Option<FaultEffect>, at: u64, into: &mut [u8]) -> io::Result<usize> {
        if let Some(FaultEffect::Fail(errno)) = effect {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let length = state.files[self.file].1.read(at, into);
        if effect == Some(FaultEffect::Flip) && !into.is_empty() {
            let bit = state.dice.below(into.len() as u64 * 8) as usize;
            into[bit / 8] ^= 1 << (bit % 8);
        }
        Ok(length)
    }
}
