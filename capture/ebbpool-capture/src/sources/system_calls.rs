//! Any process: what it reads and writes of regular files by system calls and io_uring.
//!
//! Programs at the ends of the kernel's functions that transfer bytes see the file, the position and the bytes, and other calls do not
//! reach them. On kernels without all of these functions a program at the tracepoint `sys_exit` sees each call at its end, which
//! every process of the machine pays for. Requests of io_uring (from Linux 6.0
//! on) are seen as they are submitted, with the bytes that they ask for, of reads those that the file has; those to registered files are counted, not seen, and of
//! vectors the first 8 parts are. A capture sees what missed the process's own cache, and nothing of files that are mapped
//! into memory. At `sys_exit` the position of `pwrite` to a file that is open for appending is taken from the call, as POSIX has it, although
//! Linux appends, and two threads that move the position of the same open file at the same time may have their positions mixed up.

mod calls;
mod programs;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use serde::Serialize;

use super::file_event::{FileEvent, check_page_size, kind};
use super::open_files::{FileNames, SeenFile, open_files_from};
use crate::arch::Arch;
use crate::btf::KernelTypes;
use crate::calibration::{EventCost, TOUCHED, calibrate, time_behind};
use crate::error::CaptureError;
use crate::event::Maps;
use crate::foreign;
use crate::hold::CaptureLock;
use crate::kernel::{ProcessSet, SharedNumbers};
use crate::probes::{Channel, KernelPlace, Probes};
use crate::recorder::{CaptureBuffer, ObjectKey};
use crate::session::{CaptureSource, EventStream, Spaced};
use crate::target::{Mapping, Process};
use crate::trace_file::{CapturedTrace, NamedObject};
use crate::written::{KernelFiles, WriteCounters};

use programs::{FileFunctions, FileLayout, Followed, RingLayout};

/// How often the open files and the processes are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How often they are looked at most, when other files appear.
const LEAST_LOOK: Duration = Duration::from_millis(20);

/// What was captured, besides references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessCounts {
    /// Calls and requests that read.
    pub reads: u64,
    /// Calls and requests that write.
    pub writes: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Calls and requests that make written bytes durable.
    pub syncs: u64,
    /// Calls and requests whose bytes are not seen: `sendfile`, `copy_file_range`, `splice`, `io_submit`, registered files of io_uring,
    /// and at `sys_exit` 32-bit calls, and no `splice`.
    pub unseen: u64,
    /// Files that the processes had mapped to change them by what they write to memory: these writes are not seen.
    pub mapped: u64,
    /// Requests of files that the kernel makes up, in `/proc`, `/sys` and the like: they are no bytes of a device, and not in the trace.
    pub made_up: u64,
    /// True if there were more processes than are followed.
    pub has_more_processes: bool,
}

/// Decodes the events of processes.
#[derive(Debug)]
pub struct ProcessDecoder {
    page_size: u64,
    /// The files, by the numbers that are the first words of objects.
    files: Vec<FileIdentity>,
    numbers: HashMap<FileIdentity, u32>,
    /// Files that were mapped to be written, by their numbers.
    mapped: HashSet<u64>,
    /// What the events were so far.
    pub counts: ProcessCounts,
}

/// What distinguishes a file from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileIdentity {
    device: u32,
    inode: u64,
    generation: u32,
    /// Zero where device, number and generation say which file it is.
    address: u64,
}

/// File systems that give each file a number and a generation of its own, or no number twice: ext2 to ext4, XFS, tmpfs, F2FS, vfat, exFAT.
/// In another one, such as Btrfs with its volumes in one, the kernel's address of the file counts, too: it may then be a new one after the
/// kernel has forgotten it.
const NUMBERED: [u32; 6] = [0xef53, 0x5846_5342, MEMORY, 0xf2f5_2010, 0x4d44, 0x2011_bab0];

/// tmpfs, where memory is all that there is.
const MEMORY: u32 = 0x0102_1994;

