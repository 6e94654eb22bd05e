//! The database as a whole: against a model, with threads, with files of all sorts.

mod failures;
mod files;
mod isolation;
mod lost;
mod model;
mod panics;
mod parts;
mod threads;
