//! The files beside a database of SQLite.
//!
//! A target takes any bytes and panics if a parser has a fault; `NAME.seeds` has inputs for it.

mod files;

use crate::FuzzTarget;

pub(crate) const TARGETS: &[FuzzTarget] =
    &[FuzzTarget { name: "sqlite_log", check: files::log }, FuzzTarget { name: "sqlite_files", check: files::files }];
