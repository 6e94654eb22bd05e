//! A heap file: where rows are, and where new versions of them are stored.

use hashbrown::HashMap;

use super::{Index, PageAllocator, Transaction, payload};

/// The size of a table and of its rows.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct HeapSize {
    /// Rows at the start.
    pub(in super::super) rows: u64,
    /// Bytes of a row with its header, without its line pointer.
    pub(in super::super) bytes: u64,
    /// The number of versions of each row for which its page has room, including the row
    /// itself, in hundredths: 100 for pages that were loaded full.
    pub(in super::super) versions: u64,
    /// Rows and versions that may be appended later.
    pub(in super::super) growth: u64,
}

/// The changes to a page since it was loaded.
#[derive(Debug, Clone, Copy, Default)]
struct PageState {
    /// Versions on it, dead ones included.
    used: u16,
    /// Versions that died up to some time, and those that died later.
    old: DeadVersions,
    new: DeadVersions,
    /// The last transaction that changed it.
    changed: u32,
    /// Versions up to this transaction have their hint bits.
    settled: u32,
}

/// A number of dead versions, and the last transaction that left one.
#[derive(Debug, Clone, Copy, Default)]
struct DeadVersions {
    count: u16,
    last: u32,
}

impl PageState {
    fn leave_dead(&mut self, transaction: u32) {
        // Pages are loaded with the average number of rows, so more rows than a page holds
        // may be assigned to it.
        if self.old.count + self.new.count < self.used {
            self.new.count += 1;
            self.new.last = transaction;
        }
    }

    /// Frees dead versions that no transaction from `oldest` on can see; true if there were
    /// any.
    fn free_dead(&mut self, oldest: u32) -> bool {
        let before = self.used;
        if self.old.last < oldest {
            self.used -= std::mem::take(&mut self.old).count;
        }
        if self.new.last < oldest {
            self.used -= std::mem::take(&mut self.new).count;
        } else if self.old.count == 0 {
            self.old = std::mem::take(&mut self.new);
        }
        self.used < before
    }
}

/// The changes to a row since it was loaded.
#[derive(Debug, Clone, Copy)]
struct RowState {
    page: u32,
    old_version: Option<MovedVersion>,
    /// The transaction whose version has no hint bits yet, or 0.
    changed: u32,
}

/// A dead version that indexes still refer to.
#[derive(Debug, Clone, Copy)]
struct MovedVersion {
    page: u32,
    /// The transaction that moved the row.
    by: u32,
}

#[derive(Debug)]
pub(in super::super) struct Heap {
    first: u64,
    visibility_map: u64,
    pages_per_map: u64,
    slots: u16,
    rows_per_page: u64,
    loaded: u32,
    /// Pages in use, and the most pages.
    length: u32,
    most: u32,
    pages: HashMap<u32, PageState>,
    rows: HashMap<u64, RowState>,
    /// The page to which each session appends.
    targets: Vec<Option<u32>>,
    /// The page at which the search for room stopped.
    searched: u32,
}

/// The most pages that a search for room examines.
const MOST_SEARCHED: u32 = 16;

impl Heap {
    pub(in super::super) fn new(
        name: &str,
        size: HeapSize,
        page_size: u64,
        clients: usize,
        allocator: &mut PageAllocator,
    ) -> Heap {
        let slots = (payload(page_size) / (size.bytes + 4)).max(1);
        let rows_per_page = (slots * 100 / size.versions).max(1);
        let loaded = size.rows.div_ceil(rows_per_page);
        // Each session leaves a page of its own half full, unless new rows fit on the pages
        // that were loaded.
        let room = match size.growth {
            0 => 0,
            growth if rows_per_page < slots => growth.div_ceil(slots),
            growth => growth.div_ceil(slots) + clients as u64,
        };
        let most = loaded + room;
        let pages_per_map = payload(page_size) * 4;
        let first = allocator.take(name.to_owned(), most);
        Heap {
            first,
            visibility_map: allocator.take(format!("{name} (vm)"), most.div_ceil(pages_per_map)),
            pages_per_map,
            slots: slots as u16,
            rows_per_page,
            loaded: loaded as u32,
            length: loaded as u32,
            most: most as u32,
            pages: HashMap::new(),
            rows: HashMap::new(),
            targets: vec![None; clients],
            searched: 0,
        }
    }

    fn page_of(&self, row: u64) -> u32 {
        match self.rows.get(&row) {
            Some(row) => row.page,
            None => self.home(row),
        }
    }

    fn number(&self, page: u32) -> u64 {
        self.first + u64::from(page)
    }

    /// The page of the visibility map that covers `page`.
    fn map_of(&self, page: u32) -> u64 {
        self.visibility_map + u64::from(page) / self.pages_per_map
    }

