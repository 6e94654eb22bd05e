//! What the files of a database say, read with plain system calls: without SQLite, without a lock, and also while another
//! process has the database.
//!
//! A process must not inspect a database that it has open itself: POSIX drops its locks of a file as soon as it closes
//! any descriptor of this file.

mod behind;
mod locks;
mod log;
mod owner;
mod recovered;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::delta_log::is_page_size;
use crate::disk::has_room_for_logs;
use crate::store::{GENERATION, READ_VERSION, is_marked, is_plain};
use crate::wal_log::read_whole;
use crate::wal_log::{FRAME, WalCursor, be32};

pub use crate::health::{DatabaseHealth, HealthNote};
pub use behind::commits_before_damage;
pub(crate) use locks::open_locked;
pub use locks::{LockHolder, lock_holder};
pub use log::{DeltaLogSummary, LogFit};
#[cfg(feature = "test-kit")]
pub use log::{check_bytes_of_log, sealed_log};
#[cfg(feature = "test-kit")]
pub use owner::sealed_health;
pub use owner::{OwnerHealth, published_health};
pub use recovered::write_recovered;

/// Bytes of a database's header.
const HEADER: usize = 100;

/// What the files of a database say.
#[derive(Clone, Debug, PartialEq)]
pub struct SqliteInspection {
    /// The database.
    pub path: PathBuf,
    /// The length of the database in bytes.
    pub bytes: u64,
    /// The number of its names (hard links): a log beside one of them is not beside the others.
    pub names: u64,
    /// Its header; `None` if the file is empty, or begins with something else, as an encrypted database does.
    pub header: Option<SqliteHeader>,
    /// Bytes of `-journal`, if it exists and would be rolled back.
    pub hot_journal: Option<u64>,
    /// The file `-wal`, if it exists and is not empty.
    pub wal: Option<WalSummary>,
    /// The file `-ebb`, if it exists and is not empty.
    pub log: Option<DeltaLogSummary>,
    /// True if `-ebb` exists and is empty, which is as if there were none.
    pub has_empty_log: bool,
    /// A process that has a lock on the database.
    pub lock: Option<LockHolder>,
    /// What a process with the VFS that has the database open says about it.
    pub health: Option<OwnerHealth>,
}

/// The header of a database of SQLite's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteHeader {
    /// Bytes of a page.
    pub page_size: u32,
    /// True if byte 18 keeps SQLite from writing the database, because `-ebb` has newer content.
    pub is_marked: bool,
    /// True if the mark has the number of a generation of `-ebb`, without which the database is not whole.
    pub has_generation: bool,
    /// True if the journal mode is WAL.
    pub is_wal: bool,
    /// A number that each commit in a rollback mode raises.
    pub change_counter: u32,
}

impl SqliteHeader {
    /// The header, if the bytes begin with one that makes sense.
    pub fn decode(bytes: &[u8]) -> Option<SqliteHeader> {
        if bytes.len() < HEADER || !is_plain(bytes) {
            return None;
        }
        let page_size = usize::from(bytes[16]) << 8 | usize::from(bytes[17]) << 16;
        is_page_size(page_size).then(|| SqliteHeader {
            page_size: page_size as u32,
            is_marked: is_marked(bytes),
            has_generation: bytes[GENERATION] != [0; 8],
            is_wal: bytes[READ_VERSION] == 2,
            change_counter: be32(bytes, 24),
        })
    }
}

/// What `-wal` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalSummary {
    /// The length of the file in bytes.
    pub bytes: u64,
    /// True if the file begins with a valid header.
    pub has_header: bool,
    /// Bytes of a page; 0 without a header.
    pub page_size: u32,
    /// Commits with valid checksums, and their frames. SQLite takes them in when it opens the database.
    pub commits: u64,
    /// Frames of these commits.
    pub frames: u64,
    /// The length of the database in bytes that they make; 0 without one.
    pub database_bytes: u64,
}

/// The path of a file beside the database, such as `-wal`.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Opens a regular file; a pipe with this name is refused, and not waited for.
///
/// # Errors
///
/// That of the system, or `InvalidInput` for what is no regular file.
pub(crate) fn open_regular(path: &Path, mut options: OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Opens a regular file for reading.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true).to_owned())
}

/// Opens a file beside a database, if it is there; an error names it.
pub(crate) fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match open_to_read(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // No file can have this name, so that there is none.
        Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => Ok(None),
        Err(error) => {
            let text = format!("{}: {error}", path.display());
            Err(io::Error::new(error.kind(), text))
        }
    }
}

/// The path of the database that a path names: what a symbolic link leads to, because SQLite has the files beside a database
/// there. Another path is returned as it is.
///
/// # Errors
///
/// If there is no such file, or a link leads nowhere.
pub fn linked_database(path: &Path) -> io::Result<PathBuf> {
    match std::fs::symlink_metadata(path)?.is_symlink() {
        true => path.canonicalize(),
        false => Ok(path.to_owned()),
    }
}

