//! A VFS of SQLite's over a simulated disk, on which crashes and errors happen when a test says so.

use std::ffi::{CStr, c_int};
use std::sync::Mutex;

use ebbpool::storage::{FaultyDisk, FaultyFile};
use ebbpool_sqlite::ffi;

use super::shim::{self, Below, FileCall, Layer, Opening, VfsBelow, VfsCall};

/// The disk of one VFS, which a test exchanges.
pub struct Machine {
    name: &'static CStr,
    disk: Mutex<FaultyDisk>,
    left_out: Mutex<Option<Step>>,
    random: Mutex<fastrand::Rng>,
}

/// A sync, by what was written to the file since the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The header of `-ebb`.
    DeltasHeader,
    /// Records of `-ebb`.
    Deltas,
    /// The header of `-wal`.
    WalHeader,
    /// Frames of `-wal`.
    Wal,
    /// `-wal` was cut off.
    WalCutOff,
    /// Pages of the database.
    InPlace,
    /// Only pages beyond the end of the database.
    Appended,
    /// The first page of an empty database.
    FirstPage,
    /// The byte of the database that keeps plain SQLite from writing: set, or set back.
    Mark,
    Unmark,
}

impl Step {
    /// What a write, of a file that had a length, makes the next sync.
    fn of_write(path: &str, at: u64, bytes: &[u8], length: u64) -> Step {
        if path.ends_with("-ebb") {
            // Its two slots; the second one gets the header with the first record.
            return if at < 1024 { Step::DeltasHeader } else { Step::Deltas };
        }
        if path.ends_with("-wal") {
            return if at == 0 { Step::WalHeader } else { Step::Wal };
        }
        match (at, bytes) {
            // The mark comes with the number of the log's generation, in bytes that SQLite reserves.
            (18, [3, ..]) => Step::Mark,
            (18, [_]) => Step::Unmark,
            (72, number) if number.len() == 8 => match number.iter().any(|byte| *byte != 0) {
                true => Step::Mark,
                false => Step::Unmark,
            },
            (0, _) if length == 0 => Step::FirstPage,
            (at, _) if length > 0 && at >= length => Step::Appended,
            _ => Step::InPlace,
        }
    }
}

impl Machine {
    /// Registers a VFS with a name over an empty disk.
    pub fn register(name: &str) -> &'static Machine {
        let machine: &'static Machine = Box::leak(Box::new(Machine {
            name: shim::leaked(name),
            disk: Mutex::new(FaultyDisk::new(0)),
            left_out: Mutex::new(None),
            random: Mutex::new(fastrand::Rng::with_seed(0)),
        }));
        shim::register(machine.name, None, machine);
        machine
    }

    pub fn name(&self) -> &CStr {
        self.name
    }

    /// Puts another disk in.
    pub fn insert(&self, disk: &FaultyDisk) {
        *self.disk.lock().unwrap() = disk.clone();
    }

    /// Leaves out, from now on, all syncs of one kind.
    pub fn leave_out(&self, step: Option<Step>) {
        *self.left_out.lock().unwrap() = step;
    }

    /// Makes random bytes the same in each run.
    pub fn seed(&self, seed: u64) {
        *self.random.lock().unwrap() = fastrand::Rng::with_seed(seed);
    }

    fn file(&self, path: &str) -> FaultyFile {
        self.disk.lock().unwrap().bytes(path)
    }
}

/// A file of the disk.
pub struct Open {
    file: FaultyFile,
    is_temporary: bool,
    path: String,
    state: Mutex<OpenState>,
}

#[derive(Default)]
struct OpenState {
    /// The lock.
    level: c_int,
    /// What was done since the last sync.
    step: Option<Step>,
}

fn code(answer: std::io::Result<()>, failed: c_int) -> c_int {
    match answer {
        Ok(()) => ffi::OK,
        Err(error) if error.raw_os_error() == Some(ebbpool::storage::ENOSPC) => ffi::FULL,
        Err(_) => failed,
    }
}

impl Layer for Machine {
    type Open = Open;

    /// Without shared memory: a WAL has one connection to itself.
    const VERSION: c_int = 1;

