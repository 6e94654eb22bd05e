//! A key of the references that a source yields, for caches of results.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ebbpool_cost::one_line;

use crate::bad_lines::LateNote;
use crate::error::TraceError;
use crate::formats::{Decode, Format};
use crate::reference::{Batch, Metadata};
use crate::source::ReadOptions;

/// Hashes everything that determines the references of a source.
///
/// Every field is hashed with a tag and its length, so that two different sources never
/// feed the same bytes to the hash.
pub(crate) struct ContentHasher(blake3::Hasher);

impl ContentHasher {
    pub(crate) fn new(options: &ReadOptions) -> ContentHasher {
        let ReadOptions {
            // The formats that it leads to are hashed with the files.
            format: _,
            columns,
            page_size,
            bad_lines,
            skip,
            limit,
            below_cache,
            whole_writes,
            apart,
            by_time,
        } = options;
        let mut hasher = ContentHasher(blake3::Hasher::new());
        hasher.field("ebbpool trace", b"1");
        let columns = columns.as_ref().map(ToString::to_string);
        hasher.field("columns", columns.unwrap_or_default().as_bytes());
        let page_size = page_size.map_or(0, |size| size.get());
        hasher.field("page size", &page_size.to_le_bytes());
        hasher.field("bad lines", &bad_lines.to_le_bytes());
        hasher.field("skip", &skip.to_le_bytes());
        match limit {
            Some(limit) => hasher.field("limit", &limit.to_le_bytes()),
            None => hasher.field("limit", b""),
        }
        // Only where it is given, so that the keys of results stored before stay valid.
        if let Some(below_cache) = below_cache {
            hasher.field("below cache", &[u8::from(*below_cache)]);
        }
        if *whole_writes {
            hasher.field("whole writes", b"");
        }
        if *apart {
            hasher.field("apart", b"");
        }
        if *by_time {
            hasher.field("by time", b"");
        }
        hasher
    }

    fn field(&mut self, tag: &str, value: &[u8]) {
        for bytes in [tag.as_bytes(), value] {
            self.0.update(&(bytes.len() as u64).to_le_bytes());
            self.0.update(bytes);
        }
    }

    /// A generator by its arguments in canonical spelling.
    pub(crate) fn generator(&mut self, canonical: &str) {
        self.field("generator", canonical.as_bytes());
        self.field("version", env!("CARGO_PKG_VERSION").as_bytes());
    }

    /// The key of a generator's base.
    pub(crate) fn base(&mut self, key: &[u8; 32]) {
        self.field("base", key);
    }

    /// References that a caller supplies, by their key.
    pub(crate) fn supplied(&mut self, key: &[u8; 32], metadata: &Metadata) {
        let Metadata { name: _, page_size, database_pages, below_cache, own_numbers: _ } = metadata;
        self.field("supplied", key);
        for stated in [page_size, database_pages] {
            let bytes = stated.map_or_else(Vec::new, |number| number.to_le_bytes().to_vec());
            self.field("stated", &bytes);
        }
        // Only where it is set, so that the keys of results stored before stay valid.
        if *below_cache {
            self.field("below cache", b"");
        }
    }

    /// The key of a table, from that of its references, its metadata, the names of its classes and the notes on its rows.
    pub(crate) fn of_table(key: [u8; 32], metadata: &Metadata, names: &[String], notes: &[LateNote]) -> [u8; 32] {
        let mut hasher = ContentHasher(blake3::Hasher::new());
        if !metadata.below_cache && names.is_empty() && notes.is_empty() {
            return key;
        }
        hasher.field("references", &key);
        hasher.field("below cache", &[u8::from(metadata.below_cache)]);
        names.iter().for_each(|name| hasher.field("class", name.as_bytes()));
        for LateNote { part: _, before, after } in notes {
            hasher.field("note", before.as_bytes());
            hasher.field("note", after.as_bytes());
        }
        hasher.finish()
    }

    /// A file's stored bytes.
    pub(crate) fn bytes(&mut self, label: &str, format: Format, bytes: impl Read) -> Result<(), TraceError> {
        let failed = |error| TraceError::io(label, "read", error);
        let key = hash_of(bytes).map_err(failed)?;
        self.field("format", format.name().as_bytes());
        self.field("file", key.as_bytes());
        Ok(())
    }

    /// The metadata beside a file, if the metadata file exists.
    pub(crate) fn sidecar(&mut self, path: &Path) -> Result<(), TraceError> {
        let key = match File::open(path).and_then(hash_of) {
            Ok(key) => key,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(TraceError::io(one_line(&path.to_string_lossy()), "read", error));
            }
        };
        self.field("sidecar", key.as_bytes());
        Ok(())
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
}

/// The key of all that a decoder yields.
pub(crate) fn key_of(decoder: &mut dyn Decode) -> Result<[u8; 32], TraceError> {
    /// A slow supplier gives fewer at a time; the key is the same.
    const AT_ONCE: usize = 1 << 16;
    let mut hasher = blake3::Hasher::new();
    let (mut batch, mut piece) = (Batch::with_capacity(AT_ONCE), Batch::new());
    let mut bytes = Vec::with_capacity(9 * AT_ONCE);
    loop {
        batch.clear();
        while batch.len() < AT_ONCE {
            piece.clear();
            decoder.fill(&mut piece, AT_ONCE - batch.len())?;
            let is_end = piece.is_empty();
            batch.append(&mut piece);
            if is_end {
                break;
            }
        }
        if batch.is_empty() {
            return Ok(*hasher.finalize().as_bytes());
        }
        let Batch { pages, writes, classes, requests, whole, trims } = &batch;
        bytes.clear();
        bytes.extend((pages.len() as u64).to_le_bytes());
        bytes.extend(pages.iter().flat_map(|page| page.to_le_bytes()));
        bytes.extend(writes.iter().map(|&write| u8::from(write)));
        bytes.extend(classes.iter().flat_map(|class| class.to_le_bytes()));
        // Only where there are some, so that the keys of results stored before stay valid.
        for (tag, numbers) in [
            (0, requests.iter().flat_map(|it| [it.time_us, u64::from(it.bypass)]).collect::<Vec<u64>>()),
            (1, (0..).zip(whole).filter(|(_, whole)| **whole).map(|(at, _)| at).collect()),
            (2, trims.iter().flat_map(|it| [it.before as u64, it.first, it.last, it.time_us]).collect()),
        ] {
            if !numbers.is_empty() {
                bytes.push(tag);
                bytes.extend((numbers.len() as u64).to_le_bytes());
                bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            }
        }
        hasher.update(&bytes);
    }
}

fn hash_of(bytes: impl Read) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(bytes)?;
    Ok(hasher.finalize())
}
