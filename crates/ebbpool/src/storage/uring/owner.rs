//! A mark on a file that says whether the process which has it open still runs.
//!
//! The file's lock (`flock`) belongs to the open file that transfers use, and each transfer holds that open while it is
//! under way, also when the process has crashed meanwhile. So the lock excludes late writes of a process that has ended,
//! and a program that opens the file has to wait for it, but not if the owner runs. The mark is a lock of one byte that
//! belongs to another open file, which no transfer uses, and so the kernel frees it when the process ends.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The byte that is locked, behind any page.
const MARK: i64 = i64::MAX - 1;

/// The owner's mark, until it is dropped.
#[derive(Debug)]
pub(crate) struct OwnerMark(#[allow(dead_code)] File);

impl OwnerMark {
    /// Marks a file that the caller has locked. `None` if that is not possible, as where the file system has one sort of
    /// lock only: then others find no owner and wait for the lock.
    pub(crate) fn new(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let mut mark = request(libc::F_RDLCK);
        call(&file, libc::F_OFD_SETLK, &mut mark).ok()?;
        Some(OwnerMark(file))
    }
}

/// True if a process that runs has marked the file.
pub(crate) fn has_owner(path: &Path) -> bool {
    let mut mark = request(libc::F_WRLCK);
    let asked = File::open(path).and_then(|file| call(&file, libc::F_OFD_GETLK, &mut mark));
    asked.is_ok() && i32::from(mark.l_type) != libc::F_UNLCK
}

fn request(sort: libc::c_int) -> libc::flock {
    // SAFETY: all fields are numbers.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = sort as libc::c_short;
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_start = MARK;
    request.l_len = 1;
    request
}

fn call(file: &File, command: libc::c_int, request: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the request is valid for reads and writes.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut *request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
