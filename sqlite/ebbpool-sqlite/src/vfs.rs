//! The VFS as SQLite calls it: files of databases are led to the state of their database, all others to the VFS below.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::NAME;
use crate::code::{SqliteCode, SqliteResult, guarded};
use crate::disk::{BaseFile, BaseVfs, has_room_for_logs};
use crate::ffi::{self, Api, File, IoMethods, Symbol, Vfs};
use crate::handle::{self, FileHandle, Kind, SqliteFile};
use crate::instance::Instance;
use crate::mirror::SuiteMirror;
use crate::options::{Options, check_parameters};
use crate::scope;

/// # Safety
///
/// `vfs` is one that [`register`] made.
unsafe fn instance<'a>(vfs: *mut Vfs) -> &'a Instance {
    // SAFETY: `register` stores a leaked instance there.
    unsafe { &*(*vfs).pAppData.cast::<Instance>() }
}

/// # Safety
///
/// `vfs` is one that [`register`] made.
unsafe fn base(vfs: *mut Vfs) -> *mut Vfs {
    // SAFETY: the caller's.
    unsafe { instance(vfs) }.base.0
}

unsafe extern "C" fn open(vfs: *mut Vfs, name: *const c_char, file: *mut File, flags: c_int, flags_out: *mut c_int) -> c_int {
    // SAFETY: SQLite passes memory for a handle, of the size that the VFS asks for.
    unsafe { (*file).methods = std::ptr::null() };
    // SAFETY: SQLite passes the VFS that it calls.
    let instance = unsafe { instance(vfs) };
    let mut opened = None;
    let code = guarded(|| {
        // SAFETY: a name ends with a zero, and SQLite's URI parameters stand behind it.
        opened = unsafe { find_or_open(instance, name, flags) }?;
        Ok(())
    });
    if code != ffi::OK {
        return code;
    }
    match opened {
        None => {
            let base = instance.base.0;
            // SAFETY: the handle is large enough for the VFS below, which takes the call over.
            unsafe { ((*base).xOpen)(base, name, file, flags, flags_out) }
        }
        Some(open) => {
            // SAFETY: as above; the flags may be null.
            unsafe {
                let handle = file.cast::<SqliteFile>();
                (*handle).open = Box::into_raw(Box::new(open));
                (*handle).file.methods = &METHODS;
                if !flags_out.is_null() {
                    *flags_out = flags;
                }
            }
            ffi::OK
        }
    }
}

/// The file as one of a virtual database; `None` if the VFS below has it.
///
/// # Safety
///
/// As `xOpen`.
unsafe fn find_or_open(instance: &'static Instance, name: *const c_char, flags: c_int) -> SqliteResult<Option<FileHandle>> {
    let kind = match flags & ffi::OPEN_KINDS {
        ffi::OPEN_MAIN_DB => Kind::Main,
        ffi::OPEN_MAIN_JOURNAL => Kind::Journal,
        ffi::OPEN_WAL => Kind::Wal,
        _ => return Ok(None),
    };
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's.
    let Ok(path) = unsafe { CStr::from_ptr(name) }.to_str() else {
        // The paths of logs are made from this one as text.
        return Ok(None);
    };
    if kind == Kind::Main {
        // SAFETY: the caller's.
        return unsafe { open_database(instance, name, path, flags) };
    }
    let suffix = if kind == Kind::Wal { "-wal" } else { "-journal" };
    let owner = path.strip_suffix(suffix);
    let Some(shared) = owner.and_then(|path| instance.find(path)) else {
        return Ok(None);
    };
    if !handle::is_virtual(instance, &shared)? {
        return Ok(None);
    }
    let mirror = SuiteMirror::open(instance.base, path, flags)?;
    let mut open = FileHandle::new(instance, kind, shared, flags, mirror, None);
    open.make_virtual(flags & ffi::OPEN_CREATE != 0)?;
    Ok(Some(open))
}

