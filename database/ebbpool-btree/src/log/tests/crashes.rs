//! The power fails at every change of a script, and syncs fail and drop the data that they should sync.

use ebbpool::storage::{DiskOperation, EIO, Fault, FaultyDisk, PowerOff};

use super::*;

const TURN: u64 = 1500;

/// The records that a script appended, and those that the log promised to keep.
#[derive(Default)]
struct LogHistory {
    made: bool,
    appended: Vec<Logged>,
    synced: Lsn,
    needed: Position,
}

impl LogHistory {
    fn append(&mut self, wal: &Wal, record: &Record<'_>) -> Result<(), DatabaseError> {
        self.appended.push(append(wal, record)?);
        Ok(())
    }

    fn play(&mut self, disk: &FaultyDisk, seed: u64) -> Result<(), DatabaseError> {
        let mut random = fastrand::Rng::with_seed(seed);
        let wal = create(disk, TURN)?;
        self.made = true;
        for txn in 1..=40 {
            let key = vec![txn as u8; random.usize(..900)];
            match random.bool() {
                true => self.append(&wal, &update(txn, &key))?,
                false => self.append(&wal, &commit(&wal, txn))?,
            }
            match random.u8(..8) {
                0..=1 => {
                    wal.sync(wal.end_lsn())?;
                    self.synced = wal.end_lsn();
                }
                2..=3 => wal.write()?,
                4..=5 => {
                    let needed = self.appended[random.usize(..self.appended.len())].0;
                    self.needed = self.needed.max(needed);
                    wal.truncate(self.needed)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that the log has the promised records, and no others.
    fn check(&self, wal: &Wal) -> Vec<Logged> {
        let there = found(wal);
        let appended = self.appended.iter().copied();
        let expected: Vec<Logged> = appended.filter(|record| record.0 >= wal.begin() && record.1 <= wal.end_lsn()).collect();
        assert_eq!(there, expected);
        let first = there.first().map_or(wal.end_lsn(), |record| record.0);
        assert_eq!(wal.begin(), first);
        assert!(wal.begin() <= self.needed.max(FIRST));
        assert!(wal.end_lsn() >= self.synced);
        there
    }
}

/// Appends and syncs records after a crash, and checks that the log has old and new ones after the next
/// crash.
fn go_on(disk: &FaultyDisk, wal: &Wal, mut there: Vec<Logged>, seed: u64) {
    for txn in 101..=103 {
        there.push(append(wal, &update(txn, &[9; 200])).unwrap());
    }
    wal.sync(wal.end_lsn()).unwrap();
    wal.append(&update(104, &[9; 1000])).unwrap();
    wal.write().unwrap();
    disk.crash(seed);
    disk.restart();
    let wal = open(disk, TURN).unwrap();
    let found = found(&wal);
    assert_eq!(found[..there.len()], there);
    assert!(found.len() <= there.len() + 1);
}

#[test]
fn after_a_crash_at_any_moment_the_log_has_a_prefix_with_all_synced_records() {
    let (mut shortened, mut turned, mut unmade) = (0, 0, 0);
    for play in 0..3 {
        let disk = FaultyDisk::new(0);
        LogHistory::default().play(&disk, play).unwrap();
        let moments = disk.counts().changes();
        assert!(moments > 40, "{moments}");
        for moment in 1..=moments {
            for seed in 0..12 {
                let disk = FaultyDisk::new(seed);
                disk.inject(Fault::crash(DiskOperation::Change, seed).nth(moment));
                let mut history = LogHistory::default();
                history.play(&disk, play).unwrap_err();
                disk.restart();
                let Some((wal, identity)) = Wal::open(files(&disk), TURN, DamagePolicy::Refuse).unwrap() else {
                    assert!(!history.made);
                    create(&disk, TURN).unwrap();
                    unmade += 1;
                    continue;
                };
                assert_eq!(identity, IDENTITY);
                let there = history.check(&wal);
                let end = history.appended.last().map_or(FIRST, |record| record.1);
                shortened += u32::from(wal.end_lsn() < end);
                turned += u32::from(wal.begin() > FIRST);
                go_on(&disk, &wal, there, seed);
            }
        }
    }
    for count in [shortened, turned, unmade] {
        assert!(count > 30, "{:?}", (shortened, turned, unmade));
    }
}

#[test]
fn opening_may_be_interrupted_by_crashes() {
    let mut interrupted = 0;
    for seed in 0..600 {
        let disk = FaultyDisk::new(seed);
        disk.inject(Fault::crash(DiskOperation::Change, seed).nth(8 + seed % 20));
        let mut history = LogHistory::default();
        history.play(&disk, seed).unwrap_err();
        for moment in 1..=2 {
            disk.restart();
            disk.inject(Fault::crash(DiskOperation::Change, seed + moment).nth(moment));
            match open(&disk, TURN) {
                Ok(wal) => drop(history.check(&wal)),
                Err(error) => {
                    assert!(matches!(&error, DatabaseError::Log { source, .. } if PowerOff::caused(source)));
                    interrupted += 1;
                }
            }
            disk.heal();
        }
        disk.restart();
        let wal = open(&disk, TURN).unwrap();
        let there = history.check(&wal);
        go_on(&disk, &wal, there, seed);
    }
    assert!(interrupted > 600, "{interrupted}");
}

#[test]
fn no_record_follows_data_that_a_failed_sync_dropped() {
    let mut failed_in_opening = 0;
    for seed in 0..1500 {
        let disk = FaultyDisk::new(seed);
        disk.inject(Fault::sync_that_drops(EIO).nth(3 + seed % 20));
        let mut history = LogHistory::default();
        let played = history.play(&disk, seed / 20);
        // The power does not fail, so the cache still returns the dropped data.
        if played.is_ok() {
            disk.heal();
        }
        if seed % 3 == 0 {
            disk.inject(Fault::sync_that_drops(EIO));
            assert!(matches!(open(&disk, TURN), Err(DatabaseError::Log { .. })));
            failed_in_opening += 1;
        }
        let wal = open(&disk, TURN).unwrap();
        let there = history.check(&wal);
        go_on(&disk, &wal, there, seed);
    }
    assert!(failed_in_opening > 0);
}

#[test]
fn records_that_were_cut_off_stay_away_when_the_cut_is_dropped() {
    let mut cut = 0;
    for seed in 0..400 {
        let disk = FaultyDisk::new(seed);
        let wal = create(&disk, TURN).unwrap();
        for txn in 1..=3 {
            append(&wal, &update(txn, &[1; 600])).unwrap();
            wal.write().unwrap();
        }
        disk.crash(seed);
        disk.restart();
        let length = bytes(&disk)[0].len();
        disk.inject(Fault::sync_that_drops(EIO));
        assert!(open(&disk, TURN).is_err());
        let wal = open(&disk, TURN).unwrap();
        let mut there = found(&wal);
        cut += u32::from(bytes(&disk)[0].len() < length);
        // This record is as long as one that may have been cut off. If the old records were still there,
        // they would continue after it.
        there.push(append(&wal, &update(4, &[1; 600])).unwrap());
        wal.sync(wal.end_lsn()).unwrap();
        disk.crash(seed);
        disk.restart();
        assert_eq!(found(&open(&disk, TURN).unwrap()), there);
    }
    assert!(cut > 100, "{cut}");
}
