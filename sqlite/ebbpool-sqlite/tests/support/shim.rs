//! The one VFS of the tests: it hands each call of SQLite's to a [`Layer`], which answers it or passes it on to the VFS below.
//!
//! Each unsafe block has the same reason: SQLite calls these functions, with pointers that are valid for the call.

#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::slice::{from_raw_parts, from_raw_parts_mut};

use ebbpool_sqlite::ffi::{self, File, IoMethods, Symbol, Vfs};

/// A call for an open file.
#[derive(Debug)]
pub enum FileCall<'a> {
    Close,
    Read { into: &'a mut [u8], at: i64 },
    Write { from: &'a [u8], at: i64 },
    Truncate { length: i64 },
    Sync { flags: c_int },
    FileSize { out: &'a mut i64 },
    Lock { level: c_int },
    Unlock { level: c_int },
    CheckReservedLock { out: &'a mut c_int },
    FileControl { operation: c_int, argument: *mut c_void },
    SectorSize,
    DeviceCharacteristics,
    ShmMap { index: c_int, bytes: c_int, extend: c_int, out: &'a mut *mut c_void },
    ShmLock { offset: c_int, count: c_int, flags: c_int },
    ShmBarrier,
    ShmUnmap { delete: c_int },
}

/// A call for a name, or for none.
#[derive(Debug)]
pub enum VfsCall<'a> {
    Delete { path: &'a CStr, durable: c_int },
    Access { path: &'a CStr, flags: c_int, out: &'a mut c_int },
    FullPathname { path: &'a CStr, out: &'a mut [u8] },
    Randomness { out: &'a mut [u8] },
    Sleep { microseconds: c_int },
}

impl VfsCall<'_> {
    /// Answers with a path as it is.
    pub fn give_back(path: &CStr, out: &mut [u8]) -> c_int {
        let bytes = path.to_bytes_with_nul();
        out[..bytes.len()].copy_from_slice(bytes);
        ffi::OK
    }
}

/// A file that is being opened.
#[derive(Debug)]
pub struct Opening<'a> {
    /// Empty for a temporary file.
    pub path: &'a str,
    pub flags: c_int,
    below: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    out: *mut c_int,
}

impl Opening<'_> {
    /// Passes the call on. SQLite closes a file that the VFS below has given methods, also where opening it has failed: the
    /// second answer is true then.
    pub fn pass(&self) -> (c_int, bool) {
        unsafe {
            let code = ((*self.below).xOpen)(self.below, self.name, self.file, self.flags, self.out);
            (code, !(*self.file).methods.is_null())
        }
    }

    /// Says that the file is open as SQLite asks for, where nothing is passed on.
    pub fn accept(&self) -> c_int {
        if !self.out.is_null() {
            unsafe { *self.out = self.flags };
        }
        ffi::OK
    }
}

/// Answers a [`FileCall::Read`] by calls that read what follows as many bytes: as far as there is something, and zeros behind it.
pub fn read_whole(into: &mut [u8], more: impl Fn(u64, &mut [u8]) -> std::io::Result<usize>) -> std::io::Result<c_int> {
    let mut done = 0;
    while done < into.len() {
        match more(done as u64, &mut into[done..])? {
            0 => {
                into[done..].fill(0);
                return Ok(ffi::IOERR_SHORT_READ);
            }
            count => done += count,
        }
    }
    Ok(ffi::OK)
}

/// What a test does with the calls. It passes them on unless it says otherwise.
pub trait Layer: Sync + 'static {
    /// What it has for an open file.
    type Open: 'static;

    /// The version of the methods of its files, at most that of the files below: version 1 is without shared memory.
    const VERSION: c_int = 2;

    /// Opens a file. Without an [`Layer::Open`] SQLite has no file, and closes none.
    fn open(&'static self, opening: &Opening<'_>) -> (c_int, Option<Self::Open>);

    fn call(&self, open: &Self::Open, call: FileCall<'_>, below: &Below) -> c_int;

    fn vfs_call(&self, call: VfsCall<'_>, below: &VfsBelow) -> c_int {
        below.pass(call)
    }
}

/// A file of the VFS below.
#[derive(Debug)]
pub struct Below(*mut File);

impl Below {
    pub fn pass(&self, call: FileCall<'_>) -> c_int {
        let file = self.0;
        unsafe {
            let methods = &*(*file).methods;
            match call {
                FileCall::Close => (methods.xClose)(file),
                FileCall::Read { into, at } => (methods.xRead)(file, into.as_mut_ptr().cast(), into.len() as c_int, at),
                FileCall::Write { from, at } => (methods.xWrite)(file, from.as_ptr().cast(), from.len() as c_int, at),
                FileCall::Truncate { length } => (methods.xTruncate)(file, length),
                FileCall::Sync { flags } => (methods.xSync)(file, flags),
                FileCall::FileSize { out } => (methods.xFileSize)(file, out),
                FileCall::Lock { level } => (methods.xLock)(file, level),
                FileCall::Unlock { level } => (methods.xUnlock)(file, level),
                FileCall::CheckReservedLock { out } => (methods.xCheckReservedLock)(file, out),
                FileCall::FileControl { operation, argument } => (methods.xFileControl)(file, operation, argument),
                FileCall::SectorSize => (methods.xSectorSize)(file),
                FileCall::DeviceCharacteristics => (methods.xDeviceCharacteristics)(file),
                FileCall::ShmMap { index, bytes, extend, out } => (methods.xShmMap)(file, index, bytes, extend, out),
                FileCall::ShmLock { offset, count, flags } => (methods.xShmLock)(file, offset, count, flags),
                FileCall::ShmBarrier => {
                    (methods.xShmBarrier)(file);
                    ffi::OK
                }
                FileCall::ShmUnmap { delete } => (methods.xShmUnmap)(file, delete),
            }
        }
    }
}

/// The VFS below.
#[derive(Debug)]
pub struct VfsBelow(*mut Vfs);

impl VfsBelow {
    pub fn pass(&self, call: VfsCall<'_>) -> c_int {
        let vfs = self.0;
        unsafe {
            match call {
                VfsCall::Delete { path, durable } => ((*vfs).xDelete)(vfs, path.as_ptr(), durable),
                VfsCall::Access { path, flags, out } => ((*vfs).xAccess)(vfs, path.as_ptr(), flags, out),
                VfsCall::FullPathname { path, out } => {
                    ((*vfs).xFullPathname)(vfs, path.as_ptr(), out.len() as c_int, out.as_mut_ptr().cast())
                }
                VfsCall::Randomness { out } => ((*vfs).xRandomness)(vfs, out.len() as c_int, out.as_mut_ptr().cast()),
                VfsCall::Sleep { microseconds } => ((*vfs).xSleep)(vfs, microseconds),
            }
        }
    }
}

/// A name that lives until the process ends.
pub fn leaked(name: &str) -> &'static CStr {
    Box::leak(CString::new(name).unwrap().into_boxed_c_str())
}

/// Registers a VFS with a name, which no other one in this process has, over the VFS called `below`, or over SQLite's default.
pub fn register<L: Layer>(name: &'static CStr, below: Option<&CStr>, layer: &'static L) {
    let api = ebbpool_sqlite::linked_api();
    unsafe {
        let below = (api.vfs_find)(below.map_or(std::ptr::null(), CStr::as_ptr));
        assert!(!below.is_null());
        let shim = Box::leak(Box::new(Shim { below, layer }));
        let vfs = Vfs {
            iVersion: (*below).iVersion.min(3),
            szOsFile: size_of::<Handle<L>>() as c_int + (*below).szOsFile,
            mxPathname: (*below).mxPathname,
            pNext: std::ptr::null_mut(),
            zName: name.as_ptr(),
            pAppData: std::ptr::from_mut(shim).cast(),
            xOpen: open::<L>,
            xDelete: delete::<L>,
            xAccess: access::<L>,
            xFullPathname: full_pathname::<L>,
            xDlOpen: dl_open::<L>,
            xDlError: dl_error::<L>,
            xDlSym: dl_sym::<L>,
            xDlClose: dl_close::<L>,
            xRandomness: randomness::<L>,
            xSleep: sleep::<L>,
            xCurrentTime: current_time::<L>,
            xGetLastError: last_error::<L>,
            xCurrentTimeInt64: current_time_in_milliseconds::<L>,
            xSetSystemCall: set_system_call::<L>,
            xGetSystemCall: system_call::<L>,
            xNextSystemCall: next_system_call::<L>,
        };
        assert_eq!((api.vfs_register)(Box::leak(Box::new(vfs)), 0), ffi::OK);
    }
}

struct Shim<L: Layer> {
    below: *mut Vfs,
    layer: &'static L,
}

/// What lies in front of the handle of the VFS below.
#[repr(C)]
struct Handle<L: Layer> {
    file: File,
    layer: &'static L,
    open: *mut L::Open,
}

unsafe fn shim<'a, L: Layer>(vfs: *mut Vfs) -> &'a Shim<L> {
    unsafe { &*(*vfs).pAppData.cast() }
}

unsafe fn below<L: Layer>(file: *mut File) -> *mut File {
    unsafe { file.cast::<Handle<L>>().add(1).cast() }
}

unsafe fn call_file<L: Layer>(file: *mut File, call: FileCall<'_>) -> c_int {
    unsafe {
        let handle = &*file.cast::<Handle<L>>();
        handle.layer.call(&*handle.open, call, &Below(below::<L>(file)))
    }
}

unsafe fn call_vfs<L: Layer>(vfs: *mut Vfs, call: VfsCall<'_>) -> c_int {
    unsafe {
        let shim = shim::<L>(vfs);
        shim.layer.vfs_call(call, &VfsBelow(shim.below))
    }
}

unsafe extern "C" fn open<L: Layer>(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    unsafe {
        let shim = shim::<L>(vfs);
        let file_below = below::<L>(file);
        (*file_below).methods = std::ptr::null();
        (*file).methods = std::ptr::null();
        let path = if name.is_null() { "".into() } else { CStr::from_ptr(name).to_string_lossy() };
        let opening = Opening { path: &path, flags, below: shim.below, name, file: file_below, out };
        let (code, open) = shim.layer.open(&opening);
        if let Some(open) = open {
            let version = (*file_below).methods.as_ref().map_or(3, |methods| methods.iVersion).min(L::VERSION);
            let handle = file.cast::<Handle<L>>();
            (&raw mut (*handle).layer).write(shim.layer);
            (*handle).open = Box::into_raw(Box::new(open));
            (*file).methods = if version == 1 { const { &methods::<L>(1) } } else { const { &methods::<L>(2) } };
        }
        code
    }
}

unsafe extern "C" fn close<L: Layer>(file: *mut File) -> c_int {
    unsafe {
        let code = call_file::<L>(file, FileCall::Close);
        drop(Box::from_raw((*file.cast::<Handle<L>>()).open));
        (*file).methods = std::ptr::null();
        code
    }
}

/// The functions of the table of a file.
macro_rules! file_calls {
    ($($name:ident($($argument:ident: $kind:ty),*) => $call:expr;)*) => {
        $(unsafe extern "C" fn $name<L: Layer>(file: *mut File, $($argument: $kind),*) -> c_int {
            unsafe { call_file::<L>(file, $call) }
        })*
    };
}

file_calls! {
    read(into: *mut c_void, count: c_int, at: i64) => FileCall::Read { into: from_raw_parts_mut(into.cast(), count as usize), at };
    write(from: *const c_void, count: c_int, at: i64) => FileCall::Write { from: from_raw_parts(from.cast(), count as usize), at };
    truncate(length: i64) => FileCall::Truncate { length };
    sync(flags: c_int) => FileCall::Sync { flags };
    file_size(out: *mut i64) => FileCall::FileSize { out: &mut *out };
    lock(level: c_int) => FileCall::Lock { level };
    unlock(level: c_int) => FileCall::Unlock { level };
    check_reserved_lock(out: *mut c_int) => FileCall::CheckReservedLock { out: &mut *out };
    file_control(operation: c_int, argument: *mut c_void) => FileCall::FileControl { operation, argument };
    sector_size() => FileCall::SectorSize;
    device_characteristics() => FileCall::DeviceCharacteristics;
    shm_map(index: c_int, bytes: c_int, extend: c_int, out: *mut *mut c_void) =>
        FileCall::ShmMap { index, bytes, extend, out: &mut *out };
    shm_lock(offset: c_int, count: c_int, flags: c_int) => FileCall::ShmLock { offset, count, flags };
    shm_unmap(delete: c_int) => FileCall::ShmUnmap { delete };
}

unsafe extern "C" fn shm_barrier<L: Layer>(file: *mut File) {
    unsafe { call_file::<L>(file, FileCall::ShmBarrier) };
}

const fn methods<L: Layer>(version: c_int) -> IoMethods {
    IoMethods {
        iVersion: version,
        xClose: close::<L>,
        xRead: read::<L>,
        xWrite: write::<L>,
        xTruncate: truncate::<L>,
        xSync: sync::<L>,
        xFileSize: file_size::<L>,
        xLock: lock::<L>,
        xUnlock: unlock::<L>,
        xCheckReservedLock: check_reserved_lock::<L>,
        xFileControl: file_control::<L>,
        xSectorSize: sector_size::<L>,
        xDeviceCharacteristics: device_characteristics::<L>,
        xShmMap: shm_map::<L>,
        xShmLock: shm_lock::<L>,
        xShmBarrier: shm_barrier::<L>,
        xShmUnmap: shm_unmap::<L>,
    }
}

/// The functions of the table of the VFS that a layer sees.
macro_rules! vfs_calls {
    ($($name:ident($($argument:ident: $kind:ty),*) => $call:expr;)*) => {
        $(unsafe extern "C" fn $name<L: Layer>(vfs: *mut Vfs, $($argument: $kind),*) -> c_int {
            unsafe { call_vfs::<L>(vfs, $call) }
        })*
    };
}

vfs_calls! {
    delete(path: *const c_char, durable: c_int) => VfsCall::Delete { path: CStr::from_ptr(path), durable };
    access(path: *const c_char, flags: c_int, out: *mut c_int) =>
        VfsCall::Access { path: CStr::from_ptr(path), flags, out: &mut *out };
    full_pathname(path: *const c_char, length: c_int, out: *mut c_char) =>
        VfsCall::FullPathname { path: CStr::from_ptr(path), out: from_raw_parts_mut(out.cast(), length as usize) };
    randomness(length: c_int, out: *mut c_char) => VfsCall::Randomness { out: from_raw_parts_mut(out.cast(), length as usize) };
    sleep(microseconds: c_int) => VfsCall::Sleep { microseconds };
}

/// The others, of which no layer learns.
macro_rules! passed_on {
    ($($name:ident => $method:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(unsafe extern "C" fn $name<L: Layer>(vfs: *mut Vfs, $($argument: $kind),*) -> $result {
            unsafe {
                let below = shim::<L>(vfs).below;
                ((*below).$method)(below, $($argument),*)
            }
        })*
    };
}

passed_on! {
    dl_open => xDlOpen(name: *const c_char) -> *mut c_void;
    dl_error => xDlError(length: c_int, out: *mut c_char) -> ();
    dl_sym => xDlSym(library: *mut c_void, name: *const c_char) -> Symbol;
    dl_close => xDlClose(library: *mut c_void) -> ();
    current_time => xCurrentTime(out: *mut f64) -> c_int;
    last_error => xGetLastError(length: c_int, out: *mut c_char) -> c_int;
    current_time_in_milliseconds => xCurrentTimeInt64(out: *mut i64) -> c_int;
    set_system_call => xSetSystemCall(name: *const c_char, call: Symbol) -> c_int;
    system_call => xGetSystemCall(name: *const c_char) -> Symbol;
    next_system_call => xNextSystemCall(name: *const c_char) -> *const c_char;
}
