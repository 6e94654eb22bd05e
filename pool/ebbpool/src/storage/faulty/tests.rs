use super::*;
use crate::storage::{Read, Storage, Write, page_lsn};

const PAGE: usize = 2048;

fn write(data: &FaultyStorage, page: u64, byte: u8) -> io::Result<()> {
    let buffer = &[byte; PAGE];
    let outcome = Ok(());
    let mut writes = [Write { page, buffer, outcome }];
    data.write(&mut writes);
    let [write] = writes;
    write.outcome
}

fn read(data: &FaultyStorage, page: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PAGE];
    let mut reads = [Read { page, buffer: &mut bytes, outcome: Ok(()) }];
    data.read(&mut reads);
    let [Read { outcome, .. }] = reads;
    outcome.map(|()| bytes)
}

fn crashed(disk: &FaultyDisk, seed: u64) -> FaultyStorage {
    disk.crash(seed);
    disk.restart();
    disk.pages("data", PAGE)
}

#[test]
fn synced_writes_survive_every_crash_and_any_part_of_the_others() {
    let (mut old, mut new, mut garbage, mut torn, mut short) = (0, 0, 0, 0, 0);
    for seed in 0..2000 {
        let disk = FaultyDisk::new(0);
        let data = disk.pages("data", PAGE);
        write(&data, 1, 1).unwrap();
        data.sync().unwrap();
        write(&data, 1, 2).unwrap();
        write(&data, 5, 2).unwrap();
        assert_eq!(read(&data, 1).unwrap(), [2; PAGE]);
        let data = crashed(&disk, seed);
        let page = read(&data, 1).unwrap();
        let sectors: Vec<u8> = page
            .chunks(SECTOR)
            .map(|sector| match sector.iter().all(|byte| *byte == sector[0]) {
                true => sector[0],
                false => 99,
            })
            .collect();
        old += u32::from(sectors == [1; 4]);
        new += u32::from(sectors == [2; 4]);
        torn += u32::from(sectors.contains(&1) && sectors.contains(&2));
        garbage += u32::from(sectors.contains(&99));
        let length = data.pages().unwrap();
        short += u32::from(length == 2);
        assert!((2..=6).contains(&length), "{length}");
        assert!(sectors.iter().all(|byte| [1, 2, 99].contains(byte)), "{sectors:?}");
        assert_eq!(read(&data, 0).unwrap(), [0; PAGE]);
    }
    for count in [old, new, torn, garbage, short] {
        assert!((200..1500).contains(&count), "{:?}", (old, new, torn, garbage, short));
    }
}

#[test]
fn writes_to_two_files_survive_independently() {
    let mut seen = [[false; 2]; 2];
    for seed in 0..200 {
        let disk = FaultyDisk::new(0);
        write(&disk.pages("data", PAGE), 0, 1).unwrap();
        disk.bytes("log").append(&[1]).unwrap();
        let data = crashed(&disk, seed);
        let data_there = data.pages().unwrap() > 0 && read(&data, 0).unwrap() == [1; PAGE];
        let log_there = disk.bytes("log").read_all().unwrap() == [1];
        seen[usize::from(data_there)][usize::from(log_there)] = true;
    }
    assert_eq!(seen, [[true; 2]; 2]);
}

