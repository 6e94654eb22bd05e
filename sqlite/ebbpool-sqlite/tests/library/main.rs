//! The library as programs meet it: on real files, on simulated disks whose power fails, beside other connections, and in copies,
//! damaged and moved files.
//!
//! The tests run in threads of one process. One that changes the process, or needs one that is new, starts it with
//! `support::real::is_alone` or `run_alone`; each VFS that a test registers has a name of its own.

mod attached;
mod copies;
mod crashes;
mod damaged;
mod encrypted;
mod files;
mod golden;
mod handles;
mod moved;
mod mutations;
mod races;
mod readers;
mod refused;
mod short_lived;
mod status;
#[path = "../support/mod.rs"]
mod support;
mod wal_frames;
