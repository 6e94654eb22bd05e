//! Golden traces: files of our own formats as written by the first release, in `tests/golden/`.
//!
//! Every later release must read them, so a file in that directory never changes once it is released. After a
//! deliberate change of a format a new file is added, under a new name:
//!
//! ```text
//! cargo test -p ebbpool-trace --test traces golden:: -- --ignored
//! ```
//!
//! writes the files that are missing. `docs/formats.md` describes the formats.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{read, source, write};
use ebbpool_trace::{Batch, Format, Metadata, OptionalColumns, RequestDetail, Writer};
use parquet::file::reader::{FileReader, SerializedFileReader};

const NATIVE: &str = "native-1.parquet";
/// A native trace with times and rings, captured below a cache.
const REQUESTS: &str = "native-requests-1.parquet";
const WORDS: &str = "words-1.u32";
const SIDECAR: &str = "words-1.json";

fn metadata() -> Metadata {
    Metadata { name: Some("golden".into()), page_size: Some(8192), database_pages: Some(1 << 31), ..Metadata::default() }
}

/// The smallest and the largest page of the format, and some repeated pages.
fn references(highest: u64) -> Batch {
    let few = [(0, false), (highest, true), (0, true), (highest, false)];
    let many = (0..40).map(|at| (at * at % 17 + 1000, at % 3 == 0));
    few.into_iter().chain(many).collect()
}

fn words() -> Batch {
    references((1 << 31) - 1)
}

/// The references with times and rings.
fn requests() -> (Metadata, Batch) {
    let mut all = references(u64::MAX);
    let detail = |at: u64| RequestDetail { time_us: 1_700_000_000_000_000 + at * at, bypass: [0, 5, 6, 11][at as usize % 4] };
    all.requests = (0..all.len() as u64).map(detail).collect();
    let metadata = Metadata { below_cache: true, ..metadata() };
    (metadata, all)
}

/// Writes a trace with all columns of the batch.
fn write_whole(path: &Path, (metadata, all): &(Metadata, Batch)) {
    let mut writer = Writer::create(path, Format::Native, metadata).expect("it is created");
    writer.write(all).expect("it is written");
    writer.finish().expect("it is finished");
}

fn path(name: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(name)
}

#[test]
fn a_native_trace_of_the_first_release_is_read() {
    let native = path(NATIVE);
    assert_eq!(read(&native, None).expect("it is read"), references(u64::MAX));
    let reader = source(&native, None).expect("a trace").open();
    assert_eq!(*reader.expect("it opens").metadata(), metadata());
}

#[test]
fn a_native_trace_of_the_first_release_is_laid_out_as_described() {
    let file = fs::File::open(path(NATIVE)).expect("it opens");
    let file = SerializedFileReader::new(file).expect("Parquet");
    let footer = file.metadata().file_metadata();
    let columns = footer.schema_descr().columns();
    let columns: Vec<String> =
        columns.iter().map(|it| format!("{} {} {:?}", it.name(), it.physical_type(), it.converted_type())).collect();
    assert_eq!(columns, ["page INT64 UINT_64", "write BOOLEAN NONE"]);
    let pairs = footer.key_value_metadata().expect("pairs");
    let pairs: Vec<(&str, Option<&str>)> = pairs.iter().map(|pair| (pair.key.as_str(), pair.value.as_deref())).collect();
    assert_eq!(
        pairs,
        [("ebbpool.name", Some("golden")), ("ebbpool.page_size", Some("8192")), ("ebbpool.database_pages", Some("2147483648")),]
    );
    assert_eq!(footer.created_by(), Some("ebbpool 0.1.0"));
}

#[test]
fn a_native_trace_with_requests_is_read() {
    let source = source(&path(REQUESTS), None).expect("a trace");
    let mut reader = source.open_with(OptionalColumns::ALL).expect("it opens");
    let (metadata, all) = requests();
    assert_eq!(*reader.metadata(), metadata);
    let mut batch = Batch::new();
    assert!(reader.next_batch(&mut batch, 1000).expect("it is read"));
    assert_eq!(batch, all);

    let file = fs::File::open(path(REQUESTS)).expect("it opens");
    let file = SerializedFileReader::new(file).expect("Parquet");
    let columns = file.metadata().file_metadata().schema_descr().columns();
    let columns: Vec<String> =
        columns.iter().map(|it| format!("{} {} {:?}", it.name(), it.physical_type(), it.converted_type())).collect();
    assert_eq!(columns[2..], ["time_us INT64 NONE", "bypass INT32 UINT_32"]);
}

#[test]
fn words_of_the_first_release_are_read() {
    let path = path(WORDS);
    assert_eq!(read(&path, None).expect("it is read"), words());
    let reader = source(&path, None).expect("a trace").open();
    assert_eq!(*reader.expect("it opens").metadata(), metadata());
    let bytes = fs::read(&path).expect("it is read");
    assert_eq!(bytes[..8], *b"\0\0\0\0\xff\xff\xff\xff");
}

#[test]
fn golden_words_equal_the_current_output() {
    let directory = tempfile::tempdir().expect("a directory");
    let written = directory.path().join(WORDS);
    write(&written, Format::U32, &metadata(), &words()).expect("it is written");
    for name in [WORDS, SIDECAR] {
        let written = fs::read(directory.path().join(name)).expect("it is read");
        assert!(written == fs::read(path(name)).expect("it is read"), "{name}");
    }
}

#[test]
#[ignore = "writes the golden files that are missing"]
fn write_golden_files() {
    for (name, format, references) in [(NATIVE, Format::Native, references(u64::MAX)), (WORDS, Format::U32, words())] {
        if !path(name).exists() {
            write(&path(name), format, &metadata(), &references).expect("it is written");
        }
    }
    if !path(REQUESTS).exists() {
        write_whole(&path(REQUESTS), &requests());
    }
}
