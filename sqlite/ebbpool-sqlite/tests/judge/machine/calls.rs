//! The calls of SQLite's into the VFS of a process.
//!
//! Each unsafe block has the same reason: SQLite calls these functions, with pointers that are valid for the call.

#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ebbpool_sqlite::ffi::{self, File, IoMethods, Symbol, Vfs};

use super::drive::{Bytes, Drive, Store};
use super::locks::Region;
use super::{BLOCK, Open, Port};
use crate::points::{self, Event};

/// A journal cannot be made in a directory that can only be read.
const READONLY_DIRECTORY: c_int = 8 | (6 << 8);

#[repr(C)]
struct Handle {
    file: File,
    open: *const Open,
}

impl Port {
    pub fn vfs(&'static self) -> Vfs {
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

unsafe fn port(vfs: *mut Vfs) -> &'static Port {
    unsafe { &*(*vfs).pAppData.cast::<Port>() }
}

unsafe fn text<'a>(name: *const c_char) -> &'a str {
    unsafe { CStr::from_ptr(name) }.to_str().unwrap()
}

unsafe fn open_of<'a>(file: *mut File) -> &'a Open {
    unsafe { &*(*file.cast::<Handle>()).open }
}

unsafe extern "C" fn open(vfs: *mut Vfs, name: *const c_char, file: *mut File, flags: c_int, out: *mut c_int) -> c_int {
    unsafe {
        (*file).methods = std::ptr::null();
        let port = port(vfs);
        let is_temporary = name.is_null();
        let path = if is_temporary { "" } else { text(name) };
        // Temporary files are on a disk of their own: no fault reaches them, and no crash keeps them.
        let drive = match is_temporary {
            true => Drive::new(Store::Plain(Mutex::default())),
            false => port.drive(),
        };
        let bytes = drive.bytes(path);
        let is_main = flags & ffi::OPEN_MAIN_DB != 0;
        let is_new = !is_temporary && drive.length(&bytes) == 0;
        let may_make = flags & ffi::OPEN_CREATE != 0 && !drive.is_fixed.load(Ordering::Relaxed);
        let is_refused = drive.is_fixed.load(Ordering::Relaxed) || !is_main;
        if is_new && !may_make && is_refused {
            let is_new_log = !is_main && flags & ffi::OPEN_CREATE != 0;
            return match is_new_log {
                // As SQLite's unix VFS: the directory can only be read.
                true => READONLY_DIRECTORY,
                false => ffi::CANTOPEN,
            };
        }
        if flags & ffi::OPEN_CREATE != 0 {
            drive.note_name(path);
        }
        let id = port.machine.next.fetch_add(1, Ordering::Relaxed);
        let opened = Arc::new(Open {
            id,
            port,
            path: path.to_owned(),
            is_temporary,
            can_write: flags & ffi::OPEN_READONLY == 0,
            at: Mutex::new((drive, Arc::new(bytes))),
        });
        let mut handles = port.machine.handles.lock().unwrap();
        handles.insert(id, Arc::clone(&opened));
        let handle = file.cast::<Handle>();
        (*handle).open = Arc::into_raw(opened);
        (*handle).file.methods = &METHODS;
        if !out.is_null() {
            *out = flags;
        }
        ffi::OK
    }
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, durable: c_int) -> c_int {
    let (port, path) = unsafe { (port(vfs), text(name)) };
    let drive = port.drive();
    let bytes = drive.bytes(path);
    if drive.length(&bytes) == 0 {
        return ffi::IOERR_DELETE_NOENT;
    }
    if drive.is_fixed.load(Ordering::Relaxed) {
        return ffi::IOERR | (10 << 8);
    }
    drive.note(|| format!("delete {path}, durable: {durable}"));
    drive.note_blocks(path, BTreeSet::clear);
    let deleted = drive.set_length(&bytes, 0).and_then(|()| {
        drive.note_deletion(path);
        match durable {
            0 => Ok(()),
            _ => {
                drive.note_sync(path);
                drive.sync(&bytes)
            }
        }
    });
    if durable != 0 && deleted.is_ok() {
        drive.make_names_durable();
    }
    let code = drive.code(deleted, ffi::IOERR | (10 << 8));
    port.machine.count_change(&drive);
    code
}

unsafe extern "C" fn access(vfs: *mut Vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    unsafe {
        let drive = port(vfs).drive();
        let exists = drive.length(&drive.bytes(text(name))) > 0;
        let is_fixed = drive.is_fixed.load(Ordering::Relaxed);
        // Whether one may write is asked of directories.
        *out = match flags {
            ffi::ACCESS_EXISTS => c_int::from(exists),
            _ => c_int::from(exists || !is_fixed),
        };
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
                let base = port(vfs).machine.base;
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

/// No time passes.
unsafe extern "C" fn sleep(_vfs: *mut Vfs, microseconds: c_int) -> c_int {
    microseconds
}

/// The same bytes in each run of a program.
unsafe extern "C" fn randomness(vfs: *mut Vfs, length: c_int, out: *mut c_char) -> c_int {
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), length as usize) };
    unsafe { port(vfs) }.machine.random.lock().unwrap().fill(out);
    length
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
    unsafe {
        let handle = file.cast::<Handle>();
        (*handle).file.methods = std::ptr::null();
        let open = Arc::from_raw((*handle).open);
        let (drive, _) = open.at();
        drive.with_inode(&open.path, |inode| {
            inode.levels.remove(&open.id);
            inode.slots.remove(&open.id);
            inode.forget_memory();
        });
        open.port.machine.handles.lock().unwrap().remove(&open.id);
    }
    ffi::OK
}