/// Reads what the files of a database say. A symbolic link to it has to be followed before, by [`linked_database`].
///
/// # Errors
///
/// If the database does not exist, is no regular file, or one of its files cannot be read.
pub fn inspect(path: &Path) -> io::Result<SqliteInspection> {
    inspect_while(path, &|| Ok(()))
}

/// Reads what the files of a database say, and asks `go_on` again and again while it reads a `-wal`, which may be long.
///
/// # Errors
///
/// If the database does not exist, is no regular file, or one of its files cannot be read; and what `go_on` fails with.
pub(crate) fn inspect_while(path: &Path, go_on: &dyn Fn() -> io::Result<()>) -> io::Result<SqliteInspection> {
    let file = open_to_read(path)?;
    let metadata = file.metadata()?;
    let mut first = vec![0; 1 << 16];
    read_start(&file, &mut first)?;
    let mut bytes = metadata.len();
    let mut first_page = None;
    let wal = match open_if_there(&beside(path, "-wal"))? {
        // As for SQLite: an empty file does not exist. A checkpoint leaves one while the database is open.
        Some(file) if file.metadata()?.len() > 0 => Some(summarize_wal(&file, &mut first_page, go_on)?),
        _ => None,
    };
    // What SQLite takes in before `-ebb` is looked at.
    if let Some(page) = first_page {
        first[..page.len()].copy_from_slice(&page);
    }
    if let Some(wal) = wal.as_ref().filter(|wal| wal.commits > 0) {
        bytes = wal.database_bytes;
    }
    let (log, has_empty_log) = match open_if_there(&beside(path, "-ebb"))? {
        // SQLite, too, takes an empty file for none.
        Some(file) if file.metadata()?.len() == 0 => (None, true),
        Some(file) => (Some(log::summarize(&file, &first, bytes)?), false),
        None => (None, false),
    };
    let processes = owner::processes_of(&metadata);
    Ok(SqliteInspection {
        path: path.to_owned(),
        bytes: metadata.len(),
        names: metadata.nlink(),
        header: SqliteHeader::decode(&first[..metadata.len().min(1 << 16) as usize]),
        hot_journal: hot_journal(path)?,
        wal,
        log,
        has_empty_log,
        lock: lock_holder(&file).map(|lock| lock.found_in(&processes)),
        health: processes.health,
    })
}

/// The number of an epoch in `-ebb` that is behind the end of what recovery brings in place: damage has ended the log before it.
/// Recovery itself does not look for one, because a power cut ends a log in the same way, and leaves none behind.
///
/// # Errors
///
/// If a file cannot be read. While a process has the database open, the answer may be wrong.
pub fn epoch_behind_damage(inspection: &SqliteInspection) -> io::Result<Option<u32>> {
    let path = &inspection.path;
    let Some(log) = open_if_there(&beside(path, "-ebb"))? else {
        return Ok(None);
    };
    let mut first = vec![0; 1 << 16];
    read_start(&File::open(path)?, &mut first)?;
    if let Some(wal) = open_if_there(&beside(path, "-wal"))? {
        let mut first_page = None;
        summarize_wal(&wal, &mut first_page, &|| Ok(()))?;
        if let Some(page) = first_page {
            first[..page.len()].copy_from_slice(&page);
        }
    }
    log::epoch_behind(&log, &first)
}

