//! A record of the double-write area: a page that lists the images after it.

use xxhash_rust::xxh3::xxh3_64;

/// Where the fields begin: sequence number, batch, magic, version, count, link to the batch before, identity of the
/// data, entries. The checksum is first, over all bytes after it.
const SEQUENCE: usize = 8;
const BATCH: usize = 16;
const MAGIC: usize = 24;
const VERSION: usize = 28;
const COUNT: usize = 32;
const LINK: usize = 36;
const IDENTITY: usize = 40;
const ENTRIES: usize = 48;
const ENTRY: usize = 16;

/// In version 1 the count took the bytes of count and link, and the entries began where the identity is now.
const ENTRIES_OF_VERSION_1: usize = 40;

/// At the place of the magic bytes of a page, and different from them: so an image is never taken for a record.
const MAGIC_BYTES: [u8; 4] = *b"EbbD";
pub(super) const VERSION_NOW: u32 = 2;

/// Higher numbers are refused, so that the records after this one can be numbered too. No area reaches this number.
const HIGHEST: u64 = 1 << 62;

/// The bit of a link that says that the batch carries on.
const CARRIES_ON: u32 = 1 << 31;

/// The least bytes of a page in which a record of one image fits.
pub(super) const LEAST_PAGE: usize = ENTRIES + ENTRY;

/// One image. The n-th image of the list, counted from 1, lies n pages after the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// The number of the page.
    pub(super) page: u64,
    /// The checksum of all of its bytes.
    pub(super) checksum: u64,
}

/// A page of the double-write area that lists the images after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The number of the record, unique in the area; later records have higher numbers.
    pub(super) sequence: u64,
    /// The sequence number of the first record that was synced together with this one.
    pub(super) batch: u64,
    /// `None` in a record of version 1.
    pub(super) links: Option<BatchLinks>,
    pub(super) images: Vec<Image>,
}

/// What a batch records about the batches before it, the same in each of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchLinks {
    /// The sequence number of the last record of the batch before; `None` if that batch is not needed.
    pub(super) before: Option<u64>,
    /// No batch before this one is needed once all of this one is in the area.
    pub(super) carries_on: bool,
    /// The identity of the data; 0 for data without one.
    pub(super) identity: u64,
}

/// A page that may be a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DecodedPage {
    Record(Record),
    /// A whole record of a later version, which this program does not know.
    Newer(u32),
    /// An image, or a page that is not whole.
    None,
}

/// The number of images that a record can list in a page of this size.
pub(super) fn capacity(page_size: usize) -> usize {
    page_size.saturating_sub(ENTRIES) / ENTRY
}

impl Image {
    pub(super) fn new(page: u64, bytes: &[u8]) -> Self {
        let checksum = xxh3_64(bytes);
        Image { page, checksum }
    }

    pub(super) fn matches(&self, bytes: &[u8]) -> bool {
        xxh3_64(bytes) == self.checksum
    }
}

/// The largest distance between the numbers of the last record of a batch and the first of the next one. The numbers
/// in between are those of batches that could not be written.
pub(super) const FARTHEST: u64 = (CARRIES_ON - 1) as u64;

impl BatchLinks {
    fn encode(self, batch: u64) -> u32 {
        let distance = self.before.map_or(0, |before| batch - before);
        debug_assert!(distance <= FARTHEST);
        (distance & FARTHEST) as u32 | if self.carries_on { CARRIES_ON } else { 0 }
    }

    fn decode(link: u32, batch: u64, identity: u64) -> Self {
        let distance = u64::from(link & !CARRIES_ON);
        BatchLinks {
            before: batch.checked_sub(distance).filter(|_| distance > 0),
            carries_on: link & CARRIES_ON != 0,
            identity,
        }
    }
}

impl Record {
    /// The number of pages of the record and its images.
    pub(super) fn pages(&self) -> u64 {
        self.images.len() as u64 + 1
    }

    pub(super) fn encode(&self, into: &mut [u8]) {
        into.fill(0);
        put(into, SEQUENCE, &self.sequence.to_le_bytes());
        put(into, BATCH, &self.batch.to_le_bytes());
        put(into, MAGIC, &MAGIC_BYTES);
        let entries = match self.links {
            None => {
                put(into, VERSION, &1_u32.to_le_bytes());
                ENTRIES_OF_VERSION_1
            }
            Some(links) => {
                put(into, VERSION, &VERSION_NOW.to_le_bytes());
                put(into, LINK, &links.encode(self.batch).to_le_bytes());
                put(into, IDENTITY, &links.identity.to_le_bytes());
                ENTRIES
            }
        };
        put(into, COUNT, &(self.images.len() as u32).to_le_bytes());
        for (image, at) in self.images.iter().zip((entries..).step_by(ENTRY)) {
            put(into, at, &image.page.to_le_bytes());
            put(into, at + 8, &image.checksum.to_le_bytes());
        }
        let checksum = xxh3_64(&into[SEQUENCE..]);
        put(into, 0, &checksum.to_le_bytes());
    }

    pub(super) fn decode(bytes: &[u8]) -> DecodedPage {
        let whole = bytes.len() > ENTRIES_OF_VERSION_1
            && bytes[MAGIC..VERSION] == MAGIC_BYTES
            && get(bytes, 0) == Some(xxh3_64(&bytes[SEQUENCE..]));
        match get_short(bytes, VERSION).filter(|_| whole) {
            Some(version) if version > VERSION_NOW => DecodedPage::Newer(version),
            Some(version) => Record::decode_version(bytes, version).map_or(DecodedPage::None, DecodedPage::Record),
            None => DecodedPage::None,
        }
    }

    fn decode_version(bytes: &[u8], version: u32) -> Option<Record> {
        let (sequence, batch) = (get(bytes, SEQUENCE)?, get(bytes, BATCH)?);
        if sequence > HIGHEST || batch > sequence {
            return None;
        }
        let count = get_short(bytes, COUNT)? as usize;
        let (entries, links) = match version {
            1 => (ENTRIES_OF_VERSION_1, None),
            _ => {
                let identity = get(bytes, IDENTITY)?;
                let links = BatchLinks::decode(get_short(bytes, LINK)?, batch, identity);
                (ENTRIES, Some(links))
            }
        };
        if count > bytes.len().saturating_sub(entries) / ENTRY {
            return None;
        }
        let image = |at| Some(Image { page: get(bytes, at)?, checksum: get(bytes, at + 8)? });
        Some(Record {
            sequence,
            batch,
            links,
            images: (entries..).step_by(ENTRY).take(count).map(image).collect::<Option<_>>()?,
        })
    }
}

fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}

fn get(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn get_short(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}
