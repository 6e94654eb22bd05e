//! Trace files: any content is a trace or is refused with an error of one line, whatever the
//! batches.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use ebbpool_trace::{Batch, Format, Metadata, OptionalColumns, ReadOptions, Reader, Source, TraceError, Writer};
use tempfile::TempDir;

/// A few bytes can unpack to gigabytes; more references than this are not read.
const MOST_REFERENCES: usize = 100_000;

/// The content of a trace.
#[derive(Debug, PartialEq)]
struct Content {
    metadata: Metadata,
    references: Vec<(u64, bool)>,
    /// Reading ended with an error. The numbers in its message depend on the batches.
    failed: bool,
    /// False if reading stopped at [`MOST_REFERENCES`].
    whole: bool,
}

fn scratch() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

fn put(directory: &TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, content).expect("a temporary file");
    path
}

/// The text format.
pub(crate) fn text(input: &[u8]) {
    let directory = scratch();
    check_file(&put(&directory, "fuzz.txt", input));
}

/// The u32 format: the first line is the `.json` beside the file, the rest the file.
pub(crate) fn u32_with_sidecar(input: &[u8]) {
    let directory = scratch();
    let end = input.iter().position(|&byte| byte == b'\n');
    let (sidecar, words) = match end {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (&input[..0], input),
    };
    if !sidecar.is_empty() {
        put(&directory, "fuzz.json", sidecar);
    }
    check_file(&put(&directory, "fuzz.u32", words));
}