/// File systems whose files are no bytes anywhere: proc, sysfs, cgroup, cgroup2, debugfs, tracefs, securityfs, selinuxfs, bpf, configfs,
/// efivarfs, binfmt_misc, mqueue.
const MADE_UP: [u32; 13] = [
    0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x6462_6720, 0x7472_6163, 0x7363_6673, 0xf97c_ff8c, 0xcafe_4a11,
    0x6265_6570, 0xde5e_81e4, 0x4249_4e4d, 0x1980_0202,
];

impl ProcessDecoder {
    /// A decoder for pages of that many bytes, at least 1.
    pub fn new(page_size: u64) -> ProcessDecoder {
        ProcessDecoder {
            page_size: page_size.max(1),
            files: Vec::new(),
            numbers: HashMap::new(),
            mapped: HashSet::new(),
            counts: ProcessCounts::default(),
        }
    }

    /// Takes an event and records the references that it stands for.
    pub fn record(&mut self, event: &FileEvent, recorder: &mut CaptureBuffer) {
        let counts = &mut self.counts;
        let bytes = u64::from(event.bytes);
        match event.kind as i32 {
            kind::READ => (counts.reads, counts.read_bytes) = (counts.reads + 1, counts.read_bytes + bytes),
            kind::WRITE => {
                (counts.writes, counts.written_bytes) = (counts.writes + 1, counts.written_bytes + bytes);
            }
            kind::SYNC => counts.syncs += 1,
            kind::UNSEEN => counts.unseen += 1,
            kind::MAPPED if event.magic != MEMORY && !MADE_UP.contains(&event.magic) => {
                self.mapped.insert(event.inode);
            }
            _ => {}
        }
        if matches!(event.kind as i32, kind::READ | kind::WRITE) {
            if MADE_UP.contains(&event.magic) {
                counts.made_up += 1;
                return;
            }
            if event.position > i64::MAX as u64 {
                counts.unseen += 1;
                return;
            }
            let address = if NUMBERED.contains(&event.magic) { 0 } else { event.address };
            let identity = FileIdentity { device: event.device, inode: event.inode, generation: event.generation, address };
            let next = self.files.len() as u32;
            let number = *self.numbers.entry(identity).or_insert(next);
            if number == next {
                self.files.push(identity);
            }
            let object = recorder.object([number, 0, 0, 0]);
            event.record(object, self.page_size, recorder);
        }
    }
}

/// A process under capture.
pub struct ProcessSource {
    process: Process,
    program: String,
    layout: FileLayout,
    /// `None` if `sys_exit` must do.
    functions: Option<FileFunctions>,
    ring: Option<RingLayout>,
    /// The process and those that it starts, if these are captured too.
    followed: Option<ProcessSet>,
    decoder: ProcessDecoder,
    names: FileNames,
    looking: Spaced,
    /// The process in whose open files the latest look ended, and at which of them.
    left: Option<(i32, usize)>,
    /// Processor time of followed processes that have ended, in nanoseconds.
    ended: SharedNumbers<1>,
    /// Files that were mapped to be written, by their numbers.
    mapped: HashSet<u64>,
    lock: CaptureLock,
}

impl ProcessSource {
    /// The process with this number, with its reads and writes in pages of that many bytes. With `follow_children`, the
    /// processes that it has started and will start count too.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] if there is no such process, if it is a 32-bit one, if another capture of it runs, if the page size is no
    /// power of two, or if the kernel does not describe its types.
    pub fn open(pid: i32, page_size: u64, follow_children: bool) -> Result<ProcessSource, CaptureError> {
        check_page_size(page_size)?;
        let process = Process(pid);
        let lock = process.lock()?;
        let program = process.program()?;
        check_name_space()?;
        let types = KernelTypes::of_kernel()?;
        let functions = FileFunctions::new(&types, Arch::THIS);
        if functions.is_none() {
            check_64_bits(process, &program)?;
        }
        let failed = |error| CaptureError::of_kernel("create a map", error);
        Ok(ProcessSource {
            process,
            program,
            layout: FileLayout::new(&types)?,
            functions,
            ring: RingLayout::new(&types),
            followed: match follow_children {
                true => Some(ProcessSet::new().map_err(failed)?),
                false => None,
            },
            decoder: ProcessDecoder::new(page_size),
            names: FileNames::default(),
            looking: Spaced::default(),
            left: None,
            ended: SharedNumbers::new().map_err(failed)?,
            mapped: HashSet::new(),
            lock,
        })
    }

