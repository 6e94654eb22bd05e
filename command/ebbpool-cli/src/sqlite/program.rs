//! Whether a program takes a preloaded library, and calls SQLite in a shared library: as its ELF file says it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, elf};

/// Why a preloaded library does nothing for a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The loader ignores LD_PRELOAD.
    RaisesRights,
    /// Built for another processor than the library; both are named.
    OtherMachine(String, String),
    /// Built with another C library than the library.
    OtherLibc { program: Libc, library: Libc },
    /// There is no loader.
    Static { is_go: bool },
    /// It defines SQLite's functions itself.
    OwnSqlite,
    /// Go's drivers of SQLite are linked in, and this one calls no other.
    Go,
    /// Node.js's modules bring their SQLite.
    Node,
}

/// The C library that a program or a library is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Libc {
    Glibc,
    Musl,
}

impl fmt::Display for Libc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Libc::Glibc => "glibc",
            Libc::Musl => "musl",
        })
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::RaisesRights => formatter.write_str(
                "runs with other rights than its caller (set-user-id, set-group-id or file capabilities), so that the system ignores LD_PRELOAD",
            ),
            Obstacle::OtherMachine(program, library) => {
                write!(formatter, "is built for {program}, and the library for {library}")
            }
            Obstacle::OtherLibc { program, library } => {
                write!(formatter, "is built for {program}, and the library for {library}")
            }
            Obstacle::Static { is_go: false } => formatter
                .write_str("is linked statically: a library cannot be preloaded, and its SQLite is inside itself"),
            Obstacle::Static { is_go: true } | Obstacle::Go => {
                formatter.write_str("is a Go program: its SQLite, if it has one, is inside itself")
            }
            Obstacle::OwnSqlite => formatter.write_str("has its SQLite inside itself"),
            Obstacle::Node => formatter
                .write_str("is Node.js, whose modules for SQLite have it inside themselves"),
        }
    }
}

/// A program that does not use a preloaded library, and why.
#[derive(Debug)]
pub(super) struct Found {
    /// The file that the system runs in the end.
    pub(super) path: PathBuf,
    pub(super) obstacle: Obstacle,
}

/// Scripts whose interpreter is a script, and so on, that are followed: as many as Linux follows.
const MOST_SCRIPTS: usize = 5;
/// Bytes of a script's first line that Linux reads.
const LINE: usize = 256;

/// What stands in the way of preloading a library into the program of a command; `None` if nothing does, or the program
/// cannot be read, of which running it then says more.
pub(super) fn obstacle(command: &[OsString], library: &Path) -> Option<Found> {
    let words: Vec<&OsStr> = command.iter().map(OsString::as_os_str).collect();
    let mut path = in_path(run_in_the_end(&words)?)?;
    for _ in 0..MOST_SCRIPTS {
        match interpreter(&first_bytes(&path)?) {
            Some(next) => path = in_path(&next)?,
            None => break,
        }
    }
    let obstacle = if raises_rights(&path) {
        Obstacle::RaisesRights
    } else {
        between(&ElfFacts::from_file(&path)?, ElfFacts::from_file(library).as_ref())?
    };
    Some(Found { path, obstacle })
}

/// True if a file is a library that defines the function which is to stand before SQLite's, and is not SQLite itself.
pub(super) fn stands_before_sqlite(library: &Path) -> bool {
    ElfFacts::from_file(library).is_some_and(|facts| facts.has_own_sqlite && !facts.is_sqlite)
}

