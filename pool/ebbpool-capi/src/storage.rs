//! Pages in a storage of the program: a pool over callbacks.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ebbpool::storage::{Read, Storage, Write};

use crate::error::Failure;
use crate::pointers::Versioned;

/// A storage of the program, as a sequence of bytes. The pool calls the functions from several threads at the same time,
/// also from threads of its own, with `context` as the first argument; it never requests a page twice at the same time,
/// except for reading. They return 0, or an error number that is not 0, such as `EIO`, which `ebbpool_error_os_code` then
/// returns to the program. They must not throw, nor jump out, nor call functions of the same pool. If `write_at`, `sync` and
/// `set_length` are all null, the storage is for reading only.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StorageCallbacks {
    /// `sizeof(ebbpool_storage)`.
    pub struct_size: usize,
    /// The first argument of each function.
    pub context: *mut c_void,
    /// Bytes of a page: a power of two from 64 to 2^30; 0 for 4096.
    pub page_size: u64,
    /// Reads `length` bytes from `offset` on, which are within the length that `length` returned or `set_length` set.
    pub read_at: Option<unsafe extern "C" fn(context: *mut c_void, buffer: *mut c_void, length: usize, offset: u64) -> i32>,
    /// Writes `length` bytes from `offset` on, also within the length.
    pub write_at: Option<unsafe extern "C" fn(context: *mut c_void, buffer: *const c_void, length: usize, offset: u64) -> i32>,
    /// Returns when everything written so far survives a crash. After an error the pool writes no more.
    pub sync: Option<unsafe extern "C" fn(context: *mut c_void) -> i32>,
    /// Stores the length of the storage, in bytes. The pool calls it once, when it is opened.
    pub length: Option<unsafe extern "C" fn(context: *mut c_void, bytes: *mut u64) -> i32>,
    /// Makes the storage `bytes` long, which is longer than before. New bytes read as zeros.
    pub set_length: Option<unsafe extern "C" fn(context: *mut c_void, bytes: u64) -> i32>,
    /// Called once when the pool no longer uses the storage, unless opening fails. May be null.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

// SAFETY: the struct is `repr(C)`, its first field is its size, and null pointers and absent functions are all zeros.
unsafe impl Versioned for StorageCallbacks {
    const NAME: &'static str = "ebbpool_storage";
}

const USUAL_PAGE: u64 = 4096;
const LARGEST_PAGE: u64 = 1 << 30;

/// Whether the pool owns what the program passed: then it releases it.
pub(crate) type Ownership = Arc<AtomicBool>;

/// The callbacks as a storage.
pub(crate) struct CallbackStorage {
    calls: Calls,
    page_size: usize,
    /// The length in bytes.
    length: AtomicU64,
    /// Held while the storage grows, so that it never becomes shorter.
    growing: Mutex<()>,
    owned: Ownership,
}

/// The functions, none of which is missing.
struct Calls {
    context: *mut c_void,
    read_at: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, u64) -> i32,
    /// `None` if the storage is for reading only.
    changes: Option<ChangingCalls>,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// The functions that change a storage.
#[derive(Clone, Copy)]
struct ChangingCalls {
    write_at: unsafe extern "C" fn(*mut c_void, *const c_void, usize, u64) -> i32,
    sync: unsafe extern "C" fn(*mut c_void) -> i32,
    set_length: unsafe extern "C" fn(*mut c_void, u64) -> i32,
}

