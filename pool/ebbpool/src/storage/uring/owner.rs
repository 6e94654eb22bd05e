//! A mark on a file that says whether the process which has it open still runs.
//!
//! The file's lock (`flock`) belongs to the open file that transfers use, and each transfer holds that open while it is
//! under way, also when the process has crashed meanwhile. So the lock excludes late writes of a process that has ended,
//! and a program that opens the file has to wait for it, but not if the owner runs. The mark is a lock of one byte that
//! belongs to another open file, which no transfer uses, and so the kernel frees it when the process ends.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
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

/// True if a process that runs has locked the file, and the kernel says which one: it lists the process that took the lock, also
/// when that has ended since. A process of which `/proc` shows nothing counts as one that has ended.
pub(crate) fn is_locked_by_running_process(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else {
        return false;
    };
    let (major, minor) = (libc::major(found.dev()), libc::minor(found.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|lock| is_of_running_process(lock, &file))
}

/// A line is `1: FLOCK  ADVISORY  WRITE 708 00:13:768 0 EOF`, and `1: -> FLOCK ...` for a process that waits.
fn is_of_running_process(lock: &str, file: &str) -> bool {
    let mut fields = lock.split_whitespace().skip(1);
    let is_flock = fields.next() == Some("FLOCK");
    let process = fields.nth(2);
    is_flock && fields.next() == Some(file) && process.is_some_and(runs)
}

/// False for a zombie: it has closed its files.
fn runs(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state follows the name, which may have any characters.
    let state = status.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    state.is_some_and(|state| !matches!(state, "Z" | "X" | "x"))
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_lock_is_of_a_running_process_until_that_ends() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pages");
        let file = File::create(&path).expect("a file");
        assert!(!is_locked_by_running_process(&path), "it is not locked");
        file.lock().expect("a lock");
        assert!(is_locked_by_running_process(&path));
        file.unlock().expect("it has the lock");
        // The lock belongs to the open file, and so it outlives the process that took it.
        let inherited = file.try_clone().expect("a descriptor");
        let mut locks = Command::new("flock");
        let locked = locks.args(["-n", "0"]).stdin(inherited).status();
        assert!(locked.expect("the program flock runs").success());
        let again = File::open(&path).expect("a file");
        assert!(again.try_lock().is_err(), "it is still locked");
        assert!(!is_locked_by_running_process(&path));
    }
}