/// Programs that run another one, whose name and arguments follow their options: the begin of their name, and those options
/// whose value is the next word.
const RUNNERS: [(&str, &[&str]); 5] = [
    ("env", &["-u", "--unset", "-C", "--chdir", "-a", "--argv0"]),
    ("nice", &["-n", "--adjustment"]),
    ("nohup", &[]),
    ("ld-linux", LOADER_OPTIONS),
    ("ld-musl", LOADER_OPTIONS),
];
const LOADER_OPTIONS: &[&str] =
    &["--library-path", "--inhibit-rpath", "--audit", "--preload", "--argv0", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask"];

/// The program that a command runs in the end, where its first words are programs such as `env` and `nice`. `None` without
/// one.
fn run_in_the_end<'a>(words: &[&'a OsStr]) -> Option<&'a OsStr> {
    let mut words = words;
    for _ in 0..MOST_SCRIPTS {
        let (first, mut rest) = words.split_first()?;
        let name = Path::new(first).file_name()?.as_bytes();
        let runner = RUNNERS.iter().find(|(runner, _)| match *runner {
            runner if runner.starts_with("ld-") => name.starts_with(runner.as_bytes()),
            runner => name == runner.as_bytes(),
        });
        let Some((runner, with_value)) = runner else {
            return Some(first);
        };
        while let Some((word, after)) = rest.split_first() {
            let is_variable = *runner == "env" && word.as_bytes().contains(&b'=');
            if !word.as_bytes().starts_with(b"-") && !is_variable {
                break;
            }
            let has_value = with_value.iter().any(|option| *option == *word);
            rest = after.get(usize::from(has_value)..)?;
        }
        if rest.is_empty() {
            // It only prints something.
            return Some(first);
        }
        words = rest;
    }
    words.first().copied()
}

/// What keeps a program from using the library.
fn between(program: &ElfFacts, library: Option<&ElfFacts>) -> Option<Obstacle> {
    if let Some(library) = library
        && library.machine != program.machine
    {
        let names = (program.machine.to_string(), library.machine.to_string());
        return Some(Obstacle::OtherMachine(names.0, names.1));
    }
    let is_go = program.is_go;
    if !program.has_loader {
        return Some(Obstacle::Static { is_go });
    }
    if let (Some(program), Some(library)) = (program.libc, library.and_then(|it| it.libc))
        && program != library
    {
        return Some(Obstacle::OtherLibc { program, library });
    }
    match program {
        program if program.has_own_sqlite => Some(Obstacle::OwnSqlite),
        program if program.calls_sqlite => None,
        program if program.is_go => Some(Obstacle::Go),
        program if program.is_node => Some(Obstacle::Node),
        _ => None,
    }
}

/// The file that the system runs for the name of a program.
fn in_path(program: &OsStr) -> Option<PathBuf> {
    let can_run = |path: &Path| {
        let metadata = fs::metadata(path);
        metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| can_run(path));
    }
    let directories = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut paths = env::split_paths(&directories).map(|directory| directory.join(program));
    paths.find(|path| can_run(path))
}

fn first_bytes(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(LINE as u64).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The program that runs a script, of which the first bytes are passed: that of its `#!` line, or the one that `env` or its
/// like there looks for. `None` if it is no script.
fn interpreter(bytes: &[u8]) -> Option<OsString> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(OsStr::from_bytes);
    let words: Vec<&OsStr> = words.collect();
    run_in_the_end(&words).map(OsString::from)
}

/// True if the system runs a program with other rights than those of this process, and does not preload for it then.
fn raises_rights(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else {
        return false;
    };
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let mode = metadata.mode();
    let sets_user = mode & 0o4000 != 0 && metadata.uid() != user.as_raw();
    let sets_group = mode & 0o2010 == 0o2010 && metadata.gid() != group.as_raw();
    let query = rustix::fs::getxattr_query(path, c"security.capability");
    // Root has all of them already.
    let adds_capabilities = query.is_ok_and(|bytes| bytes > 0) && !user.is_root();
    sets_user || sets_group || adds_capabilities
}

