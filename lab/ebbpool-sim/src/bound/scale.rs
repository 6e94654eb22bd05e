//! Positions at even distances, between which prices are interpolated.

/// The number of slots that is enough where the intervals of interest are long.
const ENOUGH_SLOTS: usize = 1 << 18;

/// The most slots, which take some 80 bytes each in the search.
const MOST_SLOTS: usize = 1 << 21;

/// The number of slots that such an interval should have.
const FINE: f64 = 128.0;

/// A scale of slots along the trace: slot j lies at position j * 2^shift, and the last one at the
/// end.
///
/// The prices of slots stand for the prices of all positions. A search over slots takes a fraction
/// of the memory and time, and loses little as long as the intervals whose price is near their
/// saving span many slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    shift: u32,
    /// The number of positions of the trace, at least one.
    length: usize,
    /// The slot of the end. The slot before it is not before the last position.
    end: usize,
}

impl Scale {
    /// For a trace of that many positions, at least one; a slot every 2^shift positions.
    pub(super) fn new(length: usize, shift: u32) -> Self {
        Scale { shift, length, end: (length - 1).div_ceil(1 << shift) + 1 }
    }

    /// The scale for intervals whose price is near their saving from that many positions on.
    ///
    /// It has about [`ENOUGH_SLOTS`], more where [`FINE`] slots would not fit into such an interval, and
    /// [`MOST_SLOTS`] at most.
    pub(super) fn suiting(length: usize, interval: f64) -> Self {
        let fine_step = (interval / FINE).max(1.0);
        let is_enough = |shift: &u32| {
            let slots = length >> shift;
            let is_fine = (1usize << (shift + 1)) as f64 > fine_step;
            slots <= ENOUGH_SLOTS || is_fine && slots <= MOST_SLOTS
        };
        Scale::new(length, (0..usize::BITS - 1).find(is_enough).unwrap_or(0))
    }

    /// The scale with a slot every `step` positions, a power of two, or this one if that is coarser.
    pub(super) fn at_least(self, step: usize) -> Self {
        Scale::new(self.length, self.shift.max(step.ilog2()))
    }

    /// The prices of another scale's slots, interpolated from those of this one.
    pub(super) fn resample(self, prices: &[f64], to: Scale) -> Vec<f64> {
        let last = (self.end - 1) << self.shift;
        let mut resampled: Vec<f64> = (0..to.end).map(|slot| self.interpolate(prices, (slot << to.shift).min(last))).collect();
        resampled.push(prices[self.end]);
        resampled
    }

    /// The number of positions from one slot to the next.
    pub(super) fn step(self) -> usize {
        1 << self.shift
    }

    /// The slot of the end; prices have one entry more.
    pub(super) fn end(self) -> usize {
        self.end
    }

    /// The position of a slot.
    pub(super) fn place(self, slot: usize) -> usize {
        match slot == self.end {
            true => self.length.max((slot - 1) << self.shift),
            false => slot << self.shift,
        }
    }

    /// The slot before a position, and the distance from it, in slots.
    #[inline]
    fn locate(self, position: usize) -> (usize, f64) {
        let before = position >> self.shift;
        let rest = position - (before << self.shift);
        (before, rest as f64 / self.step() as f64)
    }

    /// The price between two slots, of which the second is not the end.
    #[inline]
    fn interpolate(self, prices: &[f64], position: usize) -> f64 {
        let (before, share) = self.locate(position);
        let (price, next) = (prices[before], prices[before + 1]);
        price + share * (next - price)
    }

    /// The price of a frame at all positions before this one.
    #[inline]
    pub(super) fn price(self, prices: &[f64], position: u32) -> f64 {
        match position as usize == self.length {
            true => prices[self.end],
            false => self.interpolate(prices, position as usize),
        }
    }

    /// Adds `value` at a position: the transpose of `price`.
    #[inline]
    pub(super) fn add(self, values: &mut [f64], position: u32, value: f64) {
        if position as usize == self.length {
            values[self.end] += value;
            return;
        }
        let (before, share) = self.locate(position as usize);
        values[before] += value * (1.0 - share);
        values[before + 1] += value * share;
    }

    /// The slot nearest to a position.
    #[inline]
    pub(super) fn nearest(self, position: u32) -> u32 {
        let position = position as usize;
        match position == self.length {
            true => self.end as u32,
            false => ((position + self.step() / 2) >> self.shift) as u32,
        }
    }

    /// The prices at all positions and the end.
    pub(super) fn spread(self, prices: &[f64]) -> Vec<f64> {
        let positions = 0..=self.length as u32;
        positions.map(|at| self.price(prices, at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_interpolated_between_slots_and_jump_at_the_end() {
        let scale = Scale::new(7, 2);
        assert_eq!((scale.end(), scale.step()), (3, 4));
        let prices = scale.spread(&[0.0, 4.0, 8.0, 20.0]);
        assert_eq!(prices, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 20.0]);
        let nearest: Vec<u32> = (0..=7).map(|at| scale.nearest(at)).collect();
        assert_eq!(nearest, [0, 0, 1, 1, 1, 1, 2, 3]);
        assert_eq!(Scale::new(1, 4).spread(&[0.0, 3.0]), [0.0, 3.0]);
        assert_eq!(Scale::new(4, 0).spread(&[0.0, 1.0, 2.0, 5.0, 6.0]).len(), 5);
    }

    #[test]
    fn short_intervals_have_finer_scales() {
        let step = |length, interval| Scale::suiting(length, interval).step();
        assert_eq!([step(1, 1.0), step(1000, 10.0), step(1 << 18, 1e9)], [1; 3]);
        assert_eq!([step(1 << 20, 1e6), step(1 << 20, 280.0), step(1 << 20, 200.0)], [4, 2, 1]);
        assert_eq!([step(1 << 23, 1e6), step(1 << 23, 20.0)], [32, 4]);
    }

    #[test]
    fn resampled_prices_are_those_of_the_same_positions() {
        for length in [1, 2, 9, 16, 17, 100] {
            let coarse = Scale::new(length, 3);
            let fine = Scale::new(length, 1);
            let prices: Vec<f64> = (0..=coarse.end()).map(|at| (at * at) as f64).collect();
            let finer = coarse.resample(&prices, fine);
            assert_eq!(fine.spread(&finer), coarse.spread(&prices), "{length}");
            assert_eq!(fine.resample(&finer, fine), finer);
            assert!(fine.resample(&finer, coarse).is_sorted());
            assert_eq!(fine.at_least(8).step(), 8);
            assert_eq!(coarse.at_least(2).step(), 8);
        }
    }

    #[test]
    fn adding_is_the_transpose_of_interpolating() {
        for (length, shift) in [(1, 0), (1, 3), (9, 0), (9, 1), (8, 2), (9, 2), (10, 2)] {
            let scale = Scale::new(length, shift);
            let prices: Vec<f64> = (0..=scale.end()).map(|at| (at * at) as f64).collect();
            for position in 0..=length as u32 {
                let mut values = vec![0.0; scale.end() + 1];
                scale.add(&mut values, position, 3.0);
                let product: f64 = values.iter().zip(&prices).map(|(a, b)| a * b).sum();
                assert_eq!(product, 3.0 * scale.price(&prices, position));
                let nearest = scale.nearest(position) as usize;
                assert!(nearest <= scale.end() && (nearest == scale.end()) == (position as usize == length));
            }
        }
    }
}
