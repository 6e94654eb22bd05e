//! Handles that SQLite's own VFS serves: they read only while no handle of this process writes, or the library cannot make its
//! files. A handle without a lock is asked anew at its next lock.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use super::{FileHandle, Kind};
use crate::code::{SqliteCode, SqliteResult};
use crate::disk::BaseFile;
use crate::ffi;
use crate::sync::gate;

/// The file of the VFS below, if it serves the handle, and no child of `fork` has inherited that.
pub(super) fn file(open: &mut FileHandle) -> Option<&mut BaseFile> {
    match open.is_passed && open.shared.is_own() {
        true => open.base.as_mut(),
        false => None,
    }
}

/// True if recovery has to come before the database is read.
fn needs_recovery(open: &FileHandle) -> SqliteResult<bool> {
    let log = format!("{}-ebb", open.shared.path);
    open.instance.base.exists(&log)
}

/// Raises the level of a handle, by the VFS below where that serves it, otherwise by `member`.
pub(super) fn lock_or(
    open: &mut FileHandle,
    level: c_int,
    member: impl FnOnce(&mut FileHandle, c_int) -> SqliteResult<()>,
) -> SqliteResult<()> {
    if !open.is_passed && open.level == 0 && open.kind == Kind::Main {
        let only_reads = open.is_read_only && !needs_recovery(open)?;
        open.is_passed = open.instance.is_passed(&open.shared, only_reads)?;
        if let Some(base) = file(open) {
            let handle = base.handle();
            let mut databases = open.instance.lock_databases();
            databases.note_passed(&open.shared.path, handle);
        }
        if open.is_passed && !open.is_read_only {
            open.instance.publish_commit(&open.shared);
        }
    }
    let Some(base) = file(open) else {
        return member(open, level);
    };
    let gate = gate();
    let locked = base.lock(level);
    drop(gate);
    if locked.is_ok() {
        open.level = level;
    }
    stop_if_free(open)?;
    locked
}

/// Lowers the level of a handle.
pub(super) fn unlock_or(
    open: &mut FileHandle,
    level: c_int,
    member: impl FnOnce(&mut FileHandle, c_int) -> SqliteResult<()>,
) -> SqliteResult<()> {
    let Some(base) = file(open) else {
        return member(open, level);
    };
    let gate = gate();
    let unlocked = base.unlock_to(level);
    drop(gate);
    open.level = open.level.min(level);
    stop_if_free(open)?;
    unlocked
}

fn stop_if_free(open: &mut FileHandle) -> SqliteResult<()> {
    match open.level == 0 && !open.has_index {
        true => stop(open),
        false => Ok(()),
    }
}

/// The VFS below serves the handle no longer.
pub(super) fn stop(open: &mut FileHandle) -> SqliteResult<()> {
    if !std::mem::take(&mut open.is_passed) {
        return Ok(());
    }
    if let Some(base) = &mut open.base {
        let file = base.handle();
        open.instance.lock_databases().forget_passed(file);
    }
    open.instance.has_passed(&open.shared)
}

/// True if a handle of any process is about to write.
pub(super) fn is_reserved(open: &mut FileHandle) -> SqliteResult<bool> {
    let base = open.base.as_mut().ok_or(SqliteCode::IO)?;
    let mut reserved = 0;
    let handle = base.handle();
    // SAFETY: the handle is open, and there is a place for the answer.
    SqliteCode::check(unsafe { ((*(*handle).methods).xCheckReservedLock)(handle, &mut reserved) })?;
    Ok(reserved != 0)
}

/// Passes a control on.
pub(super) fn control(open: &mut FileHandle, operation: c_int, argument: *mut c_void) -> c_int {
    let Some(base) = open.base.as_mut() else {
        return ffi::NOTFOUND;
    };
    let handle = base.handle();
    // SAFETY: the handle is open, and the argument is SQLite's.
    unsafe { ((*(*handle).methods).xFileControl)(handle, operation, argument) }
}

/// Maps a region of the index of the WAL that the VFS below has.
///
/// # Safety
///
/// As `xShmMap`.
pub(super) unsafe fn shm_map(
    open: &mut FileHandle,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    let handle = match with_index(open) {
        Ok(handle) => handle,
        Err(code) => return code.0,
    };
    let _gate = gate();
    open.has_index = true;
    // SAFETY: the handle is open, and the arguments are the caller's.
    unsafe { ((*(*handle).methods).xShmMap)(handle, region, bytes, extend, out) }
}

/// Locks slots of the WAL.
pub(super) fn shm_lock(open: &mut FileHandle, offset: c_int, count: c_int, flags: c_int) -> c_int {
    match with_index(open) {
        Ok(handle) => {
            let _gate = gate();
            // SAFETY: the handle is open.
            unsafe { ((*(*handle).methods).xShmLock)(handle, offset, count, flags) }
        }
        Err(code) => code.0,
    }
}

/// A barrier.
pub(super) fn shm_barrier(open: &mut FileHandle) {
    if let Ok(handle) = with_index(open) {
        // SAFETY: the handle is open.
        unsafe { ((*(*handle).methods).xShmBarrier)(handle) };
    }
}

/// Gives the index of the WAL back, also in a child that has inherited it: the VFS below requires that before it closes the handle.
pub(super) fn shm_unmap(open: &mut FileHandle, delete: c_int) -> c_int {
    let is_own = open.shared.is_own();
    let Some(handle) = indexed(open) else {
        return ffi::OK;
    };
    let gate = gate();
    let delete = if is_own { delete } else { 0 };
    // SAFETY: the handle is open.
    let code = unsafe { ((*(*handle).methods).xShmUnmap)(handle, delete) };
    drop(gate);
    open.has_index = false;
    match stop_if_free(open) {
        Ok(()) => code,
        Err(error) => error.0,
    }
}

/// The handle of the VFS below, if that has indexes of WALs, for a process that has not inherited it.
fn with_index(open: &mut FileHandle) -> SqliteResult<*mut ffi::File> {
    match open.shared.is_own() {
        true => indexed(open).ok_or(SqliteCode::IO),
        false => Err(SqliteCode::MISUSE),
    }
}

fn indexed(open: &mut FileHandle) -> Option<*mut ffi::File> {
    let handle = open.base.as_mut()?.handle();
    // SAFETY: the handle is open.
    let version = unsafe { (*(*handle).methods).iVersion };
    (version >= 2).then_some(handle)
}
