//! A miniature: one policy over the sample.

use super::bills::Traffic;
use super::sampled_pages::{PageLocation, SampleNumber, SampledPages};
use crate::driver::{Driver, MissScratch, miss};
use crate::policy::{Access, Costs, DynPolicy, Frame, Ghost, Page};

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
    companions: MissScratch,
}

impl Miniature {
    pub(super) fn new(number: usize, policy: Box<dyn DynPolicy + Send>, frames: u32) -> Self {
        Miniature {
            number,
            policy,
            occupants: Vec::with_capacity(frames as usize),
            frames,
            free: Vec::with_capacity(frames as usize),
            companions: MissScratch::with_capacity(frames as usize),
        }
    }

    pub(super) fn reserve(&mut self) -> bool {
        self.policy.reserve()
    }

    pub(super) fn costs(&mut self, costs: Costs) {
        self.policy.costs(costs);
    }

    /// A page of the sample is referenced.
    #[inline]
    pub(super) fn reference(&mut self, sampled: SampleNumber, access: Access, pages: &mut SampledPages, traffic: &mut Traffic) {
        match pages.location(sampled, self.number) {
            PageLocation::In(frame) => {
                self.policy.hit(frame, access);
                self.occupants[frame as usize] |= u32::from(access.is_write());
            }
            PageLocation::Out(ghost) => {
                let page = pages.page(sampled);
                traffic.reads += 1;
                if let Some(class) = pages.class(sampled) {
                    self.policy.class(class);
                }
                let mut driver = MissDriver { miniature: self, sampled, pages, traffic };
                miss(&mut driver, page, ghost, access);
            }
        }
    }

    /// The driver wrote the page back, which counts as a write here if the page is dirty in this
    /// miniature.
    pub(super) fn cleaned(&mut self, sampled: SampleNumber, pages: &SampledPages, traffic: &mut Traffic) {
        let PageLocation::In(frame) = pages.location(sampled, self.number) else {
            return;
        };
        if self.write_back(frame, traffic) {
            self.policy.cleaned(frame);
        }
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
}

/// Serves one miss of a miniature.
struct MissDriver<'m> {
    miniature: &'m mut Miniature,
    /// The page that is missed.
    sampled: SampleNumber,
    pages: &'m mut SampledPages,
    traffic: &'m mut Traffic,
}

impl Driver for MissDriver<'_> {
    type Policy = dyn DynPolicy + Send;

    fn policy(&mut self) -> &mut Self::Policy {
        &mut *self.miniature.policy
    }

    fn companions(&mut self) -> &mut MissScratch {
        &mut self.miniature.companions
    }

    fn empty_frame(&mut self) -> Option<Frame> {
        let Miniature { occupants, frames, .. } = self.miniature;
        if occupants.len() < *frames as usize {
            occupants.push(0);
            return Some(occupants.len() as u32 - 1);
        }
        self.miniature.free.pop()
    }

    fn claim_victim(&mut self, incoming: (Page, Access)) -> Option<Frame> {
        self.policy().victim(Some(incoming), &|_| true)
    }

    fn most_together(&self) -> usize {
        self.miniature.frames as usize
    }

    fn write_together(&mut self, victim: Frame, together: &[Frame]) {
        self.miniature.write_back(victim, self.traffic);
        for &frame in together {
            self.miniature.write_back(frame, self.traffic);
            self.policy().cleaned(frame);
        }
    }

    fn write_block(&mut self, block: u64, victim: Frame, others: &[Frame]) {
        let occupants = &mut self.miniature.occupants;
        let all = || others.iter().chain([&victim]);
        if all().any(|&frame| occupants[frame as usize] & 1 == 1) {
            for &frame in all() {
                occupants[frame as usize] &= !1;
            }
            self.traffic.reads += block.saturating_sub(1 + others.len() as u64);
            self.traffic.writes += block;
        }
    }

    fn evict(&mut self, frame: Frame) {
        let ghost = self.policy().remember(frame);
        self.miniature.write_back(frame, self.traffic);
        self.policy().evicted(frame);
        let sampled = self.miniature.occupants[frame as usize] >> 1;
        self.pages.evicted(sampled, self.miniature.number, ghost);
    }

    fn free(&mut self, frame: Frame) {
        self.miniature.free.push(frame);
    }

    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        let occupant = self.sampled << 1 | u32::from(access.is_write());
        self.miniature.occupants[frame as usize] = occupant;
        self.pages.admitted(self.sampled, self.miniature.number, frame);
        self.policy().admit(frame, page, access);
    }

    fn refuse(&mut self, _page: Page, _ghost: Option<Ghost>) {
        debug_assert!(false, "nothing is pinned, so there is a victim");
    }
}
