//! The simulated flash device: settings, theory, memory and integrity.

mod config;
mod integrity;
mod memory;
mod theory;
