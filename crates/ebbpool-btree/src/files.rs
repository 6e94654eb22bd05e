//! A database in files: which they are, that nobody else has them, and making them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebbpool::storage::{FileOptions, FileStorage, OpenError, Storage};

use crate::error::Error;
use crate::options::{LARGEST_PAGE, Options};
use crate::place::{FOREIGN, Head, HeadKind, Place, Storages};

/// Finds a database at a path, or makes the files of its log, empty. They are locked then.
///
/// # Errors
///
/// [`Error::File`], [`Error::Locked`], [`Error::NotADatabase`]. Nothing was made then, but for the files
/// of a log beside a path where nothing is.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Place, Error> {
    let [first, second] = ["log0", "log1"].map(|extension| beside(path, extension));
    let log = match existing(&first)? {
        Some(log) => log,
        None => {
            check_may_be_made(path, &first, options)?;
            made(&first)?
        }
    };
    locked(log.try_lock(), path, &first)?;
    // Only now nobody else makes a database here.
    let head = head(path)?;
    let other = match existing(&second)? {
        Some(other) => other,
        None => {
            let length = log
                .metadata()
                .map_err(failed(&first, "find out its length"))?;
            if head.kind != HeadKind::Empty || length.len() > 0 {
                return Err(not_a_database(path, missing(&second)));
            }
            check_may_be_made(path, &first, options)?;
            made(&second)?
        }
    };
    Ok(Place::of_files(
        path.into(),
        head,
        [Arc::new(log), Arc::new(other)],
    ))
}

/// Finds a database at a path, of which nothing is to be changed; files are opened for reading only, and
/// none is made. Others may have it open to read it, too.
///
/// # Errors
///
/// [`Error::File`], [`Error::Locked`], [`Error::NotADatabase`].
pub(crate) fn open_to_read(path: &Path) -> Result<Place, Error> {
    let [first, second] = ["log0", "log1"].map(|extension| beside(path, extension));
    let open = |log: &Path| match File::open(log) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(log, "open it")(error)),
    };
    let Some(log) = open(&first)? else {
        return Err(match head(path)?.kind {
            HeadKind::Empty => failed(path, "open it")(io::ErrorKind::NotFound.into()),
            HeadKind::Ours(_) | HeadKind::Damaged => not_a_database(path, missing(&first)),
            HeadKind::Foreign => not_a_database(path, FOREIGN.into()),
        });
    };
    locked(log.try_lock_shared(), path, &first)?;
    let other = open(&second)?.ok_or_else(|| not_a_database(path, missing(&second)))?;
    let place = Place::of_files(path.into(), head(path)?, [Arc::new(log), Arc::new(other)]);
    place.read_only()
}

/// The file of the images of pages.
pub(crate) fn area(path: &Path) -> PathBuf {
    beside(path, "torn")
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(extension);
    name.into()
}

fn failed<'a>(path: &'a Path, what: &'static str) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::File {
        path: path.into(),
        what,
        source,
    }
}

fn not_a_database(path: &Path, what: String) -> Error {
    Error::NotADatabase {
        path: path.into(),
        what,
    }
}

fn missing(log: &Path) -> String {
    format!(
        "its log {} is missing; a database is all of its files, so put it back",
        log.display()
    )
}

fn check_may_be_made(path: &Path, log: &Path, options: &Options) -> Result<(), Error> {
    match head(path)?.kind {
        HeadKind::Empty if options.create => Ok(()),
        HeadKind::Empty => Err(failed(path, "open it")(io::ErrorKind::NotFound.into())),
        HeadKind::Ours(_) | HeadKind::Damaged => Err(not_a_database(path, missing(log))),
        HeadKind::Foreign => Err(not_a_database(path, FOREIGN.into())),
    }
}

/// What the pages begin with; where there is no file, they are empty.
fn head(path: &Path) -> Result<Head, Error> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Head::of(&[], 0)),
        found => found.map_err(failed(path, "open it"))?,
    };
    if !found.is_file() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "it is no file");
        return Err(failed(path, "have a database in it")(source));
    }
    let mut bytes = Vec::with_capacity(LARGEST_PAGE);
    let file = File::open(path).map_err(failed(path, "open it"))?;
    let read = file.take(LARGEST_PAGE as u64).read_to_end(&mut bytes);
    read.map_err(failed(path, "read it"))?;
    let head = Head::of(&bytes, found.len());
    Ok(match head.kind {
        // Somebody made it so long: it is not for us to write there.
        HeadKind::Empty if head.length > 0 => Head {
            kind: HeadKind::Foreign,
            ..head
        },
        _ => head,
    })
}

fn existing(log: &Path) -> Result<Option<File>, Error> {
    match OpenOptions::new().read(true).write(true).open(log) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(log, "open it")(error)),
    }
}

fn made(log: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    let made = options.read(true).write(true).create(true).truncate(false);
    let file = made.open(log).map_err(failed(log, "make it"))?;
    sync_directory(log).map_err(failed(log, "sync its directory"))?;
    Ok(file)
}

/// Otherwise a crash may take a new file's name, whatever is in the file.
fn sync_directory(of: &Path) -> io::Result<()> {
    match fs::canonicalize(of)?.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

fn locked(outcome: Result<(), TryLockError>, path: &Path, name: &Path) -> Result<(), Error> {
    outcome.map_err(|error| match error {
        TryLockError::WouldBlock => Error::Locked { path: path.into() },
        TryLockError::Error(error) => failed(name, "lock it")(error),
    })
}

/// The log is ours, so no other database has the file. A process that was killed may hold it a moment
/// longer than it lives: until the system has ended what io_uring had begun.
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

/// Opens the pages and the area for images of pages, which are made if they are not there; the area only if
/// it is wanted.
pub(crate) fn storages(path: &Path, page_size: usize, wanted: bool) -> Result<Storages, Error> {
    let options = FileOptions::new().page_size(page_size).create(true);
    let pages = storage(path, &options)?;
    let area = area(path);
    let area = (wanted || has_bytes(&area)).then(|| storage(&area, &options));
    Ok((Some(pages), area.transpose()?))
}

/// Opens the pages and the area for images of pages for reading, as far as they are there.
pub(crate) fn storages_to_read(path: &Path, page_size: usize) -> Result<Storages, Error> {
    let options = FileOptions::new().page_size(page_size).read_only(true);
    let open = |path: &Path| has_bytes(path).then(|| storage(path, &options));
    Ok((open(path).transpose()?, open(&area(path)).transpose()?))
}

fn has_bytes(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() > 0)
}

fn storage(path: &Path, options: &FileOptions) -> Result<Arc<dyn Storage>, Error> {
    match patiently(|| FileStorage::open(path, options)) {
        Ok(storage) => Ok(Arc::new(storage)),
        Err(OpenError::InUse(path)) => Err(Error::Locked { path }),
        Err(OpenError::Io { path, what, source }) => Err(Error::File { path, what, source }),
        Err(error) => Err(Error::Options(error.to_string())),
    }
}
