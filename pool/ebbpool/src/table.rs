//! The page table: threads read it without a lock, and one thread at a time changes it.
//!
//! Pages below `dense` have an entry each, found by their number. The others are hashed to a bucket of one cache line,
//! their home. A bucket has slots for [`SLOTS`] pages: for each the frame, and a tag of 8 bits of the hash. A page whose
//! home is full goes to the first bucket after it that has a vacant slot. Each bucket that the page passes counts it, so
//! that a search knows where it may stop.
//!
//! The invariants, as the thread that has the lock sees them:
//!
//! 1. A slot whose tag is not 0 has a page, which is in the slot's frame. A slot whose tag is 0 is vacant.
//! 2. A page has at most one slot, and stays in it until it is removed.
//! 3. A bucket's count is the number of the pages that have passed it and are in the table. So no bucket from a page's
//!    home up to the bucket before its own has a count of 0.
//! 4. There are more slots than frames, so one is always vacant.
//! 5. Only that thread stores to the table. It sets the page number of a frame before it stores the frame, and the frame
//!    before the tag.
//!
//! Each store releases and each load of a search acquires. So a search that sees a tag sees the frame that was stored
//! with it or a later one, and a search that sees a frame sees the page number that was set before or a later one (5).
//!
//! A search without the lock ([`PageTable::find`]) compares the page number of the frame, so it does not matter that it
//! may see tags, counts and frames of different moments. It finds a page that was inserted before the search began (in
//! the sense that the insertion happened before it) and that stays until it has ended: each value of the words that the
//! search may load from then on has the page's tag and frame (2) and, in the buckets before, a count above 0 (3). There is
//! one exception: it gives up after [`LONGEST_SEARCH`] buckets. It may overlook a page that is inserted or removed
//! meanwhile.
//!
//! With a random key the pages are spread as by a random function, whatever their numbers, as far as `table_tests.rs`
//! measures it. A search for a resident page visits 1.02 buckets in the mean when a full table has just been filled, and
//! 1.09 after many replacements, as pages do not move back to their homes. Then about one page in 300,000 is so far from
//! its home that a search without the lock gives up. A caller that knows the key can choose pages with the same home.
//! Then searches without the lock give up, and those under the lock visit one bucket for each [`SLOTS`] pages, and at
//! most each bucket once.

use crate::boxed::boxed;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No frame.
const NONE: u32 = u32::MAX;

/// The number of buckets that a search without the lock visits before it gives up.
pub(crate) const LONGEST_SEARCH: usize = 8;

/// The number of pages in a bucket.
pub(crate) const SLOTS: usize = 12;

/// The number of pages for each bucket when every frame holds one, at most.
const FULL_LOAD: u32 = 8;

/// What the table needs of each frame.
pub(crate) trait Entries {
    /// The page in a frame.
    fn page(&self, frame: u32) -> &AtomicU64;
}

/// Maps page numbers to frames.
#[derive(Debug)]
pub(crate) struct PageTable {
    dense: Box<[AtomicU32]>,
    buckets: Box<[Bucket]>,
    /// 64 minus the bits of a bucket's number.
    shift: u32,
    /// What is added to a number, and what the sum is multiplied with.
    key: [u64; 2],
}

/// Tags, count and frames of some pages.
#[derive(Debug)]
#[repr(align(64))]
struct Bucket {
    /// The tags of the first eight slots.
    tags: AtomicU64,
    /// The tags of the last four slots, and above them the number of pages that have passed this bucket.
    tags_and_passed: AtomicU64,
    frames: [AtomicU32; SLOTS],
}

/// The number of tags in the first word of a bucket.
const IN_FIRST_WORD: usize = 8;

/// One page that has passed a bucket, in the word that counts them.
const PASSED: u64 = 1 << 32;

/// The lowest bit of each tag in a word.
const LOWEST: u64 = 0x0101_0101_0101_0101;

/// The highest bit of each tag in a word.
const HIGHEST: u64 = LOWEST << 7;

/// Those slots with a tag whose tags are in the same word, by the highest bit of each tag.
struct SlotsOfWord {
    found: u64,
    /// The first slot of the word.
    from: usize,
}

impl SlotsOfWord {
    #[inline]
    fn tagged(word: u64, tag: u8, from: usize) -> Self {
        let word = word ^ (LOWEST * u64::from(tag));
        // The highest bit of each byte that is zero. No byte carries into the next one.
        let zeros = !(((word & !HIGHEST) + !HIGHEST) | word) & HIGHEST;
        SlotsOfWord { found: zeros, from }
    }
}

impl Iterator for SlotsOfWord {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let slot = self.found.trailing_zeros() as usize / 8;
        let remains = self.found != 0;
        self.found &= self.found.wrapping_sub(1);
        remains.then_some(self.from + slot)
    }
}

