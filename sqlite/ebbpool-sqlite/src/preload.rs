//! For programs that cannot be changed: functions that stand before SQLite's own where a library is preloaded, and make
//! the VFS the default one before the program opens its first database.
//!
//! The library `libebbpool_sqlite_preload.so` exports functions with SQLite's names, which call those here. They are not in
//! `libebbpool_sqlite.so`, nor in the crate, where they would replace those of a SQLite that is linked statically.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ffi::{self, Api};
use crate::plain::functions_of;
use crate::register_with;
use crate::requests;
use crate::sync::{gate, lock, try_gate};

/// The environment variable without which, or with 0 or nothing in which, the preloaded functions only call SQLite's.
pub const VARIABLE: &str = "EBBPOOL_SQLITE_PRELOAD";

/// The name of the library's file.
pub const LIBRARY: &str = "libebbpool_sqlite_preload.so";

/// `sqlite3_open_v2`.
pub type OpenV2 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, *const c_char) -> c_int;
/// `sqlite3_open`.
pub type Open = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
/// `sqlite3_open16`.
pub type Open16 = unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> c_int;

/// The functions of a copy of SQLite.
#[derive(Clone, Copy)]
pub struct RealSqlite {
    /// `sqlite3_open_v2`.
    pub open_v2: OpenV2,
    /// `sqlite3_open`.
    pub open: Open,
    /// `sqlite3_open16`; builds without UTF-16 have none.
    pub open16: Option<Open16>,
}

/// The copy of SQLite that a library uses, and the address of the library. The caller shows which copy is meant, since no copy can
/// use the handles of another.
struct Caller {
    /// `None` where the caller has not shown which copy it uses: the next call may come from elsewhere.
    library: Option<usize>,
    copy: RealSqlite,
    api: Api,
}

static CALLERS: Mutex<Vec<Caller>> = Mutex::new(Vec::new());

/// The copy of SQLite that the caller of a preloaded function uses: `returns_to` is the address to which the call returns, and
/// `own` the preloaded `sqlite3_open_v2`. `None` if the process has no copy, or if the caller has none and the process several.
/// The first call for a copy registers the VFS as its default one, if the environment asks for it.
pub fn real(returns_to: *const c_void, own: OpenV2) -> Option<RealSqlite> {
    // A child of fork() must not inherit the lock.
    let _gate = gate();
    let libraries = loaded_libraries();
    let caller = libraries.iter().find(|library| library.has(returns_to as usize));
    let address = caller.map(|caller| caller.address);
    let mut callers = lock(&CALLERS);
    if let Some(known) = callers.iter().find(|known| address.is_some() && known.library == address) {
        let (api, copy) = (known.api, known.copy);
        drop(callers);
        // The program may have registered VFSs since.
        // SAFETY: the functions are SQLite's.
        unsafe { requests::watch_files(&api) };
        return Some(copy);
    }
    let (library, is_shown) = find(&libraries, caller, own as *const c_void)?;
    // SAFETY: `find` returns a handle of the loader.
    let api = unsafe { functions_of(library) }?;
    // SAFETY: the names end with a zero, and the functions have these types in sqlite3.h.
    let (open, open16) =
        unsafe { (libc::dlsym(library, c"sqlite3_open".as_ptr()), libc::dlsym(library, c"sqlite3_open16".as_ptr())) };
    if open.is_null() {
        return None;
    }
    let is_known = callers.iter().any(|known| std::ptr::fn_addr_eq(known.copy.open_v2, api.open_v2));
    if !is_known {
        // SAFETY: the functions are those of the SQLite that the caller uses.
        unsafe { requests::begin(library) };
    }
    if !is_known && is_on(std::env::var_os(VARIABLE).as_deref()) {
        // SAFETY: the functions are those of the SQLite that the caller uses.
        if let Err(code) = unsafe { register_with(api, true) } {
            // Where standard error is closed, this goes nowhere.
            let _ = writeln!(std::io::stderr(), "ebbpool: SQLite does not take the VFS: {code}");
        }
    }
    if !is_known {
        // SAFETY: as above.
        unsafe { requests::watch_files(&api) };
    }
    // SAFETY: as above; `open` is not null.
    let copy = unsafe {
        RealSqlite {
            open_v2: api.open_v2,
            open: std::mem::transmute::<*mut c_void, Open>(open),
            open16: std::mem::transmute::<*mut c_void, Option<Open16>>(open16),
        }
    };
    if is_shown || !is_known {
        callers.push(Caller { library: address.filter(|_| is_shown), copy, api });
    }
    Some(copy)
}

