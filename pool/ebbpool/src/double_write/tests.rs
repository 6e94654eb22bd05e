use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::storage::{DiskOperation, EIO, ENOSPC, Fault, FaultyDisk, FaultyStorage, MemoryStorage, PowerOff, SECTOR};

const PAGE: usize = 2048;
const FORMAT: PageFormat = PageFormat::Checked;

fn sealed(page: u64, lsn: u64) -> AlignedPages {
    let mut pages = AlignedPages::new(1, PAGE);
    for bytes in pages.iter_mut() {
        bytes.fill((page * 31 + lsn) as u8);
        FORMAT.seal(bytes, page, lsn);
    }
    pages
}

fn read(data: &dyn Storage, page: u64) -> Vec<u8> {
    let mut buffer = AlignedPages::new(1, PAGE);
    read_pages(data, page, &mut buffer).unwrap();
    buffer.iter().next().unwrap().to_vec()
}

fn lsn(data: &dyn Storage, page: u64) -> Result<u64, Damage> {
    FORMAT.check(&read(data, page), page)
}

/// Writes a batch as a pool does.
fn write(area: &DoubleWriteArea, data: &dyn Storage, batch: &[(u64, u64)]) -> io::Result<()> {
    let outcomes = write_each(area, data, batch)?;
    outcomes.into_iter().try_for_each(|(_, outcome)| outcome)
}

/// Writes a batch as a pool does, and returns the outcome of each page.
fn write_each(area: &DoubleWriteArea, data: &dyn Storage, batch: &[(u64, u64)]) -> io::Result<Vec<(u64, io::Result<()>)>> {
    let pages: Vec<AlignedPages> = batch.iter().map(|&(page, lsn)| sealed(page, lsn)).collect();
    let numbers = batch.iter().map(|&(page, _)| page);
    let images: Vec<(u64, &[u8])> = numbers.zip(pages.iter().flat_map(|it| it.iter())).collect();
    let in_place = area.save_images(&images, || data.sync())?;
    let mut writes: Vec<Write<'_>> = images.iter().map(|&(page, buffer)| Write { page, buffer, outcome: Ok(()) }).collect();
    data.write(&mut writes);
    let written = writes.iter().filter(|write| write.outcome.is_ok());
    in_place.finish(written.map(|write| write.page));
    let outcomes = writes.into_iter().map(|write| (write.page, write.outcome));
    Ok(outcomes.collect())
}

/// All pages of the batch were written in place.
fn done(in_place: InPlaceWrites<'_>) {
    let pages: Vec<u64> = in_place.pages.iter().map(|&(page, _)| page).collect();
    in_place.finish(pages);
}

fn sync(area: &DoubleWriteArea, data: &dyn Storage) -> io::Result<()> {
    let mark = area.mark();
    data.sync()?;
    area.note_synced(mark);
    Ok(())
}

fn open(disk: &FaultyDisk, length: u64) -> (DoubleWriteArea, FaultyStorage) {
    let area = Box::new(disk.pages("area", PAGE));
    let area = DoubleWriteArea::open(area, length, 0).unwrap();
    (area, disk.pages("data", PAGE))
}

fn overwrite(data: &dyn Storage, page: u64, bytes: &[u8]) {
    let mut buffer = AlignedPages::new(1, PAGE);
    buffer.iter_mut().for_each(|it| it.copy_from_slice(bytes));
    buffer.iter().for_each(|it| write_page(data, page, it).unwrap());
}

