//! Which file a path or a descriptor leads to, and handles of the VFS below that stay open: closing any descriptor of a file drops
//! the locks that SQLite has on it in this process, of any copy.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard};

use super::{BaseFile, BaseVfs};
use crate::sync::lock;

/// Handles on databases that were not closed.
static PARKED: Mutex<Vec<(FileIdentity, BaseFile)>> = Mutex::new(Vec::new());

/// A file of the file system, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileIdentity {
    /// The file that has a path now; `None` if there is none, as on a simulated disk.
    pub(crate) fn for_path(path: &str) -> Option<FileIdentity> {
        std::fs::metadata(path).ok().map(|metadata| FileIdentity { device: metadata.dev(), inode: metadata.ino() })
    }

    /// True if a file that was opened has lost its name, or another file has it by now.
    pub(crate) fn is_other(path: &str, opened: &Option<FileIdentity>) -> bool {
        opened.is_some() && FileIdentity::for_path(path) != *opened
    }
}

/// What the system says of a file that changes when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) identity: FileIdentity,
    pub(crate) length: u64,
    /// Seconds and nanoseconds; zeros where the time is another computer's, which may set it later.
    pub(super) written: (i64, i64),
}

impl FileStamp {
    /// The file that has a path now; `None` if there is none. `is_local` is what [`is_local`] says of it.
    pub(crate) fn of(path: &str, is_local: bool) -> Option<FileStamp> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(FileStamp {
            identity: FileIdentity { device: metadata.dev(), inode: metadata.ino() },
            length: metadata.len(),
            written: if is_local { (metadata.mtime(), metadata.mtime_nsec()) } else { (0, 0) },
        })
    }
}

/// True if a file is on a file system of this computer, whose times change when the file is written and not later.
#[cfg(target_os = "linux")]
pub(super) fn is_local(path: &str) -> bool {
    let Ok(path) = std::ffi::CString::new(path) else {
        return false;
    };
    // SAFETY: all zeros are a value of the structure, which the call fills; the path ends with a zero.
    let (kind, found) = unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        let found = libc::statfs(path.as_ptr(), &mut system) == 0;
        (system.f_type as i64, found)
    };
    /// The numbers that statfs(2) has for ext2 to ext4, XFS, Btrfs, F2FS, tmpfs, and overlayfs.
    const LOCAL: [i64; 6] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994, 0x794C_7630];
    found && LOCAL.contains(&(kind & 0xFFFF_FFFF))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_local(_path: &str) -> bool {
    false
}

/// The handles that are not closed. A child of `fork` forgets them.
pub(crate) fn lock_parked() -> MutexGuard<'static, Vec<(FileIdentity, BaseFile)>> {
    lock(&PARKED)
}

/// A handle of the VFS below on a database that was not closed, for the next one who opens it in the same way.
pub(super) fn reuse(base: BaseVfs, path: &str, flags: i32) -> Option<BaseFile> {
    let mut parked = lock(&PARKED);
    if parked.is_empty() {
        return None;
    }
    let wanted = FileIdentity::for_path(path)?;
    let index = parked.iter().position(|(identity, file)| *identity == wanted && file.is_as(base, path, flags))?;
    Some(parked.swap_remove(index).1)
}

/// True if a handle of the VFS below on a database may be closed. Where SQLite has locks on the file in this process, closing would
/// drop those of another copy of SQLite, of which the VFS below does not know.
pub(super) fn may_close(identity: FileIdentity) -> bool {
    !has_locks(identity)
}

/// Stores a handle that is not closed. Those that may be closed by now are.
pub(super) fn store_handle(identity: FileIdentity, file: BaseFile) {
    let closed: Vec<_> = {
        let mut parked = lock(&PARKED);
        let closed = parked.extract_if(.., |(identity, _)| may_close(*identity)).collect();
        parked.push((identity, file));
        closed
    };
    // Without the lock: closing one asks once more.
    drop(closed);
}

/// True if this process has locks of the usual kind on a file. Not by `/proc/locks`, which is no list of one moment: a lock may lack
/// in it while other processes lock files.
pub(crate) fn has_locks(identity: FileIdentity) -> bool {
    let Ok(descriptors) = std::fs::read_dir("/proc/thread-self/fd") else {
        return false;
    };
    descriptors.flatten().any(|entry| {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        // With a line for each lock: `lock: 1: POSIX  ADVISORY  READ 4711 08:01:1234 1073741826 1073742335`.
        let locks = || std::fs::read_to_string(std::path::Path::new("/proc/thread-self/fdinfo").join(&name));
        number.and_then(identity_of_descriptor) == Some(identity) && locks().is_ok_and(|text| text.contains("POSIX"))
    })
}

/// The file of a descriptor; `None` if the system does not say it.
pub(crate) fn identity_of(file: &File) -> Option<FileIdentity> {
    file.metadata().ok().map(|metadata| FileIdentity { device: metadata.dev(), inode: metadata.ino() })
}

/// The file of a descriptor; `None` if it is closed. A child of `fork` may call it.
pub(crate) fn identity_of_descriptor(descriptor: i32) -> Option<FileIdentity> {
    // SAFETY: all zeros are a value of the structure, which the call fills.
    let (status, found) = unsafe {
        let mut status: libc::stat64 = std::mem::zeroed();
        let found = libc::fstat64(descriptor, &mut status) == 0;
        (status, found)
    };
    found.then_some(FileIdentity { device: status.st_dev, inode: status.st_ino })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn lock(file: &File, kind: i32, at: i64) {
        // SAFETY: all zeros are a value of the structure, which lives until the call returns; the descriptor is open.
        let code = unsafe {
            let mut range: libc::flock = std::mem::zeroed();
            (range.l_type, range.l_start, range.l_len) = (kind as i16, at as libc::off_t, 1);
            libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &range)
        };
        assert_eq!(code, 0);
    }

    #[test]
    fn a_lock_is_found_while_other_files_are_locked() {
        let [locked, other] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        lock(&locked, libc::F_RDLCK, 0);
        let is_over = AtomicBool::new(false);
        let is_found = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for at in 0..200 {
                        lock(&other, if at < 100 { libc::F_WRLCK } else { libc::F_UNLCK }, at % 100 * 2);
                    }
                }
            });
            let is_found = (0..10_000).all(|_| has_locks(identity_of(&locked).unwrap()));
            is_over.store(true, Ordering::Relaxed);
            is_found
        });
        assert!(is_found && !has_locks(identity_of(&tempfile::tempfile().unwrap()).unwrap()));
    }
}
