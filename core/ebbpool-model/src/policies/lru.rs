//! lru ("Classics").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// The pages in order of their last reference.
pub(crate) struct Lru {
    list: List<()>,
}

impl Lru {
    pub(crate) fn new() -> Lru {
        Lru { list: List::new() }
    }
}

impl Policy for Lru {
    fn hit(&mut self, page: u64, _write: bool) {
        self.list.move_to_mru(page);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        self.list.lru(pinned).expect("an unpinned page")
    }

    fn admit(&mut self, page: u64, _write: bool) {
        self.list.push(page, ());
    }

    fn evict(&mut self, page: u64) {
        self.list.take(page);
    }
}

#[cfg(test)]
mod tests {
    use crate::ModelEvent::{Evict, Read, Write};
    use crate::tests::events;

    #[test]
    fn a_dirty_victim_is_written_first() {
        assert_eq!(events("lru", 1, "W1 R2 R3"), [Read(1), Write(1), Evict(1), Read(2), Evict(2), Read(3)]);
        // Cleaned from outside: not written again.
        assert_eq!(events("lru", 1, "W1 C1 R2"), [Read(1), Evict(1), Read(2)]);
        // All pinned: nothing is admitted.
        assert_eq!(events("lru", 1, "W1 +1 R2"), [Read(1)]);
    }
}
