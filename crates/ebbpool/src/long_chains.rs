//! A test of chains of the page table that are longer than a search without the lock follows. It is not in
//! `table.rs`, because the model checker compiles that file with atomics of its own.

use crate::sync::{AtomicU32, AtomicU64};
use crate::table::{Entries, LONGEST_SEARCH, NONE, PageTable};

struct Chained {
    pages: Vec<AtomicU64>,
    next: Vec<AtomicU32>,
}

impl Entries for Chained {
    fn page(&self, frame: u32) -> &AtomicU64 {
        &self.pages[frame as usize]
    }
    fn next(&self, frame: u32) -> &AtomicU32 {
        &self.next[frame as usize]
    }
}

#[test]
fn in_a_chain_of_any_length_each_page_is_found_under_the_lock() {
    const FRAMES: u32 = 300;
    let table = PageTable::new(FRAMES, 0, [17, 0x1234_5678_9abc_def1]).expect("there is memory");
    let first: *const AtomicU32 = table.chain(0);
    let in_one_chain = (0..).filter(|&page| std::ptr::eq(table.chain(page), first));
    let pages: Vec<u64> = in_one_chain.take(FRAMES as usize).collect();
    let entries = Chained {
        pages: pages.iter().map(|&page| AtomicU64::new(page)).collect(),
        next: pages.iter().map(|_| AtomicU32::new(NONE)).collect(),
    };
    for (frame, &page) in (0..).zip(&pages) {
        table.insert(page, frame, &entries);
    }
    for (frame, &page) in (0..).zip(&pages) {
        assert_eq!(table.find_locked(page, &entries), Some(frame));
    }
    let overlooked = pages
        .iter()
        .filter(|&&page| table.find(page, &entries).is_none());
    assert_eq!(overlooked.count(), pages.len() - LONGEST_SEARCH);
    for (frame, &page) in (0..).zip(&pages) {
        table.remove(page, frame, &entries);
        assert_eq!(table.find_locked(page, &entries), None);
    }
}
