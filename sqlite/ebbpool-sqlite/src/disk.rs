//! The real files, through the VFS below.

#![allow(unsafe_code)]

mod parked;

use std::ffi::{CString, c_char, c_int};
use std::os::unix::fs::FileExt;

use crate::code::{SqliteCode, SqliteResult};
use crate::ffi::{self, File, IoMethods, Vfs};

pub(crate) use parked::{FileIdentity, FileStamp, has_locks, identity_of, identity_of_descriptor, lock_parked};

/// SQLite's unix VFS uses the lowest 17 bits of a length: a write of 128 KiB would write nothing, and say that the disk
/// is full.
const MOST_BYTES: usize = 1 << 16;

/// Bytes of a block of the file system: a sync writes whole ones.
pub(crate) const BLOCK: u64 = 4096;

/// Bytes of the blocks that a write touches.
pub(crate) fn whole_blocks(at: u64, bytes: u64) -> u64 {
    ((at + bytes).div_ceil(BLOCK) - at / BLOCK) * BLOCK
}

/// True if an error of the system says that a file gets no more bytes.
pub(crate) fn is_full(errno: Option<c_int>) -> bool {
    matches!(errno, Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}

/// True if the name of each log is one that file systems take. SQLite's own VFS refuses to write where it is not.
pub(crate) fn has_room_for_logs(path: &str) -> bool {
    const LONGEST_NAME: usize = 255;
    let name = std::path::Path::new(path).file_name().unwrap_or_default();
    name.len() + "-journal".len() <= LONGEST_NAME
}

/// The VFS below: the one that was SQLite's default when ours was registered.
#[derive(Clone, Copy)]
pub(crate) struct BaseVfs(pub(crate) *mut Vfs);

// SAFETY: SQLite never unregisters its own VFS, and calls it from every thread.
unsafe impl Send for BaseVfs {}
// SAFETY: as above.
unsafe impl Sync for BaseVfs {}

impl BaseVfs {
    /// True if a file exists.
    pub(crate) fn exists(self, path: &str) -> SqliteResult<bool> {
        let path = CString::new(path).map_err(|_| SqliteCode::CANT_OPEN)?;
        let mut found = 0;
        // SAFETY: a registered VFS has all methods; the path ends with a zero and lives until the call returns.
        let code = unsafe { ((*self.0).xAccess)(self.0, path.as_ptr(), ffi::ACCESS_EXISTS, &mut found) };
        SqliteCode::check(code)?;
        Ok(found != 0)
    }

    /// Random bytes.
    pub(crate) fn randomness(self, bytes: &mut [u8]) {
        // SAFETY: a registered VFS has all methods, and fills as many bytes as the call says.
        unsafe { ((*self.0).xRandomness)(self.0, bytes.len() as c_int, bytes.as_mut_ptr().cast()) };
    }

    /// Deletes a file, if it exists, and makes the deletion durable if `durable`.
    pub(crate) fn delete(self, path: &str, durable: bool) -> SqliteResult<()> {
        let path = CString::new(path).map_err(|_| SqliteCode::CANT_OPEN)?;
        // SAFETY: as in `exists`.
        match unsafe { ((*self.0).xDelete)(self.0, path.as_ptr(), c_int::from(durable)) } {
            ffi::IOERR_DELETE_NOENT => Ok(()),
            code => SqliteCode::check(code),
        }
    }
}

/// A file of the VFS below, open.
pub(crate) struct BaseFile {
    /// The handle, which has the size that the VFS asks for; words, so that it is aligned.
    handle: Vec<u64>,
    /// The name, which SQLite requires to live as long as the handle.
    name: Vec<u8>,
    base: BaseVfs,
    /// The flags with which it was opened.
    flags: c_int,
}

// SAFETY: SQLite moves handles of files between threads, and one thread uses a handle at a time, as `&mut` ensures.
unsafe impl Send for BaseFile {}

impl BaseFile {
    /// Opens a file with SQLite's flags of `xOpen`.
    pub(crate) fn open(base: BaseVfs, path: &str, flags: c_int) -> SqliteResult<BaseFile> {
        if flags & ffi::OPEN_MAIN_DB != 0
            && let Some(file) = parked::reuse(base, path, flags)
        {
            return Ok(file);
        }
        // SQLite reads URI parameters behind a name, and the kind of a journal's database before it: zeros say that there
        // are none.
        let mut name = vec![0u8; 8];
        name.extend_from_slice(path.as_bytes());
        name.extend_from_slice(&[0; 8]);
        // SAFETY: the name has zeros before and behind it, and is stored with the handle.
        unsafe { BaseFile::open_name(base, Some(name), flags) }
    }

    /// Opens a temporary file that the VFS deletes at once or when the handle is closed.
    pub(crate) fn temporary(base: BaseVfs) -> SqliteResult<BaseFile> {
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_EXCLUSIVE | ffi::OPEN_DELETEONCLOSE | ffi::OPEN_TEMP_DB;
        // SAFETY: SQLite opens temporary files without a name in the same way.
        unsafe { BaseFile::open_name(base, None, flags) }
    }

    /// # Safety
    ///
    /// A name is as SQLite's names are: eight zeros, the path, and zeros.
    unsafe fn open_name(base: BaseVfs, name: Option<Vec<u8>>, flags: c_int) -> SqliteResult<BaseFile> {
        // SAFETY: a registered VFS has a size for its handles, and all methods.
        let (code, file) = unsafe {
            let words = ((*base.0).szOsFile as usize).div_ceil(8) + 1;
            let mut handle = vec![0u64; words];
            let path: *const c_char = match &name {
                Some(name) => name.as_ptr().add(8).cast(),
                None => std::ptr::null(),
            };
            let mut flags_out = flags;
            let pointer = handle.as_mut_ptr().cast::<File>();
            let code = ((*base.0).xOpen)(base.0, path, pointer, flags, &mut flags_out);
            let file = BaseFile { handle, name: name.unwrap_or_default(), base, flags: flags_out };
            (code, file)
        };
        // Dropping the handle closes it, also where opening failed and the VFS has set its methods.
        SqliteCode::check(code).map(|()| file)
    }

    /// False if the VFS has set no methods: there is nothing to close.
    fn is_open(&mut self) -> bool {
        // SAFETY: a handle that is not empty begins with its methods.
        !self.handle.is_empty() && unsafe { !(*self.handle()).methods.is_null() }
    }

    /// True if a new handle on a database could be this one: of the same VFS, by the same path, for reading or for writing, too.
    pub(crate) fn is_as(&self, base: BaseVfs, path: &str, flags: c_int) -> bool {
        const MODES: c_int = ffi::OPEN_READONLY | ffi::OPEN_READWRITE;
        self.base.0 == base.0 && self.path() == path.as_bytes() && self.flags & MODES == flags & MODES
    }

    /// The path by which it was opened; empty for a temporary file.
    fn path(&self) -> &[u8] {
        self.name.get(8..self.name.len() - 8).unwrap_or_default()
    }

    /// The file of a database, if it is one of the system and has its name still.
    fn database(&mut self) -> Option<FileIdentity> {
        let is_database = self.flags & ffi::OPEN_MAIN_DB != 0;
        let path = is_database.then(|| std::str::from_utf8(self.path()).ok())??;
        let identity = FileIdentity::for_path(path)?;
        (!self.has_moved()).then_some(identity)
    }

    /// True if the VFS could open it for reading only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.flags & ffi::OPEN_READONLY != 0
    }

    /// The handle, for calls that are passed on.
    pub(crate) fn handle(&mut self) -> *mut File {
        self.handle.as_mut_ptr().cast()
    }

    fn methods(&mut self) -> &'static IoMethods {
        // SAFETY: the handle is open, and methods of a VFS are static.
        unsafe { &*(*self.handle()).methods }
    }

    /// Reads bytes from an offset on; what is beyond the end reads as zeros.
    pub(crate) fn read(&mut self, at: u64, into: &mut [u8]) -> SqliteResult<()> {
        for (index, part) in into.chunks_mut(MOST_BYTES).enumerate() {
            let at = at as i64 + (index * MOST_BYTES) as i64;
            // SAFETY: the buffer has as many bytes as the call says.
            let code = unsafe { (self.methods().xRead)(self.handle(), part.as_mut_ptr().cast(), part.len() as c_int, at) };
            // A short read has filled the rest with zeros.
            if code != ffi::IOERR_SHORT_READ {
                SqliteCode::check(code)?;
            }
        }
        Ok(())
    }

    /// Reads bytes from an offset on, all of which are there: of a log, which another program may have cut off.
    ///
    /// # Errors
    ///
    /// `IO` if the file is shorter.
    pub(crate) fn read_all(&mut self, at: u64, into: &mut [u8]) -> SqliteResult<()> {
        match at + into.len() as u64 <= self.length()? {
            true => self.read(at, into),
            false => Err(SqliteCode::IO),
        }
    }

    /// Writes bytes at an offset.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> SqliteResult<()> {
        for (index, part) in bytes.chunks(MOST_BYTES).enumerate() {
            let at = at as i64 + (index * MOST_BYTES) as i64;
            // SAFETY: the buffer has as many bytes as the call says.
            match unsafe { (self.methods().xWrite)(self.handle(), part.as_ptr().cast(), part.len() as c_int, at) } {
                // SQLite's unix VFS says so of ENOSPC only.
                ffi::IOERR_WRITE if is_full(Some(self.number(ffi::FCNTL_LAST_ERRNO))) => return Err(SqliteCode(ffi::FULL)),
                code => SqliteCode::check(code)?,
            }
        }
        Ok(())
    }

    /// True if another file has its name by now, or none.
    pub(crate) fn has_moved(&mut self) -> bool {
        self.number(ffi::FCNTL_HAS_MOVED) != 0
    }

    /// A number that the VFS is asked for; 0 if it knows none.
    fn number(&mut self, operation: c_int) -> c_int {
        let mut number: c_int = 0;
        // SAFETY: the handle is open, and the argument of these operations is a place for a number.
        let code = unsafe { (self.methods().xFileControl)(self.handle(), operation, (&raw mut number).cast()) };
        if code == ffi::OK { number } else { 0 }
    }

    /// The length in bytes.
    pub(crate) fn length(&mut self) -> SqliteResult<u64> {
        let mut length = 0;
        // SAFETY: the handle is open.
        SqliteCode::check(unsafe { (self.methods().xFileSize)(self.handle(), &mut length) })?;
        Ok(length as u64)
    }

    /// Cuts the file off.
    pub(crate) fn truncate(&mut self, length: u64) -> SqliteResult<()> {
        // SAFETY: the handle is open.
        SqliteCode::check(unsafe { (self.methods().xTruncate)(self.handle(), length as i64) })
    }

    /// Makes everything written so far survive a crash.
    pub(crate) fn sync(&mut self) -> SqliteResult<()> {
        // SAFETY: the handle is open.
        SqliteCode::check(unsafe { (self.methods().xSync)(self.handle(), ffi::SYNC_NORMAL) })
    }

    /// Locks the file for this process alone; `BUSY` if another process has it open and locked.
    pub(crate) fn lock_exclusively(&mut self) -> SqliteResult<()> {
        for level in [ffi::LOCK_SHARED, ffi::LOCK_EXCLUSIVE] {
            // SAFETY: the handle is open.
            let code = unsafe { (self.methods().xLock)(self.handle(), level) };
            if code != ffi::OK {
                self.unlock();
                // The unix VFS says SQLITE_PROTOCOL or an I/O error where a network file system has no locks.
                return Err(SqliteCode(code));
            }
        }
        Ok(())
    }

    /// Raises the level of the lock.
    pub(crate) fn lock(&mut self, level: c_int) -> SqliteResult<()> {
        // SAFETY: the handle is open.
        SqliteCode::check(unsafe { (self.methods().xLock)(self.handle(), level) })
    }

    /// Lowers the level of the lock.
    pub(crate) fn unlock_to(&mut self, level: c_int) -> SqliteResult<()> {
        // SAFETY: the handle is open.
        SqliteCode::check(unsafe { (self.methods().xUnlock)(self.handle(), level) })
    }

    /// Gives the lock up.
    pub(crate) fn unlock(&mut self) {
        // SAFETY: the handle is open.
        unsafe { (self.methods().xUnlock)(self.handle(), 0) };
    }
}

