//! What keeps a database this process's alone, and its files those that it has opened.
//!
//! The lock is one of Linux's open-file-description locks, on a descriptor of its own. A lock of the usual kind belongs to the
//! process, which loses it as soon as it closes any descriptor of the file: after its own backup, a checksum, a download.
//! Both kinds conflict with each other, so that SQLite without this library finds the database busy.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::{Mutex, MutexGuard};

use crate::code::{SqliteCode, SqliteResult};
use crate::disk::BaseFile;
use crate::ffi;
use crate::fork;
use crate::sync::lock;

/// The bytes that an owner locks: those that SQLite locks in every database (os.h: PENDING_BYTE up to the last of SHARED_SIZE), and
/// one more, by which its lock differs from that of any other VFS.
pub(crate) const OWNED: i64 = 0x4000_0000;
pub(crate) const OWNED_BYTES: i64 = 2 + 510 + 1;

/// A lock that keeps all other processes, and SQLite's own VFS in this one, away from a database. Dropping it lets go.
pub(crate) struct OwnerLock {
    file: Option<File>,
}

/// Descriptors of databases whose lock another has. Closing one would drop the locks that SQLite's own VFS may have in this process,
/// so that the next attempt uses it again.
static UNUSED: Mutex<Vec<(FileIdentity, File)>> = Mutex::new(Vec::new());
/// Descriptors that are not locked are closed from this number on, where that does no harm.
const MOST_UNUSED: usize = 16;

/// A file of the file system, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileIdentity {
    /// The file that has a path now; `None` if there is none, as on a simulated disk.
    pub(crate) fn for_path(path: &str) -> Option<FileIdentity> {
        std::fs::metadata(path).ok().map(|metadata| FileIdentity { device: metadata.dev(), inode: metadata.ino() })
    }

    /// True if a file that was opened has lost its name, or another file has it by now.
    pub(crate) fn is_other(path: &str, opened: &Option<FileIdentity>) -> bool {
        opened.is_some() && FileIdentity::for_path(path) != *opened
    }
}

/// Has the disk reserve room for a file up to a length, and makes the file that long, without writing: false where the system
/// cannot do that, or the file is none of the system.
pub(crate) fn reserve(path: &str, file: Option<FileIdentity>, length: u64) -> SqliteResult<bool> {
    let Ok(descriptor) = OpenOptions::new().write(true).open(path) else {
        return Ok(false);
    };
    if file.is_none() || identity_of(&descriptor) != file {
        return Ok(false);
    }
    reserve_in(&descriptor, length)
}

#[cfg(target_os = "linux")]
fn reserve_in(file: &File, length: u64) -> SqliteResult<bool> {
    // SAFETY: the descriptor is open.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length as libc::off_t) } == 0 {
        return Ok(true);
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => Err(SqliteCode(ffi::FULL)),
        _ => Ok(false),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve_in(_file: &File, _length: u64) -> SqliteResult<bool> {
    Ok(false)
}

/// True if a file is a database of SQLite's.
fn is_database(path: &str) -> bool {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let mut begin = [0; MAGIC.len()];
    // Opening a pipe would wait for a writer.
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let mut read = || File::open(path)?.read_exact(&mut begin);
    is_file && read().is_ok() && begin == *MAGIC
}

/// Gives a file that has the name of a log another name, which no file has, if there is one.
///
/// # Errors
///
/// `CANT_OPEN` if it is a database, or cannot be renamed.
pub(crate) fn move_aside(path: &str) -> SqliteResult<()> {
    if is_database(path) {
        tracing::warn!(%path, "another database has the name of the log");
        return Err(SqliteCode::CANT_OPEN);
    }
    let names = (1..).map(|number| match number {
        1 => format!("{path}.stale"),
        _ => format!("{path}.stale.{number}"),
    });
    let mut free = names.filter(|name| std::fs::symlink_metadata(name).is_err());
    let Some(stale) = free.next() else {
        return Err(SqliteCode::CANT_OPEN);
    };
    tracing::warn!(%path, %stale, "another file has the name of the log, and gets another one");
    match std::fs::rename(path, stale) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(SqliteCode::CANT_OPEN),
        _ => Ok(()),
    }
}

