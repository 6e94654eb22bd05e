//! Backups of a database in files, while threads change it.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use ebbpool_btree::{Database, DatabaseError, DatabaseOptions, DatabasePaths, Durability};

const THREADS: u64 = 3;
const ACCOUNTS: u64 = 40;

fn options() -> DatabaseOptions {
    // Pages leave the pool, and checkpoints are taken and the log turns, while a backup copies.
    DatabaseOptions::new(48).page_size(512).checkpoint_every(64 << 10).durability(Durability::Buffered)
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().expect("8 bytes")))
}

fn account(number: u64) -> Vec<u8> {
    format!("account {number:03}").into_bytes()
}

/// Moves amounts between accounts, puts and deletes values of many lengths, and counts its transactions, until `ends`.
fn work(database: &Database, seed: u64, done: &AtomicU64, ends: &AtomicBool) -> Result<(), DatabaseError> {
    let mut random = fastrand::Rng::with_seed(seed);
    while !ends.load(Ordering::Relaxed) {
        let mut transaction = database.begin();
        let mut pair = [random.u64(..ACCOUNTS), random.u64(..ACCOUNTS)];
        // In one order, so that there are no deadlocks.
        pair.sort_unstable();
        let [from, to] = pair.map(account);
        let amounts = [number(transaction.get_for_update(&from)?), number(transaction.get_for_update(&to)?)];
        if from != to && amounts[0] > 0 {
            transaction.put(&from, &(amounts[0] - 1).to_le_bytes())?;
            transaction.put(&to, &(amounts[1] + 1).to_le_bytes())?;
        }
        let key = format!("of {seed}: {:04}", random.u32(..2000)).into_bytes();
        let most = if random.u8(..50) == 0 { 4000 } else { 60 };
        match random.u8(..4) {
            0 => _ = transaction.delete(&key)?,
            _ => transaction.put(&key, &vec![seed as u8; random.usize(..most)])?,
        }
        if random.u8(..5) == 0 {
            transaction.rollback()?;
            continue;
        }
        let next = done.load(Ordering::Relaxed) + 1;
        transaction.put(format!("count {seed}").as_bytes(), &next.to_le_bytes())?;
        transaction.commit()?;
        done.store(next, Ordering::Release);
    }
    Ok(())
}

/// Ends the work also if a test fails, which would wait for it.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_backup_is_the_database_at_one_moment() {
    const BACKUPS: usize = 12;
    let directory = tempfile::tempdir().unwrap();
    let original = directory.path().join("original.db");
    let database = options().open(&original).unwrap();
    for number in 0..ACCOUNTS {
        database.put(&account(number), &100u64.to_le_bytes()).unwrap();
    }
    let (done, ends) = ([const { AtomicU64::new(0) }; THREADS as usize], AtomicBool::new(false));
    let counts = || done.each_ref().map(|done| done.load(Ordering::Acquire));
    thread::scope(|threads| {
        let workers: Vec<_> = (0..THREADS)
            .map(|seed| {
                let (database, done, ends) = (&database, &done[seed as usize], &ends);
                threads.spawn(move || work(database, seed, done, ends))
            })
            .collect();
        let at_last = Ends(&ends);
        for round in 0..BACKUPS {
            let copy = directory.path().join(format!("copy {round}.db"));
            while counts().iter().any(|&count| count < 20 * (round as u64 + 1)) && workers.iter().all(|it| !it.is_finished()) {
                thread::yield_now();
            }
            let before = counts();
            let backup = database.backup(&copy).unwrap();
            let after = counts();
            assert!(backup.pages > 1 && backup.log_bytes > 0);
            check(&copy, before, after);
        }
        drop(at_last);
        workers.into_iter().for_each(|worker| worker.join().unwrap().unwrap());
    });
    let stats = database.stats();
    assert!(stats.checkpoints > BACKUPS as u64, "none was taken beside a backup: {stats:?}");
    // After the last backup, without a checkpoint, as a crash leaves it.
    drop(database);
    check(&original, counts(), counts());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4 * (BACKUPS + 1), "files are left over");
}

