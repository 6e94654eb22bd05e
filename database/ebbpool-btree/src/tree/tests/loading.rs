//! Compares loading with inserts, and its pages with the order that `bulk` describes.

use std::ops::Bound;

use super::fixture::{Fixture, TransactionLogger, put, up};
use super::walk::walk;
use crate::error::DatabaseError;
use crate::page::cell::{Value, inner_cell_size, leaf_cell_size};
use crate::page::node::{Node, SLOT};
use crate::page::overflow::OverflowPart;

type Records = Vec<(Vec<u8>, Vec<u8>)>;

fn records(count: u32, seed: u64, longest: usize) -> Records {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut record = |number: u32| {
        let mut key = (number * 3).to_be_bytes().to_vec();
        key.resize(4 + random.usize(..8), b'k');
        (key, vec![number as u8; random.usize(..=longest)])
    };
    (0..count).map(&mut record).collect()
}

fn load(fixture: &Fixture, records: &Records, fill: f64, logger: &mut TransactionLogger) -> Result<u64, DatabaseError> {
    let mut records = records.iter().cloned().map(Ok);
    fixture.tree.load(&mut records, fill, logger)
}

/// The numbers of pages, computed from the description in `bulk` alone.
#[derive(Default)]
struct PageNumbers {
    next: u64,
    /// The number of pages that an allocation map covers; the second of them is the map.
    span: u64,
    most: usize,
    /// Of each level the open node: page, cells, bytes used, first key.
    open: Vec<(u64, usize, usize, Vec<u8>)>,
    /// Of each level the pages of closed nodes, in order.
    closed: Vec<Vec<u64>>,
}

impl PageNumbers {
    fn take(&mut self) -> u64 {
        if self.next % self.span == 1 {
            self.next += 1;
        }
        self.next += 1;
        self.next - 1
    }

    fn close(&mut self, level: usize, page: u64) {
        if self.closed.len() <= level {
            self.closed.push(Vec::new());
        }
        self.closed[level].push(page);
    }

    fn add(&mut self, level: usize, first: &[u8], sizes: [usize; 2], least: usize) {
        if self.open.len() == level {
            let node = (self.take(), 0, 0, first.to_vec());
            self.open.push(node);
        }
        let (_, count, used, _) = self.open[level];
        let size = sizes[usize::from(count > 0)] + SLOT;
        if count >= least && used + size > self.most {
            let new = (self.take(), 1, sizes[0] + SLOT, first.to_vec());
            let (old, _, _, old_first) = std::mem::replace(&mut self.open[level], new);
            self.close(level, old);
            self.push(level + 1, &old_first);
        } else {
            self.open[level].1 += 1;
            self.open[level].2 += size;
        }
    }

    fn push(&mut self, level: usize, first: &[u8]) {
        let sizes = [inner_cell_size(b""), inner_cell_size(first)];
        self.add(level, first, sizes, 2);
    }
}

fn numbers(fixture: &Fixture, records: &Records, fill: f64) -> Vec<Vec<u64>> {
    let capacity = Node::capacity(fixture.payload());
    let mut numbers = PageNumbers {
        next: 3,
        span: fixture.tree.allocation.maps.span,
        most: (capacity as f64 * fill).floor() as usize,
        ..PageNumbers::default()
    };
    for (key, value) in records {
        let size = match fixture.tree.overflows(key, value) {
            true => {
                for _ in value.chunks(OverflowPart::most(fixture.payload())) {
                    numbers.take();
                }
                let (first, length) = (0, 0);
                leaf_cell_size(key, Value::Overflow { first, length })
            }
            false => leaf_cell_size(key, Value::Inline(value)),
        };
        numbers.add(0, key, [size; 2], 1);
    }
    let mut level = 0;
    while level + 1 < numbers.open.len() {
        let (page, _, _, first) = numbers.open[level].clone();
        numbers.close(level, page);
        numbers.push(level + 1, &first);
        level += 1;
    }
    // The topmost one becomes the root.
    numbers.closed.push(vec![2]);
    numbers.closed
}

