//! Least hit density.

use prefetch_index::prefetch_index;

use crate::parameters::{parameters, whole};
use crate::policy::{Access, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::sample::FrameSampler;
use crate::spec::{MemoryUse, PolicyEntry, text_beside};

/// Ages are counted in units of a power of two references, so that this many units are a hundred
/// times as many references as there are frames.
const AGES: usize = 20_000;
const OLDEST: u16 = AGES as u16 - 1;
/// The frames for each reference in a unit of age: an error of 1 % of the size of the buffer.
const FRAMES_PER_REFERENCE: u32 = (AGES / 100) as u32;
/// Classes of pages by the sum of their last two ages at a hit, in doublings.
const CLASSES: usize = 16;
/// The share that observations keep at each reconfiguration.
const DECAY: f64 = 0.9;
/// The number of pages admitted last that are compared too, if their density was low.
const RECENT: usize = 8;
/// While the policy learns, one page in 32 is not evicted, as long as such pages take less than one
/// frame in a hundred.
const EXPLORED: u32 = 32;
const FRAMES_PER_EXPLORER: u32 = 100;
const LEARNING: u32 = 50;
/// Frames compared for each victim while the policy learns.
const FIRST_SAMPLE: u32 = 8;
/// The authors' interval between reconfigurations, in references.
const LONGEST_INTERVAL: u64 = 1 << 20;

/// A resident page. One reference is one unit of time.
#[derive(Clone, Copy, Default)]
struct PageAge {
    referenced_at: u64,
    /// Its ages at its last hit and at the one before it, in units of age.
    last_ages: [u16; 2],
    resident: bool,
    explorer: bool,
}

impl PageAge {
    /// The class: how often the sum of the last ages can double before it is the oldest age.
    #[inline]
    fn class(&self) -> usize {
        let age = u32::from(self.last_ages[0]) + u32::from(self.last_ages[1]);
        let most = CLASSES as u32 - 1;
        let below = (AGES as u32).ilog2().checked_sub(age.max(1).ilog2());
        let doublings = match below {
            Some(below) if age << below < AGES as u32 => below + 1,
            Some(below) => below,
            None => 0,
        };
        doublings.min(most) as usize
    }
}

/// The indices of an age's counts.
const HITS: usize = 0;
const EVICTIONS: usize = 1;

/// Counts of hits and evictions, and the densities computed from them, by class and age.
struct HitDensities {
    /// Hits and evictions.
    counts: Vec<[f32; 2]>,
    density: Vec<f32>,
    /// The number of ages of each class up to the oldest that was counted: beyond it all is 0, and
    /// need not be computed.
    counted: [usize; CLASSES],
    /// Densities have been computed; until then they are a guess.
    computed: bool,
    /// log2 of the references in a unit of age.
    unit: u32,
}

impl HitDensities {
    fn new(frames: u32) -> Self {
        let references_per_unit = frames.div_ceil(FRAMES_PER_REFERENCE);
        HitDensities {
            counts: vec![[0.0; 2]; CLASSES * AGES],
            density: vec![0.0; CLASSES * AGES],
            counted: [0; CLASSES],
            computed: false,
            unit: references_per_unit.next_power_of_two().ilog2().max(1),
        }
    }

    #[inline]
    fn age(&self, page: &PageAge, now: u64) -> u16 {
        ((now - page.referenced_at) >> self.unit).min(u64::from(OLDEST)) as u16
    }

    /// The expected hits per unit of age.
    #[inline]
    fn of(&self, page: &PageAge, now: u64) -> f32 {
        let age = match self.age(page, now) {
            OLDEST => return f32::MIN,
            age => usize::from(age),
        };
        let class = page.class();
        let density = match self.computed {
            true => self.density[class * AGES + age],
            false => ((class + 1) as f64 / (age + 1) as f64) as f32,
        };
        density + if page.explorer { 1.0 } else { 0.0 }
    }

    /// Counts a hit or an eviction of the page.
    #[inline]
    fn count(&mut self, page: &PageAge, now: u64, event: usize) {
        let (class, age) = (page.class(), usize::from(self.age(page, now)));
        self.counts[class * AGES + age][event] += 1.0;
        self.counted[class] = self.counted[class].max(age + 1);
    }

    #[cold]
    fn reconfigure(&mut self) {
        let classes = self.counts.chunks_mut(AGES);
        let classes = classes.zip(self.density.chunks_mut(AGES));
        for ((counts, density), &counted) in classes.zip(&self.counted) {
            let (mut hits, mut events, mut lifetime) = (0.0, 0.0, 0.0);
            let ages = counts[..counted].iter_mut().zip(&mut density[..counted]);
            for (counts, density) in ages.rev() {
                *counts = counts.map(|count| (f64::from(count) * DECAY) as f32);
                hits += f64::from(counts[HITS]);
                events += f64::from(counts[HITS]) + f64::from(counts[EVICTIONS]);
                lifetime += events;
                *density = match events > 1e-5 {
                    true => (hits / lifetime) as f32,
                    false => 0.0,
                };
            }
        }
        self.computed = true;
    }
}

/// Evicts, of pages drawn at random, the one with the fewest hits to be expected by the time that it
/// will stay.
///
/// Built after the authors' code, for pages of one size of one application. The choices made here:
/// the number of pages is known, so that the unit of age is the one that their code arrives at from the
/// beginning; the policy reconfigures more often than every 2^20 references, since reference strings
/// are shorter than the authors'; and an evicted page leaves the list of recent admissions.
pub struct Lhd {
    pages: Vec<PageAge>,
    densities: HitDensities,
    sampler: FrameSampler,
    sample: u32,
    now: u64,
    interval: u64,
    next_reconfiguration: u64,
    reconfigurations: u32,
    /// Frames that may still be given to explorers.
    explorers: u32,
    recent: [Option<Frame>; RECENT],
    next_recent: usize,
    victims_density: f64,
}

parameters! {
    /// The parameters of [`Lhd`].
    pub struct LhdConfig {
        sample: u32 = {
            kind: whole(1, 1024),
            default: "32",
            about: "frames compared for each victim once the policy has learned",
        },
        interval: u64 = {
            kind: whole(1, 1_000_000),
            default: "16",
            about: "references per frame after which densities are computed anew, at most 1,048,576 references",
        },
    }
}

impl RegisteredPolicy for Lhd {
    type Config = LhdConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "lhd",
        aliases: &[],
        params: LhdConfig::PARAMS,
        summary: "Evicts, of a sample, the page with the fewest hits to be expected by the time that it will stay.",
        how: text_beside!("lhd.md"),
        when: "Use it to compare with a policy that learns only how densely pages are hit: it ignores writes. It needs some intervals to learn, and has tables of 3.8 MB whatever the number of frames (the memory stated is that for 16,384 frames).",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(16).with_ghosts(234),
        source: "Beckmann, Chen and Cidon, NSDI 2018, and the authors' code",
    };

    fn new(config: LhdConfig, frames: u32) -> Self {
        let interval = (config.interval * u64::from(frames)).min(LONGEST_INTERVAL);
        Lhd {
            pages: vec![PageAge::default(); frames as usize],
            densities: HitDensities::new(frames),
            sampler: FrameSampler::new(),
            sample: config.sample,
            now: 0,
            interval,
            next_reconfiguration: interval,
            reconfigurations: 0,
            explorers: frames / FRAMES_PER_EXPLORER,
            recent: [None; RECENT],
            next_recent: 0,
            victims_density: 0.0,
        }
    }
}

