//! The differences between plain SQLite and the library that are allowed, each with its reason.

use std::collections::BTreeMap;

use rusqlite::ffi;

use crate::sql::Outcome;

/// A difference that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Price {
    OneProcess,
    Fault,
    Committing,
    LogAndDatabase,
    NoLog,
    Passed,
    InDoubt,
    Inherited,
    ReadersCheckpoint,
    LostLock,
    Dropped,
    NoMount,
}

/// Each with its reason.
pub const PRICES: &[(Price, &str)] = &[
    (
        Price::OneProcess,
        "SQLITE_BUSY while another process has a connection to the same database: one process at a time has it open. SQLITE_ERROR \
         or SQLITE_READONLY where SQLite has read the tables before, and finds the database locked when it looks for a new one",
    ),
    (
        Price::Fault,
        "SQLITE_IOERR, _FULL or _CANTOPEN after an operation of the simulated disk has failed: plain SQLite's disk has no faults. \
         What was refused must not be there afterwards. SQLITE_BUSY while a connection has the lock that it took before, and \
         SQLITE_BUSY_SNAPSHOT of plain SQLite, whose WAL begins anew elsewhere",
    ),
    (
        Price::Committing,
        "a reader finds a database without a WAL locked while another connection's commit syncs, as with plain SQLite, whose syncs \
         are elsewhere",
    ),
    (
        Price::LogAndDatabase,
        "SQLITE_CANTOPEN where another version of the database is beside its `-ebb`: the library takes none of them in",
    ),
    (Price::NoLog, "SQLITE_CANTOPEN where `-ebb` was deleted beside a database that needs it"),
    (
        Price::Passed,
        "SQLITE_BUSY of the library's own statements where a read-only connection was there first, so that SQLite's own VFS serves \
         the database",
    ),
    (
        Price::InDoubt,
        "a commit that was refused is there after a crash, where the disk has failed the commit's sync and from then on whatever \
         would have taken it back: plain SQLite's WAL has the same doubt",
    ),
    (
        Price::Inherited,
        "SQLITE_MISUSE of a connection that a child of `fork` has inherited: SQLite's documentation forbids its use",
    ),
    (
        Price::ReadersCheckpoint,
        "`PRAGMA wal_checkpoint` of a read-only connection, which is not run: it succeeds, where plain SQLite's fails with \
         SQLITE_IOERR and rolls back",
    ),
    (
        Price::LostLock,
        "a process reads the database as a file and closes it, which is not run where SQLite's own VFS may serve it and the process \
         has a lock: by that plain SQLite loses its locks of the usual kind, and those of the simulated disk are none",
    ),
    (
        Price::Dropped,
        "plain SQLite cannot write a closed database after a power cut, where the disk has failed the sync that removes the mark, and \
         forgotten what it had to write: the library's next opening removes the mark, and nothing is lost",
    ),
    (Price::NoMount, "skipped: the database would be mounted without its directory, which the system lets only root do"),
];

/// What a statement's answer is judged by, beside plain SQLite's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances {
    /// Another process has a connection to the database.
    pub has_other_process: bool,
    /// The disk has failed an operation, and the program has not healed it and waited since.
    pub has_failed: bool,
    /// A statement that the disk has failed may have left its connection with a lock.
    pub may_lock: bool,
}

/// Why our world may answer so, whatever plain SQLite says.
pub fn of(outcome: &Outcome, text: &str, circumstances: Circumstances) -> Option<Price> {
    match outcome.code() {
        ffi::SQLITE_BUSY if circumstances.has_other_process => Some(Price::OneProcess),
        ffi::SQLITE_ERROR | ffi::SQLITE_READONLY if circumstances.has_other_process && names_a_table(text) => {
            Some(Price::OneProcess)
        }
        ffi::SQLITE_IOERR | ffi::SQLITE_FULL | ffi::SQLITE_CANTOPEN if circumstances.has_failed => Some(Price::Fault),
        // The transaction of another connection has got its lock before the disk failed it.
        ffi::SQLITE_BUSY if circumstances.may_lock => Some(Price::Fault),
        _ => None,
    }
}

/// True if a statement needs the names of tables, which SQLite reads when it prepares the statement.
pub fn names_a_table(text: &str) -> bool {
    let verbs = ["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP"];
    verbs.iter().any(|verb| text.starts_with(verb))
}

/// OpenedBy often each difference was met.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub programs: u64,
    pub steps: u64,
    /// Steps that did nothing, because what they need was not there.
    pub skipped: u64,
    pub recoveries: u64,
    pub prices: BTreeMap<Price, u64>,
}

impl Tally {
    pub fn pay(&mut self, price: Price) {
        *self.prices.entry(price).or_default() += 1;
    }
}
