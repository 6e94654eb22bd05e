//! Which process has a lock on a database.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

/// A process that has a lock on a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The process; `None` if it is in another container, or has locked the file through a descriptor of its own kind.
    pub process: Option<u32>,
    /// True if it lets no other process read or write. A process with the VFS has such a lock from its first access on;
    /// SQLite alone has it while it writes in place, or with `locking_mode=EXCLUSIVE`.
    pub is_exclusive: bool,
}

// The bytes that SQLite locks, in every database (os.h: PENDING_BYTE, RESERVED_BYTE, SHARED_FIRST, SHARED_SIZE).
const PENDING: i64 = 0x4000_0000;
const SHARED: i64 = PENDING + 2;
const SHARED_BYTES: i64 = 510;

/// The process that has a lock on an open database, first the one that keeps others out. The question takes no lock.
pub fn lock_holder(file: &File) -> Option<LockHolder> {
    let holder = |process: i32, is_exclusive| LockHolder {
        process: u32::try_from(process).ok().filter(|process| *process > 0),
        is_exclusive,
    };
    // Only a lock for writing is in the way of one for reading.
    let exclusive = in_the_way(file, libc::F_RDLCK as i16, SHARED, SHARED_BYTES);
    let any = || in_the_way(file, libc::F_WRLCK as i16, PENDING, SHARED_BYTES + 2);
    exclusive
        .map(|process| holder(process, true))
        .or_else(|| any().map(|process| holder(process, false)))
}

/// The process whose lock would keep this one from locking bytes.
fn in_the_way(file: &File, kind: i16, at: i64, bytes: i64) -> Option<i32> {
    // SAFETY: all zeros are a value of the structure.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind;
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = at as libc::off_t;
    lock.l_len = bytes as libc::off_t;
    // SAFETY: the descriptor is open, and the structure lives until the call returns.
    let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut lock) };
    (code == 0 && lock.l_type != libc::F_UNLCK as i16).then_some(lock.l_pid)
}