impl Drop for BaseFile {
    fn drop(&mut self) {
        if !self.is_open() {
            return;
        }
        if let Some(identity) = self.database() {
            self.unlock();
            if !parked::may_close(identity) {
                let (handle, name) = (std::mem::take(&mut self.handle), std::mem::take(&mut self.name));
                parked::store_handle(identity, BaseFile { handle, name, base: self.base, flags: self.flags });
                return;
            }
        }
        // SAFETY: the handle is open, and not used afterwards.
        unsafe { (self.methods().xClose)(self.handle()) };
    }
}

/// A file without a name, which is gone when it is closed.
pub(crate) enum TemporaryFile {
    /// Beside the database.
    Beside(std::fs::File),
    /// Where the VFS below has its temporary files: the database is no file of the system, or its file system makes no files without
    /// a name.
    OfBase(BaseFile),
}

impl TemporaryFile {
    /// Opens a file beside the database with a path.
    ///
    /// # Errors
    ///
    /// `FULL` if there can be none: upon another code, such as `CANTOPEN`, SQLite would not roll the transaction back.
    pub(crate) fn open(base: BaseVfs, path: &str) -> SqliteResult<TemporaryFile> {
        if let Some(file) = file_beside(path) {
            return Ok(TemporaryFile::Beside(file));
        }
        let opened = BaseFile::temporary(base);
        opened.map(TemporaryFile::OfBase).map_err(|_| SqliteCode(ffi::FULL))
    }

