//! Pages are taken and freed, across the border of two maps, with crashes, and by several threads.

use std::collections::BTreeSet;

use ebbpool::Log;
use ebbpool::storage::{DiskOperation, ENOSPC, Fault, FaultyDisk};
use parking_lot::Mutex;

use super::fixture::{PAGE_SIZE, change, create, free, open, take};
use super::*;
use crate::page::class::LEAF;
use crate::page::overflow::OverflowPart;
use crate::tree::Tree;

/// The number of pages that a map covers.
const SPAN: u64 = (512 - 32 - 16) * 8;

/// All pages that the maps mark as in use.
fn used(tree: &Tree) -> Vec<u64> {
    let maps = tree.allocation.maps;
    let mut used = Vec::new();
    for map in maps.below(tree.pool.pages()) {
        let payload = tree.pool.fix_read(map).unwrap();
        if payload[0] != 0 {
            used.extend(maps.used(map, &payload).unwrap());
        }
    }
    used
}

/// Whether a page holds the number that [`take`] wrote to it.
fn holds_its_number(tree: &Tree, page: u64) -> bool {
    let payload = tree.pool.fix_read(page).unwrap();
    OverflowPart::read(page, &payload).is_ok_and(|part| part.bytes == page.to_le_bytes())
}

/// Marks the pages before `page` as in use, as if they had been taken.
fn use_up_to(tree: &Tree, page: u64) {
    let mark = Change::Mark { first: 3, count: page as u32 - 3, used: true };
    change(tree, &[(1, mark)]).unwrap();
    tree.pool.grow(page).unwrap();
    tree.pool.checkpoint().unwrap();
}

#[test]
fn pages_are_taken_in_order_and_maps_are_created_on_demand() {
    let disk = FaultyDisk::new(1);
    let tree = create(&disk, 100).unwrap();
    let taken: Vec<u64> = (0..SPAN + 100).map(|_| take(&tree).unwrap()).collect();
    let expected: Vec<u64> = (3..).filter(|&page| page != SPAN + 1).take(taken.len()).collect();
    assert_eq!(taken, expected);
    let in_use: Vec<u64> = (0..SPAN + 104).collect();
    assert_eq!(used(&tree), in_use);
    assert!(taken.iter().all(|&page| holds_its_number(&tree, page)));

    let freed = [SPAN + 50, 9, 10, 9, 11, SPAN, SPAN + 40, 700];
    free(&tree, &freed).unwrap();
    free(&tree, &[]).unwrap();
    tree.pool.checkpoint().unwrap();
    drop(tree);
    let tree = open(&disk, 100).unwrap().unwrap();
    let in_use: Vec<u64> = in_use.into_iter().filter(|page| !freed.contains(page)).collect();
    assert_eq!(used(&tree), in_use);
    let again: Vec<u64> = (0..8).map(|_| take(&tree).unwrap()).collect();
    assert_eq!(again, [9, 10, 11, 700, SPAN, SPAN + 40, SPAN + 50, SPAN + 104]);
}

#[test]
fn a_page_that_is_given_back_is_taken_again() {
    let tree = create(&FaultyDisk::new(1), 20).unwrap();
    for _ in 0..3 {
        let taken = tree.allocation.take(&tree.pool, &tree.wal, LEAF).unwrap();
        assert_eq!((taken.page.page(), taken.map.page()), (3, 1));
        assert!(taken.page.iter().all(|&byte| byte == 0));
        tree.allocation.give_back(&tree.pool, taken);
    }
    assert_eq!(used(&tree), [0, 1, 2]);
}

#[test]
fn free_skips_free_pages_and_refuses_pages_that_are_never_free() {
    let tree = create(&FaultyDisk::new(1), 20).unwrap();
    let pages: Vec<u64> = (0..9).map(|_| take(&tree).unwrap()).collect();
    free(&tree, &pages[2..5]).unwrap();
    let end = tree.wal.end_lsn();
    free(&tree, &pages[2..5]).unwrap();
    assert_eq!(tree.wal.end_lsn(), end, "nothing was logged");
    for page in [0, 1, 2, SPAN + 1] {
        let error = free(&tree, &[page]).unwrap_err();
        assert!(error.to_string().contains("never free"), "{error}");
    }
    // One of them must not be freed, so none of the pages of this map is.
    free(&tree, &[pages[7], 2]).unwrap_err();
    assert_eq!(used(&tree), [0, 1, 2, 3, 4, 8, 9, 10, 11]);
    free(&tree, &pages).unwrap();
    assert_eq!(used(&tree), [0, 1, 2]);
}