/// Opens a database; `None` if it cannot be written whatever the flags say, so that the VFS below serves it alone.
///
/// # Safety
///
/// As `xOpen`.
unsafe fn open_database(
    instance: &'static Instance,
    name: *const c_char,
    path: &str,
    flags: c_int,
) -> SqliteResult<Option<FileHandle>> {
    // SAFETY: the caller's.
    if !unsafe { admits(instance, name, path) }? {
        if flags & ffi::OPEN_READONLY == 0 {
            scope::note_left(path);
        }
        return Ok(None);
    }
    if !has_room_for_logs(path) {
        return Ok(None);
    }
    // SAFETY: the caller's.
    let options = unsafe { options_of(instance, name) }?;
    let base = BaseFile::open(instance.base, path, flags & !ffi::OPEN_URI)?;
    if flags & ffi::OPEN_READONLY == 0 && base.is_read_only() {
        return Ok(None);
    }
    // A child of fork() has no thread that ends windows.
    instance.start_timer();
    let mirror = SuiteMirror::open(instance.base, path, flags)?;
    let shared = instance.share(path, options)?;
    let open = FileHandle::new(instance, Kind::Main, shared.clone(), flags, mirror, Some(base));
    let noted = instance
        .ask_for_window(&shared, open.number(), options.window)
        .and_then(|_| instance.refuse_if_logs_have_no_place(&shared));
    if let Err(code) = noted {
        let _ = instance.leave(&shared, open.number());
        return Err(code);
    }
    Ok(Some(open))
}

/// True if the VFS takes a database that is opened; false leaves it to the VFS below, because it is not in the scope.
///
/// # Errors
///
/// `CANT_OPEN`, with a text in SQLite's error log, if a parameter of its name is a mistake.
///
/// # Safety
///
/// `name` is what `xOpen` was passed for a database, and `path` its text.
unsafe fn admits(instance: &Instance, name: *const c_char, path: &str) -> SqliteResult<bool> {
    // SAFETY: the caller's.
    let parameters = unsafe { scope::parameters_of(name) };
    let vfs = instance.name.to_bytes();
    // The first one counts, as in SQLite.
    let named = parameters.iter().find(|(key, _)| key == "vfs");
    let names_the_vfs = named.is_some_and(|(_, value)| value.as_bytes() == vfs);
    let is_default = instance.name == NAME && scope::is_default();
    // A database that is open by another of its names has one owner in the process.
    let is_taken = || scope::is_in_scope(path) || instance.find(path).is_some();
    if is_default && !names_the_vfs && !is_taken() {
        return Ok(false);
    }
    check_parameters(&parameters, names_the_vfs).map_err(|error| {
        instance.log(SqliteCode::CANT_OPEN, &error.to_string());
        SqliteCode::CANT_OPEN
    })?;
    Ok(true)
}

/// The options of a database.
///
/// # Safety
///
/// As `xOpen`.
unsafe fn options_of(instance: &Instance, name: *const c_char) -> SqliteResult<Options> {
    let parameter = |key: &str| {
        let key = std::ffi::CString::new(key).ok()?;
        // SAFETY: SQLite finds the parameters behind the name that it passed; the value lives as long.
        let value = unsafe { (instance.api.uri_parameter)(name, key.as_ptr()) };
        if value.is_null() {
            return None;
        }
        // SAFETY: a value that is not null ends with a zero.
        Some(unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
    };
    Options::of_environment().and_then(|options| options.set(parameter)).map_err(|error| {
        instance.log(SqliteCode::CANT_OPEN, &error.to_string());
        SqliteCode::CANT_OPEN
    })
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, durable: c_int) -> c_int {
    // SAFETY: SQLite passes the VFS that it calls, and a name that ends with a zero.
    let (instance, path) = unsafe { (instance(vfs), CStr::from_ptr(name).to_string_lossy()) };
    let mut is_virtual = false;
    let code = guarded(|| {
        is_virtual = handle::delete_virtual(instance, &path, durable != 0)?;
        Ok(())
    });
    if code != ffi::OK || is_virtual {
        return code;
    }
    // SAFETY: the call is passed on as it is.
    unsafe { ((*instance.base.0).xDelete)(instance.base.0, name, durable) }
}

unsafe extern "C" fn access(vfs: *mut Vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: as in `delete`.
    let (instance, path) = unsafe { (instance(vfs), CStr::from_ptr(name).to_string_lossy()) };
    let mut found = None;
    let code = guarded(|| {
        found = handle::virtual_exists(instance, &path)?;
        Ok(())
    });
    match found {
        _ if code != ffi::OK => code,
        Some(exists) => {
            // SAFETY: SQLite passes a place for the answer.
            unsafe { *out = c_int::from(exists) };
            ffi::OK
        }
        // SAFETY: the call is passed on as it is.
        None => unsafe { ((*instance.base.0).xAccess)(instance.base.0, name, flags, out) },
    }
}

unsafe extern "C" fn full_pathname(vfs: *mut Vfs, name: *const c_char, length: c_int, out: *mut c_char) -> c_int {
    // SAFETY: the call is passed on as it is.
    let code = unsafe {
        let base = base(vfs);
        ((*base).xFullPathname)(base, name, length, out)
    };
    // SQLite's own VFS has a code of its own where it has followed a link.
    if code & 0xff != ffi::OK {
        return code;
    }
    let noted = guarded(|| {
        // SAFETY: SQLite passes a name, and the VFS below has written one; both end with a zero.
        let (asked, resolved) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(out)) };
        scope::note_name(asked, resolved);
        Ok(())
    });
    if noted == ffi::OK { code } else { noted }
}