    /// Reads bytes that were written.
    pub(crate) fn read(&mut self, at: u64, into: &mut [u8]) -> SqliteResult<()> {
        match self {
            TemporaryFile::Beside(file) => file.read_exact_at(into, at).map_err(|_| SqliteCode::IO),
            TemporaryFile::OfBase(file) => file.read(at, into),
        }
    }

    /// Writes bytes at an offset.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> SqliteResult<()> {
        match self {
            TemporaryFile::Beside(file) => file.write_all_at(bytes, at).map_err(|error| match is_full(error.raw_os_error()) {
                true => SqliteCode(ffi::FULL),
                false => SqliteCode(ffi::IOERR_WRITE),
            }),
            TemporaryFile::OfBase(file) => file.write(at, bytes),
        }
    }
}

#[cfg(target_os = "linux")]
fn file_beside(path: &str) -> Option<std::fs::File> {
    use rustix::fs::{Mode, OFlags, open};
    let path = std::path::Path::new(path);
    let directory = path.parent().filter(|_| path.is_file())?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    open(directory, flags, Mode::RUSR | Mode::WUSR).ok().map(std::fs::File::from)
}

#[cfg(not(target_os = "linux"))]
fn file_beside(_path: &str) -> Option<std::fs::File> {
    None
}

/// The database in place of a process that owns it, which notices that another program has written it.
pub(crate) struct OwnedFile {
    file: BaseFile,
    /// What the file was after the last change of this process; `None` on a simulated disk.
    seen: Option<Seen>,
    /// True if its time had changed before that.
    has_other_time: bool,
    is_local: bool,
}