impl Lhd {
    /// The page in the frame was referenced, and its ages are updated: decides whether it becomes an
    /// explorer, and ends the reference.
    #[inline]
    fn referenced(&mut self, frame: Frame, mut page: PageAge, admitted: bool) {
        if page.explorer {
            self.explorers += 1;
        }
        page.referenced_at = self.now;
        let explore = self.sampler.below(EXPLORED) == 0;
        page.explorer = explore && self.explorers > 0 && self.reconfigurations < LEARNING;
        if page.explorer {
            self.explorers -= 1;
        }
        self.pages[frame as usize] = page;
        if admitted && !explore && f64::from(self.densities.of(&page, self.now)) < self.victims_density {
            self.recent[self.next_recent] = Some(frame);
            self.next_recent = (self.next_recent + 1) % RECENT;
        }
        self.now += 1;
        if self.now == self.next_reconfiguration {
            self.next_reconfiguration += self.interval;
            self.densities.reconfigure();
            self.reconfigurations = self.reconfigurations.saturating_add(1);
        }
    }
}

impl Policy for Lhd {
    const LOOKS_AT_PAGES: bool = false;
    const CAPABILITIES: Capabilities = Capabilities::empty();

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        let mut page = self.pages[frame as usize];
        self.densities.count(&page, self.now, HITS);
        page.last_ages = [self.densities.age(&page, self.now), page.last_ages[0]];
        self.referenced(frame, page, false);
    }

    #[inline]
    fn miss(&mut self, _page: Page, _ghost: Option<Ghost>, _access: Access) {}

    #[inline]
    fn prefetch(&self, frame: Frame) {
        prefetch_index(&self.pages, frame as usize);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let size = match self.reconfigurations > LEARNING {
            true => self.sample,
            false => FIRST_SAMPLE.min(self.sample),
        };
        let (pages, densities) = (&self.pages, &self.densities);
        let may_evict = |frame: Frame| pages[frame as usize].resident && may_evict(frame);
        let density_of = |frame: Frame| densities.of(&pages[frame as usize], self.now);
        let frames = pages.len() as u32;
        let mut sampler = self.sampler.clone();
        let sampled = sampler.least(frames, size, may_evict, density_of);
        let mut victim = sampled.map(|frame| (density_of(frame), frame));
        for frame in self.recent.into_iter().flatten() {
            let density = density_of(frame);
            if may_evict(frame) && victim.is_some_and(|(least, _)| density < least) {
                victim = Some((density, frame));
            }
        }
        let (density, frame) = victim?;
        if incoming.is_none() {
            // The next search draws the same frames.
            return Some(frame);
        }
        self.sampler = sampler;
        self.victims_density = DECAY * self.victims_density + (1.0 - DECAY) * f64::from(density);
        Some(frame)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, _access: Access) {
        let page = PageAge { last_ages: [0, AGES as u16], resident: true, ..PageAge::default() };
        self.referenced(frame, page, true);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        let page = self.pages[frame as usize];
        self.densities.count(&page, self.now, EVICTIONS);
        if page.explorer {
            self.explorers += 1;
        }
        self.pages[frame as usize] = PageAge::default();
        for recent in &mut self.recent {
            if *recent == Some(frame) {
                *recent = None;
            }
        }
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
