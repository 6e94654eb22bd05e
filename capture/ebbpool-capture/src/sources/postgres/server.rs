//! Running PostgreSQL servers.

use serde::Serialize;

use crate::elf::ElfProgram;
use crate::error::CaptureError;
use crate::event::Owner;
use crate::foreign::{self, ProgramFile, SMALL};
use crate::target::Process;

/// Major versions whose probes and structures are known.
const VERSIONS: std::ops::RangeInclusive<u32> = 13..=18;

/// The settings of a server that determine its page reads and writes, as they are in its memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PostgresSettings {
    /// `shared_buffers`, in pages.
    pub shared_buffers: u64,
    /// `bgwriter_delay`, in milliseconds.
    pub bgwriter_delay: Option<u32>,
    /// `bgwriter_lru_maxpages`.
    pub bgwriter_lru_maxpages: Option<u32>,
    /// `bgwriter_lru_multiplier`.
    pub bgwriter_lru_multiplier: Option<f64>,
    /// `checkpoint_timeout`, in seconds.
    pub checkpoint_timeout: Option<u32>,
    /// `checkpoint_completion_target`.
    pub checkpoint_completion_target: Option<f64>,
    /// `max_wal_size`, in megabytes.
    pub max_wal_size: Option<u32>,
}

/// A running server.
#[derive(Debug)]
pub struct PostgresServer {
    /// The postmaster.
    pub process: Process,
    /// The major version.
    pub major: u32,
    /// The data directory, as the server sees it.
    pub data: String,
    /// The settings.
    pub settings: PostgresSettings,
    /// The program's file, as the server sees it.
    pub(super) program_name: String,
    pub(super) file: ProgramFile,
    pub(super) program: ElfProgram,
    /// The distance between addresses in the file and in memory.
    pub(super) displacement: u64,
    /// The address of the descriptors of all buffers.
    pub(super) descriptors: u64,
    /// What the postmaster writes into its memory when it starts, and its children inherit; `None` where no other server can have
    /// the same addresses. To look at it costs a seventh of an event.
    pub(super) owner: Option<Owner>,
}

/// Postmasters: processes with `postgres` as their program and a `postmaster.pid` of theirs in their working directory.
pub fn servers() -> Vec<Process> {
    Process::all().into_iter().filter(|&it| is_postmaster(it)).collect()
}

fn is_postmaster(process: Process) -> bool {
    let is_postgres = |name: &str| matches!(name, "postgres" | "postmaster");
    if !process.command().is_some_and(|name| is_postgres(&name)) {
        return false;
    }
    let directory = process.directory("cwd");
    let file = directory.and_then(|directory| directory.read("postmaster.pid", SMALL));
    let Ok(file) = file else {
        return false;
    };
    let file = String::from_utf8_lossy(&file);
    // In a container the server knows itself by the number of its own name space.
    process.own_number().as_deref() == file.lines().next()
}

/// The only server, or that with this number.
pub(super) fn choose(pid: Option<i32>) -> Result<Process, CaptureError> {
    if let Some(pid) = pid {
        return Ok(Process(pid));
    }
    Process::only("PostgreSQL", &servers())
}

