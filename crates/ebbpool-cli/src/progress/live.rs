//! What a pool is doing, on the terminal while it does it.

use std::time::{Duration, Instant};

use bytesize::ByteSize;
use ebbpool::Stats;
use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};

/// Lines on standard error; none where that is no terminal.
pub(super) struct Live {
    bar: ProgressBar,
    policy: String,
    references: u64,
    began: Instant,
    before: Shown,
}

/// The totals as they were last shown.
struct Shown {
    at: Instant,
    fixes: u64,
    reads: u64,
    writes: u64,
}

impl Shown {
    fn of(stats: &Stats) -> Self {
        Shown {
            at: Instant::now(),
            fixes: stats.hits + stats.misses,
            reads: stats.reads(),
            writes: stats.writes(),
        }
    }
}

impl Live {
    pub(super) fn new(policy: &str, references: u64, stats: &Stats) -> Self {
        let bar = ProgressBar::new(references);
        let template = "{prefix} [{wide_bar}] {percent} %\n{msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(policy.to_string());
        Live {
            bar,
            policy: policy.into(),
            references,
            began: Instant::now(),
            before: Shown::of(stats),
        }
    }

    pub(super) fn is_of(&self, policy: &str) -> bool {
        self.policy == policy
    }

    pub(super) fn show(&mut self, stats: &Stats) {
        if self.bar.is_hidden() {
            return;
        }
        let now = Shown::of(stats);
        let left = left(self.began.elapsed(), now.fixes, self.references);
        self.bar.set_message(lines(stats, &self.before, &now, left));
        self.bar.set_position(now.fixes);
        self.before = now;
    }

    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// How long it will take on, at the pace so far.
fn left(elapsed: Duration, done: u64, all: u64) -> Option<Duration> {
    let pace = elapsed.as_secs_f64() / (done > 0).then_some(done)? as f64;
    Duration::try_from_secs_f64(pace * all.saturating_sub(done) as f64).ok()
}

fn lines(stats: &Stats, before: &Shown, now: &Shown, left: Option<Duration>) -> String {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let pace = |now: u64, before: u64| (now - before) as f64 / seconds;
    let bytes = |pages: f64| ByteSize((pages * stats.page_size as f64) as u64);
    let left = left.map_or_else(|| "unknown".into(), |left| HumanDuration(left).to_string());
    format!(
        "  {} references/s, hit ratio {:.4}, {left} left\n  \
         read {}/s, written {}/s, {:.0} % of the frames dirty, R {:.2}",
        HumanCount(pace(now.fixes, before.fixes) as u64),
        stats.hit_ratio(),
        bytes(pace(now.reads, before.reads)),
        bytes(pace(now.writes, before.writes)),
        100.0 * f64::from(stats.dirty) / f64::from(stats.frames.max(1)),
        stats.asymmetry(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_pace() {
        assert_eq!(left(Duration::from_secs(10), 0, 100), None);
        let ten = left(Duration::from_secs(10), 50, 100);
        assert_eq!(ten, Some(Duration::from_secs(10)));
        assert_eq!(
            left(Duration::from_secs(10), 100, 100),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn the_lines_tell_what_the_pool_does() {
        let pool = ebbpool::PoolOptions::new(4)
            .open(ebbpool::storage::MemoryStorage::new(4096))
            .expect("a pool");
        let before = Shown::of(&pool.stats());
        for page in 0..8 {
            pool.fix_write(page).expect("a page");
        }
        let stats = pool.stats();
        let mut now = Shown::of(&stats);
        now.at = before.at + Duration::from_secs(2);
        let text = lines(&stats, &before, &now, Some(Duration::from_secs(60)));
        assert_eq!(text.lines().count(), 2);
        for part in [
            "4 references/s",
            "hit ratio 0.0000",
            "60 seconds left",
            "read 16.0 KiB/s",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
