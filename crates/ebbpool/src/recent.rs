//! With which LSN pages were written lately, so that a write which the storage acknowledged and
//! never did is found when the page is read again.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::log::Lsn;

/// Pages that are remembered: 2 MB at most.
const MOST: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct RecentWrites {
    lsns: HashMap<u64, Lsn>,
    /// In the order in which they were first written.
    order: VecDeque<u64>,
}

impl RecentWrites {
    pub(crate) fn new() -> Self {
        RecentWrites {
            lsns: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    pub(crate) fn note(&mut self, page: u64, lsn: Lsn) {
        if lsn == 0 {
            return;
        }
        if self.lsns.insert(page, lsn).is_some() {
            return;
        }
        self.order.push_back(page);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.lsns.remove(&oldest);
        }
    }

    pub(crate) fn lsn_of(&self, page: u64) -> Option<Lsn> {
        self.lsns.get(&page).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_lsn_of_the_latest_pages_is_known() {
        let mut recent = RecentWrites::new();
        recent.note(7, 1);
        recent.note(7, 5);
        recent.note(8, 0);
        assert_eq!((recent.lsn_of(7), recent.lsn_of(8)), (Some(5), None));
        (0..MOST as u64).for_each(|page| recent.note(100 + page, 9));
        assert_eq!(recent.lsn_of(7), None);
        assert_eq!(recent.lsn_of(100), Some(9));
    }
}
