//! Helpers of several test files.

use std::path::{Path, PathBuf};

use ebbpool_trace::{Batch, Format, Metadata, OptionalColumns, Source, TraceError, Writer, WrittenTrace};

/// The formats that can be written.
pub fn written() -> impl Iterator<Item = Format> {
    Format::ALL.iter().copied().filter(|format| format.is_written())
}

/// Writes a trace in pieces of varying sizes.
pub fn write(path: &Path, format: Format, metadata: &Metadata, all: &Batch) -> Result<WrittenTrace, TraceError> {
    let mut writer = Writer::create(path, format, metadata)?;
    let mut batch = Batch::new();
    for (i, (page, write)) in all.iter().enumerate() {
        batch.push(page, write);
        if i % 777 == 0 {
            writer.write(&batch)?;
            batch.clear();
        }
    }
    writer.write(&batch)?;
    writer.finish()
}

/// Reads a whole trace in batches of at most `max`.
pub fn read_from(source: &Source, max: usize) -> Result<Batch, TraceError> {
    let mut reader = source.open()?;
    let mut all = Batch::new();
    let mut batch = Batch::new();
    let mut progress = 0.0;
    while reader.next_batch(&mut batch, max)? {
        assert!((1..=max).contains(&batch.len()));
        assert_eq!(batch.pages.len(), batch.writes.len());
        all.pages.extend_from_slice(&batch.pages);
        all.writes.extend_from_slice(&batch.writes);
        assert!((progress..=1.0).contains(&reader.progress()), "progress falls");
        progress = reader.progress();
    }
    assert!(batch.is_empty());
    assert_eq!(reader.progress(), 1.0);
    assert!(!reader.next_batch(&mut batch, max)?, "the end stays the end");
    if let Some(references) = reader.references() {
        assert_eq!(references, all.len() as u64);
    }
    Ok(all)
}

pub fn source(path: &Path, format: Option<Format>) -> Result<Source, TraceError> {
    Source::parse(path.to_str().unwrap(), format)
}

pub fn read(path: &Path, format: Option<Format>) -> Result<Batch, TraceError> {
    read_from(&source(path, format)?, 1000)
}

/// The message of a trace that must not be readable: one line that names the
/// file.
pub fn refusal(path: &Path, format: Option<Format>) -> String {
    let error = read(path, format).expect_err("must be refused");
    one_line(path, &error)
}

pub fn one_line(path: &Path, error: &TraceError) -> String {
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let stem = stem.split('.').next().unwrap();
    assert!(message.contains(stem), "{message} does not name {stem}");
    message
}

/// The deterministic trace of `tests/data/make.py`.
pub fn made(last: u64) -> Batch {
    const N: u64 = 300;
    (0..N)
        .map(|i| match i {
            299 => (last, i % 3 == 0),
            _ => (i * i * 7919 % 10007, i % 3 == 0),
        })
        .collect()
}

/// References that do not depend on our generators: a multiplicative sequence.
pub fn some(count: usize, pages: u64) -> Batch {
    let mut state = 1u64;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % pages, state >> 20 & 3 == 0)
        })
        .collect()
}

/// The references of a generator.
pub fn generate(spec: &str) -> Batch {
    read_from(&Source::parse(spec, None).unwrap(), 1000).unwrap()
}

/// FNV-1a over page (little endian) and write of every reference.
pub fn checksum(batch: &Batch) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    for (page, write) in batch.iter() {
        for byte in page.to_le_bytes().into_iter().chain([u8::from(write)]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
    hash
}

/// A file of `tests/data`.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// All references of a source, with trims and writes of whole pages, read in small batches.
pub fn all_of(source: &Source) -> Batch {
    let mut reader = source.open_with(OptionalColumns::OPERATIONS).unwrap();
    let (mut all, mut batch) = (Batch::new(), Batch::new());
    while reader.next_batch(&mut batch, 7).unwrap() {
        all.append(&mut batch);
    }
    assert!(reader.has_operations() || (all.whole.is_empty() && all.trims.is_empty()));
    // References behind the last that replaces its page do not.
    all.whole.truncate(all.whole.iter().rposition(|whole| *whole).map_or(0, |last| last + 1));
    all
}
