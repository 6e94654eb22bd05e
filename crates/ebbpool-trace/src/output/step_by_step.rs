//! Where an output goes, on Unix: each part of its path is opened on its own, so that no link is followed that was not looked
//! at, and what was found cannot be replaced by another file before it is written.
//!
//! Links of other users in directories like `/tmp` are not followed, as the kernel does not with `fs.protected_symlinks`. It
//! would protect the last part of a path only, and does not protect a program that reads links itself. Their files and pipes
//! are not written either, as with `fs.protected_regular`: who puts a file there first would get what root writes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use super::MOST_LINKS;

#[cfg(any(target_os = "linux", target_os = "android"))]
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// What a new file takes of the mode of the one that it replaces: not set-user-ID, as its contents are others.
const RIGHTS: u32 = 0o777;

/// What a path leads to.
#[derive(Debug)]
pub(super) enum Found {
    /// A regular file to replace, or nothing yet.
    File(FilePlace),
    /// A pipe, a device or a socket.
    Other(FilePlace),
    /// A file below `/dev` or `/proc`, such as `/dev/stdout`. These lead to files that a process has open: a new file in their
    /// place would not be the one that the process reads or continues to write.
    Device,
}

/// A file's place: a name in a directory.
#[derive(Debug)]
pub(super) struct FilePlace {
    directory: OwnedFd,
    name: OsString,
    stat: Option<Box<Stat>>,
}

/// A path on the way to its file.
struct Walk {
    directory: OwnedFd,
    /// True if the directory is `/`.
    at_root: bool,
    /// Names that are still to be looked at, the last one first.
    names: Vec<OsString>,
    links: usize,
}

fn names_of(path: &Path) -> Vec<OsString> {
    let names = path.components().rev();
    let names = names.filter(|part| !matches!(part, Component::CurDir));
    names.map(|part| part.as_os_str().to_owned()).collect()
}

impl Walk {
    fn proceed(&mut self, name: &OsStr) -> io::Result<()> {
        self.at_root = name == "/";
        self.directory = match self.at_root {
            true => rustix::fs::open("/", DIRECTORY, Mode::empty())?,
            false => rustix::fs::openat(
                &self.directory,
                name,
                DIRECTORY | OFlags::NOFOLLOW,
                Mode::empty(),
            )?,
        };
        Ok(())
    }

    /// True if the name that is next leads to `/dev` or `/proc`, but for the memory that is mounted in `/dev/shm`.
    fn is_among_devices(&self, name: &OsStr) -> bool {
        let next = self.names.last().map(OsString::as_os_str);
        let is_shared_memory = name == "dev" && next == Some(OsStr::new("shm"));
        self.at_root && (name == "dev" || name == "proc") && !is_shared_memory
    }

    fn follow(&mut self, name: &OsStr, link: &Stat) -> io::Result<()> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(io::Error::other("too many symbolic links"));
        }
        check_owner(&rustix::fs::fstat(&self.directory)?, link)?;
        let target = rustix::fs::readlinkat(&self.directory, name, Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        self.names.extend(names_of(&target));
        Ok(())
    }
}

/// Refuses what another user has put into a directory where everybody may put files.
fn check_owner(directory: &Stat, found: &Stat) -> io::Result<()> {
    let shared = Mode::SVTX | Mode::WOTH;
    let is_shared = Mode::from_raw_mode(directory.st_mode).contains(shared);
    let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
    let own = rustix::process::geteuid().as_raw();
    let caller = super::caller().map_or(own, |(user, _)| user);
    if !is_shared || [own, caller, directory.st_uid].contains(&found.st_uid) {
        return Ok(());
    }
    let what = match is_link {
        true => "a symbolic link",
        false => "a file",
    };
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("it is {what} of another user in a directory where everybody may put files"),
    ))
}

