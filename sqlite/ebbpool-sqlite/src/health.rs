//! How the databases of this process are, for `ebbpool sqlite status` and its like in other processes.
//!
//! A process that owns databases has a file in memory, whose descriptor other processes of the user find in `/proc`: so
//! nothing is written to the card, no network is needed, and what is said ends with the process. Each [`HealthEntry`] is one
//! database; [`HealthEntry::publish`] replaces what is said of it, and dropping the entry withdraws it. The calls take a lock
//! of this module for microseconds, do no I/O, and never fail: where the system has no such files, nothing is published.
//!
//! The file is mapped, so that a program that closes descriptors it does not know (as daemons do) makes this module write
//! into none of its own files. It begins with a header of 24 bytes, all numbers little-endian: `ebbhlth1`, the bytes of the
//! document, and its checksum. A reader that finds another checksum reads again. The document is JSON, and has the number of
//! the process: a child of `fork()` inherits the descriptor, and says nothing with it.

use serde::{Deserialize, Serialize};

use crate::options::LogKind;

/// The name of the file in memory.
pub(crate) const NAME: &std::ffi::CStr = c"ebbpool-sqlite";
/// Bytes of the file: a hundred databases.
pub(crate) const BYTES: usize = 1 << 16;
/// Bytes of the header of the file in memory.
pub(crate) const HEADER: usize = 24;
const MAGIC: &[u8; 8] = b"ebbhlth1";
/// Bytes of a text for people that are published.
const MOST_TEXT: usize = 1000;

/// What a process says about a database that it has open. Times are in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatabaseHealth {
    /// The path of the file when it was opened.
    pub path: String,
    /// The number of the device that the file is on.
    pub device: u64,
    /// The number of the file's inode on its device.
    pub inode: u64,
    /// Where epochs go.
    pub log: LogKind,
    /// Seconds of commits that a power cut may take.
    pub window_seconds: f64,
    /// False if the last epoch, or the checkpoint after it, failed. True before the first one.
    pub last_epoch_succeeded: bool,
    /// When the last epoch succeeded; `None` before the first one.
    pub last_epoch: Option<u64>,
    /// The last error of an epoch, a checkpoint or a close, also if it was overcome since.
    pub last_error: Option<HealthNote>,
    /// Commits that are in memory only.
    pub unsaved_commits: u64,
    /// Bytes of the pages that these commits changed.
    pub unsaved_bytes: u64,
    /// When the oldest of them was made.
    pub oldest_unsaved: Option<u64>,
    /// Why SQLite's own VFS serves the database; `None` if this library does.
    pub passed: Option<String>,
    /// The last transaction or opening that was refused.
    pub last_refusal: Option<HealthNote>,
}

/// Something that happened to a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthNote {
    /// When, in milliseconds since 1970.
    pub time: u64,
    /// A text for people.
    pub text: String,
}

impl HealthNote {
    /// A text for people about this moment.
    pub(crate) fn now(text: String) -> HealthNote {
        let time = crate::store::now_in_milliseconds();
        HealthNote { time, text }
    }
}

/// What a process says.
#[derive(Serialize, Deserialize)]
pub(crate) struct HealthDocument {
    /// The version of the library.
    pub(crate) version: String,
    /// The process, as it sees its own number.
    pub(crate) process: u32,
    pub(crate) databases: Vec<DatabaseHealth>,
    /// Databases for which the file has no room.
    pub(crate) left_out: u64,
}

/// A document with its header.
pub(crate) fn sealed(document: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&(document.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(document).to_le_bytes());
    bytes.extend_from_slice(document);
    bytes
}

/// The document in the bytes of a file; `None` if they are none, or a part of it was replaced while they were read.
pub(crate) fn unsealed(bytes: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    let length = usize::try_from(number(8)?).ok()?;
    let document = bytes.get(HEADER..)?.get(..length)?;
    (xxhash_rust::xxh3::xxh3_64(document) == number(16)?).then_some(document)
}

impl DatabaseHealth {
    /// Its JSON, in which texts are cut off so that it has a bounded length.
    fn to_json(&self) -> String {
        let mut short = self.clone();
        let notes = [&mut short.last_error, &mut short.last_refusal];
        let notes = notes.into_iter().flatten().map(|note| &mut note.text);
        for text in notes.chain(&mut short.passed) {
            text.truncate(text.floor_char_boundary(MOST_TEXT));
        }
        serde_json::to_string(&short).unwrap_or_default()
    }
}

#[cfg(target_os = "linux")]
pub(crate) use board::HealthEntry;

/// Other systems have no place where a process could say something of this kind.
#[cfg(not(target_os = "linux"))]
pub(crate) struct HealthEntry;

#[cfg(not(target_os = "linux"))]
impl HealthEntry {
    pub(crate) fn new() -> HealthEntry {
        HealthEntry
    }

