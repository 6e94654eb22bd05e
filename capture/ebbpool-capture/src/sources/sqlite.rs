//! SQLite in a process: every request of a page to a connection's page cache, and every page made dirty.
//!
//! The probes are at the entries of `sqlite3PagerGet` and `sqlite3PagerWrite`, which Debian's and Ubuntu's library export. They count as SQLite
//! itself does: requests are its hits and misses. Connections have caches of their own, so that a trace of a process with several
//! connections has the requests of all of them. What separates them is the addresses of their pagers; the entries of
//! `sqlite3PagerReadFileheader` and `sqlite3PagerClose` say when a pager begins and ends, since the next connection often gets the
//! address of the one before, and what its database is, since it may have ended before an event is read. A library that was built
//! from the amalgamation hides these functions.

mod databases;
mod decoder;
mod memory;
mod programs;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};

use super::open_files::{OpenFile, open_files};
use crate::arch::Arch;
use crate::elf::ElfProgram;
use crate::error::CaptureError;
use crate::event::{EVENT_BYTES, Maps, PageEvent};
use crate::foreign::{self, ForeignDirectory, PROGRAM, ProgramFile};
use crate::hold::CaptureLock;
use crate::probes::{Channel, ProbedFile, Probes, Site};
use crate::recorder::CaptureBuffer;
use crate::session::{CaptureSource, EventStream};
use crate::target::{Mapping, Process};
use crate::trace_file::{CapturedTrace, NamedObject};
use crate::written::{CountedWrites, KernelFiles, WriteCounters};

use databases::Databases;
use decoder::FileRole;
pub use decoder::{SqliteCounts, SqliteDecoder};
pub use memory::page_size;
pub use programs::kind;

/// How a database's file begins; the library has the same bytes.
const HEADER: &[u8] = b"SQLite format 3\0";

/// The columns of the table of tables.
const SCHEMA: &[u8] = b"CREATE TABLE x(type text,name text,tbl_name text,rootpage int";

/// The page size of databases whose file says none, as before their first checkpoint.
const DEFAULT_PAGE_SIZE: u64 = 4096;

/// The most bytes of mapped files in which the library is looked for.
const MOST_LOOKED_AT: u64 = PROGRAM;

/// How often open files, and pagers whose databases are not known, are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The function through which all bytes of files are written.
const WRITE: &str = "sqlite3OsWrite";

/// The functions at which a pager begins and ends.
const LIFETIME: [(&str, u32); 2] = [("sqlite3PagerReadFileheader", kind::OPEN), ("sqlite3PagerClose", kind::CLOSE)];

/// A process with SQLite under capture.
pub struct SqliteSource {
    process: Process,
    program: String,
    library_file: ProgramFile,
    /// An address of the process at which the library's code is.
    library_address: u64,
    /// Device and number of its file, as its mapping says them.
    library_identity: (u64, u64),
    library_path: String,
    library: ElfProgram,
    other_libraries: Vec<String>,
    displacement: u64,
    decoder: SqliteDecoder,
    databases: Databases,
    /// Roles of files by the addresses of their paths, since the last look.
    roles: HashMap<u64, FileRole>,
    /// True if the library shows what it writes.
    shows_writes: bool,
    /// True if the library shows when pagers begin and end.
    shows_lifetimes: bool,
    looked: Option<Instant>,
    has_become_another: bool,
    lock: CaptureLock,
}

/// Where SQLite was found in a process.
struct FoundLibrary {
    file: ProgramFile,
    mapping: Mapping,
    program: ElfProgram,
    /// Where else SQLite is.
    others: Vec<String>,
}

fn contains(data: &[u8], text: &[u8]) -> bool {
    // A look at a large library takes milliseconds: looks that take long are seldom (`Spaced`), and miss what comes between.
    memchr::memmem::find(data, text).is_some()
}

/// The files with SQLite that a process runs, of those that are not among the `seen`.
///
/// A copy of SQLite has the text by which it reads every schema. Programs that only look into databases have the header of these, too.
pub fn files_with_sqlite(process: Process, seen: &mut BTreeSet<String>) -> Vec<String> {
    let is_new = |mapping: &Mapping, seen: &mut BTreeSet<String>| {
        mapping.executable && mapping.path.starts_with('/') && seen.insert(mapping.path.clone())
    };
    let new: Vec<Mapping> = process.mappings().into_iter().filter(|mapping| is_new(mapping, seen)).collect();
    let has_sqlite = |mapping: &Mapping| {
        let file = process.mapped_file(mapping).ok().filter(|file| file.is_elf() && file.bytes() <= MOST_LOOKED_AT);
        file.and_then(|file| file.read().ok()).is_some_and(|data| contains(&data, SCHEMA))
    };
    new.into_iter().filter(has_sqlite).map(|mapping| mapping.path).collect()
}

