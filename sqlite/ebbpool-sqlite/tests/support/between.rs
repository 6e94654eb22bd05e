//! A VFS over another one, which calls a test before each call. Over ours it is where a second connection acts between two
//! calls of SQLite's; under ours it counts, delays and refuses what reaches the files.
//!
//! Each unsafe block has the same reason: SQLite calls these functions, with pointers that are valid for the call.

#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Arc, RwLock};

use ebbpool_sqlite::ffi::{self, File, IoMethods, Symbol, Vfs};
use rusqlite::{Connection, OpenFlags};

/// What a file is, by the flags with which it was opened, or by its name where there are no flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Main,
    Journal,
    Wal,
    /// Epochs of the library.
    Deltas,
    Other,
}

impl FileKind {
    pub fn of(path: &str, flags: c_int) -> FileKind {
        match flags & ffi::OPEN_KINDS {
            _ if path.ends_with("-ebb") => FileKind::Deltas,
            ffi::OPEN_MAIN_DB => FileKind::Main,
            ffi::OPEN_MAIN_JOURNAL => FileKind::Journal,
            ffi::OPEN_WAL => FileKind::Wal,
            _ if path.ends_with("-journal") => FileKind::Journal,
            _ if path.ends_with("-wal") => FileKind::Wal,
            _ => FileKind::Other,
        }
    }
}

/// A call that is about to be passed on.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// `xWrite` and so on.
    pub method: &'static str,
    /// Empty for temporary files.
    pub path: &'a str,
    pub kind: FileKind,
    /// The offset, length, level, operation or first slot; the flags of `xOpen`.
    pub at: i64,
    /// The number of bytes, or of slots; whether a deletion is to be durable.
    pub count: i64,
    /// The flags of `xShmLock`.
    pub flags: c_int,
}

/// Answers with the result code that SQLite is to get in place of the call's.
type Hook = dyn Fn(&Call<'_>) -> Option<c_int> + Send + Sync;

/// A registered VFS.
pub struct Between {
    name: CString,
    below: *mut Vfs,
    hook: RwLock<Option<Arc<Hook>>>,
}

// SAFETY: every thread may call the VFS below.
unsafe impl Sync for Between {}
// SAFETY: as above.
unsafe impl Send for Between {}

impl Between {
    /// Registers a VFS with a name over the VFS called `below`, or over SQLite's default.
    pub fn register(name: &str, below: Option<&CStr>) -> &'static Between {
        let api = ebbpool_sqlite::linked_api();
        // SAFETY: SQLite is initialized, and the name ends with a zero.
        let below = unsafe { (api.vfs_find)(below.map_or(std::ptr::null(), CStr::as_ptr)) };
        assert!(!below.is_null());
        let between: &'static Between =
            Box::leak(Box::new(Between { name: CString::new(name).unwrap(), below, hook: RwLock::new(None) }));
        let vfs = Box::leak(Box::new(between.vfs()));
        // SAFETY: the VFS lives until the process ends.
        assert_eq!(unsafe { (api.vfs_register)(vfs, 0) }, ffi::OK);
        between
    }

    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// From now on `hook` is called before each call.
    pub fn observe(&self, hook: impl Fn(&Call<'_>) -> Option<c_int> + Send + Sync + 'static) {
        *self.hook.write().unwrap() = Some(Arc::new(hook));
    }

    pub fn observe_no_more(&self) {
        *self.hook.write().unwrap() = None;
    }

    /// Opens a database on this VFS; it waits for no lock.
    pub fn open(&self, path: &str, options: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
        let name = format!("file:{path}?{options}");
        let database = Connection::open_with_flags_and_vfs(name, flags, self.name())?;
        database.busy_timeout(std::time::Duration::ZERO)?;
        Ok(database)
    }

    fn announce(&self, call: &Call<'_>) -> Option<c_int> {
        let hook = self.hook.read().unwrap().clone();
        hook.and_then(|hook| hook(call))
    }

    fn vfs(&'static self) -> Vfs {
        // SAFETY: the VFS below is registered.
        let below = unsafe { &*self.below };
        Vfs {
            iVersion: below.iVersion.min(3),
            szOsFile: size_of::<Handle>() as c_int + below.szOsFile,
            mxPathname: below.mxPathname,
            pNext: std::ptr::null_mut(),
            zName: self.name.as_ptr(),
            pAppData: std::ptr::from_ref(self).cast_mut().cast(),
            xOpen: open,
            xDelete: delete,
            xAccess: access,
            xFullPathname: full_pathname,
            xDlOpen: dl_open,
            xDlError: dl_error,
            xDlSym: dl_sym,
            xDlClose: dl_close,
            xRandomness: randomness,
            xSleep: sleep,
            xCurrentTime: current_time,
            xGetLastError: last_error,
            xCurrentTimeInt64: current_time_in_milliseconds,
            xSetSystemCall: set_system_call,
            xGetSystemCall: system_call,
            xNextSystemCall: next_system_call,
        }
    }
}

/// What lies in front of the handle of the VFS below.
#[repr(C)]
struct Handle {
    file: File,
    open: *mut Open,
}

struct Open {
    between: &'static Between,
    path: String,
    kind: FileKind,
}

unsafe fn between(vfs: *mut Vfs) -> &'static Between {
    unsafe { &*(*vfs).pAppData.cast::<Between>() }
}

