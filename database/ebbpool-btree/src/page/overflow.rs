//! Overflow pages: parts of a value that is too long for a leaf.
//!
//! Payload: kind, 3 bytes of nothing, the part's length (u32), the next page (u64, 0 for none), the part.

use super::PageKind;
use super::numbers::{put, u32_at, u64_at};
use crate::error::DatabaseError;

pub(crate) const OVERFLOW_HEADER: usize = 16;

const LENGTH_AT: usize = 4;
const NEXT_AT: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct OverflowPart<'a> {
    pub(crate) next: Option<u64>,
    pub(crate) bytes: &'a [u8],
}

impl<'a> OverflowPart<'a> {
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`] if the page is not an overflow page.
    pub(crate) fn read(page: u64, payload: &'a [u8]) -> Result<Self, DatabaseError> {
        PageKind::Overflow.expect(page, payload)?;
        Self::fields(payload).ok_or_else(|| DatabaseError::corrupt(page, "its part of a value is longer than the page"))
    }

    fn fields(payload: &'a [u8]) -> Option<Self> {
        let length = usize::try_from(u32_at(payload, LENGTH_AT)?).ok()?;
        let next = u64_at(payload, NEXT_AT)?;
        let bytes = payload.get(OVERFLOW_HEADER..)?.get(..length)?;
        Some(OverflowPart { next: (next != 0).then_some(next), bytes })
    }

    /// Formats a payload as an overflow page.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`] if the part is too long. The payload is unchanged then.
    pub(crate) fn write(page: u64, payload: &mut [u8], next: u64, bytes: &[u8]) -> Result<(), DatabaseError> {
        if payload.len() < OVERFLOW_HEADER || bytes.len() > OverflowPart::most(payload.len()) {
            let length = bytes.len();
            return Err(DatabaseError::corrupt(page, format!("it has no room for {length} bytes of a value")));
        }
        payload.fill(0);
        payload[0] = PageKind::Overflow as u8;
        put(payload, LENGTH_AT, &(bytes.len() as u32).to_le_bytes());
        put(payload, NEXT_AT, &next.to_le_bytes());
        put(payload, OVERFLOW_HEADER, bytes);
        Ok(())
    }

    /// The most bytes of a value in one page.
    pub(crate) fn most(payload: usize) -> usize {
        payload.saturating_sub(OVERFLOW_HEADER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_up_to_a_full_page_reads_as_it_was_written() {
        for length in [0, 1, OverflowPart::most(480)] {
            let mut payload = vec![7; 480];
            OverflowPart::write(5, &mut payload, 6, &vec![9; length]).unwrap();
            let part = OverflowPart::read(5, &payload).unwrap();
            assert_eq!(part.next, Some(6));
            assert_eq!(part.bytes, vec![9; length]);
            assert!(payload[16 + length..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let mut payload = vec![7; 480];
        let long = vec![9; OverflowPart::most(480) + 1];
        assert!(OverflowPart::write(5, &mut payload, 0, &long).is_err());
        assert_eq!(payload, vec![7; 480]);
        assert!(OverflowPart::read(5, &payload).is_err());
        OverflowPart::write(5, &mut payload, 0, &[]).unwrap();
        assert_eq!(OverflowPart::read(5, &payload).unwrap().next, None);
        payload[4..8].copy_from_slice(&465u32.to_le_bytes());
        assert!(OverflowPart::read(5, &payload).is_err());
        payload[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(OverflowPart::read(5, &payload).is_err());
    }
}
