//! Reference counts in 16 bits, and the levels by which pages are compared.

/// The number of times a page was referenced, or written, since its history began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EventCount(u16);

/// The bits of a single-precision number below its exponent.
const MANTISSA_BITS: u32 = f32::MANTISSA_DIGITS - 1;
/// The exponent of 1.
const EXPONENT_OF_1: u32 = f32::MAX_EXP as u32 - 1;

impl EventCount {
    /// That many events, as far as 16 bits reach.
    #[inline]
    pub(super) const fn from_number(number: u32) -> Self {
        const MOST: u32 = u16::MAX as u32;
        EventCount(if number < MOST { number } else { MOST } as u16)
    }

    #[inline]
    pub(super) fn number(self) -> u32 {
        self.0.into()
    }

    /// One event more, as far as 16 bits reach.
    #[inline]
    pub(super) fn and_one(self) -> Self {
        EventCount(self.0.saturating_add(1))
    }

    /// The parts of doublings, `2^bits` to each, by which the count exceeds 1; a count of 0 is 1.
    #[inline]
    const fn parts(self, bits: u32) -> u32 {
        let number = if self.0 == 0 { 1 } else { self.0 };
        let float = (number as f32).to_bits();
        (float >> (MANTISSA_BITS - bits)) - (EXPONENT_OF_1 << bits)
    }

    /// Doublings: 0 for 1, 1 for 2 and 3, 2 for 4 to 7.
    #[inline]
    pub(super) const fn doublings(self) -> u32 {
        self.parts(0)
    }

    /// Half doublings up to 16 and doublings from there, without the half between 1 and 2, which no count has: 0 for 1, 1
    /// for 2, 2 for 3, 3 for 4 and 5.
    #[inline]
    pub(super) const fn level(self) -> u32 {
        const HALVES: u32 = 8;
        let halves = self.parts(1);
        let level = match halves.checked_sub(HALVES) {
            Some(more) => HALVES + more / 2,
            None => halves,
        };
        level.saturating_sub(1)
    }

    /// Quarter doublings, below 64.
    #[inline]
    pub(super) fn quarters(self) -> u32 {
        self.parts(2)
    }

    /// The least count of that many quarter doublings, below 64.
    #[inline]
    pub(super) fn from_quarters(quarters: u32) -> Self {
        let float = (quarters + (EXPONENT_OF_1 << 2)) << (MANTISSA_BITS - 2);
        EventCount(f32::from_bits(float).ceil() as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_halves_of_doublings_and_doublings() {
        let counts = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 31, 32, 64];
        let levels = counts.map(|count| EventCount(count).level());
        assert_eq!(levels, [0, 1, 2, 3, 3, 4, 4, 5, 5, 6, 7, 7, 8, 9]);
        let doublings = counts.map(|count| EventCount(count).doublings());
        assert_eq!(doublings, [0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6]);
        assert_eq!(EventCount(0).level(), 0);
        assert_eq!(EventCount(u16::MAX).and_one(), EventCount(u16::MAX));
    }

    #[test]
    fn quarters_lose_at_most_a_fifth() {
        for count in 1..=u16::MAX {
            let quarters = EventCount(count).quarters();
            assert!(quarters < 64);
            let EventCount(least) = EventCount::from_quarters(quarters);
            assert!(least <= count && f32::from(count) < 1.25 * f32::from(least), "{count}");
        }
    }
}