    pub(crate) fn publish(&self, _health: &DatabaseHealth) {}
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod board {
    use std::collections::BTreeMap;
    use std::ffi::c_int;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    use crate::sync::lock;

    use super::{BYTES, DatabaseHealth, HEADER, NAME, sealed};

    /// A database among those of which this process says how they are.
    pub(crate) struct HealthEntry {
        number: u64,
        process: u32,
    }

    impl HealthEntry {
        /// An entry of which nothing is said yet.
        pub(crate) fn new() -> HealthEntry {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            HealthEntry { number: NEXT.fetch_add(1, Ordering::Relaxed), process: std::process::id() }
        }

        /// Says how the database is, in place of what was said before. In a child of `fork()` that has inherited the entry
        /// nothing is said.
        pub(crate) fn publish(&self, health: &DatabaseHealth) {
            if self.process == std::process::id() {
                let json = health.to_json();
                let mut board = lock(board());
                board.entries.insert(self.number, json);
                board.write();
            }
        }
    }

    impl Drop for HealthEntry {
        fn drop(&mut self) {
            if self.process == std::process::id() {
                let mut board = lock(board());
                if board.entries.remove(&self.number).is_some() {
                    board.write();
                }
            }
        }
    }

    /// What this process says.
    #[derive(Default)]
    struct Board {
        /// The JSON of each entry.
        entries: BTreeMap<u64, String>,
        file: Option<MappedFile>,
    }

    struct OfProcess {
        process: u32,
        board: Mutex<Board>,
    }

    static BOARD: AtomicPtr<OfProcess> = AtomicPtr::new(std::ptr::null_mut());

    /// The board of this process. A child of `fork()` gets another one: its parent's may be locked by a thread that the child
    /// does not have.
    fn board() -> &'static Mutex<Board> {
        let process = std::process::id();
        let known = BOARD.load(Ordering::Acquire);
        // SAFETY: what is not null was leaked below.
        if let Some(known) = unsafe { known.as_ref() }.filter(|it| it.process == process) {
            return &known.board;
        }
        let own = Box::into_raw(Box::new(OfProcess { process, board: Mutex::default() }));
        match BOARD.compare_exchange(known, own, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was leaked here, or by the thread of this process that was first.
            Ok(_) => unsafe { &(*own).board },
            Err(first) => {
                // SAFETY: no other thread has seen `own`; `first` was leaked.
                unsafe {
                    drop(Box::from_raw(own));
                    &(*first).board
                }
            }
        }
    }

    impl Board {
        /// Writes what the process says into its file; closes the file where nothing is left to say.
        fn write(&mut self) {
            if self.entries.is_empty() {
                self.file = None;
                return;
            }
            if self.file.as_ref().is_none_or(|file| !file.is_open()) {
                self.file = MappedFile::create();
            }
            let bytes = sealed(self.document().as_bytes());
            if let Some(file) = &mut self.file {
                file.write(&bytes);
            }
        }

        /// The document, with as many entries as the file has room for.
        fn document(&self) -> String {
            let begin =
                format!("{{\"version\":\"{}\",\"process\":{},\"databases\":[", env!("CARGO_PKG_VERSION"), std::process::id());
            // What follows the entries has fewer than 64 bytes.
            let room = BYTES - HEADER - begin.len() - 64;
            let mut text = begin;
            let (mut used, mut written) = (0, 0);
            for json in self.entries.values() {
                used += json.len() + 1;
                if used > room {
                    break;
                }
                if written > 0 {
                    text.push(',');
                }
                text += json;
                written += 1;
            }
            let left_out = self.entries.len() - written;
            text + &format!("],\"left_out\":{left_out}}}")
        }
    }

    /// The file in memory.
    struct MappedFile {
        descriptor: c_int,
        inode: u64,
        bytes: *mut u8,
    }

    // SAFETY: the mapping belongs to the value, which is used under the board's lock.
    unsafe impl Send for MappedFile {}

    impl MappedFile {
        /// A new file; `None` where the system has none.
        fn create() -> Option<MappedFile> {
            // SAFETY: plain system calls on a descriptor that this function has made; the mapping has the file's length, which
            // is allocated and sealed, so that no access to it fails.
            unsafe {
                let descriptor = descriptor()?;
                let inode = inode_of(descriptor);
                let allocated = libc::fallocate(descriptor, 0, 0, BYTES as libc::off_t) == 0;
                let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
                let mapped = match (allocated, inode) {
                    (true, Some(_)) => {
                        let null = std::ptr::null_mut();
                        libc::mmap(null, BYTES, read_write, shared, descriptor, 0)
                    }
                    _ => libc::MAP_FAILED,
                };
                if mapped == libc::MAP_FAILED {
                    libc::close(descriptor);
                    return None;
                }
                // The mapping stays writable; a system that does not know one of the seals takes none.
                let length = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
                let all = length | libc::F_SEAL_FUTURE_WRITE;
                if libc::fcntl(descriptor, libc::F_ADD_SEALS, all) != 0 {
                    libc::fcntl(descriptor, libc::F_ADD_SEALS, length);
                }
                Some(MappedFile { descriptor, inode: inode?, bytes: mapped.cast() })
            }
        }

