//! Errors of `ebbpool sqlite`.

use std::io;
use std::path::{Path, PathBuf};

use ebbpool_cost::ByteSize;
use ebbpool_sqlite::plain::PlainSqliteError;
use ebbpool_sqlite::{OptionError, ScopeError};
use ebbpool_trace::TraceError;

use crate::failure::Failure;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SqliteError {
    #[error("{path}: cannot {what}: {source}")]
    Io { path: PathBuf, what: &'static str, source: io::Error },
    #[error("{directory} has no room for a copy of {path} and its log; name another directory with --directory")]
    NoRoom { directory: PathBuf, path: PathBuf },
    #[error("cannot write standard output: {0}")]
    Output(io::Error),
    #[error("{0}")]
    Passed(Box<Failure>),
    #[error(transparent)]
    OutputFile(#[from] TraceError),
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error("{0}")]
    Scope(#[from] ScopeError),
    #[error("--only {pattern}: {why}")]
    Only { pattern: String, why: &'static str },
    #[error("{path} {why}; so its databases would be written as before. --force starts it all the same")]
    NotPreloaded { path: PathBuf, why: String },
    #[error(
        "this program carries no {}, and there is none beside it or in ../lib; build it with: cargo build --release -p ebbpool-sqlite-preload, and name it with --library",
        ebbpool_sqlite::preload::LIBRARY
    )]
    NoLibrary,
    #[error(
        "this program was built without shared libraries, so it carries none; build them with: cargo build --release -p ebbpool-sqlite-preload -p ebbpool-sqlite"
    )]
    NotCarried,
    #[error(
        "no directory is fit for {name}, which this program carries: {refused}. Write it where no other user can, with: ebbpool sqlite libraries DIRECTORY, and name it with --library"
    )]
    NoPlace { name: &'static str, refused: String },
    #[error("{path} is no file; --library names the library to preload")]
    MissingLibrary { path: PathBuf },
    #[error(
        "{path} is not the library to preload, which defines sqlite3_open_v2, and is not SQLite itself; --library names {}",
        ebbpool_sqlite::preload::LIBRARY
    )]
    OtherLibrary { path: PathBuf },
    #[error("{path}: no code may be loaded from there, as with the mount option noexec ({source}); copy it elsewhere")]
    NotLoadable { path: PathBuf, source: io::Error },
    #[error("{path} has a character that LD_PRELOAD cannot have (a space, a colon or a dollar sign); move it")]
    UnusablePath { path: PathBuf },
    #[error("the environment variable {name} is not UTF-8")]
    NotUnicode { name: &'static str },
    #[error("{name} has a line break, which no line of --show can have")]
    LineBreak { name: &'static str },
    #[error("{program}: cannot run it: {source}")]
    Program { program: String, source: io::Error },
    #[error("{program}: cannot run it: {source}")]
    NoProgram { program: String, source: io::Error },
    #[error("{path} is open in {process}; end that process first")]
    Busy { path: PathBuf, process: String },
    #[error("{what}; if {path} is the version to go on with, add --discard-log, which moves the log to {path}-ebb.stale")]
    OtherVersion { path: PathBuf, what: String },
    #[error(
        "{path} is whole, and damaged with what is in its -wal, which was written on another version of it, such as the one before a restore; if {path} is the version to go on with, add --discard-log, which moves it to {path}-wal.stale; if the -wal has what you want, put that version back"
    )]
    OtherWal { path: PathBuf },
    #[error("{what}; to go on without it, add --discard-log, which removes the mark")]
    NoLog { what: String },
    #[error("{what}; recover it by that name, which find -samefile finds, or remove the other names first")]
    OtherNames { what: String },
    #[error("--discard-log gives data up, so it is for one database: name it in place of {path}")]
    DiscardInDirectory { path: PathBuf },
    #[error("{path}: {failed} of {all} databases were not recovered")]
    SomeNotRecovered { path: PathBuf, failed: usize, all: usize },
    #[error("{path} was not recovered: {what}")]
    NotRecovered { path: PathBuf, what: String },
    #[error("recovering needs SQLite: {0}; install it (libsqlite3-0), or name it with --sqlite")]
    NoSqlite(PlainSqliteError),
    #[error(
        "{path} is on a file system that is mounted for reading only; mount it for writing, or copy the database with its -ebb and -wal to another one"
    )]
    ReadOnlyMount { path: PathBuf },
    #[error(
        "{path} was not recovered, because this user may not write {needed}; run the command as a user who may, such as the program's own"
    )]
    NotWritable { path: PathBuf, needed: &'static str },
    #[error("{path}: {source}")]
    Sqlite { path: PathBuf, source: PlainSqliteError },
    #[error("{path}: the check found {count} {problems}", problems = if *count == 1 { "problem" } else { "problems" })]
    Findings { path: PathBuf, count: usize },
    #[error(
        "{path} has a log, and its path is not UTF-8, or its name longer than 247 bytes: the VFS leaves such databases to SQLite. Move the database with its -ebb, -wal and -journal to another name, and recover it there"
    )]
    NameWithoutVfs { path: PathBuf },
    #[error("{path} was not checked: {why}")]
    NotChecked { path: PathBuf, why: String },
    #[error(
        "{what}; if it is damaged, move {path}-ebb away, and put a backup in its place. If it is the file to go on with, an encrypted database for example, add --discard-log, which moves the log to {path}-ebb.stale"
    )]
    NoDatabase { path: PathBuf, what: String },
    #[error(
        "{path} was not recovered, because its file system has no room; nothing is lost, for the log still has everything. Free {need} there, or move the database with its -ebb and -wal to another file system, and run the command again"
    )]
    NoRoomToRecover { path: PathBuf, need: ByteSize },
    #[error(
        "{path} is a plain database by now, and everything that its log held is in place, but SQLite cannot read it: {source}; ebbpool sqlite check says what is damaged"
    )]
    DamagedPages { path: PathBuf, source: PlainSqliteError },
    #[error("{path} is not healthy: {what}")]
    Unhealthy { path: PathBuf, what: String },
}

impl SqliteError {
    /// An error while files of a database are read.
    pub(super) fn reading(path: &Path) -> impl Fn(io::Error) -> SqliteError {
        SqliteError::doing("read it", path)
    }

    /// An error while something is done with a file.
    pub(super) fn doing(what: &'static str, path: &Path) -> impl Fn(io::Error) -> SqliteError {
        move |source| SqliteError::Io { path: path.to_owned(), what, source }
    }

    /// True if the command line is wrong, and not the database.
    pub(super) fn is_usage(&self) -> bool {
        matches!(
            self,
            SqliteError::Option(_)
                | SqliteError::Scope(_)
                | SqliteError::Only { .. }
                | SqliteError::NotUnicode { .. }
                | SqliteError::LineBreak { .. }
                | SqliteError::DiscardInDirectory { .. }
                | SqliteError::MissingLibrary { .. }
                | SqliteError::OtherLibrary { .. }
                | SqliteError::UnusablePath { .. }
        )
    }
}
