//! Logs that lost their end. Opening such a database fails, or it has the state after one of its commits
//! and never loses later what it acknowledges then. Opened read-only, it shows what is left and changes
//! nothing.

use std::collections::{BTreeMap, HashSet};

use ebbpool::storage::{FaultyDisk, page_lsn};
use ebbpool_btree::{Database, DatabaseError, DatabaseOptions, Durability};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::parts::{PAGE, parts};

type Records = BTreeMap<Vec<u8>, Vec<u8>>;
type Files = BTreeMap<&'static str, Vec<u8>>;

const FILES: [&str; 4] = ["data", "log0", "log1", "torn"];
const LOGS: [&str; 2] = ["log0", "log1"];
/// The offset of the records in a log's file.
const RECORDS: usize = 8192;

fn options() -> DatabaseOptions {
    let options = DatabaseOptions::new(16).background(false).page_size(PAGE);
    options.policy("lru").unwrap().checkpoint_every(1 << 14)
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn contents(database: &Database) -> Result<Records, DatabaseError> {
    database.range::<&[u8]>(..).collect()
}

/// The files of a database that was closed or not, and the states after each of its commits.
struct DatabaseHistory {
    files: Files,
    states: HashSet<Vec<(Vec<u8>, Vec<u8>)>>,
    last: Records,
    closed: bool,
}

fn state(records: &Records) -> Vec<(Vec<u8>, Vec<u8>)> {
    let records = records.iter().map(|(k, v)| (k.clone(), v.clone()));
    records.collect()
}

fn history(seed: u64, closed: bool) -> DatabaseHistory {
    let disk = FaultyDisk::new(seed);
    let mut now = Records::new();
    let mut states = HashSet::from([state(&now)]);
    let mut random = fastrand::Rng::with_seed(seed);
    let options = options().durability(Durability::Buffered);
    let database = options.open_on(parts(&disk)).unwrap();
    for step in 0..100u64 {
        let mut transaction = database.begin();
        for _ in 0..random.usize(1..6) {
            let key = key(random.u64(0..200));
            if random.u8(0..4) == 0 {
                transaction.delete(&key).unwrap();
                now.remove(&key);
            } else {
                let long = if random.u8(0..10) == 0 { 3 * PAGE } else { 60 };
                let value = vec![random.u8(..); random.usize(0..long)];
                transaction.put(&key, &value).unwrap();
                now.insert(key, value);
            }
        }
        transaction.commit().unwrap();
        states.insert(state(&now));
        if step == 49 {
            database.checkpoint().unwrap();
        }
    }
    if closed {
        database.close().unwrap();
    } else {
        if seed.is_multiple_of(2) {
            // A transaction that has not ended.
            let mut transaction = database.begin();
            transaction.put(&key(1), b"never").unwrap();
            std::mem::forget(transaction);
        }
        drop(database);
    }
    let bytes = |name| disk.bytes(name).read_all().unwrap();
    DatabaseHistory { files: FILES.map(|name| (name, bytes(name))).into(), states, last: now, closed }
}

fn disk_of(files: &Files) -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    for (name, bytes) in files {
        if !bytes.is_empty() {
            disk.bytes(name).append(bytes).unwrap();
            disk.bytes(name).sync().unwrap();
        }
    }
    disk
}

fn files_of(disk: &FaultyDisk) -> Files {
    let bytes = |name| disk.bytes(name).read_all().unwrap();
    FILES.map(|name| (name, bytes(name))).into()
}

/// The offsets at which records of a log's file end.
fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let number = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let mut ends = Vec::new();
    let mut at = RECORDS;
    let mut position = number(at + 8);
    while position.is_some() && number(at + 8) == position {
        let body = number(at + 16).map_or(0, |it| it as u32 as usize);
        let length = 20 + body;
        let Some(record) = bytes.get(at..at + length) else {
            break;
        };
        position = position.map(|it| it + record.len() as u64);
        at += length;
        ends.push(at);
    }
    ends
}

/// The lengths to which a log's file is cut.
fn cuts(bytes: &[u8], random: &mut fastrand::Rng) -> Vec<usize> {
    let mut cuts = vec![0, 100, 512, 4096, 5000, RECORDS];
    let ends = boundaries(bytes);
    // Over many seeds, each boundary.
    cuts.extend((0..4).filter_map(|_| random.choice(&ends).copied()));
    cuts.extend(ends.iter().rev().skip(1).take(3));
    if let Some(&end) = random.choice(&ends) {
        cuts.extend([end - 1, end + 1, end + 9, end + 25]);
    }
    cuts.retain(|&length| length < bytes.len());
    cuts
}

