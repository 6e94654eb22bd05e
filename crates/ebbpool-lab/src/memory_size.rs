//! Memory sizes and warm-ups in the form that users write.

use std::fmt;
use std::str::FromStr;

use ebbpool_cost::Decimal;
use ebbpool_sim::{Size, Warmup};

/// A memory size with its spelling, `3%` or `8000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySize {
    /// The size.
    pub size: Size,
    text: String,
}

/// The error for a text that is not a memory size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a memory size; give frames from 1 up, or per cent above 0, such as 3%")]
pub struct NotAMemorySize(String);

impl MemorySize {
    /// A size of this number of frames, at least 1.
    pub fn frames(frames: u64) -> Self {
        let frames = frames.max(1);
        MemorySize {
            size: Size::Frames(frames),
            text: frames.to_string(),
        }
    }

    /// The spelling.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for MemorySize {
    type Err = NotAMemorySize;

    fn from_str(text: &str) -> Result<Self, NotAMemorySize> {
        let text = text.trim();
        let wrong = || NotAMemorySize(text.into());
        let size = match text.ends_with('%') {
            true => match text.parse::<Decimal>() {
                Ok(share) if !share.is_zero() => Size::Share(share),
                _ => return Err(wrong()),
            },
            false => match text.parse() {
                Ok(frames) if frames > 0 => Size::Frames(frames),
                _ => return Err(wrong()),
            },
        };
        Ok(MemorySize {
            size,
            text: text.into(),
        })
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The error for a text that is not a warm-up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a warm-up; give references, or 0% to 100% of them")]
pub struct NotAWarmup(String);

/// Reads a warm-up: references, or a share of them such as `10%`.
///
/// # Errors
///
/// [`NotAWarmup`] for any other text.
pub fn parse_warmup(text: &str) -> Result<Warmup, NotAWarmup> {
    let text = text.trim();
    let wrong = || NotAWarmup(text.into());
    if text.ends_with('%') {
        return match text.parse::<Decimal>() {
            Ok(share) if !share.exceeds_one() => Ok(Warmup::Share(share)),
            _ => Err(wrong()),
        };
    }
    text.parse().map(Warmup::References).map_err(|_| wrong())
}
