//! The PRAGMAs of the VFS.

use crate::code::{Answer, Code};
use crate::family::Family;
use crate::instance::Instance;
use crate::options::parse_seconds;
use crate::shared::Shared;
use crate::status::{card, status};

/// The environment variable without which `PRAGMA ebbpool_clock` is an unknown one: a user who may run SQL on one database
/// could otherwise end the windows of all others of the process.
const CLOCK_VARIABLE: &str = "EBBPOOL_SQLITE_CLOCK";

/// Runs a PRAGMA; `None` if it is not one of ours. An error has a text for people.
pub(crate) fn run(
    instance: &'static Instance,
    shared: &Shared,
    handle: u64,
    name: &str,
    value: Option<&str>,
) -> Option<Result<String, (String, Code)>> {
    let error = |code: Code| {
        let passed = (code == Code::BUSY).then(|| shared.passed_text()).flatten();
        let why = passed.unwrap_or_else(|| code.to_string());
        (format!("{name}: {why}"), code)
    };
    let family = |with: &dyn Fn(&mut Family) -> Answer<String>| {
        instance.with_family(shared, with).map_err(error)
    };
    let said = |answer: Answer<()>| answer.map(|()| "ok".to_owned()).map_err(error);
    // The files are this process's from here on.
    let owned = || instance.with_family(shared, |_| Ok(()));
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
            Ok(card) => family(&|family| Ok(status(family, &shared.path, &card))),
            Err(why) => Err((format!("ebbpool_status: {why}"), Code(crate::ffi::ERROR))),
        },
        "ebbpool_window" => match value.map(parse_seconds) {
            Some(None) => Err((
                "ebbpool_window: expected seconds, such as 30 or 0.5".to_owned(),
                Code(crate::ffi::ERROR),
            )),
            wanted => {
                let window = owned().and_then(|()| match wanted.flatten() {
                    Some(seconds) => {
                        let window = instance.ask_for_window(shared, handle, seconds)?;
                        if window == 0.0 {
                            instance.epoch(shared)?;
                        }
                        Ok(window)
                    }
                    None => instance.with_family(shared, |family| Ok(family.options.window)),
                });
                window.map(|window| window.to_string()).map_err(error)
            }
        },
        "ebbpool_clock" if std::env::var_os(CLOCK_VARIABLE).is_some() => {
            match value.and_then(parse_seconds) {
                Some(seconds) => said(instance.set_time(seconds)),
                None => Ok(instance.now().to_string()),
            }
        }
        _ => return None,
    })
}

/// What a checkpoint does that a program asks for because it is about to copy the files. With a WAL SQLite does it, by calls of
/// the VFS; without one it calls none.
fn checkpoint_without_wal(instance: &'static Instance, shared: &Shared) -> Answer<()> {
    // Another process that has the database copies its own.
    let has_wal = instance.with_family(shared, |family| Ok(family.wal.is_some()));
    match has_wal {
        Ok(false) => instance.checkpoint(shared, true),
        _ => Ok(()),
    }
}