    /// Pages in use.
    pub(in super::super) fn length(&self) -> u32 {
        self.length
    }

    /// True if looking up `row` marks a key dead in the index: the key of a version that no
    /// transaction can see any more.
    pub(in super::super) fn kills(&self, transaction: &Transaction, row: u64) -> bool {
        let old_version = self.rows.get(&row).and_then(|row| row.old_version);
        old_version.is_some_and(|old| old.by < transaction.oldest())
    }

    /// Looks a row up: descends `index` to the key with rank `rank`, and reads the row.
    /// Returns the row's page in the table.
    pub(in super::super) fn seek_at(&mut self, transaction: &mut Transaction, index: &Index, rank: u64, row: u64) -> u32 {
        index.search(transaction, rank, self.kills(transaction, row));
        self.fetch(transaction, row)
    }

    /// Looks a row up in an index with keys in the order of rows, and reads the row. Returns the row's page in the table.
    pub(in super::super) fn seek(&mut self, transaction: &mut Transaction, index: &Index, row: u64) -> u32 {
        self.seek_at(transaction, index, row, row)
    }

    /// Changes a row that was read. If it moves, adds its key to `indexes`, given with the
    /// key's rank in each, the unique one first. Returns the page of the old version.
    pub(in super::super) fn change_keyed(&mut self, transaction: &mut Transaction, row: u64, indexes: &[(&Index, u64)]) -> u32 {
        let Some(old_page) = self.update(transaction, row) else {
            return self.page_of(row);
        };
        for (at, (index, rank)) in indexes.iter().enumerate() {
            index.insert(transaction, *rank);
            if at == 0 {
                // A unique index checks whether the row that it refers to is dead.
                self.read(transaction, old_page);
            }
        }
        old_page
    }

    /// Reads a page for a version that needs no hint bits.
    pub(in super::super) fn read(&self, transaction: &mut Transaction, page: u32) {
        transaction.read(self.number(page));
    }

    /// Writes a page for a version that was stored there.
    pub(in super::super) fn write(&self, transaction: &mut Transaction, page: u32) {
        transaction.write(self.number(page));
    }

    /// Reads a row found in an index, and a dead version that the index still refers to.
    /// Returns the row's page in the table.
    pub(in super::super) fn fetch(&mut self, transaction: &mut Transaction, row: u64) -> u32 {
        let kills = self.kills(transaction, row);
        let old_version = self.rows.get(&row).and_then(|row| row.old_version);
        if let Some(MovedVersion { page, .. }) = old_version {
            let pruned = self.prune(transaction, page);
            transaction.read_and_mark(self.number(page), pruned);
            if kills && let Some(row) = self.rows.get_mut(&row) {
                row.old_version = None;
            }
        }
        let page = self.page_of(row);
        let pruned = self.prune(transaction, page);
        let settled = self.pages.get(&page).map_or(0, |page| page.settled);
        let mut marks = pruned;
        if let Some(row) = self.rows.get_mut(&row)
            && row.changed > 0
            && !transaction.is_running(row.changed)
        {
            marks |= row.changed > settled;
            row.changed = 0;
        }
        transaction.read_and_mark(self.number(page), marks);
        page
    }

    /// Reads a page for rows without a number: those that were inserted.
    pub(in super::super) fn visit(&mut self, transaction: &mut Transaction, page: u32) {
        let mut marks = self.prune(transaction, page);
        if let Some(page) = self.pages.get_mut(&page)
            && page.changed > page.settled
            && !transaction.is_running(page.changed)
        {
            page.settled = page.changed;
            marks = true;
        }
        transaction.read_and_mark(self.number(page), marks);
    }

    /// The page on which a row was loaded.
    pub(in super::super) fn home(&self, row: u64) -> u32 {
        ((row / self.rows_per_page) as u32).min(self.loaded.saturating_sub(1))
    }

    /// Reads a row whose columns are in an index: reads its page only if the visibility map
    /// does not say that all transactions see the row.
    pub(in super::super) fn look_for_visible(&mut self, transaction: &mut Transaction, row: u64) {
        let page = self.page_of(row);
        transaction.read(self.map_of(page));
        if self.pages.contains_key(&page) {
            self.fetch(transaction, row);
        }
    }

    /// Reads all pages in order.
    pub(in super::super) fn scan(&mut self, transaction: &mut Transaction) {
        for page in 0..self.length {
            self.visit(transaction, page);
        }
    }

