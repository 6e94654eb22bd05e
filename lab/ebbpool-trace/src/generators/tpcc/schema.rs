//! The tables and indexes, and how rows are found in them.

use hashbrown::HashMap;

use super::super::database::{
    AppendPoint, BenchmarkOptions, HOT_GROWTH, HOT_VERSIONS, Heap, HeapSize, Index, IndexSize, PageAllocator, Transaction,
};
use super::customers::Customers;
use super::orders::OrderLocation;

pub(super) const DISTRICTS: u64 = 10;
pub(super) const CUSTOMERS: u64 = 3_000;
pub(super) const ITEMS: u64 = 100_000;
/// Orders of a district at the start; the last 900 are not delivered.
pub(super) const ORDERS: u64 = 3_000;
pub(super) const DELIVERED: u64 = 2_100;
/// Lines of an order, on average.
const LINES: u64 = 10;
/// A transaction makes more references than this on average.
pub(super) const FEWEST: u64 = 165;
/// In percent; about ln 2, as theory predicts.
const RANDOM_FILL: u64 = 65;
/// The cost of using the index of the table of warehouses, in page reads: two random reads
/// of 4 each. Reading all pages of the table is cheaper if it costs less than this. A row
/// costs a hundredth. These are the planner's defaults.
const INDEX_COST: u64 = 8;
const ROWS_PER_COST: u64 = 80;

/// The changing state of a district.
#[derive(Debug, Clone)]
pub(super) struct District {
    /// The next order's number, from 0.
    pub(super) next: u64,
    /// The oldest order that is not delivered.
    pub(super) undelivered: u64,
    pub(super) orders: AppendPoint,
    pub(super) new_orders: AppendPoint,
    pub(super) order_lines: AppendPoint,
}

impl District {
    /// A district at the start; `keys` are the indexes of orders, new orders and order lines.
    fn loaded(district: u64, keys: [&Index; 3]) -> District {
        let [orders, new_orders, order_lines] = keys;
        let after = district + 1;
        District {
            next: ORDERS,
            undelivered: DELIVERED,
            orders: orders.append_point(after * ORDERS - 1),
            new_orders: new_orders.append_point(after * (ORDERS - DELIVERED) - 1),
            order_lines: order_lines.append_point(after * ORDERS * LINES - 1),
        }
    }
}

/// The database.
pub(super) struct TpccDatabase {
    pub(super) seed: u64,
    pub(super) warehouses: u64,
    pub(super) warehouse: Heap,
    pub(super) warehouse_key: Index,
    pub(super) district: Heap,
    pub(super) district_key: Index,
    pub(super) customer: Heap,
    pub(super) customer_key: Index,
    pub(super) name_index: Index,
    pub(super) history: Heap,
    pub(super) history_warehouse_index: Index,
    pub(super) history_customer_index: Index,
    pub(super) new_orders: Heap,
    pub(super) new_orders_key: Index,
    pub(super) orders: Heap,
    pub(super) orders_key: Index,
    pub(super) customer_orders_index: Index,
    pub(super) order_lines: Heap,
    pub(super) order_lines_key: Index,
    pub(super) stock: Heap,
    pub(super) stock_key: Index,
    pub(super) item: Heap,
    pub(super) item_key: Index,
    pub(super) districts: Vec<District>,
    /// Orders that were made or have moved since the start.
    pub(super) locations: HashMap<u64, OrderLocation>,
    /// The last order of each customer who has made one since the start.
    pub(super) last_orders: HashMap<u64, u64>,
    pub(super) customers: Customers,
    pub(super) allocator: PageAllocator,
}

/// Creates tables and indexes one after the other.
struct Loader<'a> {
    options: &'a BenchmarkOptions,
    allocator: PageAllocator,
}

impl<'a> Loader<'a> {
    fn new(options: &'a BenchmarkOptions) -> Self {
        Loader { options, allocator: PageAllocator::default() }
    }

    fn heap(&mut self, name: &str, rows: u64, bytes: u64, growth: u64) -> Heap {
        self.hot_heap(name, rows, bytes, 100, growth)
    }

    fn hot_heap(&mut self, name: &str, rows: u64, bytes: u64, versions: u64, growth: u64) -> Heap {
        let size = HeapSize { rows, bytes, versions, growth };
        let (page_size, clients) = (self.options.page_size, self.options.clients);
        Heap::new(name, size, page_size, clients, &mut self.allocator)
    }

    fn index(&mut self, name: &str, keys: u64, entry: u64) -> Index {
        self.add_index(name, IndexSize::built(keys, entry))
    }

    /// An index whose keys were inserted in random order, so that its leaves are less full.
    fn random_index(&mut self, name: &str, keys: u64, entry: u64) -> Index {
        self.add_index(name, IndexSize { fill: RANDOM_FILL, ..IndexSize::built(keys, entry) })
    }

