//! What SQLite calls in place of its own page cache (`SQLITE_CONFIG_PCACHE2`) and of some functions of its files, in programs whose
//! requests are recorded. Each calls the function that it stands for, with the same arguments.
//!
//! 1. A request is a call of the cache's `xFetch` that may make the page and returns one, or of the file's, where SQLite reads
//!    mapped memory. SQLite asks a second time only after it got nothing.
//! 2. SQLite opens a database before it makes its cache, on the same thread, and closes it before it ends the cache. A cache of
//!    another page size is made before the old one ends, while the file is open.
//! 3. A page is written where the file of the database gets it, outside of a checkpoint (`SQLITE_FCNTL_CKPT_START`), or where
//!    its log gets the head of a frame, or another page behind a head that it has.
//! 4. Files in layers, of one VFS above another, are one file: that which SQLite has.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, RwLockWriteGuard};

use super::{Counter, RecordedDatabase, RequestRing, VARIABLE, Word, kind};
use crate::ffi::{self, Api, File, IoMethods, Vfs};
use crate::sync::{close_gate, lock};

const CONFIG_PCACHE2: c_int = 18;
const CONFIG_GETPCACHE2: c_int = 19;
/// Copies of SQLite in a process that are watched: the functions of each know the copy by its number.
const COPIES: usize = 4;
/// The head of a log, and that of a frame, which begins with the number of its page.
const LOG_HEAD: i64 = 32;
const FRAME_HEAD: i64 = 24;

type Opener = unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int;
type ConfigFunction = unsafe extern "C" fn(c_int, ...) -> c_int;
type DatabaseOfName = unsafe extern "C" fn(*const c_char) -> *const c_char;

/// `sqlite3_pcache_methods2`.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(non_snake_case)]
struct CacheMethods {
    iVersion: c_int,
    pArg: *mut c_void,
    xInit: *const c_void,
    xShutdown: *const c_void,
    xCreate: unsafe extern "C" fn(c_int, c_int, c_int) -> *mut c_void,
    xCachesize: unsafe extern "C" fn(*mut c_void, c_int),
    xPagecount: unsafe extern "C" fn(*mut c_void) -> c_int,
    xFetch: unsafe extern "C" fn(*mut c_void, c_uint, c_int) -> *mut c_void,
    xUnpin: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int),
    xRekey: unsafe extern "C" fn(*mut c_void, *mut c_void, c_uint, c_uint),
    xTruncate: unsafe extern "C" fn(*mut c_void, c_uint),
    xDestroy: unsafe extern "C" fn(*mut c_void),
    xShrink: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: the pointers are those that SQLite has given, which it uses in all threads.
unsafe impl Send for CacheMethods {}
// SAFETY: as above.
unsafe impl Sync for CacheMethods {}

/// `sqlite3_io_methods` with what version 3 has more.
#[repr(C)]
#[allow(non_snake_case)]
struct MappedMethods {
    first: IoMethods,
    xFetch: unsafe extern "C" fn(*mut File, i64, c_int, *mut *mut c_void) -> c_int,
    xUnfetch: unsafe extern "C" fn(*mut File, i64, *mut c_void) -> c_int,
}

/// Words of memory for a table of functions.
const METHODS: usize = size_of::<MappedMethods>() / size_of::<usize>();

/// A copy of SQLite, as far as it is watched.
struct WatchedCopy {
    config: usize,
    database_of_name: Option<DatabaseOfName>,
}

/// A cache as SQLite has it.
struct Cache {
    inner: *mut c_void,
    real: &'static CacheMethods,
    ring: &'static RequestRing,
    /// The word of a request without its page; zero if its requests are not recorded.
    request: Cell<u64>,
    /// Its number, if its requests are recorded.
    number: Cell<Option<u32>>,
    page_size: u32,
    /// The address of its database's handle.
    file: Cell<usize>,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Database,
    Log,
    Other,
}

/// A file that SQLite has open.
struct Open {
    real: *const MappedMethods,
    role: Role,
    /// The address of its name, by which SQLite finds the database of a log.
    name: usize,
    database: RecordedDatabase,
    /// Of a log the handle of its database.
    of: usize,
    cache: Option<u32>,
    is_in_checkpoint: bool,
    /// Where the page behind the latest head of a log goes.
    behind_head: i64,
}

