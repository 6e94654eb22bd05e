//! Probes that are attached to a program, and their events.

use std::os::fd::{AsRawFd, OwnedFd};

use crate::btf::KernelFunction;
use crate::elf::ElfProgram;
use crate::error::CaptureError;
use crate::event::{ALL_PAGES, EMULATED, LOOKED, Maps, PROCESSORS, SLOTS, STEPPED, WORDS};
use crate::foreign::ProgramFile;
use crate::kernel::{self, Probe, ProgramKind, RunsOfOthers, SharedNumbers};
use crate::ring::BpfRingBuffer;
use crate::session::{EventStream, Runs};
use crate::target::Process;

/// The most instructions of a program that are probed; servers have about 20. Each takes the kernel a while to attach and to
/// remove, and a hostile program may name any number.
const MOST_SITES: usize = 64;

/// An instruction to probe.
#[derive(Debug)]
pub(crate) struct Site {
    /// What is there, for messages.
    pub(crate) name: String,
    /// The address in the program's file.
    pub(crate) address: u64,
    /// What to run there.
    pub(crate) code: Vec<u64>,
}

/// Where a program runs in the kernel.
#[derive(Clone, Debug)]
pub(crate) enum KernelPlace {
    /// At the raw tracepoint of this name.
    Tracepoint(&'static str),
    /// At the end of a function, only for its callers.
    End(KernelFunction),
}

/// The maps of a capture, before anything is attached.
pub(crate) struct Channel {
    ring: BpfRingBuffer,
    lost: SharedNumbers<1>,
    limit: SharedNumbers<1>,
    others: RunsOfOthers,
    outside: SharedNumbers<{ SLOTS as usize }>,
    runs: SharedNumbers<{ PROCESSORS * WORDS }>,
    left_out: OwnedFd,
}

impl Channel {
    /// A ring of that many bytes, a power of two.
    pub(crate) fn new(ring_bytes: u32) -> Result<Channel, CaptureError> {
        kernel::raise_memory_limit();
        let failed = |error| CaptureError::of_kernel("create a map", error);
        let ring = BpfRingBuffer::new(ring_bytes)?;
        let lost = SharedNumbers::new().map_err(failed)?;
        let limit = SharedNumbers::new().map_err(failed)?;
        limit.set([ALL_PAGES]).map_err(failed)?;
        Ok(Channel {
            ring,
            lost,
            limit,
            others: RunsOfOthers::new().map_err(failed)?,
            outside: SharedNumbers::new().map_err(failed)?,
            runs: SharedNumbers::new().map_err(failed)?,
            left_out: kernel::create_words(SLOTS).map_err(failed)?,
        })
    }

    pub(crate) fn maps(&self) -> Maps {
        Maps {
            ring: self.ring.descriptor(),
            lost: self.lost.descriptor(),
            limit: self.limit.descriptor(),
            others: self.others.descriptor(),
            outside: self.outside.descriptor(),
            runs: self.runs.descriptor(),
            of_place: EMULATED,
            left_out: self.left_out.as_raw_fd(),
        }
    }

    /// The maps for a probe at this address of the program's file.
    pub(crate) fn maps_at(&self, program: &ElfProgram, address: u64) -> Maps {
        let of_place = if program.is_stepped(address) { STEPPED } else { EMULATED };
        Maps { of_place, ..self.maps() }
    }

    /// Forgets the events that wait.
    pub(crate) fn drain_all(&mut self) {
        self.ring.drain(|_| true);
    }

    /// Leaves every page out of the sample.
    pub(crate) fn leave_all_out(&self) -> Result<(), CaptureError> {
        let set = self.limit.set([0]);
        set.map_err(|error| CaptureError::of_kernel("change a map", error))
    }
}

/// The program to probe: its file is the open one from which the offsets were read, so that no other file is probed,
/// whatever the target has become since.
pub(crate) struct ProbedFile<'a> {
    pub(crate) file: &'a ProgramFile,
    /// Its name, for messages.
    pub(crate) name: &'a str,
    pub(crate) program: &'a ElfProgram,
    /// True while the target is the process that was looked at, and runs this file.
    pub(crate) is_the_same: &'a dyn Fn() -> bool,
}

impl ProbedFile<'_> {
    fn check(&self) -> Result<(), CaptureError> {
        if self.file.is_unchanged() && (self.is_the_same)() {
            return Ok(());
        }
        Err(CaptureError::Changed(self.name.to_owned()))
    }
}

