//! The calls of SQLite's into the VFS of a process.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ebbpool_sqlite::ffi;

use super::drive::{Bytes, Drive, Store};
use super::locks::Region;
use super::{BLOCK, Open, Port};
use crate::points::{self, Event};
use crate::shim::{self, Below, FileCall, Layer, Opening, VfsBelow, VfsCall};

/// A journal cannot be made in a directory that can only be read.
const READONLY_DIRECTORY: c_int = 8 | (6 << 8);

impl Layer for Port {
    type Open = Arc<Open>;

    fn open(&'static self, opening: &Opening<'_>) -> (c_int, Option<Arc<Open>>) {
        let Opening { path, flags, .. } = *opening;
        let is_temporary = path.is_empty();
        // Temporary files are on a disk of their own: no fault reaches them, and no crash keeps them.
        let drive = match is_temporary {
            true => Drive::new(Store::Plain(Mutex::default())),
            false => self.drive(),
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
                true => (READONLY_DIRECTORY, None),
                false => (ffi::CANTOPEN, None),
            };
        }
        if flags & ffi::OPEN_CREATE != 0 {
            drive.note_name(path);
        }
        let id = self.machine.next.fetch_add(1, Ordering::Relaxed);
        let opened = Arc::new(Open {
            id,
            port: self,
            path: path.to_owned(),
            is_temporary,
            can_write: flags & ffi::OPEN_READONLY == 0,
            at: Mutex::new((drive, Arc::new(bytes))),
        });
        self.machine.handles.lock().unwrap().insert(id, Arc::clone(&opened));
        (opening.accept(), Some(opened))
    }

    fn call(&self, open: &Arc<Open>, call: FileCall<'_>, _: &Below) -> c_int {
        match call {
            FileCall::Close => open.close(),
            FileCall::Read { into, at } => {
                let (drive, bytes) = open.at();
                shim::read_whole(into, |done, rest| drive.read(&bytes, at as u64 + done, rest))
                    .unwrap_or_else(|error| drive.code(Err(error), ffi::IOERR))
            }
            FileCall::Write { from, at } => open.write(from, at as u64),
            FileCall::Truncate { length } => open.truncate(length as u64),
            FileCall::Sync { .. } => open.sync(),
            FileCall::FileSize { out } => {
                let (drive, bytes) = open.at();
                *out = drive.length(&bytes) as i64;
                ffi::OK
            }
            // As of a descriptor that cannot write.
            FileCall::Lock { level } if level > ffi::LOCK_SHARED && !open.can_write => ffi::IOERR_LOCK,
            FileCall::Lock { level } => open.at().0.with_inode(&open.path, |inode| inode.lock(open.id, level)),
            FileCall::Unlock { level } => {
                open.at().0.with_inode(&open.path, |inode| inode.unlock(open.id, level));
                ffi::OK
            }
            FileCall::CheckReservedLock { out } => {
                let is_reserved = |level: &c_int| *level >= ffi::LOCK_RESERVED;
                *out = c_int::from(open.at().0.with_inode(&open.path, |inode| inode.levels.values().any(is_reserved)));
                ffi::OK
            }
            FileCall::FileControl { .. } => ffi::NOTFOUND,
            FileCall::SectorSize => 4096,
            FileCall::DeviceCharacteristics => ffi::IOCAP_POWERSAFE_OVERWRITE,
            FileCall::ShmMap { index, bytes, extend, out } => {
                let region = open.at().0.with_inode(&open.path, |inode| {
                    inode.slots.entry(open.id).or_default();
                    while extend != 0 && inode.regions.len() <= index as usize {
                        let words = (0..bytes / 8).map(|_| AtomicU64::new(0));
                        inode.regions.push(Arc::new(Region(words.collect())));
                    }
                    let region = inode.regions.get(index as usize);
                    region.map_or(std::ptr::null(), |region| region.0.as_ptr())
                });
                *out = region.cast_mut().cast();
                ffi::OK
            }
            FileCall::ShmLock { offset, count, flags } => {
                let bits = (((1u16 << count) - 1) << offset) as u8;
                open.at().0.with_inode(&open.path, |inode| inode.lock_slots(open.id, bits, flags))
            }
            FileCall::ShmBarrier => {
                std::sync::atomic::fence(Ordering::SeqCst);
                ffi::OK
            }
            FileCall::ShmUnmap { .. } => {
                open.at().0.with_inode(&open.path, |inode| {
                    inode.slots.remove(&open.id);
                    inode.forget_memory();
                });
                ffi::OK
            }
        }
    }

    fn vfs_call(&self, call: VfsCall<'_>, _: &VfsBelow) -> c_int {
        match call {
            VfsCall::Delete { path, durable } => self.delete(text(path), durable != 0),
            VfsCall::Access { path, flags, out } => {
                let drive = self.drive();
                let exists = drive.length(&drive.bytes(text(path))) > 0;
                // Whether one may write is asked of directories.
                let is_writable_directory = flags != ffi::ACCESS_EXISTS && !drive.is_fixed.load(Ordering::Relaxed);
                *out = c_int::from(exists || is_writable_directory);
                ffi::OK
            }
            VfsCall::FullPathname { path, out } => VfsCall::give_back(path, out),
            // The same bytes in each run of a program.
            VfsCall::Randomness { out } => {
                self.machine.random.lock().unwrap().fill(out);
                out.len() as c_int
            }
            // No time passes.
            VfsCall::Sleep { microseconds } => microseconds,
        }
    }
}

