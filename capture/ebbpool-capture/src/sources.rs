//! What can be captured: one module each.

pub mod device;
mod file_event;
mod kernel_memory;
pub mod mysql;
mod open_files;
pub mod postgres;
pub mod sqlite;
pub mod system_calls;

pub use file_event::FileEvent;
