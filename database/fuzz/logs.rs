//! The files of a database.

use ebbpool_btree::fuzzing;

/// The body of a log's record.
pub(crate) fn log_record(input: &[u8]) {
    assert_eq!(fuzzing::record(input), Ok(()));
}

/// The two files of a log.
pub(crate) fn log(input: &[u8]) {
    assert_eq!(fuzzing::log(input), Ok(()));
}
