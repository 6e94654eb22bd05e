//! Fuzz targets: the properties that Ebbpool's parsers must have on any input.
//!
//! Each function here is the body of a fuzz target in `fuzz/`: it takes any bytes and panics if the
//! parser panics, contradicts itself, or prints text that it does not read back. `cargo test` calls
//! them too, with the corpora of `fuzz/corpus/` and mutations of these.

mod captures;
mod databases;
mod devices;
mod names;
mod sqlite;
mod tables;
mod traces;

use ebbpool_trace::Format;

/// A fuzz target.
pub struct FuzzTarget {
    /// Its name: `fuzz/fuzz_targets/NAME.rs`, `fuzz/corpus/NAME/`.
    pub name: &'static str,
    /// Panics if the input shows a fault.
    pub check: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "policy_list", check: names::policy_list },
    FuzzTarget { name: "fraction", check: names::fraction },
    FuzzTarget { name: "quantity", check: names::quantity },
    FuzzTarget { name: "asymmetry", check: names::asymmetry },
    FuzzTarget { name: "asymmetry_spec", check: names::asymmetry_spec },
    FuzzTarget { name: "changes", check: devices::changes },
    FuzzTarget { name: "flash_config", check: devices::flash_config },
    FuzzTarget { name: "chip", check: devices::chip },
    FuzzTarget { name: "device_profile", check: devices::device_profile },
    FuzzTarget { name: "generator", check: names::generator },
    FuzzTarget { name: "text", check: traces::text },
    FuzzTarget { name: "columns", check: names::columns },
    FuzzTarget { name: "csv", check: traces::csv },
    FuzzTarget { name: "u32", check: traces::u32_with_sidecar },
    FuzzTarget { name: "native", check: traces::native },
    FuzzTarget { name: "compressed", check: traces::compressed },
    FuzzTarget { name: "spc", check: |input| traces::foreign(Format::Spc, input) },
    FuzzTarget { name: "msr", check: |input| traces::foreign(Format::Msr, input) },
    FuzzTarget { name: "vscsi", check: |input| traces::foreign(Format::Vscsi, input) },
    FuzzTarget { name: "oracle_general", check: |input| traces::foreign(Format::OracleGeneral, input) },
    FuzzTarget { name: "lcs", check: |input| traces::foreign(Format::Lcs, input) },
    FuzzTarget { name: "fio", check: |input| traces::foreign(Format::Fio, input) },
    FuzzTarget { name: "blkparse", check: |input| traces::foreign(Format::Blkparse, input) },
    FuzzTarget { name: "lirs", check: |input| traces::foreign(Format::Lirs, input) },
    FuzzTarget { name: "arc", check: |input| traces::foreign(Format::Arc, input) },
    FuzzTarget { name: "rocksdb", check: |input| traces::foreign(Format::RocksDb, input) },
    FuzzTarget { name: "arrow", check: tables::arrow },
    FuzzTarget { name: "log_record", check: databases::log_record },
    FuzzTarget { name: "log", check: databases::log },
    FuzzTarget { name: "operands", check: captures::operands },
    FuzzTarget { name: "elf", check: captures::elf },
    FuzzTarget { name: "kernel_types", check: captures::kernel_types },
    FuzzTarget { name: "mappings", check: captures::mappings },
    FuzzTarget { name: "capture_events", check: captures::capture_events },
    FuzzTarget { name: "catalog", check: captures::catalog },
    FuzzTarget { name: "page_headers", check: captures::page_headers },
    FuzzTarget { name: "sqlite_log", check: sqlite::log },
    FuzzTarget { name: "sqlite_files", check: sqlite::files },
];

/// Runs the target of that name.
///
/// # Panics
///
/// If the input shows a fault, or if there is no such target.
pub fn check(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let Some(target) = target else {
        panic!("there is no fuzz target {name}");
    };
    (target.check)(input);
}