#[derive(Debug, Default)]
struct Tally {
    refused: u64,
    refused_with_length: u64,
    earlier: u64,
    whole: u64,
    shown: u64,
    pages_ahead: u64,
}

/// Opens the database and uses it as if the log were whole.
fn check_writable(disk: &FaultyDisk, history: &DatabaseHistory, tally: &mut Tally) {
    let before = files_of(disk);
    let database = match options().open_on(parts(disk)) {
        Ok(database) => database,
        Err(error) => {
            assert!(files_of(disk) == before, "{error}");
            tally.refused += 1;
            tally.refused_with_length += u64::from(matches!(error, DatabaseError::LogCut { .. }));
            return;
        }
    };
    let found = contents(&database).expect("no page is ahead of a log that was accepted");
    assert!(history.states.contains(&state(&found)), "it never was");
    match found == history.last {
        true => tally.whole += 1,
        false => tally.earlier += 1,
    }
    assert!(!history.closed || found == history.last, "what was closed was there");
    let keys: Vec<_> = (0..60).map(|number| key(number * 3 + 1)).collect();
    for key in &keys {
        database.put(key, b"acknowledged").unwrap();
    }
    drop(database);
    disk.crash(7);
    disk.restart();
    let database = options().open_on(parts(disk)).unwrap();
    for key in &keys {
        let value = database.get(key).unwrap();
        assert_eq!(value.as_deref(), Some(&b"acknowledged"[..]));
    }
}

/// Opens the database read-only, and checks that no file changes.
fn check_read_only(disk: &FaultyDisk, history: &DatabaseHistory, tally: &mut Tally) {
    let (before, changes) = (files_of(disk), disk.counts().changes());
    let refused = options().open_on(parts(&disk.fork(1))).is_err();
    match options().read_only(true).open_on(parts(disk)) {
        Ok(mut database) => {
            let found = contents(&database);
            let lost = database.lost();
            assert!(!refused || lost.is_some(), "what is missing is not reported");
            if let (None, Ok(found)) = (lost, &found) {
                assert!(history.states.contains(&state(found)));
            }
            tally.shown += 1;
            tally.pages_ahead += lost.map_or(0, |lost| lost.pages_ahead);
            let _ = database.check();
            let mut transaction = database.begin();
            assert!(matches!(transaction.put(b"k", b""), Err(DatabaseError::ReadOnly)));
            drop(transaction);
            database.close().unwrap();
        }
        Err(_) => assert!(refused, "it opens otherwise"),
    }
    assert_eq!(disk.counts().changes(), changes);
    assert!(files_of(disk) == before);
}

#[test]
fn a_log_that_lost_its_end_is_refused_or_was_not_needed() {
    let mut tally = Tally::default();
    for seed in 0..40 {
        let history = history(seed, seed % 3 == 0);
        let mut random = fastrand::Rng::with_seed(seed);
        for name in LOGS {
            for length in cuts(&history.files[name], &mut random) {
                let mut files = history.files.clone();
                files.get_mut(name).unwrap().truncate(length);
                check_read_only(&disk_of(&files), &history, &mut tally);
                check_writable(&disk_of(&files), &history, &mut tally);
            }
        }
    }
    println!("{tally:?}");
    assert!(tally.refused > 500 && tally.refused_with_length > 200 && tally.shown > 500, "{tally:?}");
    assert!(tally.pages_ahead > 100, "{tally:?}");
}

#[test]
fn logs_that_are_older_than_the_last_checkpoint_are_refused() {
    let disk = FaultyDisk::new(3);
    let database = options().open_on(parts(&disk)).unwrap();
    for number in 0..100 {
        database.put(&key(number), &[1; 40]).unwrap();
    }
    let mut older = Vec::new();
    for number in 0..60 {
        // The values have the same length, so neither the root nor a map changes.
        database.put(&key(number % 100), &[2; 40]).unwrap();
        if number % 10 == 0 {
            database.checkpoint().unwrap();
        }
        older.push(LOGS.map(|name| (name, disk.bytes(name).read_all().unwrap())));
    }
    database.close().unwrap();
    let now = files_of(&disk);
    let count = older.len();
    for logs in older {
        let mut files = now.clone();
        files.extend(logs);
        let disk = disk_of(&files);
        let error = options().open_on(parts(&disk)).map(drop).unwrap_err();
        assert!(matches!(error, DatabaseError::LogCut { .. }), "{error}");
        assert!(files_of(&disk) == files);
        let database = options().read_only(true).open_on(parts(&disk)).unwrap();
        let found = contents(&database).unwrap();
        assert_eq!(found.len(), 100);
        assert!(database.lost().unwrap().pages_ahead > 0);
    }
    assert_eq!(count, 60);
}

