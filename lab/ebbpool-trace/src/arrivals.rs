//! How many references arrive in which time.

use std::time::Duration;

use crate::error::TraceError;
use crate::reader::Reader;
use crate::reference::Batch;

/// References, and the time in which they arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordedArrivals {
    /// References after the start.
    pub references: u64,
    /// From the start to the last reference.
    pub time: Duration,
}

impl RecordedArrivals {
    /// Counts the arrivals that a reader with requests yields, and takes its references off the warm-up. `None` if the
    /// times do not grow.
    pub(crate) fn read(reader: &mut Reader, warmup: &mut u64) -> Result<Option<RecordedArrivals>, TraceError> {
        const BATCH: usize = 1 << 14;
        if !reader.has_requests() {
            return Ok(None);
        }
        let mut batch = Batch::with_capacity(BATCH);
        let (mut began, mut start, mut last, mut references) = (None, 0, 0, 0);
        while reader.next_batch(&mut batch, BATCH)? {
            for request in &batch.requests {
                last = request.time_us;
                if began.is_none() {
                    began = Some(last);
                    start = last;
                }
                if *warmup > 0 {
                    *warmup -= 1;
                    start = last;
                } else if last > start {
                    references += 1;
                }
            }
        }
        let time = Duration::from_micros(last - start);
        Ok(began.filter(|began| last > *began).map(|_| RecordedArrivals { references, time }))
    }
}
