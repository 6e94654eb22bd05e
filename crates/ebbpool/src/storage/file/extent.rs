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
    ahead: Mutex<Ahead>,
    /// It is longer than what was synced.
    grown: AtomicBool,
}

/// Blocks that are reserved behind the end of the file.
///
/// A pool that allocates makes its file longer page by page, and reserving blocks takes longer than
/// making the file longer, and waits for writes that are under way. So they are reserved for many pages
/// at once, while the length stays that of the pages there are: others go by that, after a crash too.
#[derive(Debug)]
struct Ahead {
    /// Where the blocks end that are reserved; less than the length if none is.
    end: u64,
    /// It has grown before: a file that grows once need not do so again.
    grew: bool,
    /// The file system can reserve them.
    possible: bool,
}

/// Bytes that are reserved ahead: a sixteenth of the file within these bounds.
const LEAST_AHEAD: u64 = 1 << 20;
const MOST_AHEAD: u64 = 64 << 20;

impl Extent {
    pub(super) fn new(raw: &impl Raw, page_size: usize, fixed: bool) -> io::Result<Self> {
        Ok(Extent {
            page_size: page_size as u64,
            length: AtomicU64::new(raw.length()?),
            fixed,
            ahead: Mutex::new(Ahead {
                end: 0,
                grew: false,
                possible: true,
            }),
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
        let ahead = &mut *self.ahead.lock();
        let length = self.length.load(Ordering::Acquire);
        if wanted > length {
            ahead.lengthen(raw, length, wanted)?;
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

    /// Gives back what was reserved and not used.
    pub(super) fn close(&self, raw: &impl Raw) {
        let length = self.length.load(Ordering::Acquire);
        // If the file is longer than it was made here, what is behind is not ours to cut off.
        let unused = self.ahead.lock().end > length;
        if unused && raw.length().is_ok_and(|there| there == length) {
            let _ = raw.truncate(length);
        }
    }
}

impl Ahead {
    /// With its blocks reserved where that can be had, so that a full disk is found out here and not
    /// when pages are written.
    fn lengthen(&mut self, raw: &impl Raw, from: u64, to: u64) -> io::Result<()> {
        if self.grew && to > self.end && self.possible {
            self.reserve(raw, from, to);
        }
        match to <= self.end {
            true => raw.truncate(to)?,
            false => lengthen(raw, from, to)?,
        }
        self.grew = true;
        Ok(())
    }

    /// Reserves blocks beyond `to`, if that can be done.
    fn reserve(&mut self, raw: &impl Raw, from: u64, to: u64) {
        let end = to.saturating_add((to / 16).clamp(LEAST_AHEAD, MOST_AHEAD));
        let reserved = uninterrupted(|| raw.reserve(from.max(self.end), end));
        match reserved {
            Ok(()) => self.end = end,
            Err(error) if is_refusal(&error) => self.possible = false,
            // There is not so much room, but perhaps for what is needed: nothing is to lie idle.
            Err(_) => {
                let _ = raw.truncate(from);
                self.end = 0;
            }
        }
    }
}

fn uninterrupted(call: impl Fn() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// The file system cannot reserve blocks, or not so.
fn is_refusal(error: &io::Error) -> bool {
    let refused = [io::ErrorKind::Unsupported, io::ErrorKind::InvalidInput];
    refused.contains(&error.kind())
}

fn lengthen(raw: &impl Raw, from: u64, to: u64) -> io::Result<()> {
    let Err(error) = uninterrupted(|| raw.allocate(from, to)) else {
        return Ok(());
    };
    if is_refusal(&error) {
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
    fn a_file_that_grows_page_by_page_has_blocks_reserved_for_many_at_once() {
        let raw = Scripted::of(0);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        for pages in 1..=10_000 {
            extent.grow(&raw, pages).expect("it grows");
            let length = pages as usize * 4096;
            assert_eq!(
                (extent.pages(), raw.length().expect("a length") as usize),
                (pages, length)
            );
            assert!(raw.reserved() >= length);
        }
        assert_eq!(raw.calls(Call::Allocate), 1);
        assert!(
            raw.calls(Call::Reserve) < 50,
            "{}",
            raw.calls(Call::Reserve)
        );
        assert!(raw.reserved() > 10_000 * 4096);
        extent.close(&raw);
        assert_eq!(raw.reserved(), 10_000 * 4096);
        assert_eq!(raw.length().expect("a length") as usize, 10_000 * 4096);
    }

    #[test]
    fn where_there_is_no_room_ahead_a_file_grows_as_far_as_there_is() {
        let raw = Scripted::of(0);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        extent.grow(&raw, 1).expect("it grows");
        for pages in 2..5 {
            raw.fails(Call::Reserve, 1, Errno::NOSPC);
            extent.grow(&raw, pages).expect("there is room for it");
            let length = pages as usize * 4096;
            assert_eq!((raw.bytes().len(), raw.reserved()), (length, length));
        }
        raw.fails(Call::Reserve, 1, Errno::NOSPC);
        raw.fails(Call::Allocate, 1, Errno::NOSPC);
        let error = extent.grow(&raw, 5).expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!((extent.pages(), raw.bytes().len()), (4, 4 * 4096));
    }

    #[test]
    fn where_nothing_can_be_reserved_ahead_each_growth_reserves_its_own() {
        let raw = Scripted::of(0);
        raw.fails(Call::Reserve, 1, Errno::OPNOTSUPP);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        (1..=10).for_each(|pages| extent.grow(&raw, pages).expect("it grows"));
        assert_eq!(raw.calls(Call::Reserve), 1);
        assert_eq!(raw.calls(Call::Allocate), 10);
        assert_eq!(raw.bytes().len(), 10 * 4096);
    }

    #[test]
    fn what_another_has_appended_is_not_cut_off() {
        let raw = Scripted::of(0);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        (1..=2).for_each(|pages| extent.grow(&raw, pages).expect("it grows"));
        raw.truncate(3 * 4096).expect("it is longer");
        extent.close(&raw);
        assert_eq!(raw.bytes().len(), 3 * 4096);
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
