//! Learning cache replacement.

use super::expert_weights::{Expert, ExpertWeights};
use crate::ghost_queues::GhostQueues;
use crate::heap::IndexedHeap;
use crate::lists::FrameLists;
use crate::policy::{Access, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::sample::FrameSampler;
use crate::spec::{MemoryUse, PolicyEntry, text_beside};

/// How fast the weights of the experts change.
const LEARNING_RATE: f64 = 0.45;
/// A page missed as many references after its eviction as there are frames counts this much.
const DISCOUNT_AFTER_A_TURN: f64 = 0.005;

/// What is remembered of an evicted page.
#[derive(Clone, Copy, Default)]
struct EvictedPage {
    references: u32,
    at: u64,
}

/// LRU and LFU, chosen at random by weights that a miss of a page which one of them evicted changes.
///
/// Built after the authors' code, which says more than the paper: a page that returns has its old count
/// and one more, pages of the same count are ordered by their number, and a victim of both is not
/// remembered. Choices made here: pinned pages are skipped by both, and weights have double precision.
pub struct Lecar {
    recency: FrameLists<1>,
    /// (references, page) of each resident page.
    frequency: IndexedHeap<(u32, Page)>,
    /// The evicted pages of each expert, and what is remembered of them.
    ghosts: GhostQueues<3>,
    evicted: Vec<EvictedPage>,
    most_ghosts: u32,
    weights: ExpertWeights,
    sampler: FrameSampler,
    /// log of the discount of one reference.
    discount: f64,
    now: u64,
    /// References of the page missed last, this one included.
    incoming: u32,
}

impl RegisteredPolicy for Lecar {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "lecar",
        aliases: &[],
        params: &[],
        summary: "Takes the victim of LRU or of LFU by chance; the one whose victims are missed loses weight.",
        how: text_beside!("lecar.md"),
        when: "Use it where phases that suit lru and phases that suit lfu alternate, with a buffer much smaller than the pages in use; the paper measures it against arc there. It ignores writes, and a hit takes a time that grows with the logarithm of the number of frames.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(32).with_ghosts(33),
        source: "Vietri et al., HotStorage 2018, and the authors' code",
    };

    fn new(_config: (), frames: u32) -> Self {
        let most_ghosts = frames / 2;
        Lecar {
            recency: FrameLists::new(frames),
            frequency: IndexedHeap::new(frames, frames),
            ghosts: GhostQueues::new(2 * most_ghosts),
            evicted: vec![EvictedPage::default(); 2 * most_ghosts as usize],
            most_ghosts,
            weights: ExpertWeights::new(),
            sampler: FrameSampler::new(),
            discount: libm::log(DISCOUNT_AFTER_A_TURN) / f64::from(frames),
            now: 0,
            incoming: 1,
        }
    }
}

impl Policy for Lecar {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    fn most_ghosts(&self) -> u32 {
        self.ghosts.capacity()
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.now += 1;
        self.recency.move_to_mru(0, frame);
        if let Some((references, page)) = self.frequency.key(frame) {
            let references = references.saturating_add(1);
            self.frequency.set(frame, (references, page));
        }
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, _access: Access) {
        self.now += 1;
        self.incoming = 1;
        let Some(ghost) = ghost else { return };
        let Some(queue) = self.ghosts.queue_of(ghost, page) else {
            return;
        };
        let evicted = self.evicted[ghost as usize];
        self.ghosts.release(ghost);
        self.incoming = evicted.references.saturating_add(1);
        let age = (self.now - evicted.at) as f64;
        let penalty = LEARNING_RATE * libm::exp(self.discount * age);
        let expert = [Expert::Recency, Expert::Frequency][queue];
        self.weights.penalise(expert, penalty);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.recency.prefetch(frame);
        self.frequency.prefetch(frame);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.ghosts.prefetch(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let recency = self.recency.find_from_lru(0, &may_evict)?;
        let frequency = self.frequency.least_where(may_evict)?;
        Some(match incoming {
            None => self.weights.next(recency, frequency, &self.sampler),
            Some(_) => self.weights.choose(recency, frequency, &mut self.sampler),
        })
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        self.recency.push_mru(0, frame);
        self.frequency.set(frame, (self.incoming, page));
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        let expert = self.weights.take_chooser(frame)?;
        let (references, page) = self.frequency.key(frame)?;
        if self.most_ghosts == 0 {
            return None;
        }
        let queue = expert as usize;
        if self.ghosts.len(queue) == self.most_ghosts {
            self.ghosts.forget_oldest(queue);
        }
        let ghost = self.ghosts.put(queue, page)?;
        let at = self.now;
        self.evicted[ghost as usize] = EvictedPage { references, at };
        Some(ghost)
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.recency.remove(0, frame);
        self.frequency.remove(frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