        /// True if other processes can find the file: the program has not closed its descriptor.
        fn is_open(&self) -> bool {
            // SAFETY: any number may be asked about.
            unsafe { inode_of(self.descriptor) == Some(self.inode) }
        }

        fn write(&mut self, bytes: &[u8]) {
            let count = bytes.len().min(BYTES);
            // SAFETY: the mapping has `BYTES` bytes, and no reference to it exists; readers are other processes.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes, count) };
        }
    }

    impl Drop for MappedFile {
        fn drop(&mut self) {
            // SAFETY: the mapping is this value's. The descriptor is closed only if it is still that of the file.
            unsafe {
                libc::munmap(self.bytes.cast(), BYTES);
                if self.is_open() {
                    libc::close(self.descriptor);
                }
            }
        }
    }

    /// A descriptor of a new file in memory, none of the three that programs print to.
    ///
    /// # Safety
    ///
    /// None is needed; it calls the system.
    unsafe fn descriptor() -> Option<c_int> {
        let usual = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name ends with a zero, and the descriptors are those that the calls return.
        unsafe {
            // Linux before 6.3 does not know the first form, and later ones complain about the second.
            let mut descriptor = libc::memfd_create(NAME.as_ptr(), usual | libc::MFD_NOEXEC_SEAL);
            if descriptor < 0 {
                descriptor = libc::memfd_create(NAME.as_ptr(), usual);
            }
            if (0..=2).contains(&descriptor) {
                let other = libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3);
                libc::close(descriptor);
                descriptor = other;
            }
            (descriptor >= 0).then_some(descriptor)
        }
    }

    /// The inode of a descriptor's file; `None` if the descriptor is closed.
    ///
    /// # Safety
    ///
    /// None is needed; any number may be asked about.
    unsafe fn inode_of(descriptor: c_int) -> Option<u64> {
        // SAFETY: all zeros are a value of the structure, which lives until the call returns.
        unsafe {
            let mut status: libc::stat = std::mem::zeroed();
            (libc::fstat(descriptor, &mut status) == 0).then_some(status.st_ino as u64)
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) struct HealthEntry;

#[cfg(not(target_os = "linux"))]
impl HealthEntry {
    /// An entry of which nothing is said: this system has no files in memory that others find.
    pub(crate) fn new() -> HealthEntry {
        HealthEntry
    }

    /// Says nothing.
    pub(crate) fn publish(&self, _health: &DatabaseHealth) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(unsafe_code)]

    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::inspect::{inspect, published_health};

    /// Names the database of a child, which runs the part of this program below.
    const DATABASE: &str = "EBBPOOL_TEST_HEALTH";

    fn health(path: &Path, number: u64) -> DatabaseHealth {
        let metadata = std::fs::metadata(path).unwrap();
        DatabaseHealth {
            path: path.display().to_string(),
            device: metadata.dev(),
            inode: metadata.ino(),
            window_seconds: 30.0,
            last_epoch_succeeded: number.is_multiple_of(2),
            unsaved_commits: number,
            ..DatabaseHealth::default()
        }
    }

    /// What a child does: it locks the database as the library does, and publishes what its standard input asks for.
    #[test]
    fn part() {
        let Some(path) = std::env::var_os(DATABASE).map(PathBuf::from) else {
            return;
        };
        let file = crate::inspect::open_locked(&path).unwrap();
        let entry = HealthEntry::new();
        let mut others = Vec::new();
        entry.publish(&health(&path, 0));
        println!("ready {}", std::process::id());
        for line in std::io::stdin().lines() {
            match line.unwrap().split_once(' ').unwrap() {
                ("publish", number) => entry.publish(&health(&path, number.parse().unwrap())),
                ("many", count) => {
                    for _ in 0..count.parse().unwrap() {
                        let other = HealthEntry::new();
                        other.publish(&DatabaseHealth {
                            path: "x".repeat(500),
                            passed: Some("\u{e9}".repeat(1000)),
                            ..DatabaseHealth::default()
                        });
                        others.push(other);
                    }
                }
                ("quickly", count) => {
                    for number in 0..count.parse().unwrap() {
                        entry.publish(&health(&path, number));
                    }
                }
                // SAFETY: a child of a process with other threads may call these functions.
                ("fork", _) => match unsafe { libc::fork() } {
                    0 => {
                        let own = HealthEntry::new();
                        own.publish(&DatabaseHealth::default());
                        // SAFETY: as above.
                        unsafe {
                            libc::pause();
                            libc::_exit(0)
                        }
                    }
                    child => println!("forked {child}"),
                },
                ("close", "all") => {
                    for descriptor in (3..100).filter(|it| *it != file.as_raw_fd()) {
                        // SAFETY: a daemon does this.
                        unsafe { libc::close(descriptor) };
                    }
                    entry.publish(&health(&path, 8));
                }
                ("withdraw", _) => others.clear(),
                (other, _) => panic!("{other}"),
            }
            println!("done");
        }
    }

    struct Owner {
        child: Child,
        out: BufReader<std::process::ChildStdout>,
    }

    impl Owner {
        fn start(path: &Path) -> Owner {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "health::tests::part", "--nocapture"])
                .env(DATABASE, path)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            let mut owner = Owner { child, out };
            owner.line("ready");
            owner
        }

        /// The next line that begins with a word.
        fn line(&mut self, word: &str) -> String {
            loop {
                let mut line = String::new();
                assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "no {word}");
                if let Some(at) = line.find(word) {
                    return line[at + word.len()..].trim().to_owned();
                }
            }
        }

        fn ask(&mut self, line: &str) {
            let input = self.child.stdin.as_mut().unwrap();
            writeln!(input, "{line}").unwrap();
        }

        fn kill(&mut self) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            self.kill();
        }
    }

    fn database() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        std::fs::write(&path, [0; 100]).unwrap();
        (directory, path)
    }

    #[test]
    fn another_process_reads_what_the_owner_says() {
        let (_directory, path) = database();
        assert_eq!(published_health(&path).unwrap(), None);
        let mut owner = Owner::start(&path);
        for number in [3, 4] {
            owner.ask(&format!("publish {number}"));
            owner.line("done");
            let found = inspect(&path).unwrap();
            let says = found.health.unwrap();
            assert_eq!(says.process, owner.child.id());
            assert_eq!(says.version, env!("CARGO_PKG_VERSION"));
            assert_eq!(says.database, health(&path, number));
            // The lock is of an open file description, of which the system does not name the process.
            let lock = found.lock.unwrap();
            assert_eq!((lock.process, lock.is_exclusive), (Some(says.process), true));
        }
        // Readers see whole documents while the owner writes as fast as it can.
        owner.ask("quickly 100000");
        for _ in 0..200 {
            let says = published_health(&path).unwrap().unwrap().database;
            assert_eq!(says, health(&path, says.unsaved_commits));
        }
        owner.line("done");
        owner.kill();
        let found = inspect(&path).unwrap();
        assert_eq!((found.lock, found.health), (None, None));
    }

    #[test]
    fn a_child_of_fork_does_not_speak_for_its_parent() {
        let (_directory, path) = database();
        let mut owner = Owner::start(&path);
        owner.ask("fork 1");
        let child: i32 = owner.line("forked").parse().unwrap();
        owner.line("done");
        owner.ask("publish 6");
        owner.line("done");
        let found = inspect(&path).unwrap();
        let says = found.health.unwrap();
        assert_eq!(says.process, owner.child.id());
        assert_eq!(found.lock.unwrap().process, Some(owner.child.id()));
        owner.kill();
        // The child still has its parent's lock, and has a descriptor of what it said.
        let found = inspect(&path).unwrap();
        // SAFETY: the child of the child waits for a signal.
        unsafe { libc::kill(child, libc::SIGKILL) };
        assert_eq!(found.health, None);
        assert_eq!(found.lock.unwrap().process, Some(child as u32));
    }

    #[test]
    fn a_program_that_closes_all_descriptors_goes_on_to_say_how_it_is() {
        let (_directory, path) = database();
        let mut owner = Owner::start(&path);
        owner.ask("close all");
        owner.line("done");
        let says = published_health(&path).unwrap().unwrap().database;
        assert_eq!(says.unsaved_commits, 8);
    }

    #[test]
    fn more_databases_than_there_is_room_for_are_left_out() {
        let (_directory, path) = database();
        let mut owner = Owner::start(&path);
        owner.ask("many 300");
        owner.line("done");
        assert_eq!(published_health(&path).unwrap().unwrap().database, health(&path, 0));
        owner.ask("withdraw all");
        owner.line("done");
        assert!(published_health(&path).unwrap().is_some());
    }

    #[test]
    fn damaged_documents_are_none() {
        let whole = sealed(b"{}");
        assert_eq!(unsealed(&whole), Some(&b"{}"[..]));
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x41;
            assert_eq!(unsealed(&bytes), None, "{at}");
            assert_eq!(unsealed(&whole[..at]), None, "{at}");
        }
        let mut long = whole;
        long[8..16].fill(0xff);
        assert_eq!(unsealed(&long), None);
    }
}
