//! The knee of a curve: the memory from which on more is hardly worth while.

use schemars::JsonSchema;
use serde::Serialize;

/// The least saving that makes a doubling of the memory worth while, as a share of the bill.
pub(crate) const WORTH_DOUBLING: f64 = 0.1;

/// Sizes nearer to each other than this ratio say nothing about doublings.
const LEAST_STEP: f64 = 1.2;

/// The size from which more memory is hardly worth while.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct Knee {
    /// Frames.
    pub frames: u64,
    /// Bytes, if the size of a page is known.
    pub bytes: Option<u64>,
    /// The next doubling saves less than this share of the bill.
    pub threshold: f64,
}

/// The smallest of these sizes (frames and bill, ascending) from which on every doubling of the memory saves less than
/// [`WORTH_DOUBLING`] of the bill. Between two sizes the bill follows a power of the memory, and a size that holds all
/// `distinct_pages` of the trace has the bill of any larger one. Where twice a size is beyond the largest one, the step to
/// that counts as the share of a doubling that it is. `None` if the last doubling still saves more, or nothing says so.
pub(crate) fn knee(points: &[(u64, f64)], page_size: Option<u64>, distinct_pages: u64) -> Option<Knee> {
    let saved = |at: usize| saved_by_doubling(points, at, distinct_pages);
    // The sizes before the largest one whose doubling is not known are as the next one.
    let mut knee = None;
    for at in (0..points.len()).rev() {
        match saved(at) {
            Some(saved) if saved >= WORTH_DOUBLING => break,
            Some(_) => knee = Some(points[at].0),
            None => {}
        }
    }
    knee.map(|frames| Knee { frames, bytes: page_size.map(|size| frames.saturating_mul(size)), threshold: WORTH_DOUBLING })
}

/// The share of the bill that a doubling of the memory saves from one of the sizes on; `None` if no size is far enough away.
fn saved_by_doubling(points: &[(u64, f64)], at: usize, distinct_pages: u64) -> Option<f64> {
    let (frames, bill) = points[at];
    let (largest, least) = *points.last()?;
    let saved = |then: f64| if bill > 0.0 { 1.0 - then / bill } else { 0.0 };
    let twice = 2.0 * frames as f64;
    if let Some(above) = points.iter().position(|point| point.0 as f64 >= twice) {
        let (below, above) = (points[above - 1], points[above]);
        let part = (twice / below.0 as f64).ln() / (above.0 as f64 / below.0 as f64).ln();
        let then = if below.1 > 0.0 && above.1 > 0.0 { below.1 * (above.1 / below.1).powf(part) } else { above.1 };
        return Some(saved(then));
    }
    if largest >= distinct_pages {
        return Some(saved(least));
    }
    let ratio = largest as f64 / frames as f64;
    (ratio >= LEAST_STEP && bill > 0.0).then(|| 1.0 - (least / bill).powf(1.0 / ratio.log2()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_doublings_cease_to_save() {
        let at = |points: &[(u64, f64)]| knee(points, Some(4096), u64::MAX).map(|knee| knee.frames);
        let curve = [(10, 8.0), (20, 4.0), (40, 3.8), (80, 3.7)];
        assert_eq!(at(&curve), Some(20));
        assert_eq!(knee(&curve, Some(4096), u64::MAX).and_then(|it| it.bytes), Some(81_920));
        // A plateau before a fall is no knee.
        assert_eq!(at(&[(10, 8.0), (20, 8.0), (40, 4.0), (80, 4.0)]), Some(40));
        assert_eq!(at(&[(10, 8.0), (20, 4.0), (40, 2.0)]), None);
        assert_eq!(at(&[(10, 1.0), (20, 1.0)]), Some(10));
        // Half a doubling that saves 6 % is a doubling that saves more than a tenth.
        assert_eq!(at(&[(100, 1.0), (141, 0.94)]), None);
        assert_eq!(at(&[(100, 0.0), (200, 0.0)]), Some(100));
        assert_eq!(at(&[]), None);
        assert_eq!(at(&[(5, 1.0)]), None);
    }

    #[test]
    fn no_memory_beyond_all_pages_saves_anything() {
        let at = |points: &[(u64, f64)]| knee(points, None, 40).map(|knee| knee.frames);
        assert_eq!(at(&[(10, 8.0), (20, 4.0), (40, 2.0)]), Some(40));
        assert_eq!(at(&[(40, 2.0)]), Some(40));
        // Also where the steps are small: from 36 on less than a tenth is left to save.
        assert_eq!(at(&[(32, 1.2), (36, 1.05), (40, 1.0)]), Some(36));
    }

    #[test]
    fn the_knee_does_not_hang_on_the_sizes_between() {
        let bill = |frames: u64| if frames < 1000 { 1000.0 / frames as f64 } else { 1.0 };
        let at = |sizes: &[u64]| {
            let points: Vec<(u64, f64)> = sizes.iter().map(|&frames| (frames, bill(frames))).collect();
            knee(&points, None, 1000).map(|knee| knee.frames)
        };
        assert_eq!((at(&[250, 500, 1000]), at(&[125, 250, 400, 500, 700, 800, 1000])), (Some(1000), Some(1000)));
    }
}
