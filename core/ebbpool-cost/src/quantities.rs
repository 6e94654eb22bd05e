//! Sizes in bytes, times and rates in the form that users write: `128MiB`, `10min`, `10GB/day`.

mod byte_size;
mod bytes_per_day;
mod number;
mod time;

pub use byte_size::{ByteSize, ByteSizeError};
pub use bytes_per_day::{BytesPerDay, BytesPerDayError};
pub use time::{DurationError, parse_duration, split_period};