#[test]
fn a_page_torn_at_any_sector_is_restored() {
    let sectors = PAGE / SECTOR;
    for pattern in 1..1_usize << sectors {
        for rest in [0, 0xa5] {
            let disk = FaultyDisk::new(0);
            let (area, data) = open(&disk, 16);
            write(&area, &data, &[(3, 1), (4, 1)]).unwrap();
            sync(&area, &data).unwrap();
            let old = read(&data, 3);
            write(&area, &data, &[(3, 2), (9, 2)]).unwrap();
            let mut torn = read(&data, 3);
            for sector in (0..sectors).filter(|sector| pattern >> sector & 1 == 1) {
                let at = sector * SECTOR..(sector + 1) * SECTOR;
                match rest {
                    0 => torn[at.clone()].copy_from_slice(&old[at]),
                    garbage => torn[at].fill(garbage),
                }
            }
            overwrite(&data, 3, &torn);
            let was_torn = lsn(&data, 3).is_err();
            assert_eq!(was_torn, torn != old, "{pattern:b}");
            let (area, data) = open(&disk, 16);
            let restored = area.restore(&data, FORMAT).unwrap();
            assert_eq!(restored, if was_torn { vec![3] } else { vec![] });
            assert_eq!(lsn(&data, 3), Ok(if was_torn { 2 } else { 1 }));
            assert_eq!([lsn(&data, 4), lsn(&data, 9)], [Ok(1), Ok(2)]);
            assert!(area.restore(&data, FORMAT).unwrap().is_empty());
        }
    }
}

#[test]
fn pages_are_counted_with_their_lists() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 16);
    write(&area, &data, &[(3, 1), (4, 1)]).unwrap();
    write(&area, &data, &[(5, 1)]).unwrap();
    assert_eq!(area.pages_written(), 2 + 1 + 1 + 1);
}

#[test]
fn the_data_is_synced_before_the_first_image_is_overwritten() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 9);
    let syncs = Cell::new(0);
    let page = sealed(1, 1);
    let images: Vec<(u64, &[u8])> = page.iter().map(|bytes| (1, bytes)).collect();
    let save = || {
        let counted = || {
            syncs.set(syncs.get() + 1);
            data.sync()
        };
        done(area.save_images(&images, counted).unwrap());
        syncs.get()
    };
    // The area counts as full when it is opened; then four batches of a list and an image fit.
    let counts: Vec<u32> = (0..9).map(|_| save()).collect();
    assert_eq!(counts, [1, 1, 1, 1, 2, 2, 2, 2, 3]);
    sync(&area, &data).unwrap();
    let counts: Vec<u32> = (0..5).map(|_| save()).collect();
    assert_eq!(counts, [3, 3, 3, 3, 4]);
}

#[test]
fn a_sync_that_began_too_early_makes_no_batch_start_over() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 2);
    let page = sealed(1, 1);
    let images: Vec<(u64, &[u8])> = page.iter().map(|bytes| (1, bytes)).collect();
    let synced = Cell::new(false);
    let full = || {
        synced.set(false);
        let in_place = area.save_images(&images, || {
            synced.set(true);
            Ok(())
        });
        done(in_place.unwrap());
        synced.get()
    };
    full();
    let early = area.mark();
    full();
    area.note_synced(early);
    assert!(full(), "a batch had begun since");
    let in_place = {
        area.note_synced(area.mark());
        area.save_images(&images, || data.sync()).unwrap()
    };
    let early = area.mark();
    done(in_place);
    area.note_synced(early);
    assert!(full(), "a batch was being written");
    area.note_synced(area.mark());
    assert!(!full(), "all batches were synced");
}

#[test]
fn a_batch_that_needs_room_waits_for_batches_that_are_being_written() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 2);
    let page = sealed(1, 1);
    let images: Vec<(u64, &[u8])> = page.iter().map(|bytes| (1, bytes)).collect();
    let in_place = area.save_images(&images, || data.sync()).unwrap();
    let written = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (area, images, written) = (&area, &images, &written);
        let other = scope.spawn(move || {
            let check = || {
                assert!(written.load(std::sync::atomic::Ordering::SeqCst));
                Ok(())
            };
            area.save_images(images, check).map(done)
        });
        while !area.end.is_locked() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
        written.store(true, std::sync::atomic::Ordering::SeqCst);
        done(in_place);
        other.join().unwrap().unwrap();
    });
}

