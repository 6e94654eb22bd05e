//! A policy that notes which methods its driver calls, for the tests of the pool and of the simulator.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use ebbpool_policy::{Access, BackgroundWrite, Capabilities, Costs, Frame, NextUse, Page, PageClass, Policy, RecordedRequest};

/// First in, first out. It implements every method of a capability, whether it declares that or not, and notes those that
/// are called.
pub struct Noting {
    pub declares: Capabilities,
    pub called: Arc<Mutex<Capabilities>>,
    pub queue: VecDeque<Frame>,
}

impl Noting {
    fn note(&self, capability: Capabilities) {
        *self.called.lock().unwrap() |= capability;
    }

    /// The frames that are evicted soon after the first one.
    fn next(&self) -> impl Iterator<Item = Frame> + '_ {
        self.queue.iter().copied().skip(1).take(2)
    }
}

impl Policy for Noting {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn capabilities(&self) -> Capabilities {
        self.declares
    }
    fn hit(&mut self, _: Frame, _: Access) {}
    fn omitted_hits(&mut self, _: u64) {
        self.note(Capabilities::LEAVES_HITS_OUT);
    }
    fn evicts_early(&mut self) -> bool {
        self.note(Capabilities::EVICTS_EARLY);
        false
    }
    fn victim<F: Fn(Frame) -> bool>(&mut self, _: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.queue.iter().copied().find(|&frame| may_evict(frame))
    }
    fn evicted_with(&self, _: Frame, leaving: &mut Vec<Frame>) {
        self.note(Capabilities::EVICTS_MORE);
        leaving.extend(self.next());
    }
    fn padded_block(&self, _: Frame) -> Option<NonZeroU64> {
        self.note(Capabilities::PADDING);
        NonZeroU64::new(4)
    }
    fn cleaned_with(&self, _: Frame, _: usize, together: &mut Vec<Frame>) {
        self.note(Capabilities::WRITES_TOGETHER);
        together.extend(self.next());
    }
    fn admit(&mut self, frame: Frame, _: Page, _: Access) {
        self.queue.push_back(frame);
    }
    fn evicted(&mut self, frame: Frame) {
        self.queue.retain(|&other| other != frame);
    }
    fn cleaned(&mut self, _: Frame) {}
    fn costs(&mut self, _: Costs) {
        self.note(Capabilities::COSTS);
    }
    fn erase_count(&mut self, _: Frame, _: u32) {
        self.note(Capabilities::ERASE_COUNTS);
    }
    fn class(&mut self, _: PageClass) {
        self.note(Capabilities::CLASSES);
    }
    fn request(&mut self, _: RecordedRequest) {
        self.note(Capabilities::REQUESTS);
    }
    fn background_writes(&mut self, _: &mut Vec<BackgroundWrite>) {
        self.note(Capabilities::BACKGROUND_WRITES);
    }
    fn next_use(&mut self, _: NextUse) {
        self.note(Capabilities::NEXT_USES);
    }
    fn moved(&mut self, _: Frame, _: Frame) {
        self.note(Capabilities::RESIZES);
    }
    fn resize(&mut self, _: u32) {
        self.note(Capabilities::RESIZES);
    }
}