/// `sqlite3_initialize`.
pub type Initialize = unsafe extern "C" fn() -> c_int;

/// `sqlite3_initialize` of the copies of SQLite, by the code that calls it: SQLite does so in each of many functions, which must not
/// wait for a lock. Begin and end of the code; the loader's handle of the copy, or zero once its files are watched; and the function,
/// which is not zero once the others are there.
static INITIALIZE: [[AtomicUsize; 4]; 16] = [const { [const { AtomicUsize::new(0) }; 4] }; 16];
static INITIALIZED: AtomicUsize = AtomicUsize::new(0);

/// Does what `sqlite3_initialize` does, of the copy that the caller of the preloaded one uses, as [`real`] finds it. Before the first
/// call requests begin to be recorded, if the environment asks for it.
pub fn initialize(returns_to: *const c_void, own: OpenV2) -> c_int {
    let at = returns_to as usize;
    let call = |function: usize, handle: Option<&AtomicUsize>| {
        // SAFETY: the function has this type in sqlite3.h, and the handle finds the functions of the same library.
        unsafe {
            let code = std::mem::transmute::<usize, Initialize>(function)();
            if let (ffi::OK, Some(handle)) = (code, handle) {
                // Not again in the calls below, which SQLite itself begins with this one.
                let library = handle.swap(0, Ordering::Relaxed);
                if library != 0 && functions_of(library as *mut c_void).is_some_and(|api| !requests::watch_files(&api)) {
                    handle.store(library, Ordering::Relaxed);
                }
            }
            code
        }
    };
    for [begin, end, handle, function] in &INITIALIZE {
        match function.load(Ordering::Acquire) {
            0 => break,
            function if (begin.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&at) => {
                return call(function, Some(handle));
            }
            _ => {}
        }
    }
    // SQLite may call this while `real` has the gate.
    let _gate = try_gate();
    let libraries = loaded_libraries();
    let caller = libraries.iter().find(|library| library.has(at));
    let Some((library, _)) = find(&libraries, caller, own as *const c_void) else {
        return NO_SQLITE;
    };
    // SAFETY: `find` returns a handle of the loader; the name ends with a zero.
    let function = unsafe {
        requests::begin(library);
        libc::dlsym(library, c"sqlite3_initialize".as_ptr()) as usize
    };
    if function == 0 {
        return NO_SQLITE;
    }
    let part = caller.and_then(|caller| caller.parts.iter().find(|part| part.contains(&at)));
    let place = part.and_then(|part| Some((part, INITIALIZE.get(INITIALIZED.fetch_add(1, Ordering::Relaxed))?)));
    if let Some((part, [begin, end, handle, place])) = place {
        begin.store(part.start, Ordering::Relaxed);
        end.store(part.end, Ordering::Relaxed);
        handle.store(library as usize, Ordering::Relaxed);
        place.store(function, Ordering::Release);
    }
    call(function, place.map(|(_, [_, _, handle, _])| handle))
}

/// Has the SQLite that a program is linked with record requests, if the environment asks for it: to be called when the library is
/// loaded, before the program can use SQLite.
pub fn at_load(own: OpenV2) {
    if std::env::var_os(requests::VARIABLE).is_some()
        && let Some(sqlite) = LoadedSqlite::of(libc::RTLD_NEXT, own as *const c_void)
    {
        // SAFETY: a handle of the loader that finds SQLite's functions.
        unsafe { requests::begin(sqlite.handle) };
    }
}

/// True if the variable asks for the VFS: it is set, and neither empty nor 0.
fn is_on(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "0")
}

/// A library that is loaded, or the program. That has no name, or with musl the one by which it was started and not found again.
struct LoadedLibrary {
    name: CString,
    address: usize,
    parts: Vec<Range<usize>>,
}

impl LoadedLibrary {
    fn has(&self, address: usize) -> bool {
        self.parts.iter().any(|part| part.contains(&address))
    }

