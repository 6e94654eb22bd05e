//! The length of a file, and how it grows.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::raw::Raw;

/// The length of a file that no other program changes.
#[derive(Debug)]
pub(super) struct Extent {
    page_size: u64,
    /// In bytes. If the last page is cut off, the file may be longer, up to that page's end: as soon as
    /// the page is to be written, this is its end.
    length: AtomicU64,
    /// It is a block device, whose length does not change.
    fixed: bool,
    ahead: Mutex<ReservedBlocks>,
    /// The length has changed since the last sync.
    resized: AtomicBool,
}

/// Blocks that are reserved behind the end of the file.
///
/// A pool that allocates makes its file longer page by page. Reserving blocks takes longer than that, and waits for
/// writes that are under way. So blocks are reserved for many pages at once, while the length remains that of the
/// existing pages: other programs rely on the length, also after a crash.
#[derive(Debug)]
struct ReservedBlocks {
    /// The end of the reserved blocks; less than the length if none are reserved.
    end: u64,
    /// The file has grown before. Nothing is reserved for the first growth, since it may be the only one.
    grew: bool,
    /// The file system can reserve blocks.
    possible: bool,
}

/// The bounds of the number of bytes that are reserved ahead, which is a sixteenth of the file.
const LEAST_AHEAD: u64 = 1 << 20;
const MOST_AHEAD: u64 = 64 << 20;

impl Extent {
    pub(super) fn new(raw: &impl Raw, page_size: usize, fixed: bool) -> io::Result<Self> {
        Ok(Extent {
            page_size: page_size as u64,
            length: AtomicU64::new(raw.length()?),
            fixed,
            ahead: Mutex::new(ReservedBlocks { end: 0, grew: false, possible: true }),
            resized: AtomicBool::new(false),
        })
    }

    /// The number of pages. The last page of a file may be cut off; that of a device has to be whole.
    pub(super) fn pages(&self) -> u64 {
        let length = self.length.load(Ordering::Acquire);
        match self.fixed {
            true => length / self.page_size,
            false => length.div_ceil(self.page_size),
        }
    }

