//! The options of pools and files, as structs whose fields are 0 by default.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use ebbpool::storage::{Engine, FileOptions, FileStorage};
use ebbpool::{OperationCosts, PageFormat, PoolOptions, Unit};
use ebbpool_policy::PolicySpec;

use crate::error::{CallFault, Failure};
use crate::log::{CallbackLog, LogCallbacks};
use crate::pages::{EBBPOOL_READ, EBBPOOL_WRITE};
use crate::pointers::{Versioned, text, versioned};
use crate::storage::Ownership;

/// All bytes of a page belong to the program, and the pool does not find damage. Without this flag the first 32 bytes of
/// each page in storage are the pool's: checksum, number and LSN.
pub const EBBPOOL_RAW_PAGES: u64 = 1;
/// The pool has no threads of its own, and works only in those of its callers.
pub const EBBPOOL_NO_BACKGROUND: u64 = 2;
/// Every hit is reported to the policy, even if the policy does not need it: then a pool decides as the simulator does.
pub const EBBPOOL_EXACT_HITS: u64 = 4;
/// Fixes do not wait while too many pages are dirty; the program calls `ebbpool_pool_throttle` where it has fixed no page.
pub const EBBPOOL_NO_THROTTLE: u64 = 8;
/// The pool reads no pages ahead of sequential fixes.
pub const EBBPOOL_NO_READ_AHEAD: u64 = 16;

const POOL_FLAGS: u64 = 31;

/// The file is created if it does not exist.
pub const EBBPOOL_FILE_CREATE: u64 = 1;
/// The file is opened only for reading.
pub const EBBPOOL_FILE_READ_ONLY: u64 = 2;
/// I/O goes through the page cache of the kernel. Without this flag it does not, if file system and page size allow it.
pub const EBBPOOL_FILE_BUFFERED: u64 = 4;
/// Threads transfer the pages. Without this flag io_uring does, where the kernel has it and allows its use.
pub const EBBPOOL_FILE_THREADS: u64 = 8;

const FILE_FLAGS: u64 = 15;

/// The options of a pool. Set `struct_size`, and `frames` or `memory_bytes`; a field that is 0 has its default. Texts and
/// structs behind pointers are used only until the call returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolSettings {
    /// `sizeof(ebbpool_pool_options)`.
    pub struct_size: usize,
    /// `EBBPOOL_RAW_PAGES` and others, added up.
    pub flags: u64,
    /// The number of frames, each for one page.
    pub frames: u64,
    /// The memory for pages, in bytes, in place of `frames`.
    pub memory_bytes: u64,
    /// The replacement policy with its parameters, such as `cflru:window=0.3`; null for `ebb`.
    pub policy: *const c_char,
    /// What a page read costs, in µs. With both costs 0 the pool measures them; only their ratio matters to most policies.
    pub read_cost: f64,
    /// What a page write costs, in µs.
    pub write_cost: f64,
    /// The write-ahead log; null for none.
    pub log: *const LogCallbacks,
    /// The file of a double-write area, which restores torn pages; null for none. It is created if it does not exist.
    pub double_write_path: *const c_char,
    /// A number that identifies the data, which the double-write area stores; 0 for none.
    pub identity: u64,
    /// How long a fix waits for a latch or a frame, in ms; 0 for 10 s.
    pub patience_ms: u64,
    /// The background writer writes a page that has been dirty for this long, in ms; 0 for never.
    pub max_dirty_age_ms: u64,
    /// The share of the frames that may be dirty before the pool writes pages in the background and delays fixes that make
    /// more pages dirty, from 0 to 1; 0 for the default, 0.8 or less in small pools.
    pub dirty_budget: f64,
    /// The longest such delay, in µs; 0 for 20 ms. Only with a `dirty_budget`.
    pub most_delay_us: u64,
    /// The number of next victims that the background writer keeps clean; 0 for 1/64 of the frames, from 1 to 64.
    pub clean_reserve: u64,
    /// The most pages in one write to the storage; 0 for 64.
    pub batch: u64,
    /// Pages with numbers below this are found without hashing, which takes 4 bytes of memory for each.
    pub dense_pages: u64,
    /// The most pages of the storage: page numbers from there on are refused; 0 for all numbers.
    pub most_pages: u64,
    /// Called for each fix, one at a time, with the page's number, `EBBPOOL_READ` or `EBBPOOL_WRITE`, and its class: for a trace of
    /// the program. It slows fixes down. It must not throw, nor jump out, nor call functions of the same pool. Null for none.
    pub on_fix: Option<unsafe extern "C" fn(context: *mut c_void, number: u64, mode: u32, page_class: u32)>,
    /// The first argument of `on_fix`.
    pub on_fix_context: *mut c_void,
    /// Lets `ebbpool_pool_resize` change the number of frames, up to this one; 0 if it stays.
    pub most_frames: u64,
}

