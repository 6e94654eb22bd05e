//! Rings of hits that were not reported to the policy yet.
//!
//! Each thread notes its hits in a ring of its own and hands them over in batches, so that a hit takes no lock and
//! shares no cache line but the frame's (BP-Wrapper: Ding et al. 2009). The ring only counts hits that need not be
//! reported to the policy.

use std::sync::OnceLock;

use crossbeam_utils::CachePadded;
use ebbpool_policy::Access;

use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::thread_number;

/// The number of hits that a ring has room for.
const CAPACITY: usize = 128;

/// From this number of hits on, a thread hands them over if the policy's lock is free.
const WORTH_HANDING_OVER: usize = CAPACITY / 2;

/// One hit: which frame, which page was in it, and how it was fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) frame: u32,
    /// The lower bits of its number.
    page: u32,
    pub(crate) access: Access,
}

impl Hit {
    #[inline]
    pub(crate) fn new(frame: u32, page: u64, access: Access) -> Self {
        Hit { frame, page: lower_bits(page), access }
    }

    /// True if this is the page that was hit, or another one with the same lower bits, which does little harm.
    pub(crate) fn is_of(&self, page: u64) -> bool {
        self.page == lower_bits(page)
    }

    fn pack(self) -> u64 {
        let write = u64::from(self.access.is_write());
        u64::from(self.frame) << 32 | u64::from(self.page) << 1 | write
    }

    fn unpack(packed: u64) -> Self {
        Hit { frame: (packed >> 32) as u32, page: packed as u32 >> 1, access: Access::from_write(packed & 1 == 1) }
    }
}

/// The bits of a page number that fit beside the frame and the access.
fn lower_bits(page: u64) -> u32 {
    page as u32 & (u32::MAX >> 1)
}

/// The hits of one thread at a time.
#[derive(Debug)]
struct HitRing {
    slots: [AtomicU64; CAPACITY],
    /// Written only by the ring's thread.
    own: CachePadded<HitCounters>,
    /// What was reported to the policy; written under its lock.
    reported: CachePadded<HitCounters>,
}

#[derive(Debug, Default)]
struct HitCounters {
    /// Hits in the slots.
    noted: AtomicUsize,
    /// Hits that are only counted.
    omitted: AtomicUsize,
}

/// A report about hits to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HitReport {
    /// This many hits were counted and are not reported one by one.
    Omitted(u64),
    /// This hit will be reported in the same batch: the policy can prefetch what it will look at.
    Upcoming(Hit),
    /// This page was hit.
    Hit(Hit),
}

/// What the thread has to do after it noted a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HitFollowUp {
    Nothing,
    /// Hand the hits over if the policy's lock is free.
    HandOverIfFree,
    /// Hand them over.
    HandOver,
    /// Report this one to the policy at once: the thread has no ring to note it in.
    Report,
}

impl HitRing {
    fn new() -> Self {
        HitRing {
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
            own: CachePadded::default(),
            reported: CachePadded::default(),
        }
    }

    #[inline]
    fn count(&self) {
        let omitted = self.own.omitted.load(Ordering::Relaxed);
        self.own.omitted.store(omitted + 1, Ordering::Relaxed);
    }

    #[inline]
    fn note(&self, hit: Hit) -> HitFollowUp {
        let noted = self.own.noted.load(Ordering::Relaxed);
        self.slots[noted % CAPACITY].store(hit.pack(), Ordering::Relaxed);
        self.own.noted.store(noted + 1, Ordering::Release);
        // Another thread writes the counters of reported hits only in rare cases, so this line is in the processor's
        // cache.
        match noted + 1 - self.reported.noted.load(Ordering::Acquire) {
            CAPACITY => HitFollowUp::HandOver,
            waiting if waiting >= WORTH_HANDING_OVER && waiting % 8 == 0 => HitFollowUp::HandOverIfFree,
            _ => HitFollowUp::Nothing,
        }
    }

