//! How long a file is, and making it longer.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::raw::Raw;

/// The length of a file that nobody else changes.
#[derive(Debug)]
pub(super) struct Extent {
    page_size: u64,
    /// Bytes; grows only.
    length: AtomicU64,
    /// A block device has the length it has.
    fixed: bool,
    growing: Mutex<()>,
    /// It is longer than what was synced.
    grown: AtomicBool,
}

impl Extent {
    pub(super) fn new(raw: &impl Raw, page_size: usize, fixed: bool) -> io::Result<Self> {
        Ok(Extent {
            page_size: page_size as u64,
            length: AtomicU64::new(raw.length()?),
            fixed,
            growing: Mutex::new(()),
            grown: AtomicBool::new(false),
        })
    }

    /// Pages, with the last of a file that ends within one; a device's last one has to be whole.
    pub(super) fn pages(&self) -> u64 {
        let length = self.length.load(Ordering::Acquire);
        match self.fixed {
            true => length / self.page_size,
            false => length.div_ceil(self.page_size),
        }
    }

    /// Makes it at least so long.
    pub(super) fn grow(&self, raw: &impl Raw, pages: u64) -> io::Result<()> {
        if pages <= self.pages() {
            return Ok(());
        }
        if self.fixed {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "the device has {} pages of {} bytes, and cannot have {pages}",
                    self.pages(),
                    self.page_size
                ),
            ));
        }
        let wanted = pages
            .checked_mul(self.page_size)
            .filter(|&bytes| i64::try_from(bytes).is_ok())
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    format!("no file has {pages} pages of {} bytes", self.page_size),
                )
            })?;
        let _growing = self.growing.lock();
        let length = self.length.load(Ordering::Acquire);
        if wanted > length {
            lengthen(raw, length, wanted)?;
            self.grown.store(true, Ordering::Release);
            self.length.store(wanted, Ordering::Release);
        }
        Ok(())
    }

    pub(super) fn sync(&self, raw: &impl Raw) -> io::Result<()> {
        if !self.grown.swap(false, Ordering::AcqRel) {
            return raw.sync_data();
        }
        raw.sync_all().inspect_err(|_| {
            self.grown.store(true, Ordering::Release);
        })
    }
}

/// With its blocks reserved where that can be had, so that a full disk is found out here and not
/// when pages are written.
fn lengthen(raw: &impl Raw, from: u64, to: u64) -> io::Result<()> {
    let outcome = loop {
        match raw.allocate(from, to) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => break outcome,
        }
    };
    let Err(error) = outcome else {
        return Ok(());
    };
    let refused = [io::ErrorKind::Unsupported, io::ErrorKind::InvalidInput];
    if refused.contains(&error.kind()) {
        return raw.truncate(to);
    }
    // What was reserved before the disk was full is given back; if that fails too, it is the
    // first error that matters.
    let _ = raw.truncate(from);
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::file::scripted::{Call, Scripted};
    use rustix::io::Errno;

    #[test]
    fn a_full_disk_is_found_out_early_and_leaves_the_file_as_it_was() {
        let raw = Scripted::of(8192);
        raw.fails(Call::Allocate, 1, Errno::NOSPC);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        let error = extent.grow(&raw, 100).expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!((extent.pages(), raw.bytes().len()), (2, 8192));
        extent.grow(&raw, 100).expect("now there is room");
        assert_eq!((extent.pages(), raw.bytes().len()), (100, 100 * 4096));
    }

    #[test]
    fn where_nothing_can_be_reserved_the_file_grows_with_holes() {
        for refusal in [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL] {
            let raw = Scripted::of(0);
            raw.fails(Call::Allocate, 1, refusal);
            let extent = Extent::new(&raw, 4096, false).expect("a length");
            extent.grow(&raw, 3).expect("it grows");
            assert_eq!(raw.bytes().len(), 3 * 4096);
        }
    }

    #[test]
    fn growth_is_synced_until_that_has_worked() {
        let raw = Scripted::of(0);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        extent.grow(&raw, 1).expect("it grows");
        raw.fails(Call::SyncAll, 1, Errno::IO);
        assert!(extent.sync(&raw).is_err());
        extent.sync(&raw).expect("synced");
        extent.sync(&raw).expect("synced");
        assert_eq!(raw.calls(Call::SyncAll), 2);
        assert_eq!(raw.calls(Call::SyncData), 1);
    }

    #[test]
    fn a_device_stays_as_long_as_it_is() {
        let raw = Scripted::of(10_000);
        let extent = Extent::new(&raw, 4096, true).expect("a length");
        assert_eq!(extent.pages(), 2);
        let error = extent.grow(&raw, 3).expect_err("no room");
        assert!(error.to_string().contains("2 pages"), "{error}");
    }

    #[test]
    fn lengths_that_no_file_has_are_refused() {
        let raw = Scripted::of(0);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        for pages in [u64::MAX, u64::MAX / 4096, 1 << 52] {
            let error = extent.grow(&raw, pages).expect_err("too long");
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        }
    }
}