/// A CSV file: the first line names its columns, if it is not empty; pages have 4 KiB.
pub(crate) fn csv(input: &[u8]) {
    let directory = scratch();
    let end = input.iter().position(|&byte| byte == b'\n');
    let (columns, content) = match end {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (&input[..0], input),
    };
    let columns = std::str::from_utf8(columns).ok();
    let options = ReadOptions {
        columns: columns.and_then(|columns| columns.parse().ok()),
        page_size: NonZeroU64::new(4096),
        ..ReadOptions::default()
    };
    let path = put(&directory, "fuzz.csv", content);
    let path = path.to_str().expect("a temporary path in UTF-8");
    match Source::parse_with(path, &options) {
        Ok(source) => check_source(&source),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// The native format.
pub(crate) fn native(input: &[u8]) {
    let directory = scratch();
    let path = put(&directory, "fuzz.parquet", input);
    check_file(&path);
    // And as a table of any columns.
    let columns = "page=#1:text,volume=#2,write=#2:W,read=#2:*,class=#3".parse().ok();
    let options = ReadOptions { columns, ..ReadOptions::default() };
    let path = path.to_str().expect("a temporary path in UTF-8");
    check_source(&Source::parse_with(path, &options).expect("the file exists"));
}

/// A format of another program, once with bad lines as errors and once with bad lines skipped;
/// pages have 4 KiB.
pub(crate) fn foreign(format: Format, input: &[u8]) {
    let directory = scratch();
    let path = put(&directory, "fuzz", input);
    let path = path.to_str().expect("a temporary path in UTF-8");
    for bad_lines in [0, u64::MAX] {
        let options =
            ReadOptions { format: Some(format), page_size: NonZeroU64::new(4096), bad_lines, ..ReadOptions::default() };
        let source = Source::parse_with(path, &options).expect("the file exists");
        check_batches(&source);
    }
}

/// Compressed files, and files whose name does not state the format: the first byte chooses the
/// name.
pub(crate) fn compressed(input: &[u8]) {
    let names = ["fuzz.txt.gz", "fuzz.txt.zst", "fuzz.u32.zst", "fuzz.u32.gz", "fuzz.parquet.zst", "fuzz"];
    let Some((choice, content)) = input.split_first() else {
        return;
    };
    let directory = scratch();
    let name = names[usize::from(*choice) % names.len()];
    check_file(&put(&directory, name, content));
}

fn check_file(path: &Path) {
    match open(path) {
        Ok(source) => check_source(&source),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

fn open(path: &Path) -> Result<Source, TraceError> {
    Source::parse(path.to_str().expect("a temporary path in UTF-8"), None)
}

/// A trace has the same content in large and small batches, and after writing it in every format
/// that can represent it.
pub(crate) fn check_source(source: &Source) {
    let Some(content) = check_batches(source) else {
        return;
    };
    if content.failed || !content.whole {
        return;
    }
    let directory = scratch();
    let most = content.references.iter().map(|(page, _)| *page).max();
    for (format, name) in [
        (Format::Native, "again.parquet"),
        (Format::Text, "again.txt.zst"),
        (Format::U32, "again.u32"),
        (Format::Csv, "again.csv"),
    ] {
        if format == Format::U32 && most.is_some_and(|page| page >= 1 << 31) {
            continue;
        }
        let path = directory.path().join(name);
        write(&path, format, &content).expect("a trace that was read can be written");
        let again = open(&path).ok().and_then(|source| read(&source, 4096));
        match content.references.is_empty() {
            // An empty file has no format.
            true => assert!(again.is_none_or(|again| again.references.is_empty())),
            false => {
                let mut again = again.expect("a trace that was written can be read");
                if !format.keeps_metadata() {
                    again.metadata = content.metadata.clone();
                }
                assert_eq!(again, content, "as {name}");
            }
        }
    }
}

/// The content of a trace, which is the same in large and small batches; `None` if the trace cannot
/// be opened.
fn check_batches(source: &Source) -> Option<Content> {
    let content = read(source, 4096)?;
    assert_eq!(read(source, 7).as_ref(), Some(&content));
    check_columns(source, &content);
    Some(content)
}

/// `None` if the trace cannot be opened.
fn read(source: &Source, most: usize) -> Option<Content> {
    let reader = match source.open() {
        Ok(reader) => reader,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            return None;
        }
    };
    Some(read_all(reader, most))
}

/// The optional columns are as long as the others, and times never run backwards. A bad class or ring is an error only
/// where it is asked for.
fn check_columns(source: &Source, content: &Content) {
    let one_line = |error: TraceError| {
        let message = error.to_string();
        assert!(!message.contains('\n'), "{message}");
    };
    let mut reader = match source.open_with(OptionalColumns::ALL) {
        Ok(reader) => reader,
        Err(error) => return one_line(error),
    };
    let mut batch = Batch::new();
    let mut references = content.references.iter();
    let mut now = 0;
    while references.len() > 0 {
        match reader.next_batch(&mut batch, references.len().min(4096)) {
            Ok(true) => {}
            Ok(false) => return assert!(content.failed),
            Err(error) => return one_line(error),
        }
        assert!(batch.iter().eq(references.by_ref().take(batch.len()).copied()));
        let expected = |has: bool| if has { batch.len() } else { 0 };
        assert_eq!(batch.classes.len(), expected(reader.classes().is_some()));
        assert_eq!(batch.requests.len(), expected(reader.has_requests()));
        for request in &batch.requests {
            assert!(request.time_us >= now);
            now = request.time_us;
        }
    }
}

fn read_all(mut reader: Reader, most: usize) -> Content {
    let mut content = Content { metadata: reader.metadata().clone(), references: Vec::new(), failed: false, whole: true };
    let stated = reader.references();
    let mut batch = Batch::new();
    loop {
        // Batches of every size stop at the same reference: a batch that extends past it may
        // contain an error that the others do not reach.
        let most = most.min(MOST_REFERENCES - content.references.len());
        match reader.next_batch(&mut batch, most) {
            Ok(true) => {
                assert!((1..=most).contains(&batch.len()));
                content.references.extend(batch.iter());
                if content.references.len() == MOST_REFERENCES {
                    content.whole = false;
                    return content;
                }
            }
            Ok(false) => {
                let count = content.references.len() as u64;
                assert!(stated.is_none_or(|stated| stated == count));
                return content;
            }
            Err(error) => {
                let message = error.to_string();
                assert!(batch.is_empty() && !message.contains('\n'), "{message}");
                // The number of references of the last batch that were read before the error
                // depends on its size.
                content.references.clear();
                content.failed = true;
                return content;
            }
        }
    }
}

fn write(path: &Path, format: Format, content: &Content) -> Result<(), TraceError> {
    // A higher level takes tens of megabytes for a few references, and ten times the time.
    let mut writer = Writer::create_with(path, format, &content.metadata, Some(1))?;
    let mut batch = Batch::new();
    for (page, write) in &content.references {
        batch.push(*page, *write);
    }
    writer.write(&batch)?;
    writer.finish()?;
    Ok(())
}
