//! The PRAGMAs of the VFS.

use serde::Serialize;

use crate::code::{Answer, Code};
use crate::family::Family;
use crate::instance::{Instance, Shared};
use crate::options::{LogKind, parse_seconds};

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
        "ebbpool_status" => family(&|family| Ok(status(family, &shared.path))),
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
        "ebbpool_clock" => match value.and_then(parse_seconds) {
            Some(seconds) => {
                let ended = instance.set_time(seconds);
                ended
                    .map(|()| done())
                    .map_err(|code| (format!("{name}: {code}"), code))
            }
            None => Ok(instance.now().to_string()),
        },
        _ => return None,
    })
}

/// Bytes that SQLite wrote to files that exist only in memory: without this VFS they would have gone to the disk.
#[derive(Serialize)]
struct WithoutEbbpool {
    bytes: u64,
    main_bytes: u64,
    journal_bytes: u64,
    wal_bytes: u64,
    syncs: u64,
}

/// What was written to the real files.
#[derive(Serialize)]
struct Written {
    bytes: u64,
    log_bytes: u64,
    in_place_bytes: u64,
    syncs: u64,
    epochs: u64,
    checkpoints: u64,
}

#[derive(Serialize)]
struct Status<'a> {
    path: &'a str,
    log: &'a str,
    window_seconds: f64,
    page_size: usize,
    pages: u32,
    commits: u64,
    /// Seconds since the first commit that a power cut would lose; null if there is none.
    oldest_unsaved_seconds: Option<f64>,
    written: Written,
    without_ebbpool: WithoutEbbpool,
    log_bytes_now: u64,
    memory_bytes: usize,
    most_memory_bytes: usize,
    spilled_bytes: usize,
    pool_frames: u32,
    pool_hits: u64,
    pool_misses: u64,
}

fn status(family: &Family, path: &str) -> String {
    let (kind, written, log_bytes_now) = {
        let store = family.store.lock();
        (store.kind(), store.written, store.log_bytes())
    };
    let asked = family.asked;
    let (pool_frames, pool_hits, pool_misses) = family.pool_figures();
    let (pages, page_size) = family.extent();
    let status = Status {
        path,
        log: match kind {
            LogKind::Deltas => "deltas",
            LogKind::Wal => "wal",
        },
        window_seconds: family.options.window,
        page_size,
        pages,
        commits: asked.commits,
        oldest_unsaved_seconds: family
            .due()
            .map(|due| family.now - (due - family.options.window)),
        written: Written {
            bytes: written.log + written.in_place,
            log_bytes: written.log,
            in_place_bytes: written.in_place,
            syncs: written.syncs,
            epochs: written.epochs,
            checkpoints: written.checkpoints,
        },
        without_ebbpool: WithoutEbbpool {
            bytes: asked.main + asked.journal + asked.wal,
            main_bytes: asked.main,
            journal_bytes: asked.journal,
            wal_bytes: asked.wal,
            syncs: asked.syncs,
        },
        log_bytes_now,
        memory_bytes: family.memory.used(),
        most_memory_bytes: family.memory.most(),
        spilled_bytes: family.memory.spilled(),
        pool_frames,
        pool_hits,
        pool_misses,
    };
    serde_json::to_string(&status).unwrap_or_default()
}