impl PostgresServer {
    /// Looks at a server.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] if it is no server, if it is of another version, or if its program was replaced since it started.
    pub fn open(process: Process) -> Result<PostgresServer, CaptureError> {
        let program_name = process.program()?;
        let directory = process.directory("cwd");
        let version = directory.and_then(|directory| directory.read("PG_VERSION", SMALL));
        let version = version.map_err(|_| {
            CaptureError::NotFound(format!(
                "process {} is no PostgreSQL server: its working directory has no PG_VERSION; `ebbpool capture list` shows servers",
                process.0
            ))
        })?;
        let version = String::from_utf8_lossy(&version);
        let refused = |problem: String, remedy: &str| CaptureError::Build {
            program: program_name.clone(),
            problem,
            remedy: remedy.into(),
        };
        let major = version.trim().parse().ok();
        let Some(major) = major.filter(|major| VERSIONS.contains(major)) else {
            return Err(refused(
                format!("PostgreSQL {} is not known", version.trim()),
                "versions 13 to 18 are; `ebbpool capture process` sees the reads and writes of any program",
            ));
        };
        let exe = process.path("exe");
        let file = ProgramFile::open(&exe, &process.path("mountinfo")).map_err(CaptureError::read(exe))?;
        let program = ElfProgram::of_file(&file, &program_name)?;
        let displacement = process.displacement(&program, &program_name).ok_or_else(|| {
            refused(
                "the running program is not the one in this file".into(),
                "restart the server, which was upgraded while it ran",
            )
        })?;
        let data = foreign::link_text(&process.path("cwd")).map_err(CaptureError::read("cwd"))?;
        let memory = ServerMemory { process, program: &program, displacement };
        let descriptors = memory.number64("BufferDescriptors");
        let shared_buffers = memory.number32("NBuffers");
        let (Some(descriptors), Some(shared_buffers)) = (descriptors, shared_buffers) else {
            return Err(refused(
                "it has no symbols BufferDescriptors and NBuffers".into(),
                "use a build whose dynamic symbols are not stripped, such as Debian's or PGDG's",
            ));
        };
        let postmaster = memory.number32("PostmasterPid");
        if postmaster.is_some_and(|number| process.own_number() != Some(number.to_string())) {
            return Err(no_postmaster(process));
        }
        let owner = match are_random(process, displacement) && !shares_addresses(process, &memory, &file) {
            true => None,
            false => Some(memory.owner().ok_or_else(|| {
                refused(
                    "it has no symbols PgStartTime and PostmasterPid, and without address randomisation nothing else shows which server a process belongs to".into(),
                    "use a build whose dynamic symbols are not stripped, such as Debian's or PGDG's",
                )
            })?),
        };
        Ok(PostgresServer {
            process,
            major,
            data,
            settings: PostgresSettings {
                shared_buffers: shared_buffers.into(),
                bgwriter_delay: memory.number32("BgWriterDelay"),
                bgwriter_lru_maxpages: memory.number32("bgwriter_lru_maxpages"),
                bgwriter_lru_multiplier: memory.fraction("bgwriter_lru_multiplier"),
                checkpoint_timeout: memory.number32("CheckPointTimeout"),
                checkpoint_completion_target: memory.fraction("CheckPointCompletionTarget"),
                max_wal_size: memory.number32("max_wal_size_mb"),
            },
            program_name,
            file,
            program,
            displacement,
            descriptors,
            owner,
        })
    }
}

/// True if the kernel has chosen the addresses of a process at random, so that those of other servers differ.
fn are_random(process: Process, displacement: u64) -> bool {
    /// `ADDR_NO_RANDOMIZE`, which `setarch -R` sets.
    const NOT_RANDOM: u32 = 0x4_0000;
    /// Where Linux puts programs on x86-64 then (`ELF_ET_DYN_BASE`), also if the setting was changed since.
    const USUAL: u64 = 0x5555_5555_4000;
    let text = |path: &str| foreign::kernel_text(path).unwrap_or_default();
    let personality = text(&process.path("personality"));
    let personality = u32::from_str_radix(personality.trim(), 16).unwrap_or(NOT_RANDOM);
    let setting = text("/proc/sys/kernel/randomize_va_space");
    // A program that is linked to fixed addresses has no displacement.
    let is_fixed = displacement == 0 || displacement == USUAL;
    !is_fixed && personality & NOT_RANDOM == 0 && setting.trim() != "0"
}

/// True if a process of another server runs the same file at the same addresses.
fn shares_addresses(process: Process, memory: &ServerMemory, file: &ProgramFile) -> bool {
    let others = others(process, file).into_iter();
    let mut displacements = others.filter_map(|other| {
        let program = other.program().ok()?;
        other.displacement(memory.program, &program)
    });
    displacements.any(|displacement| displacement == memory.displacement)
}

/// Processes of other servers that run the same file.
fn others(process: Process, file: &ProgramFile) -> Vec<Process> {
    let own = process.descendants();
    let mut all = Process::all();
    all.retain(|process| {
        let identity = foreign::identity_behind(&process.path("exe"));
        identity == Some(file.identity()) && !own.contains(process)
    });
    all
}

/// A process of PostgreSQL that is no postmaster, such as a backend.
fn no_postmaster(process: Process) -> CaptureError {
    let parent = process.parent().filter(|parent| is_postmaster(*parent));
    let remedy = match parent {
        Some(parent) => format!("its server is --pid {}", parent.0),
        None => "`ebbpool capture list` shows servers".into(),
    };
    CaptureError::NotFound(format!("process {} is no postmaster but a process of a PostgreSQL server; {remedy}", process.0))
}

/// Variables of a server.
struct ServerMemory<'a> {
    process: Process,
    program: &'a ElfProgram,
    displacement: u64,
}

