//! A record of the double-write area: a page that lists the images after it.

use xxhash_rust::xxh3::xxh3_64;

/// Where the parts begin: checksum over all after it, sequence number, batch, magic, version, count,
/// entries.
const SEQUENCE: usize = 8;
const BATCH: usize = 16;
const MAGIC: usize = 24;
const VERSION: usize = 28;
const COUNT: usize = 32;
const ENTRIES: usize = 40;
const ENTRY: usize = 16;

/// Where a page of a pool has its own, another one: an image is never taken for a record.
const MAGIC_BYTES: [u8; 4] = *b"EbbD";
const VERSION_NOW: u64 = 1;

/// The least bytes of a page in which a record of one image fits.
pub(super) const LEAST_PAGE: usize = ENTRIES + ENTRY;

/// One image, which lies as many pages after the record as its place in the list, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// The page that it is of.
    pub(super) page: u64,
    /// Of all its bytes.
    pub(super) checksum: u64,
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// One more than that of the record before it.
    pub(super) sequence: u64,
    /// The sequence number of the first record that was synced together with this one.
    pub(super) batch: u64,
    pub(super) images: Vec<Image>,
}

/// Images that a record can list in a page of this size.
pub(super) fn capacity(page_size: usize) -> usize {
    page_size.saturating_sub(ENTRIES) / ENTRY
}

impl Image {
    pub(super) fn of(page: u64, bytes: &[u8]) -> Self {
        let checksum = xxh3_64(bytes);
        Image { page, checksum }
    }

    pub(super) fn is(&self, bytes: &[u8]) -> bool {
        xxh3_64(bytes) == self.checksum
    }
}

impl Record {
    /// Pages in the area, the list itself included.
    pub(super) fn pages(&self) -> u64 {
        self.images.len() as u64 + 1
    }

    pub(super) fn encode(&self, into: &mut [u8]) {
        into.fill(0);
        put(into, SEQUENCE, self.sequence);
        put(into, BATCH, self.batch);
        into[MAGIC..VERSION].copy_from_slice(&MAGIC_BYTES);
        into[VERSION..COUNT].copy_from_slice(&(VERSION_NOW as u32).to_le_bytes());
        put(into, COUNT, self.images.len() as u64);
        for (image, at) in self.images.iter().zip((ENTRIES..).step_by(ENTRY)) {
            put(into, at, image.page);
            put(into, at + 8, image.checksum);
        }
        let checksum = xxh3_64(&into[SEQUENCE..]);
        put(into, 0, checksum);
    }

    /// Nothing if the page is none, or not whole.
    pub(super) fn decode(bytes: &[u8]) -> Option<Record> {
        let version = u32::from_le_bytes(bytes.get(VERSION..COUNT)?.try_into().ok()?);
        let ours = bytes[MAGIC..VERSION] == MAGIC_BYTES && u64::from(version) == VERSION_NOW;
        if !ours || xxh3_64(&bytes[SEQUENCE..]) != get(bytes, 0)? {
            return None;
        }
        let count = usize::try_from(get(bytes, COUNT)?).ok()?;
        if count > capacity(bytes.len()) {
            return None;
        }
        let image = |at| {
            Some(Image {
                page: get(bytes, at)?,
                checksum: get(bytes, at + 8)?,
            })
        };
        Some(Record {
            sequence: get(bytes, SEQUENCE)?,
            batch: get(bytes, BATCH)?,
            images: (ENTRIES..)
                .step_by(ENTRY)
                .take(count)
                .map(image)
                .collect::<Option<_>>()?,
        })
    }
}

fn put(into: &mut [u8], at: usize, number: u64) {
    into[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

fn get(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}
