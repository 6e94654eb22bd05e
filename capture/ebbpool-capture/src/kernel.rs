//! The system calls of captures: bpf(2) and perf_event_open(2).
//!
//! Every program, map and probe is a file descriptor of this process, and nothing is pinned to a file system. So the kernel
//! removes all of them when the process ends, however it ends.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::assembler::{Assembler, R0};
use crate::error::CaptureError;

/// Kinds of maps (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug)]
enum MapKind {
    Hash = 1,
    Array = 2,
    RingBuffer = 27,
}

/// Kinds of programs (`enum bpf_prog_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// For uprobes that are events of perf.
    Kprobe,
    /// For raw tracepoints.
    RawTracepoint,
    /// For uprobes that are links of BPF: a program for uprobes with [`UPROBE_MULTI`].
    LinkedUprobe,
    /// For the end of the kernel's function with this number among its types.
    FunctionEnd(u32),
}

impl ProgramKind {
    /// `enum bpf_prog_type` and `enum bpf_attach_type`.
    fn numbers(self) -> (u64, u64) {
        match self {
            ProgramKind::Kprobe => (2, 0),
            ProgramKind::RawTracepoint => (17, 0),
            ProgramKind::LinkedUprobe => (2, UPROBE_MULTI),
            // `BPF_PROG_TYPE_TRACING` with `BPF_TRACE_FEXIT`.
            ProgramKind::FunctionEnd(_) => (26, 25),
        }
    }
}

/// `BPF_TRACE_UPROBE_MULTI`.
const UPROBE_MULTI: u64 = 48;

/// Commands of bpf(2).
#[derive(Clone, Copy, Debug)]
enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgramLoad = 5,
    RawTracepointOpen = 17,
    LinkCreate = 28,
}

/// `PERF_EVENT_IOC_SET_BPF` and `PERF_EVENT_IOC_ENABLE`.
const SET_BPF: u32 = 0x4004_2408;
const ENABLE: u32 = 0x2400;

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: u64 = 8;

/// Bytes of `struct perf_event_attr` that uprobes use (`PERF_ATTR_SIZE_VER5`).
const ATTRIBUTE_SIZE: u32 = 112;

fn checked(result: i64) -> io::Result<i64> {
    match result < 0 {
        true => Err(io::Error::last_os_error()),
        false => Ok(result),
    }
}

/// Calls bpf(2). `attributes` is `union bpf_attr` in words of 64 bits; pointers in it are to memory that the caller holds.
fn bpf(command: Command, attributes: &mut [u64]) -> io::Result<i64> {
    let size = size_of_val(attributes);
    // SAFETY: the kernel reads and writes at most `size` bytes behind the pointer, and what the attributes point to is
    // alive and as large as the command says, which each caller below states.
    checked(unsafe { libc::syscall(libc::SYS_bpf, command as i32, attributes.as_mut_ptr(), size) })
}

fn owned(descriptor: i64) -> OwnedFd {
    // SAFETY: the kernel has just opened this descriptor for us, and nothing else has it.
    unsafe { OwnedFd::from_raw_fd(descriptor as i32) }
}

/// Raises `RLIMIT_MEMLOCK`, against which maps count before Linux 5.11. Without the right to raise it, the creation of a map
/// reports the kernel's error.
pub(crate) fn raise_memory_limit() {
    let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is to a local structure, which the kernel only reads.
    let _ = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &all) };
}

fn create_map(kind: MapKind, key: u32, value: u32, entries: u32) -> io::Result<OwnedFd> {
    let mut attributes = [kind as u64 | u64::from(key) << 32, u64::from(value) | u64::from(entries) << 32, 0];
    bpf(Command::MapCreate, &mut attributes).map(owned)
}

/// Creates a ring buffer of that many bytes, a power of two and at least a memory page.
pub(crate) fn create_ring(bytes: u32) -> io::Result<OwnedFd> {
    create_map(MapKind::RingBuffer, 0, 0, bytes)
}

/// Creates that many words of 4 bytes that programs share, all zero: a map with one entry.
pub(crate) fn create_words(count: u32) -> io::Result<OwnedFd> {
    create_map(MapKind::Array, 4, 4 * count, 1)
}

