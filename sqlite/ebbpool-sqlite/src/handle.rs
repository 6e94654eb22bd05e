//! The methods of a handle, which SQLite calls.

#![allow(unsafe_code)]

mod passed;
mod shm;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;

use crate::code::guarded;
use crate::code::{SqliteCode, SqliteResult};
use crate::database_state::DatabaseState;
use crate::disk::BaseFile;
use crate::ffi::{self, File};
use crate::instance::Instance;
use crate::locks::{Region, Slots};
use crate::memory::VirtualFile;
use crate::mirror::{self, SuiteMirror};
use crate::pragma;
use crate::shared::{Ownership, SharedDatabase};

pub(crate) use shm::{shm_barrier, shm_lock, shm_map, shm_unmap};

/// What a handle is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Main,
    Journal,
    Wal,
}

/// The memory that SQLite reserves for a handle.
#[repr(C)]
pub(crate) struct SqliteFile {
    pub(crate) file: File,
    pub(crate) open: *mut FileHandle,
}

/// A handle that is open.
pub(crate) struct FileHandle {
    instance: &'static Instance,
    number: u64,
    kind: Kind,
    shared: Arc<SharedDatabase>,
    level: c_int,
    is_checkpointing: bool,
    persists_wal: c_int,
    /// True if SQLite is to read its pages anew before the next transaction.
    forgets_cache: bool,
    is_deleted_on_close: bool,
    slots: Slots,
    has_index: bool,
    /// The regions of the index that SQLite has mapped.
    regions: Vec<Region>,
    mirror: SuiteMirror,
    /// The database as the VFS below has it; journals and WALs that exist in memory only have none.
    base: Option<BaseFile>,
    is_read_only: bool,
    /// True while the VFS below serves the handle, which has a lock then, or an index of the WAL.
    is_passed: bool,
}

impl FileHandle {
    pub(crate) fn new(
        instance: &'static Instance,
        kind: Kind,
        shared: Arc<SharedDatabase>,
        flags: c_int,
        mirror: SuiteMirror,
        base: Option<BaseFile>,
    ) -> FileHandle {
        FileHandle {
            instance,
            number: instance.next_handle(),
            kind,
            shared,
            base,
            is_read_only: flags & ffi::OPEN_READONLY != 0,
            is_passed: false,
            level: 0,
            is_checkpointing: false,
            persists_wal: 0,
            forgets_cache: false,
            is_deleted_on_close: flags & ffi::OPEN_DELETEONCLOSE != 0,
            slots: Slots::default(),
            has_index: false,
            regions: Vec::new(),
            mirror,
        }
    }

    /// The number by which the database knows the handle.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn with<R>(&self, with: impl FnOnce(&mut DatabaseState) -> SqliteResult<R>) -> SqliteResult<R> {
        self.instance.with_state(&self.shared, with)
    }

    /// Makes the journal or WAL of this handle exist.
    pub(crate) fn make_virtual(&mut self, may_create: bool) -> SqliteResult<()> {
        let (kind, there) = (self.kind, self.mirror.content()?);
        self.with(|state| {
            let memory = state.memory.clone();
            let file = virtual_file(state, kind);
            if file.is_some() {
                return Ok(());
            }
            if !may_create && there.is_empty() {
                return Err(SqliteCode::CANT_OPEN);
            }
            file.insert(VirtualFile::new(&memory)).write(0, &there)
        })
    }
}

/// The journal or WAL in memory.
fn virtual_file(state: &mut DatabaseState, kind: Kind) -> &mut Option<VirtualFile> {
    match kind {
        Kind::Wal => &mut state.wal,
        _ => &mut state.journal,
    }
}

/// The database and kind of a path that would be virtual.
fn virtual_owner(instance: &Instance, path: &str) -> Option<(Arc<SharedDatabase>, Kind)> {
    let of = |suffix: &str, kind| {
        let owner = path.strip_suffix(suffix)?;
        Some((instance.find(owner)?, kind))
    };
    of("-journal", Kind::Journal).or_else(|| of("-wal", Kind::Wal))
}

/// True if the journal and the WAL of a database are virtual; otherwise those that there are belong to the VFS below.
fn has_virtual_files(shared: &SharedDatabase) -> SqliteResult<bool> {
    Ok(matches!(shared.lock()?.state, Ownership::Owned(_)))
}

