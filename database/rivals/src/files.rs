//! What is on the file system, and what was written to it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::Failure;

/// Place in `/sys/dev/block/*/stat` (Documentation/block/stat.rst of the kernel).
const SECTORS_WRITTEN: usize = 6;

/// How long the device has to be idle.
const IDLE: Duration = Duration::from_secs(2);

/// Bytes of all files in a directory.
pub fn length(directory: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Warns if others write to the device of a directory, whose bytes would be counted for the engine that is measured.
pub fn warn_of_others(directory: &Path) -> Result<(), Failure> {
    fs::create_dir_all(directory)?;
    let before = written(directory)?;
    thread::sleep(IDLE);
    let by_others = written(directory)? - before;
    if by_others > 0 {
        eprintln!(
            "db-rivals: {} KiB were written to the device of {} in {IDLE:?} in which no engine ran; the bytes of engines will be \
             too many. Give a directory of a file system of its own, such as a loop device.",
            by_others.div_ceil(1024),
            directory.display(),
        );
    }
    Ok(())
}

/// Bytes that the device of a directory has written so far for all processes: nothing else may be at
/// work. What the kernel says of a process (`write_bytes` of proc(5)) counts pages that become dirty,
/// and was up to fifty times of this for redb.
pub fn written(directory: &Path) -> Result<u64, Failure> {
    rustix::fs::syncfs(fs::File::open(directory)?)?;
    let device = fs::metadata(directory)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let path = format!("/sys/dev/block/{major}:{minor}/stat");
    let stat = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let sectors = stat.split_whitespace().nth(SECTORS_WRITTEN);
    let sectors: u64 = sectors.ok_or(format!("{path} has too few numbers"))?.parse()?;
    Ok(sectors * 512)
}
