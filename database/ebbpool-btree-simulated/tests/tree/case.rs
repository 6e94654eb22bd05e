//! The case of a seed: options, scripts, and faults.

use std::time::Duration;

use ebbpool_btree_simulated::Durability;
use ebbpool_simulation::Random;

use crate::disk::FaultRates;
use crate::policies::{draw, policies, spec};

/// The kind of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseKind {
    /// Clients with scripts.
    General,
    /// Readers of a long value, and a writer of another key of the same leaf.
    LongReaders,
    /// A database whose log loses its end.
    CutLog,
}

/// One operation of a transaction.
#[derive(Clone, Debug)]
pub enum Operation {
    Put { key: u64, length: usize, fill: u64 },
    Delete { key: u64 },
    Get { key: u64 },
    GetForUpdate { key: u64 },
    UpdateRange { from: u64, count: u64, panics_at: Option<u64> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Commit,
    RollBack,
    Drop,
}

/// One step of a client.
#[derive(Clone, Debug)]
pub enum Step {
    Transaction {
        operations: Vec<Operation>,
        ending: Ending,
        /// Microseconds before each operation.
        pause: u64,
    },
    Get {
        key: u64,
    },
    Scan {
        from: u64,
        to: u64,
        descending: bool,
    },
    Checkpoint,
    Sleep {
        time: u64,
    },
}

/// A load into an empty database, or one that is emptied before, while no client runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub records: u64,
    /// Whether all records are deleted before.
    pub clears: bool,
    /// Whether a checkpoint is taken between deletion and load.
    pub checkpoint: bool,
    /// Whether the iterator of the records panics.
    pub panics: bool,
}

/// The options of the pool of one life.
#[derive(Clone, Debug)]
pub struct LifeOptions {
    pub policy: String,
    pub background: bool,
    pub fixed_costs: bool,
    pub reserve: Option<u32>,
    pub budget: Option<(f64, Duration)>,
    pub max_dirty_age: Option<Duration>,
    pub patience: Duration,
    pub read_ahead: u32,
    pub batch: u32,
    pub dense_pages: usize,
    pub exact_hits: bool,
    pub recovery_within: Option<Duration>,
}

impl LifeOptions {
    /// Options with which nothing happens in the background.
    pub fn calm() -> Self {
        LifeOptions {
            policy: "lru".into(),
            background: false,
            fixed_costs: true,
            reserve: None,
            budget: None,
            max_dirty_age: None,
            patience: Duration::from_secs(10),
            read_ahead: 32,
            batch: 64,
            dense_pages: 0,
            exact_hits: false,
            recovery_within: None,
        }
    }

    fn new(random: &mut Random, case: &Case) -> Self {
        let mut all = policies();
        all.retain(|policy| case.double_write || !spec(policy).pads());
        let policy = draw(random, &all);
        let shares = [None, Some(0.25), Some(0.5), Some(1.0)];
        LifeOptions {
            policy: match case.double_write || !spec(&policy).pads() {
                true => policy,
                // The pool refuses to put pages at risk that no caller has changed.
                false => "bplru:block=4".into(),
            },
            background: case.kind != CaseKind::CutLog && random.one_in(2),
            fixed_costs: random.one_in(2),
            reserve: random.pick(&[None, Some(0), Some(2), Some(case.frames), Some(u32::MAX)]),
            budget: random.pick(&shares).map(|share| {
                let delay = random.pick(&[0, 50, 20_000]);
                (share, Duration::from_micros(delay))
            }),
            max_dirty_age: random.one_in(4).then(|| match random.below(6) {
                0 => Duration::ZERO,
                1 => Duration::MAX,
                _ => Duration::from_millis(random.pick(&[1, 10, 200])),
            }),
            patience: match random.one_in(4) {
                // Its operations take turns, so that none of them waits for a frame for long.
                _ if case.crowd => Duration::from_secs(1),
                true => Duration::MAX,
                false => Duration::from_secs(10),
            },
            read_ahead: random.pick(&[0, 4, 32]),
            batch: random.pick(&[1, 2, 8, 64]),
            dense_pages: random.pick(&[0, 8, 64]),
            exact_hits: random.one_in(6),
            recovery_within: random.one_in(4).then(|| Duration::from_millis(random.pick(&[10, 100]))),
        }
    }
}

