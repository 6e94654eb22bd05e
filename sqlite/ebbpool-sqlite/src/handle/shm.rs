//! The index of SQLite's WAL, which is shared memory between the handles of this process.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use super::{open_of, passed};
use crate::code::guarded;
use crate::ffi::{self, File};
use crate::locks::WRITER;

pub(crate) unsafe extern "C" fn shm_map(
    file: *mut File,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    if open.is_passed {
        // SAFETY: the arguments are SQLite's.
        return unsafe { passed::shm_map(open, region, bytes, extend, out) };
    }
    let mut pointer = std::ptr::null_mut();
    let code = guarded(|| {
        let is_first = !open.has_index;
        let found = open.with(|state| {
            state.index_is_wanted(&(0..0))?;
            state.index.users += u32::from(is_first);
            let index = &mut state.index;
            let found = index.region(region as usize, bytes as usize, extend != 0);
            Ok(found)
        })?;
        open.has_index = true;
        if let Some(found) = found {
            pointer = found.as_ptr().cast_mut().cast();
            open.regions.push(found);
        }
        Ok(())
    });
    // SAFETY: SQLite passes a place for the answer. A region never moves, and lives as long as the handle has it.
    unsafe { *out = pointer };
    code
}

pub(crate) unsafe extern "C" fn shm_lock(file: *mut File, offset: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    if open.is_passed {
        return passed::shm_lock(open, offset, count, flags);
    }
    guarded(|| {
        let slots = offset as usize..(offset + count) as usize;
        let (number, mut held) = (open.number, open.slots);
        if flags & ffi::SHM_UNLOCK != 0 {
            let answer = open.with(|state| {
                if slots.contains(&WRITER) {
                    state.wal_writer_ends();
                    state.index.writer_ends(number);
                }
                state.index.unlock(number, &mut held, slots);
                Ok(())
            });
            open.slots = held;
            return answer;
        }
        let exclusive = flags & ffi::SHM_EXCLUSIVE != 0;
        if !exclusive {
            // A transaction begins to read.
            open.instance.look_before_reading(&open.shared)?;
        }
        open.with(|state| {
            let writes = state.index.lock(number, &mut held, slots.clone(), exclusive)?;
            if writes {
                state.wal_writer_begins();
            }
            if exclusive {
                state.index_is_wanted(&slots)?;
            }
            Ok(())
        })?;
        open.slots = held;
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn shm_barrier(file: *mut File) {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    if open.is_passed {
        passed::shm_barrier(open);
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

pub(crate) unsafe extern "C" fn shm_unmap(file: *mut File, delete: c_int) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    if open.is_passed {
        return passed::shm_unmap(open, delete);
    }
    guarded(|| {
        open.regions.clear();
        if !std::mem::take(&mut open.has_index) {
            return Ok(());
        }
        let (number, mut held) = (open.number, open.slots);
        let answer = open.with(|state| {
            state.index.leave(number, &mut held);
            Ok(())
        });
        open.slots = held;
        answer
    })
}
