//! Requests of pages to SQLite's page caches, recorded inside the program that makes them: `ebbpool sqlite run --capture`.
//!
//! The command makes memory that it shares with the program and all processes that this starts. There the preloaded library puts a
//! word of 8 bytes for each request, without a system call or a lock, and the command takes the words out. A program that finds no
//! room goes on, and the word is counted as lost.
//!
//! Words have an order that all threads and processes agree on. The reader makes a word zero when it has taken it, so that one which is
//! not zero is whole.

#![allow(unsafe_code)]

mod hooks;

use std::ffi::{OsStr, c_int, c_void};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use hooks::Rehearsal;
pub(crate) use hooks::{begin, watch_files};

use crate::sync::lock;

/// The environment variable with the file of the shared memory.
pub const VARIABLE: &str = "EBBPOOL_SQLITE_CAPTURE";

/// Kinds of words.
pub mod kind {
    /// A cache is asked for a page: a hit, a miss, or a page that is new.
    pub const REQUEST: u64 = 1;
    /// SQLite writes a page of a cache, to the database or its log.
    pub const WRITE: u64 = 2;
    /// A transaction that writes has committed.
    pub const COMMIT: u64 = 3;
    /// A cache begins; the page is where its database stands among the names.
    pub const BEGIN: u64 = 4;
    /// A cache ends.
    pub const END: u64 = 5;
    /// A library with a copy of SQLite is watched; the page is where its name stands.
    pub const LIBRARY: u64 = 6;
}

/// Bytes in front of the words: counters, each in a line of the processor's cache of its own, and the names of databases.
const HEAD: usize = 1 << 20;
/// Where names begin.
const NAMES: usize = 4096;
/// The first word says which layout this is.
const LAYOUT: u64 = 0x0031_5153_4242_45ff;
/// Words of room that no one takes, since several threads may find the same room.
const SLACK: u64 = 1024;
/// Bits of a word: its page, its cache, its kind.
const PAGE_BITS: u32 = 32;
const CACHE_BITS: u32 = 28;

/// Counters, by their place among the lines.
#[derive(Clone, Copy)]
enum Counter {
    Layout,
    /// Words that all processes have put there.
    Put,
    /// Words that the reader has taken.
    Taken,
    Lost,
    Caches,
    /// Bytes of names.
    Names,
    /// Bytes written to databases, to their logs and journals, and to other files.
    Database,
    Log,
    Other,
    /// Calls of functions for files.
    Calls,
    /// Copies of SQLite that had begun before they could be watched, or are more than there is room for.
    Unwatched,
    /// Databases whose names found no room.
    Unnamed,
}

/// A word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// One of [`kind`].
    pub kind: u64,
    /// The number of the cache.
    pub cache: u32,
    /// The page, from 1 on; for some kinds something else.
    pub page: u32,
}

impl Word {
    #[inline]
    fn whole(self) -> u64 {
        self.kind << (PAGE_BITS + CACHE_BITS) | u64::from(self.cache) << PAGE_BITS | u64::from(self.page)
    }
}

/// A database, as the one that opened it has found it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordedDatabase {
    /// Its path.
    pub path: PathBuf,
    /// Device, number and time of birth in nanoseconds: a file of the same name that came later is another one.
    pub identity: [u64; 3],
    /// Bytes of a page.
    pub page_size: u32,
}

/// Memory that programs and the command share.
pub struct RequestRing {
    memory: NonNull<u8>,
    /// Words there is room for, a power of two.
    words: u64,
    file: File,
    /// Since when the reader waits for a word that has its place and is not there.
    waiting: Mutex<Option<Instant>>,
}

// SAFETY: the memory is mapped as long as the value lives, and all that is shared there are atomic numbers and names, which are
// written before a word points to them and never changed.
unsafe impl Send for RequestRing {}
// SAFETY: as above.
unsafe impl Sync for RequestRing {}

