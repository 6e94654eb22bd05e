//! The interface through which a caller follows long work and stops it.

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

#[cfg(all(feature = "replay", unix))]
use ebbpool::Stats;

/// A stop flag that stays false.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Receives the lab's events while it works. The default methods ignore them.
pub trait LabEvents: Sync {
    /// The work of that name has reached this share, from 0 to 1. The lab reports 1 once, at the end.
    fn progress(&self, work: &str, share: f64) {
        let _ = (work, share);
    }

    /// A note for the caller's user.
    fn note(&self, note: &Note) {
        let _ = note;
    }

    /// The current statistics of a pool that replays a trace with this number of references and this policy.
    /// The lab calls it a few times per second.
    #[cfg(all(feature = "replay", unix))]
    fn replaying(&self, policy: &str, references: u64, stats: &Stats) {
        let fixes = stats.hits + stats.misses;
        self.progress(policy, (fixes as f64 / references.max(1) as f64).min(0.999));
    }

    /// Returns true if the lab may overwrite this file, which the request asks for.
    fn may_overwrite(&self, path: &Path) -> bool {
        let _ = path;
        true
    }

    /// The flag that the caller sets to stop the work. The lab stops within 100 ms, and finished results
    /// remain.
    fn stop(&self) -> &AtomicBool {
        &NEVER
    }
}

/// What limits the results over a trace that was captured below a cache.
pub(crate) const BELOW_CACHE: &str = "its references are those that missed a cache above the capture, so that the results are those of a buffer below that cache, not of one in its place";

/// A note for the caller's user. It prints as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A remark, such as a guess of a trace's reader, a setting that a device ignores, or a failed device.
    Remark(String),
    /// The trace was captured below a cache, which limits what its results say.
    BelowCache {
        /// The trace.
        trace: String,
    },
    /// Results that the lab takes from the store instead of computing them again.
    StoredResults {
        /// The trace.
        trace: String,
        /// The number of results from the store.
        stored: usize,
        /// The number of all results.
        all: usize,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Remark(text) => f.write_str(text),
            Note::BelowCache { trace } => write!(f, "{trace}: {BELOW_CACHE}"),
            Note::StoredResults { trace, stored, all } => {
                write!(f, "{trace}: {stored} of {all} results were computed before")
            }
        }
    }
}

/// Ignores all events, and never stops the work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl LabEvents for Silent {}