#[test]
fn an_old_image_does_not_replace_a_page_that_rotted_long_after() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 8);
    write(&area, &data, &[(1, 1), (2, 1), (3, 1)]).unwrap();
    sync(&area, &data).unwrap();
    write(&area, &data, &[(4, 2)]).unwrap();
    write(&area, &data, &[(1, 3)]).unwrap();
    sync(&area, &data).unwrap();
    write(&area, &data, &[(5, 4)]).unwrap();
    for page in [1, 2, 3] {
        assert!(disk.flip("data", page * PAGE as u64 + 100, 0));
    }
    let (area, data) = open(&disk, 8);
    assert!(area.restore(&data, FORMAT).unwrap().is_empty());
    for page in [1, 2, 3] {
        assert_eq!(lsn(&data, page), Err(Damage::Checksum));
    }
}

#[test]
fn an_image_that_rotted_is_not_replaced_by_an_older_one() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 16);
    write(&area, &data, &[(1, 1)]).unwrap();
    write(&area, &data, &[(1, 2)]).unwrap();
    write(&area, &data, &[(2, 3)]).unwrap();
    data.sync().unwrap();
    // The images lie behind their lists: at 1, 3 and 5.
    assert!(disk.flip("area", 3 * PAGE as u64 + 700, 0));
    assert!(disk.flip("data", PAGE as u64 + 700, 0));
    let (area, data) = open(&disk, 16);
    assert!(area.restore(&data, FORMAT).unwrap().is_empty());
    assert_eq!(lsn(&data, 1), Err(Damage::Checksum));
}

#[test]
fn batches_larger_than_a_list_or_than_the_area_are_stored() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 4);
    let count = capacity(PAGE) as u64 * 2 + 5;
    let batch: Vec<(u64, u64)> = (0..count).map(|page| (page, 1)).collect();
    write(&area, &data, &batch).unwrap();
    for page in 0..count {
        overwrite(&data, page, &[9; PAGE]);
    }
    let (area, data) = open(&disk, 4);
    let restored = area.restore(&data, FORMAT).unwrap();
    assert_eq!(restored, (0..count).collect::<Vec<_>>());
    assert!((0..count).all(|page| lsn(&data, page) == Ok(1)));
}

#[test]
fn nothing_may_be_written_in_place_if_the_area_or_the_sync_fails() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 2);
    disk.inject(Fault::failing(DiskOperation::Sync, EIO).in_file("data"));
    assert_eq!(write(&area, &data, &[(1, 1)]).unwrap_err().raw_os_error(), Some(EIO));
    disk.inject(Fault::failing(DiskOperation::Write, ENOSPC).in_file("area"));
    let full = write(&area, &data, &[(1, 1)]).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert_eq!(data.pages().unwrap(), 0);
    write(&area, &data, &[(1, 1)]).unwrap();
    disk.inject(Fault::failing(DiskOperation::Sync, EIO).in_file("area"));
    for _ in 0..3 {
        assert!(write(&area, &data, &[(1, 2)]).is_err());
        assert_eq!(lsn(&data, 1), Ok(1));
    }
    let (area, data) = open(&disk, 2);
    write(&area, &data, &[(1, 2)]).unwrap();
}

#[test]
fn page_sizes_and_formats_that_do_not_fit_are_refused() {
    let area = |page_size| DoubleWriteArea::open(Box::new(MemoryStorage::new(page_size)), 4, 0);
    assert!(matches!(area(32), Err(PoolError::Options(_))));
    let data = MemoryStorage::new(PAGE);
    let refused = |page_size, format| {
        let restored = area(page_size).unwrap().restore(&data, format);
        matches!(restored, Err(PoolError::Options(_)))
    };
    assert!(refused(PAGE, PageFormat::Raw));
    assert!(refused(PAGE * 2, FORMAT));
    assert!(!refused(PAGE, FORMAT));
}

/// Pages in place have to be as of a write that was begun, and not older than the last sync after they
/// were written without an error.
#[derive(Default)]
struct Model {
    synced: HashMap<u64, u64>,
    written: HashMap<u64, u64>,
    begun: HashMap<u64, u64>,
}