    /// What was captured, besides references.
    pub fn counts(&self) -> ProcessCounts {
        self.decoder.counts
    }

    /// What the capture will do, in a sentence.
    pub fn description(&self) -> String {
        let children = match self.followed {
            Some(_) => " and the processes that it starts",
            None => "",
        };
        let ring = match self.ring {
            Some(_) => "system calls and io_uring",
            None => "system calls; this kernel does not show requests of io_uring",
        };
        let all = match self.functions {
            Some(_) => "",
            None => "; on this kernel all processes pay for all of their system calls meanwhile",
        };
        format!("process {} ({}){children}: reads and writes of regular files by {ring}{all}", self.process.0, self.program)
    }

    /// The process.
    pub fn process(&self) -> Process {
        self.process
    }

    /// The captured trace, with the paths of the files; without `names`, files are called by their numbers. Files that were open for
    /// a moment may have no path.
    pub fn trace(&self, recorder: CaptureBuffer, names: bool) -> CapturedTrace {
        let page_size = self.decoder.page_size;
        // Several files may have had one number, one after the other.
        let mut holders: HashMap<(u32, u64), usize> = HashMap::new();
        let identity = |key: ObjectKey| self.decoder.files[key[0] as usize];
        for FileIdentity { device, inode, .. } in recorder.objects.iter().map(|object| identity(object.key)) {
            *holders.entry((device, inode)).or_default() += 1;
        }
        let (mut named, mut used) = (HashSet::new(), HashMap::new());
        let objects = recorder.objects.iter().map(|object| {
            let FileIdentity { device, inode, generation, address } = identity(object.key);
            let is_only = holders.get(&(device, inode)) == Some(&1);
            let file = self.names.find(SeenFile { device, inode, generation, is_only });
            let number = || {
                let number = format!("file {}:{}:{inode}", device >> 20, device & 0xf_ffff);
                match (is_only, address) {
                    (true, _) => number,
                    (false, 0) => format!("{number}, generation {generation}"),
                    // No address of the kernel's leaves this process.
                    (false, _) => format!("{number}, generation {generation}, file {}", object.key[0]),
                }
            };
            let name = match file {
                Some(file) if names => file.path.clone(),
                _ => number(),
            };
            // A file that was written anew has the path of the one before.
            let count: &mut u32 = used.entry(name.clone()).or_default();
            let unique = loop {
                *count += 1;
                let unique = if *count == 1 { name.clone() } else { format!("{name} ({count})") };
                // Another file may really be called so.
                if named.insert(unique.clone()) {
                    break unique;
                }
            };
            NamedObject {
                name: unique,
                group: String::new(),
                kind: Some("file".into()),
                part: String::new(),
                pages: file.map_or(0, |file| file.bytes.div_ceil(page_size)).max(object.pages),
            }
        });
        let name = match names {
            true => self.program.rsplit('/').next().unwrap_or_default(),
            false => "process",
        };
        CapturedTrace {
            name: format!("{name} {}", self.process.0),
            page_size,
            below_cache: true,
            objects: objects.collect(),
            recorder,
        }
    }

