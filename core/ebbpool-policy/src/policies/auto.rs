//! auto: the policy that is cheapest on a sample of the pages manages the frames.

mod bills;
mod miniature;
mod sampled_pages;

use std::num::NonZeroU64;

use ebbpool_cost::Decimal;

use self::bills::{Bills, SwitchRule};
use self::miniature::Miniature;
use self::sampled_pages::{SampleNumber, SampledPages};
use crate::parameters::{parameters, share_of, whole};
use crate::policy::{Access, Capabilities, Costs, DynPolicy, Frame, Gauges, Ghost, Page, PageClass, Policy, UNKNOWN_CLASS};
use crate::registry::{self, RegisteredPolicy};
use crate::spec::{MemoryUse, ParameterKind, PolicyEntry, PolicySpec, text_beside};

/// Pages handed over at each miss after a switch. A buffer of m frames is handed over within m / 8
/// misses.
const HANDED_OVER_TOGETHER: u32 = 8;

/// Tries several policies on a sample of the pages, and lets the one that is cheapest there manage the
/// frames.
///
/// The page number decides whether a page is in the sample, and a sample with its share of the
/// frames behaves as all pages do with all frames (Waldspurger et al. 2017). Resident pages of the
/// sample need no page table: their number in the sample is stored with the frame, so that only
/// misses are hashed.
///
/// A switch to another policy evicts no page: at each miss the previous policy gives up the eight
/// pages that it would evict next, and the new one admits them. Meanwhile each page belongs to one
/// of the two; victims are the new one's, or the previous one's where all pages of the new one are
/// pinned. Ghosts are valid only for the policy that issued them, and only until the next switch.
pub struct Auto {
    experts: Vec<Box<dyn DynPolicy + Send>>,
    active: usize,
    /// The expert that was active before the last switch.
    previous: usize,
    /// Frames that are still to be handed over.
    to_hand_over: u32,
    frames: Vec<FrameState>,
    /// Frames with a page.
    occupied: u32,
    /// The page missed last, and its number in the sample.
    incoming: Option<(Page, Option<SampleNumber>)>,
    /// True from a miss to its admission: pages cleaned meanwhile were named by the policy itself.
    evicting: bool,
    ghosts: IssuedGhosts,
    sample: Sample,
    sampled: SampledPages,
    miniatures: Vec<Miniature>,
    bills: Bills,
    costs: Costs,
    /// The class of the page missed last.
    incoming_class: PageClass,
    /// The class of the page in each frame; empty if no expert asks for classes.
    classes: Vec<PageClass>,
    capabilities: Capabilities,
}

/// The capabilities of the experts that are passed on to them, or of no use to their policy. Miniatures have no device, and no
/// future.
const SERVES: Capabilities = Capabilities::LEAVES_HITS_OUT
    .union(Capabilities::EVICTS_MORE)
    .union(Capabilities::PADDING)
    .union(Capabilities::WRITES_TOGETHER)
    .union(Capabilities::COSTS)
    .union(Capabilities::CLASSES);

/// The page in a frame.
#[derive(Clone, Copy)]
struct FrameState {
    page: Page,
    /// The page's number in the sample, [`OUTSIDE`] or [`UNKNOWN`].
    sampled: SampleNumber,
    /// The expert that manages the frame.
    owner: u8,
    dirty: bool,
}

/// The page is not in the sample.
const OUTSIDE: SampleNumber = u32::MAX;
/// The page is in the sample and has lost its number.
const UNKNOWN: SampleNumber = u32::MAX - 1;

/// The set of pages in the sample.
struct Sample {
    /// The highest hash in the sample.
    highest: u64,
    /// The number of neighbouring pages that are in the sample together or not at all.
    grain: u64,
}

impl Sample {
    /// As large a share of the pages as `part` is of `whole`.
    fn new(part: u32, whole: u32, grain: u64) -> Self {
        let hashes = (u128::from(part) << u64::BITS) / u128::from(whole);
        Sample { highest: u64::try_from(hashes - 1).unwrap_or(u64::MAX), grain }
    }

    /// Fibonacci hashing: neighbours are spread evenly. The upper half is folded in for numbers that
    /// differ there only.
    #[inline]
    fn has(&self, page: Page) -> bool {
        let grain = page / self.grain;
        (grain ^ grain >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) <= self.highest
    }
}

