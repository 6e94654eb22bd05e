//! Page 0, which identifies a file as a database.
//!
//! Payload: kind, 7 bytes of nothing, the magic `EbbpTree`, format (u32), page size (u32), identity
//! (u64).

use super::numbers::{put, u32_at, u64_at};
use super::{META, PageKind};
use crate::error::DatabaseError;

pub(crate) const MAGIC: &[u8; 8] = b"EbbpTree";

/// The format that this program writes.
pub(crate) const FORMAT: u32 = 1;

const MAGIC_AT: usize = 8;
const FORMAT_AT: usize = 16;
const PAGE_SIZE_AT: usize = 20;
const IDENTITY_AT: usize = 24;
const LENGTH: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetaPage {
    pub(crate) format: u32,
    pub(crate) page_size: u32,
    /// A random number, the same in pages and log, drawn when the database was created.
    pub(crate) identity: u64,
}

impl MetaPage {
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`] if it is no meta page. Any format is read.
    pub(crate) fn read(payload: &[u8]) -> Result<Self, DatabaseError> {
        PageKind::Meta.expect(META, payload)?;
        Self::fields(payload).ok_or_else(|| DatabaseError::corrupt(META, "it does not begin as an Ebbpool database does"))
    }

    fn fields(payload: &[u8]) -> Option<Self> {
        let magic = payload.get(MAGIC_AT..FORMAT_AT)?;
        if magic != MAGIC {
            return None;
        }
        Some(MetaPage {
            format: u32_at(payload, FORMAT_AT)?,
            page_size: u32_at(payload, PAGE_SIZE_AT)?,
            identity: u64_at(payload, IDENTITY_AT)?,
        })
    }

    /// Makes a payload a meta page.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`] if it is too short. It is unchanged then.
    pub(crate) fn write(&self, page: u64, payload: &mut [u8]) -> Result<(), DatabaseError> {
        if payload.len() < LENGTH {
            return Err(DatabaseError::corrupt(page, "it is too short for a meta page"));
        }
        payload.fill(0);
        payload[0] = PageKind::Meta as u8;
        put(payload, MAGIC_AT, MAGIC);
        put(payload, FORMAT_AT, &self.format.to_le_bytes());
        put(payload, PAGE_SIZE_AT, &self.page_size.to_le_bytes());
        put(payload, IDENTITY_AT, &self.identity.to_le_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meta_page_of_any_format_is_recognized_by_its_magic() {
        let meta = MetaPage { format: 9, page_size: 4096, identity: 0x0807_0605_0403_0201 };
        let mut payload = vec![7; 480];
        meta.write(0, &mut payload).unwrap();
        assert_eq!(payload[..33], *b"\x01\0\0\0\0\0\0\0EbbpTree\x09\0\0\0\0\x10\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0");
        assert_eq!(MetaPage::read(&payload).unwrap(), meta);
        for end in 0..LENGTH {
            assert!(MetaPage::read(&payload[..end]).is_err());
        }
        for at in [0, 8, 15] {
            payload[at] ^= 2;
            assert!(MetaPage::read(&payload).is_err());
            payload[at] ^= 2;
        }
        assert!(meta.write(0, &mut [0; 31]).is_err());
    }
}
