//! Tests of the whole database: compared with a model, with threads, with files of all kinds.

mod backups;
mod failures;
mod files;
mod isolation;
mod lost_logs;
mod model;
mod panics;
mod parts;
mod shrinking;
mod threads;
