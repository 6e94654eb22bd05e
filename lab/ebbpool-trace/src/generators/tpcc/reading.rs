//! Order-Status and Stock-Level, which only read: 4 of 100 transactions each.

use super::super::database::Transaction;
use super::orders::OrderId;
use super::schema::{DISTRICTS, ITEMS, TpccDatabase};

/// Stock-Level reads the items of this many last orders.
const LAST_ORDERS: u64 = 20;

impl TpccDatabase {
    pub(super) fn order_status(&mut self, transaction: &mut Transaction) {
        let district = transaction.random.below(self.warehouses * DISTRICTS);
        let customer = self.choose_customer(transaction, district);
        self.find_customer(transaction, customer);
        transaction.end_statement();
        let order = self.last_order(customer);
        let location = self.location(order);
        self.customer_orders_index.search(transaction, customer, false);
        self.orders.visit(transaction, location.order);
        transaction.end_statement();
        self.search_lines(transaction, order);
        self.read_lines(transaction, location);
    }

    pub(super) fn stock_level(&mut self, transaction: &mut Transaction) {
        let district = transaction.random.below(self.warehouses * DISTRICTS);
        self.find_district(transaction, district);
        transaction.end_statement();
        let next = self.districts[district as usize].next;
        let (mut leaf, mut page) = (None, None);
        for number in next - LAST_ORDERS..next {
            let order = OrderId { district, number };
            let location = self.location(order);
            match leaf {
                None => {
                    self.search_lines(transaction, order);
                }
                Some(leaf) if leaf != location.line_leaf => transaction.read(location.line_leaf),
                _ => {}
            }
            leaf = Some(location.line_leaf);
            let lines = self.lines(order);
            for (at, line) in lines.all().iter().enumerate() {
                let on = location.lines[usize::from(2 * at >= lines.all().len())];
                // A page remains pinned until the scan moves to another one.
                if page != Some(on) {
                    self.order_lines.visit(transaction, on);
                    page = Some(on);
                }
                let stock = order.warehouse() * ITEMS + line.item;
                self.stock.seek(transaction, &self.stock_key, stock);
            }
        }
    }
}
