//! auto.

mod bills;
mod miniature;
mod sampled_pages;

use std::num::NonZeroU64;

use self::bills::{Bills, Manner};
use self::miniature::Miniature;
use self::sampled_pages::{Sampled, SampledPages};
use crate::policy::{Access, Costs, DynPolicy, Frame, Gauges, Ghost, Page, Policy};
use crate::registry::{self, Build};
use crate::spec::{Entry, Kind, Memory, Param, PolicySpec};

/// Pages that change hands at a miss after a switch. A buffer of m frames is handed over within
/// m / 8 misses.
const HANDED_OVER_TOGETHER: u32 = 8;

/// Tries several policies on a sample of the pages, and lets the one that is cheapest there manage the
/// frames.
///
/// A page is in the sample or not by its number, and a sample with its share of the frames behaves as
/// the whole (Waldspurger et al. 2017). There is no page table for the pages of the sample that are
/// resident: their number in the sample stands with the frame, so that only misses are hashed.
///
/// When another policy takes over, no page leaves for that: at each miss the policy that was in charge
/// gives up the eight pages that it would evict next, and the new one admits them. Each page belongs to
/// one of the two meanwhile; victims are the new one's, or the old one's where all of the new one's are
/// pinned. Ghosts are known only to who gave them, and only until somebody else takes over.
pub struct Auto {
    experts: Vec<Box<dyn DynPolicy + Send>>,
    in_charge: usize,
    /// Who was in charge before.
    before: usize,
    /// Frames that are still to be handed over.
    to_hand_over: u32,
    frames: Vec<Held>,
    /// Frames with a page.
    held: u32,
    /// The page missed last, and its number in the sample.
    incoming: Option<(Page, Option<Sampled>)>,
    /// True from a miss to its admission: what is cleaned meanwhile was the policy's own wish.
    evicting: bool,
    ghosts: GhostsGiven,
    sample: Sample,
    sampled: SampledPages,
    miniatures: Vec<Miniature>,
    bills: Bills,
    costs: Costs,
}

/// The page in a frame.
#[derive(Clone, Copy)]
struct Held {
    page: Page,
    /// Its number in the sample, [`OUTSIDE`] or [`UNKNOWN`].
    sampled: Sampled,
    /// To whom the frame belongs.
    owner: u8,
    dirty: bool,
}

/// The page is not in the sample.
const OUTSIDE: Sampled = u32::MAX;
/// The page is in the sample and has lost its number.
const UNKNOWN: Sampled = u32::MAX - 1;

/// Which pages are in the sample.
struct Sample {
    /// The highest hash that is.
    highest: u64,
    /// So many neighbours are in it together or not at all.
    grain: u64,
}

impl Sample {
    /// As large a share of the pages as `part` is of `whole`.
    fn new(part: u32, whole: u32, grain: u64) -> Self {
        let hashes = (u128::from(part) << u64::BITS) / u128::from(whole);
        Sample {
            highest: u64::try_from(hashes - 1).unwrap_or(u64::MAX),
            grain,
        }
    }

    /// Fibonacci hashing: neighbours are spread evenly. The upper half is folded in for numbers that
    /// differ there only.
    #[inline]
    fn has(&self, page: Page) -> bool {
        let grain = page / self.grain;
        (grain ^ grain >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) <= self.highest
    }
}

/// Which ghosts were given to the driver by the policy in charge, since it took over.
///
/// Others may be of another policy, or of pages that came back meanwhile under another policy.
struct GhostsGiven {
    /// By ghost, the reign in which it was given last.
    reign_of: Vec<u8>,
    /// Of the policy in charge.
    reign: u8,
}

impl GhostsGiven {
    fn new(frames: u32) -> Self {
        GhostsGiven {
            reign_of: vec![0; 2 * frames as usize + 2],
            reign: 1,
        }
    }

    fn new_reign(&mut self) {
        self.reign = match self.reign.checked_add(1) {
            Some(next) => next,
            None => {
                self.reign_of.fill(0);
                1
            }
        };
    }

