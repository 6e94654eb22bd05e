//! A simulated machine as a VFS of SQLite's: a disk, the locks and the shared memory of its processes, and what goes wrong.
//!
//! A process that is killed, or whose machine loses its power, runs on as a ghost: its handles change a copy of the disk that
//! no other process sees. So its connections close as if nothing had happened, and the library has nothing left of them.
//!
//! Each unsafe block has the same reason: SQLite calls these functions, with pointers that are valid for the call.

#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ebbpool::storage::{ENOSPC, FaultyDisk, FaultyFile};
use ebbpool_sqlite::ffi::{self, File, IoMethods, Symbol, Vfs};

use crate::points::{self, Event};
use crate::trace;

/// A journal cannot be made in a directory that can only be read.
const READONLY_DIRECTORY: c_int = 8 | (6 << 8);
/// What a file system writes at a time.
const BLOCK: u64 = 4096;

/// The files of one machine as bytes; cloning them costs nothing until one is written.
pub type Files = HashMap<String, Arc<Vec<u8>>>;

/// What holds the bytes: a disk that can fail, or plain memory.
enum Store {
    Faulty(FaultyDisk),
    Plain(Mutex<Files>),
}

enum Bytes {
    Faulty(FaultyFile),
    Plain(String),
}

/// The disk as processes see it that are alive together, and their locks.
struct Drive {
    store: Store,
    inodes: Mutex<HashMap<String, Inode>>,
    /// No file can be made or deleted.
    is_fixed: AtomicBool,
    /// Operations that a fault has failed.
    failed: AtomicU64,
    /// Blocks of each file that no sync has written yet.
    dirty: Mutex<HashMap<String, BTreeSet<u64>>>,
    /// Bytes of the blocks that syncs have written, and their number.
    written: AtomicU64,
    syncs: AtomicU64,
    names: Mutex<Names>,
}

/// The directory.
#[derive(Default)]
struct Names {
    /// All files that there are.
    there: BTreeSet<String>,
    /// Those that have been made, and those that have been deleted, since the directory was durable.
    made: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

/// Locks of one file, and the shared memory of its WAL, by handle.
#[derive(Default)]
struct Inode {
    levels: HashMap<u64, c_int>,
    slots: HashMap<u64, Slots>,
    regions: Vec<Arc<Region>>,
}

#[derive(Clone, Copy, Default)]
struct Slots {
    shared: u8,
    alone: u8,
}

struct Region(Box<[AtomicU64]>);

/// One machine.
pub struct Machine {
    drive: Mutex<Arc<Drive>>,
    handles: Mutex<HashMap<u64, Arc<Open>>>,
    ports: Mutex<Vec<&'static Port>>,
    next: AtomicU64,
    random: Mutex<fastrand::Rng>,
    /// The power fails in the change after this number of others, with a seed.
    cut: Mutex<Option<(u64, u64)>>,
    was_cut: AtomicBool,
    /// Faults were injected and not healed.
    has_fault: AtomicBool,
    /// Something was written since [`Machine::take_changed`].
    changed: AtomicBool,
    base: *mut Vfs,
}

/// The VFS of one process of a machine.
struct Port {
    machine: &'static Machine,
    process: usize,
    name: CString,
    /// The drive that the process sees: its own where it is a ghost.
    drive: Mutex<Arc<Drive>>,
}

struct Open {
    id: u64,
    port: &'static Port,
    path: String,
    is_temporary: bool,
    can_write: bool,
    at: Mutex<(Arc<Drive>, Arc<Bytes>)>,
}

#[repr(C)]
struct Handle {
    file: File,
    open: *const Open,
}

// SAFETY: the VFS below is SQLite's own, which every thread may call.
unsafe impl Sync for Machine {}
// SAFETY: as above.
unsafe impl Send for Machine {}

impl Drive {
    fn new(store: Store) -> Arc<Drive> {
        Arc::new(Drive {
            store,
            inodes: Mutex::default(),
            is_fixed: AtomicBool::new(false),
            failed: AtomicU64::new(0),
            dirty: Mutex::default(),
            written: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            names: Mutex::default(),
        })
    }

