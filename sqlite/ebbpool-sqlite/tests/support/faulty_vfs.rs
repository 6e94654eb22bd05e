//! A VFS of SQLite's over a simulated disk, on which crashes and errors happen when a test says so.
//!
//! Each unsafe block has the same reason: SQLite calls these functions, with pointers that are valid for the call.

#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Mutex;

use ebbpool::storage::{FaultyDisk, FaultyFile};
use ebbpool_sqlite::ffi::{self, File, IoMethods, Symbol, Vfs};

/// The disk of one VFS, which a test exchanges.
pub struct Machine {
    name: CString,
    disk: Mutex<FaultyDisk>,
    left_out: Mutex<Option<Step>>,
    random: Mutex<fastrand::Rng>,
    base: *mut Vfs,
}

/// A sync, by what was written to the file since the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The header of `-ebb`.
    DeltasHeader,
    /// Records of `-ebb`.
    Deltas,
    /// The header of `-wal`.
    WalHeader,
    /// Frames of `-wal`.
    Wal,
    /// `-wal` was cut off.
    WalCutOff,
    /// Pages of the database.
    InPlace,
    /// Only pages beyond the end of the database.
    Appended,
    /// The first page of an empty database.
    FirstPage,
    /// The byte of the database that keeps plain SQLite from writing: set, or set back.
    Mark,
    Unmark,
}

impl Step {
    /// What a write, of a file that had a length, makes the next sync.
    fn of_write(path: &str, at: u64, bytes: &[u8], length: u64) -> Step {
        if path.ends_with("-ebb") {
            // Its two slots; the second one gets the header with the first record.
            return if at < 1024 { Step::DeltasHeader } else { Step::Deltas };
        }
        if path.ends_with("-wal") {
            return if at == 0 { Step::WalHeader } else { Step::Wal };
        }
        match (at, bytes) {
            // The mark comes with the number of the log's generation, in bytes that SQLite reserves.
            (18, [3, ..]) => Step::Mark,
            (18, [_]) => Step::Unmark,
            (72, number) if number.len() == 8 => match number.iter().any(|byte| *byte != 0) {
                true => Step::Mark,
                false => Step::Unmark,
            },
            (0, _) if length == 0 => Step::FirstPage,
            (at, _) if length > 0 && at >= length => Step::Appended,
            _ => Step::InPlace,
        }
    }
}

// SAFETY: the VFS below is SQLite's own, which every thread may call.
unsafe impl Sync for Machine {}
// SAFETY: as above.
unsafe impl Send for Machine {}

