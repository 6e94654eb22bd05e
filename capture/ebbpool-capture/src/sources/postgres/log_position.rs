//! How far a server's write-ahead log is written, by its files alone.
//!
//! Segments are files of one size, whose names are numbers, and consist of pages that say their own position
//! (`XLogPageHeaderData`). A server makes segments before it needs them, from old ones or of zeros, so that the names do not
//! show the position: it is behind the last page that has the position of its place.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::foreign::ForeignDirectory;

/// The least and the largest page of a log (`XLOG_BLCKSZ`).
const PAGES: std::ops::RangeInclusive<u64> = 1024..=65_536;

/// Bytes of the head of a segment's first page, as far as they are read.
const HEAD: usize = 40;

/// A segment: its timeline, and its number in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Segment {
    timeline: u32,
    high: u32,
    low: u32,
}

impl Segment {
    /// The segment of a file's name: three numbers of 8 hexadecimal digits.
    fn of_name(name: &str) -> Option<Segment> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
        if name.len() != 24 || !name.bytes().all(is_digit) {
            return None;
        }
        let number = |at: usize| u32::from_str_radix(name.get(8 * at..8 * at + 8)?, 16).ok();
        Some(Segment { timeline: number(0)?, high: number(1)?, low: number(2)? })
    }

    fn name(self) -> String {
        format!("{:08X}{:08X}{:08X}", self.timeline, self.high, self.low)
    }

    /// The position of its first byte, with segments of that many bytes.
    fn start(self, bytes: u64) -> u64 {
        (u64::from(self.high) << 32).wrapping_add(u64::from(self.low).wrapping_mul(bytes))
    }
}

/// A segment's file.
struct SegmentFile {
    file: File,
    start: u64,
    bytes: u64,
}

impl SegmentFile {
    fn of_file(file: File, segment: Segment) -> Option<SegmentFile> {
        let bytes = file.metadata().ok()?.len();
        Some(SegmentFile { file, start: segment.start(bytes), bytes })
    }

    /// True if the page at that place in the segment says that it belongs there.
    fn is_written(&self, place: u64) -> bool {
        const POSITION: u64 = 8;
        let mut position = [0; 8];
        let read = self.file.read_exact_at(&mut position, place + POSITION);
        read.is_ok() && u64::from_le_bytes(position) == self.start.wrapping_add(place)
    }

    /// The size of its pages; `None` unless its first page is written.
    fn page_bytes(&self) -> Option<u64> {
        let mut head = [0; HEAD];
        self.file.read_exact_at(&mut head, 0).ok()?;
        let size = u32::from_le_bytes(head[36..40].try_into().ok()?);
        let size = Some(u64::from(size)).filter(|size| PAGES.contains(size))?;
        (self.is_written(0) && self.bytes.is_multiple_of(size)).then_some(size)
    }

    /// The position behind its last written page, if its first is written.
    fn end(&self) -> Option<u64> {
        let size = self.page_bytes()?;
        let (mut written, mut behind) = (0, self.bytes / size);
        // Pages are written in order.
        while behind - written > 1 {
            let middle = written + (behind - written) / 2;
            match self.is_written(middle * size) {
                true => written = middle,
                false => behind = middle,
            }
        }
        self.start.checked_add((written + 1) * size)
    }
}

/// The position up to which the log in this directory of a server is written, at the end of a page; `None` if no segment can
/// be read.
pub(super) fn log_position(server: &ForeignDirectory, directory: &str) -> Option<u64> {
    let names = server.names(directory);
    let segments = names.iter().filter_map(|name| Segment::of_name(name));
    let mut segments: Vec<Segment> = segments.collect();
    segments.sort_unstable_by(|a, b| b.cmp(a));
    let mut ends = segments.into_iter().filter_map(|segment| {
        let name = segment.name();
        let file = server.file(&format!("{directory}/{name}")).ok()?;
        SegmentFile::of_file(file, segment)?.end()
    });
    ends.next()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn log_position(path: &Path) -> Option<u64> {
        super::log_position(&ForeignDirectory::own(path).ok()?, ".")
    }

    const PAGE: u64 = 8192;
    const SEGMENT: u64 = 16 * PAGE;

    /// A segment whose first pages say that they are at `start` and behind it.
    fn segment(directory: &Path, name: &str, start: u64, pages: u64) {
        let mut bytes = vec![0; SEGMENT as usize];
        for page in 0..pages {
            let at = (page * PAGE) as usize;
            bytes[at + 8..at + 16].copy_from_slice(&(start + page * PAGE).to_le_bytes());
        }
        bytes[36..40].copy_from_slice(&(PAGE as u32).to_le_bytes());
        fs::write(directory.join(name), bytes).expect("a file");
    }

    #[test]
    fn the_position_is_behind_the_last_page_that_is_in_its_place() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        assert_eq!(log_position(path), None);
        let high = 3u64 << 32;
        segment(path, "000000010000000300000001", high + SEGMENT, 16);
        assert_eq!(log_position(path), Some(high + 2 * SEGMENT));
        for pages in [1, 2, 7, 15, 16] {
            segment(path, "000000010000000300000002", high + 2 * SEGMENT, pages);
            // One made of an old segment, and one of zeros.
            segment(path, "000000010000000300000003", high, 16);
            segment(path, "000000010000000300000004", 0, 0);
            fs::write(path.join("00000001.history"), "").expect("a file");
            fs::write(path.join("0000000100000003000000FF.partial"), "").expect("a file");
            let expected = high + 2 * SEGMENT + pages * PAGE;
            assert_eq!(log_position(path), Some(expected), "{pages} pages");
        }
        // Pages of an old segment that are still behind those that are written.
        let name = "000000010000000300000002";
        segment(path, name, high + 2 * SEGMENT, 5);
        let mut bytes = fs::read(path.join(name)).expect("a file");
        let old = high.to_le_bytes();
        let at = (9 * PAGE) as usize;
        bytes[at + 8..at + 16].copy_from_slice(&old);
        fs::write(path.join(name), bytes).expect("a file");
        assert_eq!(log_position(path), Some(high + 2 * SEGMENT + 5 * PAGE));
    }

    #[test]
    fn files_that_are_no_segments_are_left_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        fs::write(path.join("000000010000000300000001"), "short").expect("a file");
        fs::write(path.join("archive_status"), "").expect("a file");
        assert_eq!(log_position(path), None);
        assert_eq!(Segment::of_name("00000001000000030000000G"), None);
        assert_eq!(Segment::of_name("0000000100000003000000é"), None);
        assert_eq!(log_position(&path.join("missing")), None);
    }
}