#[test]
fn the_same_seed_leaves_the_same_bytes() {
    let after = |seed| {
        let disk = FaultyDisk::new(3);
        let data = disk.pages("data", PAGE);
        for page in 0..20 {
            write(&data, page, 1).unwrap();
        }
        let data = crashed(&disk, seed);
        let pages = 0..20;
        pages.map(|page| read(&data, page).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(after(8), after(8));
    assert_ne!(after(8), after(9));
}

#[test]
fn a_crash_happens_at_the_kth_change_and_every_call_fails_until_the_disk_is_opened_again() {
    for k in 1..=3 {
        let disk = FaultyDisk::new(0);
        disk.inject(Fault::crash(DiskOperation::Change, 1).nth(k));
        let data = disk.pages("data", PAGE);
        let outcomes = [write(&data, 0, 1), data.sync(), write(&data, 0, 2), data.sync()];
        for (at, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(()) => assert!((at as u64) < k - 1),
                Err(error) => assert!(PowerOff::caused(&error) && at as u64 >= k - 1),
            }
        }
        assert!(disk.is_off() && read(&data, 0).is_err() && data.pages().is_err());
        disk.restart();
        assert!(PowerOff::caused(&write(&data, 0, 3).unwrap_err()), "a handle survived");
        let reopened = disk.pages("data", PAGE);
        write(&reopened, 0, 3).unwrap();
        assert_eq!(disk.counts().changes(), k + 1);
    }
}

#[test]
fn a_crash_in_a_batch_leaves_any_part_of_all_of_it() {
    let (mut first_only, mut last_only) = (false, false);
    for seed in 0..200 {
        let disk = FaultyDisk::new(0);
        disk.inject(Fault::crash(DiskOperation::Write, seed).nth(2));
        let data = disk.pages("data", PAGE);
        let mut writes = [0, 1, 2].map(|page| Write { page, buffer: &[7; PAGE], outcome: Ok(()) });
        data.write(&mut writes);
        let off = |write: &Write<'_>| write.outcome.as_ref().is_err_and(PowerOff::caused);
        assert!(writes.iter().all(off));
        disk.restart();
        let data = disk.pages("data", PAGE);
        let there = [0, 2].map(|page| read(&data, page).unwrap() == [7; PAGE]);
        first_only |= there == [true, false];
        last_only |= there == [false, true];
    }
    assert!(first_only && last_only);
}

#[test]
fn faults_happen_when_and_where_they_were_injected() {
    let disk = FaultyDisk::new(0);
    let data = disk.pages("data", PAGE);
    let other = disk.pages("other", PAGE);
    disk.inject(Fault::failing(DiskOperation::Write, EIO).in_file("data").nth(2));
    disk.inject(Fault::failing(DiskOperation::Write, ENOSPC).at_page(7).forever());
    let errno = |outcome: io::Result<()>| outcome.map_err(|error| error.raw_os_error());
    write(&data, 0, 1).unwrap();
    write(&other, 0, 1).unwrap();
    assert_eq!(errno(write(&data, 0, 2)), Err(Some(EIO)));
    assert_eq!(read(&data, 0).unwrap(), [1; PAGE]);
    write(&data, 0, 2).unwrap();
    assert_eq!(errno(write(&data, 7, 2)), Err(Some(ENOSPC)));
    assert_eq!(errno(write(&other, 7, 2)), Err(Some(ENOSPC)));
    disk.heal();
    write(&data, 7, 2).unwrap();
}

#[test]
fn a_torn_write_fails_and_leaves_a_part() {
    let disk = FaultyDisk::new(0);
    let data = disk.pages("data", PAGE);
    let mut parts = 0;
    for page in 0..20 {
        disk.inject(Fault::torn_write(EIO));
        assert!(write(&data, page, 1).is_err());
        let found = read(&data, page).unwrap();
        parts += u32::from(found.contains(&0) && found.contains(&1));
    }
    assert!(parts > 10, "{parts} of 20 writes were torn");
}

#[test]
fn a_failed_sync_drops_writes_and_hides_that_until_the_crash() {
    let mut dropped = 0;
    for seed in 0..100 {
        let disk = FaultyDisk::new(seed);
        let data = disk.pages("data", PAGE);
        disk.inject(Fault::sync_that_drops(EIO));
        write(&data, 0, 1).unwrap();
        assert_eq!(data.sync().unwrap_err().raw_os_error(), Some(EIO));
        data.sync().unwrap();
        assert_eq!(read(&data, 0).unwrap(), [1; PAGE]);
        let data = crashed(&disk, seed);
        dropped += u32::from(read(&data, 0).unwrap() != [1; PAGE]);
    }
    assert!((50..100).contains(&dropped), "{dropped} of 100");
}

#[test]
fn a_lying_sync_syncs_nothing_and_the_next_one_syncs_all() {
    let mut lost = 0;
    for seed in 0..100 {
        let disk = FaultyDisk::new(0);
        let data = disk.pages("data", PAGE);
        disk.inject(Fault::lying_sync());
        write(&data, 0, 1).unwrap();
        data.sync().unwrap();
        let honest = disk.fork(0);
        let data = crashed(&disk, seed);
        lost += u32::from(read(&data, 0).unwrap() != [1; PAGE]);
        honest.pages("data", PAGE).sync().unwrap();
        let data = crashed(&honest, seed);
        assert_eq!(read(&data, 0).unwrap(), [1; PAGE]);
    }
    assert!((50..100).contains(&lost), "{lost} of 100");
}

#[test]
fn writes_are_lost_and_misplaced_and_bits_are_flipped() {
    let disk = FaultyDisk::new(0);
    let data = disk.pages("data", PAGE);
    write(&data, 0, 1).unwrap();
    disk.inject(Fault::lost_write());
    write(&data, 0, 2).unwrap();
    assert_eq!(read(&data, 0).unwrap(), [1; PAGE]);
    disk.inject(Fault::misplaced_write(5));
    write(&data, 0, 3).unwrap();
    assert_eq!(read(&data, 0).unwrap(), [1; PAGE]);
    assert_eq!(read(&data, 5).unwrap(), [3; PAGE]);
    let flipped = |bytes: Vec<u8>| bytes.iter().map(|byte| (byte ^ 1).count_ones()).sum::<u32>();
    disk.inject(Fault::flipped_read());
    assert_eq!(flipped(read(&data, 0).unwrap()), 1);
    assert_eq!(flipped(read(&data, 0).unwrap()), 0);
    assert!(disk.flip("data", 9, 3) && !disk.flip("data", 1 << 40, 0) && !disk.flip("none", 0, 0));
    data.sync().unwrap();
    assert_eq!(flipped(read(&crashed(&disk, 0), 0).unwrap()), 1);
}

#[test]
fn bytes_are_torn_at_sectors_and_synced_neighbours_survive() {
    let mut torn = 0;
    for seed in 0..300 {
        let disk = FaultyDisk::new(0);
        let log = disk.bytes("log");
        log.append(&[1; 100]).unwrap();
        log.sync().unwrap();
        assert_eq!(log.append(&[2; 1000]).unwrap(), 100);
        disk.crash(seed);
        disk.restart();
        let found = disk.bytes("log").read_all().unwrap();
        assert_eq!(found[..100], [1; 100]);
        let (first, second) = found[100..].split_at(found.len().min(512) - 100);
        let new = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(|&byte| byte == 2);
        torn += u32::from(new(first) != new(second));
    }
    assert!(torn > 20, "{torn} of 300 appends were torn");
}

#[test]
fn a_file_that_was_cut_off_may_have_its_old_length_after_a_crash() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let disk = FaultyDisk::new(0);
        let log = disk.bytes("log");
        log.append(&[1; 100]).unwrap();
        log.sync().unwrap();
        log.set_len(10).unwrap();
        disk.crash(seed);
        disk.restart();
        lengths.insert(disk.bytes("log").len().unwrap());
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [10, 100]);
}