#[test]
fn pages_are_numbered_as_described() {
    let cases = [
        (512, 0, 20, 1.0),
        (512, 1, 20, 1.0),
        (512, 12, 20, 1.0),
        (512, 13, 20, 0.5),
        (512, 700, 20, 1.0),
        (512, 700, 900, 0.8),
        (1024, 3000, 40, 0.67),
        (512, 2500, 30, 0.0),
        (4096, 9000, 100, 0.9),
    ];
    for (page_size, count, longest, fill) in cases {
        let mut fixture = Fixture::new(page_size, 32);
        let records = records(count, u64::from(count), longest);
        let loaded = load(&fixture, &records, fill, &mut TransactionLogger::default()).unwrap();
        assert_eq!(loaded, u64::from(count));
        fixture.model.extend(records.iter().cloned());
        let walk = fixture.verify();
        let expected = match count {
            0 => vec![vec![2]],
            _ => numbers(&fixture, &records, fill),
        };
        assert_eq!(usize::from(walk.height), expected.len());
        let leaves: Vec<u64> = walk.leaves.iter().map(|leaf| leaf.0).collect();
        assert_eq!(leaves, expected[0]);
        for (level, pages) in expected.iter().enumerate().skip(1) {
            let nodes = walk.inner.iter().filter(|node| usize::from(node.1) == level);
            assert_eq!(nodes.map(|node| node.0).collect::<Vec<_>>(), *pages);
        }
        let capacity = Node::capacity(fixture.payload()) as f64;
        if fill > 0.0 {
            assert!(walk.leaves.iter().all(|leaf| leaf.1 as f64 <= fill * capacity));
        }
    }
}

#[test]
fn a_loaded_tree_can_be_changed_like_any_other() {
    let mut fixture = Fixture::new(512, 32);
    let records = records(2000, 5, 60);
    load(&fixture, &records, 0.9, &mut TransactionLogger::default()).unwrap();
    fixture.model.extend(records.iter().cloned());
    let mut random = fastrand::Rng::with_seed(9);
    for (key, _) in &records {
        match random.u8(..3) {
            0 => fixture.remove(key).unwrap(),
            1 => fixture.put(key, &vec![3; random.usize(..900)]).unwrap(),
            _ => fixture.put(&[&key[..4], b"new"].concat(), b"value").unwrap(),
        }
    }
    fixture.verify();
    for (key, _) in fixture.model.clone() {
        fixture.remove(&key).unwrap();
    }
    assert_eq!(fixture.verify().pages.len(), 1);
}

#[test]
fn a_tree_of_nodes_with_one_or_two_cells_shrinks_to_its_root() {
    for count in [2, 3, 5, 8, 9, 33, 130, 300] {
        for order in 0..6 {
            let mut fixture = Fixture::new(512, 64);
            let records = records(count, 3, 20);
            load(&fixture, &records, 0.0, &mut TransactionLogger::default()).unwrap();
            fixture.model.extend(records.iter().cloned());
            let height = fixture.verify().height;
            assert!(1 << (height - 1) >= count, "{height}");
            let mut keys: Vec<_> = fixture.model.keys().cloned().collect();
            match order {
                0 => {}
                1 => keys.reverse(),
                _ => fastrand::Rng::with_seed(order).shuffle(&mut keys),
            }
            for key in keys {
                fixture.remove(&key).unwrap();
                fixture.verify();
            }
            assert_eq!(fixture.verify().pages.len(), 1, "{count}, {order}");
        }
    }
}

/// The number of leaves under each node of level 1.
fn leaves_of_nodes(fixture: &Fixture) -> Vec<usize> {
    let inner = fixture.verify().inner;
    let lowest = inner.iter().filter(|node| node.1 == 1);
    lowest.map(|node| node.2.len()).collect()
}

#[test]
fn a_leaf_alone_under_its_parent_is_merged_after_its_parent() {
    let key = |number: u32| number.to_be_bytes().to_vec();
    let record = |number: u32| (key(number), vec![1; 100]);
    let mut fixture = Fixture::new(512, 64);
    load(&fixture, &(0..400).map(record).collect(), 1.0, &mut TransactionLogger::default()).unwrap();
    fixture.model.extend((0..400).map(record));
    let most = leaves_of_nodes(&fixture)[0] as u32;
    // With four records in a leaf: a full node, and one with a single leaf, which has three records.
    let mut fixture = Fixture::new(512, 64);
    let count = most * 4 + 3;
    load(&fixture, &(0..count).map(record).collect(), 1.0, &mut TransactionLogger::default()).unwrap();
    fixture.model.extend((0..count).map(record));
    assert_eq!(leaves_of_nodes(&fixture), [most as usize, 1]);
    // The full node's last leaf becomes sparse while its neighbour is full; then half of the node is
    // emptied.
    for number in (most * 4 - 3..most * 4).chain(0..most * 2) {
        fixture.remove(&key(number)).unwrap();
    }
    let before = leaves_of_nodes(&fixture);
    assert_eq!(before.len(), 2);
    assert!(before[0] > (most / 4) as usize);
    // When the single leaf becomes sparse, its parent is merged, and then the leaf with its new neighbour.
    for number in count - 2..count {
        fixture.remove(&key(number)).unwrap();
    }
    assert_eq!(leaves_of_nodes(&fixture), [before[0]]);
    assert_eq!(fixture.verify().height, 2);
}

