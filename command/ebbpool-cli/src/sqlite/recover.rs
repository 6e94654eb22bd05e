//! `ebbpool sqlite recover`: makes a database a plain one again.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ebbpool_cost::ByteSize;
use ebbpool_lab::schema::{ResultSchema, ResultShape};
use ebbpool_sqlite::discard::{discard_log, remove_empty_log};
use ebbpool_sqlite::inspect::{LogFit, SqliteHeader, SqliteInspection, beside, lock_holder, write_recovered};
use ebbpool_sqlite::plain::{PlainSqlite, PlainSqliteError};
use schemars::JsonSchema;
use serde::Serialize;

use super::args::SqliteRecoverArgs;
use super::check::CopyDirectory;
use super::error::SqliteError;
use super::status::{age_text, holder_text};
use super::{counted, escaped, inspected, named, print};

/// What recovery has done, or would do, with the fields of the JSON output.
#[derive(Serialize, JsonSchema)]
struct SqliteRecovery {
    /// The database, or a directory.
    #[schemars(extend("x-role" = "key"))]
    path: String,
    /// False if nothing was done, because `--dry-run` was given or the database is plain. Of a directory: true if one
    /// database was recovered.
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
    /// True if the file does not begin as a database does.
    #[serde(skip)]
    is_unknown: bool,
    /// The databases of a directory.
    databases: Vec<RecoveredDatabase>,
}

/// What was done for a database of a directory.
#[derive(Serialize, JsonSchema)]
struct RecoveredDatabase {
    path: String,
    recovered: bool,
    /// What was done, or would be, a sentence each.
    steps: Vec<String>,
    /// Why it could not be done.
    error: Option<String>,
}

/// What is given up with `--discard-log`.
enum Discarded {
    Nothing,
    /// A log that belongs to another version of the database; it moves to this path.
    Log(PathBuf),
    /// A `-wal` that does; it moves to this path.
    Wal(PathBuf),
    /// The mark of a database whose log is gone.
    LineStyle,
}

pub(super) fn schema() -> ResultSchema {
    ResultSchema::for_type::<SqliteRecovery>("sqlite recover", 1, ResultShape::One)
}

pub(super) fn recover(args: &SqliteRecoverArgs) -> Result<(), SqliteError> {
    if args.path.is_dir() {
        return recover_directory(args);
    }
    let recovery = recover_database(&named(&args.path)?, args)?;
    print(&recovery, args.format, SqliteRecovery::to_text)
}

fn recover_directory(args: &SqliteRecoverArgs) -> Result<(), SqliteError> {
    let path = &args.path;
    if args.discard_log {
        return Err(SqliteError::DiscardInDirectory { path: path.clone() });
    }
    let found = databases_in(path).map_err(SqliteError::reading(path))?;
    let databases: Vec<RecoveredDatabase> = found
        .into_iter()
        .map(|database| {
            let recovery = recover_database(&database, args);
            let (recovered, steps, error) = match recovery {
                Ok(recovery) => (recovery.recovered, recovery.steps, None),
                Err(error) => (false, Vec::new(), Some(error.to_string())),
            };
            RecoveredDatabase { path: database.display().to_string(), recovered, steps, error }
        })
        .collect();
    let all = databases.len();
    let failed = databases.iter().filter(|it| it.error.is_some()).count();
    let result = SqliteRecovery { recovered: databases.iter().any(|it| it.recovered), databases, ..SqliteRecovery::new(path) };
    let printed = print(&result, args.format, SqliteRecovery::directory_to_text);
    match failed {
        0 => printed,
        failed => Err(SqliteError::SomeNotRecovered { path: path.clone(), failed, all }),
    }
}

