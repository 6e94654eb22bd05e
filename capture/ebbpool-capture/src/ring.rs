//! The kernel's ring buffer (`BPF_MAP_TYPE_RINGBUF`), read without wake-ups.
//!
//! A full ring drops records and never waits, so that a slow reader cannot hold up the target; the programs count what
//! they drop.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::CaptureError;
use crate::kernel;

/// Bits of a record's header: the program still writes it; it was given up.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Bytes of a header.
const HEADER: u64 = 8;

/// What stands at a position of the ring.
#[derive(Debug, PartialEq, Eq)]
enum Slot {
    /// The program still writes it.
    Busy,
    /// Bytes of a record that was given up.
    Discarded(u64),
    /// Bytes of a record.
    Record(u64),
}

impl Slot {
    fn of_header(header: u32) -> Slot {
        let length = u64::from(header & !(BUSY | DISCARDED));
        match header {
            header if header & BUSY != 0 => Slot::Busy,
            header if header & DISCARDED != 0 => Slot::Discarded(length),
            _ => Slot::Record(length),
        }
    }
}

/// The distance from a record's header to the next one.
fn stride(length: u64) -> u64 {
    (length + HEADER).next_multiple_of(8)
}

/// A ring buffer and its mapping into this process.
pub(crate) struct BpfRingBuffer {
    descriptor: OwnedFd,
    /// The position up to which this process has read, on a page of its own.
    consumer: ptr::NonNull<u8>,
    /// The position up to which programs have written, on a page of its own; the data follow, twice in sequence, so that a
    /// record that wraps is in one piece.
    producer: ptr::NonNull<u8>,
    page: usize,
    bytes: usize,
}

// SAFETY: the pointers are to shared mappings that live as long as the value, and only `&mut self` moves the consumer.
unsafe impl Send for BpfRingBuffer {}

fn map(descriptor: &OwnedFd, length: usize, write: bool, offset: usize) -> io::Result<ptr::NonNull<u8>> {
    let protection = if write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    // SAFETY: a new mapping at an address of the kernel's choice replaces no other mapping.
    let address = unsafe {
        libc::mmap(ptr::null_mut(), length, protection, libc::MAP_SHARED, descriptor.as_raw_fd(), offset as libc::off_t)
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    ptr::NonNull::new(address.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

impl BpfRingBuffer {
    /// A ring of that many bytes, a power of two.
    pub(crate) fn new(bytes: u32) -> Result<BpfRingBuffer, CaptureError> {
        let failed = |error| CaptureError::of_kernel("create a ring buffer", error);
        let descriptor = kernel::create_ring(bytes).map_err(failed)?;
        // SAFETY: sysconf has no requirements.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let bytes = bytes as usize;
        let consumer = map(&descriptor, page, true, 0).map_err(failed)?;
        let producer = match map(&descriptor, page + 2 * bytes, false, page) {
            Ok(producer) => producer,
            Err(error) => {
                // SAFETY: the mapping was made above with this length, and nothing refers to it.
                unsafe { libc::munmap(consumer.as_ptr().cast(), page) };
                return Err(failed(error));
            }
        };
        Ok(BpfRingBuffer { descriptor, consumer, producer, page, bytes })
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    fn consumed(&self) -> &AtomicU64 {
        // SAFETY: the kernel stores this position as 8 aligned bytes at the start of the page, and reads it atomically.
        unsafe { &*self.consumer.as_ptr().cast() }
    }

    fn produced(&self) -> u64 {
        // SAFETY: the kernel stores this position as 8 aligned bytes at the start of the page, and writes it atomically.
        let position: &AtomicU64 = unsafe { &*self.producer.as_ptr().cast() };
        position.load(Ordering::Acquire)
    }

    /// The filled share of the ring, 0 to 1.
    pub(crate) fn fill(&self) -> f64 {
        let waiting = self.produced() - self.consumed().load(Ordering::Relaxed);
        waiting as f64 / self.bytes as f64
    }

    /// Hands every finished record to `take`, in order, until it returns false. False if records are left because it did.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(&[u8]) -> bool) -> bool {
        let end = self.produced();
        let mut at = self.consumed().load(Ordering::Relaxed);
        let mut goes_on = true;
        while at < end && goes_on {
            let offset = (at % self.bytes as u64) as usize;
            // SAFETY: the offset is below the ring's size, and the data begin a page behind the position.
            let record = unsafe { self.producer.as_ptr().add(self.page + offset) };
            // SAFETY: each position up to the producer's begins with a header, of which the kernel writes the first 4
            // bytes atomically; it is aligned to 8 bytes.
            let header = unsafe { &*record.cast::<AtomicU32>() }.load(Ordering::Acquire);
            let length = match Slot::of_header(header) {
                Slot::Busy => break,
                Slot::Discarded(length) => length,
                Slot::Record(length) => {
                    // SAFETY: the data are mapped twice in sequence, so that a record of at most the ring's size is in
                    // one piece; the kernel writes nothing there until the consumer's position is past it.
                    let bytes = unsafe { std::slice::from_raw_parts(record.add(HEADER as usize), length as usize) };
                    goes_on = take(bytes);
                    length
                }
            };
            at += stride(length);
            self.consumed().store(at, Ordering::Release);
        }
        goes_on || at >= end
    }
}

impl Drop for BpfRingBuffer {
    fn drop(&mut self) {
        // SAFETY: both mappings were made by `new` with these lengths, and no reference to them outlives the value.
        unsafe {
            libc::munmap(self.consumer.as_ptr().cast(), self.page);
            libc::munmap(self.producer.as_ptr().cast(), self.page + 2 * self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_follows() {
        assert_eq!(Slot::of_header(32), Slot::Record(32));
        assert_eq!(Slot::of_header(32 | BUSY), Slot::Busy);
        assert_eq!(Slot::of_header(32 | DISCARDED), Slot::Discarded(32));
        assert_eq!((stride(32), stride(1), stride(9)), (40, 16, 24));
    }
}
