//! The case of a seed: options, pages, scripts, and faults.

use std::time::Duration;

use ebbpool::policy::{PageClass, UNKNOWN_CLASS};
use ebbpool_simulation::Random;

use crate::disk::FaultRates;
use crate::model::SLOTS;
use crate::options::LifeOptions;
use crate::policies::policies;

/// 2^64 divided by the golden ratio, the key of the page table's hash in a simulation (`sync.rs` of the pool).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Its inverse: the multiples of this number have small hashes if the product is not folded.
const INVERSE_GOLDEN: u64 = 0xf1de_83e1_9937_733d;

/// The first page number that is none, unless a case has pages far apart.
pub const STRAY: u64 = 1000;

/// Page numbers whose hashes begin with ten zeros: the first of up to 1024 buckets is the home of all of them.
fn of_one_home(random: &mut Random, count: u64) -> Vec<u64> {
    let folded_product = |page: u64| {
        let product = u128::from(page) * u128::from(GOLDEN);
        (product >> 64) as u64 ^ product as u64
    };
    let hash = |page: u64| folded_product(folded_product(page));
    let from = random.number() >> random.below(40);
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
    /// Fixes a page for reading, and then for writing without dropping it, if no other thread has it.
    Upgrade {
        page: u64,
        value: u64,
        hold: u64,
    },
    /// Fixes a page, if no thread has to be waited for.
    Try {
        page: u64,
        write: bool,
    },
    /// Fixes a page, and waits no longer than this.
    Within {
        page: u64,
        write: bool,
        patience: u64,
    },
    /// Holds two pages at the same time.
    Two {
        page: u64,
        other: u64,
        write: bool,
        hold: u64,
    },
    /// Fixes a page for reading once more while it has it.
    Again {
        page: u64,
        hold: u64,
    },
    /// Holds two pages for reading at the same time, in any order.
    TwoReads {
        page: u64,
        other: u64,
        hold: u64,
    },
    Optimistic {
        page: u64,
    },
    /// Says that a page will be fixed soon.
    Hint {
        page: u64,
    },
    Throttle,
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
    /// Fixes a page for writing whose number is none, and drops it.
    Stray {
        page: u64,
        free: bool,
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
    /// Changes the number of frames.
    Resize {
        frames: u32,
    },
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
    pub options: LifeOptions,
    /// The first attempt to open the pool fails, because the thread of this number cannot be started.
    pub refused_thread: Option<u64>,
    /// The file has this number of bytes of a further page when it is opened.
    pub tail: u64,
    /// The power fails at this change of the disk, counted from 1.
    pub crash_at: Option<u64>,
    pub crash_seed: u64,
    /// Once its clients have ended, it does nothing for this time.
    pub lingers: Duration,
    pub ending: Ending,
    /// The power fails at the end. Otherwise only the process ends.
    pub power_fails: bool,
    pub fault_rates: FaultRates,
    /// By client.
    pub scripts: Vec<Vec<Step>>,
}

impl Life {
    /// The same life, each without one of the things that happen to it.
    pub fn calmer(&self) -> Vec<Life> {
        let with = |change: fn(&mut Life)| {
            let mut life = self.clone();
            change(&mut life);
            life
        };
        let mut calmer = vec![
            with(|life| life.refused_thread = None),
            with(|life| life.tail = 0),
            with(|life| life.crash_at = None),
            with(|life| life.lingers = Duration::ZERO),
            with(|life| life.ending = Ending::Stops),
            with(|life| life.power_fails = true),
            with(|life| life.fault_rates = FaultRates::default()),
        ];
        let own = format!("{self:?}");
        calmer.retain(|life| format!("{life:?}") != own);
        calmer.extend(self.options.calmer().into_iter().map(|options| Life { options, ..self.clone() }));
        calmer
    }
}

/// How a life ends, if the power does not fail before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As soon as the clients have ended, as if the process were killed.
    Stops,
    /// All pages are checked, and a checkpoint is taken.
    Checks,
    /// The same, and then the pool is closed.
    Closes,
    /// A change of this page panics. The page is discarded and not redone, and the pool is closed.
    Panics { page: u64, when: When },
}

