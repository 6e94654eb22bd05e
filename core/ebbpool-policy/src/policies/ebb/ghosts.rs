//! The records of evicted pages.

use prefetch_index::prefetch_index;

use super::history::{DIRTY, PageRecord};
use crate::lists::FrameLists;
use crate::policy::{Ghost, MOST_GHOSTS, Page};

/// The queue of ghosts that were evicted clean.
const EVICTED_CLEAN: usize = 0;
/// The queue of ghosts that were evicted dirty.
const EVICTED_DIRTY: usize = 1;
const FREE: usize = 2;

/// Two queues of pages that are not resident: evicted clean, and evicted dirty.
pub(super) struct Ghosts {
    records: Vec<PageRecord>,
    order: FrameLists<3>,
    /// The most ghosts, for which there are records.
    most: u32,
    /// Up to this number, ghosts evicted dirty are not forgotten in favour of ghosts evicted clean.
    dirty: u32,
}

fn queue_of(record: &PageRecord) -> usize {
    match record.history.has(DIRTY) {
        true => EVICTED_DIRTY,
        false => EVICTED_CLEAN,
    }
}

impl Ghosts {
    /// At most `most` ghosts.
    pub(super) fn new(most: u32, dirty: u32) -> Self {
        let most = most.min(MOST_GHOSTS);
        let mut order = FrameLists::new(most);
        (0..most).for_each(|ghost| order.push_mru(FREE, ghost));
        Ghosts { records: vec![PageRecord::default(); most as usize], order, most, dirty }
    }

    /// From now on there are as many ghosts as in `sized`: no more than that are left.
    pub(super) fn resize(&mut self, sized: &Ghosts) {
        (self.most, self.dirty) = (sized.most, sized.dirty);
        let added = self.capacity()..self.most.max(self.capacity());
        self.records.resize(added.end as usize, PageRecord::default());
        self.order.resize(added.end);
        added.for_each(|ghost| self.order.push_mru(FREE, ghost));
    }

    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// Every ghost is below this number.
    pub(super) fn capacity(&self) -> u32 {
        self.records.len() as u32
    }

    /// The page that `ghost` had last; 0 if it never had one.
    #[inline]
    pub(super) fn page(&self, ghost: Ghost) -> Option<Page> {
        self.records.get(ghost as usize).map(|record| record.page)
    }

    /// The records, of which some are no ghosts.
    pub(super) fn records_mut(&mut self) -> &mut [PageRecord] {
        &mut self.records
    }

    #[inline]
    pub(super) fn prefetch(&self, ghost: Ghost) {
        prefetch_index(&self.records, ghost as usize);
        self.order.prefetch(ghost);
    }

    /// Removes and returns the record of `ghost`, if it still is the page's.
    #[inline]
    pub(super) fn take(&mut self, ghost: Ghost, page: Page) -> Option<PageRecord> {
        let record = *self.records.get(ghost as usize)?;
        if record.page != page || !record.history.is_ghost() {
            return None;
        }
        self.order.remove(queue_of(&record), ghost);
        self.order.push_mru(FREE, ghost);
        self.records[ghost as usize].history.end_ghost();
        Some(record)
    }

    /// Remembers a page as the newest of its queue, if there is room.
    #[inline]
    pub(super) fn put(&mut self, record: PageRecord) -> Option<Ghost> {
        let ghost = self.order.mru(FREE).filter(|_| self.len() < self.most)?;
        self.order.remove(FREE, ghost);
        self.order.push_mru(queue_of(&record), ghost);
        self.records[ghost as usize] = record;
        self.records[ghost as usize].history.begin_ghost();
        Some(ghost)
    }

    /// Makes room for a ghost if there is none. Returns the record that it forgot, and the page of
    /// the same queue to be forgotten next. Ghosts evicted dirty are not forgotten in favour of
    /// ghosts evicted clean while they are few.
    #[inline]
    pub(super) fn make_room(&mut self) -> Option<(PageRecord, Option<Page>)> {
        match self.len() < self.most {
            true => None,
            false => self.forget_one(),
        }
    }

    /// Makes no more ghosts than `most`, one at a time: as [`make_room`](Self::make_room), until it returns none.
    pub(super) fn reduce_to(&mut self, most: u32) -> Option<(PageRecord, Option<Page>)> {
        match self.len() <= most {
            true => None,
            false => self.forget_one(),
        }
    }

    fn len(&self) -> u32 {
        self.order.len(EVICTED_CLEAN) + self.order.len(EVICTED_DIRTY)
    }

    #[inline]
    fn forget_one(&mut self) -> Option<(PageRecord, Option<Page>)> {
        let queue = match self.order.len(EVICTED_DIRTY) > self.dirty || self.order.len(EVICTED_CLEAN) == 0 {
            true => EVICTED_DIRTY,
            false => EVICTED_CLEAN,
        };
        let ghost = self.order.lru(queue)?;
        let next = self.order.mruward(ghost);
        if let Some(next) = next {
            self.order.prefetch(next);
            if let Some(after) = self.order.mruward(next) {
                prefetch_index(&self.records, after as usize);
            }
        }
        let record = self.take(ghost, self.records[ghost as usize].page)?;
        Some((record, next.map(|next| self.records[next as usize].page)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::History;
    use super::*;

    fn page(page: Page, dirty: bool) -> PageRecord {
        let mut history = History::default();
        history.set(DIRTY, dirty);
        PageRecord { page, history }
    }

    #[test]
    fn ghosts_evicted_dirty_have_a_share() {
        let mut ghosts = Ghosts::new(3, 1);
        let one = ghosts.put(page(1, true));
        let two = ghosts.put(page(2, false));
        assert!(ghosts.make_room().is_none());
        ghosts.put(page(3, false));
        assert!(ghosts.put(page(4, true)).is_none());

        assert_eq!(ghosts.make_room().map(|(record, _)| record.page), Some(2));
        assert!(ghosts.take(two.unwrap(), 2).is_none());
        assert_eq!(ghosts.put(page(4, true)), two);
        assert!(ghosts.take(two.unwrap(), 2).is_none());
        // Two that were evicted dirty are more than their share.
        assert_eq!(ghosts.make_room().map(|(record, _)| record.page), Some(1));
        assert!(ghosts.take(one.unwrap(), 1).is_none());
        assert!(ghosts.take(two.unwrap(), 4).is_some());
        assert!(ghosts.take(two.unwrap(), 4).is_none());
    }
}
