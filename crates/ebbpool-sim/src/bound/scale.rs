//! Positions at even distances, between which prices are interpolated.

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
        Scale {
            shift,
            length,
            end: (length - 1).div_ceil(1 << shift) + 1,
        }
    }

    /// The finest scale with at most that many slots, and the end.
    pub(super) fn with_slots(length: usize, most: usize) -> Self {
        let shift = (0..usize::BITS).find(|shift| length >> shift <= most);
        Scale::new(length, shift.unwrap_or(0))
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

    /// The slot before the position, and the distance from it, in slots.
    #[inline]
    fn locate(self, position: u32) -> (usize, f64) {
        let position = position as usize;
        if position == self.length {
            return (self.end, 0.0);
        }
        let before = position >> self.shift;
        let rest = position - (before << self.shift);
        (before, rest as f64 / self.step() as f64)
    }

    /// The price of a frame at all positions before this one.
    #[inline]
    pub(super) fn price(self, prices: &[f64], position: u32) -> f64 {
        let (before, share) = self.locate(position);
        let price = prices[before];
        match prices.get(before + 1) {
            Some(next) => price + share * (next - price),
            None => price,
        }
    }

    /// Adds `value` at a position: the transpose of `price`.
    #[inline]
    pub(super) fn add(self, values: &mut [f64], position: u32, value: f64) {
        let (before, share) = self.locate(position);
        values[before] += value * (1.0 - share);
        if let Some(next) = values.get_mut(before + 1) {
            *next += value * share;
        }
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
                assert!(
                    nearest <= scale.end()
                        && (nearest == scale.end()) == (position as usize == length)
                );
            }
        }
    }
}