/// One page of a database gets an LSN beyond the end of the log.
#[test]
fn a_page_that_is_ahead_of_the_log_is_never_shown() {
    let history = history(3, true);
    let count = history.files["data"].len() / PAGE;
    let mut reported = 0;
    for page in 0..count {
        let mut files = history.files.clone();
        let bytes = &mut files.get_mut("data").unwrap()[page * PAGE..][..PAGE];
        let Some(lsn) = page_lsn(bytes).filter(|&lsn| lsn > 0) else {
            continue;
        };
        bytes[16..24].copy_from_slice(&(lsn + (1 << 30)).to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[8..], 0);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        let disk = disk_of(&files);
        match options().open_on(parts(&disk)) {
            Err(DatabaseError::LogCut { .. }) => reported += 1,
            Err(error) => panic!("page {page}: {error}"),
            Ok(mut database) => {
                let report = database.check().unwrap();
                let found = report.findings.iter().any(|it| it.page == page as u64);
                match contents(&database) {
                    Err(DatabaseError::Pool(ebbpool::PoolError::Damaged { page: at, damage })) => {
                        assert!(at == page as u64 && found, "{damage}");
                        assert!(matches!(damage, ebbpool::Damage::Ahead { .. }), "{damage}");
                        reported += 1;
                    }
                    Err(error) => panic!("page {page}: {error}"),
                    // The tree does not use the page.
                    Ok(records) => assert!(records == history.last && !found),
                }
            }
        }
    }
    assert!(reported > 30, "{reported} of {count}");
}

/// A page in use is overwritten with zeros.
#[test]
fn a_page_of_zeros_is_detected_by_each_reader_that_needs_it() {
    let history = history(5, true);
    let count = history.files["data"].len() / PAGE;
    let mut reported = 0;
    for page in 0..count {
        let mut files = history.files.clone();
        let bytes = &mut files.get_mut("data").unwrap()[page * PAGE..][..PAGE];
        if bytes.iter().all(|&byte| byte == 0) {
            continue;
        }
        bytes.fill(0);
        // Images restore torn pages only, and a page of zeros is not torn.
        match options().open_on(parts(&disk_of(&files))) {
            Err(_) => reported += 1,
            Ok(mut database) => {
                let findings = database.check().unwrap().findings;
                let found = findings.iter().any(|it| it.page == page as u64);
                let shown = contents(&database);
                let one_by_one: Result<Records, DatabaseError> =
                    history.last.keys().map(|key| Ok((key.clone(), database.get(key)?.unwrap_or_default()))).collect();
                match (shown, one_by_one) {
                    (Err(DatabaseError::Corrupt { page: at, .. }), Err(DatabaseError::Corrupt { .. })) => {
                        assert!(at == page as u64 && found, "page {page}: {findings:?}");
                        reported += 1;
                    }
                    (Ok(shown), Ok(one_by_one)) => {
                        assert!(shown == history.last && one_by_one == history.last && !found);
                    }
                    (shown, one) => panic!("page {page}: {:?} {:?}", shown.map(|it| it.len()), one.map(|it| it.len())),
                }
            }
        }
    }
    assert!(reported > 30, "{reported} of {count}");
}

#[test]
fn read_only_recovers_in_memory() {
    for seed in [1, 2] {
        let history = history(seed, false);
        let disk = disk_of(&history.files);
        let changes = disk.counts().changes();
        let mut database = options().read_only(true).open_on(parts(&disk)).unwrap();
        assert!(contents(&database).unwrap() == history.last);
        assert_eq!(database.lost(), None);
        assert_eq!(database.check().unwrap().findings, []);
        let read_only = |outcome: Result<(), DatabaseError>| matches!(outcome, Err(DatabaseError::ReadOnly));
        assert!(read_only(database.put(b"k", b"v")));
        assert!(read_only(database.delete(b"k").map(drop)));
        assert!(read_only(database.checkpoint()));
        let none = std::iter::empty::<Result<_, DatabaseError>>();
        assert!(read_only(database.load(none, 0.5).map(drop)));
        let mut transaction = database.begin();
        assert!(read_only(transaction.get_for_update(b"k").map(drop)));
        let update = transaction.update_range(b"", 9, |_, _| None);
        assert!(read_only(update.map(drop)));
        transaction.rollback().unwrap();
        database.begin().commit().unwrap();
        assert!(contents(&database).unwrap() == history.last);
        database.close().unwrap();
        assert_eq!(disk.counts().changes(), changes);
        assert!(files_of(&disk) == history.files);
    }
}