/// The processor that a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    number: u16,
    is_64: bool,
    is_little_endian: bool,
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            elf::EM_X86_64 => formatter.write_str("x86-64")?,
            elf::EM_386 => formatter.write_str("x86")?,
            elf::EM_AARCH64 => formatter.write_str("64-bit Arm")?,
            elf::EM_ARM => formatter.write_str("32-bit Arm")?,
            elf::EM_RISCV => formatter.write_str("RISC-V")?,
            number => write!(formatter, "processor {number}")?,
        }
        // The names above stand for one of the two, but for x86-64 and RISC-V.
        match (self.number, self.is_64) {
            (elf::EM_X86_64, false) => formatter.write_str(" with 32-bit addresses"),
            (elf::EM_RISCV, false) => formatter.write_str(" with 32 bits"),
            _ => Ok(()),
        }
    }
}

/// What an ELF file says about itself.
#[derive(Debug)]
struct ElfFacts {
    machine: Machine,
    /// True if the system's loader starts it, as it starts programs that use shared libraries.
    has_loader: bool,
    libc: Option<Libc>,
    /// True if it defines SQLite's functions.
    has_own_sqlite: bool,
    /// True if it defines a function of SQLite's that no library defines which stands before it.
    is_sqlite: bool,
    /// True if it calls SQLite's functions in a shared library.
    calls_sqlite: bool,
    is_go: bool,
    is_node: bool,
}

/// The most bytes that are read at once: a table that is larger is not read, as if the file had none.
const MOST_BYTES: u64 = 64 << 20;
/// The most bytes of a loader's path: as many as Linux takes.
const MOST_LOADER_BYTES: u64 = 4096;
/// The most headers that are looked at, of segments, sections and libraries.
const MOST_HEADERS: usize = 4096;

/// Where an ELF file says whether it has 64-bit addresses.
const CLASS: usize = 4;

/// The bytes of a file, of which no more are read at once than the file of a program has reason for.
#[derive(Clone, Copy)]
struct BoundedFile<'a>(&'a ReadCache<File>);

impl<'a> ReadRef<'a> for BoundedFile<'a> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        match size {
            0..=MOST_BYTES => self.0.read_bytes_at(offset, size),
            _ => Err(()),
        }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

impl ElfFacts {
    /// What a file says; `None` if it is no ELF file, or none that can be read.
    fn from_file(path: &Path) -> Option<ElfFacts> {
        let class = *first_bytes(path)?.get(CLASS)?;
        let file = ReadCache::new(File::open(path).ok()?);
        let data = BoundedFile(&file);
        match class {
            elf::ELFCLASS64 => ElfFacts::read::<elf::FileHeader64<Endianness>>(data),
            elf::ELFCLASS32 => ElfFacts::read::<elf::FileHeader32<Endianness>>(data),
            _ => None,
        }
    }

