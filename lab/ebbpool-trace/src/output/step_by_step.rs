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
            false => rustix::fs::openat(&self.directory, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?,
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

/// True if this user, or the one who called by sudo, is the owner.
fn is_own(owner: u32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    [own, super::caller().map_or(own, |(user, _)| user)].contains(&owner)
}

/// Refuses what another user has put into a directory where everybody may put files.
fn check_owner(directory: &Stat, found: &Stat) -> io::Result<()> {
    let shared = Mode::SVTX | Mode::WOTH;
    let is_shared = Mode::from_raw_mode(directory.st_mode).contains(shared);
    let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
    if !is_shared || is_own(found.st_uid) || found.st_uid == directory.st_uid {
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
    let mut walk =
        Walk { directory: rustix::fs::open(".", DIRECTORY, Mode::empty())?, at_root: false, names: names_of(path), links: 0 };
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
        FilePlace { directory: self.directory, name, stat: stat.map(Box::new) }
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
            (Ok(a), Ok(b)) => (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) && self.name == other.name,
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

    /// Starts a file that will replace the one here; if `is_private`, no user may read it who is not the owner of both.
    pub(super) fn replace(self, is_private: bool) -> io::Result<Replacement> {
        // Renaming over a file needs no permission to write it. A user expects that a write-protected file is not replaced.
        let old = match &self.stat {
            Some(_) => Some(OldFile::from_file(&self.open()?)?),
            None => None,
        };
        if let Some(old) = old.as_ref().filter(|old| is_private && old.owner != 0 && !is_own(old.owner)) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("it belongs to user {}, who could read it; remove it, or choose another name", old.owner),
            ));
        }
        // While this process owns it, no other user may open it: with the rights of the old file its owner could write to it,
        // and a set-user-ID program of this user could come of that. The system applies the umask to a new file's rights.
        let mode = Mode::from_raw_mode(if is_private || old.is_some() { 0o600 } else { 0o666 });
        let (file, temporary) = match self.unnamed(mode) {
            Some(file) => (file, None),
            None => {
                let (file, name) = self.temporary(mode)?;
                (file, Some(name))
            }
        };
        Ok(Replacement { file, temporary, owner: None, old, place: self })
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

    /// Gives an unnamed file its name, or one beside if something has that name. Then the result is the name that is still to be
    /// moved, which a process that is killed in between leaves there.
    fn give_name(&self, file: &File) -> io::Result<Option<OsString>> {
        let from = path_of(file);
        let link = |name: &OsStr| {
            let flags = AtFlags::SYMLINK_FOLLOW;
            rustix::fs::linkat(rustix::fs::CWD, &from, &self.directory, name, flags)
        };
        match link(&self.name) {
            Ok(()) => Ok(None),
            Err(Errno::EXIST) => Ok(Some(self.beside(link)?.1)),
            Err(error) => Err(error.into()),
        }
    }

    /// A new file beside, and its name.
    fn temporary(&self, mode: Mode) -> io::Result<(File, OsString)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
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
    /// The user and group that get a new file.
    owner: Option<(u32, Option<u32>)>,
    old: Option<OldFile>,
    place: FilePlace,
}

/// What a new file takes from the one that it replaces.
#[derive(Debug)]
struct OldFile {
    owner: u32,
    group: u32,
    rights: u32,
    /// Rights of single users and groups (an ACL), as the system stores them.
    list: Option<Vec<u8>>,
}

/// Where Linux has a file's ACL.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LIST: &str = "system.posix_acl_access";

impl OldFile {
    fn from_file(file: &File) -> io::Result<OldFile> {
        let stat = rustix::fs::fstat(file)?;
        Ok(OldFile { owner: stat.st_uid, group: stat.st_gid, rights: stat.st_mode & RIGHTS, list: list_of(file)? })
    }

