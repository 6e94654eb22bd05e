//! Captures the page requests of running databases, on Linux, without a restart, debug symbols or a change of their
//! configuration.
//!
//! A [`CaptureSource`] finds a target and knows where its requests can be seen; [`capture`] attaches small BPF programs there, which
//! this crate assembles itself, reads their events from a ring in memory, and detaches; [`CapturedTrace`] writes what was
//! seen as a trace. `docs/capture.md` says what each source sees and what it costs.
//!
//! # Invariants
//!
//! 1. Nothing is written to the target, except for the breakpoints that the kernel itself places and removes.
//! 2. Every probe, program and map is a file descriptor of this process, so that the kernel removes all of them when the
//!    process ends, however it ends.
//! 3. A full ring drops events and counts them; the target never waits.
//! 4. Memory is bounded by the ring, by the numbers of references and objects, and by the size of the target's program.
//! 5. The target is not trusted: its files are opened by `foreign` alone, and a probe is placed only into the open file from
//!    which its place was read.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod arch;
mod assembler;
mod btf;
mod calibration;
mod elf;
mod error;
mod event;
mod foreign;
mod hold;
mod kernel;
mod operands;
mod pace;
mod probes;
mod recorder;
mod rights;
mod ring;
mod session;
pub mod sources;
mod symbols;
mod target;
mod trace_file;
mod written;

pub use arch::Arch;
pub use btf::KernelTypes;
pub use calibration::{EventCost, calibrate, time_behind};
pub use elf::{ElfProgram, UsdtProbe};
pub use error::CaptureError;
pub use event::PageEvent;
pub use hold::CaptureLock;
pub use operands::{Location, Operand, operands};
pub use pace::Steps;
pub use recorder::{CaptureBuffer, CapturedObject, ObjectKey};
pub use rights::{Ahead, ignore_stops, keep_rights_for};
pub use session::{CaptureProgress, CaptureSource, End, EventStream, Limits, OtherCost, Runs, SessionReport, capture};
pub use target::{Mapping, Process, mapping};
pub use trace_file::{CaptureOutputs, CapturedTrace, NamedObject, WrittenCapture, facts_path};
pub use written::{CountedWrites, KernelFiles, ProcessBytes, ReadBytes, WriteCounters, WrittenBytes, WrittenDevice};
