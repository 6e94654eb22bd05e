//! Reading ahead of sequential fixes. With direct I/O the kernel does not do that.

use std::ops::Range;

use crate::sync::Mutex;
use crate::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// The number of sequences that are followed at a time.
const STREAMS: usize = 16;

/// The number of fixes of neighbouring pages that make a sequence.
const A_SEQUENCE: u32 = 3;

/// The number of pages that are read ahead at first; it doubles each time, up to the limit.
const AT_FIRST: u64 = 4;

/// The number of ranges that may wait to be read.
const QUEUE: usize = 16;

/// A sequence of fixes of neighbouring pages.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The page that continues it.
    next: u64,
    /// Fixes so far.
    length: u32,
    /// The last page that was read ahead.
    ahead: u64,
    /// Pages to read ahead next time.
    window: u64,
    /// When it was last continued.
    at: u64,
}

/// Finds sequences, and orders the reads of the pages that follow.
pub(crate) struct ReadAhead {
    most: u64,
    streams: Mutex<Streams>,
    orders: SyncSender<Range<u64>>,
}

#[derive(Default)]
struct Streams {
    all: [Stream; STREAMS],
    clock: u64,
}

impl ReadAhead {
    /// Orders reads of at most `most` pages ahead; the receiver gets the ranges.
    pub(crate) fn new(most: u32) -> (Self, Receiver<Range<u64>>) {
        let (orders, ranges) = sync_channel(QUEUE);
        let read_ahead = ReadAhead { most: u64::from(most), streams: Mutex::default(), orders };
        (read_ahead, ranges)
    }

    /// A page was fixed that was not resident.
    pub(crate) fn missed(&self, page: u64) {
        self.follow(page, true);
    }

    /// A page was fixed for the first time since it was read ahead.
    pub(crate) fn fixed(&self, page: u64) {
        self.follow(page, false);
    }

    fn follow(&self, page: u64, begins: bool) {
        let range = self.streams.lock().follow(page, begins, self.most);
        if let Some(range) = range {
            // The range is dropped if too many wait already, or no thread reads any more.
            match self.orders.try_send(range) {
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }
}

impl Streams {
    /// The range to read ahead after a fix of `page`. With `begins` the page may begin a sequence.
    fn follow(&mut self, page: u64, begins: bool, most: u64) -> Option<Range<u64>> {
        self.clock += 1;
        let at = self.clock;
        let Some(stream) = self.all.iter_mut().find(|s| s.length > 0 && s.next == page) else {
            if begins {
                let oldest = self.all.iter_mut().min_by_key(|stream| stream.at)?;
                *oldest = Stream { next: page.checked_add(1)?, length: 1, ahead: page, window: AT_FIRST, at };
            }
            return None;
        };
        stream.length = stream.length.saturating_add(1);
        stream.at = at;
        stream.next = page.checked_add(1)?;
        stream.ahead = stream.ahead.max(page);
        // The next pages are ordered when half of those before have been used.
        if stream.length < A_SEQUENCE || stream.ahead - page > stream.window / 2 {
            return None;
        }
        let from = stream.ahead.checked_add(1)?;
        let to = from.saturating_add(stream.window.min(most));
        stream.ahead = to - 1;
        stream.window = (stream.window * 2).min(most);
        Some(from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ahead_of_a_sequence_doubles_up_to_the_limit() {
        let mut streams = Streams::default();
        let mut ordered = Vec::new();
        for page in 100..160 {
            ordered.extend(streams.follow(page, true, 16));
        }
        assert_eq!(ordered[..3], [103..107, 107..115, 115..131]);
        assert!(ordered.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(ordered[3..].iter().all(|range| range.end - range.start == 16));
    }

    #[test]
    fn interleaved_sequences_are_followed_and_random_pages_are_not() {
        let mut streams = Streams::default();
        let mut ordered = Vec::new();
        for step in 0..6 {
            for page in [1000 + step, 5000 + step, step * 7919 + 13] {
                ordered.extend(streams.follow(page, true, 8));
            }
        }
        assert!(ordered.contains(&(1003..1007)) && ordered.contains(&(5003..5007)));
        assert!(ordered.iter().all(|range| range.start >= 1000 && range.end < 5100));
    }

    #[test]
    fn the_last_page_has_none_after_it() {
        let mut streams = Streams::default();
        for page in u64::MAX - 5..=u64::MAX {
            let range = streams.follow(page, true, 8);
            assert!(range.is_none_or(|range| range.start > page));
        }
    }
}
