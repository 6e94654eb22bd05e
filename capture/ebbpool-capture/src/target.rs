//! What `/proc` says of the process to capture.

use std::io;
use std::time::Duration;

use crate::elf::ElfProgram;
use crate::error::CaptureError;
use crate::foreign::{self, ForeignDirectory, ProgramFile};
use crate::hold::CaptureLock;

/// A mapping of a file into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// True if the processor may execute what is there.
    pub executable: bool,
    /// True if what is written there changes the file.
    pub is_written: bool,
    /// The offset in the file.
    pub offset: u64,
    /// Device and number of the file; zeros for memory without one. Some file systems say another device elsewhere.
    pub identity: (u64, u64),
    /// The file; empty for memory without one.
    pub path: String,
}

/// The mapping of a line of `/proc/PID/maps`; `None` if the line is malformed.
///
/// ```
/// let found = ebbpool_capture::mapping("7f00-7f80 r-xp 00001000 08:02 131 /usr/lib/libc.so.6").expect("a mapping");
/// assert_eq!((found.start, found.offset, found.executable), (0x7f00, 0x1000, true));
/// assert_eq!(found.path, "/usr/lib/libc.so.6");
/// ```
pub fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (range, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
    let (device, number) = (fields.next()?, fields.next()?);
    let path = fields.next().unwrap_or_default();
    let (major, minor) = device.split_once(':')?;
    let (start, end) = range.split_once('-')?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let part = |text| u32::from_str_radix(text, 16).ok();
    Some(Mapping {
        identity: (rustix::fs::makedev(part(major)?, part(minor)?), number.trim().parse().ok()?),
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        executable: rights.contains('x'),
        is_written: rights.contains('w') && rights.contains('s'),
        offset: hexadecimal(offset)?,
        // The kernel writes a line break in a path so.
        path: path.trim_start().replace("\\012", "\n"),
    })
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process(pub i32);

impl Mapping {
    /// True if the process changes a file of a file system by what it writes there, and not memory that it shares.
    pub(crate) fn changes_a_file(&self) -> bool {
        const MEMORY: [&str; 3] = ["/memfd:", "/dev/", "/SYSV"];
        self.is_written && self.path.starts_with('/') && !MEMORY.iter().any(|start| self.path.starts_with(start))
    }
}

impl Process {
    /// This process.
    pub fn current() -> Process {
        Process(std::process::id() as i32)
    }

    /// All processes, in order of their numbers.
    pub fn all() -> Vec<Process> {
        let names = foreign::kernel_names("/proc");
        let numbers = names.iter().filter_map(|name| name.parse().ok());
        let mut all: Vec<Process> = numbers.map(Process).collect();
        all.sort_unstable();
        all
    }

    /// The only one of the servers of a kind.
    ///
    /// # Errors
    ///
    /// [`CaptureError::NotFound`] if there is none, [`CaptureError::Several`] with a list of them.
    pub(crate) fn only(kind: &'static str, servers: &[Process]) -> Result<Process, CaptureError> {
        if let [server] = servers {
            return Ok(*server);
        }
        if servers.is_empty() {
            return Err(CaptureError::NotFound(format!(
                "no running {kind} is found; is it started, and does this command run as root?"
            )));
        }
        let choice = |server: &Process| match foreign::link_text(&server.path("cwd")) {
            Ok(data) => format!("--pid {} ({data})", server.0),
            Err(_) => format!("--pid {}", server.0),
        };
        let choices: Vec<String> = servers.iter().map(choice).collect();
        Err(CaptureError::Several { kind, count: servers.len(), list: choices.join(", ") })
    }

    /// The path of one of the process's files in `/proc`. Of memory and open files, a first thread that has ended before others has
    /// none any more, and theirs are the same.
    pub fn path(self, file: &str) -> String {
        const OF_THREADS: [&str; 7] = ["cwd", "exe", "fd", "maps", "mem", "mountinfo", "root"];
        let thread = OF_THREADS.contains(&file).then(|| self.living_thread()).flatten();
        match thread {
            Some(thread) => format!("/proc/{}/task/{thread}/{file}", self.0),
            None => format!("/proc/{}/{file}", self.0),
        }
    }

    /// True if the first thread has ended before others, and with it what the kernel ties to it: the probes of a single process.
    pub(crate) fn has_lost_first_thread(self) -> bool {
        self.living_thread().is_some()
    }

    /// A thread that lives, if the first one has ended.
    fn living_thread(self) -> Option<String> {
        let has_program = |path: String| foreign::link_text(&path).is_ok();
        if has_program(format!("/proc/{}/exe", self.0)) {
            return None;
        }
        let mut threads = foreign::kernel_names(&format!("/proc/{}/task", self.0)).into_iter();
        threads.find(|thread| has_program(format!("/proc/{}/task/{thread}/exe", self.0)))
    }

    /// The file of a mapping, which may be in a container, or replaced since.
    ///
    /// # Errors
    ///
    /// The system's. Without the right to use the kernel's links, a file that has another name by now, or whose file system
    /// says another device in the mapping, is not found.
    pub(crate) fn mapped_file(self, mapping: &Mapping) -> io::Result<ProgramFile> {
        let link = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
        let mounts = self.path("mountinfo");
        match ProgramFile::open(&self.path(&link), &mounts) {
            // These links need CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let root = self.directory("root")?;
                let path = root.below(&mapping.path).trim_start_matches('/');
                let file = ProgramFile::from_file(root.file(path)?, &mounts)?;
                match file.identity() == mapping.identity {
                    true => Ok(file),
                    false => Err(error),
                }
            }
            found => found,
        }
    }

    /// One of the process's directories in `/proc`, such as `cwd`.
    pub(crate) fn directory(self, link: &str) -> io::Result<ForeignDirectory> {
        ForeignDirectory::open(&self.path(link), &self.path("root"))
    }

    fn text(self, file: &str) -> Option<String> {
        foreign::kernel_text(&self.path(file)).ok()
    }

    /// False once the process has ended.
    pub fn is_alive(self) -> bool {
        // A process whose parent has not asked for its end is a zombie, and so is one whose first thread has ended before others.
        self.stat().is_some_and(|stat| stat.state != 'Z' || stat.threads > 1)
    }

    /// The name of the program, at most 15 bytes.
    pub fn command(self) -> Option<String> {
        Some(self.text("comm")?.trim_end().to_owned())
    }

    /// The program's file, as the process sees it.
    ///
    /// # Errors
    ///
    /// [`CaptureError::NotFound`], [`CaptureError::Privilege`].
    pub fn program(self) -> Result<String, CaptureError> {
        foreign::link_text(&self.path("exe")).map_err(|error| self.refused(error))
    }

    fn refused(self, error: io::Error) -> CaptureError {
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                CaptureError::Privilege { attempt: format!("look at process {}", self.0), source: error }
            }
            io::ErrorKind::NotFound if self.stat().is_none() => {
                CaptureError::NotFound(format!("there is no process {}", self.0))
            }
            io::ErrorKind::NotFound => {
                CaptureError::NotFound(format!("process {} runs no program: it is the kernel's, or it has ended", self.0))
            }
            _ => CaptureError::Read { file: self.path("exe"), source: error },
        }
    }

    /// Refuses a process in which the kernel can place no probe of its own.
    pub(crate) fn check_first_thread(self) -> Result<(), CaptureError> {
        match self.has_lost_first_thread() {
            true => Err(CaptureError::NotFound(format!(
                "the first thread of process {0} has ended, to which the kernel ties probes; `ebbpool capture process --pid {0}` sees what the others read and write",
                self.0
            ))),
            false => Ok(()),
        }
    }

    /// The last word of a line of the process's status.
    fn status(self, name: &str) -> Option<String> {
        let status = self.text("status")?;
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_ascii_whitespace().last().map(str::to_owned)
    }

    /// The number of the process in its own name space, which is another one in a container.
    pub fn own_number(self) -> Option<String> {
        self.status("NSpid:")
    }

    /// True while a debugger is attached to the process.
    pub(crate) fn is_debugged(self) -> bool {
        self.status("TracerPid:").is_some_and(|tracer| tracer != "0")
    }

    /// The files and memory that are mapped.
    pub fn mappings(self) -> Vec<Mapping> {
        let text = self.text("maps").unwrap_or_default();
        text.lines().filter_map(mapping).collect()
    }

    /// The distance between the addresses in `program` and those in the process, in which the file is called `path`.
    pub fn displacement(self, program: &ElfProgram, path: &str) -> Option<u64> {
        let mappings = self.mappings();
        let found = mappings.iter().find(|it| it.executable && it.path == path)?;
        let address = program.address_of_mapping(found.offset)?;
        Some(found.start.wrapping_sub(address))
    }

    /// Reads memory of the process; nothing is ever written to it. False if there is no such memory.
    pub fn read_memory(self, address: u64, bytes: &mut [u8]) -> bool {
        foreign::read_memory(&self.path("mem"), address, bytes)
    }

    /// The user whose rights it has.
    pub(crate) fn owner(self) -> Option<u32> {
        rustix::fs::stat(self.path("")).ok().map(|found| found.st_uid)
    }

    /// Processor time of the process so far; that of its children counts once they have ended and it has asked for that.
    pub fn processor_time(self) -> Option<Duration> {
        self.stat().map(|stat| stat.time)
    }

    /// Processor time of the process so far, without its children.
    pub(crate) fn own_processor_time(self) -> Option<Duration> {
        self.stat().map(|stat| stat.own)
    }

    /// Processor time of the process and its living children.
    pub fn processor_time_of_all(self) -> Duration {
        let children = Process::all().into_iter().filter_map(|process| {
            let stat = process.stat()?;
            (stat.parent == self.0).then_some(stat.time)
        });
        children.sum::<Duration>() + self.processor_time().unwrap_or_default()
    }

    /// The processes that the process has started, and those that these have started.
    pub fn descendants(self) -> Vec<Process> {
        let parents: Vec<(Process, i32)> =
            Process::all().into_iter().filter_map(|process| Some((process, process.stat()?.parent))).collect();
        let mut found = vec![self];
        let mut next = 0;
        while next < found.len() {
            let parent = found[next].0;
            next += 1;
            let children = parents.iter().filter(|(_, of)| *of == parent);
            for (child, _) in children {
                if !found.contains(child) {
                    found.push(*child);
                }
            }
        }
        found
    }

    fn stat(self) -> Option<Stat> {
        Stat::parse(&self.text("stat")?)
    }

    /// Keeps other captures of this process out while the result lives.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Busy`]; [`CaptureError::NotFound`] if there is no such process.
    pub fn lock(self) -> Result<CaptureLock, CaptureError> {
        CaptureLock::new(self)
    }

    /// When the process was started, in ticks of the kernel.
    pub(crate) fn started(self) -> Option<u64> {
        self.stat().map(|stat| stat.started)
    }

    /// The process that has started this one.
    pub fn parent(self) -> Option<Process> {
        self.stat().map(|stat| Process(stat.parent))
    }
}