/// The ghosts that the active policy has issued to the driver since the last switch.
///
/// Other ghosts may be another policy's, or of pages admitted meanwhile under another policy.
struct IssuedGhosts {
    /// By ghost, the term in which it was issued last. A term is the time between two switches.
    term_of: Vec<u8>,
    /// The current term.
    term: u8,
    /// Ghosts of this number on are dropped.
    most: usize,
}

impl IssuedGhosts {
    fn new(frames: u32) -> Self {
        IssuedGhosts { term_of: vec![0; 2 * frames as usize + 2], term: 1, most: 64 * frames as usize + 1024 }
    }

    /// Makes room for ghosts below that number.
    fn reserve(&mut self, ghosts: usize) {
        let ghosts = ghosts.min(self.most);
        if ghosts > self.term_of.len() {
            self.term_of.resize(ghosts, 0);
        }
    }

    fn new_term(&mut self) {
        self.term = match self.term.checked_add(1) {
            Some(next) => next,
            None => {
                self.term_of.fill(0);
                1
            }
        };
    }

    /// Records the ghost. Most policies number at most two for each frame; for others the record grows with the largest number, which
    /// a policy reaches early. A ghost whose number is out of all proportion is dropped.
    #[inline]
    fn issue(&mut self, ghost: Option<Ghost>) -> Option<Ghost> {
        let number = ghost? as usize;
        if number >= self.term_of.len() {
            if number >= self.most {
                return None;
            }
            self.term_of.resize(number + 1, 0);
        }
        self.term_of[number] = self.term;
        ghost
    }

    #[inline]
    fn is_valid(&self, ghost: Ghost) -> bool {
        self.term_of.get(ghost as usize) == Some(&self.term)
    }
}

parameters! {
    /// The parameters of [`Auto`].
    pub struct AutoConfig {
        experts: Vec<PolicySpec> = {
            kind: ParameterKind::Policies {
                most: 8,
                serves: SERVES,
            },
            default: "(ebb,w-tinylfu,s3-fifo,h-arc)",
            about: "the policies to choose from; the first is active at the beginning",
        },
        sample: Decimal = {
            kind: ParameterKind::Percent,
            default: "6.25%",
            about: "share of the pages, and of the frames, on which all experts are tried",
        },
        fewest: u64 = {
            kind: whole(1, u32::MAX as u64),
            default: "512",
            about: "the least number of frames of a miniature, whatever share of the frames that is",
        },
        window: u32 = {
            kind: whole(1, 1_000_000),
            default: "256",
            about: "misses per frame in which a lead fades to 1/e",
        },
        lead: u32 = {
            kind: whole(0, 1_000_000),
            default: "150",
            about: "the saving that makes another expert active, in per cent of the bill of one miss per frame",
        },
        patience: u32 = {
            kind: whole(0, 1_000_000),
            default: "1",
            about: "misses per frame, at the beginning and after a switch, without another switch",
        },
    }
}

impl RegisteredPolicy for Auto {
    type Config = AutoConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "auto",
        aliases: &[],
        params: AutoConfig::PARAMS,
        summary: "Tries several policies on a sample of the pages, and lets the one that is cheapest there manage the frames.",
        how: text_beside!("auto.md"),
        when: "Use it where no single policy is known to suit the workload, runs are long, and some expert may be clearly better than the first. It stays close to its best expert, but not below it: finding out costs some misses per frame, once for every change of the best expert, and short runs pay for that in full. So put first the expert that is expected to be best. It takes the time and the memory of all its experts: all of them are set up over all frames, and below some thousand frames the sample is most of the pages.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(24).with_ghosts(219),
        source: "this project; miniature simulations: Waldspurger et al. 2017",
    };

    // Its experts are in miniature already, and its bills from samples are off as those of ebb (docs/curves.md).
    const HAS_MINIATURE: bool = false;

    fn new(config: AutoConfig, frames: u32) -> Self {
        Auto::of_experts(config, frames, registry::boxed)
    }
}