impl RequestRing {
    /// Memory with room for that many bytes of words, rounded up to a power of two.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn new(bytes: usize) -> io::Result<RequestRing> {
        let words = (bytes.max(1 << 16) / 8).next_power_of_two() as u64;
        // SAFETY: the name ends with a zero, and the descriptor is new.
        let file = unsafe {
            match libc::memfd_create(c"ebbpool".as_ptr(), libc::MFD_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error()),
                descriptor => File::from_raw_fd(descriptor),
            }
        };
        file.set_len(HEAD as u64 + 8 * words)?;
        let ring = RequestRing::map(file, libc::MAP_POPULATE)?;
        ring.counter(Counter::Layout).store(LAYOUT, Ordering::Release);
        Ok(ring)
    }

    /// The memory that another process has made.
    ///
    /// # Errors
    ///
    /// The system's, and `InvalidData` if the file is no such memory.
    pub fn open(path: &OsStr) -> io::Result<RequestRing> {
        let ring = RequestRing::map(OpenOptions::new().read(true).write(true).open(path)?, 0)?;
        match ring.counter(Counter::Layout).load(Ordering::Acquire) {
            LAYOUT => Ok(ring),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it is of another version of ebbpool")),
        }
    }

    fn map(file: File, flags: c_int) -> io::Result<RequestRing> {
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let words = bytes.saturating_sub(HEAD) as u64 / 8;
        if !words.is_power_of_two() || words <= 2 * SLACK {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no memory for requests"));
        }
        // SAFETY: a new mapping at an address of the kernel's choice replaces no other one.
        let memory = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED | flags, file.as_raw_fd(), 0)
        };
        match NonNull::new(memory.cast()).filter(|_| memory != libc::MAP_FAILED) {
            Some(memory) => Ok(RequestRing { memory, words, file, waiting: Mutex::default() }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// A path by which the processes of the same user open the memory, as long as this process lives.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    fn counter(&self, counter: Counter) -> &AtomicU64 {
        // SAFETY: the counters are in front of the names, aligned to 64 bytes, and only used as atomic numbers.
        unsafe { self.memory.add(64 * counter as usize).cast().as_ref() }
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        // SAFETY: the place is below the number of words; words are aligned, and only used as atomic numbers.
        unsafe { self.memory.add(HEAD + 8 * (at & (self.words - 1)) as usize).cast().as_ref() }
    }

    fn add(&self, counter: Counter, number: u64) -> u64 {
        self.counter(counter).fetch_add(number, Ordering::Relaxed)
    }

    /// Puts a word there, if there is room.
    #[inline]
    fn put(&self, word: Word) {
        self.put_whole(word.whole());
    }

    #[inline]
    fn put_whole(&self, whole: u64) {
        let put = self.counter(Counter::Put);
        // Another process may have changed them to anything.
        let waiting = put.load(Ordering::Relaxed).wrapping_sub(self.counter(Counter::Taken).load(Ordering::Relaxed));
        if waiting > self.words - SLACK {
            self.add(Counter::Lost, 1);
            return;
        }
        let at = put.fetch_add(1, Ordering::Relaxed);
        self.word(at).store(whole, Ordering::Release);
    }

    /// A number for a new cache of the database whose name stands there, and the word that says so.
    fn begin_cache(&self, name: Option<u32>) -> Option<u32> {
        let cache = self.add(Counter::Caches, 1);
        match name.filter(|_| cache >> CACHE_BITS == 0) {
            Some(at) => self.put(Word { kind: kind::BEGIN, cache: cache as u32, page: at }),
            None => {
                self.add(Counter::Unnamed, 1);
                return None;
            }
        }
        Some(cache as u32)
    }

    /// Where a name stands from now on; `None` if there is no room.
    fn add_name(&self, database: &RecordedDatabase) -> Option<u32> {
        let path = database.path.as_os_str().as_bytes();
        let numbers: Vec<u64> =
            [u64::from(database.page_size), path.len() as u64].into_iter().chain(database.identity).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).chain(path.iter().copied()).collect();
        let at = self.add(Counter::Names, bytes.len() as u64) as usize;
        if at.saturating_add(bytes.len()) > HEAD - NAMES {
            return None;
        }
        // SAFETY: the place is among the names, and no one else has got it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.add(NAMES + at).as_ptr(), bytes.len()) };
        Some(at as u32)
    }

    /// The database whose name is at this place; `None` if there is none. Programs are not trusted: any bytes may be there.
    pub fn database(&self, at: u32) -> Option<RecordedDatabase> {
        const NUMBERS: usize = 5;
        let byte = |at: usize| {
            // SAFETY: the place is among the names; another process may change it meanwhile, so that it is read as a number that
            // may change.
            (at < HEAD - NAMES).then(|| unsafe { self.memory.add(NAMES + at).as_ptr().read_volatile() })
        };
        let bytes = |at: usize, length: usize| (at..at.checked_add(length)?).map(byte).collect::<Option<Vec<u8>>>();
        let at = at as usize;
        let numbers = bytes(at, 8 * NUMBERS)?;
        let number = |index: usize| Some(u64::from_ne_bytes(numbers.get(8 * index..8 * index + 8)?.try_into().ok()?));
        let path = bytes(at + 8 * NUMBERS, usize::try_from(number(1)?).ok()?)?;
        Some(RecordedDatabase {
            path: OsStr::from_bytes(&path).into(),
            identity: [number(2)?, number(3)?, number(4)?],
            page_size: u32::try_from(number(0)?).ok()?,
        })
    }

    /// Hands over the words that wait, in their order, until `take` returns false. False if words are left because it did.
    pub fn take(&self, mut take: impl FnMut(Word) -> bool) -> bool {
        /// A thread that has got a place and was killed leaves it empty; one that was stopped may come back.
        const PATIENCE: Duration = Duration::from_secs(2);
        const TOGETHER: u64 = 1024;
        let mut goes_on = true;
        let mut waiting = lock(&self.waiting);
        let mut at = self.counter(Counter::Taken).load(Ordering::Relaxed);
        let end = self.counter(Counter::Put).load(Ordering::Acquire);
        // What another process has written there may be anything.
        let end = at.wrapping_add(end.wrapping_sub(at).min(self.words));
        while at != end {
            let whole = self.word(at).swap(0, Ordering::Acquire);
            if whole == 0 && waiting.get_or_insert_with(Instant::now).elapsed() < PATIENCE {
                break;
            }
            *waiting = None;
            at = at.wrapping_add(1);
            // Seldom, since each time all programs must fetch it anew.
            if at.is_multiple_of(TOGETHER) {
                self.counter(Counter::Taken).store(at, Ordering::Release);
            }
            if whole == 0 {
                self.add(Counter::Lost, 1);
                continue;
            }
            let cache = (whole >> PAGE_BITS) as u32 & ((1 << CACHE_BITS) - 1);
            if !take(Word { kind: whole >> (PAGE_BITS + CACHE_BITS), cache, page: whole as u32 }) {
                goes_on = false;
                break;
            }
        }
        self.counter(Counter::Taken).store(at, Ordering::Release);
        goes_on || at == end
    }

    /// The filled share, 0 to 1.
    pub fn fill(&self) -> f64 {
        let [put, taken] = [Counter::Put, Counter::Taken].map(|it| self.counter(it).load(Ordering::Relaxed));
        put.wrapping_sub(taken) as f64 / self.words as f64
    }

    /// Words that programs have put there so far.
    pub fn put_so_far(&self) -> u64 {
        self.counter(Counter::Put).load(Ordering::Relaxed)
    }

    /// Calls of functions for files so far.
    pub fn calls_so_far(&self) -> u64 {
        self.counter(Counter::Calls).load(Ordering::Relaxed)
    }

    /// Words that found no room.
    pub fn lost(&self) -> u64 {
        self.counter(Counter::Lost).load(Ordering::Relaxed)
    }

    /// Bytes written to databases, to logs and journals, and to other files.
    pub fn written(&self) -> [u64; 3] {
        [Counter::Database, Counter::Log, Counter::Other].map(|it| self.counter(it).load(Ordering::Relaxed))
    }

    /// Copies of SQLite that had begun before they could be watched.
    pub fn unwatched(&self) -> u64 {
        self.counter(Counter::Unwatched).load(Ordering::Relaxed)
    }

    /// Databases of which nothing is recorded, since their names found no room.
    pub fn unnamed(&self) -> u64 {
        self.counter(Counter::Unnamed).load(Ordering::Relaxed)
    }
}

static PASSED_TO: AtomicI32 = AtomicI32::new(0);

/// Passes signals that another process sends to this one on to a child. Those of a terminal go to both already.
pub fn pass_signals_on(child: u32) {
    PASSED_TO.store(child as i32, Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: the function calls nothing that a handler may not, and all fields of the structure may be zero.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = pass_on as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

extern "C" fn pass_on(signal: c_int, about: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes what it knows about the signal; kill may be called in a handler.
    unsafe {
        if (*about).si_code <= 0 {
            libc::kill(PASSED_TO.load(Ordering::Relaxed), signal);
        }
    }
}

impl Drop for RequestRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and no reference to it outlives the value.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), HEAD + 8 * self.words as usize) };
    }
}
