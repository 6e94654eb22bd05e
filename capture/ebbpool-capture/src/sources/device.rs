//! A block device: what all programs and file systems read from it and write to it.
//!
//! A program at the kernel's tracepoint `block_bio_queue` (from Linux 5.12 on) sees each request as it enters the block layer, before it is
//! merged with others or split. A disk's capture has the requests to all of its partitions; a partition's has its own only. Positions count
//! from the start of what is captured: the kernel reports those on the disk, and the start of the partition is subtracted.
//! Discards are left out. A capture sees what missed the page cache, and write-back by the kernel's own threads.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::file_event::{FileEvent, check_page_size, field, kind};
use super::kernel_memory::{clear, follow, to_stack};
use super::open_files::kernel_device;
use crate::assembler::{Assembler, R1, R2, R6, R7, R9, R10};
use crate::btf::KernelTypes;
use crate::error::CaptureError;
use crate::event::{self, Maps, field as event_field};
use crate::probes::{Channel, KernelPlace, Probes};
use crate::recorder::CaptureBuffer;
use crate::session::{CaptureSource, EventStream};
use crate::trace_file::{CapturedTrace, NamedObject};
use crate::written::{KernelFiles, WriteCounters};

/// Bytes of a sector, in which the block layer counts, whatever the device's own sectors are.
const SECTOR: u64 = 512;

/// What was captured, besides references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceCounts {
    /// Requests that read.
    pub reads: u64,
    /// Requests that write.
    pub writes: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Requests without bytes: those that empty the device's own cache.
    pub flushes: u64,
}

/// Offsets in the kernel's structures.
#[derive(Clone, Copy, Debug)]
struct RequestLayout {
    operation: i32,
    bytes: i32,
    sector: i32,
    device: i32,
    device_number: i32,
    disk: i32,
    disk_major: i32,
    disk_minor: i32,
}

impl RequestLayout {
    fn new(types: &KernelTypes) -> Result<RequestLayout, CaptureError> {
        let position = types.offset("bio", "bi_iter")?;
        Ok(RequestLayout {
            operation: types.offset("bio", "bi_opf")?,
            bytes: position.saturating_add(types.offset("bvec_iter", "bi_size")?),
            sector: position.saturating_add(types.offset("bvec_iter", "bi_sector")?),
            device: types.offset("bio", "bi_bdev")?,
            device_number: types.offset("block_device", "bd_dev")?,
            disk: types.offset("block_device", "bd_disk")?,
            disk_major: types.offset("gendisk", "major")?,
            disk_minor: types.offset("gendisk", "first_minor")?,
        })
    }
}

/// A part of a disk or a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DeviceRange {
    /// The kernel's number.
    number: u32,
    /// The first sector on the disk, if it is a partition.
    start: Option<u64>,
}

/// Places on the program's stack, of 8 bytes each.
mod slot {
    pub(super) const OPERATION: i16 = -8;
    pub(super) const BYTES: i16 = -16;
    pub(super) const SECTOR: i16 = -24;
    pub(super) const SCRATCH: i16 = -32;
    pub(super) const ALL: [i16; 4] = [OPERATION, BYTES, SECTOR, SCRATCH];
}

/// Ends the program unless the 4 bytes behind the address in R9 are `number`.
fn require(program: &mut Assembler, distance: i32, number: u32) {
    clear(program, &[slot::SCRATCH]);
    to_stack(program, slot::SCRATCH, 4, R9, distance);
    program.load64(R1, R10, slot::SCRATCH).set64(R2, number.into()).jump_unless_equal(R1, R2, "out");
}

