//! LRU-C.

use crate::lists::FrameLists;
use crate::parameters::{parameters, whole};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MAX_PAGES, MemoryUse, PolicyEntry};

const LIST: usize = 0;

/// LRU that evicts the clean page nearest the LRU end, with a cleaner that writes the dirty pages
/// passed over, a batch at a time.
///
/// A reconstruction from the paper's abstract, which leaves open when the cleaner writes, and how
/// much: here, as soon as the pointer has passed a batch of dirty pages, one batch per miss.
pub struct LruC {
    lists: FrameLists<1>,
    tags: Vec<Tags>,
    /// The LRU-C pointer: all pages on its LRU side are dirty and tagged as passed.
    pointer: Option<Frame>,
    /// Pages that are tagged as passed.
    passed: u64,
    batch: u64,
    /// The pages to write with the latest victim.
    written: Vec<Frame>,
}

#[derive(Clone, Copy, Default)]
struct Tags {
    dirty: bool,
    passed: bool,
}

parameters! {
    /// The parameters of [`LruC`].
    pub struct LruCConfig {
        batch: u64 = {
            kind: whole(0, MAX_PAGES),
            default: "64",
            about: "dirty pages that the cleaner writes at a time; 0 is no cleaner",
        },
    }
}

impl RegisteredPolicy for LruC {
    type Config = LruCConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "lru-c",
        aliases: &[],
        params: LruCConfig::PARAMS,
        summary: "LRU that evicts the clean page nearest the LRU end, while a cleaner writes the dirty ones passed over in batches.",
        how: "One LRU list and a pointer to its least recently used clean page, which is evicted in place of a dirty page at the end; without clean pages the page at the end is evicted. A dirty page counts as passed from when the pointer moves past it until it is referenced again or written. When a victim is chosen and at least a batch of pages has been passed, the batch nearest the LRU end is written; the pages stay, clean, and a dirty victim is one of them. batch=0 is cflru:window=1. A reconstruction: the paper's abstract does not specify when its cleaner writes, and here it follows the references.",
        when: "Use it where a reader must never wait for a write, which the bill does not show: the cleaner writes the pages that lru would have written, only earlier, so that the bill is close to that of lru. Without the cleaner it saves writes at a large R and is much dearer than lru at a small one. The paper reports three times the throughput of MySQL on flash.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(10),
        source: "Lee, An and Lee, PVLDB 2023; reconstructed from the abstract",
    };

    fn new(config: LruCConfig, frames: u32) -> Self {
        let batch = config.batch;
        LruC {
            lists: FrameLists::new(frames),
            tags: vec![Tags::default(); frames as usize],
            pointer: None,
            passed: 0,
            batch,
            written: Vec::with_capacity(batch.min(u64::from(frames)) as usize),
        }
    }
}

impl LruC {
    /// Moves the pointer on to the next clean page.
    #[inline]
    fn advance(&mut self) {
        while let Some(frame) = self.pointer
            && self.tags[frame as usize].dirty
        {
            let passed = &mut self.tags[frame as usize].passed;
            self.passed += u64::from(!std::mem::replace(passed, true));
            self.pointer = self.lists.mruward(frame);
        }
    }

    #[inline]
    fn enter(&mut self, frame: Frame, dirty: bool) {
        self.lists.push_mru(LIST, frame);
        self.tags[frame as usize] = Tags { dirty, passed: false };
        if self.pointer.is_none() {
            self.pointer = Some(frame);
        }
    }

    #[inline]
    fn leave(&mut self, frame: Frame) {
        if self.pointer == Some(frame) {
            self.pointer = self.lists.mruward(frame);
        }
        self.lists.remove(LIST, frame);
        self.passed -= u64::from(self.tags[frame as usize].passed);
    }

    /// Collects the batch of passed pages nearest the LRU end.
    #[cold]
    fn fill_batch(&mut self, victim: Frame, may_evict: impl Fn(Frame) -> bool) {
        let victim_is_one = self.tags[victim as usize].dirty;
        let others = (self.batch - u64::from(victim_is_one)).min(self.passed) as usize;
        let mut at = self.lists.lru(LIST);
        while let Some(frame) = at
            && self.written.len() < others
        {
            if self.tags[frame as usize].passed && frame != victim && may_evict(frame) {
                self.written.push(frame);
            }
            at = self.lists.mruward(frame);
        }
    }
}

impl Policy for LruC {
    const CAPABILITIES: Capabilities = Capabilities::LEAVES_HITS_OUT.union(Capabilities::WRITES_TOGETHER);

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        let dirty = self.tags[frame as usize].dirty | access.is_write();
        self.leave(frame);
        self.enter(frame, dirty);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        std::hint::black_box(self.tags[frame as usize]);
        self.lists.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let oldest = self.lists.find_from_lru(LIST, &may_evict)?;
        self.advance();
        let mut at = self.pointer;
        while let Some(frame) = at
            && (self.tags[frame as usize].dirty || !may_evict(frame))
        {
            at = self.lists.mruward(frame);
        }
        let victim = at.unwrap_or(oldest);
        self.written.clear();
        if self.batch > 0 && self.passed >= self.batch {
            self.fill_batch(victim, may_evict);
        }
        Some(victim)
    }

    fn cleaned_with(&self, _victim: Frame, max: usize, together: &mut Vec<Frame>) {
        together.extend(self.written.iter().take(max));
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.enter(frame, access.is_write());
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.leave(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        let tags = &mut self.tags[frame as usize];
        let passed = std::mem::take(&mut tags.passed);
        tags.dirty = false;
        self.passed -= u64::from(passed);
        if passed || self.pointer.is_none() {
            self.pointer = self.lists.lru(LIST);
        }
    }
}
