//! The steps of a measurement.

/// The queue depths, and the numbers of pages of a batch.
pub(super) const STEPS: [u32; 6] = [1, 2, 4, 8, 16, 32];