    /// The drive after a crash, with this store.
    fn crashed(&self, store: Store) -> Arc<Drive> {
        let after = Drive::new(store);
        let names = self.names.lock().unwrap();
        let known = names.there.union(&names.deleted);
        let is_there = |name: &&String| after.length(&after.bytes(name)) > 0;
        after.names.lock().unwrap().there = known.filter(is_there).cloned().collect();
        drop(names);
        after
    }

    /// A file has been opened that is to be there.
    fn note_name(&self, path: &str) {
        let mut names = self.names.lock().unwrap();
        if names.there.insert(path.into()) {
            names.made.insert(path.into());
        }
    }

    fn note_deletion(&self, path: &str) {
        let mut names = self.names.lock().unwrap();
        names.there.remove(path);
        names.made.remove(path);
        names.deleted.insert(path.into());
    }

    /// The directory is durable, and with it all deletions so far.
    fn make_names_durable(&self) {
        let mut names = self.names.lock().unwrap();
        names.made.clear();
        for path in std::mem::take(&mut names.deleted) {
            let bytes = self.bytes(&path);
            if self.length(&bytes) == 0 {
                // Where the disk fails that, the file may come back.
                let _ = self.sync(&bytes);
            }
        }
    }

    fn bytes(&self, path: &str) -> Bytes {
        match &self.store {
            Store::Faulty(disk) => Bytes::Faulty(disk.bytes(path)),
            Store::Plain(files) => {
                files.lock().unwrap().entry(path.into()).or_default();
                Bytes::Plain(path.into())
            }
        }
    }

    fn length(&self, bytes: &Bytes) -> u64 {
        match (bytes, &self.store) {
            (Bytes::Faulty(file), _) => file.len().unwrap_or(0),
            (Bytes::Plain(path), Store::Plain(files)) => files
                .lock()
                .unwrap()
                .get(path)
                .map_or(0, |file| file.len() as u64),
            _ => unreachable!("a plain file is in plain memory"),
        }
    }

    fn read(&self, bytes: &Bytes, at: u64, into: &mut [u8]) -> std::io::Result<usize> {
        let path = match bytes {
            Bytes::Faulty(file) => return file.read_at(at, into),
            Bytes::Plain(path) => path,
        };
        let Store::Plain(files) = &self.store else {
            unreachable!("a plain file is in plain memory")
        };
        let files = files.lock().unwrap();
        let file = files.get(path).map_or(&[][..], |file| file.as_slice());
        let from = (at as usize).min(file.len());
        let count = into.len().min(file.len() - from);
        into[..count].copy_from_slice(&file[from..from + count]);
        Ok(count)
    }

    /// Lets `change` change a plain file.
    fn change(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let Store::Plain(files) = &self.store else {
            unreachable!("a plain file is in plain memory")
        };
        let mut files = files.lock().unwrap();
        change(Arc::make_mut(files.entry(path.into()).or_default()));
    }

    fn write(&self, bytes: &Bytes, at: u64, from: &[u8]) -> std::io::Result<()> {
        match bytes {
            Bytes::Faulty(file) => file.write_at(at, from),
            Bytes::Plain(path) => {
                let end = at as usize + from.len();
                self.change(path, |file| {
                    file.resize(file.len().max(end), 0);
                    file[at as usize..end].copy_from_slice(from);
                });
                Ok(())
            }
        }
    }

    fn set_length(&self, bytes: &Bytes, length: u64) -> std::io::Result<()> {
        match bytes {
            Bytes::Faulty(file) => file.set_len(length),
            Bytes::Plain(path) => {
                self.change(path, |file| file.resize(length as usize, 0));
                Ok(())
            }
        }
    }

    fn sync(&self, bytes: &Bytes) -> std::io::Result<()> {
        match bytes {
            Bytes::Faulty(file) => file.sync(),
            Bytes::Plain(_) => Ok(()),
        }
    }