/// Methods that only pass their call on to the VFS below.
macro_rules! passed_on {
    ($($name:ident => $method:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(unsafe extern "C" fn $name(vfs: *mut Vfs, $($argument: $kind),*) -> $result {
            // SAFETY: SQLite passes the VFS that it calls; the VFS below has all methods, and is passed the same arguments.
            unsafe {
                let base = base(vfs);
                ((*base).$method)(base, $($argument),*)
            }
        })*
    };
}

passed_on! {
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
    xClose: handle::close,
    xRead: handle::read,
    xWrite: handle::write,
    xTruncate: handle::truncate,
    xSync: handle::sync,
    xFileSize: handle::file_size,
    xLock: handle::lock,
    xUnlock: handle::unlock,
    xCheckReservedLock: handle::check_reserved_lock,
    xFileControl: handle::file_control,
    xSectorSize: handle::sector_size,
    xDeviceCharacteristics: handle::device_characteristics,
    xShmMap: handle::shm_map,
    xShmLock: handle::shm_lock,
    xShmBarrier: handle::shm_barrier,
    xShmUnmap: handle::shm_unmap,
};

/// Registers a VFS with a name over another one; `None` stands for SQLite's default.
///
/// # Errors
///
/// `ERROR` if there is no VFS below, otherwise SQLite's answer.
///
/// # Safety
///
/// The functions of `api` are SQLite's.
pub(crate) unsafe fn register(
    api: Api,
    name: &'static CStr,
    below: Option<&CStr>,
    as_default: bool,
) -> SqliteResult<&'static Instance> {
    let below = below.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: the caller's; names end with a zero, and the VFS and its instance live until the process ends.
    unsafe {
        let known = (api.vfs_find)(name.as_ptr());
        if !known.is_null() && (*known).xOpen as usize == open as *const () as usize {
            SqliteCode::check((api.vfs_register)(known, c_int::from(as_default)))?;
            return Ok(&*(*known).pAppData.cast::<Instance>());
        }
        let base = (api.vfs_find)(below);
        if base.is_null() {
            return Err(SqliteCode(ffi::ERROR));
        }
        let instance: &'static Instance = Box::leak(Box::new(Instance::new(BaseVfs(base), api, name)));
        let vfs = Box::leak(Box::new(methods(instance, &*base)));
        SqliteCode::check((api.vfs_register)(vfs, c_int::from(as_default)))?;
        crate::fork::watch(instance);
        Ok(instance)
    }
}

fn methods(instance: &'static Instance, base: &Vfs) -> Vfs {
    Vfs {
        iVersion: base.iVersion.min(3),
        szOsFile: base.szOsFile.max(size_of::<SqliteFile>() as c_int),
        mxPathname: base.mxPathname,
        pNext: std::ptr::null_mut(),
        zName: instance.name.as_ptr(),
        pAppData: std::ptr::from_ref(instance).cast_mut().cast(),
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
