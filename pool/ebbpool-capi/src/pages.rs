//! Fixing and unfixing pages.

#![allow(unsafe_code)]

use std::mem;
use std::ptr;

use ebbpool::{Lsn, ReadGuard, WriteGuard};

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
    const NONE: FixedPage = FixedPage { token: 0, number: 0, lsn: 0, data: ptr::null_mut(), length: 0 };
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

fn keep_read(handle: &PoolHandle, guard: ReadGuard<'_>) -> Result<FixedPage, Failure> {
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
    let body = |handle: &PoolHandle, pool: &ebbpool::Pool| {
        // SAFETY: the pointer may be written, as the header requires. Checked before the page is fixed.
        unsafe { write(page, "page", FixedPage::NONE) }?;
        let pool = pool.of_class(page_class);
        let fixed = match mode {
            EBBPOOL_READ => keep_read(handle, pool.fix_read(number)?),
            EBBPOOL_WRITE => keep_write(handle, pool.fix_write(number)?),
            EBBPOOL_NEW => keep_write(handle, pool.fix_new(number)?),
            mode => Err(Failure::invalid(format!("{mode} is no mode of fixing"))),
        }?;
        // SAFETY: as above.
        unsafe { write(page, "page", fixed) }
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
    let body = |handle: &PoolHandle, pool: &ebbpool::Pool| {
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
    let body = |handle: &PoolHandle, _: &ebbpool::Pool| {
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
    let body = |handle: &PoolHandle, _: &ebbpool::Pool| {
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
    let body = |handle: &PoolHandle, _: &ebbpool::Pool| {
        handle.fixed.change(token, |guard| match guard {
            PageGuard::Write(guard) => (PageGuard::Read(guard.downgrade()), Ok(())),
            guard => (guard, Err(not_for_writing())),
        })
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}
