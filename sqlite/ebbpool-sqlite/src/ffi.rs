//! The declarations of SQLite's C interface that a VFS needs.
//!
//! They are written by hand, so that one library serves every SQLite from 3.37 on, linked or loaded: bindings that are
//! generated belong to one version, and need libclang to build.

#![allow(non_snake_case, missing_docs)]

use std::ffi::{c_char, c_int, c_void};

/// A function of unknown type, as the system calls of a VFS are.
pub type Symbol = Option<unsafe extern "C" fn()>;

/// `sqlite3_file`: what begins each handle of a VFS.
#[repr(C)]
pub struct File {
    pub methods: *const IoMethods,
}

/// `sqlite3_io_methods`, version 3 without the last two calls where `iVersion` is 2.
#[repr(C)]
pub struct IoMethods {
    pub iVersion: c_int,
    pub xClose: unsafe extern "C" fn(*mut File) -> c_int,
    pub xRead: unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int,
    pub xWrite: unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int,
    pub xTruncate: unsafe extern "C" fn(*mut File, i64) -> c_int,
    pub xSync: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub xFileSize: unsafe extern "C" fn(*mut File, *mut i64) -> c_int,
    pub xLock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub xUnlock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub xCheckReservedLock: unsafe extern "C" fn(*mut File, *mut c_int) -> c_int,
    pub xFileControl: unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int,
    pub xSectorSize: unsafe extern "C" fn(*mut File) -> c_int,
    pub xDeviceCharacteristics: unsafe extern "C" fn(*mut File) -> c_int,
    pub xShmMap: unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int,
    pub xShmLock: unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int,
    pub xShmBarrier: unsafe extern "C" fn(*mut File),
    pub xShmUnmap: unsafe extern "C" fn(*mut File, c_int) -> c_int,
}

/// `sqlite3_vfs`, version 3.
#[repr(C)]
pub struct Vfs {
    pub iVersion: c_int,
    pub szOsFile: c_int,
    pub mxPathname: c_int,
    pub pNext: *mut Vfs,
    pub zName: *const c_char,
    pub pAppData: *mut c_void,
    pub xOpen: unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int,
    pub xDelete: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    pub xAccess: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub xFullPathname: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub xDlOpen: unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void,
    pub xDlError: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char),
    pub xDlSym: unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Symbol,
    pub xDlClose: unsafe extern "C" fn(*mut Vfs, *mut c_void),
    pub xRandomness: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub xSleep: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub xCurrentTime: unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int,
    pub xGetLastError: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub xCurrentTimeInt64: unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int,
    pub xSetSystemCall: unsafe extern "C" fn(*mut Vfs, *const c_char, Symbol) -> c_int,
    pub xGetSystemCall: unsafe extern "C" fn(*mut Vfs, *const c_char) -> Symbol,
    pub xNextSystemCall: unsafe extern "C" fn(*mut Vfs, *const c_char) -> *const c_char,
}

/// The functions of the SQLite that calls the VFS.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Api {
    pub vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    pub vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub open_v2: unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, *const c_char) -> c_int,
    pub exec: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_void, *const c_void, *const c_void) -> c_int,
    pub close: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub mprintf: unsafe extern "C" fn(*const c_char, ...) -> *mut c_char,
    pub log: unsafe extern "C" fn(c_int, *const c_char, ...),
    pub uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
}