    /// Notes the ghost; drops it if its number is too large to be noted.
    #[inline]
    fn give(&mut self, ghost: Option<Ghost>) -> Option<Ghost> {
        *self.reign_of.get_mut(ghost? as usize)? = self.reign;
        ghost
    }

    #[inline]
    fn is_valid(&self, ghost: Ghost) -> bool {
        self.reign_of.get(ghost as usize) == Some(&self.reign)
    }
}

impl Build for Auto {
    const ENTRY: Entry = Entry {
        name: "auto",
        aliases: &[],
        params: &[
            Param {
                name: "experts",
                kind: Kind::Policies { most: 8 },
                default: "(ebb,w-tinylfu,s3-fifo,h-arc)",
                about: "the policies to choose from; the first is in charge at the beginning",
            },
            Param {
                name: "sample",
                kind: Kind::Percent,
                default: "6.25%",
                about: "share of the pages, and of the frames, on which all experts are tried",
            },
            Param {
                name: "fewest",
                kind: Kind::Whole {
                    min: 1,
                    max: u32::MAX as u64,
                    or: None,
                },
                default: "512",
                about: "frames that a miniature has at least, whatever share that is",
            },
            Param {
                name: "window",
                kind: Kind::Whole {
                    min: 1,
                    max: 1_000_000,
                    or: None,
                },
                default: "256",
                about: "misses per frame in which a lead fades to 1/e",
            },
            Param {
                name: "lead",
                kind: Kind::Whole {
                    min: 0,
                    max: 1_000_000,
                    or: None,
                },
                default: "150",
                about: "what another expert must have saved to take over, in per cent of the bill of one miss per frame",
            },
            Param {
                name: "patience",
                kind: Kind::Whole {
                    min: 0,
                    max: 1_000_000,
                    or: None,
                },
                default: "1",
                about: "misses per frame, at the beginning and after a switch, in which nobody takes over",
            },
        ],
        summary: "Tries several policies on a sample of the pages, and lets the one that is cheapest there manage the frames.",
        how: "Each expert also manages a buffer in miniature: a sixteenth of the frames, but at least 512, and that share of the pages, chosen by a hash of their numbers. Whenever the miniature of the expert in charge has missed once per frame of its own a round ends, and the reads and writes by which every other expert stayed below it are added to that expert's lead, at the costs of today; leads fade to 1/e in 256 rounds, and one that falls below nothing starts again from nothing. Whoever has saved the bill of one and a half rounds takes over, but nobody in the first round and in the one after a switch; a switch ends all leads. No page leaves for that: at each miss the expert that was in charge gives up the eight pages that it would evict next, and the new one admits them, clean or dirty as they are. Experts that are not in charge keep what they have learned, but are not told of what happens to the frames. Pages that are written back from outside count as writes in each miniature in which they are dirty. fd-buffer does not come in miniature, so with it the sample is everything.",
        when: "Where you would take ebb and want somebody to watch it, and runs are long. Tried on three PostgreSQL strings and eight generated ones of 1.5 million references, 0.75, 3 and 6 % of the pages, R from 1 to 64: 132 cells. It cost 1.001 times what its best expert did, at most 1.027 times, and 2 cells were above 1.02; but that was ebb in every cell, so that nothing could be gained, and what was lost was lost by leaving it. The test is a set in which the first expert is often not the best: (w-tinylfu,s3-fifo,h-arc,casa) cost 1.008 times what the best of them did, at most 1.047 times, 14 cells were above 1.02, and it saved 3.1 % against w-tinylfu where the best of them in each cell saved 3.9 %. On 16 cells of 12 million references and more, half of them of phases, these two and the second in reverse lost at most 2.0 %: finding out costs some misses per frame, once for every time that the best expert changes, and short runs pay for that in full (up to 10 % in reverse, where there were few misses per frame). So put first what you expect to be best. It takes the time and the memory of all its experts: all of them are set up over all frames, and below some thousand frames the sample is most of the pages.",
        memory: Memory::of(32).with_ghosts(207),
        source: "this project; miniature simulations: Waldspurger et al. 2017",
        online: true,
        looks_at_costs: true,
        asks_erase_counts: false,
    };