    fn read<Header: FileHeader<Endian = Endianness>>(data: BoundedFile<'_>) -> Option<ElfFacts> {
        let header = Header::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, data).ok()?;
        // The system takes the first one, too.
        let mut segments = segments.iter().take(MOST_HEADERS);
        let loader = segments.find(|segment| segment.p_type(endian) == elf::PT_INTERP);
        let has_loader = loader.is_some();
        let loader = loader.filter(|it| it.p_filesz(endian).into() <= MOST_LOADER_BYTES);
        let loader = loader.and_then(|it| it.interpreter(endian, data).ok()?);
        let mut facts = ElfFacts {
            machine: Machine {
                number: header.e_machine(endian),
                is_64: header.is_type_64(),
                is_little_endian: header.is_little_endian(),
            },
            has_loader,
            libc: loader.and_then(libc_of_loader),
            has_own_sqlite: false,
            is_sqlite: false,
            calls_sqlite: false,
            is_go: false,
            is_node: false,
        };
        // A file without sections runs as well.
        let _ = facts.read_sections(header, endian, data);
        Some(facts)
    }

    fn read_sections<'a, Header: FileHeader<Endian = Endianness>>(
        &mut self,
        header: &'a Header,
        endian: Endianness,
        data: BoundedFile<'a>,
    ) -> object::Result<()> {
        let sections = header.sections(endian, data)?;
        for section in sections.iter().take(MOST_HEADERS) {
            let name = sections.section_name(endian, section);
            self.is_go |= name.is_ok_and(|name| name == b".go.buildinfo");
        }
        // The symbols that libraries see come first; `.symtab` may be gone.
        for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
            let mut tables = sections.iter().take(MOST_HEADERS);
            let Some(table) = tables.find(|section| section.sh_type(endian) == kind) else {
                continue;
            };
            let symbols: &[Header::Sym] = table.data_as_array(endian, data)?;
            let names = sections.section(table.link(endian))?.data(endian, data)?;
            for symbol in symbols {
                let name = names.get(symbol.st_name(endian) as usize..).unwrap_or(&[]);
                self.note_symbol(name, symbol.is_undefined(endian));
            }
            if self.has_own_sqlite {
                break;
            }
        }
        if self.libc.is_none() {
            self.libc = libc_of_library::<Header>(&sections, endian, data)?;
        }
        Ok(())
    }

    /// Notes a symbol; bytes behind its name may follow.
    fn note_symbol(&mut self, name: &[u8], is_undefined: bool) {
        let is = |wanted: &[u8]| name.starts_with(wanted);
        if is(b"sqlite3_open_v2\0") || is(b"sqlite3_open\0") || is(b"sqlite3_open16\0") {
            match is_undefined {
                true => self.calls_sqlite = true,
                false => self.has_own_sqlite = true,
            }
        }
        self.is_sqlite |= is(b"sqlite3_libversion\0") && !is_undefined;
        self.is_node |= is(b"napi_module_register\0") && !is_undefined;
    }
}

fn libc_of_loader(path: &[u8]) -> Option<Libc> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    if name.starts_with(b"ld-musl") {
        return Some(Libc::Musl);
    }
    let is_glibc = [&b"ld-linux"[..], b"ld64.so", b"ld.so"];
    let is_glibc = is_glibc.iter().any(|begin| name.starts_with(begin));
    is_glibc.then_some(Libc::Glibc)
}

