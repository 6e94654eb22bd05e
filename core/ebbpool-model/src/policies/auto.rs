//! auto, as the `how` of its entry in the registry describes it.

use std::collections::{BTreeMap, BTreeSet};

use crate::Model;
use crate::ModelEvent;
use crate::buffer::{Buffer, Policy, Resident};
use crate::spec::{Spec, items};

/// Pages handed over at a miss.
const HANDED_OVER_TOGETHER: usize = 8;

/// The parameters except the experts.
pub(crate) struct Parameters {
    /// Frames of a miniature.
    pub(crate) part: usize,
    pub(crate) frames: usize,
    pub(crate) grain: u64,
    pub(crate) window: u64,
    pub(crate) lead: u64,
    pub(crate) patience: u64,
}

impl Parameters {
    /// `experts` are as they are written, one by one.
    pub(crate) fn from_spec(spec: &mut Spec, experts: &[String], m: usize) -> Parameters {
        let given = |expert: &String| {
            let (_, parameters) = expert.split_once(':').unwrap_or((expert, ""));
            let pages = items(parameters).into_iter().filter_map(|item| {
                let number = item.strip_prefix("block=").or(item.strip_prefix("cluster="));
                number.map(|number| number.parse::<u64>().expect("a number of pages"))
            });
            pages.max().unwrap_or(1)
        };
        let grain = experts.iter().map(given).max().unwrap_or(1).max(1);
        let fewest = spec.number("fewest", 512) * grain.isqrt();
        let share = spec.fraction("sample", "6.25%").of(m);
        Parameters {
            part: share.max(fewest as usize).min(m),
            frames: m,
            grain,
            window: spec.number("window", 256),
            lead: spec.number("lead", 150),
            patience: spec.number("patience", 1),
        }
    }
}

/// One expert on the sample.
struct Miniature {
    buffer: Box<dyn Model>,
    /// In this round.
    reads: u64,
    writes: u64,
    /// The reads and writes by which the active expert exceeded this one, faded.
    lead: (f64, f64),
}

/// The experts over the frames, which have the pages, and the same experts over the sample.
pub(crate) struct Auto {
    parameters: Parameters,
    experts: Vec<Resident>,
    active: usize,
    previous: usize,
    miniatures: Vec<Miniature>,
    misses: usize,
    /// Since the beginning or the last switch.
    rounds: u64,
    /// Reads, writes and rounds of the active experts, faded.
    paid: (f64, f64, f64),
    asymmetry: f64,
    /// The expert whose page was chosen as victim last, until the next admission.
    victim_owner: Option<usize>,
    /// The class of the page about to be missed, and those of all pages missed so far.
    class: u32,
    classes: BTreeMap<u64, u32>,
}

impl Auto {
    /// Each expert is given twice, over the frames and in miniature.
    pub(crate) fn new(experts: Vec<(Box<dyn Policy>, Box<dyn Policy>)>, parameters: Parameters) -> Auto {
        let mut over_the_frames = Vec::new();
        let mut miniatures = Vec::new();
        for (expert, in_miniature) in experts {
            over_the_frames.push(Resident::new(expert));
            miniatures.push(Miniature {
                buffer: Box::new(Buffer::new(parameters.part, in_miniature, None)),
                reads: 0,
                writes: 0,
                lead: (0.0, 0.0),
            });
        }
        Auto {
            parameters,
            experts: over_the_frames,
            active: 0,
            previous: 0,
            miniatures,
            misses: 0,
            rounds: 0,
            paid: (0.0, 0.0, 0.0),
            asymmetry: 1.0,
            victim_owner: None,
            class: 0,
            classes: BTreeMap::new(),
        }
    }

    fn class_of(&self, page: u64) -> u32 {
        self.classes.get(&page).copied().unwrap_or(0)
    }

