//! Frequency-based replacement.

use std::hint::black_box;

use ebbpool_cost::Decimal;

use crate::lists::FrameLists;
use crate::parameters::{parameters, share_of, whole};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, ParameterKind, PolicyEntry};

const NEW: usize = 0;
const MIDDLE: usize = 1;
const OLD: usize = 2;

/// The pages of the old section are chained by count; the last chain holds its own count and all
/// higher ones.
const CHAINS: usize = 256;

/// Evicts the least often referenced page of the LRU list's old section; references to pages of the
/// new section do not count.
///
/// A reconstruction from descriptions. Decided here: an admitted page has a count of 1; halving
/// rounds up, so that no count falls below 1; counts of any size are compared; if new and old
/// section together exceed the list, the old one has the pages that the new one leaves; where no
/// page of it may be evicted, the page nearest the LRU end is evicted.
pub struct Fbr {
    /// The LRU list, cut in three.
    sections: FrameLists<3>,
    section_of: Vec<u8>,
    chains: FrameLists<CHAINS>,
    /// Bit c: chain c holds a page.
    occupied: [u64; CHAINS / 64],
    counts: Vec<u32>,
    new_size: u32,
    middle_size: u32,
    sum_of_counts: u64,
    pages: u64,
    cmax: u64,
}

parameters! {
    /// The parameters of [`Fbr`].
    pub struct FbrConfig {
        new: Decimal = {
            kind: ParameterKind::Share,
            default: "0.25",
            about: "share of the frames, at the MRU end, in which references do not count",
        },
        old: Decimal = {
            kind: ParameterKind::Share,
            default: "0.5",
            about: "share of the frames, at the LRU end, in which victims are looked for",
        },
        cmax: u64 = {
            kind: whole(2, 1000),
            default: "32",
            about: "the average count above which all counts are halved",
        },
    }
}

impl RegisteredPolicy for Fbr {
    type Config = FbrConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "fbr",
        aliases: &[],
        params: FbrConfig::PARAMS,
        summary: "Evicts the least often used page among the least recent; references in quick succession count once.",
        how: "One LRU list, of which the recent end is the new section and the other end the old one, and a count per page, 1 on admission. A hit moves the page to the recent end and, unless the page was in the new section, adds 1 to its count. The page of the old section with the least count is evicted, of equals the least recently used. When the average count exceeds cmax, all counts are halved, rounded up.",
        when: "Use it where pages are referenced in bursts, since a burst counts once (Robinson and Devarakonda). On database traces it is among the best of the policies that ignore writes. A hit costs constant time, but now and then it halves all counts. It ignores whether pages are dirty.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(21),
        source: "Robinson and Devarakonda 1990",
    };

    fn new(config: FbrConfig, frames: u32) -> Self {
        let new_size = share_of(config.new, frames);
        let old_size = share_of(config.old, frames).min(frames - new_size);
        Fbr {
            sections: FrameLists::new(frames),
            section_of: vec![0; frames as usize],
            chains: FrameLists::new(frames),
            occupied: [0; CHAINS / 64],
            counts: vec![0; frames as usize],
            new_size,
            middle_size: frames - new_size - old_size,
            sum_of_counts: 0,
            pages: 0,
            cmax: config.cmax,
        }
    }
}

impl Fbr {
    #[inline]
    fn section(&self, frame: Frame) -> usize {
        usize::from(self.section_of[frame as usize])
    }

    #[inline]
    fn link(&mut self, section: usize, frame: Frame) {
        self.section_of[frame as usize] = section as u8;
        self.sections.push_mru(section, frame);
        if section == OLD {
            self.chain(frame);
        }
    }

    #[inline]
    fn unlink(&mut self, frame: Frame) {
        let section = self.section(frame);
        self.sections.remove(section, frame);
        if section == OLD {
            self.unchain(frame);
        }
    }

    /// `frame` enters at the MRU end; sections that grow too large push their LRU page on.
    #[inline]
    fn enter(&mut self, frame: Frame) {
        self.link(NEW, frame);
        for (section, size) in [(NEW, self.new_size), (MIDDLE, self.middle_size)] {
            if self.sections.len(section) <= size {
                return;
            }
            if let Some(pushed) = self.sections.lru(section) {
                self.sections.remove(section, pushed);
                self.link(section + 1, pushed);
            }
        }
    }

