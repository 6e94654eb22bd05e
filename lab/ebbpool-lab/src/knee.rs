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
/// [`WORTH_DOUBLING`] of the bill. A step between two sizes that is no doubling counts as the share of a doubling that
/// it is. `None` if the last step still saves more.
pub(crate) fn knee(points: &[(u64, f64)], page_size: Option<u64>) -> Option<Knee> {
    let (mut knee, mut rest) = points.split_last().map(|(last, rest)| (*last, rest))?;
    let mut steps = 0;
    while let Some((&smaller, before)) = rest.split_last() {
        let ratio = knee.0 as f64 / smaller.0 as f64;
        if ratio >= LEAST_STEP {
            if saved_by_doubling(smaller, knee) >= WORTH_DOUBLING {
                break;
            }
            steps += 1;
            knee = smaller;
        } else if steps > 0 {
            knee = smaller;
        }
        rest = before;
    }
    // A curve that still falls at its last step has its knee at a size that it does not show.
    (steps > 0).then(|| Knee {
        frames: knee.0,
        bytes: page_size.map(|size| knee.0.saturating_mul(size)),
        threshold: WORTH_DOUBLING,
    })
}

/// The share of the bill that a doubling of the memory saves, from the step between two sizes.
fn saved_by_doubling(smaller: (u64, f64), larger: (u64, f64)) -> f64 {
    if smaller.1 <= 0.0 {
        return 0.0;
    }
    let doublings = (larger.0 as f64 / smaller.0 as f64).log2();
    1.0 - (larger.1 / smaller.1).powf(1.0 / doublings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_doublings_cease_to_save() {
        let at = |points: &[(u64, f64)]| knee(points, Some(4096)).map(|knee| knee.frames);
        let curve = [(10, 8.0), (20, 4.0), (40, 3.8), (80, 3.7)];
        assert_eq!(at(&curve), Some(20));
        assert_eq!(knee(&curve, Some(4096)).and_then(|it| it.bytes), Some(81_920));
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
}