/// From one opening of the database to its end.
#[derive(Clone, Debug)]
pub struct Life {
    pub options: LifeOptions,
    /// The first attempt to open the database may fail, because the thread of this number cannot be started.
    pub refused_thread: Option<u64>,
    /// The file of pages has this number of bytes of a further page when it is opened.
    pub tail: u64,
    /// The power fails at the end, also if nothing went wrong. Otherwise only the process ends.
    pub power_fails: bool,
    pub crash_at: Option<u64>,
    pub crash_seed: u64,
    pub closes: bool,
    pub fault_rates: FaultRates,
    /// The disk has room for this many bytes more, while the clients work.
    pub room: Option<u64>,
    pub load: Option<Load>,
    pub load_afterwards: Option<Load>,
    /// The file is made shorter at the end, the first time with the faults of the life.
    pub shrinks: bool,
    /// By client.
    pub scripts: Vec<Vec<Step>>,
}

impl Life {
    /// Some of the faults do not pass.
    pub fn may_break(&self) -> bool {
        let FaultRates { panics, sync_error, log_error, flipped, .. } = self.fault_rates;
        panics + sync_error + log_error + flipped > 0
    }

    /// The same life, each without one of the things that happen to it.
    pub fn calmer(&self) -> Vec<Life> {
        let with = |change: fn(&mut Life)| {
            let mut life = self.clone();
            change(&mut life);
            life
        };
        let mut calmer = vec![
            with(|life| life.options = LifeOptions::calm()),
            with(|life| life.options.policy = "lru".into()),
            with(|life| life.options.background = false),
            with(|life| life.options.max_dirty_age = None),
            with(|life| life.refused_thread = None),
            with(|life| life.tail = 0),
            with(|life| life.crash_at = None),
            with(|life| life.power_fails = true),
            with(|life| life.fault_rates = FaultRates::default()),
            with(|life| life.room = None),
            with(|life| life.load = None),
            with(|life| life.load_afterwards = None),
            with(|life| life.shrinks = false),
        ];
        let own = format!("{self:?}");
        calmer.retain(|life| format!("{life:?}") != own);
        calmer
    }
}