/// Locks a database for this process alone. `file` is its handle of the VFS below, which keeps its own lock where the database
/// is no file of the system: on a simulated disk.
///
/// # Errors
///
/// `BUSY` if another process, or SQLite's own VFS in this one, has it open and locked; `IOERR_LOCK` if the file system has no
/// such locks.
pub(crate) fn lock_alone(path: &str, file: &mut BaseFile) -> SqliteResult<OwnerLock> {
    let _gate = fork::gate();
    // SQLite's own VFS knows which of its handles in this process have locks.
    file.lock_exclusively().map_err(|_| SqliteCode::BUSY)?;
    if cfg!(not(target_os = "linux")) || FileIdentity::for_path(path).is_none() {
        return Ok(OwnerLock { file: None });
    }
    file.unlock();
    let descriptor = descriptor_of(path)?;
    match set_lock(&descriptor, libc::F_WRLCK) {
        Ok(()) => Ok(OwnerLock { file: Some(descriptor) }),
        Err(error) => {
            store_unused(descriptor);
            Err(error)
        }
    }
}

fn identity_of(file: &File) -> Option<FileIdentity> {
    file.metadata().ok().map(|metadata| FileIdentity { device: metadata.dev(), inode: metadata.ino() })
}

/// The file of a descriptor; `None` if it is closed. A child of `fork` may call it.
pub(crate) fn identity_of_descriptor(descriptor: i32) -> Option<FileIdentity> {
    // SAFETY: all zeros are a value of the structure, which the call fills.
    let (status, found) = unsafe {
        let mut status: libc::stat64 = std::mem::zeroed();
        let found = libc::fstat64(descriptor, &mut status) == 0;
        (status, found)
    };
    found.then_some(FileIdentity { device: status.st_dev, inode: status.st_ino })
}

fn descriptor_of(path: &str) -> SqliteResult<File> {
    let wanted = FileIdentity::for_path(path);
    let mut unused = lock(&UNUSED);
    if let Some(index) = unused.iter().position(|(identity, _)| Some(*identity) == wanted) {
        return Ok(unused.swap_remove(index).1);
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC)
        .open(path)
        .map_err(|_| SqliteCode::CANT_OPEN)?;
    if let Some(identity) = identity_of(&file) {
        fork::note_descriptor(file.as_raw_fd(), identity);
    }
    Ok(file)
}

/// Keeps a descriptor that is not locked for the next attempt, and closes some of the others. The caller has the gate of `fork`.
fn store_unused(file: File) {
    let mut unused = lock(&UNUSED);
    if let Some(identity) = identity_of(&file) {
        unused.push((identity, file));
    }
    let mut excess = unused.len().saturating_sub(MOST_UNUSED);
    unused.retain(|(_, file)| {
        // With the lock no handle of SQLite's own VFS has one, which closing would drop.
        let goes = excess > 0 && set_lock(file, libc::F_WRLCK).is_ok();
        if goes {
            excess -= 1;
            fork::forget_descriptor(file.as_raw_fd());
        }
        !goes
    });
}

/// The descriptors that are not locked, which a child of `fork` forgets.
pub(crate) fn lock_unused() -> MutexGuard<'static, Vec<(FileIdentity, File)>> {
    lock(&UNUSED)
}

#[cfg(target_os = "linux")]
fn set_lock(file: &File, kind: i32) -> SqliteResult<()> {
    // SAFETY: all zeros are a value of the structure; this kind of lock requires that the process is 0.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as i16;
    range.l_whence = libc::SEEK_SET as i16;
    range.l_start = OWNED as libc::off_t;
    range.l_len = OWNED_BYTES as libc::off_t;
    // SAFETY: the descriptor is open, and the structure lives until the call returns.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES | libc::EINTR) => Err(SqliteCode::BUSY),
        _ => {
            tracing::error!(%error, "the file system has no open-file-description locks; without them a database is not safe");
            Err(SqliteCode(ffi::IOERR_LOCK))
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn set_lock(_file: &File, _kind: i32) -> SqliteResult<()> {
    Ok(())
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        let _gate = fork::gate();
        if let Some(file) = self.file.take() {
            // In words, because a process that is being started may have a copy of the descriptor. No handle of this VFS has a lock
            // before the descriptor is closed, which would drop it.
            if set_lock(&file, libc::F_UNLCK).is_err() {
                tracing::error!("a database cannot be unlocked before its descriptor is closed");
            }
            fork::forget_descriptor(file.as_raw_fd());
            drop(file);
        }
    }
}
