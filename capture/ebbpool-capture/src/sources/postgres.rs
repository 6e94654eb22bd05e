//! PostgreSQL 13 to 18: every request of a page to the shared buffer, and every page made dirty.
//!
//! Requests are the USDT probes `buffer__read__done` (up to 15) or `buffer__read__start` and `buffer__extend__done` (from
//! 16); builds without these, up to 16, are probed at `ReadBufferExtended`. Dirty pages are the entries of `MarkBufferDirty`
//! and `MarkBufferDirtyHint`. All of them count as the server itself counts.

pub mod catalog;
mod decoder;
#[cfg(test)]
mod golden;
mod log_position;
pub mod module;
mod programs;
mod server;

use std::path::Path;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};

use crate::arch::Arch;
use crate::error::CaptureError;
use crate::event::PageEvent;
use crate::hold::CaptureLock;
use crate::operands::operands;
use crate::probes::{Channel, ProbedFile, Probes, Site};
use crate::recorder::CaptureBuffer;
use crate::session::{CaptureSource, EventStream};
use crate::target::Process;
use crate::trace_file::{CapturedTrace, NamedObject};
use crate::written::{CountedWrites, KernelFiles, WriteCounters};

use catalog::DataDirectory;
use log_position::log_position;
use programs::{ReadOperands, ServerProbe, kind};

pub use decoder::{PostgresCounts, PostgresDecoder};
pub use server::{BufferedPage, PostgresServer, PostgresSettings, servers};

/// The probe behind a request up to PostgreSQL 15, which says whether the page was in the buffer.
const READ_PROBE: &str = "buffer__read__done";

/// The probe behind the write of a page.
const FLUSH_PROBE: &str = "buffer__flush__done";

/// A server under capture.
pub struct PostgresSource {
    /// The server.
    pub server: PostgresServer,
    decoder: PostgresDecoder,
    page_bytes: u64,
    /// True if the build shows when a page is written.
    shows_flushes: bool,
    /// True if the build shows which requests hit.
    shows_hits: bool,
    arch: Arch,
    /// Open from the beginning, since nothing leads to it once the server has ended.
    directory: DataDirectory,
    lock: CaptureLock,
}

impl PostgresSource {
    /// The server with this number, or the only one.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] if there is no server or several, if another capture runs, or if the build hides what is needed.
    pub fn open(pid: Option<i32>) -> Result<PostgresSource, CaptureError> {
        let process = server::choose(pid)?;
        let lock = process.lock()?;
        let server = PostgresServer::open(process)?;
        let major = server.major;
        let mut flushes = server.program.probes("postgresql", FLUSH_PROBE);
        let shows_flushes = flushes.next().is_some();
        drop(flushes);
        let mut reads = server.program.probes("postgresql", READ_PROBE);
        let shows_hits = major <= 15 && reads.next().is_some();
        drop(reads);
        let directory = DataDirectory::of_server(process, major);
        let page_bytes = directory.page_size().unwrap_or(8192) as u64;
        Ok(PostgresSource {
            server,
            decoder: PostgresDecoder::new(major),
            page_bytes,
            shows_flushes,
            shows_hits,
            arch: Arch::THIS,
            directory,
            lock,
        })
    }

    /// What was captured, besides references.
    pub fn counts(&self) -> PostgresCounts {
        self.decoder.counts
    }

    /// Processes of other servers that run the same file, and pay for a trap at each of their requests.
    pub fn others(&self) -> Vec<Process> {
        self.server.others()
    }

    /// What the capture will do, in a sentence.
    pub fn description(&self) -> String {
        let server = &self.server;
        format!(
            "PostgreSQL {}, process {}, data directory {}, shared_buffers {} pages",
            server.major, server.process.0, server.data, server.settings.shared_buffers
        )
    }

