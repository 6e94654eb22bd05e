//! The disk of a machine, as the processes see it that are alive together.

use std::collections::{BTreeSet, HashMap};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ebbpool::storage::{ENOSPC, FaultyDisk, FaultyFile};
use ebbpool_sqlite::ffi;

use super::locks::Inode;
use super::{BLOCK, Files};
use crate::trace;

/// What holds the bytes: a disk that can fail, or plain memory.
pub enum Store {
    Faulty(FaultyDisk),
    Plain(Mutex<Files>),
}

pub enum Bytes {
    Faulty(FaultyFile),
    Plain(String),
}

/// The disk as processes see it that are alive together, and their locks.
pub struct Drive {
    pub store: Store,
    inodes: Mutex<HashMap<String, Inode>>,
    /// No file can be made or deleted.
    pub is_fixed: AtomicBool,
    /// Operations that a fault has failed.
    pub failed: AtomicU64,
    /// Blocks of each file that no sync has written yet.
    dirty: Mutex<HashMap<String, BTreeSet<u64>>>,
    /// Bytes of the blocks that syncs have written, and their number.
    pub written: AtomicU64,
    pub syncs: AtomicU64,
    pub names: Mutex<Names>,
}

/// The directory.
#[derive(Default)]
pub struct Names {
    /// All files that there are.
    pub there: BTreeSet<String>,
    /// Those that have been made, and those that have been deleted, since the directory was durable.
    pub made: BTreeSet<String>,
    pub deleted: BTreeSet<String>,
}

impl Drive {
    pub fn new(store: Store) -> Arc<Drive> {
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
    pub fn crashed(&self, store: Store) -> Arc<Drive> {
        let after = Drive::new(store);
        let names = self.names.lock().unwrap();
        let known = names.there.union(&names.deleted);
        let is_there = |name: &&String| after.length(&after.bytes(name)) > 0;
        after.names.lock().unwrap().there = known.filter(is_there).cloned().collect();
        drop(names);
        after
    }

    /// A file has been opened that is to be there.
    pub fn note_name(&self, path: &str) {
        let mut names = self.names.lock().unwrap();
        if names.there.insert(path.into()) {
            names.made.insert(path.into());
        }
    }

    pub fn note_deletion(&self, path: &str) {
        let mut names = self.names.lock().unwrap();
        names.there.remove(path);
        names.made.remove(path);
        names.deleted.insert(path.into());
    }

    /// The directory is durable, and with it all deletions so far.
    pub fn make_names_durable(&self) {
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

    pub fn bytes(&self, path: &str) -> Bytes {
        match &self.store {
            Store::Faulty(disk) => Bytes::Faulty(disk.bytes(path)),
            Store::Plain(files) => {
                files.lock().unwrap().entry(path.into()).or_default();
                Bytes::Plain(path.into())
            }
        }
    }

    pub fn length(&self, bytes: &Bytes) -> u64 {
        match (bytes, &self.store) {
            (Bytes::Faulty(file), _) => file.len().unwrap_or(0),
            (Bytes::Plain(path), Store::Plain(files)) => files.lock().unwrap().get(path).map_or(0, |file| file.len() as u64),
            _ => unreachable!("a plain file is in plain memory"),
        }
    }

    pub fn read(&self, bytes: &Bytes, at: u64, into: &mut [u8]) -> std::io::Result<usize> {
        let path = match bytes {
            Bytes::Faulty(file) => return file.read_at(at, into),
            Bytes::Plain(path) => path,
        };
        let Store::Plain(files) = &self.store else { unreachable!("a plain file is in plain memory") };
        let files = files.lock().unwrap();
        let file = files.get(path).map_or(&[][..], |file| file.as_slice());
        let from = (at as usize).min(file.len());
        let count = into.len().min(file.len() - from);
        into[..count].copy_from_slice(&file[from..from + count]);
        Ok(count)
    }

    /// Lets `change` change a plain file.
    pub fn change(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let Store::Plain(files) = &self.store else { unreachable!("a plain file is in plain memory") };
        let mut files = files.lock().unwrap();
        change(Arc::make_mut(files.entry(path.into()).or_default()));
    }

    pub fn write(&self, bytes: &Bytes, at: u64, from: &[u8]) -> std::io::Result<()> {
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

    pub fn set_length(&self, bytes: &Bytes, length: u64) -> std::io::Result<()> {
        match bytes {
            Bytes::Faulty(file) => file.set_len(length),
            Bytes::Plain(path) => {
                self.change(path, |file| file.resize(length as usize, 0));
                Ok(())
            }
        }
    }

    pub fn sync(&self, bytes: &Bytes) -> std::io::Result<()> {
        match bytes {
            Bytes::Faulty(file) => file.sync(),
            Bytes::Plain(_) => Ok(()),
        }
    }

    /// Counts what a change makes the next sync write.
    pub fn note_blocks(&self, path: &str, change: impl FnOnce(&mut BTreeSet<u64>)) {
        change(self.dirty.lock().unwrap().entry(path.into()).or_default());
    }

    /// Counts a sync.
    pub fn note_sync(&self, path: &str) {
        let blocks = self.dirty.lock().unwrap().remove(path);
        let bytes = blocks.map_or(0, |blocks| blocks.len() as u64 * BLOCK);
        self.written.fetch_add(bytes, Ordering::Relaxed);
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a failure, and makes it SQLite's code.
    pub fn code(&self, answer: std::io::Result<()>, failed: c_int) -> c_int {
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
    pub fn note(&self, text: impl FnOnce() -> String) {
        if let Store::Faulty(_) = &self.store {
            trace::line(|| format!("    {}", text()));
        }
    }

    pub fn with_inode<R>(&self, path: &str, with: impl FnOnce(&mut Inode) -> R) -> R {
        with(self.inodes.lock().unwrap().entry(path.into()).or_default())
    }
}