#[test]
fn writing_ahead_of_the_log_is_found() {
    struct Fixed;
    impl Log for Fixed {
        fn durable_lsn(&self) -> Lsn {
            10
        }
        fn force(&self, _: Lsn) -> io::Result<()> {
            Ok(())
        }
        fn end_lsn(&self) -> Lsn {
            20
        }
    }
    let log: Arc<dyn Log> = Arc::new(Fixed);
    let disk = FaultyDisk::new(0);
    disk.watch(&log, page_lsn);
    let data = disk.pages("data", PAGE);
    let mut bytes = vec![1; PAGE];
    for (page, lsn) in [(3, 10), (4, 11)] {
        crate::PageFormat::Checked.seal(&mut bytes, page, lsn);
        let mut writes = [Write { page, buffer: &bytes, outcome: Ok(()) }];
        data.write(&mut writes);
    }
    let found = Violation::WriteAhead { file: "data".into(), page: 4, lsn: 11, durable: 10 };
    assert_eq!(disk.violations(), [found]);
}

#[test]
fn two_operations_on_a_page_at_the_same_time_are_found() {
    let disk = FaultyDisk::new(0);
    let data = disk.pages("data", PAGE);
    let inner = data.clone();
    disk.observe(move |io| {
        if io.operation == DiskOperation::Write {
            drop(read(&inner, 2));
        }
    });
    write(&data, 1, 1).unwrap();
    assert_eq!(disk.violations(), []);
    write(&data, 2, 1).unwrap();
    let found = Violation::Overlap { file: "data".into(), page: 2 };
    assert_eq!(disk.violations(), [found]);
    disk.observe_no_more();
}