    /// Frees the space of dead versions, if the page is nearly full and no transaction can
    /// see them; true if it did.
    fn prune(&mut self, transaction: &Transaction, page: u32) -> bool {
        let slots = self.slots;
        let Some(page) = self.pages.get_mut(&page) else {
            return false;
        };
        let full = slots - page.used < (slots / 10).max(1);
        let pruned = full && page.free_dead(transaction.oldest());
        if pruned {
            page.settled = transaction.oldest().saturating_sub(1);
        }
        pruned
    }

    /// The state of a page that is about to change; clears its bit in the
    /// visibility map with the first change.
    fn change(&mut self, transaction: &mut Transaction, page: u32) -> &mut PageState {
        let as_loaded = self.rows_per_page as u16;
        let map = self.map_of(page);
        let state = self.pages.entry(page).or_insert_with(|| {
            transaction.write(map);
            PageState { used: as_loaded, ..PageState::default() }
        });
        state.changed = transaction.number();
        state
    }

    /// Locks a row that was fetched.
    pub(in super::super) fn lock(&mut self, transaction: &mut Transaction, row: u64) {
        let page = self.page_of(row);
        if !self.pages.contains_key(&page) {
            transaction.read(self.map_of(page));
        }
        self.wait(transaction, row);
        transaction.write(self.number(page));
        let old_version = self.rows.get(&row).and_then(|row| row.old_version);
        let changed = transaction.number();
        let locked = RowState { page, old_version, changed };
        self.rows.insert(row, locked);
    }

    /// Waits for a row that a running transaction has changed or locked: the first attempt
    /// fails, and the row is locked once the other transaction has finished.
    fn wait(&self, transaction: &mut Transaction, row: u64) {
        if let Some(row) = self.rows.get(&row)
            && row.changed > 0
            && row.changed != transaction.number()
            && transaction.is_running(row.changed)
        {
            transaction.read(self.number(row.page));
            transaction.write(self.number(row.page));
        }
    }

    /// Changes a row that was fetched: reads the version and writes its page; if that page
    /// has no room, also writes the page to which the row moves. If it moves, returns its
    /// old page, and all indexes need a key for the new version.
    pub(in super::super) fn update(&mut self, transaction: &mut Transaction, row: u64) -> Option<u32> {
        let page = self.page_of(row);
        self.wait(transaction, row);
        let (to, old_version) = match self.replace(transaction, page) {
            None => (page, self.rows.get(&row).and_then(|row| row.old_version)),
            Some(to) => (to, Some(MovedVersion { page, by: transaction.number() })),
        };
        let changed = transaction.number();
        self.rows.insert(row, RowState { page: to, old_version, changed });
        (to != page).then_some(page)
    }

    /// Changes a row without a number on `page`; returns its new page if it moves.
    pub(in super::super) fn replace(&mut self, transaction: &mut Transaction, page: u32) -> Option<u32> {
        transaction.read(self.number(page));
        transaction.write(self.number(page));
        let slots = self.slots;
        let state = self.change(transaction, page);
        let stays = state.used < slots;
        state.used += u16::from(stays);
        state.leave_dead(transaction.number());
        (!stays).then(|| self.insert(transaction))
    }

    /// Deletes a row on `page` that was fetched.
    pub(in super::super) fn delete(&mut self, transaction: &mut Transaction, page: u32) {
        transaction.write(self.number(page));
        let number = transaction.number();
        self.change(transaction, page).leave_dead(number);
    }

    /// Stores a row on the page where the session stored its last one, or on a new page.
    /// Returns the page.
    pub(in super::super) fn insert(&mut self, transaction: &mut Transaction) -> u32 {
        let page = self.target(transaction);
        transaction.write(self.number(page));
        self.change(transaction, page).used += 1;
        page
    }

    fn target(&mut self, transaction: &mut Transaction) -> u32 {
        let target = self.targets[transaction.session()];
        if let Some(page) = target {
            match self.pages.get(&page) {
                Some(state) if state.used < self.slots => return page,
                _ => transaction.read(self.number(page)),
            }
        }
        let page = match self.with_room() {
            Some(page) => page,
            None => self.extend(),
        };
        self.targets[transaction.session()] = Some(page);
        page
    }

    /// A page that was loaded with room and still has some, if the limited search finds one.
    fn with_room(&mut self) -> Option<u32> {
        let loaded_used = self.rows_per_page as u16;
        if loaded_used == self.slots {
            return None;
        }
        for _ in 0..MOST_SEARCHED.min(self.loaded) {
            self.searched = (self.searched + 1) % self.loaded;
            let used = self.pages.get(&self.searched).map(|page| page.used);
            if used.unwrap_or(loaded_used) < self.slots {
                return Some(self.searched);
            }
        }
        None
    }

