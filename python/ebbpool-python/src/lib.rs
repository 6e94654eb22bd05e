//! Ebbpool for Python: the native half. The functions that users call are in `python/ebbpool`; they check the types of
//! arguments and give names to results. Here the arguments become requests to the lab, and its answers columns.

mod advise;
mod arrow;
mod calls;
mod catalogue;
mod compare;
mod compiled;
mod curve;
mod diff;
mod errors;
mod policy;
mod replay;
mod reproduce;
mod requests;
mod run;
#[cfg(target_os = "linux")]
mod sqlite;
mod store;
mod supply;
mod table;
mod trace;
mod watch;

use pyo3::prelude::*;

/// The native half of Ebbpool.
#[pymodule]
mod _ebbpool {
    #[pymodule_export]
    use super::advise::{Advice, advise};
    #[pymodule_export]
    use super::catalogue::{canonical_policies, device_json, generators_json, policies_json, policy_json, split_list};
    #[pymodule_export]
    use super::compare::{Comparison, best, compare};
    #[pymodule_export]
    use super::curve::{Curve, bound, curve};
    #[pymodule_export]
    use super::diff::diff;
    #[pymodule_export]
    use super::replay::replay;
    #[pymodule_export]
    use super::reproduce::{experiments_json, reproduce};
    #[pymodule_export]
    use super::requests::check_policies;
    #[pymodule_export]
    use super::run::{build_identity, main, run};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::sqlite::{check_sqlite_options, register_with_sqlite, sqlite_extension};
    #[pymodule_export]
    use super::store::Results;
    #[pymodule_export]
    use super::table::{Table, fields, table, table_of_parts};
    #[pymodule_export]
    use super::trace::Trace;
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
