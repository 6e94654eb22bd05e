//! The memory sizes of the curve.

/// The number of sizes to aim for.
const SIZES: usize = 8;

/// The most doublings of the present memory.
const MOST_DOUBLINGS: usize = 6;

/// The most halvings of the present memory.
const MOST_HALVINGS: usize = 4;

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
    let mut sizes: Vec<u64> = std::iter::successors(Some(base), doubled).take(MOST_DOUBLINGS + 1).collect();
    let halvings = SIZES.saturating_sub(sizes.len() + 1).clamp(2, MOST_HALVINGS);
    sizes.extend((1..=halvings).map(|halving| base >> halving));
    sizes.extend([present, top]);
    sizes.extend(budget);
    sizes.retain(|&frames| frames > 0);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_halvings_and_doublings_of_the_present_memory() {
        assert_eq!(grid(1000, None, 9000), [125, 250, 500, 1000, 2000, 4000, 8000, 9000]);
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
}
