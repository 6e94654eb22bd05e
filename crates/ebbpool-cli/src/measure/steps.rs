//! How far a measurement goes.

/// Queue depths, and pages of a batch.
pub(super) const STEPS: [u32; 6] = [1, 2, 4, 8, 16, 32];
