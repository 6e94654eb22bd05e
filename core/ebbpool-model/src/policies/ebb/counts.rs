//! Levels of reference counts.

/// Whole doublings of 1 up to the count.
pub(super) fn doublings(count: u32) -> usize {
    count.max(1).ilog2() as usize
}

/// Four numbers to each doubling of 1 and more.
pub(super) fn quarter(quarters: usize) -> f64 {
    (1u64 << (quarters / 4)) as f64 * (1.0 + (quarters % 4) as f64 / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_stored_in_quarters() {
        assert_eq!([0, 3, 4, 5, 8].map(quarter), [1.0, 1.75, 2.0, 2.5, 4.0]);
        assert_eq!([1, 2, 3, 4, 7, 8].map(doublings), [0, 1, 1, 2, 2, 3]);
    }
}
