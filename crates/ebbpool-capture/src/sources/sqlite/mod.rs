//! SQLite in a process: every request of a page to a connection's page cache, and every page made dirty.
//!
//! The probes are at the entries of `sqlite3PagerGet` and `sqlite3PagerWrite`, which Debian's and Ubuntu's library export. They count as SQLite
//! itself does: requests are its hits and misses. Connections have caches of their own, so that a trace of a process with several
//! connections has the requests of all of them. A library that was built from the amalgamation hides these functions.

mod decoder;
mod memory;
mod programs;

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use super::open_files::{OpenFile, open_files};
use crate::arch::Arch;
use crate::elf::ElfProgram;
use crate::error::CaptureError;
use crate::event::PageEvent;
use crate::probes::{Channel, Probes, Site};
use crate::recorder::Recorder;
use crate::session::Source;
use crate::target::{CaptureLock, Mapping, Process};
use crate::trace_file::{CapturedTrace, NamedObject};
use crate::written::{CountedWrites, KernelFiles, WriteCounters};

use decoder::FileRole;
use programs::kind;

pub use decoder::{SqliteCounts, SqliteDecoder};
pub use memory::page_size;

/// How a database's file begins; the library has the same bytes.
const HEADER: &[u8] = b"SQLite format 3\0";

/// The page size of databases whose file says none, as before their first checkpoint.
const DEFAULT_PAGE_SIZE: u64 = 4096;

/// How often the pagers' databases are looked at again: a pager's memory may be used for another one.
const LOOK: Duration = Duration::from_millis(200);

/// The function through which all bytes of files are written.
const WRITE: &str = "sqlite3OsWrite";

/// A database of the process.
#[derive(Clone, Debug, Default)]
struct Database {
    /// The path; `None` for databases in memory and temporary ones.
    path: Option<String>,
    page_size: Option<u64>,
    bytes: u64,
}

/// A process with SQLite under capture.
pub struct SqliteSource {
    process: Process,
    program: String,
    /// The file with SQLite, as this process can read it.
    library_file: String,
    library_path: String,
    library: ElfProgram,
    displacement: u64,
    decoder: SqliteDecoder,
    databases: Vec<Database>,
    by_path: HashMap<Option<String>, u32>,
    /// Roles of files by the addresses of their paths, since the last look.
    roles: HashMap<u64, FileRole>,
    /// True if the library shows what it writes.
    shows_writes: bool,
    looked: Option<Instant>,
    _lock: CaptureLock,
}

/// Where SQLite was found in a process.
struct FoundLibrary {
    file: String,
    mapping: Mapping,
    program: ElfProgram,
}

fn contains(data: &[u8], text: &[u8]) -> bool {
    data.windows(text.len()).any(|window| window == text)
}