/// The databases in a directory, and those that symbolic links in it lead to, that have a log, or the mark of one, or an owner
/// that may make one, in order of their names.
fn databases_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut linked = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_file() {
            files.push(path);
        } else if kind.is_symlink() {
            // A link that leads nowhere is no database.
            linked.extend(path.canonicalize().ok().filter(|path| path.is_file()));
        }
    }
    for path in files.iter().filter_map(|file| file.canonicalize().ok()) {
        linked.remove(&path);
    }
    files.extend(linked);
    files.retain(|path| beside(path, "-ebb").is_file() || goes_through_vfs(path));
    files.sort();
    Ok(files)
}

/// True if a file is a database with the mark, or a process with the VFS has it open, as before its first epoch; one that
/// cannot be read is none.
fn goes_through_vfs(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    if lock_holder(&file).is_some_and(|holder| holder.is_of_vfs) {
        return true;
    }
    let mut first = Vec::new();
    let read = file.take(100).read_to_end(&mut first);
    let header = read.ok().and_then(|_| SqliteHeader::decode(&first));
    header.is_some_and(|header| header.is_marked)
}

fn recover_database(path: &Path, args: &SqliteRecoverArgs) -> Result<SqliteRecovery, SqliteError> {
    let inspection = inspected(path)?;
    if let Some(holder) = inspection.holder() {
        return Err(SqliteError::Busy { path: path.to_owned(), process: holder_text(holder) });
    }
    let mut discarded = discarded(&inspection, args.discard_log)?;
    if !inspection.is_plain() {
        refuse_where_it_would_fail(&inspection, &discarded)?;
    }
    // Found before anything is moved, and with `--dry-run` too, which fails where recovery would.
    let sqlite = match inspection.is_plain() {
        true => None,
        false => {
            let sqlite = PlainSqlite::load(args.sqlite.sqlite.as_deref());
            Some(sqlite.map_err(SqliteError::NoSqlite)?)
        }
    };
    let mut is_known = true;
    if let (Some(sqlite), Discarded::Nothing) = (&sqlite, &discarded) {
        match has_foreign_wal(&inspection, sqlite) {
            Ok(false) => {}
            Ok(true) if !args.discard_log => return Err(SqliteError::OtherWal { path: path.to_owned() }),
            Ok(true) => discarded = Discarded::Wal(free_name(path, "-wal.stale")),
            Err(_) => is_known = false,
        }
    }
    let mut recovery = SqliteRecovery::planned(&inspection, &discarded);
    if !is_known {
        recovery.steps.push(
            "that -wal is of this version of the database is not known: there is no room beside it for a copy to check".into(),
        );
    }
    if args.dry_run
        && let Discarded::Nothing = discarded
        && let Some(need) = missing_bytes(&inspection)
    {
        recovery
            .steps
            .push(format!("the file system may have {need} too little room for that; then nothing is lost, and the log stays"));
    }
    if let Some(sqlite) = sqlite.filter(|_| !args.dry_run) {
        match &discarded {
            Discarded::Nothing => {}
            Discarded::Wal(stale) => {
                fs::rename(beside(path, "-wal"), stale).map_err(SqliteError::doing("move its -wal", path))?;
            }
            Discarded::Log(stale) => discard(path, Some(stale))?,
            Discarded::LineStyle => discard(path, None)?,
        }
        // What no SQLite without a key reads is left as it is.
        if !(recovery.is_unknown && recovery.discarded_to.is_some()) {
            bring_in_place(path, &sqlite, args.discard_log)?;
        }
        recovery.recovered = true;
    }
    if !args.dry_run && inspection.has_empty_log {
        remove_empty_log(path).map_err(SqliteError::doing("remove its empty -ebb", path))?;
        recovery.recovered = true;
    }
    Ok(recovery)
}