#[test]
fn an_observer_may_fork_and_crash_the_disk_while_something_is_under_way() {
    let disk = FaultyDisk::new(0);
    let data = disk.pages("data", PAGE);
    let inner = disk.clone();
    disk.observe(move |io| {
        if io.operation == DiskOperation::Sync {
            inner.fork(0).crash(1);
            inner.crash(1);
        }
    });
    write(&data, 0, 1).unwrap();
    assert!(PowerOff::caused(&data.sync().unwrap_err()));
    disk.observe_no_more();
}

#[test]
fn a_page_number_out_of_reach_is_reported_as_a_full_disk() {
    let disk = FaultyDisk::new(0);
    let data = disk.pages("data", PAGE);
    for page in [u64::MAX, u64::MAX / PAGE as u64, 1 << 40] {
        assert_eq!(write(&data, page, 1).unwrap_err().raw_os_error(), Some(ENOSPC));
        assert_eq!(data.grow(page).unwrap_err().raw_os_error(), Some(ENOSPC));
        assert_eq!(read(&data, page).unwrap(), [0; PAGE]);
    }
}

#[test]
fn a_full_disk_takes_no_more_bytes_and_lets_others_be_overwritten() {
    let disk = FaultyDisk::new(0);
    let (log, data) = (disk.bytes("log"), disk.bytes("data"));
    let errno = |outcome: io::Result<()>| outcome.map_err(|error| error.raw_os_error());
    log.write_at(0, &[1; 100]).unwrap();
    data.write_at(0, &[1; 100]).unwrap();
    disk.set_capacity(250);
    assert_eq!(disk.used(), 200);
    log.write_at(0, &[2; 120]).unwrap();
    assert_eq!(errno(log.write_at(100, &[3; 100])), Err(Some(ENOSPC)));
    assert_eq!(log.read_all().unwrap(), [[2; 100].as_slice(), &[3; 50]].concat());
    assert_eq!(errno(data.write_at(200, &[3; 1])), Err(Some(ENOSPC)));
    assert_eq!(errno(data.set_len(101)), Err(Some(ENOSPC)));
    data.write_at(0, &[4; 100]).unwrap();
    data.set_len(10).unwrap();
    log.append(&[5; 90]).unwrap();
    assert_eq!(errno(log.append(&[5]).map(drop)), Err(Some(ENOSPC)));
    assert_eq!(disk.used(), 250);
    // What is reserved is there, until the file becomes no longer, or the power fails.
    data.set_len(5).unwrap();
    assert_eq!(errno(data.reserve(11)), Err(Some(ENOSPC)));
    data.reserve(10).unwrap();
    assert_eq!((data.len().unwrap(), errno(log.append(&[6]).map(drop))), (5, Err(Some(ENOSPC))));
    data.set_len(8).unwrap();
    data.append(&[6; 2]).unwrap();
    data.set_len(5).unwrap();
    data.reserve(8).unwrap();
    data.set_len(5).unwrap();
    log.append(&[6; 5]).unwrap();
    disk.heal();
    data.reserve(100).unwrap();
    assert_eq!(disk.used(), 245 + 100);
    disk.restart();
    assert!(disk.used() <= 250);
    let log = disk.bytes("log");
    log.append(&[6; 1000]).unwrap();
}