impl Bucket {
    fn new() -> Self {
        Bucket {
            tags: AtomicU64::new(0),
            tags_and_passed: AtomicU64::new(0),
            frames: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// The first result of `accept` for the slots that have this tag, and the number of pages that have passed this
    /// bucket.
    #[inline]
    fn search<T>(&self, tag: u8, mut accept: impl FnMut(usize) -> Option<T>) -> (Option<T>, u64) {
        let tags = self.tags.load(Ordering::Acquire);
        let tags_and_passed = self.tags_and_passed.load(Ordering::Acquire);
        let mut first = SlotsOfWord::tagged(tags, tag, 0);
        let mut last = SlotsOfWord::tagged(tags_and_passed, tag, IN_FIRST_WORD);
        last.found &= PASSED - 1;
        // Not one iterator over both words, since the frame of a slot of the first one need not wait for the second.
        let found = first.find_map(&mut accept);
        let found = found.or_else(|| last.find_map(accept));
        (found, tags_and_passed / PASSED)
    }

    /// The frame in a slot, if it holds the page.
    #[inline]
    fn frame_of(&self, slot: usize, page: u64, entries: &impl Entries) -> Option<u32> {
        let frame = self.frames.get(slot)?.load(Ordering::Acquire);
        (entries.page(frame).load(Ordering::Relaxed) == page).then_some(frame)
    }

    fn put(&self, slot: usize, frame: u32, tag: u8) {
        self.frames[slot].store(frame, Ordering::Release);
        self.set_tag(slot, tag);
    }

    /// Sets the tag of a slot. Only the thread that has the lock changes the word.
    fn set_tag(&self, slot: usize, tag: u8) {
        let (word, at) = match slot.checked_sub(IN_FIRST_WORD) {
            None => (&self.tags, slot * 8),
            Some(slot) => (&self.tags_and_passed, slot * 8),
        };
        let others = word.load(Ordering::Relaxed) & !(0xff << at);
        word.store(others | u64::from(tag) << at, Ordering::Release);
    }

    fn count_in(&self) {
        let before = self.tags_and_passed.load(Ordering::Relaxed);
        self.tags_and_passed.store(before + PASSED, Ordering::Release);
    }

    fn count_out(&self) {
        let before = self.tags_and_passed.load(Ordering::Relaxed);
        self.tags_and_passed.store(before - PASSED, Ordering::Release);
    }
}

/// The hash of a page number: its upper bits say which bucket is the home.
#[derive(Clone, Copy)]
struct PageHash(u64);

impl PageHash {
    /// The tag, which is not 0.
    #[inline]
    fn tag(self) -> u8 {
        (self.0 as u8).max(1)
    }
}

/// Both halves of a product.
#[inline]
fn folded_product(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product >> 64) as u64 ^ product as u64
}

impl PageTable {
    /// A table for this number of frames; `None` if there is no memory for it. Pages below `dense` are not hashed; for
    /// the others `key` should be random.
    pub(crate) fn new(frames: u32, dense: usize, key: [u64; 2]) -> Option<Self> {
        // More slots than frames, since a bucket has more slots than pages (4).
        let buckets = frames.div_ceil(FULL_LOAD).next_power_of_two().max(2) as usize;
        Some(PageTable {
            dense: boxed(dense, || AtomicU32::new(NONE))?,
            buckets: boxed(buckets, Bucket::new)?,
            shift: 64 - buckets.trailing_zeros(),
            // An even factor would lose the upper bits of numbers.
            key: [key[0], key[1] | 1],
        })
    }

    #[inline]
    fn hash(&self, page: u64) -> PageHash {
        // After one multiplication numbers at equal distances are at equal distances, and with some factors in few
        // buckets. The second one, by a factor without a pattern, spreads what the folded product leaves.
        let once = folded_product(page.wrapping_add(self.key[0]), self.key[1]);
        PageHash(folded_product(once, 0x9e37_79b9_7f4a_7c15))
    }