/// Fails where recovery cannot succeed, so that `--dry-run` does too.
fn refuse_where_it_would_fail(inspection: &SqliteInspection, discarded: &Discarded) -> Result<(), SqliteError> {
    use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
    let path = &inspection.path;
    let is_given_up = !matches!(discarded, Discarded::Nothing);
    if !is_given_up && inspection.needs_vfs() && inspection.is_out_of_reach() {
        return Err(SqliteError::NameWithoutVfs { path: path.clone() });
    }
    if statvfs(path).is_ok_and(|it| it.f_flag.contains(StatVfsMountFlags::RDONLY)) {
        return Err(SqliteError::ReadOnlyMount { path: path.clone() });
    }
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    for (file, needed) in [(&**path, "the file"), (directory, "its directory")] {
        if access(file, Access::WRITE_OK).is_err() {
            let path = path.clone();
            return Err(SqliteError::NotWritable { path, needed });
        }
    }
    Ok(())
}

/// Makes a database whose log belongs to it a plain one.
fn bring_in_place(path: &Path, sqlite: &PlainSqlite, may_discard: bool) -> Result<(), SqliteError> {
    let mut left = inspected(path)?;
    // What SQLite takes in from `-wal` may have the mark again.
    for _ in 0..3 {
        if left.is_plain() {
            return Ok(());
        }
        let recovered = sqlite.recover(path);
        left = inspected(path)?;
        if may_discard && left.lacks_log() && !left.may_have_log_elsewhere() {
            discard(path, None)?;
            left = inspected(path)?;
        } else {
            if let Err(source) = recovered {
                return Err(not_recovered(&left, source));
            }
            break;
        }
    }
    match (left.is_plain(), missing_room(&left)) {
        (true, _) => Ok(()),
        (false, Some(error)) => Err(error),
        (false, None) => Err(SqliteError::NotRecovered { path: path.to_owned(), what: "its log is still there".into() }),
    }
}

/// Why SQLite could not recover a database; `left` is what it has left.
fn not_recovered(left: &SqliteInspection, source: PlainSqliteError) -> SqliteError {
    let path = left.path.clone();
    match missing_room(left) {
        _ if left.is_plain() && !left.is_unknown() => SqliteError::DamagedPages { path, source },
        Some(error) => error,
        None => SqliteError::Sqlite { path, source },
    }
}

/// The error where the file system has less room than a recovery may need: the pages of the log go to `-wal` first, and new
/// ones then make the database longer.
fn missing_room(inspection: &SqliteInspection) -> Option<SqliteError> {
    missing_bytes(inspection).map(|need| SqliteError::NoRoomToRecover { path: inspection.path.clone(), need })
}

/// The bytes that the file system lacks for such a recovery.
fn missing_bytes(inspection: &SqliteInspection) -> Option<ByteSize> {
    const FRAME: u64 = 24;
    let log = inspection.log.as_ref();
    let page = log.map_or(0, |log| u64::from(log.page_size));
    let of_log = log.map_or(0, |log| u64::from(log.pages) * page);
    let of_wal = inspection.wal.as_ref().map_or(0, |wal| wal.database_bytes);
    let longer = of_log.max(of_wal).saturating_sub(inspection.bytes);
    let need = log.map_or(0, |log| log.changed_pages) * (page + FRAME) + longer;
    let mount = rustix::fs::statvfs(&inspection.path).ok()?;
    // What `-ebb` has in reserve behind its records is given back.
    let reserve = log.map_or(0, |log| log.bytes.saturating_sub(log.used_bytes));
    let free = mount.f_bavail.saturating_mul(mount.f_frsize) + reserve;
    (free < need).then(|| ByteSize::new(rounded_up(need - free)))
}

