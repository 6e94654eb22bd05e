//! Piecewise linear prices between knots, and the nearest prices that never decrease.

/// Knots every `block` positions, at the last position and at the end.
///
/// The end has a knot of its own, because the prices usually jump there, which affects only pages
/// left dirty.
pub(super) struct Grid {
    block: usize,
    /// The last position.
    last: usize,
}

impl Grid {
    /// For a trace of that many positions, at least one.
    pub(super) fn new(block: usize, length: usize) -> Self {
        Grid { block, last: length - 1 }
    }

    /// The prices at the knots.
    pub(super) fn sample(&self, prices: &[f64]) -> Vec<f64> {
        let along = prices[..self.last].iter().step_by(self.block).copied();
        along.chain(prices[self.last..].iter().copied()).collect()
    }

    /// The positions from each knot to the next, except the end.
    fn segments(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let starts = (0..self.last).step_by(self.block);
        starts.map(|start| start..(start + self.block).min(self.last))
    }

    /// The prices at all positions from those at the knots.
    pub(super) fn spread(&self, knots: &[f64], prices: &mut [f64]) {
        for (segment, pair) in self.segments().zip(knots.windows(2)) {
            let step = (pair[1] - pair[0]) / segment.len() as f64;
            for (offset, price) in prices[segment].iter_mut().enumerate() {
                *price = pair[0] + step * offset as f64;
            }
        }
        let ends = &knots[knots.len() - 2..];
        prices[self.last..].copy_from_slice(ends);
    }

    /// Distributes the values at positions to the knots on both sides: the transpose of `spread`.
    pub(super) fn gather(&self, positions: &[f64], knots: &mut [f64]) {
        knots.fill(0.0);
        for (knot, segment) in self.segments().enumerate() {
            let length = segment.len() as f64;
            let (mut left, mut right) = (0.0, 0.0);
            for (offset, value) in positions[segment].iter().enumerate() {
                let share = offset as f64 / length;
                left += value * (1.0 - share);
                right += value * share;
            }
            knots[knot] += left;
            knots[knot + 1] += right;
        }
        let ends = knots.len() - 2;
        for (knot, value) in knots[ends..].iter_mut().zip(&positions[self.last..]) {
            *knot += value;
        }
    }
}

/// Makes values non-negative and never decreasing, changed as little as possible (least squares
/// under the weights), by pooling adjacent violators. `blocks` is scratch space.
pub(super) fn make_monotone(values: &mut [f64], weights: &[f64], blocks: &mut Vec<(f64, f64, usize)>) {
    blocks.clear();
    for (&value, &weight) in values.iter().zip(weights) {
        let mut block = (value, weight, 1);
        while let Some(&(before, its_weight, count)) = blocks.last() {
            if before <= block.0 {
                break;
            }
            blocks.pop();
            let both = its_weight + block.1;
            let mean = (before * its_weight + block.0 * block.1) / both;
            block = (mean, both, count + block.2);
        }
        blocks.push(block);
    }
    let mut rest = values;
    for &(value, _, count) in blocks.iter() {
        let (block, after) = rest.split_at_mut(count);
        block.fill(value.max(0.0));
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prices_are_linear_between_knots() {
        let grid = Grid::new(4, 7);
        let mut prices = vec![0.0; 8];
        grid.spread(&[0.0, 4.0, 5.0, 9.0], &mut prices);
        assert_eq!(prices, [0.0, 1.0, 2.0, 3.0, 4.0, 4.5, 5.0, 9.0]);
        assert_eq!(grid.sample(&prices), [0.0, 4.0, 5.0, 9.0]);
        let one = Grid::new(1, 1);
        assert_eq!(one.sample(&[0.0, 3.0]), [0.0, 3.0]);
    }

    proptest! {
        #[test]
        fn gathering_is_the_transpose_of_spreading(
            length in 1usize..60,
            block in 1usize..20,
            seed in prop::collection::vec(-4.0..4.0, 200),
        ) {
            let grid = Grid::new(block, length);
            let knots = &seed[..grid.sample(&seed[..=length]).len()];
            let positions = &seed[100..=100 + length];
            let mut prices = vec![f64::NAN; length + 1];
            grid.spread(knots, &mut prices);
            let mut gathered = vec![f64::NAN; knots.len()];
            grid.gather(positions, &mut gathered);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let (one, other) = (dot(&prices, positions), dot(knots, &gathered));
            prop_assert!((one - other).abs() < 1e-9, "{one} {other}");
        }

        #[test]
        fn no_monotone_values_are_nearer(
            values in prop::collection::vec((-3.0..5.0, 0.1..4.0), 1..12),
            steps in prop::collection::vec(0.0..2.0, 12),
        ) {
            let (values, weights): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
            let mut nearest = values.clone();
            make_monotone(&mut nearest, &weights, &mut Vec::new());
            prop_assert!(nearest[0] >= 0.0 && nearest.is_sorted());
            let distance = |to: &[f64]| {
                let each = to.iter().zip(&values).zip(&weights);
                each.map(|((to, value), weight)| weight * (to - value).powi(2)).sum::<f64>()
            };
            let mut sum = 0.0;
            let rising: Vec<f64> = steps[..values.len()].iter().map(|step| { sum += step; sum }).collect();
            // No feasible point, and no point on the way to it, is nearer.
            for share in [0.01, 0.3, 1.0] {
                let other: Vec<f64> = nearest.iter().zip(&rising).map(|(n, r)| n + share * (r - n)).collect();
                prop_assert!(distance(&nearest) <= distance(&other) + 1e-9);
            }
        }
    }
}
