//! `tatp`: the page requests of TATP (the papers' TM1) on a row store.
//!
//! Seven transactions on four tables, in the standard mix and with its non-uniform
//! choice of subscribers. The facilities and forwardings that a subscriber has at the
//! start follow from the subscriber's number, so none are stored.

use hashbrown::HashMap;

use super::arguments::{Arguments, GeneratorParameter, SEED, whole};
use super::database::{
    Benchmark, BenchmarkOptions, CLIENTS, HINT_BITS, Heap, HeapSize, Index, IndexSize, PAGE_SIZE, PageAllocator, REFERENCES,
    Transaction, WARMUP, generator, mixed,
};
use super::{Generator, GeneratorEntry, GeneratorInfo};
use crate::error::TraceError;

/// A transaction makes more references than this on average.
const FEWEST: u64 = 5;
/// For each kind, how many of 100 transactions are of this kind or an earlier one.
const MIX: [(u64, TransactionKind); 7] = [
    (35, TransactionKind::GetSubscriberData),
    (45, TransactionKind::GetNewDestination),
    (80, TransactionKind::GetAccessData),
    (82, TransactionKind::UpdateSubscriberData),
    (96, TransactionKind::UpdateLocation),
    (98, TransactionKind::InsertCallForwarding),
    (100, TransactionKind::DeleteCallForwarding),
];

#[derive(Debug, Clone, Copy)]
enum TransactionKind {
    GetSubscriberData,
    GetNewDestination,
    GetAccessData,
    UpdateSubscriberData,
    UpdateLocation,
    InsertCallForwarding,
    DeleteCallForwarding,
}

pub(super) static ENTRY: GeneratorEntry = GeneratorEntry {
    info: GeneratorInfo {
        name: "tatp",
        summary: "page requests of TATP (TM1) on PostgreSQL's heap files and B+-trees",
        knows_probabilities: false,
        parameters: &[
            GeneratorParameter {
                name: "subscribers",
                kind: whole(1, 1_000_000_000),
                default: "500000",
                about: "rows of the table of subscribers",
            },
            REFERENCES,
            PAGE_SIZE,
            CLIENTS,
            WARMUP,
            HINT_BITS,
            SEED,
        ],
    },
    build,
};

fn build(arguments: &Arguments) -> Result<Box<dyn Generator>, TraceError> {
    generator::<TatpDatabase>("subscribers", arguments)
}

/// A row of a table that has up to four rows per subscriber.
#[derive(Debug, Clone, Copy)]
struct SubscriberRow {
    /// Its rank in key order.
    rank: u64,
    /// Whether it exists.
    exists: bool,
}

/// The database.
struct TatpDatabase {
    subscribers: u64,
    /// The A of the standard's non-uniform numbers.
    skew: u64,
    subscriber: Heap,
    access_info: Heap,
    facility: Heap,
    forwarding: Heap,
    subscriber_key: Index,
    number_index: Index,
    access_info_key: Index,
    facility_key: Index,
    forwarding_key: Index,
    /// Inserted forwardings with their page, and `None` for deleted ones.
    changed: HashMap<u64, Option<u32>>,
    allocator: PageAllocator,
}

