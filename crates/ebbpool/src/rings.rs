//! Hits on their way to the policy.
//!
//! Each thread notes its hits in a ring of its own and hands them over in batches, so that a hit
//! takes no lock and shares no line of the processor's cache but the frame's (BP-Wrapper: Ding et
//! al. 2009).

use std::cell::RefCell;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use ebbpool_policy::Access;

use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};

/// Hits that a ring has room for.
const CAPACITY: usize = 128;

/// With so many a thread hands them over if it need not wait for that.
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
        Hit {
            frame,
            page: lower_bits(page),
            access,
        }
    }

    /// True if this is the page that was hit, or has its lower bits, which does little harm.
    pub(crate) fn is_of(&self, page: u64) -> bool {
        self.page == lower_bits(page)
    }

    fn pack(self) -> u64 {
        let write = u64::from(self.access.is_write());
        u64::from(self.frame) << 32 | u64::from(self.page) << 1 | write
    }

    fn unpack(packed: u64) -> Self {
        Hit {
            frame: (packed >> 32) as u32,
            page: packed as u32 >> 1,
            access: Access::from_write(packed & 1 == 1),
        }
    }
}

/// As many as fit beside the frame and the access.
fn lower_bits(page: u64) -> u32 {
    page as u32 & (u32::MAX >> 1)
}

/// The hits of one thread.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: [AtomicU64; CAPACITY],
    /// Hits noted so far, by the thread alone.
    noted: CachePadded<AtomicUsize>,
    /// Hits handed over so far, under the policy's lock.
    taken: CachePadded<AtomicUsize>,
}

/// What is to be done with a hit that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Fetch what the policy will look at.
    Fetch,
    /// Tell the policy.
    Tell,
}

/// What to do after a hit was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    /// Hand the hits over if the policy's lock is free.
    HandOverIfFree,
    /// Hand them over.
    HandOver,
}

impl Ring {
    fn new() -> Self {
        Ring {
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
            noted: CachePadded::default(),
            taken: CachePadded::default(),
        }
    }

    #[inline]
    fn note(&self, hit: Hit) -> Next {
        let noted = self.noted.load(Ordering::Relaxed);
        self.slots[noted % CAPACITY].store(hit.pack(), Ordering::Relaxed);
        self.noted.store(noted + 1, Ordering::Release);
        // `taken` is another thread's only in rare cases, so this line is near.
        match noted + 1 - self.taken.load(Ordering::Acquire) {
            CAPACITY => Next::HandOver,
            many if many >= WORTH_HANDING_OVER && many % 8 == 0 => Next::HandOverIfFree,
            _ => Next::Nothing,
        }
    }

    /// What was noted, oldest first, twice: once to fetch what the policy will look at, so that it is
    /// in the processor's cache by the time it does. Under the policy's lock.
    fn take(&self, each: &mut impl FnMut(Turn, Hit)) {
        let noted = self.noted.load(Ordering::Acquire);
        for turn in [Turn::Fetch, Turn::Tell] {
            for at in self.taken.load(Ordering::Relaxed)..noted {
                let packed = self.slots[at % CAPACITY].load(Ordering::Relaxed);
                each(turn, Hit::unpack(packed));
            }
        }
        self.taken.store(noted, Ordering::Release);
    }

    fn hits(&self) -> usize {
        self.noted.load(Ordering::Relaxed)
    }
}

/// The rings of a pool's threads.
pub(crate) struct Rings {
    /// Tells this pool from others.
    pool: u64,
    rings: Mutex<Vec<Arc<Ring>>>,
    /// Hits in rings of threads that have ended.
    hits_of_the_gone: AtomicUsize,
}

thread_local! {
    /// This thread's ring in each pool that it uses.
    static OWN: RefCell<Vec<(u64, Arc<Ring>)>> = const { RefCell::new(Vec::new()) };
}

impl Rings {
    pub(crate) fn new() -> Self {
        static POOLS: AtomicU64 = AtomicU64::new(0);
        Rings {
            pool: POOLS.fetch_add(1, Ordering::Relaxed),
            rings: Mutex::new(Vec::new()),
            hits_of_the_gone: AtomicUsize::new(0),
        }
    }

    /// The number of the pool, which no other one of the process has.
    pub(crate) fn pool(&self) -> u64 {
        self.pool
    }