/// A request that enters the block layer. Its context: the address of the `struct bio`.
fn program(maps: Maps, layout: &RequestLayout, range: DeviceRange) -> Vec<u64> {
    const OPERATIONS: i32 = 0xff;
    const READ: i32 = 0;
    const WRITE: i32 = 1;
    const SECTOR_BITS: i32 = 9;
    let mut program = Assembler::default();
    let p = &mut program;
    p.copy(R6, R1).load64(R9, R6, 0);
    clear(p, &slot::ALL);
    to_stack(p, slot::OPERATION, 4, R9, layout.operation);
    p.load64(R1, R10, slot::OPERATION)
        .and_value(R1, OPERATIONS)
        .jump_if_value(R1, READ, "read")
        .jump_if_value(R1, WRITE, "write")
        .jump("out")
        .label("read")
        .set(R1, kind::READ)
        .jump("transfer")
        .label("write")
        .set(R1, kind::WRITE)
        .label("transfer")
        .store64(R10, slot::OPERATION, R1);
    to_stack(p, slot::BYTES, 4, R9, layout.bytes);
    to_stack(p, slot::SECTOR, 8, R9, layout.sector);
    follow(p, slot::SCRATCH, R9, layout.device);
    match range.start {
        Some(_) => require(p, layout.device_number, range.number),
        None => {
            follow(p, slot::SCRATCH, R9, layout.disk);
            require(p, layout.disk_major, range.number >> 20);
            require(p, layout.disk_minor, range.number & 0xf_ffff);
        }
    }
    event::reserve(p, maps, 0);
    p.load32(R1, R10, slot::OPERATION)
        .store32(R7, event_field::KIND, R1)
        .load32(R1, R10, slot::BYTES)
        .store32(R7, field::BYTES, R1)
        .load64(R1, R10, slot::SECTOR)
        .shift_left(R1, SECTOR_BITS)
        .store64(R7, field::POSITION, R1);
    event::submit(p, maps)
}

/// Decodes the events of a device.
#[derive(Debug)]
pub struct DeviceDecoder {
    page_size: u64,
    /// The position on the disk at which the device starts.
    start: u64,
    /// What the events were so far.
    pub counts: DeviceCounts,
}

impl DeviceDecoder {
    /// A decoder for pages of that many bytes, at least 1, and a device that starts at that byte of its disk.
    pub fn new(page_size: u64, start: u64) -> DeviceDecoder {
        DeviceDecoder { page_size: page_size.max(1), start, counts: DeviceCounts::default() }
    }

    /// Takes an event and records the references that it stands for.
    pub fn record(&mut self, event: &FileEvent, recorder: &mut CaptureBuffer) {
        let (counts, bytes) = (&mut self.counts, u64::from(event.bytes));
        match event.kind as i32 {
            kind::READ | kind::WRITE if bytes == 0 => counts.flushes += 1,
            kind::READ => {
                counts.reads += 1;
                counts.read_bytes += bytes;
            }
            kind::WRITE => {
                counts.writes += 1;
                counts.written_bytes += bytes;
            }
            _ => return,
        }
        if bytes > 0 {
            let event = FileEvent { position: event.position.saturating_sub(self.start), ..*event };
            let object = recorder.object([0; 4]);
            event.record(object, self.page_size, recorder);
        }
    }
}

/// A block device under capture.
pub struct DeviceSource {
    path: String,
    range: DeviceRange,
    /// The device's directory in `/sys`.
    directory: String,
    /// Bytes of the device.
    bytes: u64,
    layout: RequestLayout,
    decoder: DeviceDecoder,
}

fn number_in(path: String) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

impl DeviceSource {
    /// The block device at this path, with its requests in pages of that many bytes.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] if it is no block device, if the page size is no power of two, or if the kernel does not describe its
    /// types.
    pub fn open(path: &Path, page_size: u64) -> Result<DeviceSource, CaptureError> {
        check_page_size(page_size)?;
        let name = path.display().to_string();
        let metadata = fs::metadata(path).map_err(CaptureError::read(&name))?;
        if !metadata.file_type().is_block_device() {
            return Err(CaptureError::NotFound(format!("{name} is no block device; `lsblk -p` lists block devices")));
        }
        let device = metadata.rdev();
        let directory = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
        let sectors = number_in(format!("{directory}/size"));
        let sectors =
            sectors.ok_or_else(|| CaptureError::NotFound(format!("the kernel has no device {name} ({directory})")))?;
        // Only partitions have this file, and `start` in it.
        let start = match Path::new(&format!("{directory}/partition")).exists() {
            true => Some(number_in(format!("{directory}/start")).unwrap_or(0)),
            false => None,
        };
        Ok(DeviceSource {
            path: name,
            range: DeviceRange { number: kernel_device(device), start },
            directory,
            bytes: sectors.saturating_mul(SECTOR),
            layout: RequestLayout::new(&KernelTypes::of_kernel()?)?,
            decoder: DeviceDecoder::new(page_size, start.unwrap_or(0).saturating_mul(SECTOR)),
        })
    }