/// The program's function that receives each fix.
struct FixReceiver {
    on_fix: unsafe extern "C" fn(*mut c_void, u64, u32, u32),
    context: *mut c_void,
}

// SAFETY: the header says that the pool calls the function in any thread, one at a time.
unsafe impl Send for FixReceiver {}

impl FixReceiver {
    fn receive(&self, page: u64, write: bool, class: u32) {
        let mode = if write { EBBPOOL_WRITE } else { EBBPOOL_READ };
        // SAFETY: the header requires that the function may be called with the context.
        unsafe { (self.on_fix)(self.context, page, mode, class) }
    }
}

// SAFETY: the struct is `repr(C)`, its first field is its size, and null pointers and numbers of 0 are all zeros.
unsafe impl Versioned for PoolSettings {
    const NAME: &'static str = "ebbpool_pool_options";
}

/// The options of a file of pages. Set `struct_size`; a field that is 0 has its default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileSettings {
    /// `sizeof(ebbpool_file_options)`.
    pub struct_size: usize,
    /// `EBBPOOL_FILE_CREATE` and others, added up.
    pub flags: u64,
    /// Bytes of a page: a power of two from 512 to 2^30; 0 for 4096.
    pub page_size: u64,
    /// The number of operations that are under way at the same time, 1 to 4096; 0 for 32.
    pub queue_depth: u64,
}

// SAFETY: the struct is `repr(C)`, its first field is its size, and numbers of 0 are all zeros.
unsafe impl Versioned for FileSettings {
    const NAME: &'static str = "ebbpool_file_options";
}

fn check_flags(flags: u64, all: u64, what: &str) -> Result<(), Failure> {
    match flags & !all {
        0 => Ok(()),
        other => Err(Failure::version(format!("{what}.flags has {other:#x}, which this version of the library does not know"))),
    }
}

pub(crate) fn narrow(number: u64, what: &str) -> Result<u32, Failure> {
    u32::try_from(number).map_err(|_| Failure::invalid(format!("{what} is {number}, too large")))
}

/// The number unless it is 0.
fn given(number: u64) -> Option<u64> {
    Some(number).filter(|&number| number > 0)
}

impl FileSettings {
    /// The options of the file.
    pub(crate) fn to_options(self) -> Result<FileOptions, Failure> {
        check_flags(self.flags, FILE_FLAGS, Self::NAME)?;
        let has = |flag| self.flags & flag != 0;
        let mut options = FileOptions::new()
            .create(has(EBBPOOL_FILE_CREATE))
            .read_only(has(EBBPOOL_FILE_READ_ONLY))
            .direct(!has(EBBPOOL_FILE_BUFFERED));
        if has(EBBPOOL_FILE_THREADS) {
            options = options.engine(Engine::Threads);
        }
        if let Some(size) = given(self.page_size) {
            options = options.page_size(narrow(size, "page_size")? as usize);
        }
        if let Some(depth) = given(self.queue_depth) {
            options = options.queue_depth(narrow(depth, "queue_depth")?);
        }
        Ok(options)
    }
}

/// The options of a pool, and what it owns once it is open.
pub(crate) struct PreparedOptions {
    pub(crate) options: PoolOptions,
    pub(crate) owned: Option<Ownership>,
}

