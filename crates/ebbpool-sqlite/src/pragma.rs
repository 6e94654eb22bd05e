//! The PRAGMAs of the VFS.

use crate::code::{Answer, Code};
use crate::family::Family;
use crate::instance::{Instance, Shared};
use crate::options::parse_seconds;
use crate::status::{card, status};

/// The environment variable without which `PRAGMA ebbpool_clock` is an unknown one: a user who may run SQL on one database
/// could otherwise end the windows of all others of the process.
const CLOCK_VARIABLE: &str = "EBBPOOL_SQLITE_CLOCK";

/// Runs a PRAGMA; `None` if it is not one of ours. An error has a text for people.
pub(crate) fn run(
    instance: &'static Instance,
    shared: &Shared,
    name: &str,
    value: Option<&str>,
) -> Option<Result<String, (String, Code)>> {
    let family = |with: &dyn Fn(&mut Family) -> Answer<String>| {
        let answer = instance.with_family(shared, with);
        answer.map_err(|code| (format!("{name}: {code}"), code))
    };
    let done = || "ok".to_owned();
    Some(match name {
        "ebbpool_flush" => family(&|family| family.epoch().map(|()| done())),
        "ebbpool_checkpoint" => family(&|family| family.checkpoint().map(|()| done())),
        "ebbpool_status" => match card(value) {
            Ok(card) => family(&|family| Ok(status(family, &shared.path, &card))),
            Err(why) => Err((format!("ebbpool_status: {why}"), Code(crate::ffi::ERROR))),
        },
        "ebbpool_window" => match value.map(parse_seconds) {
            Some(None) => Err((
                "ebbpool_window: expected seconds, such as 30 or 0.5".to_owned(),
                Code(crate::ffi::ERROR),
            )),
            wanted => family(&|family| {
                if let Some(Some(seconds)) = wanted {
                    family.options.window = seconds;
                    family.retry()?;
                }
                Ok(family.options.window.to_string())
            }),
        },
        "ebbpool_clock" if std::env::var_os(CLOCK_VARIABLE).is_some() => {
            match value.and_then(parse_seconds) {
                Some(seconds) => {
                    let ended = instance.set_time(seconds);
                    ended
                        .map(|()| done())
                        .map_err(|code| (format!("{name}: {code}"), code))
                }
                None => Ok(instance.now().to_string()),
            }
        }
        _ => return None,
    })
}
