//! How long a fix for writing waits while more pages are dirty than the budget allows.
//!
//! The budget exists so that a miss finds a clean victim instead of writing one. A thread that makes a page dirty
//! beyond the budget takes such a victim away, and pays for it with the time in which the background writer cleans
//! another. The prices of all threads add up in one account, so that all of them together are as fast as the writer,
//! whatever their number.
//!
//! The invariants, which other modules cite by number:
//!
//! 1. A thread waits only at the start of a fix, where it has no latch, frame or room of the pool (`core.rs`, 2), and
//!    only if its page is not dirty yet.
//! 2. A page that becomes dirty beyond the budget is paid for once. A thread that writes a victim itself has paid, and
//!    gets the price back.
//! 3. A wait is at most `most_delay` times the square of the excess, and the account is never more than `most_delay`
//!    ahead. So a wait grows gradually with the excess, and ends whatever the writer does.
//! 4. No thread waits while misses write their victims, and the writer a page, within [`SHORTEST_STALL`]. Such a write is
//!    no stall, and waiting for the writer would take longer than the write.
//! 5. A wait is at least [`SHORTEST_WAIT`]; below that the price stays in the account, and a later fix waits for it. A
//!    shorter sleep takes longer than it should.
//!
//! With the budget two more things depend on how long writes take. Where a miss that writes its victim stalls, misses
//! take a clean victim near the budget, if the policy would evict one soon (`replacement.rs`): the writer has written
//! the pages that are evicted next. And where writes are instant the writer leaves them to the threads that need them.

use std::time::Duration;

use crate::sync::{AtomicU64, Instant, Ordering};

/// A miss that writes its victim within this time does not stall.
const SHORTEST_STALL: Duration = Duration::from_micros(200);

/// A storage that writes a page within this time is memory.
const INSTANT: Duration = Duration::from_micros(20);

/// The shortest sleep of a thread.
const SHORTEST_WAIT: Duration = Duration::from_micros(100);

/// Sleeps end late: a thread may use up to this much of the writer's time that the threads before it left unused.
const CREDIT: Duration = Duration::from_millis(1);

/// The price of a page with all frames dirty, as a multiple of the writer's time for a page. It is in proportion to
/// the excess: half of the way beyond the budget threads are as fast as the writer.
const HIGHEST_PRICE: f64 = 2.0;

/// The writer's batches are limited to this number of pages, which a file writes at the same time by default, or to those
/// that it writes in this time or in twice the time of a victim's write, whichever is more.
const SMALLEST_BATCH: u64 = 32;
const SHORTEST_BATCH: Duration = Duration::from_millis(2);

/// The weight of a new measurement in an average is one part in this many.
const AVERAGED: i64 = 8;

/// How long fixes for writing wait. Times are nanoseconds; points in time are counted since the pool was opened.
#[derive(Debug)]
pub(crate) struct Throttle {
    opened: Instant,
    most_delay: Duration,
    /// When all pages that became dirty beyond the budget will be paid for.
    paid_at: AtomicU64,
    /// The writer's time for a page, on average; 0 before the first measurement.
    page: AtomicU64,
    /// When the writer's batch began, and its number of pages; no pages if no batch is under way.
    batch_began: AtomicU64,
    batch_pages: AtomicU64,
    /// The time that a fifth of the misses does not exceed when they write a victim, approximately; 0 before the first
    /// measurement. The others may have waited for the processor, or behind a batch.
    victim: AtomicU64,
    /// The shortest of these times lately, without waiting behind a batch; 0 before the first measurement.
    quickest: AtomicU64,
}

