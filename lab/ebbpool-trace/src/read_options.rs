//! How traces are read.

use std::num::NonZeroU64;

use crate::columns::Columns;
use crate::formats::Format;

/// How traces are read. The steps of reading, in this order:
///
/// 1. decode, by `format` and `columns`; requests in bytes become pages of
///    `page_size`
/// 2. leave out at most `bad_lines` malformed lines, over all parts together
/// 3. fold pages to `page_size`, each part by the page size that it states
/// 4. put the parts together
/// 5. drop the first `skip` references, then stop after `limit`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format of files without a magic number.
    pub format: Option<Format>,
    /// The columns of CSV files; guessed from their names if this is `None`.
    pub columns: Option<Columns>,
    /// Bytes in a page; the page size of the trace if this is `None`.
    pub page_size: Option<NonZeroU64>,
    /// In formats of lines: how many malformed lines are left out before one is an error.
    pub bad_lines: u64,
    /// References to leave out at the start.
    pub skip: u64,
    /// The largest number of references to read.
    pub limit: Option<u64>,
}
