//! Payment: 43 of 100 transactions.

use super::super::database::Transaction;
use super::customers::{NAME_REACH, NAMES};
use super::non_uniform;
use super::schema::{CUSTOMERS, DISTRICTS, TpccDatabase};

/// The standard requires C to differ by 65 to 119 from the C at the start, which is 0 here.
const NAME_SHIFT: u64 = 91;

impl TpccDatabase {
    pub(super) fn payment(&mut self, transaction: &mut Transaction) {
        let district = transaction.random.below(self.warehouses * DISTRICTS);
        let warehouse = district / DISTRICTS;
        self.find_district(transaction, district);
        self.change_district(transaction, district);
        transaction.end_statement();
        self.find_district(transaction, district);
        transaction.end_statement();
        self.find_warehouse(transaction, warehouse);
        let keys = [(&self.warehouse_key, warehouse)];
        self.warehouse.change_keyed(transaction, warehouse, &keys);
        transaction.end_statement();
        self.find_warehouse(transaction, warehouse);
        transaction.end_statement();
        let home = self.payer_district(transaction, district);
        let customer = self.choose_customer(transaction, home);
        self.find_customer(transaction, customer);
        self.customer.lock(transaction, customer);
        transaction.end_statement();
        // Of 100 customers 10 have bad credit, and their data are read.
        if customer.is_multiple_of(10) {
            self.find_customer(transaction, customer);
            transaction.end_statement();
        }
        self.find_customer(transaction, customer);
        self.change_customer(transaction, customer);
        transaction.end_statement();
        self.history.insert(transaction);
        // Equal keys are in the order of rows, so the new one is last.
        let last = |warehouse: u64| (warehouse + 1) * DISTRICTS * CUSTOMERS - 1;
        self.history_warehouse_index.insert(transaction, last(warehouse));
        self.history_customer_index.insert(transaction, last(home / DISTRICTS));
    }

    /// The district of the customer who pays: 15 of 100 customers are of another warehouse.
    fn payer_district(&self, transaction: &mut Transaction, district: u64) -> u64 {
        if self.warehouses == 1 || transaction.random.below(100) >= 15 {
            return district;
        }
        let other = transaction.random.below((self.warehouses - 1) * DISTRICTS);
        let home = district / DISTRICTS * DISTRICTS;
        other + if other >= home { DISTRICTS } else { 0 }
    }

    /// A customer of a district: in 60 of 100 cases the middle one of those with a given name.
    pub(super) fn choose_customer(&mut self, transaction: &mut Transaction, district: u64) -> u64 {
        if transaction.random.below(100) >= 60 {
            return self.draw_customer(transaction, district);
        }
        let name = non_uniform(transaction.random, NAME_REACH, NAME_SHIFT, NAMES);
        let first = district * CUSTOMERS;
        let named = self.customers.named(name);
        let chosen = first + u64::from(named[named.len() / 2]);
        let rank = self.customers.name_rank(first + named.first().map_or(0, |&one| u64::from(one)));
        self.name_index.search(transaction, rank, false);
        for &customer in named {
            self.customer.fetch(transaction, first + u64::from(customer));
        }
        transaction.end_statement();
        chosen
    }
}