/// True if a virtual file exists; `None` if the path is not one of a virtual file.
pub(crate) fn virtual_exists(instance: &Instance, path: &str) -> SqliteResult<Option<bool>> {
    if mirror::is_on() {
        return Ok(None);
    }
    let Some((shared, kind)) = virtual_owner(instance, path) else {
        return Ok(None);
    };
    if !has_virtual_files(&shared)? {
        return Ok(None);
    }
    instance.with_state(&shared, |state| {
        let file = virtual_file(state, kind);
        // As SQLite's unix VFS: an empty file does not exist.
        Ok(Some(file.as_ref().is_some_and(|file| file.length() > 0)))
    })
}

/// Deletes a virtual file; false if the path is not one of a virtual file.
pub(crate) fn delete_virtual(instance: &Instance, path: &str, durable: bool) -> SqliteResult<bool> {
    let Some((shared, kind)) = virtual_owner(instance, path) else {
        return Ok(false);
    };
    if !has_virtual_files(&shared)? {
        return Ok(false);
    }
    instance.with_state(&shared, |state| {
        if virtual_file(state, kind).is_none() {
            // Where the files are mirrored, a test may have put one there.
            return match mirror::is_on() {
                true => Ok(false),
                false => Err(SqliteCode(ffi::IOERR_DELETE_NOENT)),
            };
        }
        mirror::delete(instance.base, path, durable)?;
        match kind {
            Kind::Wal => state.wal_is_gone(),
            _ => {
                state.journal_changes()?;
                state.journal = None;
            }
        }
        Ok(true)
    })
}

/// True if the journal or WAL of a database that is opened now is virtual.
pub(crate) fn is_virtual(instance: &Instance, shared: &SharedDatabase) -> SqliteResult<bool> {
    let is_passed = {
        let inner = shared.lock()?;
        matches!(inner.state, Ownership::Free) && (inner.passing > 0 || inner.refusal.is_some())
    };
    // A connection without locks opens its journal before anything else.
    match is_passed {
        true => Ok(false),
        false => instance.with_state(shared, |_| Ok(true)),
    }
}

/// # Safety
///
/// `file` is a handle that `xOpen` has opened, and no other call uses it.
unsafe fn open_of<'a>(file: *mut File) -> &'a mut FileHandle {
    // SAFETY: `xOpen` has set the pointer, and `xClose` is the last call.
    unsafe { &mut *(*file.cast::<SqliteFile>()).open }
}

