//! Cacheus, the version of the authors' code: SR-LRU and CR-LFU.

mod learning_rate;

use self::learning_rate::LearningRate;
use super::expert_weights::{Expert, ExpertWeights};
use crate::ghost_queues::GhostQueues;
use crate::heap::IndexedHeap;
use crate::lists::FrameLists;
use crate::policy::{Access, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::sample::FrameSampler;
use crate::spec::{MemoryUse, PolicyEntry, text_beside};

/// The stack of pages referenced again, S, and that of the others and of those demoted from S, Q.
const REUSED: usize = 0;
const QUEUE: usize = 1;

/// Marks of a resident page.
const IN_QUEUE: u8 = 1;
/// It was demoted from S to Q.
const DEMOTED: u8 = 2;
/// It was admitted to Q when the buffer was full, and has not been in the history of SR-LRU.
const NEW: u8 = 4;

/// Bits of a key of the heap that are the time; the others are the count of references.
const TIME_BITS: u32 = 40;
const MOST_REFERENCES: u64 = (1 << (64 - TIME_BITS)) - 1;

/// The order of CR-LFU: the least count first, of equals the latest reference first.
fn frequency_key(references: u64, now: u64) -> u64 {
    let time = !now & ((1 << TIME_BITS) - 1);
    references.min(MOST_REFERENCES) << TIME_BITS | time
}

fn references_of(key: u64) -> u64 {
    key >> TIME_BITS
}

/// Where the missed page will go.
#[derive(Clone, Copy)]
enum Admission {
    /// The first pages fill S up to its limit, the next ones Q.
    FillReused,
    FillQueue,
    /// It returns from a history to S, with the count of references that it had.
    Return {
        references: u64,
    },
    /// It is new in Q.
    New,
}

/// Two experts as in LeCaR, a scan-resistant LRU and an LFU that resists churn, with a learning rate
/// that adapts.
///
/// Built after the authors' code. In it a page that returns from a history has the count with which it
/// was evicted, without the reference that brings it back, and a page counts as new until it has been in
/// the history of SR-LRU, also if it was hit meanwhile. Choices made here: where their code would fail,
/// because Q is empty or all its pages are pinned, SR-LRU's victim is the oldest of S; weights have
/// double precision.
pub struct Cacheus {
    stacks: FrameLists<2>,
    marks: Vec<u8>,
    pages: Vec<Page>,
    frequency: IndexedHeap<u64>,
    /// The evicted pages of each expert, with the counts and marks that they had.
    ghosts: GhostQueues<3>,
    evicted: Vec<(u32, bool)>,
    most_ghosts: u32,
    weights: ExpertWeights,
    learning_rate: LearningRate,
    sampler: FrameSampler,
    frames: u32,
    /// The most pages of S.
    most_reused: u32,
    /// Resident pages that were demoted, and new pages in the history of SR-LRU.
    demoted: u32,
    remembered_new: u32,
    now: u64,
    admission: Admission,
}

impl RegisteredPolicy for Cacheus {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "cacheus",
        aliases: &[],
        params: &[],
        summary: "Takes the victim of a scan-resistant LRU or of an LFU that resists churn, by weights whose learning rate adapts.",
        how: text_beside!("cacheus.md"),
        when: "Use it where the workload mixes scans, churn and phases and its pattern is not known. It ignores writes, and a hit takes a time that grows with the logarithm of the number of frames.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(32).with_ghosts(26),
        source: "Rodriguez et al., FAST 2021, and the authors' code",
    };

    fn new(_config: (), frames: u32) -> Self {
        let most_ghosts = frames / 2;
        let queue = ((u64::from(frames) + 50) / 100).max(1) as u32;
        Cacheus {
            stacks: FrameLists::new(frames),
            marks: vec![0; frames as usize],
            pages: vec![0; frames as usize],
            frequency: IndexedHeap::new(frames, frames),
            ghosts: GhostQueues::new(2 * most_ghosts),
            evicted: vec![(0, false); 2 * most_ghosts as usize],
            most_ghosts,
            weights: ExpertWeights::new(),
            learning_rate: LearningRate::new(frames),
            sampler: FrameSampler::new(),
            frames,
            most_reused: frames - queue,
            demoted: 0,
            remembered_new: 0,
            now: 0,
            admission: Admission::FillReused,
        }
    }
}

impl Cacheus {
    #[inline]
    fn stack_of(&self, frame: Frame) -> usize {
        usize::from(self.marks[frame as usize] & IN_QUEUE)
    }

    #[inline]
    fn has(&self, frame: Frame, mark: u8) -> bool {
        self.marks[frame as usize] & mark != 0
    }

    /// The oldest page of S moves to Q.
    fn demote(&mut self) {
        if let Some(frame) = self.stacks.lru(REUSED) {
            self.stacks.remove(REUSED, frame);
            self.stacks.push_mru(QUEUE, frame);
            self.marks[frame as usize] |= IN_QUEUE | DEMOTED;
            self.demoted += 1;
        }
    }

    fn limit_reused(&mut self) {
        while self.stacks.len(REUSED) >= self.most_reused && self.stacks.len(REUSED) > 0 {
            self.demote();
        }
    }

