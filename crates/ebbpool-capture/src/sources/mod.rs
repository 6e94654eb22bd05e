//! What can be captured: one module each.

pub mod postgres;
