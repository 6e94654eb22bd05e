//! Long values.
