//! The steps of a program between two crashes.

use ebbpool_btree::Durability;

use crate::chance::Chance;

const POLICIES: [&str; 8] = ["lru", "clock", "cflru", "cfdc:cluster=4", "casa", "fd-buffer:group=1", "2q", "bplru:block=4"];

/// Transactions that are open at the same time; each has keys of its own.
pub const SLOTS: usize = 2;

const KEYS: u64 = 40;

/// The options of a case, the same for all of its lives.
#[derive(Clone, Debug)]
pub struct Setting {
    pub policy: &'static str,
    pub frames: u32,
    pub page_size: usize,
    pub double_write: bool,
    pub durability: Durability,
    pub checkpoint_every: u64,
    /// The longest value.
    pub most_value: usize,
}

#[derive(Clone, Debug)]
pub enum Step {
    /// A slot without a transaction begins one.
    Put {
        slot: usize,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    Delete {
        slot: usize,
        key: Vec<u8>,
    },
    /// Changes the values of those keys that exist.
    UpdateKeys {
        slot: usize,
        keys: Vec<Vec<u8>>,
    },
    Commit {
        slot: usize,
    },
    Rollback {
        slot: usize,
    },
    /// Reads all records, both ways.
    Read,
    Checkpoint,
}

/// From opening the database to closing it.
#[derive(Clone, Debug)]
pub struct Session {
    /// Whether all records are removed at first, so that a load uses their pages.
    pub clear: bool,
    /// Records to load at first, if there are none.
    pub load: Option<u64>,
    /// Whether the file is made shorter before the steps and after them.
    pub shrink: bool,
    pub steps: Vec<Step>,
    /// Whether the database is closed, or only dropped.
    pub close: bool,
}

impl Setting {
    pub fn new(chance: &mut Chance) -> Self {
        let page_size = 512 << chance.below(2);
        Setting {
            policy: POLICIES[chance.usize(POLICIES.len())],
            frames: 16 + chance.below(16) as u32,
            page_size,
            double_write: !chance.one_in(8),
            durability: match chance.below(8) {
                0 => Durability::None,
                1 => Durability::Buffered,
                _ => Durability::Synced,
            },
            checkpoint_every: 1 << (12 + chance.below(4)),
            most_value: [20, 100, 300, 3 * page_size][chance.usize(4)],
        }
    }

    /// The key of a slot with this number: some are long, some share a long beginning, one is empty.
    fn key(&self, slot: usize, number: u64) -> Vec<u8> {
        let number = number * SLOTS as u64 + slot as u64;
        match number % 5 {
            _ if number == 0 => Vec::new(),
            0 => format!("{number:040}").into_bytes(),
            1 => format!("the same beginning {number}").into_bytes(),
            _ => (number as u32).to_be_bytes().to_vec(),
        }
    }

    fn value(&self, chance: &mut Chance) -> Vec<u8> {
        let length = chance.usize(self.most_value + 1);
        vec![chance.below(256) as u8; length]
    }

    pub fn step(&self, chance: &mut Chance) -> Step {
        let slot = chance.usize(SLOTS);
        let key = self.key(slot, chance.below(KEYS));
        match chance.below(37) {
            0..=15 => Step::Put { slot, key, value: self.value(chance) },
            16..=22 => Step::Delete { slot, key },
            23 => Step::UpdateKeys { slot, keys: (0..8).map(|_| self.key(slot, chance.below(KEYS))).collect() },
            24..=31 => Step::Commit { slot },
            32..=34 => Step::Rollback { slot },
            35 => Step::Read,
            _ => Step::Checkpoint,
        }
    }

    /// Sessions with `length` steps in total.
    pub fn script(&self, chance: &mut Chance, mut length: usize) -> Vec<Session> {
        let mut sessions = Vec::new();
        while length > 0 {
            let steps = 1 + chance.usize(length);
            length -= steps;
            sessions.push(Session {
                clear: chance.one_in(3),
                load: (!chance.one_in(3)).then(|| chance.below(60)),
                shrink: chance.one_in(3),
                steps: (0..steps).map(|_| self.step(chance)).collect(),
                close: !chance.one_in(3),
            });
        }
        sessions
    }

    /// The records to be loaded, ascending, with keys of both slots.
    pub fn loaded(&self, records: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut keys: Vec<Vec<u8>> =
            (0..records).map(|number| self.key(number as usize % SLOTS, number / SLOTS as u64)).collect();
        keys.sort();
        let value = |number: usize| vec![number as u8; number * 13 % (self.most_value + 1)];
        let values = (0..).map(value);
        keys.into_iter().zip(values).collect()
    }
}
