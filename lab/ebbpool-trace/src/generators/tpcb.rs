//! `tpcb`: the page requests of TPC-B, as run by pgbench, on a row store.
//!
//! A transaction adds an amount to an account, reads its balance, adds the amount to
//! a teller and to a branch, and appends to the history. Tellers are drawn uniformly;
//! in 85 of 100 transactions the account is in the teller's branch, else in another
//! branch (TPC-B standard, 5.3.4 and 5.3.5).

use super::arguments::{Arguments, GeneratorParameter, SEED, whole};
use super::database::{
    Benchmark, BenchmarkOptions, CLIENTS, HINT_BITS, HOT_GROWTH, HOT_VERSIONS, Heap, HeapSize, Index, IndexSize, PAGE_SIZE,
    PageAllocator, REFERENCES, Transaction, WARMUP, generator,
};
use super::random::Chance;
use super::{Generator, GeneratorEntry, GeneratorInfo};
use crate::error::TraceError;

const TELLERS: u64 = 10;
const ACCOUNTS: u64 = 100_000;
const LOCAL: Chance = Chance::new(85, 100);
/// References of a transaction that finds room on each page.
const FEWEST: u64 = 23;

pub(super) static ENTRY: GeneratorEntry = GeneratorEntry {
    info: GeneratorInfo {
        name: "tpcb",
        summary: "page requests of TPC-B (pgbench) on PostgreSQL's heap files and B+-trees",
        knows_probabilities: false,
        parameters: &[
            GeneratorParameter {
                name: "scale",
                kind: whole(1, 10_000),
                default: "150",
                about: "branches; each has 10 tellers and 100,000 accounts",
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
    generator::<TpcbDatabase>("scale", arguments)
}

/// The database.
struct TpcbDatabase {
    scale: u64,
    accounts: Heap,
    accounts_key: Index,
    tellers: Heap,
    tellers_key: Index,
    branches: Heap,
    branches_key: Index,
    history: Heap,
    allocator: PageAllocator,
}

impl TpcbDatabase {
    fn new(scale: u64, options: &BenchmarkOptions) -> TpcbDatabase {
        let mut allocator = PageAllocator::default();
        let transactions = options.transactions(FEWEST);
        let mut heap = |name, rows, bytes, versions, growth| {
            let size = HeapSize { rows, bytes, versions, growth };
            Heap::new(name, size, options.page_size, options.clients, &mut allocator)
        };
        let accounts = ACCOUNTS * scale;
        // The first update of each page moves a row; few later ones do.
        let moved = transactions.min(accounts / 30);
        let hot = |rows| 100 + 100 * HOT_VERSIONS / rows;
        let tellers = TELLERS * scale;
        let tables = (
            heap("accounts", accounts, 128, 100, moved),
            heap("tellers", tellers, 128, hot(tellers), HOT_GROWTH),
            heap("branches", scale, 128, hot(scale), HOT_GROWTH),
            heap("history", 0, 48, 100, transactions),
        );
        let mut key = |name, keys| {
            let size = IndexSize::built(keys, 20);
            Index::new(name, size, options.page_size, &mut allocator)
        };
        TpcbDatabase {
            scale,
            accounts: tables.0,
            tellers: tables.1,
            branches: tables.2,
            history: tables.3,
            accounts_key: key("accounts_key", accounts),
            tellers_key: key("tellers_key", tellers),
            branches_key: key("branches_key", scale),
            allocator,
        }
    }

    /// The branch of an account, given the branch of the teller.
    fn account_branch(&self, transaction: &mut Transaction, branch: u64) -> u64 {
        if self.scale == 1 || transaction.random.happens(LOCAL) {
            return branch;
        }
        let other = transaction.random.below(self.scale - 1);
        other + u64::from(other >= branch)
    }
}

impl Benchmark for TpcbDatabase {
    fn loaded(scale: u64, options: &BenchmarkOptions) -> TpcbDatabase {
        TpcbDatabase::new(scale, options)
    }

    fn allocator(&self) -> &PageAllocator {
        &self.allocator
    }

    fn run(&mut self, transaction: &mut Transaction) {
        let teller = transaction.random.below(TELLERS * self.scale);
        let branch = teller / TELLERS;
        let account = self.account_branch(transaction, branch) * ACCOUNTS + transaction.random.below(ACCOUNTS);

        self.accounts.seek(transaction, &self.accounts_key, account);
        self.accounts.change_keyed(transaction, account, &[(&self.accounts_key, account)]);
        transaction.end_statement();
        self.accounts.seek(transaction, &self.accounts_key, account);
        transaction.end_statement();
        self.tellers.seek(transaction, &self.tellers_key, teller);
        self.tellers.change_keyed(transaction, teller, &[(&self.tellers_key, teller)]);
        transaction.end_statement();
        self.branches.seek(transaction, &self.branches_key, branch);
        self.branches.change_keyed(transaction, branch, &[(&self.branches_key, branch)]);
        transaction.end_statement();
        self.history.insert(transaction);
    }
}