impl ServerMemory<'_> {
    fn bytes<const N: usize>(&self, symbol: &str) -> Option<[u8; N]> {
        let address = self.program.symbol(symbol)?.wrapping_add(self.displacement);
        let mut bytes = [0; N];
        self.process.read_memory(address, &mut bytes).then_some(bytes)
    }

    /// The time at which the postmaster started, in microseconds, which two servers hardly share; in containers all
    /// postmasters may have the same number. A server that is just starting has the number only.
    fn owner(&self) -> Option<Owner> {
        let found = |symbol: &str, value: u64, bytes| {
            Some(Owner { address: self.program.symbol(symbol)?.wrapping_add(self.displacement), bytes, value })
        };
        let time = self.number64("PgStartTime").filter(|time| *time != 0);
        match time {
            Some(time) => found("PgStartTime", time, 8),
            None => found("PostmasterPid", self.number32("PostmasterPid")?.into(), 4),
        }
    }

    fn number32(&self, symbol: &str) -> Option<u32> {
        self.bytes(symbol).map(u32::from_le_bytes)
    }

    fn number64(&self, symbol: &str) -> Option<u64> {
        self.bytes(symbol).map(u64::from_le_bytes)
    }

    fn fraction(&self, symbol: &str) -> Option<f64> {
        let number = self.bytes(symbol).map(f64::from_le_bytes);
        number.filter(|number| number.is_finite())
    }
}

/// A page in a server's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferedPage {
    /// Tablespace, database, relation and fork.
    pub object: [u32; 4],
    /// The page.
    pub page: u32,
    /// How often it was used of late, 0 to 5.
    pub usage: u32,
    /// True if it is to be written.
    pub dirty: bool,
}

/// Bytes of the descriptor of a buffer.
pub(super) const DESCRIPTOR: usize = 64;

impl BufferedPage {
    /// Reads a descriptor; `None` if its buffer is empty. The page's tag has 20 bytes, the state is a word at 24: 18 bits
    /// count pins, 4 are the usage count, then come flags (`buf_internals.h`, PostgreSQL 13 to 18).
    pub fn parse(descriptor: &[u8]) -> Option<BufferedPage> {
        const USAGE: u32 = 18;
        /// `BM_MAX_USAGE_COUNT`.
        const MOST_USAGE: u32 = 5;
        const DIRTY: u32 = 1 << 23;
        const VALID: u32 = 1 << 24;
        let word = |at: usize| {
            let bytes = descriptor.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let state = word(24)?;
        if state & VALID == 0 {
            return None;
        }
        Some(BufferedPage {
            object: [word(0)?, word(4)?, word(8)?, word(12)?],
            page: word(16)?,
            usage: (state >> USAGE & 15).min(MOST_USAGE),
            dirty: state & DIRTY != 0,
        })
    }
}

impl PostgresServer {
    /// The program's file, as the server sees it.
    pub fn program_name(&self) -> &str {
        &self.program_name
    }

    /// Processes of other servers that run the same file.
    pub fn others(&self) -> Vec<Process> {
        others(self.process, &self.file)
    }

    /// The pages in the shared buffer, in its order. The server runs on meanwhile, so that a page may be missing or double.
    pub fn buffered_pages(&self) -> Vec<BufferedPage> {
        /// Descriptors read at once.
        const TOGETHER: u64 = 1 << 14;
        /// The usual size of a page.
        const PAGE: u64 = 8192;
        let (mut pages, mut bytes) = (Vec::new(), Vec::new());
        // What a process says may be wrong; no buffer is larger than the machine's memory.
        let most = foreign::memory_bytes().map_or(1 << 20, |bytes| bytes / PAGE);
        let all = self.settings.shared_buffers.min(most);
        for first in (0..all).step_by(TOGETHER as usize) {
            let count = TOGETHER.min(all - first) as usize;
            bytes.resize(count * DESCRIPTOR, 0);
            let address = self.descriptors.wrapping_add(first * DESCRIPTOR as u64);
            if !self.process.read_memory(address, &mut bytes) {
                break;
            }
            pages.extend(bytes.chunks_exact(DESCRIPTOR).filter_map(BufferedPage::parse));
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_has_page_usage_and_state() {
        let mut bytes = Vec::new();
        let state: u32 = 3 | 5 << 18 | 1 << 23 | 1 << 24 | 1 << 25;
        for word in [1663, 5, 16384, 1, 77, 9, state] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.resize(DESCRIPTOR, 0);
        let page = BufferedPage::parse(&bytes).expect("a page");
        assert_eq!((page.object, page.page), ([1663, 5, 16384, 1], 77));
        assert_eq!((page.usage, page.dirty), (5, true));
        bytes[27] = 0;
        assert_eq!(BufferedPage::parse(&bytes), None);
        assert_eq!(BufferedPage::parse(&bytes[..20]), None);
    }
}
