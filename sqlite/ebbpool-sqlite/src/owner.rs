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
use crate::disk::{BaseFile, FileIdentity, has_locks, identity_of, identity_of_descriptor, is_full};
use crate::ffi;
use crate::sync::{self, lock};

/// The bytes that an owner locks: those that SQLite locks in every database (os.h: PENDING_BYTE up to the last of SHARED_SIZE), and
/// one more, by which its lock differs from that of any other VFS.
pub(crate) const OWNED: i64 = 0x4000_0000;
pub(crate) const OWNED_BYTES: i64 = 2 + 510 + 1;

/// A lock that keeps all other processes, and SQLite's own VFS in this one, away from a database. Dropping it lets go.
pub(crate) struct OwnerLock {
    file: Option<File>,
}

impl OwnerLock {
    /// True if no name leads to the file any more.
    pub(crate) fn is_nameless(&self) -> bool {
        self.file.as_ref().and_then(|file| file.metadata().ok()).is_some_and(|metadata| metadata.nlink() == 0)
    }

    /// Has the disk reserve room for a file that is empty, and stays so, where the system can do that.
    ///
    /// # Errors
    ///
    /// `FULL`, if the disk has no such room.
    pub(crate) fn reserve_behind_end(&self, length: u64) -> SqliteResult<()> {
        self.file.as_ref().map_or(Ok(()), |file| reserve_in(file, true, length).map(drop))
    }
}

/// Descriptors of databases whose lock another has. Closing one would drop the locks that SQLite has on the same file in this
/// process, of any copy, so that the next attempt uses it again.
static UNUSED: Mutex<Vec<(FileIdentity, File)>> = Mutex::new(Vec::new());
/// The descriptors that this process locks with, or has locked with. A child closes its copies: with them the locks would outlive
/// the parent.
static DESCRIPTORS: Mutex<Vec<(i32, FileIdentity)>> = Mutex::new(Vec::new());
/// Descriptors that are not locked are closed from this number on, where that does no harm.
const MOST_UNUSED: usize = 16;

/// Has the disk reserve room for a file up to a length, and makes the file that long, without writing: false where the system
/// cannot do that, or the file is none of the system.
pub(crate) fn reserve(path: &str, file: Option<FileIdentity>, length: u64) -> SqliteResult<bool> {
    let Ok(descriptor) = OpenOptions::new().write(true).open(path) else {
        return Ok(false);
    };
    if file.is_none() || identity_of(&descriptor) != file {
        return Ok(false);
    }
    reserve_in(&descriptor, false, length)
}

#[cfg(target_os = "linux")]
fn reserve_in(file: &File, keeps_length: bool, length: u64) -> SqliteResult<bool> {
    let mode = if keeps_length { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
    // SAFETY: the descriptor is open.
    if unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, length as libc::off_t) } == 0 {
        return Ok(true);
    }
    match is_full(std::io::Error::last_os_error().raw_os_error()) {
        true => Err(SqliteCode(ffi::FULL)),
        false => Ok(false),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve_in(_file: &File, _keeps_length: bool, _length: u64) -> SqliteResult<bool> {
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
    let _gate = sync::gate();
    if cfg!(not(target_os = "linux")) || FileIdentity::for_path(path).is_none() {
        file.lock_exclusively().map_err(|_| SqliteCode::BUSY)?;
        return Ok(OwnerLock { file: None });
    }
    // Not also the lock of SQLite's own VFS: it belongs to the process, so that giving it up would drop the locks that another copy of
    // SQLite has. This one conflicts with the locks of all copies.
    let descriptor = descriptor_of(path)?;
    match set_lock(&descriptor, libc::F_WRLCK) {
        Ok(()) => Ok(OwnerLock { file: Some(descriptor) }),
        Err(error) => {
            store_unused(descriptor);
            Err(error)
        }
    }
}

/// Asks whether a database is locked, by another process or in this one, without changing anything. This comes before what cannot be
/// taken back, such as to have SQLite recover a database: its own locks do not stop it where another copy of SQLite in this process
/// has the database open.
///
/// # Errors
///
/// `BUSY` if it is.
pub(crate) fn ask(path: &str) -> SqliteResult<()> {
    let _gate = sync::gate();
    if cfg!(not(target_os = "linux")) || FileIdentity::for_path(path).is_none() {
        return Ok(());
    }
    let descriptor = descriptor_of(path)?;
    let asked = is_free(&descriptor);
    store_unused(descriptor);
    asked
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
        lock(&DESCRIPTORS).push((file.as_raw_fd(), identity));
    }
    Ok(file)
}

