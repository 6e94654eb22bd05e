//! What a target and the device below its files write and read, by the kernel's own counters.
//!
//! The counters are sampled when a capture begins and when it ends. `write_bytes` of `/proc/PID/io` counts the bytes of pages
//! that a process made dirty in the page cache, each once until the kernel writes it; that of a parent contains those of
//! children that have ended and for whose end it has asked. `cancelled_write_bytes` are those that never reach a device, because their
//! file was truncated or removed before. `read_bytes` are those that the process made a device read: a read that the kernel's cache
//! answers has none.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::target::Process;

/// Bytes of a sector in the kernel's counters, whatever the device's own sectors are.
const SECTOR: u64 = 512;

/// Counters of the kernel at one moment. What cannot be read is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteCounters {
    /// Bytes of the target's processes.
    pub processes: Option<ProcessBytes>,
    /// The position up to which the target's log is written, in bytes.
    pub log_position: Option<u64>,
    /// The block device below the target's files, and the bytes that it has taken.
    pub device: Option<WrittenDevice>,
}

/// Bytes of processes by the kernel's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessBytes {
    /// Bytes that they have sent to files.
    pub written: u64,
    /// Bytes that devices have read for them.
    pub read: u64,
}

/// A block device, and the bytes that it has taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrittenDevice {
    /// The kernel's name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
}

/// What a source counts by its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedWrites {
    /// Bytes of pages that were written.
    pub page_bytes: Option<u64>,
    /// Bytes that were written to logs and journals.
    pub log_bytes: Option<u64>,
    /// Bytes of pages that were read, by the device or by the kernel's cache.
    pub read_page_bytes: Option<u64>,
}

/// What was written in the seconds of a capture: the object `written` of the file of facts. What is not counted is `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WrittenBytes {
    /// The seconds.
    pub seconds: f64,
    /// Bytes of pages that the target wrote.
    pub page_bytes: Option<u64>,
    /// Bytes by which its log grew, or that it wrote to logs and journals.
    pub log_bytes: Option<u64>,
    /// Bytes that its processes sent to files.
    pub process_bytes: Option<u64>,
    /// The block device below its files, and the bytes that it took from all programs.
    pub device: Option<WrittenDevice>,
}

/// What was read in the seconds of a capture: the object `read` of the file of facts. What is not counted is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadBytes {
    /// Bytes of pages that the target read, by its own count: what the kernel's cache answered is among them.
    pub page_bytes: Option<u64>,
    /// Bytes that devices read for its processes.
    pub process_bytes: Option<u64>,
}