/// What another program has changed of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForeignChange {
    /// The time at which it was written last, as touch(1) does; or content that neither the length nor the header shows.
    Time,
    Content,
    /// Another file has its name.
    Name,
}

/// What shows that a file was written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    stamp: FileStamp,
    /// The header of the database, in which SQLite counts its commits, and the mark stands.
    header: [u8; 100],
}

impl OwnedFile {
    /// A file as it is now.
    pub(crate) fn new(file: BaseFile) -> OwnedFile {
        let is_local = std::str::from_utf8(file.path()).is_ok_and(parked::is_local);
        let mut owned = OwnedFile { file, seen: None, has_other_time: false, is_local };
        owned.look();
        owned
    }

    fn now(&mut self) -> Option<Seen> {
        let stamp = FileStamp::of(std::str::from_utf8(self.file.path()).ok()?, self.is_local)?;
        let mut header = [0; 100];
        self.file.read(0, &mut header).ok()?;
        Some(Seen { stamp, header })
    }

    /// Takes the file as it is now for what this process has made of it.
    pub(crate) fn look(&mut self) {
        self.seen = self.now();
        self.has_other_time = false;
    }

    /// Changes the file, unless another program has changed its content since this process looked last: what a slice of a checkpoint
    /// writes would be mixed with that.
    ///
    /// # Errors
    ///
    /// `IO` if that is so, and those of the change.
    fn change(&mut self, change: impl FnOnce(&mut BaseFile) -> SqliteResult<()>) -> SqliteResult<()> {
        let foreign = self.foreign_change();
        if foreign == Some(ForeignChange::Content) {
            return Err(SqliteCode::IO);
        }
        let changed = change(&mut self.file);
        // A file that has lost its name is seen as it was; there is no other one to look at.
        if foreign != Some(ForeignChange::Name) {
            self.look();
            self.has_other_time = foreign.is_some();
        }
        changed
    }

    /// What another program has changed of the file since this process has written it.
    pub(crate) fn foreign_change(&mut self) -> Option<ForeignChange> {
        let (seen, now) = (self.seen?, self.now()?);
        if now.stamp.identity != seen.stamp.identity {
            return Some(ForeignChange::Name);
        }
        if now == seen {
            return self.has_other_time.then_some(ForeignChange::Time);
        }
        let is_as_before = now.header == seen.header && now.stamp.length == seen.stamp.length;
        Some(if is_as_before { ForeignChange::Time } else { ForeignChange::Content })
    }

    /// Reads as [`BaseFile::read`] does.
    pub(crate) fn read(&mut self, at: u64, into: &mut [u8]) -> SqliteResult<()> {
        self.file.read(at, into)
    }

    /// Writes as [`BaseFile::write`] does.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> SqliteResult<()> {
        self.change(|file| file.write(at, bytes))
    }

    /// Cuts the file off, as [`BaseFile::truncate`] does.
    pub(crate) fn truncate(&mut self, length: u64) -> SqliteResult<()> {
        self.change(|file| file.truncate(length))
    }

    /// Makes the file durable, as [`BaseFile::sync`] does.
    pub(crate) fn sync(&mut self) -> SqliteResult<()> {
        self.file.sync()
    }

    /// The length in bytes.
    pub(crate) fn length(&mut self) -> SqliteResult<u64> {
        self.file.length()
    }

    /// True if another file has its name by now, or none.
    pub(crate) fn has_moved(&mut self) -> bool {
        self.file.has_moved()
    }
}
