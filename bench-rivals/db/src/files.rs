//! What is on the file system, and what was written to it.

use std::fs;
use std::path::Path;

use crate::Failure;

/// Bytes of all files in a directory.
pub fn length(directory: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Bytes that this process has caused to be written to storage so far: directly, or by making pages of the
/// kernel's cache dirty (`write_bytes` of proc(5)).
pub fn written() -> Result<u64, Failure> {
    let told = fs::read_to_string("/proc/self/io")?;
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    let bytes = line.ok_or("/proc/self/io has no write_bytes")?;
    Ok(bytes.parse()?)
}
