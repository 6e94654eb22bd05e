//! Databases in files, and what else may be in their place: whatever cannot be opened stays as it is.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ebbpool::storage::{Fault, FaultyDisk, Operation};
use ebbpool_btree::{Database, Durability, Error, Options};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

use crate::parts::{self, all};

fn options() -> Options {
    Options::new(64).background(false).page_size(1024)
}

struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Place { directory }
    }

    /// With a database that was closed, or not.
    fn with_database(keys: u32, close: bool) -> Self {
        let place = Place::new();
        let database = place.open().unwrap();
        for number in 0..keys {
            put(&database, number);
        }
        if close {
            database.close().unwrap();
        }
        place
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("a.db")
    }

    fn file(&self, extension: &str) -> PathBuf {
        match extension {
            "" => self.path(),
            extension => self.directory.path().join(format!("a.db.{extension}")),
        }
    }

    fn open(&self) -> Result<Database, Error> {
        options().open(self.path())
    }

    fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = fs::read_dir(self.directory.path()).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect()
    }

    /// What opening fails with, which changes nothing.
    fn refused(&self) -> Error {
        let before = self.bytes();
        let error = self.open().expect_err("it opens");
        assert!(self.bytes() == before, "files have changed: {error}");
        error
    }

    fn is_no_database(&self, why: &str) {
        let error = self.refused();
        assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 20 + number as usize % 50]
}

fn put(database: &Database, number: u32) {
    database.put(&number.to_be_bytes(), &value(number)).unwrap();
}

/// How many of the records there are, that were put one after the other.
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
fn a_database_is_found_again() {
    let place = Place::with_database(500, true);
    let names: Vec<_> = place.bytes().into_keys().collect();
    let expected = ["", "log0", "log1", "torn"].map(|it| place.file(it));
    assert_eq!(names, expected);
    let before = place.bytes();
    let mut database = place.open().unwrap();
    assert_eq!(count(&database), 500);
    assert!(database.check().unwrap().findings.is_empty());
    database.close().unwrap();
    assert!(place.bytes() == before, "reading has changed files");
}

#[test]
fn what_was_not_closed_recovers() {
    for durability in [Durability::Synced, Durability::Buffered] {
        let place = Place::new();
        let options = || options().durability(durability).checkpoint_every(4096);
        let mut database = options().open(place.path()).unwrap();
        for round in 0..5 {
            for number in round * 100..round * 100 + 100 {
                put(&database, number);
            }
            let mut transaction = database.begin();
            transaction.put(b"never", b"committed").unwrap();
            transaction.delete(&0u32.to_be_bytes()).unwrap();
            std::mem::forget(transaction);
            drop(database);
            database = options().open(place.path()).unwrap();
            assert_eq!(count(&database), round * 100 + 100);
            assert!(database.check().unwrap().findings.is_empty());
        }
    }
}

#[test]
fn without_durability_a_first_part_is_left() {
    let place = Place::new();
    let database = options()
        .durability(Durability::None)
        .open(place.path())
        .unwrap();
    (0..100).for_each(|number| put(&database, number));
    drop(database);
    let database = place.open().unwrap();
    let left = count(&database);
    (left..200).for_each(|number| put(&database, number));
    database.close().unwrap();
    assert_eq!(count(&place.open().unwrap()), 200);
}

#[test]
fn with_threads_of_its_own_it_is_the_same() {
    let place = Place::new();
    let options = || Options::new(64).checkpoint_every(8192);
    let database = options().open(place.path()).unwrap();
    (0..1000).for_each(|number| put(&database, number));
    let stats = database.stats();
    assert_eq!(stats.commits, 1000);
    drop(database);
    let database = options().open(place.path()).unwrap();
    assert_eq!(count(&database), 1000);
    database.close().unwrap();
}

#[test]
fn a_database_is_opened_once_at_a_time() {
    let place = Place::with_database(10, true);
    let database = place.open().unwrap();
    let error = place.open().unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    let read_only = || options().read_only(true).open(place.path());
    assert!(matches!(read_only(), Err(Error::Locked { .. })));
    drop(database);
    let readers = [read_only().unwrap(), read_only().unwrap()];
    assert!(matches!(place.open(), Err(Error::Locked { .. })));
    assert_eq!(readers.each_ref().map(count), [10, 10]);
    drop(readers);
    place.open().unwrap();
}

