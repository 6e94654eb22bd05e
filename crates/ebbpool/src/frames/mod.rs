//! Frames: their memory, their state, and the latches through which alone their bytes are reached.

mod memory;

pub use memory::{ALIGNMENT, Memory};