    fn build(spec: &PolicySpec, frames: u32) -> Self {
        let whole = |name| spec.whole(name).unwrap_or(1);
        let experts: Vec<&PolicySpec> = spec.wrapped().collect();
        let part = frames_of_a_miniature(spec, frames);
        let grain = spec.grain();
        let miniature = |(number, expert): (usize, &&PolicySpec)| {
            let expert = match part == frames {
                true => (*expert).clone(),
                false => expert.in_miniature(f64::from(part) / f64::from(frames)),
            };
            Miniature::new(number, registry::boxed(&expert, part), part)
        };
        let manner = Manner {
            round: part,
            window: whole("window") as f64,
            lead: whole("lead") as f64 / 100.0,
            patience: whole("patience") as u32,
        };
        let vacant = Held {
            page: 0,
            sampled: OUTSIDE,
            owner: 0,
            dirty: false,
        };
        Auto {
            in_charge: 0,
            before: 0,
            to_hand_over: 0,
            frames: vec![vacant; frames as usize],
            held: 0,
            incoming: None,
            evicting: false,
            ghosts: GhostsGiven::new(frames),
            sample: Sample::new(part, frames, grain),
            sampled: SampledPages::new(experts.len(), part),
            miniatures: experts.iter().enumerate().map(miniature).collect(),
            bills: Bills::new(experts.len(), manner),
            costs: Costs::default(),
            experts: experts
                .iter()
                .map(|expert| registry::boxed(expert, frames))
                .collect(),
        }
    }
}

/// The sample's share of the frames, but enough of them; all if an expert does not come in miniature.
fn frames_of_a_miniature(spec: &PolicySpec, frames: u32) -> u32 {
    if spec.measures_windows() {
        return frames;
    }
    // A miniature of a few blocks is as much a matter of chance as one of a few pages.
    let fewest = spec.whole("fewest").unwrap_or(1);
    let fewest = fewest.saturating_mul(spec.grain().isqrt());
    let fewest = u32::try_from(fewest).unwrap_or(u32::MAX);
    spec.share_of("sample", frames).max(fewest).min(frames)
}

impl Auto {
    /// Tries a reference to a page of the sample in all miniatures, and lets another expert take over
    /// if it is time.
    fn try_out(&mut self, sampled: Sampled, access: Access) {
        let reads_before = self.bills.reads(self.in_charge);
        for (expert, miniature) in self.miniatures.iter_mut().enumerate() {
            let traffic = self.bills.of(expert);
            miniature.reference(sampled, access, &mut self.sampled, traffic);
        }
        if self.bills.reads(self.in_charge) > reads_before {
            let may_switch = self.to_hand_over == 0;
            let better = self.bills.missed(self.in_charge, may_switch, self.costs);
            if let Some(expert) = better {
                self.before = std::mem::replace(&mut self.in_charge, expert);
                self.to_hand_over = self.held;
                self.ghosts.new_reign();
            }
        }
    }

    /// A resident page of the sample is referenced.
    fn try_out_resident(&mut self, frame: Frame, access: Access) {
        let Held { page, sampled, .. } = self.frames[frame as usize];
        let known = sampled != UNKNOWN && self.sampled.is(sampled, page);
        let sampled = match known {
            true => Some(sampled),
            false => self.sampled.find_or_add(page),
        };
        if let Some(sampled) = sampled {
            self.frames[frame as usize].sampled = sampled;
            self.try_out(sampled, access);
        }
    }

    /// The next pages that the expert in charge before would evict go over to the new one.
    #[cold]
    fn hand_over(&mut self, incoming: (Page, Access)) {
        for _ in 0..HANDED_OVER_TOGETHER.min(self.to_hand_over) {
            let before = &mut self.experts[self.before];
            let Some(frame) = before.victim(Some(incoming), &|_| true) else {
                debug_assert!(false, "nothing is pinned, so somebody may go");
                return;
            };
            before.evicted(frame);
            let held = &mut self.frames[frame as usize];
            held.owner = self.in_charge as u8;
            let access = Access::from_write(held.dirty);
            let now = &mut self.experts[self.in_charge];
            now.miss(held.page, None, access);
            now.admit(frame, held.page, access);
            self.to_hand_over -= 1;
        }
    }