/// The main subject of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Clients with scripts.
    General,
    /// As `General`, with pages that all share one home in the page table, more than a search without the lock visits.
    OneHome,
    /// As `General`, with syncs that fail while others are under way.
    Syncs,
    /// As `General`, with writes that fail and tear the page, and a double-write area.
    Torn,
    /// As `General`, without faults, and the age of changes is limited.
    Window,
    /// As `General`: pages are discarded and freed while writes fail, and afterwards every page must leave its frame.
    Sweep,
    /// As `General`: a few pages and frames, so that each page is written, changed and evicted all the time.
    Landing,
    /// As `General`: the number of frames changes all the time, while pages are written and checkpoints made.
    Resizing,
    /// A writer among readers.
    Readers,
    /// A writer waits for a page, and for a frame once the page has left its own.
    Queue,
    /// Some pages cannot be written, and others are read.
    Unwritable,
    /// Threads change a page all the time, and the age of changes is limited.
    Busy,
    /// A pool of many frames in which nothing happens.
    Idle,
    /// A thread that waits because all pins of a page are taken.
    Pins,
    /// Fixes in sequence, with read-ahead.
    Sequence,
    /// Threads read and try to change the pages of a storage that takes no writes.
    ReadOnly,
    /// Another program cuts a file off that a pool has open.
    CutFile,
    /// A thread-local that uses the pool when its thread ends.
    Farewell,
}

impl Kind {
    /// The number of kinds; `Farewell` is the last.
    pub const ALL: usize = Kind::Farewell as usize + 1;
}

#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub kind: Kind,
    pub page_size: usize,
    pub area: bool,
    pub identity: u64,
    /// The storage reports how often blocks were erased.
    pub reports_erases: bool,
    /// Clients state the classes of pages.
    pub classes: bool,
    pub raw: bool,
    pub logged: bool,
    /// The pages that all clients use.
    pub pages: Vec<u64>,
    /// The page numbers may be far apart.
    pub scattered: bool,
    /// The storage is grown for all pages at first.
    pub grown: bool,
    /// The pools refuse page numbers that are none.
    pub bounded: bool,
    pub lives: Vec<Life>,
}