    /// Notes a hit of the calling thread.
    #[inline]
    pub(crate) fn note(&self, hit: Hit) -> Next {
        OWN.with_borrow_mut(|own| match own.first() {
            Some((pool, ring)) if *pool == self.pool => ring.note(hit),
            _ => self.bring_to_front(own).note(hit),
        })
    }

    /// What the calling thread has noted, oldest first. Under the policy's lock.
    pub(crate) fn take_own(&self, mut each: impl FnMut(Turn, Hit)) {
        OWN.with_borrow(|own| {
            if let Some((_, ring)) = own.iter().find(|(pool, _)| *pool == self.pool) {
                ring.take(&mut each);
            }
        });
    }

    /// What all threads have noted. Under the policy's lock.
    pub(crate) fn take_all(&self, mut each: impl FnMut(Turn, Hit)) {
        for ring in self.rings.lock().iter() {
            ring.take(&mut each);
        }
    }

    #[cold]
    fn bring_to_front<'a>(&self, own: &'a mut Vec<(u64, Arc<Ring>)>) -> &'a Ring {
        // Rings that nobody else knows are of pools that are gone.
        own.retain(|(_, ring)| Arc::strong_count(ring) > 1);
        match own.iter().position(|(pool, _)| *pool == self.pool) {
            Some(at) => own.swap(0, at),
            None => own.insert(0, (self.pool, self.add())),
        }
        &own[0].1
    }

    fn add(&self) -> Arc<Ring> {
        let mut rings = self.rings.lock();
        rings.retain(|ring| {
            let alive = Arc::strong_count(ring) > 1;
            if !alive {
                self.hits_of_the_gone
                    .fetch_add(ring.hits(), Ordering::Relaxed);
            }
            alive
        });
        let ring = Arc::new(Ring::new());
        rings.push(Arc::clone(&ring));
        ring
    }

    /// Hits of all threads so far.
    pub(crate) fn hits(&self) -> u64 {
        let rings = self.rings.lock();
        let hits: usize = rings.iter().map(|ring| ring.hits()).sum();
        (hits + self.hits_of_the_gone.load(Ordering::Relaxed)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(rings: &Rings) -> Vec<u32> {
        let mut frames = Vec::new();
        rings.take_own(|turn, hit| {
            if turn == Turn::Tell {
                frames.push(hit.frame);
            }
        });
        frames
    }

    #[test]
    fn hits_come_out_in_the_order_in_which_they_were_noted() {
        let rings = Rings::new();
        for frame in 0..200 {
            let hit = Hit::new(frame, 7, Access::from_write(frame % 3 == 0));
            assert_eq!(Hit::unpack(hit.pack()), hit);
            if rings.note(hit) == Next::HandOver {
                let from = frame + 1 - CAPACITY as u32;
                assert_eq!(taken(&rings), (from..=frame).collect::<Vec<_>>());
            }
        }
        assert_eq!(taken(&rings), (128..200).collect::<Vec<_>>());
        assert_eq!(rings.hits(), 200);
    }

    #[test]
    fn pools_and_threads_have_rings_of_their_own() {
        let (one, other) = (Rings::new(), Rings::new());
        one.note(Hit::new(1, 0, Access::Read));
        other.note(Hit::new(2, 0, Access::Read));
        one.note(Hit::new(3, 0, Access::Read));
        std::thread::scope(|scope| {
            scope.spawn(|| one.note(Hit::new(9, 0, Access::Write)));
        });
        assert_eq!(taken(&one), [1, 3]);
        assert_eq!(taken(&other), [2]);
        let mut rest = Vec::new();
        one.take_all(|turn, hit| {
            if turn == Turn::Tell {
                rest.push(hit.frame);
            }
        });
        assert_eq!(rest, [9]);
        assert_eq!(one.hits(), 3);
        let another = Rings::new();
        drop(other);
        another.note(Hit::new(4, 0, Access::Read));
        OWN.with_borrow(|own| assert_eq!(own.len(), 2));
    }

    #[test]
    fn late_news_is_known_for_such() {
        let hit = Hit::new(5, u64::MAX, Access::Read);
        assert!(hit.is_of(u64::MAX));
        assert!(!hit.is_of(0));
    }
}
