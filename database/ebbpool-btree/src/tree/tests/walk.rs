//! Reads the whole tree page by page, without the tree's own code.

use std::collections::{BTreeMap, BTreeSet};

use ebbpool::Lsn;

use crate::log::Record;
use crate::page::cell::Value;
use crate::page::node::Node;
use crate::page::{META, ROOT};
use crate::tree::Tree;

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) records: Vec<(Vec<u8>, Vec<u8>)>,
    /// Page, bytes used, the first key.
    pub(super) leaves: Vec<(u64, usize, Vec<u8>)>,
    /// Page, level, the keys of its cells.
    pub(super) inner: Vec<(u64, u8, Vec<Vec<u8>>)>,
    pub(super) height: u8,
    /// Pages reached, the root included.
    pub(super) pages: BTreeSet<u64>,
    /// Pages in use.
    pub(super) used: BTreeSet<u64>,
}

struct Visit {
    page: u64,
    level: Option<u8>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

/// Applies all changes of the log to pages in memory, and checks that the pages in use are equal to them
/// byte for byte.
pub(super) fn compare_with_log(tree: &Tree) {
    let mut pages: BTreeMap<u64, (Lsn, Vec<u8>)> = BTreeMap::new();
    let payload = tree.pool.payload_size();
    tree.wal.write().unwrap();
    let redo = &mut |_, lsn, record: &Record<'_>| {
        for (page, change) in record.changes() {
            let entry = pages.entry(*page);
            let (seen, bytes) = entry.or_insert_with(|| (0, vec![0; payload]));
            // A map may change several times in one record.
            assert!(*seen <= lsn, "page {page}");
            change.apply(*page, bytes)?;
            *seen = lsn;
        }
        Ok(())
    };
    tree.wal.scan(redo).unwrap();
    for page in walk(tree).used {
        let guard = tree.pool.fix_read(page).unwrap();
        let (lsn, bytes) = &pages[&page];
        assert_eq!(guard.lsn(), *lsn, "page {page}");
        assert!(guard[..] == bytes[..], "page {page} is not what the log makes of it");
    }
}

/// Walks a tree that no thread changes.
pub(super) fn walk(tree: &Tree) -> Walk {
    let mut walk = Walk::default();
    let mut next = Vec::new();
    let mut visits = vec![Visit { page: ROOT, level: None, low: Vec::new(), high: None }];
    while let Some(visit) = visits.pop() {
        walk.visit(tree, visit, &mut visits, &mut next);
    }
    let following = walk.leaves.iter().skip(1).map(|leaf| Some(leaf.0));
    let following: Vec<_> = following.chain([None]).collect();
    assert_eq!(next, following, "links between leaves");
    walk.compare_with_maps(tree);
    walk
}

impl Walk {
    fn visit(&mut self, tree: &Tree, visit: Visit, visits: &mut Vec<Visit>, next: &mut Vec<Option<u64>>) {
        let page = visit.page;
        assert!(self.pages.insert(page), "page {page} is reached twice");
        let guard = tree.pool.fix_read(page).unwrap();
        let node = Node::open(page, &guard).unwrap();
        node.verify().unwrap();
        match visit.level {
            Some(level) => assert_eq!(node.level(), level, "page {page}"),
            None => self.height = node.level() + 1,
        }
        let keys: Vec<&[u8]> = (0..node.count()).map(|s| node.key(s).unwrap()).collect();
        for &key in keys.iter().skip(usize::from(!node.is_leaf())) {
            assert!(key >= &visit.low[..], "page {page}: {key:?}");
            assert!(visit.high.as_deref().is_none_or(|high| key < high), "page {page}: {key:?}");
        }
        if node.is_leaf() {
            let first = keys.first().map(|key| key.to_vec()).unwrap_or_default();
            self.leaves.push((page, node.used(), first));
            next.push(node.next());
            for (slot, key) in keys.iter().enumerate() {
                let value = self.value(tree, node.value(slot).unwrap());
                self.records.push((key.to_vec(), value));
            }
            return;
        }
        let inner = (page, node.level(), keys.iter().map(|key| key.to_vec()).collect());
        self.inner.push(inner);
        for slot in (0..keys.len()).rev() {
            visits.push(Visit {
                page: node.child(slot).unwrap(),
                level: node.level().checked_sub(1),
                low: match slot {
                    0 => visit.low.clone(),
                    _ => keys[slot].to_vec(),
                },
                high: match keys.get(slot + 1) {
                    Some(key) => Some(key.to_vec()),
                    None => visit.high.clone(),
                },
            });
        }
    }

    fn value(&mut self, tree: &Tree, value: Value<'_>) -> Vec<u8> {
        if let Value::Overflow { first, .. } = value {
            for page in tree.overflow_pages(first).unwrap() {
                assert!(self.pages.insert(page), "page {page} is reached twice");
            }
        }
        tree.read_value(value).unwrap()
    }

    /// Checks that the pages reached are those marked as in use.
    fn compare_with_maps(&mut self, tree: &Tree) {
        let maps = &tree.allocation.maps;
        let mut used = BTreeSet::new();
        let mut others = BTreeSet::from([META]);
        for map in maps.below(tree.pool.pages()) {
            let guard = tree.pool.fix_read(map).unwrap();
            if map == 1 || guard[0] != 0 {
                used.extend(maps.used(map, &guard).unwrap());
                others.insert(map);
            }
        }
        let expected: BTreeSet<u64> = others.union(&self.pages).copied().collect();
        assert_eq!(used, expected, "pages in use");
        self.used = used;
    }
}