    /// Looks at open files if the latest look is so long ago, and for a small share of the time. There may be any number of them: a look
    /// goes on where the one before has ended.
    fn look(&mut self, after: Duration) {
        const LONGEST: Duration = Duration::from_millis(20);
        let mut looking = std::mem::take(&mut self.looking);
        looking.run_after(after, || {
            let until = Instant::now() + LONGEST;
            let mut processes = self.followed_processes();
            processes.sort_unstable();
            self.decoder.counts.has_more_processes |= processes.len() >= ProcessSet::MOST as usize;
            let (next, mut first) = self.left.take().unwrap_or_default();
            let begin = processes.iter().position(|process| process.0 >= next).unwrap_or(0);
            processes.rotate_left(begin);
            for process in processes {
                if Instant::now() >= until {
                    self.left = Some((process.0, 0));
                    break;
                }
                let (files, left) = open_files_from(process, std::mem::take(&mut first), until);
                self.names.add(files);
                self.mapped.extend(files_mapped_by(process));
                if let (Some(set), false) = (&self.followed, process.is_alive()) {
                    // Another process may get the number.
                    set.remove(process.0);
                }
                if let Some(left) = left {
                    self.left = Some((process.0, left));
                    break;
                }
            }
        });
        self.looking = looking;
    }

    /// The programs for these processes.
    fn programs(&self, maps: Maps, followed: Followed) -> Vec<(KernelPlace, Vec<u64>)> {
        let layout = &self.layout;
        let mut programs: Vec<(KernelPlace, Vec<u64>)> = match &self.functions {
            Some(functions) => {
                let ends = functions.programs(maps, followed, layout).into_iter();
                ends.map(|(function, code)| (KernelPlace::End(function), code)).collect()
            }
            None => {
                let code = programs::call_end(Arch::THIS, maps, followed, layout);
                vec![(KernelPlace::Tracepoint("sys_exit"), code)]
            }
        };
        if let Some(ring) = &self.ring {
            let code = programs::ring_submission(maps, followed, layout, ring);
            programs.push((KernelPlace::Tracepoint(ring.tracepoint), code));
        }
        programs
    }

    /// What the programs cost this process: for a byte that it reads of a file, for one that is of none, for none, and if it is not captured.
    fn measured_cost(&self) -> Option<EventCost> {
        /// Other work disturbs a measurement, and seldom two of them.
        const ROUNDS: usize = 2;
        let (file, device) = (foreign::own_program()?, foreign::zeros()?);
        let read = |from: &OwnedFd, bytes: usize, touched: usize| {
            time_behind(touched, &mut |_| {
                let _ = rustix::io::pread(from, &mut [0u8; 1][..bytes], 0);
            })
        };
        let times = || [read(&file, 1, 0), read(&device, 1, 0), read(&device, 0, 0), read(&file, 1, TOUCHED)];
        let least = |one: [Duration; 4], other: [Duration; 4]| [0, 1, 2, 3].map(|at| one[at].min(other[at]));
        let mut all = [[Duration::MAX; 4]; 3];
        for _ in 0..ROUNDS {
            let bare = times();
            let outside = {
                let _probes = self.probes_of(NO_PROCESS)?;
                times()
            };
            let _probes = self.probes_of(Process::current().0)?;
            all = [least(all[0], bare), least(all[1], outside), least(all[2], times())];
        }
        let [bare, outside, with] = all;
        let more = |with: [Duration; 4]| [0, 1, 2, 3].map(|at| with[at].saturating_sub(bare[at]));
        let ([captured, other, left_out, behind_work], [_, _, outside, _]) = (more(with), more(outside));
        let (looked, cold) = (other.saturating_sub(left_out), behind_work.saturating_sub(captured));
        Some(EventCost { captured, left_out, outside, step: Duration::ZERO, looked, cold })
    }

    /// The programs for a process, attached.
    fn probes_of(&self, process: i32) -> Option<Box<dyn EventStream>> {
        let channel = Channel::new(16 << 20).ok()?;
        let programs = self.programs(channel.maps(), Followed::One(process));
        Probes::watch(channel, &programs).ok()
    }

