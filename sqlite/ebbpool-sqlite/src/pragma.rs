//! The PRAGMAs of the VFS.

use crate::code::{SqliteCode, SqliteResult};
use crate::database_state::DatabaseState;
use crate::instance::Instance;
use crate::options::parse_seconds;
use crate::shared::SharedDatabase;
use crate::status::{card, status};

/// The environment variable without which `PRAGMA ebbpool_clock` is an unknown one: a user who may run SQL on one database
/// could otherwise end the windows of all others of the process.
const CLOCK_VARIABLE: &str = "EBBPOOL_SQLITE_CLOCK";

/// Runs a PRAGMA; `None` if it is not one of ours. An error has a text for people.
pub(crate) fn run(
    instance: &'static Instance,
    shared: &SharedDatabase,
    handle: u64,
    name: &str,
    value: Option<&str>,
) -> Option<Result<String, (String, SqliteCode)>> {
    let error = |code: SqliteCode| {
        let passed = (code == SqliteCode::BUSY).then(|| shared.passed_text()).flatten();
        let why = passed.unwrap_or_else(|| code.to_string());
        (format!("{name}: {why}"), code)
    };
    let state = |with: &dyn Fn(&mut DatabaseState) -> SqliteResult<String>| instance.with_state(shared, with).map_err(error);
    let said = |answer: SqliteResult<()>| answer.map(|()| "ok".to_owned()).map_err(error);
    // The files are this process's from here on.
    let owned = || instance.with_state(shared, |_| Ok(()));
    if name == "wal_checkpoint" {
        let is_truncate = value.is_some_and(|value| value.eq_ignore_ascii_case("truncate"));
        return match is_truncate {
            true => checkpoint_without_wal(instance, shared).err(),
            false => None,
        }
        .map(|code| Err((format!("{name}: {code}"), code)));
    }
    Some(match name {
        "ebbpool_flush" => said(owned().and_then(|()| instance.epoch(shared))),
        "ebbpool_checkpoint" => said(owned().and_then(|()| instance.checkpoint(shared, true))),
        "ebbpool_status" => match card(value) {
            Ok(card) => state(&|state| Ok(status(state, &shared.path, &card))),
            Err(why) => Err((format!("ebbpool_status: {why}"), SqliteCode(crate::ffi::ERROR))),
        },
        "ebbpool_window" => match value.map(parse_seconds) {
            Some(None) => {
                Err(("ebbpool_window: expected seconds, such as 30 or 0.5".to_owned(), SqliteCode(crate::ffi::ERROR)))
            }
            wanted => {
                let window = owned().and_then(|()| match wanted.flatten() {
                    Some(seconds) => {
                        let window = instance.ask_for_window(shared, handle, seconds)?;
                        if window == 0.0 {
                            instance.epoch(shared)?;
                        }
                        Ok(window)
                    }
                    None => instance.with_state(shared, |state| Ok(state.options.window)),
                });
                window.map(|window| window.to_string()).map_err(error)
            }
        },
        "ebbpool_clock" if std::env::var_os(CLOCK_VARIABLE).is_some() => match value.and_then(parse_seconds) {
            Some(seconds) => said(instance.set_time(seconds)),
            None => Ok(instance.now().to_string()),
        },
        _ => return None,
    })
}

/// What a checkpoint does that a program asks for because it is about to copy the files. With a WAL SQLite does it, by calls of
/// the VFS; without one it calls none.
fn checkpoint_without_wal(instance: &'static Instance, shared: &SharedDatabase) -> SqliteResult<()> {
    // Another process that has the database copies its own.
    let has_wal = instance.with_state(shared, |state| Ok(state.wal.is_some()));
    match has_wal {
        Ok(false) => instance.checkpoint(shared, true),
        _ => Ok(()),
    }
}