    /// Takes the number of counted hits, and the noted ones, oldest first. The noted hits are passed on twice: first
    /// so that the policy can prefetch what it will look at, then as hits. Under the policy's lock.
    fn take(&self, each: &mut impl FnMut(HitReport)) {
        let noted = self.own.noted.load(Ordering::Acquire);
        let omitted = self.own.omitted.load(Ordering::Relaxed);
        let more = omitted - self.reported.omitted.load(Ordering::Relaxed);
        if more > 0 {
            each(HitReport::Omitted(more as u64));
            self.reported.omitted.store(omitted, Ordering::Relaxed);
        }
        for report in [HitReport::Upcoming, HitReport::Hit] {
            for at in self.reported.noted.load(Ordering::Relaxed)..noted {
                let packed = self.slots[at % CAPACITY].load(Ordering::Relaxed);
                each(report(Hit::unpack(packed)));
            }
        }
        self.reported.noted.store(noted, Ordering::Release);
    }

    fn hits(&self) -> usize {
        self.own.noted.load(Ordering::Relaxed) + self.own.omitted.load(Ordering::Relaxed)
    }
}

/// The number of rings that are allocated together.
const BLOCK: usize = 8;

/// The number of blocks that a pool can have: threads with higher numbers have no ring.
const MOST_BLOCKS: usize = 512;

type Block = Box<[HitRing; BLOCK]>;

/// The rings of a pool's threads, by the [number](thread_number) of the thread. A thread that takes the number of a
/// thread that has ended goes on in its ring.
pub(crate) struct HitRings {
    /// Distinguishes this pool from others.
    pool: u64,
    blocks: Box<[OnceLock<Block>]>,
    /// All blocks from here on are empty.
    blocks_in_use: AtomicUsize,
    /// Hits of threads that have no ring.
    ringless_hits: AtomicUsize,
}

impl HitRings {
    pub(crate) fn new() -> Self {
        static POOLS: AtomicU64 = AtomicU64::new(0);
        HitRings {
            pool: POOLS.fetch_add(1, Ordering::Relaxed),
            blocks: (0..MOST_BLOCKS).map(|_| OnceLock::new()).collect(),
            blocks_in_use: AtomicUsize::new(0),
            ringless_hits: AtomicUsize::new(0),
        }
    }

    /// The number of the pool, unique in the process.
    pub(crate) fn pool(&self) -> u64 {
        self.pool
    }

    /// The calling thread's ring, if it has one.
    #[inline]
    fn own(&self) -> Option<&HitRing> {
        let number = thread_number::current();
        let block = self.blocks.get(number / BLOCK)?.get()?;
        Some(&block[number % BLOCK])
    }

    /// The calling thread's ring, which is allocated if it is missing. None if there are too many threads, or in the
    /// destructor of a thread-local after the thread has given its number back.
    #[cold]
    fn make_own(&self) -> Option<&HitRing> {
        let number = thread_number::get()?;
        let block = number / BLOCK;
        let rings = self.blocks.get(block)?;
        let rings = rings.get_or_init(|| Box::new(std::array::from_fn(|_| HitRing::new())));
        self.blocks_in_use.fetch_max(block + 1, Ordering::Relaxed);
        Some(&rings[number % BLOCK])
    }

    /// Notes a hit of the calling thread.
    #[inline]
    pub(crate) fn note(&self, hit: Hit) -> HitFollowUp {
        match self.own().or_else(|| self.make_own()) {
            Some(ring) => ring.note(hit),
            None => {
                self.count_ringless();
                HitFollowUp::Report
            }
        }
    }

    /// Counts a hit of the calling thread that need not be reported to the policy.
    #[inline]
    pub(crate) fn count(&self) {
        match self.own().or_else(|| self.make_own()) {
            Some(ring) => ring.count(),
            None => self.count_ringless(),
        }
    }

