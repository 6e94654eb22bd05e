//! A simulated machine as a VFS of SQLite's: a disk, the locks and the shared memory of its processes, and what goes wrong.
//!
//! A process that is killed, or whose machine loses its power, runs on as a ghost: its handles change a copy of the disk that
//! no other process sees. So its connections close as if nothing had happened, and the library has nothing left of them.

mod calls;
mod drive;
mod locks;

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ebbpool::storage::FaultyDisk;

use drive::{Bytes, Drive, Store};
use locks::Inode;

use crate::shim;

/// What a file system writes at a time.
const BLOCK: u64 = 4096;

/// The files of one machine as bytes; cloning them costs nothing until one is written.
pub type Files = HashMap<String, Arc<Vec<u8>>>;

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
}

/// The VFS of one process of a machine.
struct Port {
    machine: &'static Machine,
    process: usize,
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

impl Machine {
    /// A machine without files; `can_fail` gives it a disk on which faults happen.
    pub fn new(can_fail: bool) -> &'static Machine {
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
        }))
    }

    /// Registers the VFS of a process under a name.
    pub fn register(&'static self, process: usize, name: &str) -> &'static CStr {
        let port: &'static Port = Box::leak(Box::new(Port { machine: self, process, drive: Mutex::new(self.drive()) }));
        self.ports.lock().unwrap().push(port);
        let name = shim::leaked(name);
        shim::register(name, None, port);
        name
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
        let replaced =
            drive.set_length(&bytes, 0).and_then(|()| drive.write(&bytes, 0, content)).and_then(|()| drive.sync(&bytes));
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
        let Store::Faulty(disk) = &drive.store else { panic!("this machine's disk cannot fail") };
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
        let Store::Faulty(disk) = &drive.store else { panic!("processes are killed on the machine that can fail") };
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
            (inode.levels.remove(&self.id), inode.slots.remove(&self.id), inode.regions.clone())
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

impl Port {
    fn drive(&self) -> Arc<Drive> {
        Arc::clone(&self.drive.lock().unwrap())
    }
}