#[derive(Default)]
struct State {
    copies: Vec<WatchedCopy>,
    /// What opens files of a VFS.
    openers: HashMap<usize, Opener>,
    /// The default one.
    default: usize,
    /// Where the names of databases stand.
    names: HashMap<RecordedDatabase, u32>,
    files: HashMap<usize, Open>,
    /// Functions of files by those that they stand for. They stay.
    methods: HashMap<usize, usize>,
    /// The caches that have no database.
    unbound: HashSet<usize>,
}

// SAFETY: the pointers are to functions, which stay as long as SQLite is loaded.
unsafe impl Send for State {}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static REAL: [OnceLock<CacheMethods>; COPIES] = [const { OnceLock::new() }; COPIES];
/// How often a file was opened, closed or bound to a cache.
static CHANGES: AtomicU64 = AtomicU64::new(1);
static RING: OnceLock<Option<RequestRing>> = OnceLock::new();

thread_local! {
    /// Calls of `xOpen` that the thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The VFS of the innermost.
    static WITHIN: Cell<usize> = const { Cell::new(0) };
    /// The file of the latest page of mapped memory, its functions and cache, and when that was so.
    static MAPPED: Cell<(usize, *const MappedMethods, u32, u64)> = const { Cell::new((0, std::ptr::null(), 0, 0)) };
    /// The database that was opened last and has no cache yet.
    static OPENED: Cell<usize> = const { Cell::new(0) };
    /// The cache that was made last and has no database.
    static FRESH: Cell<usize> = const { Cell::new(0) };
    /// The lock, while the thread is in `fork`.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// The memory that the environment names, if it names some.
fn ring() -> Option<&'static RequestRing> {
    let ring = RING.get_or_init(|| {
        let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty())?;
        match RequestRing::open(&path) {
            Ok(ring) => {
                // SAFETY: the functions stay, because the library is never unloaded.
                unsafe { libc::pthread_atfork(Some(before_fork), Some(behind_fork), Some(behind_fork)) };
                Some(ring)
            }
            // The command has ended.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                say(&format!("process {} is not captured: {}: {error}", std::process::id(), path.display()));
                None
            }
        }
    });
    ring.as_ref()
}

/// Where standard error is closed, this goes nowhere.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "ebbpool: {text}");
}

/// What the thread that calls `fork` has locked meanwhile: threads pass the gate before they look for libraries, for which the loader has
/// a lock, and before they take the second one.
type Held = (RwLockWriteGuard<'static, ()>, MutexGuard<'static, Option<State>>);

unsafe extern "C" fn before_fork() {
    let gate = close_gate();
    HELD.set(Some((gate, lock(&STATE))));
}

unsafe extern "C" fn behind_fork() {
    HELD.take();
}

/// Has a copy of SQLite use the functions below, before it begins; `library` is a handle of the loader. Does nothing where the
/// environment asks for no recording, or the copy has them already.
///
/// # Safety
///
/// The functions of the library are SQLite's.
pub(crate) unsafe fn begin(library: *mut c_void) {
    let Some(ring) = ring() else { return };
    // SAFETY: names end with a zero; the functions have these types in sqlite3.h.
    let (config, database_of_name) = unsafe {
        let config = libc::dlsym(library, c"sqlite3_config".as_ptr());
        let name = libc::dlsym(library, c"sqlite3_filename_database".as_ptr());
        (config, std::mem::transmute::<*mut c_void, Option<DatabaseOfName>>(name))
    };
    let mut state = lock(&STATE);
    let copies = &mut state.get_or_insert_default().copies;
    if config.is_null() || copies.iter().any(|copy| copy.config == config as usize) {
        return;
    }
    let number = copies.len();
    copies.push(WatchedCopy { config: config as usize, database_of_name });
    // SAFETY: the functions take these numbers with a table of functions, which they copy.
    let done = unsafe {
        let config = std::mem::transmute::<*mut c_void, ConfigFunction>(config);
        let mut real = std::mem::MaybeUninit::<CacheMethods>::uninit();
        match REAL.get(number) {
            Some(place) if config(CONFIG_GETPCACHE2, real.as_mut_ptr()) == ffi::OK => {
                let real = place.get_or_init(|| real.assume_init());
                config(CONFIG_PCACHE2, &table(real, number)) == ffi::OK
            }
            _ => false,
        }
    };
    if done {
        let library = RecordedDatabase { path: path_of(config), identity: [0; 3], page_size: 0 };
        let at = ring.add_name(&library);
        at.into_iter().for_each(|at| ring.put(Word { kind: kind::LIBRARY, cache: 0, page: at }));
    } else {
        ring.add(Counter::Unwatched, 1);
        say(&format!("process {} used SQLite before it could be watched: that copy is not captured", std::process::id()));
    }
}

