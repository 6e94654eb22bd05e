//! A miniature: one policy over the sample.

use super::bills::Traffic;
use super::sampled_pages::{PageLocation, SampleNumber, SampledPages};
use crate::policy::{Access, Costs, DynPolicy, Frame};

/// A buffer of few frames under a policy, without page contents: it only counts the reads and
/// writes that it would do.
pub(super) struct Miniature {
    /// The miniature's number.
    number: usize,
    policy: Box<dyn DynPolicy + Send>,
    /// For each frame that was ever used, its page's number in the sample << 1 | dirty.
    occupants: Vec<u32>,
    frames: u32,
    free: Vec<Frame>,
    evictions: Vec<Frame>,
    together: Vec<Frame>,
}

impl Miniature {
    pub(super) fn new(number: usize, policy: Box<dyn DynPolicy + Send>, frames: u32) -> Self {
        let room = || Vec::with_capacity(frames as usize);
        Miniature {
            number,
            policy,
            occupants: Vec::with_capacity(frames as usize),
            frames,
            free: room(),
            evictions: room(),
            together: room(),
        }
    }

    pub(super) fn costs(&mut self, costs: Costs) {
        self.policy.costs(costs);
    }

    /// A page of the sample is referenced.
    #[inline]
    pub(super) fn reference(
        &mut self,
        sampled: SampleNumber,
        access: Access,
        pages: &mut SampledPages,
        traffic: &mut Traffic,
    ) {
        match pages.location(sampled, self.number) {
            PageLocation::In(frame) => {
                self.policy.hit(frame, access);
                self.occupants[frame as usize] |= u32::from(access.is_write());
            }
            PageLocation::Out(ghost) => {
                let page = pages.page(sampled);
                traffic.reads += 1;
                self.policy.miss(page, ghost, access);
                let Some(frame) = self.make_room(sampled, access, pages, traffic) else {
                    debug_assert!(false, "nothing is pinned, so there is a victim");
                    return;
                };
                self.occupants[frame as usize] = sampled << 1 | u32::from(access.is_write());
                pages.admitted(sampled, self.number, frame);
                self.policy.admit(frame, page, access);
            }
        }
    }

    /// The driver wrote the page back, which counts as a write here if the page is dirty in this
    /// miniature.
    pub(super) fn cleaned(
        &mut self,
        sampled: SampleNumber,
        pages: &SampledPages,
        traffic: &mut Traffic,
    ) {
        let PageLocation::In(frame) = pages.location(sampled, self.number) else {
            return;
        };
        if self.write_back(frame, traffic) {
            self.policy.cleaned(frame);
        }
    }

    /// Returns an empty frame, after an eviction if there is none.
    fn make_room(
        &mut self,
        sampled: SampleNumber,
        access: Access,
        pages: &mut SampledPages,
        traffic: &mut Traffic,
    ) -> Option<Frame> {
        if self.occupants.len() < self.frames as usize {
            self.occupants.push(0);
            return Some(self.occupants.len() as u32 - 1);
        }
        if let Some(frame) = self.free.pop() {
            return Some(frame);
        }
        let incoming = Some((pages.page(sampled), access));
        let victim = self.policy.victim(incoming, &|_| true)?;
        self.write_together(victim, traffic);
        let mut evictions = std::mem::take(&mut self.evictions);
        evictions.clear();
        self.policy.also_leaving(victim, &mut evictions);
        if let Some(block) = self.policy.padding(victim) {
            self.write_whole(block.get(), victim, &evictions, traffic);
        }
        self.evict(victim, pages, traffic);
        for &frame in evictions.iter().filter(|&&frame| frame != victim) {
            self.evict(frame, pages, traffic);
            self.free.push(frame);
        }
        self.evictions = evictions;
        Some(victim)
    }

    /// Writes the page in `frame` if it is dirty; true if it was.
    fn write_back(&mut self, frame: Frame, traffic: &mut Traffic) -> bool {
        let occupant = &mut self.occupants[frame as usize];
        if *occupant & 1 == 0 {
            return false;
        }
        *occupant &= !1;
        traffic.writes += 1;
        true
    }

    /// Writes the pages that the policy names to be written together with `victim`, and `victim`
    /// too.
    fn write_together(&mut self, victim: Frame, traffic: &mut Traffic) {
        let mut together = std::mem::take(&mut self.together);
        together.clear();
        self.policy
            .write_with(victim, self.frames as usize, &mut together);
        for &frame in &together {
            self.write_back(frame, traffic);
            self.policy.cleaned(frame);
        }
        self.together = together;
    }

    /// Writes the whole block if any evicted page of it is dirty, and reads its missing pages
    /// first.
    fn write_whole(
        &mut self,
        block: u64,
        victim: Frame,
        evictions: &[Frame],
        traffic: &mut Traffic,
    ) {
        let all = || evictions.iter().chain([&victim]);
        if all().any(|&frame| self.occupants[frame as usize] & 1 == 1) {
            for &frame in all() {
                self.occupants[frame as usize] &= !1;
            }
            traffic.reads += block.saturating_sub(1 + evictions.len() as u64);
            traffic.writes += block;
        }
    }

    fn evict(&mut self, frame: Frame, pages: &mut SampledPages, traffic: &mut Traffic) {
        let ghost = self.policy.remember(frame);
        self.write_back(frame, traffic);
        self.policy.evicted(frame);
        let sampled = self.occupants[frame as usize] >> 1;
        pages.evicted(sampled, self.number, ghost);
    }
}