    #[inline]
    fn owner(&self, frame: Frame) -> &(dyn DynPolicy + Send) {
        &*self.experts[usize::from(self.frames[frame as usize].owner)]
    }

    #[inline]
    fn owner_mut(&mut self, frame: Frame) -> &mut (dyn DynPolicy + Send) {
        &mut *self.experts[usize::from(self.frames[frame as usize].owner)]
    }
}

impl Policy for Auto {
    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        let held = &mut self.frames[frame as usize];
        held.dirty |= access.is_write();
        if held.sampled != OUTSIDE {
            self.try_out_resident(frame, access);
        }
        self.owner_mut(frame).hit(frame, access);
    }

    #[inline]
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, access: Access) {
        let mut number = None;
        if self.sample.has(page) {
            number = self.sampled.find_or_add(page);
            if let Some(sampled) = number {
                self.try_out(sampled, access);
            }
        }
        self.incoming = Some((page, number));
        self.evicting = true;
        if self.to_hand_over > 0 {
            self.hand_over((page, access));
        }
        let ghost = ghost.filter(|&ghost| self.ghosts.is_valid(ghost));
        self.experts[self.in_charge].miss(page, ghost, access);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.owner(frame).prefetch(frame);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        if self.ghosts.is_valid(ghost) {
            self.experts[self.in_charge].prefetch_ghost(ghost);
        }
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        let victim = self.experts[self.in_charge].victim(incoming, &may_go);
        if victim.is_none() && self.to_hand_over > 0 {
            return self.experts[self.before].victim(incoming, &may_go);
        }
        victim
    }

    fn also_leaving(&self, victim: Frame, leaving: &mut Vec<Frame>) {
        self.owner(victim).also_leaving(victim, leaving);
    }

    fn padding(&self, victim: Frame) -> Option<NonZeroU64> {
        self.owner(victim).padding(victim)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.evicting = false;
        let incoming = self.incoming.take().filter(|(missed, _)| *missed == page);
        let sampled = match incoming {
            Some((_, Some(sampled))) => sampled,
            _ if self.sample.has(page) => UNKNOWN,
            _ => OUTSIDE,
        };
        self.frames[frame as usize] = Held {
            page,
            sampled,
            owner: self.in_charge as u8,
            dirty: access.is_write(),
        };
        self.held += 1;
        self.experts[self.in_charge].admit(frame, page, access);
    }

    fn refused(&mut self) -> Option<Ghost> {
        self.evicting = false;
        self.incoming = None;
        let ghost = self.experts[self.in_charge].refused();
        self.ghosts.give(ghost)
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        let ghost = self.owner_mut(frame).remember(frame);
        match usize::from(self.frames[frame as usize].owner) == self.in_charge {
            true => self.ghosts.give(ghost),
            false => None,
        }
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.owner_mut(frame).evicted(frame);
        self.held -= 1;
        let handed_over = usize::from(self.frames[frame as usize].owner) == self.in_charge;
        self.to_hand_over -= u32::from(!handed_over);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.owner_mut(frame).cleaned(frame);
        let held = &mut self.frames[frame as usize];
        held.dirty = false;
        let Held { page, sampled, .. } = *held;
        if self.evicting || sampled == OUTSIDE {
            return;
        }
        if let Some(sampled) = self.sampled.find(page) {
            for (expert, miniature) in self.miniatures.iter_mut().enumerate() {
                miniature.cleaned(sampled, &self.sampled, self.bills.of(expert));
            }
        }
    }

    fn write_with(&self, victim: Frame, max: usize, together: &mut Vec<Frame>) {
        self.owner(victim).write_with(victim, max, together);
    }

    fn costs(&mut self, costs: Costs) {
        self.costs = costs;
        for expert in &mut self.experts {
            expert.costs(costs);
        }
        for miniature in &mut self.miniatures {
            miniature.costs(costs);
        }
    }

    fn gauges(&self) -> Gauges {
        self.experts[self.in_charge].gauges()
    }
}
