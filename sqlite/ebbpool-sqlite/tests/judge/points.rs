//! A VFS over another one whose calls are points at which a statement can be held back, so that others run in between.
//!
//! Each unsafe block has the same reason: SQLite calls these functions, with pointers that are valid for the call.

#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::mpsc::Receiver;

use ebbpool_sqlite::ffi::{self, File, IoMethods, Symbol, Vfs};

/// What a statement is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Any call of SQLite's into its VFS.
    Call,
    Read,
    Write,
    Truncate,
    Sync,
    Lock,
    Unlock,
    ShmLock,
    /// The lock of a WAL's writer was released.
    AfterWriter,
    /// SQLite says that it has committed.
    PhaseTwo,
    Delete,
    /// A sync of the simulated disk, which the library makes.
    DiskSync,
}

/// The n-th event of a kind in a statement, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point(pub Event, pub u32);

/// Where the statement of this thread stops.
pub struct Plan {
    pub point: Point,
    /// Hears of it when the point is reached.
    pub reached: Box<dyn Fn() + Send>,
    /// The statement goes on when something arrives, or when no thread is left that could send it.
    pub resume: Receiver<()>,
}

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

/// Sets where the next statement of this thread stops; `None` lets it run to its end.
pub fn set(plan: Option<Plan>) {
    PLAN.set(plan);
}

/// An event is about to happen in this thread.
pub fn reached(event: Event) {
    let plan = PLAN.with_borrow_mut(|plan| {
        let Plan { point, .. } = plan.as_mut()?;
        let is_call = event != Event::DiskSync && event != Event::AfterWriter;
        if point.0 != event && !(point.0 == Event::Call && is_call) {
            return None;
        }
        point.1 = point.1.saturating_sub(1);
        if point.1 > 0 { None } else { plan.take() }
    });
    if let Some(plan) = plan {
        (plan.reached)();
        let _ = plan.resume.recv();
    }
}

/// The memory of a handle; that of the VFS below follows.
#[repr(C)]
struct Handle {
    file: File,
    below: *mut File,
}

struct Layer {
    name: CString,
    below: *mut Vfs,
}

/// Registers a VFS with a name over the one called `below`.
pub fn register(name: &str, below: &CStr) -> &'static CStr {
    let api = ebbpool_sqlite::linked_api();
    // SAFETY: SQLite is initialized, and the names end with a zero.
    let below = unsafe { (api.vfs_find)(below.as_ptr()) };
    assert!(!below.is_null());
    let layer: &'static Layer = Box::leak(Box::new(Layer { name: CString::new(name).unwrap(), below }));
    // SAFETY: the VFS below lives until the process ends.
    let vfs = Box::leak(Box::new(layer.vfs(unsafe { &*below })));
    // SAFETY: as above.
    assert_eq!(unsafe { (api.vfs_register)(vfs, 0) }, ffi::OK);
    &layer.name
}

impl Layer {
    fn vfs(&'static self, below: &Vfs) -> Vfs {
        Vfs {
            iVersion: 2,
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

unsafe fn below(vfs: *mut Vfs) -> *mut Vfs {
    unsafe { (*(*vfs).pAppData.cast::<Layer>()).below }
}

unsafe extern "C" fn open(vfs: *mut Vfs, name: *const c_char, file: *mut File, flags: c_int, out: *mut c_int) -> c_int {
    reached(Event::Call);
    unsafe {
        let below = below(vfs);
        let handle = file.cast::<Handle>();
        (*handle).below = handle.add(1).cast::<File>();
        (*(*handle).below).methods = std::ptr::null();
        let code = ((*below).xOpen)(below, name, (*handle).below, flags, out);
        (*file).methods = match (*(*handle).below).methods.is_null() {
            true => std::ptr::null(),
            false => &METHODS,
        };
        code
    }
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, durable: c_int) -> c_int {
    reached(Event::Delete);
    unsafe {
        let below = below(vfs);
        ((*below).xDelete)(below, name, durable)
    }
}

macro_rules! passed_on {
    ($($name:ident => $method:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(unsafe extern "C" fn $name(vfs: *mut Vfs, $($argument: $kind),*) -> $result {
            unsafe {
                let below = below(vfs);
                ((*below).$method)(below, $($argument),*)
            }
        })*
    };
}

passed_on! {
    access => xAccess(name: *const c_char, flags: c_int, out: *mut c_int) -> c_int;
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

static METHODS: IoMethods = IoMethods {
    iVersion: 2,
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
};

unsafe extern "C" fn close(file: *mut File) -> c_int {
    reached(Event::Call);
    unsafe {
        let handle = file.cast::<Handle>();
        let below = (*handle).below;
        (*file).methods = std::ptr::null();
        ((*(*below).methods).xClose)(below)
    }
}

/// Methods of handles that pass their call on, after an event.
macro_rules! events {
    ($($name:ident, $event:ident => $method:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(unsafe extern "C" fn $name(file: *mut File, $($argument: $kind),*) -> $result {
            reached(Event::$event);
            unsafe {
                let below = (*file.cast::<Handle>()).below;
                ((*(*below).methods).$method)(below, $($argument),*)
            }
        })*
    };
}

events! {
    read, Read => xRead(into: *mut c_void, count: c_int, at: i64) -> c_int;
    write, Write => xWrite(from: *const c_void, count: c_int, at: i64) -> c_int;
    truncate, Truncate => xTruncate(length: i64) -> c_int;
    sync, Sync => xSync(flags: c_int) -> c_int;
    file_size, Call => xFileSize(out: *mut i64) -> c_int;
    lock, Lock => xLock(level: c_int) -> c_int;
    unlock, Unlock => xUnlock(level: c_int) -> c_int;
    check_reserved_lock, Call => xCheckReservedLock(out: *mut c_int) -> c_int;
    shm_map, Call => xShmMap(index: c_int, bytes: c_int, extend: c_int, out: *mut *mut c_void) -> c_int;
    shm_unmap, Call => xShmUnmap(delete: c_int) -> c_int;
}

unsafe extern "C" fn file_control(file: *mut File, operation: c_int, argument: *mut c_void) -> c_int {
    reached(match operation {
        ffi::FCNTL_COMMIT_PHASETWO => Event::PhaseTwo,
        _ => Event::Call,
    });
    unsafe {
        let below = (*file.cast::<Handle>()).below;
        ((*(*below).methods).xFileControl)(below, operation, argument)
    }
}

unsafe extern "C" fn shm_lock(file: *mut File, offset: c_int, count: c_int, flags: c_int) -> c_int {
    reached(Event::ShmLock);
    let code = unsafe {
        let below = (*file.cast::<Handle>()).below;
        ((*(*below).methods).xShmLock)(below, offset, count, flags)
    };
    if offset == 0 && flags & ffi::SHM_UNLOCK != 0 {
        reached(Event::AfterWriter);
    }
    code
}

unsafe extern "C" fn sector_size(file: *mut File) -> c_int {
    unsafe {
        let below = (*file.cast::<Handle>()).below;
        ((*(*below).methods).xSectorSize)(below)
    }
}

unsafe extern "C" fn device_characteristics(file: *mut File) -> c_int {
    unsafe {
        let below = (*file.cast::<Handle>()).below;
        ((*(*below).methods).xDeviceCharacteristics)(below)
    }
}

unsafe extern "C" fn shm_barrier(file: *mut File) {
    unsafe {
        let below = (*file.cast::<Handle>()).below;
        ((*(*below).methods).xShmBarrier)(below)
    }
}
