//! FOR, flash-based operation-aware replacement. (`for` is a word of the language.)

use std::hint::black_box;

use crate::lists::FrameLists;
use crate::policy::{Access, Capabilities, Costs, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry, text_beside};

/// Queues, in the order in which they yield the victim among equal weights: cold clean, hot clean,
/// cold dirty, hot dirty.
const QUEUES: usize = 4;

/// Weighs each page by the cost of its next read and its next write if it is evicted, over the
/// estimated distances to them; the lightest page is evicted.
///
/// A reconstruction from the abstract of FOR and of FOR+, its variant in constant time: distances
/// and recency of reads and of writes apart, weighted by their costs. How one weight follows from
/// these, and that only the ends of four queues are compared, is decided here.
pub struct OperationAware {
    queues: FrameLists<QUEUES>,
    tags: Vec<Tags>,
    operations: Vec<[Operations; 2]>,
    frames: u32,
    /// References so far; it may wrap around, since only differences are used.
    now: u32,
    /// R, the write cost in units of the read cost.
    asymmetry: f64,
}

/// The reads of a page, or its writes, since its admission.
#[derive(Clone, Copy, Default)]
struct Operations {
    /// The position of the last one; meaningless while there was none.
    last: u32,
    /// References between the last two; 0 while there were no two.
    distance: u32,
}

#[derive(Clone, Copy, Default)]
struct Tags {
    dirty: bool,
    hot: bool,
    /// Whether it was read and whether it was written since its admission.
    seen: [bool; 2],
}

impl Tags {
    #[inline]
    fn queue(self) -> usize {
        2 * usize::from(self.dirty) + usize::from(self.hot)
    }
}

const READ: usize = 0;
const WRITE: usize = 1;

impl RegisteredPolicy for OperationAware {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "for",
        aliases: &[],
        params: &[],
        summary: "Weighs how soon a page will be read and written again by the costs of that; the lightest page is evicted.",
        how: text_beside!("operation_aware.md"),
        when: "Use it where writes cost much more than reads and memory is not small; it saves more as memory grows. It loses hardly anything where a write costs as much as a read. In small memory it can cost more than lru. Source: Lv, Cui, He and Chen.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(28),
        source: "Lv, Cui, He and Chen, SIGMOD 2011; reconstructed from the abstract",
    };

    // Figures from samples have too few reads, by more than their error (docs/curves.md).
    const HAS_MINIATURE: bool = false;

    fn new(_config: (), frames: u32) -> Self {
        OperationAware {
            queues: FrameLists::new(frames),
            tags: vec![Tags::default(); frames as usize],
            operations: vec![[Operations::default(); 2]; frames as usize],
            frames,
            now: 0,
            asymmetry: Costs::default().asymmetry(),
        }
    }
}

impl OperationAware {
    /// The page was referenced, and enters the queue that it now belongs to.
    #[inline]
    fn enter(&mut self, frame: Frame, access: Access) {
        let kind = usize::from(access.is_write());
        let tags = &mut self.tags[frame as usize];
        let operations = &mut self.operations[frame as usize][kind];
        if std::mem::replace(&mut tags.seen[kind], true) {
            operations.distance = self.now.wrapping_sub(operations.last);
            tags.hot = true;
        }
        operations.last = self.now;
        tags.dirty |= access.is_write();
        self.queues.push_mru(tags.queue(), frame);
    }

    /// `cost` over the distance to the next operation of the kind.
    #[inline]
    fn worth(&self, frame: Frame, kind: usize, cost: f64) -> f64 {
        if !self.tags[frame as usize].seen[kind] {
            return 0.0;
        }
        let Operations { last, distance } = self.operations[frame as usize][kind];
        let between = match distance {
            0 => self.frames,
            distance => distance,
        };
        cost / (u64::from(between) + u64::from(self.now.wrapping_sub(last))) as f64
    }

    #[inline]
    fn weight(&self, frame: Frame) -> f64 {
        let write = if self.tags[frame as usize].dirty { 1.0 + self.asymmetry } else { 1.0 };
        self.worth(frame, READ, 1.0) + self.worth(frame, WRITE, write)
    }
}

impl Policy for OperationAware {
    const CAPABILITIES: Capabilities = Capabilities::COSTS;

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.now = self.now.wrapping_add(1);
        self.queues.remove(self.tags[frame as usize].queue(), frame);
        self.enter(frame, access);
    }

    #[inline]
    fn miss(&mut self, _page: Page, _ghost: Option<Ghost>, _access: Access) {
        self.now = self.now.wrapping_add(1);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        black_box((self.tags[frame as usize], self.operations[frame as usize]));
        self.queues.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let mut lightest: Option<(f64, Frame)> = None;
        for queue in 0..QUEUES {
            if let Some(frame) = self.queues.find_from_lru(queue, &may_evict) {
                let weight = self.weight(frame);
                if lightest.is_none_or(|(least, _)| weight < least) {
                    lightest = Some((weight, frame));
                }
            }
        }
        lightest.map(|(_, frame)| frame)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.tags[frame as usize] = Tags::default();
        self.operations[frame as usize] = Default::default();
        self.enter(frame, access);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.queues.remove(self.tags[frame as usize].queue(), frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        let tags = &mut self.tags[frame as usize];
        self.queues.remove(tags.queue(), frame);
        tags.dirty = false;
        self.queues.push_mru(tags.queue(), frame);
    }

    fn costs(&mut self, costs: Costs) {
        self.asymmetry = costs.asymmetry();
    }
}
