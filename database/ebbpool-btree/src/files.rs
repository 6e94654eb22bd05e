//! A database in files: finds, locks and creates them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebbpool::storage::{FileOptions, FileStorage, OpenError, Storage};

use crate::database_files::{DatabaseFiles, DatabaseHead, FOREIGN, HeadKind, Storages};
use crate::error::DatabaseError;
use crate::options::{DatabaseOptions, LARGEST_PAGE};

/// The files of a database at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabasePaths {
    /// The pages: the path itself.
    pub pages: PathBuf,
    /// The two files of the log.
    pub log: [PathBuf; 2],
    /// The double-write area, which a database without one lacks.
    pub double_write: PathBuf,
}

impl DatabasePaths {
    /// The files of the database at this path; some of them, or all, may not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let pages = path.into();
        let beside = |extension: &str| {
            let mut name = OsString::from(&pages);
            name.push(".");
            name.push(extension);
            PathBuf::from(name)
        };
        DatabasePaths { log: ["log0", "log1"].map(beside), double_write: beside("torn"), pages }
    }

    /// All files.
    pub fn all(&self) -> [&Path; 4] {
        let [first, second] = &self.log;
        [&self.pages, first, second, &self.double_write]
    }
}

/// Finds a database at a path, or creates the files of its log, empty. Locks them.
///
/// # Errors
///
/// [`DatabaseError::File`], [`DatabaseError::Locked`], [`DatabaseError::NotADatabase`]. No file is created
/// then, except those of a log beside a path where nothing is.
pub(crate) fn open(path: &Path, options: &DatabaseOptions) -> Result<DatabaseFiles, DatabaseError> {
    let [first, second] = DatabasePaths::new(path).log;
    let log = match existing(&first)? {
        Some(log) => log,
        None => {
            check_may_be_created(path, &first, options)?;
            created(&first)?
        }
    };
    locked(log.try_lock(), path, &first)?;
    // From now on no other process creates a database here.
    let head = head(path)?;
    let other = match existing(&second)? {
        Some(other) => other,
        None => {
            let length = log.metadata().map_err(failed(&first, "read its length"))?;
            if head.kind != HeadKind::Empty || length.len() > 0 {
                return Err(not_a_database(path, missing(&second)));
            }
            check_may_be_created(path, &first, options)?;
            created(&second)?
        }
    };
    Ok(DatabaseFiles::of_files(path.into(), head, [Arc::new(log), Arc::new(other)]))
}

/// Finds a database at a path that is to be opened read-only. Files are opened for reading, and none is
/// created. Other processes may read the database at the same time.
///
/// # Errors
///
/// [`DatabaseError::File`], [`DatabaseError::Locked`], [`DatabaseError::NotADatabase`].
pub(crate) fn open_to_read(path: &Path) -> Result<DatabaseFiles, DatabaseError> {
    let [first, second] = DatabasePaths::new(path).log;
    let open = |log: &Path| match File::open(log) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(log, "open it")(error)),
    };
    let Some(log) = open(&first)? else {
        return Err(match head(path)?.kind {
            HeadKind::Empty => failed(path, "open it")(io::Error::new(io::ErrorKind::NotFound, "there is no such file")),
            HeadKind::Ours(_) | HeadKind::Damaged => not_a_database(path, missing(&first)),
            HeadKind::Foreign => not_a_database(path, FOREIGN.into()),
        });
    };
    locked(log.try_lock_shared(), path, &first)?;
    let other = open(&second)?.ok_or_else(|| not_a_database(path, missing(&second)))?;
    let files = DatabaseFiles::of_files(path.into(), head(path)?, [Arc::new(log), Arc::new(other)]);
    files.read_only()
}

pub(crate) fn failed<'a>(path: &'a Path, what: &'static str) -> impl FnOnce(io::Error) -> DatabaseError + 'a {
    move |source| DatabaseError::File { path: path.into(), what, source }
}

fn not_a_database(path: &Path, what: String) -> DatabaseError {
    DatabaseError::NotADatabase { path: path.into(), what }
}

fn missing(log: &Path) -> String {
    format!("its log {} is missing; a database needs all of its files, so restore it", log.display())
}

fn check_may_be_created(path: &Path, log: &Path, options: &DatabaseOptions) -> Result<(), DatabaseError> {
    match head(path)?.kind {
        HeadKind::Empty if options.create => Ok(()),
        HeadKind::Empty => Err(failed(path, "open it")(io::Error::new(io::ErrorKind::NotFound, "there is no such file"))),
        HeadKind::Ours(_) | HeadKind::Damaged => Err(not_a_database(path, missing(log))),
        HeadKind::Foreign => Err(not_a_database(path, FOREIGN.into())),
    }
}

