//! Programs that open a database, write one row and close it: no more bytes and syncs than with plain SQLite.

#![allow(unsafe_code)]

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebbpool_sqlite::ffi;
use rusqlite::{Connection, OpenFlags};

use crate::support::between::{Between, Call};
use crate::support::real::{count, directory, integrity, plain, set_journal};
use crate::support::shim::leaked;

const BLOCK: i64 = 4096;

/// What reaches a card: of each file the blocks that were written since its last sync, once.
#[derive(Clone, Debug, Default)]
struct Card {
    bytes: u64,
    syncs: u64,
    dirty: HashMap<String, BTreeSet<i64>>,
    /// Logs that were made: the first sync of each syncs its directory too.
    made: BTreeSet<String>,
}

impl Card {
    fn note(&mut self, call: &Call<'_>) {
        let path = call.path.to_owned();
        match call.method {
            "xWrite" => {
                let blocks = call.at / BLOCK..(call.at + call.count + BLOCK - 1) / BLOCK;
                self.dirty.entry(path).or_default().extend(blocks);
            }
            "xTruncate" => {
                let first = (call.at + BLOCK - 1) / BLOCK;
                if let Some(dirty) = self.dirty.get_mut(&path) {
                    dirty.retain(|block| *block < first);
                }
            }
            "xOpen" => {
                let is_log = call.at as i32 & (ffi::OPEN_MAIN_JOURNAL | ffi::OPEN_WAL) != 0;
                if is_log && !Path::new(&path).exists() {
                    self.made.insert(path);
                }
            }
            "xSync" => {
                self.syncs += 1 + u64::from(self.made.remove(&path));
                self.write_out(&path);
            }
            "xDelete" => {
                self.dirty.remove(&path);
                self.made.remove(&path);
                self.syncs += u64::from(call.count != 0);
            }
            _ => {}
        }
    }

    fn write_out(&mut self, path: &str) {
        let blocks = self.dirty.remove(path).unwrap_or_default();
        self.bytes += blocks.len() as u64 * BLOCK as u64;
    }

    /// The system writes out what was not synced.
    fn write_out_all(&mut self) {
        for path in self.dirty.keys().cloned().collect::<Vec<_>>() {
            self.write_out(&path);
        }
    }
}

/// A VFS that counts, and the library over it.
struct Counted {
    card: Arc<Mutex<Card>>,
    below: &'static Between,
    ours: &'static CStr,
}

impl Counted {
    fn new(name: &str) -> Counted {
        let card = Arc::new(Mutex::new(Card::default()));
        let ours = leaked(&format!("ebbpool-counted-{name}"));
        let below = Between::under_the_library(ours);
        let counting = Arc::clone(&card);
        below.observe(move |call| {
            counting.lock().unwrap().note(call);
            None
        });
        Counted { card, below, ours }
    }

    fn open(&self, path: &Path, options: Option<&str>) -> Connection {
        let (vfs, options) = match options {
            Some(options) => (self.ours, options),
            None => (self.below.name(), ""),
        };
        let name = format!("file:{}?{options}", path.display());
        let flags = OpenFlags::default();
        Connection::open_with_flags_and_vfs(name, flags, vfs).unwrap()
    }

    /// Bytes and syncs of 30 runs that insert a row each.
    fn cost(&self, mode: &str, has_keeper: bool, options: Option<&str>) -> (u64, u64) {
        let (_directory, path) = directory();
        let database = plain(&path);
        set_journal(&database, mode);
        database
            .execute_batch(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, a);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
                INSERT INTO t SELECT i, printf('%.100c', 'x') FROM n",
            )
            .unwrap();
        database.close().unwrap();
        let keeper = has_keeper.then(|| {
            let keeper = self.open(&path, options);
            count(&keeper);
            keeper
        });
        *self.card.lock().unwrap() = Card::default();
        for _ in 0..30 {
            let database = self.open(&path, options);
            database.execute("INSERT INTO t (a) VALUES ('a measurement')", []).unwrap();
            database.close().unwrap();
        }
        drop(keeper);
        // What closing has left to a thread is counted too.
        std::thread::sleep(Duration::from_millis(50));
        let database = plain(&path);
        assert_eq!((count(&database), integrity(&database).as_str()), (5030, "ok"));
        let mut card = self.card.lock().unwrap();
        card.write_out_all();
        (card.bytes, card.syncs)
    }
}

#[test]
fn a_program_that_inserts_a_row_writes_no_more_than_with_plain_sqlite() {
    let counted = Counted::new("runs");
    let mut failures = Vec::new();
    for mode in ["delete", "truncate", "persist", "wal"] {
        for has_keeper in [false, true] {
            let (plain_bytes, plain_syncs) = counted.cost(mode, has_keeper, None);
            for options in ["window=0", "window=30", "window=0&log=wal", "window=30&log=wal"] {
                let (bytes, syncs) = counted.cost(mode, has_keeper, Some(options));
                let line = format!(
                    "{mode}, another connection open: {has_keeper}, {options}: {bytes} bytes and {syncs} syncs, plain SQLite {plain_bytes} and {plain_syncs}"
                );
                println!("{line}");
                // In the mode TRUNCATE the first run of plain SQLite finds a journal.
                let is_more = bytes > plain_bytes || syncs > plain_syncs + 1;
                // An ordinary WAL has whole pages; it is for who wants that any SQLite takes it in.
                let is_log_of_deltas = !options.contains("log=wal");
                let is_much_more = bytes > plain_bytes * 2 || syncs > plain_syncs * 2;
                if is_much_more || (is_more && is_log_of_deltas && !has_keeper) {
                    failures.push(line);
                }
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
