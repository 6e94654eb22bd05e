//! Where an output goes, on systems other than Unix.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{MOST_LINKS, SHARED_MEMORY};

/// What a path leads to.
#[derive(Debug)]
pub(super) enum Found {
    /// A regular file to replace, or nothing yet.
    File(FilePlace),
    /// A pipe or a device.
    Other(FilePlace),
    /// A file that a process has open.
    Device,
}

/// A file's place.
#[derive(Debug)]
pub(super) struct FilePlace(PathBuf);

/// Follows symbolic links from `path` to the place of its file.
pub(super) fn find(path: &Path) -> io::Result<Found> {
    let mut target = path.to_owned();
    for _ in 0..MOST_LINKS {
        let among_devices = target.starts_with("/dev") || target.starts_with("/proc");
        if among_devices && !target.starts_with(SHARED_MEMORY) {
            return Ok(Found::Device);
        }
        match fs::symlink_metadata(&target) {
            Ok(found) if found.is_symlink() => {
                let link = fs::read_link(&target)?;
                target = match target.parent() {
                    Some(parent) => parent.join(link),
                    None => link,
                };
            }
            Ok(found) if found.is_file() => return Ok(Found::File(FilePlace(target))),
            Ok(found) if found.is_dir() => {
                return Err(io::Error::from(io::ErrorKind::IsADirectory));
            }
            Ok(_) => return Ok(Found::Other(FilePlace(target))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Found::File(FilePlace(target)));
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

impl FilePlace {
    pub(super) fn is_same(&self, other: &FilePlace) -> bool {
        let absolute = |path: &Path| {
            let directory = path.parent().filter(|parent| *parent != Path::new(""));
            let directory = fs::canonicalize(directory.unwrap_or(Path::new("."))).ok()?;
            Some(directory.join(path.file_name()?))
        };
        absolute(&self.0).is_some_and(|path| absolute(&other.0) == Some(path))
    }

    pub(super) fn open(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(&self.0)
    }

    /// Starts a file that will replace the one here.
    pub(super) fn replace(self) -> io::Result<Replacement> {
        let old = match fs::metadata(&self.0) {
            Ok(old) => {
                // A user expects that a write-protected file is not replaced.
                self.open()?;
                Some(old.permissions())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let Some(name) = self.0.file_name() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"));
        };
        let directory = match self.0.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let shown: String = name.to_string_lossy().chars().take(40).collect();
        let prefix = format!(".{shown}.");
        let mut builder = tempfile::Builder::new();
        let temporary = builder.prefix(&prefix).suffix(".tmp").tempfile_in(directory)?;
        if let Some(permissions) = old {
            temporary.as_file().set_permissions(permissions)?;
        }
        Ok(Replacement { temporary, target: self.0 })
    }
}

/// A file that replaces another one once it is finished, and vanishes otherwise.
#[derive(Debug)]
pub(super) struct Replacement {
    temporary: NamedTempFile,
    target: PathBuf,
}

impl Replacement {
    pub(super) fn finish(self) -> io::Result<()> {
        self.temporary.as_file().sync_all()?;
        self.temporary.persist(&self.target).map_err(|failed| failed.error)?;
        Ok(())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.temporary.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.flush()
    }
}