pub(crate) unsafe extern "C" fn close(file: *mut File) -> c_int {
    // SAFETY: SQLite calls this once, last.
    let mut open = unsafe {
        let handle = file.cast::<SqliteFile>();
        (*handle).file.methods = std::ptr::null();
        Box::from_raw((*handle).open)
    };
    guarded(|| {
        if open.kind == Kind::Main {
            let unlocked = passed::unlock_or(&mut open, 0, unlock_main);
            let passed = passed::stop(&mut open);
            if let Some(base) = &mut open.base {
                let file = base.handle();
                open.instance.lock_databases().forget_passed(file);
            }
            // Before the lock goes with the last handle: closing a descriptor drops locks of the usual kind.
            open.base = None;
            let left = open.instance.leave(&open.shared, open.number);
            return left.and(unlocked).and(passed);
        }
        if open.is_deleted_on_close {
            let kind = open.kind;
            open.with(|state| {
                if kind == Kind::Journal {
                    state.journal_changes()?;
                }
                *virtual_file(state, kind) = None;
                Ok(())
            })?;
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn read(file: *mut File, into: *mut c_void, count: c_int, at: i64) -> c_int {
    // SAFETY: SQLite passes an open handle, and a buffer of as many bytes.
    let (open, into) = unsafe { (open_of(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), count as usize)) };
    let mut is_whole = true;
    let code = guarded(|| {
        is_whole = match open.kind {
            Kind::Main => read_main(open, at as u64, into)?,
            Kind::Wal => open.instance.read_wal(&open.shared, at as u64, into)?,
            kind => open.with(|state| match virtual_file(state, kind) {
                Some(virtual_file) => {
                    let is_whole = virtual_file.read(at as u64, into);
                    state.main.journal_was_read |= kind == Kind::Journal;
                    is_whole
                }
                None => {
                    into.fill(0);
                    Ok(false)
                }
            })?,
        };
        open.mirror.read(at as u64, into, is_whole)
    });
    match code {
        ffi::OK if !is_whole => ffi::IOERR_SHORT_READ,
        code => code,
    }
}

/// Where the header of a database says which version it is. SQLite compares it when it begins to read, and reads its pages anew if
/// it has changed (pager.c: `dbFileVers`).
const VERSION: std::ops::Range<u64> = 24..40;

fn read_main(open: &mut FileHandle, at: u64, into: &mut [u8]) -> SqliteResult<bool> {
    let is_whole = read_file(open, at, into)?;
    if at == VERSION.start && at + into.len() as u64 == VERSION.end && open.forgets_cache {
        open.forgets_cache = false;
        into[0] = !into[0];
    }
    Ok(is_whole)
}

/// True if what the VFS below has of the database is its content.
///
/// # Errors
///
/// `MISUSE` in a child that inherited the handle.
fn has_base_content(open: &FileHandle) -> SqliteResult<bool> {
    match open.is_passed {
        true => open.shared.check_process().map(|()| true),
        false => Ok(!has_virtual_files(&open.shared)?),
    }
}

fn read_file(open: &mut FileHandle, at: u64, into: &mut [u8]) -> SqliteResult<bool> {
    if !has_base_content(open)? {
        return open.instance.read_main(&open.shared, at, into);
    }
    if open.shared.is_lost() {
        return Err(SqliteCode::IO);
    }
    let base = open.base.as_mut().ok_or(SqliteCode::IO)?;
    base.read(at, into)?;
    Ok(at + into.len() as u64 <= base.length()?)
}

pub(crate) unsafe extern "C" fn write(file: *mut File, from: *const c_void, count: c_int, at: i64) -> c_int {
    // SAFETY: as in `read`.
    let (open, bytes) = unsafe { (open_of(file), std::slice::from_raw_parts(from.cast::<u8>(), count as usize)) };
    let (kind, is_checkpoint, at) = (open.kind, open.is_checkpointing, at as u64);
    guarded(|| {
        if let Some(base) = passed::file(open) {
            return base.write(at, bytes);
        }
        if kind == Kind::Main && open.is_read_only {
            // A checkpoint, which SQLite's own VFS does not let such a handle make either.
            return Err(SqliteCode(ffi::IOERR_WRITE));
        }
        open.mirror.write(at, bytes)?;
        let (instance, shared) = (open.instance, &*open.shared);
        match kind {
            Kind::Main => instance.write_main(shared, at, bytes, is_checkpoint),
            Kind::Wal => instance.write_wal(shared, at, bytes),
            Kind::Journal => open.with(|state| {
                state.asked.journal += bytes.len() as u64;
                state.journal_changes()?;
                match &mut state.journal {
                    Some(journal) => journal.write(at, bytes),
                    None => Err(SqliteCode::IO),
                }
            }),
        }
    })
}

pub(crate) unsafe extern "C" fn truncate(file: *mut File, length: i64) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    let (kind, length) = (open.kind, length as u64);
    guarded(|| {
        if let Some(base) = passed::file(open) {
            return base.truncate(length);
        }
        open.mirror.truncate(length)?;
        let is_asked = open.with(|state| {
            if kind == Kind::Main {
                state.truncate_main(length);
                return Ok(false);
            }
            if kind == Kind::Journal {
                state.journal_changes()?;
            }
            if let Some(file) = virtual_file(state, kind) {
                file.truncate(length)?;
            }
            let begins_anew = kind == Kind::Wal && length == 0;
            if begins_anew {
                state.wal_begins_anew();
            }
            Ok(begins_anew)
        })?;
        match is_asked {
            // TRUNCATE is what a program asks for that is about to copy the files.
            true => open.instance.checkpoint(&open.shared, true),
            false => Ok(()),
        }
    })
}

pub(crate) unsafe extern "C" fn sync(file: *mut File, flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    guarded(|| {
        if let Some(base) = passed::file(open) {
            return base.sync();
        }
        open.mirror.sync(flags)?;
        open.with(|state| {
            // Commits are durable by epochs, and nothing else need be.
            state.asked.syncs += 1;
            Ok(())
        })
    })
}

pub(crate) unsafe extern "C" fn file_size(file: *mut File, out: *mut i64) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    let kind = open.kind;
    let mut length = 0;
    let code = guarded(|| {
        if kind == Kind::Main && has_base_content(open)? {
            length = open.base.as_mut().ok_or(SqliteCode::IO)?.length()?;
            return Ok(());
        }
        length = open.with(|state| match kind {
            Kind::Main => Ok(state.length()),
            Kind::Wal if state.index_is_wanted(&(0..0))? => Ok(0),
            kind => Ok(virtual_file(state, kind).as_ref().map_or(0, VirtualFile::length)),
        })?;
        Ok(())
    });
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = length as i64 };
    code
}

