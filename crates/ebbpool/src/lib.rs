//! A buffer pool that knows what a write costs.

mod double_write;
mod error;
mod frames;
mod log;
mod page;
pub mod storage;

pub use double_write::{DoubleWriteArea, InPlace, Mark};
pub use error::Error;
pub use frames::{ALIGNMENT, Memory};
pub use log::{Log, Lsn, NoLog};
pub use page::{Damage, HEADER_BYTES, PageFormat};
