//! `ebbpool sqlite status`: what the files of a database say.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ebbpool_cost::{ByteSize, one_line};
use ebbpool_device::profiles::WearingDevice;
use ebbpool_lab::schema::{ResultSchema, ResultShape};
use ebbpool_sqlite::inspect::{HealthNote, LockHolder, LogFit, OwnerHealth, SqliteInspection};
use ebbpool_sqlite::{LEAST_SECONDS, LogKind};
use schemars::JsonSchema;
use serde::Serialize;

use super::args::SqliteStatusArgs;
use super::card::{card_of, years_text};
use super::error::SqliteError;
use super::{counted, escaped, inspected, named, print};
use crate::table::FigureTable;

/// What the files of a database say, with the fields of the JSON output.
#[derive(Serialize, JsonSchema)]
struct SqliteStatus {
    #[schemars(extend("x-role" = "key"))]
    path: String,
    #[schemars(extend("x-unit" = "bytes"))]
    bytes: u64,
    /// Bytes of a page; null if the database is empty or encrypted.
    #[schemars(extend("x-unit" = "bytes"))]
    page_size: Option<u32>,
    /// `wal` or `rollback`; null if the database is empty or encrypted.
    journal_mode: Option<&'static str>,
    /// True if byte 18 keeps SQLite without the VFS from writing the database.
    marked: bool,
    /// True if the files are a plain database: there is nothing to recover. False for what is encrypted, or no database.
    plain: bool,
    /// True if there is nothing to recover, whatever the file is.
    #[serde(skip)]
    has_no_log: bool,
    /// The log that has epochs: `deltas`, `wal` or `none`.
    log: &'static str,
    ebb: Option<EbbFile>,
    #[serde(skip)]
    is_log_awaited: bool,
    /// True if the mark belongs to no `-ebb`, so that every SQLite reads what is durable.
    #[serde(skip)]
    is_in_wal: bool,
    wal: Option<WalFile>,
    /// Bytes of `-journal`, if SQLite would roll it back.
    #[schemars(extend("x-unit" = "bytes"))]
    hot_journal_bytes: Option<u64>,
    locked_by: Option<LockedBy>,
    /// What the process with the VFS that has the database open says about it; null without one, or if this user may not
    /// read it.
    health: Option<SqliteHealth>,
    /// True if nothing is wrong: the exit code is 0 then.
    healthy: bool,
    /// What is wrong, with the files or in the process that has them open.
    findings: Vec<String>,
    /// The card whose life is given.
    card: String,
    /// Years after which the card is worn out, if the database is written as since the last checkpoint; null if that is too
    /// short a time to say.
    #[schemars(extend("x-unit" = "years", "x-role" = "measured"))]
    card_years: Option<f64>,
}

/// The file `-ebb`.
#[derive(Serialize, JsonSchema)]
struct EbbFile {
    #[schemars(extend("x-unit" = "bytes"))]
    bytes: u64,
    /// Bytes of the header and of all whole epochs.
    #[schemars(extend("x-unit" = "bytes"))]
    used_bytes: u64,
    epochs: u32,
    /// Pages that the epochs change.
    changed_pages: u64,
    /// When the last checkpoint was, in milliseconds since 1970.
    #[schemars(extend("x-unit" = "ms"))]
    began_ms: u64,
    /// When the last epoch was written, in milliseconds since 1970.
    #[schemars(extend("x-unit" = "ms"))]
    last_epoch_ms: u64,
    /// Whether it belongs to the database: `fits`, `empty`, `not marked`, `other database`, `damaged` (it has no
    /// valid header, and the database needs one), `foreign` (it is no log) or `later version`.
    fit: &'static str,
}

/// The file `-wal`.
#[derive(Serialize, JsonSchema)]
struct WalFile {
    #[schemars(extend("x-unit" = "bytes"))]
    bytes: u64,
    commits: u64,
    frames: u64,
}

/// A process that has a lock on the database.
#[derive(Serialize, JsonSchema)]
struct LockedBy {
    /// Null if it is in another container, or another user's.
    process: Option<u32>,
    /// The name of its program, where the system shows it.
    program: Option<String>,
    /// True if it lets no other process read.
    exclusively: bool,
    #[serde(skip)]
    may_be_hidden: bool,
    #[serde(skip)]
    is_of_vfs: bool,
}

