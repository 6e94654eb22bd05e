//! Opening and closing pools, and what concerns more than a fixed page.

#![allow(unsafe_code)]

use std::ffi::c_char;
use std::ptr;
use std::sync::atomic::Ordering;

use ebbpool::Pool;
use ebbpool::storage::{FileStorage, MemoryStorage, Storage};

use crate::error::{Failure, StatusCode, guarded};
use crate::handle::{PoolHandle, with_pool};
use crate::options::{FileSettings, PoolSettings, narrow};
use crate::pointers::{object, text, versioned, versioned_or_zeros, write, write_text};
use crate::storage::{CallbackStorage, Ownership, StorageCallbacks};

/// Opens a pool over a storage and stores its handle.
///
/// # Safety
///
/// The pointers, and those in the options, are null or what the header requires.
unsafe fn open(
    storage: impl Storage + 'static,
    owned: Option<Ownership>,
    options: PoolSettings,
    pool: *mut *mut PoolHandle,
) -> Result<(), Failure> {
    // SAFETY: the caller vouches for it.
    let prepared = unsafe { options.prepare(storage.page_size()) }?;
    let opened = PoolHandle::new(prepared.options.open(storage)?);
    for owned in [owned, prepared.owned].into_iter().flatten() {
        owned.store(true, Ordering::Release);
    }
    // SAFETY: the caller vouches for it.
    unsafe { write(pool, "the pointer to the pool", Box::into_raw(Box::new(opened))) }
}

/// Sets `*pool` to null, so that it is null if opening fails.
///
/// # Safety
///
/// The pointer is null, not aligned, or may be written.
unsafe fn clear(pool: *mut *mut PoolHandle) -> Result<(), Failure> {
    // SAFETY: the caller vouches for it.
    unsafe { write(pool, "the pointer to the pool", ptr::null_mut()) }
}

/// Opens a pool over a file or a block device, which is locked until the pool is closed or destroyed. `file` may be null
/// for the defaults. Stores the pool, or null after an error.
///
/// Errors: `EBBPOOL_NOT_FOUND` if there is no such file or no such policy, `EBBPOOL_BUSY` if the file is open already,
/// `EBBPOOL_INVALID` and `EBBPOOL_VERSION` for options, `EBBPOOL_NO_MEMORY`, `EBBPOOL_IO`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_open_file(
    path: *const c_char,
    file: *const FileSettings,
    options: *const PoolSettings,
    pool: *mut *mut PoolHandle,
) -> StatusCode {
    guarded(|| {
        // SAFETY: the pointers are what the header requires.
        unsafe {
            clear(pool)?;
            let path = text(path, "path")?;
            let file = versioned_or_zeros(file)?.to_options()?;
            let options = versioned(options)?;
            open(FileStorage::open(path, &file)?, None, options, pool)
        }
    })
}

/// Opens a pool over a storage of the program. Stores the pool, or null after an error; then `release` is not called.
///
/// Errors: as `ebbpool_pool_open_file`, and `EBBPOOL_IO` with the number that `length` returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_open_callbacks(
    storage: *const StorageCallbacks,
    options: *const PoolSettings,
    pool: *mut *mut PoolHandle,
) -> StatusCode {
    guarded(|| {
        // SAFETY: the pointers are what the header requires.
        unsafe {
            clear(pool)?;
            let (storage, options) = (versioned(storage)?, versioned(options)?);
            let storage = CallbackStorage::new(storage)?;
            let owned = storage.ownership();
            open(storage, Some(owned), options, pool)
        }
    })
}

/// Opens a pool over pages in memory, which are lost when it is closed or destroyed: for tests, and for data that need
/// not survive. `page_size` is a power of two from 64 to 2^30.
///
/// Errors: as `ebbpool_pool_open_file`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_open_memory(
    page_size: u64,
    options: *const PoolSettings,
    pool: *mut *mut PoolHandle,
) -> StatusCode {
    guarded(|| {
        // SAFETY: the pointers are what the header requires.
        unsafe {
            clear(pool)?;
            let options = versioned(options)?;
            if !page_size.is_power_of_two() || !(64..=1 << 30).contains(&page_size) {
                return Err(Failure::invalid(format!(
                    "pages cannot have {page_size} bytes; give a power of two from 64 to {}",
                    1 << 30
                )));
            }
            open(MemoryStorage::new(page_size as usize), None, options, pool)
        }
    })
}

/// Writes all dirty pages, syncs, and ends the pool: its memory, its threads and its storage. Each later call for it returns
/// `EBBPOOL_CLOSED`, until `ebbpool_pool_destroy` releases the handle. After an error the pool is open as before.
///
/// Errors: `EBBPOOL_BUSY` while a page is fixed or another call uses the pool; otherwise as `ebbpool_pool_checkpoint`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_close(pool: *mut PoolHandle) -> StatusCode {
    // SAFETY: the pointer is that of a pool, as the header requires.
    guarded(|| unsafe { object(pool, "pool") }?.close())
}