    /// Gives owner, group and rights to the file that replaces this one. No user gets a right that the old file has not given: where
    /// the group cannot be set, the group that the file has gets none.
    fn hand_over(&self, file: &File) -> io::Result<()> {
        const OF_GROUP: u32 = 0o070;
        let (owner, group) = (Uid::from_raw(self.owner), Gid::from_raw(self.group));
        // Only root gives files away; others keep what they write, and may give it to a group of theirs.
        if rustix::fs::fchown(file, Some(owner), Some(group)).is_err() {
            let _ = rustix::fs::fchown(file, None, Some(group));
        }
        let has_group = rustix::fs::fstat(file)?.st_gid == self.group;
        let has_list = set_list(file, self.list.as_deref().filter(|_| has_group))?;
        let rights = match has_group && (has_list || self.list.is_none()) {
            true => self.rights,
            // With an ACL these are the most that its users have, and not the rights of the group.
            false => self.rights & !OF_GROUP,
        };
        Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(rights))?)
    }
}

/// The ACL of a file, if it has one.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn list_of(file: &File) -> io::Result<Option<Vec<u8>>> {
    // The most bytes of an attribute (`XATTR_SIZE_MAX`).
    let mut list = vec![0; 1 << 16];
    match rustix::fs::fgetxattr(file, LIST, list.as_mut_slice()) {
        Ok(length) => {
            list.truncate(length);
            Ok(Some(list))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sets the ACL of a file, or removes the one that it has got from its directory. False if it has none afterwards.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn set_list(file: &File, list: Option<&[u8]>) -> io::Result<bool> {
    let flags = rustix::fs::XattrFlags::empty();
    if let Some(list) = list
        && rustix::fs::fsetxattr(file, LIST, list, flags).is_ok()
    {
        return Ok(true);
    }
    match rustix::fs::fremovexattr(file, LIST) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn list_of(_file: &File) -> io::Result<Option<Vec<u8>>> {
    Ok(None)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn set_list(_file: &File, _list: Option<&[u8]>) -> io::Result<bool> {
    Ok(false)
}

impl Replacement {
    pub(super) fn give_to(&mut self, user: u32, group: Option<u32>) {
        if self.old.is_none() {
            self.owner = Some((user, group));
        }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some((user, group)) = self.owner {
            let group = group.map(Gid::from_raw);
            // Only root gives files away; others keep what they write.
            let _ = rustix::fs::fchown(&self.file, Some(Uid::from_raw(user)), group);
        }
        if let Some(old) = &self.old {
            old.hand_over(&self.file)?;
        }
        self.file.sync_all()?;
        if self.temporary.is_none() {
            self.temporary = self.place.give_name(&self.file)?;
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
            let _ = writeln!(io::stderr(), "skipped: making files of other users needs root");
            return None;
        }
        fs::create_dir(path("own")).expect("a folder");
        fs::create_dir(path("shared")).expect("a folder");
        let mode = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(path("shared"), mode).expect("a mode");
        fs::write(path("own/secret"), "secret").expect("written");
        for (name, target) in [("link", "own/secret"), ("dangling", "own/new"), ("folder", "own")] {
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
    fn what_not_every_user_may_know_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let mode = |path: &Path| fs::metadata(path).expect("a file").mode() & 0o7777;
        let write = || OutputFile::create_private(&path)?.finish();
        write().expect("written");
        assert_eq!(mode(&path), 0o600);
        // Who has given others rights before keeps them.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
        write().expect("written");
        assert_eq!(mode(&path), 0o640);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), None).expect("another owner");
            let error = write().expect_err("refused").to_string();
            assert!(error.contains("belongs to user 65534, who could read it; remove it"), "{error}");
        }
        // The same where files without a name are not to be had.
        let other = place_of(&folder.path().join("other"));
        let replacement = other.replace(true).expect("a file");
        assert_eq!(replacement.file.metadata().expect("a file").mode() & 0o7777, 0o600);
    }

    #[test]
    fn files_and_pipes_of_others_are_not_written_where_everybody_may_put_them() {
        let Some(folder) = shared() else { return };
        let path = |name: &str| folder.path().join("shared").join(name);
        fs::write(path("file"), "old").expect("written");
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a pipe");
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

    /// An ACL as the system stores it: of each entry the kind, the rights, and the user.
    #[cfg(target_os = "linux")]
    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut list = 2u32.to_le_bytes().to_vec();
        for (kind, rights, user) in entries {
            list.extend(kind.to_le_bytes());
            list.extend(rights.to_le_bytes());
            list.extend(user.to_le_bytes());
        }
        list
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_is_replaced_gives_no_user_more_rights() {
        const UNUSED: u32 = u32::MAX;
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let set =
            |path: &Path, name: &str, list: &[u8]| rustix::fs::setxattr(path, name, list, rustix::fs::XattrFlags::empty());
        let get = |path: &Path| {
            let file = File::open(path).expect("a file");
            list_of(&file).expect("an attribute")
        };
        // The owner and one user may read and write, the group and others nothing.
        let some = list(&[(1, 6, UNUSED), (2, 6, 4321), (4, 0, UNUSED), (16, 6, UNUSED), (32, 0, UNUSED)]);
        fs::write(path("listed"), "old").expect("written");
        if set(&path("listed"), LIST, &some).is_err() {
            let _ = writeln!(io::stderr(), "skipped: this file system has no ACLs");
            return;
        }
        write(&path("listed")).expect("written");
        assert_eq!(get(&path("listed")), Some(some));
        // Of a directory that gives its new files an ACL, an old file may have none.
        fs::write(path("plain"), "old").expect("written");
        let mode = fs::Permissions::from_mode(0o640);
        fs::set_permissions(path("plain"), mode).expect("a mode");
        let usual = list(&[(1, 7, UNUSED), (2, 7, 4321), (4, 5, UNUSED), (16, 7, UNUSED), (32, 0, UNUSED)]);
        set(folder.path(), "system.posix_acl_default", &usual).expect("an attribute");
        write(&path("plain")).expect("written");
        assert_eq!(get(&path("plain")), None);
        let mode = fs::metadata(path("plain")).expect("a file").mode();
        assert_eq!(mode & 0o7777, 0o640);
        write(&path("new")).expect("written");
        assert!(get(&path("new")).is_some());
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
            let replacement = place_of(&path).replace(false).expect("a file");
            let meanwhile = replacement.file.metadata().expect("a file").mode();
            assert_eq!(rights(meanwhile), 0o600, "{old:o}");
            replacement.finish().expect("written");
            let mode = fs::metadata(&path).expect("a file").mode();
            assert_eq!(rights(mode), new);
        }
        // The same where files without a name are not to be had.
        let (file, name) = place_of(&path).temporary(Mode::from_raw_mode(0o600)).expect("a file");
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
            let _ = writeln!(io::stderr(), "skipped: this file system has no files without a name");
            return;
        }
        let mut file = OutputFile::create(&path).expect("a file");
        file.write_all(b"facts").expect("written");
        file.flush().expect("written");
        assert_eq!(count(), 0);
        file.finish().expect("written");
        assert_eq!((count(), fs::read(&path).expect("a file")), (1, b"facts".to_vec()));
    }

    /// The names that come to be in a directory while `work` runs, in order.
    #[cfg(target_os = "linux")]
    fn names_during(folder: &Path, work: impl FnOnce()) -> Vec<String> {
        use rustix::fs::inotify;
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let watch = inotify::init(flags).expect("a watch");
        let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&watch, folder, events).expect("a watch");
        work();
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(watch, &mut buffer);
        let mut names = Vec::new();
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| name.to_string_lossy());
            names.extend(name.map(std::borrow::Cow::into_owned));
        }
        names
    }

    /// Else a process that is killed in between would leave another name.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_new_file_has_no_other_name_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        if place_of(&path).unnamed(Mode::RUSR).is_none() {
            let _ = writeln!(io::stderr(), "skipped: this file system has no files without a name");
            return;
        }
        let write = || assert_eq!(write(&path).expect("written"), 5);
        assert_eq!(names_during(folder.path(), write), ["out"]);
        // A file that is there can only be replaced by one with a name.
        let names = names_during(folder.path(), write);
        assert!(names.len() == 2 && names[1] == "out", "{names:?}");
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
