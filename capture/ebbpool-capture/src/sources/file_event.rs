//! What the programs of processes and devices hand over: a transfer of bytes.

use std::ops::RangeInclusive;

use crate::error::CaptureError;
use crate::recorder::CaptureBuffer;

/// Kinds of events.
pub(super) mod kind {
    /// Bytes are read.
    pub(in super::super) const READ: i32 = 1;
    /// Bytes are written.
    pub(in super::super) const WRITE: i32 = 2;
    /// Written bytes are made durable.
    pub(in super::super) const SYNC: i32 = 3;
    /// A request was made whose bytes cannot be seen.
    pub(in super::super) const UNSEEN: i32 = 4;
    /// A file is mapped, to be changed by what is written to memory.
    pub(in super::super) const MAPPED: i32 = 5;
}

/// Offsets in an event behind those of its kind and its process.
pub(super) mod field {
    pub(in super::super) const INODE: i16 = 8;
    pub(in super::super) const POSITION: i16 = 16;
    pub(in super::super) const BYTES: i16 = 24;
    pub(in super::super) const DEVICE: i16 = 28;
    /// Behind a page event's fields; those of devices have none.
    pub(in super::super) const GENERATION: i16 = 32;
    pub(in super::super) const MAGIC: i16 = 36;
    pub(in super::super) const ADDRESS: i16 = 40;
    /// Bytes of these three.
    pub(in super::super) const MORE: i32 = 16;
}

/// A transfer of bytes from or to a file or a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileEvent {
    /// 1 for a read, 2 for a write, 3 for a sync, 4 for a request whose bytes cannot be seen.
    pub kind: u32,
    /// The process.
    pub process: u32,
    /// The file's number in its file system.
    pub inode: u64,
    /// The first byte in the file.
    pub position: u64,
    /// The number of bytes.
    pub bytes: u32,
    /// The file system's device, as the kernel numbers devices.
    pub device: u32,
    /// What the file system gives each file that gets the number.
    pub generation: u32,
    /// The kind of file system (`s_magic`).
    pub magic: u32,
    /// Where the kernel has the file, or the number that FUSE gives it.
    pub address: u64,
}

impl FileEvent {
    /// Reads an event; `None` if the bytes are too few.
    pub fn parse(bytes: &[u8]) -> Option<FileEvent> {
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let long = |at: usize| Some(u64::from(word(at)?) | u64::from(word(at + 4)?) << 32);
        Some(FileEvent {
            kind: word(0)?,
            process: word(4)?,
            inode: long(8)?,
            position: long(16)?,
            bytes: word(24)?,
            device: word(28)?,
            generation: word(32).unwrap_or(0),
            magic: word(36).unwrap_or(0),
            address: long(40).unwrap_or(0),
        })
    }

    /// The pages that the bytes are on; empty if there are no bytes.
    pub(super) fn pages(&self, page_size: u64) -> RangeInclusive<u64> {
        if self.bytes == 0 {
            return RangeInclusive::new(1, 0);
        }
        let last = self.position.saturating_add(u64::from(self.bytes) - 1);
        self.position / page_size..=last / page_size
    }

    /// Records a reference to each page of the transfer.
    pub(super) fn record(&self, object: u32, page_size: u64, recorder: &mut CaptureBuffer) {
        for page in self.pages(page_size) {
            let recorded = recorder.reference(object, page, self.kind == kind::WRITE as u32, 0);
            if recorded.is_none() {
                break;
            }
        }
    }
}

/// Refuses page sizes that are no power of two from 512 bytes to 1 GiB.
pub(super) fn check_page_size(page_size: u64) -> Result<u64, CaptureError> {
    if page_size.is_power_of_two() && (512..=1 << 30).contains(&page_size) {
        return Ok(page_size);
    }
    Err(CaptureError::Request(format!("a page size of {page_size} bytes is no power of two from 512 to {}", 1 << 30)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_from_their_bytes() {
        let bytes: Vec<u8> = (1u32..=8).flat_map(u32::to_le_bytes).collect();
        let event = FileEvent::parse(&bytes).expect("an event");
        assert_eq!((event.kind, event.process), (1, 2));
        assert_eq!((event.inode, event.position), (4 << 32 | 3, 6 << 32 | 5));
        assert_eq!((event.bytes, event.device), (7, 8));
        assert_eq!(FileEvent::parse(&bytes[..31]), None);
    }

    #[test]
    fn transfers_refer_to_each_page_that_they_touch() {
        let pages = |position, bytes| {
            let event = FileEvent { position, bytes, ..FileEvent::default() };
            event.pages(4096).collect::<Vec<u64>>()
        };
        assert_eq!(pages(0, 4096), [0]);
        assert_eq!(pages(4095, 2), [0, 1]);
        assert_eq!(pages(8192, 1), [2]);
        assert_eq!(pages(100, 12288), [0, 1, 2, 3]);
        assert_eq!(pages(100, 0), [0; 0]);
        assert_eq!(pages(u64::MAX, u32::MAX), [u64::MAX / 4096]);
    }

    #[test]
    fn page_sizes_are_powers_of_two() {
        assert_eq!(check_page_size(8192).expect("a page size"), 8192);
        for wrong in [0, 1, 256, 4097, 1 << 31] {
            assert!(check_page_size(wrong).expect_err("none").is_request());
        }
    }
}