/// Runs random batches and syncs until the power fails, and records in `model` which content the pages may have. With
/// faults some writes fail and tear pages, or the area cannot be written.
fn run(disk: &FaultyDisk, seed: u64, model: &mut Model, with_faults: bool) {
    let area = Box::new(disk.pages("area", PAGE));
    let Ok(area) = DoubleWriteArea::open(area, 3 + seed % 9, 0) else {
        return;
    };
    let data = disk.pages("data", PAGE);
    let mut state = seed;
    let mut roll = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    if area.restore(&data, FORMAT).is_err() {
        return;
    }
    // `restore` has synced the pages.
    model.begun = check(&data, model);
    model.written.clone_from(&model.begun);
    model.synced.clone_from(&model.begun);
    for _ in 0..16 {
        if roll(4) == 0 {
            match sync(&area, &data) {
                Ok(()) => model.synced.clone_from(&model.written),
                Err(_) => return,
            }
            continue;
        }
        if with_faults && roll(3) == 0 {
            let fault = match roll(5) {
                0 => Fault::torn_write(EIO).in_file("area"),
                _ => Fault::torn_write(EIO).in_file("data"),
            };
            disk.inject(fault.nth(1 + roll(3)));
        }
        let first = roll(6);
        let batch = (0..1 + roll(3)).map(|more| {
            let lsn = model.begun.get(&(first + more)).unwrap_or(&0) + 1;
            (first + more, lsn)
        });
        let batch: Vec<(u64, u64)> = batch.collect();
        model.begun.extend(batch.iter().copied());
        for (page, outcome) in write_each(&area, &data, &batch).unwrap_or_default() {
            if outcome.is_ok() {
                model.written.insert(page, model.begun[&page]);
            }
        }
        if disk.is_off() {
            return;
        }
    }
}

fn check(data: &dyn Storage, model: &Model) -> HashMap<u64, u64> {
    let found = model.begun.iter().map(|(&page, &begun)| {
        let synced = *model.synced.get(&page).unwrap_or(&0);
        match lsn(data, page) {
            Ok(found) if (synced..=begun).contains(&found) => (page, found),
            found => {
                panic!("page {page} is {found:?}, was synced as of {synced} and begun as of {begun}")
            }
        }
    });
    found.collect()
}

#[test]
fn after_any_crash_every_page_is_whole_and_not_older_than_the_last_sync() {
    let seeds = std::env::var("EBBPOOL_SEEDS").ok();
    let seeds: u64 = seeds.and_then(|it| it.parse().ok()).unwrap_or(3000).max(3000);
    for with_faults in [false, true] {
        let mut restored = 0;
        for seed in 0..seeds {
            let disk = FaultyDisk::new(seed);
            let mut model = Model::default();
            // The second and third crash often happen during restore.
            for (round, within) in [60, 6, 6, 40].into_iter().enumerate() {
                let crash_seed = seed * 4 + round as u64;
                let at = 1 + crash_seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % within;
                disk.inject(Fault::crash(DiskOperation::Change, crash_seed).nth(at));
                run(&disk, crash_seed, &mut model, with_faults);
                disk.heal();
                disk.crash(crash_seed);
                disk.restart();
            }
            let (area, data) = open(&disk, 4);
            restored += area.restore(&data, FORMAT).unwrap().len();
            check(&data, &model);
        }
        assert!(restored > 300, "{restored} pages were restored");
    }
}

/// An in-place write that fails and tears these pages, then rounds of other pages.
fn failed_writes_and_later_rounds(seed: u64, length: u64, failed: u64, rounds: u64) -> (FaultyDisk, u64) {
    let disk = FaultyDisk::new(seed);
    let (area, data) = open(&disk, length);
    let all = |lsn| (0..failed).map(|page| (page, lsn)).collect::<Vec<_>>();
    write(&area, &data, &all(1)).unwrap();
    sync(&area, &data).unwrap();
    disk.inject(Fault::torn_write(EIO).in_file("data").forever());
    let outcomes = write_each(&area, &data, &all(2)).unwrap();
    assert!(outcomes.iter().all(|(_, outcome)| outcome.is_err()));
    disk.heal();
    for round in 0..rounds {
        write(&area, &data, &[(100, round), (101, round)]).unwrap();
        if round % 3 == seed % 3 {
            sync(&area, &data).unwrap();
        }
    }
    let pages = disk.bytes("area").len().unwrap() / PAGE as u64;
    (disk, pages)
}