    /// The captured trace with the names of relations from the data directory; without `names`, relations are called by
    /// their numbers.
    pub fn trace(&self, recorder: CaptureBuffer, names: bool) -> CapturedTrace {
        let directory = &self.directory;
        let page_size = directory.page_size().unwrap_or(8192);
        let requested = requested_files(&recorder);
        let databases = match names {
            true => directory.databases(|database| requested.contains_key(&database)),
            false => HashMap::new(),
        };
        let mut relations = HashMap::new();
        let objects = recorder.objects.iter().map(|object| {
            let [_, database, relation, fork] = object.key;
            if names {
                let files = requested.get(&database);
                let is_wanted = |file| files.is_some_and(|files| files.contains(&file));
                let known = || directory.relations(database, is_wanted);
                relations.entry(database).or_insert_with(known);
            }
            let named = relations.get(&database);
            let named = named.and_then(|known| known.get(&relation));
            NamedObject {
                name: named.map_or_else(|| relation.to_string(), |named| named.name.clone()),
                group: match database {
                    0 => "shared".into(),
                    database => databases.get(&database).cloned().unwrap_or_else(|| database.to_string()),
                },
                kind: named.map(|named| kind_name(named.kind).into()),
                part: catalog::fork_name(fork).into(),
                pages: object.pages.max(directory.pages(&object.key, page_size)),
            }
        });
        let objects = objects.collect();
        CapturedTrace {
            name: format!("postgresql {}", self.server.major),
            page_size: page_size as u64,
            below_cache: false,
            objects,
            recorder,
        }
    }

    fn probe_sites(&self, channel: &Channel) -> Result<Vec<Site>, CaptureError> {
        let mut sites = self.read_sites(channel)?;
        let server = &self.server;
        let probe = |address: u64| self.probe_at(channel, address);
        let function = |name: &str| {
            let address = server.program.symbol(name);
            address.map(|address| server.program.entry(address))
        };
        for name in ["MarkBufferDirty", "MarkBufferDirtyHint"] {
            let address = function(name).ok_or_else(|| self.without(name))?;
            sites.push(Site { name: name.into(), address, code: programs::dirty(probe(address), server.descriptors) });
        }
        let statement_end = ["standard_ExecutorEnd", "ExecutorEnd"];
        if let Some(address) = statement_end.into_iter().find_map(function) {
            sites.push(Site { name: statement_end[0].into(), address, code: programs::statement_end(probe(address)) });
        }
        if let Some(address) = function("StrategyRejectBuffer") {
            sites.push(Site {
                name: "StrategyRejectBuffer".into(),
                address,
                code: programs::unlogged_victim(probe(address), server.major),
            });
        }
        for found in server.program.probes("postgresql", FLUSH_PROBE) {
            sites.push(Site { name: FLUSH_PROBE.into(), address: found.address, code: programs::flush(probe(found.address)) });
        }
        let rings = [
            ("GetAccessStrategy", kind::RING),
            ("GetAccessStrategyWithSize", kind::RING),
            ("FreeAccessStrategy", kind::RING_END),
        ];
        for (name, event_kind) in rings {
            if let Some(address) = function(name) {
                sites.push(Site { name: name.into(), address, code: programs::ring(probe(address), event_kind) });
            }
        }
        Ok(sites)
    }

    fn probe_at(&self, channel: &Channel, address: u64) -> ServerProbe {
        ServerProbe {
            arch: self.arch,
            maps: channel.maps_at(&self.server.program, address),
            address: address.wrapping_add(self.server.displacement),
            owner: self.server.owner,
        }
    }

    /// The probes at which pages are requested.
    fn read_sites(&self, channel: &Channel) -> Result<Vec<Site>, CaptureError> {
        let server = &self.server;
        let wanted: &[(&str, u32)] = match server.major {
            ..=15 => &[(READ_PROBE, kind::READ)],
            _ => &[("buffer__read__start", kind::READ), ("buffer__extend__done", kind::EXTEND)],
        };
        let mut sites = Vec::new();
        for &(name, event_kind) in wanted {
            for probe in server.program.probes("postgresql", name) {
                let found = operands(&probe.operands, self.arch);
                let found = match event_kind {
                    kind::EXTEND => ReadOperands::of_extend(&found),
                    _ => ReadOperands::of_read(&found, server.major <= 15),
                };
                let found = found.ok_or_else(|| CaptureError::Build {
                    program: server.program_name.clone(),
                    problem: format!("the operands '{}' of {name} are not understood", probe.operands),
                    remedy: "please report them with the package's name and version".into(),
                })?;
                sites.push(Site {
                    name: name.into(),
                    address: probe.address,
                    code: programs::read(self.probe_at(channel, probe.address), event_kind, &found),
                });
            }
        }
        if !sites.is_empty() {
            return Ok(sites);
        }
        let entry = server.program.symbol("ReadBufferExtended");
        match entry.map(|address| server.program.entry(address)) {
            Some(address) if server.major <= 16 => Ok(vec![Site {
                name: "ReadBufferExtended".into(),
                address,
                code: programs::read_at_entry(self.probe_at(channel, address)),
            }]),
            _ => Err(self.without("USDT probes")),
        }
    }

