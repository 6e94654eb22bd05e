//! Scans, reads of pages that are not fixed, and hints.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError, TryLockError};

use ebbpool::PoolScan;

use crate::error::{CallFault, Failure, StatusCode, guarded};
use crate::handle::{PoolHandle, with_pool};
use crate::pages::{FixedPage, keep_read};
use crate::pointers::{list_mut, object, write};

/// A scan over many pages, whose pages take few frames. One thread at a time uses it.
pub struct ScanHandle(Mutex<PoolScan>);

/// Begins a scan, and stores it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_scan_new(scan: *mut *mut ScanHandle) -> StatusCode {
    guarded(|| {
        // SAFETY: the pointer may be written, as the header requires. Checked before the scan is made.
        unsafe { write(scan, "the pointer to the scan", ptr::null_mut()) }?;
        let handle = Box::new(ScanHandle(Mutex::new(PoolScan::new())));
        // SAFETY: as above.
        unsafe { write(scan, "the pointer to the scan", Box::into_raw(handle)) }
    })
}

/// Releases a scan, which must not be used after that. A null pointer has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_scan_destroy(scan: *mut ScanHandle) -> StatusCode {
    guarded(|| {
        if !scan.is_null() {
            // SAFETY: the pointer is that of a scan, as the header requires.
            unsafe { object(scan, "scan") }?;
            // SAFETY: `ebbpool_scan_new` made the pointer from a box, and the header requires that it is destroyed once.
            drop(unsafe { Box::from_raw(scan) });
        }
        Ok(())
    })
}

/// Fixes a page for reading, as `ebbpool_pool_fix` does, that will probably not be used again soon. A scan takes 32 frames, or an
/// eighth of them, over and over, so that it does not evict the pages of others.
///
/// Errors: as `ebbpool_pool_fix`, and `EBBPOOL_BUSY` if another thread uses the scan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_fix_scan(
    pool: *mut PoolHandle,
    scan: *mut ScanHandle,
    number: u64,
    page_class: u32,
    page: *mut FixedPage,
) -> StatusCode {
    let body = |handle: &PoolHandle, pool: &ebbpool::Pool| {
        // SAFETY: the pointer may be written, as the header requires. Checked before the page is fixed.
        unsafe { write(page, "page", FixedPage::NONE) }?;
        // SAFETY: the pointer is that of a scan, as the header requires.
        let scan = unsafe { object(scan, "scan") }?;
        let mut scan = match scan.0.try_lock() {
            Ok(scan) => scan,
            Err(TryLockError::Poisoned(panicked)) => PoisonError::into_inner(panicked),
            Err(TryLockError::WouldBlock) => return Err(Failure::busy("another thread uses the scan")),
        };
        let fixed = keep_read(handle, pool.of_class(page_class).fix_scan(number, &mut scan)?)?;
        // SAFETY: as above.
        unsafe { write(page, "page", fixed) }
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}

/// Brings the byte at `offset` of a page into the processor's cache, if the page is resident: for a program that knows which
/// pages it will fix next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_prefetch(pool: *mut PoolHandle, number: u64, offset: usize) -> StatusCode {
    let body = |_: &PoolHandle, pool: &ebbpool::Pool| {
        pool.prefetch(number, offset);
        Ok(())
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}

/// Copies `length` bytes of a resident page from `offset` on, without fixing it (optimistic read). Set `*moment` to 0 before the
/// first read of a page; the function stores the moment as of which it has read, and later reads that get it return bytes of
/// the same moment. With a `length` of 0 it finds out whether the page is still as it was then, and `buffer` may be null.
///
/// Errors: `EBBPOOL_BUSY` if the page is not resident, is being changed, or has changed since: fix it, or begin anew.
/// `EBBPOOL_INVALID` for bytes beyond the page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_read(
    pool: *mut PoolHandle,
    number: u64,
    offset: usize,
    buffer: *mut c_void,
    length: usize,
    moment: *mut u64,
) -> StatusCode {
    let body = |_: &PoolHandle, pool: &ebbpool::Pool| {
        // SAFETY: the pointer is that of a number, as the header requires.
        let stamp = *unsafe { object(moment, "moment") }?;
        if offset.checked_add(length).is_none_or(|end| end > pool.payload_size()) {
            return Err(CallFault::BeyondPage { offset, length }.into());
        }
        // SAFETY: the buffer has this length, as the header requires, and bytes have no invalid values.
        let into = unsafe { list_mut(buffer.cast::<u8>(), length, "buffer") }?;
        let seen = match stamp {
            0 => pool.read_optimistically(number),
            stamp => pool.read_as_of(number, stamp),
        };
        let seen = seen.filter(|seen| seen.read(offset, into)).ok_or_else(Failure::disturbed)?;
        // SAFETY: as above.
        unsafe { write(moment, "moment", seen.stamp()) }
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}
