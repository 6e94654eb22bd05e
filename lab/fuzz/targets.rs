//! Traces and generators.
//!
//! A target takes any bytes and panics if a parser has a fault; `NAME.seeds` has inputs for it.

mod arguments;
mod tables;
mod traces;

use ebbpool_trace::Format;

use crate::FuzzTarget;

pub(crate) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "generator", check: arguments::generator },
    FuzzTarget { name: "text", check: traces::text },
    FuzzTarget { name: "columns", check: arguments::columns },
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
];