    /// What was captured, besides references.
    pub fn counts(&self) -> DeviceCounts {
        self.decoder.counts
    }

    /// What the capture will do, in a sentence.
    pub fn description(&self) -> String {
        let what = match self.range.start {
            Some(_) => "partition",
            None => "device",
        };
        format!("{what} {} of {} bytes: requests of all programs as they enter the block layer", self.path, self.bytes)
    }

    /// The captured trace, with the device as its only object.
    pub fn trace(&self, recorder: CaptureBuffer) -> CapturedTrace {
        let page_size = self.decoder.page_size;
        let objects = recorder.objects.iter().map(|object| NamedObject {
            name: self.path.clone(),
            group: String::new(),
            kind: Some("device".into()),
            part: String::new(),
            pages: object.pages.max(self.bytes.div_ceil(page_size)),
        });
        CapturedTrace { name: self.path.clone(), page_size, below_cache: true, objects: objects.collect(), recorder }
    }
}

impl CaptureSource for DeviceSource {
    fn attach(&mut self, ring_bytes: u32) -> Result<Box<dyn EventStream>, CaptureError> {
        let channel = Channel::new(ring_bytes)?;
        let code = program(channel.maps(), &self.layout, self.range);
        Probes::watch(channel, &[(KernelPlace::Tracepoint("block_bio_queue"), code)])
    }

    fn record_event(&mut self, event: &[u8], recorder: &mut CaptureBuffer) {
        if let Some(event) = FileEvent::parse(event) {
            self.decoder.record(&event, recorder);
        }
    }

    fn is_alive(&self) -> bool {
        Path::new(&self.directory).exists()
    }

    fn processor_time(&self) -> Option<Duration> {
        None
    }

    fn write_counters(&self) -> WriteCounters {
        let number = self.range.number;
        let number = libc::makedev(number >> 20, number & ((1 << 20) - 1));
        WriteCounters { device: KernelFiles::default().device(number), ..WriteCounters::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_from_the_start_of_the_partition() {
        let mut decoder = DeviceDecoder::new(4096, 1 << 20);
        let mut recorder = CaptureBuffer::default();
        let event = |kind, position, bytes| FileEvent { kind, position, bytes, ..FileEvent::default() };
        for event in
            [event(1, (1 << 20) + 8192, 4096), event(2, 1 << 20, 8192), event(2, 0, 0), event(3, 0, 4096), event(1, 0, 1)]
        {
            decoder.record(&event, &mut recorder);
        }
        let expected = DeviceCounts { reads: 2, writes: 1, read_bytes: 4097, written_bytes: 8192, flushes: 1 };
        assert_eq!(decoder.counts, expected);
        let pages = recorder.references.iter().map(|it| it.page());
        assert_eq!(pages.collect::<Vec<u64>>(), [2, 0, 1, 0]);
        assert_eq!(recorder.writes(), 2);
    }

    #[test]
    fn other_files_are_refused() {
        for path in ["/dev/null", "/proc/self/exe", "/"] {
            let error = DeviceSource::open(Path::new(path), 4096).err();
            let error = error.expect("an error").to_string();
            assert!(error.contains("is no block device"), "{error}");
        }
        assert!(DeviceSource::open(Path::new("/dev/missing"), 4096).is_err());
        assert!(DeviceSource::open(Path::new("/dev/null"), 1000).is_err());
    }
}
