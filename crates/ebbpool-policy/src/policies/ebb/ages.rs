//! Ages in references, in buckets of half a doubling.

/// Buckets of ages. The last one also holds everything older.
pub(super) const BUCKETS: usize = 56;

/// The bucket of an age: each holds half a doubling of `age + 2`, so 0, 1, 2 to 3, 4 to 5, 6 to 9.
///
/// Read from the exponent and the first bit after the point of a double, which takes fewer steps
/// than counting zeros on processors that may lack an instruction for it.
#[inline]
pub(super) fn bucket(age: u64) -> usize {
    const EXPONENT_OF_2: u64 = 1024;
    let halves = (age.wrapping_add(2) as i64 as f64).to_bits() >> (f64::MANTISSA_DIGITS - 2);
    (halves.wrapping_sub(2 * EXPONENT_OF_2) as usize).min(BUCKETS - 1)
}

/// The least age of a bucket.
pub(super) fn start(bucket: usize) -> u64 {
    ((2 + (bucket as u64 & 1)) << (bucket / 2)) - 2
}

/// The number of ages in a bucket; in the last one as if it ended.
pub(super) fn width(bucket: usize) -> u64 {
    start(bucket + 1) - start(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        for at in 0..BUCKETS {
            assert_eq!(bucket(start(at)), at);
            assert_eq!(bucket(start(at) + width(at) - 1), at);
        }
        for age in [1 << 29, 1 << 54, u64::MAX / 4] {
            assert_eq!(bucket(age), BUCKETS - 1);
        }
    }
}
