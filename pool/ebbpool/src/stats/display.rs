//! A table of what a pool has done, for people.

use std::fmt;

use super::{Quantiles, ReadCause, Stats, WriteCause};

/// A label, a value and its unit.
type Line = (&'static str, String, String);

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [self.now(), self.transfers(), self.waits(), self.times()].concat();
        let width = |column: fn(&Line) -> usize| lines.iter().map(column).max().unwrap_or(0);
        let labels = width(|(label, _, _)| label.chars().count());
        let values = width(|(_, value, _)| value.chars().count());
        for (at, (label, value, unit)) in lines.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{label:labels$}  {value:>values$} {unit}")?;
        }
        if let Some(cause) = &self.poisoned {
            write!(f, "\nwrites no more: {cause}")?;
        }
        Ok(())
    }
}

impl Stats {
    fn now(&self) -> Vec<Line> {
        let mut lines = vec![
            count("frames", self.frames.into(), format!("of {} bytes", self.page_size)),
            count("resident", self.resident.into(), "pages"),
            count("dirty", self.dirty.into(), "pages"),
        ];
        if let Some(target) = self.clean_target {
            lines.push(("clean target of the policy", format!("{target:.0}"), "pages".into()));
        }
        if let Some(leader) = self.leader {
            lines.push(("leader of the policy's duel", leader.into(), String::new()));
        }
        lines.push(count("hits", self.hits, "fixes"));
        lines.push(count("misses", self.misses, "fixes"));
        lines.push(("hit ratio", format!("{:.2}", 100.0 * self.hit_ratio()), "%".into()));
        lines
    }

    fn transfers(&self) -> Vec<Line> {
        let mut lines = vec![count("read", self.reads(), self.pages(self.reads()))];
        for &cause in ReadCause::ALL {
            let label = match cause {
                ReadCause::Miss => "  for misses",
                ReadCause::ReadAhead => "  ahead",
                ReadCause::Padding => "  to write blocks whole",
            };
            lines.push(count(label, self.read_for(cause), "pages"));
        }
        lines.push(count("written", self.writes(), self.pages(self.writes())));
        for &cause in WriteCause::ALL {
            let label = match cause {
                WriteCause::Eviction => "  evicted",
                WriteCause::Cluster => "  together with evicted ones",
                WriteCause::Checkpoint => "  by checkpoints",
                WriteCause::Background => "  in the background",
                WriteCause::Flush => "  flushed",
            };
            lines.push(count(label, self.written_for(cause), "pages"));
        }
        let images = self.double_write_pages;
        lines.push(count("written to the double-write area", images, self.pages(images)));
        lines.push(count("write calls", self.write_calls, "calls"));
        lines.push(count("syncs", self.syncs, "calls"));
        lines.push(count("forces of the log", self.log_forces, "calls"));
        lines.push(count("failed reads", self.failed_reads, "pages"));
        lines.push(count("failed writes", self.failed_writes, "pages"));
        lines
    }

    fn waits(&self) -> Vec<Line> {
        vec![
            count("waited for latches", self.waits_for_latches, "times"),
            count("waited for writes", self.waits_for_writes, "fixes"),
            count("waited for frames", self.waits_for_frames, "fixes"),
            count("delayed by the dirty budget", self.delays, "fixes"),
            ("  in total", format!("{:.1}", self.delayed.as_secs_f64() * 1e3), "ms".into()),
        ]
    }

    fn times(&self) -> Vec<Line> {
        let unit = self.costs.unit;
        let mut lines = vec![
            ("cost of a read", format!("{:.4}", self.costs.read), unit.to_string()),
            ("cost of a write", format!("{:.4}", self.costs.write), unit.to_string()),
            ("R", format!("{:.2}", self.asymmetry()), "reads for a write".into()),
        ];
        let calls = [
            ("read call, median", &self.read_latency),
            ("write call, median", &self.write_latency),
            ("sync, median", &self.sync_latency),
        ];
        for (label, quantiles) in calls {
            if let Some(Quantiles { median, p99, most }) = quantiles {
                let [p99, most] = [p99, most].map(|time| time.as_micros());
                let unit = format!("µs; 99 % within {p99}, longest {most}");
                lines.push((label, median.as_micros().to_string(), unit));
            }
        }
        lines
    }

    /// The unit of a number of pages that were transferred.
    fn pages(&self, pages: u64) -> String {
        let mib = pages as f64 * self.page_size as f64 / f64::from(1 << 20);
        format!("pages, {mib:.1} MiB")
    }
}

fn count(label: &'static str, value: u64, unit: impl Into<String>) -> Line {
    (label, value.to_string(), unit.into())
}
