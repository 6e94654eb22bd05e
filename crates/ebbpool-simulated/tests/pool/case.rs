//! The case of a seed: options, pages, scripts, and faults.

use std::time::Duration;

use ebbpool_simulation::Random;

use crate::disk::FaultRates;
use crate::model::SLOTS;

const POLICIES: [&str; 20] = [
    "lru",
    "ebb",
    "cflru",
    "fd-buffer:group=1",
    "cfdc:cluster=4",
    "bplru:block=4",
    "clock",
    "cflru-c",
    "lru-wsr",
    "casa",
    "arc",
    "2q",
    "fab:block=4",
    "lirs",
    "s3-fifo",
    "sieve",
    "ace",
    "lru-c",
    "ad-lru",
    "wa-landlord",
];

/// 2^64 divided by the golden ratio, the key of the page table's hash in a simulation (`sync.rs` of the pool).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Its inverse: the multiples of this number have small hashes if the product is not folded.
const INVERSE_GOLDEN: u64 = 0xf1de_83e1_9937_733d;

/// Page numbers whose hashes begin with ten zeros: all of them are in the first of up to 1024 chains.
fn of_one_chain(random: &mut Random, count: u64) -> Vec<u64> {
    let hash = |page: u64| {
        let product = u128::from(page) * u128::from(GOLDEN);
        (product >> 64) as u64 ^ product as u64
    };
    let from = random.any() >> random.below(40);
    let pages = (0..).map(|at| from.wrapping_add(at));
    let found = pages.filter(|&page| hash(page) >> 54 == 0);
    found.take(count as usize).collect()
}

/// One call of the pool, or a few that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Read {
        page: u64,
        hold: u64,
    },
    Write {
        page: u64,
        slot: u64,
        value: u64,
        hold: u64,
        /// The record is appended to the log before the page is changed.
        log_first: bool,
    },
    /// Fixes the page with `fix_new`: all zeros.
    New {
        page: u64,
    },
    Downgrade {
        page: u64,
        value: u64,
        hold: u64,
    },
    /// Holds two pages at the same time.
    Two {
        page: u64,
        other: u64,
        write: bool,
        hold: u64,
    },
    Optimistic {
        page: u64,
    },
    Scan {
        from: u64,
        count: u64,
    },
    Allocate,
    /// Writes one of the pages that the client has allocated.
    WriteOwn {
        which: u64,
        value: u64,
    },
    /// Fills a page anew without a record in the log, and flushes it.
    Unlogged {
        which: u64,
        value: u64,
    },
    Free {
        which: u64,
    },
    Flush {
        page: u64,
    },
    Checkpoint,
    Commit,
    /// Panics in the middle of a change; after a time the page is discarded and redone.
    Panic {
        page: u64,
        value: u64,
        when: When,
        repair_after: u64,
    },
    /// Discards the page's content in memory, and redoes it.
    Discard {
        page: u64,
        redo_after: u64,
    },
    Sleep {
        time: u64,
    },
    Stats,
}

/// The moment of a panic during a change of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    BeforeAppend,
    AfterAppend,
    AfterSetLsn,
}

/// One life of the pool, from its opening to its end.
#[derive(Clone, Debug)]
pub struct Life {
    pub frames: u32,
    pub batch: u32,
    pub background: bool,
    pub read_ahead: u32,
    pub reserve: u32,
    pub budget: f64,
    pub most_delay: Duration,
    pub max_dirty_age: Option<Duration>,
    pub dense_pages: usize,
    pub patience: Duration,
    pub fixed_costs: bool,
    /// The power fails at this change of the disk, counted from 1.
    pub crash_at: Option<u64>,
    pub crash_seed: u64,
    pub closes: bool,
    /// It ends as soon as its clients have ended, as if the process were killed.
    pub stops: bool,
    pub fault_rates: FaultRates,
    /// The listener panics at this event, counted from 1.
    pub listener_panics: Option<u64>,
    /// By client.
    pub scripts: Vec<Vec<Step>>,
}

