use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::storage::{
    EIO, ENOSPC, Fault, FaultyDisk, FaultyStorage, MemoryStorage, Operation, PowerOff, SECTOR,
};

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
    let pages: Vec<AlignedPages> = batch.iter().map(|&(page, lsn)| sealed(page, lsn)).collect();
    let numbers = batch.iter().map(|&(page, _)| page);
    let images: Vec<(u64, &[u8])> = numbers.zip(pages.iter().flat_map(|it| it.iter())).collect();
    let _in_place = area.before(&images, || data.sync())?;
    let mut writes: Vec<Write<'_>> = images
        .iter()
        .map(|&(page, buffer)| Write {
            page,
            buffer,
            outcome: Ok(()),
        })
        .collect();
    data.write(&mut writes);
    writes.into_iter().try_for_each(|write| write.outcome)
}

fn sync(area: &DoubleWriteArea, data: &dyn Storage) -> io::Result<()> {
    let mark = area.mark();
    data.sync()?;
    area.settled(mark);
    Ok(())
}

fn open(disk: &FaultyDisk, length: u64) -> (DoubleWriteArea, FaultyStorage) {
    let area = Box::new(disk.pages("area", PAGE));
    let area = DoubleWriteArea::open(area, length).unwrap();
    (area, disk.pages("data", PAGE))
}

fn overwrite(data: &dyn Storage, page: u64, bytes: &[u8]) {
    let mut buffer = AlignedPages::new(1, PAGE);
    buffer.iter_mut().for_each(|it| it.copy_from_slice(bytes));
    buffer
        .iter()
        .for_each(|it| write_page(data, page, it).unwrap());
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
            assert_eq!(area.restore(&data, FORMAT).unwrap(), []);
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
    let before = || {
        let counted = || {
            syncs.set(syncs.get() + 1);
            data.sync()
        };
        drop(area.before(&images, counted).unwrap());
        syncs.get()
    };
    // Opened, it counts as full; then four batches of a list and an image fit.
    let counts: Vec<u32> = (0..9).map(|_| before()).collect();
    assert_eq!(counts, [1, 1, 1, 1, 2, 2, 2, 2, 3]);
    sync(&area, &data).unwrap();
    let counts: Vec<u32> = (0..5).map(|_| before()).collect();
    assert_eq!(counts, [3, 3, 3, 3, 4]);
}

#[test]
fn a_sync_that_began_too_early_settles_nothing() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 2);
    let page = sealed(1, 1);
    let images: Vec<(u64, &[u8])> = page.iter().map(|bytes| (1, bytes)).collect();
    let synced = Cell::new(false);
    let full = || {
        synced.set(false);
        drop(area.before(&images, || {
            synced.set(true);
            Ok(())
        }));
        synced.get()
    };
    full();
    let early = area.mark();
    full();
    area.settled(early);
    assert!(full(), "a batch had begun since");
    let in_place = {
        area.settled(area.mark());
        area.before(&images, || data.sync()).unwrap()
    };
    let early = area.mark();
    drop(in_place);
    area.settled(early);
    assert!(full(), "a batch was being written");
    area.settled(area.mark());
    assert!(!full(), "everything was settled");
}

#[test]
fn whoever_needs_room_waits_for_batches_that_are_being_written() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 2);
    let page = sealed(1, 1);
    let images: Vec<(u64, &[u8])> = page.iter().map(|bytes| (1, bytes)).collect();
    let in_place = area.before(&images, || data.sync()).unwrap();
    let written = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (area, images, written) = (&area, &images, &written);
        let other = scope.spawn(move || {
            let check = || {
                assert!(written.load(std::sync::atomic::Ordering::SeqCst));
                Ok(())
            };
            area.before(images, check).map(drop)
        });
        while !area.end.is_locked() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
        written.store(true, std::sync::atomic::Ordering::SeqCst);
        drop(in_place);
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
    assert_eq!(area.restore(&data, FORMAT).unwrap(), []);
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
    assert_eq!(area.restore(&data, FORMAT).unwrap(), []);
    assert_eq!(lsn(&data, 1), Err(Damage::Checksum));
}

