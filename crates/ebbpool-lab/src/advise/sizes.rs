//! The memory sizes of the curve, and its knee.

use schemars::JsonSchema;
use serde::Serialize;

/// The least saving that makes a doubling of the memory worth while, as a share of the bill.
pub const WORTH_DOUBLING: f64 = 0.1;

/// The number of sizes to aim for.
const SIZES: usize = 8;

/// The most doublings of the present memory.
const MOST_DOUBLINGS: usize = 6;

/// The most halvings of the present memory.
const MOST_HALVINGS: usize = 4;

/// Sizes nearer to each other than this ratio say nothing about doublings.
const LEAST_STEP: f64 = 1.2;

/// Memory sizes in frames, ascending: the present size, its doublings up to all pages or to twice the budget, and its
/// halvings; and the budget and the largest size themselves.
pub(super) fn grid(present: u64, budget: Option<u64>, distinct: u64) -> Vec<u64> {
    let distinct = distinct.max(1);
    let top = match budget {
        Some(budget) => distinct.min(budget.max(present).saturating_mul(2)),
        None => distinct,
    };
    let base = present.clamp(1, top);
    let doubled = |frames: &u64| frames.checked_mul(2).filter(|&frames| frames < top);
    let mut sizes: Vec<u64> = std::iter::successors(Some(base), doubled)
        .take(MOST_DOUBLINGS + 1)
        .collect();
    let halvings = SIZES
        .saturating_sub(sizes.len() + 1)
        .clamp(2, MOST_HALVINGS);
    sizes.extend((1..=halvings).map(|halving| base >> halving));
    sizes.extend([present, top]);
    sizes.extend(budget);
    sizes.retain(|&frames| frames > 0);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The size from which more memory is hardly worth while.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
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
pub(super) fn knee(points: &[(u64, f64)], page_size: Option<u64>) -> Option<Knee> {
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
    fn sizes_are_halvings_and_doublings_of_the_present_memory() {
        assert_eq!(
            grid(1000, None, 9000),
            [125, 250, 500, 1000, 2000, 4000, 8000, 9000]
        );
        assert_eq!(grid(1000, Some(1500), 90_000).last(), Some(&3000));
        assert!(grid(1000, Some(1500), 90_000).contains(&1500));
        // The present buffer holds more than all pages.
        assert_eq!(grid(500, None, 64), [4, 8, 16, 32, 64, 500]);
        assert_eq!(grid(1, None, 1), [1]);
        assert_eq!(grid(1, None, 0), [1]);
        let wide = grid(1, None, 1 << 40);
        assert!(wide.len() <= 10 && wide.contains(&(1 << 40)), "{wide:?}");
        assert!(grid(u64::MAX, Some(u64::MAX), u64::MAX).contains(&u64::MAX));
    }

    #[test]
    fn the_knee_is_where_doublings_cease_to_save() {
        let at = |points: &[(u64, f64)]| knee(points, Some(4096)).map(|knee| knee.frames);
        let curve = [(10, 8.0), (20, 4.0), (40, 3.8), (80, 3.7)];
        assert_eq!(at(&curve), Some(20));
        assert_eq!(
            knee(&curve, Some(4096)).and_then(|it| it.bytes),
            Some(81_920)
        );
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
