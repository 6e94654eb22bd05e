//! A copy of a database in memory, and the VFS that finds it there.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::code::{SqliteCode, SqliteResult};
use crate::disk::{BaseFile, BaseVfs};
use crate::ffi::{self, File, IoMethods, Vfs};
use crate::sync::lock;

/// Bytes that are copied at a time.
const PIECE: usize = 1 << 16;

type Content = Arc<Mutex<Vec<u8>>>;

static FILES: Mutex<Option<HashMap<String, Content>>> = Mutex::new(None);

fn with_files<R>(with: impl FnOnce(&mut HashMap<String, Content>) -> R) -> R {
    with(lock(&FILES).get_or_insert_default())
}

/// The copy of one database, which goes with its state.
pub(crate) struct SuiteCopy {
    base: BaseVfs,
    path: String,
    /// The real database, locked.
    real: Option<BaseFile>,
}

impl SuiteCopy {
    /// Copies a database.
    pub(crate) fn new(base: BaseVfs, path: &str, real: &mut BaseFile) -> SqliteResult<(SuiteCopy, BaseFile)> {
        static COPIES: AtomicU64 = AtomicU64::new(0);
        let mut content = vec![0; real.length()? as usize];
        let mut piece = vec![0; PIECE];
        for (index, part) in content.chunks_mut(PIECE).enumerate() {
            let piece = &mut piece[..part.len()];
            real.read((index * PIECE) as u64, piece)?;
            // Tests have files of gigabytes that are holes, for which memory is only reserved.
            if piece.iter().any(|byte| *byte != 0) {
                part.copy_from_slice(piece);
            }
        }
        let path = format!("{}:{path}", COPIES.fetch_add(1, Ordering::Relaxed));
        with_files(|files| files.insert(path.clone(), Arc::new(Mutex::new(content))));
        let shadow = SuiteCopy { base: vfs(base), path, real: None };
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_MAIN_DB;
        let copy = BaseFile::open(shadow.base, &shadow.path, flags)?;
        Ok((shadow, copy))
    }

    /// Has the real database stay locked as long as the copy lives.
    pub(crate) fn of(mut self, real: BaseFile) -> SuiteCopy {
        self.real = Some(real);
        self
    }