    /// Makes the file at least `pages` pages long.
    pub(super) fn grow(&self, raw: &impl Raw, pages: u64) -> io::Result<()> {
        if pages <= self.pages() {
            return Ok(());
        }
        if self.fixed {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!("the device has {} pages of {} bytes, and cannot have {pages}", self.pages(), self.page_size),
            ));
        }
        let new_length = pages.checked_mul(self.page_size).filter(|&bytes| i64::try_from(bytes).is_ok()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::FileTooLarge, format!("no file has {pages} pages of {} bytes", self.page_size))
        })?;
        let ahead = &mut *self.ahead.lock();
        let length = self.length.load(Ordering::Acquire);
        if new_length > length {
            ahead.lengthen(raw, length, new_length)?;
            self.resized.store(true, Ordering::Release);
            self.length.store(new_length, Ordering::Release);
        }
        Ok(())
    }

    /// Makes the file long enough for `pages` pages that are about to be written, which may be longer by the rest of a
    /// page that was cut off.
    pub(super) fn grow_to_write(&self, raw: &impl Raw, pages: u64) -> io::Result<()> {
        self.grow(raw, pages)?;
        let end = pages.saturating_mul(self.page_size);
        if !self.fixed && end > self.length.load(Ordering::Acquire) {
            // Under the lock, so that no growth that fails meanwhile makes the file as short as it was.
            let _ahead = self.ahead.lock();
            self.length.fetch_max(end, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Cuts off the pages from `pages` on, and the blocks that are reserved behind them.
    pub(super) fn truncate(&self, raw: &impl Raw, pages: u64) -> io::Result<()> {
        if self.fixed {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a device keeps its length"));
        }
        let ahead = &mut *self.ahead.lock();
        let (length, shorter) = (self.length.load(Ordering::Acquire), pages.saturating_mul(self.page_size));
        if shorter >= length {
            return Ok(());
        }
        // It is shorter than this object made it where its last page was never written whole.
        let found = raw.length()?;
        if found > length {
            return Err(io::Error::other("another program has made the file longer"));
        }
        // Before the file, so that no read takes the pages that are cut off for lost.
        self.length.store(shorter, Ordering::Release);
        if let Err(error) = uninterrupted(|| raw.truncate(shorter.min(found))) {
            self.length.store(length, Ordering::Release);
            return Err(error);
        }
        ahead.end = 0;
        self.resized.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) fn sync(&self, raw: &impl Raw) -> io::Result<()> {
        if !self.resized.swap(false, Ordering::AcqRel) {
            return raw.sync_data();
        }
        raw.sync_all().inspect_err(|_| {
            self.resized.store(true, Ordering::Release);
        })
    }

    /// Frees blocks that were reserved and not used.
    pub(super) fn close(&self, raw: &impl Raw) {
        let length = self.length.load(Ordering::Acquire);
        // If the file is longer than this object made it, another program appended to it, and its bytes are not cut
        // off.
        let unused = self.ahead.lock().end > length;
        if unused && raw.length().is_ok_and(|found| found == length) {
            let _ = raw.truncate(length);
        }
    }
}

impl ReservedBlocks {
    /// Makes the file longer, with its blocks reserved where possible, so that a full disk is noticed here and not
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
        let length = raw.length();
        let reserved = uninterrupted(|| raw.reserve(from.max(self.end), end));
        match reserved {
            Ok(()) => self.end = end,
            Err(error) if is_refusal(&error) => self.possible = false,
            // There is not enough room to reserve blocks ahead, but perhaps enough for the new length: keep nothing
            // reserved.
            Err(_) => {
                shorten(raw, from, length);
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

/// True if the file system cannot reserve blocks in this way.
fn is_refusal(error: &io::Error) -> bool {
    let refused = [io::ErrorKind::Unsupported, io::ErrorKind::InvalidInput];
    refused.contains(&error.kind())
}

fn lengthen(raw: &impl Raw, from: u64, to: u64) -> io::Result<()> {
    let length = raw.length();
    let Err(error) = uninterrupted(|| raw.allocate(from, to)) else {
        return Ok(());
    };
    if is_refusal(&error) {
        return raw.truncate(to);
    }
    shorten(raw, from, length);
    Err(error)
}

/// Frees the blocks that were reserved before the disk was full, and no byte that the file had before: it had `length`
/// bytes, and `from` as far as this program knows. If that fails too, the first error matters.
fn shorten(raw: &impl Raw, from: u64, length: io::Result<u64>) {
    if let Ok(length) = length {
        let _ = raw.truncate(from.max(length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::file::scripted::{Call, Scripted};
    use proptest::prelude::*;
    use rustix::io::Errno;
    use std::io::IoSlice;

    #[test]
    fn a_full_disk_is_noticed_early_and_leaves_the_file_as_it_was() {
        let raw = Scripted::new(8192);
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
            let raw = Scripted::new(0);
            raw.fails(Call::Allocate, 1, refusal);
            let extent = Extent::new(&raw, 4096, false).expect("a length");
            extent.grow(&raw, 3).expect("it grows");
            assert_eq!(raw.bytes().len(), 3 * 4096);
        }
    }

    #[test]
    fn a_file_that_grows_page_by_page_has_blocks_reserved_for_many_at_once() {
        let raw = Scripted::new(0);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        for pages in 1..=10_000 {
            extent.grow(&raw, pages).expect("it grows");
            let length = pages as usize * 4096;
            assert_eq!((extent.pages(), raw.length().expect("a length") as usize), (pages, length));
            assert!(raw.reserved() >= length);
        }
        assert_eq!(raw.calls(Call::Allocate), 1);
        assert!(raw.calls(Call::Reserve) < 50, "{}", raw.calls(Call::Reserve));
        assert!(raw.reserved() > 10_000 * 4096);
        extent.close(&raw);
        assert_eq!(raw.reserved(), 10_000 * 4096);
        assert_eq!(raw.length().expect("a length") as usize, 10_000 * 4096);
    }

    #[test]
    fn where_there_is_no_room_ahead_a_file_grows_as_far_as_there_is() {
        let raw = Scripted::new(0);
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
        let raw = Scripted::new(0);
        raw.fails(Call::Reserve, 1, Errno::OPNOTSUPP);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        (1..=10).for_each(|pages| extent.grow(&raw, pages).expect("it grows"));
        assert_eq!(raw.calls(Call::Reserve), 1);
        assert_eq!(raw.calls(Call::Allocate), 10);
        assert_eq!(raw.bytes().len(), 10 * 4096);
    }

    #[test]
    fn bytes_that_another_program_appended_are_not_cut_off() {
        let raw = Scripted::new(0);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        (1..=2).for_each(|pages| extent.grow(&raw, pages).expect("it grows"));
        raw.truncate(3 * 4096).expect("it is longer");
        extent.close(&raw);
        assert_eq!(raw.bytes().len(), 3 * 4096);
    }

    #[test]
    fn a_growth_that_fails_cuts_off_no_byte_of_a_page_that_was_written() {
        for (full, ahead) in [(Call::Allocate, false), (Call::Reserve, true)] {
            // The last page has 1,808 of its 4,096 bytes.
            let raw = Scripted::new(10_000);
            let extent = Extent::new(&raw, 4096, false).expect("a length");
            extent.grow_to_write(&raw, 3).expect("it has three pages");
            let page = [IoSlice::new(&[7; 4096])];
            assert_eq!(raw.write_at(&page, 8192).expect("written"), 4096);
            if ahead {
                extent.ahead.lock().grew = true;
                raw.fails(Call::Allocate, 1, Errno::NOSPC);
            }
            raw.fails(full, 1, Errno::NOSPC);
            extent.grow(&raw, 1000).expect_err("full");
            assert_eq!(raw.bytes().len(), 12_288);
            assert!(raw.bytes()[8192..].iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn a_growth_that_fails_cuts_off_no_byte_that_another_program_appended() {
        let raw = Scripted::new(8192);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        raw.truncate(3 * 4096).expect("it is longer");
        raw.fails(Call::Allocate, 1, Errno::NOSPC);
        extent.grow(&raw, 100).expect_err("full");
        assert_eq!(raw.bytes().len(), 3 * 4096);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Grow(u64),
        Write(u64),
        Truncate(u64),
        /// The next call of this sort fails.
        Fails(Call),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0u64..12).prop_map(Op::Grow),
            (0u64..12).prop_map(Op::Write),
            (0u64..12).prop_map(Op::Truncate),
            prop_oneof![Just(Call::Allocate), Just(Call::Reserve), Just(Call::Truncate)].prop_map(Op::Fails),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_fails_a_file_loses_no_byte_but_those_that_are_cut_off(
            mut length in 0usize..400,
            ops in prop::collection::vec(op(), 1..30),
        ) {
            const PAGE: usize = 64;
            let raw = Scripted::new(length);
            let extent = Extent::new(&raw, PAGE, false).expect("a length");
            let mut written = std::collections::BTreeSet::new();
            for op in ops {
                match op {
                    Op::Grow(pages) => _ = extent.grow(&raw, pages),
                    Op::Fails(call) => raw.fails(call, 1, Errno::NOSPC),
                    Op::Truncate(pages) => {
                        let before = extent.pages();
                        let cut = extent.truncate(&raw, pages);
                        prop_assert_eq!(extent.pages(), if cut.is_ok() { before.min(pages) } else { before });
                        if cut.is_ok() {
                            written.retain(|&page| (page as u64) < pages);
                            length = length.min(pages as usize * PAGE);
                        }
                    }
                    Op::Write(page) => {
                        if extent.grow_to_write(&raw, page + 1).is_ok() {
                            let bytes = [IoSlice::new(&[7; PAGE])];
                            raw.write_at(&bytes, page * PAGE as u64).expect("there is room");
                            written.insert(page as usize);
                        }
                    }
                }
                let bytes = raw.bytes();
                prop_assert!(bytes.len() >= length);
                prop_assert!(bytes.len().div_ceil(PAGE) as u64 >= extent.pages());
                for page in &written {
                    let found = bytes.get(page * PAGE..(page + 1) * PAGE);
                    prop_assert!(found.is_some_and(|found| found == [7; PAGE]), "page {page}");
                }
            }
            extent.close(&raw);
            let last = written.last().map_or(0, |page| (page + 1) * PAGE);
            prop_assert!(raw.bytes().len() >= last.max(length));
        }
    }

    #[test]
    fn growth_is_synced_until_the_sync_succeeds() {
        let raw = Scripted::new(0);
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
    fn a_file_that_another_program_has_lengthened_is_not_cut() {
        let raw = Scripted::new(8192);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        raw.truncate(3 * 4096).expect("it is longer");
        let error = extent.truncate(&raw, 1).expect_err("it is longer than its pages");
        assert!(error.to_string().contains("another program") && extent.pages() == 2, "{error}");
        raw.truncate(8192).expect("it is as it was");
        extent.truncate(&raw, 1).expect("it is cut off");
        assert_eq!((raw.bytes().len(), extent.pages()), (4096, 1));
        extent.sync(&raw).expect("synced");
        assert_eq!(raw.calls(Call::SyncAll), 1);
    }

    #[test]
    fn a_device_keeps_its_length() {
        let raw = Scripted::new(10_000);
        let extent = Extent::new(&raw, 4096, true).expect("a length");
        assert_eq!(extent.pages(), 2);
        let error = extent.grow(&raw, 3).expect_err("no room");
        assert!(error.to_string().contains("2 pages"), "{error}");
        assert_eq!(extent.truncate(&raw, 1).expect_err("it keeps them").kind(), io::ErrorKind::Unsupported);
        assert_eq!(extent.pages(), 2);
    }

    #[test]
    fn lengths_that_no_file_has_are_refused() {
        let raw = Scripted::new(0);
        let extent = Extent::new(&raw, 4096, false).expect("a length");
        for pages in [u64::MAX, u64::MAX / 4096, 1 << 52] {
            let error = extent.grow(&raw, pages).expect_err("too long");
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        }
    }
}