impl Auto {
    /// The policy over experts that `make` makes for a number of frames.
    fn of_experts(config: AutoConfig, frames: u32, make: impl Fn(&PolicySpec, u32) -> Box<dyn DynPolicy + Send>) -> Self {
        let grain = grain_of(&config.experts);
        let part = frames_of_a_miniature(&config, grain, frames);
        let experts = config.experts;
        let miniature = |(number, expert): (usize, &PolicySpec)| {
            let expert = match part == frames {
                true => expert.clone(),
                false => expert.in_miniature(f64::from(part) / f64::from(frames)),
            };
            Miniature::new(number, make(&expert, part), part)
        };
        let rule = SwitchRule {
            round: part,
            window: f64::from(config.window),
            lead: f64::from(config.lead) / 100.0,
            patience: config.patience,
        };
        let full_size: Vec<Box<dyn DynPolicy + Send>> = experts.iter().map(|expert| make(expert, frames)).collect();
        let of_experts = full_size.iter().map(|expert| expert.capabilities().wrapped());
        let of_experts = of_experts.fold(Capabilities::empty(), Capabilities::union);
        let asks_classes = of_experts.contains(Capabilities::CLASSES);
        let vacant = FrameState { page: 0, sampled: OUTSIDE, owner: 0, dirty: false };
        Auto {
            active: 0,
            previous: 0,
            to_hand_over: 0,
            frames: vec![vacant; frames as usize],
            occupied: 0,
            incoming: None,
            evicting: false,
            ghosts: IssuedGhosts::new(frames),
            sample: Sample::new(part, frames, grain),
            sampled: SampledPages::new(experts.len(), part, asks_classes),
            miniatures: experts.iter().enumerate().map(miniature).collect(),
            bills: Bills::new(experts.len(), rule),
            costs: Costs::default(),
            incoming_class: UNKNOWN_CLASS,
            classes: match asks_classes {
                true => vec![UNKNOWN_CLASS; frames as usize],
                false => Vec::new(),
            },
            experts: full_size,
            // The miniatures need every hit.
            capabilities: <Self as Policy>::CAPABILITIES.union(of_experts.difference(Capabilities::LEAVES_HITS_OUT)),
        }
    }
}

/// The number of neighbouring pages that an expert treats as a unit.
fn grain_of(experts: &[PolicySpec]) -> u64 {
    experts.iter().map(PolicySpec::grain).max().unwrap_or(1)
}

/// The frames of a miniature: the sample's share, but enough of them; all frames if an expert
/// cannot be scaled down.
fn frames_of_a_miniature(config: &AutoConfig, grain: u64, frames: u32) -> u32 {
    if config.experts.iter().any(PolicySpec::measures_windows) {
        return frames;
    }
    // A miniature of a few blocks varies as randomly as one of a few pages.
    let fewest = config.fewest.saturating_mul(grain.isqrt());
    let fewest = u32::try_from(fewest).unwrap_or(u32::MAX);
    share_of(config.sample, frames).max(fewest).min(frames)
}

impl Auto {
    /// Applies a reference to a page of the sample to all miniatures, and makes another expert
    /// active if it has saved enough.
    fn try_out(&mut self, sampled: SampleNumber, access: Access) {
        let reads_before = self.bills.reads(self.active);
        for (expert, miniature) in self.miniatures.iter_mut().enumerate() {
            let traffic = self.bills.of(expert);
            miniature.reference(sampled, access, &mut self.sampled, traffic);
        }
        if self.bills.reads(self.active) > reads_before {
            let may_switch = self.to_hand_over == 0;
            let better = self.bills.missed(self.active, may_switch, self.costs);
            if let Some(expert) = better {
                self.previous = std::mem::replace(&mut self.active, expert);
                self.to_hand_over = self.occupied;
                self.ghosts.new_term();
            }
        }
    }

    /// A resident page of the sample is referenced.
    fn try_out_resident(&mut self, frame: Frame, access: Access) {
        let FrameState { page, sampled, .. } = self.frames[frame as usize];
        let is_current = sampled != UNKNOWN && self.sampled.holds(sampled, page);
        let sampled = match is_current {
            true => Some(sampled),
            false => {
                let found = self.sampled.find_or_add(page);
                if let (Some(sampled), Some(&class)) = (found, self.classes.get(frame as usize)) {
                    self.sampled.set_class(sampled, class);
                }
                found
            }
        };
        if let Some(sampled) = sampled {
            self.frames[frame as usize].sampled = sampled;
            self.try_out(sampled, access);
        }
    }

