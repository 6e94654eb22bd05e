//! New-Order: 45 of 100 transactions.

use super::super::database::Transaction;
use super::non_uniform;
use super::orders::{CUSTOMER_REACH, Lines, OrderId, OrderLocation};
use super::schema::{CUSTOMERS, DISTRICTS, ITEMS, TpccDatabase};

impl TpccDatabase {
    pub(super) fn new_order(&mut self, transaction: &mut Transaction) {
        let district = transaction.random.below(self.warehouses * DISTRICTS);
        let order = OrderId { district, number: self.districts[district as usize].next };
        let (customer, lines) = (self.customer_of(order), self.lines(order));
        self.find_warehouse(transaction, order.warehouse());
        self.find_customer(transaction, customer);
        transaction.end_statement();
        self.find_district(transaction, district);
        self.district.lock(transaction, district);
        transaction.end_statement();
        self.find_district(transaction, district);
        self.change_district(transaction, district);
        transaction.end_statement();
        let mut location = self.insert_order(transaction, order, customer);
        self.read_items(transaction, &lines);
        // One of 100 orders an item that does not exist, and is rolled back.
        if transaction.random.below(100) == 0 {
            return;
        }
        self.update_stocks(transaction, order, &lines);
        self.insert_lines(transaction, order, &lines, &mut location);
        self.districts[district as usize].next += 1;
        self.last_orders.insert(customer, order.number);
        self.set_location(order, location);
    }

    fn insert_order(&mut self, transaction: &mut Transaction, order: OrderId, customer: u64) -> OrderLocation {
        let mut location = self.location(order);
        let new_order_rank = self.new_order_rank(order);
        let district = &mut self.districts[order.district as usize];
        location.order = self.orders.insert(transaction);
        location.order_leaf = self.orders_key.append(transaction, order.rank(), &mut district.orders);
        self.customer_orders_index.insert(transaction, customer);
        transaction.end_statement();
        location.new_order = self.new_orders.insert(transaction);
        location.new_order_leaf = self.new_orders_key.append(transaction, new_order_rank, &mut district.new_orders);
        transaction.end_statement();
        location
    }

    fn read_items(&mut self, transaction: &mut Transaction, lines: &Lines) {
        for line in lines.all() {
            self.item.seek(transaction, &self.item_key, line.item);
        }
        transaction.end_statement();
    }

    /// Locks all stocks in one statement, then updates one after the other.
    fn update_stocks(&mut self, transaction: &mut Transaction, order: OrderId, lines: &Lines) {
        let home = order.warehouse();
        let others = self.warehouses;
        let stock = |item: u64, remote: bool| {
            let warehouse = match remote {
                true => (home + 1 + item % (others - 1)) % others,
                false => home,
            };
            warehouse * ITEMS + item
        };
        // A bitmap scan finds all keys first, then the rows are read in order.
        for line in lines.all() {
            let row = stock(line.item, line.remote);
            self.stock_key.search(transaction, row, false);
        }
        for line in lines.all() {
            let row = stock(line.item, line.remote);
            self.stock.fetch(transaction, row);
            self.stock.lock(transaction, row);
        }
        transaction.end_statement();
        for line in lines.all() {
            let row = stock(line.item, line.remote);
            self.stock.seek(transaction, &self.stock_key, row);
            let keys = [(&self.stock_key, row)];
            self.stock.change_keyed(transaction, row, &keys);
            transaction.end_statement();
        }
    }

    fn insert_lines(&mut self, transaction: &mut Transaction, order: OrderId, lines: &Lines, location: &mut OrderLocation) {
        let district = &mut self.districts[order.district as usize];
        for at in 0..lines.all().len() {
            let page = self.order_lines.insert(transaction);
            let leaf = self.order_lines_key.append(transaction, order.rank() * 10, &mut district.order_lines);
            if at == 0 {
                location.lines[0] = page;
                location.line_leaf = leaf;
            }
            location.lines[1] = page;
        }
    }

    /// A customer of a district, non-uniform.
    pub(super) fn draw_customer(&self, transaction: &mut Transaction, district: u64) -> u64 {
        district * CUSTOMERS + non_uniform(transaction.random, CUSTOMER_REACH, 0, CUSTOMERS)
    }
}