impl Calls {
    fn changes(&self) -> io::Result<ChangingCalls> {
        self.changes.ok_or_else(|| io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

// SAFETY: the header requires that all threads may call the functions, with this context, at the same time.
unsafe impl Send for Calls {}
// SAFETY: the same.
unsafe impl Sync for Calls {}

/// The result of a callback.
pub(crate) fn outcome(code: i32) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

impl CallbackStorage {
    /// A storage of these functions; asks them for its length.
    pub(crate) fn new(callbacks: StorageCallbacks) -> Result<Self, Failure> {
        let page_size = match callbacks.page_size {
            0 => USUAL_PAGE,
            size if size.is_power_of_two() && (64..=LARGEST_PAGE).contains(&size) => size,
            size => {
                return Err(Failure::invalid(format!(
                    "pages cannot have {size} bytes; give a power of two from 64 to {LARGEST_PAGE}"
                )));
            }
        };
        let missing = |name: &str| Failure::invalid(format!("ebbpool_storage.{name} is null"));
        let changes = match (callbacks.write_at, callbacks.sync, callbacks.set_length) {
            (None, None, None) => None,
            (write_at, sync, set_length) => Some(ChangingCalls {
                write_at: write_at.ok_or_else(|| missing("write_at"))?,
                sync: sync.ok_or_else(|| missing("sync"))?,
                set_length: set_length.ok_or_else(|| missing("set_length"))?,
            }),
        };
        let calls = Calls {
            context: callbacks.context,
            read_at: callbacks.read_at.ok_or_else(|| missing("read_at"))?,
            changes,
            release: callbacks.release,
        };
        let measure = callbacks.length.ok_or_else(|| missing("length"))?;
        let mut length = 0;
        // SAFETY: the header requires that the function may be called with the context, and stores a length.
        outcome(unsafe { measure(callbacks.context, &raw mut length) })
            .map_err(|source| ebbpool::PoolError::Storage { what: "the storage cannot say how long it is", source })?;
        Ok(CallbackStorage {
            calls,
            page_size: page_size as usize,
            length: AtomicU64::new(length),
            growing: Mutex::new(()),
            owned: Ownership::default(),
        })
    }

    /// What the pool sets as soon as it owns the context.
    pub(crate) fn ownership(&self) -> Ownership {
        Arc::clone(&self.owned)
    }

    fn offset(&self, page: u64) -> io::Result<u64> {
        let offset = page.checked_mul(self.page_size as u64);
        let end = offset.and_then(|offset| offset.checked_add(self.page_size as u64));
        offset.filter(|_| end.is_some()).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    }

    fn read_page(&self, page: u64, buffer: &mut [u8]) -> io::Result<()> {
        let length = self.length.load(Ordering::Acquire);
        let offset = self.offset(page).unwrap_or(u64::MAX);
        let stored = length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (stored, beyond) = buffer.split_at_mut(stored);
        beyond.fill(0);
        if stored.is_empty() {
            return Ok(());
        }
        let Calls { context, read_at, .. } = self.calls;
        // SAFETY: the buffer has the length that is passed, and the header requires the rest.
        outcome(unsafe { read_at(context, stored.as_mut_ptr().cast(), stored.len(), offset) })
    }

    fn write_page(&self, page: u64, buffer: &[u8]) -> io::Result<()> {
        let offset = self.offset(page)?;
        self.grow_to(offset + self.page_size as u64)?;
        let ChangingCalls { write_at, .. } = self.calls.changes()?;
        // SAFETY: the buffer has the length that is passed, and the header requires the rest.
        outcome(unsafe { write_at(self.calls.context, buffer.as_ptr().cast(), buffer.len(), offset) })
    }

    fn grow_to(&self, bytes: u64) -> io::Result<()> {
        if self.length.load(Ordering::Acquire) >= bytes {
            return Ok(());
        }
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.length.load(Ordering::Acquire) >= bytes {
            return Ok(());
        }
        let ChangingCalls { set_length, .. } = self.calls.changes()?;
        // SAFETY: the header requires that the function may be called with the context.
        outcome(unsafe { set_length(self.calls.context, bytes) })?;
        self.length.store(bytes, Ordering::Release);
        Ok(())
    }
}

impl Storage for CallbackStorage {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn pages(&self) -> io::Result<u64> {
        let length = self.length.load(Ordering::Acquire);
        Ok(length.div_ceil(self.page_size as u64))
    }

    fn writable(&self) -> bool {
        self.calls.changes.is_some()
    }

    fn grow(&self, pages: u64) -> io::Result<()> {
        match pages.checked_sub(1) {
            None => Ok(()),
            Some(last) => self.grow_to(self.offset(last)? + self.page_size as u64),
        }
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        for read in reads {
            read.outcome = self.read_page(read.page, read.buffer);
        }
        None
    }

    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        for write in writes {
            write.outcome = self.write_page(write.page, write.buffer);
        }
        None
    }

    fn sync(&self) -> io::Result<()> {
        let Some(ChangingCalls { sync, .. }) = self.calls.changes else {
            return Ok(());
        };
        // SAFETY: the header requires that the function may be called with the context.
        outcome(unsafe { sync(self.calls.context) })
    }

    fn describe(&self) -> String {
        "callbacks of the program".into()
    }
}

impl Drop for CallbackStorage {
    fn drop(&mut self) {
        if let (true, Some(release)) = (self.owned.load(Ordering::Acquire), self.calls.release) {
            // SAFETY: this is the last call with the context, and the header requires that it may be made.
            unsafe { release(self.calls.context) };
        }
    }
}