/// Probes that run. Dropping them removes all of them from the kernel, and so does the end of this process.
pub(crate) struct Probes {
    probes: Vec<Probe>,
    /// Programs at tracepoints, each after its attachment, so that it is removed first.
    tracepoints: Vec<(OwnedFd, OwnedFd)>,
    channel: Channel,
}

impl Probes {
    /// Attaches probes to instructions of a program: in one process, or in all that run the file. Nothing is attached if the
    /// target has changed since it was looked at, or changes meanwhile.
    pub(crate) fn attach(
        channel: Channel,
        target: &ProbedFile,
        sites: &[Site],
        process: Option<i32>,
    ) -> Result<Box<dyn EventStream>, CaptureError> {
        if sites.len() > MOST_SITES {
            let problem = format!("it has {} places to probe, more than {MOST_SITES}", sites.len());
            return Err(CaptureError::malformed(target.name, problem));
        }
        let mut probes = Vec::new();
        let path = target.file.path();
        target.check()?;
        for site in sites {
            let offset = target
                .program
                .offset(site.address)
                .ok_or_else(|| CaptureError::malformed(target.name, format!("{} is outside of the file", site.name)))?;
            probes.push(kernel::probe(&path, offset, &site.code, process)?);
        }
        // An error removes the probes.
        target.check()?;
        Ok(Box::new(Probes { probes, tracepoints: Vec::new(), channel }))
    }

    /// Attaches programs to places in the kernel.
    pub(crate) fn watch(channel: Channel, places: &[(KernelPlace, Vec<u64>)]) -> Result<Box<dyn EventStream>, CaptureError> {
        let mut attached = Vec::new();
        for (place, code) in places {
            attached.push(match place {
                KernelPlace::Tracepoint(name) => {
                    let loaded = kernel::load_program(ProgramKind::RawTracepoint, code)?;
                    (kernel::raw_tracepoint(name, &loaded)?, loaded)
                }
                KernelPlace::End(function) => {
                    let loaded = kernel::load_program(ProgramKind::FunctionEnd(function.number), code)?;
                    (kernel::function_end(&function.name, &loaded)?, loaded)
                }
            });
        }
        Ok(Box::new(Probes { probes: Vec::new(), tracepoints: attached, channel }))
    }
}

impl EventStream for Probes {
    /// Removes the probes; events that wait remain.
    fn detach(&mut self) {
        self.probes.clear();
        self.tracepoints.clear();
    }

    fn drain(&mut self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.channel.ring.drain(take)
    }

    fn fill(&self) -> f64 {
        self.channel.ring.fill()
    }

    fn lost(&self) -> u64 {
        self.channel.lost.get().map_or(0, |[lost]| lost)
    }

    fn runs(&self) -> Runs {
        let all = self.channel.runs.get().unwrap_or([0; PROCESSORS * WORDS]);
        [EMULATED, STEPPED, LOOKED].map(|place| all.chunks(WORDS).map(|words| words[place as usize / 8]).sum())
    }

    fn runs_of_others(&self) -> Vec<(i32, [u64; 2])> {
        let mut others = self.channel.others.get();
        let mut runs = self.channel.outside.get().unwrap_or([0; SLOTS as usize]);
        // The command itself makes system calls.
        let own = Process::current().0;
        runs[own as usize % runs.len()] = 0;
        if runs.iter().any(|runs| *runs > 0) {
            // Of two that share a slot the first one gets both.
            others.extend(Process::all().into_iter().filter_map(|Process(process)| {
                let runs = std::mem::take(&mut runs[process as usize % runs.len()]);
                (runs > 0).then_some((process, [runs, 0]))
            }));
        }
        others
    }

    fn limit_sample(&self, limit: u64) -> Result<(), CaptureError> {
        let set = self.channel.limit.set([limit]);
        set.map_err(|error| CaptureError::of_kernel("change a map", error))
    }
}

/// A channel for tests that load programs; `None`, with a line that says why, where the kernel or the rights refuse it.
#[cfg(test)]
pub(crate) fn test_channel() -> Option<Channel> {
    match Channel::new(1 << 16) {
        Ok(channel) => Some(channel),
        Err(error) => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "skipped: {error}");
            None
        }
    }
}