impl PoolSettings {
    /// The options of a pool over a storage of pages of this size.
    ///
    /// # Safety
    ///
    /// The pointers in the struct are null, or what the header requires.
    pub(crate) unsafe fn prepare(self, page_size: usize) -> Result<PreparedOptions, Failure> {
        check_flags(self.flags, POOL_FLAGS, Self::NAME)?;
        let mut options = self.plain_options(page_size)?;
        if !self.policy.is_null() {
            // SAFETY: the caller vouches for it.
            let policy = unsafe { text(self.policy, "policy") }?;
            // Parsed here first, since its error says whether there is such a policy.
            policy.parse::<PolicySpec>()?;
            options = options.policy(policy)?;
        }
        if !self.double_write_path.is_null() {
            // SAFETY: the caller vouches for it.
            let path = unsafe { text(self.double_write_path, "double_write_path") }?;
            let file = FileOptions::new().create(true).page_size(page_size);
            options = options.double_write(FileStorage::open(path, &file)?);
        }
        let mut owned = None;
        if !self.log.is_null() {
            // SAFETY: the caller vouches for it.
            let log = CallbackLog::new(unsafe { versioned(self.log) }?)?;
            owned = Some(log.ownership());
            options = options.log(Arc::new(log));
        }
        Ok(PreparedOptions { options, owned })
    }

    /// The options without those behind pointers.
    fn plain_options(&self, page_size: usize) -> Result<PoolOptions, Failure> {
        let has = |flag| self.flags & flag != 0;
        let mut options = PoolOptions::new(self.frame_count(page_size)?)
            .background(!has(EBBPOOL_NO_BACKGROUND))
            .exact_hits(has(EBBPOOL_EXACT_HITS))
            .throttle_at_fix(!has(EBBPOOL_NO_THROTTLE))
            .identity(self.identity);
        if has(EBBPOOL_RAW_PAGES) {
            options = options.format(PageFormat::Raw);
        }
        if has(EBBPOOL_NO_READ_AHEAD) {
            options = options.read_ahead(0);
        }
        if let Some(costs) = self.costs()? {
            options = options.fixed_costs(costs);
        }
        if let Some(patience) = given(self.patience_ms) {
            options = options.patience(Duration::from_millis(patience));
        }
        if let Some(age) = given(self.max_dirty_age_ms) {
            options = options.max_dirty_age(Duration::from_millis(age));
        }
        if self.dirty_budget != 0.0 {
            let most_delay = given(self.most_delay_us).unwrap_or(20_000);
            options = options.dirty_budget(self.dirty_budget, Duration::from_micros(most_delay));
        }
        if let Some(pages) = given(self.clean_reserve) {
            options = options.clean_reserve(narrow(pages, "clean_reserve")?);
        }
        if let Some(pages) = given(self.batch) {
            options = options.batch(narrow(pages, "batch")?);
        }
        if let Some(frames) = given(self.most_frames) {
            options = options.most_frames(narrow(frames, "most_frames")?);
        }
        if let Some(pages) = given(self.most_pages) {
            options = options.most_pages(pages);
        }
        if let Some(on_fix) = self.on_fix {
            let receiver = FixReceiver { on_fix, context: self.on_fix_context };
            options = options.on_classed_fix(move |page, write, class| receiver.receive(page, write, class));
        }
        if let Some(pages) = given(self.dense_pages) {
            options = options.dense_pages(narrow(pages, "dense_pages")? as usize);
        }
        Ok(options)
    }

    fn frame_count(&self, page_size: usize) -> Result<u32, Failure> {
        let frames = match (self.frames, self.memory_bytes) {
            (0, 0) => return Err(Failure::invalid("set frames or memory_bytes")),
            (frames, 0) => frames,
            (0, bytes) => bytes / (page_size as u64).max(1),
            _ => return Err(Failure::invalid("set frames or memory_bytes, not both")),
        };
        match frames {
            0 => Err(Failure::invalid(format!("memory_bytes is less than a page of {page_size} bytes"))),
            frames => narrow(frames, "the number of frames"),
        }
    }

    fn costs(&self) -> Result<Option<OperationCosts>, Failure> {
        let (read, write) = (self.read_cost, self.write_cost);
        if read == 0.0 && write == 0.0 {
            return Ok(None);
        }
        check_costs(read, write)?;
        let unit = Unit::Microseconds;
        Ok(Some(OperationCosts { read, write, unit }))
    }
}

/// Refuses costs that are no amounts.
pub(crate) fn check_costs(read: f64, write: f64) -> Result<(), Failure> {
    let is_amount = |cost: f64| cost.is_finite() && cost >= 0.0;
    match is_amount(read) && is_amount(write) && read > 0.0 {
        true => Ok(()),
        false => Err(CallFault::Costs { read, write }.into()),
    }
}