/// Follows a path to the place of its file.
pub(super) fn find(path: &Path) -> io::Result<Found> {
    let mut walk = Walk {
        directory: rustix::fs::open(".", DIRECTORY, Mode::empty())?,
        at_root: false,
        names: names_of(path),
        links: 0,
    };
    while let Some(name) = walk.names.pop() {
        if walk.is_among_devices(&name) {
            return Ok(Found::Device);
        }
        let is_last = walk.names.is_empty();
        if name == "/" || name == ".." {
            walk.proceed(&name)?;
            continue;
        }
        let stat = match rustix::fs::statat(&walk.directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) if is_last => return Ok(Found::File(walk.place(name, None))),
            Err(error) => return Err(error.into()),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => walk.follow(&name, &stat)?,
            FileType::Directory => walk.proceed(&name)?,
            _ if !is_last => return Err(Errno::NOTDIR.into()),
            FileType::RegularFile => return Ok(Found::File(walk.place(name, Some(stat)))),
            _ => return Ok(Found::Other(walk.place(name, Some(stat)))),
        }
    }
    match path.as_os_str().is_empty() {
        true => Err(Errno::NOENT.into()),
        false => Err(Errno::ISDIR.into()),
    }
}

impl Walk {
    fn place(self, name: OsString, stat: Option<Stat>) -> FilePlace {
        FilePlace {
            directory: self.directory,
            name,
            stat: stat.map(Box::new),
        }
    }
}

impl FilePlace {
    /// True if both are the same file, which may have several names, or would be.
    pub(super) fn is_same(&self, other: &FilePlace) -> bool {
        if let (Some(a), Some(b)) = (&self.stat, &other.stat) {
            return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
        }
        let directory = |place: &FilePlace| rustix::fs::fstat(&place.directory);
        match (directory(self), directory(other)) {
            (Ok(a), Ok(b)) => {
                (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) && self.name == other.name
            }
            _ => false,
        }
    }

