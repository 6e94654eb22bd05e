//! A line of progress that fits into the terminal's width.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::columns::{LEAST_NAME, display_width, shortened, terminal_columns};

/// The least columns of the bar between its brackets; without them there is no bar.
const LEAST_BAR: usize = 6;
/// The time between two updates.
const PAUSE: Duration = Duration::from_millis(100);

/// A line of at most that many columns: a name, a bar, the finished share in per cent, and what follows it. Where
/// there is no room for all, the name is shortened; then the bar goes, then what follows, then the name.
pub(crate) fn progress_line(name: &str, share: f64, after: &str, columns: usize) -> String {
    let percent = format!("{:.0} %", 100.0 * share.clamp(0.0, 1.0));
    let tails = [format!("{percent}{after}"), percent.clone()];
    for (tail, with_bar) in [(&tails[0], true), (&tails[0], false), (&tails[1], false)] {
        let bar = if with_bar { LEAST_BAR + 3 } else { 0 };
        let room = columns.saturating_sub(display_width(tail) + bar + 1);
        if room < LEAST_NAME.min(display_width(name)) {
            continue;
        }
        let name = shortened(name, room);
        if !with_bar {
            return format!("{name} {tail}");
        }
        let length = columns - display_width(tail) - display_width(&name) - 4;
        let full = (share.clamp(0.0, 1.0) * length as f64) as usize;
        let head = if full < length { ">" } else { "" };
        let filled = format!("{}{head}", "=".repeat(full));
        return format!("{name} [{filled:length$}] {tail}");
    }
    shortened(&percent, columns)
}

/// The remaining time in words, rounded up; empty for less than a second.
#[cfg(feature = "reproduce")]
pub(crate) fn remaining_text(left: Duration) -> String {
    let seconds = left.as_secs_f64().round() as u64;
    match seconds {
        0 => String::new(),
        1..20 => format!("about {seconds} s left"),
        20..90 => format!("about {} s left", seconds.next_multiple_of(5)),
        90..5400 => format!("about {} min left", seconds.div_ceil(60)),
        _ => format!("about {:.1} h left", seconds as f64 / 3600.0),
    }
}

/// A line of progress on the terminal, which is written over itself.
pub(crate) struct LiveLine {
    bar: ProgressBar,
    shown: Option<Instant>,
}

impl LiveLine {
    /// The line, or nothing if standard error is no terminal.
    pub(crate) fn new() -> Option<Self> {
        let bar = ProgressBar::new_spinner();
        if bar.is_hidden() {
            return None;
        }
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Some(LiveLine { bar, shown: None })
    }

    /// Shows the progress, unless the line has just been updated.
    pub(crate) fn show(&mut self, name: &str, share: f64, after: &str) {
        if self.shown.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        self.shown = Some(Instant::now());
        // A line as long as the terminal is wide would move the cursor to the next one.
        let columns = terminal_columns().unwrap_or(80).saturating_sub(1);
        self.bar.set_message(progress_line(name, share, after, columns));
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(feature = "reproduce")]
impl LiveLine {
    /// Prints a line above.
    pub(crate) fn print(&self, line: &str) {
        self.bar.println(line);
    }

    /// Removes the line while `work` writes to the terminal.
    pub(crate) fn hidden_during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_into_any_width() {
        let after = ", about 12 min left";
        let name = "12 of 55: cikm-fig12-clustering";
        assert_eq!(
            progress_line(name, 0.31, after, 80),
            "12 of 55: cikm-fig12-clustering [======>               ] 31 %, about 12 min left"
        );
        for columns in 0..200 {
            for share in [0.0, 0.5, 0.999, 1.0, f64::NAN] {
                let line = progress_line(name, share, after, columns);
                assert!(display_width(&line) <= columns, "{columns}: {line}");
            }
        }
        assert_eq!(progress_line(name, 0.31, after, 34), "12 of…ring 31 %, about 12 min left");
    }

    #[test]
    fn remaining_times_are_rounded() {
        let text = |seconds: f64| remaining_text(Duration::from_secs_f64(seconds));
        assert_eq!(text(0.2), "");
        assert_eq!(text(7.4), "about 7 s left");
        assert_eq!(text(61.0), "about 65 s left");
        assert_eq!(text(91.0), "about 2 min left");
        assert_eq!(text(7200.0), "about 2.0 h left");
    }
}
