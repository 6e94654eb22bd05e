//! The processes that have a database open, found in `/proc`, and what they say about it.

use std::fs::{self, DirEntry, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::locks::{PENDING, SHARED, SHARED_BYTES};
use crate::health::{BYTES, DatabaseHealth, HealthDocument, NAME, unsealed};

/// What a process says about a database that it has open.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerHealth {
    /// The process.
    pub process: u32,
    /// The version of its library.
    pub version: String,
    /// What it says.
    pub database: DatabaseHealth,
}

/// A process that has locked a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockedDescriptor {
    pub(super) process: u32,
    pub(super) is_exclusive: bool,
}

/// What `/proc` says about the processes that have a file open.
#[derive(Debug, Default)]
pub(super) struct FoundProcesses {
    pub(super) locks: Vec<LockedDescriptor>,
    /// What is said about the database: by the process that has it locked, if that one says something.
    pub(super) health: Option<OwnerHealth>,
    /// True if the system does not show this user the descriptors of some processes.
    pub(super) is_partial: bool,
    /// Documents that were read again, because their checksum was wrong.
    rereads: u32,
}

/// How often documents of all processes are read again, a millisecond later: one process must not keep the question waiting.
const MOST_REREADS: u32 = 500;
/// Descriptors with the name of such a document that are looked at in each process; a process needs one.
const MOST_DOCUMENTS: usize = 16;

/// How a process has a file open.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    /// Not at all, or only by its path (`O_PATH`), for which no right to the file is needed.
    #[default]
    None,
    Read,
    Write,
}

/// What the process that has a database open says about it: first the one that owns it, then one that has passed it to
/// SQLite's own VFS. `None` if no process that this user may look at says something.
///
/// # Errors
///
/// If the database does not exist.
pub fn published_health(path: &Path) -> io::Result<Option<OwnerHealth>> {
    Ok(processes_of(&fs::metadata(path)?).health)
}

/// Looks for the processes that have a file open.
pub(super) fn processes_of(file: &fs::Metadata) -> FoundProcesses {
    let mut found = FoundProcesses::default();
    let mut said = Vec::new();
    let Ok(processes) = fs::read_dir("/proc") else {
        found.is_partial = true;
        return found;
    };
    for entry in processes.flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match fs::read_dir(entry.path().join("fd")) {
            Ok(descriptors) => {
                let mut documents = Vec::new();
                let mut access = Access::None;
                for descriptor in descriptors.flatten() {
                    match found.look_at(process, &entry.path(), &descriptor, file) {
                        Seen::Document => documents.push(descriptor.path()),
                        Seen::File(seen) => access = access.max(seen),
                        Seen::Other => {}
                    }
                }
                // Any user can write any document, so only those are believed who have the file open.
                if access > Access::None {
                    let documents = documents.iter().take(MOST_DOCUMENTS);
                    let health = documents.filter_map(|path| found.health_in(process, &entry.path(), path, file));
                    said.extend(health.filter(|it| access == Access::Write || it.database.passed.is_some()));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                found.is_partial = true;
            }
            // It has ended.
            Err(_) => {}
        }
    }
    found.health = said.into_iter().max_by_key(|said| {
        let has_lock = found.locks.iter().any(|lock| lock.process == said.process);
        (has_lock, said.database.passed.is_none())
    });
    found
}

impl FoundProcesses {
    /// Looks at a descriptor of a process, and notes its lock of the file.
    fn look_at(&mut self, process: u32, directory: &Path, descriptor: &DirEntry, file: &fs::Metadata) -> Seen {
        let Ok(target) = fs::read_link(descriptor.path()) else {
            return Seen::Other;
        };
        let target = target.as_os_str().as_bytes();
        let of_health = target.strip_prefix(b"/memfd:");
        if of_health.is_some_and(|name| name.starts_with(NAME.to_bytes())) {
            return Seen::Document;
        }
        let is_file = target.starts_with(b"/") && fs::metadata(descriptor.path()).is_ok_and(|other| is_same(&other, file));
        if !is_file {
            return Seen::Other;
        }
        let info = directory.join("fdinfo").join(descriptor.file_name());
        let text = fs::read_to_string(info).unwrap_or_default();
        let locks = text.lines().filter_map(lock_of_line);
        if let Some(is_exclusive) = locks.reduce(|a, b| a || b) {
            self.locks.push(LockedDescriptor { process, is_exclusive });
        }
        Seen::File(access_of(&text))
    }