/// The database there is whole, and has of each thread a number of transactions between the two.
fn check(path: &std::path::Path, before: [u64; 3], after: [u64; 3]) {
    let mut database = options().open(path).unwrap();
    let report = database.check().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let amounts: u64 = (0..ACCOUNTS).map(|it| number(database.get(&account(it)).unwrap())).sum();
    assert_eq!(amounts, 100 * ACCOUNTS);
    for thread in 0..THREADS as usize {
        let count = number(database.get(format!("count {thread}").as_bytes()).unwrap());
        // One may have committed that is not counted yet.
        assert!((before[thread]..=after[thread] + 1).contains(&count), "{count} of {before:?} to {after:?}");
    }
    database.put(b"another", b"").unwrap();
    database.close().unwrap();
}

/// Half of the pages are free, and rotten: neither readers nor a check need them.
#[test]
fn a_backup_needs_no_free_page() {
    let directory = tempfile::tempdir().unwrap();
    let [original, copy] = ["original.db", "copy.db"].map(|name| directory.path().join(name));
    let database = options().open(&original).unwrap();
    let key = |number: u32| number.to_be_bytes();
    (0..1000).for_each(|number| database.put(&key(number), &[7; 100]).unwrap());
    (0..800).for_each(|number| assert!(database.delete(&key(number)).unwrap()));
    database.close().unwrap();
    let mut database = options().open(&original).unwrap();
    let report = database.check().unwrap();
    database.close().unwrap();
    let mut bytes = fs::read(&original).unwrap();
    // The first map, in page 1, has a bit for each page from byte 16 of its payload on.
    let map = bytes[512 + ebbpool::HEADER_BYTES + 16..1024].to_vec();
    let free = (0..report.pages as usize).filter(|page| map[page / 8] & 1 << (page % 8) == 0);
    free.for_each(|page| bytes[page * 512 + 100..][..100].fill(0xEE));
    fs::write(&original, bytes).unwrap();
    let mut database = options().open(&original).unwrap();
    assert_eq!((database.check().unwrap(), report.used < report.pages / 2), (report, true));
    database.backup(&copy).unwrap();
    (0..1000).for_each(|number| database.put(&key(number), &[8; 100]).unwrap());
    let mut copy = options().open(&copy).unwrap();
    assert!(copy.check().unwrap().findings.is_empty());
    assert_eq!(copy.range::<&[u8]>(..).count(), 200);
}

/// A program that opens the path of a copy from its first moment on creates no database there.
#[test]
fn no_database_is_created_where_a_backup_is_under_way() {
    let directory = tempfile::tempdir().unwrap();
    let database = options().open(directory.path().join("original.db")).unwrap();
    (0..500u32).for_each(|number| database.put(&number.to_be_bytes(), &[7; 100]).unwrap());
    for round in 0..20 {
        let copy = directory.path().join(format!("copy {round}.db"));
        let count = thread::scope(|threads| {
            let opened = threads.spawn(|| {
                loop {
                    match copy.exists().then(|| options().open(&copy)) {
                        None | Some(Err(DatabaseError::Locked { .. })) => {}
                        Some(opened) => return opened.unwrap().range::<&[u8]>(..).count(),
                    }
                }
            });
            database.backup(&copy).unwrap();
            opened.join().unwrap()
        });
        assert_eq!(count, 500);
    }
}

#[test]
fn a_backup_replaces_nothing_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = options().open(directory.path().join("original.db")).unwrap();
    database.put(b"key", b"value").unwrap();
    let copy = directory.path().join("copy.db");
    let part = directory.path().join("copy.db.log1.part");
    for there in DatabasePaths::new(&copy).all().into_iter().chain([&*part]) {
        fs::write(there, "another's").unwrap();
        let refused = database.backup(&copy).unwrap_err().to_string();
        assert!(refused.contains(&there.display().to_string()) && refused.contains("back up"), "{refused}");
        assert_eq!(fs::read(there).unwrap(), b"another's");
        fs::remove_file(there).unwrap();
    }
    let stopped = database.backup_while(&copy, |_| false).unwrap_err();
    assert!(stopped.to_string().contains("copy.db"), "{stopped}");
    let missing = database.backup(directory.path().join("missing/copy.db"));
    assert!(matches!(missing, Err(DatabaseError::File { .. })), "{missing:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
    database.backup(&copy).unwrap();
    database.close().unwrap();
    let read_only = options().read_only(true).open(&copy).unwrap();
    assert_eq!(read_only.get(b"key").unwrap().unwrap(), b"value");
    assert!(matches!(read_only.backup(directory.path().join("more.db")), Err(DatabaseError::ReadOnly)));
}
