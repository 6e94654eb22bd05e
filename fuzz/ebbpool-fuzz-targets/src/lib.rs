//! Fuzz targets: the properties that Ebbpool's parsers must have on any input.
//!
//! Their bodies and seeds are in the directory `fuzz` of each wing: a body takes any bytes and panics if the parser panics,
//! contradicts itself, or prints text that it does not read back. `cargo test` calls them with the seeds and mutations of these.

#[path = "../../../capture/fuzz/targets.rs"]
mod capture;
#[path = "../../../core/fuzz/targets.rs"]
mod core;
#[path = "../../../database/fuzz/targets.rs"]
mod database;
#[path = "../../../lab/fuzz/targets.rs"]
mod lab;
#[path = "../../../sqlite/fuzz/targets.rs"]
mod sqlite;

/// A fuzz target.
pub struct FuzzTarget {
    /// Its name; `fuzz/NAME.seeds` in its wing has its seeds.
    pub name: &'static str,
    /// Panics if the input shows a fault.
    pub check: fn(&[u8]),
}

/// The targets of each wing, with the wing's directory.
pub const WINGS: &[(&str, &[FuzzTarget])] = &[
    ("core", core::TARGETS),
    ("lab", lab::TARGETS),
    ("database", database::TARGETS),
    ("sqlite", sqlite::TARGETS),
    ("capture", capture::TARGETS),
];

/// Runs the target of that name.
///
/// # Panics
///
/// If the input shows a fault, or if there is no such target.
pub fn check(name: &str, input: &[u8]) {
    let target = WINGS.iter().flat_map(|(_, targets)| *targets).find(|target| target.name == name);
    let Some(target) = target else {
        panic!("there is no fuzz target {name}");
    };
    (target.check)(input);
}
