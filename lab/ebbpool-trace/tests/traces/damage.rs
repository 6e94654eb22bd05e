//! Bad input of every kind ends in a message of one line that says what is wrong and
//! where; nothing panics.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{data, one_line, read, refusal, some, source, write, written};
use ebbpool_trace::{Batch, Format, Metadata, Source, TraceError};
use proptest::prelude::*;

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

#[track_caller]
fn has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

#[test]
fn names_without_a_trace() {
    let error = |name: &str| Source::parse(name, None).unwrap_err();
    has(&error("no/such.u32").to_string(), &["no/such.u32: no such file", "zipf, uniform"]);
    has(&error("/tmp").to_string(), &["/tmp: is a directory"]);
    let unknown = error("zpif:pages=10");
    assert!(unknown.is_usage());
    has(&unknown.to_string(), &["no generator is called 'zpif' (did you mean 'zipf'?)"]);
    // A path with a colon is not a generator.
    has(&error("c:/no such").to_string(), &["no such file"]);
    has(&error("two\nlines").to_string(), &["two\\nlines"]);
    has(&error("").to_string(), &["no such file"]);
    assert!(!error(&"long".repeat(2000)).to_string().contains('\n'));
    assert!(matches!(error("a\0b"), TraceError::Io { .. } | TraceError::NotFound { .. }));
}

#[test]
fn unknown_formats() {
    let scratch = Scratch::new();
    let empty = scratch.file("empty", "");
    has(&refusal(&empty, None), &["is empty", "native, text, u32", "--trace-format"]);
    let strange = scratch.file("strange.bin", [7; 1000]);
    has(&refusal(&strange, None), &["neither its name nor its content", "native, text, u32"]);
    let comments = scratch.file("comments", "# nothing\n");
    has(&refusal(&comments, None), &["neither its name nor its content"]);

    // Where the format is known, an empty file is an empty trace.
    assert!(read(&empty, Some(Format::Text)).unwrap().is_empty());
    assert!(read(&empty, Some(Format::U32)).unwrap().is_empty());
    has(&refusal(&empty, Some(Format::Native)), &["Parquet", "does not begin with PAR1"]);
}

#[test]
fn bad_lines() {
    let scratch = Scratch::new();
    for (text, line, found) in [
        ("R 1\nW 2\nX 3\n", 3, "'X 3'"),
        ("# c\n\nR 1\n12 R\n", 4, "'12 R'"),
        ("R 1\nR 18446744073709551616\n", 2, "'R 18446744073709551616'"),
        ("R 1\nR -5", 2, "'R -5'"),
        ("R 1\nR\n", 2, "'R'"),
        ("R 1\r\nW one\r\n", 2, "'W one'"),
        ("R 1\nR \u{1b}[31m\n", 2, r"'R \u{1b}[31m'"),
    ] {
        let path = scratch.file("bad.txt", text);
        let message = refusal(&path, None);
        has(&message, &[&format!("bad.txt, line {line}: expected "), found]);
    }
    let lines: String = (0..100_000).map(|i| format!("R {i}\n")).collect();
    let path = scratch.file("bad.txt", lines + "oops\n");
    has(&refusal(&path, None), &["line 100001: expected `R 123` or `W 123`", "found 'oops'"]);
    let path = scratch.file("bad.txt", vec![b'R'; 1 << 20]);
    has(&refusal(&path, None), &["line 1: expected lines shorter than 256 KiB", "…'"]);
    let path = scratch.file("bad.txt", b"R 1\n\xFF\xFE\n");
    has(&refusal(&path, None), &["line 2"]);
}