#[test]
fn the_image_of_a_page_that_could_not_be_written_survives_later_rounds() {
    let mut restored = 0;
    for seed in 0..60 {
        for failed in [1, 2, 5] {
            for rounds in [1, 2, 7, 20] {
                let (disk, _) = failed_writes_and_later_rounds(seed, 4 + seed % 7, failed, rounds);
                disk.crash(seed);
                disk.restart();
                let (area, data) = open(&disk, 4);
                restored += area.restore(&data, FORMAT).unwrap().len();
                for page in 0..failed {
                    let found = lsn(&data, page);
                    assert!(matches!(found, Ok(1 | 2)), "seed {seed}: {found:?}");
                }
            }
        }
    }
    assert!(restored > 100, "{restored}");
}

#[test]
fn an_image_that_is_carried_on_is_read_again_if_a_bit_was_flipped() {
    for flips in 1..READS_OF_AN_IMAGE {
        let disk = FaultyDisk::new(7);
        let (area, data) = open(&disk, 6);
        write(&area, &data, &[(0, 1)]).unwrap();
        sync(&area, &data).unwrap();
        disk.inject(Fault::torn_write(EIO).in_file("data"));
        assert!(write_each(&area, &data, &[(0, 2)]).unwrap()[0].1.is_err());
        overwrite(&data, 0, &[7; PAGE]);
        for _ in 0..flips {
            disk.inject(Fault::flipped_read().in_file("area"));
        }
        for round in 0..20 {
            write(&area, &data, &[(100, round)]).unwrap();
            sync(&area, &data).unwrap();
        }
        disk.crash(1);
        disk.restart();
        let (area, data) = open(&disk, 6);
        assert_eq!(area.restore(&data, FORMAT).unwrap(), [0]);
        assert_eq!(lsn(&data, 0).unwrap(), 2);
    }
}

#[test]
fn images_that_stay_needed_do_not_take_more_room_over_time() {
    for (length, failed) in [(4, 1), (8, 1), (8, 5), (16, 3), (30, 5)] {
        for seed in 0..3 {
            let pages = |rounds| failed_writes_and_later_rounds(seed, length, failed, rounds).1;
            assert_eq!(pages(40), pages(400), "{length}, {failed}, {seed}");
            assert!(pages(40) <= length + 3 * (failed + 3));
        }
    }
}

#[test]
fn the_image_of_a_page_is_dropped_once_the_page_is_written_and_synced() {
    let disk = FaultyDisk::new(3);
    let (area, data) = open(&disk, 30);
    let took = |batch: &[(u64, u64)]| {
        let before = area.pages_written();
        let _ = write_each(&area, &data, batch).unwrap();
        area.pages_written() - before
    };
    write(&area, &data, &[(1, 1), (2, 1)]).unwrap();
    disk.inject(Fault::torn_write(EIO).in_file("data").at_page(1));
    assert_eq!(took(&[(1, 2), (2, 2)]), 3);
    sync(&area, &data).unwrap();
    assert_eq!(took(&[(3, 3)]), 3, "with the image of page 1");
    assert_eq!(took(&[(3, 4)]), 2, "it is there already");
    sync(&area, &data).unwrap();
    disk.inject(Fault::torn_write(EIO).in_file("data").at_page(1));
    assert_eq!(took(&[(1, 5)]), 2, "a later one takes its place");
    sync(&area, &data).unwrap();
    assert_eq!(took(&[(4, 6)]), 3, "which stays needed in turn");
    assert_eq!(took(&[(1, 7)]), 2);
    sync(&area, &data).unwrap();
    assert_eq!(took(&[(4, 8)]), 2);
}