    /// Hands the pages that the previous expert would evict next over to the active one.
    #[cold]
    fn hand_over(&mut self, incoming: (Page, Access)) {
        for _ in 0..HANDED_OVER_TOGETHER.min(self.to_hand_over) {
            let previous = &mut self.experts[self.previous];
            let Some(frame) = previous.victim(Some(incoming), &|_| true) else {
                debug_assert!(false, "nothing is pinned, so there is a victim");
                return;
            };
            previous.evicted(frame);
            let state = &mut self.frames[frame as usize];
            state.owner = self.active as u8;
            let access = Access::from_write(state.dirty);
            let active = &mut self.experts[self.active];
            if let Some(&class) = self.classes.get(frame as usize) {
                active.class(class);
            }
            active.miss(state.page, None, access);
            active.admit(frame, state.page, access);
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
    const CAPABILITIES: Capabilities = Capabilities::COSTS;

    fn reserve(&mut self) -> bool {
        self.ghosts.reserve(Policy::most_ghosts(self) as usize);
        let experts = self.experts.iter_mut().map(|expert| expert.reserve());
        let miniatures = self.miniatures.iter_mut().map(Miniature::reserve);
        experts.chain(miniatures).fold(true, |all, it| all & it)
    }

    fn most_ghosts(&self) -> u32 {
        let experts = self.experts.iter().map(|expert| expert.most_ghosts());
        experts.max().unwrap_or(0)
    }

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        let state = &mut self.frames[frame as usize];
        state.dirty |= access.is_write();
        if state.sampled != OUTSIDE {
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
                self.sampled.set_class(sampled, self.incoming_class);
                self.try_out(sampled, access);
            }
        }
        self.incoming = Some((page, number));
        self.evicting = true;
        if self.to_hand_over > 0 {
            self.hand_over((page, access));
        }
        let ghost = ghost.filter(|&ghost| self.ghosts.is_valid(ghost));
        if !self.classes.is_empty() {
            self.experts[self.active].class(self.incoming_class);
        }
        self.experts[self.active].miss(page, ghost, access);
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    #[inline]
    fn class(&mut self, class: PageClass) {
        self.incoming_class = class;
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.owner(frame).prefetch(frame);
    }

    #[inline]
    fn prefetch_ghost(&self, ghost: Ghost) {
        if self.ghosts.is_valid(ghost) {
            self.experts[self.active].prefetch_ghost(ghost);
        }
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let victim = self.experts[self.active].victim(incoming, &may_evict);
        if victim.is_none() && self.to_hand_over > 0 {
            return self.experts[self.previous].victim(incoming, &may_evict);
        }
        victim
    }

    fn evicted_with(&self, victim: Frame, evictions: &mut Vec<Frame>) {
        self.owner(victim).evicted_with(victim, evictions);
    }

    fn padded_block(&self, victim: Frame) -> Option<NonZeroU64> {
        self.owner(victim).padded_block(victim)
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
        self.frames[frame as usize] = FrameState { page, sampled, owner: self.active as u8, dirty: access.is_write() };
        if let Some(of_frame) = self.classes.get_mut(frame as usize) {
            *of_frame = std::mem::take(&mut self.incoming_class);
        }
        self.occupied += 1;
        self.experts[self.active].admit(frame, page, access);
    }

    fn not_admitted(&mut self) -> Option<Ghost> {
        self.evicting = false;
        self.incoming = None;
        self.incoming_class = UNKNOWN_CLASS;
        let ghost = self.experts[self.active].not_admitted();
        self.ghosts.issue(ghost)
    }

    #[inline]
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        let ghost = self.owner_mut(frame).remember(frame);
        match usize::from(self.frames[frame as usize].owner) == self.active {
            true => self.ghosts.issue(ghost),
            false => None,
        }
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.owner_mut(frame).evicted(frame);
        self.occupied -= 1;
        let handed_over = usize::from(self.frames[frame as usize].owner) == self.active;
        self.to_hand_over -= u32::from(!handed_over);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.owner_mut(frame).cleaned(frame);
        let state = &mut self.frames[frame as usize];
        state.dirty = false;
        let FrameState { page, sampled, .. } = *state;
        if self.evicting || sampled == OUTSIDE {
            return;
        }
        if let Some(sampled) = self.sampled.find(page) {
            for (expert, miniature) in self.miniatures.iter_mut().enumerate() {
                miniature.cleaned(sampled, &self.sampled, self.bills.of(expert));
            }
        }
    }