/// The first mapped file that exports the functions to probe. There may be other copies of SQLite, and the same file twice.
fn find_library(process: Process, program: &str) -> Result<FoundLibrary, CaptureError> {
    let (mut found, mut others): (Option<FoundLibrary>, _) = (None, Vec::new());
    let mut seen: HashSet<String> = HashSet::new();
    let mut left = MOST_LOOKED_AT;
    for mapping in process.mappings() {
        let is_file = mapping.executable && mapping.path.starts_with('/');
        let is_again = |it: &FoundLibrary| (it.mapping.identity, it.mapping.offset) == (mapping.identity, mapping.offset);
        if is_file && found.as_ref().is_some_and(is_again) {
            others.push(mapping.path);
            continue;
        }
        if !is_file || !seen.insert(mapping.path.clone()) {
            continue;
        }
        let Ok(file) = process.mapped_file(&mapping) else {
            continue;
        };
        // A process may map any number of files of any size.
        if !file.is_elf() || file.bytes() > left {
            continue;
        }
        left -= file.bytes();
        let Ok(data) = file.read() else { continue };
        if !contains(&data, HEADER) {
            continue;
        }
        let Ok(parsed) = ElfProgram::parse(data) else {
            continue;
        };
        if found.is_none() && parsed.exports("sqlite3PagerGet") && parsed.exports("sqlite3PagerWrite") {
            found = Some(FoundLibrary { file, mapping, program: parsed, others: Vec::new() });
        } else {
            others.push(mapping.path);
        }
    }
    if let Some(found) = found {
        return Ok(FoundLibrary { others, ..found });
    }
    if process.mappings().is_empty() {
        return Err(CaptureError::NotFound(format!("process {} has ended, or is the kernel's", process.0)));
    }
    let remedy = format!("`ebbpool capture process --pid {}` sees what it reads and writes", process.0);
    Err(match others.into_iter().next() {
        Some(library) => CaptureError::Build {
            program: library,
            problem: "its SQLite hides sqlite3PagerGet, as do all that are built from the amalgamation".into(),
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
        let lock = process.lock()?;
        process.check_first_thread()?;
        let program = process.program()?;
        let found = find_library(process, &program)?;
        let address = found.program.address_of_mapping(found.mapping.offset);
        let address =
            address.ok_or_else(|| CaptureError::malformed(&found.mapping.path, "its mapping is in none of its segments"))?;
        Ok(SqliteSource {
            process,
            program,
            roles: HashMap::new(),
            shows_writes: found.program.exports(WRITE),
            shows_lifetimes: LIFETIME.iter().all(|(name, _)| found.program.exports(name)),
            library_file: found.file,
            library_address: found.mapping.start,
            library_identity: found.mapping.identity,
            library_path: found.mapping.path,
            library: found.program,
            other_libraries: found.others,
            displacement: found.mapping.start.wrapping_sub(address),
            decoder: SqliteDecoder::default(),
            databases: Databases::default(),
            looked: None,
            has_become_another: false,
            lock,
        })
    }

    /// What was captured, besides references.
    pub fn counts(&self) -> SqliteCounts {
        self.decoder.counts
    }

    /// What the capture will do, in a sentence.
    pub fn description(&self) -> String {
        let mut text = format!("SQLite in process {} ({}), by way of {}", self.process.0, self.program, self.library_path);
        if !self.other_libraries.is_empty() {
            text += &format!(", and not what goes by {}", self.other_libraries.join(", "));
        }
        text
    }

    /// Other copies of SQLite in the process, whose requests are not captured.
    pub fn other_libraries(&self) -> &[String] {
        &self.other_libraries
    }

    /// The process.
    pub fn process(&self) -> Process {
        self.process
    }

    /// The captured trace, with the paths of the databases; without `names`, databases are called by numbers. The page size is that
    /// of the database with most references.
    pub fn trace(&mut self, mut recorder: CaptureBuffer, names: bool) -> CapturedTrace {
        self.look_at_files(&self.open_files());
        self.look_at_closed_files();
        let first = self.databases.first_of_paths();
        recorder.rename(|key| {
            let database = first.get(key[0] as usize).copied();
            [database.unwrap_or(key[0]), key[1], key[2], key[3]]
        });
        let database = |key: &[u32; 4]| self.databases.get(key[0]);
        let size_of = |database: Option<&databases::Database>| {
            let stated = database.and_then(|database| database.page_size);
            stated.unwrap_or(DEFAULT_PAGE_SIZE)
        };
        let most = recorder.objects.iter().max_by_key(|it| it.references);
        let page_size = size_of(most.and_then(|object| database(&object.key)));
        let objects = recorder.objects.iter().map(|object| {
            let found = database(&object.key);
            let path = found.and_then(|database| database.path.clone());
            let name = match (path, names) {
                (Some(path), true) => path.to_string(),
                (Some(_), false) => format!("database {}", object.key[0]),
                (None, _) => "temporary".into(),
            };
            NamedObject {
                name,
                group: String::new(),
                kind: Some("database".into()),
                part: String::new(),
                pages: found.map_or(0, |database| database.bytes / size_of(Some(database))).max(object.pages),
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

    /// The files that the process has open, by the paths that it has for them: in a root directory of its own (chroot) these are others
    /// than the kernel's.
    fn open_files(&self) -> Vec<OpenFile> {
        let mut files = open_files(self.process);
        if let Ok(root) = self.process.directory("root") {
            for file in &mut files {
                file.path = root.below(&file.path).to_owned();
            }
        }
        files
    }

    /// A pager begins or ends; `copy` is its memory at that time.
    fn begin_or_end(&mut self, event: &PageEvent, copy: &[u8]) {
        let pager = decoder::pager(event);
        let path = memory::path_in_copy(pager, copy);
        // The addresses of paths are free now.
        self.roles.clear();
        if let (Some(number), Some(path)) = (self.databases.forget(pager), &path) {
            self.databases.name(number, path);
        }
        self.decoder.forget(pager);
        if event.kind == kind::OPEN {
            let number = self.databases.of_path(path.as_deref());
            self.decoder.set_database(pager, number);
        }
    }

    /// Looks for the database of a pager in the memory of the process.
    fn look_at(&mut self, pager: u64, files: &[OpenFile]) {
        let Some(file) = memory::file_of_pager(self.process, pager, files) else {
            // The process may have closed it, and what was captured remains of its database.
            return;
        };
        let path = file.path.clone();
        match self.databases.of_unnamed(pager) {
            Some(number) => self.databases.name(number, &path),
            None => {
                let number = self.databases.of_path(Some(&path));
                self.decoder.set_database(pager, number);
            }
        }
    }

    /// Sizes of databases, by the files that are open.
    fn look_at_files(&mut self, files: &[OpenFile]) {
        let files: HashMap<&str, &OpenFile> = files.iter().map(|file| (file.path.as_str(), file)).collect();
        for database in self.databases.iter_mut() {
            let path = database.path.as_deref();
            if let Some(file) = path.and_then(|path| files.get(path)) {
                database.bytes = file.bytes;
                database.page_size = stated_page_size(&file.link).or(database.page_size);
            }
        }
    }

    /// Sizes of databases that were never looked at while they were open, by their paths.
    fn look_at_closed_files(&mut self) {
        let Ok(root) = self.process.directory("root") else {
            return;
        };
        for database in self.databases.iter_mut() {
            if let (Some(path), None) = (&database.path, database.page_size) {
                database.bytes = root.bytes(&below_root(path)).unwrap_or(0);
                database.page_size = page_size_below(&root, path);
            }
        }
    }

    /// True if the library is not in the memory of the process any more.
    fn is_unmapped(&self) -> bool {
        let mappings = self.process.mappings().into_iter();
        let mut here = mappings.filter(|it| (it.start..it.end).contains(&self.library_address));
        !here.any(|mapping| mapping.identity == self.library_identity)
    }
}

fn stated_page_size(file: &str) -> Option<u64> {
    page_size(&foreign::head::<18>(file).ok()?)
}

fn below_root(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

fn page_size_below(root: &ForeignDirectory, path: &str) -> Option<u64> {
    use std::io::Read;
    let mut header = [0; 18];
    let mut file = root.file(&below_root(path)).ok()?;
    file.read_exact(&mut header).ok()?;
    page_size(&header)
}

impl CaptureSource for SqliteSource {
    fn attach(&mut self, ring_bytes: u32) -> Result<Box<dyn EventStream>, CaptureError> {
        let channel = Channel::new(ring_bytes)?;
        let arch = Arch::THIS;
        let mut sites = Vec::new();
        let mut probe = |name: &str, program: &dyn Fn(Maps, u64) -> Vec<u64>| {
            let Some(address) = self.library.symbol(name) else {
                return;
            };
            let address = self.library.entry(address);
            let code = program(channel.maps_at(&self.library, address), address.wrapping_add(self.displacement));
            sites.push(Site { name: name.into(), address, code });
        };
        for (name, event_kind) in
            [("sqlite3PagerGet", kind::READ), ("sqlite3PagerWrite", kind::DIRTY), ("sqlite3PagerCommitPhaseTwo", kind::COMMIT)]
        {
            probe(name, &|maps, memory| programs::request(arch, maps, memory, event_kind));
        }
        probe(WRITE, &|maps, memory| programs::write(arch, maps, memory));
        for (name, event_kind) in LIFETIME.into_iter().filter(|_| self.shows_lifetimes) {
            probe(name, &|maps, memory| programs::lifetime(arch, maps, memory, event_kind));
        }
        let target = ProbedFile {
            file: &self.library_file,
            name: &self.library_path,
            program: &self.library,
            is_the_same: &|| self.lock.is_the_same() && !self.is_unmapped(),
        };
        Probes::attach(channel, &target, &sites, Some(self.process.0))
    }

    fn record_event(&mut self, event: &[u8], recorder: &mut CaptureBuffer) {
        let copy = event.get(EVENT_BYTES..).unwrap_or_default();
        if let Some(event) = PageEvent::parse(event) {
            if matches!(event.kind, kind::OPEN | kind::CLOSE) {
                self.begin_or_end(&event, copy);
                return;
            }
            if event.kind == kind::WRITE {
                let path = decoder::pager(&event);
                let process = self.process;
                let role =
                    self.roles.entry(path).or_insert_with(|| FileRole::of_path(memory::path_at(process, path).as_deref()));
                self.decoder.write(*role, event.detail);
                return;
            }
            let pager = decoder::pager(&event);
            // The commit of a pager that has requested nothing says nothing of its database.
            if event.kind != kind::COMMIT && !self.decoder.knows(pager) {
                let number = self.databases.meet(pager);
                self.decoder.set_database(pager, number);
            }
            self.decoder.record(&event, recorder);
        }
    }

    /// A pager that is known may have ended, and another one be at its address: memory says which databases are open now.
    fn miss(&mut self) {
        self.looked = None;
        self.refresh();
        self.databases.forget_all();
        self.decoder.forget_all();
    }

    fn refresh(&mut self) {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        // Another file's path may be at the address of one that was closed.
        self.roles.clear();
        self.has_become_another = self.is_unmapped() || self.process.has_lost_first_thread();
        let files = self.open_files();
        // Where pagers are seen to end, what is in memory now may be younger than the events that are read next.
        let pagers = match self.shows_lifetimes {
            true => self.databases.unnamed(),
            false => self.decoder.pagers(),
        };
        for pager in pagers {
            self.look_at(pager, &files);
        }
        self.look_at_files(&files);
    }

    /// What was met since the last look has no name yet.
    fn refresh_at_last(&mut self) {
        self.looked = None;
        self.refresh();
    }

    fn is_alive(&self) -> bool {
        self.lock.is_alive()
    }

    fn is_another_program(&self) -> bool {
        self.has_become_another
    }

    fn debugged(&self) -> Option<Process> {
        Some(self.process).filter(|process| process.is_debugged())
    }

    fn processes(&self) -> Vec<Process> {
        vec![self.process]
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
            processes: kernel.bytes_of(&[self.process]),
            log_position: None,
            device: kernel.device_below(Path::new(&below)),
        }
    }

    fn counted_writes(&self) -> CountedWrites {
        let counts = self.decoder.counts;
        CountedWrites {
            page_bytes: self.shows_writes.then_some(counts.database_bytes),
            log_bytes: self.shows_writes.then_some(counts.log_bytes),
            read_page_bytes: None,
        }
    }

    fn sample_position(&self, _object: &[u32; 4], page: u64) -> Option<u64> {
        let event = PageEvent { page: page as u32 + 1, ..PageEvent::default() };
        Some(event.sample_position())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_without_sqlite_are_refused_with_a_remedy() {
        let error = SqliteSource::open(Process::current().0).err().expect("an error");
        let text = error.to_string();
        assert!(text.contains("ebbpool capture process --pid"), "{text}");
        assert!(matches!(error, CaptureError::Build { .. }));
        assert!(SqliteSource::open(i32::MAX).is_err());
    }
}
