//! When the references of a native trace were made, and through which rings: the optional columns `time_us` and `bypass`.

use parquet::column::page::PageReader;
use parquet::errors::Result as ParquetResult;
use parquet::schema::types::ColumnDescPtr;

use super::RowPosition;
use super::integers::{IntegerColumn, IntegerDecoder};
use crate::error::TraceError;
use crate::reference::RequestDetail;

/// When a reference was made, in µs from any moment on.
pub(super) const TIME: &str = "time_us";

/// The code of the ring of a request, see [`Ring`](crate::Ring).
pub(super) const BYPASS: &str = "bypass";

/// The columns in a file, at least one of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestColumns {
    time: Option<IntegerColumn>,
    bypass: Option<IntegerColumn>,
}

impl RequestColumns {
    /// The columns that the file has, `None` if it has none; adds a note on a column that cannot be read.
    pub(super) fn find(file: (&str, &[ColumnDescPtr]), notes: &mut Vec<String>) -> Option<RequestColumns> {
        const NO_TIMES: &str = "and times are integers of µs; the references have no times";
        const NO_RINGS: &str = "and rings are integers; the references have no rings";
        let time = IntegerColumn::find(file, TIME, notes, NO_TIMES);
        let bypass = IntegerColumn::find(file, BYPASS, notes, NO_RINGS);
        (time.is_some() || bypass.is_some()).then_some(RequestColumns { time, bypass })
    }
}

/// The columns of a row group.
pub(super) struct RequestDecoder {
    time: Option<IntegerDecoder>,
    bypass: Option<IntegerDecoder>,
}

impl RequestDecoder {
    /// `open` opens the column with the given number.
    pub(super) fn new(
        columns: RequestColumns,
        open: impl Fn(usize) -> ParquetResult<(ColumnDescPtr, Box<dyn PageReader>)>,
    ) -> ParquetResult<RequestDecoder> {
        let decoder = |column: Option<IntegerColumn>| -> ParquetResult<Option<IntegerDecoder>> {
            let Some(column) = column else {
                return Ok(None);
            };
            let (descriptor, pages) = open(column.at)?;
            Ok(Some(IntegerDecoder::new(column, descriptor, pages)))
        };
        Ok(RequestDecoder { time: decoder(columns.time)?, bypass: decoder(columns.bypass)? })
    }

    /// Appends the next `count` requests. A null is the time before, and no ring.
    pub(super) fn append(
        &mut self,
        requests: &mut Vec<RequestDetail>,
        clock: &mut TraceClock,
        (count, position): (usize, RowPosition),
    ) -> Result<(), TraceError> {
        let start = requests.len();
        requests.resize(start + count, RequestDetail::default());
        if let Some(times) = &mut self.time {
            let mut requests = requests[start..].iter_mut();
            times.for_each(TIME, (count, position), |time| {
                if let (true, Some(time)) = (clock.is_common && !TraceClock::fits(time.unwrap_or(0)), time) {
                    return Err(format!("{TIME} is {time}, and parts are merged by times from 0 to 2^63-1"));
                }
                if let Some(request) = requests.next() {
                    request.time_us = clock.time(time);
                }
                Ok(())
            })?;
        }
        if let Some(rings) = &mut self.bypass {
            let mut requests = requests[start..].iter_mut();
            rings.for_each_u32(BYPASS, (count, position), |bypass| {
                if let Some(request) = requests.next() {
                    request.bypass = bypass;
                }
            })?;
        }
        Ok(())
    }
}

/// Makes times that never run backwards of those in a file.
#[derive(Debug, Default)]
pub(super) struct TraceClock {
    /// The time in the file that is 0.
    zero: Option<i128>,
    last: u64,
    /// True if times are compared with those of other files.
    is_common: bool,
}

impl TraceClock {
    pub(super) fn new(is_common: bool) -> TraceClock {
        TraceClock { is_common, ..TraceClock::default() }
    }

    /// True of a time that a signed column can hold.
    fn fits(stored: i128) -> bool {
        (0..=i128::from(i64::MAX)).contains(&stored)
    }

    /// The time of the next reference, in µs. A time that is missing, or before that of an earlier reference, becomes
    /// the latest so far.
    fn time(&mut self, stored: Option<i128>) -> u64 {
        if let Some(stored) = stored {
            // Times that a signed column cannot hold begin at 0; others are as they are stored.
            let zero = *self.zero.get_or_insert(if TraceClock::fits(stored) { 0 } else { stored });
            let time = u64::try_from((stored - zero).max(0)).unwrap_or(u64::MAX);
            self.last = self.last.max(time);
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::TraceClock;

    fn times(stored: &[Option<i128>]) -> Vec<u64> {
        let mut clock = TraceClock::default();
        stored.iter().map(|&time| clock.time(time)).collect()
    }

    #[test]
    fn times_never_run_backwards() {
        let stored = [None, Some(5), Some(9), Some(7), None, Some(-1), Some(10)];
        assert_eq!(times(&stored), [0, 5, 9, 9, 9, 9, 10]);
        assert_eq!(times(&[Some(-5), Some(-3), Some(4)]), [0, 2, 9]);
        let most = i128::from(u64::MAX);
        assert_eq!(times(&[Some(most - 2), None, Some(most)]), [0, 0, 2]);
        let signed = [i64::MIN.into(), i64::MAX.into()].map(Some);
        assert_eq!(times(&signed), [0, u64::MAX]);
        assert_eq!(times(&[Some(-2), Some(most)]), [0, u64::MAX]);
    }
}