    /// The processes under capture.
    fn followed_processes(&self) -> Vec<Process> {
        match &self.followed {
            Some(set) => {
                // A number may be there twice if the set changes meanwhile.
                let members: HashSet<i32> = set.members().into_iter().collect();
                members.into_iter().map(Process).collect()
            }
            None => vec![self.process],
        }
    }

    /// Adds the processes that the process has started already. The programs add those that start later; between the two,
    /// a process may start others before it is in the set itself.
    fn add_children(&self, set: &ProcessSet) -> Result<(), CaptureError> {
        const ROUNDS: usize = 8;
        let mut count = 0;
        for _ in 0..ROUNDS {
            let found = self.process.descendants();
            for process in &found {
                let added = set.insert(process.0);
                added.map_err(|error| CaptureError::of_kernel("change a map", error))?;
            }
            if found.len() == count {
                break;
            }
            count = found.len();
        }
        Ok(())
    }
}

/// Refuses to run in a container: the kernel's programs see the numbers of processes outside.
fn check_name_space() -> Result<(), CaptureError> {
    /// The first name space's number (`PROC_PID_INIT_INO`).
    const FIRST: &str = "pid:[4026531836]";
    match foreign::link_text("/proc/self/ns/pid") {
        Ok(link) if link != FIRST => Err(CaptureError::Kernel {
            attempt: "find processes by the numbers that they have in this container".into(),
            detail: "run the command outside of it".into(),
        }),
        _ => Ok(()),
    }
}

/// Refuses 32-bit programs, whose system calls have other numbers.
fn check_64_bits(process: Process, program: &str) -> Result<(), CaptureError> {
    const CLASS: usize = 4;
    const CLASS_32: u8 = 1;
    match foreign::head::<5>(&process.path("exe")) {
        Ok(head) if head[CLASS] == CLASS_32 => Err(CaptureError::Build {
            program: program.to_owned(),
            problem: "it is a 32-bit program".into(),
            remedy: "only 64-bit programs can be captured".into(),
        }),
        _ => Ok(()),
    }
}

/// The numbers of files that a process changes by what it writes to memory.
fn files_mapped_by(process: Process) -> impl Iterator<Item = u64> {
    process.mappings().into_iter().filter(Mapping::changes_a_file).map(|mapping| mapping.identity.1)
}

/// No process has this number.
const NO_PROCESS: i32 = -1;

impl CaptureSource for ProcessSource {
    fn attach(&mut self, ring_bytes: u32) -> Result<Box<dyn EventStream>, CaptureError> {
        let channel = Channel::new(ring_bytes)?;
        let (maps, layout) = (channel.maps(), &self.layout);
        let mut programs = Vec::new();
        let followed = match &self.followed {
            Some(set) => {
                let added = set.insert(self.process.0);
                added.map_err(|error| CaptureError::of_kernel("change a map", error))?;
                let map = set.descriptor();
                programs.push((KernelPlace::Tracepoint("sched_process_fork"), programs::fork(map, layout)));
                let exit = programs::exit(map, self.ended.descriptor(), layout);
                programs.push((KernelPlace::Tracepoint("sched_process_exit"), exit));
                Followed::Set(map)
            }
            None => Followed::One(self.process.0),
        };
        programs.extend(self.programs(maps, followed));
        let probes = Probes::watch(channel, &programs)?;
        if !self.lock.is_the_same() {
            return Err(CaptureError::Changed(self.program.clone()));
        }
        if let Some(set) = &self.followed {
            self.add_children(set)?;
        }
        Ok(probes)
    }

    fn record_event(&mut self, event: &[u8], recorder: &mut CaptureBuffer) {
        if let Some(event) = FileEvent::parse(event) {
            let files = recorder.objects.len();
            self.decoder.record(&event, recorder);
            if recorder.objects.len() > files {
                // A file that has no name yet may be closed soon.
                self.look(LEAST_LOOK);
            }
        }
    }

