//! What a program does to the disk, for those who look for the cause of a difference: `EBBPOOL_TRACE` shows it of each
//! program that was made smaller.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Writes a line to standard error, while tracing is on.
pub fn line(text: impl FnOnce() -> String) {
    if IS_ON.load(Ordering::Relaxed) {
        eprintln!("{}", text());
    }
}

/// Traces what `run` does, if the environment asks for it.
pub fn traced(run: impl FnOnce()) {
    if std::env::var_os("EBBPOOL_TRACE").is_some() {
        IS_ON.store(true, Ordering::Relaxed);
        run();
        IS_ON.store(false, Ordering::Relaxed);
    }
}