/// What a process with the VFS says about a database that it has open.
#[derive(Serialize, JsonSchema)]
struct SqliteHealth {
    process: u32,
    /// The version of its library.
    version: String,
    /// Where its epochs go: `deltas` or `wal`.
    log: &'static str,
    /// Seconds of commits that a power cut may take.
    #[schemars(extend("x-unit" = "s"))]
    window_seconds: f64,
    /// False if the last epoch failed; true before the first one.
    last_epoch_succeeded: bool,
    /// When the last epoch succeeded, in milliseconds since 1970; null before the first one.
    #[schemars(extend("x-unit" = "ms"))]
    last_epoch_ms: Option<u64>,
    /// The last error, also if it was overcome since.
    last_error: Option<SqliteHealthNote>,
    /// Commits that are in memory only.
    unsaved_commits: u64,
    /// Bytes of the pages that they changed.
    #[schemars(extend("x-unit" = "bytes"))]
    unsaved_bytes: u64,
    /// Seconds since the oldest of them; null if there is none.
    #[schemars(extend("x-unit" = "s"))]
    oldest_unsaved_seconds: Option<f64>,
    /// Why SQLite's own VFS serves the database; null if the library's does.
    passed: Option<String>,
    /// The last transaction or opening that was refused.
    last_refusal: Option<SqliteHealthNote>,
}

/// Something that happened to a database.
#[derive(Serialize, JsonSchema)]
struct SqliteHealthNote {
    /// When, in milliseconds since 1970.
    #[schemars(extend("x-unit" = "ms"))]
    time_ms: u64,
    text: String,
}

pub(super) fn schema() -> ResultSchema {
    ResultSchema::for_type::<SqliteStatus>("sqlite status", 1, ResultShape::One)
}

pub(super) fn status(args: &SqliteStatusArgs) -> Result<(), SqliteError> {
    let card = card_of(&args.card)?;
    let path = named(&args.path)?;
    let mut inspection = inspected(&path)?;
    let mut findings = findings(&inspection);
    // The files were read one after the other, while their owner may have been between two of its steps.
    for _ in 0..5 {
        if findings.is_empty() || inspection.holder().is_none() {
            break;
        }
        sleep(Duration::from_millis(50));
        inspection = inspected(&path)?;
        findings = self::findings(&inspection);
    }
    let status = SqliteStatus::new(&inspection, findings, &card);
    let printed = print(&status, args.format, SqliteStatus::to_text);
    match status.findings.into_iter().next() {
        None => printed,
        Some(what) => Err(SqliteError::Unhealthy { path, what }),
    }
}

/// What is wrong with a database, a sentence each.
fn findings(inspection: &SqliteInspection) -> Vec<String> {
    // An owner that is well begins a new log before its next commit is durable, so that nothing is lost.
    let mut findings = match is_log_awaited(inspection) {
        true => Vec::new(),
        false => inspection.findings(),
    };
    let is_silent = |holder: LockHolder| holder.is_of_vfs && inspection.health.is_none();
    match (inspection.owner(), inspection.lock) {
        (Some(owner), lock) => {
            let said = &owner.database;
            if !said.last_epoch_succeeded {
                let why = match &said.last_error {
                    Some(note) => format!(" {}: {}", age_text(note.time), one_line(&note.text)),
                    None => String::new(),
                };
                findings.push(format!(
                    "the last epoch failed{why}; process {} has {} in memory only, and tries again",
                    owner.process,
                    counted(said.unsaved_commits, "commit")
                ));
            }
            if said.last_epoch_succeeded
                && let Some(text) = late_text(owner)
            {
                findings.push(text);
            }
            if lock.is_none() {
                findings.push(format!(
                    "process {} has the database open, and its lock is gone: another process could write it",
                    owner.process
                ));
            }
        }
        (None, Some(holder)) if holder.is_exclusive && (is_silent(holder) || inspection.needs_vfs()) => findings.push(format!(
            "{} does not say whether its last epoch succeeded; its user and root may ask it",
            holder_text(holder)
        )),
        (None, _) => {}
    }
    findings
}