#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub kind: CaseKind,
    pub frames: u32,
    /// More clients than frames, which mostly read values that are longer than a leaf has room for: each of them holds a leaf while
    /// it waits for a frame. Nothing goes wrong.
    pub crowd: bool,
    pub page_size: usize,
    pub double_write: bool,
    pub durability: Durability,
    pub checkpoint_every: u64,
    pub keys: u64,
    pub most_value: usize,
    pub lives: Vec<Life>,
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0074_7265_6500);
        let kind = match random.below(40) {
            0 => CaseKind::LongReaders,
            1..6 => CaseKind::CutLog,
            _ => CaseKind::General,
        };
        let page_size = random.pick(&[512, 512, 1024]);
        let alone = kind == CaseKind::CutLog || random.one_in(4);
        let durability = match random.below(if alone { 4 } else { 1 }) {
            1 => Durability::None,
            2 => Durability::Buffered,
            _ => Durability::Synced,
        };
        let crowded = !alone && random.one_in(4);
        let crowd = crowded && random.one_in(4);
        let most_value = match random.below(8) {
            _ if crowd => page_size,
            // Many threads with few frames take long for each of its pages.
            0 if !crowded => page_size * 100,
            0..3 => page_size * 5,
            3 => 20,
            _ => 200,
        };
        let mut case = Case {
            seed,
            kind,
            frames: match kind {
                // With few frames, pages are written long before a checkpoint.
                CaseKind::CutLog => 16,
                // Fewer frames than the threads would take at the same time.
                _ if crowded => 16,
                _ => 48 + random.below(40) as u32,
            },
            crowd,
            page_size,
            double_write: !random.one_in(8),
            durability,
            checkpoint_every: 1 << (12 + random.below(4)),
            keys: if crowd { 200 } else { random.pick(&[4, 12, 40, 100]) },
            most_value,
            lives: Vec::new(),
        };
        let calm = kind == CaseKind::CutLog || crowd || random.one_in(3);
        let lives = if kind == CaseKind::General && !crowd { 1 + random.below(3) } else { 1 };
        case.lives = (0..lives).map(|life| case.life(&mut random, calm, alone, life + 1 == lives)).collect();
        case
    }

    fn life(&self, random: &mut Random, calm: bool, alone: bool, last: bool) -> Life {
        let clients = match alone {
            true => 1,
            false if self.crowd => 24,
            false if self.frames == 16 => 4 + random.below(4),
            false => 1 + random.below(3),
        };
        let length = match self.kind {
            CaseKind::CutLog => 60,
            _ => random.pick(&[3, 8, 16]),
        };
        let mut script = || {
            let steps = 1 + random.below(length);
            (0..steps).map(|_| self.step(random)).collect()
        };
        let scripts = (0..clients).map(|_| script()).collect();
        // After a crash the model tries all sets of the commits that were under way.
        let crashes = self.kind == CaseKind::General && !self.crowd && (!last || random.one_in(2));
        let load = |random: &mut Random, clears: bool| Load {
            records: random.below(self.keys + 1),
            clears,
            checkpoint: random.one_in(2),
            panics: random.one_in(8),
        };
        let room = (!self.crowd && random.one_in(5)).then(|| random.below(self.page_size as u64 * 100));
        let calm = calm || room.is_some();
        Life {
            options: LifeOptions::new(random, self),
            refused_thread: random.one_in(8).then(|| random.below(2)),
            tail: match random.one_in(4) {
                true => random.below(self.page_size as u64),
                false => 0,
            },
            power_fails: !random.one_in(4),
            crash_at: (crashes && random.one_in(2)).then(|| 1 + random.below(120)),
            crash_seed: random.number(),
            closes: random.one_in(2),
            fault_rates: fault_rates(random, calm),
            room,
            load: match self.crowd {
                true => Some(Load { records: self.keys, clears: false, checkpoint: false, panics: false }),
                false => random.one_in(2).then(|| load(random, false)),
            },
            shrinks: self.kind != CaseKind::CutLog && random.one_in(3),
            load_afterwards: (self.kind != CaseKind::CutLog && random.one_in(4)).then(|| load(random, true)),
            scripts,
        }
    }

    fn operation(&self, random: &mut Random) -> Operation {
        let key = random.below(self.keys);
        match random.below(12) {
            0..5 => Operation::Put { key, length: length(random, self.most_value), fill: random.number() },
            5..8 => Operation::Delete { key },
            8 => Operation::Get { key },
            9 => Operation::GetForUpdate { key },
            _ => {
                let count = 1 + random.below(8);
                Operation::UpdateRange {
                    from: key,
                    count,
                    panics_at: (self.kind != CaseKind::CutLog && random.one_in(6)).then(|| random.below(count)),
                }
            }
        }
    }

    fn step(&self, random: &mut Random) -> Step {
        match random.below(20) {
            _ if self.crowd && !random.one_in(4) => Step::Get { key: random.below(self.keys) },
            0..12 => {
                let count = 1 + random.below(5);
                Step::Transaction {
                    operations: (0..count).map(|_| self.operation(random)).collect(),
                    ending: match random.below(6) {
                        0 => Ending::RollBack,
                        1 => Ending::Drop,
                        _ => Ending::Commit,
                    },
                    pause: random.pick(&[0, 0, 0, 100, 5000]),
                }
            }
            12..15 => Step::Get { key: random.below(self.keys) },
            15..17 => {
                Step::Scan { from: random.below(self.keys), to: random.below(self.keys + 1), descending: random.one_in(2) }
            }
            17 => Step::Checkpoint,
            _ => Step::Sleep { time: random.pick(&[10, 1000, 60_000]) },
        }
    }

    /// Some keys are long, some share a long beginning, one is empty.
    pub fn key(&self, number: u64) -> Vec<u8> {
        match number % 5 {
            _ if number == 0 => Vec::new(),
            0 => format!("{number:040}").into_bytes(),
            1 => format!("the same beginning {number}").into_bytes(),
            _ => (number as u32).to_be_bytes().to_vec(),
        }
    }
}

/// Most values are short.
fn length(random: &mut Random, most: usize) -> usize {
    let most = match random.below(4) {
        0 => most,
        1 => most / 4,
        _ => (most / 4).min(150),
    };
    random.below(most as u64 + 1) as usize
}

fn fault_rates(random: &mut Random, calm: bool) -> FaultRates {
    let mut fault_rates =
        FaultRates { slow: random.pick(&[0, 20, 200]), reorder: random.pick(&[0, 2]), ..FaultRates::default() };
    if !calm && random.one_in(2) {
        let often = random.pick(&[10, 40, 200]);
        match random.below(8) {
            0 => fault_rates.read_error = often,
            1 => fault_rates.write_error = often,
            2 => fault_rates.torn = often,
            3 => fault_rates.flipped = often,
            4 => fault_rates.sync_error = often,
            5 => fault_rates.panics = often,
            6 => fault_rates.full = often.min(10),
            _ => fault_rates.log_error = often,
        }
    }
    fault_rates
}