/// Also of one that was never closed, with pages that are only in the log.
#[test]
fn read_only_changes_no_file_and_makes_none() {
    for (keys, close) in [(0, false), (10, false), (10, true), (3000, false)] {
        let place = Place::with_database(keys, close);
        fs::remove_file(place.file("torn")).unwrap();
        let before = place.bytes();
        let open = || options().read_only(true).open(place.path());
        let mut database = open().unwrap();
        assert_eq!((count(&database), database.lost()), (keys, None));
        assert_eq!(database.check().unwrap().findings, []);
        database.close().unwrap();
        assert!(place.bytes() == before);
        for log in ["log1", "log0"] {
            fs::remove_file(place.file(log)).unwrap();
            let why = open().unwrap_err().to_string();
            assert!(why.contains(log) || why.contains("log0"), "{why}");
        }
    }
    let place = Place::new();
    let error = options().read_only(true).open(place.path()).unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
    assert!(place.bytes().is_empty());
}

#[test]
fn two_that_make_it_at_once_do_not_both() {
    for _ in 0..20 {
        let place = Place::new();
        let outcomes = std::thread::scope(|threads| {
            let opened = [0, 1].map(|_| threads.spawn(|| place.open()));
            opened.map(|thread| thread.join().unwrap())
        });
        let good = outcomes.iter().filter(|it| it.is_ok()).count();
        let locked = |it: &&Result<_, _>| matches!(it, Err(Error::Locked { .. }));
        assert_eq!((good, outcomes.iter().filter(locked).count()), (1, 1));
    }
}

#[test]
fn foreign_files_are_left_alone() {
    let random: Vec<u8> = (0..10_000u32).map(|it| ((it * it) >> 3) as u8).collect();
    for foreign in [&b"x"[..], b"SQLite format 3\0", &random, &[0; 5000]] {
        let place = Place::new();
        fs::write(place.path(), foreign).unwrap();
        place.is_no_database("it begins otherwise");
        // With files beside it that are no log either.
        for log in ["log0", "log1"] {
            fs::write(place.file(log), &random).unwrap();
        }
        place.is_no_database("it begins otherwise");
        // With another database's log.
        let other = Place::with_database(10, true);
        for log in ["log0", "log1"] {
            fs::copy(other.file(log), place.file(log)).unwrap();
        }
        place.is_no_database("it begins otherwise");
    }
    // Files where the log of a new one would be.
    let place = Place::new();
    fs::write(place.file("log0"), &random).unwrap();
    let error = place.refused();
    assert!(
        matches!(error, Error::NotADatabase { .. } | Error::Log { .. }),
        "{error}"
    );
}

#[test]
fn what_cannot_be_made_is_said() {
    let place = Place::new();
    let error = options().create(false).open(place.path()).unwrap_err();
    assert!(
        matches!(error, Error::File { .. }) && place.bytes().is_empty(),
        "{error}"
    );
    let error = options().open(place.directory.path()).unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
    let error = options().open(place.path().join("none/a.db")).unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
    fs::write(place.path(), b"").unwrap();
    let error = options().create(false).open(place.path()).unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
    place.open().unwrap().close().unwrap();
    options().create(false).open(place.path()).unwrap();
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let place = Place::new();
    let refused = |options: Options| {
        let error = options.open(place.path()).unwrap_err();
        assert!(matches!(error, Error::Options(_)), "{error}");
        assert!(place.bytes().is_empty());
    };
    refused(Options::new(15));
    for bytes in [0, 100, 256, 1000, 65536] {
        refused(options().page_size(bytes));
    }
    refused(options().checkpoint_every(0));
    for spec in ["none", "belady", "cflru:window=7"] {
        assert!(
            matches!(options().policy(spec), Err(Error::Options(_))),
            "{spec}"
        );
    }
    options()
        .policy("cflru")
        .unwrap()
        .open(place.path())
        .unwrap();
    let error = options().page_size(4096).open(place.path()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("1024") && text.contains("4096"), "{text}");
    Options::new(16).open(place.path()).unwrap();
}

