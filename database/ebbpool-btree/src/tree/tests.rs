//! The tree alone, on a pool with a log, without transactions.

mod damage;
mod failures;
mod fixture;
mod loading;
mod model;
mod structure;
mod threads;
mod walk;