    /// Counts what a change makes the next sync write.
    fn note_blocks(&self, path: &str, change: impl FnOnce(&mut BTreeSet<u64>)) {
        change(self.dirty.lock().unwrap().entry(path.into()).or_default());
    }

    /// Counts a sync.
    fn note_sync(&self, path: &str) {
        let blocks = self.dirty.lock().unwrap().remove(path);
        let bytes = blocks.map_or(0, |blocks| blocks.len() as u64 * BLOCK);
        self.written.fetch_add(bytes, Ordering::Relaxed);
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a failure, and makes it SQLite's code.
    fn code(&self, answer: std::io::Result<()>, failed: c_int) -> c_int {
        match answer {
            Ok(()) => ffi::OK,
            Err(error) => {
                self.note(|| format!("    fails: {error}"));
                self.failed.fetch_add(1, Ordering::Relaxed);
                match error.raw_os_error() == Some(ENOSPC) {
                    true => ffi::FULL,
                    false => failed,
                }
            }
        }
    }

    /// Traces what happens to the disk that can fail.
    fn note(&self, text: impl FnOnce() -> String) {
        if let Store::Faulty(_) = &self.store {
            trace::line(|| format!("    {}", text()));
        }
    }

    fn with_inode<R>(&self, path: &str, with: impl FnOnce(&mut Inode) -> R) -> R {
        with(self.inodes.lock().unwrap().entry(path.into()).or_default())
    }
}

impl Machine {
    /// A machine without files; `can_fail` gives it a disk on which faults happen.
    pub fn new(can_fail: bool) -> &'static Machine {
        let api = ebbpool_sqlite::linked_api();
        // SAFETY: SQLite is initialized.
        let base = unsafe { (api.vfs_find)(std::ptr::null()) };
        let store = match can_fail {
            true => Store::Faulty(FaultyDisk::new(0)),
            false => Store::Plain(Mutex::default()),
        };
        Box::leak(Box::new(Machine {
            drive: Mutex::new(Drive::new(store)),
            handles: Mutex::default(),
            ports: Mutex::default(),
            next: AtomicU64::new(1),
            random: Mutex::new(fastrand::Rng::with_seed(0)),
            cut: Mutex::default(),
            was_cut: AtomicBool::new(false),
            has_fault: AtomicBool::new(false),
            changed: AtomicBool::new(false),
            base,
        }))
    }

