//! The simulator: against the model, its golden results, bounds, curves and properties.

mod against_model;
mod bound;
mod common;
mod curve;
mod erase_counts;
mod golden;
mod guests;
mod informed;
mod libcachesim;
mod properties;
mod stated_errors;
