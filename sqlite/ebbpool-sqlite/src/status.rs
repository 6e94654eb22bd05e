//! The answer of `PRAGMA ebbpool_status`.

use ebbpool_device::profiles::WearingDevice;
use serde::Serialize;

use crate::database_state::DatabaseState;
use crate::options::LogKind;

/// The card of which years are given, where no other is named.
pub const USUAL_CARD: &str = "sd-a1";
/// Seconds: how fast a program writes is not computed from less time than this.
pub const LEAST_SECONDS: f64 = 60.0;

/// The card of which years are given.
///
/// # Errors
///
/// A text for people, if there is no such device, or writes do not wear it out.
pub(crate) fn card(name: Option<&str>) -> Result<WearingDevice, String> {
    WearingDevice::find(name.unwrap_or(USUAL_CARD)).map_err(|error| error.to_string())
}

fn in_milliseconds(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// Bytes that SQLite wrote to files that exist only in memory: without this VFS they would have gone to the disk.
#[derive(Serialize)]
struct WithoutEbbpool {
    bytes: u64,
    card_years: Option<f64>,
    main_bytes: u64,
    journal_bytes: u64,
    wal_bytes: u64,
    syncs: u64,
}

/// What was written, in whole blocks of 4 KiB to the real files. The temporary file is never synced, so that the card may get fewer
/// of its bytes; the sum has all of them.
#[derive(Serialize)]
struct WrittenStatus {
    bytes: u64,
    card_years: Option<f64>,
    log_bytes: u64,
    in_place_bytes: u64,
    temporary_bytes: u64,
    syncs: u64,
    epochs: u64,
    checkpoints: u64,
}

#[derive(Serialize)]
struct Status<'a> {
    path: &'a str,
    log: &'a str,
    window_seconds: f64,
    /// Since the process took the database over.
    seconds: f64,
    /// The card of which years are given: those after which it is worn out if the program goes on as it did.
    card: &'a str,
    page_size: usize,
    pages: u32,
    commits: u64,
    /// Seconds since the first commit that a power cut would lose; null if there is none.
    oldest_unsaved_seconds: Option<f64>,
    written: WrittenStatus,
    without_ebbpool: WithoutEbbpool,
    log_bytes_now: u64,
    memory_bytes: usize,
    most_memory_bytes: usize,
    pool_frames: u32,
    pool_hits: u64,
    pool_misses: u64,
}

/// What was written to a database since the process took it over, as JSON.
pub(crate) fn status(state: &DatabaseState, path: &str, card: &WearingDevice) -> String {
    let figures = state.stored.figures();
    let (kind, written, log_bytes_now) = (figures.kind, figures.written, figures.log_bytes);
    let asked = state.asked;
    let seconds = state.now - state.began;
    let years = |bytes| card.years(bytes, seconds).filter(|_| seconds >= LEAST_SECONDS);
    let temporary = state.memory.spilled() as u64;
    let written_bytes = written.log + written.in_place + temporary;
    let asked_bytes = asked.bytes();
    let (pool_frames, pool_hits, pool_misses) = state.pool_figures();
    let (pages, page_size) = state.extent();
    let status = Status {
        path,
        log: match kind {
            LogKind::Deltas => "deltas",
            LogKind::Wal => "wal",
        },
        window_seconds: state.options.window,
        seconds: in_milliseconds(seconds),
        card: &card.name,
        page_size,
        pages,
        commits: asked.commits,
        oldest_unsaved_seconds: state.oldest().map(|oldest| in_milliseconds(state.now - oldest)),
        written: WrittenStatus {
            bytes: written_bytes,
            card_years: years(written_bytes),
            log_bytes: written.log,
            in_place_bytes: written.in_place,
            temporary_bytes: temporary,
            syncs: written.syncs,
            epochs: written.epochs,
            checkpoints: written.checkpoints,
        },
        without_ebbpool: WithoutEbbpool {
            bytes: asked_bytes,
            card_years: years(asked_bytes),
            main_bytes: asked.main,
            journal_bytes: asked.journal,
            wal_bytes: asked.wal,
            syncs: asked.syncs,
        },
        log_bytes_now,
        memory_bytes: state.memory.used(),
        most_memory_bytes: state.memory.most(),
        pool_frames,
        pool_hits,
        pool_misses,
    };
    serde_json::to_string(&status).unwrap_or_default()
}