/// True if the log was deleted under an owner that has everything it held.
fn is_log_awaited(inspection: &SqliteInspection) -> bool {
    let owner = inspection.owner();
    inspection.lacks_log() && owner.is_some_and(|owner| owner.database.last_epoch_succeeded)
}

/// How late an epoch may be: a sync on a slow card takes seconds.
const LATE_SECONDS: f64 = 10.0;

/// What is wrong with an owner that has not made its commits durable in time, or cannot.
fn late_text(owner: &OwnerHealth) -> Option<String> {
    let (process, said) = (owner.process, &owner.database);
    if is_stopped(process) {
        return Some(format!("process {process} is stopped (SIGSTOP, or Ctrl-Z), and makes nothing durable until it goes on"));
    }
    let age = seconds_since(said.oldest_unsaved?);
    let window = said.window_seconds;
    (age > window + LATE_SECONDS).then(|| {
        format!(
            "process {process} has {} in memory only, the oldest {age:.0} s old, though its window is {window} s: it hangs, or its disk does",
            counted(said.unsaved_commits, "commit")
        )
    })
}

/// True if a process is stopped, as SIGSTOP does.
fn is_stopped(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with('T'))
}

/// Seconds since a time in milliseconds since 1970.
fn seconds_since(time: u64) -> f64 {
    now().saturating_sub(time) as f64 / 1e3
}

/// A window, which another process may give any length.
fn window_text(seconds: f64) -> String {
    const CENTURY: f64 = 3.2e9;
    match seconds <= CENTURY {
        true => format!("{seconds} s"),
        false => "over a hundred years".into(),
    }
}

/// The name of the program that a process runs.
fn program_of(process: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(escaped(name.trim_end()))
}

/// A process that has a lock, as a text.
pub(super) fn holder_text(holder: LockHolder) -> String {
    let Some(process) = holder.process else {
        return match holder.may_be_hidden {
            true => "another user's process".into(),
            false => "a process of another container".into(),
        };
    };
    match program_of(process) {
        Some(program) => format!("{program} (process {process})"),
        None => format!("process {process}"),
    }
}

