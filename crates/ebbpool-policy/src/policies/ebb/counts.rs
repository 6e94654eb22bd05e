//! Reference counts that fade, as logarithms in 16 bits.

/// A count's binary logarithm is stored in units of one part in this many.
const PARTS: i32 = 1 << 11;
/// The number of parts in half a doubling of a count.
const PARTS_OF_LEVEL: u16 = 1 << 10;
const PARTS_OF_QUARTER: u16 = PARTS_OF_LEVEL / 2;
/// The table for adding 1 has an entry for logarithms this many parts apart.
const STEP: i32 = 8;
/// Above this many doublings, 1 more makes no difference.
const DOUBLINGS: usize = 13;
const STEPS: usize = DOUBLINGS * (PARTS / STEP) as usize;

/// `log2(1 + 2^-x)` in parts, where x is a number of steps.
static ONE_MORE: [u16; STEPS] = one_more();

/// The binary logarithm of a count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogCount(u16);

/// The rate at which counts fade: the fraction of a part lost per reference, in units of 2^-44.
#[derive(Clone, Copy, Debug)]
pub(super) struct FadingRate(u64);

const FRACTION_BITS: u32 = 44;

impl FadingRate {
    /// Counts halve in `half_life` references.
    pub(super) fn with_half_life(half_life: f64) -> Self {
        let one = (1u64 << FRACTION_BITS) as f64;
        FadingRate((f64::from(PARTS) / half_life * one) as u64)
    }

    /// Parts lost in `age` references, or more than there can be.
    #[inline]
    fn lost(self, age: u64) -> i32 {
        let lost = age.saturating_mul(self.0);
        (lost.saturating_add(1 << (FRACTION_BITS - 1)) >> FRACTION_BITS) as i32
    }
}

impl LogCount {
    /// A count of 1.
    pub(super) const ONE: LogCount = LogCount(0);

    /// Faded over `age` references; then 1 more if `counts`, and at least 1.
    #[inline]
    pub(super) fn referenced(self, age: u64, fading: FadingRate, counts: bool) -> Self {
        let remaining = i32::from(self.0) - fading.lost(age);
        let more = if counts { one_more_than(remaining) } else { 0 };
        LogCount((remaining.max(0) + more).min(i32::from(u16::MAX)) as u16)
    }

    /// The half doublings of the count, at most `highest`.
    #[inline]
    pub(super) fn level(self, highest: u8) -> u8 {
        (self.0 / PARTS_OF_LEVEL).min(u16::from(highest)) as u8
    }

    /// The quarter doublings of the count, below 64 for any count that can occur.
    #[inline]
    pub(super) fn quarters(self) -> u32 {
        u32::from(self.0 / PARTS_OF_QUARTER)
    }

    /// A count in the middle of `quarters` quarter doublings, of which there are at most 127.
    #[inline]
    pub(super) fn from_quarters(quarters: u32) -> Self {
        LogCount(quarters as u16 * PARTS_OF_QUARTER + PARTS_OF_QUARTER / 2)
    }
}

/// What adding 1 to the count adds to the logarithm `remaining`, or to 0 if that is more.
#[inline]
fn one_more_than(remaining: i32) -> i32 {
    let step = (remaining.unsigned_abs() as usize + STEP as usize / 2) / STEP as usize;
    ONE_MORE.get(step).map_or(0, |&more| i32::from(more))
}

/// Computed with the four basic operations alone, which are the same on every machine.
const fn one_more() -> [u16; STEPS] {
    /// 2^(-1/256)
    const FALL: f64 = 0.997_296_056_085_470_1;
    let mut table = [0; STEPS];
    let mut power = 1.0;
    let mut step = 0;
    while step < STEPS {
        // ln(1 + y) = 2 artanh(y / (2 + y))
        let ratio = power / (2.0 + power);
        let square = ratio * ratio;
        let mut sum = 0.0;
        let mut k = 20;
        while k > 0 {
            k -= 1;
            sum = sum * square + 1.0 / (2 * k + 1) as f64;
        }
        let log2 = 2.0 * ratio * sum * std::f64::consts::LOG2_E;
        table[step] = (PARTS as f64 * log2 + 0.5) as u16;
        power *= FALL;
        step += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_equals_the_library_function() {
        for (step, &more) in ONE_MORE.iter().enumerate() {
            let x = step as f64 / 256.0;
            let exact = 2048.0 * (1.0 + (-x).exp2()).log2();
            assert!((exact - f64::from(more)).abs() < 0.501, "{step}");
        }
    }

    #[test]
    fn counts_grow_and_fade() {
        let forever = FadingRate::with_half_life(1e12);
        let mut count = LogCount::ONE;
        for n in 2..500 {
            count = count.referenced(1, forever, true);
            let exact = 2048.0 * f64::from(n).log2();
            assert!((f64::from(count.0) - exact).abs() < 30.0, "{n}: {count:?}");
        }
        let fading = FadingRate::with_half_life(100.0);
        assert_eq!(
            LogCount(8192).referenced(100, fading, false),
            LogCount(6144)
        );
        assert_eq!(LogCount(100).referenced(100, fading, false), LogCount(0));
        // A count of 1 faded to one half, and 1.
        let exact = (2048.0 * 1.5f64.log2()).round() as u16;
        assert_eq!(LogCount(0).referenced(100, fading, true), LogCount(exact));
        assert_eq!(LogCount(0).referenced(u64::MAX, fading, true), LogCount(0));
        assert_eq!(LogCount(4096).level(19), 4);
        assert_eq!(LogCount(u16::MAX).level(19), 19);
        assert_eq!(LogCount(1100).quarters(), 2);
        assert_eq!(LogCount::from_quarters(2), LogCount(1280));
    }
}
