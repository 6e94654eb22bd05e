//! Delivery: 4 of 100 transactions, each for the ten districts of a warehouse.

use super::super::database::Transaction;
use super::orders::{OrderId, OrderLocation};
use super::schema::{DELIVERED, DISTRICTS, TpccDatabase};

impl TpccDatabase {
    pub(super) fn delivery(&mut self, transaction: &mut Transaction) {
        let warehouse = transaction.random.below(self.warehouses);
        let mut orders = [None; DISTRICTS as usize];
        for (at, order) in orders.iter_mut().enumerate() {
            *order = self.oldest_order(transaction, warehouse * DISTRICTS + at as u64);
            transaction.end_statement();
        }
        let orders = || orders.iter().flatten().copied();
        for order in orders() {
            self.search_new_order(transaction, order, false);
        }
        for order in orders() {
            let page = self.location(order).new_order;
            self.new_orders.visit(transaction, page);
            self.new_orders.delete(transaction, page);
        }
        transaction.end_statement();
        self.update_orders(transaction, orders());
        self.update_lines(transaction, orders());
        for order in orders() {
            let customer = self.customer_of(order);
            self.find_customer(transaction, customer);
            self.change_customer(transaction, customer);
            transaction.end_statement();
        }
    }

    /// Finds and locks a district's oldest order that is not delivered.
    fn oldest_order(&mut self, transaction: &mut Transaction, district: u64) -> Option<OrderId> {
        let state = &mut self.districts[district as usize];
        let order = OrderId { district, number: state.undelivered };
        let exists = state.undelivered < state.next;
        state.undelivered += u64::from(exists);
        // The search finds the dead key of the order that was delivered before.
        self.search_new_order(transaction, order, order.number > DELIVERED);
        if !exists {
            return None;
        }
        let page = self.location(order).new_order;
        if order.number > DELIVERED {
            let before = OrderId { number: order.number - 1, ..order };
            let other = self.location(before).new_order;
            if other != page {
                self.new_orders.visit(transaction, other);
            }
        }
        self.new_orders.visit(transaction, page);
        self.new_orders.write(transaction, page);
        Some(order)
    }

    fn search_new_order(&self, transaction: &mut Transaction, order: OrderId, kills: bool) {
        let rank = self.new_order_rank(order);
        let leaf = self.location(order).new_order_leaf;
        self.new_orders_key.search_at(transaction, rank, leaf, kills);
    }

    fn update_orders(&mut self, transaction: &mut Transaction, orders: impl Iterator<Item = OrderId> + Clone) {
        for order in orders.clone() {
            self.search_order(transaction, order);
        }
        for order in orders.clone() {
            let mut location = self.location(order);
            let old = location.order;
            self.orders.visit(transaction, old);
            if let Some(page) = self.orders.replace(transaction, old) {
                self.orders_key.insert_at(transaction, order.rank(), location.order_leaf);
                self.orders.read(transaction, old);
                let customer = self.customer_of(order);
                self.customer_orders_index.insert(transaction, customer);
                location.order = page;
                self.set_location(order, location);
            }
        }
        transaction.end_statement();
        for order in orders.clone() {
            self.search_order(transaction, order);
        }
        for order in orders {
            let page = self.location(order).order;
            self.orders.visit(transaction, page);
        }
        transaction.end_statement();
    }

    fn update_lines(&mut self, transaction: &mut Transaction, orders: impl Iterator<Item = OrderId> + Clone) {
        for order in orders.clone() {
            self.search_lines(transaction, order);
        }
        for order in orders.clone() {
            let mut location = self.location(order);
            let count = self.lines(order).all().len();
            self.read_lines(transaction, location);
            self.replace_lines(transaction, order, &mut location, count);
            self.set_location(order, location);
        }
        transaction.end_statement();
        for order in orders.clone() {
            self.search_lines(transaction, order);
        }
        for order in orders {
            let location = self.location(order);
            self.read_lines(transaction, location);
        }
        transaction.end_statement();
    }

    /// Updates an order's lines; the first half is on one page, the second on another.
    fn replace_lines(&mut self, transaction: &mut Transaction, order: OrderId, location: &mut OrderLocation, count: usize) {
        let pages = location.lines;
        for at in 0..count {
            let half = usize::from(2 * at >= count);
            let old = pages[half];
            if let Some(page) = self.order_lines.replace(transaction, old) {
                self.order_lines_key.insert_at(transaction, order.rank() * 10, location.line_leaf);
                self.order_lines.read(transaction, old);
                location.lines[half] = page;
            }
        }
    }
}