    /// Registers the VFS of a process under a name.
    pub fn register(&'static self, process: usize, name: &str) -> &'static CStr {
        let name = CString::new(name).unwrap();
        let port: &'static Port = Box::leak(Box::new(Port {
            machine: self,
            process,
            name,
            drive: Mutex::new(self.drive()),
        }));
        self.ports.lock().unwrap().push(port);
        let vfs = Box::leak(Box::new(port.vfs()));
        // SAFETY: the VFS lives until the process ends.
        let code = unsafe { (ebbpool_sqlite::linked_api().vfs_register)(vfs, 0) };
        assert_eq!(code, ffi::OK);
        &port.name
    }

    fn drive(&self) -> Arc<Drive> {
        Arc::clone(&self.drive.lock().unwrap())
    }

    /// Begins anew, with an empty disk.
    pub fn reset(&self, seed: u64) {
        let store = match &self.drive().store {
            Store::Faulty(_) => Store::Faulty(FaultyDisk::new(seed)),
            Store::Plain(_) => Store::Plain(Mutex::default()),
        };
        *self.drive.lock().unwrap() = Drive::new(store);
        self.revive();
        *self.random.lock().unwrap() = fastrand::Rng::with_seed(seed);
        *self.cut.lock().unwrap() = None;
        self.was_cut.store(false, Ordering::Relaxed);
        self.has_fault.store(false, Ordering::Relaxed);
        self.changed.store(true, Ordering::Relaxed);
    }

    /// The disk that can fail.
    pub fn disk(&self) -> FaultyDisk {
        match &self.drive().store {
            Store::Faulty(disk) => disk.clone(),
            Store::Plain(_) => panic!("this machine's disk cannot fail"),
        }
    }

    /// Operations that faults have failed since the last reset, cut or kill.
    pub fn failures(&self) -> u64 {
        self.drive().failed.load(Ordering::Relaxed)
    }

    /// Forgets the operations that faults have failed, and says how many they were.
    pub fn forget_failures(&self) -> u64 {
        self.drive().failed.swap(0, Ordering::Relaxed)
    }

    pub fn set_pending_fault(&self, has_fault: bool) {
        self.has_fault.store(has_fault, Ordering::Relaxed);
    }

    pub fn has_pending_fault(&self) -> bool {
        self.has_fault.load(Ordering::Relaxed)
    }

    /// Bytes that syncs have written, in whole blocks, and the number of syncs since the last reset, cut or kill.
    pub fn traffic(&self) -> (u64, u64) {
        let drive = self.drive();
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&drive.written), of(&drive.syncs))
    }

    /// True if something was written since the last call.
    pub fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    /// The bytes of a file, empty if there is none.
    pub fn content(&self, path: &str) -> Vec<u8> {
        let drive = self.drive();
        let bytes = drive.bytes(path);
        let mut content = vec![0; drive.length(&bytes) as usize];
        let count = drive.read(&bytes, 0, &mut content).unwrap_or(0);
        content.truncate(count);
        content
    }

    /// Replaces a file as a program does that is none of SQLite's; empty bytes delete it.
    pub fn replace(&self, path: &str, content: &[u8]) {
        let drive = self.drive();
        let bytes = drive.bytes(path);
        let replaced = drive
            .set_length(&bytes, 0)
            .and_then(|()| drive.write(&bytes, 0, content))
            .and_then(|()| drive.sync(&bytes));
        replaced.expect("no fault is left when files are replaced");
        self.changed.store(true, Ordering::Relaxed);
    }

    /// All files of a machine without faults.
    pub fn files(&self) -> Files {
        match &self.drive().store {
            Store::Plain(files) => files.lock().unwrap().clone(),
            Store::Faulty(_) => panic!("only plain memory has copies"),
        }
    }

    /// Puts other files in, on a machine without faults on which nothing is open.
    pub fn put(&self, files: Files) {
        *self.drive.lock().unwrap() = Drive::new(Store::Plain(Mutex::new(files)));
        self.revive();
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Processes are started anew, and see the disk.
    pub fn revive(&self) {
        for port in self.ports.lock().unwrap().iter() {
            *port.drive.lock().unwrap() = self.drive();
        }
    }

    /// The kernel has written the directory.
    pub fn settle(&self) {
        self.drive().make_names_durable();
    }

    /// From now on no file can be made or deleted, or again.
    pub fn fix_directory(&self, is_fixed: bool) {
        self.drive().is_fixed.store(is_fixed, Ordering::Relaxed);
    }

    /// The power fails in a later change of the disk.
    pub fn cut_later(&self, changes: u64, seed: u64) {
        *self.cut.lock().unwrap() = Some((changes, seed));
    }

    /// The power fails now. All processes are ghosts until [`Machine::revive`].
    pub fn cut(&self, seed: u64) {
        let mut drive = self.drive.lock().unwrap();
        let Store::Faulty(disk) = &drive.store else {
            panic!("this machine's disk cannot fail")
        };
        drive.note(|| "the power fails; what follows until the next step is a ghost's".into());
        let after = disk.fork(seed);
        // What runs on is a ghost, which no fault reaches.
        disk.heal();
        after.crash(seed);
        after.restart();
        *drive = drive.crashed(Store::Faulty(after));
        *self.cut.lock().unwrap() = None;
        self.was_cut.store(true, Ordering::Relaxed);
    }

    /// True if the power has failed since the last call.
    pub fn take_cut(&self) -> bool {
        self.was_cut.swap(false, Ordering::Relaxed)
    }

    /// True if the power has failed, and no step has taken notice.
    pub fn has_cut(&self) -> bool {
        self.was_cut.load(Ordering::Relaxed)
    }

    /// True if the power is to fail.
    pub fn may_cut(&self) -> bool {
        self.cut.lock().unwrap().is_some()
    }

    /// A process is killed: what it has written stays, and its locks are gone. It is a ghost until [`Machine::revive`].
    pub fn kill(&self, process: usize) {
        let drive = self.drive();
        let Store::Faulty(disk) = &drive.store else {
            panic!("processes are killed on the machine that can fail")
        };
        disk.heal();
        *self.cut.lock().unwrap() = None;
        let ghost = Drive::new(Store::Faulty(disk.fork(1)));
        for port in self.ports.lock().unwrap().iter() {
            if port.process == process {
                *port.drive.lock().unwrap() = Arc::clone(&ghost);
            }
        }
        for open in self.handles.lock().unwrap().values() {
            if open.port.process == process && !open.is_temporary {
                open.become_ghost(&drive, &ghost);
            }
        }
    }

    /// Counts a change of the disk; in the last one the power fails.
    fn count_change(&self, drive: &Arc<Drive>) {
        self.changed.store(true, Ordering::Relaxed);
        let is_current = Arc::ptr_eq(drive, &self.drive.lock().unwrap());
        let mut cut = self.cut.lock().unwrap();
        let Some((left, seed)) = cut.as_mut().filter(|_| is_current) else {
            return;
        };
        *left = left.saturating_sub(1);
        if *left == 0 {
            let seed = *seed;
            drop(cut);
            self.cut(seed);
        }
    }
}