#[test]
fn batches_larger_than_a_list_or_than_the_area_are_kept() {
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
    disk.inject(Fault::failing(Operation::Sync, EIO).of("data"));
    assert_eq!(
        write(&area, &data, &[(1, 1)]).unwrap_err().raw_os_error(),
        Some(EIO)
    );
    disk.inject(Fault::failing(Operation::Write, ENOSPC).of("area"));
    let full = write(&area, &data, &[(1, 1)]).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert_eq!(data.pages().unwrap(), 0);
    write(&area, &data, &[(1, 1)]).unwrap();
    disk.inject(Fault::failing(Operation::Sync, EIO).of("area"));
    for _ in 0..3 {
        assert!(write(&area, &data, &[(1, 2)]).is_err());
        assert_eq!(lsn(&data, 1), Ok(1));
    }
    let (area, data) = open(&disk, 2);
    write(&area, &data, &[(1, 2)]).unwrap();
}

#[test]
fn what_does_not_fit_is_refused() {
    let area = |page_size| DoubleWriteArea::open(Box::new(MemoryStorage::new(page_size)), 4);
    assert!(matches!(area(32), Err(Error::Options(_))));
    let data = MemoryStorage::new(PAGE);
    let refused = |page_size, format| {
        let restored = area(page_size).unwrap().restore(&data, format);
        matches!(restored, Err(Error::Options(_)))
    };
    assert!(refused(PAGE, PageFormat::Raw));
    assert!(refused(PAGE * 2, FORMAT));
    assert!(!refused(PAGE, FORMAT));
}

/// Pages in place have to be as of a write that was begun, and not older than the last sync.
struct Model {
    synced: HashMap<u64, u64>,
    begun: HashMap<u64, u64>,
}

/// Random batches and syncs until the disk fails; answers what has to be there.
fn run(disk: &FaultyDisk, seed: u64, model: &mut Model) {
    let area = Box::new(disk.pages("area", PAGE));
    let Ok(area) = DoubleWriteArea::open(area, 3 + seed % 9) else {
        return;
    };
    let data = disk.pages("data", PAGE);
    let mut state = seed;
    let mut roll = |below: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    if area.restore(&data, FORMAT).is_err() {
        return;
    }
    // It has synced what it found.
    model.begun = check(&data, model);
    model.synced.clone_from(&model.begun);
    for _ in 0..12 {
        if roll(4) == 0 {
            if sync(&area, &data).is_err() {
                return;
            }
            model.synced.clone_from(&model.begun);
            continue;
        }
        let first = roll(6);
        let batch = (0..1 + roll(3)).map(|more| {
            let lsn = model.begun.get(&(first + more)).unwrap_or(&0) + 1;
            (first + more, lsn)
        });
        let batch: Vec<(u64, u64)> = batch.collect();
        model.begun.extend(batch.iter().copied());
        if write(&area, &data, &batch).is_err() {
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
                panic!(
                    "page {page} is {found:?}, was synced as of {synced} and begun as of {begun}"
                )
            }
        }
    });
    found.collect()
}

#[test]
fn after_any_crash_every_page_is_whole_and_not_older_than_the_last_sync() {
    let mut restored = 0;
    for seed in 0..3000_u64 {
        let disk = FaultyDisk::new(seed);
        let mut model = Model {
            synced: HashMap::new(),
            begun: HashMap::new(),
        };
        // The second and third crash come during restore, often.
        for (round, within) in [60, 6, 6, 40].into_iter().enumerate() {
            let crash_seed = seed * 4 + round as u64;
            let at = 1 + crash_seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % within;
            disk.inject(Fault::crash(Operation::Change, crash_seed).nth(at));
            run(&disk, crash_seed, &mut model);
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

#[test]
fn a_crash_in_restore_is_told() {
    let disk = FaultyDisk::new(0);
    let (area, data) = open(&disk, 4);
    write(&area, &data, &[(1, 1)]).unwrap();
    overwrite(&data, 1, &[7; PAGE]);
    disk.inject(Fault::crash(Operation::Change, 0));
    match area.restore(&data, FORMAT) {
        Err(Error::Storage { source, .. }) => assert!(PowerOff::caused(&source)),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn records_are_read_as_written_and_never_from_damaged_bytes(
        sequence: u64,
        batch: u64,
        images in prop::collection::vec(any::<(u64, u64)>(), 1..=capacity(512)),
        bit in 0..512 * 8usize,
    ) {
        let image = |(page, checksum)| Image { page, checksum };
        let images = images.into_iter().map(image).collect();
        let record = Record { sequence, batch, images };
        let mut bytes = [0; 512];
        record.encode(&mut bytes);
        prop_assert_eq!(Record::decode(&bytes), Some(record));
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Record::decode(&bytes), None);
        prop_assert_eq!(Record::decode(&bytes[..bit / 8]), None);
    }
}