/// Numbers that programs and this process share: a map with one entry.
#[derive(Debug)]
pub(crate) struct SharedNumbers<const N: usize>(OwnedFd);

impl<const N: usize> SharedNumbers<N> {
    /// All zero.
    pub(crate) fn new() -> io::Result<Self> {
        create_map(MapKind::Array, 4, (8 * N) as u32, 1).map(SharedNumbers)
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    pub(crate) fn get(&self) -> io::Result<[u64; N]> {
        let mut numbers = [0u64; N];
        let key = 0u32;
        let mut attributes = [self.descriptor() as u64, &raw const key as u64, numbers.as_mut_ptr() as u64, 0];
        // The key has 4 bytes and the value 8 times N, as the map was created.
        bpf(Command::MapLookup, &mut attributes)?;
        Ok(numbers)
    }

    pub(crate) fn set(&self, numbers: [u64; N]) -> io::Result<()> {
        let key = 0u32;
        let mut attributes = [self.descriptor() as u64, &raw const key as u64, numbers.as_ptr() as u64, 0];
        // The key has 4 bytes and the value 8 times N, as the map was created.
        bpf(Command::MapUpdate, &mut attributes).map(|_| ())
    }
}

/// The keys of a map of processes, at most that many. Those that are added or removed meanwhile may be missing, or be there twice.
fn processes_in(map: &OwnedFd, most: u32) -> Vec<i32> {
    let mut found: Vec<i32> = Vec::new();
    while found.len() < most as usize {
        let mut next = 0i32;
        let key = found.last().map_or(0, |key| &raw const *key as u64);
        let mut attributes = [map.as_raw_fd() as u64, key, &raw mut next as u64, 0];
        // The keys have 4 bytes, as the map was created; without a key the kernel returns the first one.
        if bpf(Command::MapNextKey, &mut attributes).is_err() {
            break;
        }
        found.push(next);
    }
    found
}

/// How often programs ran in other processes than the captured ones, by process: a map from process numbers to two numbers.
#[derive(Debug)]
pub(crate) struct RunsOfOthers(OwnedFd);

impl RunsOfOthers {
    /// The most processes; those beyond are not counted.
    const MOST: u32 = 1 << 12;

    pub(crate) fn new() -> io::Result<RunsOfOthers> {
        create_map(MapKind::Hash, 4, 16, RunsOfOthers::MOST).map(RunsOfOthers)
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    pub(crate) fn get(&self) -> Vec<(i32, [u64; 2])> {
        let found = processes_in(&self.0, RunsOfOthers::MOST).into_iter();
        let found = found.filter_map(|process| {
            let mut runs = [0u64; 2];
            let mut attributes = [self.descriptor() as u64, &raw const process as u64, runs.as_mut_ptr() as u64, 0];
            // The key has 4 bytes and the value 16, as the map was created.
            bpf(Command::MapLookup, &mut attributes).ok().map(|_| (process, runs))
        });
        found.collect()
    }
}

/// Processes that programs and this process share: a map from process numbers to 1.
#[derive(Debug)]
pub(crate) struct ProcessSet(OwnedFd);

impl ProcessSet {
    /// The most processes of a set.
    pub(crate) const MOST: u32 = 1 << 14;