#[test]
fn a_page_in_use_is_never_taken() {
    let tree = create(&FaultyDisk::new(1), 20).unwrap();
    let page = take(&tree).unwrap();
    tree.pool.free(page).unwrap();
    let error = take(&tree).unwrap_err();
    assert!(error.to_string().contains("page 3"), "{error}");
    assert!(error.to_string().contains("marks it as in use"), "{error}");
    assert_eq!(take(&tree).unwrap(), 4);
}

#[test]
fn a_full_disk_takes_nothing() {
    for room in 0..6 {
        let disk = FaultyDisk::new(1);
        let tree = create(&disk, 20).unwrap();
        use_up_to(&tree, SPAN - 2);
        for _ in 0..room {
            take(&tree).unwrap();
        }
        let (before, end) = (used(&tree), tree.wal.end_lsn());
        for _ in 0..3 {
            disk.inject(Fault::failing(DiskOperation::Resize, ENOSPC).in_file("data"));
            let error = take(&tree).unwrap_err();
            assert!(matches!(error, DatabaseError::Pool(ebbpool::PoolError::Grow { .. })), "{error}");
            disk.heal();
        }
        if room == 2 {
            // The fault hits the second of two pages, the new map.
            disk.inject(Fault::failing(DiskOperation::Resize, ENOSPC).in_file("data").nth(2));
            take(&tree).unwrap_err();
            disk.heal();
        }
        assert_eq!((used(&tree), tree.wal.end_lsn()), (before.clone(), end));
        let next = take(&tree).unwrap();
        let due = SPAN - 2 + room;
        assert_eq!(next, if due > SPAN { due + 1 } else { due });
    }
}

#[test]
fn a_failing_log_takes_nothing() {
    let disk = FaultyDisk::new(1);
    let tree = create(&disk, 20).unwrap();
    use_up_to(&tree, SPAN);
    disk.inject(Fault::failing(DiskOperation::Sync, ENOSPC).in_file("log0"));
    // The new map's record would have to be durable.
    let error = take(&tree).unwrap_err();
    assert!(matches!(error, DatabaseError::Log { .. }), "{error}");
    assert!(matches!(take(&tree).unwrap_err(), DatabaseError::Log { .. }));
}

#[test]
fn a_truncated_file_is_reported() {
    let disk = FaultyDisk::new(1);
    let tree = create(&disk, 20).unwrap();
    for _ in 0..10 {
        take(&tree).unwrap();
    }
    free(&tree, &[11, 12]).unwrap();
    tree.pool.checkpoint().unwrap();
    disk.bytes("data").set_len(9 * PAGE_SIZE as u64).unwrap();
    let pool = ebbpool::PoolOptions::new(20).background(false);
    let pool = pool.open(disk.pages("data", PAGE_SIZE)).unwrap();
    let allocation = Allocation::new(pool.payload_size());
    let error = allocation.begin(&pool, &|_| false).unwrap_err().to_string();
    assert!(error.starts_with("page 9 is damaged"), "{error}");
    assert!(error.contains("it has 9 pages, and needs 11"), "{error}");
    // A page that a rollback is about to free may never have been written.
    let error = allocation.begin(&pool, &|page| page == 10).unwrap_err().to_string();
    assert!(error.contains("it has 9 pages, and needs 10"), "{error}");
    assert_eq!(allocation.begin(&pool, &|page| page >= 9).unwrap(), 11);
    assert_eq!(pool.pages(), 11);
    assert_eq!(pool.allocate().unwrap().page(), 11);
}

#[test]
fn a_lost_map_is_reported() {
    let lose = |pages: &[u64]| {
        let disk = FaultyDisk::new(1);
        let tree = create(&disk, 20).unwrap();
        use_up_to(&tree, SPAN);
        for _ in 0..5 {
            take(&tree).unwrap();
        }
        tree.pool.checkpoint().unwrap();
        drop(tree);
        for page in pages {
            let file = disk.bytes("data");
            let written = file.write_at(page * PAGE_SIZE as u64, &[0; PAGE_SIZE]);
            written.unwrap();
        }
        let pool = ebbpool::PoolOptions::new(20).background(false);
        let pool = pool.open(disk.pages("data", PAGE_SIZE)).unwrap();
        let begun = Allocation::new(pool.payload_size()).begin(&pool, &|_| false);
        begun.map_err(|error| error.to_string())
    };
    assert!(lose(&[1]).unwrap_err().starts_with("page 1 is damaged: it is empty"));
    // The pages beside the map may have been freed before they were ever written.
    let lost: [&[u64]; 2] = [&[SPAN + 1], &[SPAN, SPAN + 1, SPAN + 2]];
    for lost in lost {
        let error = lose(lost).unwrap_err();
        assert!(error.contains("page 3713 is damaged: the allocation map is empty"), "{error}");
    }
    assert_eq!(lose(&[SPAN + 2]).unwrap(), SPAN + 6);
}