    fn refresh(&mut self) {
        self.look(LOOK);
    }

    fn refresh_at_last(&mut self) {
        self.refresh();
        let until = Instant::now() + Duration::from_millis(200);
        for process in self.followed_processes().into_iter().take_while(|_| Instant::now() < until) {
            self.mapped.extend(files_mapped_by(process));
        }
        self.mapped.extend(&self.decoder.mapped);
        self.decoder.counts.mapped = self.mapped.len() as u64;
    }

    fn is_alive(&self) -> bool {
        match self.followed {
            Some(_) => self.followed_processes().into_iter().any(Process::is_alive),
            None => self.lock.is_alive(),
        }
    }

    fn write_counters(&self) -> WriteCounters {
        WriteCounters { processes: KernelFiles::default().bytes_of(&self.followed_processes()), ..WriteCounters::default() }
    }

    fn event_cost(&self) -> Result<EventCost, CaptureError> {
        self.measured_cost().map_or_else(calibrate, Ok)
    }

    fn processes(&self) -> Vec<Process> {
        self.followed_processes()
    }

    fn processor_time(&self) -> Option<Duration> {
        if self.followed.is_none() {
            return self.process.own_processor_time();
        }
        let living = self.followed_processes().into_iter().filter(|process| process.is_alive());
        let [ended] = self.ended.get().unwrap_or_default();
        Some(living.filter_map(Process::own_processor_time).sum::<Duration>() + Duration::from_nanos(ended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_become_references_and_the_rest_is_counted() {
        let (mut decoder, mut recorder) = (ProcessDecoder::new(4096), CaptureBuffer::default());
        let event = FileEvent { inode: 5 << 32 | 9, device: 8 << 20 | 1, position: 4000, bytes: 200, ..FileEvent::default() };
        for event_kind in [1, 2, 2, 3, 4, 0, 99] {
            let event = FileEvent { kind: event_kind, ..event };
            decoder.record(&event, &mut recorder);
        }
        let expected = ProcessCounts {
            reads: 1,
            writes: 2,
            read_bytes: 200,
            written_bytes: 400,
            syncs: 1,
            unseen: 1,
            ..ProcessCounts::default()
        };
        assert_eq!(decoder.counts, expected);
        assert_eq!((recorder.len(), recorder.writes()), (6, 4));
        let file = FileIdentity { device: 8 << 20 | 1, inode: 5 << 32 | 9, generation: 0, address: 0 };
        assert_eq!((recorder.objects[0].key, decoder.files), ([0; 4], vec![file]));
        assert_eq!(recorder.objects[0].pages, 2);
    }

    #[test]
    fn files_that_are_none_and_files_without_numbers_of_their_own() {
        const BTRFS: u32 = 0x9123_683e;
        let (mut decoder, mut recorder) = (ProcessDecoder::new(4096), CaptureBuffer::default());
        let write =
            FileEvent { kind: 2, inode: 257, device: 39, bytes: 100, magic: NUMBERED[0], address: 8, ..FileEvent::default() };
        let proc = FileEvent { magic: MADE_UP[0], position: u64::MAX - 1, ..write };
        let before_begin = FileEvent { position: u64::MAX - 4, ..write };
        let snapshots = [8, 16, 8].map(|address| FileEvent { magic: BTRFS, address, ..write });
        let reloaded = FileEvent { address: 24, ..write };
        for event in [write, proc, before_begin, reloaded].into_iter().chain(snapshots) {
            decoder.record(&event, &mut recorder);
        }
        assert_eq!((decoder.counts.made_up, decoder.counts.unseen, recorder.len()), (1, 1, 5));
        let references: Vec<u64> = recorder.objects.iter().map(|object| object.references).collect();
        assert_eq!(references, [2, 2, 1]);
        assert!(recorder.objects.iter().all(|object| object.pages == 1));
    }
}
