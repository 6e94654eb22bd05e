//! Traces as their users meet them: readers, writers, formats and generators.

mod benchmarks;
mod classes;
mod common;
mod damage;
mod foreign;
mod generators;
mod golden;
mod probabilities;
mod reading;
mod requests;
mod rocksdb;
mod round_trip;
mod times;
