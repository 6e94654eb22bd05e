//! Progress bars on standard error, and Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

/// Set by Ctrl-C. Work stops between two chunks, so temporary files are removed.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C asks the work at hand to stop; a second one ends the process.
pub(crate) fn stop_on_interrupt() {
    // Without a handler Ctrl-C ends the process at once, which loses nothing either.
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(1);
        }
    });
}

/// A bar with the time left, hidden where standard error is no terminal.
pub(crate) fn bar(what: &str) -> ProgressBar {
    const STEPS: u64 = 1000;
    let bar = ProgressBar::new(STEPS);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{wide_bar}] {percent} %, {eta} left") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(what.to_string());
    bar
}

/// Sets a bar to a share from 0 to 1.
pub(crate) fn set(bar: &ProgressBar, share: f64) {
    bar.set_position((share * 1000.0) as u64);
}