/// The file in which a function is.
fn path_of(function: *const c_void) -> PathBuf {
    // SAFETY: any address may be asked for; a name that is found ends with a zero and stays as long as its library.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        match libc::dladdr(function, &mut found) != 0 && !found.dli_fname.is_null() {
            true => OsStr::from_bytes(CStr::from_ptr(found.dli_fname).to_bytes()).into(),
            false => PathBuf::new(),
        }
    }
}

/// Has the VFSs of a copy of SQLite, which has begun, open files that are watched. To be called before a database is opened. False
/// if SQLite has no VFS yet.
///
/// # Safety
///
/// The functions are SQLite's.
pub(crate) unsafe fn watch_files(api: &Api) -> bool {
    if ring().is_none() {
        return true;
    }
    // SAFETY: the caller's. SQLite begins, which must not find the lock taken.
    let mut vfs = unsafe { (api.vfs_find)(std::ptr::null()) };
    let has_some = !vfs.is_null();
    let mut state = lock(&STATE);
    let state = state.get_or_insert_default();
    state.default = if state.openers.is_empty() { vfs as usize } else { state.default };
    let openers = &mut state.openers;
    // SAFETY: SQLite lists its VFSs, which it can write itself, since the list goes through them.
    unsafe {
        while !vfs.is_null() {
            // SQLite compares the functions of databases in memory with its own.
            let is_in_memory = CStr::from_ptr((*vfs).zName) == c"memdb";
            if !is_in_memory && (*vfs).xOpen as usize != open as *const () as usize {
                openers.insert(vfs as usize, (*vfs).xOpen);
                (*vfs).xOpen = open;
            }
            vfs = (*vfs).pNext;
        }
    }
    has_some
}

unsafe extern "C" fn open(vfs: *mut Vfs, name: *const c_char, file: *mut File, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: SQLite passes a VFS.
    let Some(opener) = (unsafe { opener_of(vfs) }) else { return ffi::CANTOPEN };
    let within = WITHIN.replace(vfs as usize);
    DEPTH.set(DEPTH.get() + 1);
    // SAFETY: the call is passed on as it is.
    let code = unsafe { opener(vfs, name, file, flags, out) };
    DEPTH.set(DEPTH.get() - 1);
    WITHIN.set(within);
    let role = match flags & ffi::OPEN_KINDS {
        ffi::OPEN_MAIN_DB => Role::Database,
        ffi::OPEN_WAL | ffi::OPEN_MAIN_JOURNAL | ffi::OPEN_SUPER_JOURNAL => Role::Log,
        _ => Role::Other,
    };
    if code == ffi::OK && DEPTH.get() == 0 {
        // SAFETY: SQLite has a handle now, whose functions and name are as sqlite3.h says.
        unsafe { watch(name, file, role, flags) };
    }
    code
}

/// The function that opened files of a VFS before. A program may have copied a VFS with this function in it, or call that of another one
/// with a VFS of its own: then it is that of the VFS with the same data, and else SQLite's default.
///
/// # Safety
///
/// `vfs` is one.
unsafe fn opener_of(vfs: *mut Vfs) -> Option<Opener> {
    let state = lock(&STATE);
    let openers = &state.as_ref()?.openers;
    let own = openers.get(&(vfs as usize)).filter(|_| WITHIN.get() != vfs as usize);
    // SAFETY: the caller's, and SQLite's VFSs stay.
    let alike = || unsafe {
        openers.iter().find(|(at, _)| **at != vfs as usize && (*(**at as *const Vfs)).pAppData == (*vfs).pAppData)
    };
    own.or_else(|| Some(alike()?.1)).or_else(|| openers.get(&state.as_ref()?.default)).copied()
}