    /// The bucket where a search begins.
    #[inline]
    fn home(&self, hash: PageHash) -> usize {
        (hash.0 >> self.shift) as usize
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    #[inline]
    fn dense(&self, page: u64) -> Option<&AtomicU32> {
        self.dense.get(usize::try_from(page).unwrap_or(usize::MAX))
    }

    /// The frame that holds the page, as far as a search without a lock finds it. The page may be about to be evicted:
    /// the thread that latches the frame compares the number again. A thread that needs a certain answer searches again
    /// under the lock ([`find_locked`](Self::find_locked)).
    #[inline]
    pub(crate) fn find(&self, page: u64, entries: &impl Entries) -> Option<u32> {
        if let Some(frame) = self.dense(page) {
            let frame = frame.load(Ordering::Acquire);
            return (frame != NONE).then_some(frame);
        }
        self.search(page, entries, LONGEST_SEARCH)
    }

    /// The frame that holds the page. Under the lock.
    pub(crate) fn find_locked(&self, page: u64, entries: &impl Entries) -> Option<u32> {
        if let Some(frame) = self.dense(page) {
            let frame = frame.load(Ordering::Relaxed);
            return (frame != NONE).then_some(frame);
        }
        self.search(page, entries, self.buckets.len())
    }

    /// The frame that probably holds the page, for a caller that only fetches memory into the processor's cache: this
    /// search does not wait for the header of the frame. Of pages that are missing, it takes a few for resident ones.
    #[inline]
    pub(crate) fn find_probable(&self, page: u64) -> Option<u32> {
        if let Some(frame) = self.dense(page) {
            let frame = frame.load(Ordering::Acquire);
            return (frame != NONE).then_some(frame);
        }
        let hash = self.hash(page);
        let bucket = &self.buckets[self.home(hash)];
        let frame = |slot: usize| Some(bucket.frames.get(slot)?.load(Ordering::Acquire));
        bucket.search(hash.tag(), frame).0
    }

    /// Searches this number of buckets for a page that is hashed.
    #[inline]
    fn search(&self, page: u64, entries: &impl Entries, most: usize) -> Option<u32> {
        let hash = self.hash(page);
        let mut at = self.home(hash);
        for _ in 0..most {
            let bucket = &self.buckets[at];
            let accept = |slot| bucket.frame_of(slot, page, entries);
            let (found, passed) = bucket.search(hash.tag(), accept);
            if found.is_some() {
                return found;
            }
            // A page that is in a later bucket has passed this one (3).
            if passed == 0 {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    /// Adds a page, which is in `frame` from now on. The caller has set the frame's page number before (5). Under the
    /// lock.
    pub(crate) fn insert(&self, page: u64, frame: u32) {
        if let Some(entry) = self.dense(page) {
            entry.store(frame, Ordering::Release);
            return;
        }
        let hash = self.hash(page);
        let mut at = self.home(hash);
        loop {
            let bucket = &self.buckets[at];
            if let (Some(slot), _) = bucket.search(0, Some) {
                return bucket.put(slot, frame, hash.tag());
            }
            bucket.count_in();
            // It ends at a vacant slot (4).
            at = self.after(at);
        }
    }

    /// Removes a page, which was in `frame`. Under the lock.
    pub(crate) fn remove(&self, page: u64, frame: u32) {
        if let Some(entry) = self.dense(page) {
            entry.store(NONE, Ordering::Release);
            return;
        }
        let hash = self.hash(page);
        let home = self.home(hash);
        let Some((bucket, slot)) = self.slot_of(hash, frame) else {
            return debug_assert!(false, "page {page} is in the table");
        };
        self.buckets[bucket].set_tag(slot, 0);
        let mut passed = home;
        while passed != bucket {
            self.buckets[passed].count_out();
            passed = self.after(passed);
        }
    }

    /// The bucket and the slot of a page that is in this frame.
    fn slot_of(&self, hash: PageHash, frame: u32) -> Option<(usize, usize)> {
        let mut at = self.home(hash);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let held = |slot: usize| bucket.frames[slot].load(Ordering::Relaxed) == frame;
            let (found, passed) = bucket.search(hash.tag(), |slot| held(slot).then_some(slot));
            if let Some(slot) = found {
                return Some((at, slot));
            }
            if passed == 0 {
                return None;
            }
            at = self.after(at);
        }
        None
    }
}

#[cfg(test)]
impl PageTable {
    /// Replaces the key of an empty table.
    pub(crate) fn set_key(&mut self, key: [u64; 2]) {
        self.key = [key[0], key[1] | 1];
    }

    /// The bytes of all buckets.
    pub(crate) fn bucket_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    pub(crate) fn is_dense(&self, page: u64) -> bool {
        self.dense(page).is_some()
    }

    /// The bucket where the search for a page begins.
    pub(crate) fn home_of(&self, page: u64) -> usize {
        self.home(self.hash(page))
    }

    /// The number of buckets that a search for a page visits: one that is in this frame, or one that is missing.
    pub(crate) fn visits(&self, page: u64, frame: Option<u32>) -> usize {
        let home = self.home_of(page);
        let found = frame.and_then(|frame| self.slot_of(self.hash(page), frame));
        let buckets = (0..self.buckets.len()).map(|step| (home + step) % self.buckets.len());
        let goes_on = |&at: &usize| match found {
            Some((bucket, _)) => at != bucket,
            None => self.buckets[at].search(0, Some).1 > 0,
        };
        buckets.take_while(goes_on).count() + 1
    }
}
