//! Fixing and unfixing pages.

#![allow(unsafe_code)]

use std::mem;
use std::ptr;
use std::time::Duration;

use ebbpool::{ClassedPool, Lsn, Pool, ReadGuard, WriteGuard};

use crate::error::{Failure, StatusCode};
use crate::fixed::PageGuard;
use crate::handle::{PoolHandle, with_pool};
use crate::pointers::write;

/// The page is fixed, or referenced, for reading. Many threads may have it fixed so.
pub const EBBPOOL_READ: u32 = 0;
/// The page is fixed, or referenced, for writing, and dirty from then on. One thread at a time has it fixed so.
pub const EBBPOOL_WRITE: u32 = 1;
/// The page is fixed, or referenced, for writing, filled with zeros instead of being read, and dirty from then on.
pub const EBBPOOL_NEW: u32 = 2;

/// A fixed page. It has the same fields in all versions of the interface.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FixedPage {
    /// What `ebbpool_pool_unfix` takes; never 0.
    pub token: u64,
    /// The page's number.
    pub number: u64,
    /// The LSN of its latest change; 0 if it has none.
    pub lsn: u64,
    /// The bytes of the page that belong to the program, until the page is unfixed. Bytes of a page that is fixed for
    /// reading must not be changed.
    pub data: *mut u8,
    /// The number of these bytes: the page size less 32 bytes, or all with `EBBPOOL_RAW_PAGES`.
    pub length: usize,
}

impl FixedPage {
    /// What is written where no page is fixed.
    pub(crate) const NONE: FixedPage = FixedPage { token: 0, number: 0, lsn: 0, data: ptr::null_mut(), length: 0 };
}

/// A guard whose lifetime the compiler no longer checks, to be stored in the `fixed` of this pool's handle.
fn unbound_read(guard: ReadGuard<'_>) -> ReadGuard<'static> {
    // SAFETY: the guard borrows the pool in `handle.open`, which is neither moved nor dropped as long as `handle.fixed` has
    // the guard (invariant of `PoolHandle`), nor before it is there, since the caller has the read lock.
    unsafe { mem::transmute::<ReadGuard<'_>, ReadGuard<'static>>(guard) }
}

/// A guard for writing whose lifetime the compiler no longer checks, as in [`unbound_read`].
fn unbound_write(guard: WriteGuard<'_>) -> WriteGuard<'static> {
    // SAFETY: as in `unbound_read`.
    unsafe { mem::transmute::<WriteGuard<'_>, WriteGuard<'static>>(guard) }
}

pub(crate) fn keep_read(handle: &PoolHandle, guard: ReadGuard<'_>) -> Result<FixedPage, Failure> {
    let (number, lsn) = (guard.page(), guard.lsn());
    let (data, length) = (guard.as_ptr().cast_mut(), guard.len());
    let token = handle.fixed.insert(PageGuard::Read(unbound_read(guard)))?;
    Ok(FixedPage { token, number, lsn, data, length })
}

fn keep_write(handle: &PoolHandle, mut guard: WriteGuard<'_>) -> Result<FixedPage, Failure> {
    let (number, lsn) = (guard.page(), guard.lsn());
    let (data, length) = (guard.as_mut_ptr(), guard.len());
    let token = handle.fixed.insert(PageGuard::Write(unbound_write(guard)))?;
    Ok(FixedPage { token, number, lsn, data, length })
}

/// Fixes page `number` in a frame, and stores where its bytes are into `page`. It is read from storage if it is not
/// resident; a page that was never written reads as zeros. `mode` is `EBBPOOL_READ`, `EBBPOOL_WRITE` or `EBBPOOL_NEW`,
/// `page_class` a kind of pages that are used alike (0: unknown), which a policy may use.
///
/// Errors: `EBBPOOL_IO` and `EBBPOOL_DAMAGED` if it cannot be read, `EBBPOOL_IO`, `EBBPOOL_LOG` and `EBBPOOL_SYNC_FAILED`
/// if its victim cannot be written, `EBBPOOL_ALL_FIXED` and `EBBPOOL_BUSY` after waiting, `EBBPOOL_ABANDONED`,
/// `EBBPOOL_READ_ONLY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_fix(
    pool: *mut PoolHandle,
    number: u64,
    mode: u32,
    page_class: u32,
    page: *mut FixedPage,
) -> StatusCode {
    // SAFETY: the pointers are what the header requires.
    unsafe { fix(pool, (number, mode), page, |pool| pool.of_class(page_class)) }
}

/// Fixes a page, as `ebbpool_pool_fix` does, and waits no longer than this for other threads, in ms, whatever the patience of the
/// pool. With 0 it waits for none, but still reads the page from storage.
///
/// Errors: as `ebbpool_pool_fix`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_fix_within(
    pool: *mut PoolHandle,
    number: u64,
    mode: u32,
    page_class: u32,
    patience_ms: u64,
    page: *mut FixedPage,
) -> StatusCode {
    let patience = Duration::from_millis(patience_ms);
    // SAFETY: the pointers are what the header requires.
    unsafe { fix(pool, (number, mode), page, |pool| pool.of_class(page_class).within(patience)) }
}