/// The mapped file that exports the functions to probe.
fn find_library(process: Process, program: &str) -> Result<FoundLibrary, CaptureError> {
    let mut hidden_in = None;
    let mut seen: Vec<String> = Vec::new();
    for mapping in process.mappings() {
        if !mapping.executable || !mapping.path.starts_with('/') || seen.contains(&mapping.path) {
            continue;
        }
        seen.push(mapping.path.clone());
        // The mapped file itself, which may be in a container, or replaced since.
        let file = process.path(&format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
        let Ok(data) = fs::read(&file) else { continue };
        if !contains(&data, HEADER) {
            continue;
        }
        let Ok(parsed) = ElfProgram::parse(data) else {
            continue;
        };
        if parsed.exports("sqlite3PagerGet") && parsed.exports("sqlite3PagerWrite") {
            return Ok(FoundLibrary {
                file,
                mapping,
                program: parsed,
            });
        }
        hidden_in.get_or_insert(mapping.path);
    }
    if process.mappings().is_empty() {
        return Err(CaptureError::NotFound(format!(
            "process {} has ended, or is the kernel's",
            process.0
        )));
    }
    let remedy = format!(
        "`ebbpool capture process --pid {}` sees what it reads and writes",
        process.0
    );
    Err(match hidden_in {
        Some(library) => CaptureError::Build {
            program: library,
            problem:
                "its SQLite hides sqlite3PagerGet, as do all that are built from the amalgamation"
                    .into(),
            remedy: format!("use Debian's or Ubuntu's library libsqlite3.so.0, or: {remedy}"),
        },
        None => CaptureError::Build {
            program: program.to_owned(),
            problem: "no SQLite is in it, nor in the libraries that it has loaded".into(),
            remedy: format!("start the capture when it has opened its database, or: {remedy}"),
        },
    })
}

impl SqliteSource {
    /// The process with this number.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] if there is no such process, if another capture of it runs, or if no SQLite whose functions can be
    /// seen is in it.
    pub fn open(pid: i32) -> Result<SqliteSource, CaptureError> {
        let process = Process(pid);
        let program = process.program()?;
        let found = find_library(process, &program)?;
        let address = found.program.address_of_mapping(found.mapping.offset);
        let address = address.ok_or_else(|| {
            CaptureError::malformed(
                &found.mapping.path,
                "its mapping is in none of its segments",
            )
        })?;
        Ok(SqliteSource {
            process,
            program,
            roles: HashMap::new(),
            shows_writes: found.program.exports(WRITE),
            library_file: found.file,
            library_path: found.mapping.path,
            library: found.program,
            displacement: found.mapping.start.wrapping_sub(address),
            decoder: SqliteDecoder::default(),
            databases: Vec::new(),
            by_path: HashMap::new(),
            looked: None,
            _lock: process.lock()?,
        })
    }

    /// What was captured, besides references.
    pub fn counts(&self) -> SqliteCounts {
        self.decoder.counts
    }

    /// What the capture will do, in a sentence.
    pub fn description(&self) -> String {
        format!(
            "SQLite in process {} ({}), by way of {}",
            self.process.0, self.program, self.library_path
        )
    }

    /// The process.
    pub fn process(&self) -> Process {
        self.process
    }

    /// The captured trace, with the paths of the databases; without `names`, databases are called by numbers. The page size is that
    /// of the database with most references.
    pub fn trace(&self, recorder: Recorder, names: bool) -> CapturedTrace {
        let database = |key: &[u32; 4]| self.databases.get(key[0] as usize);
        let size_of = |database: Option<&Database>| {
            let stated = database.and_then(|database| database.page_size);
            stated.unwrap_or(DEFAULT_PAGE_SIZE)
        };
        let most = recorder.objects.iter().max_by_key(|it| it.references);
        let page_size = size_of(most.and_then(|object| database(&object.key)));
        let objects = recorder.objects.iter().map(|object| {
            let found = database(&object.key);
            let path = found.and_then(|database| database.path.clone());
            let name = match (path, names) {
                (Some(path), true) => path,
                (Some(_), false) => format!("database {}", object.key[0]),
                (None, _) => "temporary".into(),
            };
            NamedObject {
                name,
                group: String::new(),
                kind: Some("database".into()),
                part: String::new(),
                pages: found
                    .map_or(0, |database| database.bytes / size_of(Some(database)))
                    .max(object.pages),
            }
        });
        let program = match names {
            true => self.program.rsplit('/').next().unwrap_or_default(),
            false => "process",
        };
        CapturedTrace {
            name: format!("sqlite in {program} {}", self.process.0),
            page_size,
            below_cache: false,
            objects: objects.collect(),
            recorder,
        }
    }

    /// Finds the database of a pager.
    fn look_at(&mut self, pager: u64, files: &[OpenFile]) {
        let file = memory::file_of_pager(self.process, pager, files);
        if file.is_none() && self.decoder.knows(pager) {
            // The process may have closed it, and what was captured remains of its database.
            return;
        }
        let path = file.map(|file| file.path.clone());
        let databases = &mut self.databases;
        let number = *self.by_path.entry(path.clone()).or_insert_with(|| {
            databases.push(Database {
                path,
                ..Database::default()
            });
            databases.len() as u32 - 1
        });
        if let (Some(file), Some(database)) = (file, self.databases.get_mut(number as usize)) {
            database.bytes = file.bytes;
            database.page_size = stated_page_size(&file.link).or(database.page_size);
        }
        self.decoder.set_database(pager, number);
    }
}

fn stated_page_size(file: &str) -> Option<u64> {
    let mut header = [0; 18];
    File::open(file).ok()?.read_exact(&mut header).ok()?;
    page_size(&header)
}

impl Source for SqliteSource {
    fn attach(&self, ring_bytes: u32) -> Result<Probes, CaptureError> {
        let channel = Channel::new(ring_bytes)?;
        let mut sites = Vec::new();
        for (name, event_kind) in [
            ("sqlite3PagerGet", kind::READ),
            ("sqlite3PagerWrite", kind::DIRTY),
            ("sqlite3PagerCommitPhaseTwo", kind::COMMIT),
        ] {
            let Some(address) = self.library.symbol(name) else {
                continue;
            };
            let address = self.library.entry(address);
            let memory = address.wrapping_add(self.displacement);
            sites.push(Site {
                name: name.into(),
                address,
                code: programs::request(Arch::THIS, channel.maps(), memory, event_kind),
            });
        }
        if let Some(address) = self.library.symbol(WRITE) {
            let address = self.library.entry(address);
            let memory = address.wrapping_add(self.displacement);
            sites.push(Site {
                name: WRITE.into(),
                address,
                code: programs::write(Arch::THIS, channel.maps(), memory),
            });
        }
        let process = Some(self.process.0);
        Probes::attach(channel, &self.library_file, &self.library, &sites, process)
    }

    fn take(&mut self, event: &[u8], recorder: &mut Recorder) {
        if let Some(event) = PageEvent::parse(event) {
            if event.kind == kind::WRITE {
                let path = decoder::pager(&event);
                let process = self.process;
                let role = self.roles.entry(path).or_insert_with(|| {
                    FileRole::of_path(memory::path_at(process, path).as_deref())
                });
                self.decoder.write(*role, event.detail);
                return;
            }
            let pager = decoder::pager(&event);
            if !self.decoder.knows(pager) {
                let files = open_files(self.process);
                self.look_at(pager, &files);
            }
            self.decoder.take(&event, recorder);
        }
    }

    fn look(&mut self) {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        // Another file's path may be at the address of one that was closed.
        self.roles.clear();
        let files = open_files(self.process);
        for pager in self.decoder.pagers() {
            self.look_at(pager, &files);
        }
    }

    fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    fn processor_time(&self) -> Option<Duration> {
        self.process.processor_time()
    }

    fn write_counters(&self) -> WriteCounters {
        let kernel = KernelFiles::default();
        let files = open_files(self.process);
        let is_database = |file: &&OpenFile| stated_page_size(&file.link).is_some();
        let database = files.iter().find(is_database);
        let below = database.map_or_else(|| self.process.path("cwd"), |file| file.link.clone());
        WriteCounters {
            processes: kernel.written_by(&[self.process]),
            log_position: None,
            device: kernel.device_below(Path::new(&below)),
        }
    }

    fn counted_writes(&self) -> CountedWrites {
        let counts = self.decoder.counts;
        CountedWrites {
            page_bytes: self.shows_writes.then_some(counts.database_bytes),
            log_bytes: self.shows_writes.then_some(counts.log_bytes),
        }
    }

    fn sample_position(&self, _object: &[u32; 4], page: u64) -> Option<u64> {
        let event = PageEvent {
            page: page as u32 + 1,
            ..PageEvent::default()
        };
        Some(event.sample_position())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_without_sqlite_are_refused_with_a_remedy() {
        let error = SqliteSource::open(Process::this().0)
            .err()
            .expect("an error");
        let text = error.to_string();
        assert!(text.contains("ebbpool capture process --pid"), "{text}");
        assert!(matches!(error, CaptureError::Build { .. }));
        assert!(SqliteSource::open(i32::MAX).is_err());
    }
}