    /// What a process says about a database in its file in memory.
    fn health_in(&mut self, process: u32, directory: &Path, descriptor: &Path, file: &fs::Metadata) -> Option<OwnerHealth> {
        let document = self.read_document(descriptor)?;
        // A child of fork() has the file of its parent, which does not speak for it.
        if document.process != own_number(directory).unwrap_or(process) {
            return None;
        }
        let mut databases = document.databases.into_iter();
        let database = databases.find(|it| it.device == file.dev() && it.inode == file.ino())?;
        Some(OwnerHealth { process, version: document.version, database })
    }

    /// Reads what a process says; `None` if it is not readable, or makes no sense. It may replace it meanwhile.
    fn read_document(&mut self, descriptor: &Path) -> Option<HealthDocument> {
        // A pipe with this name would not be opened at once.
        if !fs::metadata(descriptor).ok()?.is_file() {
            return None;
        }
        let file = File::open(descriptor).ok()?;
        let mut bytes = vec![0; BYTES];
        for _ in 0..100 {
            let mut length = 0;
            while length < bytes.len() {
                match file.read_at(&mut bytes[length..], length as u64).ok()? {
                    0 => break,
                    count => length += count,
                }
            }
            if let Some(document) = unsealed(&bytes[..length]) {
                return serde_json::from_slice(document).ok();
            }
            if self.rereads >= MOST_REREADS {
                break;
            }
            self.rereads += 1;
            sleep(Duration::from_millis(1));
        }
        None
    }
}

/// What a descriptor of a process is.
enum Seen {
    /// The file that is looked for.
    File(Access),
    /// A file in memory that may say how databases are.
    Document,
    Other,
}

/// How a descriptor has its file open, from `/proc/PID/fdinfo/FD`.
fn access_of(info: &str) -> Access {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    match flags {
        None => Access::None,
        Some(flags) if flags & libc::O_PATH != 0 => Access::None,
        Some(flags) if flags & libc::O_ACCMODE == libc::O_RDONLY => Access::Read,
        Some(_) => Access::Write,
    }
}

fn is_same(metadata: &fs::Metadata, file: &fs::Metadata) -> bool {
    metadata.dev() == file.dev() && metadata.ino() == file.ino()
}

/// The number that a process has for itself, in the innermost container that it is in.
fn own_number(directory: &Path) -> Option<u32> {
    let status = fs::read_to_string(directory.join("status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// Whether a line of `/proc/PID/fdinfo/FD` is a lock on the bytes that SQLite locks, and whether it keeps readers out.
fn lock_of_line(line: &str) -> Option<bool> {
    let mut words = line.strip_prefix("lock:")?.split_whitespace().skip(1);
    let (kind, _, access) = (words.next()?, words.next()?, words.next()?);
    let (begin, end) = (words.nth(2)?, words.next()?);
    let begin: i64 = begin.parse().ok()?;
    let end: i64 = match end {
        "EOF" => i64::MAX,
        end => end.parse().ok()?,
    };
    let touches = |first: i64, last: i64| begin <= last && end >= first;
    let is_lock = matches!(kind, "OFDLCK" | "POSIX") && touches(PENDING, SHARED + SHARED_BYTES - 1);
    is_lock.then(|| access == "WRITE" && touches(SHARED, SHARED + SHARED_BYTES - 1))
}

/// The bytes of a file in memory with this document: for tests, which have no process that says it.
#[cfg(feature = "test-kit")]
pub fn sealed_health(document: &str) -> Vec<u8> {
    crate::health::sealed(document.as_bytes())
}