impl Api {
    /// The functions in the table that SQLite passes to a loaded extension (`sqlite3_api_routines`), whose order
    /// never changes.
    ///
    /// # Safety
    ///
    /// `table` is that table.
    // The types are those of the fields.
    #[allow(unsafe_code, clippy::missing_transmute_annotations)]
    pub unsafe fn from_routines(table: *const *const c_void) -> Api {
        use std::mem::transmute;
        // SAFETY: the caller passes SQLite's table; the positions are those of sqlite3ext.h, and each function there
        // has the type of the field, as sqlite3.h declares it.
        unsafe {
            let at = |index: usize| *table.add(index);
            Api {
                vfs_find: transmute::<*const c_void, _>(at(141)),
                vfs_register: transmute::<*const c_void, _>(at(142)),
                open_v2: transmute::<*const c_void, _>(at(135)),
                exec: transmute::<*const c_void, _>(at(55)),
                close: transmute::<*const c_void, _>(at(16)),
                mprintf: transmute::<*const c_void, _>(at(69)),
                log: transmute::<*const c_void, _>(at(167)),
                uri_parameter: transmute::<*const c_void, _>(at(189)),
            }
        }
    }
}

pub const OK: c_int = 0;
pub const ERROR: c_int = 1;
pub const BUSY: c_int = 5;
pub const NOMEM: c_int = 7;
pub const IOERR: c_int = 10;
pub const CORRUPT: c_int = 11;
pub const NOTFOUND: c_int = 12;
pub const FULL: c_int = 13;
pub const READONLY_DBMOVED: c_int = 8 | (4 << 8);
pub const CANTOPEN: c_int = 14;
pub const MISUSE: c_int = 21;
pub const NOTICE: c_int = 27;
pub const WARNING: c_int = 28;
pub const IOERR_SHORT_READ: c_int = IOERR | (2 << 8);
pub const IOERR_WRITE: c_int = IOERR | (3 << 8);
pub const IOERR_FSYNC: c_int = IOERR | (4 << 8);
pub const IOERR_LOCK: c_int = IOERR | (15 << 8);
pub const IOERR_DELETE_NOENT: c_int = IOERR | (23 << 8);
pub const OK_LOAD_PERMANENTLY: c_int = 1 << 8;

pub const OPEN_READONLY: c_int = 0x1;
pub const OPEN_READWRITE: c_int = 0x2;
pub const OPEN_CREATE: c_int = 0x4;
pub const OPEN_DELETEONCLOSE: c_int = 0x8;
pub const OPEN_EXCLUSIVE: c_int = 0x10;
pub const OPEN_URI: c_int = 0x40;
pub const OPEN_MAIN_DB: c_int = 0x100;
pub const OPEN_TEMP_DB: c_int = 0x200;
pub const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub const OPEN_SUPER_JOURNAL: c_int = 0x4000;
pub const OPEN_PRIVATECACHE: c_int = 0x40000;
pub const OPEN_WAL: c_int = 0x80000;

/// The flags of `xOpen` that say what a file is for.
pub const OPEN_KINDS: c_int = 0x8_7f00;

pub const LOCK_SHARED: c_int = 1;
pub const LOCK_RESERVED: c_int = 2;
pub const LOCK_PENDING: c_int = 3;
pub const LOCK_EXCLUSIVE: c_int = 4;

pub const SYNC_NORMAL: c_int = 2;
pub const ACCESS_EXISTS: c_int = 0;
pub const ACCESS_READWRITE: c_int = 1;

pub const SHM_UNLOCK: c_int = 1;
pub const SHM_EXCLUSIVE: c_int = 8;

pub const FCNTL_LOCKSTATE: c_int = 1;
pub const FCNTL_LAST_ERRNO: c_int = 4;
pub const FCNTL_SIZE_HINT: c_int = 5;
pub const FCNTL_CHUNK_SIZE: c_int = 6;
pub const FCNTL_PERSIST_WAL: c_int = 10;
pub const FCNTL_VFSNAME: c_int = 12;
pub const FCNTL_PRAGMA: c_int = 14;
pub const FCNTL_MMAP_SIZE: c_int = 18;
pub const FCNTL_HAS_MOVED: c_int = 20;
pub const FCNTL_SYNC: c_int = 21;
pub const FCNTL_COMMIT_PHASETWO: c_int = 22;
pub const FCNTL_CKPT_DONE: c_int = 37;
pub const FCNTL_CKPT_START: c_int = 39;

/// The file is not torn beyond the bytes of a write.
pub const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;
