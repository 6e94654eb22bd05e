//! A VFS over another one, which calls a test before each call. Over ours it is where a second connection acts between two
//! calls of SQLite's; under ours it counts, delays and refuses what reaches the files.

use std::ffi::{CStr, c_int};
use std::sync::{Arc, RwLock};

use ebbpool_sqlite::ffi;
use rusqlite::{Connection, OpenFlags};

use super::shim::{self, Below, FileCall, Layer, Opening, VfsBelow, VfsCall};

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
    name: &'static CStr,
    hook: RwLock<Option<Arc<Hook>>>,
}

impl Between {
    /// Registers a VFS with a name over the VFS called `below`, or over SQLite's default.
    pub fn register(name: &str, below: Option<&CStr>) -> &'static Between {
        let between: &'static Between = Box::leak(Box::new(Between { name: shim::leaked(name), hook: RwLock::new(None) }));
        shim::register(between.name, below, between);
        between
    }

    /// Registers the library with a name, over a VFS that calls a test for what reaches the files.
    #[allow(unsafe_code)]
    pub fn under_the_library(name: &'static CStr) -> &'static Between {
        let between = Between::register(&format!("under-{}", name.to_string_lossy()), None);
        // SAFETY: the functions are those of the SQLite that the tests are linked with.
        let registered = unsafe { ebbpool_sqlite::register_over(ebbpool_sqlite::linked_api(), name, between.name()) };
        registered.unwrap();
        between
    }

    pub fn name(&self) -> &CStr {
        self.name
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
}

/// A file, by its name and what it is.
pub struct Open {
    path: String,
    kind: FileKind,
}

impl Layer for Between {
    type Open = Open;

    fn open(&'static self, opening: &Opening<'_>) -> (c_int, Option<Open>) {
        let kind = FileKind::of(opening.path, opening.flags);
        let call = Call { method: "xOpen", path: opening.path, kind, at: opening.flags.into(), count: 0, flags: 0 };
        if let Some(code) = self.announce(&call) {
            return (code, None);
        }
        let (code, is_open) = opening.pass();
        (code, is_open.then(|| Open { path: opening.path.to_owned(), kind }))
    }

    fn call(&self, open: &Open, call: FileCall<'_>, below: &Below) -> c_int {
        let announce = |method: &'static str, at: i64, count: i64, flags: c_int| {
            self.announce(&Call { method, path: &open.path, kind: open.kind, at, count, flags })
        };
        let answer = match &call {
            FileCall::Close => {
                // A file is closed whatever the hook answers.
                let answer = announce("xClose", 0, 0, 0);
                let code = below.pass(call);
                return answer.unwrap_or(code);
            }
            FileCall::ShmBarrier => {
                let _ = announce("xShmBarrier", 0, 0, 0);
                None
            }
            FileCall::SectorSize | FileCall::DeviceCharacteristics => None,
            FileCall::Read { into, at } => announce("xRead", *at, into.len() as i64, 0),
            FileCall::Write { from, at } => announce("xWrite", *at, from.len() as i64, 0),
            FileCall::Truncate { length } => announce("xTruncate", *length, 0, 0),
            FileCall::Sync { flags } => announce("xSync", (*flags).into(), 0, 0),
            FileCall::FileSize { .. } => announce("xFileSize", 0, 0, 0),
            FileCall::Lock { level } => announce("xLock", (*level).into(), 0, 0),
            FileCall::Unlock { level } => announce("xUnlock", (*level).into(), 0, 0),
            FileCall::CheckReservedLock { .. } => announce("xCheckReservedLock", 0, 0, 0),
            FileCall::FileControl { operation, .. } => announce("xFileControl", (*operation).into(), 0, 0),
            FileCall::ShmMap { index, extend, .. } => announce("xShmMap", (*index).into(), (*extend).into(), 0),
            FileCall::ShmLock { offset, count, flags } => announce("xShmLock", (*offset).into(), (*count).into(), *flags),
            FileCall::ShmUnmap { delete } => announce("xShmUnmap", 0, (*delete).into(), 0),
        };
        answer.unwrap_or_else(|| below.pass(call))
    }

    fn vfs_call(&self, call: VfsCall<'_>, below: &VfsBelow) -> c_int {
        let announce = |method: &'static str, path: &CStr, at: c_int, count: c_int| {
            let path = &path.to_string_lossy();
            self.announce(&Call { method, path, kind: FileKind::of(path, 0), at: at.into(), count: count.into(), flags: 0 })
        };
        let answer = match &call {
            VfsCall::Delete { path, durable } => announce("xDelete", path, 0, *durable),
            VfsCall::Access { path, flags, .. } => announce("xAccess", path, *flags, 0),
            VfsCall::FullPathname { .. } | VfsCall::Randomness { .. } | VfsCall::Sleep { .. } => None,
        };
        answer.unwrap_or_else(|| below.pass(call))
    }
}
