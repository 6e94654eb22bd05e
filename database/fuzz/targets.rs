//! The files of a database.
//!
//! A target takes any bytes and panics if a parser has a fault; `NAME.seeds` has inputs for it.

mod logs;

use crate::FuzzTarget;

pub(crate) const TARGETS: &[FuzzTarget] =
    &[FuzzTarget { name: "log_record", check: logs::log_record }, FuzzTarget { name: "log", check: logs::log }];