impl Throttle {
    /// No fix waits longer than `most_delay`.
    pub(crate) fn new(most_delay: Duration) -> Self {
        Throttle {
            opened: Instant::now(),
            most_delay,
            paid_at: AtomicU64::new(0),
            page: AtomicU64::new(0),
            batch_began: AtomicU64::new(0),
            batch_pages: AtomicU64::new(0),
            victim: AtomicU64::new(0),
            quickest: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        nanoseconds(self.opened.elapsed())
    }

    /// The most pages that the writer writes at a time: not many more than the storage writes at the same time, because
    /// misses that write their victim queue behind them.
    pub(crate) fn batch(&self) -> usize {
        let [page, quickest] = [&self.page, &self.quickest].map(|time| time.load(Ordering::Relaxed));
        // Other times of victims would be longer, the longer the batches are.
        let longest = (2 * quickest).max(nanoseconds(SHORTEST_BATCH));
        (longest / page.max(1)).max(SMALLEST_BATCH) as usize
    }

    /// The background writer begins to write this number of pages.
    pub(crate) fn batch_begins(&self, pages: usize) {
        self.batch_began.store(self.now(), Ordering::Relaxed);
        self.batch_pages.store(pages as u64, Ordering::Relaxed);
    }

    /// The background writer has written this number of pages of its batch.
    pub(crate) fn batch_ends(&self, pages: usize) {
        self.batch_pages.store(0, Ordering::Relaxed);
        if pages == 0 {
            return;
        }
        let took = self.now() - self.batch_began.load(Ordering::Relaxed);
        let (each, before) = (took / pages as u64, self.page.load(Ordering::Relaxed));
        let average = match before {
            0 => each,
            _ => before.saturating_add_signed((each as i64 - before as i64) / AVERAGED),
        };
        self.page.store(average.max(1), Ordering::Relaxed);
    }

    /// The writer's time for a page. A batch that takes longer than usual counts before it ends, so that threads wait
    /// also for a storage that has come to a halt.
    fn page(&self, now: u64) -> u64 {
        let page = self.page.load(Ordering::Relaxed);
        match self.batch_pages.load(Ordering::Relaxed) {
            0 => page,
            pages => {
                let took = now.saturating_sub(self.batch_began.load(Ordering::Relaxed));
                page.max(took / pages)
            }
        }
    }

    /// A miss has written its victim, and waited this long for that: it has paid for a page (2).
    pub(crate) fn victim_written(&self, took: Duration) {
        let (took, before) = (nanoseconds(took), self.victim.load(Ordering::Relaxed));
        // Four steps up for each step down.
        let victim = match before {
            0 => took,
            _ if took > before => before + before / 64 + 1,
            _ => before - before / 16,
        };
        self.victim.store(victim.max(1), Ordering::Relaxed);
        let quickest = match self.quickest.load(Ordering::Relaxed) {
            0 => took,
            before => took.min(before + before / 64 + 1),
        };
        self.quickest.store(quickest.max(1), Ordering::Relaxed);
        let price = self.page.load(Ordering::Relaxed);
        let back = |paid_at: u64| Some(paid_at.saturating_sub(price));
        let _ = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, back);
    }

    /// True if a thread that needs a page written does that sooner than it wakes the writer, which would only take
    /// processor time away from it.
    pub(crate) fn writes_are_instant(&self) -> bool {
        let victim = self.victim.load(Ordering::Relaxed);
        victim > 0 && victim < nanoseconds(INSTANT)
    }

    /// True if a miss that writes its victim stalls.
    pub(crate) fn victim_stalls(&self) -> bool {
        self.victim.load(Ordering::Relaxed) >= nanoseconds(SHORTEST_STALL)
    }