#[test]
fn a_log_that_is_missing_or_anothers_is_said() {
    for missing in [&["log0"][..], &["log1"], &["log0", "log1"]] {
        let place = Place::with_database(100, true);
        for log in missing {
            fs::remove_file(place.file(log)).unwrap();
        }
        place.is_no_database("is missing");
        for log in missing {
            fs::write(place.file(log), b"").unwrap();
        }
        let error = place.refused();
        assert!(
            matches!(error, Error::NotADatabase { .. } | Error::Log { .. }),
            "{error}"
        );
    }
    let (place, other) = (
        Place::with_database(100, true),
        Place::with_database(100, true),
    );
    for log in ["log0", "log1"] {
        fs::copy(other.file(log), place.file(log)).unwrap();
    }
    place.is_no_database("another database's");
    fs::remove_file(place.path()).unwrap();
    place.is_no_database("no first page");
}

#[test]
fn a_log_that_is_older_than_the_pages_is_said() {
    let place = Place::with_database(100, true);
    let older = place.bytes();
    let database = place.open().unwrap();
    (100..1000).for_each(|number| put(&database, number));
    database.close().unwrap();
    for log in ["log0", "log1"] {
        fs::write(place.file(log), &older[&place.file(log)]).unwrap();
    }
    let error = place.refused();
    let bytes: u64 = match error {
        Error::LogCut { end, durable } => durable - end,
        error => panic!("{error}"),
    };
    let text = error.to_string();
    assert!(
        text.contains(&format!("{bytes} bytes are missing")),
        "{text}"
    );
}

#[test]
fn a_log_that_is_older_is_said_where_only_leaves_were_written_since() {
    let place = Place::with_database(1000, true);
    let older = place.bytes();
    let database = place.open().unwrap();
    (0..1000).for_each(|number| put(&database, number));
    database.close().unwrap();
    for log in ["log0", "log1"] {
        fs::write(place.file(log), &older[&place.file(log)]).unwrap();
    }
    let error = place.refused();
    assert!(matches!(error, Error::LogCut { .. }), "{error}");
}

/// Page 0 with another format, and with a checksum for it if that is wanted.
fn with_format(place: &Place, format: u32, sealed: bool) {
    let mut page = fs::read(place.path()).unwrap();
    page.truncate(1024);
    page[48..52].copy_from_slice(&format.to_le_bytes());
    if sealed {
        let sum = xxh3_64(&page[8..]);
        page[..8].copy_from_slice(&sum.to_le_bytes());
    }
    write(&place.path(), 0, &page);
}