unsafe fn below_of(file: *mut File) -> *mut File {
    unsafe { file.cast::<Handle>().add(1).cast() }
}

/// Calls the hook for a call of a file's method, and returns its answer.
unsafe fn announce(file: *mut File, method: &'static str, at: i64, count: i64) -> Option<c_int> {
    unsafe { announce_with_flags(file, method, at, count, 0) }
}

unsafe fn announce_with_flags(file: *mut File, method: &'static str, at: i64, count: i64, flags: c_int) -> Option<c_int> {
    let open = unsafe { &*(*file.cast::<Handle>()).open };
    open.between.announce(&Call { method, path: &open.path, kind: open.kind, at, count, flags })
}

unsafe fn text(name: *const c_char) -> String {
    match name.is_null() {
        true => String::new(),
        false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
    }
}

unsafe extern "C" fn open(vfs: *mut Vfs, name: *const c_char, file: *mut File, flags: c_int, out: *mut c_int) -> c_int {
    unsafe {
        (*file).methods = std::ptr::null();
        let (between, path) = (between(vfs), text(name));
        let kind = FileKind::of(&path, flags);
        let call = Call { method: "xOpen", path: &path, kind, at: flags.into(), count: 0, flags: 0 };
        if let Some(code) = between.announce(&call) {
            return code;
        }
        let below = below_of(file);
        let code = ((*between.below).xOpen)(between.below, name, below, flags, out);
        // SQLite closes a handle that has methods, also where opening it failed.
        if !(*below).methods.is_null() {
            let handle = file.cast::<Handle>();
            (*handle).open = Box::into_raw(Box::new(Open { between, path, kind }));
            (*handle).file.methods = match (*(*below).methods).iVersion {
                1 => &METHODS_WITHOUT_SHARED_MEMORY,
                _ => &METHODS,
            };
        }
        code
    }
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, durable: c_int) -> c_int {
    let (between, path) = unsafe { (between(vfs), text(name)) };
    let call = Call { method: "xDelete", path: &path, kind: FileKind::of(&path, 0), at: 0, count: durable.into(), flags: 0 };
    match between.announce(&call) {
        Some(code) => code,
        None => unsafe { ((*between.below).xDelete)(between.below, name, durable) },
    }
}

unsafe extern "C" fn access(vfs: *mut Vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    let (between, path) = unsafe { (between(vfs), text(name)) };
    let call = Call { method: "xAccess", path: &path, kind: FileKind::of(&path, 0), at: flags.into(), count: 0, flags: 0 };
    match between.announce(&call) {
        Some(code) => code,
        None => unsafe { ((*between.below).xAccess)(between.below, name, flags, out) },
    }
}