    #[inline]
    fn chain_of(&self, frame: Frame) -> usize {
        (self.counts[frame as usize] as usize).min(CHAINS - 1)
    }

    #[inline]
    fn chain(&mut self, frame: Frame) {
        let chain = self.chain_of(frame);
        self.chains.push_mru(chain, frame);
        self.occupied[chain / 64] |= 1 << (chain % 64);
    }

    #[inline]
    fn unchain(&mut self, frame: Frame) {
        let chain = self.chain_of(frame);
        self.chains.remove(chain, frame);
        if self.chains.len(chain) == 0 {
            self.occupied[chain / 64] &= !(1 << (chain % 64));
        }
    }

    /// The page of `chain` with the least count that may be evicted, of equals the least recently
    /// used.
    #[inline]
    fn least_of(&self, chain: usize, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let first = self.chains.find_from_lru(chain, &may_evict)?;
        if chain < CHAINS - 1 {
            return Some(first);
        }
        let mut least = first;
        let mut at = self.chains.mruward(first);
        while let Some(frame) = at {
            if self.counts[frame as usize] < self.counts[least as usize] && may_evict(frame) {
                least = frame;
            }
            at = self.chains.mruward(frame);
        }
        Some(least)
    }

    /// Halves all counts, and chains the old section anew, from its LRU end.
    #[cold]
    fn halve(&mut self) {
        let mut at = self.sections.lru(OLD);
        while let Some(frame) = at {
            self.unchain(frame);
            at = self.sections.mruward(frame);
        }
        self.sum_of_counts = 0;
        for count in &mut self.counts {
            *count = count.div_ceil(2);
            self.sum_of_counts += u64::from(*count);
        }
        let mut at = self.sections.lru(OLD);
        while let Some(frame) = at {
            self.chain(frame);
            at = self.sections.mruward(frame);
        }
    }
}

impl Policy for Fbr {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        if self.section(frame) == NEW {
            self.sections.move_to_mru(NEW, frame);
            return;
        }
        self.unlink(frame);
        let count = &mut self.counts[frame as usize];
        *count = count.saturating_add(1);
        self.sum_of_counts += 1;
        self.enter(frame);
        if self.sum_of_counts > self.cmax * self.pages {
            self.halve();
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        black_box(self.counts[frame as usize]);
        self.sections.prefetch(frame);
        if self.section(frame) == OLD {
            self.chains.prefetch(frame);
        }
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        for (word, bits) in self.occupied.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let chain = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if let Some(frame) = self.least_of(chain, &may_evict) {
                    return Some(frame);
                }
            }
        }
        self.sections.find_from_lru(MIDDLE, &may_evict).or_else(|| self.sections.find_from_lru(NEW, may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, _access: Access) {
        self.counts[frame as usize] = 1;
        self.sum_of_counts += 1;
        self.pages += 1;
        self.enter(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.unlink(frame);
        let count = std::mem::take(&mut self.counts[frame as usize]);
        self.sum_of_counts -= u64::from(count);
        self.pages -= 1;
    }

    fn cleaned(&mut self, _frame: Frame) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_the_last_chain_are_compared() {
        let config = FbrConfig { new: Decimal::new(0, 0), old: Decimal::new(1, 0), cmax: 1000 };
        let mut fbr = Fbr::new(config, 3);
        for (frame, hits) in [(0, 299), (1, 279), (2, 289)] {
            fbr.admit(frame, u64::from(frame), Access::Read);
            (0..hits).for_each(|_| fbr.hit(frame, Access::Read));
        }
        assert_eq!(fbr.victim(None, |_| true), Some(1));
        assert_eq!(fbr.victim(None, |frame| frame != 1), Some(2));
        // With 290 references each, 1 and 2 are equal; 2 is the least recently used.
        (0..10).for_each(|_| fbr.hit(1, Access::Read));
        assert_eq!(fbr.victim(None, |_| true), Some(2));
        assert_eq!(fbr.victim(None, |frame| frame == 0), Some(0));
        assert_eq!(fbr.victim(None, |_| false), None);
    }
}