#[test]
fn bad_words() {
    let scratch = Scratch::new();
    let path = scratch.file("odd.u32", [0; 10]);
    has(&refusal(&path, None), &["10 bytes are not a whole number of 32-bit words"]);
    let path = scratch.file("odd.u32.zst", zstd::encode_all(&[0; 10][..], 3).unwrap());
    has(&refusal(&path, None), &["10 bytes are not"]);

    let path = scratch.file("trace.u32", [0; 8]);
    for (json, problem) in [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("[1]", "expected a JSON object"),
        (r#"{"page_size": "8k"}"#, r#"page_size is "8k", expected a whole number"#),
        (r#"{"database_pages": -1}"#, "database_pages is -1"),
        (r#"{"name": 7}"#, "name is 7, expected a string"),
    ] {
        scratch.file("trace.json", json);
        has(&refusal(&path, None), &["trace.json: bad trace metadata", problem]);
    }
    scratch.file("trace.json", r#"{"name": null, "other": {}}"#);
    assert_eq!(read(&path, None).unwrap().len(), 2);
}

#[test]
fn pages_too_large_for_u32_leave_the_old_file() {
    let scratch = Scratch::new();
    let path = scratch.file("trace.u32", "old!");
    let all = Batch::from_iter([(1, true), (1 << 31, false)]);
    let error = write(&path, Format::U32, &Metadata::default(), &all).unwrap_err();
    has(&one_line(&path, &error), &["page 2147483648 does not fit", "native"]);
    assert_eq!(fs::read(&path).unwrap(), b"old!");
    assert_eq!(fs::read_dir(scratch.0.path()).unwrap().count(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let all = some(300_000, 1 << 20);
    let scratch = Scratch::new();
    for format in written() {
        for ending in ["", ".zst", ".gz"] {
            let link = scratch.path(&format!("full{format}{ending}"));
            std::os::unix::fs::symlink("/dev/full", &link).unwrap();
            let error = write(&link, format, &Metadata::default(), &all).unwrap_err();
            has(&one_line(&link, &error), &["cannot write", "No space left"]);
        }
    }
}

#[test]
fn tables_that_are_not_traces() {
    has(&refusal(&data("null.parquet"), None), &["row 2 (the first is 0)", "page is null"]);
    has(&refusal(&data("negative.parquet"), None), &["row 3 (the first is 0)", "page is negative"]);
    has(&refusal(&data("types.parquet"), None), &["row 0 (the first is 0)", "expected a page number", "found '1.5'"]);
    has(&refusal(&data("list.parquet"), None), &["no column 'page'", "page.list.element"]);
}

/// Valid files of every kind that has a structure to damage.
#[test]
fn a_footer_that_would_take_hours_to_count() {
    let scratch = Scratch::new();
    // 2^31 booleans in a field that Parquet does not have, once and in 100 lists.
    let booleans = [0xF1, 0xFF, 0xFF, 0xFF, 0xFF, 7];
    for (name, footer) in [
        ("once.parquet", [&[0xF9][..], &booleans, &[0]].concat()),
        ("often.parquet", [&[0xF9, 0xF9, 100][..], &booleans.repeat(100), &[0]].concat()),
    ] {
        let length = (footer.len() as u32).to_le_bytes();
        let bytes = [b"PAR1", &footer[..], &length, b"PAR1"].concat();
        let message = refusal(&scratch.file(name, bytes), None);
        has(&message, &["damaged", "a length beyond its end"]);
    }
}

fn valid() -> Vec<(String, Vec<u8>)> {
    let scratch = Scratch::new();
    let metadata = Metadata { name: Some("n".to_owned()), page_size: Some(1), database_pages: Some(2), ..Metadata::default() };
    let mut files = Vec::new();
    for name in ["a.parquet", "b.parquet.zst", "c.txt.gz", "d.txt.zst", "e.u32.gz", "f.u32.zst"] {
        let path = scratch.path(name);
        let format = Format::of_name(&path).unwrap();
        write(&path, format, &metadata, &some(400, 1000)).unwrap();
        files.push((name.to_owned(), fs::read(&path).unwrap()));
    }
    for name in ["pandas", "pyarrow", "polars", "duckdb", "duckdb-32", "null", "list"] {
        let name = format!("{name}.parquet");
        files.push((name.clone(), fs::read(data(&name)).unwrap()));
    }
    files
}

#[test]
fn every_truncation_is_noticed() {
    let scratch = Scratch::new();
    for (name, bytes) in valid() {
        for length in (1..bytes.len()).step_by(1 + bytes.len() / 300) {
            let path = scratch.file(&name, &bytes[..length]);
            // Without its magic, the format follows from the name alone.
            if length < 10 {
                let _ = read(&path, None);
                continue;
            }
            let message = refusal(&path, None);
            has(&message, &["truncated or damaged"]);
        }
    }
}

/// Reading does not panic, and an error is one line that names the file.
fn survives(path: &Path) {
    if let Err(error) = read(path, None) {
        one_line(path, &error);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn several_bytes_damaged(
        which in 0..13usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        grown in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        thread_local! {
            static VALID: Vec<(String, Vec<u8>)> = valid();
        }
        let (name, mut bytes) = VALID.with(|files| files[which].clone());
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            let at = cut.index(bytes.len());
            bytes.splice(at..at, grown);
        }
        let scratch = Scratch::new();
        survives(&scratch.file(&name, bytes));
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let scratch = Scratch::new();
        for name in ["any.txt", "any.u32", "any.parquet", "any"] {
            survives(&scratch.file(name, &bytes));
        }
        // Without its format named, words that could be text, such as four blanks, are refused.
        let words = read(&scratch.file("any.u32", &bytes), Some(Format::U32));
        prop_assert_eq!(words.is_ok(), bytes.len() % 4 == 0);
    }

    #[test]
    fn any_bytes_after_a_magic(
        magic in prop::sample::select(vec![&b"PAR1"[..], b"\x28\xB5\x2F\xFD", b"\x1F\x8B\x08\0\0\0\0\0\0\x03"]),
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        tail in any::<u8>(),
    ) {
        let scratch = Scratch::new();
        let bytes = [magic, &bytes, &[tail, 0, 0, 0], b"PAR1"].concat();
        survives(&scratch.file("magic", bytes));
    }

    #[test]
    fn any_lines(lines in prop::collection::vec("[RWrwx#0-9 \t\r]{0,25}|[RW] [0-9]{1,21}", 0..20)) {
        let scratch = Scratch::new();
        let path = scratch.file("lines.txt", lines.join("\n"));
        // A simple parser for comparison.
        let mut expected = Ok(Vec::new());
        for (number, line) in lines.iter().enumerate() {
            let code = line.split('#').next().unwrap().trim();
            if code.is_empty() {
                continue;
            }
            let parts: Vec<&str> = code.split_ascii_whitespace().collect();
            let reference = match parts[..] {
                [letter, page] if page.bytes().all(|byte| byte.is_ascii_digit()) => {
                    let write = match letter {
                        "R" | "r" => Some(false),
                        "W" | "w" => Some(true),
                        _ => None,
                    };
                    write.zip(page.parse::<u64>().ok())
                }
                _ => None,
            };
            match (reference, &mut expected) {
                (Some((write, page)), Ok(all)) => all.push((page, write)),
                _ => {
                    expected = Err(number + 1);
                    break;
                }
            }
        }
        match (read(&path, None), expected) {
            (Ok(all), Ok(expected)) => prop_assert_eq!(all, Batch::from_iter(expected)),
            (Err(error), Err(line)) => {
                let place = format!("line {line}:");
                prop_assert!(error.to_string().contains(&place), "{} {}", error, line);
            }
            (found, expected) => prop_assert!(false, "{:?} {:?}", found, expected),
        }
    }
}

#[test]
fn nothing_is_read_after_an_error() {
    let scratch = Scratch::new();
    let path = scratch.file("bad.txt", "R 1\nX\nR 2\n");
    let mut reader = source(&path, None).unwrap().open().unwrap();
    let mut batch = Batch::new();
    assert!(reader.next_batch(&mut batch, 1).unwrap());
    assert!(reader.next_batch(&mut batch, 1).is_err());
    assert!(batch.is_empty());
    assert!(!reader.next_batch(&mut batch, 1).unwrap());
}

mod whole {
    use super::*;

    #[test]
    fn every_byte_damaged() {
        let scratch = Scratch::new();
        let mut decoder_gave_up = 0;
        for (name, bytes) in valid() {
            for at in 0..bytes.len() {
                // Every byte of the footers, which are the most fragile part; the rest is sampled.
                if at + 600 < bytes.len() && at % 5 != 0 {
                    continue;
                }
                for change in [0xFFu8, 0x01, 0x80] {
                    let mut bytes = bytes.clone();
                    bytes[at] ^= change;
                    let path = scratch.file(&name, &bytes);
                    if let Err(error) = read(&path, None) {
                        let message = one_line(&path, &error);
                        let panicked = ["column start and length", "out of range", "overflow"];
                        decoder_gave_up += usize::from(panicked.iter().any(|part| message.contains(part)));
                    }
                }
            }
        }
        // The guard around the Parquet crate is needed.
        assert!(decoder_gave_up > 0);
    }
}