/// Takes pages across the border of two maps, and frees some of them.
fn script(tree: &Tree) -> Result<(), DatabaseError> {
    let mut before = None;
    for round in 0..12 {
        let page = take(tree)?;
        if round % 3 == 2 {
            free(tree, before.as_slice())?;
        }
        before = Some(page);
        if round % 4 == 1 {
            tree.wal.sync(tree.wal.end_lsn())?;
        }
        if round % 5 == 4 {
            tree.pool.checkpoint()?;
        }
    }
    Ok(())
}

/// The pages in use, by the log alone.
fn used_by_the_log(tree: &Tree) -> Vec<u64> {
    let mut used = BTreeSet::new();
    let note = &mut |_, _, record: &Record<'_>| {
        for (page, change) in record.changes() {
            match change {
                Change::Format(Content::Map) => {
                    used.extend([0, 1, 2].into_iter().filter(|_| *page == 1).chain([*page]));
                }
                &Change::Mark { first, count, used: true } => {
                    used.extend(first..first + u64::from(count));
                }
                &Change::Mark { first, count, .. } => {
                    used.retain(|page| !(first..first + u64::from(count)).contains(page));
                }
                _ => {}
            }
        }
        Ok(())
    };
    tree.wal.scan(note).unwrap();
    used.into_iter().collect()
}

#[test]
fn threads_never_take_the_same_page() {
    let tree = create(&FaultyDisk::new(1), 64).unwrap();
    use_up_to(&tree, SPAN - 100);
    let taken = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (tree, taken) = (&tree, &taken);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..400 {
                    let page = take(tree).unwrap();
                    assert!(taken.lock().insert(page), "page {page}");
                    assert!(holds_its_number(tree, page));
                    if random.u8(..) < 100 {
                        taken.lock().remove(&page);
                        free(tree, &[page]).unwrap();
                    }
                }
            });
        }
    });
    let in_use: Vec<u64> = used(&tree).into_iter().filter(|&page| page >= SPAN - 100).collect();
    let mut expected = taken.into_inner();
    assert!(expected.last().is_some_and(|&last| last > SPAN + 1));
    expected.insert(SPAN + 1);
    assert_eq!(in_use, expected.into_iter().collect::<Vec<u64>>());
}

mod whole {
    use super::*;

    #[test]
    fn after_a_crash_the_maps_are_those_of_the_log() {
        let before = |seed| {
            let disk = FaultyDisk::new(seed);
            let tree = create(&disk, 20).unwrap();
            use_up_to(&tree, SPAN - 3);
            (disk, tree)
        };
        let (disk, tree) = before(0);
        let prepared = disk.counts().changes();
        script(&tree).unwrap();
        let changes = disk.counts().changes() - prepared;
        assert!(changes > 30, "{changes}");
        let mut grown = 0;
        for seed in 0..20 {
            for k in 1..=changes {
                let (disk, tree) = before(seed);
                disk.inject(Fault::crash(DiskOperation::Change, seed).nth(k));
                assert_eq!(script(&tree).is_err(), disk.is_off());
                drop(tree);
                disk.crash(seed);
                disk.restart();
                disk.heal();
                let place = format!("seed {seed}, change {k}");
                let length = disk.bytes("data").len().unwrap() / PAGE_SIZE as u64;
                let tree = open(&disk, 20).expect(&place).expect("a log");
                let used = used(&tree);
                assert_eq!(used, used_by_the_log(&tree), "{place}");
                let mut taken = used.iter().filter(|&&page| page >= SPAN - 3 && page != SPAN + 1);
                assert!(taken.all(|&page| holds_its_number(&tree, page)), "{place}");
                grown += u32::from(tree.pool.pages() > length);
                // Later pages are free ones.
                let more: BTreeSet<u64> = (0..10).map(|_| take(&tree).expect(&place)).collect();
                assert_eq!(more.len(), 10, "{place}");
                assert!(used.iter().all(|page| !more.contains(page)), "{place}");
            }
        }
        assert!(grown > 10, "the storage lost its growth {grown} times");
    }
}