impl TatpDatabase {
    fn new(subscribers: u64, options: &BenchmarkOptions) -> TatpDatabase {
        let mut allocator = PageAllocator::default();
        let transactions = options.transactions(FEWEST);
        let (details, forwardings) = (subscribers * 5 / 2 + 4, subscribers * 15 / 4 + 8);
        let mut heap = |name, rows, bytes, growth| {
            let size = HeapSize { rows, bytes, versions: 100, growth };
            Heap::new(name, size, options.page_size, options.clients, &mut allocator)
        };
        let tables = (
            heap("subscriber", subscribers, 114, (transactions / 6).min(subscribers / 8)),
            heap("access_info", details, 48, 0),
            heap("special_facility", details, 48, (transactions / 50).min(details / 8)),
            heap("call_forwarding", forwardings, 56, transactions / 50),
        );
        let mut index = |name, keys, entry| {
            let size = IndexSize::built(keys, entry);
            Index::new(name, size, options.page_size, &mut allocator)
        };
        TatpDatabase {
            subscribers,
            skew: match subscribers {
                0..=1_000_000 => 65_535,
                1_000_001..=10_000_000 => 1_048_575,
                _ => 2_097_151,
            },
            subscriber: tables.0,
            access_info: tables.1,
            facility: tables.2,
            forwarding: tables.3,
            subscriber_key: index("subscriber_key", subscribers, 20),
            number_index: index("number_index", subscribers, 28),
            access_info_key: index("access_info_key", details, 20),
            facility_key: index("special_facility_key", details, 20),
            forwarding_key: index("call_forwarding_key", forwardings, 20),
            changed: HashMap::new(),
            allocator,
        }
    }

    /// A subscriber, from 0 (standard, 1.8).
    fn draw_subscriber(&self, transaction: &mut Transaction) -> u64 {
        let skewed = transaction.random.below(self.skew + 1);
        let any = 1 + transaction.random.below(self.subscribers);
        (skewed | any) % self.subscribers
    }

    fn get_subscriber_data(&mut self, transaction: &mut Transaction) {
        let subscriber = self.draw_subscriber(transaction);
        self.subscriber.seek(transaction, &self.subscriber_key, subscriber);
    }

    fn get_new_destination(&mut self, transaction: &mut Transaction) {
        let subscriber = self.draw_subscriber(transaction);
        let facility = subscriber_row(subscriber, transaction.random.below(4), FACILITIES);
        let start = transaction.random.below(3);
        if !self.seek_facility(transaction, facility) || !is_active(facility.rank) {
            return;
        }
        self.forwarding_key.search(transaction, forwarding_rank(facility.rank), false);
        let mut last = None;
        for start in 0..=start {
            if let Some(page) = self.forwarding_page(facility.rank, start)
                && last != Some(page)
            {
                self.forwarding.visit(transaction, page);
                last = Some(page);
            }
        }
    }

    fn get_access_data(&mut self, transaction: &mut Transaction) {
        let subscriber = self.draw_subscriber(transaction);
        let info = subscriber_row(subscriber, transaction.random.below(4), ACCESS_INFOS);
        self.access_info_key.search(transaction, info.rank, false);
        if info.exists {
            self.access_info.fetch(transaction, info.rank);
        }
    }

    fn update_subscriber_data(&mut self, transaction: &mut Transaction) {
        let subscriber = self.draw_subscriber(transaction);
        let facility = subscriber_row(subscriber, transaction.random.below(4), FACILITIES);
        self.subscriber.seek(transaction, &self.subscriber_key, subscriber);
        self.change_subscriber(transaction, subscriber);
        transaction.end_statement();
        if self.seek_facility(transaction, facility) {
            let key = (&self.facility_key, facility.rank);
            let old = self.facility.change_keyed(transaction, facility.rank, &[key]);
            // A row with a foreign key is read again, to see whether the key changed.
            self.facility.read(transaction, old);
        }
    }

    fn update_location(&mut self, transaction: &mut Transaction) {
        let subscriber = self.draw_subscriber(transaction);
        self.seek_number(transaction, subscriber);
        self.change_subscriber(transaction, subscriber);
    }

    fn insert_call_forwarding(&mut self, transaction: &mut Transaction) {
        let subscriber = self.draw_subscriber(transaction);
        let facility = subscriber_row(subscriber, transaction.random.below(4), FACILITIES);
        let start = transaction.random.below(3);
        self.seek_number(transaction, subscriber);
        transaction.end_statement();
        // All facilities of the subscriber, from the index and the visibility map.
        self.facility_key.search(transaction, facility.rank, false);
        self.facility.look_for_visible(transaction, facility.rank);
        transaction.end_statement();
        self.facility_key.search(transaction, facility.rank, false);
        if facility.exists {
            self.facility.look_for_visible(transaction, facility.rank);
            self.insert_forwarding(transaction, facility.rank, start);
        }
    }