#[test]
fn later_formats_are_left_alone() {
    let place = Place::with_database(100, true);
    with_format(&place, 2, true);
    let error = place.refused();
    assert!(
        matches!(
            error,
            Error::Newer {
                found: 2,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("a.db"), "{error}");
    with_format(&place, 2, false);
    // Which it is not.
    with_format(&place, 1, true);
    assert_eq!(count(&place.open().unwrap()), 100);
}

#[test]
fn a_file_that_became_shorter_is_said() {
    let place = Place::with_database(1000, true);
    let whole = fs::read(place.path()).unwrap();
    let pages = whole.len() / 1024;
    for left in [1, 2, 3, 10, pages - 1] {
        fs::write(place.path(), &whole[..left * 1024]).unwrap();
        let error = place.refused();
        assert!(
            matches!(error, Error::Corrupt { .. }),
            "{left} of {pages}: {error}"
        );
        fs::write(place.path(), &whole[..left * 1024 + 100]).unwrap();
        let error = place.refused();
        assert!(error.to_string().contains("truncated"), "{error}");
    }
    fs::write(place.path(), b"").unwrap();
    place.is_no_database("no first page");
    fs::write(place.path(), &whole).unwrap();
    assert_eq!(count(&place.open().unwrap()), 1000);
}

/// A bit of any file is another one: then opening or reading fails, or everything is there.
#[test]
fn flipped_bits_are_found_or_do_not_matter() {
    let mut random = fastrand::Rng::with_seed(7);
    // Of pages that were written last, there may be images.
    for (double_write, least_failed) in [(true, 0), (false, 5)] {
        let place = Place::new();
        let database = options()
            .double_write(double_write)
            .open(place.path())
            .unwrap();
        (0..200).for_each(|number| put(&database, number));
        database.close().unwrap();
        let whole = place.bytes();
        let (mut refused, mut failed, mut fine) = (0, 0, 0);
        for (path, bytes) in &whole {
            for _ in 0..30 {
                let at = random.usize(0..bytes.len());
                write(path, at as u64, &[bytes[at] ^ 1 << random.u8(0..8)]);
                let before = place.bytes();
                match options().double_write(double_write).open(place.path()) {
                    Err(_) => {
                        refused += 1;
                        assert!(place.bytes() == before, "{} at {at}", path.display());
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
        assert!(
            refused > 5 && failed >= least_failed && fine > 25,
            "{figures}"
        );
    }
}

/// Images of pages that were changed without new ones are no use, and harm if they are believed.
#[test]
fn images_of_pages_do_not_outlive_a_time_without_them() {
    let place = Place::with_database(200, true);
    let without = || options().double_write(false).open(place.path());
    let database = without().unwrap();
    (200..220).for_each(|number| put(&database, number));
    for number in 0..200u32 {
        database.put(&number.to_be_bytes(), b"new").unwrap();
    }
    database.close().unwrap();
    let whole = fs::read(place.path()).unwrap();
    let mut damaged = 0;
    for page in 3..whole.len() / 1024 {
        write(
            &place.path(),
            page as u64 * 1024 + 500,
            &[!whole[page * 1024 + 500]],
        );
        for open in [
            &|| place.open() as _,
            &without as &dyn Fn() -> Result<Database, Error>,
        ] {
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
        write(&place.path(), 0, &whole);
    }
    assert!(damaged > 5, "{damaged}");
}

/// A copied directory is a database; the images of another one's pages would overwrite its own.
#[test]
fn a_copy_opens_with_its_images_and_not_with_those_of_another() {
    let (place, other, copy) = (
        Place::with_database(200, true),
        Place::with_database(100, true),
        Place::new(),
    );
    for extension in ["", "log0", "log1", "torn"] {
        fs::copy(place.file(extension), copy.file(extension)).unwrap();
    }
    assert_eq!(count(&copy.open().unwrap()), 200);
    fs::copy(other.file("torn"), copy.file("torn")).unwrap();
    let before = copy.bytes();
    let without = || options().double_write(false).open(copy.path());
    for opened in [copy.open(), without()] {
        match opened.map(drop) {
            Err(error @ Error::NotADatabase { .. }) => {
                let told = error.to_string();
                assert!(told.contains("a.db.torn"), "{told}");
            }
            other => panic!("{other:?}"),
        }
        assert!(copy.bytes() == before, "nothing was changed");
    }
    fs::remove_file(copy.file("torn")).unwrap();
    assert_eq!(count(&copy.open().unwrap()), 200);
}

/// A page that was torn under a database that kept images is restored, whoever opens it next.
#[test]
fn torn_pages_are_restored_without_keeping_images_on() {
    let place = Place::with_database(200, true);
    let whole = fs::read(place.path()).unwrap();
    for page in [3, 4, 5] {
        write(
            &place.path(),
            page * 1024 + 500,
            &[!whole[page as usize * 1024 + 500]],
        );
    }
    let database = options().double_write(false).open(place.path()).unwrap();
    assert_eq!(count(&database), 200);
    drop(database);
    assert!(fs::read(place.path()).unwrap() == whole);
}

/// In the log of a database that was not closed: what is found is what was committed first.
#[test]
fn flipped_bits_in_a_log_leave_a_first_part_or_are_said() {
    let place = Place::with_database(50, false);
    let whole = place.bytes();
    let mut random = fastrand::Rng::with_seed(8);
    let (mut refused, mut shorter) = (0, 0);
    for log in ["log0", "log1"].map(|log| place.file(log)) {
        let bytes = &whole[&log];
        let used = bytes
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(1, |at| at + 1);
        for _ in 0..100 {
            let at = random.usize(0..used);
            write(&log, at as u64, &[bytes[at] ^ 1 << random.u8(0..8)]);
            let before = place.bytes();
            match place.open() {
                Err(_) => {
                    refused += 1;
                    assert!(place.bytes() == before, "{} at {at}", log.display());
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
fn a_database_is_made_whole_or_not_at_all() {
    let mut made = 0;
    for nth in 1.. {
        for seed in 0..10 {
            let disk = FaultyDisk::new(seed);
            disk.inject(Fault::crash(Operation::Change, seed).nth(nth));
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