    /// Whether the page is in the sample.
    fn sampled(&self, page: u64) -> bool {
        let grain = page / self.parameters.grain;
        let hash = (grain ^ (grain >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // hash / 2^64 < part / frames
        u128::from(hash) < ((self.parameters.part as u128) << 64) / self.parameters.frames as u128
    }

    fn owner(&self, page: u64) -> usize {
        let mut experts = self.experts.iter();
        let its = experts.position(|expert| expert.dirty(page).is_some());
        its.expect("a resident page")
    }

    fn handing_over(&self) -> bool {
        self.previous != self.active && !self.experts[self.previous].pages().is_empty()
    }

    fn try_out(&mut self, page: u64, write: bool) {
        if !self.sampled(page) {
            return;
        }
        let previous = self.miniatures[self.active].reads;
        let class = self.class_of(page);
        for miniature in &mut self.miniatures {
            miniature.buffer.class(class);
            let events = miniature.buffer.reference(page, write, None, &BTreeSet::new());
            for event in events {
                match event {
                    ModelEvent::Read(_) | ModelEvent::Pad(_) => miniature.reads += 1,
                    ModelEvent::Write(_) => miniature.writes += 1,
                    ModelEvent::Evict(_) => {}
                }
            }
        }
        if self.miniatures[self.active].reads > previous {
            self.misses += 1;
        }
        if self.misses == self.parameters.part {
            self.misses = 0;
            self.end_round();
        }
    }

    fn bill(&self, reads: f64, writes: f64) -> f64 {
        reads + writes * self.asymmetry
    }

    fn end_round(&mut self) {
        let fading = 1.0 - 1.0 / self.parameters.window as f64;
        let reads = self.miniatures[self.active].reads as f64;
        let writes = self.miniatures[self.active].writes as f64;
        self.paid.0 = self.paid.0 * fading + reads;
        self.paid.1 = self.paid.1 * fading + writes;
        self.paid.2 = self.paid.2 * fading + 1.0;
        for at in 0..self.miniatures.len() {
            let rival = &self.miniatures[at];
            let lead =
                (rival.lead.0 * fading + (reads - rival.reads as f64), rival.lead.1 * fading + (writes - rival.writes as f64));
            let is_behind = self.bill(lead.0, lead.1) < 0.0;
            let rival = &mut self.miniatures[at];
            rival.lead = if is_behind { (0.0, 0.0) } else { lead };
            rival.reads = 0;
            rival.writes = 0;
        }
        self.rounds += 1;
        if self.rounds <= self.parameters.patience {
            return;
        }
        let saved = |one: &Miniature| self.bill(one.lead.0, one.lead.1);
        let leads: Vec<f64> = self.miniatures.iter().map(saved).collect();
        let longest = leads.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let first = leads.iter().position(|lead| *lead == longest);
        let of_a_round = self.bill(self.paid.0, self.paid.1) / self.paid.2;
        let enough = self.parameters.lead as f64 / 100.0 * of_a_round;
        if longest > enough && !self.handing_over() {
            self.previous = self.active;
            self.active = first.expect("there are experts");
            self.rounds = 0;
            self.forget_leads();
        }
    }

    fn forget_leads(&mut self) {
        for miniature in &mut self.miniatures {
            miniature.lead = (0.0, 0.0);
        }
    }

    fn hand_over(&mut self, write: bool) {
        for _ in 0..HANDED_OVER_TOGETHER {
            if !self.handing_over() {
                return;
            }
            let page = self.experts[self.previous].victim(write, &BTreeSet::new());
            let was_dirty = self.experts[self.previous].dirty(page).expect("it is resident");
            self.experts[self.previous].evict(page);
            let class = self.class_of(page);
            self.experts[self.active].class(class);
            self.experts[self.active].miss(page, was_dirty);
            self.experts[self.active].admit(page, was_dirty);
        }
    }
}

impl Policy for Auto {
    fn hit(&mut self, page: u64, write: bool) {
        self.try_out(page, write);
        let owner = self.owner(page);
        self.experts[owner].hit(page, write);
    }

    fn class(&mut self, class: u32) {
        self.class = class;
    }

    fn miss(&mut self, page: u64, write: bool) {
        self.classes.insert(page, self.class);
        self.try_out(page, write);
        self.hand_over(write);
        self.experts[self.active].class(self.class);
        self.experts[self.active].miss(page, write);
    }

    fn victim(&mut self, write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let mut resident = self.experts[self.active].pages().keys();
        let has_victim = resident.any(|page| !pinned.contains(page));
        let expert = match has_victim {
            true => self.active,
            false => self.previous,
        };
        self.victim_owner = Some(expert);
        self.experts[expert].victim(write, pinned)
    }

    fn evicted_with(&self, victim: u64) -> Vec<u64> {
        self.experts[self.owner(victim)].evicted_with(victim)
    }

    fn padded_block(&self) -> Option<u64> {
        self.experts[self.victim_owner?].padded_block()
    }

    fn written_with(&self, victim: u64) -> Vec<u64> {
        self.experts[self.owner(victim)].written_with(victim)
    }

    fn admit(&mut self, page: u64, write: bool) {
        self.victim_owner = None;
        self.experts[self.active].admit(page, write);
    }

    fn evict(&mut self, page: u64) {
        let owner = self.owner(page);
        self.experts[owner].evict(page);
    }

    fn end(&mut self, page: u64) {
        let owner = self.owner(page);
        self.experts[owner].end(page);
    }

    fn clean(&mut self, page: u64) {
        let owner = self.owner(page);
        self.experts[owner].clean(page);
        // Pages cleaned with a victim are named by the expert that chose it.
        if self.victim_owner.is_none() && self.sampled(page) {
            for miniature in &mut self.miniatures {
                if miniature.buffer.resident().contains(&(page, true)) {
                    miniature.buffer.clean(page);
                    miniature.writes += 1;
                }
            }
        }
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
        for expert in &mut self.experts {
            expert.costs(asymmetry);
        }
        for miniature in &mut self.miniatures {
            miniature.buffer.costs(asymmetry);
        }
    }

    fn target(&self) -> Option<f64> {
        self.experts[self.active].target()
    }

    fn estimates(&self) -> Option<[f64; 3]> {
        self.experts[self.active].estimates()
    }
}