    /// Inserts a forwarding unless one with its key exists.
    fn insert_forwarding(&mut self, transaction: &mut Transaction, facility: u64, start: u64) {
        let rank = forwarding_rank(facility);
        self.forwarding_key.search(transaction, rank, false);
        if let Some(other) = self.forwarding_page(facility, start) {
            self.forwarding.visit(transaction, other);
            return;
        }
        let page = self.forwarding.insert(transaction);
        self.forwarding_key.insert(transaction, rank);
        // The insertion is confirmed, and its trigger for the foreign key reads it and
        // locks the facility.
        self.forwarding.write(transaction, page);
        self.forwarding.read(transaction, page);
        self.facility.seek(transaction, &self.facility_key, facility);
        self.facility.lock(transaction, facility);
        self.changed.insert(forwarding(facility, start), Some(page));
    }

    fn delete_call_forwarding(&mut self, transaction: &mut Transaction) {
        let subscriber = self.draw_subscriber(transaction);
        let facility = subscriber_row(subscriber, transaction.random.below(4), FACILITIES);
        let start = transaction.random.below(3);
        self.seek_number(transaction, subscriber);
        transaction.end_statement();
        self.forwarding_key.search(transaction, forwarding_rank(facility.rank), false);
        if facility.exists
            && let Some(page) = self.forwarding_page(facility.rank, start)
        {
            self.forwarding.visit(transaction, page);
            self.forwarding.delete(transaction, page);
            self.changed.insert(forwarding(facility.rank, start), None);
        }
    }

    fn seek_number(&mut self, transaction: &mut Transaction, subscriber: u64) {
        self.subscriber.seek(transaction, &self.number_index, subscriber);
    }

    fn change_subscriber(&mut self, transaction: &mut Transaction, subscriber: u64) {
        let keys = [(&self.subscriber_key, subscriber), (&self.number_index, subscriber)];
        let old = self.subscriber.change_keyed(transaction, subscriber, &keys);
        self.subscriber.read(transaction, old);
    }

    /// Looks a facility up; true if it exists.
    fn seek_facility(&mut self, transaction: &mut Transaction, facility: SubscriberRow) -> bool {
        if facility.exists {
            self.facility.seek(transaction, &self.facility_key, facility.rank);
        } else {
            self.facility_key.search(transaction, facility.rank, false);
        }
        facility.exists
    }

    /// The page of the forwarding that begins at 8 x `start` o'clock, if it exists.
    fn forwarding_page(&self, facility: u64, start: u64) -> Option<u32> {
        if let Some(changed) = self.changed.get(&forwarding(facility, start)) {
            return *changed;
        }
        // Zero to three of the three exist, each number equally likely.
        let bits = mixed(facility ^ FORWARDINGS);
        let position = (start + (bits >> 8) % 3) % 3;
        let exists = position < bits % 4;
        exists.then(|| self.forwarding.home(forwarding_rank(facility) + position / 2))
    }
}

impl Benchmark for TatpDatabase {
    fn loaded(subscribers: u64, options: &BenchmarkOptions) -> TatpDatabase {
        TatpDatabase::new(subscribers, options)
    }

    fn allocator(&self) -> &PageAllocator {
        &self.allocator
    }