impl Machine {
    /// Registers a VFS with a name over an empty disk.
    pub fn register(name: &str) -> &'static Machine {
        let api = ebbpool_sqlite::linked_api();
        // SAFETY: SQLite is initialized.
        let base = unsafe { (api.vfs_find)(std::ptr::null()) };
        let machine: &'static Machine = Box::leak(Box::new(Machine {
            name: CString::new(name).unwrap(),
            disk: Mutex::new(FaultyDisk::new(0)),
            left_out: Mutex::new(None),
            random: Mutex::new(fastrand::Rng::with_seed(0)),
            base,
        }));
        let vfs = Box::leak(Box::new(machine.vfs()));
        // SAFETY: the VFS lives until the process ends.
        assert_eq!(unsafe { (api.vfs_register)(vfs, 0) }, ffi::OK);
        machine
    }

    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// Puts another disk in.
    pub fn insert(&self, disk: &FaultyDisk) {
        *self.disk.lock().unwrap() = disk.clone();
    }

    /// Leaves out, from now on, all syncs of one kind.
    pub fn leave_out(&self, step: Option<Step>) {
        *self.left_out.lock().unwrap() = step;
    }

    /// Makes random bytes the same in each run.
    pub fn seed(&self, seed: u64) {
        *self.random.lock().unwrap() = fastrand::Rng::with_seed(seed);
    }

    fn file(&self, path: &str) -> FaultyFile {
        self.disk.lock().unwrap().bytes(path)
    }

    fn vfs(&'static self) -> Vfs {
        Vfs {
            iVersion: 2,
            szOsFile: size_of::<Handle>() as c_int,
            mxPathname: 512,
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

#[repr(C)]
struct Handle {
    file: File,
    open: *mut Open,
}

struct Open {
    file: FaultyFile,
    is_temporary: bool,
    level: c_int,
    machine: &'static Machine,
    path: String,
    /// What was done since the last sync.
    step: Option<Step>,
}

unsafe fn machine(vfs: *mut Vfs) -> &'static Machine {
    unsafe { &*(*vfs).pAppData.cast::<Machine>() }
}

unsafe fn open_of<'a>(file: *mut File) -> &'a mut Open {
    unsafe { &mut *(*file.cast::<Handle>()).open }
}

fn code(answer: std::io::Result<()>, failed: c_int) -> c_int {
    match answer {
        Ok(()) => ffi::OK,
        Err(error) if error.raw_os_error() == Some(ebbpool::storage::ENOSPC) => ffi::FULL,
        Err(_) => failed,
    }
}

unsafe extern "C" fn open(vfs: *mut Vfs, name: *const c_char, file: *mut File, flags: c_int, out: *mut c_int) -> c_int {
    unsafe {
        (*file).methods = std::ptr::null();
        let machine = machine(vfs);
        // Temporary files are on a disk of their own: no fault reaches them, and no crash keeps them.
        let is_temporary = name.is_null();
        let path = match is_temporary {
            true => String::new(),
            false => CStr::from_ptr(name).to_str().unwrap().to_owned(),
        };
        let opened = match is_temporary {
            true => FaultyDisk::new(1).bytes("temporary"),
            false => machine.file(&path),
        };
        let exists = opened.len().map(|length| length > 0);
        match exists {
            Err(_) => return ffi::CANTOPEN,
            Ok(false) if flags & ffi::OPEN_CREATE == 0 && flags & ffi::OPEN_MAIN_DB == 0 => {
                return ffi::CANTOPEN;
            }
            Ok(_) => {}
        }
        let handle = file.cast::<Handle>();
        (*handle).open = Box::into_raw(Box::new(Open { file: opened, is_temporary, level: 0, machine, path, step: None }));
        (*handle).file.methods = &METHODS;
        if !out.is_null() {
            *out = flags;
        }
        ffi::OK
    }
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, durable: c_int) -> c_int {
    let file = unsafe { machine(vfs).file(CStr::from_ptr(name).to_str().unwrap()) };
    match file.is_empty() {
        Ok(true) => return ffi::IOERR_DELETE_NOENT,
        Ok(false) => {}
        Err(_) => return ffi::IOERR,
    }
    let deleted = file.set_len(0);
    code(deleted.and_then(|()| if durable != 0 { file.sync() } else { Ok(()) }), ffi::IOERR)
}

unsafe extern "C" fn access(vfs: *mut Vfs, name: *const c_char, _flags: c_int, out: *mut c_int) -> c_int {
    unsafe {
        let file = machine(vfs).file(CStr::from_ptr(name).to_str().unwrap());
        match file.len() {
            Ok(length) => *out = c_int::from(length > 0),
            Err(_) => return ffi::IOERR,
        }
        ffi::OK
    }
}

unsafe extern "C" fn full_pathname(_vfs: *mut Vfs, name: *const c_char, length: c_int, out: *mut c_char) -> c_int {
    unsafe {
        let bytes = CStr::from_ptr(name).to_bytes_with_nul();
        assert!(bytes.len() <= length as usize);
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len());
    }
    ffi::OK
}

