//! Which process has a lock on a database.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::open_regular;
use super::owner::FoundProcesses;
use crate::owner::{OWNED, OWNED_BYTES};

/// A process that has a lock on a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The process; `None` if it is not found, because it is in another container or another user's.
    pub process: Option<u32>,
    /// True if it lets no other process read or write. A process with the VFS has such a lock from its first access on;
    /// SQLite alone has it while it writes in place, or with `locking_mode=EXCLUSIVE`.
    pub is_exclusive: bool,
    /// True if the process is not found, and the system does not show this user the descriptors of some processes: then it
    /// may be another user's.
    pub may_be_hidden: bool,
    /// True if the lock is as processes with the VFS have it: one of an open file description, for writing, on exactly the bytes
    /// that SQLite locks and the one behind them. SQLite's own VFS has locks of the process; another VFS may have locks of a
    /// description, and none on that byte.
    pub is_of_vfs: bool,
}

// The bytes that SQLite locks, in every database (os.h: PENDING_BYTE, RESERVED_BYTE, SHARED_FIRST, SHARED_SIZE).
pub(super) const PENDING: i64 = 0x4000_0000;
pub(super) const SHARED: i64 = PENDING + 2;
pub(super) const SHARED_BYTES: i64 = 510;

/// The process that has a lock on an open database, first the one that keeps others out. The question takes no lock. The
/// system does not name a process that has locked the file by an open file description, as those with the VFS do.
pub fn lock_holder(file: &File) -> Option<LockHolder> {
    let holder = |found: libc::flock, is_exclusive| LockHolder {
        process: u32::try_from(found.l_pid).ok().filter(|it| *it > 0),
        is_exclusive,
        may_be_hidden: false,
        is_of_vfs: is_of_vfs(&found),
    };
    // Only a lock for writing is in the way of one for reading.
    let exclusive = in_the_way(file, libc::F_RDLCK as i16, SHARED, SHARED_BYTES);
    let any = || in_the_way(file, libc::F_WRLCK as i16, PENDING, SHARED_BYTES + 2);
    exclusive.map(|found| holder(found, true)).or_else(|| any().map(|found| holder(found, false)))
}

/// True if a lock is that of `owner::lock_alone`.
fn is_of_vfs(found: &libc::flock) -> bool {
    let kind = (found.l_type, found.l_start, found.l_len);
    let wanted = lock(libc::F_WRLCK as i16, OWNED, OWNED_BYTES);
    // The system says -1 where the lock is that of no process (fcntl_locking(2)).
    found.l_pid == -1 && kind == (wanted.l_type, wanted.l_start, wanted.l_len)
}

impl LockHolder {
    /// The holder with the process that `/proc` shows, where the lock itself names none. Of processes that share the lock, as
    /// a child of fork() does with its parent, it is the one that says how the database is.
    pub(super) fn found_in(mut self, processes: &FoundProcesses) -> LockHolder {
        if self.process.is_some() {
            return self;
        }
        let says = processes.health.as_ref().map(|health| health.process);
        let locks = processes.locks.iter();
        let mut alike = locks.filter(|lock| lock.is_exclusive == self.is_exclusive);
        let speaker = alike.clone().find(|lock| Some(lock.process) == says);
        let found = speaker.or_else(|| alike.next());
        self.process = found.map(|lock| lock.process);
        self.may_be_hidden = found.is_none() && processes.is_partial;
        self
    }
}

fn lock(kind: i16, at: i64, bytes: i64) -> libc::flock {
    // SAFETY: all zeros are a value of the structure.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind;
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = at as libc::off_t;
    lock.l_len = bytes as libc::off_t;
    lock
}

/// The lock that would keep this process from locking bytes.
fn in_the_way(file: &File, kind: i16, at: i64, bytes: i64) -> Option<libc::flock> {
    let mut lock = lock(kind, at, bytes);
    // SAFETY: the descriptor is open, and the structure lives until the call returns.
    let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut lock) };
    (code == 0 && lock.l_type != libc::F_UNLCK as i16).then_some(lock)
}

/// Opens a database for writing, and locks it against all other processes until the file is closed. The lock is that of the
/// open file description, which no other `close()` of this process drops.
///
/// # Errors
///
/// `WouldBlock` if another process has a lock on it, and any error of opening it.
pub(crate) fn open_locked(path: &Path) -> io::Result<File> {
    let file = open_regular(path, OpenOptions::new().read(true).write(true).to_owned())?;
    let lock = lock(libc::F_WRLCK as i16, PENDING, SHARED_BYTES + 2);
    // SAFETY: the descriptor is open, and the structure lives until the call returns.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}
