//! Databases in files, and other files in their directory: files that cannot be opened remain unchanged.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ebbpool::storage::{DiskOperation, Fault, FaultyDisk};
use ebbpool_btree::{Database, DatabaseError, DatabaseOptions, Durability};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

use crate::parts::{self, all};

fn options() -> DatabaseOptions {
    DatabaseOptions::new(64).background(false).page_size(1024)
}

struct TestDirectory {
    temporary: TempDir,
}

impl TestDirectory {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        TestDirectory { temporary }
    }

    /// A directory with a database that was closed, or not.
    fn with_database(keys: u32, close: bool) -> Self {
        let directory = TestDirectory::new();
        let database = directory.open().unwrap();
        for number in 0..keys {
            put(&database, number);
        }
        if close {
            database.close().unwrap();
        }
        directory
    }

    fn path(&self) -> PathBuf {
        self.temporary.path().join("a.db")
    }

    fn file(&self, extension: &str) -> PathBuf {
        match extension {
            "" => self.path(),
            extension => self.temporary.path().join(format!("a.db.{extension}")),
        }
    }

    fn open(&self) -> Result<Database, DatabaseError> {
        options().open(self.path())
    }

    fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = fs::read_dir(self.temporary.path()).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    /// The error of opening the database, which changes no file.
    fn refused(&self) -> DatabaseError {
        let before = self.bytes();
        let error = self.open().expect_err("it opens");
        assert!(self.bytes() == before, "files have changed: {error}");
        error
    }

    fn assert_not_a_database(&self, why: &str) {
        let error = self.refused();
        assert!(matches!(error, DatabaseError::NotADatabase { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 20 + number as usize % 50]
}

fn put(database: &Database, number: u32) {
    database.put(&number.to_be_bytes(), &value(number)).unwrap();
}

/// The number of records, which were put in ascending order.
fn count(database: &Database) -> u32 {
    let records = all(database);
    for (number, record) in (0u32..).zip(&records) {
        assert_eq!(*record, (number.to_be_bytes().to_vec(), value(number)));
    }
    records.len() as u32
}

fn write(path: &Path, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

#[test]
fn a_closed_database_is_opened_again() {
    let directory = TestDirectory::with_database(500, true);
    let names: Vec<_> = directory.bytes().into_keys().collect();
    let expected = ["", "log0", "log1", "torn"].map(|it| directory.file(it));
    assert_eq!(names, expected);
    let before = directory.bytes();
    let mut database = directory.open().unwrap();
    assert_eq!(count(&database), 500);
    assert!(database.check().unwrap().findings.is_empty());
    database.close().unwrap();
    assert!(directory.bytes() == before, "reading has changed files");
}

#[test]
fn a_database_that_was_not_closed_recovers() {
    for durability in [Durability::Synced, Durability::Buffered] {
        let directory = TestDirectory::new();
        let options = || options().durability(durability).checkpoint_every(4096);
        let mut database = options().open(directory.path()).unwrap();
        for round in 0..5 {
            for number in round * 100..round * 100 + 100 {
                put(&database, number);
            }
            let mut transaction = database.begin();
            transaction.put(b"never", b"committed").unwrap();
            transaction.delete(&0u32.to_be_bytes()).unwrap();
            std::mem::forget(transaction);
            drop(database);
            database = options().open(directory.path()).unwrap();
            assert_eq!(count(&database), round * 100 + 100);
            assert!(database.check().unwrap().findings.is_empty());
        }
    }
}

#[test]
fn without_durability_a_first_part_of_the_commits_survives() {
    let directory = TestDirectory::new();
    let database = options().durability(Durability::None).open(directory.path()).unwrap();
    (0..100).for_each(|number| put(&database, number));
    drop(database);
    let database = directory.open().unwrap();
    let left = count(&database);
    (left..200).for_each(|number| put(&database, number));
    database.close().unwrap();
    assert_eq!(count(&directory.open().unwrap()), 200);
}

#[test]
fn a_database_with_background_threads_recovers() {
    let directory = TestDirectory::new();
    let options = || DatabaseOptions::new(64).checkpoint_every(8192);
    let database = options().open(directory.path()).unwrap();
    (0..1000).for_each(|number| put(&database, number));
    let stats = database.stats();
    assert_eq!(stats.commits, 1000);
    drop(database);
    let database = options().open(directory.path()).unwrap();
    assert_eq!(count(&database), 1000);
    database.close().unwrap();
}

#[test]
fn a_database_is_opened_once_at_a_time() {
    let directory = TestDirectory::with_database(10, true);
    let database = directory.open().unwrap();
    let error = directory.open().unwrap_err();
    assert!(matches!(error, DatabaseError::Locked { .. }), "{error}");
    let read_only = || options().read_only(true).open(directory.path());
    assert!(matches!(read_only(), Err(DatabaseError::Locked { .. })));
    drop(database);
    let readers = [read_only().unwrap(), read_only().unwrap()];
    assert!(matches!(directory.open(), Err(DatabaseError::Locked { .. })));
    assert_eq!(readers.each_ref().map(count), [10, 10]);
    drop(readers);
    directory.open().unwrap();
}

/// Even of a database that was never closed, with pages that are only in the log.
#[test]
fn read_only_changes_no_file_and_creates_none() {
    for (keys, close) in [(0, false), (10, false), (10, true), (3000, false)] {
        let directory = TestDirectory::with_database(keys, close);
        fs::remove_file(directory.file("torn")).unwrap();
        let before = directory.bytes();
        let open = || options().read_only(true).open(directory.path());
        let mut database = open().unwrap();
        assert_eq!((count(&database), database.lost()), (keys, None));
        assert_eq!(database.check().unwrap().findings, []);
        database.close().unwrap();
        assert!(directory.bytes() == before);
        for log in ["log1", "log0"] {
            fs::remove_file(directory.file(log)).unwrap();
            let why = open().unwrap_err().to_string();
            assert!(why.contains(log) || why.contains("log0"), "{why}");
        }
    }
    let directory = TestDirectory::new();
    let error = options().read_only(true).open(directory.path()).unwrap_err();
    assert!(matches!(error, DatabaseError::File { .. }), "{error}");
    assert!(directory.bytes().is_empty());
}

#[test]
fn of_two_threads_that_create_a_database_one_fails() {
    for _ in 0..20 {
        let directory = TestDirectory::new();
        let outcomes = std::thread::scope(|threads| {
            let opened = [0, 1].map(|_| threads.spawn(|| directory.open()));
            opened.map(|thread| thread.join().unwrap())
        });
        let good = outcomes.iter().filter(|it| it.is_ok()).count();
        let locked = |it: &&Result<_, _>| matches!(it, Err(DatabaseError::Locked { .. }));
        assert_eq!((good, outcomes.iter().filter(locked).count()), (1, 1));
    }
}

#[test]
fn foreign_files_are_left_alone() {
    let random: Vec<u8> = (0..10_000u32).map(|it| ((it * it) >> 3) as u8).collect();
    for foreign in [&b"x"[..], b"SQLite format 3\0", &random, &[0; 5000]] {
        let directory = TestDirectory::new();
        fs::write(directory.path(), foreign).unwrap();
        directory.assert_not_a_database("it does not begin like one");
        // With files beside it that are not a log either.
        for log in ["log0", "log1"] {
            fs::write(directory.file(log), &random).unwrap();
        }
        directory.assert_not_a_database("it does not begin like one");
        // With another database's log.
        let other = TestDirectory::with_database(10, true);
        for log in ["log0", "log1"] {
            fs::copy(other.file(log), directory.file(log)).unwrap();
        }
        directory.assert_not_a_database("it does not begin like one");
    }
    // Files where the log of a new one would be.
    let directory = TestDirectory::new();
    fs::write(directory.file("log0"), &random).unwrap();
    let error = directory.refused();
    assert!(matches!(error, DatabaseError::NotADatabase { .. } | DatabaseError::Log { .. }), "{error}");
}

#[test]
fn a_database_that_cannot_be_created_is_reported() {
    let directory = TestDirectory::new();
    let error = options().create(false).open(directory.path()).unwrap_err();
    assert!(matches!(error, DatabaseError::File { .. }) && directory.bytes().is_empty(), "{error}");
    let error = options().open(directory.temporary.path()).unwrap_err();
    assert!(matches!(error, DatabaseError::File { .. }), "{error}");
    let error = options().open(directory.path().join("none/a.db")).unwrap_err();
    assert!(matches!(error, DatabaseError::File { .. }), "{error}");
    fs::write(directory.path(), b"").unwrap();
    let error = options().create(false).open(directory.path()).unwrap_err();
    assert!(matches!(error, DatabaseError::File { .. }), "{error}");
    directory.open().unwrap().close().unwrap();
    options().create(false).open(directory.path()).unwrap();
}

#[test]
fn invalid_options_are_refused() {
    let directory = TestDirectory::new();
    let refused = |options: DatabaseOptions| {
        let error = options.open(directory.path()).unwrap_err();
        assert!(matches!(error, DatabaseError::Options(_)), "{error}");
        assert!(directory.bytes().is_empty());
    };
    refused(DatabaseOptions::new(15));
    for bytes in [0, 100, 256, 1000, 65536] {
        refused(options().page_size(bytes));
    }
    refused(options().checkpoint_every(0));
    for spec in ["none", "belady", "cflru:window=7"] {
        assert!(matches!(options().policy(spec), Err(DatabaseError::Options(_))), "{spec}");
    }
    options().policy("cflru").unwrap().open(directory.path()).unwrap();
    let error = options().page_size(4096).open(directory.path()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("1024") && text.contains("4096"), "{text}");
    DatabaseOptions::new(16).open(directory.path()).unwrap();
}

#[test]
fn a_missing_log_or_one_of_another_database_is_reported() {
    for missing in [&["log0"][..], &["log1"], &["log0", "log1"]] {
        let directory = TestDirectory::with_database(100, true);
        for log in missing {
            fs::remove_file(directory.file(log)).unwrap();
        }
        directory.assert_not_a_database("is missing");
        for log in missing {
            fs::write(directory.file(log), b"").unwrap();
        }
        let error = directory.refused();
        assert!(matches!(error, DatabaseError::NotADatabase { .. } | DatabaseError::Log { .. }), "{error}");
    }
    let (directory, other) = (TestDirectory::with_database(100, true), TestDirectory::with_database(100, true));
    for log in ["log0", "log1"] {
        fs::copy(other.file(log), directory.file(log)).unwrap();
    }
    directory.assert_not_a_database("another database's");
    fs::remove_file(directory.path()).unwrap();
    directory.assert_not_a_database("no first page");
}

#[test]
fn a_log_that_is_older_than_the_pages_is_reported() {
    let directory = TestDirectory::with_database(100, true);
    let older = directory.bytes();
    let database = directory.open().unwrap();
    (100..1000).for_each(|number| put(&database, number));
    database.close().unwrap();
    for log in ["log0", "log1"] {
        fs::write(directory.file(log), &older[&directory.file(log)]).unwrap();
    }
    let error = directory.refused();
    let bytes: u64 = match error {
        DatabaseError::LogCut { end, durable } => durable - end,
        error => panic!("{error}"),
    };
    let text = error.to_string();
    assert!(text.contains(&format!("{bytes} bytes are missing")), "{text}");
}

#[test]
fn pages_that_are_older_than_the_log_are_reported() {
    for close in [true, false] {
        let directory = TestDirectory::with_database(100, true);
        let older = fs::read(directory.path()).unwrap();
        let database = directory.open().unwrap();
        (100..1000).for_each(|number| put(&database, number));
        database.checkpoint().unwrap();
        (1000..1100).for_each(|number| put(&database, number));
        if close {
            database.close().unwrap();
        } else {
            drop(database);
        }
        fs::write(directory.path(), older).unwrap();
        let error = directory.refused();
        assert!(matches!(error, DatabaseError::PagesOlder { found, expected } if found < expected), "{error}");
        let read_only = options().read_only(true).open(directory.path()).unwrap();
        assert_eq!((all(&read_only).len(), read_only.lost().unwrap().skipped), (100, 1));
    }
}

#[test]
fn a_log_that_is_older_than_some_leaves_is_reported() {
    let directory = TestDirectory::with_database(1000, true);
    let older = directory.bytes();
    let database = directory.open().unwrap();
    (0..1000).for_each(|number| put(&database, number));
    database.close().unwrap();
    for log in ["log0", "log1"] {
        fs::write(directory.file(log), &older[&directory.file(log)]).unwrap();
    }
    let error = directory.refused();
    assert!(matches!(error, DatabaseError::LogCut { .. }), "{error}");
}

/// Writes page 0 with another format, and with the right checksum if `sealed`.
fn with_format(directory: &TestDirectory, format: u32, sealed: bool) {
    let mut page = fs::read(directory.path()).unwrap();
    page.truncate(1024);
    page[48..52].copy_from_slice(&format.to_le_bytes());
    if sealed {
        let sum = xxh3_64(&page[8..]);
        page[..8].copy_from_slice(&sum.to_le_bytes());
    }
    write(&directory.path(), 0, &page);
}

#[test]
fn later_formats_are_reported_and_not_changed() {
    let directory = TestDirectory::with_database(100, true);
    with_format(&directory, 2, true);
    let error = directory.refused();
    assert!(matches!(error, DatabaseError::Newer { found: 2, supported: 1, .. }), "{error}");
    assert!(error.to_string().contains("a.db"), "{error}");
    with_format(&directory, 2, false);
    // The page gets its own format and a right checksum again.
    with_format(&directory, 1, true);
    assert_eq!(count(&directory.open().unwrap()), 100);
}

#[test]
fn a_truncated_file_is_reported() {
    let directory = TestDirectory::with_database(1000, true);
    let whole = fs::read(directory.path()).unwrap();
    let pages = whole.len() / 1024;
    for left in [1, 2, 3, 10, pages - 1] {
        fs::write(directory.path(), &whole[..left * 1024]).unwrap();
        let error = directory.refused();
        assert!(matches!(error, DatabaseError::Corrupt { .. }), "{left} of {pages}: {error}");
        fs::write(directory.path(), &whole[..left * 1024 + 100]).unwrap();
        let error = directory.refused();
        assert!(error.to_string().contains("truncated"), "{error}");
    }
    fs::write(directory.path(), b"").unwrap();
    directory.assert_not_a_database("no first page");
    fs::write(directory.path(), &whole).unwrap();
    assert_eq!(count(&directory.open().unwrap()), 1000);
}

/// After a bit of any file is flipped, opening or reading fails, or all records are there.
#[test]
fn flipped_bits_are_detected_or_harmless() {
    let mut random = fastrand::Rng::with_seed(7);
    // The pages that were written last may have images.
    for (double_write, least_failed) in [(true, 0), (false, 5)] {
        let directory = TestDirectory::new();
        let database = options().double_write(double_write).open(directory.path()).unwrap();
        (0..200).for_each(|number| put(&database, number));
        database.close().unwrap();
        let whole = directory.bytes();
        let (mut refused, mut failed, mut fine) = (0, 0, 0);
        for (path, bytes) in &whole {
            for _ in 0..30 {
                let at = random.usize(0..bytes.len());
                write(path, at as u64, &[bytes[at] ^ 1 << random.u8(0..8)]);
                let before = directory.bytes();
                match options().double_write(double_write).open(directory.path()) {
                    Err(_) => {
                        refused += 1;
                        assert!(directory.bytes() == before, "{} at {at}", path.display());
                    }
                    Ok(database) => {
                        let records: Result<Vec<_>, _> = database.range::<&[u8]>(..).collect();
                        match records {
                            Err(_) => failed += 1,
                            Ok(_) => {
                                fine += 1;
                                assert_eq!(count(&database), 200, "{} at {at}", path.display());
                            }
                        }
                    }
                }
                for (path, bytes) in &whole {
                    fs::write(path, bytes).unwrap();
                }
            }
        }
        let figures = format!("{refused} refused, {failed} failed, {fine} fine");
        assert!(refused > 5 && failed >= least_failed && fine > 25, "{figures}");
    }
}

/// Images are obsolete once their pages were changed without new images, and must not be restored.
#[test]
fn images_of_pages_are_cleared_when_double_writes_are_off() {
    let directory = TestDirectory::with_database(200, true);
    let without = || options().double_write(false).open(directory.path());
    let database = without().unwrap();
    (200..220).for_each(|number| put(&database, number));
    for number in 0..200u32 {
        database.put(&number.to_be_bytes(), b"new").unwrap();
    }
    database.close().unwrap();
    let whole = fs::read(directory.path()).unwrap();
    let mut damaged = 0;
    for page in 3..whole.len() / 1024 {
        write(&directory.path(), page as u64 * 1024 + 500, &[!whole[page * 1024 + 500]]);
        for open in [&|| directory.open() as _, &without as &dyn Fn() -> Result<Database, DatabaseError>] {
            let Ok(database) = open() else {
                damaged += 1;
                continue;
            };
            let records: Result<Vec<_>, _> = database.range::<&[u8]>(..).collect();
            match records {
                Err(_) => damaged += 1,
                Ok(records) => assert!(records.iter().take(200).all(|(_, value)| value == b"new")),
            }
        }
        write(&directory.path(), 0, &whole);
    }
    assert!(damaged > 5, "{damaged}");
}

/// A copied directory is a database; the images of another database's pages would overwrite its own.
#[test]
fn a_copy_opens_with_its_images_and_not_with_those_of_another_database() {
    let (directory, other, copy) =
        (TestDirectory::with_database(200, true), TestDirectory::with_database(100, true), TestDirectory::new());
    for extension in ["", "log0", "log1", "torn"] {
        fs::copy(directory.file(extension), copy.file(extension)).unwrap();
    }
    assert_eq!(count(&copy.open().unwrap()), 200);
    fs::copy(other.file("torn"), copy.file("torn")).unwrap();
    let before = copy.bytes();
    let without = || options().double_write(false).open(copy.path());
    for opened in [copy.open(), without()] {
        match opened.map(drop) {
            Err(error @ DatabaseError::NotADatabase { .. }) => {
                let message = error.to_string();
                assert!(message.contains("a.db.torn"), "{message}");
            }
            other => panic!("{other:?}"),
        }
        assert!(copy.bytes() == before, "nothing was changed");
    }
    fs::remove_file(copy.file("torn")).unwrap();
    assert_eq!(count(&copy.open().unwrap()), 200);
}

/// A torn page of a database with images is restored, even if the next session has double writes off.
#[test]
fn torn_pages_are_restored_even_with_double_writes_off() {
    let directory = TestDirectory::with_database(200, true);
    let whole = fs::read(directory.path()).unwrap();
    for page in [3, 4, 5] {
        write(&directory.path(), page * 1024 + 500, &[!whole[page as usize * 1024 + 500]]);
    }
    let database = options().double_write(false).open(directory.path()).unwrap();
    assert_eq!(count(&database), 200);
    drop(database);
    assert!(fs::read(directory.path()).unwrap() == whole);
}

/// A crash may tear the first page as any other: its image restores it, and without images nothing is changed.
#[test]
fn a_torn_first_page_is_restored_from_its_image() {
    let directory = TestDirectory::with_database(200, true);
    let whole = fs::read(directory.path()).unwrap();
    let garbage: Vec<u8> = (0..512u32).map(|it| ((it * it) >> 3) as u8).collect();
    for (at, torn) in [(600, &garbage[..100]), (0, &garbage[..])] {
        for double_write in [true, false] {
            write(&directory.path(), at, torn);
            let images = fs::read(directory.file("torn")).unwrap();
            let log = fs::read(directory.file("log0")).unwrap();
            let opened = options().double_write(double_write).open(directory.path());
            assert_eq!(count(&opened.unwrap()), 200);
            assert!(fs::read(directory.path()).unwrap() == whole);
            fs::write(directory.file("torn"), images).unwrap();
            fs::write(directory.file("log0"), log).unwrap();
        }
    }
    fs::remove_file(directory.file("torn")).unwrap();
    for (at, torn) in [(600, &garbage[..100]), (0, &garbage[..])] {
        write(&directory.path(), at, torn);
        let before = directory.bytes();
        assert!(directory.open().is_err());
        assert!(directory.bytes() == before, "nothing was changed");
        write(&directory.path(), 0, &whole);
    }
}

/// Another file in the place of the pages is left alone, though log and images are those of one database.
#[test]
fn a_foreign_file_beside_log_and_images_is_left_alone() {
    let directory = TestDirectory::with_database(200, true);
    let length = fs::metadata(directory.path()).unwrap().len();
    let foreign: Vec<u8> = (0..length).map(|it| ((it * it) >> 3) as u8).collect();
    fs::write(directory.path(), foreign).unwrap();
    directory.assert_not_a_database("it does not begin like one");
}

/// In the log of a database that was not closed: the records found are those of the first commits.
#[test]
fn flipped_bits_in_a_log_leave_a_first_part_or_are_reported() {
    let directory = TestDirectory::with_database(50, false);
    let whole = directory.bytes();
    let mut random = fastrand::Rng::with_seed(8);
    let (mut refused, mut shorter) = (0, 0);
    for log in ["log0", "log1"].map(|log| directory.file(log)) {
        let bytes = &whole[&log];
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(1, |at| at + 1);
        for _ in 0..100 {
            let at = random.usize(0..used);
            write(&log, at as u64, &[bytes[at] ^ 1 << random.u8(0..8)]);
            let before = directory.bytes();
            match directory.open() {
                Err(_) => {
                    refused += 1;
                    assert!(directory.bytes() == before, "{} at {at}", log.display());
                }
                Ok(database) => shorter += u32::from(count(&database) < 50),
            }
            for (path, bytes) in &whole {
                fs::write(path, bytes).unwrap();
            }
        }
    }
    assert!(refused > 20, "{refused} refused, {shorter} shorter");
}

#[test]
fn a_database_is_created_whole_or_not_at_all() {
    let mut made = 0;
    for nth in 1.. {
        for seed in 0..10 {
            let disk = FaultyDisk::new(seed);
            disk.inject(Fault::crash(DiskOperation::Change, seed).nth(nth));
            let outcome = parts::open(&disk);
            if outcome.is_ok() && !disk.is_off() {
                assert!(nth > 8, "{nth}");
                return;
            }
            made += u32::from(outcome.is_ok());
            disk.crash(seed);
            drop(outcome);
            disk.restart();
            let mut database = parts::open(&disk).unwrap();
            assert!(all(&database).is_empty());
            assert!(database.check().unwrap().findings.is_empty());
            database.put(b"a", b"b").unwrap();
        }
    }
    unreachable!("{made}");
}