    #[cold]
    fn count_ringless(&self) {
        self.ringless_hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes what the calling thread has noted, oldest first. Under the policy's lock.
    pub(crate) fn take_own(&self, mut each: impl FnMut(HitReport)) {
        if let Some(ring) = self.own() {
            ring.take(&mut each);
        }
    }

    /// Takes what all threads have noted. Under the policy's lock.
    pub(crate) fn take_all(&self, mut each: impl FnMut(HitReport)) {
        self.all().for_each(|ring| ring.take(&mut each));
    }

    fn all(&self) -> impl Iterator<Item = &HitRing> {
        let in_use = self.blocks_in_use.load(Ordering::Relaxed);
        let blocks = self.blocks[..in_use].iter().filter_map(OnceLock::get);
        blocks.flat_map(|block| block.iter())
    }

    /// Hits of all threads so far.
    pub(crate) fn hits(&self) -> u64 {
        let hits: usize = self.all().map(HitRing::hits).sum();
        (hits + self.ringless_hits.load(Ordering::Relaxed)) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    fn taken(rings: &HitRings) -> Vec<u32> {
        let mut frames = Vec::new();
        rings.take_own(|report| {
            if let HitReport::Hit(hit) = report {
                frames.push(hit.frame);
            }
        });
        frames
    }

    #[test]
    fn hits_come_out_in_the_order_in_which_they_were_noted() {
        let rings = HitRings::new();
        for frame in 0..200 {
            let hit = Hit::new(frame, 7, Access::from_write(frame % 3 == 0));
            assert_eq!(Hit::unpack(hit.pack()), hit);
            if rings.note(hit) == HitFollowUp::HandOver {
                let from = frame + 1 - CAPACITY as u32;
                assert_eq!(taken(&rings), (from..=frame).collect::<Vec<_>>());
            }
        }
        assert_eq!(taken(&rings), (128..200).collect::<Vec<_>>());
        assert_eq!(rings.hits(), 200);
    }

    #[test]
    fn pools_and_threads_have_rings_of_their_own() {
        let (one, other) = (HitRings::new(), HitRings::new());
        one.note(Hit::new(1, 0, Access::Read));
        other.note(Hit::new(2, 0, Access::Read));
        one.note(Hit::new(3, 0, Access::Read));
        std::thread::scope(|scope| {
            scope.spawn(|| one.note(Hit::new(9, 0, Access::Write)));
        });
        assert_eq!(taken(&one), [1, 3]);
        assert_eq!(taken(&other), [2]);
        let mut rest = Vec::new();
        one.take_all(|report| {
            if let HitReport::Hit(hit) = report {
                rest.push(hit.frame);
            }
        });
        assert_eq!(rest, [9]);
        assert_eq!(one.hits(), 3);
    }

    #[test]
    fn omitted_hits_are_counted() {
        let rings = HitRings::new();
        rings.count();
        rings.note(Hit::new(1, 0, Access::Read));
        rings.count();
        let mut reports = Vec::new();
        let mut taken = || {
            rings.take_own(|report| reports.push(report));
            std::mem::take(&mut reports)
        };
        let hit = Hit::new(1, 0, Access::Read);
        assert_eq!(taken(), [HitReport::Omitted(2), HitReport::Upcoming(hit), HitReport::Hit(hit)]);
        rings.count();
        assert_eq!(taken(), [HitReport::Omitted(1)]);
        assert_eq!(taken(), []);
        assert_eq!(rings.hits(), 4);
    }

    /// Notes and counts a hit when it is dropped.
    struct Late(Arc<HitRings>, Sender<HitFollowUp>);

    impl Drop for Late {
        fn drop(&mut self) {
            let next = self.0.note(Hit::new(2, 0, Access::Read));
            self.0.count();
            let _ = self.1.send(next);
        }
    }

    thread_local! {
        static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    }

    #[test]
    fn a_thread_that_has_given_its_number_back_has_no_ring() {
        let rings = Arc::new(HitRings::new());
        let (sender, receiver) = channel();
        let theirs = Arc::clone(&rings);
        let thread = std::thread::spawn(move || {
            // Destructors run in the opposite order.
            LATE.set(Some(Late(Arc::clone(&theirs), sender)));
            theirs.note(Hit::new(1, 0, Access::Read));
        });
        thread.join().expect("the thread ends");
        assert_eq!(receiver.recv(), Ok(HitFollowUp::Report));
        assert_eq!(rings.hits(), 3);
        let mut left = Vec::new();
        rings.take_all(|report| left.push(report));
        let hit = Hit::new(1, 0, Access::Read);
        assert_eq!(left, [HitReport::Upcoming(hit), HitReport::Hit(hit)]);
    }

    #[test]
    fn a_hit_is_recognised_as_of_another_page_by_its_number() {
        let hit = Hit::new(5, u64::MAX, Access::Read);
        assert!(hit.is_of(u64::MAX));
        assert!(!hit.is_of(0));
    }
}