/// The fit of a log as a word of the results.
pub(super) fn fit_name(fit: LogFit) -> &'static str {
    match fit {
        LogFit::NoEpochs => "empty",
        LogFit::Fits => "fits",
        LogFit::NotMarked => "not marked",
        LogFit::OtherDatabase => "other database",
        LogFit::Damaged => "damaged",
        LogFit::Foreign => "foreign",
        LogFit::LaterVersion(_) => "later version",
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

/// A time in milliseconds since 1970 as the time since then.
pub(super) fn age_text(time: u64) -> String {
    let seconds = now().saturating_sub(time) / 1000;
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

impl SqliteStatus {
    fn new(inspection: &SqliteInspection, findings: Vec<String>, card: &WearingDevice) -> SqliteStatus {
        let header = inspection.header.as_ref();
        let log = inspection.log.as_ref();
        let wal = inspection.wal.as_ref();
        let has_commits = wal.is_some_and(|wal| wal.commits > 0);
        SqliteStatus {
            path: inspection.path.display().to_string(),
            bytes: inspection.bytes,
            page_size: header.map(|header| header.page_size),
            journal_mode: header.map(|header| if header.is_wal { "wal" } else { "rollback" }),
            marked: header.is_some_and(|header| header.is_marked),
            plain: inspection.is_plain() && !inspection.is_unknown(),
            has_no_log: inspection.is_plain(),
            is_log_awaited: is_log_awaited(inspection),
            is_in_wal: header.is_some_and(|header| header.is_marked && !header.has_generation) && log.is_none(),
            log: match log {
                Some(_) => "deltas",
                None if has_commits => "wal",
                None => "none",
            },
            ebb: log.map(|log| EbbFile {
                bytes: log.bytes,
                used_bytes: log.used_bytes,
                epochs: log.epochs,
                changed_pages: log.changed_pages,
                began_ms: log.began,
                last_epoch_ms: log.last_epoch,
                fit: fit_name(log.fit),
            }),
            wal: wal.map(|wal| WalFile { bytes: wal.bytes, commits: wal.commits, frames: wal.frames }),
            hot_journal_bytes: inspection.hot_journal,
            locked_by: inspection.lock.map(|holder| LockedBy {
                process: holder.process,
                program: holder.process.and_then(program_of),
                exclusively: holder.is_exclusive,
                may_be_hidden: holder.may_be_hidden,
                is_of_vfs: holder.is_of_vfs,
            }),
            health: inspection.health.as_ref().map(SqliteHealth::from_owner),
            healthy: findings.is_empty(),
            findings,
            card: card.name.clone(),
            card_years: years(inspection, card),
        }
    }

    fn to_text(&self) -> String {
        let mut table = FigureTable::new();
        let size = ByteSize::new(self.bytes);
        let pages = match (self.page_size, self.journal_mode) {
            (Some(page), Some(mode)) => format!(", pages of {page} bytes, journal mode {mode}"),
            _ if self.bytes == 0 => ", empty".into(),
            _ => ", encrypted, or no database of SQLite".into(),
        };
        let path = &escaped(&self.path);
        table.row("database", format!("{path} ({size}{pages})"));
        if let Some(locked) = &self.locked_by {
            let holder = LockHolder {
                process: locked.process,
                is_exclusive: locked.exclusively,
                may_be_hidden: locked.may_be_hidden,
                is_of_vfs: locked.is_of_vfs,
            };
            let alone = match locked.exclusively {
                true => ", which lets no other process use it",
                false => "",
            };
            table.row("locked by", format!("{}{alone}", holder_text(holder)));
        } else {
            table.row("locked by", "no process".into());
        }
        for (name, text) in self.health.iter().flat_map(SqliteHealth::rows) {
            table.row(name, text);
        }
        if let Some(ebb) = &self.ebb {
            table.row("log", ebb.to_text(path));
            let is_said = self.health.as_ref().is_some_and(|it| it.last_epoch_ms.is_some());
            if ebb.epochs > 0 && !is_said {
                table.row("last epoch", age_text(ebb.last_epoch_ms));
            }
        }
        if self.is_log_awaited {
            table.row("log", format!("{path}-ebb was deleted; the process notices before the next commit is durable"));
        }
        if let Some(wal) = self.wal.as_ref().filter(|wal| wal.commits > 0) {
            let (commits, frames) = (counted(wal.commits, "commit"), counted(wal.frames, "page"));
            let text = format!("{path}-wal: {commits}, {frames}");
            table.row("WAL", text);
        }
        if self.hot_journal_bytes.is_some() {
            table.row("journal", "SQLite will roll a transaction back".into());
        }
        table.row("marked", self.mark_text().into());
        if let Some(years) = self.card_years {
            let text = format!("{} years of {}", years_text(Some(years)), self.card);
            table.row("as since then", text);
        }
        let mut text = table.left_aligned();
        text.push('\n');
        for finding in &self.findings {
            text += &format!("{}\n", escaped(finding));
        }
        if self.findings.is_empty() {
            text += &self.next_step();
            text.push('\n');
        }
        text
    }

    /// What the next opening will do with the database and its logs.
    fn next_step(&self) -> String {
        let is_ours = self.ebb.is_some() || self.marked;
        match (self.has_no_log, &self.locked_by) {
            (true, locked) => {
                let commits = self.health.as_ref().map_or(0, |it| it.unsaved_commits);
                let is_unknown = self.page_size.is_none() && self.bytes > 0;
                match locked {
                    _ if commits > 0 => format!(
                        "its program has {} in memory only, which the window makes durable; the files are a plain database without them",
                        counted(commits, "commit")
                    ),
                    Some(locked) if locked.is_of_vfs => {
                        "a process has it open; the files are a plain database, without what that process has in memory only"
                            .into()
                    }
                    _ if is_unknown => "there is no log to recover; it is encrypted, or no database of SQLite".into(),
                    _ => "it is a plain database; there is nothing to recover".into(),
                }
            }
            (false, Some(_)) => "its program has it open; when it is closed, it is a plain database".into(),
            (false, None) if is_ours => format!(
                "the next program with the VFS brings the log in place, as does: ebbpool sqlite recover {}",
                escaped(&self.path)
            ),
            (false, None) => "the next program with any SQLite takes its journal or WAL in".into(),
        }
    }

    fn mark_text(&self) -> &'static str {
        match (self.marked, self.is_in_wal) {
            (true, true) => "yes: SQLite without the VFS reads everything that is durable, and writes nothing",
            (true, false) => "yes: SQLite without the VFS reads the state of the last checkpoint, and writes nothing",
            (false, _) => "no",
        }
    }
}

impl SqliteHealth {
    fn from_owner(owner: &OwnerHealth) -> SqliteHealth {
        let said = &owner.database;
        let note = |note: &HealthNote| SqliteHealthNote { time_ms: note.time, text: note.text.clone() };
        SqliteHealth {
            process: owner.process,
            version: owner.version.clone(),
            log: match said.log {
                LogKind::Deltas => "deltas",
                LogKind::Wal => "wal",
            },
            window_seconds: said.window_seconds,
            last_epoch_succeeded: said.last_epoch_succeeded,
            last_epoch_ms: said.last_epoch,
            last_error: said.last_error.as_ref().map(note),
            unsaved_commits: said.unsaved_commits,
            unsaved_bytes: said.unsaved_bytes,
            oldest_unsaved_seconds: said.oldest_unsaved.map(seconds_since),
            passed: said.passed.clone(),
            last_refusal: said.last_refusal.as_ref().map(note),
        }
    }

    /// What it says, as lines of a table. The texts are another process's, which may have any characters in them.
    fn rows(&self) -> Vec<(&'static str, String)> {
        if let Some(why) = &self.passed {
            let text = format!("SQLite's own VFS serves it: {}", one_line(why));
            return vec![("passed", text)];
        }
        let memory = match (self.unsaved_commits, self.oldest_unsaved_seconds) {
            (0, _) => "nothing that is not durable".into(),
            (count, oldest) => {
                let age = oldest.map_or(String::new(), |age| format!(", the oldest {age:.0} s old"));
                let bytes = ByteSize::new(self.unsaved_bytes);
                format!("{}, {bytes}{age}", counted(count, "commit"))
            }
        };
        let window = window_text(self.window_seconds);
        let mut rows = vec![("window", window), ("in memory", memory)];
        if let Some(time) = self.last_epoch_ms {
            rows.push(("last epoch", age_text(time)));
        }
        for (name, note) in [("last error", &self.last_error), ("refused", &self.last_refusal)] {
            if let Some(note) = note {
                let (age, text) = (age_text(note.time_ms), one_line(&note.text));
                rows.push((name, format!("{age}: {text}")));
            }
        }
        rows
    }
}

impl EbbFile {
    fn to_text(&self, path: &str) -> String {
        let epochs = counted(u64::from(self.epochs), "epoch");
        let pages = counted(self.changed_pages, "page");
        let used = ByteSize::new(self.used_bytes);
        let since = age_text(self.began_ms);
        match (self.epochs, self.began_ms) {
            (0, 0) => format!("{path}-ebb: no header, so no epochs"),
            (0, _) => format!("{path}-ebb: no epochs since the checkpoint {since}"),
            _ => {
                format!("{path}-ebb: {epochs} with {pages} in {used}, since the checkpoint {since}")
            }
        }
    }
}

/// Years of a card, if the database is written as since the last checkpoint: the log, and what the next one will write.
fn years(inspection: &SqliteInspection, card: &WearingDevice) -> Option<f64> {
    let log = inspection.log.as_ref().filter(|log| log.epochs > 0)?;
    let seconds = log.last_epoch.saturating_sub(log.began) as f64 / 1e3;
    let checkpoint = log.changed_pages * u64::from(log.page_size) * 2;
    let bytes = log.used_bytes + checkpoint;
    card.years(bytes, seconds).filter(|_| seconds >= LEAST_SECONDS)
}
