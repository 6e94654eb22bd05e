//! A golden database: its files as the first release leaves them when the power fails, in `tests/golden/`.
//!
//! Every later release has to open it, so a file in that directory never changes after its release. After a
//! deliberate change of a format a new database is added, under a new name, by this command:
//!
//! ```text
//! cargo test -p ebbpool-btree --test golden -- --ignored
//! ```
//!
//! It writes the files that do not exist. `docs/formats.md` draws the formats.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ebbpool::storage::FaultyDisk;
use ebbpool_btree::{Database, DatabaseError, DatabaseOptions, DatabaseParts};

const PAGE: usize = 512;

/// The name of the first release's database.
const NAME: &str = "database-1";

/// The names of a database's files.
const FILES: [&str; 4] = ["pages", "torn", "log0", "log1"];

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u32) -> Vec<u8> {
    format!("key {number:04}").into_bytes()
}

/// A value longer than a page, of different bytes.
fn long(from: u8) -> Vec<u8> {
    (0..1200u32).map(|at| from.wrapping_add((at % 251) as u8)).collect()
}

fn put(database: &Database, records: &mut Records, key: Vec<u8>, value: Vec<u8>) -> Result<(), DatabaseError> {
    database.put(&key, &value)?;
    records.insert(key, value);
    Ok(())
}

/// Writes a database up to a power failure. Returns the records that it must have after recovery.
fn write_database(disk: &FaultyDisk) -> Result<Records, DatabaseError> {
    let database = open(disk, false)?;
    let mut records = Records::new();
    for number in 0..60 {
        put(&database, &mut records, key(number), format!("value {number}").into_bytes())?;
    }
    put(&database, &mut records, Vec::new(), b"of the empty key".to_vec())?;
    put(&database, &mut records, b"nothing".to_vec(), Vec::new())?;
    put(&database, &mut records, b"long".to_vec(), long(1))?;
    for number in 20..30 {
        database.delete(&key(number))?;
        records.remove(&key(number));
    }
    database.checkpoint()?;
    // The following changes are only in the log.
    let mut open = database.begin();
    open.put(b"never committed", &long(2))?;
    open.delete(&key(7))?;
    let mut transaction = database.begin();
    transaction.put(b"committed", b"after the checkpoint")?;
    transaction.put(&key(3), b"another value")?;
    transaction.delete(&key(40))?;
    transaction.commit()?;
    // The power fails while the first transaction is open.
    std::mem::forget(open);
    records.insert(b"committed".to_vec(), b"after the checkpoint".to_vec());
    records.insert(key(3), b"another value".to_vec());
    records.remove(&key(40));
    drop(database);
    Ok(records)
}

fn open(disk: &FaultyDisk, read_only: bool) -> Result<Database, DatabaseError> {
    let parts = DatabaseParts {
        pages: Box::new(disk.pages("pages", PAGE)),
        double_write: Some(Box::new(disk.pages("torn", PAGE))),
        log: ["log0", "log1"].map(|name| Box::new(disk.bytes(name)) as _),
    };
    // Small batches, for a small double-write area.
    let options = DatabaseOptions::new(32).background(false).pool(|pool| pool.batch(1));
    options.read_only(read_only).open_on(parts)
}

fn path(file: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(format!("{NAME}.{file}"))
}

fn golden() -> FaultyDisk {
    let disk = FaultyDisk::new(0);
    for name in FILES {
        let bytes = fs::read(path(name)).unwrap_or_else(|error| panic!("{NAME}.{name}: {error}"));
        let file = disk.bytes(name);
        file.append(&bytes).expect("a copy");
        file.sync().expect("a copy");
    }
    disk
}

fn content(database: &Database) -> Records {
    let records = database.range::<&[u8]>(..);
    records.collect::<Result<_, _>>().expect("every record")
}

#[test]
fn a_database_of_the_first_release_is_recovered() {
    let expected = write_database(&FaultyDisk::new(0)).expect("a database");
    let disk = golden();
    let mut database = open(&disk, false).expect("it opens");
    assert_eq!(content(&database), expected);
    let report = database.check().expect("it is checked");
    assert_eq!(report.findings, []);
    assert_eq!(report.shape.keys, expected.len() as u64);
    assert_eq!((report.shape.height, report.shape.overflow_pages), (2, 3));
    database.close().expect("it closes");
    assert_eq!(content(&open(&disk, false).expect("it opens again")), expected);
}

#[test]
fn a_database_of_the_first_release_is_read_without_changing_it() {
    let expected = write_database(&FaultyDisk::new(0)).expect("a database");
    let disk = golden();
    let database = open(&disk, true).expect("it opens");
    assert_eq!(content(&database), expected);
    assert_eq!(database.lost(), None);
    drop(database);
    for name in FILES {
        let bytes = disk.bytes(name).read_all().expect("it is read");
        assert!(bytes == fs::read(path(name)).expect("it is read"), "{name}");
    }
}

/// The pages have the pool's header, whose checksums recovery verifies.
#[test]
fn the_first_page_of_the_first_release_identifies_the_file() {
    let pages = fs::read(path("pages")).expect("it is read");
    assert!(pages.len().is_multiple_of(PAGE));
    assert_eq!(pages[24..32], *b"EbbP\x01\0\0\0");
    assert_eq!(pages[32..56], *b"\x01\0\0\0\0\0\0\0EbbpTree\x01\0\0\0\0\x02\0\0");
    let log = fs::read(path("log0")).expect("it is read");
    assert_eq!(pages[56..64], log[16..24], "pages and log have one identity");
}

#[test]
#[ignore = "writes the golden files that do not exist"]
fn write_golden_files() {
    // The identity is drawn at random otherwise.
    fastrand::seed(1);
    let disk = FaultyDisk::new(0);
    write_database(&disk).expect("a database");
    for name in FILES {
        if !path(name).exists() {
            let bytes = disk.bytes(name).read_all().expect("it is read");
            fs::write(path(name), bytes).expect("the file is written");
        }
    }
}