/// Fixes a page through a view of the pool.
///
/// # Safety
///
/// The pointers are null, not aligned, or that of a pool and of a page to be written.
unsafe fn fix(
    pool: *mut PoolHandle,
    (number, mode): (u64, u32),
    page: *mut FixedPage,
    view: impl FnOnce(&Pool) -> ClassedPool<'_>,
) -> StatusCode {
    let body = |handle: &PoolHandle, pool: &Pool| {
        // SAFETY: the caller vouches for it. Checked before the page is fixed.
        unsafe { write(page, "page", FixedPage::NONE) }?;
        let pool = view(pool);
        let fixed = match mode {
            EBBPOOL_READ => keep_read(handle, pool.fix_read(number)?),
            EBBPOOL_WRITE => keep_write(handle, pool.fix_write(number)?),
            EBBPOOL_NEW => keep_write(handle, pool.fix_new(number)?),
            mode => Err(no_mode(mode)),
        }?;
        // SAFETY: as above.
        unsafe { write(page, "page", fixed) }
    };
    // SAFETY: the caller vouches for it.
    unsafe { with_pool(pool, body) }
}

fn no_mode(mode: u32) -> Failure {
    Failure::invalid(format!("{mode} is no mode of fixing"))
}

/// Fixes a page, `EBBPOOL_READ` or `EBBPOOL_WRITE`, if that takes neither a wait nor a read from storage.
///
/// Errors: `EBBPOOL_BUSY` if it does; `EBBPOOL_ABANDONED`, `EBBPOOL_READ_ONLY`, `EBBPOOL_SYNC_FAILED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_try_fix(
    pool: *mut PoolHandle,
    number: u64,
    mode: u32,
    page: *mut FixedPage,
) -> StatusCode {
    let body = |handle: &PoolHandle, pool: &Pool| {
        // SAFETY: the pointer may be written, as the header requires. Checked before the page is fixed.
        unsafe { write(page, "page", FixedPage::NONE) }?;
        let fixed = match mode {
            EBBPOOL_READ => pool.try_fix_read(number)?.map(|guard| keep_read(handle, guard)),
            EBBPOOL_WRITE => pool.try_fix_write(number)?.map(|guard| keep_write(handle, guard)),
            mode => return Err(no_mode(mode)),
        };
        // SAFETY: as above.
        unsafe { write(page, "page", fixed.ok_or_else(Failure::would_wait)??) }
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}

/// Allocates a page: fixes one that is not in use for writing, filled with zeros. It is the freed page with the smallest
/// number, or, if no page is free, the one after the last page that the storage has. The storage grows with it.
///
/// Errors: as `ebbpool_pool_fix`, and `EBBPOOL_IO` if the storage is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_allocate(pool: *mut PoolHandle, page_class: u32, page: *mut FixedPage) -> StatusCode {
    let body = |handle: &PoolHandle, pool: &Pool| {
        // SAFETY: the pointer may be written, as the header requires. Checked before a page is allocated.
        unsafe { write(page, "page", FixedPage::NONE) }?;
        let fixed = keep_write(handle, pool.of_class(page_class).allocate()?)?;
        // SAFETY: as above.
        unsafe { write(page, "page", fixed) }
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}

/// Unfixes the page of a token; any thread may do so. Its bytes must not be used after that. `lsn` is the position in the
/// log of the change that was made, which has to be appended before; 0 if there is no log, or nothing was changed.
///
/// Errors: `EBBPOOL_NOT_FIXED` if the token was unfixed before; `EBBPOOL_INVALID` for an LSN of a page that is fixed for
/// reading, which stays fixed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_unfix(pool: *mut PoolHandle, token: u64, lsn: u64) -> StatusCode {
    let body = |handle: &PoolHandle, _: &Pool| {
        let guard = handle.fixed.take(token, |guard| match guard {
            PageGuard::Read(_) if lsn != 0 => Err(not_for_writing()),
            _ => Ok(()),
        })?;
        if let PageGuard::Write(mut guard) = guard
            && lsn != 0
        {
            guard.set_lsn(lsn);
        }
        Ok(())
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}

fn not_for_writing() -> Failure {
    Failure::invalid("the page is fixed for reading, and so has no change")
}

/// Sets the LSN of a page that is fixed for writing and stays so, for a program that makes several changes.
///
/// Errors: `EBBPOOL_NOT_FIXED`, `EBBPOOL_INVALID` if the page is fixed for reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_set_lsn(pool: *mut PoolHandle, token: u64, lsn: Lsn) -> StatusCode {
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { change_written(pool, token, |guard| guard.set_lsn(lsn)) }
}