/// What `/proc/PID/stat` says.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: i32,
    time: Duration,
    /// Of that the time of the process itself.
    own: Duration,
    threads: u64,
    /// When the process was started, in ticks.
    started: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // The name of the program is in parentheses and may have blanks and parentheses.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Fields 14 to 17: time in the program and in the kernel, and both of children that have ended, in ticks. The kernel
        // counts 100 ticks a second for programs, whatever it counts itself.
        let ticks = |fields: &[&str]| {
            let ticks = fields.iter().filter_map(|field| field.parse::<u64>().ok()).fold(0u64, u64::saturating_add);
            Duration::from_millis(ticks.saturating_mul(10))
        };
        Some(Stat {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            time: ticks(fields.get(11..15)?),
            own: ticks(fields.get(11..13)?),
            // Fields 20 and 22.
            threads: fields.get(17)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_with_blanks_in_paths() {
        let line = "55d0c0a00000-55d0c0b00000 r-xp 000cd000 fe:01 1234                       /opt/my server/bin";
        let found = mapping(line).expect("a mapping");
        assert_eq!((found.start, found.offset), (0x55d0_c0a0_0000, 0xcd000));
        assert!(found.executable);
        assert_eq!(found.identity, (rustix::fs::makedev(0xfe, 1), 1234));
        assert_eq!(found.path, "/opt/my server/bin");
        let line = "55d0c0a00000-55d0c0b00000 r-xp 00000000 fe:01 1234   /opt/two\\012lines/bin";
        assert_eq!(mapping(line).expect("a mapping").path, "/opt/two\nlines/bin");
        let memory = mapping("7ffe0000-7ffe1000 rw-p 00000000 00:00 0 ").expect("a mapping");
        assert_eq!((memory.path.as_str(), memory.executable), ("", false));
        let changes = |line: &str| mapping(line).expect("a mapping").changes_a_file();
        assert!(changes("7f00-7f80 rw-s 00000000 fe:01 12 /srv/index.db"));
        assert!(!changes("7f00-7f80 rw-p 00000000 fe:01 12 /srv/index.db"));
        assert!(!changes("7f00-7f80 rw-s 00000000 00:01 12 /dev/shm/PostgreSQL.1"));
        for malformed in ["", "x", "12-zz r-xp 0 0 0", "12 r-xp 0"] {
            assert_eq!(mapping(malformed), None);
        }
    }

    #[test]
    fn a_name_with_parentheses_does_not_move_the_fields() {
        let text = "7 (a) b) S 3 7 7 0 -1 4194560 100 0 0 0 5 6 70 800 20 0 1 0 99 5";
        let stat = Stat::parse(text).expect("fields");
        assert_eq!((stat.state, stat.parent), ('S', 3));
        assert_eq!((stat.time, stat.started), (Duration::from_millis(8810), 99));
        assert_eq!(stat.threads, 1);
        assert_eq!(Stat::parse("7 (a) S"), None);
    }

    #[test]
    fn this_process_is_among_its_descendants() {
        let process = Process::current();
        assert!(process.is_alive() && process.descendants().contains(&process));
    }

    #[test]
    fn memory_is_read_and_missing_memory_is_not() {
        let number = 0x1234_5678_9abc_def0u64;
        let mut bytes = [0; 8];
        let address = &raw const number as u64;
        assert!(Process::current().read_memory(address, &mut bytes));
        assert_eq!(u64::from_le_bytes(bytes), number);
        assert!(!Process::current().read_memory(0, &mut bytes));
    }
}