pub(crate) unsafe extern "C" fn lock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    guarded(|| {
        if open.kind != Kind::Main {
            return Ok(());
        }
        if open.level >= level {
            // In a child the handle keeps the level of the parent's.
            return open.shared.check_process();
        }
        passed::lock_or(open, level, lock_main)
    })
}

fn lock_main(open: &mut FileHandle, level: c_int) -> SqliteResult<()> {
    let number = open.number;
    let mut reached = open.level;
    if reached == 0 {
        open.instance.look_before_reading(&open.shared)?;
    }
    let locked = open.with(|state| Ok(state.locks.lock(number, &mut reached, level)))?;
    open.level = reached;
    locked
}

fn unlock_main(open: &mut FileHandle, level: c_int) -> SqliteResult<()> {
    if open.level <= level {
        return Ok(());
    }
    let (number, mut reached) = (open.number, open.level);
    let was_writer = reached >= ffi::LOCK_RESERVED;
    // A hot journal says that the transaction has failed and is still to be rolled back.
    let committed = match was_writer && !open.with(|state| state.has_hot_journal())? {
        true => open.instance.commit_main(&open.shared),
        false => Ok(()),
    };
    open.with(|state| {
        state.locks.unlock(number, &mut reached, level);
        state.main.has_committed_under_lock &= !was_writer;
        Ok(())
    })?;
    open.level = reached;
    committed
}

pub(crate) unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    guarded(|| match open.kind {
        Kind::Main => passed::unlock_or(open, level, unlock_main),
        _ => Ok(()),
    })
}

pub(crate) unsafe extern "C" fn check_reserved_lock(file: *mut File, out: *mut c_int) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    let mut is_reserved = false;
    let code = guarded(|| {
        if open.is_passed {
            is_reserved = passed::is_reserved(open)?;
            return Ok(());
        }
        is_reserved = match &open.shared.lock()?.state {
            Ownership::Owned(state) => state.locks.is_reserved(),
            _ => false,
        };
        Ok(())
    });
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = c_int::from(is_reserved) };
    code
}