#[test]
fn a_page_that_failed_twice_is_restored_from_the_later_image() {
    for seed in 0..30 {
        let disk = FaultyDisk::new(seed);
        let (area, data) = open(&disk, 5);
        write(&area, &data, &[(1, 1)]).unwrap();
        sync(&area, &data).unwrap();
        for lsn in [2, 3] {
            disk.inject(Fault::torn_write(EIO).in_file("data"));
            assert!(write(&area, &data, &[(1, lsn)]).is_err());
            for _ in 0..3 {
                write(&area, &data, &[(7, lsn)]).unwrap();
                sync(&area, &data).unwrap();
            }
        }
        overwrite(&data, 1, &[9; PAGE]);
        let (area, data) = open(&disk, 5);
        assert_eq!(area.restore(&data, FORMAT).unwrap(), [1]);
        assert_eq!(lsn(&data, 1), Ok(3));
    }
}

#[test]
fn a_page_that_cannot_be_read_is_restored_if_there_is_an_image() {
    for has_image in [true, false] {
        let disk = FaultyDisk::new(1);
        let (area, data) = open(&disk, 8);
        write(&area, &data, &[(1, 1)]).unwrap();
        if !has_image {
            assert!(disk.flip("area", PAGE as u64 + 700, 0));
        }
        let (area, data) = open(&disk, 8);
        disk.inject(Fault::failing(DiskOperation::Read, EIO).in_file("data"));
        match (area.restore(&data, FORMAT), has_image) {
            (Ok(restored), true) => assert_eq!(restored, [1]),
            (Err(PoolError::Read { page: 1, .. }), false) => {}
            (other, _) => panic!("{other:?}"),
        }
        assert_eq!(lsn(&data, 1), Ok(1));
    }
}

#[test]
fn the_images_of_a_batch_that_was_never_finished_remain() {
    let disk = FaultyDisk::new(1);
    let (area, data) = open(&disk, 4);
    let page = sealed(1, 5);
    let images: Vec<(u64, &[u8])> = page.iter().map(|bytes| (1, bytes)).collect();
    drop(area.save_images(&images, || data.sync()).unwrap());
    for lsn in 0..9 {
        write(&area, &data, &[(2, lsn)]).unwrap();
        sync(&area, &data).unwrap();
    }
    overwrite(&data, 1, &[9; PAGE]);
    let (area, data) = open(&disk, 4);
    assert_eq!(area.restore(&data, FORMAT).unwrap(), [1]);
    assert_eq!(lsn(&data, 1), Ok(5));
}

/// An area as version 1 wrote it: records from the first page on, without links.
fn area_of_version_1(disk: &FaultyDisk, batches: &[&[(u64, u64)]]) {
    let mut at = 0;
    for (batch, sequence) in batches.iter().zip(1..) {
        let pages: Vec<AlignedPages> = batch.iter().map(|&(page, lsn)| sealed(page, lsn)).collect();
        let images = pages.iter().flat_map(|it| it.iter()).zip(batch.iter());
        let images = images.map(|(bytes, &(page, _))| Image::new(page, bytes));
        let record = Record { sequence, batch: sequence, links: None, images: images.collect() };
        let mut list = AlignedPages::new(1, PAGE);
        list.iter_mut().for_each(|list| record.encode(list));
        let area = disk.pages("area", PAGE);
        for bytes in list.iter().chain(pages.iter().flat_map(|it| it.iter())) {
            write_page(&area, at, bytes).unwrap();
            at += 1;
        }
        area.sync().unwrap();
    }
}

#[test]
fn pages_are_restored_from_an_area_of_version_1() {
    let disk = FaultyDisk::new(0);
    area_of_version_1(&disk, &[&[(1, 1), (2, 1)], &[(1, 2)]]);
    let torn = |data: &dyn Storage| [1, 2].map(|page| overwrite(data, page, &[9; PAGE]));
    let (area, data) = open(&disk, 8);
    torn(&data);
    assert_eq!(area.restore(&data, FORMAT).unwrap(), [1, 2]);
    assert_eq!([lsn(&data, 1), lsn(&data, 2)], [Ok(2), Ok(1)]);
    // New batches are restored rather than what is left of the old ones.
    write(&area, &data, &[(3, 3)]).unwrap();
    torn(&data);
    overwrite(&data, 3, &[9; PAGE]);
    let (area, data) = open(&disk, 8);
    assert_eq!(area.restore(&data, FORMAT).unwrap(), [3]);
}

