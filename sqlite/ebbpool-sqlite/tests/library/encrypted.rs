//! A database whose pages are encrypted between SQLite and the VFS: its page size is what SQLite writes, and its log is
//! `-wal`, because there is no header to mark.

use std::ffi::c_int;

use ebbpool_sqlite::ffi::{OK, OPEN_MAIN_DB};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::support::shim::{self, Below, FileCall, Layer, Opening};

/// What each byte is combined with.
const KEY: u8 = 0x5a;

/// The VFS that encrypts, over ours.
struct Encrypting;

impl Layer for Encrypting {
    /// Whether the file is a database.
    type Open = bool;

    fn open(&'static self, opening: &Opening<'_>) -> (c_int, Option<bool>) {
        let (code, is_open) = opening.pass();
        (code, is_open.then_some(opening.flags & OPEN_MAIN_DB != 0))
    }

    fn call(&self, is_database: &bool, call: FileCall<'_>, below: &Below) -> c_int {
        match call {
            FileCall::Read { into, at } if *is_database => {
                let code = below.pass(FileCall::Read { into, at });
                if code == OK {
                    into.iter_mut().for_each(|byte| *byte ^= KEY);
                }
                code
            }
            FileCall::Write { from, at } if *is_database => {
                let encrypted: Vec<u8> = from.iter().map(|byte| byte ^ KEY).collect();
                below.pass(FileCall::Write { from: &encrypted, at })
            }
            _ => below.pass(call),
        }
    }
}

#[test]
fn an_encrypted_database_uses_the_log_of_sqlite() {
    ebbpool_sqlite::register(false).unwrap();
    shim::register(c"encrypting", Some(ebbpool_sqlite::NAME), &Encrypting);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let options = OpenFlags::default();
    let open = |path: &std::path::Path| {
        let name = format!("file:{}?vfs=encrypting&window=0&log_limit=100k", path.display());
        Connection::open_with_flags(name, options).unwrap()
    };
    for round in 1..4i64 {
        let database = open(&path);
        if round == 1 {
            database.execute_batch("PRAGMA page_size=2048; CREATE TABLE t (a, b)").unwrap();
        }
        for n in 0..50 {
            database.execute("INSERT INTO t VALUES (?1, hex(zeroblob(500)))", [n]).unwrap();
        }
        let status: String = database.query_row("PRAGMA ebbpool_status", [], |row| row.get(0)).unwrap();
        let status: Value = serde_json::from_str(&status).unwrap();
        assert_eq!((&status["log"], &status["page_size"]), (&"wal".into(), &2048.into()));
        // What a power cut would leave.
        let copy = directory.path().join("copy.db");
        let both = || ["", "-wal"].map(|suffix| std::fs::read(format!("{}{suffix}", path.display())).unwrap());
        let mut content = both();
        // A checkpoint may come between the two files.
        while content != both() {
            content = both();
        }
        for (suffix, bytes) in ["", "-wal"].into_iter().zip(content) {
            std::fs::write(format!("{}{suffix}", copy.display()), bytes).unwrap();
        }
        let count = |database: &Connection| -> i64 {
            let ok: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(ok, "ok");
            database.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
        };
        assert_eq!(count(&open(&copy)), round * 50);
        drop(database);
        let bytes = std::fs::read(&path).unwrap();
        let plain: Vec<u8> = bytes.iter().take(16).map(|byte| byte ^ KEY).collect();
        assert_eq!(plain, b"SQLite format 3\0");
    }
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with("-ebb")), "{left:?}");
}