macro_rules! passed_on {
    ($($name:ident => $method:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(unsafe extern "C" fn $name(vfs: *mut Vfs, $($argument: $kind),*) -> $result {
            unsafe {
                let base = machine(vfs).base;
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
    current_time => xCurrentTime(out: *mut f64) -> c_int;
    last_error => xGetLastError(length: c_int, out: *mut c_char) -> c_int;
    current_time_in_milliseconds => xCurrentTimeInt64(out: *mut i64) -> c_int;
    set_system_call => xSetSystemCall(name: *const c_char, call: Symbol) -> c_int;
    system_call => xGetSystemCall(name: *const c_char) -> Symbol;
    next_system_call => xNextSystemCall(name: *const c_char) -> *const c_char;
}

/// Nothing changes while a connection waits: all of them are of one thread.
unsafe extern "C" fn sleep(_vfs: *mut Vfs, microseconds: c_int) -> c_int {
    microseconds
}

/// The same bytes in each run of a case.
unsafe extern "C" fn randomness(vfs: *mut Vfs, length: c_int, out: *mut c_char) -> c_int {
    let (machine, out) = unsafe { (machine(vfs), std::slice::from_raw_parts_mut(out.cast::<u8>(), length as usize)) };
    machine.random.lock().unwrap().fill(out);
    length
}

static METHODS: IoMethods = IoMethods {
    iVersion: 1,
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
    unsafe {
        let handle = file.cast::<Handle>();
        drop(Box::from_raw((*handle).open));
        (*handle).file.methods = std::ptr::null();
    }
    ffi::OK
}

unsafe extern "C" fn read(file: *mut File, into: *mut c_void, count: c_int, at: i64) -> c_int {
    let (open, into) = unsafe { (open_of(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), count as usize)) };
    let mut done = 0;
    while done < into.len() {
        match open.file.read_at(at as u64 + done as u64, &mut into[done..]) {
            Ok(0) => {
                into[done..].fill(0);
                return ffi::IOERR_SHORT_READ;
            }
            Ok(count) => done += count,
            Err(_) => return ffi::IOERR,
        }
    }
    ffi::OK
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, count: c_int, at: i64) -> c_int {
    let (open, bytes) = unsafe { (open_of(file), std::slice::from_raw_parts(from.cast::<u8>(), count as usize)) };
    let step = Step::of_write(&open.path, at as u64, bytes, open.file.len().unwrap_or(0));
    // A header and its records are one sync where the header was not synced on its own.
    if open.step.is_none() || !matches!(step, Step::Mark | Step::Unmark | Step::Appended) {
        open.step = Some(step);
    }
    code(open.file.write_at(at as u64, bytes), ffi::IOERR | (3 << 8))
}

unsafe extern "C" fn truncate(file: *mut File, length: i64) -> c_int {
    let open = unsafe { open_of(file) };
    if open.path.ends_with("-wal") {
        open.step = Some(Step::WalCutOff);
    }
    code(open.file.set_len(length as u64), ffi::IOERR)
}

unsafe extern "C" fn sync(file: *mut File, _flags: c_int) -> c_int {
    let open = unsafe { open_of(file) };
    let step = open.step.take();
    if open.is_temporary || (step.is_some() && *open.machine.left_out.lock().unwrap() == step) {
        return ffi::OK;
    }
    code(open.file.sync(), ffi::IOERR_FSYNC)
}

unsafe extern "C" fn file_size(file: *mut File, out: *mut i64) -> c_int {
    match unsafe { open_of(file) }.file.len() {
        Ok(length) => {
            unsafe { *out = length as i64 };
            ffi::OK
        }
        Err(_) => ffi::IOERR,
    }
}

unsafe extern "C" fn lock(file: *mut File, level: c_int) -> c_int {
    let open = unsafe { open_of(file) };
    open.level = open.level.max(level);
    ffi::OK
}

unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    unsafe { open_of(file) }.level = level;
    ffi::OK
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, out: *mut c_int) -> c_int {
    unsafe { *out = c_int::from(open_of(file).level >= ffi::LOCK_RESERVED) };
    ffi::OK
}

unsafe extern "C" fn file_control(_file: *mut File, _operation: c_int, _argument: *mut c_void) -> c_int {
    ffi::NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut File) -> c_int {
    512
}

unsafe extern "C" fn device_characteristics(_file: *mut File) -> c_int {
    ffi::IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(_f: *mut File, _r: c_int, _b: c_int, _e: c_int, _o: *mut *mut c_void) -> c_int {
    ffi::IOERR
}

unsafe extern "C" fn shm_lock(_file: *mut File, _offset: c_int, _count: c_int, _flags: c_int) -> c_int {
    ffi::IOERR
}

unsafe extern "C" fn shm_barrier(_file: *mut File) {}

unsafe extern "C" fn shm_unmap(_file: *mut File, _delete: c_int) -> c_int {
    ffi::OK
}
