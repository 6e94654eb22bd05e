//! The page header: checksum, number and LSN.

use xxhash_rust::xxh3::xxh3_64;

use crate::log::Lsn;

/// What pages look like in storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageFormat {
    /// The first [`HEADER_BYTES`] bytes belong to the pool: it finds damaged and misplaced pages.
    #[default]
    Checked,
    /// All bytes are the caller's, and nothing is checked: for files in a format of their own.
    Raw,
}

/// The number of bytes of a checked page that belong to the pool.
pub const HEADER_BYTES: usize = 32;

/// Where the fields of the header begin: number, LSN, magic, and version. The checksum is first, over all bytes after
/// it.
const PAGE: usize = 8;
const LSN: usize = 16;
const MAGIC: usize = 24;
const VERSION: usize = 28;

const MAGIC_BYTES: [u8; 4] = *b"EbbP";
const VERSION_NOW: u32 = 1;

/// What is wrong with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// It is not all zeros, and does not begin like a page.
    #[error("it is not a page of a pool")]
    NotAPage,
    /// It was written by a later version.
    #[error("it is of version {0}, and this program knows versions up to {VERSION_NOW}")]
    Newer(u32),
    /// Bits have changed, or part of it was never written.
    #[error("its checksum is wrong")]
    Checksum,
    /// Its header has the number of another page.
    #[error("it is page {0}, written to the wrong place")]
    Misplaced(u64),
    /// It is older than what the pool last wrote.
    #[error("it is the page as of LSN {found}, and was written as of LSN {written}")]
    Lost {
        /// Its LSN.
        found: Lsn,
        /// The LSN with which it was written.
        written: Lsn,
    },
    /// It is all zeros, like a page that was never written, although the pool has written it.
    #[error("it is all zeros, and was written")]
    Zeros,
    /// It has changes that the log does not have: the log lost its end, or belongs to other data.
    #[error("it is as of LSN {found}, and the log ends at {end}: the log lost its end, or is older than the page")]
    Ahead {
        /// Its LSN.
        found: Lsn,
        /// The LSN at which the log ends.
        end: Lsn,
    },
}

impl PageFormat {
    /// Where the caller's bytes begin.
    pub fn payload(self) -> usize {
        match self {
            PageFormat::Checked => HEADER_BYTES,
            PageFormat::Raw => 0,
        }
    }

    /// Completes the header of a page before it is written.
    pub(crate) fn seal(self, bytes: &mut [u8], page: u64, lsn: Lsn) {
        if self == PageFormat::Raw {
            return;
        }
        bytes[PAGE..LSN].copy_from_slice(&page.to_le_bytes());
        bytes[LSN..MAGIC].copy_from_slice(&lsn.to_le_bytes());
        bytes[MAGIC..VERSION].copy_from_slice(&MAGIC_BYTES);
        bytes[VERSION..HEADER_BYTES].copy_from_slice(&VERSION_NOW.to_le_bytes());
        let checksum = xxh3_64(&bytes[PAGE..]);
        bytes[..PAGE].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The LSN of a page as it was read; 0 for one that was never written.
    ///
    /// # Errors
    ///
    /// [`Damage`] if it is not what was written there.
    pub(crate) fn check(self, bytes: &[u8], page: u64) -> Result<Lsn, Damage> {
        if self == PageFormat::Raw {
            return Ok(0);
        }
        if bytes[MAGIC..VERSION] != MAGIC_BYTES {
            return match bytes.iter().all(|&byte| byte == 0) {
                true => Ok(0),
                false => Err(Damage::NotAPage),
            };
        }
        if xxh3_64(&bytes[PAGE..]) != number(&bytes[..PAGE]) {
            return Err(Damage::Checksum);
        }
        let version = number(&bytes[VERSION..HEADER_BYTES]) as u32;
        if version > VERSION_NOW {
            return Err(Damage::Newer(version));
        }
        match number(&bytes[PAGE..LSN]) {
            found if found == page => Ok(number(&bytes[LSN..MAGIC])),
            found => Err(Damage::Misplaced(found)),
        }
    }

    /// True for a checked page that was never written, which [`check`](Self::check) accepts. A raw page of zeros may
    /// have been written so.
    pub(crate) fn is_blank(self, bytes: &[u8]) -> bool {
        self == PageFormat::Checked && bytes[MAGIC..VERSION] != MAGIC_BYTES
    }
}

/// The LSN in the header of a [checked](PageFormat::Checked) page, whatever its number; `None` for bytes that are not
/// such a page.
pub fn page_lsn(bytes: &[u8]) -> Option<Lsn> {
    if bytes.len() < PageFormat::Checked.payload() {
        return None;
    }
    match PageFormat::Checked.check(bytes, 0) {
        Ok(lsn) => Some(lsn),
        Err(Damage::Misplaced(page)) => PageFormat::Checked.check(bytes, page).ok(),
        Err(_) => None,
    }
}

fn number(bytes: &[u8]) -> u64 {
    let shift = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
    bytes.iter().rev().fold(0, shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHECKED: PageFormat = PageFormat::Checked;

    fn sealed(page: u64, lsn: Lsn) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..512).map(|at| (at * 7 % 251) as u8).collect();
        CHECKED.seal(&mut bytes, page, lsn);
        bytes
    }

    #[test]
    fn a_page_has_its_lsn_and_zeros_are_a_page_that_was_never_written() {
        assert_eq!(CHECKED.check(&sealed(7, 99), 7), Ok(99));
        assert_eq!(CHECKED.check(&[0; 512], 7), Ok(0));
        let blank = |format: PageFormat, bytes: &[u8]| format.is_blank(bytes);
        assert!(blank(CHECKED, &[0; 512]) && !blank(CHECKED, &sealed(7, 0)));
        assert!(!blank(PageFormat::Raw, &[0; 512]));
    }

    #[test]
    fn a_misplaced_page_is_found() {
        assert_eq!(CHECKED.check(&sealed(7, 99), 8), Err(Damage::Misplaced(7)));
    }

    #[test]
    fn foreign_bytes_and_later_versions_are_distinguished() {
        assert_eq!(CHECKED.check(&[1; 512], 0), Err(Damage::NotAPage));
        let mut newer = sealed(3, 1);
        newer[VERSION] = 2;
        let checksum = xxh3_64(&newer[PAGE..]);
        newer[..PAGE].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(CHECKED.check(&newer, 3), Err(Damage::Newer(2)));
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_found(bit in 0..512 * 8usize) {
            let mut bytes = sealed(7, 99);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(CHECKED.check(&bytes, 7).is_err());
        }
    }
}