/// By how much a counter grew, unless it is missing or was set back.
fn grown(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

impl ReadBytes {
    /// What was read between two moments.
    pub fn between(before: &WriteCounters, after: &WriteCounters, counted: CountedWrites) -> ReadBytes {
        let read = |counters: &WriteCounters| counters.processes.map(|processes| processes.read);
        ReadBytes { page_bytes: counted.read_page_bytes, process_bytes: grown(read(before), read(after)) }
    }
}

impl WrittenBytes {
    /// What was written between two moments, `time` apart.
    pub fn between(before: &WriteCounters, after: &WriteCounters, counted: CountedWrites, time: Duration) -> WrittenBytes {
        let written = |counters: &WriteCounters| counters.processes.map(|processes| processes.written);
        let device = after.device.as_ref().and_then(|after| {
            let before = before.device.as_ref().filter(|it| it.name == after.name)?;
            Some(WrittenDevice { name: after.name.clone(), bytes: after.bytes.checked_sub(before.bytes)? })
        });
        let log = grown(before.log_position, after.log_position);
        WrittenBytes {
            seconds: time.as_secs_f64(),
            page_bytes: counted.page_bytes,
            log_bytes: counted.log_bytes.or(log),
            process_bytes: grown(written(before), written(after)),
            device,
        }
    }
}

/// Where the kernel shows its counters.
#[derive(Clone, Debug)]
pub struct KernelFiles {
    /// The directory of processes, usually `/proc`.
    pub processes: PathBuf,
    /// The directory of devices, usually `/sys`.
    pub devices: PathBuf,
}

impl Default for KernelFiles {
    fn default() -> Self {
        KernelFiles { processes: "/proc".into(), devices: "/sys".into() }
    }
}

impl KernelFiles {
    /// The bytes of these processes; `None` if the first cannot be looked at. One of the others that has ended meanwhile is in its
    /// parent's counters.
    pub fn bytes_of(&self, processes: &[Process]) -> Option<ProcessBytes> {
        let bytes = |process: &Process| {
            let file = self.processes.join(process.0.to_string()).join("io");
            process_bytes(&fs::read_to_string(file).ok()?)
        };
        let (first, others) = processes.split_first()?;
        let sum = |all: ProcessBytes, one: ProcessBytes| ProcessBytes {
            written: all.written + one.written,
            read: all.read + one.read,
        };
        Some(others.iter().filter_map(bytes).fold(bytes(first)?, sum))
    }

    /// The block device with this number, as `stat` has it, and the bytes that it has taken. `None` for file systems that are on no
    /// single block device.
    pub fn device(&self, number: u64) -> Option<WrittenDevice> {
        let (major, minor) = (libc::major(number), libc::minor(number));
        let directory = self.devices.join(format!("dev/block/{major}:{minor}"));
        let sectors = written_sectors(&fs::read_to_string(directory.join("stat")).ok()?)?;
        let target = fs::canonicalize(&directory).ok()?;
        Some(WrittenDevice { name: target.file_name()?.to_string_lossy().into_owned(), bytes: sectors.saturating_mul(SECTOR) })
    }

    /// The block device below a file, and the bytes that it has taken; `None` for file systems that are on no single one.
    pub fn device_below(&self, path: &Path) -> Option<WrittenDevice> {
        self.device(fs::metadata(path).ok()?.dev())
    }
}

/// The bytes of a process, by the text of `/proc/PID/io`.
fn process_bytes(text: &str) -> Option<ProcessBytes> {
    let field = |name: &str| -> Option<u64> {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse().ok()
    };
    let cancelled = field("cancelled_write_bytes:").unwrap_or(0);
    Some(ProcessBytes { written: field("write_bytes:")?.saturating_sub(cancelled), read: field("read_bytes:")? })
}

/// The sectors that a device has taken, by the text of its `stat`: the seventh number (`Documentation/block/stat.rst`).
fn written_sectors(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (tempfile::TempDir, KernelFiles) {
        let root = tempfile::tempdir().expect("a directory");
        let files = KernelFiles { processes: root.path().join("proc"), devices: root.path().join("sys") };
        (root, files)
    }

    fn io(files: &KernelFiles, process: i32, read: u64, written: u64, cancelled: u64) {
        let directory = files.processes.join(process.to_string());
        fs::create_dir_all(&directory).expect("a directory");
        let text = format!(
            "rchar: 5\nwchar: 7\nsyscr: 1\nsyscw: 1\nread_bytes: {read}\nwrite_bytes: {written}\ncancelled_write_bytes: {cancelled}\n"
        );
        fs::write(directory.join("io"), text).expect("a file");
    }

    #[test]
    fn processes_are_added_up_and_those_that_have_ended_are_in_their_parent() {
        let (_root, files) = files();
        io(&files, 10, 512, 8192, 0);
        io(&files, 11, 1024, 4096, 0);
        let all = [10, 11, 12].map(Process);
        assert_eq!(files.bytes_of(&all), Some(ProcessBytes { written: 12_288, read: 1536 }));
        // 11 ends, and its parent takes its counter.
        fs::remove_dir_all(files.processes.join("11")).expect("removed");
        io(&files, 10, 1536, 20_480, 4096);
        assert_eq!(files.bytes_of(&all), Some(ProcessBytes { written: 16_384, read: 1536 }));
        assert_eq!(files.bytes_of(&[Process(99)]), None);
        assert_eq!(files.bytes_of(&[]), None);
        fs::write(files.processes.join("10/io"), "wchar: 7\n").expect("a file");
        assert_eq!(files.bytes_of(&all), None);
    }

    #[test]
    fn a_device_has_its_name_and_the_bytes_that_it_took() {
        let (_root, files) = files();
        let disk = files.devices.join("devices/virtual/block/vdb1");
        fs::create_dir_all(&disk).expect("a directory");
        let stat = "  332836    12398 18185090   425844    75327   117064 59660032   241539        0    28576   674640\n";
        fs::write(disk.join("stat"), stat).expect("a file");
        let links = files.devices.join("dev/block");
        fs::create_dir_all(&links).expect("a directory");
        std::os::unix::fs::symlink(&disk, links.join("254:17")).expect("a link");
        let found = files.device(libc::makedev(254, 17)).expect("a device");
        assert_eq!((found.name.as_str(), found.bytes), ("vdb1", 59_660_032 * 512));
        assert_eq!(files.device(libc::makedev(254, 18)), None);
        fs::write(disk.join("stat"), "1 2 3\n").expect("a file");
        assert_eq!(files.device(libc::makedev(254, 17)), None);
    }

    #[test]
    fn bytes_are_those_between_two_moments() {
        let counters = |written: Option<u64>, log_position, name: &str, bytes| WriteCounters {
            processes: written.map(|written| ProcessBytes { written, read: 2 * written }),
            log_position,
            device: Some(WrittenDevice { name: name.into(), bytes }),
        };
        let before = counters(Some(100), Some(50), "vda", 512);
        let time = Duration::from_millis(2500);
        let counted = CountedWrites { page_bytes: Some(8192), log_bytes: None, read_page_bytes: Some(9000) };
        let after = counters(Some(300), Some(90), "vda", 2048);
        let found = WrittenBytes::between(&before, &after, counted, time);
        assert_eq!((found.seconds, found.page_bytes), (2.5, Some(8192)));
        assert_eq!((found.log_bytes, found.process_bytes), (Some(40), Some(200)));
        assert_eq!(found.device.map(|device| device.bytes), Some(1536));
        let read = ReadBytes::between(&before, &after, counted);
        assert_eq!(read, ReadBytes { page_bytes: Some(9000), process_bytes: Some(400) });
        // Nothing is made up where a counter is missing or was set back, or where the file system has moved.
        let after = counters(None, Some(10), "vdb", 2048);
        let found = WrittenBytes::between(&before, &after, CountedWrites::default(), time);
        assert_eq!((found.log_bytes, found.process_bytes), (None, None));
        assert_eq!((found.page_bytes, found.device), (None, None));
        // What events counted goes before the position.
        let counted = CountedWrites { log_bytes: Some(7), ..counted };
        let found = WrittenBytes::between(&before, &before, counted, time);
        assert_eq!(found.log_bytes, Some(7));
    }

    #[test]
    fn this_process_and_its_device_are_found() {
        let files = KernelFiles::default();
        // Containers may hide either.
        if let Some(before) = files.bytes_of(&[Process::current()]) {
            let after = files.bytes_of(&[Process::current()]).expect("counters");
            assert!(after.written >= before.written && after.read >= before.read);
        }
        if let Some(device) = files.device_below(Path::new(".")) {
            assert!(!device.name.is_empty() && device.bytes > 0);
        }
    }
}