    /// An empty set.
    pub(crate) fn new() -> io::Result<ProcessSet> {
        create_map(MapKind::Hash, 4, 4, ProcessSet::MOST).map(ProcessSet)
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    pub(crate) fn insert(&self, process: i32) -> io::Result<()> {
        let value = 1u32;
        let mut attributes = [self.descriptor() as u64, &raw const process as u64, &raw const value as u64, 0];
        // Key and value have 4 bytes each, as the map was created.
        bpf(Command::MapUpdate, &mut attributes).map(|_| ())
    }

    pub(crate) fn remove(&self, process: i32) {
        let mut attributes = [self.descriptor() as u64, &raw const process as u64, 0, 0];
        // The key has 4 bytes, as the map was created. The only error is that the process is not in the set.
        let _ = bpf(Command::MapDelete, &mut attributes);
    }

    /// The processes in the set. Those that programs add or this process removes meanwhile may be missing, or be there twice.
    pub(crate) fn members(&self) -> Vec<i32> {
        processes_in(&self.0, ProcessSet::MOST)
    }
}

/// Loads a program. The kernel verifies it, so that it can neither run for long nor write to other memory than its own.
pub(crate) fn load_program(kind: ProgramKind, code: &[u64]) -> Result<OwnedFd, CaptureError> {
    let (program_type, attach_type) = kind.numbers();
    let mut attributes = [0u64; 15];
    attributes[0] = program_type | (code.len() as u64) << 32;
    attributes[8] = attach_type << 32;
    if let ProgramKind::FunctionEnd(function) = kind {
        attributes[13] = u64::from(function) << 32;
    }
    attributes[1] = code.as_ptr() as u64;
    // Functions that read memory are for programs under the GPL only.
    attributes[2] = c"GPL".as_ptr() as u64;
    let first = match bpf(Command::ProgramLoad, &mut attributes) {
        Ok(descriptor) => return Ok(owned(descriptor)),
        Err(error) => error,
    };
    if matches!(first.raw_os_error(), Some(libc::EPERM)) {
        return Err(CaptureError::of_kernel("load a BPF program", first));
    }
    // Once more, for the verifier's reasons.
    let mut log = vec![0u8; 1 << 16];
    attributes[3] = 1 | (log.len() as u64) << 32;
    attributes[4] = log.as_mut_ptr() as u64;
    match bpf(Command::ProgramLoad, &mut attributes) {
        Ok(descriptor) => Ok(owned(descriptor)),
        Err(error) => {
            let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
            let text = String::from_utf8_lossy(text);
            let reason = text.lines().rev().find(|line| !line.starts_with("processed"));
            Err(CaptureError::Kernel {
                attempt: "load a BPF program".into(),
                detail: format!("{error}: {}", reason.unwrap_or_default()),
            })
        }
    }
}

/// A descriptor of a process: it means that process also when its number is another one's.
pub(crate) fn process_handle(process: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    checked(opened).map(owned)
}

/// True once the process of the descriptor has ended.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut waited = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one local structure, and the call does not wait.
    let ready = unsafe { libc::poll(&raw mut waited, 1, 0) };
    ready == 1
}

/// `struct fiemap` without places.
#[repr(C)]
#[derive(Default)]
struct FilePlaces {
    start: u64,
    bytes: u64,
    flags: u32,
    found: u32,
    room: u32,
    reserved: u32,
}

/// True if the file's file system says where on a disk the file's bytes are.
pub(crate) fn has_places_on_disk(file: &fs::File) -> bool {
    /// `FS_IOC_FIEMAP`.
    const PLACES: u32 = 0xc020_660b;
    let mut places = FilePlaces { bytes: u64::MAX, ..FilePlaces::default() };
    // SAFETY: the kernel reads and writes one such structure, which has room for no place behind it, and says so.
    unsafe { libc::ioctl(file.as_raw_fd(), PLACES as _, &raw mut places) == 0 }
}

/// `struct perf_event_attr`, as far as uprobes use it.
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    rest: [u64; 5],
}

/// Code that runs whenever a process gets to an instruction, as long as this lives.
#[derive(Debug)]
pub(crate) struct Probe {
    _attached: OwnedFd,
    _program: OwnedFd,
}

/// Runs `code` whenever a process gets to the instruction at `offset` of the file `path`: in the process `pid`, or in every
/// process that maps the file.
pub(crate) fn probe(path: &str, offset: u64, code: &[u64], pid: Option<i32>) -> Result<Probe, CaptureError> {
    let program = load_program(ProgramKind::Kprobe, code)?;
    let refused = match perf_event(path, offset, &program, pid) {
        Ok(attached) => {
            return Ok(Probe { _attached: attached, _program: program });
        }
        Err(refused) => refused,
    };
    // Events of perf need CAP_SYS_ADMIN in programs of others; links of BPF do with CAP_PERFMON, from Linux 6.6 on.
    if !matches!(refused, CaptureError::Privilege { .. }) {
        return Err(refused);
    }
    let Ok(program) = load_program(ProgramKind::LinkedUprobe, code) else {
        return Err(refused);
    };
    // The file is none that has a program, so that no kernel makes the link.
    check_links(pid, || create_uprobe_link(c"/", 0, &program, NO_PROCESS))?;
    match uprobe_link(path, offset, &program, pid) {
        Ok(attached) => Ok(Probe { _attached: attached, _program: program }),
        Err(_) => Err(refused),
    }
}

/// The number of a process that the kernel reads as -1.
const NO_PROCESS: u32 = u32::MAX;

/// Refuses a probe of one process on kernels whose links of uprobes compare the number of the process with that of a thread.
/// These look at the file when `ask` asks for a link in the process -1, and the others refuse the number before that; libbpf
/// asks so, too.
fn check_links<L>(pid: Option<i32>, ask: impl FnOnce() -> io::Result<L>) -> Result<(), CaptureError> {
    let refuses = |error: io::Error| error.raw_os_error() == Some(libc::EINVAL);
    if pid.is_none() || ask().is_err_and(refuses) {
        return Ok(());
    }
    Err(CaptureError::Kernel {
        attempt: "probe another program without root".into(),
        detail: "this kernel's links of probes see one thread of a process only, as Linux before 6.10 does and its \
                 first versions of 6.6 and 6.9; run it as root"
            .into(),
    })
}

/// Runs `program` whenever a process gets to the instruction at `offset` of the file `path`, by a link of BPF.
fn uprobe_link(path: &str, offset: u64, program: &OwnedFd, pid: Option<i32>) -> Result<OwnedFd, CaptureError> {
    let name = CString::new(path).map_err(|_| CaptureError::malformed(path, "a NUL in a path"))?;
    let process = pid.map_or(0, |pid| pid as u32);
    create_uprobe_link(&name, offset, program, process).map_err(|error| CaptureError::of_kernel("probe another program", error))
}

/// The process 0 stands for all processes.
fn create_uprobe_link(path: &CStr, offset: u64, program: &OwnedFd, process: u32) -> io::Result<OwnedFd> {
    let mut attributes = [
        program.as_raw_fd() as u64,
        UPROBE_MULTI,
        path.as_ptr() as u64,
        &raw const offset as u64,
        0,
        0,
        // One offset.
        1,
        u64::from(process),
    ];
    bpf(Command::LinkCreate, &mut attributes).map(owned)
}

/// Runs `program` whenever a process gets to the instruction at `offset` of the file `path`: in the process `pid`, or in
/// every process that maps the file. The probe lives as long as the descriptor.
fn perf_event(path: &str, offset: u64, program: &OwnedFd, pid: Option<i32>) -> Result<OwnedFd, CaptureError> {
    const KIND: &str = "/sys/bus/event_source/devices/uprobe/type";
    let kind = fs::read_to_string(KIND)
        .map_err(|error| CaptureError::Kernel { attempt: "probe programs".into(), detail: format!("{KIND}: {error}") })?;
    let name = CString::new(path).map_err(|_| CaptureError::malformed(path, "a NUL in a path"))?;
    let attributes = EventAttributes {
        kind: kind.trim().parse().unwrap_or_default(),
        size: ATTRIBUTE_SIZE,
        config1: name.as_ptr() as u64,
        config2: offset,
        ..EventAttributes::default()
    };
    let (pid, processor) = match pid {
        Some(pid) => (pid, -1),
        None => (-1, 0),
    };
    let failed = |error| CaptureError::of_kernel("probe another program", error);
    // SAFETY: the attributes and the path that they point to are alive, and `size` is at most that of the structure.
    let opened = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, pid, processor, -1, CLOSE_ON_EXEC) };
    let event = checked(opened).map(owned).map_err(failed)?;
    for (request, value) in [(SET_BPF, program.as_raw_fd()), (ENABLE, 0)] {
        // SAFETY: both requests take a number and no pointer.
        let done = unsafe { libc::ioctl(event.as_raw_fd(), request as _, value) };
        checked(done.into()).map_err(failed)?;
    }
    Ok(event)
}