unsafe extern "C" fn read(file: *mut File, into: *mut c_void, count: c_int, at: i64) -> c_int {
    let (open, into) = unsafe { (open_of(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), count as usize)) };
    let (drive, bytes) = open.at();
    let mut done = 0;
    while done < into.len() {
        match drive.read(&bytes, at as u64 + done as u64, &mut into[done..]) {
            Ok(0) => {
                into[done..].fill(0);
                return ffi::IOERR_SHORT_READ;
            }
            Ok(count) => done += count,
            Err(error) => return drive.code(Err(error), ffi::IOERR),
        }
    }
    ffi::OK
}

/// Calls `change` for an open file, and counts it.
fn changing(open: &Open, code: c_int, change: impl FnOnce(&Drive, &Bytes) -> std::io::Result<()>) -> c_int {
    let (drive, bytes) = open.at();
    let code = drive.code(change(&drive, &bytes), code);
    if !open.is_temporary {
        open.port.machine.count_change(&drive);
    }
    code
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, count: c_int, at: i64) -> c_int {
    let (open, from) = unsafe { (open_of(file), std::slice::from_raw_parts(from.cast::<u8>(), count as usize)) };
    if !open.can_write {
        return ffi::IOERR | (3 << 8);
    }
    let (drive, bytes) = open.at();
    // SQLite opens the database before it writes it; only then is it made.
    if drive.is_fixed.load(Ordering::Relaxed) && drive.length(&bytes) == 0 && !open.is_temporary {
        return ffi::IOERR | (3 << 8);
    }
    drive.note(|| format!("write {} at {at}, {count} bytes", open.path));
    changing(open, ffi::IOERR | (3 << 8), |drive, bytes| {
        let blocks = at as u64 / BLOCK..(at as u64 + from.len() as u64).div_ceil(BLOCK);
        drive.note_blocks(&open.path, |dirty| dirty.extend(blocks));
        drive.write(bytes, at as u64, from)
    })
}

unsafe extern "C" fn truncate(file: *mut File, length: i64) -> c_int {
    let open = unsafe { open_of(file) };
    open.at().0.note(|| format!("truncate {} to {length}", open.path));
    changing(open, ffi::IOERR | (6 << 8), |drive, bytes| {
        drive.note_blocks(&open.path, |dirty| {
            dirty.retain(|block| block * BLOCK < length as u64);
        });
        drive.set_length(bytes, length as u64)
    })
}

unsafe extern "C" fn sync(file: *mut File, _flags: c_int) -> c_int {
    let open = unsafe { open_of(file) };
    if open.is_temporary {
        return ffi::OK;
    }
    points::reached(Event::DiskSync);
    open.at().0.note(|| format!("sync {}", open.path));
    changing(open, ffi::IOERR_FSYNC, |drive, bytes| {
        drive.note_sync(&open.path);
        drive.sync(bytes)?;
        // As file systems do that have a journal: the first sync of a new file makes its directory durable.
        if drive.names.lock().unwrap().made.contains(&open.path) {
            drive.make_names_durable();
        }
        Ok(())
    })
}

unsafe extern "C" fn file_size(file: *mut File, out: *mut i64) -> c_int {
    let (drive, bytes) = unsafe { open_of(file) }.at();
    unsafe { *out = drive.length(&bytes) as i64 };
    ffi::OK
}

unsafe extern "C" fn lock(file: *mut File, level: c_int) -> c_int {
    let open = unsafe { open_of(file) };
    if level > ffi::LOCK_SHARED && !open.can_write {
        // As of a descriptor that cannot write.
        return ffi::IOERR | (15 << 8);
    }
    open.at().0.with_inode(&open.path, |inode| inode.lock(open.id, level))
}

unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    let open = unsafe { open_of(file) };
    let drive = open.at().0;
    drive.with_inode(&open.path, |inode| inode.unlock(open.id, level));
    ffi::OK
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, out: *mut c_int) -> c_int {
    let open = unsafe { open_of(file) };
    let is_reserved =
        open.at().0.with_inode(&open.path, |inode| inode.levels.values().any(|level| *level >= ffi::LOCK_RESERVED));
    unsafe { *out = c_int::from(is_reserved) };
    ffi::OK
}

unsafe extern "C" fn file_control(_file: *mut File, _operation: c_int, _argument: *mut c_void) -> c_int {
    ffi::NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut File) -> c_int {
    4096
}

unsafe extern "C" fn device_characteristics(_file: *mut File) -> c_int {
    ffi::IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(file: *mut File, index: c_int, bytes: c_int, extend: c_int, out: *mut *mut c_void) -> c_int {
    let open = unsafe { open_of(file) };
    let region = open.at().0.with_inode(&open.path, |inode| {
        inode.slots.entry(open.id).or_default();
        while extend != 0 && inode.regions.len() <= index as usize {
            let words = (0..bytes / 8).map(|_| AtomicU64::new(0));
            inode.regions.push(Arc::new(Region(words.collect())));
        }
        let region = inode.regions.get(index as usize);
        region.map_or(std::ptr::null(), |region| region.0.as_ptr())
    });
    unsafe { *out = region.cast_mut().cast() };
    ffi::OK
}

unsafe extern "C" fn shm_lock(file: *mut File, offset: c_int, count: c_int, flags: c_int) -> c_int {
    let open = unsafe { open_of(file) };
    let bits = (((1u16 << count) - 1) << offset) as u8;
    open.at().0.with_inode(&open.path, |inode| inode.lock_slots(open.id, bits, flags))
}

unsafe extern "C" fn shm_barrier(_file: *mut File) {
    std::sync::atomic::fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut File, _delete: c_int) -> c_int {
    let open = unsafe { open_of(file) };
    open.at().0.with_inode(&open.path, |inode| {
        inode.slots.remove(&open.id);
        inode.forget_memory();
    });
    ffi::OK
}
