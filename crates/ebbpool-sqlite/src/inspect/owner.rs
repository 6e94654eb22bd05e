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
}

/// What the process that has a database open says about it: first the one that owns it, then one that has passed it to
/// SQLite's own VFS. `None` if no process that this user may look at says something.
///
/// # Errors
///
/// If the database does not exist.
pub fn health_of(path: &Path) -> io::Result<Option<OwnerHealth>> {
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
                for descriptor in descriptors.flatten() {
                    said.extend(found.look_at(process, &entry.path(), &descriptor, file));
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
    /// Looks at a descriptor of a process; returns what the process says about the database, if it is that.
    fn look_at(
        &mut self,
        process: u32,
        directory: &Path,
        descriptor: &DirEntry,
        file: &fs::Metadata,
    ) -> Option<OwnerHealth> {
        let target = fs::read_link(descriptor.path()).ok()?;
        let target = target.as_os_str().as_bytes();
        let of_health = target.strip_prefix(b"/memfd:");
        if of_health.is_some_and(|name| name.starts_with(NAME.to_bytes())) {
            return health_in(process, directory, &descriptor.path(), file);
        }
        if !target.starts_with(b"/") || !is_same(&fs::metadata(descriptor.path()).ok()?, file) {
            return None;
        }
        let locks = directory.join("fdinfo").join(descriptor.file_name());
        let text = fs::read_to_string(locks).ok()?;
        let is_exclusive = text
            .lines()
            .filter_map(lock_of_line)
            .reduce(|a, b| a || b)?;
        self.locks.push(LockedDescriptor {
            process,
            is_exclusive,
        });
        None
    }
}

/// What a process says about a database in its file in memory.
fn health_in(
    process: u32,
    directory: &Path,
    descriptor: &Path,
    file: &fs::Metadata,
) -> Option<OwnerHealth> {
    let document = read_document(descriptor)?;
    // A child of fork() has the file of its parent, which does not speak for it.
    if document.process != own_number(directory).unwrap_or(process) {
        return None;
    }
    let mut databases = document.databases.into_iter();
    let database = databases.find(|it| it.device == file.dev() && it.inode == file.ino())?;
    Some(OwnerHealth {
        process,
        version: document.version,
        database,
    })
}

fn is_same(metadata: &fs::Metadata, file: &fs::Metadata) -> bool {
    metadata.dev() == file.dev() && metadata.ino() == file.ino()
}

/// The number that a process has for itself, in the innermost container that it is in.
fn own_number(directory: &Path) -> Option<u32> {
    let status = fs::read_to_string(directory.join("status")).ok()?;
    let numbers = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// Reads what a process says; `None` if it is not readable, or makes no sense. It may replace it meanwhile.
fn read_document(descriptor: &Path) -> Option<HealthDocument> {
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
        sleep(Duration::from_millis(1));
    }
    None
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
#[doc(hidden)]
pub fn sealed_health(document: &str) -> Vec<u8> {
    crate::health::sealed(document.as_bytes())
}