/// A number of bytes that is no smaller, and whose text is not either: a size is shown with three digits, rounded to the nearest.
fn rounded_up(bytes: u64) -> u64 {
    let unit = 1u64 << (bytes.checked_ilog2().unwrap_or(0) / 10 * 10);
    let step = match bytes / unit {
        // Quarters are shown, or rounded up.
        ..99 => unit.div_ceil(4),
        _ => unit,
    };
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

/// What has to be given up, because it cannot be brought in place.
fn discarded(inspection: &SqliteInspection, may_discard: bool) -> Result<Discarded, SqliteError> {
    let path = &inspection.path;
    let what = || inspection.findings().join("; ");
    if inspection.lacks_log() {
        return match may_discard {
            _ if inspection.may_have_log_elsewhere() => Err(SqliteError::OtherNames { what: what() }),
            true => Ok(Discarded::LineStyle),
            false => Err(SqliteError::NoLog { what: what() }),
        };
    }
    match inspection.log.as_ref().map(|log| log.fit) {
        None | Some(LogFit::NoEpochs | LogFit::Fits | LogFit::Foreign) => {
            return Ok(Discarded::Nothing);
        }
        Some(LogFit::NotMarked | LogFit::OtherDatabase | LogFit::Damaged | LogFit::LaterVersion(_)) => {}
    }
    if !may_discard {
        let (path, what) = (path.clone(), what());
        return Err(match inspection.is_unknown() {
            true => SqliteError::NoDatabase { path, what },
            false => SqliteError::OtherVersion { path, what },
        });
    }
    Ok(Discarded::Log(free_name(path, "-ebb.stale")))
}

/// A name beside a database that no file has.
fn free_name(path: &Path, suffix: &str) -> PathBuf {
    let first = beside(path, suffix);
    let others = (2..).map(|number| beside(path, &format!("{suffix}.{number}")));
    let mut names = std::iter::once(first.clone()).chain(others);
    names.find(|name| !name.exists()).unwrap_or(first)
}

/// True if SQLite finds a copy of a database whole without its `-wal`, and damaged with it: nothing in a `-wal` says on which version
/// of the database it was written, and SQLite brings it in place of any.
///
/// # Errors
///
/// If no copy can be made beside the database.
fn has_foreign_wal(inspection: &SqliteInspection, sqlite: &PlainSqlite) -> io::Result<bool> {
    let path = &inspection.path;
    let has_commits = inspection.wal.as_ref().is_some_and(|wal| wal.commits > 0);
    if !has_commits || inspection.log.as_ref().is_some_and(|log| log.epochs > 0) || inspection.hot_journal.is_some() {
        return Ok(false);
    }
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    let own = CopyDirectory::new_in(parent.unwrap_or(Path::new(".")))?;
    let (with, without) = (own.path("with.db"), own.path("without.db"));
    let is_whole = |copy: &Path| sqlite.integrity_check(copy).is_ok_and(|findings| findings.is_empty());
    write_recovered(inspection, &with)?;
    if is_whole(&with) {
        return Ok(false);
    }
    fs::remove_file(&with)?;
    fs::copy(path, &without)?;
    Ok(is_whole(&without))
}

/// Gives the log up.
fn discard(path: &Path, stale: Option<&Path>) -> Result<(), SqliteError> {
    let what = match stale {
        Some(_) => "move its log",
        None => "remove its mark",
    };
    discard_log(path, stale).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => SqliteError::Busy { path: path.to_owned(), process: "another process".into() },
        _ => SqliteError::doing(what, path)(error),
    })
}

impl SqliteRecovery {
    /// A result of which nothing is known but the path.
    fn new(path: &Path) -> SqliteRecovery {
        SqliteRecovery {
            path: path.display().to_string(),
            recovered: false,
            epochs: 0,
            last_epoch_ms: None,
            wal_commits: 0,
            discarded_to: None,
            steps: Vec::new(),
            is_unknown: false,
            databases: Vec::new(),
        }
    }

