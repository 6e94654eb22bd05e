//! Progress bars on standard error, notes, and Ctrl-C.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ebbpool_lab::{Events, Note};
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

/// Prints remarks on standard error.
pub(crate) fn report_notes(notes: &[String]) {
    notes.iter().for_each(|note| report_note(note));
}

fn report_note(note: &str) {
    // A note that cannot be shown is no reason to fail.
    let _ = writeln!(io::stderr(), "ebbpool: note: {note}");
}

/// The terminal as the lab sees it: a bar for the work at hand, and notes above it.
#[derive(Default)]
pub(crate) struct Console(Mutex<Option<(String, ProgressBar)>>);

impl Events for Console {
    fn progress(&self, work: &str, share: f64) {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if share >= 1.0 {
            if let Some((_, bar)) = current.take() {
                bar.finish_and_clear();
            }
            return;
        }
        match &*current {
            Some((name, bar)) if name == work => set(bar, share),
            _ => {
                let bar = bar(work);
                set(&bar, share);
                if let Some((_, before)) = current.replace((work.into(), bar)) {
                    before.finish_and_clear();
                }
            }
        }
    }

    fn note(&self, note: &Note) {
        let more = match note {
            Note::KnownBefore { .. } => "; --no-cache computes them anew",
            _ => "",
        };
        report_note(&format!("{note}{more}"));
    }

    fn stop(&self) -> &AtomicBool {
        &STOP
    }
}