    fn without(&self, what: &str) -> CaptureError {
        CaptureError::Build {
            program: self.server.program_name.clone(),
            problem: format!("this build of PostgreSQL has no {what}"),
            remedy: "Debian's and Ubuntu's packages have them; others are configured with --enable-dtrace".into(),
        }
    }
}

/// The numbers of the files that were requested, by database.
fn requested_files(recorder: &CaptureBuffer) -> HashMap<u32, HashSet<u32>> {
    let mut files: HashMap<u32, HashSet<u32>> = HashMap::new();
    for object in &recorder.objects {
        let [_, database, relation, _] = object.key;
        files.entry(database).or_default().insert(relation);
    }
    files
}

/// A kind of relations by its letter in `pg_class`.
pub fn kind_name(kind: char) -> &'static str {
    match kind {
        'r' => "table",
        'i' => "index",
        't' => "toast",
        'S' => "sequence",
        'm' => "materialized view",
        _ => "relation",
    }
}

impl CaptureSource for PostgresSource {
    fn attach(&mut self, ring_bytes: u32) -> Result<Box<dyn EventStream>, CaptureError> {
        let channel = Channel::new(ring_bytes)?;
        let sites = self.probe_sites(&channel)?;
        // The probes are for all that run the file, since new backends appear; the programs leave out those of other
        // servers.
        let target = ProbedFile {
            file: &self.server.file,
            name: &self.server.program_name,
            program: &self.server.program,
            is_the_same: &|| self.is_the_same(),
        };
        Probes::attach(channel, &target, &sites, None)
    }

    fn record_event(&mut self, event: &[u8], recorder: &mut CaptureBuffer) {
        if let Some(event) = PageEvent::parse(event) {
            self.decoder.record(&event, recorder);
        }
    }

    /// Each page as often as its usage count says, at least once; what was used more often comes later, so that a policy that
    /// looks at recency alone agrees.
    fn record_resident(&mut self, recorder: &mut CaptureBuffer) {
        let mut pages = self.server.buffered_pages();
        pages.retain(|page| catalog::is_fork(page.object[3]));
        let most = pages.iter().map(|page| page.usage).max().unwrap_or(0);
        for round in 1..=most.max(1) {
            for page in pages.iter().filter(|page| round == 1 || page.usage >= round) {
                let object = recorder.object(page.object);
                recorder.resident(object, page.page.into(), page.dirty && round == 1);
            }
        }
    }

    fn is_alive(&self) -> bool {
        self.lock.is_alive()
    }

    fn is_another_program(&self) -> bool {
        !self.server.file.is_behind(&self.server.process.path("exe"))
    }

    fn debugged(&self) -> Option<Process> {
        let mut processes = self.server.process.descendants().into_iter();
        processes.find(|process| process.is_debugged())
    }

    fn processes(&self) -> Vec<Process> {
        self.server.process.descendants()
    }

    fn processor_time(&self) -> Option<Duration> {
        Some(self.server.process.processor_time_of_all())
    }

    fn write_counters(&self) -> WriteCounters {
        let process = self.server.process;
        let kernel = KernelFiles::default();
        let directory = process.directory("cwd").ok();
        WriteCounters {
            processes: kernel.bytes_of(&process.descendants()),
            log_position: directory.and_then(|directory| log_position(&directory, "pg_wal")),
            device: kernel.device_below(Path::new(&process.path("cwd"))),
        }
    }

    /// Pages that relations grow by are written, too, although no buffer is.
    fn counted_writes(&self) -> CountedWrites {
        let counts = self.decoder.counts;
        let pages = counts.flushes + counts.extensions;
        // What is neither in the buffer nor new is read.
        let reads = self.shows_hits.then(|| counts.requests.saturating_sub(counts.hits + counts.extensions));
        CountedWrites {
            page_bytes: self.shows_flushes.then_some(pages * self.page_bytes),
            log_bytes: None,
            read_page_bytes: reads.map(|reads| reads * self.page_bytes),
        }
    }

    fn hits(&self) -> Option<(u64, u64)> {
        let counts = self.decoder.counts;
        self.shows_hits.then_some((counts.hits, counts.requests))
    }

    fn sample_position(&self, object: &[u32; 4], page: u64) -> Option<u64> {
        let event = PageEvent { object: *object, page: page as u32, ..PageEvent::default() };
        Some(event.sample_position())
    }
}

impl PostgresSource {
    fn is_the_same(&self) -> bool {
        self.lock.is_the_same() && !self.is_another_program()
    }

    /// The server's process.
    pub fn process(&self) -> Process {
        self.server.process
    }
}
