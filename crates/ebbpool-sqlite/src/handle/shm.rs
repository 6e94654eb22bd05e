//! The index of SQLite's WAL, which is shared memory between the handles of this process.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use super::open_of;
use crate::ffi::{self, File};
use crate::vfs::guarded;

pub(crate) unsafe extern "C" fn shm_map(
    file: *mut File,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    let mut pointer = std::ptr::null_mut();
    let code = guarded(|| {
        let is_first = !open.has_index;
        open.with(|family| {
            family.index.users += u32::from(is_first);
            let found = family
                .index
                .region(region as usize, bytes as usize, extend != 0);
            pointer = found.map_or(std::ptr::null_mut(), <*mut u64>::cast);
            Ok(())
        })?;
        open.has_index = true;
        Ok(())
    });
    // SAFETY: SQLite passes a place for the answer. A region never moves, and lives until its last user unmaps it.
    unsafe { *out = pointer };
    code
}

pub(crate) unsafe extern "C" fn shm_lock(
    file: *mut File,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    guarded(|| {
        let slots = offset as usize..(offset + count) as usize;
        let (number, mut held) = (open.number, open.slots);
        let answer = open.with(|family| {
            if flags & ffi::SHM_UNLOCK != 0 {
                family.index.unlock(&mut held, slots);
                return Ok(());
            }
            let exclusive = flags & ffi::SHM_EXCLUSIVE != 0;
            if family
                .index
                .lock(number, &mut held, slots.clone(), exclusive)?
                && let Err(error) = family.wal_writer_begins()
            {
                family.index.unlock(&mut held, slots);
                return Err(error);
            }
            Ok(())
        });
        open.slots = held;
        answer
    })
}

pub(crate) unsafe extern "C" fn shm_barrier(_file: *mut File) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

pub(crate) unsafe extern "C" fn shm_unmap(file: *mut File, _delete: c_int) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    guarded(|| {
        if !std::mem::take(&mut open.has_index) {
            return Ok(());
        }
        let mut held = open.slots;
        let answer = open.with(|family| {
            family.index.leave(&mut held);
            Ok(())
        });
        open.slots = held;
        answer
    })
}
