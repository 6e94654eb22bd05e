//! `ebbpool sqlite recover`: makes a database a plain one again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ebbpool_lab::schema::{ResultSchema, ResultShape};
use ebbpool_sqlite::inspect::{LogFit, SqliteInspection, beside};
use ebbpool_sqlite::plain::PlainSqlite;
use schemars::JsonSchema;
use serde::Serialize;

use super::args::SqliteRecoverArgs;
use super::error::SqliteError;
use super::status::{age_text, holder_text};
use super::{inspected, print};

/// What recovery has done, or would do, with the fields of the JSON output.
#[derive(Serialize, JsonSchema)]
struct SqliteRecovery {
    #[schemars(extend("x-role" = "key"))]
    path: String,
    /// False if nothing was done, because `--dry-run` was given or the database is plain.
    recovered: bool,
    /// Epochs of `-ebb` that were brought in place.
    epochs: u32,
    /// When the last of them was written, in milliseconds since 1970; null without one.
    #[schemars(extend("x-unit" = "ms"))]
    last_epoch_ms: Option<u64>,
    /// Commits of `-wal` that were brought in place.
    wal_commits: u64,
    /// Where the log was moved to that belongs to another version of the database.
    discarded_to: Option<String>,
    /// What was done, or would be, a sentence each.
    steps: Vec<String>,
}

pub(super) fn schema() -> ResultSchema {
    ResultSchema::of::<SqliteRecovery>("sqlite recover", 1, ResultShape::One)
}

pub(super) fn recover(args: &SqliteRecoverArgs) -> Result<(), SqliteError> {
    let path = &args.path;
    let inspection = inspected(path)?;
    if let Some(holder) = inspection.lock {
        return Err(SqliteError::Busy {
            path: path.clone(),
            process: holder_text(holder),
        });
    }
    let discarded = stale_log(&inspection, args.discard_log)?;
    let mut recovery = SqliteRecovery::planned(&inspection, discarded.as_deref());
    if !args.dry_run && !inspection.is_plain() {
        // Found before anything is moved.
        let sqlite = PlainSqlite::load(args.sqlite.sqlite.as_deref());
        let sqlite = sqlite.map_err(SqliteError::NoSqlite)?;
        if let Some(stale) = &discarded {
            set_aside(path, stale).map_err(SqliteError::doing("move its log", path))?;
        }
        let recovered = sqlite.recover(path);
        recovered.map_err(|source| SqliteError::Sqlite {
            path: path.clone(),
            source,
        })?;
        let left = inspected(path)?;
        if !left.is_plain() {
            return Err(SqliteError::NotRecovered {
                path: path.clone(),
                what: "its log is still there; may this user write the file and its directory?"
                    .into(),
            });
        }
        recovery.recovered = true;
    }
    print(&recovery, args.format, SqliteRecovery::to_text)
}

/// Where a log goes that cannot be brought in place; `None` if it can.
fn stale_log(
    inspection: &SqliteInspection,
    may_discard: bool,
) -> Result<Option<PathBuf>, SqliteError> {
    let fit = inspection.log.as_ref().map(|log| log.fit);
    match fit {
        None | Some(LogFit::NoEpochs | LogFit::Fits) => return Ok(None),
        Some(LogFit::NotMarked | LogFit::OtherDatabase | LogFit::LaterVersion(_)) => {}
    }
    let path = &inspection.path;
    if !may_discard {
        return Err(SqliteError::OtherVersion {
            path: path.clone(),
            what: inspection.findings().join("; "),
        });
    }
    let names = (1..).map(|number| match number {
        1 => beside(path, "-ebb.stale"),
        _ => beside(path, &format!("-ebb.stale.{number}")),
    });
    Ok(names.into_iter().find(|name| !name.exists()))
}

/// Moves the log, and makes that durable before the database is written without it.
fn set_aside(path: &Path, stale: &Path) -> io::Result<()> {
    fs::rename(beside(path, "-ebb"), stale)?;
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

impl SqliteRecovery {
    fn planned(inspection: &SqliteInspection, discarded: Option<&Path>) -> SqliteRecovery {
        let log = inspection.log.as_ref().filter(|_| discarded.is_none());
        let log_with_epochs = log.filter(|log| log.epochs > 0);
        let wal_commits = inspection.wal.as_ref().map_or(0, |wal| wal.commits);
        let mut steps = Vec::new();
        if inspection.hot_journal.is_some() {
            steps.push("SQLite rolls the transaction in -journal back".into());
        }
        if wal_commits > 0 {
            steps.push(format!(
                "SQLite brings {wal_commits} commits of -wal in place"
            ));
        }
        if let Some(stale) = discarded {
            steps.push(format!("-ebb moves to {}", stale.display()));
        }
        if let Some(log) = log_with_epochs {
            steps.push(format!(
                "{} epochs of -ebb go in place: {} pages, as of {}",
                log.epochs,
                log.changed_pages,
                age_text(log.last_epoch)
            ));
        }
        if inspection
            .header
            .as_ref()
            .is_some_and(|header| header.is_marked)
        {
            steps.push("the mark is removed, so that every SQLite may write the database".into());
        }
        if log.is_some() {
            steps.push("-ebb is removed".into());
        }
        SqliteRecovery {
            path: inspection.path.display().to_string(),
            recovered: false,
            epochs: log_with_epochs.map_or(0, |log| log.epochs),
            last_epoch_ms: log_with_epochs.map(|log| log.last_epoch),
            wal_commits,
            discarded_to: discarded.map(|stale| stale.display().to_string()),
            steps,
        }
    }

    fn to_text(&self) -> String {
        let mut text: String = self.steps.iter().map(|step| format!("{step}\n")).collect();
        text += &match (self.recovered, self.steps.is_empty()) {
            (true, _) => format!("{} is a plain database\n", self.path),
            (false, true) => format!("{} is a plain database already\n", self.path),
            (false, false) => "nothing was done; leave --dry-run out to do it\n".into(),
        };
        text
    }
}
