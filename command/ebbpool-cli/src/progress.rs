//! Progress bars on standard error, notes, and Ctrl-C.

mod columns;
#[cfg(any(feature = "capture", feature = "reproduce", feature = "sqlite"))]
pub(crate) mod line;
#[cfg(all(feature = "replay", unix))]
mod live;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

#[cfg(all(feature = "replay", unix))]
use ebbpool::Stats;
use ebbpool_lab::{LabEvents, Note};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;

#[cfg(all(feature = "replay", unix))]
use live::PoolStatusLines;

/// Set by Ctrl-C. The commands check it between two chunks of work, so that they can still remove
/// temporary files.
pub(crate) static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// The signal that has set it.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Signals that stop the work: Ctrl-C, and others that ask a process to end. Those that the parent has ignored stay so, as nohup
/// wants it of SIGHUP.
pub(crate) fn stopping() -> impl Iterator<Item = i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// Has the first of these signals stop the current work, and a second one end the process.
pub(crate) fn stop_on_interrupt() {
    ebbpool_trace::stop_waiting_when(Arc::clone(&STOP));
    for signal in stopping() {
        // In this order, so that the first one does not end the process. If a handler cannot be installed, the signal ends the
        // process at once, which loses nothing either.
        let _ = flag::register_conditional_default(signal, Arc::clone(&STOP))
            .and_then(|_| flag::register_usize(signal, Arc::clone(&SIGNAL), signal as usize))
            .and_then(|_| flag::register(signal, Arc::clone(&STOP)));
    }
}

/// Ends the process by the signal that has stopped the work, if one has: a shell then also ends the loop that runs the
/// command.
pub(crate) fn end_as_stopped() {
    if STOP.load(Ordering::Relaxed) {
        let _ = io::stdout().flush();
        let _ = emulate_default_handler(SIGNAL.load(Ordering::Relaxed) as i32);
    }
}

/// A progress bar with the remaining time, hidden if standard error is no terminal. It fits into the terminal's
/// width.
pub(crate) fn bar(what: &str) -> ProgressBar {
    const STEPS: u64 = 1000;
    /// The columns of percentage, time and a short bar.
    const REST: usize = 40;
    let bar = ProgressBar::new(STEPS);
    let width = columns::terminal_columns().unwrap_or(usize::MAX);
    let template = match width < REST + columns::LEAST_NAME {
        true => "{msg} {percent} %",
        false => "{msg} [{wide_bar}] {percent} %, {eta} left",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    let room = width.saturating_sub(REST).max(columns::LEAST_NAME);
    bar.set_message(columns::shortened(what, room));
    bar
}

/// Sets a bar to a share between 0 and 1.
pub(crate) fn set(bar: &ProgressBar, share: f64) {
    bar.set_position((share * 1000.0) as u64);
}

/// Prints notes on standard error.
pub(crate) fn report_notes(notes: &[String]) {
    notes.iter().for_each(|note| report_note(note));
}

pub(crate) fn report_note(note: &str) {
    // The command does not fail because standard error takes no note.
    let _ = writeln!(io::stderr(), "ebbpool: note: {note}");
}

/// The terminal as receiver of the lab's events: a bar for the current work, and notes above it.
#[derive(Default)]
pub(crate) struct Console {
    bar: Mutex<Option<(String, ProgressBar)>>,
    #[cfg(all(feature = "replay", unix))]
    pool_status: Mutex<Option<PoolStatusLines>>,
}

#[cfg(feature = "reproduce")]
impl Console {
    /// Prints a line on standard error, above the bar if one is shown.
    pub(crate) fn line(&self, line: &str) {
        match &*lock(&self.bar) {
            Some((_, bar)) if !bar.is_hidden() => bar.println(line),
            // The command does not fail because standard error takes no line.
            _ => drop(writeln!(io::stderr(), "{line}")),
        }
    }
}

/// Locks a mutex, also after a thread has panicked with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LabEvents for Console {
    fn progress(&self, work: &str, share: f64) {
        let mut current = lock(&self.bar);
        if share >= 1.0 {
            #[cfg(all(feature = "replay", unix))]
            if let Some(status) = lock(&self.pool_status).take() {
                status.finish();
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
        let hint = match note {
            Note::StoredResults { .. } => "; --no-cache computes them again",
            _ => "",
        };
        report_note(&format!("{note}{hint}"));
    }

    #[cfg(all(feature = "replay", unix))]
    fn replaying(&self, policy: &str, references: u64, stats: &Stats) {
        let mut status = lock(&self.pool_status);
        match &mut *status {
            Some(status) if status.is_of(policy) => status.show(stats),
            _ => *status = Some(PoolStatusLines::new(policy, references, stats)),
        }
    }

    /// Asks the user. Without a terminal the answer is yes, and a note says that the contents are lost.
    fn may_overwrite(&self, path: &Path) -> bool {
        let path = path.display();
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            report_note(&format!("{path} is overwritten; its old contents are lost"));
            return true;
        }
        let question = format!("{path} exists. Overwriting it destroys its contents. Go on? [y/N] ");
        let mut errors = io::stderr();
        let written = errors.write_all(question.as_bytes());
        let mut answer = String::new();
        let answered = written.and_then(|()| errors.flush()).and_then(|()| io::stdin().read_line(&mut answer));
        answered.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
    }

    fn stop(&self) -> &AtomicBool {
        &STOP
    }
}