/// Runs `program` at the raw tracepoint `name` of the kernel, as long as the descriptor lives.
pub(crate) fn raw_tracepoint(name: &str, program: &OwnedFd) -> Result<OwnedFd, CaptureError> {
    let text = CString::new(name).map_err(|_| CaptureError::malformed(name, "a NUL in a name"))?;
    let mut attributes = [text.as_ptr() as u64, program.as_raw_fd() as u64];
    bpf(Command::RawTracepointOpen, &mut attributes)
        .map(owned)
        .map_err(|error| CaptureError::of_kernel(&format!("watch {name}"), error))
}

/// Runs `program` at the end of the kernel's function for which it was loaded, as long as the descriptor lives.
pub(crate) fn function_end(name: &str, program: &OwnedFd) -> Result<OwnedFd, CaptureError> {
    let mut attributes = [0, program.as_raw_fd() as u64];
    bpf(Command::RawTracepointOpen, &mut attributes)
        .map(owned)
        .map_err(|error| CaptureError::of_kernel(&format!("watch the kernel's {name}"), error))
}

/// True if programs can run at the end of this function: not on kernels that cannot change their code while they run.
pub(crate) fn can_watch(function: u32) -> bool {
    let mut program = Assembler::default();
    let code = program.set(R0, 0).exit().finish();
    let loaded = load_program(ProgramKind::FunctionEnd(function), &code);
    loaded.is_ok_and(|program| function_end("", &program).is_ok())
}