pub(crate) unsafe extern "C" fn file_control(file: *mut File, operation: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: SQLite passes an open handle.
    let open = unsafe { open_of(file) };
    if open.kind != Kind::Main {
        return ffi::NOTFOUND;
    }
    let is_ours = matches!(operation, ffi::FCNTL_PRAGMA | ffi::FCNTL_VFSNAME);
    if open.is_passed && !is_ours {
        return passed::control(open, operation, argument);
    }
    match operation {
        ffi::FCNTL_COMMIT_PHASETWO => guarded(|| {
            // In this order: what the main file has is not in a WAL.
            open.instance.commit_main(&open.shared)?;
            open.instance.commit_wal(&open.shared)
        }),
        ffi::FCNTL_SYNC => {
            let code = guarded(|| {
                // SAFETY: the argument of this operation is the name of a super-journal, or null.
                let super_journal = unsafe { text_of(argument.cast()) };
                prepare_main(open, super_journal)
            });
            match code {
                ffi::OK => open.mirror.control(operation, argument).unwrap_or(ffi::NOTFOUND),
                code => {
                    // In an auto-vacuum database SQLite's cache may have pages of the transaction after it has rolled it back.
                    open.forgets_cache = true;
                    code
                }
            }
        }
        ffi::FCNTL_CKPT_START => {
            open.is_checkpointing = true;
            ffi::OK
        }
        ffi::FCNTL_CKPT_DONE => {
            open.is_checkpointing = false;
            ffi::OK
        }
        ffi::FCNTL_LOCKSTATE => {
            // SAFETY: the argument of this operation is a place for a number.
            unsafe { *argument.cast::<c_int>() = open.level };
            ffi::OK
        }
        ffi::FCNTL_PERSIST_WAL => {
            // SAFETY: the argument of this operation is a number, which the answer replaces.
            let value = unsafe { &mut *argument.cast::<c_int>() };
            if *value >= 0 {
                open.persists_wal = *value;
            }
            *value = open.persists_wal;
            ffi::OK
        }
        ffi::FCNTL_VFSNAME => {
            // SAFETY: the argument of this operation is a place for a text that SQLite frees.
            unsafe {
                *argument.cast::<*mut c_char>() = (open.instance.api.mprintf)(c"%s".as_ptr(), open.instance.name.as_ptr())
            };
            ffi::OK
        }
        // SAFETY: the argument of this operation is an array of three texts.
        ffi::FCNTL_PRAGMA => unsafe { run_pragma(open, argument.cast()) },
        ffi::FCNTL_SIZE_HINT | ffi::FCNTL_CHUNK_SIZE => {
            let answer = open.mirror.control(operation, argument);
            answer.unwrap_or(ffi::NOTFOUND)
        }
        ffi::FCNTL_HAS_MOVED => {
            let code = passed::control(open, operation, argument);
            // SAFETY: the argument of this operation is a place for a number.
            if code == ffi::OK && unsafe { *argument.cast::<c_int>() } != 0 {
                open.instance.name_is_lost(&open.shared);
            }
            code
        }
        ffi::FCNTL_MMAP_SIZE => ffi::NOTFOUND,
        _ => {
            let answer = open.mirror.control(operation, argument);
            answer.unwrap_or_else(|| passed::control(open, operation, argument))
        }
    }
}

/// SQLite is about to commit what it has written to the main file, with a super-journal if others take part.
fn prepare_main(open: &mut FileHandle, super_journal: Option<String>) -> SqliteResult<()> {
    if open.is_checkpointing || open.level < ffi::LOCK_RESERVED {
        return Ok(());
    }
    if let Some(name) = super_journal {
        open.instance.join(&name, &open.shared);
        open.with(|state| {
            state.main.super_journal = Some(name);
            Ok(())
        })?;
    }
    open.instance.prepare_main(&open.shared)
}

/// # Safety
///
/// The text is null or ends with a zero.
unsafe fn text_of(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// # Safety
///
/// `arguments` are those of `SQLITE_FCNTL_PRAGMA`: a place for an answer, the name, and the value or null.
unsafe fn run_pragma(open: &mut FileHandle, arguments: *mut *mut c_char) -> c_int {
    // A handle that only reads does not take the database over.
    if open.is_read_only && !has_virtual_files(&open.shared).is_ok_and(|has| has) {
        return ffi::NOTFOUND;
    }
    // SAFETY: the caller's.
    let (name, value) = unsafe { (text_of(*arguments.add(1)).unwrap_or_default(), text_of(*arguments.add(2))) };
    let mut answer = None;
    let code = guarded(|| {
        answer = pragma::run(open.instance, &open.shared, open.number, &name.to_ascii_lowercase(), value.as_deref());
        Ok(())
    });
    let (text, code) = match answer {
        None if code == ffi::OK => return ffi::NOTFOUND,
        None => return code,
        Some(Ok(text)) => (text, ffi::OK),
        Some(Err((text, code))) => (text, code.0),
    };
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: the place is for a text that SQLite frees; without one Python's sqlite3 says that there is no memory.
    unsafe { *arguments = (open.instance.api.mprintf)(c"%s".as_ptr(), text.as_ptr()) };
    code
}

pub(crate) unsafe extern "C" fn sector_size(_file: *mut File) -> c_int {
    4096
}

pub(crate) unsafe extern "C" fn device_characteristics(_file: *mut File) -> c_int {
    ffi::IOCAP_POWERSAFE_OVERWRITE
}
