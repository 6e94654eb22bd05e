//! The content of orders, and where their rows are.

use super::super::database::{Transaction, mixed};
use super::super::random::Random;
use super::non_uniform;
use super::schema::{CUSTOMERS, ITEMS, ORDERS, TpccDatabase};

/// The standard's A for items.
const ITEM_REACH: u64 = 8_191;
/// The standard's A for customers.
pub(super) const CUSTOMER_REACH: u64 = 1_023;
/// One of this many lines is supplied by another warehouse.
const REMOTE_LINES: u64 = 100;
/// A factor that permutes the customers of a district, and its inverse.
const SPREAD: u64 = 1_601;
const GATHER: u64 = 401;
const LINES_AT_START: u64 = 10;

/// An order of a district, from 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderId {
    pub(super) district: u64,
    pub(super) number: u64,
}

/// Where the rows and keys of an order are.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderLocation {
    /// In the table of orders.
    pub(super) order: u32,
    /// The first and the last line, in the table of order lines.
    pub(super) lines: [u32; 2],
    /// In the table of new orders.
    pub(super) new_order: u32,
    /// Leaves of the indexes of orders, new orders and order lines.
    pub(super) order_leaf: u64,
    pub(super) new_order_leaf: u64,
    pub(super) line_leaf: u64,
}

/// An order line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) item: u64,
    /// True if another warehouse supplies it.
    pub(super) remote: bool,
}

/// The lines of an order; at most 15.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines {
    lines: [Line; 15],
    count: usize,
}

impl Lines {
    pub(super) fn all(&self) -> &[Line] {
        &self.lines[..self.count]
    }
}

impl OrderId {
    /// A number that identifies the order.
    fn id(self) -> u64 {
        self.district << 40 | self.number
    }

    pub(super) fn warehouse(self) -> u64 {
        self.district / super::schema::DISTRICTS
    }

    /// The order's rank in key order at the start; for an order made later, the rank of
    /// its district's last order.
    pub(super) fn rank(self) -> u64 {
        self.district * ORDERS + self.number.min(ORDERS - 1)
    }
}

impl TpccDatabase {
    /// The lines of an order: 5 to 15, in the order of items. Items are non-uniform, or
    /// uniform in the orders at the start (standard, 4.3.3.1).
    pub(super) fn lines(&self, order: OrderId) -> Lines {
        let mut random = Random::new(mixed(self.seed) ^ order.id());
        let nothing = Line { item: 0, remote: false };
        let mut lines = Lines { lines: [nothing; 15], count: 5 + random.below(11) as usize };
        let reach = if order.number < ORDERS { 0 } else { ITEM_REACH };
        for line in &mut lines.lines[..lines.count] {
            line.item = non_uniform(&mut random, reach, 0, ITEMS);
            line.remote = self.warehouses > 1 && random.below(REMOTE_LINES) == 0;
        }
        lines.lines[..lines.count].sort_unstable_by_key(|line| line.item);
        lines
    }

    /// Where the rows of an order are.
    pub(super) fn location(&self, order: OrderId) -> OrderLocation {
        if let Some(location) = self.locations.get(&order.id()) {
            return *location;
        }
        let rank = order.rank();
        let new_order = self.new_order_rank(order);
        let lines = rank * LINES_AT_START;
        OrderLocation {
            order: self.orders.home(rank),
            lines: [self.order_lines.home(lines), self.order_lines.home(lines + LINES_AT_START - 1)],
            new_order: self.new_orders.home(new_order),
            order_leaf: self.orders_key.leaf(rank),
            new_order_leaf: self.new_orders_key.leaf(new_order),
            line_leaf: self.order_lines_key.leaf(lines),
        }
    }

    pub(super) fn set_location(&mut self, order: OrderId, location: OrderLocation) {
        self.locations.insert(order.id(), location);
    }

    /// The rank of an order among those that were not delivered at the start.
    pub(super) fn new_order_rank(&self, order: OrderId) -> u64 {
        let undelivered = ORDERS - super::schema::DELIVERED;
        let number = order.number.clamp(super::schema::DELIVERED, ORDERS - 1);
        order.district * undelivered + number - super::schema::DELIVERED
    }

    /// The customer of an order: the orders of a district at the start have a permutation of
    /// its customers, later orders have non-uniform ones.
    pub(super) fn customer_of(&self, order: OrderId) -> u64 {
        let within = if order.number < ORDERS {
            (order.number * SPREAD + 7) % CUSTOMERS
        } else {
            let mut random = Random::new(mixed(!self.seed) ^ order.id());
            non_uniform(&mut random, CUSTOMER_REACH, 0, CUSTOMERS)
        };
        order.district * CUSTOMERS + within
    }

    /// The last order of a customer.
    pub(super) fn last_order(&self, customer: u64) -> OrderId {
        let district = customer / CUSTOMERS;
        let number = self.last_orders.get(&customer).copied();
        let at_start = ((customer % CUSTOMERS + CUSTOMERS - 7) * GATHER) % CUSTOMERS;
        OrderId { district, number: number.unwrap_or(at_start) }
    }

    /// Descends to the lines of an order in their index.
    pub(super) fn search_lines(&self, transaction: &mut Transaction, order: OrderId) -> OrderLocation {
        let location = self.location(order);
        let rank = order.rank() * LINES_AT_START;
        self.order_lines_key.search_at(transaction, rank, location.line_leaf, false);
        location
    }

    /// Descends to an order in its index.
    pub(super) fn search_order(&self, transaction: &mut Transaction, order: OrderId) -> OrderLocation {
        let location = self.location(order);
        self.orders_key.search_at(transaction, order.rank(), location.order_leaf, false);
        location
    }

    /// Reads the pages of an order's lines.
    pub(super) fn read_lines(&mut self, transaction: &mut Transaction, location: OrderLocation) {
        self.order_lines.visit(transaction, location.lines[0]);
        if location.lines[1] != location.lines[0] {
            self.order_lines.visit(transaction, location.lines[1]);
        }
    }
}
