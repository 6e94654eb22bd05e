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
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use serde::Serialize;

use super::file_event::{FileEvent, check_page_size, kind};
use super::open_files::{FileNames, SeenFile, open_files};
use crate::arch::Arch;
use crate::btf::KernelTypes;
use crate::calibration::{EventCost, TOUCHED, calibrate, time_behind};
use crate::error::CaptureError;
use crate::event::Maps;
use crate::foreign;
use crate::hold::CaptureLock;
use crate::kernel::ProcessSet;
use crate::probes::{Channel, KernelPlace, Probes};
use crate::recorder::CaptureBuffer;
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
    /// Files that the processes change by what they write to memory, at the end of the capture: these writes are not seen.
    pub mapped: u64,
    /// True if there were more processes than are followed.
    pub has_more_processes: bool,
}

/// Decodes the events of processes.
#[derive(Debug)]
pub struct ProcessDecoder {
    page_size: u64,
    /// What the events were so far.
    pub counts: ProcessCounts,
}

impl ProcessDecoder {
    /// A decoder for pages of that many bytes, at least 1.
    pub fn new(page_size: u64) -> ProcessDecoder {
        ProcessDecoder { page_size: page_size.max(1), counts: ProcessCounts::default() }
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
            _ => {}
        }
        if matches!(event.kind as i32, kind::READ | kind::WRITE) {
            let inode = [event.inode as u32, (event.inode >> 32) as u32];
            let object = recorder.object([event.device, inode[0], inode[1], event.generation]);
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
        let mut holders: HashMap<[u32; 3], usize> = HashMap::new();
        for [device, low, high, _] in recorder.objects.iter().map(|object| object.key) {
            *holders.entry([device, low, high]).or_default() += 1;
        }
        let mut used: HashMap<String, u32> = HashMap::new();
        let objects = recorder.objects.iter().map(|object| {
            let [device, low, high, generation] = object.key;
            let inode = u64::from(low) | u64::from(high) << 32;
            let is_only = holders.get(&[device, low, high]) == Some(&1);
            let file = self.names.find(SeenFile { device, inode, generation, is_only });
            let number = || {
                let number = format!("file {}:{}:{inode}", device >> 20, device & 0xf_ffff);
                if is_only { number } else { format!("{number}, generation {generation}") }
            };
            let name = match file {
                Some(file) if names => file.path.clone(),
                _ => number(),
            };
            // A file that was written anew has the path of the one before.
            let count = used.entry(name.clone()).or_default();
            *count += 1;
            NamedObject {
                name: if *count == 1 { name } else { format!("{name} ({count})") },
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

    /// Looks at the open files if the latest look is so long ago, and for a small share of the time.
    fn look(&mut self, after: Duration) {
        let mut looking = std::mem::take(&mut self.looking);
        looking.run_after(after, || {
            let processes = self.followed_processes();
            self.decoder.counts.has_more_processes |= processes.len() >= ProcessSet::MOST as usize;
            for process in processes {
                self.names.add(open_files(process));
                if let (Some(set), false) = (&self.followed, process.is_alive()) {
                    // Another process may get the number.
                    set.remove(process.0);
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

    /// What the programs cost this process: for a byte that it reads of a file, for one that is of none, and if it is not captured.
    fn measured_cost(&self) -> Option<EventCost> {
        /// Other work disturbs a measurement, and seldom two of them.
        const ROUNDS: usize = 2;
        let (file, device) = (foreign::own_program()?, foreign::zeros()?);
        let read = |from: &OwnedFd, touched: usize| {
            time_behind(touched, &mut |_| {
                let _ = rustix::io::pread(from, &mut [0u8; 1], 0);
            })
        };
        let times = || [read(&file, 0), read(&device, 0), read(&file, TOUCHED)];
        let least = |one: [Duration; 3], other: [Duration; 3]| [0, 1, 2].map(|at| one[at].min(other[at]));
        let mut all = [[Duration::MAX; 3]; 3];
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
        let more = |with: [Duration; 3]| [0, 1, 2].map(|at| with[at].saturating_sub(bare[at]));
        let ([captured, left_out, behind_work], [_, outside, _]) = (more(with), more(outside));
        let cold = behind_work.saturating_sub(captured);
        Some(EventCost { captured, left_out, outside, step: Duration::ZERO, cold })
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
        let mappings = self.followed_processes().into_iter().flat_map(Process::mappings);
        let changed: HashSet<(u64, u64)> = mappings.filter(Mapping::changes_a_file).map(|it| it.identity).collect();
        self.decoder.counts.mapped = changed.len() as u64;
    }

    fn is_alive(&self) -> bool {
        match self.followed {
            Some(_) => self.followed_processes().into_iter().any(Process::is_alive),
            None => self.lock.is_alive(),
        }
    }

    fn write_counters(&self) -> WriteCounters {
        WriteCounters { processes: KernelFiles::default().written_by(&self.followed_processes()), ..WriteCounters::default() }
    }

    fn event_cost(&self) -> Result<EventCost, CaptureError> {
        self.measured_cost().map_or_else(calibrate, Ok)
    }

    fn processes(&self) -> Vec<Process> {
        self.followed_processes()
    }

    fn processor_time(&self) -> Option<Duration> {
        let processes = self.followed_processes().into_iter();
        let times = processes.filter_map(Process::processor_time);
        Some(times.sum())
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
        assert_eq!(recorder.objects[0].key, [8 << 20 | 1, 9, 5, 0]);
        assert_eq!(recorder.objects[0].pages, 2);
    }
}