    fn planned(inspection: &SqliteInspection, discarded: &Discarded) -> SqliteRecovery {
        let stale = match discarded {
            Discarded::Log(stale) | Discarded::Wal(stale) => Some(stale),
            Discarded::Nothing | Discarded::LineStyle => None,
        };
        let log = inspection.log.as_ref().filter(|_| !matches!(discarded, Discarded::Log(_)));
        let log_with_epochs = log.filter(|log| log.epochs > 0);
        let wal = inspection.wal.as_ref().filter(|_| !matches!(discarded, Discarded::Wal(_)));
        let wal_commits = wal.map_or(0, |wal| wal.commits);
        let mut steps = Vec::new();
        if inspection.hot_journal.is_some() {
            steps.push("SQLite rolls the transaction in -journal back".into());
        }
        if wal_commits > 0 {
            steps.push(format!("SQLite brings {} of -wal in place", counted(wal_commits, "commit")));
        }
        if let Discarded::LineStyle = discarded {
            steps.push("what the deleted -ebb held is given up".into());
        }
        if let Some(stale) = stale {
            let which = if matches!(discarded, Discarded::Wal(_)) { "-wal" } else { "-ebb" };
            steps.push(format!("{which} moves to {}", stale.display()));
        }
        if let Some(log) = log_with_epochs {
            steps.push(format!(
                "{} of -ebb in place: {}, as of {}",
                counted(u64::from(log.epochs), "epoch"),
                counted(log.changed_pages, "page"),
                age_text(log.last_epoch)
            ));
        }
        if inspection.header.as_ref().is_some_and(|header| header.is_marked) {
            steps.push("the mark is removed, so that every SQLite may write the database".into());
        }
        match log.map(|log| log.fit) {
            Some(LogFit::Foreign) => {
                steps.push("-ebb is no log of Ebbpool, and moves to a free name, -ebb.stale".into());
            }
            Some(_) => steps.push("-ebb is removed".into()),
            None if inspection.has_empty_log => steps.push("-ebb, which is empty, is removed".into()),
            None => {}
        }
        SqliteRecovery {
            epochs: log_with_epochs.map_or(0, |log| log.epochs),
            last_epoch_ms: log_with_epochs.map(|log| log.last_epoch),
            wal_commits,
            discarded_to: stale.map(|stale| stale.display().to_string()),
            steps,
            is_unknown: inspection.is_unknown(),
            ..SqliteRecovery::new(&inspection.path)
        }
    }

    fn directory_to_text(&self) -> String {
        let lines = self.databases.iter().map(|database| {
            let path = &database.path;
            let steps = database.steps.join("; ");
            let line = match (&database.error, database.recovered) {
                // Errors name the database.
                (Some(error), _) if error.contains(path) => error.clone(),
                (Some(error), _) => format!("{path}: {error}"),
                (None, true) => format!("{path}: {steps}"),
                // Another process has recovered it meanwhile.
                (None, false) if steps.is_empty() => {
                    format!("{path}: it is a plain database already")
                }
                (None, false) => format!("{path}: nothing was done; without --dry-run: {steps}"),
            };
            escaped(&line) + "\n"
        });
        let text: String = lines.collect();
        match text.is_empty() {
            true => format!("{} has no database with a log\n", escaped(&self.path)),
            false => text,
        }
    }

    fn to_text(&self) -> String {
        let steps = self.steps.iter().map(|step| escaped(step) + "\n");
        let mut text: String = steps.collect();
        let path = escaped(&self.path);
        text += &match (self.recovered, self.steps.is_empty()) {
            (true, _) if self.is_unknown => format!("{path} has no log any more; it is encrypted, or no database of SQLite\n"),
            (true, _) => format!("{path} is a plain database\n"),
            (false, true) if self.is_unknown => {
                format!("{path} has no log, so that there is nothing to recover; it is encrypted, or no database of SQLite\n")
            }
            (false, true) => format!("{path} is a plain database already\n"),
            (false, false) => {
                "nothing was done; leave --dry-run out to do it. Whether its pages are whole, ebbpool sqlite check says\n"
                    .into()
            }
        };
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_that_is_asked_for_is_no_less_than_what_is_missing() {
        for bytes in (1..3000).chain((0..40_000).map(|n| n * 7919 + 13)) {
            let shown = ByteSize::new(rounded_up(bytes)).to_string();
            let size: ByteSize = shown.parse().expect("a size");
            assert!(size.bytes() >= bytes, "{bytes}: {shown}");
            assert!(size.bytes() <= bytes + bytes / 3 + 1, "{bytes}: {shown}");
        }
    }
}
