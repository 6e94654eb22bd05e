//! What Ebbpool's parsers must hold to on any input.
//!
//! Each function here is the body of a fuzz target in `fuzz/`: it takes any bytes and panics if the
//! parser panics, disagrees with itself, or prints what it does not read back. `cargo test` calls
//! them too, with the corpora of `fuzz/corpus/` and mutations of these.

mod databases;
mod devices;
mod names;
mod traces;

use ebbpool_trace::Format;

/// A fuzz target.
pub struct Target {
    /// Its name: `fuzz/fuzz_targets/NAME.rs`, `fuzz/corpus/NAME/`.
    pub name: &'static str,
    /// Panics if the input shows a fault.
    pub check: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "policy_list",
        check: names::policy_list,
    },
    Target {
        name: "fraction",
        check: names::fraction,
    },
    Target {
        name: "asymmetry",
        check: names::asymmetry,
    },
    Target {
        name: "asymmetry_spec",
        check: names::asymmetry_spec,
    },
    Target {
        name: "changes",
        check: devices::changes,
    },
    Target {
        name: "flash_config",
        check: devices::flash_config,
    },
    Target {
        name: "chip",
        check: devices::chip,
    },
    Target {
        name: "device_profile",
        check: devices::device_profile,
    },
    Target {
        name: "generator",
        check: names::generator,
    },
    Target {
        name: "text",
        check: traces::text,
    },
    Target {
        name: "columns",
        check: names::columns,
    },
    Target {
        name: "csv",
        check: traces::csv,
    },
    Target {
        name: "u32",
        check: traces::u32_with_sidecar,
    },
    Target {
        name: "native",
        check: traces::native,
    },
    Target {
        name: "compressed",
        check: traces::compressed,
    },
    Target {
        name: "spc",
        check: |input| traces::foreign(Format::Spc, input),
    },
    Target {
        name: "msr",
        check: |input| traces::foreign(Format::Msr, input),
    },
    Target {
        name: "vscsi",
        check: |input| traces::foreign(Format::Vscsi, input),
    },
    Target {
        name: "oracle_general",
        check: |input| traces::foreign(Format::OracleGeneral, input),
    },
    Target {
        name: "lcs",
        check: |input| traces::foreign(Format::Lcs, input),
    },
    Target {
        name: "fio",
        check: |input| traces::foreign(Format::Fio, input),
    },
    Target {
        name: "blkparse",
        check: |input| traces::foreign(Format::Blkparse, input),
    },
    Target {
        name: "lirs",
        check: |input| traces::foreign(Format::Lirs, input),
    },
    Target {
        name: "arc",
        check: |input| traces::foreign(Format::Arc, input),
    },
    Target {
        name: "log_record",
        check: databases::log_record,
    },
    Target {
        name: "log",
        check: databases::log,
    },
];

/// Runs the target of that name.
///
/// # Panics
///
/// If the input shows a fault, or there is no such target.
pub fn check(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let Some(target) = target else {
        panic!("there is no fuzz target {name}");
    };
    (target.check)(input);
}
