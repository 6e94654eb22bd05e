//! The power fails at every moment of a script, and syncs fail and drop what they were to sync.

use ebbpool::storage::{EIO, Fault, FaultyDisk, Operation, PowerOff};

use super::*;

const TURN: u64 = 1500;

/// What the log was told, and what it promised.
#[derive(Default)]
struct Story {
    made: bool,
    appended: Vec<Logged>,
    synced: Lsn,
    needed: Position,
}

impl Story {
    fn append(&mut self, wal: &Wal, record: &Record<'_>) -> Result<(), Error> {
        self.appended.push(append(wal, record)?);
        Ok(())
    }

    fn play(&mut self, disk: &FaultyDisk, seed: u64) -> Result<(), Error> {
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

    /// That the log has what it promised, and nothing else.
    fn check(&self, wal: &Wal) -> Vec<Logged> {
        let there = found(wal);
        let appended = self.appended.iter().copied();
        let expected: Vec<Logged> = appended
            .filter(|record| record.0 >= wal.begin() && record.1 <= wal.end_lsn())
            .collect();
        assert_eq!(there, expected);
        let first = there.first().map_or(wal.end_lsn(), |record| record.0);
        assert_eq!(wal.begin(), first);
        assert!(wal.begin() <= self.needed.max(FIRST));
        assert!(wal.end_lsn() >= self.synced);
        there
    }
}

/// Goes on after a crash: what was found stays so, and what is synced now is there after the next one.
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
fn after_a_crash_at_any_moment_there_is_a_prefix_with_all_that_was_synced() {
    let (mut shortened, mut turned, mut unmade) = (0, 0, 0);
    for play in 0..3 {
        let disk = FaultyDisk::new(0);
        Story::default().play(&disk, play).unwrap();
        let moments = disk.counts().changes();
        assert!(moments > 40, "{moments}");
        for moment in 1..=moments {
            for seed in 0..12 {
                let disk = FaultyDisk::new(seed);
                disk.inject(Fault::crash(Operation::Change, seed).nth(moment));
                let mut story = Story::default();
                story.play(&disk, play).unwrap_err();
                disk.restart();
                let Some((wal, identity)) = Wal::open(files(&disk), TURN, Damaged::Refuse).unwrap()
                else {
                    assert!(!story.made);
                    create(&disk, TURN).unwrap();
                    unmade += 1;
                    continue;
                };
                assert_eq!(identity, IDENTITY);
                let there = story.check(&wal);
                let end = story.appended.last().map_or(FIRST, |record| record.1);
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
        disk.inject(Fault::crash(Operation::Change, seed).nth(8 + seed % 20));
        let mut story = Story::default();
        story.play(&disk, seed).unwrap_err();
        for moment in 1..=2 {
            disk.restart();
            disk.inject(Fault::crash(Operation::Change, seed + moment).nth(moment));
            match open(&disk, TURN) {
                Ok(wal) => drop(story.check(&wal)),
                Err(error) => {
                    assert!(
                        matches!(&error, Error::Log { source, .. } if PowerOff::caused(source))
                    );
                    interrupted += 1;
                }
            }
            disk.heal();
        }
        disk.restart();
        let wal = open(&disk, TURN).unwrap();
        let there = story.check(&wal);
        go_on(&disk, &wal, there, seed);
    }
    assert!(interrupted > 600, "{interrupted}");
}

#[test]
fn what_a_failed_sync_drops_is_not_built_on() {
    let mut failed_in_opening = 0;
    for seed in 0..1500 {
        let disk = FaultyDisk::new(seed);
        disk.inject(Fault::sync_that_drops(EIO).nth(3 + seed % 20));
        let mut story = Story::default();
        let played = story.play(&disk, seed / 20);
        // No power fails: the cache still shows what was dropped.
        if played.is_ok() {
            disk.heal();
        }
        if seed % 3 == 0 {
            disk.inject(Fault::sync_that_drops(EIO));
            assert!(matches!(open(&disk, TURN), Err(Error::Log { .. })));
            failed_in_opening += 1;
        }
        let wal = open(&disk, TURN).unwrap();
        let there = story.check(&wal);
        go_on(&disk, &wal, there, seed);
    }
    assert!(failed_in_opening > 0);
}

#[test]
fn what_was_cut_off_does_not_come_back_when_the_cut_is_dropped() {
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
        // As long as what may have been cut off: were that still there, it would go on after it.
        there.push(append(&wal, &update(4, &[1; 600])).unwrap());
        wal.sync(wal.end_lsn()).unwrap();
        disk.crash(seed);
        disk.restart();
        assert_eq!(found(&open(&disk, TURN).unwrap()), there);
    }
    assert!(cut > 100, "{cut}");
}
