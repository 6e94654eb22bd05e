//! Memory sizes in the form that users write.

use std::fmt;
use std::str::FromStr;

use ebbpool_cost::{ByteSize, Decimal};
use ebbpool_sim::BufferSize;

/// A memory size with its spelling: `3%`, `8000` frames, or bytes such as `128MiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemorySize {
    /// The size.
    pub size: BufferSize,
    text: String,
}

/// The error for a text that is not a memory size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a memory size; give frames from 1 up, per cent above 0, such as 3%, or bytes, such as 128MiB")]
pub struct MemorySizeError(String);

impl MemorySize {
    /// A size of this number of frames, at least 1.
    pub fn frames(frames: u64) -> Self {
        let frames = frames.max(1);
        MemorySize { size: BufferSize::Frames(frames), text: frames.to_string() }
    }

    /// The spelling.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for MemorySize {
    type Err = MemorySizeError;

    fn from_str(text: &str) -> Result<Self, MemorySizeError> {
        let text = text.trim();
        let wrong = || MemorySizeError(text.into());
        let size = if text.ends_with('%') {
            match text.parse::<Decimal>() {
                Ok(share) if !share.is_zero() => BufferSize::Share(share),
                _ => return Err(wrong()),
            }
        } else if text.ends_with(|last: char| last.is_ascii_alphabetic()) {
            match text.parse::<ByteSize>() {
                Ok(bytes) if bytes.bytes() > 0 => BufferSize::Bytes(bytes),
                _ => return Err(wrong()),
            }
        } else {
            match text.parse() {
                Ok(frames) if frames > 0 => BufferSize::Frames(frames),
                _ => return Err(wrong()),
            }
        };
        Ok(MemorySize { size, text: text.into() })
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_size_is_frames_a_share_or_bytes_with_a_unit() {
        let size = |text: &str| text.parse().map(|size: MemorySize| size.size);
        assert_eq!(size("8000"), Ok(BufferSize::Frames(8000)));
        assert_eq!(size(" 3% "), Ok(BufferSize::Share(Decimal::new(3, 2))));
        for (text, bytes) in [("128MiB", 128 << 20), ("8k", 8192), ("1.5 GB", 1_500_000_000), ("4096B", 4096)] {
            assert_eq!(size(text), Ok(BufferSize::Bytes(ByteSize::new(bytes))), "{text}");
            let parsed = text.parse().map(|size: MemorySize| size.to_string());
            assert_eq!(parsed, Ok(text.to_string()));
        }
        for text in ["", "0", "0%", "0MiB", "-5", "-5MiB", "1e9", "1.5", "8000 frames", "many", "NaN", "99EiB"] {
            let error = size(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("'{text}' is not a memory size")), "{error}");
        }
    }
}
