//! `ebbpool sqlite check`: whether recovery would give a whole database.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io};

use ebbpool_lab::schema::{ResultSchema, ResultShape};
use ebbpool_sqlite::inspect::{SqliteInspection, commits_before_damage, epoch_behind_damage, write_recovered};
use ebbpool_sqlite::plain::PlainSqlite;
use schemars::JsonSchema;
use serde::Serialize;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tempfile::TempDir;

use super::args::SqliteCheckArgs;
use super::error::SqliteError;
use super::status::{fit_name, holder_text};
use super::{counted, escaped, inspected, named, print};
use crate::progress::stopping;
use crate::table::FigureTable;

/// The result of a check, with the fields of the JSON output.
#[derive(Serialize, JsonSchema)]
struct SqliteCheck {
    #[schemars(extend("x-role" = "key"))]
    path: String,
    /// Whether `-ebb` belongs to the database: `fits`, `empty`, `not marked`, `other database`, `damaged`, `foreign` or
    /// `later version`; null without the file.
    log_fit: Option<&'static str>,
    /// Epochs of `-ebb` with valid checksums.
    epochs: u32,
    /// Commits of `-wal` with valid checksums.
    wal_commits: u64,
    /// The version of SQLite that has checked the database as recovery would leave it; null if none has.
    checked_by: Option<String>,
    /// Why SQLite has not checked it.
    unchecked: Option<String>,
    /// What is wrong.
    findings: Vec<String>,
}

pub(super) fn schema() -> ResultSchema {
    ResultSchema::for_type::<SqliteCheck>("sqlite check", 1, ResultShape::One)
}

pub(super) fn check(args: &SqliteCheckArgs) -> Result<(), SqliteError> {
    let path = named(&args.path)?;
    let inspection = inspected(&path)?;
    let mut check = SqliteCheck {
        path: path.display().to_string(),
        log_fit: inspection.log.as_ref().map(|log| fit_name(log.fit)),
        epochs: inspection.log.as_ref().map_or(0, |log| log.epochs),
        wal_commits: inspection.wal.as_ref().map_or(0, |wal| wal.commits),
        checked_by: None,
        unchecked: None,
        findings: inspection.findings(),
    };
    if inspection.holder().is_none() {
        let before = commits_before_damage(&inspection).map_err(SqliteError::reading(&args.path))?;
        check.findings.extend(before.map(|commits| {
            let (path, commits) = (&check.path, counted(commits, "commit"));
            format!("{path}-wal is damaged, or a power cut has torn it: SQLite takes {commits} in, and later ones are behind the damage")
        }));
        let behind = epoch_behind_damage(&inspection).map_err(SqliteError::reading(&args.path))?;
        check.findings.extend(behind.map(|epoch| {
            let (path, epochs) = (&check.path, check.epochs);
            format!("{path}-ebb is damaged: recovery ends with epoch {epochs}, and epoch {epoch} is behind the damage")
        }));
    }
    match why_not(&inspection) {
        Some(why) => check.unchecked = Some(why),
        None => match PlainSqlite::load(args.sqlite.sqlite.as_deref()) {
            Ok(sqlite) => check.judge(&sqlite, &inspection, args.directory.as_deref())?,
            Err(error) => check.unchecked = Some(error.to_string()),
        },
    }
    let printed = print(&check, args.format, SqliteCheck::to_text);
    match (check.findings.len(), inspection.holder()) {
        (0, None) => match check.unchecked {
            None => printed,
            Some(why) => Err(SqliteError::NotChecked { path, why }),
        },
        (0, Some(holder)) => Err(SqliteError::Busy { path, process: holder_text(holder) }),
        (count, _) => Err(SqliteError::Findings { path, count }),
    }
}

