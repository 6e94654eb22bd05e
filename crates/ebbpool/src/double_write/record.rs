//! A record of the double-write area: a page that lists the images after it.

use xxhash_rust::xxh3::xxh3_64;

/// Where the parts begin: checksum over all after it, sequence number, batch, magic, version, count,
/// link to the batch before, identity of the data, entries.
const SEQUENCE: usize = 8;
const BATCH: usize = 16;
const MAGIC: usize = 24;
const VERSION: usize = 28;
const COUNT: usize = 32;
const LINK: usize = 36;
const IDENTITY: usize = 40;
const ENTRIES: usize = 48;
const ENTRY: usize = 16;

/// In version 1 the count was as long as count and link, and entries began where the identity is.
const ENTRIES_OF_VERSION_1: usize = 40;

/// Where a page of a pool has its own, another one: an image is never taken for a record.
const MAGIC_BYTES: [u8; 4] = *b"EbbD";
pub(super) const VERSION_NOW: u32 = 2;

/// No area lives to see a higher number; so what comes after it can be numbered too.
const HIGHEST: u64 = 1 << 62;

/// The bit of a link that says that the batch carries on.
const CARRIES_ON: u32 = 1 << 31;

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
    /// No other record of the area has it, and later ones have higher ones.
    pub(super) sequence: u64,
    /// The sequence number of the first record that was synced together with this one.
    pub(super) batch: u64,
    /// Nothing in a record of version 1.
    pub(super) links: Option<Links>,
    pub(super) images: Vec<Image>,
}

/// What a batch says of those before it, the same in each of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Links {
    /// The sequence number of the last record of the batch before; nothing if that does not matter.
    pub(super) before: Option<u64>,
    /// No batch before this one is needed once all of this one is in the area.
    pub(super) carries_on: bool,
    /// Of the data; 0 for data without one.
    pub(super) identity: u64,
}

/// A page that may be a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    Record(Record),
    /// A whole record of a version that is not known here.
    Newer(u32),
    /// An image, or a page that is not whole.
    None,
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

/// The most numbers that may lie between the last record of a batch and the first of the next: those
/// of batches that could not be written.
pub(super) const FARTHEST: u64 = (CARRIES_ON - 1) as u64;

impl Links {
    fn encode(self, batch: u64) -> u32 {
        let distance = self.before.map_or(0, |before| batch - before);
        debug_assert!(distance <= FARTHEST);
        (distance & FARTHEST) as u32 | if self.carries_on { CARRIES_ON } else { 0 }
    }

    fn decode(link: u32, batch: u64, identity: u64) -> Self {
        let distance = u64::from(link & !CARRIES_ON);
        Links {
            before: batch.checked_sub(distance).filter(|_| distance > 0),
            carries_on: link & CARRIES_ON != 0,
            identity,
        }
    }
}

impl Record {
    /// Pages in the area, the list itself included.
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

    pub(super) fn decode(bytes: &[u8]) -> Decoded {
        let whole = bytes.len() > ENTRIES_OF_VERSION_1
            && bytes[MAGIC..VERSION] == MAGIC_BYTES
            && get(bytes, 0) == Some(xxh3_64(&bytes[SEQUENCE..]));
        match get_short(bytes, VERSION).filter(|_| whole) {
            Some(version) if version > VERSION_NOW => Decoded::Newer(version),
            Some(version) => Record::known(bytes, version).map_or(Decoded::None, Decoded::Record),
            None => Decoded::None,
        }
    }

    fn known(bytes: &[u8], version: u32) -> Option<Record> {
        let (sequence, batch) = (get(bytes, SEQUENCE)?, get(bytes, BATCH)?);
        if sequence > HIGHEST || batch > sequence {
            return None;
        }
        let count = get_short(bytes, COUNT)? as usize;
        let (entries, links) = match version {
            1 => (ENTRIES_OF_VERSION_1, None),
            _ => {
                let identity = get(bytes, IDENTITY)?;
                let links = Links::decode(get_short(bytes, LINK)?, batch, identity);
                (ENTRIES, Some(links))
            }
        };
        if count > bytes.len().saturating_sub(entries) / ENTRY {
            return None;
        }
        let image = |at| {
            Some(Image {
                page: get(bytes, at)?,
                checksum: get(bytes, at + 8)?,
            })
        };
        Some(Record {
            sequence,
            batch,
            links,
            images: (entries..)
                .step_by(ENTRY)
                .take(count)
                .map(image)
                .collect::<Option<_>>()?,
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