    /// An index to which each district appends keys.
    fn growing_index(&mut self, name: &str, keys: u64, entry: u64, growth: u64, districts: u64) -> Index {
        self.add_index(name, IndexSize { growth, points: districts, ..IndexSize::built(keys, entry) })
    }

    fn add_index(&mut self, name: &str, size: IndexSize) -> Index {
        Index::new(name, size, self.options.page_size, &mut self.allocator)
    }
}

impl TpccDatabase {
    pub(super) fn new(warehouses: u64, options: &BenchmarkOptions) -> TpccDatabase {
        let transactions = options.transactions(FEWEST);
        let mut loader = Loader::new(options);
        let districts = warehouses * DISTRICTS;
        let customers = districts * CUSTOMERS;
        let orders = districts * ORDERS;
        let undelivered = districts * (ORDERS - DELIVERED);
        let stocks = warehouses * ITEMS;
        let made = transactions * 47 / 100;
        // Bytes of rows are those of PostgreSQL's tables on average.
        // Of 100 transactions, 43 and 45 update a warehouse and a district once.
        let versions = |rate, rows| 100 + HOT_VERSIONS * rate / rows;
        let warehouse = loader.hot_heap("warehouse", warehouses, 108, versions(43, warehouses), HOT_GROWTH);
        let warehouse_key = loader.index("warehouse_key", warehouses, 20);
        let district = loader.hot_heap("district", districts, 112, versions(88, districts), HOT_GROWTH);
        let district_key = loader.index("district_key", districts, 20);
        let customer = loader.heap("customer", customers, 600, (transactions * 2 / 3).min(customers / 8));
        let customer_key = loader.index("customer_key", customers, 28);
        let name_index = loader.random_index("name_index", customers, 44);
        let history = loader.heap("history", customers, 84, transactions * 45 / 100);
        // Keys with equal values share an entry.
        let history_warehouse_index = loader.index("history_warehouse_index", customers, 7);
        let history_customer_index = loader.index("history_customer_index", customers, 7);
        let new_orders = loader.heap("new_orders", undelivered, 40, made);
        let new_orders_key = loader.growing_index("new_orders_key", undelivered, 28, made, districts);
        let order_rows = loader.heap("orders", orders, 62, made + transactions * 2 / 10);
        let orders_key = loader.growing_index("orders_key", orders, 28, made, districts);
        let customer_orders_index = loader.random_index("customer_orders_index", orders, 28);
        let order_lines = loader.heap("order_lines", orders * LINES, 92, (made + transactions * 3 / 10) * LINES);
        let order_lines_key = loader.growing_index("order_lines_key", orders * LINES, 28, made * LINES, districts);
        let stock = loader.heap("stock", stocks, 344, (transactions * 5 / 2).min(stocks / 15));
        let stock_key = loader.index("stock_key", stocks, 20);
        let item = loader.heap("item", ITEMS, 102, 0);
        let item_key = loader.index("item_key", ITEMS, 20);
        let keys = [&orders_key, &new_orders_key, &order_lines_key];
        let districts = (0..districts).map(|district| District::loaded(district, keys)).collect();
        TpccDatabase {
            seed: options.seed,
            warehouses,
            warehouse,
            warehouse_key,
            district,
            district_key,
            customer,
            customer_key,
            name_index,
            history,
            history_warehouse_index,
            history_customer_index,
            new_orders,
            new_orders_key,
            orders: order_rows,
            orders_key,
            customer_orders_index,
            order_lines,
            order_lines_key,
            stock,
            stock_key,
            item,
            item_key,
            districts,
            locations: HashMap::new(),
            last_orders: HashMap::new(),
            customers: Customers::new(options.seed),
            allocator: loader.allocator,
        }
    }

    /// Finds a warehouse as the planner would: by a scan of all pages while there are few.
    pub(super) fn find_warehouse(&mut self, transaction: &mut Transaction, warehouse: u64) {
        let pages = u64::from(self.warehouse.length());
        if pages * ROWS_PER_COST + self.warehouses < INDEX_COST * ROWS_PER_COST {
            self.warehouse.scan(transaction);
        } else {
            self.warehouse.seek(transaction, &self.warehouse_key, warehouse);
        }
    }

    pub(super) fn find_district(&mut self, transaction: &mut Transaction, district: u64) {
        self.district.seek(transaction, &self.district_key, district);
    }

    pub(super) fn change_district(&mut self, transaction: &mut Transaction, district: u64) {
        let keys = [(&self.district_key, district)];
        self.district.change_keyed(transaction, district, &keys);
    }

    pub(super) fn find_customer(&mut self, transaction: &mut Transaction, customer: u64) {
        self.customer.seek(transaction, &self.customer_key, customer);
    }

    pub(super) fn change_customer(&mut self, transaction: &mut Transaction, customer: u64) {
        let keys = [(&self.customer_key, customer), (&self.name_index, self.customers.name_rank(customer))];
        self.customer.change_keyed(transaction, customer, &keys);
    }
}