    fn cleaned_with(&self, victim: Frame, max: usize, together: &mut Vec<Frame>) {
        self.owner(victim).cleaned_with(victim, max, together);
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
        self.experts[self.active].gauges()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::parameters::PolicyConfig;
    use crate::policy::{NextUse, forward};

    /// The classes reported before misses, by page.
    type Reported = Arc<Mutex<BTreeMap<Page, Vec<PageClass>>>>;

    /// LRU that asks for classes.
    struct AsksClasses {
        policy: Box<dyn DynPolicy + Send>,
        class: Option<PageClass>,
        reported: Reported,
    }

    impl Policy for AsksClasses {
        const CAPABILITIES: Capabilities = Capabilities::CLASSES;

        forward! {
            self.policy:
            omitted_hits, prefetch, prefetch_ghost, evicted_with, padded_block, not_admitted,
            remember, cleaned_with, costs, erase_count, next_use, prices, gauges, hit, admit, evicted, cleaned
        }

        fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
            self.policy.victim(incoming, &may_evict)
        }

        fn miss(&mut self, page: Page, ghost: Option<Ghost>, access: Access) {
            let class = self.class.take().expect("a class before each miss");
            let mut reported = self.reported.lock().expect("no panic");
            reported.entry(page).or_default().push(class);
            self.policy.miss(page, ghost, access);
        }

        fn class(&mut self, class: PageClass) {
            self.class = Some(class);
        }
    }

    #[test]
    fn experts_and_miniatures_receive_the_class_of_each_page() {
        let spec = "auto:experts=(lru,lru),fewest=4,sample=50%,window=1,lead=0,patience=0";
        let spec: PolicySpec = spec.parse().expect("a policy");
        let reported = Reported::default();
        let of_boxed = Arc::clone(&reported);
        let make = move |expert: &PolicySpec, frames: u32| {
            Box::new(AsksClasses { policy: registry::boxed(expert, frames), class: None, reported: Arc::clone(&of_boxed) })
                as Box<dyn DynPolicy + Send>
        };
        let mut auto = Auto::of_experts(AutoConfig::from_spec(&spec), 8, make);
        assert!(Policy::capabilities(&auto).contains(Capabilities::CLASSES));
        // Pages 0 to 19 in turn; the frame of a page is known to the test.
        let mut resident: BTreeMap<Page, Frame> = BTreeMap::new();
        for at in 0..600u64 {
            let page = (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 20;
            if let Some(&frame) = resident.get(&page) {
                Policy::hit(&mut auto, frame, Access::Read);
                continue;
            }
            Policy::class(&mut auto, page as PageClass + 100);
            Policy::miss(&mut auto, page, None, Access::Read);
            let frame = match resident.len() {
                8 => {
                    let incoming = Some((page, Access::Read));
                    let victim = Policy::victim(&mut auto, incoming, |_| true).expect("a victim");
                    Policy::evicted(&mut auto, victim);
                    resident.retain(|_, &mut frame| frame != victim);
                    victim
                }
                used => used as Frame,
            };
            Policy::admit(&mut auto, frame, page, Access::Read);
            resident.insert(page, frame);
        }
        let reported = reported.lock().expect("no panic");
        assert!(reported.values().map(Vec::len).sum::<usize>() > 100);
        for (page, classes) in &*reported {
            assert!(classes.iter().all(|&class| u64::from(class) == page + 100));
        }
    }

    #[test]
    fn experts_that_do_not_ask_cost_nothing() {
        let spec: PolicySpec = "auto:experts=(lru,fifo)".parse().expect("a policy");
        let auto = Auto::new(AutoConfig::from_spec(&spec), 100);
        assert!(!Policy::capabilities(&auto).contains(Capabilities::CLASSES));
        assert_eq!(auto.classes.capacity(), 0);
    }
}