/// # Safety
///
/// As `xOpen`, of a file that was opened.
unsafe fn watch(name: *const c_char, file: *mut File, role: Role, flags: c_int) {
    // SAFETY: the caller's; names end with a zero.
    let (real, path) = unsafe {
        let path = (!name.is_null()).then(|| OsStr::from_bytes(CStr::from_ptr(name).to_bytes()));
        ((*file).methods.cast::<MappedMethods>(), path)
    };
    if real.is_null() {
        return;
    }
    let identity = path.filter(|_| role == Role::Database).map(|path| identity(path.as_ref()));
    let mut state = lock(&STATE);
    let state = state.get_or_insert_default();
    let of = match flags & ffi::OPEN_KINDS {
        ffi::OPEN_WAL => {
            let find = state.copies.iter().find_map(|copy| copy.database_of_name);
            // SAFETY: SQLite has given the name of a log.
            let database = find.map_or(0, |find| unsafe { find(name) } as usize);
            state.files.iter().find(|(_, open)| open.name == database && open.role == Role::Database).map_or(0, |(at, _)| *at)
        }
        _ => 0,
    };
    let database = RecordedDatabase {
        path: path.filter(|_| role == Role::Database).map(Into::into).unwrap_or_default(),
        identity: identity.unwrap_or_default(),
        page_size: 0,
    };
    let open = Open { real, role, name: name as usize, database, of, cache: None, is_in_checkpoint: false, behind_head: 0 };
    state.files.insert(file as usize, open);
    CHANGES.fetch_add(1, Ordering::Release);
    let methods = *state.methods.entry(real as usize).or_insert_with(|| watching(real) as usize);
    // SAFETY: as above; the functions stay.
    unsafe { (*file).methods = methods as *const IoMethods };
    if role == Role::Database && path.is_some() {
        OPENED.set(file as usize);
    }
}