    /// Opens what is there for writing. A pipe is waited for, a regular file is not, whatever has replaced it since.
    pub(super) fn open(&self) -> io::Result<File> {
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let waits = match self.stat.as_deref().is_some_and(is_file) {
            true => OFlags::NONBLOCK,
            false => OFlags::empty(),
        };
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC | waits;
        let directory = rustix::fs::fstat(&self.directory)?;
        if let Some(stat) = &self.stat {
            check_owner(&directory, stat)?;
        }
        let opened = rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())?;
        check_owner(&directory, &rustix::fs::fstat(&opened)?)?;
        Ok(File::from(opened))
    }

    /// Starts a file that will replace the one here.
    pub(super) fn replace(self) -> io::Result<Replacement> {
        // Renaming over a file needs no permission to write it. A user expects that a write-protected file is not replaced.
        let old = match &self.stat {
            Some(_) => Some(rustix::fs::fstat(self.open()?)?),
            None => None,
        };
        // While this process owns it, no other user may open it: with the rights of the old file its owner could write to it,
        // and a set-user-ID program of this user could come of that. The system applies the umask to a new file's rights.
        let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
        let (file, temporary) = match self.unnamed(mode) {
            Some(file) => (file, None),
            None => {
                let (file, name) = self.temporary(mode)?;
                (file, Some(name))
            }
        };
        Ok(Replacement {
            file,
            temporary,
            owner: old.map(|old| (old.st_uid, Some(old.st_gid))),
            rights: old.map(|old| Mode::from_raw_mode(old.st_mode & RIGHTS)),
            place: self,
        })
    }

    /// A new file without a name, which vanishes with this process, however that ends. `None` where there are none, or where
    /// it could not get a name later.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn unnamed(&self, mode: Mode) -> Option<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, ".", flags, mode).ok()?;
        rustix::fs::stat(path_of(&file)).ok()?;
        Some(File::from(file))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn unnamed(&self, _mode: Mode) -> Option<File> {
        None
    }

    /// Gives an unnamed file a name beside.
    fn give_name(&self, file: &File) -> io::Result<OsString> {
        let from = path_of(file);
        let link = |name: &OsStr| {
            let flags = AtFlags::SYMLINK_FOLLOW;
            rustix::fs::linkat(rustix::fs::CWD, &from, &self.directory, name, flags)
        };
        Ok(self.beside(link)?.1)
    }

    /// A new file beside, and its name.
    fn temporary(&self, mode: Mode) -> io::Result<(File, OsString)> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = |name: &OsStr| rustix::fs::openat(&self.directory, name, flags, mode);
        let (file, name) = self.beside(create)?;
        Ok((File::from(file), name))
    }

    /// Makes something beside under a name that nothing has.
    fn beside<T>(&self, make: impl Fn(&OsStr) -> Result<T, Errno>) -> io::Result<(T, OsString)> {
        const TRIALS: usize = 100;
        // Long names are cut so that the temporary name stays within 255 bytes.
        let shown: String = self.name.to_string_lossy().chars().take(40).collect();
        let mut tried = 0;
        loop {
            let number = RandomState::new().build_hasher().finish();
            let name = OsString::from(format!(".{shown}.{number:016x}.tmp"));
            match make(&name) {
                Ok(made) => return Ok((made, name)),
                Err(Errno::EXIST) if tried < TRIALS => tried += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The path by which the kernel finds an open file.
fn path_of(file: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// A file that replaces another one once it is finished, and vanishes otherwise.
#[derive(Debug)]
pub(super) struct Replacement {
    file: File,
    /// Its name until then, if it has one.
    temporary: Option<OsString>,
    owner: Option<(u32, Option<u32>)>,
    /// The rights of the file that it replaces.
    rights: Option<Mode>,
    place: FilePlace,
}

impl Replacement {
    pub(super) fn give_to(&mut self, user: u32, group: Option<u32>) {
        if self.rights.is_none() {
            self.owner = Some((user, group));
        }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some((user, group)) = self.owner {
            let group = group.map(Gid::from_raw);
            // Only root gives files away; others keep what they write.
            let _ = rustix::fs::fchown(&self.file, Some(Uid::from_raw(user)), group);
        }
        if let Some(rights) = self.rights {
            rustix::fs::fchmod(&self.file, rights)?;
        }
        self.file.sync_all()?;
        if self.temporary.is_none() {
            self.temporary = Some(self.place.give_name(&self.file)?);
        }
        let directory = &self.place.directory;
        if let Some(temporary) = &self.temporary {
            rustix::fs::renameat(directory, temporary, directory, &self.place.name)?;
        }
        self.temporary = None;
        // The rename is durable once the directory is. Where directories cannot be synchronised (some file systems),
        // nothing more can be done.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(directory) = rustix::fs::openat(directory, ".", flags, Mode::empty()) {
            let _ = rustix::fs::fsync(directory);
        }
        Ok(())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = rustix::fs::unlinkat(&self.place.directory, temporary, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::super::OutputFile;
    use super::*;

    fn write(path: &Path) -> Result<u64, crate::TraceError> {
        let mut file = OutputFile::create(path)?;
        file.write_all(b"facts").expect("written");
        file.finish()
    }

    /// A directory like `/tmp` with a link of another user to a file, and to none; `None` unless this is root, who alone makes
    /// files of others.
    fn shared() -> Option<tempfile::TempDir> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        if !rustix::process::geteuid().is_root() {
            let _ = writeln!(
                io::stderr(),
                "skipped: making files of other users needs root"
            );
            return None;
        }
        fs::create_dir(path("own")).expect("a folder");
        fs::create_dir(path("shared")).expect("a folder");
        let mode = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(path("shared"), mode).expect("a mode");
        fs::write(path("own/secret"), "secret").expect("written");
        for (name, target) in [
            ("link", "own/secret"),
            ("dangling", "own/new"),
            ("folder", "own"),
        ] {
            let link = path("shared").join(name);
            symlink(path(target), &link).expect("a link");
            std::os::unix::fs::lchown(link, Some(65534), Some(65534)).expect("another owner");
        }
        Some(folder)
    }

    #[test]
    fn links_of_others_are_not_followed_where_everybody_may_put_them() {
        let Some(folder) = shared() else { return };
        let path = |name: &str| folder.path().join(name);
        for name in ["shared/link", "shared/dangling", "shared/folder/new"] {
            let error = write(&path(name)).expect_err("refused").to_string();
            assert!(error.contains("link of another user"), "{error}");
        }
        assert_eq!(fs::read(path("own/secret")).expect("a file"), b"secret");
        assert!(!path("own/new").exists());
        // One's own links, and those of the directory's owner, are followed.
        symlink(path("own/new"), path("shared/mine")).expect("a link");
        assert_eq!(write(&path("shared/mine")).expect("written"), 5);
        std::os::unix::fs::chown(path("shared"), Some(65534), None).expect("another owner");
        assert_eq!(write(&path("shared/link")).expect("written"), 5);
        assert_eq!(fs::read(path("own/secret")).expect("a file"), b"facts");
    }

    #[test]
    fn files_are_given_away_before_they_have_their_name_and_old_ones_remain_their_owners() {
        let Some(folder) = shared() else { return };
        let path = folder.path().join("own/out");
        let owner = |path: &Path| fs::metadata(path).expect("a file").uid();
        let mut file = OutputFile::create(&path).expect("a file");
        file.give_to(1234, Some(1234));
        file.finish().expect("written");
        assert_eq!(owner(&path), 1234);
        let mode = fs::Permissions::from_mode(0o640);
        fs::set_permissions(&path, mode).expect("a mode");
        for user in [0, 4321] {
            let mut file = OutputFile::create(&path).expect("a file");
            file.give_to(user, None);
            file.finish().expect("written");
            assert_eq!(owner(&path), 1234);
            assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o7777, 0o640);
        }
    }

    #[test]
    fn files_and_pipes_of_others_are_not_written_where_everybody_may_put_them() {
        let Some(folder) = shared() else { return };
        let path = |name: &str| folder.path().join("shared").join(name);
        fs::write(path("file"), "old").expect("written");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o666),
            0,
        )
        .expect("a pipe");
        for name in ["file", "pipe"] {
            std::os::unix::fs::chown(path(name), Some(65534), None).expect("another owner");
            let error = write(&path(name)).expect_err("refused").to_string();
            assert!(error.contains("a file of another user"), "{error}");
        }
        assert_eq!(fs::read(path("file")).expect("a file"), b"old");
        // In other directories a file of another user is replaced.
        let other = folder.path().join("own/other");
        fs::write(&other, "old").expect("written");
        std::os::unix::fs::chown(&other, Some(65534), None).expect("another owner");
        assert_eq!(write(&other).expect("written"), 5);
        assert_eq!(fs::metadata(&other).expect("a file").uid(), 65534);
    }

    fn place_of(path: &Path) -> FilePlace {
        match find(path).expect("found") {
            Found::File(place) => place,
            found => panic!("{found:?}"),
        }
    }

    #[test]
    fn the_rights_of_the_old_file_come_last_and_without_those_of_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        fs::write(&path, "old").expect("written");
        let rights = |mode: u32| mode & 0o7777;
        for (old, new) in [(0o4777, 0o777), (0o6755, 0o755), (0o640, 0o640)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(old)).expect("a mode");
            let replacement = place_of(&path).replace().expect("a file");
            let meanwhile = replacement.file.metadata().expect("a file").mode();
            assert_eq!(rights(meanwhile), 0o600, "{old:o}");
            replacement.finish().expect("written");
            let mode = fs::metadata(&path).expect("a file").mode();
            assert_eq!(rights(mode), new);
        }
        // The same where files without a name are not to be had.
        let (file, name) = place_of(&path)
            .temporary(Mode::from_raw_mode(0o600))
            .expect("a file");
        assert_eq!(rights(file.metadata().expect("a file").mode()), 0o600);
        assert!(folder.path().join(name).exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_unfinished_file_has_no_name_that_could_be_left_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let count = || fs::read_dir(folder.path()).expect("a folder").count();
        if place_of(&path).unnamed(Mode::RUSR).is_none() {
            let _ = writeln!(
                io::stderr(),
                "skipped: this file system has no files without a name"
            );
            return;
        }
        let mut file = OutputFile::create(&path).expect("a file");
        file.write_all(b"facts").expect("written");
        file.flush().expect("written");
        assert_eq!(count(), 0);
        file.finish().expect("written");
        assert_eq!(
            (count(), fs::read(&path).expect("a file")),
            (1, b"facts".to_vec())
        );
    }

    #[test]
    fn a_directory_that_is_exchanged_meanwhile_gets_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["here", "elsewhere"] {
            fs::create_dir(path(name)).expect("a folder");
        }
        let mut file = OutputFile::create(path("here/out")).expect("a file");
        file.write_all(b"facts").expect("written");
        fs::rename(path("here"), path("moved")).expect("renamed");
        symlink(path("elsewhere"), path("here")).expect("a link");
        file.finish().expect("written");
        assert!(path("moved/out").exists() && !path("elsewhere/out").exists());
        assert_eq!(fs::read_dir(path("moved")).expect("a folder").count(), 1);
    }
}