#[test]
fn an_area_of_a_later_version_is_refused() {
    let disk = FaultyDisk::new(0);
    area_of_version_1(&disk, &[&[(1, 1)]]);
    let area = disk.pages("area", PAGE);
    let mut list = read(&area, 0);
    list[28] = 3;
    let checksum = xxhash_rust::xxh3::xxh3_64(&list[8..]);
    list[..8].copy_from_slice(&checksum.to_le_bytes());
    overwrite(&area, 0, &list);
    match DoubleWriteArea::open(Box::new(area), 4, 0).map(drop) {
        Err(PoolError::Options(OptionsError::NewerArea { found, .. })) => assert_eq!(found, 3),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_area_is_refused_for_other_data_than_its_own() {
    let disk = FaultyDisk::new(0);
    let open = |identity| {
        let area = Box::new(disk.pages("area", PAGE));
        DoubleWriteArea::open(area, 4, identity)
    };
    let data = disk.pages("data", PAGE);
    // Without an identity any data may use it, as an area of version 1.
    write(&open(0).unwrap(), &data, &[(1, 1)]).unwrap();
    write(&open(7).unwrap(), &data, &[(1, 2)]).unwrap();
    for other in [0, 8] {
        match open(other).map(drop) {
            Err(error @ PoolError::ForeignArea { found: 7, expected, .. }) if expected == other => {
                let message = error.to_string();
                let has = if other == 0 { "has none" } else { "has 0x8" };
                assert!(message.contains("0x7") && message.contains(has), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
    overwrite(&data, 1, &[9; PAGE]);
    assert_eq!(open(7).unwrap().restore(&data, FORMAT).unwrap(), [1]);
    assert_eq!(lsn(&data, 1), Ok(2));
}

#[test]
fn an_area_that_was_retired_restores_nothing() {
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        let (area, data) = open(&disk, 5);
        // Several rounds, so that there are images all over it.
        for lsn in 1..10 {
            let batch: Vec<(u64, u64)> = (0..1 + lsn % 3).map(|page| (page, lsn)).collect();
            disk.inject(Fault::torn_write(EIO).in_file("data").nth(1 + seed % 4));
            let _ = write_each(&area, &data, &batch).unwrap();
            disk.heal();
        }
        let (area, data) = open(&disk, 5);
        area.retire(&data, FORMAT).unwrap();
        for page in 0..3 {
            assert!(lsn(&data, page).is_ok());
            overwrite(&data, page, &[9; PAGE]);
        }
        let (area, data) = open(&disk, 5);
        assert!(area.restore(&data, FORMAT).unwrap().is_empty());
    }
}

#[test]
fn a_crash_in_restore_is_reported() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 4);
    write(&area, &data, &[(1, 1)]).unwrap();
    overwrite(&data, 1, &[7; PAGE]);
    disk.inject(Fault::crash(DiskOperation::Change, 0));
    match area.restore(&data, FORMAT) {
        Err(PoolError::Storage { source, .. }) => assert!(PowerOff::caused(&source)),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn records_are_read_as_written_and_never_from_damaged_bytes(
        sequence in 1..1_u64 << 62,
        batches in (any::<bool>(), any::<bool>(), 1..=FARTHEST, any::<u64>()),
        of_version_1: bool,
        images in prop::collection::vec(any::<(u64, u64)>(), 1..=capacity(512)),
        bit in 0..512 * 8usize,
    ) {
        let image = |(page, checksum)| Image { page, checksum };
        let images = images.into_iter().map(image).collect();
        let (is_linked, carries_on, distance, identity) = batches;
        let batch = sequence - sequence / 3;
        let before = batch.checked_sub(distance).filter(|_| is_linked);
        let links = BatchLinks { before, carries_on, identity };
        let links = Some(links).filter(|_| !of_version_1);
        let record = Record { sequence, batch, links, images };
        let mut bytes = [0; 512];
        record.encode(&mut bytes);
        prop_assert_eq!(Record::decode(&bytes), DecodedPage::Record(record));
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Record::decode(&bytes), DecodedPage::None);
        prop_assert_eq!(Record::decode(&bytes[..bit / 8]), DecodedPage::None);
    }
}
