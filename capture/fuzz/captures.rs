//! What captures read: programs, the kernel's types, `/proc`, events of probes, and files of databases.
//!
//! Elsewhere than on Linux there are no captures, and the targets accept everything.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod elsewhere {
    pub(crate) fn operands(_: &[u8]) {}
    pub(crate) fn elf(_: &[u8]) {}
    pub(crate) fn kernel_types(_: &[u8]) {}
    pub(crate) fn mappings(_: &[u8]) {}
    pub(crate) fn capture_events(_: &[u8]) {}
    pub(crate) fn catalog(_: &[u8]) {}
    pub(crate) fn page_headers(_: &[u8]) {}
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) use elsewhere::*;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use on_linux::*;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod on_linux {
    use std::fs;

    use ebbpool_capture::sources::postgres::{PostgresDecoder, catalog};
    use ebbpool_capture::sources::{FileEvent, device, mysql, sqlite, system_calls};
    use ebbpool_capture::{Arch, CaptureBuffer, ElfProgram, KernelTypes, Location, PageEvent, mapping, operands as parse};
    use tempfile::TempDir;

    /// Bytes of an event.
    const EVENT: usize = 32;

    /// Operands of probes: as many as there are words, and registers where the kernel has them.
    pub(crate) fn operands(input: &[u8]) {
        let Ok(text) = std::str::from_utf8(input) else {
            return;
        };
        for arch in [Arch::X86_64, Arch::Aarch64] {
            for operand in parse(text, arch).into_iter().flatten() {
                assert!(matches!(operand.size, 1 | 2 | 4 | 8));
                if let Location::Register(at) | Location::Memory(at, _) = operand.location {
                    assert!((0..=248).contains(&at) && at % 8 == 0, "register at {at}");
                }
            }
        }
    }

    /// A program's file.
    pub(crate) fn elf(input: &[u8]) {
        let Ok(program) = ElfProgram::parse(input.to_vec()) else {
            return;
        };
        assert!(program.build_id().bytes().all(|byte| byte.is_ascii_hexdigit()));
        for probe in program.probes("postgresql", "buffer__read__done") {
            let _ = parse(&probe.operands, Arch::X86_64);
            let _ = program.offset(probe.address);
        }
        if let Some((name, address)) = program.symbol_beginning("") {
            assert_eq!(program.symbol(name), Some(address));
            let entry = program.entry(address).wrapping_sub(address);
            assert!(matches!(entry, 0 | 4));
        }
        let _ = program.exports("main");
    }

    /// The kernel's description of its types.
    pub(crate) fn kernel_types(input: &[u8]) {
        if let Some(types) = KernelTypes::parse(input.to_vec()) {
            for member in ["f_pos", "f_inode", ""] {
                let _ = types.offset("file", member);
            }
            let _ = types.has_tracepoint("sys_exit");
        }
    }

    /// Lines of `/proc/PID/maps`.
    pub(crate) fn mappings(input: &[u8]) {
        for line in String::from_utf8_lossy(input).lines() {
            if let Some(found) = mapping(line) {
                assert!(found.path.is_empty() || line.ends_with(&found.path));
            }
        }
    }

    /// Events of probes: each source's decoder counts what it records.
    pub(crate) fn capture_events(input: &[u8]) {
        let mut postgres = (PostgresDecoder::default(), CaptureBuffer::default());
        let mut sqlite = (sqlite::SqliteDecoder::default(), CaptureBuffer::default());
        let mut mysql = (mysql::MysqlDecoder::new(16384), CaptureBuffer::default());
        let mut process = (system_calls::ProcessDecoder::new(4096), CaptureBuffer::default());
        let mut device = (device::DeviceDecoder::new(4096, 1 << 20), CaptureBuffer::default());
        for bytes in input.chunks_exact(EVENT) {
            let event = PageEvent::parse(bytes).expect("a whole event");
            // A long run of added pages takes its time, and finds no more than a short one.
            let short = PageEvent { detail: event.detail & 0xff, ..event };
            postgres.0.record(&short, &mut postgres.1);
            if event.kind == 7 {
                sqlite.0.set_database(event.page.into(), event.detail);
            }
            sqlite.0.record(&event, &mut sqlite.1);
            mysql.0.record(&event, &mut mysql.1);
            let event = FileEvent::parse(bytes).expect("a whole event");
            let short = FileEvent { bytes: event.bytes & 0xffff, ..event };
            process.0.record(&short, &mut process.1);
            device.0.record(&short, &mut device.1);
        }
        for recorder in [&postgres.1, &sqlite.1, &mysql.1, &process.1, &device.1] {
            assert!(recorder.writes() <= recorder.len() as u64);
        }
        let counts = sqlite.0.counts;
        assert_eq!(counts.requests + counts.unrequested, sqlite.1.len() as u64);
        assert_eq!(counts.writes + counts.unrequested, sqlite.1.writes());
        assert_eq!(mysql.0.counts.requests, mysql.1.len() as u64);
        let counts = process.0.counts;
        let most = (counts.read_bytes + counts.written_bytes).div_ceil(4096);
        assert!(process.1.len() as u64 <= most + 2 * (counts.reads + counts.writes));
    }

    /// PostgreSQL's catalogues: the map of their files, 512 bytes, and the pages of one.
    pub(crate) fn catalog(input: &[u8]) {
        let (map, table) = input.split_at(input.len().min(512));
        let file = catalog::mapped_file(map, 1259);
        let size = catalog::page_size(table).unwrap_or(8192);
        for row in catalog::rows(table, size) {
            assert!(row.len() <= size);
        }
        let directory = TempDir::new().expect("a temporary directory");
        let database = directory.path().join("base/1");
        fs::create_dir_all(&database).expect("a temporary directory");
        fs::create_dir(directory.path().join("global")).expect("a temporary directory");
        fs::write(database.join("pg_filenode.map"), map).expect("a temporary file");
        let file = database.join(file.unwrap_or_default().to_string());
        fs::write(file, table).expect("a temporary file");
        for major in [15, 18] {
            let found = catalog::DataDirectory::new(directory.path(), major);
            for relation in found.relations(1, |_| true).into_values() {
                // A byte that is no UTF-8 becomes a character of three.
                assert!(relation.name.len() <= 3 * 64);
            }
            assert!(found.databases(|_| true).is_empty());
        }
    }

    /// The first bytes of databases.
    pub(crate) fn page_headers(input: &[u8]) {
        if let Some(size) = sqlite::page_size(input) {
            assert!(size.is_power_of_two() && (512..=65536).contains(&size));
        }
        if let Some(space) = mysql::space_number(input) {
            assert_eq!(input[34..38], space.to_be_bytes());
        }
    }
}