impl Open {
    /// The handle goes to another drive with its locks, of which nothing stays behind.
    fn become_ghost(&self, from: &Drive, to: &Arc<Drive>) {
        let (level, slots, regions) = from.with_inode(&self.path, |inode| {
            (
                inode.levels.remove(&self.id),
                inode.slots.remove(&self.id),
                inode.regions.clone(),
            )
        });
        from.with_inode(&self.path, Inode::forget_memory);
        to.with_inode(&self.path, |inode| {
            inode.levels.extend(level.map(|level| (self.id, level)));
            if let Some(slots) = slots {
                inode.slots.insert(self.id, slots);
                inode.regions = regions;
            }
        });
        *self.at.lock().unwrap() = (Arc::clone(to), Arc::new(to.bytes(&self.path)));
    }

    fn at(&self) -> (Arc<Drive>, Arc<Bytes>) {
        self.at.lock().unwrap().clone()
    }
}

impl Inode {
    /// The shared memory goes with its last user.
    fn forget_memory(&mut self) {
        if self.slots.is_empty() {
            self.regions.clear();
        }
    }

    fn others(&self, id: u64, least: c_int) -> bool {
        let mut levels = self.levels.iter();
        levels.any(|(other, level)| *other != id && *level >= least)
    }

    fn lock(&mut self, id: u64, wanted: c_int) -> c_int {
        let level = self.levels.get(&id).copied().unwrap_or(0);
        if level >= wanted {
            return ffi::OK;
        }
        if level == 0 {
            if self.others(id, ffi::LOCK_PENDING) {
                return ffi::BUSY;
            }
            self.levels.insert(id, ffi::LOCK_SHARED);
        }
        if wanted == ffi::LOCK_SHARED {
            return ffi::OK;
        }
        if self.others(id, ffi::LOCK_RESERVED) {
            return ffi::BUSY;
        }
        if wanted == ffi::LOCK_RESERVED {
            self.levels.insert(id, ffi::LOCK_RESERVED);
            return ffi::OK;
        }
        self.levels.insert(id, ffi::LOCK_PENDING);
        if self.others(id, ffi::LOCK_SHARED) {
            return ffi::BUSY;
        }
        self.levels.insert(id, wanted);
        ffi::OK
    }

