//! The line of a capture that runs.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use ebbpool_capture::{CaptureProgress, Limits};
use ebbpool_lab::numbers::grouped;

use crate::progress::STOP;
use crate::progress::line::LiveLine;

/// Shows the progress: on a terminal as one line that is written over itself, else as a line every ten seconds.
pub(super) struct CaptureLine {
    live: Option<LiveLine>,
    time: Duration,
    printed: Duration,
}

const EVERY: Duration = Duration::from_secs(10);

impl CaptureLine {
    pub(super) fn new(limits: &Limits) -> CaptureLine {
        CaptureLine {
            live: io::stderr().is_terminal().then(LiveLine::new).flatten(),
            time: limits.time,
            printed: Duration::ZERO,
        }
    }

    /// Shows the progress, if there is any. False once Ctrl-C was pressed.
    pub(super) fn proceed(&mut self, progress: Option<&CaptureProgress>) -> bool {
        if let Some(progress) = progress {
            self.show(progress);
        }
        !STOP.load(Ordering::Relaxed)
    }

    fn show(&mut self, progress: &CaptureProgress) {
        let text = text(progress);
        match &mut self.live {
            Some(live) => {
                let share = progress.time.as_secs_f64() / self.time.as_secs_f64();
                live.show("capture", share, &format!(", {text}"));
            }
            None if progress.time - self.printed >= EVERY => {
                self.printed = progress.time;
                let seconds = progress.time.as_secs();
                // The capture does not fail because standard error takes no line.
                let _ = writeln!(io::stderr(), "after {seconds} s: {text}");
            }
            None => {}
        }
    }

    pub(super) fn clear(&self) {
        if let Some(live) = &self.live {
            live.clear();
        }
    }
}

fn text(progress: &CaptureProgress) -> String {
    let mut text = format!("{} references, {} a second", grouped(progress.references), grouped(progress.rate.round() as u64));
    if let Some(ratio) = progress.hit_ratio {
        text += &format!(", {:.1} % hits", 100.0 * ratio);
    }
    if let Some(overhead) = progress.overhead {
        text += &format!(", costs {:.1} %", 100.0 * overhead);
    }
    if progress.sample < 1.0 {
        text += &format!(", 1 page of {:.0}", 1.0 / progress.sample);
    }
    text + &format!(", {} lost", grouped(progress.lost))
}