fn text(name: &CStr) -> &str {
    name.to_str().unwrap()
}

impl Port {
    fn delete(&self, path: &str, is_durable: bool) -> c_int {
        let drive = self.drive();
        let bytes = drive.bytes(path);
        if drive.length(&bytes) == 0 {
            return ffi::IOERR_DELETE_NOENT;
        }
        if drive.is_fixed.load(Ordering::Relaxed) {
            return ffi::IOERR | (10 << 8);
        }
        drive.note(|| format!("delete {path}, durable: {}", c_int::from(is_durable)));
        drive.note_blocks(path, BTreeSet::clear);
        let deleted = drive.set_length(&bytes, 0).and_then(|()| {
            drive.note_deletion(path);
            if !is_durable {
                return Ok(());
            }
            drive.note_sync(path);
            drive.sync(&bytes)
        });
        if is_durable && deleted.is_ok() {
            drive.make_names_durable();
        }
        let code = drive.code(deleted, ffi::IOERR | (10 << 8));
        self.machine.count_change(&drive);
        code
    }
}

impl Open {
    fn close(&self) -> c_int {
        let (drive, _) = self.at();
        drive.with_inode(&self.path, |inode| {
            inode.levels.remove(&self.id);
            inode.slots.remove(&self.id);
            inode.forget_memory();
        });
        self.port.machine.handles.lock().unwrap().remove(&self.id);
        ffi::OK
    }

    /// Calls `change` for an open file, and counts it.
    fn changing(&self, code: c_int, change: impl FnOnce(&Drive, &Bytes) -> std::io::Result<()>) -> c_int {
        let (drive, bytes) = self.at();
        let code = drive.code(change(&drive, &bytes), code);
        if !self.is_temporary {
            self.port.machine.count_change(&drive);
        }
        code
    }

    fn write(&self, from: &[u8], at: u64) -> c_int {
        if !self.can_write {
            return ffi::IOERR_WRITE;
        }
        let (drive, bytes) = self.at();
        // SQLite opens the database before it writes it; only then is it made.
        if drive.is_fixed.load(Ordering::Relaxed) && drive.length(&bytes) == 0 && !self.is_temporary {
            return ffi::IOERR_WRITE;
        }
        drive.note(|| format!("write {} at {at}, {} bytes", self.path, from.len()));
        self.changing(ffi::IOERR_WRITE, |drive, bytes| {
            let blocks = at / BLOCK..(at + from.len() as u64).div_ceil(BLOCK);
            drive.note_blocks(&self.path, |dirty| dirty.extend(blocks));
            drive.write(bytes, at, from)
        })
    }

    fn truncate(&self, length: u64) -> c_int {
        self.at().0.note(|| format!("truncate {} to {length}", self.path));
        self.changing(ffi::IOERR | (6 << 8), |drive, bytes| {
            drive.note_blocks(&self.path, |dirty| dirty.retain(|block| block * BLOCK < length));
            drive.set_length(bytes, length)
        })
    }

    fn sync(&self) -> c_int {
        if self.is_temporary {
            return ffi::OK;
        }
        points::reached(Event::DiskSync);
        self.at().0.note(|| format!("sync {}", self.path));
        self.changing(ffi::IOERR_FSYNC, |drive, bytes| {
            drive.note_sync(&self.path);
            drive.sync(bytes)?;
            // As file systems do that have a journal: the first sync of a new file makes its directory durable.
            if drive.names.lock().unwrap().made.contains(&self.path) {
                drive.make_names_durable();
            }
            Ok(())
        })
    }
}
