//! Write-aware timestamp tracking.

use ebbpool_cost::Decimal;

use crate::parameters::{parameters, whole};
use crate::policy::{Access, Capabilities, Costs, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::sample::FrameSampler;
use crate::spec::{MemoryUse, ParameterKind, PolicyEntry, text_beside};

/// Accesses that the policy remembers of each page (K_R of the authors' simulator).
const ACCESSES: usize = 8;
/// Writes that the policy remembers of each page (K_W).
const WRITES: usize = 4;

/// The epochs of the latest accesses of one kind, newest at `newest`.
///
/// Epochs are counted modulo 2^16. Meanwhile as many pages are missed as fill the buffer 64 times at
/// the most epochs, and 16,384 times by default; a page that is not referenced for that long does not
/// stay, unless it is pinned, and then its age begins again.
#[derive(Clone, Copy)]
struct Timestamps<const N: usize> {
    epochs: [u16; N],
    newest: u8,
    len: u8,
}

impl<const N: usize> Default for Timestamps<N> {
    fn default() -> Self {
        Timestamps { epochs: [0; N], newest: 0, len: 0 }
    }
}

impl<const N: usize> Timestamps<N> {
    /// Notes an access, unless one of this epoch is noted already.
    #[inline]
    fn note(&mut self, epoch: u16) {
        if self.len > 0 && self.epochs[usize::from(self.newest)] == epoch {
            return;
        }
        self.newest = (self.newest + 1) % N as u8;
        self.epochs[usize::from(self.newest)] = epoch;
        self.len = (self.len + 1).min(N as u8);
    }

    /// The highest subfrequency: i divided by the epochs since the i-th latest access, at most 1. The
    /// first counts `first` instead of 1.
    #[inline]
    fn frequency(&self, now: u16, first: f64) -> f64 {
        let mut best = 0.0;
        let mut at = usize::from(self.newest);
        for order in 0..usize::from(self.len) {
            let age = now.wrapping_sub(self.epochs[at]);
            let accesses = if order == 0 { first } else { (order + 1) as f64 };
            let frequency = (accesses / (f64::from(age) + 1.0)).min(1.0);
            if frequency > best {
                best = frequency;
            }
            at = if at == 0 { N - 1 } else { at - 1 };
        }
        best
    }
}

/// What the policy remembers of a resident page.
#[derive(Clone, Copy, Default)]
struct PageTimestamps {
    accesses: Timestamps<ACCESSES>,
    writes: Timestamps<WRITES>,
}

/// Evicts, of a few pages drawn at random, the one whose highest rate of accesses, plus R times the
/// highest rate of writes, is least.
///
/// Built after the authors' talk and simulator, with the constants of its run `WATT`: an access is noted
/// in the epoch before the miss that begins the next one; the value of writes counts for clean pages
/// too; nothing is remembered of evicted pages (the simulator can, and that run does not). Two choices
/// differ from the simulator: it weighs a write by a constant, this policy by R, the asymmetry that
/// the driver reports; and it draws different pages, this policy draws with replacement.
pub struct Watt {
    pages: Vec<PageTimestamps>,
    sampler: FrameSampler,
    sample: u32,
    first: f64,
    asymmetry: f64,
    epoch: u16,
    misses_in_epoch: u32,
    misses_per_epoch: u32,
}

parameters! {
    /// The parameters of [`Watt`].
    pub struct WattConfig {
        sample: u32 = {
            kind: whole(1, 1024),
            default: "8",
            about: "frames compared for each victim",
        },
        epochs: u32 = {
            kind: whole(1, 1024),
            default: "4",
            about: "epochs in which as many pages are missed as there are frames; accesses in the same epoch count once",
        },
        first: Decimal = {
            kind: ParameterKind::Share,
            default: "0.1",
            about: "how much the latest access counts by itself, where the i-th latest counts i",
        },
    }
}

impl RegisteredPolicy for Watt {
    type Config = WattConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "watt",
        aliases: &[],
        params: WattConfig::PARAMS,
        summary: "Evicts, of a sample, the page with the least rate of accesses plus R times the rate of writes, from the times of its latest eight accesses and four writes.",
        how: text_beside!("watt.md"),
        when: "Use it as a rival that weighs writes by what they cost and tracks single pages; LeanStore has it. By its authors' figures, on five traces, it misses less on the whole than eight other policies, and for the pages that it writes less than cflru and lru-wsr. It forgets a page with its eviction, so that it learns little of pages that return after a long time.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(28),
        source: "Vöhringer and Leis, PVLDB 16, 2023, and the authors' simulator",
    };

    fn new(config: WattConfig, frames: u32) -> Self {
        Watt {
            pages: vec![PageTimestamps::default(); frames as usize],
            sampler: FrameSampler::new(),
            // The authors compare at most half of the pages, so that the victim is not always the
            // same.
            sample: config.sample.min(frames / 2).max(1),
            first: config.first.to_f64(),
            asymmetry: Costs::default().finite_asymmetry(),
            epoch: 0,
            misses_in_epoch: 0,
            misses_per_epoch: (frames / config.epochs).max(1),
        }
    }
}

impl Watt {
    #[inline]
    fn note(&mut self, frame: Frame, access: Access) {
        let page = &mut self.pages[frame as usize];
        page.accesses.note(self.epoch);
        if access.is_write() {
            page.writes.note(self.epoch);
        }
    }
}

impl Policy for Watt {
    const LOOKS_AT_PAGES: bool = false;
    const CAPABILITIES: Capabilities = Capabilities::LEAVES_HITS_OUT.union(Capabilities::COSTS);

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.note(frame, access);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let Watt { pages, sampler, epoch, first, asymmetry, .. } = self;
        let may_evict = |frame: Frame| pages[frame as usize].accesses.len > 0 && may_evict(frame);
        let value = |frame: Frame| {
            let page = &pages[frame as usize];
            let writes = page.writes.frequency(*epoch, *first);
            page.accesses.frequency(*epoch, *first) + *asymmetry * writes
        };
        let frames = pages.len() as u32;
        match incoming {
            None => sampler.least_next(frames, self.sample, may_evict, value),
            Some(_) => sampler.least(frames, self.sample, may_evict, value),
        }
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.note(frame, access);
        self.misses_in_epoch += 1;
        if self.misses_in_epoch == self.misses_per_epoch {
            self.misses_in_epoch = 0;
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.pages[frame as usize] = PageTimestamps::default();
    }

    fn cleaned(&mut self, _frame: Frame) {}

    fn costs(&mut self, costs: Costs) {
        self.asymmetry = costs.finite_asymmetry();
    }
}