    fn run(&mut self, transaction: &mut Transaction) {
        let draw = transaction.random.below(100);
        let profile = MIX.iter().find(|(until, _)| draw < *until);
        match profile.map_or(TransactionKind::GetSubscriberData, |&(_, profile)| profile) {
            TransactionKind::GetSubscriberData => self.get_subscriber_data(transaction),
            TransactionKind::GetNewDestination => self.get_new_destination(transaction),
            TransactionKind::GetAccessData => self.get_access_data(transaction),
            TransactionKind::UpdateSubscriberData => self.update_subscriber_data(transaction),
            TransactionKind::UpdateLocation => self.update_location(transaction),
            TransactionKind::InsertCallForwarding => self.insert_call_forwarding(transaction),
            TransactionKind::DeleteCallForwarding => self.delete_call_forwarding(transaction),
        }
    }
}

/// Make the draws for each table's rows independent.
const ACCESS_INFOS: u64 = 1 << 60;
const FACILITIES: u64 = 2 << 60;
const FORWARDINGS: u64 = 3 << 60;

/// The row of `subscriber` with type `kind` of 4. A subscriber has one to four such rows,
/// each number equally likely, 2.5 on average.
fn subscriber_row(subscriber: u64, kind: u64, table: u64) -> SubscriberRow {
    let bits = mixed(subscriber ^ table);
    let position = (kind + (bits >> 8)) % 4;
    SubscriberRow { rank: subscriber * 5 / 2 + position, exists: position <= bits % 4 }
}

/// True for 85 of 100 facilities.
fn is_active(facility: u64) -> bool {
    (mixed(facility ^ FACILITIES) >> 16) % 100 < 85
}

/// A number that identifies one of the three forwardings that a facility may have.
fn forwarding(facility: u64, start: u64) -> u64 {
    facility * 3 + start
}

/// The rank of a facility's forwardings in key order; a facility has 1.5 on average.
fn forwarding_rank(facility: u64) -> u64 {
    facility * 3 / 2
}

#[cfg(test)]
mod tests {
    use super::super::database::SessionTape;
    use super::*;

    #[test]
    fn the_mix_is_the_standards() {
        let options =
            BenchmarkOptions { references: 1_000_000, page_size: 8192, clients: 1, warmup: 0, hint_bits: true, seed: 1 };
        let mut database = TatpDatabase::new(100_000, &options);
        let mut recorder = SessionTape::new(1);
        let shares = MIX.map(|(until, _)| until);
        assert_eq!(shares, [35, 45, 80, 82, 96, 98, 100]);
        let (mut changes, mut references) = (0, 0);
        for _ in 0..50_000 {
            let before = database.changed.len();
            let made = recorder.record(0, |transaction| database.run(transaction));
            changes += database.changed.len() - before;
            references += made.len();
        }
        // Of a thousand insertions and a thousand deletions 31.25 % find the row that they
        // need; few of these rows were changed earlier.
        assert!((540..680).contains(&changes), "{changes}");
        assert!((235_000..265_000).contains(&references), "{references}");
    }

    /// 2.5 facilities per subscriber, 1.5 forwardings per facility, 85 % of facilities active.
    #[test]
    fn subscribers_have_the_rows_of_the_standard() {
        let options = BenchmarkOptions { references: 0, page_size: 8192, clients: 1, warmup: 0, hint_bits: true, seed: 1 };
        let database = TatpDatabase::new(40_000, &options);
        let kinds = (0..40_000).flat_map(|subscriber| (0..4).map(move |kind| (subscriber, kind)));
        let facilities: Vec<SubscriberRow> = kinds
            .map(|(subscriber, kind)| subscriber_row(subscriber, kind, FACILITIES))
            .filter(|facility| facility.exists)
            .collect();
        assert!((99_000..101_000).contains(&facilities.len()));
        let active = facilities.iter().filter(|one| is_active(one.rank)).count();
        let share = active as f64 / facilities.len() as f64;
        assert!((0.84..0.86).contains(&share), "{share}");
        let forwardings: usize = facilities
            .iter()
            .map(|one| (0..3).filter(|&start| database.forwarding_page(one.rank, start).is_some()).count())
            .sum();
        let mean = forwardings as f64 / facilities.len() as f64;
        assert!((1.48..1.52).contains(&mean), "{mean}");
    }
}
