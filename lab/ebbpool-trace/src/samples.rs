//! Sample traces of a real database in the native format, compiled into the program.
//!
//! `traces/README.md` says how they were recorded. A [`Source`](crate::Source) reads one with
//! [`embedded`](crate::Source::embedded).

/// TPC-C: 1,000,000 references.
pub static PG_TPCC: &[u8] = include_bytes!("../traces/pg-tpcc.parquet");

/// pgbench, the workload of TPC-B: 300,000 references.
pub static PG_TPCB: &[u8] = include_bytes!("../traces/pg-tpcb.parquet");

/// TATP, which papers call TM1: 300,000 references.
pub static PG_TATP: &[u8] = include_bytes!("../traces/pg-tatp.parquet");