/// What a file system gives a file besides its number, which the next file gets when this one is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileHandle(Vec<u32>);

impl FileHandle {
    /// Of the file behind a descriptor, which need not be open for reading; `None` where the file system gives none.
    pub(crate) fn of(file: &OwnedFd) -> Option<FileHandle> {
        /// `MAX_HANDLE_SZ` in words.
        const MOST: usize = 32;
        // `struct file_handle`: the bytes behind it, their kind, and they.
        let mut handle = [0u32; MOST + 2];
        handle[0] = 4 * MOST as u32;
        let mut mount = 0i32;
        // SAFETY: the kernel writes at most the bytes that the first word names behind the first two, and one number.
        let result = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                file.as_raw_fd(),
                c"".as_ptr(),
                handle.as_mut_ptr(),
                &raw mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        let words = (handle[0] as usize).div_ceil(4);
        // Overlays, whose handles have a byte for their version, are none of these.
        let is_known = handle[1] < 0xf0;
        (result == 0 && is_known && words <= MOST).then(|| FileHandle(handle[2..2 + words].to_vec()))
    }

    /// True if the file is the one that the kernel numbers so (`i_generation`). File systems have it behind the file's number, and
    /// tmpfs before it.
    pub(crate) fn has_generation(&self, generation: u32) -> bool {
        [self.0.first(), self.0.last()].contains(&Some(&generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check's answer where the kernel answers with this error, or makes a link.
    fn checked(pid: Option<i32>, error: Option<i32>) -> Result<(), String> {
        let answer = || match error {
            Some(error) => Err(io::Error::from_raw_os_error(error)),
            None => Ok(()),
        };
        check_links(pid, answer).map_err(|error| error.to_string())
    }

    #[test]
    fn links_that_see_one_thread_are_refused() {
        // Linux before 6.10 does not get to the process, or does not find it.
        for error in [Some(libc::EBADF), Some(libc::ESRCH), None] {
            let refused = checked(Some(77), error).expect_err("one thread only");
            assert!(refused.contains("one thread of a process only"), "{refused}");
            assert!(refused.contains("run it as root"), "{refused}");
        }
    }

    #[test]
    fn links_that_see_all_threads_are_not_refused() {
        assert_eq!(checked(Some(77), Some(libc::EINVAL)), Ok(()));
    }

    #[test]
    fn a_link_in_all_processes_needs_no_question() {
        let never = || -> io::Result<()> { panic!("it is not asked") };
        assert!(check_links(None, never).is_ok());
    }
}