    fn unlock(&mut self, id: u64, level: c_int) {
        if level == 0 {
            self.levels.remove(&id);
        } else if let Some(held) = self.levels.get_mut(&id) {
            *held = level.min(*held);
        }
    }

    fn lock_slots(&mut self, id: u64, bits: u8, flags: c_int) -> c_int {
        let mine = self.slots.get(&id).copied().unwrap_or_default();
        let mut others = Slots::default();
        for (_, slots) in self.slots.iter().filter(|(other, _)| **other != id) {
            others.shared |= slots.shared;
            others.alone |= slots.alone;
        }
        let alone = flags & ffi::SHM_EXCLUSIVE != 0;
        let now = if flags & ffi::SHM_UNLOCK != 0 {
            Slots {
                shared: mine.shared & !bits,
                alone: mine.alone & !bits,
            }
        } else if others.alone & bits != 0 || (alone && others.shared & bits != 0) {
            return ffi::BUSY;
        } else {
            Slots {
                shared: mine.shared | if alone { 0 } else { bits },
                alone: mine.alone | if alone { bits } else { 0 },
            }
        };
        self.slots.insert(id, now);
        ffi::OK
    }
}

impl Port {
    fn drive(&self) -> Arc<Drive> {
        Arc::clone(&self.drive.lock().unwrap())
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

unsafe fn port(vfs: *mut Vfs) -> &'static Port {
    unsafe { &*(*vfs).pAppData.cast::<Port>() }
}

unsafe fn text<'a>(name: *const c_char) -> &'a str {
    unsafe { CStr::from_ptr(name) }.to_str().unwrap()
}

unsafe fn open_of<'a>(file: *mut File) -> &'a Open {
    unsafe { &*(*file.cast::<Handle>()).open }
}

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
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

unsafe extern "C" fn access(
    vfs: *mut Vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
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

unsafe extern "C" fn full_pathname(
    _vfs: *mut Vfs,
    name: *const c_char,
    length: c_int,
    out: *mut c_char,
) -> c_int {
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
    unsafe { port(vfs) }
        .machine
        .random
        .lock()
        .unwrap()
        .fill(out);
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
    let (open, into) = unsafe {
        (
            open_of(file),
            std::slice::from_raw_parts_mut(into.cast::<u8>(), count as usize),
        )
    };
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
fn changing(
    open: &Open,
    code: c_int,
    change: impl FnOnce(&Drive, &Bytes) -> std::io::Result<()>,
) -> c_int {
    let (drive, bytes) = open.at();
    let code = drive.code(change(&drive, &bytes), code);
    if !open.is_temporary {
        open.port.machine.count_change(&drive);
    }
    code
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, count: c_int, at: i64) -> c_int {
    let (open, from) = unsafe {
        (
            open_of(file),
            std::slice::from_raw_parts(from.cast::<u8>(), count as usize),
        )
    };
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
    open.at()
        .0
        .note(|| format!("truncate {} to {length}", open.path));
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
    open.at()
        .0
        .with_inode(&open.path, |inode| inode.lock(open.id, level))
}

unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    let open = unsafe { open_of(file) };
    let drive = open.at().0;
    drive.with_inode(&open.path, |inode| inode.unlock(open.id, level));
    ffi::OK
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, out: *mut c_int) -> c_int {
    let open = unsafe { open_of(file) };
    let is_reserved = open.at().0.with_inode(&open.path, |inode| {
        inode
            .levels
            .values()
            .any(|level| *level >= ffi::LOCK_RESERVED)
    });
    unsafe { *out = c_int::from(is_reserved) };
    ffi::OK
}

unsafe extern "C" fn file_control(
    _file: *mut File,
    _operation: c_int,
    _argument: *mut c_void,
) -> c_int {
    ffi::NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut File) -> c_int {
    4096
}

unsafe extern "C" fn device_characteristics(_file: *mut File) -> c_int {
    ffi::IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut File,
    index: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
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
    open.at()
        .0
        .with_inode(&open.path, |inode| inode.lock_slots(open.id, bits, flags))
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