/// Keeps a descriptor that is not locked for the next attempt, and closes some of the others. The caller has the gate of `fork`.
fn store_unused(file: File) {
    let mut descriptors = lock(&UNUSED);
    if let Some(identity) = identity_of(&file) {
        descriptors.push((identity, file));
    }
    let mut excess = descriptors.len().saturating_sub(MOST_UNUSED);
    descriptors.retain(|(_, file)| {
        // With the lock no handle of SQLite's own VFS has one, which closing would drop.
        let goes = excess > 0 && set_lock(file, libc::F_WRLCK).is_ok();
        if goes {
            excess -= 1;
            forget_descriptor(file);
        }
        !goes
    });
}

/// Forgets a descriptor that is closed next.
fn forget_descriptor(file: &File) {
    let descriptor = file.as_raw_fd();
    lock(&DESCRIPTORS).retain(|(known, _)| *known != descriptor);
}

/// The descriptors of this process, while it forks.
pub(crate) struct HeldDescriptors {
    unused: MutexGuard<'static, Vec<(FileIdentity, File)>>,
    all: MutexGuard<'static, Vec<(i32, FileIdentity)>>,
}

impl HeldDescriptors {
    /// Waits until no other thread opens or closes one.
    pub(crate) fn lock() -> HeldDescriptors {
        HeldDescriptors { unused: lock(&UNUSED), all: lock(&DESCRIPTORS) }
    }

    /// Closes what a child of `fork` has of them.
    pub(crate) fn close_in_child(&mut self) {
        // Their descriptors are among those that are closed next.
        std::mem::forget(std::mem::take(&mut *self.unused));
        for (descriptor, file) in self.all.drain(..) {
            // A program that has closed it may have a file of its own there.
            if identity_of_descriptor(descriptor) == Some(file) {
                // SAFETY: the descriptor is one of this library's, and the parent's lock stays.
                unsafe { libc::close(descriptor) };
            }
        }
    }
}

/// The bytes that an owner locks.
#[cfg(target_os = "linux")]
fn owned(kind: i32) -> libc::flock {
    // SAFETY: all zeros are a value of the structure; this kind of lock requires that the process is 0.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as i16;
    range.l_whence = libc::SEEK_SET as i16;
    range.l_start = OWNED as libc::off_t;
    range.l_len = OWNED_BYTES as libc::off_t;
    range
}

#[cfg(target_os = "linux")]
fn set_lock(file: &File, kind: i32) -> SqliteResult<()> {
    let range = owned(kind);
    // SAFETY: the descriptor is open, and the structure lives until the call returns.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } == 0 {
        return Ok(());
    }
    refused()
}

/// `BUSY` if a lock of any kind conflicts with an owner's.
#[cfg(target_os = "linux")]
fn is_free(file: &File) -> SqliteResult<()> {
    let mut range = owned(libc::F_WRLCK);
    // SAFETY: the descriptor is open, and the structure lives until the call returns, which fills it.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut range) } != 0 {
        return refused();
    }
    if range.l_type == libc::F_UNLCK as i16 { Ok(()) } else { Err(SqliteCode::BUSY) }
}

#[cfg(target_os = "linux")]
fn refused() -> SqliteResult<()> {
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

#[cfg(not(target_os = "linux"))]
fn is_free(_file: &File) -> SqliteResult<()> {
    Ok(())
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        let _gate = sync::gate();
        if let Some(file) = self.file.take() {
            // In words, because a process that is being started may have a copy of the descriptor. No handle of this VFS has a lock
            // before the descriptor is closed, which would drop it.
            if set_lock(&file, libc::F_UNLCK).is_err() {
                tracing::error!("a database cannot be unlocked before its descriptor is closed");
            }
            match identity_of(&file) {
                // Another copy of SQLite was quick, and closing the descriptor would drop its lock.
                Some(identity) if has_locks(identity) => store_unused(file),
                _ => {
                    forget_descriptor(&file);
                    drop(file);
                }
            }
        }
    }
}