/// Why SQLite cannot check what recovery would give.
fn why_not(inspection: &SqliteInspection) -> Option<String> {
    if let Some(holder) = inspection.holder() {
        return Some(format!("it is open in {}; PRAGMA integrity_check in that program checks it", holder_text(holder)));
    }
    if !inspection.findings().is_empty() {
        return Some("its files do not belong together".into());
    }
    inspection.is_unknown().then(|| "it is encrypted, or no database of SQLite".into())
}

/// Why a database could not be copied to a directory.
fn copy_error(path: &Path, directory: &Path, source: io::Error) -> SqliteError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            SqliteError::NoRoom { directory: directory.to_owned(), path: path.to_owned() }
        }
        _ => SqliteError::doing("copy it", path)(source),
    }
}

/// The directory with the copy, for the thread that ends the command after a signal.
static COPY: Mutex<Option<PathBuf>> = Mutex::new(None);

/// A directory that is removed at the end, and also where Ctrl-C or SIGTERM ends the command.
pub(super) struct CopyDirectory(TempDir);

impl CopyDirectory {
    pub(super) fn new_in(parent: &Path) -> io::Result<CopyDirectory> {
        // Without a handler a signal ends the command, and the copy stays.
        if let Ok(mut signals) = Signals::new(stopping()) {
            std::thread::spawn(move || {
                let signal = signals.forever().next().unwrap_or(SIGINT);
                let copy = COPY.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(path) = &*copy {
                    // The check may make a file meanwhile.
                    for _ in 0..10 {
                        if fs::remove_dir_all(path).is_ok() {
                            break;
                        }
                    }
                }
                let _ = emulate_default_handler(signal);
            });
        }
        let mut copy = COPY.lock().unwrap_or_else(PoisonError::into_inner);
        let own = TempDir::new_in(parent)?;
        *copy = Some(own.path().to_owned());
        Ok(CopyDirectory(own))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl SqliteCheck {
    /// Has SQLite check a copy of the database as recovery would leave it: checking the files themselves would recover them.
    fn judge(
        &mut self,
        sqlite: &PlainSqlite,
        inspection: &SqliteInspection,
        directory: Option<&Path>,
    ) -> Result<(), SqliteError> {
        let parent = directory.map_or_else(env::temp_dir, Path::to_owned);
        let own = CopyDirectory::new_in(&parent).map_err(SqliteError::doing("write in it", &parent))?;
        let copy = own.path("recovered.db");
        write_recovered(inspection, &copy).map_err(|source| copy_error(&inspection.path, &parent, source))?;
        match sqlite.integrity_check(&copy) {
            Ok(findings) => {
                self.findings.extend(findings);
                self.checked_by = Some(sqlite.version().into());
            }
            Err(error) => self.findings.push(error.to_string()),
        }
        Ok(())
    }

    fn to_text(&self) -> String {
        let mut table = FigureTable::new();
        let log = match self.log_fit {
            None => "no -ebb".into(),
            Some(fit) => format!("{}, {fit}", counted(u64::from(self.epochs), "epoch")),
        };
        table.row("log", log);
        table.row("WAL", counted(self.wal_commits, "commit"));
        let state = match (&self.checked_by, &self.unchecked) {
            (Some(version), _) => format!("checked by SQLite {version}"),
            (None, Some(why)) => format!("not checked: {why}"),
            (None, None) => "not readable".into(),
        };
        table.row("as recovered", state);
        let mut text = table.left_aligned();
        text.push('\n');
        for finding in &self.findings {
            text.push_str(&format!("{}\n", escaped(finding)));
        }
        if self.findings.is_empty() && self.checked_by.is_some() {
            text.push_str("nothing is wrong\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_without_room_names_the_directory_and_the_option() {
        let of = |kind| copy_error(Path::new("a.db"), Path::new("/tmp"), io::Error::from(kind));
        let text = of(io::ErrorKind::StorageFull).to_string();
        assert!(text.starts_with("/tmp has no room") && text.contains("--directory"), "{text}");
        let other = of(io::ErrorKind::PermissionDenied).to_string();
        assert!(other.starts_with("a.db: cannot copy it"), "{other}");
    }
}