/// Confirms that the program has redone, from its log, all changes of this page that `ebbpool_pool_discard` lost.
/// Checkpoints cover them again once they are in storage. The page is fixed for writing and stays so.
///
/// Errors: as `ebbpool_pool_set_lsn`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_redone(pool: *mut PoolHandle, token: u64) -> StatusCode {
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { change_written(pool, token, WriteGuard::redone) }
}

/// Changes the guard of a page that is fixed for writing.
///
/// # Safety
///
/// The pointer is null, not aligned, or that of a pool.
unsafe fn change_written(pool: *mut PoolHandle, token: u64, change: impl FnOnce(&mut WriteGuard<'static>)) -> StatusCode {
    let body = |handle: &PoolHandle, _: &Pool| {
        handle.fixed.change(token, |guard| match guard {
            PageGuard::Write(mut guard) => {
                change(&mut guard);
                (PageGuard::Write(guard), Ok(()))
            }
            guard => (guard, Err(not_for_writing())),
        })
    };
    // SAFETY: the caller vouches for it.
    unsafe { with_pool(pool, body) }
}

/// Lets other threads read a page that this one has fixed for writing. It is fixed for reading from then on, under the
/// same token.
///
/// Errors: as `ebbpool_pool_set_lsn`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_downgrade(pool: *mut PoolHandle, token: u64) -> StatusCode {
    let body = |handle: &PoolHandle, _: &Pool| {
        handle.fixed.change(token, |guard| match guard {
            PageGuard::Write(guard) => (PageGuard::Read(guard.downgrade()), Ok(())),
            guard => (guard, Err(not_for_writing())),
        })
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}

/// Fixes for writing a page that is fixed for reading, under the same token, if it is fixed nowhere else. No other thread changes it
/// in between. It never waits: of two threads that try this for one page, at most one succeeds, and the other one has to unfix it.
///
/// Errors: `EBBPOOL_BUSY`, `EBBPOOL_READ_ONLY`, `EBBPOOL_SYNC_FAILED`: the page stays fixed for reading. `EBBPOOL_NOT_FIXED`,
/// `EBBPOOL_INVALID` if it is fixed for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_upgrade(pool: *mut PoolHandle, token: u64) -> StatusCode {
    let body = |handle: &PoolHandle, pool: &Pool| {
        handle.fixed.change(token, |guard| match guard {
            PageGuard::Read(guard) => match pool.upgrade(guard) {
                Ok(guard) => (PageGuard::Write(guard), Ok(())),
                Err((guard, error)) => (PageGuard::Read(guard), Err(error.into())),
            },
            guard => (guard, Err(Failure::invalid_call(c"the page is fixed for writing already"))),
        })
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}
