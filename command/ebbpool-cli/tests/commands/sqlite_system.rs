//! Programs with the SQLite of the system, whose version is another one than that of the other tests, over the preloaded library and
//! without it: neither what they read nor what they leave may differ.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::errors;
use crate::sqlite::{Scratch, library};

/// Transactions with savepoints, in a cache so small that pages are in the WAL before the commit. Arguments: the database, a number
/// from which they follow, and how the program ends. It prints what its last transaction reads.
const SPILLER: &str = "
import os, random, sqlite3, sys
path, seed, end = sys.argv[1], int(sys.argv[2]), sys.argv[3]
r = random.Random(seed)
database = sqlite3.connect(path, isolation_level=None)
run = database.execute
run('PRAGMA page_size=%d' % r.choice([512, 1024, 4096]))
run('PRAGMA auto_vacuum=%d' % r.choice([0, 0, 1, 2]))
run('PRAGMA journal_mode=wal')
run('PRAGMA cache_size=%d' % r.choice([1, 3, 5, 10]))
if r.random() < .3: run('PRAGMA locking_mode=exclusive')
if r.random() < .3: run('PRAGMA wal_autocheckpoint=%d' % r.choice([0, 5, 50]))
run('CREATE TABLE t (i INTEGER PRIMARY KEY, n, b)')
run('CREATE INDEX x ON t (b)')
def change():
    first = r.randrange(40)
    last = first + r.choice([0, 5, 20])
    kind = r.random()
    if kind < .5:
        size = r.choice([10, 900, 3000])
        for _ in range(r.choice([1, 1, 3])):
            for i in range(first, last + 1):
                run('INSERT OR REPLACE INTO t VALUES (?, ?, zeroblob(?))', (i, r.getrandbits(30), size + i))
    elif kind < .7:
        run('UPDATE t SET n = n + 1, b = zeroblob(length(b) + 1) WHERE i BETWEEN ? AND ?', (first, last))
    elif kind < .85:
        run('DELETE FROM t WHERE i BETWEEN ? AND ?', (first, last))
    else:
        run('SELECT count(*), sum(length(b)) FROM t').fetchall()
def scripted():
    # Pages that leave the cache once, and then others that do so twice, before a rollback to the savepoint.
    for i in range(20): run('INSERT INTO t VALUES (?, 0, zeroblob(3000))', (i,))
    run('BEGIN')
    run('UPDATE t SET n = 1 WHERE i = 0')
    run('SAVEPOINT s')
    run('UPDATE t SET b = zeroblob(3001) WHERE i >= 10')
    for k in (1, 2): run('UPDATE t SET b = zeroblob(3000 + ?) WHERE i BETWEEN 1 AND 9', (k,))
    run('ROLLBACK TO s')
    run('COMMIT')
if seed == 0:
    scripted()
for transaction in range(12):
    run('BEGIN')
    names = []
    for _ in range(r.choice([1, 3, 8, 20])):
        kind = r.random()
        if kind < .25:
            names.append('s%d' % len(names))
            run('SAVEPOINT ' + names[-1])
        elif names and kind < .45:
            j = r.randrange(len(names))
            run('ROLLBACK TO ' + names[j])
            names = names[:j + 1]
        elif names and kind < .5:
            j = r.randrange(len(names))
            run('RELEASE ' + names[j])
            names = names[:j]
        else:
            change()
    run('ROLLBACK' if r.random() < .15 else 'COMMIT')
    if r.random() < .1:
        run('PRAGMA wal_checkpoint(%s)' % r.choice(['passive', 'full', 'restart', 'truncate'])).fetchall()
run('INSERT OR REPLACE INTO t VALUES (100, 0, NULL)')
print(run('SELECT count(*), total(i * n + ifnull(length(b), 0)) FROM t').fetchall(), flush=True)
if end == 'kill':
    os.kill(os.getpid(), 9)
database.close()
";

/// What the database is to hold after the program: of the table, and of the index.
const CONTENT: &str = "SELECT count(*), total(i * n + ifnull(length(b), 0)), (SELECT group_concat(length(b)) FROM (SELECT b FROM t INDEXED BY x WHERE b > '' ORDER BY b)), (SELECT group_concat(integrity_check) FROM pragma_integrity_check) FROM t";

/// Runs the program, over the library or without it, and returns what it printed and what plain SQLite finds then.
fn run(scratch: &Scratch, seed: u32, end: &str, options: Option<&str>) -> (String, Value) {
    let _ = std::fs::remove_file(scratch.ebbpool.path("x.db"));
    let seed = seed.to_string();
    let program = ["spiller.py", "x.db", &seed, end];
    let mut command = Command::new(scratch.python);
    command.args(program).current_dir(scratch.ebbpool.directory());
    if let Some(options) = options {
        command.env("LD_PRELOAD", library()).env("EBBPOOL_SQLITE_PRELOAD", "1").env("EBBPOOL_SQLITE", options);
    }
    let output: Output = command.output().expect("Python starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.is_empty(), "{seed}: {}", errors(&output));
    if options.is_some() {
        scratch.ebbpool.stdout(&["sqlite", "recover", "x.db"]);
    }
    let content = scratch.judge("x.db", CONTENT);
    (text, content)
}

#[test]
fn savepoints_in_a_small_cache_leave_what_the_systems_sqlite_leaves() {
    let Some(scratch) = Scratch::new() else {
        return;
    };
    scratch.ebbpool.file("spiller.py", SPILLER);
    for seed in 0..if std::env::var_os("EBBPOOL_WHOLE").is_some() { 60 } else { 3 } {
        let (said, content) = run(&scratch, seed, "close", None);
        let check = content[0][3].as_str();
        assert_eq!(check, Some("ok"), "seed {seed}: {content}");
        for (end, options) in [("close", "window=30"), ("kill", "window=0"), ("kill", "window=0&log=wal&memory=1M")] {
            let ours = run(&scratch, seed, end, Some(options));
            let plain = (said.clone(), content.clone());
            assert_eq!(ours, plain, "seed {seed} {end} {options}");
        }
    }
}
