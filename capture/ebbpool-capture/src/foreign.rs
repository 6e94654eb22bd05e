//! Files of other processes, whose owners write and replace them as they like.
//!
//! All of them are read here and nowhere else: no open waits for another process or acts on a device, no link leads out of
//! the root directory of the process, only regular files are read, and never more than a limit. A test looks for opens of
//! files elsewhere.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, openat2, readlink};
use rustix::io::Errno;

use crate::kernel::{self, FileHandle};

/// The most bytes of a file that has a few numbers or names.
pub(crate) const SMALL: u64 = 1 << 20;

/// The most bytes of a table of names.
pub(crate) const TABLE: u64 = 1 << 28;

/// The most bytes of a program.
pub(crate) const PROGRAM: u64 = 1 << 30;

/// The most bytes of a text that the kernel makes.
const KERNEL_TEXT: u64 = 1 << 26;

/// The most names of a directory.
const MOST_NAMES: usize = 1 << 20;

/// Bytes of a path (`PATH_MAX`).
const PATH: usize = 4096;

fn refusal(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem.to_owned())
}

/// Opens for reading what a handle stands for, if it is a regular file.
fn open_handle(handle: &OwnedFd) -> io::Result<File> {
    // The handle was opened with O_PATH, which waits for nothing and touches no device.
    let kind = FileType::from_raw_mode(rustix::fs::fstat(handle)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(refusal("it is no regular file"));
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Opens the regular file behind one of the kernel's links, such as `/proc/PID/exe`, or at a path of this process.
pub(crate) fn open_link(path: &str) -> io::Result<File> {
    let handle = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    open_handle(&handle)
}

/// Reads a file to its end; an error if it has more bytes than `most`.
pub(crate) fn read_all(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let stated = file.metadata()?.len();
    if stated > most {
        return Err(refusal("it is too large"));
    }
    let mut bytes = Vec::with_capacity(stated as usize);
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(refusal("it is too large"));
    }
    Ok(bytes)
}

/// The first `N` bytes of the regular file behind one of the kernel's links.
pub(crate) fn head<const N: usize>(path: &str) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    open_link(path)?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A text that the kernel makes of a process, such as `/proc/PID/stat`. Names in it may be no UTF-8.
pub(crate) fn kernel_text(path: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(KERNEL_TEXT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Bytes of this machine's memory.
pub(crate) fn memory_bytes() -> Option<u64> {
    let text = kernel_text("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Reads memory of a process by its file in `/proc`. False if there is no such memory.
pub(crate) fn read_memory(path: &str, address: u64, bytes: &mut [u8]) -> bool {
    use std::os::unix::fs::FileExt;
    let memory = File::open(path);
    memory.is_ok_and(|memory| memory.read_exact_at(bytes, address).is_ok())
}

/// The names in one of the kernel's directories.
pub(crate) fn kernel_names(path: &str) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.take(MOST_NAMES).collect()
}

/// Where one of the kernel's links leads, as text.
pub(crate) fn link_text(path: &str) -> io::Result<String> {
    Ok(fs::read_link(path)?.to_string_lossy().into_owned())
}

/// What identifies the contents of a file: a change of them changes the last part too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    identity: (u64, u64),
    bytes: u64,
    changed: (i64, i64),
}

impl Version {
    fn from_file(file: &File) -> io::Result<Version> {
        let found = file.metadata()?;
        Ok(Version { identity: (found.dev(), found.ino()), bytes: found.len(), changed: (found.ctime(), found.ctime_nsec()) })
    }
}

/// A program's or library's file that is open from the first look at it until the probes are attached, so that the file that
/// was read is the one that is probed.
#[derive(Debug)]
pub(crate) struct ProgramFile {
    file: File,
    version: Version,
}

impl ProgramFile {
    /// The file behind one of the kernel's links. A file system that is itself a program (FUSE) is refused: while the kernel
    /// attaches a probe it may wait for a page of the file, and no process of the machine can start another one meanwhile.
    /// `mounts` is the process's list of file systems.
    pub(crate) fn open(link: &str, mounts: &str) -> io::Result<ProgramFile> {
        ProgramFile::from_file(open_link(link)?, mounts)
    }

    /// A file that is open; refused as above.
    pub(crate) fn from_file(file: File, mounts: &str) -> io::Result<ProgramFile> {
        /// `FUSE_SUPER_MAGIC` and `OVERLAYFS_SUPER_MAGIC`.
        const FUSE: rustix::fs::FsWord = 0x6573_5546;
        const OVERLAY: rustix::fs::FsWord = 0x794c_7630;
        let kind = rustix::fs::fstatfs(&file)?.f_type;
        // An overlay hands the question for a file's places on a disk on to the file system below, and FUSE has no answer.
        // Others, such as tmpfs, have none either: there the overlay must be one that is mounted here, too, by root.
        let may_be_above = kind == OVERLAY && !kernel::has_places_on_disk(&file) && !is_mounted_here(&file, mounts);
        if kind == FUSE || may_be_above {
            let above = match may_be_above {
                true => "an overlay that may be above ",
                false => "",
            };
            return Err(refusal(&format!(
                "it is in {above}a file system that a program serves (FUSE), which could hold up all processes while a probe is attached"
            )));
        }
        let version = Version::from_file(&file)?;
        Ok(ProgramFile { file, version })
    }

    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        read_all(&self.file, PROGRAM)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.version.bytes
    }

    /// True if the file begins as programs and libraries do.
    pub(crate) fn is_elf(&self) -> bool {
        use std::os::unix::fs::FileExt;
        let mut head = [0; 4];
        self.file.read_exact_at(&mut head, 0).is_ok() && head == *b"\x7fELF"
    }

    /// A path by which the kernel finds this open file, wherever it was moved to.
    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    /// True if the file is as it was when it was opened.
    pub(crate) fn is_unchanged(&self) -> bool {
        Version::from_file(&self.file).is_ok_and(|version| version == self.version)
    }

    /// True if the kernel's link leads to this file.
    pub(crate) fn is_behind(&self, link: &str) -> bool {
        let found = fs::metadata(link);
        found.is_ok_and(|found| (found.dev(), found.ino()) == self.version.identity)
    }

    /// Device and number.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.version.identity
    }
}

/// True if the file system of a file of a process, whose list of file systems is `mounts`, is mounted in this process's name space, too:
/// then root has mounted it.
fn is_mounted_here(file: &File, mounts: &str) -> bool {
    let device = |line: &str| line.split(' ').nth(2).map(str::to_owned);
    let find = || {
        let about = kernel_text(&format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
        let number = about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
        let of_number = format!("{} ", number.trim());
        let theirs = kernel_text(mounts).ok()?;
        let line = theirs.lines().find(|line| line.starts_with(&of_number))?;
        let wanted = device(line)?;
        let own = kernel_text("/proc/self/mountinfo").ok()?;
        own.lines().find_map(|line| device(line).filter(|it| *it == wanted))
    };
    find().is_some()
}

/// Device and number of what one of the kernel's links leads to.
pub(crate) fn identity_behind(link: &str) -> Option<(u64, u64)> {
    let found = fs::metadata(link).ok()?;
    Some((found.dev(), found.ino()))
}

/// The file of this program.
pub(crate) fn own_program() -> Option<OwnedFd> {
    rustix::fs::open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// The device of zeros, which is no regular file.
pub(crate) fn zeros() -> Option<OwnedFd> {
    rustix::fs::open("/dev/zero", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// What is known of a regular file without opening it.
#[derive(Debug)]
pub(crate) struct ForeignFile {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    pub(crate) handle: Option<FileHandle>,
    /// True on file systems of which the kernel's own device differs from the stated one: Btrfs, overlays.
    pub(crate) has_two_devices: bool,
}

/// The regular file behind the kernel's link to it.
pub(crate) fn regular_behind(link: &str) -> Option<ForeignFile> {
    const TWO_DEVICES: [u32; 2] = [0x9123_683e, 0x794c_7630];
    let file = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let found = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return None;
    }
    let file_system = rustix::fs::fstatfs(&file).ok()?.f_type as u32;
    Some(ForeignFile {
        device: found.st_dev,
        inode: found.st_ino,
        bytes: u64::try_from(found.st_size).unwrap_or(0),
        handle: FileHandle::of(&file),
        has_two_devices: TWO_DEVICES.contains(&file_system),
    })
}

/// A directory of a process. Links below it lead where they lead for the process, which may be in a container.
#[derive(Debug)]
pub(crate) struct ForeignDirectory {
    directory: OwnedFd,
    root: OwnedFd,
    /// The path of the directory from the root.
    path: String,
    /// The path of the root, for this process.
    above: String,
}

/// What is left of a path below a directory; all of it if it is not below.
fn below<'a>(above: &str, path: &'a str) -> &'a str {
    let below = path.strip_prefix(above.trim_end_matches('/'));
    let below = below.filter(|below| below.is_empty() || below.starts_with('/'));
    below.unwrap_or(path)
}

impl ForeignDirectory {
    /// The directory behind `link` in a process whose root directory is behind `root`; both are the kernel's links.
    pub(crate) fn open(link: &str, root: &str) -> io::Result<ForeignDirectory> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let target = |link: &str| {
            let target = readlink(link, Vec::with_capacity(PATH)).ok()?;
            target.into_string().ok()
        };
        let path = target(link).unwrap_or_else(|| link.to_owned());
        // The kernel says where the directory is for this process, from whose root that of the other one may be a directory.
        let above = target(root).unwrap_or_default();
        Ok(ForeignDirectory {
            directory: rustix::fs::open(link, flags, Mode::empty())?,
            root: rustix::fs::open(root, flags, Mode::empty())?,
            path: below(&above, &path).to_owned(),
            above,
        })
    }

    /// The path from the process's root of what the kernel calls by a path of this process.
    pub(crate) fn below<'a>(&self, path: &'a str) -> &'a str {
        below(&self.above, path)
    }

    /// A directory of this process.
    pub(crate) fn own(path: &Path) -> io::Result<ForeignDirectory> {
        let path = fs::canonicalize(path)?;
        ForeignDirectory::open(&path.to_string_lossy(), "/")
    }

    fn handle(&self, path: &str, more: OFlags) -> io::Result<OwnedFd> {
        const TRIALS: usize = 8;
        let flags = more | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let flags = match more.contains(OFlags::PATH) {
            true => more | OFlags::CLOEXEC,
            false => flags,
        };
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let in_root = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let mut tried = 0;
        loop {
            let found = match openat2(&self.directory, path, flags, Mode::empty(), within) {
                // A link leads out of the directory.
                Err(Errno::XDEV) => {
                    let path = format!("{}/{path}", self.path);
                    openat2(&self.root, path, flags, Mode::empty(), in_root)
                }
                found => found,
            };
            tried += 1;
            match found {
                // Something was renamed meanwhile.
                Err(Errno::AGAIN) if tried < TRIALS => {}
                found => return Ok(found?),
            }
        }
    }

    /// Opens a regular file.
    pub(crate) fn file(&self, path: &str) -> io::Result<File> {
        open_handle(&self.handle(path, OFlags::PATH)?)
    }

    /// Reads a regular file of at most that many bytes.
    pub(crate) fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        read_all(&self.file(path)?, most)
    }

    /// The size of a regular file.
    pub(crate) fn bytes(&self, path: &str) -> Option<u64> {
        let handle = self.handle(path, OFlags::PATH).ok()?;
        let found = rustix::fs::fstat(handle).ok()?;
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        is_file.then_some(found.st_size as u64)
    }

    /// The names in a directory below; "." for this one.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let opened = self.handle(path, OFlags::RDONLY | OFlags::DIRECTORY);
        let Some(entries) = opened.ok().and_then(|opened| Dir::new(opened).ok()) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| {
            let name = entry.ok()?.file_name().to_str().ok()?.to_owned();
            (name != "." && name != "..").then_some(name)
        });
        names.take(MOST_NAMES).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Instant;

    use super::*;

    fn fifo(path: &Path) {
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO");
    }

    #[test]
    fn only_regular_files_are_read_and_none_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("plain"), "text").expect("written");
        fifo(&path("fifo"));
        symlink("/dev/zero", path("endless")).expect("a link");
        symlink("plain", path("link")).expect("a link");
        let started = Instant::now();
        let directory = ForeignDirectory::own(folder.path()).expect("a directory");
        assert_eq!(directory.read("plain", 4).expect("a file"), b"text");
        assert_eq!(directory.read("link", 4).expect("a file"), b"text");
        assert!(directory.read("plain", 3).is_err());
        for name in ["fifo", "endless", ".", "missing"] {
            assert!(directory.read(name, SMALL).is_err(), "{name}");
            assert_eq!(directory.bytes(name), None, "{name}");
        }
        for name in ["fifo", "endless"] {
            assert!(open_link(&path(name).to_string_lossy()).is_err(), "{name}");
        }
        assert!(started.elapsed().as_secs() < 5);
        let mut names = directory.names(".");
        names.sort();
        assert_eq!(names, ["endless", "fifo", "link", "plain"]);
    }

    #[test]
    fn links_lead_where_they_lead_for_the_process() {
        let root = tempfile::tempdir().expect("a root");
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("srv/data")).expect("a folder");
        fs::create_dir(path("elsewhere")).expect("a folder");
        fs::write(path("elsewhere/file"), "inside").expect("written");
        symlink("/elsewhere", path("srv/data/absolute")).expect("a link");
        symlink("../../elsewhere", path("srv/data/relative")).expect("a link");
        symlink("../../../../../../../etc/passwd", path("srv/data/above")).expect("a link");
        let directory = ForeignDirectory {
            path: "/srv/data".into(),
            ..ForeignDirectory::open(&path("srv/data").to_string_lossy(), &root.path().to_string_lossy()).expect("a directory")
        };
        for link in ["absolute", "relative"] {
            let read = directory.read(&format!("{link}/file"), SMALL);
            assert_eq!(read.expect("a file"), b"inside", "{link}");
            assert_eq!(directory.names(link), ["file"]);
        }
        assert!(directory.read("above", SMALL).is_err());
        // As the kernel's links of a process in a root directory of its own (chroot) are for a process outside.
        let links = tempfile::tempdir().expect("a folder");
        let link = |name: &str| links.path().join(name).to_string_lossy().into_owned();
        symlink(path("srv/data"), link("cwd")).expect("a link");
        symlink(root.path(), link("root")).expect("a link");
        let directory = ForeignDirectory::open(&link("cwd"), &link("root")).expect("a directory");
        let read = directory.read("absolute/file", SMALL);
        assert_eq!(read.expect("a file"), b"inside");
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn a_file_that_was_replaced_or_changed_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        fs::write(&path, "one").expect("written");
        let link = path.to_string_lossy();
        let file = ProgramFile::open(&link, "/proc/self/mountinfo").expect("a file");
        assert!(file.is_unchanged() && file.is_behind(&link));
        assert_eq!(file.read().expect("bytes"), b"one");
        fs::write(folder.path().join("other"), "other").expect("written");
        fs::rename(folder.path().join("other"), &path).expect("renamed");
        assert!(!file.is_behind(&link));
        assert_eq!(fs::read(file.path()).expect("bytes"), b"one");
        let file = ProgramFile::open(&link, "/proc/self/mountinfo").expect("a file");
        fs::write(&path, "another text").expect("written");
        assert!(file.is_behind(&link) && !file.is_unchanged());
    }

    /// Opens and reads by path that are not in this file must be of the kernel's own files, or of those that the caller names.
    #[test]
    fn no_other_file_of_this_crate_opens_files() {
        const OPENS: [&str; 9] = [
            "File::open", "OpenOptions", "fs::read(", "fs::read_to_string(", "fs::read_dir(", "fs::metadata(",
            "fs::symlink_metadata(", "fs::canonicalize(", "libc::open",
        ];
        /// They read `/sys`, the kernel's counters, and a device that the caller names.
        const OWN: [&str; 5] = ["foreign.rs", "kernel.rs", "btf.rs", "written.rs", "device.rs"];
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let mut looked_at = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                if OWN.contains(&name.as_str()) {
                    continue;
                }
                let text = fs::read_to_string(&path).expect("a source");
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
                let code = code.replace("ProgramFile::open", "");
                for open in OPENS {
                    assert!(!code.contains(open), "{path:?} has {open}; use foreign.rs");
                }
                looked_at += 1;
            }
        }
        assert!(looked_at > 20, "{looked_at}");
    }
}