/// The class that clients state for a page.
pub fn class_of(page: u64, classes: bool) -> PageClass {
    match classes {
        true => (page % 4) as PageClass,
        false => UNKNOWN_CLASS,
    }
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0070_6f6f_6c00);
        let kind = match random.below(100) {
            0..4 => Kind::OneHome,
            4..8 => Kind::Readers,
            8 => Kind::Pins,
            9..12 => Kind::Sequence,
            12 => random.pick(&[Kind::Farewell, Kind::ReadOnly, Kind::CutFile]),
            13..18 => Kind::Syncs,
            18..25 => Kind::Torn,
            25..33 => Kind::Window,
            33..37 => Kind::Sweep,
            37..41 => Kind::Queue,
            41..43 => Kind::Unwritable,
            43 => Kind::Idle,
            44..50 => Kind::Landing,
            50..53 => Kind::Busy,
            53..58 => Kind::Resizing,
            _ => Kind::General,
        };
        let count = match kind {
            Kind::OneHome => 110 + random.below(40),
            Kind::Landing => 2 + random.below(2),
            _ => random.pick(&[2, 4, 6, 8, 12, 20]),
        };
        let (pages, scattered) = numbers(&mut random, kind, count);
        let focused = matches!(kind, Kind::Syncs | Kind::Torn | Kind::Window | Kind::Landing | Kind::Resizing);
        let raw = random.one_in(12) && !focused;
        let logged = !random.one_in(if kind == Kind::Window { 2 } else { 8 });
        let lives = match kind {
            // A raw page has no checksum that shows whether it is whole after a crash.
            Kind::General | Kind::Torn | Kind::Window if !raw => match random.below(8) {
                0 => 4 + random.below(3),
                _ => 1 + random.below(3),
            },
            _ => 1,
        };
        let mut case = Case {
            seed,
            kind,
            page_size: match kind {
                // A page of one sector is not torn.
                Kind::Torn => random.pick(&[1024, 2048]),
                _ => random.pick(&[512, 512, 1024, 2048]),
            },
            area: kind == Kind::Torn || !raw && random.one_in(2),
            identity: random.pick(&[0, 1, u64::MAX]),
            reports_erases: random.one_in(8),
            classes: random.one_in(2),
            raw,
            logged,
            pages,
            scattered,
            // A page that is neither in the storage nor in the log is no longer in use once it is discarded.
            grown: !random.one_in(if kind == Kind::Sweep { 2 } else { 6 }) || !logged,
            // The others have such numbers for their own purposes.
            bounded: random.one_in(4) && !scattered && kind != Kind::Sweep,
            lives: Vec::new(),
        };
        let mix = Mix::new(&mut random, &case);
        let calm = matches!(kind, Kind::Window | Kind::Landing) || random.one_in(3);
        let policies = policies();
        case.lives = (0..lives)
            .map(|life| {
                let options = LifeOptions::new(&mut random, &case, &policies);
                case.life(&mut random, options, &mix, calm, life + 1 == lives)
            })
            .collect();
        case
    }

    fn life(&self, random: &mut Random, options: LifeOptions, mix: &Mix, calm: bool, last: bool) -> Life {
        let clients = match self.kind {
            Kind::Syncs | Kind::Landing | Kind::Resizing => 2 + random.below(3),
            _ => 1 + random.below(4),
        };
        let length = match self.kind {
            Kind::OneHome => 60,
            _ => random.pick(&[4, 8, 16, 30]),
        };
        let mut script = || {
            let steps = 1 + random.below(length);
            (0..steps).map(|_| mix.step(random, self)).collect()
        };
        let scripts = (0..clients).map(|_| script()).collect();
        let crashes = !last || random.one_in(2);
        let mut life = Life {
            options,
            refused_thread: random.one_in(8).then(|| random.below(2)),
            tail: match random.one_in(4) && !self.raw {
                true => random.below(self.page_size as u64),
                false => 0,
            },
            crash_at: (crashes && !self.raw && random.one_in(2)).then(|| 1 + random.below(80)),
            crash_seed: random.number(),
            lingers: match self.kind {
                Kind::Window => Duration::from_millis(random.pick(&[0, 500, 1000])),
                _ => Duration::from_millis(random.pick(&[0, 0, 0, 100, 600])),
            },
            ending: self.ending(random),
            power_fails: self.raw || !random.one_in(4),
            fault_rates: self.fault_rates(random, calm),
            scripts,
        };
        if self.kind == Kind::Window {
            life.options.background = true;
        }
        if self.is_tight(&life) {
            // Threads that hold all frames and wait for one more may wait in vain.
            life.options.patience = Duration::from_millis(200);
        }
        if self.kind == Kind::Sweep {
            life.options.background = false;
            life.options.policy = random.pick(&["lru", "fifo", "clock"]).into();
        }
        life
    }

    fn ending(&self, random: &mut Random) -> Ending {
        match random.below(8) {
            _ if self.kind == Kind::Sweep => Ending::Checks,
            _ if self.kind == Kind::Landing => Ending::Checks,
            0 | 1 if !self.raw => Ending::Stops,
            2..6 if self.kind == Kind::Window => Ending::Stops,
            2..4 => Ending::Checks,
            4 if !self.raw => Ending::Panics {
                page: page(random, self),
                when: random.pick(&[When::BeforeAppend, When::AfterAppend, When::AfterSetLsn]),
            },
            _ => Ending::Closes,
        }
    }

    fn fault_rates(&self, random: &mut Random, calm: bool) -> FaultRates {
        match self.kind {
            Kind::Syncs => FaultRates { slow: 2000, sync_error: random.pick(&[2, 4, 8]), ..FaultRates::default() },
            Kind::Torn => FaultRates { slow: random.pick(&[0, 200]), torn: random.pick(&[2, 4, 8]), ..FaultRates::default() },
            Kind::Landing => FaultRates { slow: random.pick(&[0, 0, 50]), ..FaultRates::default() },
            Kind::Sweep => FaultRates { write_error: random.pick(&[2, 4]), ..FaultRates::default() },
            _ => fault_rates(random, calm, self.raw),
        }
    }

    /// True if guards and transfers can take all frames, so that a thread may wait for one in vain.
    pub fn is_tight(&self, life: &Life) -> bool {
        let clients = life.scripts.len() as u32;
        // Two frames for each client, and those that are latched at the same time to be written or read ahead.
        life.options.most_frames.is_some() || life.options.frames < clients * 3 + 2 * life.options.batch + 8
    }
}

