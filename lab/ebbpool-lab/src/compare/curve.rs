//! What a comparison over a curve's sizes has beside its cells: LRU at every size, and the errors of sampled results.

use ebbpool_sim::{Errors, LruCurve};
use serde::Serialize;

/// The number of points of LRU's curve in the report.
const MOST_POINTS: u32 = 200;

/// Curves against memory size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Curve {
    /// The answer in a sentence.
    #[serde(skip)]
    pub(crate) sentence: String,
    /// What the other treatment of the pages that are dirty at the end would change.
    #[serde(skip)]
    pub(crate) at_end: Option<String>,
    /// Frames, reads and writes of LRU.
    lru: Vec<(u64, u64, u64)>,
    pub(crate) errors: Vec<CellErrors>,
    /// The memory that the charts mark and that the reader sees first, in frames, and what it is: the least that the
    /// `target` needs, or without a target the `knee`.
    pub(crate) mark: Option<(u64, &'static str)>,
    pub(crate) limit: Option<Limit>,
}

/// The possible error of a sampled result: policy and size (as indices), and the errors of bill,
/// reads and writes as shares.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct CellErrors(usize, usize, Option<f64>, Option<f64>, Option<f64>);

/// The limit that a target sets.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Limit {
    /// `bill`, `reads` or `writes`.
    pub(crate) figure: &'static str,
    /// Per reference.
    pub(crate) most: f64,
    /// The target as the user spelled it.
    pub(crate) text: String,
}

impl Curve {
    pub(crate) fn new(sentence: String, lru: &LruCurve) -> Self {
        let all = lru.distinct_pages().max(1);
        let mut sizes: Vec<u64> =
            (0..=MOST_POINTS).map(|at| (all as f64).powf(f64::from(at) / f64::from(MOST_POINTS)).round() as u64).collect();
        sizes.dedup();
        let point = |frames| {
            let traffic = lru.traffic_at(frames);
            (frames, traffic.reads, traffic.writes)
        };
        Curve {
            sentence,
            at_end: None,
            lru: sizes.into_iter().map(point).collect(),
            errors: Vec::new(),
            mark: None,
            limit: None,
        }
    }
}

impl CellErrors {
    pub(crate) fn new(policy: usize, size: usize, errors: &Errors) -> Self {
        CellErrors(policy, size, errors.cost, errors.reads, errors.writes)
    }
}