    /// The ratio of two counts, the divisor at least 1, rounded, and at least 1.
    fn step(count: u32, divisor: u32) -> u32 {
        let divisor = u64::from(divisor.max(1));
        // (count / divisor + 1/2), cut to a whole number.
        ((2 * u64::from(count) + divisor) / (2 * divisor)).max(1) as u32
    }

    fn let_reused_grow(&mut self) {
        let step = Self::step(self.remembered_new, self.demoted);
        self.most_reused = self.most_reused.saturating_add(step).min(self.frames - 1);
    }

    fn let_queue_grow(&mut self) {
        let step = Self::step(self.demoted, self.remembered_new);
        let queue = self.frames - self.most_reused;
        let queue = queue.saturating_add(step).min((self.frames - 1).max(1));
        self.most_reused = self.frames - queue;
    }

    fn begin_reference(&mut self) {
        self.now += 1;
        self.learning_rate.tick(&mut self.sampler);
    }

    /// The missed page was in the history of the expert in this queue.
    fn returned(&mut self, ghost: Ghost, queue: usize) {
        let (references, new) = self.evicted[ghost as usize];
        self.ghosts.release(ghost);
        let expert = [Expert::Recency, Expert::Frequency][queue];
        if expert == Expert::Recency && new {
            self.remembered_new -= 1;
            self.let_queue_grow();
        }
        self.weights.penalise(expert, self.learning_rate.rate());
        self.admission = Admission::Return { references: u64::from(references) };
    }

    fn admission_of_new(&self) -> Admission {
        let [reused, queue] = [REUSED, QUEUE].map(|stack| self.stacks.len(stack));
        let most_queue = self.frames - self.most_reused;
        if reused < self.most_reused && queue == 0 {
            Admission::FillReused
        } else if reused + queue < self.frames && queue < most_queue {
            Admission::FillQueue
        } else {
            Admission::New
        }
    }
}

impl Policy for Cacheus {
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
        self.begin_reference();
        self.learning_rate.count_hit();
        if let Some(key) = self.frequency.key(frame) {
            let key = frequency_key(references_of(key) + 1, self.now);
            self.frequency.set(frame, key);
        }
        if self.stack_of(frame) == REUSED {
            self.stacks.move_to_mru(REUSED, frame);
            return;
        }
        if self.has(frame, DEMOTED) {
            self.let_reused_grow();
            self.demoted -= 1;
        }
        self.stacks.remove(QUEUE, frame);
        if self.stacks.len(REUSED) >= self.most_reused {
            self.demote();
        }
        self.stacks.push_mru(REUSED, frame);
        self.marks[frame as usize] &= NEW;
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, _access: Access) {
        self.begin_reference();
        let known = ghost.and_then(|ghost| Some((ghost, self.ghosts.queue_of(ghost, page)?)));
        match known {
            Some((ghost, queue)) => self.returned(ghost, queue),
            None => self.admission = self.admission_of_new(),
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.stacks.prefetch(frame);
        self.frequency.prefetch(frame);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        self.ghosts.prefetch(ghost);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let recency = self.stacks.find_from_lru(QUEUE, &may_evict);
        let recency = recency.or_else(|| self.stacks.find_from_lru(REUSED, &may_evict))?;
        let frequency = self.frequency.least_where(may_evict)?;
        Some(match incoming {
            None => self.weights.next(recency, frequency, &self.sampler),
            Some(_) => self.weights.choose(recency, frequency, &mut self.sampler),
        })
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        self.pages[frame as usize] = page;
        let (stack, references, marks) = match self.admission {
            Admission::FillReused => (REUSED, 1, 0),
            Admission::FillQueue => (QUEUE, 1, IN_QUEUE),
            Admission::Return { references } => (REUSED, references, 0),
            Admission::New => (QUEUE, 1, IN_QUEUE | NEW),
        };
        self.marks[frame as usize] = marks;
        self.stacks.push_mru(stack, frame);
        self.frequency.set(frame, frequency_key(references, self.now));
        if matches!(self.admission, Admission::Return { .. } | Admission::New) {
            self.limit_reused();
        }
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        let expert = self.weights.take_chooser(frame)?;
        let key = self.frequency.key(frame)?;
        if self.most_ghosts == 0 {
            return None;
        }
        let queue = expert as usize;
        if self.ghosts.len(queue) == self.most_ghosts {
            let oldest = self.ghosts.oldest(queue)?;
            if expert == Expert::Recency && self.evicted[oldest as usize].1 {
                self.remembered_new -= 1;
            }
            self.ghosts.forget_oldest(queue);
        }
        let new = self.has(frame, NEW);
        let ghost = self.ghosts.put(queue, self.pages[frame as usize])?;
        self.evicted[ghost as usize] = (references_of(key) as u32, new);
        if expert == Expert::Recency && new {
            self.remembered_new += 1;
        }
        Some(ghost)
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        if self.has(frame, DEMOTED) {
            self.demoted -= 1;
        }
        self.stacks.remove(self.stack_of(frame), frame);
        self.frequency.remove(frame);
        self.marks[frame as usize] = 0;
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