    /// A new page at the end.
    fn extend(&mut self) -> u32 {
        // The room at the end is an upper estimate. If it is too small nevertheless, its
        // oldest pages are used again, as after a vacuum.
        if self.length == self.most {
            self.length = self.loaded.min(self.most - 1);
        }
        let page = self.length;
        self.length += 1;
        self.pages.insert(page, PageState::default());
        page
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::recording::SessionTape;
    use super::*;

    /// 61 rows on each of 10 pages; the visibility map is page 12 or so.
    fn heap(versions: u64, sessions: usize) -> (Heap, u64) {
        let size = HeapSize { rows: 610, bytes: 128, versions, growth: 61 };
        let mut allocator = PageAllocator::default();
        let heap = Heap::new("table", size, 8192, sessions, &mut allocator);
        (heap, allocator.pages())
    }

    fn update(heap: &mut Heap, recorder: &mut SessionTape, row: u64) -> Vec<(u64, bool)> {
        recorder.record(0, |transaction| {
            heap.fetch(transaction, row);
            heap.update(transaction, row);
        })
    }

    fn fetch(heap: &mut Heap, recorder: &mut SessionTape, row: u64) -> Vec<(u64, bool)> {
        recorder.record(0, |transaction| {
            heap.fetch(transaction, row);
        })
    }

    #[test]
    fn a_row_of_a_full_page_moves_and_makes_room_for_the_others() {
        let (mut heap, pages) = heap(100, 1);
        let map = pages - 1;
        let mut recorder = SessionTape::new(1);
        let first = update(&mut heap, &mut recorder, 61);
        let expected = [(1, false), (1, false), (1, true), (map, true), (10, true)];
        assert_eq!(first, expected);
        // The index still refers to the old version, which is pruned; then the row's page.
        assert_eq!(fetch(&mut heap, &mut recorder, 61), [(1, true), (10, true)]);
        assert_eq!(fetch(&mut heap, &mut recorder, 61), [(10, false)]);
        // Now page 1 has room for a version.
        let second = update(&mut heap, &mut recorder, 62);
        assert_eq!(second, [(1, false), (1, false), (1, true)]);
        assert_eq!(fetch(&mut heap, &mut recorder, 62), [(1, true)]);
        assert_eq!(fetch(&mut heap, &mut recorder, 62), [(1, false)]);
    }

    #[test]
    fn versions_that_a_transaction_may_see_are_not_pruned() {
        let (mut heap, _) = heap(100, 2);
        let mut recorder = SessionTape::new(2);
        recorder.record(1, |_| {});
        update(&mut heap, &mut recorder, 0);
        // The other session's transaction is older than the update.
        assert_eq!(fetch(&mut heap, &mut recorder, 1), [(0, false)]);
        recorder.record(1, |_| {});
        assert_eq!(fetch(&mut heap, &mut recorder, 1), [(0, true)]);
    }

    #[test]
    fn a_row_that_another_transaction_changed_is_tried_twice() {
        let (mut heap, _) = heap(1000, 2);
        let mut recorder = SessionTape::new(2);
        let change = |recorder: &mut SessionTape, heap: &mut Heap, session| {
            let references = recorder.record(session, |transaction| {
                heap.update(transaction, 5);
            });
            references.len()
        };
        assert_eq!(change(&mut recorder, &mut heap, 0), 3);
        assert_eq!(change(&mut recorder, &mut heap, 1), 4);
        recorder.record(1, |_| {});
        assert_eq!(change(&mut recorder, &mut heap, 0), 2);
    }

    #[test]
    fn hot_rows_do_not_move() {
        let (mut heap, _) = heap(1000, 1);
        let mut recorder = SessionTape::new(1);
        let pages = heap.length();
        for time in 0..10_000 {
            let references = update(&mut heap, &mut recorder, time * 7 % 610);
            let page = references[0].0;
            assert!(references.len() <= 4);
            assert!(references[..3].iter().all(|one| one.0 == page));
        }
        assert_eq!(heap.length(), pages);
    }

    #[test]
    fn each_session_appends_to_a_page_of_its_own() {
        let (mut heap, pages) = heap(100, 3);
        let mut recorder = SessionTape::new(3);
        for row in 0..61 {
            for session in 0..3 {
                let references = recorder.record(session, |transaction| {
                    heap.insert(transaction);
                });
                let page = 10 + session as u64;
                let appended = references.iter().filter(|one| **one == (page, true));
                assert_eq!(appended.count(), 1, "row {row}");
            }
        }
        // More rows than estimated: old pages are used again.
        for _ in 0..200 {
            let references = recorder.record(0, |transaction| {
                heap.insert(transaction);
            });
            assert!(references.iter().all(|one| one.0 < pages));
        }
    }
}