    /// Adds the price of a page to the account, and returns how long the thread waits before it makes the page dirty.
    /// `excess` is from 0, at the budget, to 1, where all frames are dirty.
    pub(crate) fn charge(&self, excess: f64) -> Duration {
        let now = self.now();
        let page = self.page(now);
        if !self.victim_stalls() && page < nanoseconds(SHORTEST_STALL) {
            return Duration::ZERO;
        }
        let price = (page as f64 * HIGHEST_PRICE * excess) as u64;
        let earliest = now.saturating_sub(nanoseconds(CREDIT));
        let latest = now.saturating_add(nanoseconds(self.most_delay));
        let charged = |paid_at: u64| paid_at.max(earliest).saturating_add(price).min(latest);
        let before = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid_at| Some(charged(paid_at)));
        let (Ok(before) | Err(before)) = before;
        let owed = Duration::from_nanos(charged(before).saturating_sub(now));
        match owed.min(self.most_delay.mul_f64(excess * excess)) {
            wait if wait < SHORTEST_WAIT => Duration::ZERO,
            wait => wait,
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The writer takes 1 ms for a page, and a miss 2 ms for its victim.
    fn slow(most_delay: Duration) -> Throttle {
        let throttle = Throttle::new(most_delay);
        throttle.page.store(MS, Ordering::Relaxed);
        throttle.victim.store(2 * MS, Ordering::Relaxed);
        throttle.quickest.store(2 * MS, Ordering::Relaxed);
        throttle
    }

    #[test]
    fn waits_grow_with_the_excess_and_are_bounded() {
        let throttle = slow(Duration::from_secs(400));
        let longest = [0.0, 0.1, 0.5, 1.0].map(|excess| {
            let waits = (0..1000).map(|_| throttle.charge(excess));
            waits.max().expect("a wait")
        });
        // Nothing is owed at the budget; then the thousand prices of 2 ms times the excess, beside what was owed before.
        assert_eq!(longest[0], Duration::ZERO);
        assert!((100..=200).contains(&longest[1].as_millis()), "{longest:?}");
        assert!((700..=1200).contains(&longest[2].as_millis()), "{longest:?}");
        assert!((2000..=3200).contains(&longest[3].as_millis()), "{longest:?}");
        let throttle = slow(Duration::from_millis(4));
        for (excess, most) in [(0.5, Duration::from_millis(1)), (1.0, Duration::from_millis(4))] {
            let wait = (0..1000).map(|_| throttle.charge(excess)).max();
            assert!(wait.expect("a wait") <= most, "{wait:?}");
        }
    }

    #[test]
    fn a_thread_that_writes_its_victim_gets_the_price_back() {
        let throttle = slow(Duration::from_secs(400));
        for _ in 0..1000 {
            let _ = throttle.charge(0.5);
            throttle.victim_written(Duration::from_millis(2));
        }
        // The account stays where it began: at most the prices of a few pages ahead.
        assert!(throttle.charge(0.5) <= Duration::from_millis(4));
    }

    #[test]
    fn no_thread_waits_where_writes_are_fast() {
        let throttle = Throttle::new(Duration::from_secs(1));
        assert_eq!(throttle.charge(1.0), Duration::ZERO);
        throttle.page.store(MS / 100, Ordering::Relaxed);
        throttle.victim_written(Duration::from_micros(50));
        assert_eq!((0..1000).map(|_| throttle.charge(1.0)).max(), Some(Duration::ZERO));
        assert!(!throttle.writes_are_instant());
        // Slow writes raise the estimate step by step.
        (0..200).for_each(|_| throttle.victim_written(Duration::from_millis(5)));
        assert!(throttle.victim_stalls());
        (0..200).for_each(|_| throttle.victim_written(Duration::from_micros(2)));
        assert!(throttle.writes_are_instant());
    }

    #[test]
    fn a_batch_that_does_not_end_makes_threads_wait() {
        let throttle = Throttle::new(Duration::from_secs(10));
        throttle.batch_pages.store(2, Ordering::Relaxed);
        let now = 50 * MS;
        assert_eq!(throttle.page(now), 25 * MS);
        throttle.batch_ends(0);
        assert_eq!(throttle.page(now), 0);
    }

    #[test]
    fn batches_are_no_longer_than_two_writes_of_a_victim() {
        assert_eq!(slow(Duration::ZERO).batch() as u64, SMALLEST_BATCH);
        let throttle = Throttle::new(Duration::ZERO);
        assert_eq!(throttle.batch(), 2 * MS as usize);
        throttle.page.store(MS / 20, Ordering::Relaxed);
        throttle.quickest.store(2 * MS, Ordering::Relaxed);
        assert_eq!(throttle.batch(), 80);
    }
}
