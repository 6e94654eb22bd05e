//! A process under capture is held: its number cannot come to mean another process unnoticed, and no other capture of it
//! by root begins. Others have no place for a lock that every one of them can use and no hostile user can take before them.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::CaptureError;
use crate::foreign;
use crate::kernel;
use crate::target::Process;

/// Keeps other captures of a process by root out, and notices its end, also if its number has been given to another process.
#[derive(Debug)]
pub struct CaptureLock {
    process: Process,
    handle: OwnedFd,
    started: Option<u64>,
    _file: Option<LockFile>,
}

impl CaptureLock {
    /// Holds a process.
    ///
    /// # Errors
    ///
    /// [`CaptureError::NotFound`] if there is none, [`CaptureError::Busy`] if another capture holds it.
    pub(crate) fn new(process: Process) -> Result<CaptureLock, CaptureError> {
        let missing = || CaptureError::NotFound(format!("there is no process {}", process.0));
        let handle = kernel::process_handle(process.0).map_err(|_| missing())?;
        let started = process.started();
        let file = match rustix::process::geteuid().is_root() {
            true => Some(LockFile::of_process(process, started)?),
            false => None,
        };
        Ok(CaptureLock { process, handle, started, _file: file })
    }

    /// False once the process has ended.
    pub(crate) fn is_alive(&self) -> bool {
        !kernel::has_ended(&self.handle)
    }

    /// True if the number still means the process that is held.
    pub(crate) fn is_the_same(&self) -> bool {
        self.process.started() == self.started && self.is_alive()
    }
}

/// A file in a directory of root's, locked while it is open.
#[derive(Debug)]
struct LockFile {
    directory: OwnedFd,
    name: String,
    _file: OwnedFd,
}

/// The directory of locks.
const DIRECTORY: &str = "/run/ebbpool";

/// The directory of locks, into which no other user can put a file.
fn directory() -> io::Result<OwnedFd> {
    match rustix::fs::mkdir(DIRECTORY, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(DIRECTORY, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&directory)?;
    if found.st_uid != 0 || found.st_mode & 0o077 != 0 {
        return Err(io::Error::other("other users may write there; remove this directory"));
    }
    Ok(directory)
}

impl LockFile {
    fn of_process(process: Process, started: Option<u64>) -> Result<LockFile, CaptureError> {
        LockFile::remove_left_over();
        let taken = LockFile::take(&format!("{}-{}", process.0, started.unwrap_or(0)));
        taken.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => CaptureError::Busy(process.0),
            _ => CaptureError::Write { file: DIRECTORY.into(), source: error },
        })
    }

    /// Removes the files of captures that were killed, and whose processes have ended.
    fn remove_left_over() {
        let Ok(directory) = directory() else { return };
        for name in foreign::kernel_names(DIRECTORY) {
            let Some((pid, started)) = name.split_once('-') else {
                continue;
            };
            let (Ok(pid), Ok(started)) = (pid.parse(), started.parse()) else {
                continue;
            };
            if Process(pid).started() == Some(started) {
                continue;
            }
            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&directory, &name, flags, Mode::empty());
            // A capture in another name space of processes holds its own.
            let is_free = file.is_ok_and(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok());
            if is_free {
                let _ = rustix::fs::unlinkat(&directory, &name, AtFlags::empty());
            }
        }
    }

    fn take(name: &str) -> io::Result<LockFile> {
        let directory = directory()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let file = rustix::fs::openat(&directory, name, flags, Mode::RUSR | Mode::WUSR)?;
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            // The former holder may have removed the file between both calls.
            let opened = rustix::fs::fstat(&file)?;
            let named = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
            if named.is_ok_and(|named| named.st_ino == opened.st_ino) {
                return Ok(LockFile { directory, name: name.to_owned(), _file: file });
            }
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    use std::process::Command;

    use super::*;

    #[test]
    fn one_capture_of_roots_at_a_time() {
        let process = Process::current();
        let lock = process.lock().expect("a lock");
        match rustix::process::geteuid().is_root() {
            true => assert!(matches!(process.lock(), Err(CaptureError::Busy(_)))),
            false => assert!(process.lock().is_ok()),
        }
        assert!(lock.is_alive() && lock.is_the_same());
        drop(lock);
        assert!(process.lock().is_ok());
    }

    #[test]
    fn a_name_that_any_user_can_take_keeps_no_capture_out() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a process");
        let process = Process(child.id() as i32);
        let name = format!("ebbpool-capture-{}", process.0);
        let address = SocketAddr::from_abstract_name(name).expect("an address");
        let _taken = UnixListener::bind_addr(&address).expect("a socket");
        assert!(process.lock().is_ok());
        child.kill().expect("killed");
        child.wait().expect("its end");
    }

    #[test]
    fn a_file_that_a_killed_capture_has_left_goes_with_the_next_one() {
        let lock = Process::current().lock().expect("a lock");
        if lock._file.is_none() {
            return;
        }
        let path = |name: &str| std::path::PathBuf::from(DIRECTORY).join(name);
        let (left, held) = (path("2147483000-17"), path("2147483001-17"));
        std::fs::write(&left, "").expect("written");
        let holder = std::fs::File::create(&held).expect("a file");
        rustix::fs::flock(&holder, FlockOperation::LockExclusive).expect("locked");
        drop(lock);
        let lock = Process::current().lock().expect("a lock");
        assert!(!left.exists() && held.exists());
        assert!(lock._file.is_some_and(|file| path(&file.name).exists()));
        std::fs::remove_file(held).expect("removed");
    }

    #[test]
    fn the_end_of_a_process_is_noticed() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a process");
        let lock = Process(child.id() as i32).lock().expect("a lock");
        assert!(lock.is_the_same());
        child.kill().expect("killed");
        // Before and after this process asks for its end.
        let started = std::time::Instant::now();
        while lock.is_alive() {
            assert!(started.elapsed().as_secs() < 10);
        }
        child.wait().expect("its end");
        assert!(!lock.is_alive() && !lock.is_the_same());
        assert!(matches!(Process(i32::MAX).lock(), Err(CaptureError::NotFound(_))));
    }
}
