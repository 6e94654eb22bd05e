//! The CPU time of this process.

use std::fs;

/// Seconds of user and system time so far; Linux only, in ticks of 10 ms.
pub fn seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, after_name) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let mut times = after_name.split_whitespace().skip(11);
    let mut ticks =
        || -> Result<f64, Box<dyn std::error::Error>> { Ok(times.next().ok_or("too few fields in /proc/self/stat")?.parse()?) };
    Ok((ticks()? + ticks()?) / 100.0)
}
