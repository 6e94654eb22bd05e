//! Dual locality.

use prefetch_index::prefetch_index;

use crate::lists::FrameLists;
use crate::parameters::{ShareOrPages, parameters};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, ParameterKind, PolicyEntry, text_beside};

/// A sequence has at most this many pages, so that there is a list for each size.
const LONGEST: usize = 64;

/// Lists 0 to `LONGEST` - 1 hold the pages of sequences of 1 to `LONGEST` pages.
const BANK: usize = LONGEST;
const CORRELATION: usize = LONGEST + 1;
const LISTS: usize = LONGEST + 2;

/// LRU over sequences of neighbouring pages in place of pages: single pages, which would have to be
/// read one by one, stay resident longer.
///
/// Pages of sequences of one size are evicted in the order in which the sequences were formed,
/// since L never falls; so a list per size is in order of H, and the policy compares only the ends
/// of the lists that are not empty. A reconstruction from descriptions of the algorithm: the
/// paper's block table, with which it also requires that neighbours were read together before, is
/// left out.
pub struct Dulo {
    lists: FrameLists<LISTS>,
    list_of: Vec<u8>,
    pages: Vec<Page>,
    /// H of the page's sequence, while it is in one.
    values: Vec<f64>,
    /// L, the H of the sequence evicted from last.
    inflation: f64,
    /// Bit i: list i of the sequences is not empty.
    sizes: u64,
    correlation_size: u32,
    bank_size: u32,
    /// The bank's frames in order of page number; a field so that its memory is reused.
    sorted: Vec<Frame>,
}

parameters! {
    /// The parameters of [`Dulo`].
    pub struct DuloConfig {
        correlation: ShareOrPages = {
            kind: ParameterKind::ShareOrPages,
            default: "5%",
            about: "size of the correlation buffer, which every page referenced enters",
        },
        bank: ShareOrPages = {
            kind: ParameterKind::ShareOrPages,
            default: "10%",
            about: "size of the sequencing bank, at least one page",
        },
    }
}

impl RegisteredPolicy for Dulo {
    type Config = DuloConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "dulo",
        aliases: &[],
        params: DuloConfig::PARAMS,
        summary: "Sequences of neighbouring pages in place of pages: long ones are evicted first, single pages stay.",
        how: text_beside!("dulo.md"),
        when: "Use it on disks, where reading neighbours costs little more than reading one page (Jiang et al.). The bill here charges every page read alike, so it shows only the price of that: a little more than lru, and more with a larger bank. CFDC, which keeps dirty neighbours together so that they are written together, takes it as an example.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(25),
        source: "Jiang, Ding, Chen, Tan and Zhang, FAST 2005; CFDC, section 3.1",
    };

    fn new(config: DuloConfig, frames: u32) -> Self {
        let bank_size = config.bank.of(frames).max(1);
        Dulo {
            lists: FrameLists::new(frames),
            list_of: vec![0; frames as usize],
            pages: vec![0; frames as usize],
            values: vec![0.0; frames as usize],
            inflation: 0.0,
            sizes: 0,
            correlation_size: config.correlation.of(frames),
            bank_size,
            sorted: Vec::with_capacity(bank_size.min(frames) as usize),
        }
    }
}

impl Dulo {
    #[inline]
    fn list_of(&self, frame: Frame) -> usize {
        usize::from(self.list_of[frame as usize])
    }

    #[inline]
    fn push(&mut self, list: usize, frame: Frame) {
        self.list_of[frame as usize] = list as u8;
        self.lists.push_mru(list, frame);
    }

    #[inline]
    fn leave(&mut self, frame: Frame) {
        let list = self.list_of(frame);
        self.lists.remove(list, frame);
        if list < LONGEST && self.lists.len(list) == 0 {
            self.sizes &= !(1 << list);
        }
    }

    /// A page that was referenced enters the correlation buffer.
    #[inline]
    fn enter(&mut self, frame: Frame) {
        self.push(CORRELATION, frame);
        if self.lists.len(CORRELATION) > self.correlation_size
            && let Some(oldest) = self.lists.lru(CORRELATION)
        {
            self.lists.remove(CORRELATION, oldest);
            self.push(BANK, oldest);
            if self.lists.len(BANK) == self.bank_size {
                self.form_sequences();
            }
        }
    }

    /// Sorts the pages of the bank into sequences.
    fn form_sequences(&mut self) {
        let mut sorted = std::mem::take(&mut self.sorted);
        while let Some(frame) = self.lists.lru(BANK) {
            self.lists.remove(BANK, frame);
            sorted.push(frame);
        }
        sorted.sort_unstable_by_key(|&frame| self.pages[frame as usize]);
        let pages = &self.pages;
        let follows = |a: &Frame, b: &Frame| pages[*b as usize] - pages[*a as usize] == 1;
        let runs = sorted.chunk_by(follows);
        for sequence in runs.flat_map(|run| run.chunks(LONGEST)) {
            let list = sequence.len() - 1;
            self.sizes |= 1 << list;
            for &frame in sequence {
                self.values[frame as usize] = self.inflation + 1.0 / sequence.len() as f64;
                self.list_of[frame as usize] = list as u8;
                self.lists.push_mru(list, frame);
            }
        }
        sorted.clear();
        self.sorted = sorted;
    }

    /// The page in a sequence that is evicted first.
    #[inline]
    fn first_of_sequences(&self, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let mut best: Option<Frame> = None;
        let mut sizes = self.sizes;
        while sizes != 0 {
            let longest = sizes.ilog2() as usize;
            sizes &= !(1 << longest);
            let value = |frame: Frame| self.values[frame as usize];
            if let Some(frame) = self.lists.find_from_lru(longest, &may_evict)
                && best.is_none_or(|best| value(frame) < value(best))
            {
                best = Some(frame);
            }
        }
        best
    }
}

impl Policy for Dulo {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.leave(frame);
        self.enter(frame);
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        prefetch_index(&self.list_of, frame as usize);
        self.lists.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.first_of_sequences(&may_evict)
            .or_else(|| self.lists.find_from_lru(BANK, &may_evict))
            .or_else(|| self.lists.find_from_lru(CORRELATION, may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        self.pages[frame as usize] = page;
        self.enter(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        if self.list_of(frame) < LONGEST {
            self.inflation = self.inflation.max(self.values[frame as usize]);
        }
        self.leave(frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