fn numbers(random: &mut Random, kind: Kind, count: u64) -> (Vec<u64>, bool) {
    let draw = match kind {
        Kind::OneHome => 1 + random.below(4),
        Kind::Sequence | Kind::Pins | Kind::Farewell => 0,
        _ => random.below(8),
    };
    let stride = |stride: u64| (1..=count).map(|at| stride.wrapping_mul(at)).collect();
    match draw {
        1 | 2 => (of_one_home(random, count), true),
        3 => (stride(INVERSE_GOLDEN), true),
        4 => {
            let from = random.below(1 << 20);
            let pages = (from..from + count).map(|at| INVERSE_GOLDEN.wrapping_mul(at));
            (pages.collect(), true)
        }
        5 => (stride(random.pick(&[75_025, 121_393, 196_418, 1_346_269])), true),
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
    let mut fault_rates = FaultRates { slow, reorder: random.pick(&[0, 2]), ..FaultRates::default() };
    if calm {
        return fault_rates;
    }
    for _ in 0..random.below(3) {
        let often = random.pick(&[3, 8, 20, 60]);
        match random.below(if raw { 2 } else { 9 }) {
            0 => fault_rates.read_error = often,
            1 => fault_rates.write_error = often,
            2 => fault_rates.torn = often,
            3 => fault_rates.lost = often,
            4 => fault_rates.flipped = often,
            5 => fault_rates.sync_error = often,
            6 => fault_rates.panics = often,
            7 => fault_rates.full = often.min(8),
            _ => fault_rates.log_error = often,
        }
    }
    fault_rates
}

/// Draws a step of one kind.
type MakeStep = fn(&mut Random, &Case) -> Step;

/// How the steps of each kind are drawn.
const STEPS: [MakeStep; 20] = [
    |random, case| Step::Write {
        page: page(random, case),
        slot: random.below(SLOTS as u64),
        value: random.number(),
        hold: hold(random),
        log_first: random.one_in(2),
    },
    |random, case| Step::Read { page: page(random, case), hold: hold(random) },
    |random, case| Step::Flush { page: page(random, case) },
    |_, _| Step::Checkpoint,
    |random, case| Step::New { page: page(random, case) },
    |random, case| {
        let (page, value, hold) = (page(random, case), random.number(), hold(random));
        match random.one_in(3) {
            true => Step::Downgrade { page, value, hold },
            false => Step::Upgrade { page, value, hold },
        }
    },
    |random, case| Step::Two {
        page: page(random, case),
        other: page(random, case),
        write: random.one_in(2),
        hold: hold(random),
    },
    |random, case| Step::Optimistic { page: page(random, case) },
    |random, case| Step::Scan { from: random.below(case.pages.len() as u64), count: 1 + random.below(8) },
    |_, _| Step::Allocate,
    |random, _| Step::WriteOwn { which: random.below(4), value: random.number() },
    |random, _| Step::Unlogged { which: random.below(4), value: random.number() },
    |random, _| match random.one_in(2) {
        true => Step::Stray { page: STRAY, free: random.one_in(2) },
        false => Step::Free { which: random.below(4) },
    },
    |_, _| Step::Commit,
    |random, case| Step::Panic {
        page: page(random, case),
        value: random.number(),
        when: random.pick(&[When::BeforeAppend, When::AfterAppend, When::AfterSetLsn]),
        repair_after: random.pick(&[0, 0, 100, 5000]),
    },
    |random, case| Step::Discard { page: page(random, case), redo_after: random.pick(&[0, 0, 100, 5000]) },
    |random, case| {
        let (page, write) = (page(random, case), random.one_in(2));
        match random.below(3) {
            0 => Step::Again { page, hold: hold(random) },
            1 => Step::Try { page, write },
            _ => Step::Within { page, write, patience: random.pick(&[0, 0, 1, 100, 5000]) },
        }
    },
    |random, case| Step::TwoReads { page: page(random, case), other: page(random, case), hold: hold(random) },
    |random, case| match random.below(3) {
        0 => Step::Throttle,
        _ => Step::Hint { page: page(random, case) },
    },
    |random, case| match random.below(5) {
        _ if case.kind == Kind::Resizing => Step::Resize { frames: 1 + random.below(28) as u32 },
        0 => Step::Stats,
        1 | 2 => Step::Resize { frames: 1 + random.below(28) as u32 },
        _ => Step::Sleep { time: random.pick(&[1, 50, 1000, 60_000]) },
    },
];

/// The kinds of steps of a case, and their frequencies: some cases have only a few kinds.
struct Mix {
    weights: Vec<(u64, MakeStep)>,
    total: u64,
}

fn page(random: &mut Random, case: &Case) -> u64 {
    // Some pages are busier than others.
    let count = case.pages.len() as u64;
    let at = match case.kind {
        Kind::OneHome => random.below(count),
        _ => random.below(count).min(random.below(count)),
    };
    case.pages[at as usize]
}

fn hold(random: &mut Random) -> u64 {
    random.pick(&[0, 0, 0, 10, 100, 1000, 5000])
}

impl Mix {
    fn new(random: &mut Random, case: &Case) -> Self {
        let mut weights = Vec::new();
        for (at, make) in STEPS.into_iter().enumerate() {
            let focus: &[usize] = match case.kind {
                Kind::Syncs => &[0, 2, 3],
                // Reads evict pages that were written.
                Kind::Torn => &[0, 1, 2, 3],
                Kind::Window => &[0, 1, 17, 18, 19],
                Kind::Sweep => &[0, 1, 9, 12, 15],
                Kind::Landing => &[0, 1, 2],
                Kind::Resizing => &[0, 3, 14, 19],
                _ => &[],
            };
            let focused = !focus.is_empty();
            if focused && !focus.contains(&at) {
                continue;
            }
            let always = at < 2 || focused;
            // Allocation is not possible if page numbers are at the end of their range.
            let possible = !case.scattered || !(9..13).contains(&at);
            if possible && (always || random.one_in(3)) {
                let weight = if always { 4 + random.below(8) } else { 1 + random.below(5) };
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