/// The main subject of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Clients with scripts.
    General,
    /// As `General`, with pages that all share one chain of the page table, which is longer than a search without the
    /// lock follows.
    Chain,
    /// As `General`, with syncs that fail while others are under way.
    Syncs,
    /// As `General`, with writes that fail and tear the page, and a double-write area.
    Torn,
    /// A writer among readers.
    Readers,
    /// A thread that waits because all pins of a page are taken.
    Pins,
    /// Fixes in sequence, with read-ahead.
    Sequence,
    /// A thread-local that uses the pool when its thread ends.
    Farewell,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub kind: Kind,
    pub policy: &'static str,
    pub page_size: usize,
    pub area: bool,
    pub raw: bool,
    pub logged: bool,
    /// The pages that all clients use.
    pub pages: Vec<u64>,
    /// The page numbers may be far apart.
    pub scattered: bool,
    /// The storage is grown for all pages at first.
    pub grown: bool,
    pub lives: Vec<Life>,
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0070_6f6f_6c00);
        let kind = match random.below(100) {
            0..4 => Kind::Chain,
            4..8 => Kind::Readers,
            8 => Kind::Pins,
            9..12 => Kind::Sequence,
            12 => Kind::Farewell,
            13..18 => Kind::Syncs,
            18..23 => Kind::Torn,
            _ => Kind::General,
        };
        let count = match kind {
            Kind::Chain => 66 + random.below(60),
            _ => random.pick(&[2, 4, 6, 8, 12, 20]),
        };
        let (pages, scattered) = numbers(&mut random, kind, count);
        let raw = random.one_in(12) && !matches!(kind, Kind::Syncs | Kind::Torn);
        let logged = !random.one_in(8);
        let lives = match kind {
            // A raw page has no checksum that shows whether it is whole after a crash.
            Kind::General | Kind::Torn if !raw => 1 + random.below(3),
            _ => 1,
        };
        let mut case = Case {
            seed,
            kind,
            policy: random.pick(&POLICIES),
            page_size: match kind {
                // A page of one sector is not torn.
                Kind::Torn => random.pick(&[1024, 2048]),
                _ => random.pick(&[512, 512, 1024, 2048]),
            },
            area: kind == Kind::Torn || !raw && random.one_in(2),
            raw,
            logged,
            pages,
            scattered,
            grown: !random.one_in(6),
            lives: Vec::new(),
        };
        let mix = Mix::new(&mut random, &case);
        let calm = random.one_in(3);
        case.lives = (0..lives)
            .map(|life| case.life(&mut random, &mix, calm, life + 1 == lives))
            .collect();
        case
    }

    fn life(&self, random: &mut Random, mix: &Mix, calm: bool, last: bool) -> Life {
        let count = self.pages.len() as u64;
        let frames = match self.kind {
            Kind::Chain => count as u32 + random.below(20) as u32,
            _ if random.one_in(6) => 24 + random.below(60) as u32,
            _ => 1 + random.below(16) as u32,
        };
        let clients = match self.kind {
            Kind::Syncs => 2 + random.below(3),
            _ => 1 + random.below(4),
        };
        let length = match self.kind {
            Kind::Chain => 60,
            _ => random.pick(&[4, 8, 16, 30]),
        };
        let mut script = || {
            let steps = 1 + random.below(length);
            (0..steps).map(|_| mix.step(random, self)).collect()
        };
        let scripts = (0..clients).map(|_| script()).collect();
        let crashes = !last || random.one_in(2);
        let mut life = Life {
            frames,
            batch: 1 + random.below(4) as u32,
            background: random.one_in(2),
            read_ahead: random.pick(&[0, 4, 32]),
            reserve: random.below(3) as u32,
            budget: random.pick(&[0.25, 0.5, 0.9, 1.0]),
            most_delay: Duration::from_micros(random.pick(&[0, 50, 20_000])),
            max_dirty_age: random
                .one_in(4)
                .then(|| Duration::from_millis(random.pick(&[1, 10, 200]))),
            dense_pages: random.pick(&[0, 0, 4, 64]),
            patience: match random.below(40) {
                0 => Duration::MAX,
                1 => Duration::from_secs(1 << 40),
                _ => Duration::from_secs(10),
            },
            fixed_costs: random.one_in(2),
            crash_at: (crashes && !self.raw && random.one_in(2)).then(|| 1 + random.below(80)),
            crash_seed: random.any(),
            closes: random.one_in(2),
            stops: !self.raw && random.one_in(3),
            fault_rates: match self.kind {
                Kind::Syncs => FaultRates {
                    slow: 2000,
                    sync_error: random.pick(&[2, 4, 8]),
                    ..FaultRates::default()
                },
                Kind::Torn => FaultRates {
                    slow: random.pick(&[0, 200]),
                    torn: random.pick(&[2, 4, 8]),
                    ..FaultRates::default()
                },
                _ => fault_rates(random, calm, self.raw),
            },
            listener_panics: random.one_in(8).then(|| 1 + random.below(20)),
            scripts,
        };
        if self.is_tight(&life) {
            // Threads that hold all frames and wait for one more may wait in vain.
            life.patience = Duration::from_millis(200);
        }
        life
    }

    /// True if guards and transfers can take all frames, so that a thread may wait for one in vain.
    pub fn is_tight(&self, life: &Life) -> bool {
        let clients = life.scripts.len() as u32;
        // Two frames for each client, and those that are latched at the same time to be written or read ahead.
        life.frames < clients * 3 + 2 * life.batch + 8
    }
}

fn numbers(random: &mut Random, kind: Kind, count: u64) -> (Vec<u64>, bool) {
    let draw = match kind {
        Kind::Chain => 1 + random.below(4),
        Kind::Sequence | Kind::Pins | Kind::Farewell => 0,
        _ => random.below(8),
    };
    let stride = |stride: u64| (1..=count).map(|at| stride.wrapping_mul(at)).collect();
    match draw {
        1 | 2 => (of_one_chain(random, count), true),
        3 => (stride(INVERSE_GOLDEN), true),
        4 => {
            let from = random.below(1 << 20);
            let pages = (from..from + count).map(|at| INVERSE_GOLDEN.wrapping_mul(at));
            (pages.collect(), true)
        }
        5 => (
            stride(random.pick(&[75_025, 121_393, 196_418, 1_346_269])),
            true,
        ),
        6 => {
            let ends = [u64::MAX, u64::MAX - 7, 1 << 63, 1 << 32, (1 << 32) - 1, 0];
            let near = |at: u64| ends[at as usize % ends.len()].wrapping_sub(at / 6 * 3);
            ((0..count).map(near).collect(), true)
        }
        _ => ((0..count).collect(), false),
    }
}

