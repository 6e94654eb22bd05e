//! Locks of a file, and the shared memory of its WAL, as SQLite's unix VFS has them.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ebbpool_sqlite::ffi;

/// Locks of one file, and the shared memory of its WAL, by handle.
#[derive(Default)]
pub struct Inode {
    pub levels: HashMap<u64, c_int>,
    pub slots: HashMap<u64, Slots>,
    pub regions: Vec<Arc<Region>>,
}

#[derive(Clone, Copy, Default)]
pub struct Slots {
    pub shared: u8,
    pub alone: u8,
}

pub struct Region(pub Box<[AtomicU64]>);

impl Inode {
    /// The shared memory goes with its last user.
    pub fn forget_memory(&mut self) {
        if self.slots.is_empty() {
            self.regions.clear();
        }
    }

    fn others(&self, id: u64, least: c_int) -> bool {
        let mut levels = self.levels.iter();
        levels.any(|(other, level)| *other != id && *level >= least)
    }

    pub fn lock(&mut self, id: u64, wanted: c_int) -> c_int {
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

    pub fn unlock(&mut self, id: u64, level: c_int) {
        if level == 0 {
            self.levels.remove(&id);
        } else if let Some(held) = self.levels.get_mut(&id) {
            *held = level.min(*held);
        }
    }

    pub fn lock_slots(&mut self, id: u64, bits: u8, flags: c_int) -> c_int {
        let mine = self.slots.get(&id).copied().unwrap_or_default();
        let mut others = Slots::default();
        for (_, slots) in self.slots.iter().filter(|(other, _)| **other != id) {
            others.shared |= slots.shared;
            others.alone |= slots.alone;
        }
        let alone = flags & ffi::SHM_EXCLUSIVE != 0;
        let now = if flags & ffi::SHM_UNLOCK != 0 {
            Slots { shared: mine.shared & !bits, alone: mine.alone & !bits }
        } else if others.alone & bits != 0 || (alone && others.shared & bits != 0) {
            return ffi::BUSY;
        } else {
            Slots { shared: mine.shared | if alone { 0 } else { bits }, alone: mine.alone | if alone { bits } else { 0 } }
        };
        self.slots.insert(id, now);
        ffi::OK
    }
}