    fn open(&'static self, opening: &Opening<'_>) -> (c_int, Option<Open>) {
        // Temporary files are on a disk of their own: no fault reaches them, and no crash keeps them.
        let is_temporary = opening.path.is_empty();
        let file = match is_temporary {
            true => FaultyDisk::new(1).bytes("temporary"),
            false => self.file(opening.path),
        };
        match file.len() {
            Err(_) => return (ffi::CANTOPEN, None),
            Ok(0) if opening.flags & (ffi::OPEN_CREATE | ffi::OPEN_MAIN_DB) == 0 => return (ffi::CANTOPEN, None),
            Ok(_) => {}
        }
        (opening.accept(), Some(Open { file, is_temporary, path: opening.path.to_owned(), state: Mutex::default() }))
    }

    fn call(&self, open: &Open, call: FileCall<'_>, _: &Below) -> c_int {
        let mut state = open.state.lock().unwrap();
        match call {
            FileCall::Close | FileCall::ShmBarrier | FileCall::ShmUnmap { .. } => ffi::OK,
            FileCall::Read { into, at } => {
                shim::read_whole(into, |done, rest| open.file.read_at(at as u64 + done, rest)).unwrap_or(ffi::IOERR)
            }
            FileCall::Write { from, at } => {
                let step = Step::of_write(&open.path, at as u64, from, open.file.len().unwrap_or(0));
                // A header and its records are one sync where the header was not synced on its own.
                if state.step.is_none() || !matches!(step, Step::Mark | Step::Unmark | Step::Appended) {
                    state.step = Some(step);
                }
                code(open.file.write_at(at as u64, from), ffi::IOERR_WRITE)
            }
            FileCall::Truncate { length } => {
                if open.path.ends_with("-wal") {
                    state.step = Some(Step::WalCutOff);
                }
                code(open.file.set_len(length as u64), ffi::IOERR)
            }
            FileCall::Sync { .. } => {
                let step = state.step.take();
                if open.is_temporary || (step.is_some() && *self.left_out.lock().unwrap() == step) {
                    return ffi::OK;
                }
                code(open.file.sync(), ffi::IOERR_FSYNC)
            }
            FileCall::FileSize { out } => match open.file.len() {
                Ok(length) => {
                    *out = length as i64;
                    ffi::OK
                }
                Err(_) => ffi::IOERR,
            },
            FileCall::Lock { level } => {
                state.level = state.level.max(level);
                ffi::OK
            }
            FileCall::Unlock { level } => {
                state.level = level;
                ffi::OK
            }
            FileCall::CheckReservedLock { out } => {
                *out = c_int::from(state.level >= ffi::LOCK_RESERVED);
                ffi::OK
            }
            FileCall::FileControl { .. } => ffi::NOTFOUND,
            FileCall::SectorSize => 512,
            FileCall::DeviceCharacteristics => ffi::IOCAP_POWERSAFE_OVERWRITE,
            FileCall::ShmMap { .. } | FileCall::ShmLock { .. } => ffi::IOERR,
        }
    }

    fn vfs_call(&self, call: VfsCall<'_>, _: &VfsBelow) -> c_int {
        match call {
            VfsCall::Delete { path, durable } => {
                let file = self.file(path.to_str().unwrap());
                match file.is_empty() {
                    Ok(true) => return ffi::IOERR_DELETE_NOENT,
                    Ok(false) => {}
                    Err(_) => return ffi::IOERR,
                }
                let deleted = file.set_len(0);
                code(deleted.and_then(|()| if durable != 0 { file.sync() } else { Ok(()) }), ffi::IOERR)
            }
            VfsCall::Access { path, out, .. } => match self.file(path.to_str().unwrap()).len() {
                Ok(length) => {
                    *out = c_int::from(length > 0);
                    ffi::OK
                }
                Err(_) => ffi::IOERR,
            },
            VfsCall::FullPathname { path, out } => VfsCall::give_back(path, out),
            // The same bytes in each run of a case.
            VfsCall::Randomness { out } => {
                self.random.lock().unwrap().fill(out);
                out.len() as c_int
            }
            // Nothing changes while a connection waits: all of them are of one thread.
            VfsCall::Sleep { microseconds } => microseconds,
        }
    }
}