/// The C library that a shared library asks for.
fn libc_of_library<'a, Header: FileHeader<Endian = Endianness>>(
    sections: &object::read::elf::SectionTable<'a, Header, BoundedFile<'a>>,
    endian: Endianness,
    data: BoundedFile<'a>,
) -> object::Result<Option<Libc>> {
    let Some((entries, link)) = sections.dynamic(endian, data)? else {
        return Ok(None);
    };
    let names = sections.section(link)?.data(endian, data)?;
    for entry in entries.iter().take(MOST_HEADERS) {
        if entry.tag(endian) != elf::DT_NEEDED {
            continue;
        }
        let at: u64 = entry.d_val(endian).into();
        let name = usize::try_from(at).ok().and_then(|at| names.get(at..));
        match name.unwrap_or(&[]) {
            name if name.starts_with(b"libc.so.6\0") => return Ok(Some(Libc::Glibc)),
            name if name.starts_with(b"libc.musl-") || name.starts_with(b"libc.so\0") => {
                return Ok(Some(Libc::Musl));
            }
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use tempfile::TempDir;

    /// A program in C, built with more arguments for the compiler; `None`, with a note, where there is no compiler.
    fn built(directory: &TempDir, name: &str, source: &str, more: &[&str]) -> Option<PathBuf> {
        let (text, program) = (directory.path().join("a.c"), directory.path().join(name));
        fs::write(&text, source).expect("a file");
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(&program).arg(&text).args(more);
        match compiler.output() {
            Ok(output) if output.status.success() => Some(program),
            other => {
                eprintln!("skipped: cc makes no such program: {other:?}");
                None
            }
        }
    }

    const NOTHING: &str = "int main(void) { return 0; }";
    const OWN: &str = "int sqlite3_open_v2(void) { return 0; } int main(void) { return sqlite3_open_v2(); }";
    const CALLS: &str = "int sqlite3_open_v2(void); int main(void) { return sqlite3_open_v2(); }";
    const GO: &str = "__attribute__((section(\".go.buildinfo\"))) int go = 1;";
    const NODE: &str = "int napi_module_register(void) { return 0; } int main(void) { return 0; }";
    const SHARED: &str = "int sqlite3_open_v2(void) { return 0; }";
    const MUSL: &str = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";

    #[test]
    fn programs_that_have_sqlite_inside_themselves_are_recognised() {
        let directory = TempDir::new().expect("a directory");
        let own_libc = ElfFacts::from_file(Path::new("/proc/self/exe")).and_then(|it| it.libc);
        let (own_libc, other_libc) = match own_libc {
            Some(Libc::Glibc) => (Libc::Glibc, Libc::Musl),
            _ => return eprintln!("skipped: the programs below are for glibc"),
        };
        let shared = built(&directory, "libshared.so", SHARED, &["-shared", "-fPIC"]);
        let shared = shared.unwrap_or_default();
        let shared = shared.to_str().expect("a path in UTF-8");
        let go_nothing = format!("{GO} {NOTHING}");
        let go_calls = format!("{GO} {CALLS}");
        let other = Obstacle::OtherLibc { program: other_libc, library: own_libc };
        let static_go = Obstacle::Static { is_go: true };
        for (source, more, expected) in [
            (NOTHING, &[][..], None),
            (CALLS, &[shared], None),
            (OWN, &[], Some(Obstacle::OwnSqlite)),
            (OWN, &["-rdynamic", "-s"], Some(Obstacle::OwnSqlite)),
            (NOTHING, &["-static"], Some(Obstacle::Static { is_go: false })),
            (&go_nothing, &["-static"], Some(static_go)),
            (&go_nothing, &[], Some(Obstacle::Go)),
            (&go_calls, &[shared], None),
            (NODE, &["-rdynamic"], Some(Obstacle::Node)),
            (NOTHING, &[MUSL], Some(other)),
        ] {
            let Some(path) = built(&directory, "a", source, more) else {
                continue;
            };
            // This program stands for the library: it has the same processor and C library.
            let library = Path::new("/proc/self/exe");
            for before in [
                &[][..],
                &["env", "-u", "A", "-i", "B=1"],
                &["/usr/bin/nice", "-n", "3", "env", "--unset=A"],
                &["nohup", "nice", "-5"],
                &["/lib64/ld-linux-x86-64.so.2", "--library-path", "/lib"],
            ] {
                let words = before.iter().map(OsString::from);
                let command: Vec<_> = words.chain([path.clone().into()]).collect();
                let found = obstacle(&command, library).map(|found| found.obstacle);
                assert_eq!(found, expected, "{source} {more:?} {before:?}");
            }
        }
    }

    #[test]
    fn programs_for_another_processor_or_with_other_rights_are_recognised() {
        let directory = TempDir::new().expect("a directory");
        let Some(path) = built(&directory, "a", NOTHING, &[]) else {
            return;
        };
        let of = |path: &Path| obstacle(&[path.into()], Path::new("/proc/self/exe"));
        if std::os::unix::fs::chown(&path, Some(65534), None).is_ok() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).expect("permissions");
            let found = of(&path).expect("an obstacle");
            assert_eq!(found.obstacle, Obstacle::RaisesRights);
        }
        let mut bytes = fs::read(&path).expect("a program");
        bytes[18..20].copy_from_slice(&elf::EM_S390.to_ne_bytes());
        let other = directory.path().join("other");
        fs::write(&other, &bytes).expect("a file");
        fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).expect("permissions");
        let found = of(&other).expect("an obstacle").obstacle;
        assert!(matches!(found, Obstacle::OtherMachine(..)), "{found:?}");
        assert!(found.to_string().contains("processor 22"), "{found}");
    }

    #[test]
    fn scripts_are_followed_to_the_program_that_runs_them() {
        for (line, program) in [
            ("#!/bin/sh\nexit", Some("/bin/sh")),
            ("#! /usr/bin/python3 -u\n", Some("/usr/bin/python3")),
            ("#!/usr/bin/env node", Some("node")),
            ("#!/usr/bin/env -S A=1 python3 -u\n", Some("python3")),
            ("#!/usr/bin/env -u A python3\n", Some("python3")),
            ("#!/usr/bin/env\n", Some("/usr/bin/env")),
            ("#!\n", None),
            ("\x7fELF", None),
            ("", None),
        ] {
            let found = interpreter(line.as_bytes());
            assert_eq!(found.as_deref(), program.map(OsStr::new), "{line}");
        }
        let directory = TempDir::new().expect("a directory");
        let Some(program) = built(&directory, "own", OWN, &[]) else {
            return;
        };
        let script = directory.path().join("script");
        fs::write(&script, format!("#!{}\n", program.display())).expect("a script");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("permissions");
        let found = obstacle(&[script.clone().into()], Path::new("/proc/self/exe"));
        assert_eq!(found.expect("an obstacle").path, program);
        // A script that interprets itself ends the search.
        fs::write(&script, format!("#!{}\n", script.display())).expect("a script");
        assert!(obstacle(&[script.into()], Path::new("/proc/self/exe")).is_none());
    }

    /// A file whose many segments each name a loader with a path of 64 MiB.
    #[test]
    fn paths_of_loaders_that_are_too_long_are_not_read() {
        const SEGMENTS: u16 = 60;
        const BYTES: u64 = 64 << 20;
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([2u16, elf::EM_X86_64].map(u16::to_le_bytes).concat());
        file.extend(1u32.to_le_bytes());
        file.extend([0u64, 64, 0].map(u64::to_le_bytes).concat());
        file.extend(0u32.to_le_bytes());
        file.extend([64u16, 56, SEGMENTS, 64, 0, 0].map(u16::to_le_bytes).concat());
        for at in 0..u64::from(SEGMENTS) {
            file.extend([elf::PT_INTERP, 4].map(u32::to_le_bytes).concat());
            let numbers = [8192 + at, 0, 0, BYTES, BYTES, 1];
            file.extend(numbers.map(u64::to_le_bytes).concat());
        }
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("long");
        // A path ends with a zero, and there is none.
        file.resize((BYTES + (1 << 20)) as usize, b'A');
        fs::write(&path, &file).expect("a file");
        let memory = || {
            let status = fs::read_to_string("/proc/self/status").expect("a status");
            let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
            let number = line.and_then(|line| line.split_whitespace().next());
            number.expect("a number").parse::<u64>().expect("a number") >> 10
        };
        let before = memory();
        let facts = ElfFacts::from_file(&path).expect("an ELF file");
        assert!(facts.has_loader && facts.libc.is_none());
        assert!(memory() - before < 1024, "{} MiB", memory() - before);
    }

    #[test]
    fn damaged_files_are_read_without_a_panic() {
        let directory = TempDir::new().expect("a directory");
        let Some(path) = built(&directory, "a", OWN, &[]) else {
            return;
        };
        let bytes = fs::read(&path).expect("a program");
        let mut random = fastrand::Rng::with_seed(33);
        let damaged = directory.path().join("damaged");
        // Where headers of the file, of segments and of sections are.
        let sections = u64::from_le_bytes(bytes[40..48].try_into().expect("eight bytes")) as usize;
        let places = [0..64, 64..900, sections..bytes.len(), 0..bytes.len()];
        for round in 0..3000 {
            let mut bytes = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(places[round % places.len()].clone());
                let any = random.u8(..);
                let bytes_of_interest = [0, 1, 0x7f, 0x80, 0xff, any];
                bytes[at] = bytes_of_interest[random.usize(..bytes_of_interest.len())];
            }
            if random.u8(..) < 32 {
                bytes.truncate(random.usize(..bytes.len()));
            }
            fs::write(&damaged, &bytes).expect("a file");
            let _ = ElfFacts::from_file(&damaged);
        }
    }
}
