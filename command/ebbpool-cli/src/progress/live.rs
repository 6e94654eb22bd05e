//! The status of a running pool on the terminal.

use std::time::{Duration, Instant};

use ebbpool::Stats;
use ebbpool_cost::ByteSize;
use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};

/// A progress bar and two status lines on standard error; hidden if that is no terminal.
pub(super) struct PoolStatusLines {
    bar: ProgressBar,
    policy: String,
    references: u64,
    began: Instant,
    previous: ShownTotals,
}

/// The pool's totals when the lines were last updated.
struct ShownTotals {
    at: Instant,
    fixes: u64,
    reads: u64,
    writes: u64,
}

impl ShownTotals {
    fn from_stats(stats: &Stats) -> Self {
        ShownTotals { at: Instant::now(), fixes: stats.hits + stats.misses, reads: stats.reads(), writes: stats.writes() }
    }
}

impl PoolStatusLines {
    pub(super) fn new(policy: &str, references: u64, stats: &Stats) -> Self {
        let bar = ProgressBar::new(references);
        let template = "{prefix} [{wide_bar}] {percent} %\n{msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(policy.to_string());
        PoolStatusLines {
            bar,
            policy: policy.into(),
            references,
            began: Instant::now(),
            previous: ShownTotals::from_stats(stats),
        }
    }

    pub(super) fn is_of(&self, policy: &str) -> bool {
        self.policy == policy
    }

    pub(super) fn show(&mut self, stats: &Stats) {
        if self.bar.is_hidden() {
            return;
        }
        let now = ShownTotals::from_stats(stats);
        let left = remaining_time(self.began.elapsed(), now.fixes, self.references);
        self.bar.set_message(lines(stats, &self.previous, &now, left));
        self.bar.set_position(now.fixes);
        self.previous = now;
    }

    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// The time that the rest takes at the pace so far.
fn remaining_time(elapsed: Duration, done: u64, all: u64) -> Option<Duration> {
    let pace = elapsed.as_secs_f64() / (done > 0).then_some(done)? as f64;
    Duration::try_from_secs_f64(pace * all.saturating_sub(done) as f64).ok()
}

fn lines(stats: &Stats, previous: &ShownTotals, now: &ShownTotals, left: Option<Duration>) -> String {
    let seconds = now.at.duration_since(previous.at).as_secs_f64().max(1e-3);
    let pace = |now: u64, previous: u64| (now - previous) as f64 / seconds;
    let bytes = |pages: f64| ByteSize::new((pages * stats.page_size as f64) as u64);
    let left = left.map_or_else(|| "unknown".into(), |left| HumanDuration(left).to_string());
    format!(
        "  {} references/s, hit ratio {:.4}, {left} left\n  \
         read {}/s, written {}/s, {:.0} % of the frames dirty, R {:.2}",
        HumanCount(pace(now.fixes, previous.fixes) as u64),
        stats.hit_ratio(),
        bytes(pace(now.reads, previous.reads)),
        bytes(pace(now.writes, previous.writes)),
        100.0 * f64::from(stats.dirty) / f64::from(stats.frames.max(1)),
        stats.asymmetry(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_follows_the_pace() {
        assert_eq!(remaining_time(Duration::from_secs(10), 0, 100), None);
        let ten = remaining_time(Duration::from_secs(10), 50, 100);
        assert_eq!(ten, Some(Duration::from_secs(10)));
        assert_eq!(remaining_time(Duration::from_secs(10), 100, 100), Some(Duration::ZERO));
    }

    #[test]
    fn the_lines_show_the_pools_activity() {
        let pool = ebbpool::PoolOptions::new(4).open(ebbpool::storage::MemoryStorage::new(4096)).expect("a pool");
        let before = ShownTotals::from_stats(&pool.stats());
        for page in 0..8 {
            pool.fix_write(page).expect("a page");
        }
        let stats = pool.stats();
        let mut now = ShownTotals::from_stats(&stats);
        now.at = before.at + Duration::from_secs(2);
        let text = lines(&stats, &before, &now, Some(Duration::from_secs(60)));
        assert_eq!(text.lines().count(), 2);
        for part in ["4 references/s", "hit ratio 0.0000", "60 seconds left", "read 16 KiB/s"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
