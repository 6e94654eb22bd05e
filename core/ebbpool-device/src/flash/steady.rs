//! Decides whether write amplification has settled.

use std::collections::VecDeque;

/// How many consecutive windows must agree.
const WINDOWS: usize = 4;
/// How far apart they may be, as a share of their mean.
const SPREAD: f64 = 0.03;
/// How many windows are stored.
const MOST_WINDOWS: usize = 64;

/// Write amplification in windows. A window ends when half as many pages as the chip has are
/// programmed, and an eighth as many by the host, so that four windows overwrite the device twice.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    host_step: u64,
    least_programs: u64,
    next_check: u64,
    start: WriteCounts,
    closed: VecDeque<WriteCounts>,
    any_dropped: bool,
}

/// Host writes and programs: totals, or those of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WriteCounts {
    host_writes: u64,
    programs: u64,
}

impl WriteCounts {
    fn write_amplification(self) -> f64 {
        self.programs as f64 / self.host_writes as f64
    }
}

impl Windows {
    /// Windows for a chip with `physical_pages` pages.
    pub(super) fn new(physical_pages: u64) -> Self {
        let host_step = (physical_pages / 8).max(1);
        Self {
            host_step,
            least_programs: physical_pages / 2,
            next_check: host_step,
            start: WriteCounts::default(),
            closed: VecDeque::with_capacity(MOST_WINDOWS),
            any_dropped: false,
        }
    }

    /// Records a host write; both numbers are totals since the counters were last reset.
    #[inline]
    pub(super) fn note(&mut self, host_writes: u64, programs: impl FnOnce() -> u64) {
        if host_writes >= self.next_check {
            self.check(host_writes, programs());
        }
    }

    fn check(&mut self, host_writes: u64, programs: u64) {
        self.next_check = host_writes + self.host_step;
        if programs - self.start.programs < self.least_programs {
            return;
        }
        if self.closed.len() == MOST_WINDOWS {
            self.closed.pop_front();
            self.any_dropped = true;
        }
        self.closed.push_back(WriteCounts {
            host_writes: host_writes - self.start.host_writes,
            programs: programs - self.start.programs,
        });
        self.start = WriteCounts { host_writes, programs };
    }

    /// Write amplification once the last windows agree: over all counts if all windows agree, else over
    /// the longest run of windows at the end that do. `Err` says why there is none.
    pub(super) fn settled(&self, host_writes: u64, programs: u64, erases: u64) -> Result<f64, String> {
        if erases == 0 {
            return Err("no block has been erased since counting began; write more, or set precondition=steady".into());
        }
        if self.closed.len() < WINDOWS {
            return Err(format!(
                "{} of the {WINDOWS} windows needed are complete after {host_writes} host writes; a window is half of the chip's pages programmed, an eighth by the host",
                self.closed.len()
            ));
        }
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        let mut run = WriteCounts::default();
        let mut agreeing = 0;
        for window in self.closed.iter().rev() {
            let here = window.write_amplification();
            let sum =
                WriteCounts { host_writes: run.host_writes + window.host_writes, programs: run.programs + window.programs };
            let spread = most.max(here) - least.min(here);
            if agreeing >= WINDOWS && spread > SPREAD * sum.write_amplification() {
                break;
            }
            (least, most) = (least.min(here), most.max(here));
            (run, agreeing) = (sum, agreeing + 1);
            if agreeing == WINDOWS && spread > SPREAD * sum.write_amplification() {
                return Err(format!(
                    "write amplification still drifts: the last {WINDOWS} windows measured {least:.3} to {most:.3}"
                ));
            }
        }
        if agreeing == self.closed.len() && !self.any_dropped {
            run = WriteCounts { host_writes, programs };
        }
        Ok(run.write_amplification())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of 100 host writes with the given numbers of programs.
    fn after(programs: &[u64]) -> (Windows, u64, u64) {
        let mut windows = Windows::new(80);
        let (mut host_writes, mut total) = (0, 0);
        for &programs in programs {
            host_writes += 100;
            total += programs;
            windows.check(host_writes, total);
        }
        (windows, host_writes, total)
    }

    #[test]
    fn equal_windows_are_settled() {
        let (windows, host_writes, programs) = after(&[250, 250, 250, 250]);
        assert_eq!(windows.settled(host_writes, programs, 1), Ok(2.5));
        assert!(windows.settled(host_writes, programs, 0).is_err());
    }

    #[test]
    fn an_unsettled_start_is_left_out() {
        let (windows, host_writes, programs) = after(&[100, 180, 250, 251, 249, 250]);
        assert_eq!(windows.settled(host_writes, programs, 1), Ok(2.5));
    }

    #[test]
    fn drift_and_too_few_windows_are_reported() {
        let (windows, host_writes, programs) = after(&[240, 250, 260, 270]);
        let drift = windows.settled(host_writes, programs, 1).expect_err("drift");
        assert!(drift.contains("2.400 to 2.700"), "{drift}");
        let (windows, host_writes, programs) = after(&[250, 250, 250]);
        assert!(windows.settled(host_writes, programs, 1).is_err());
    }

    #[test]
    fn a_window_waits_for_enough_programs() {
        let mut windows = Windows::new(80);
        windows.note(10, || 39);
        assert_eq!(windows.closed.len(), 0);
        windows.note(19, || 60);
        assert_eq!(windows.closed.len(), 0);
        windows.note(20, || 60);
        assert_eq!(windows.closed.len(), 1);
    }
}
