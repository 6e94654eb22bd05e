//! Programs that showed a difference once, as the judge has printed them.

use crate::points::{Event, Point};
#[allow(clippy::enum_glob_use)]
use crate::step::{Database::*, OpenedBy::*, Step::*};
use crate::step::{Opening, Operation, Program, Wrong};

/// All of them.
pub fn programs() -> Vec<Program> {
    let open = |c, database, window| Open(Opening { c, database, process: 0, how: Ours, window, options: "" });
    let failing_sync = |nth| Fault(Wrong { of: Operation::Sync, is_full: false, nth, forever: true });
    vec![
        // An older log was applied to what a checkpoint had brought in place: updates in WAL mode leave page 1 as it is.
        Program {
            seed: 31,
            steps: vec![
                open(0, X, 0),
                Sql(0, "PRAGMA journal_mode=wal"),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Sql(
                    0,
                    "INSERT INTO t (n, v) VALUES (1, printf('%.3000c', 'a')), (1, printf('%.3000c', 'b')), (1, printf('%.3000c', 'c'))",
                ),
                Sql(0, "PRAGMA ebbpool_checkpoint"),
                Sql(0, "UPDATE t SET n = 2 WHERE k = 1"),
                StoreLog(X),
                Sql(0, "UPDATE t SET n = 3 WHERE k = 1"),
                Sql(0, "UPDATE t SET n = 4 WHERE k = 3"),
                Sql(0, "PRAGMA ebbpool_checkpoint"),
                Sql(0, "UPDATE t SET n = 5 WHERE k = 2"),
                Kill(0),
                PutLogBack(X),
            ],
        },
        // A killed process had cut `-wal` off without a sync, and a power cut brings it back.
        Program { seed: 30, steps: vec![open(2, Y, 0), Time(2), Sql(2, "PRAGMA user_version=7"), Kill(0)] },
        // The rollback of a commit whose sync had failed was an epoch of nothing, and what was refused counted as taken back.
        Program {
            seed: 1096,
            steps: vec![
                open(2, X, 0),
                Sql(2, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Sql(2, "VACUUM"),
                Sql(2, "PRAGMA ebbpool_checkpoint"),
                Fault(Wrong { of: Operation::Change, is_full: false, nth: 5, forever: true }),
                Sql(2, "INSERT INTO t VALUES (9, 40, 'refused')"),
                Heal,
                Kill(0),
            ],
        },
        // The sync that removes the mark had failed, and the next epoch relied on the mark, which the file did not show.
        Program {
            seed: 2731,
            steps: vec![
                open(0, X, 0),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Sql(0, "CREATE INDEX t_n ON t(n)"),
                Sql(0, "BEGIN"),
                failing_sync(6),
                Sql(0, "PRAGMA ebbpool_checkpoint"),
                Sql(0, "INSERT INTO t VALUES (31, 55, 'acknowledged')"),
                Heal,
                Sql(0, "COMMIT"),
                Kill(0),
            ],
        },
        // The first page of a database was in no sync, and was not taken back when the disk worked again.
        Program {
            seed: 5_003_080,
            steps: vec![
                Open(Opening { c: 1, database: Y, process: 0, how: Ours, window: 0, options: "log=wal" }),
                Time(4),
                Fault(Wrong { of: Operation::Change, is_full: false, nth: 5, forever: true }),
                Sql(1, "PRAGMA incremental_vacuum(2)"),
                Time(31),
                Time(2),
                Heal,
            ],
        },
        // A connection asked for no window before a commit was acknowledged that had been prepared with one.
        Program {
            seed: 6_008_450,
            steps: vec![
                open(0, X, 0),
                Sql(0, "PRAGMA journal_mode=wal"),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Close(0),
                open(0, X, 10),
                Park(0, "INSERT INTO t VALUES (5, 0, 'acknowledged')", Point(Event::PhaseTwo, 1)),
                open(1, X, 0),
                Resume(0),
                Kill(0),
            ],
        },
        // The first page of a database was in no sync of the process that was killed, nor of the next one.
        Program {
            seed: 6232,
            steps: vec![
                open(2, X, 3),
                failing_sync(2),
                Sql(2, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Time(5),
                Kill(0),
            ],
        },
        // A connection with a shorter window set no time for the commits that were made before it.
        Program {
            seed: 9_076_365,
            steps: vec![
                open(2, X, 10),
                open(0, X, 3),
                Sql(2, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                open(1, X, 0),
                Sql(0, "PRAGMA wal_checkpoint(RESTART)"),
                Kill(0),
            ],
        },
        // The disk had what a sync before the kill had failed, and the next process had begun a checkpoint.
        Program {
            seed: 13_019_853,
            steps: vec![
                open(0, X, 0),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Sql(0, "INSERT INTO t VALUES (39, 93, 'acknowledged')"),
                Fault(Wrong { of: Operation::DroppingSync, is_full: true, nth: 1, forever: true }),
                Sql(0, "INSERT INTO t VALUES (52, 82, 'refused')"),
                Kill(0),
                CutLater(9, 236),
            ],
        },
        // The disk had no mark, because its sync had failed, and a checkpoint took the one that the file showed for durable.
        Program {
            seed: 14_065_366,
            steps: vec![
                open(0, X, 0),
                Sql(0, "PRAGMA journal_mode=wal"),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Fault(Wrong { of: Operation::DroppingSync, is_full: false, nth: 7, forever: false }),
                Sql(0, "PRAGMA wal_checkpoint(TRUNCATE)"),
                Sql(0, "INSERT INTO t VALUES (56, 41, 'acknowledged')"),
                Sql(0, "INSERT INTO t VALUES (51, 66, 'acknowledged')"),
                Cut(272),
            ],
        },
        // Without its `-wal` an empty database had a part of the first page of a commit that was refused.
        Program {
            seed: 14_019_813,
            steps: vec![
                open(0, X, 30),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Fault(Wrong { of: Operation::Sync, is_full: false, nth: 2, forever: true }),
                Sql(0, "PRAGMA ebbpool_checkpoint"),
                Cut(138),
            ],
        },
        // A connection that only reads was the last one that was closed, so that plain SQLite left its WAL.
        Program {
            seed: 15_052_554,
            steps: vec![
                open(0, X, 0),
                Sql(0, "PRAGMA journal_mode=wal"),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Open(Opening { c: 3, database: X, process: 0, how: OursReadOnly, window: 0, options: "" }),
                Close(0),
                Close(3),
                open(0, X, 0),
                Sql(0, "PRAGMA wal_checkpoint(RESTART)"),
            ],
        },
        // The sync after a recovery had failed, and the next opening found no `-wal`, which the disk still had.
        Program {
            seed: 15_040_881,
            steps: vec![
                Open(Opening { c: 0, database: X, process: 0, how: Ours, window: 0, options: "log=wal&log_limit=20000" }),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Sql(0, "CREATE INDEX t_n ON t(n)"),
                CutLater(5, 969),
                Full(0),
                Sql(0, "INSERT INTO t VALUES (57, 0, 'refused')"),
                Heal,
                failing_sync(3),
                open(0, X, 3),
            ],
        },
        // The power failed once more when a recovered database, which could not be closed on a full disk, was closed again.
        Program {
            seed: 15_093_641,
            steps: vec![
                open(0, X, 0),
                Sql(0, "PRAGMA journal_mode=wal"),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Sql(0, "CREATE INDEX t_n ON t(n)"),
                open(2, Y, 0),
                CutLater(15, 546),
                Sql(2, "BEGIN IMMEDIATE"),
                Fault(Wrong { of: Operation::DroppingSync, is_full: false, nth: 1, forever: true }),
                Sql(0, "CREATE TABLE u AS SELECT * FROM t"),
                Sql(2, "COMMIT"),
                Time(5),
                CutLater(12, 918),
                Full(0),
                open(2, Y, 0),
            ],
        },
        // After a rollback to a savepoint frames were appended to SQLite's WAL, whose headers were expected once more, because
        // frames before the rollback had got another content: the commit was lost.
        Program {
            seed: 60_008_425,
            steps: vec![
                open(0, X, 0),
                Sql(0, "PRAGMA page_size=512"),
                Sql(0, "PRAGMA auto_vacuum=2"),
                Sql(0, "PRAGMA journal_mode=wal"),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Sql(0, "INSERT INTO t VALUES (44, 5, printf('%.3000c', 'f'))"),
                Sql(0, "INSERT INTO t VALUES (4, 64, printf('%.107c', 'm'))"),
                Sql(0, "SAVEPOINT s"),
                Sql(0, "CREATE TABLE u AS SELECT * FROM t"),
                Sql(0, "ROLLBACK TO s"),
                Sql(0, "INSERT INTO t VALUES (31, 8, 'acknowledged')"),
                Sql(0, "COMMIT"),
            ],
        },
        // The same after a rollback of all, where a connection has its WAL to itself and takes no lock for the next transaction.
        Program {
            seed: 60_008_426,
            steps: vec![
                open(0, X, 0),
                Sql(0, "PRAGMA page_size=512"),
                Sql(0, "PRAGMA auto_vacuum=2"),
                Sql(0, "PRAGMA locking_mode=EXCLUSIVE"),
                Sql(0, "PRAGMA journal_mode=wal"),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Sql(0, "INSERT INTO t VALUES (44, 5, printf('%.3000c', 'f'))"),
                Sql(0, "INSERT INTO t VALUES (4, 64, printf('%.107c', 'm'))"),
                Sql(0, "BEGIN"),
                Sql(0, "CREATE TABLE u AS SELECT * FROM t"),
                Sql(0, "ROLLBACK"),
                Sql(0, "INSERT INTO t VALUES (31, 8, 'acknowledged')"),
            ],
        },
        // The judge took plain SQLite's file for a committed state while a connection with its journal in memory wrote it.
        Program {
            seed: 60_015_312,
            steps: vec![
                open(0, X, 0),
                Sql(0, "PRAGMA page_size=512"),
                Sql(0, "PRAGMA auto_vacuum=1"),
                Sql(0, "PRAGMA journal_mode=memory"),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Sql(0, "INSERT INTO t VALUES (48, 58, printf('%.3000c', 'g'))"),
                open(1, X, 0),
                Sql(1, "INSERT INTO t (n, v) SELECT n + 1, substr(v, 1, 74) FROM t"),
                Sql(0, "BEGIN IMMEDIATE"),
                Sql(0, "CREATE TABLE u AS SELECT * FROM t"),
                Sql(1, "PRAGMA ebbpool_flush"),
                Cut(128),
            ],
        },
        // The same beside a statement that reads no file.
        Program {
            seed: 60_015_313,
            steps: vec![
                open(0, X, 0),
                Sql(0, "PRAGMA page_size=512"),
                Sql(0, "PRAGMA auto_vacuum=1"),
                Sql(0, "PRAGMA journal_mode=memory"),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Sql(0, "INSERT INTO t VALUES (48, 58, printf('%.3000c', 'g'))"),
                open(1, X, 0),
                Sql(1, "INSERT INTO t (n, v) SELECT n + 1, substr(v, 1, 74) FROM t"),
                Sql(0, "BEGIN IMMEDIATE"),
                Sql(0, "CREATE TABLE u AS SELECT * FROM t"),
                Sql(1, "PRAGMA page_size=512"),
                Cut(128),
            ],
        },
        // A reader whose write was refused, since its snapshot is an earlier one (SQLITE_BUSY_SNAPSHOT), lost frames that it shows.
        Program {
            seed: 7_003_617,
            steps: vec![
                open(0, X, 0),
                Sql(0, "PRAGMA journal_mode=wal"),
                Sql(0, "CREATE TABLE t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
                Sql(0, "CREATE INDEX t_n ON t(n)"),
                open(3, X, 0),
                Sql(3, "BEGIN"),
                Sql(3, "SELECT sum(n) FROM t INDEXED BY t_n WHERE n > 3"),
                Sql(0, "INSERT INTO t VALUES (18, 7, 'first')"),
                Sql(3, "UPDATE t SET v = 'u' WHERE k = 20"),
                Sql(0, "INSERT INTO t (n, v) SELECT n + 1, substr(v, 1, 83) FROM t LIMIT 12"),
                Sql(3, "PRAGMA integrity_check"),
            ],
        },
    ]
}