/// Reads the beginning of the pages; a file that does not exist counts as empty.
fn head(path: &Path) -> Result<DatabaseHead, DatabaseError> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(DatabaseHead::from_bytes(&[], 0));
        }
        found => found.map_err(failed(path, "open it"))?,
    };
    if !found.is_file() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a file");
        return Err(failed(path, "open a database in it")(source));
    }
    let mut bytes = Vec::with_capacity(LARGEST_PAGE);
    let file = File::open(path).map_err(failed(path, "open it"))?;
    let read = file.take(LARGEST_PAGE as u64).read_to_end(&mut bytes);
    read.map_err(failed(path, "read it"))?;
    let head = DatabaseHead::from_bytes(&bytes, found.len());
    Ok(match head.kind {
        // Another program gave the file its length: a database must not overwrite it.
        HeadKind::Empty if head.length > 0 => DatabaseHead { kind: HeadKind::Foreign, ..head },
        _ => head,
    })
}

fn existing(log: &Path) -> Result<Option<File>, DatabaseError> {
    match OpenOptions::new().read(true).write(true).open(log) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(log, "open it")(error)),
    }
}

fn created(log: &Path) -> Result<File, DatabaseError> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = options.open(log).map_err(failed(log, "create it"))?;
    sync_directory(log).map_err(failed(log, "sync its directory"))?;
    Ok(file)
}

/// Without this a crash may lose a new file's name, even if its content is durable.
pub(crate) fn sync_directory(of: &Path) -> io::Result<()> {
    match fs::canonicalize(of)?.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

pub(crate) fn locked(outcome: Result<(), TryLockError>, path: &Path, name: &Path) -> Result<(), DatabaseError> {
    outcome.map_err(|error| match error {
        TryLockError::WouldBlock => DatabaseError::Locked { path: path.into() },
        TryLockError::Error(error) => failed(name, "lock it")(error),
    })
}

/// Retries while the file is in use. This process has locked the log, so no other process has the database
/// open. But the file of a killed process stays locked until the system has finished the requests that it
/// had submitted to io_uring.
fn patiently(open: impl Fn() -> Result<FileStorage, OpenError>) -> Result<FileStorage, OpenError> {
    const PATIENCE: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_millis(10);
    let start = Instant::now();
    loop {
        match open() {
            Err(OpenError::InUse(_)) if start.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            opened => return opened,
        }
    }
}

/// Opens the pages and the double-write area, and creates them if they do not exist; creates the area only
/// for `with_area`.
pub(crate) fn storages(path: &Path, page_size: usize, with_area: bool) -> Result<Storages, DatabaseError> {
    let options = FileOptions::new().page_size(page_size).create(true);
    let pages = storage(path, &options)?;
    let area = DatabasePaths::new(path).double_write;
    let area = (with_area || has_bytes(&area)).then(|| storage(&area, &options));
    Ok((Some(pages), area.transpose()?))
}

/// Opens the pages and the double-write area for reading, if they exist.
pub(crate) fn storages_to_read(path: &Path, page_size: usize) -> Result<Storages, DatabaseError> {
    let options = FileOptions::new().page_size(page_size).read_only(true);
    let open = |path: &Path| has_bytes(path).then(|| storage(path, &options));
    Ok((open(path).transpose()?, open(&DatabasePaths::new(path).double_write).transpose()?))
}

/// True if the database of this path has a double-write area.
pub(crate) fn has_area(path: &Path) -> bool {
    has_bytes(&DatabasePaths::new(path).double_write)
}

fn has_bytes(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() > 0)
}

fn storage(path: &Path, options: &FileOptions) -> Result<Arc<dyn Storage>, DatabaseError> {
    match patiently(|| FileStorage::open(path, options)) {
        Ok(storage) => Ok(Arc::new(storage)),
        Err(OpenError::InUse(path)) => Err(DatabaseError::Locked { path }),
        Err(OpenError::Io { path, what, source }) => Err(DatabaseError::File { path, what, source }),
        Err(error) => Err(DatabaseError::Options(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_database_have_its_path_as_their_beginning() {
        let paths = DatabasePaths::new("dir/my.db");
        let names = ["", ".log0", ".log1", ".torn"].map(|end| format!("dir/my.db{end}"));
        assert_eq!(paths.all(), names.each_ref().map(Path::new));
    }
}
