//! What a caller hears of long work, and how it stops it.

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use ebbpool::Stats;

/// Never set.
static NEVER: AtomicBool = AtomicBool::new(false);

/// What the lab tells its caller while it works. All methods have defaults that ignore it.
pub trait Events: Sync {
    /// Work of that name has come to a share, from 0 to 1; 1 comes once, at its end.
    fn progress(&self, work: &str, share: f64) {
        let _ = (work, share);
    }

    /// Something that the caller's user should know.
    fn note(&self, note: &Note) {
        let _ = note;
    }

    /// A pool replays a trace of so many references with this policy, and is as these statistics say: called a
    /// few times a second.
    fn replaying(&self, policy: &str, references: u64, stats: &Stats) {
        let fixes = stats.hits + stats.misses;
        self.progress(policy, (fixes as f64 / references.max(1) as f64).min(0.999));
    }

    /// True if what is in this file may be lost, which the request asks for.
    fn may_overwrite(&self, path: &Path) -> bool {
        let _ = path;
        true
    }

    /// The caller sets it to have work stopped, which happens within 100 ms. What is done by then is kept.
    fn stop(&self) -> &AtomicBool {
        &NEVER
    }
}

/// Something that the caller's user should know. It prints as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// What a trace's reader guessed, what a device ignores, where a device failed.
    Remark(String),
    /// Results that were kept earlier and not computed again.
    KnownBefore {
        /// The trace.
        trace: String,
        /// How many.
        known: usize,
        /// Of how many.
        all: usize,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Remark(text) => f.write_str(text),
            Note::KnownBefore { trace, known, all } => {
                write!(f, "{trace}: {known} of {all} results are known from before")
            }
        }
    }
}

/// Hears nothing, and never stops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Events for Silent {}