    pub(crate) fn base(&self) -> BaseVfs {
        self.base
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// True if another file has the real database's name by now, or none.
    pub(crate) fn has_moved(&mut self) -> bool {
        self.real.as_mut().is_some_and(BaseFile::has_moved)
    }

    /// The real database, where there will be no state of it.
    pub(crate) fn into_real(mut self) -> Option<BaseFile> {
        self.real.take()
    }
}

impl Drop for SuiteCopy {
    fn drop(&mut self) {
        with_files(|files| files.retain(|path, _| !path.starts_with(&self.path)));
    }
}

/// The VFS below with other files.
fn vfs(base: BaseVfs) -> BaseVfs {
    static SHADOWS: OnceLock<BaseVfs> = OnceLock::new();
    *SHADOWS.get_or_init(|| {
        // SAFETY: a registered VFS lives until the process ends; its fields may be copied.
        let below = unsafe { std::ptr::read(base.0) };
        BaseVfs(Box::leak(Box::new(Vfs {
            szOsFile: size_of::<Handle>() as c_int,
            xOpen: open,
            xDelete: delete,
            xAccess: access,
            ..below
        })))
    })
}

#[repr(C)]
struct Handle {
    file: File,
    content: *const Mutex<Vec<u8>>,
}

unsafe extern "C" fn open(_vfs: *mut Vfs, name: *const c_char, file: *mut File, flags: c_int, flags_out: *mut c_int) -> c_int {
    // SAFETY: the caller passes memory for a handle, a name that is null or ends with a zero, and a place for flags.
    unsafe {
        let content = match name.is_null() {
            true => Content::default(),
            false => {
                let path = CStr::from_ptr(name).to_string_lossy().into_owned();
                with_files(|files| Arc::clone(files.entry(path).or_default()))
            }
        };
        let handle = file.cast::<Handle>();
        (*handle).content = Arc::into_raw(content);
        (*handle).file.methods = &METHODS;
        *flags_out = flags;
    }
    ffi::OK
}

unsafe extern "C" fn delete(_vfs: *mut Vfs, name: *const c_char, _durable: c_int) -> c_int {
    // SAFETY: a name ends with a zero.
    let path = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    match with_files(|files| files.remove(&*path)) {
        Some(_) => ffi::OK,
        None => ffi::IOERR_DELETE_NOENT,
    }
}

unsafe extern "C" fn access(_vfs: *mut Vfs, name: *const c_char, _flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: a name ends with a zero, and there is a place for the answer.
    unsafe {
        let path = CStr::from_ptr(name).to_string_lossy();
        *out = c_int::from(with_files(|files| files.contains_key(&*path)));
    }
    ffi::OK
}

/// # Safety
///
/// `file` is a handle that [`open`] has opened.
unsafe fn content<'a>(file: *mut File) -> MutexGuard<'a, Vec<u8>> {
    // SAFETY: the handle owns a share of the content until it is closed.
    lock(unsafe { &*(*file.cast::<Handle>()).content })
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    // SAFETY: this is the last call of the handle, whose share of the content goes.
    unsafe {
        drop(Arc::from_raw((*file.cast::<Handle>()).content));
        (*file).methods = std::ptr::null();
    }
    ffi::OK
}

unsafe extern "C" fn read(file: *mut File, into: *mut c_void, count: c_int, at: i64) -> c_int {
    // SAFETY: the buffer has as many bytes as the call says.
    let (content, into) = unsafe { (content(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), count as usize)) };
    let from = (at as usize).min(content.len());
    let there = into.len().min(content.len() - from);
    into[..there].copy_from_slice(&content[from..from + there]);
    into[there..].fill(0);
    match there == into.len() {
        true => ffi::OK,
        false => ffi::IOERR_SHORT_READ,
    }
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, count: c_int, at: i64) -> c_int {
    // SAFETY: as in `read`.
    let (mut content, from) = unsafe { (content(file), std::slice::from_raw_parts(from.cast::<u8>(), count as usize)) };
    let end = at as usize + from.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at as usize..end].copy_from_slice(from);
    ffi::OK
}

unsafe extern "C" fn truncate(file: *mut File, length: i64) -> c_int {
    // SAFETY: the handle is open.
    unsafe { content(file) }.truncate(length as usize);
    ffi::OK
}

unsafe extern "C" fn file_size(file: *mut File, out: *mut i64) -> c_int {
    // SAFETY: the handle is open, and there is a place for the answer.
    unsafe { *out = content(file).len() as i64 };
    ffi::OK
}

unsafe extern "C" fn with_number(_file: *mut File, _number: c_int) -> c_int {
    ffi::OK
}

unsafe extern "C" fn check_reserved_lock(_file: *mut File, out: *mut c_int) -> c_int {
    // SAFETY: there is a place for the answer.
    unsafe { *out = 0 };
    ffi::OK
}

unsafe extern "C" fn control(_file: *mut File, _operation: c_int, _argument: *mut c_void) -> c_int {
    ffi::NOTFOUND
}

unsafe extern "C" fn number(_file: *mut File) -> c_int {
    0
}

unsafe extern "C" fn shm_map(_file: *mut File, _region: c_int, _bytes: c_int, _extend: c_int, _out: *mut *mut c_void) -> c_int {
    SqliteCode::IO.0
}

unsafe extern "C" fn shm_lock(_file: *mut File, _at: c_int, _count: c_int, _flags: c_int) -> c_int {
    SqliteCode::IO.0
}

unsafe extern "C" fn shm_barrier(_file: *mut File) {}

static METHODS: IoMethods = IoMethods {
    iVersion: 1,
    xClose: close,
    xRead: read,
    xWrite: write,
    xTruncate: truncate,
    xSync: with_number,
    xFileSize: file_size,
    xLock: with_number,
    xUnlock: with_number,
    xCheckReservedLock: check_reserved_lock,
    xFileControl: control,
    xSectorSize: number,
    xDeviceCharacteristics: number,
    xShmMap: shm_map,
    xShmLock: shm_lock,
    xShmBarrier: shm_barrier,
    xShmUnmap: with_number,
};