/// Fills a buffer with the begin of a file, and with zeros where the file is shorter.
pub(crate) fn read_start(file: &File, into: &mut [u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mut at = 0;
    while at < into.len() {
        match file.read_at(&mut into[at..], at as u64)? {
            0 => break,
            count => at += count,
        }
    }
    into[at..].fill(0);
    Ok(())
}

pub(crate) fn hot_journal(path: &Path) -> io::Result<Option<u64>> {
    let Some(file) = open_if_there(&beside(path, "-journal"))? else {
        return Ok(None);
    };
    let mut magic = [0; 8];
    let is_hot = read_whole(&file, &mut magic, 0)? && magic != [0; 8];
    let bytes = file.metadata()?.len();
    Ok(is_hot.then_some(bytes))
}

/// Reads a `-wal`, and the image of page 1 that its commits make, if one of them has it.
fn summarize_wal(file: &File, first_page: &mut Option<Vec<u8>>, go_on: &dyn Fn() -> io::Result<()>) -> io::Result<WalSummary> {
    let mut summary =
        WalSummary { bytes: file.metadata()?.len(), has_header: false, page_size: 0, commits: 0, frames: 0, database_bytes: 0 };
    let Some(mut cursor) = WalCursor::open(file)? else {
        return Ok(summary);
    };
    summary.has_header = true;
    summary.page_size = cursor.page_size as u32;
    let mut bytes = vec![0; cursor.frame_bytes()];
    let mut first = None;
    while let Some(frame) = cursor.next_frame(file, &mut bytes)? {
        go_on()?;
        if frame.page == 1 {
            first = Some(bytes[FRAME as usize..].to_vec());
        }
        // The last frame of a commit.
        if frame.size > 0 {
            summary.commits += 1;
            summary.frames = cursor.frames;
            *first_page = first.take().or(first_page.take());
            summary.database_bytes = u64::from(frame.size) * cursor.page_size as u64;
        }
    }
    Ok(summary)
}

impl SqliteInspection {
    /// True if the files say no more than the database itself does: recovery would change nothing.
    pub fn is_plain(&self) -> bool {
        !self.needs_vfs() && self.hot_journal.is_none() && self.wal.is_none()
    }

    /// True if the files say that the database goes, or went, through the VFS: it has the mark, or a log in `-ebb`.
    pub fn needs_vfs(&self) -> bool {
        self.log.is_some() || (self.header.as_ref()).is_some_and(|header| header.is_marked)
    }

    /// True if the file has bytes that are no header of a database of SQLite's: it is encrypted or damaged, or no database.
    pub fn is_unknown(&self) -> bool {
        self.header.is_none() && self.bytes > 0
    }

    /// True if the VFS leaves the database to SQLite whatever it holds: its absolute path is not UTF-8, or names of logs beside it
    /// would be too long.
    pub fn is_out_of_reach(&self) -> bool {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        !path.to_str().is_some_and(has_room_for_logs)
    }

    /// True if the database is marked as having a log in `-ebb`, and there is none, or an empty file: what it held is lost.
    pub fn lacks_log(&self) -> bool {
        // With `log=wal` the mark has no number, and `-wal` may be gone.
        let is_numbered = self.header.as_ref().is_some_and(|header| header.is_marked && header.has_generation);
        is_numbered && self.log.is_none()
    }

    /// True if the log that the database lacks may be beside another name (hard link) of the file.
    pub fn may_have_log_elsewhere(&self) -> bool {
        self.lacks_log() && self.names > 1
    }

    /// What the process says that owns the database through the VFS; `None` if there is none that says something.
    pub fn owner(&self) -> Option<&OwnerHealth> {
        let health = self.health.as_ref();
        health.filter(|health| health.database.passed.is_none())
    }

    /// A process that has the database open: by its lock, or because it says so.
    pub fn holder(&self) -> Option<LockHolder> {
        let owner = || {
            self.owner().map(|owner| LockHolder {
                process: Some(owner.process),
                is_exclusive: true,
                may_be_hidden: false,
                is_of_vfs: true,
            })
        };
        self.lock.or_else(owner)
    }

    /// What is wrong with the files, a sentence each.
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let name = self.path.display();
        let log = self.log.as_ref();
        match log.map(|log| log.fit) {
            Some(LogFit::NotMarked | LogFit::OtherDatabase) if self.is_unknown() => {
                findings.push(format!(
                    "{name} does not begin with the header of a database, so that its {name}-ebb cannot be brought in place: page 1 is damaged, or another file has taken its place"
                ));
            }
            Some(LogFit::NotMarked) => findings.push(format!(
                "{name}-ebb has epochs, but {name} has no mark: another copy of the database was put in its place, or another program has written it"
            )),
            Some(LogFit::OtherDatabase) => findings.push(format!(
                "{name}-ebb belongs to another version of {name}, or is damaged: the header of {name} is none that it continues"
            )),
            Some(LogFit::Damaged) => findings.push(format!(
                "{name} is marked as having a log, and {name}-ebb has no valid header; what it held is lost, unless an earlier copy of the file is whole"
            )),
            Some(LogFit::LaterVersion(version)) => findings.push(format!(
                "{name}-ebb has version {version} of its format, which a later release of Ebbpool reads"
            )),
            _ => {}
        }
        if self.may_have_log_elsewhere() {
            findings.push(format!(
                "{name} is marked as having a log, and there is no {name}-ebb; the file has {} names (hard links), and another one may have the log beside it",
                self.names
            ));
        } else if self.lacks_log() {
            let empty = if self.has_empty_log { " but an empty file" } else { "" };
            let aside = format!("{name}-ebb.stale");
            let what = match Path::new(&aside).exists() {
                true => format!(
                    "{aside} may be it, which was put aside when another program wrote {name}: with its name back, what it holds is there again"
                ),
                false => "if it was deleted, what it held is lost".to_owned(),
            };
            findings.push(format!("{name} is marked as having a log, and there is no {name}-ebb{empty}; {what}"));
        }
        if let (Some(header), Some(log)) = (&self.header, log)
            && log.epochs > 0
            && log.page_size != header.page_size
        {
            findings
                .push(format!("pages of {name} have {} bytes, and those of {name}-ebb {}", header.page_size, log.page_size));
        }
        if self.hot_journal.is_some() && log.is_some_and(|log| log.epochs > 0) {
            findings.push(format!("{name}-journal would be rolled back, though {name}-ebb has epochs"));
        }
        findings
    }
}