#[test]
fn a_tree_of_full_nodes_emptied_one_by_one_shrinks_to_its_root() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut fixture = Fixture::new(512, 64);
        // With four records in a leaf, an inner node of level 1 has about 130.
        let key = |number: u32| number.to_be_bytes().to_vec();
        let records: Records = (0..1000).map(|number| (key(number), vec![1; 100])).collect();
        load(&fixture, &records, 1.0, &mut TransactionLogger::default()).unwrap();
        fixture.model.extend(records.iter().cloned());
        let length = random.usize(20..300);
        let mut blocks: Vec<Vec<_>> = records.chunks(length).map(<[_]>::to_vec).collect();
        random.shuffle(&mut blocks);
        for mut block in blocks {
            match random.u8(..3) {
                0 => {}
                1 => block.reverse(),
                _ => random.shuffle(&mut block),
            }
            for (key, _) in &block {
                fixture.remove(key).unwrap();
            }
        }
        assert_eq!(fixture.verify().pages.len(), 1, "seed {seed}");
    }
}

#[test]
fn a_load_is_the_same_as_inserts() {
    let records = records(1500, 6, 500);
    let loaded = Fixture::new(1024, 64);
    load(&loaded, &records, 1.0, &mut TransactionLogger::default()).unwrap();
    let inserted = Fixture::new(1024, 64);
    for (key, value) in &records {
        put(&inserted.tree, key, value, &mut TransactionLogger::default()).unwrap();
    }
    let of = |fixture: &Fixture| up(&fixture.tree, Bound::Unbounded);
    assert_eq!(of(&loaded), of(&inserted));
    assert!(walk(&loaded.tree).leaves.len() <= walk(&inserted.tree).leaves.len());
}

#[test]
fn a_load_that_fails_is_rolled_back() {
    let fixture = Fixture::new(512, 32);
    let mut good = records(800, 7, 700);
    let mut unsorted = good.clone();
    unsorted[500].0 = unsorted[499].0.clone();
    let mut long_key = good.clone();
    long_key[799].0 = vec![255; fixture.most_key_bytes() + 1];
    for (bad, number) in [(unsorted, 501), (long_key, 0)] {
        let mut logger = TransactionLogger::default();
        match load(&fixture, &bad, 0.7, &mut logger) {
            Err(DatabaseError::Unsorted { record }) => assert_eq!(record, number),
            Err(DatabaseError::KeyTooLong { .. }) => assert_eq!(number, 0),
            other => panic!("{other:?}"),
        }
        logger.roll_back(&fixture.tree).unwrap();
        assert_eq!(fixture.verify().pages.len(), 1);
    }
    let mut logger = TransactionLogger::default();
    let broken = || DatabaseError::corrupt(99, "the iterator's error");
    let mut records = good.iter().cloned().map(Ok).take(300).chain([Err(broken())]);
    let failed = fixture.tree.load(&mut records, 1.0, &mut logger);
    assert!(matches!(failed, Err(DatabaseError::Corrupt { page: 99, .. })));
    logger.roll_back(&fixture.tree).unwrap();
    assert_eq!(fixture.verify().pages.len(), 1);
    // A load that succeeded can be rolled back too.
    let mut logger = TransactionLogger::default();
    load(&fixture, &good, 1.0, &mut logger).unwrap();
    let again = load(&fixture, &good, 1.0, &mut TransactionLogger::default());
    assert!(matches!(again, Err(DatabaseError::NotEmpty)));
    logger.roll_back(&fixture.tree).unwrap();
    assert_eq!(fixture.verify().pages.len(), 1);
    good.truncate(1);
    load(&fixture, &good, 1.0, &mut TransactionLogger::default()).unwrap();
    assert_eq!(up(&fixture.tree, Bound::Unbounded), good);
}

#[test]
fn loaded_pages_are_in_storage_before_the_root_refers_to_them() {
    let fixture = Fixture::new(512, 32);
    let records = records(800, 8, 100);
    load(&fixture, &records, 1.0, &mut TransactionLogger::default()).unwrap();
    let walk = walk(&fixture.tree);
    for page in walk.pages.into_iter().filter(|&page| page != 2) {
        fixture.tree.pool.discard(page).unwrap();
    }
    assert_eq!(up(&fixture.tree, Bound::Unbounded), records);
}