fn fault_rates(random: &mut Random, calm: bool, raw: bool) -> FaultRates {
    let slow = random.pick(&[0, 20, 200, 2000]);
    let mut fault_rates = FaultRates {
        slow,
        reorder: random.pick(&[0, 2]),
        ..FaultRates::default()
    };
    if calm {
        return fault_rates;
    }
    for _ in 0..random.below(3) {
        let often = random.pick(&[3, 8, 20, 60]);
        match random.below(if raw { 2 } else { 8 }) {
            0 => fault_rates.read_error = often,
            1 => fault_rates.write_error = often,
            2 => fault_rates.torn = often,
            3 => fault_rates.lost = often,
            4 => fault_rates.flipped = often,
            5 => fault_rates.sync_error = often,
            6 => fault_rates.panics = often,
            _ => fault_rates.log_error = often,
        }
    }
    fault_rates
}

/// Draws a step of one kind.
type MakeStep = fn(&mut Random, &Case) -> Step;

/// The kinds of steps of a case, and their frequencies: some cases have only a few kinds.
struct Mix {
    weights: Vec<(u64, MakeStep)>,
    total: u64,
}

fn page(random: &mut Random, case: &Case) -> u64 {
    // Some pages are busier than others.
    let count = case.pages.len() as u64;
    let at = match case.kind {
        Kind::Chain => random.below(count),
        _ => random.below(count).min(random.below(count)),
    };
    case.pages[at as usize]
}

fn hold(random: &mut Random) -> u64 {
    random.pick(&[0, 0, 0, 10, 100, 1000, 5000])
}

impl Mix {
    fn new(random: &mut Random, case: &Case) -> Self {
        let all: [fn(&mut Random, &Case) -> Step; 17] = [
            |random, case| Step::Write {
                page: page(random, case),
                slot: random.below(SLOTS as u64),
                value: random.any(),
                hold: hold(random),
                log_first: random.one_in(2),
            },
            |random, case| Step::Read {
                page: page(random, case),
                hold: hold(random),
            },
            |random, case| Step::Flush {
                page: page(random, case),
            },
            |_, _| Step::Checkpoint,
            |random, case| Step::New {
                page: page(random, case),
            },
            |random, case| Step::Downgrade {
                page: page(random, case),
                value: random.any(),
                hold: hold(random),
            },
            |random, case| Step::Two {
                page: page(random, case),
                other: page(random, case),
                write: random.one_in(2),
                hold: hold(random),
            },
            |random, case| Step::Optimistic {
                page: page(random, case),
            },
            |random, case| Step::Scan {
                from: random.below(case.pages.len() as u64),
                count: 1 + random.below(8),
            },
            |_, _| Step::Allocate,
            |random, _| Step::WriteOwn {
                which: random.below(4),
                value: random.any(),
            },
            |random, _| Step::Unlogged {
                which: random.below(4),
                value: random.any(),
            },
            |random, _| Step::Free {
                which: random.below(4),
            },
            |_, _| Step::Commit,
            |random, case| Step::Panic {
                page: page(random, case),
                value: random.any(),
                when: random.pick(&[When::BeforeAppend, When::AfterAppend, When::AfterSetLsn]),
                repair_after: random.pick(&[0, 0, 100, 5000]),
            },
            |random, case| Step::Discard {
                page: page(random, case),
                redo_after: random.pick(&[0, 0, 100, 5000]),
            },
            |random, _| match random.below(3) {
                0 => Step::Stats,
                _ => Step::Sleep {
                    time: random.pick(&[1, 50, 1000, 60_000]),
                },
            },
        ];
        let mut weights = Vec::new();
        for (at, make) in all.into_iter().enumerate() {
            let focused = matches!(case.kind, Kind::Syncs | Kind::Torn);
            if focused && !matches!(at, 0 | 2 | 3) {
                continue;
            }
            let always = at < 2 || focused;
            // Allocation is not possible if page numbers are at the end of their range.
            let possible = !case.scattered || !(9..13).contains(&at);
            if possible && (always || random.one_in(3)) {
                let weight = if always {
                    4 + random.below(8)
                } else {
                    1 + random.below(5)
                };
                weights.push((weight, make));
            }
        }
        let total = weights.iter().map(|(weight, _)| weight).sum();
        Mix { weights, total }
    }

    fn step(&self, random: &mut Random, case: &Case) -> Step {
        let mut at = random.below(self.total);
        for (weight, make) in &self.weights {
            if at < *weight {
                return make(random, case);
            }
            at -= weight;
        }
        Step::Stats
    }
}
