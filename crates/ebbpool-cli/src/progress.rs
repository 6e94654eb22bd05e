//! Progress bars on standard error, notes, and Ctrl-C.

mod live;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ebbpool::Stats;
use ebbpool_lab::{Events, Note};
use indicatif::{ProgressBar, ProgressStyle};

use live::Live;

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
pub(crate) struct Console {
    bar: Mutex<Option<(String, ProgressBar)>>,
    live: Mutex<Option<Live>>,
}

impl Console {
    /// A line on standard error, above the bar if there is one.
    pub(crate) fn line(&self, line: &str) {
        match &*lock(&self.bar) {
            Some((_, bar)) if !bar.is_hidden() => bar.println(line),
            // A note that cannot be shown is no reason to fail.
            _ => drop(writeln!(io::stderr(), "{line}")),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Events for Console {
    fn progress(&self, work: &str, share: f64) {
        let mut current = lock(&self.bar);
        if share >= 1.0 {
            if let Some(live) = lock(&self.live).take() {
                live.finish();
            }
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

    fn replaying(&self, policy: &str, references: u64, stats: &Stats) {
        let mut live = lock(&self.live);
        match &mut *live {
            Some(live) if live.is_of(policy) => live.show(stats),
            _ => *live = Some(Live::new(policy, references, stats)),
        }
    }

    /// Asks the user; where nobody can be asked it says what is lost.
    fn may_overwrite(&self, path: &Path) -> bool {
        let path = path.display();
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            report_note(&format!("{path} is made anew; what was in it is lost"));
            return true;
        }
        let question = format!("{path} exists. Made anew, what is in it is lost. Go on? [y/N] ");
        let mut errors = io::stderr();
        let asked = errors.write_all(question.as_bytes());
        let mut answer = String::new();
        let answered = asked
            .and_then(|()| errors.flush())
            .and_then(|()| io::stdin().read_line(&mut answer));
        answered.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
    }

    fn stop(&self) -> &AtomicBool {
        &STOP
    }
}
