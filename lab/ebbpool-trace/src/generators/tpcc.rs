//! `tpcc`: the page requests of TPC-C on a row store, without think times.
//!
//! The five transactions in the standard's lowest mix (45, 43, 4, 4 and 4 of 100),
//! with its non-uniform choice of customers, names and items. The statements are
//! those of a driver that selects all items and stocks of an order at once. The content of
//! an order follows from its number, so no order line is stored.

mod customers;
mod delivery;
mod new_order;
mod orders;
mod payment;
mod reading;
mod schema;

use super::arguments::{Arguments, GeneratorParameter, SEED, whole};
use super::database::{
    Benchmark, BenchmarkOptions, CLIENTS, HINT_BITS, PAGE_SIZE, PageAllocator, REFERENCES, Transaction, WARMUP, generator,
};
use super::random::Random;
use super::{Generator, GeneratorEntry, GeneratorInfo};
use crate::error::TraceError;
use schema::TpccDatabase;

pub(super) static ENTRY: GeneratorEntry = GeneratorEntry {
    info: GeneratorInfo {
        name: "tpcc",
        summary: "page requests of TPC-C on PostgreSQL's heap files and B+-trees",
        knows_probabilities: false,
        parameters: &[
            GeneratorParameter {
                name: "warehouses",
                kind: whole(1, 10_000),
                default: "20",
                about: "warehouses; each has 10 districts, 30,000 customers and 100,000 stocks",
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
    generator::<TpccDatabase>("warehouses", arguments)
}

impl Benchmark for TpccDatabase {
    fn loaded(warehouses: u64, options: &BenchmarkOptions) -> TpccDatabase {
        TpccDatabase::new(warehouses, options)
    }

    fn allocator(&self) -> &PageAllocator {
        &self.allocator
    }

    fn run(&mut self, transaction: &mut Transaction) {
        match transaction.random.below(100) {
            0..45 => self.new_order(transaction),
            45..88 => self.payment(transaction),
            88..92 => self.order_status(transaction),
            92..96 => self.delivery(transaction),
            _ => self.stock_level(transaction),
        }
    }
}

/// The standard's non-uniform number below `bound` (2.1.6): `reach` is its A and
/// `shift` its C.
fn non_uniform(random: &mut Random, reach: u64, shift: u64, bound: u64) -> u64 {
    let skewed = random.below(reach + 1);
    let any = random.below(bound);
    ((skewed | any) + shift) % bound
}

#[cfg(test)]
mod tests {
    use super::super::database::SessionTape;
    use super::schema::{CUSTOMERS, DELIVERED, ORDERS};
    use super::*;

    const OPTIONS: BenchmarkOptions =
        BenchmarkOptions { references: 4_000_000, page_size: 8192, clients: 20, warmup: 0, hint_bits: true, seed: 3 };

    /// Of 20,000 transactions, 45 % make an order, except for one in a hundred of these, and
    /// 4 % deliver ten orders.
    #[test]
    fn the_mix_is_the_standards() {
        let mut database = TpccDatabase::new(2, &OPTIONS);
        let mut recorder = SessionTape::new(20);
        let mut references = 0;
        for transaction in 0..20_000 {
            let made = recorder.record(transaction % 20, |transaction| database.run(transaction));
            references += made.len();
        }
        let sum = |count: fn(&schema::District) -> u64| database.districts.iter().map(count).sum::<u64>() as f64;
        let made = sum(|district| district.next - ORDERS);
        assert!((made / 8_910.0 - 1.0).abs() < 0.03, "{made} orders");
        let delivered = sum(|district| district.undelivered - DELIVERED);
        assert!((delivered / 8_000.0 - 1.0).abs() < 0.12, "{delivered}");
        let mean = references / 20_000;
        assert!((schema::FEWEST as usize..190).contains(&mean), "{mean} references");
    }

    #[test]
    fn customers_have_their_orders_and_names() {
        let database = TpccDatabase::new(1, &OPTIONS);
        for customer in 0..2 * CUSTOMERS {
            assert_eq!(database.customer_of(database.last_order(customer)), customer);
        }
        let mut ranks: Vec<u64> = (0..CUSTOMERS).map(|customer| database.customers.name_rank(customer)).collect();
        ranks.sort_unstable();
        assert!(ranks.into_iter().eq(0..CUSTOMERS));
        let names = (0..1_000).map(|name| database.customers.named(name).len());
        assert_eq!(names.clone().sum::<usize>() as u64, CUSTOMERS);
        assert_eq!(names.min(), Some(1));
    }

    /// An order has the same content at every call, and its lines follow the standard.
    #[test]
    fn orders_follow_from_their_numbers() {
        let database = TpccDatabase::new(3, &OPTIONS);
        let (mut lines, mut remote) = (0, 0);
        for number in 0..6_000 {
            let order = orders::OrderId { district: 11, number };
            let once = database.lines(order);
            let again = database.lines(order);
            assert!((5..=15).contains(&once.all().len()));
            assert!(once.all().is_sorted_by_key(|line| line.item));
            assert!(once.all().iter().zip(again.all()).all(|(one, other)| one.item == other.item));
            lines += once.all().len();
            remote += once.all().iter().filter(|line| line.remote).count();
        }
        assert!((59_000..61_000).contains(&lines), "{lines}");
        assert!((500..700).contains(&remote), "{remote}");
    }
}
