//! Delivery: 4 of 100 transactions, each for the ten districts of a warehouse.

use super::super::database::Transaction;
use super::orders::{OrderId, OrderPlace};
use super::schema::{Company, DELIVERED, DISTRICTS};

impl Company {
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
            let page = self.place(order).new_order;
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
        let order = OrderId {
            district,
            number: state.undelivered,
        };
        let exists = state.undelivered < state.next;
        state.undelivered += u64::from(exists);
        // The key of the order that was delivered before is found dead.
        self.search_new_order(transaction, order, order.number > DELIVERED);
        if !exists {
            return None;
        }
        let page = self.place(order).new_order;
        if order.number > DELIVERED {
            let before = OrderId {
                number: order.number - 1,
                ..order
            };
            let other = self.place(before).new_order;
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
        let leaf = self.place(order).new_order_leaf;
        self.new_orders_key
            .search_at(transaction, rank, leaf, kills);
    }

    fn update_orders(
        &mut self,
        transaction: &mut Transaction,
        orders: impl Iterator<Item = OrderId> + Clone,
    ) {
        for order in orders.clone() {
            self.search_order(transaction, order);
        }
        for order in orders.clone() {
            let mut place = self.place(order);
            let old = place.order;
            self.orders.visit(transaction, old);
            if let Some(page) = self.orders.replace(transaction, old) {
                self.orders_key
                    .insert_at(transaction, order.rank(), place.order_leaf);
                self.orders.read(transaction, old);
                let customer = self.customer_of(order);
                self.customer_orders_index.insert(transaction, customer);
                place.order = page;
                self.set_place(order, place);
            }
        }
        transaction.end_statement();
        for order in orders.clone() {
            self.search_order(transaction, order);
        }
        for order in orders {
            let page = self.place(order).order;
            self.orders.visit(transaction, page);
        }
        transaction.end_statement();
    }

    fn update_lines(
        &mut self,
        transaction: &mut Transaction,
        orders: impl Iterator<Item = OrderId> + Clone,
    ) {
        for order in orders.clone() {
            self.search_lines(transaction, order);
        }
        for order in orders.clone() {
            let mut place = self.place(order);
            let count = self.lines(order).all().len();
            self.read_lines(transaction, place);
            self.replace_lines(transaction, order, &mut place, count);
            self.set_place(order, place);
        }
        transaction.end_statement();
        for order in orders.clone() {
            self.search_lines(transaction, order);
        }
        for order in orders {
            let place = self.place(order);
            self.read_lines(transaction, place);
        }
        transaction.end_statement();
    }

    /// Updates an order's lines; the first half is on the one page, the second on the
    /// other.
    fn replace_lines(
        &mut self,
        transaction: &mut Transaction,
        order: OrderId,
        place: &mut OrderPlace,
        count: usize,
    ) {
        let pages = place.lines;
        for at in 0..count {
            let half = usize::from(2 * at >= count);
            let old = pages[half];
            if let Some(page) = self.order_lines.replace(transaction, old) {
                self.order_lines_key
                    .insert_at(transaction, order.rank() * 10, place.line_leaf);
                self.order_lines.read(transaction, old);
                place.lines[half] = page;
            }
        }
    }
}
