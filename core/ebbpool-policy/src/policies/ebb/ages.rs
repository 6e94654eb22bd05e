//! Ages in references, in buckets of half a doubling.

/// The half doublings of ages that are distinguished. The last one also holds everything older.
pub(super) const HALF_DOUBLINGS: usize = 56;
/// The buckets of ages in the tables of a pool.
pub(super) const BUCKETS: usize = 32;
/// Ages of less than one reference for that many frames share a bucket. Somewhat older pages may well be the right victim, if
/// those of their kind are referenced again at once or not at all.
const FRAMES_PER_REFERENCE: u32 = 1024;

/// The half doubling of an age: each holds half a doubling of `age + 2`, so 0, 1, 2 to 3, 4 to 5, 6 to 9.
///
/// Read from the exponent and the first bit after the point of a double, which takes fewer steps
/// than counting zeros on processors that may lack an instruction for it.
#[inline]
pub(super) fn half_doubling(age: u64) -> usize {
    halves(age).min(HALF_DOUBLINGS - 1)
}

/// The half doubling of an age if all were distinguished.
#[inline]
fn halves(age: u64) -> usize {
    const EXPONENT_OF_2: u64 = 1024;
    let halves = (age.wrapping_add(2) as i64 as f64).to_bits() >> (f64::MANTISSA_DIGITS - 2);
    halves.wrapping_sub(2 * EXPONENT_OF_2) as usize
}

/// The least age of a half doubling.
pub(super) fn start(half_doubling: usize) -> u64 {
    ((2 + (half_doubling as u64 & 1)) << (half_doubling / 2)) - 2
}

/// The buckets of ages in a pool of some size: half a doubling each, from one reference for 1024 frames to some 60 references
/// a frame. The first and the last one also hold what is younger and older.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgeBuckets {
    /// The half doubling that ends with the first bucket.
    first: usize,
}

impl AgeBuckets {
    pub(super) fn new(frames: u32) -> Self {
        let first = half_doubling((frames / FRAMES_PER_REFERENCE).into());
        AgeBuckets { first: first.min(HALF_DOUBLINGS - BUCKETS) }
    }

    /// How many buckets later the bucket of an age is among those of another pool.
    pub(super) fn later_in(self, other: AgeBuckets) -> isize {
        self.first as isize - other.first as isize
    }

    /// The bucket of an age.
    #[inline]
    pub(super) fn bucket(self, age: u64) -> usize {
        halves(age).saturating_sub(self.first).min(BUCKETS - 1)
    }

    /// The half doublings in a bucket; in the last one as if it ended after one.
    pub(super) fn half_doublings(self, bucket: usize) -> std::ops::RangeInclusive<usize> {
        let last = self.first + bucket;
        match bucket {
            0 => 0..=last,
            _ => last..=last,
        }
    }

    /// The number of ages in a bucket; in the last one as if it ended.
    pub(super) fn width(self, bucket: usize) -> u64 {
        let halves = self.half_doublings(bucket);
        start(halves.end() + 1) - start(*halves.start())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_doublings_follow_each_other() {
        for at in 0..HALF_DOUBLINGS {
            assert_eq!(half_doubling(start(at)), at);
            assert_eq!(half_doubling(start(at + 1) - 1), at);
        }
        for age in [1 << 29, 1 << 54, u64::MAX / 4] {
            assert_eq!(half_doubling(age), HALF_DOUBLINGS - 1);
        }
    }

    #[test]
    fn buckets_cover_all_ages_and_follow_the_size_of_the_pool() {
        for frames in [1, 31, 100, 16_384, 1 << 20, u32::MAX] {
            let buckets = AgeBuckets::new(frames);
            let mut age = 0;
            for bucket in 0..BUCKETS {
                assert_eq!(buckets.bucket(age), bucket, "{frames}");
                age += buckets.width(bucket);
                assert_eq!(buckets.bucket(age - 1), bucket, "{frames}");
            }
            assert_eq!(buckets.bucket(u64::MAX / 4), BUCKETS - 1);
        }
        let buckets = AgeBuckets::new(16_384);
        assert_eq!((buckets.bucket(21), buckets.bucket(22)), (0, 1));
        assert_eq!((buckets.width(0), buckets.width(1)), (22, 8));
    }
}
