//! Statements, and what they answer.

#![allow(unsafe_code)]

use std::fmt;

use rusqlite::types::Value;
use rusqlite::{Connection, ffi};

/// What a statement has answered.
#[derive(Clone, PartialEq)]
pub struct Outcome {
    /// The rows as text, or SQLite's extended code.
    pub answer: Result<Vec<String>, i32>,
    /// No transaction is open afterwards.
    pub is_idle: bool,
}

impl Outcome {
    /// SQLite's code without its details; 0 if there was no error.
    pub fn code(&self) -> i32 {
        self.answer.as_ref().err().map_or(0, |code| code & 0xff)
    }

    pub fn is_ok(&self) -> bool {
        self.answer.is_ok()
    }

    /// True if both say the same; of errors only the kind counts.
    pub fn agrees(&self, other: &Outcome) -> bool {
        let same = match (&self.answer, &other.answer) {
            (Ok(rows), Ok(others)) => rows == others,
            _ => self.code() == other.code(),
        };
        same && self.is_idle == other.is_idle
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.answer {
            Ok(rows) if rows.is_empty() => f.write_str("done"),
            Ok(rows) => write!(f, "{rows:?}"),
            Err(code) => write!(f, "error {code} ({})", ffi::code_to_str(*code)),
        }?;
        f.write_str(if self.is_idle { "" } else { ", in a transaction" })
    }
}

fn show(value: Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) if text.len() > 60 => {
            format!("{}..{}", &text[..20], xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
        }
        Value::Text(text) => text,
        Value::Blob(bytes) => format!("x{}", xxhash_rust::xxh3::xxh3_64(&bytes)),
    }
}

/// SQLite's code of an error.
pub fn code(error: &rusqlite::Error) -> i32 {
    match error {
        rusqlite::Error::SqliteFailure(error, _) => error.extended_code,
        rusqlite::Error::SqlInputError { error, .. } => error.extended_code,
        _ => ffi::SQLITE_MISUSE,
    }
}

fn rows(database: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = database.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|column| Ok(show(row.get(column)?)));
        found.push(values.collect::<rusqlite::Result<Vec<_>>>()?.join("|"));
    }
    Ok(found)
}

/// Runs one statement to its end.
pub fn run(database: &Connection, sql: &str) -> Outcome {
    let answer = rows(database, sql).map_err(|error| code(&error));
    Outcome { answer, is_idle: database.is_autocommit() }
}

/// True if a connection is in a transaction that writes.
pub fn is_writing(database: &Connection) -> bool {
    // SAFETY: the connection is open.
    let state = unsafe { ffi::sqlite3_txn_state(database.handle(), std::ptr::null()) };
    state == ffi::SQLITE_TXN_WRITE
}

/// Everything that a database holds, as text.
pub fn dump(database: &Connection) -> Result<Vec<String>, String> {
    let ask = |sql: &str| rows(database, sql).map_err(|error| format!("{sql}: {error}"));
    let mut lines = ask("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")?;
    lines.extend(ask("PRAGMA user_version")?);
    lines.extend(ask("PRAGMA page_count")?);
    // The mode is a property of the file only where it is this one.
    let has_wal = ask("PRAGMA journal_mode")? == ["wal"];
    lines.push(format!("wal: {has_wal}"));
    for table in ask("SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")? {
        lines.push(format!("-- {table}"));
        lines.extend(ask(&format!("SELECT * FROM \"{table}\" ORDER BY rowid"))?);
    }
    Ok(lines)
}

/// True if a database has no tables. The library gives an empty one its first page before the first commit: a crash between
/// them leaves this page, or none.
pub fn has_no_tables(dump: &[String]) -> bool {
    let is_first_page = |pages: &str| pages == "0" || pages == "1";
    matches!(dump, [version, pages, rest @ ..] if version == "0" && is_first_page(pages) && rest.len() < 2) || dump.is_empty()
}

/// What SQLite's own check finds wrong; `None` if nothing is.
pub fn damage(database: &Connection) -> Option<String> {
    match rows(database, "PRAGMA integrity_check") {
        Ok(rows) if rows == ["ok"] => None,
        Ok(rows) => Some(rows.join("; ")),
        Err(error) => Some(error.to_string()),
    }
}

/// Copies a database into memory by SQLite's backup API, and says what the copy holds.
pub fn backup(database: &Connection) -> Result<Vec<String>, i32> {
    let into = Connection::open_in_memory().map_err(|error| code(&error))?;
    // SAFETY: both connections are open, and the backup is finished before they are used again.
    let code = unsafe {
        let (from, to) = (database.handle(), into.handle());
        let backup = ffi::sqlite3_backup_init(to, c"main".as_ptr(), from, c"main".as_ptr());
        if backup.is_null() {
            return Err(ffi::sqlite3_extended_errcode(to));
        }
        let stepped = ffi::sqlite3_backup_step(backup, -1);
        let finished = ffi::sqlite3_backup_finish(backup);
        if finished == ffi::SQLITE_OK && stepped != ffi::SQLITE_DONE { stepped } else { finished }
    };
    match code {
        ffi::SQLITE_OK => dump(&into).map_err(|_| ffi::SQLITE_CORRUPT),
        code => Err(code),
    }
}

/// The first line in which two dumps differ.
pub fn difference(ours: &[String], plain: &[String]) -> String {
    let longest = ours.len().max(plain.len());
    for line in 0..longest {
        let (left, right) = (ours.get(line), plain.get(line));
        if left != right {
            return format!("line {line}: ours {left:?}, plain {right:?}");
        }
    }
    "nothing".into()
}