/// Device, number and time of birth of a file; zero where it has none.
fn identity(path: &Path) -> [u64; 3] {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let flags = StatxFlags::INO | StatxFlags::BTIME;
    statx(CWD, path, AtFlags::empty(), flags).map_or([0; 3], |found| {
        let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
        let born = (found.stx_btime.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(u64::from(found.stx_btime.tv_nsec));
        [device, found.stx_ino, born]
    })
}

/// The functions of a file with some of those below in their place. They stay, as a few do for each copy of SQLite.
fn watching(real: *const MappedMethods) -> *const MappedMethods {
    const MAPPED: c_int = 3;
    let memory = Box::leak(Box::new([0usize; METHODS]));
    let methods: *mut MappedMethods = memory.as_mut_ptr().cast();
    // SAFETY: a table has as many functions as its version says, and no more are copied; those of the first version are all there.
    unsafe {
        let version = (*real).first.iVersion;
        let bytes = match version {
            ..2 => std::mem::offset_of!(IoMethods, xShmMap),
            2 => size_of::<IoMethods>(),
            _ => size_of::<MappedMethods>(),
        };
        std::ptr::copy_nonoverlapping(real.cast::<u8>(), methods.cast(), bytes);
        // No later version has been looked at.
        (*methods).first.iVersion = version.min(MAPPED);
        (*methods).first.xWrite = write;
        (*methods).first.xFileControl = file_control;
        (*methods).first.xClose = close;
        if version >= MAPPED {
            (*methods).xFetch = fetch_mapped;
        }
    }
    methods
}

/// What `look` finds about a file that is watched, which all are that have the functions below.
fn of_file<R>(file: *mut File, look: impl FnOnce(&mut Open) -> R) -> Option<R> {
    if let Some(Some(ring)) = RING.get() {
        ring.add(Counter::Calls, 1);
    }
    lock(&STATE).as_mut()?.files.get_mut(&(file as usize)).map(look)
}

unsafe extern "C" fn write(file: *mut File, data: *const c_void, length: c_int, at: i64) -> c_int {
    let Some(real) = of_file(file, |open| open.real) else { return ffi::IOERR };
    // SAFETY: the call is passed on as it is.
    let code = unsafe { ((*real).first.xWrite)(file, data, length, at) };
    let Some(ring) = ring().filter(|_| code == ffi::OK && length > 0) else {
        return code;
    };
    let mut state = lock(&STATE);
    let Some(files) = state.as_mut().map(|state| &mut state.files) else { return code };
    let Some(Open { role, of, .. }) = files.get(&(file as usize)) else { return code };
    let (role, database) = (*role, if *role == Role::Database { file as usize } else { *of });
    let counter = match role {
        Role::Database => Counter::Database,
        Role::Log => Counter::Log,
        Role::Other => Counter::Other,
    };
    ring.add(counter, length as u64);
    let owner = files.get(&database).filter(|open| !open.is_in_checkpoint || role == Role::Log);
    let found = owner.and_then(|open| Some((open.cache?, i64::from(open.database.page_size))));
    let Some((cache, page_size)) = found.filter(|(_, page_size)| *page_size > 0) else {
        return code;
    };
    let page = if role == Role::Database {
        (i64::from(length) == page_size).then_some(at / page_size + 1)
    } else {
        let in_frame = (at - LOG_HEAD).rem_euclid(FRAME_HEAD + page_size);
        let behind_head = files.get_mut(&(file as usize)).map(|open| &mut open.behind_head);
        match behind_head {
            Some(behind_head) if in_frame == 0 && length >= 4 => {
                *behind_head = at + FRAME_HEAD;
                // SAFETY: SQLite passes as many bytes as it says.
                Some(i64::from(u32::from_be(unsafe { data.cast::<u32>().read_unaligned() })))
            }
            Some(behind_head) if in_frame == FRAME_HEAD && i64::from(length) == page_size => {
                let is_behind_head = std::mem::take(behind_head) == at;
                drop(state);
                let mut number = 0u32;
                // SAFETY: the file is open for both, and the number has room for these bytes.
                (!is_behind_head
                    && unsafe { ((*real).first.xRead)(file, (&raw mut number).cast(), 4, at - FRAME_HEAD) } == ffi::OK)
                    .then(|| i64::from(u32::from_be(number)))
            }
            _ => None,
        }
    };
    if let Some(page) = page.and_then(|page| u32::try_from(page).ok()) {
        ring.put(Word { kind: kind::WRITE, cache, page });
    }
    code
}

unsafe extern "C" fn file_control(file: *mut File, operation: c_int, argument: *mut c_void) -> c_int {
    let found = of_file(file, |open| {
        match operation {
            ffi::FCNTL_CKPT_START => open.is_in_checkpoint = true,
            ffi::FCNTL_CKPT_DONE => open.is_in_checkpoint = false,
            _ => {}
        }
        (open.real, open.cache)
    });
    let Some((real, cache)) = found else { return ffi::NOTFOUND };
    if let (ffi::FCNTL_COMMIT_PHASETWO, Some(cache), Some(ring)) = (operation, cache, ring()) {
        ring.put(Word { kind: kind::COMMIT, cache, page: 0 });
    }
    // SAFETY: the call is passed on as it is.
    unsafe { ((*real).first.xFileControl)(file, operation, argument) }
}

unsafe extern "C" fn fetch_mapped(file: *mut File, at: i64, length: c_int, out: *mut *mut c_void) -> c_int {
    // Without a lock where the thread has fetched from the same file before.
    let changes = CHANGES.load(Ordering::Acquire);
    let known = MAPPED.get();
    let (real, cache) = if (known.0, known.3) == (file as usize, changes) {
        (known.1, Some(known.2))
    } else {
        let Some((real, cache)) = of_file(file, |open| (open.real, open.cache)) else { return ffi::IOERR };
        cache.into_iter().for_each(|cache| MAPPED.set((file as usize, real, cache, changes)));
        (real, cache)
    };
    // SAFETY: the call is passed on as it is; SQLite passes a place for the answer.
    let (code, is_there) = unsafe { (((*real).xFetch)(file, at, length, out), !(*out).is_null()) };
    if let (ffi::OK, true, Some(cache), Some(Some(ring))) = (code, is_there, cache, RING.get()) {
        ring.put(Word { kind: kind::REQUEST, cache, page: (at / i64::from(length.max(1))) as u32 + 1 });
    }
    code
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    if OPENED.get() == file as usize {
        OPENED.set(0);
    }
    let open = lock(&STATE).as_mut().and_then(|state| state.files.remove(&(file as usize)));
    CHANGES.fetch_add(1, Ordering::Release);
    match open {
        // SAFETY: the call is passed on as it is.
        Some(open) => unsafe { ((*open.real).first.xClose)(file) },
        None => ffi::IOERR,
    }
}

/// The functions of a cache, for a copy of SQLite by its number.
fn table(real: &CacheMethods, number: usize) -> CacheMethods {
    let creates = [create::<0>, create::<1>, create::<2>, create::<3>];
    CacheMethods {
        xCreate: creates[number],
        xCachesize: set_size,
        xPagecount: page_count,
        xFetch: fetch,
        xUnpin: unpin,
        xRekey: rekey,
        xTruncate: truncate,
        xDestroy: destroy,
        xShrink: shrink,
        ..*real
    }
}

unsafe extern "C" fn create<const COPY: usize>(page_size: c_int, extra: c_int, purgeable: c_int) -> *mut c_void {
    let (Some(real), Some(ring)) = (REAL[COPY].get(), ring()) else {
        return std::ptr::null_mut();
    };
    // SAFETY: the call is passed on as it is.
    let inner = unsafe { (real.xCreate)(page_size, extra, purgeable) };
    if inner.is_null() {
        return inner;
    }
    let page_size = page_size as u32;
    let cache = Cache { inner, real, ring, request: Cell::new(0), number: Cell::new(None), page_size, file: Cell::new(0) };
    let cache = Box::into_raw(Box::new(cache));
    if purgeable != 0 {
        match OPENED.take() {
            0 => {
                FRESH.set(cache as usize);
                lock(&STATE).get_or_insert_default().unbound.insert(cache as usize);
            }
            // SAFETY: it was made above.
            file => bind(unsafe { &*cache }, file),
        }
    }
    cache.cast()
}

/// Records the requests to a cache as those to the database of this handle (2).
fn bind(cache: &Cache, file: usize) {
    let number = of_file(file as *mut File, |open| {
        open.database.page_size = cache.page_size;
        open.database.clone()
    });
    let number = number.and_then(|database| {
        let known = lock(&STATE).as_ref().and_then(|state| state.names.get(&database).copied());
        let name = known.or_else(|| cache.ring.add_name(&database));
        if let (None, Some(name), Some(state)) = (known, name, lock(&STATE).as_mut()) {
            state.names.insert(database, name);
        }
        cache.ring.begin_cache(name)
    });
    of_file(file as *mut File, |open| open.cache = number);
    CHANGES.fetch_add(1, Ordering::Release);
    cache.number.set(number);
    let request = number.map(|cache| Word { kind: kind::REQUEST, cache, page: 0 }.whole());
    cache.request.set(request.unwrap_or(0));
    cache.file.set(file);
}

/// # Safety
///
/// `cache` is one that `create` has made.
unsafe fn cache_at<'a>(cache: *mut c_void) -> &'a Cache {
    // SAFETY: the caller's.
    unsafe { &*cache.cast::<Cache>() }
}

unsafe extern "C" fn fetch(this: *mut c_void, page: c_uint, make: c_int) -> *mut c_void {
    // SAFETY: SQLite passes a cache that it has got; the call is passed on as it is.
    let (cache, found) = unsafe {
        let cache = cache_at(this);
        (cache, (cache.real.xFetch)(cache.inner, page, make))
    };
    let request = cache.request.get();
    if make != 0 && !found.is_null() && request != 0 {
        cache.ring.put_whole(request | u64::from(page));
    }
    found
}

unsafe extern "C" fn destroy(this: *mut c_void) {
    // SAFETY: SQLite passes a cache that it has got, and does not use it again.
    let cache = unsafe { Box::from_raw(this.cast::<Cache>()) };
    let fresh = FRESH.take();
    if let Some(state) = lock(&STATE).as_mut() {
        state.unbound.remove(&(this as usize));
    }
    if let Some(number) = cache.number.get() {
        let file = cache.file.get();
        let is_open = of_file(file as *mut File, |_| ()).is_some();
        if is_open && lock(&STATE).as_mut().is_some_and(|state| state.unbound.remove(&fresh)) {
            // SAFETY: a cache at this address has not ended.
            bind(unsafe { cache_at(fresh as *mut c_void) }, file);
        }
        cache.ring.put(Word { kind: kind::END, cache: number, page: 0 });
    }
    // SAFETY: the call is passed on as it is.
    unsafe { (cache.real.xDestroy)(cache.inner) }
}

/// Functions that only pass their call on to SQLite's own cache.
macro_rules! passed_on {
    ($($name:ident => $method:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(unsafe extern "C" fn $name(this: *mut c_void, $($argument: $kind),*) -> $result {
            // SAFETY: SQLite passes a cache that it has got; the call is passed on as it is.
            unsafe {
                let cache = cache_at(this);
                (cache.real.$method)(cache.inner, $($argument),*)
            }
        })*
    };
}

passed_on! {
    set_size => xCachesize(pages: c_int) -> ();
    page_count => xPagecount() -> c_int;
    unpin => xUnpin(page: *mut c_void, discard: c_int) -> ();
    rekey => xRekey(page: *mut c_void, old: c_uint, new: c_uint) -> ();
    truncate => xTruncate(limit: c_uint) -> ();
    shrink => xShrink() -> ();
}

/// A cache and a file that do nothing, to measure what recording takes.
pub struct Rehearsal {
    cache: Box<Cache>,
    file: Box<File>,
}

unsafe extern "C" fn found(cache: *mut c_void, _page: c_uint, _make: c_int) -> *mut c_void {
    cache
}

unsafe extern "C" fn given_back(_cache: *mut c_void, _page: *mut c_void, _discard: c_int) {}

unsafe extern "C" fn unknown(_file: *mut File, _operation: c_int, _argument: *mut c_void) -> c_int {
    ffi::NOTFOUND
}

impl Rehearsal {
    /// A cache and a file in this process.
    ///
    /// # Errors
    ///
    /// The system's, if there is no memory to share.
    pub fn new() -> std::io::Result<Rehearsal> {
        let ring: &'static RequestRing = Box::leak(Box::new(RequestRing::new(1 << 20)?));
        let real: &'static CacheMethods = Box::leak(Box::new(CacheMethods {
            iVersion: 1,
            pArg: std::ptr::null_mut(),
            xInit: std::ptr::null(),
            xShutdown: std::ptr::null(),
            xCreate: create::<0>,
            xCachesize: set_size,
            xPagecount: page_count,
            xFetch: found,
            xUnpin: given_back,
            xRekey: rekey,
            xTruncate: truncate,
            xDestroy: destroy,
            xShrink: shrink,
        }));
        let request = Cell::new(Word { kind: kind::REQUEST, cache: 1, page: 0 }.whole());
        let inner = std::ptr::dangling_mut::<c_void>();
        let cache = Cache { inner, real, ring, request, number: Cell::new(None), page_size: 0, file: Cell::new(0) };
        let methods: *mut MappedMethods = Box::leak(Box::new([0usize; METHODS])).as_mut_ptr().cast();
        // SAFETY: the table has room for all functions, and no other one is called.
        unsafe {
            (&raw mut (*methods).first.iVersion).write(1);
            (&raw mut (*methods).first.xFileControl).write(unknown);
        }
        let mut file = Box::new(File { methods: methods.cast() });
        // SAFETY: the file has functions and no name.
        unsafe { watch(std::ptr::null(), &mut *file, Role::Other, 0) };
        Ok(Rehearsal { cache: Box::new(cache), file })
    }

    /// Requests a page and gives it back, as SQLite does by a table of functions: one that records, or the one below it.
    #[inline(never)]
    pub fn request(&self, page: u32, is_recorded: bool) {
        let this: *mut c_void = (&raw const *self.cache).cast_mut().cast();
        let (fetch, unpin) = match is_recorded {
            true => (fetch as unsafe extern "C" fn(_, _, _) -> _, unpin as unsafe extern "C" fn(_, _, _)),
            false => (self.cache.real.xFetch, self.cache.real.xUnpin),
        };
        // SAFETY: the cache lives, and the functions below use it only as an address.
        unsafe {
            let page = fetch(this, page, 1);
            unpin(this, page, 0);
        }
        let ring = self.cache.ring;
        if page.is_multiple_of(256) {
            let put = ring.counter(Counter::Put).load(std::sync::atomic::Ordering::Relaxed);
            ring.counter(Counter::Taken).store(put, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Calls a function of the file: one that is watched, or the one below it.
    #[inline(never)]
    pub fn call(&self, is_watched: bool) {
        let file = (&raw const *self.file).cast_mut();
        let call = if is_watched { file_control } else { unknown };
        // SAFETY: the file is watched as long as it lives.
        unsafe { call(file, 0, std::ptr::null_mut()) };
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        if let Some(state) = lock(&STATE).as_mut() {
            state.files.remove(&(&raw const *self.file as usize));
        }
    }
}