macro_rules! passed_on {
    ($($name:ident => $method:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(unsafe extern "C" fn $name(vfs: *mut Vfs, $($argument: $kind),*) -> $result {
            unsafe {
                let below = between(vfs).below;
                ((*below).$method)(below, $($argument),*)
            }
        })*
    };
}

passed_on! {
    full_pathname => xFullPathname(name: *const c_char, length: c_int, out: *mut c_char) -> c_int;
    dl_open => xDlOpen(name: *const c_char) -> *mut c_void;
    dl_error => xDlError(length: c_int, out: *mut c_char) -> ();
    dl_sym => xDlSym(library: *mut c_void, name: *const c_char) -> Symbol;
    dl_close => xDlClose(library: *mut c_void) -> ();
    randomness => xRandomness(length: c_int, out: *mut c_char) -> c_int;
    sleep => xSleep(microseconds: c_int) -> c_int;
    current_time => xCurrentTime(out: *mut f64) -> c_int;
    last_error => xGetLastError(length: c_int, out: *mut c_char) -> c_int;
    current_time_in_milliseconds => xCurrentTimeInt64(out: *mut i64) -> c_int;
    set_system_call => xSetSystemCall(name: *const c_char, call: Symbol) -> c_int;
    system_call => xGetSystemCall(name: *const c_char) -> Symbol;
    next_system_call => xNextSystemCall(name: *const c_char) -> *const c_char;
}

static METHODS: IoMethods = methods(2);
static METHODS_WITHOUT_SHARED_MEMORY: IoMethods = methods(1);

const fn methods(version: c_int) -> IoMethods {
    IoMethods {
        iVersion: version,
        xClose: close,
        xRead: read,
        xWrite: write,
        xTruncate: truncate,
        xSync: sync,
        xFileSize: file_size,
        xLock: lock,
        xUnlock: unlock,
        xCheckReservedLock: check_reserved_lock,
        xFileControl: file_control,
        xSectorSize: sector_size,
        xDeviceCharacteristics: device_characteristics,
        xShmMap: shm_map,
        xShmLock: shm_lock,
        xShmBarrier: shm_barrier,
        xShmUnmap: shm_unmap,
    }
}

/// Passes a call of a file's method on, unless the hook answers it.
macro_rules! file_methods {
    ($($name:ident => $method:ident($($argument:ident: $kind:ty),*), $at:expr, $count:expr;)*) => {
        $(unsafe extern "C" fn $name(file: *mut File, $($argument: $kind),*) -> c_int {
            unsafe {
                if let Some(code) = announce(file, stringify!($method), $at, $count) {
                    return code;
                }
                let below = below_of(file);
                ((*(*below).methods).$method)(below, $($argument),*)
            }
        })*
    };
}

file_methods! {
    read => xRead(into: *mut c_void, count: c_int, at: i64), at, count.into();
    write => xWrite(from: *const c_void, count: c_int, at: i64), at, count.into();
    truncate => xTruncate(length: i64), length, 0;
    sync => xSync(flags: c_int), flags.into(), 0;
    file_size => xFileSize(out: *mut i64), 0, 0;
    lock => xLock(level: c_int), level.into(), 0;
    unlock => xUnlock(level: c_int), level.into(), 0;
    check_reserved_lock => xCheckReservedLock(out: *mut c_int), 0, 0;
    file_control => xFileControl(operation: c_int, argument: *mut c_void), operation.into(), 0;
    shm_map => xShmMap(region: c_int, bytes: c_int, extend: c_int, out: *mut *mut c_void), region.into(), extend.into();
    shm_unmap => xShmUnmap(delete: c_int), 0, delete.into();
}

unsafe extern "C" fn shm_lock(file: *mut File, offset: c_int, count: c_int, flags: c_int) -> c_int {
    unsafe {
        let answer = announce_with_flags(file, "xShmLock", offset.into(), count.into(), flags);
        if let Some(code) = answer {
            return code;
        }
        let below = below_of(file);
        ((*(*below).methods).xShmLock)(below, offset, count, flags)
    }
}

unsafe extern "C" fn shm_barrier(file: *mut File) {
    unsafe {
        let _ = announce(file, "xShmBarrier", 0, 0);
        let below = below_of(file);
        ((*(*below).methods).xShmBarrier)(below);
    }
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    unsafe {
        // A file is closed whatever the hook answers.
        let answer = announce(file, "xClose", 0, 0);
        let below = below_of(file);
        let code = ((*(*below).methods).xClose)(below);
        let handle = file.cast::<Handle>();
        drop(Box::from_raw((*handle).open));
        (*handle).file.methods = std::ptr::null();
        answer.unwrap_or(code)
    }
}

unsafe extern "C" fn sector_size(file: *mut File) -> c_int {
    unsafe {
        let below = below_of(file);
        ((*(*below).methods).xSectorSize)(below)
    }
}

unsafe extern "C" fn device_characteristics(file: *mut File) -> c_int {
    unsafe {
        let below = below_of(file);
        ((*(*below).methods).xDeviceCharacteristics)(below)
    }
}