/// Releases the handle, which must not be used after that. A pool that is not closed is ended without writing: changes
/// in dirty pages are lost unless the log has them. Pages that are fixed are unfixed. A null pointer has no effect.
///
/// Errors: `EBBPOOL_BUSY` while another call uses the pool; then the handle is not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_destroy(pool: *mut PoolHandle) -> StatusCode {
    guarded(|| {
        if pool.is_null() {
            return Ok(());
        }
        // SAFETY: the pointer is that of a pool, as the header requires.
        if !unsafe { object(pool, "pool") }?.is_idle() {
            return Err(Failure::busy("another call uses the pool"));
        }
        // SAFETY: `open` made the pointer from a box, and the header requires that it is destroyed once.
        drop(unsafe { Box::from_raw(pool) });
        Ok(())
    })
}

/// Frees a page whose content does not matter any more: it is not written, and `ebbpool_pool_allocate` returns it again.
/// The pool does not store which pages are free.
///
/// Errors: `EBBPOOL_BUSY` if the page is fixed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_free(pool: *mut PoolHandle, number: u64) -> StatusCode {
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, |_, pool| Ok(pool.free(number).map(drop)?)) }
}

/// Discards a page's content in memory, so that the next fix reads it from storage. Changes that were not written are
/// lost: redo them from the log, and call `ebbpool_pool_redone`.
///
/// Errors: `EBBPOOL_BUSY` if the page is fixed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_discard(pool: *mut PoolHandle, number: u64) -> StatusCode {
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, |_, pool| Ok(pool.discard(number)?)) }
}

/// Writes a page, if it is dirty, and returns when its content survives a crash.
///
/// Errors: `EBBPOOL_IO`, `EBBPOOL_LOG`, `EBBPOOL_SYNC_FAILED`, `EBBPOOL_BUSY`, `EBBPOOL_ABANDONED`. The page stays dirty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_flush(pool: *mut PoolHandle, number: u64) -> StatusCode {
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, |_, pool| Ok(pool.flush(number)?)) }
}

/// Changes the number of frames while other threads use the pool, which was opened with `most_frames`. Of fewer frames the policy's
/// next victims are evicted, and the memory of the others is given back to the system.
///
/// Errors: `EBBPOOL_INVALID` for a number that the pool cannot have; `EBBPOOL_BUSY` if pages were fixed for the pool's patience;
/// as `ebbpool_pool_flush` if a victim cannot be written. The pool has as many frames as before then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_resize(pool: *mut PoolHandle, frames: u64) -> StatusCode {
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, |_, pool| Ok(pool.resize(narrow(frames, "frames")?)?)) }
}

/// Writes all pages that are dirty now, and returns when their content survives a crash. Other threads go on meanwhile.
/// Into `covered_lsn`, unless it is null, it stores the LSN up to which recovery needs no log: 2^64 - 1 without a log, and 0
/// if a page could not be written.
///
/// Errors: as `ebbpool_pool_flush`; pages that could not be written stay dirty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_checkpoint(pool: *mut PoolHandle, covered_lsn: *mut u64) -> StatusCode {
    let body = |_: &PoolHandle, pool: &Pool| {
        let covered = pool.checkpoint()?.covered;
        if covered_lsn.is_null() {
            return Ok(());
        }
        // SAFETY: the pointer may be written, as the header requires.
        unsafe { write(covered_lsn, "covered_lsn", covered) }
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}

/// Makes the storage at least `pages` pages long; `ebbpool_pool_allocate` goes on after these. For recovery: a crash may
/// take back that the storage has grown.
///
/// Errors: `EBBPOOL_IO` if the storage is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_grow(pool: *mut PoolHandle, pages: u64) -> StatusCode {
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, |_, pool| Ok(pool.grow(pages)?)) }
}

/// Delays the caller while too many pages are dirty; for a pool with `EBBPOOL_NO_THROTTLE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_throttle(pool: *mut PoolHandle) -> StatusCode {
    let body = |_: &PoolHandle, pool: &Pool| {
        pool.throttle();
        Ok(())
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}

/// Writes a description of the storage and a table of all figures into a buffer of `capacity` bytes, as text in UTF-8 that
/// ends with a NUL and is cut off where the buffer ends. Into `length`, unless it is null, it stores the length of the
/// whole text in bytes without the NUL. `buffer` may be null if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_describe(
    pool: *mut PoolHandle,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> StatusCode {
    let body = |_: &PoolHandle, pool: &Pool| {
        let text = format!("{}\n{}", pool.describe_storage(), pool.stats());
        // SAFETY: the buffer is what the header requires.
        unsafe { write_text(&text, buffer, capacity, length) }
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}