    /// The SQLite that the library has, or that a library has which it is linked with.
    fn sqlite(&self, own: *const c_void) -> Option<LoadedSqlite> {
        if self.name.is_empty() {
            return None;
        }
        // SAFETY: the name ends with a zero; only a library that is loaded already is opened, and stays so as long as the handle
        // is open.
        let handle = unsafe { libc::dlopen(self.name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        let found = LoadedSqlite::of(handle, own);
        if found.is_none() {
            // SAFETY: the handle is open, and nothing of it is used.
            unsafe { libc::dlclose(handle) };
        }
        found
    }
}

/// A copy of SQLite: a handle of the loader that finds its functions, and one of these.
struct LoadedSqlite {
    handle: *mut c_void,
    open_v2: *const c_void,
}

impl LoadedSqlite {
    fn of(handle: *mut c_void, own: *const c_void) -> Option<LoadedSqlite> {
        // SAFETY: a handle of the loader, and a name that ends with a zero.
        let open_v2 = unsafe { libc::dlsym(handle, c"sqlite3_open_v2".as_ptr()) }.cast_const();
        (!open_v2.is_null() && open_v2 != own).then_some(LoadedSqlite { handle, open_v2 })
    }
}

/// A handle of the loader with the SQLite that `caller` uses. The loader binds functions of a library to what the program is
/// linked with, which stands behind this one in its order, and then to the library itself and those that it is linked with. False
/// stands for a caller that has shown none, in a process that has one copy.
fn find(libraries: &[LoadedLibrary], caller: Option<&LoadedLibrary>, own: *const c_void) -> Option<(*mut c_void, bool)> {
    let next = LoadedSqlite::of(libc::RTLD_NEXT, own);
    if let Some(sqlite) = next.or_else(|| caller?.sqlite(own)) {
        return Some((sqlite.handle, true));
    }
    // A function of another library has ended with the call, or code that is in no library has made it.
    let mut copies: Vec<LoadedSqlite> = Vec::new();
    for sqlite in libraries.iter().filter_map(|library| library.sqlite(own)) {
        if copies.iter().any(|copy| copy.open_v2 == sqlite.open_v2) {
            // SAFETY: the handle is open, and that of the same copy stays.
            unsafe { libc::dlclose(sqlite.handle) };
        } else {
            copies.push(sqlite);
        }
    }
    if copies.len() > 1 {
        // Where standard error is closed, this goes nowhere.
        let _ = writeln!(
            std::io::stderr(),
            "ebbpool: process {} has {} copies of SQLite, and does not show which one is to open a database; it is not opened. Run the program without ebbpool",
            std::process::id(),
            copies.len()
        );
        return None;
    }
    copies.pop().map(|sqlite| (sqlite.handle, false))
}

fn loaded_libraries() -> Vec<LoadedLibrary> {
    let mut libraries: Vec<LoadedLibrary> = Vec::new();
    // SAFETY: the function is called with the vector for each library, and the vector outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note_library), (&raw mut libraries).cast()) };
    libraries
}

/// Notes a library. The loader has its own lock meanwhile, and opens none.
///
/// # Safety
///
/// The loader calls this, with the vector that `loaded_libraries` has passed.
unsafe extern "C" fn note_library(library: *mut libc::dl_phdr_info, _bytes: libc::size_t, libraries: *mut c_void) -> c_int {
    // SAFETY: the loader passes a library with its headers, and a name that is null or ends with a zero.
    unsafe {
        let library = &*library;
        let name = library.dlpi_name;
        let name = if name.is_null() { CString::default() } else { CStr::from_ptr(name).to_owned() };
        let address = library.dlpi_addr as usize;
        let headers = std::slice::from_raw_parts(library.dlpi_phdr, library.dlpi_phnum as usize);
        let parts = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
            let begin = address.wrapping_add(header.p_vaddr as usize);
            begin..begin.wrapping_add(header.p_memsz as usize)
        });
        let parts = parts.collect();
        (*libraries.cast::<Vec<LoadedLibrary>>()).push(LoadedLibrary { name, address, parts });
    }
    0
}

/// Whether the system lets a process load code from a file: not on a file system that is mounted `noexec`, for example.
///
/// # Errors
///
/// The system's, with which it would refuse the loader.
pub fn can_be_loaded(file: &File) -> io::Result<()> {
    const BYTES: usize = 1;
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: a new mapping, which nothing else uses, is made and removed; nothing reads or runs what it has.
    unsafe {
        let null = std::ptr::null_mut();
        let mapped = libc::mmap(null, BYTES, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(mapped, BYTES);
    }
    Ok(())
}

/// What a preloaded function returns where the process has no SQLite.
pub const NO_SQLITE: c_int = ffi::CANTOPEN;
