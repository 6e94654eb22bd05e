//! What a capture reads of other programs and of the kernel.
//!
//! A target takes any bytes and panics if a parser has a fault; `NAME.seeds` has inputs for it.

mod captures;

use crate::FuzzTarget;

pub(crate) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "operands", check: captures::operands },
    FuzzTarget { name: "elf", check: captures::elf },
    FuzzTarget { name: "kernel_types", check: captures::kernel_types },
    FuzzTarget { name: "mappings", check: captures::mappings },
    FuzzTarget { name: "capture_events", check: captures::capture_events },
    FuzzTarget { name: "catalog", check: captures::catalog },
    FuzzTarget { name: "page_headers", check: captures::page_headers },
];
