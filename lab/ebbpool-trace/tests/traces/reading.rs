//! Reading traces: CSV, bad lines, folding, parts, skip and limit, and the content key.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{all_of, read_from, some, write};
use ebbpool_trace::{
    Batch, ByteRecord, Format, Metadata, OptionalColumns, ReadOptions, RequestDetail, Source, TableRows, TableSupplier,
    TraceError, Trim, Writer,
};
use proptest::prelude::*;

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A native trace with a page size.
    fn native(&self, name: &str, all: &Batch, page_size: u64) -> String {
        let metadata = Metadata {
            name: Some("n".to_owned()),
            page_size: Some(page_size),
            database_pages: Some(1001),
            ..Metadata::default()
        };
        let path = self.path(name);
        write(&path, Format::Native, &metadata, all).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn options(columns: &str, page_size: u64) -> ReadOptions {
    ReadOptions {
        columns: (!columns.is_empty()).then(|| columns.parse().unwrap()),
        page_size: NonZeroU64::new(page_size),
        ..ReadOptions::default()
    }
}

fn batch(references: &[(u64, bool)]) -> Batch {
    references.iter().copied().collect()
}

fn read(arg: &str, options: &ReadOptions) -> Result<Batch, TraceError> {
    read_from(&Source::parse_with(arg, options)?, 3)
}

fn refusal(arg: &str, options: &ReadOptions) -> String {
    let message = read(arg, options).expect_err("must be refused").to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

fn notes(arg: &str, options: &ReadOptions) -> Vec<String> {
    let reader = Source::parse_with(arg, options).unwrap().open().unwrap();
    reader.notes().to_vec()
}

#[test]
fn csv_with_named_columns() {
    let scratch = Scratch::new();
    let text = "time,blk,op\n1, 5 ,R\r\n2,18446744073709551615,W\n3,0,w\n";
    let path = scratch.file("a.csv", text);
    let last = |write| batch(&[(5, false), (u64::MAX, true), (0, write)]);
    // A given value must match exactly, a word such as write in any case; one that means a write elsewhere is asked for.
    let asked = refusal(&path, &options("page=blk,write=op:W", 0));
    assert!(asked.contains("write=op:W|w") && asked.contains("read=op:w"), "{asked}");
    assert_eq!(read(&path, &options("page=blk,write=op:W,read=op:w", 0)).unwrap(), last(false));
    assert_eq!(read(&path, &options("page=blk,write=op:W|w", 0)).unwrap(), last(true));
    assert_eq!(read(&path, &options("page=blk,write=op", 0)).unwrap(), last(true));
    assert_eq!(read(&path, &options("", 0)).unwrap(), last(true));
    let guessed = notes(&path, &options("", 0));
    assert_eq!(guessed.len(), 1);
    assert!(guessed[0].ends_with("a.csv: guessed --columns page=blk,write=op; not read: time"));
    assert_eq!(notes(&path, &options("page=blk,write=op", 0)), [""; 0]);
    let reads = read(&path, &options("page=blk", 0)).unwrap();
    assert_eq!(reads.writes, [false; 3]);
    let unread = notes(&path, &options("page=blk", 0));
    assert!(
        unread[0].ends_with("columns that are not read: op") && unread[1].contains("all references are reads"),
        "{unread:?}"
    );
}

#[test]
fn csv_in_other_spellings() {
    let scratch = Scratch::new();
    let expected = batch(&[(1, true), (2, false)]);
    for text in [
        "\u{feff}page,write\n1,true\n2,False", "\"page\";\"write\"\r\n\"1\";\"1\"\r\n2;0\r\n",
        "write\tpage\nWRITE\t1\nread\t2\n", "page,note,write\n1,\"a, \"\"b\"\" c\",W\n\n2,,r\n",
    ] {
        let path = scratch.file("b.csv", text);
        assert_eq!(read(&path, &options("", 0)).unwrap(), expected, "{text}");
        // Recognised by content alone, which is a guess.
        let path = scratch.file("b", text);
        assert_eq!(read(&path, &options("", 0)).unwrap(), expected, "{text}");
        assert!(notes(&path, &options("", 0))[0].contains("looks like csv"));
    }
    // A quotation mark may enclose several lines, or be left open by a program that knows of none.
    let path = scratch.file("q.csv", "page,note,write\n1,\"a, \"\"b\"\"\nc\",W\n\n2,,r\n");
    let question = refusal(&path, &options("", 0));
    assert!(question.contains("line 2") && question.contains("--columns page=page,write=write,quotes=no"), "{question}");
    assert_eq!(read(&path, &options("page=page,write=write,quotes=yes", 0)).unwrap(), expected);
    let path = scratch.file("q.tsv", "page\tnote\twrite\n1\t\"odd\tW\n2\t\"odd\tR\n");
    assert!(refusal(&path, &options("", 0)).contains("quotes=no"));
    assert_eq!(read(&path, &options("page=page,write=write,quotes=no", 0)).unwrap(), expected);
    // Excel's own line, and blanks.
    for text in ["sep=;\npage;write\n1;w\n2;r\n", "page write\n\t 1   W \n2 r\n"] {
        assert_eq!(read(&scratch.file("x.csv", text), &options("", 0)).unwrap(), expected, "{text}");
    }
    let wrong = refusal(&scratch.file("x.csv", "sep=|\npage|write\nx|w\n"), &options("", 0));
    assert!(wrong.contains("x.csv, line 3: expected a page number"), "{wrong}");
    let zipped = zstd::encode_all(&b"page,write\n1,w\n2,r\n"[..], 3).unwrap();
    let path = scratch.file("b.csv.zst", zipped);
    assert_eq!(read(&path, &options("", 0)).unwrap(), expected);
    let path = scratch.file("b.csv", "page,write\n");
    assert!(read(&path, &options("", 0)).unwrap().is_empty());
}

#[test]
fn requests_in_bytes_become_pages() {
    let scratch = Scratch::new();
    let text = "offset,size,op\n0,4096,R\n4095,2,W\n8192,0,W\n4096,12289,R\n";
    let path = scratch.file("c.csv", text);
    let reads = |pages: &[u64]| pages.iter().map(|&page| (page, false)).collect::<Vec<_>>();
    let expected = [reads(&[0]), vec![(0, true), (1, true)], reads(&[1, 2, 3, 4])];
    // A guess does not know that 4095 counts bytes.
    let question = refusal(&path, &options("", 4096));
    assert!(question.contains("line 3: expected multiples of 512") && question.contains("size=size:512"), "{question}");
    let source = Source::parse_with(&path, &options("offset=offset,size=size,write=op", 4096)).unwrap();
    for max in [1, 2, 5, 100] {
        assert_eq!(read_from(&source, max).unwrap(), batch(&expected.concat()));
    }
    assert_eq!(source.open().unwrap().metadata().page_size, Some(4096));
    assert_eq!(read(&path, &options("offset=offset,write=op", 4096)).unwrap().pages, [0, 0, 2, 1]);
    // Sectors; the last request ends with the last byte of the last possible page.
    let path = scratch.file("d.csv", "sector,n,rwbs\n15,2,WS\n18446744073709551615,1,R\n");
    let sectors = options("offset=sector:512,size=n:512,write=rwbs:W|WS", 8192);
    assert_eq!(read(&path, &sectors).unwrap(), batch(&[(0, true), (1, true), (u64::MAX / 16, false)]));
    let error = Source::parse_with(&path, &options("offset=sector,write=rwbs:W", 0)).unwrap().open();
    let error = error.unwrap_err();
    assert!(error.is_usage());
    assert!(error.to_string().contains("--page-size 4096"), "{error}");
    for (row, part) in [
        ("0,2199023255552,W", "a size up to 2^40 bytes in column 'n', found '2199023255552'"),
        ("18446744073709551615,2,W", "an offset below 2^64 pages"),
        ("-1,2,W", "an offset from 0 to 2^64-1"),
    ] {
        let path = scratch.file("e.csv", format!("sector,n,op\n{row}\n"));
        let message = refusal(&path, &options("offset=sector,size=n,write=op", 1));
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn csv_that_is_refused() {
    let scratch = Scratch::new();
    for (text, columns, part) in [
        ("a,b\n1,2\n", "", "no column has a name that means a page; the first line names a, b; say which with --columns"),
        ("blk,op\n1,R\n", "page=bkl", "no column 'bkl' (did you mean 'blk'?); the first line names blk, op"),
        ("blk,op\n1,R\n", "page=blk,write=x", "no column 'x'; the first line names blk, op"),
        ("", "", "the first line of a CSV names its columns"),
        ("page,write\n1,R\n2,X\n", "", "line 3: expected a word such as W or R"),
        ("page,write\n1,R\n\n,R\n", "", "line 4: expected a page number from 0 to 2^64-1 in column 'page', found ''"),
        ("page,write\r\n1,R\r\n\r\n-1,R\r\n", "", "line 4: expected a page number"),
        ("page,write\n1,R\n1.5,R", "", "line 3: expected a page number"),
        ("page,write\n18446744073709551616,R\n", "", "line 2: expected a page number"),
        ("page,write\n1,R\n2\n", "", "line 3: expected 2 columns as in the first line, not 1"),
        ("page,write,t\n1,R,\"a\nb\"\nx,R,\"c\nd\"\n", "page=page,write=write,quotes=yes", "line 4: expected a page number"),
        ("page,write\n1,R,R\n", "", "not 3"),
    ] {
        let path = scratch.file("f.csv", text);
        let message = refusal(&path, &options(columns, 0));
        assert!(message.contains(part), "{text:?}: {message}");
        assert!(message.contains("f.csv"));
    }
    // An unclosed quotation mark does not cause the whole file to be read into memory.
    let mut text = "page,write\n1,\"R\n".to_owned();
    text.push_str(&"2,W\n".repeat(1 << 19));
    let path = scratch.file("f.csv", text);
    assert!(refusal(&path, &options("", 0)).contains("is a quotation mark not closed?"));
}

#[test]
fn a_word_for_writes_that_no_line_has_is_noted_at_the_end() {
    let scratch = Scratch::new();
    let long = "z".repeat(1000);
    let path = scratch.file("w.csv", format!("blk,op\n1,k\n2,r\n3,r\n4,\x1bq\n5,{long}\n"));
    let noted = |columns: &str, limit| {
        let with = ReadOptions { limit, ..options(columns, 0) };
        let source = Source::parse_with(&path, &with).unwrap();
        assert_eq!(source.late_notes(), [""; 0]);
        for _ in 0..2 {
            read_from(&source, 2).unwrap();
        }
        source.late_notes()
    };
    let notes = noted("page=blk,write=op:W|write,read=op:*", None);
    assert_eq!(notes.len(), 1, "{notes:?}");
    let text = "all references are reads, since no line has 'W', 'write' in column 'op'; the first words there are 'k', 'r', ";
    assert!(notes[0].contains(text), "{notes:?}");
    assert!(notes[0].len() < 300 && !notes[0].contains('\x1b'), "{notes:?}");
    // The rest of the file may have it; a limit of all lines does not show that there is no rest.
    for limit in [2, 5] {
        let notes = noted("page=blk,write=op:W,read=op:*", Some(limit));
        let text = "w.csv: all references are reads, since no line read so far has 'W' in column 'op'; the first words";
        assert!(notes.len() == 1 && notes[0].contains(text), "{notes:?}");
    }
    assert_eq!(noted("page=blk,write=op:r,read=op:k", Some(2)), [""; 0]);
    assert_eq!(noted("page=blk,write=op:k,read=op:*", None), [""; 0]);
    assert_eq!(noted("page=blk,write=op:W|k,read=op:*", None), [""; 0]);
}

#[test]
fn a_word_for_writes_is_found_in_a_line_that_is_left_out() {
    let scratch = Scratch::new();
    let path = scratch.file("w.csv", "page,op\n1,r\nx,W\n2,r\n");
    let with = ReadOptions { bad_lines: 1, ..options("page=page,write=op:W", 0) };
    let source = Source::parse_with(&path, &with).unwrap();
    assert_eq!(read_from(&source, 9).unwrap().len(), 2);
    let notes = source.late_notes();
    assert!(notes.len() == 1 && notes[0].starts_with("left out 1 bad line"), "{notes:?}");
}

#[test]
fn notes_that_were_stored_have_the_names_of_the_files_that_are_read() {
    let scratch = Scratch::new();
    let sources = ["one", "other"].map(|name| {
        let files = [
            scratch.file(&format!("{name}-1.csv"), "page,op\n1,r\n2,r\n"),
            scratch.file(&format!("{name}-2.csv"), "page,op\n1,r\nx,r\n"),
        ];
        let with = ReadOptions { bad_lines: 1, ..options("page=page,write=op:W", 0) };
        let whole = Source::concat(&files, &with).unwrap();
        Source::sequence(&[whole.clone(), whole], &ReadOptions::default())
    });
    assert_eq!(read_from(&sources[0], 9).unwrap().len(), 6);
    let stored = sources[0].unlabelled_notes();
    let (mine, others) = (sources[0].late_notes(), sources[1].labelled(&stored));
    assert!(mine.iter().any(|note| note.contains("one-1.csv: all references")), "{mine:?}");
    assert!(mine.iter().any(|note| note.contains("one-2.csv, line 3: expected")), "{mine:?}");
    let renamed = mine.iter().map(|note| note.replace("one-", "other-"));
    assert_eq!(others, renamed.collect::<Vec<_>>());
}

#[test]
fn bad_lines_are_left_out_up_to_a_number() {
    let scratch = Scratch::new();
    let csv = scratch.file("g.csv", "page,write\n1,R\nx,R\n2,?\n3,W\n4\n5,W\n");
    let text = scratch.file("g.txt", "R 1\noops\nR\nW 3\nW four\nW 5\n");
    let expected = batch(&[(1, false), (3, true), (5, true)]);
    for path in [&csv, &text] {
        let with = |bad_lines| ReadOptions { bad_lines, ..ReadOptions::default() };
        let source = Source::parse_with(path, &with(3)).unwrap();
        assert_eq!(source.late_notes(), [""; 0]);
        for _ in 0..2 {
            assert_eq!(read_from(&source, 2).unwrap(), expected);
        }
        let notes = source.late_notes();
        assert_eq!(notes.len(), 1);
        let line = if path == &csv { 3 } else { 2 };
        assert!(notes[0].starts_with("left out 3 bad lines, the first: "), "{notes:?}");
        assert!(notes[0].contains(&format!(", line {line}: expected")), "{notes:?}");
        let message = refusal(path, &with(2));
        let line = if path == &csv { 6 } else { 5 };
        assert!(message.contains(&format!(", line {line}: ")), "{message}");
        assert!(message.contains("one more bad line than --skip-bad-lines 2"), "{message}");
    }
    // The limit is for all parts together.
    let parts = [csv, text];
    let with = |bad_lines| ReadOptions { bad_lines, ..ReadOptions::default() };
    assert!(read_from(&Source::concat(&parts, &with(5)).unwrap(), 9).is_err());
    let both = Source::concat(&parts, &with(6)).unwrap();
    assert_eq!(read_from(&both, 9).unwrap().len(), 6);
    assert!(both.late_notes()[0].starts_with("left out 6 bad lines"));
}

#[test]
fn pages_fold_by_what_the_trace_states() {
    let scratch = Scratch::new();
    let all = batch(&[(0, false), (1, true), (2, false), (5, true)]);
    let path = scratch.native("h.parquet", &all, 4096);
    let open = |page_size| {
        let source = Source::parse_with(&path, &options("", page_size)).unwrap();
        let reader = source.open().unwrap();
        let references = reader.references();
        let metadata = reader.metadata().clone();
        (read_from(&source, 3).unwrap(), metadata, references)
    };
    let (same, metadata, _) = open(4096);
    assert_eq!(same, all);
    assert_eq!(metadata.database_pages, Some(1001));

    let (larger, metadata, references) = open(8192);
    assert_eq!(larger, batch(&[(0, false), (0, true), (1, false), (2, true)]));
    assert_eq!((metadata.page_size, metadata.database_pages), (Some(8192), Some(501)));
    assert_eq!(references, Some(4));

    let (smaller, metadata, references) = open(2048);
    assert_eq!(smaller, batch(&[(0, false), (1, false), (2, true), (3, true), (4, false), (5, false), (10, true), (11, true)]));
    assert_eq!((metadata.page_size, metadata.database_pages), (Some(2048), Some(2002)));
    assert_eq!(references, Some(8));

    for page_size in [6000, 4095, 4097] {
        let message = refusal(&path, &options("", page_size));
        assert!(message.contains("must be a multiple or a divisor of 4096"), "{message}");
    }
    // A trace that states no page size is taken to have the requested one.
    let text = scratch.file("h.txt", "R 9\n");
    assert_eq!(read(&text, &options("", 8192)).unwrap().pages, [9]);
    let source = Source::parse_with(&text, &options("", 8192)).unwrap();
    assert_eq!(source.open().unwrap().metadata().page_size, Some(8192));
    // The highest page whose parts have valid numbers.
    let high = scratch.native("i.parquet", &batch(&[(u64::MAX / 2, false), (u64::MAX / 2 + 1, true)]), 2);
    assert!(refusal(&high, &options("", 1)).contains("beyond 2^64"));
    let one = ReadOptions { limit: Some(2), ..options("", 1) };
    assert_eq!(read(&high, &one).unwrap().pages, [u64::MAX - 1, u64::MAX]);
    let nothing = scratch.native("j.parquet", &batch(&[(1, false)]), 0);
    assert!(refusal(&nothing, &options("", 1)).contains("pages of 0 bytes"));
}

#[test]
fn nothing_beyond_the_limit_is_read() {
    let scratch = Scratch::new();
    // A request of 1000 pages, then a line that is not a request.
    let path = scratch.file("a.spc", "0,0,4096000,R,0.1\nbroken\n");
    for limit in [1, 999, 1000, 1001] {
        let options = ReadOptions { limit: Some(limit), ..options("", 4096) };
        let source = Source::parse_with(&path, &options).unwrap();
        for most in [1, 7, 300, 4096] {
            let read = read_from(&source, most);
            match limit <= 1000 {
                true => assert_eq!(read.unwrap().len() as u64, limit),
                false => assert!(read.is_err(), "in batches of {most}"),
            }
        }
    }
}

#[test]
fn parts_form_one_trace() {
    let scratch = Scratch::new();
    let (first, second) = (some(1000, 50), some(2000, 60));
    let a = scratch.native("a.parquet", &first, 4096);
    let b = scratch.native("b.parquet", &second, 4096);
    let c = scratch.native("c.parquet", &first, 8192);
    let text = scratch.file("d.txt", "");
    let join = |parts: &[&Batch]| -> Batch { parts.iter().flat_map(|part| part.iter()).collect() };
    let names = |names: &[&String]| names.iter().map(|&name| name.clone()).collect::<Vec<_>>();
    let source = Source::concat(&names(&[&a, &b]), &ReadOptions::default()).unwrap();
    assert_eq!(source.label(), format!("{a} + {b}"));
    let reader = source.open().unwrap();
    assert_eq!(reader.references(), Some(3000));
    assert_eq!(reader.metadata().page_size, Some(4096));
    assert_eq!(reader.metadata().name.as_deref(), Some("n"));
    assert!(reader.notes().len() == 1 && reader.notes()[0].contains("are one page"), "{:?}", reader.notes());
    for max in [1, 999, 1000, 1001, usize::MAX] {
        assert_eq!(read_from(&source, max).unwrap(), join(&[&first, &second]));
    }
    // Empty parts, and parts of different kinds.
    let parts = names(&[&text, &a, &text, &"uniform:refs=5".to_owned(), &b, &text]);
    let source = Source::concat(&parts, &ReadOptions::default()).unwrap();
    assert_eq!(read_from(&source, 700).unwrap().len(), 3005);
    assert_eq!(source.label(), format!("{text} + 5 more"));
    let reader = source.open().unwrap();
    assert_eq!((reader.references(), reader.metadata()), (None, &Metadata::default()));
    assert_eq!(
        reader.notes()[0],
        "the parts do not agree on the name and the page size and the database's pages, which is dropped"
    );
    // No page of one database is one of another.
    let apart = ReadOptions { apart: true, ..ReadOptions::default() };
    let source = Source::concat(&names(&[&a, &b]), &apart).unwrap();
    let moved: Batch = second.iter().map(|(page, write)| (page + (1 << 58), write)).collect();
    assert_eq!(read_from(&source, 700).unwrap(), join(&[&first, &moved]));
    let reader = source.open().unwrap();
    assert_eq!((reader.metadata().database_pages, reader.notes()), (Some(2002), &[][..]));
    let far = scratch.file("far.txt", format!("R {}\n", 1u64 << 58));
    let error = read_from(&Source::concat(&names(&[&a, &far]), &apart).unwrap(), 9).unwrap_err().to_string();
    assert!(error.contains("part 2: has page 288230376151711744"), "{error}");
    let keys =
        [&apart, &ReadOptions::default()].map(|with| Source::concat(&names(&[&a, &b]), with).unwrap().content_key().unwrap());
    assert_ne!(keys[0], keys[1]);
    // Each part is folded by its own page size.
    let source = Source::concat(&names(&[&a, &c]), &options("", 8192)).unwrap();
    let folded: Batch = first.iter().map(|(page, write)| (page / 2, write)).collect();
    assert_eq!(read_from(&source, 99).unwrap(), join(&[&folded, &first]));
    assert_eq!(source.open().unwrap().metadata().page_size, Some(8192));
    // A missing part is reported at once.
    let with_missing = names(&[&a, &scratch.path("missing.txt").to_str().unwrap().to_owned()]);
    assert!(Source::concat(&with_missing, &ReadOptions::default()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn skip_and_limit_apply_after_all_other_steps(
        pieces in prop::collection::vec(0usize..400, 1..4),
        skip in 0u64..900,
        limit in prop::option::of(0u64..900),
        page_size in prop::sample::select(vec![1024u64, 2048, 4096]),
        max in 1usize..300,
    ) {
        let scratch = Scratch::new();
        let mut expected = Vec::new();
        let parts: Vec<String> = pieces
            .iter()
            .enumerate()
            .map(|(number, &count)| {
                let all = some(count, 90);
                expected.extend(all.iter().flat_map(|(page, write)| match page_size {
                    1024 => vec![(page * 2, write), (page * 2 + 1, write)],
                    2048 => vec![(page, write)],
                    _ => vec![(page / 2, write)],
                }));
                scratch.native(&format!("{number}.parquet"), &all, 2048)
            })
            .collect();
        let end = limit.map_or(usize::MAX, |limit| limit as usize);
        let expected: Batch = expected.into_iter().skip(skip as usize).take(end).collect();
        let options = ReadOptions { skip, limit, ..options("", page_size) };
        let source = Source::concat(&parts, &options).unwrap();
        prop_assert_eq!(source.open().unwrap().references(), Some(expected.len() as u64));
        prop_assert_eq!(&read_from(&source, max).unwrap(), &expected);
        prop_assert_eq!(&read_from(&source, usize::MAX).unwrap(), &expected);
    }
}

fn key(arg: &str, options: &ReadOptions) -> [u8; 32] {
    Source::parse_with(arg, options).unwrap().content_key().unwrap()
}

#[test]
fn content_keys_depend_on_traces_and_not_on_their_names() {
    let scratch = Scratch::new();
    let plain = ReadOptions::default();
    let words: Vec<u8> = (0..40u32).flat_map(u32::to_le_bytes).collect();
    let a = scratch.file("a.u32", &words);
    let b = scratch.file("b.u32", &words);
    let base = key(&a, &plain);
    assert_eq!(base, key(&b, &plain));
    assert_eq!(base, key(&b, &ReadOptions { format: Some(Format::U32), ..plain.clone() }));
    let mut keys = vec![base];
    let mut distinct = |key: [u8; 32]| {
        assert!(!keys.contains(&key));
        keys.push(key);
    };
    // A byte, the metadata beside it, and the format.
    let mut other = words.clone();
    other[159] ^= 1;
    distinct(key(&scratch.file("c.u32", &other), &plain));
    scratch.file("b.json", r#"{"page_size": 4096}"#);
    distinct(key(&b, &plain));
    scratch.file("b.json", r#"{"page_size": 8192}"#);
    distinct(key(&b, &plain));
    distinct(key(&scratch.file("a.csv", "page,write\n1,W\n"), &plain));
    distinct(key(&scratch.file("a.txt", "page,write\n1,W\n"), &plain));
    // Options.
    for options in [
        ReadOptions { skip: 1, ..plain.clone() },
        ReadOptions { limit: Some(1), ..plain.clone() },
        ReadOptions { limit: Some(0), ..plain.clone() },
        ReadOptions { bad_lines: 1, ..plain.clone() },
        options("", 4096),
        options("page=page,write=write", 0),
        options("page=page,write=write:W", 0),
    ] {
        distinct(key(&a, &options));
    }
    // Parts, in order.
    let concat = |parts: &[&String]| {
        let parts: Vec<String> = parts.iter().map(|&part| part.clone()).collect();
        Source::concat(&parts, &plain).unwrap().content_key().unwrap()
    };
    let c = scratch.path("c.u32").to_str().unwrap().to_owned();
    distinct(concat(&[&a, &c]));
    distinct(concat(&[&c, &a]));
    distinct(concat(&[&a, &a]));
    // Generators by the meaning of their arguments, not by the spelling; a base by its content.
    assert_eq!(key("zipf:seed=1,pages=10000", &plain), key("zipf", &plain));
    distinct(key("zipf", &plain));
    distinct(key("zipf:seed=2", &plain));
    distinct(key("uniform", &plain));
    let dynamic = |base: &str| key(&format!("workload-dynamics:base=({base})"), &plain);
    assert_eq!(dynamic(&a), dynamic(&a.replace("a.u32", "./a.u32")));
    distinct(dynamic(&a));
    distinct(dynamic(&c));
    distinct(dynamic("zipf"));
    assert_eq!(dynamic("zipf"), dynamic("zipf:seed=1"));
}

#[test]
fn a_pipe_has_a_key_and_can_still_be_read() {
    let scratch = Scratch::new();
    let pipe = scratch.path("pipe.txt");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, "R 1\nW 2\n").unwrap()
    });
    let source = Source::parse(pipe.to_str().unwrap(), None).unwrap();
    let of_pipe = source.content_key().unwrap();
    writer.join().unwrap();
    let file = scratch.file("file.txt", "R 1\nW 2\n");
    assert_eq!(of_pipe, key(&file, &ReadOptions::default()));
    assert_eq!(read_from(&source, 9).unwrap(), batch(&[(1, false), (2, true)]));
    assert!(Path::new(&pipe).exists());
}

#[test]
fn a_base_is_decoded_by_the_options_and_not_cut() {
    let scratch = Scratch::new();
    let text: String = (0..30).map(|i| format!("{i};{}\n", i % 3)).collect();
    let path = scratch.file("base.csv", format!("where;what\n{text}bad\n"));
    let options = ReadOptions { bad_lines: 1, skip: 4, limit: Some(20), ..options("page=where,write=what:1,read=what:*", 0) };
    let spec = format!("workload-dynamics:base={path},epoch=10,model=wm2");
    let source = Source::parse_with(&spec, &options).unwrap();
    let all = read_from(&source, 7).unwrap();
    assert_eq!(all.pages, (4..24).collect::<Vec<u64>>());
    let whole = ReadOptions { skip: 0, limit: None, ..options };
    let source = Source::parse_with(&spec, &whole).unwrap();
    assert_eq!(read_from(&source, 7).unwrap().len(), 30);
    assert!(source.late_notes()[0].contains("left out 1 bad line"));
}

/// Words take any bytes, so a web page in place of a trace would be simulated as references.
#[test]
fn a_name_that_disagrees_with_the_content_is_an_error() {
    let scratch = Scratch::new();
    let page = b"<!DOCTYPE html>\n<html><body><h1>404: this file was not found</h1></body></html>\n";
    let plain = ReadOptions::default();
    let words = |count: u32| -> Vec<u8> { (0..count).flat_map(u32::to_le_bytes).collect() };
    for (name, content, named, found) in [
        ("x.u32.zst", page.to_vec(), "zstd", "not compressed"),
        ("x.txt.gz", page.to_vec(), "gzip", "not compressed"),
        ("x.u32", page.to_vec(), "u32", "text"),
        ("x.oracleGeneral", page.to_vec(), "oracleGeneral", "text"),
        ("y.u32.gz", words(20), "gzip", "not compressed"),
        ("z.u32.gz", zstd::encode_all(&words(20)[..], 1).unwrap(), "gzip", "zstd"),
    ] {
        let message = refusal(&scratch.file(name, content), &plain);
        let expected = format!("its name says {named}, but its content is {found}");
        assert!(message.contains(&expected), "{message}");
    }
    // The user's word for the format stands, and compressed bytes need no name.
    let forced = ReadOptions { format: Some(Format::U32), ..ReadOptions::default() };
    assert_eq!(read(&scratch.file("t.u32", b"abcdefgh"), &forced).unwrap().len(), 2);
    let unnamed = scratch.file("v.u32", zstd::encode_all(&words(20)[..], 1).unwrap());
    assert_eq!(read(&unnamed, &plain).unwrap().len(), 20);
}

#[test]
fn an_msr_trace_whose_first_line_is_damaged_is_not_a_csv() {
    let scratch = Scratch::new();
    let lines = "128166372003061629,hm,0,Wri\n\
                 128166372016382155,hm,0,Read,8192,4096,100\n\
                 128166372026382245,hm,0,Write,4096,4096,100\n";
    let path = scratch.file("hm.csv", lines);
    let message = refusal(&path, &options("", 4096));
    assert!(message.contains("hm.csv, line 1:") && message.contains("Hostname"), "{message}");
    let skipping = ReadOptions { bad_lines: 1, ..options("", 4096) };
    assert_eq!(read(&path, &skipping).unwrap(), batch(&[(2, false), (1, true)]));
    // A line of column names makes a CSV.
    let named = scratch.file("named.csv", format!("time,host,disk,op,page,size,response\n{}", &lines[28..]));
    let source = Source::parse_with(&named, &ReadOptions::default()).unwrap();
    assert_eq!(source.formats().unwrap(), [Some(Format::Csv)]);
}

/// Equal page numbers of several devices are several pages, where the columns say which device; without them a question is asked.
#[test]
fn csv_of_several_volumes() {
    let scratch = Scratch::new();
    let path = scratch.file("v.csv", "host,disk,page,op\na,0,7,R\na,1,7,W\nb,0,7,R\na,0,7,W\n");
    let question = refusal(&path, &options("", 0));
    assert!(question.contains("--columns page=page,volume=host,volume=disk,write=op"), "{question}");
    let (second, third) = (7 + (1 << 48), 7 + (2 << 48));
    let expected = batch(&[(7, false), (second, true), (third, false), (7, true)]);
    assert_eq!(read(&path, &options("page=page,volume=host,volume=disk,write=op", 0)).unwrap(), expected);
    let merged = options("page=page,write=op,class=host", 0);
    assert_eq!(read(&path, &merged).unwrap().pages, [7; 4]);
    let notes = notes(&path, &merged);
    assert!(notes.len() == 2 && notes[0].contains("volume=disk") && notes[1].contains("volume=host"), "{notes:?}");
    // The same name means the same volume in all parts of one recording, in whatever order they appear.
    let other = scratch.file("w.csv", "host,disk,page,op\nb,0,7,W\na,0,7,R\n");
    let with = options("page=page,volume=host,volume=disk,write=op", 0);
    let both = Source::concat(&[path, other], &with).unwrap();
    assert_eq!(read_from(&both, 3).unwrap().pages[4..], [third, 7]);
}

/// A file without a line of names is read by the numbers of its columns, and loses no request.
#[test]
fn csv_without_names() {
    let scratch = Scratch::new();
    let path = scratch.file("n.csv", "0,W,77824,4096\n1,R,0,8192\n");
    let guess = refusal(&path, &options("", 4096));
    assert!(guess.contains("names no columns") && guess.contains("offset=#3,size=#4,write=#2:W"), "{guess}");
    let all = batch(&[(19, true), (0, false), (1, false)]);
    assert_eq!(read(&path, &options("offset=#3,size=#4,write=#2:W", 4096)).unwrap(), all);
    let named = refusal(&path, &options("offset=77824,write=W", 4096));
    assert!(named.contains("this one is #3"), "{named}");
    // With a line of names, numbers of columns are those of columns with names.
    let path = scratch.file("h.csv", "dev,op,off,len\n0,W,77824,4096\n1,R,0,8192\n");
    assert_eq!(read(&path, &options("offset=#3,size=len,write=op", 4096)).unwrap(), all);
    assert!(refusal(&path, &options("offset=#5,write=op", 4096)).contains("no column '#5'"));
}

/// Lines that neither read nor write are counted, and words without a meaning asked for.
#[test]
fn csv_of_other_operations() {
    let scratch = Scratch::new();
    let path = scratch.file("o.csv", "page,op\n1,WRITE\n1,UNMAP\n2,READ\n,FLUSH\n1,UNMAP\n");
    for columns in ["page=page,write=op:WRITE", "page=page,write=op"] {
        let source = Source::parse_with(&path, &options(columns, 0)).unwrap();
        assert_eq!(read_from(&source, 9).unwrap(), batch(&[(1, true), (2, false)]), "{columns}");
        let notes = source.late_notes();
        let texts = ["trims, which end the pages that they cover as a whole: 2 'UNMAP'", "are skipped: 1 'FLUSH' (flushes)"];
        assert!(notes.len() == 2 && notes.iter().zip(texts).all(|(note, text)| note.contains(text)), "{notes:?}");
        let expected = Batch { trims: trims(&[(1, 1, 1), (2, 1, 1)]), ..batch(&[(1, true), (2, false)]) };
        assert_eq!(all_of(&source), expected);
    }
    let path = scratch.file("b.csv", "page,op\n1,WRITE\n,UNMAP\n");
    let question = refusal(&path, &options("page=page,write=op", 0));
    assert!(question.contains("or --columns page=page,write=op,skip=op:UNMAP if such lines have no page"), "{question}");
    let path = scratch.file("e.csv", "page,op\n1e+05,R\n");
    assert!(refusal(&path, &options("page=page,write=op", 0)).contains("may be rounded"));
    let path = scratch.file("z.csv", "page,op\n1,0\n2,1\n");
    let question = refusal(&path, &options("", 0));
    assert!(
        question.contains("--columns page=page,write=op:0, else") && question.contains("--columns page=page,write=op:1"),
        "{question}"
    );
    assert_eq!(read(&path, &options("page=page,write=op:0", 0)).unwrap(), batch(&[(1, true), (2, false)]));
}

/// Each table of the list has the references that it says.
#[test]
fn tables_that_others_publish() {
    let scratch = Scratch::new();
    for shape in ebbpool_trace::TABLE_SHAPES {
        let path = scratch.file("shape.data", shape.lines);
        let read = read(&path, &options(shape.columns, 4096)).unwrap_or_else(|error| panic!("{}: {error}", shape.whose));
        let page = |page: u64| match page >> 48 {
            0 => page.to_string(),
            volume => format!("{}:{}", volume + 1, page & ((1 << 48) - 1)),
        };
        let found: Vec<String> =
            read.iter().map(|(it, write)| format!("{} {}", if write { 'W' } else { 'R' }, page(it))).collect();
        assert_eq!(found.join(", "), shape.references, "{}", shape.whose);
        // And is a mapping as the program prints it.
        assert_eq!(
            shape.columns.parse::<ebbpool_trace::Columns>().unwrap().to_string().len(),
            shape.columns.len(),
            "{}",
            shape.whose
        );
    }
}

/// Trims from positions, first and last pages.
fn trims(trims: &[(usize, u64, u64)]) -> Vec<Trim> {
    trims.iter().map(|&(before, first, last)| Trim { before, first, last, time_us: 0 }).collect()
}

/// Page or sector, size in sectors, volume, kind, time in ms, repetitions.
type TableRow = (u64, u64, [usize; 2], usize, u64, u64);

/// A table of requests, and how it is written down.
#[derive(Clone, Debug)]
struct Table {
    rows: Vec<TableRow>,
    /// Numbers, hexadecimal digits with and without 0x, texts, bytes, sectors, or sectors without a size.
    pages: usize,
    volumes: usize,
    /// Words that are known, a word of its own, or 0 for a write.
    words: usize,
    has_times: bool,
    has_repeats: bool,
    separator: char,
    has_names: bool,
    has_comments: bool,
    /// Where the columns go.
    order: Vec<usize>,
}

impl Table {
    const SECTORS: usize = 5;

    /// The columns, `--columns`, and the values of each row.
    fn columns(&self) -> (Vec<&'static str>, String, Vec<Vec<String>>) {
        let mut cells: Vec<(&str, String, Vec<String>)> = Vec::new();
        let column = |of: &dyn Fn(&TableRow) -> String| self.rows.iter().map(of).collect();
        let trims = self.words != 2;
        let page: (&str, Vec<String>) = match self.pages {
            0 => ("page=@", column(&|row| row.0.to_string())),
            1 => ("page=@", column(&|row| format!("0x{:X}", row.0))),
            2 => ("page=@:hex", column(&|row| format!("{:x}", row.0))),
            3 => ("page=@:text", column(&|row| format!("key-{}", row.0))),
            4 => ("offset=@", column(&|row| (row.0 * 512).to_string())),
            _ => ("offset=@:512", column(&|row| row.0.to_string())),
        };
        cells.push(("where", page.0.into(), page.1));
        if self.pages == 4 || self.pages == Table::SECTORS {
            let unit = if self.pages == 4 { 512 } else { 1 };
            let role = if self.pages == 4 { "size=@" } else { "size=@:512" };
            cells.push(("much", role.into(), column(&|row| (row.1 * unit).to_string())));
        }
        for volume in 0..self.volumes {
            let names = [["a", "b", "7"], ["x", "", "ab"]];
            let of = column(&|row| names[volume][row.2[volume]].to_string());
            cells.push((["first", "second"][volume], "volume=@".into(), of));
        }
        let (role, words) = [
            ("write=@", ["READ", "w", "unmap"]),
            ("write=@:M|N,read=@:*,trim=@:S", ["K", "M", "S"]),
            ("write=@:0", ["1", "0", "1"]),
        ][self.words];
        cells.push(("what", role.into(), column(&|row| words[if trims { row.3 } else { row.3 % 2 }].to_string())));
        if self.has_times {
            cells.push(("when", "time=@:ms".into(), column(&|row| format!("{}.25", row.4))));
        }
        if self.has_repeats {
            cells.push(("often", "repeat=@".into(), column(&|row| row.5.to_string())));
        }
        cells.push(("rest", String::new(), column(&|_| "-".into())));
        let mut order: Vec<usize> = (0..cells.len()).collect();
        order.sort_by_key(|&at| self.order[at]);
        let names = order.iter().map(|&at| cells[at].0).collect();
        let roles = order.iter().enumerate().filter(|(_, at)| !cells[**at].1.is_empty());
        let roles = roles.map(|(place, &at)| {
            let name = if self.has_names { cells[at].0.to_owned() } else { format!("#{}", place + 1) };
            cells[at].1.replace('@', &name)
        });
        let rows = (0..self.rows.len()).map(|row| order.iter().map(|&at| cells[at].2[row].clone()).collect());
        (names, roles.collect::<Vec<_>>().join(","), rows.collect())
    }

    /// The references, which pages they replace and which end between them, and when each was made, in µs.
    fn references(&self, page_size: u64) -> (Batch, Vec<u64>) {
        let (mut references, mut times) = (Batch::new(), Vec::new());
        let (mut keys, mut volumes): (Vec<u64>, Vec<[usize; 2]>) = (Vec::new(), Vec::new());
        let mut now = 0;
        for &(page, size, volume, kind, time, repeats) in &self.rows {
            let kind = if self.words == 2 { kind % 2 } else { kind };
            let key = keys.iter().position(|it| *it == page);
            let pages: Vec<u64> = match self.pages {
                0..=2 => vec![page],
                3 => vec![key.unwrap_or(keys.len()) as u64],
                4 | Table::SECTORS => {
                    let mut pages: Vec<u64> = (page..page + size).map(|sector| sector * 512 / page_size).collect();
                    pages.dedup();
                    pages
                }
                _ => vec![page * 512 / page_size],
            };
            if key.is_none() && kind < 2 {
                keys.push(page);
            }
            if pages.is_empty() || (self.has_repeats && repeats == 0) || (self.pages == 3 && key.is_none() && kind == 2) {
                continue;
            }
            // Bytes may be parts of a page, and without a size it is not known which.
            let sectors = page_size / 512;
            let has_sizes = self.pages == 4 || self.pages == Table::SECTORS;
            let covers = |it: &u64| has_sizes && page <= it * sectors && it * sectors + sectors <= page + size;
            let volume = [volume[0], if self.volumes == 2 { volume[1] } else { 0 }];
            let at = volumes.iter().position(|it| *it == volume).unwrap_or(volumes.len());
            if at == volumes.len() && kind < 2 {
                volumes.push(volume);
            }
            let first = if self.volumes == 0 { 0 } else { (at as u64) << 48 };
            if kind == 2 {
                if self.volumes > 0 && at == volumes.len() {
                    continue;
                }
                now = now.max(time * 1000 + 250);
                let ended: Vec<u64> = pages.into_iter().filter(|page| !has_sizes || covers(page)).collect();
                if let (Some(from), Some(to)) = (ended.first(), ended.last()) {
                    references.trim(first + from, first + to, now);
                }
                continue;
            }
            now = now.max(time * 1000 + 250);
            for _ in 0..if self.has_repeats { repeats } else { 1 } {
                for page in &pages {
                    match kind == 1 && covers(page) {
                        true => references.push_whole(first + page),
                        false => references.push(first + page, kind == 1),
                    }
                    times.push(now);
                }
            }
        }
        (references, times)
    }
}

fn any_table() -> impl Strategy<Value = Table> {
    let row = (0..40u64, 0..20u64, [0..3usize, 0..3usize], 0..3usize, 0..1000u64, 0..4u64);
    let shape = (0..7usize, 0..3usize, 0..3usize, any::<[bool; 4]>());
    let order = Just((0..9).collect::<Vec<usize>>()).prop_shuffle();
    let separator = prop::sample::select(vec![',', ';', '\t', '|', ' ', ':', '#']);
    (prop::collection::vec(row, 1..30), shape, order, separator).prop_map(
        |(rows, (pages, volumes, words, [has_times, has_repeats, has_names, has_comments]), order, separator)| Table {
            rows,
            pages,
            // An empty name is no column among blanks.
            volumes: if separator == ' ' { volumes.min(1) } else { volumes },
            words,
            has_times,
            has_repeats,
            separator,
            has_names,
            has_comments,
            order,
        },
    )
}

/// A Parquet file of texts, and of numbers where all values of a column are.
fn write_parquet(path: &Path, names: &[&str], rows: &[Vec<String>]) {
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    let numbers = |at: usize| rows.iter().map(|row| row[at].parse::<i64>().ok()).collect::<Option<Vec<i64>>>();
    let fields: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(at, name)| match numbers(at) {
            Some(_) => format!("required int64 {name};"),
            None => format!("required binary {name} (UTF8);"),
        })
        .collect();
    let schema = parquet::schema::parser::parse_message_type(&format!("message rows {{ {} }}", fields.join(" "))).unwrap();
    let mut writer = SerializedFileWriter::new(fs::File::create(path).unwrap(), schema.into(), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for at in 0..names.len() {
        let mut column = group.next_column().unwrap().unwrap();
        match numbers(at) {
            Some(numbers) => column.typed::<Int64Type>().write_batch(&numbers, None, None).map(drop).unwrap(),
            None => {
                let texts: Vec<ByteArray> = rows.iter().map(|row| row[at].as_str().into()).collect();
                column.typed::<ByteArrayType>().write_batch(&texts, None, None).map(drop).unwrap();
            }
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

/// A table in memory, whose rows have only the fields that are read.
struct InMemory {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
    read: Vec<usize>,
}

impl TableSupplier for InMemory {
    fn open(&self) -> Result<Box<dyn TableRows>, TraceError> {
        let rows = self.rows.iter().rev().cloned().collect();
        Ok(Box::new(InMemory { names: self.names.clone(), rows, read: Vec::new() }))
    }

    fn key(&self, of_rows: &dyn Fn() -> Option<[u8; 32]>) -> Option<[u8; 32]> {
        of_rows()
    }
}

impl TableRows for InMemory {
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn choose(&mut self, columns: &[usize]) -> Result<(), TraceError> {
        self.read = columns.to_vec();
        Ok(())
    }

    fn next(&mut self, row: &mut ByteRecord) -> Result<bool, TraceError> {
        let fields = self.rows.pop();
        for (at, field) in fields.iter().flatten().enumerate() {
            row.push_field(if self.read.contains(&at) { field.as_bytes() } else { b"" });
        }
        Ok(fields.is_some())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Tables of all roles, in any order and layout, have the references that were written down, as text, as Parquet and in
    /// memory, where what changes them changes the key.
    #[test]
    fn any_table_is_read_as_it_was_meant(table in any_table()) {
        const PAGE_SIZE: u64 = 2048;
        let scratch = Scratch::new();
        let (names, roles, rows) = table.columns();
        let (expected, times) = table.references(PAGE_SIZE);
        let line = |cells: Vec<&str>| cells.join(&table.separator.to_string());
        let mut lines: Vec<String> = rows.iter().map(|row| line(row.iter().map(String::as_str).collect())).collect();
        if table.has_names {
            lines.insert(0, line(names.clone()));
        }
        if table.has_comments {
            lines.insert(0, "! nothing".into());
            lines.insert(2, "! x".into());
        }
        let separator = match table.separator {
            ',' => "comma".into(),
            '|' => "bar".into(),
            '\t' => "tab".into(),
            ' ' => "space".into(),
            sign => format!("\\{sign}"),
        };
        let separator = separator.replace("\\#", "#").replace("\\;", ";");
        let comments = if table.has_comments { ",comment=!" } else { "" };
        let layout = format!("separator={separator},names={}{comments}", if table.has_names { "yes" } else { "no" });
        let text = scratch.file("table.csv", lines.join("\n"));
        let parquet = scratch.path("table.parquet");
        write_parquet(&parquet, &names, &rows);
        let parquet = Source::parse_with(parquet.to_str().unwrap(), &options(&roles, PAGE_SIZE)).unwrap();
        let text = Source::parse_with(&text, &options(&format!("{roles},{layout}"), PAGE_SIZE)).unwrap();
        let in_memory = |rows: &[Vec<String>]| {
            let names = names.iter().map(|name| name.to_string()).collect();
            let supplier = InMemory { names, rows: rows.to_vec(), read: Vec::new() };
            Source::table("memory", Arc::new(supplier), &options(&roles, PAGE_SIZE))
        };
        let memory = in_memory(&rows);
        let half = in_memory(&rows[rows.len() / 2..]);
        prop_assert!(all_of(&half) == all_of(&memory) || half.content_key().unwrap() != memory.content_key().unwrap());
        for source in [text, parquet, memory] {
            let path = source.label();
            let mut without_times = expected.clone();
            without_times.trims.iter_mut().for_each(|trim| trim.time_us = 0);
            prop_assert_eq!(all_of(&source), without_times, "{} {}", path, roles);
            let alone = Batch { pages: expected.pages.clone(), writes: expected.writes.clone(), ..Batch::new() };
            prop_assert_eq!(read_from(&source, 7).unwrap(), alone, "{} {}", path, roles);
            if table.has_times {
                let mut reader = source.open_with(OptionalColumns::ALL).unwrap();
                let mut batch = Batch::new();
                reader.next_batch(&mut batch, 10_000).unwrap();
                prop_assert_eq!(batch.requests.iter().map(|it| it.time_us).collect::<Vec<_>>(), times.clone());
                prop_assert_eq!(&batch.trims, &expected.trims);
            }
        }
    }
}

/// What an adversary's tables have had: each is right, or asked for with an answer that is.
#[test]
fn tables_of_an_adversary() {
    let scratch = Scratch::new();
    for (text, part) in [
        ("oid,offset,length,op\nrbd.1,0,4096,R\n", "volume=oid"),
        ("page,handle,op\n7,a,R\n", "volume=handle"),
        ("page_id,dirty,op_type\n7,0,write\n", "both 'dirty' and 'op_type'"),
        ("page,reads,writes\n7,2,0\n", "1 is a write, in others 0"),
        ("block,nblk,op\n8,16,R\n", "size=nblk:512"),
        ("offset,size,op\n0,8,R\n", "offset=offset:512,size=size:512"),
        ("block,bytes,op\n8,4096,R\n", "offset=block:512,size=bytes,write=op"),
        ("page,op,\"note\n7,W,x\n8,R,y\"\n9,W,z\n", "quotes=no"),
        ("page,hits\n7,2\n", "page=page,repeat=hits"),
        ("page,op\n7,\u{7f}W\n", "without control characters"),
        ("relfilenode,relforknumber,block,isdirty\n1,0,7,t\n", "volume=relfilenode,volume=relforknumber"),
        ("channel,chip,block,page,op\n0,0,1,7,W\n", "volume=channel,volume=chip,volume=block"),
        (
            "filename,file_offset,redundancy_type,op_type,request_io_size_bytes\na,0,R,WRITE,9\n",
            "size=request_io_size_bytes,volume=filename,write=op_type",
        ),
        ("D BLOCK SIZE DEVICE\nW 8 4096 sda\n", "with write= and the column"),
        (
            "Process Name,Disks,Min Offset,Size (B),op\na,0,0,4096,R\n",
            "'offset=Min Offset,size=Size (B),volume=Disks,write=op'",
        ),
        ("page,op\n7,FF\n", "page=page,write=op,skip=op:FF"),
        (
            "block_id,io_offset,io_size,op_name,op_count,host\n7,0,8,read,1,9\n",
            "offset=io_offset,size=io_size,volume=block_id,volume=host,write=op_name",
        ),
        ("io.lba,io.len,device.name,file.offset,file.size,io.op\n8,8,a,0,9,Write\n", "offset=io.lba:512,size=io.len:512,"),
        ("page,npages,op\n7,2,W\n", "size=npages"),
    ] {
        let message = refusal(&scratch.file("a.csv", text), &options("", 4096));
        assert!(message.contains(part), "{text}: {message}");
    }
    for first in ["NULL", "ff10", "NA", "", "x"] {
        let message = refusal(&scratch.file("f.csv", format!("{first},R\n8,W\n")), &options("page=#1,write=#2", 0));
        assert!(message.contains("names=no") && message.contains("names=yes"), "{message}");
    }
    let path = scratch.file("b.csv", "op key\nR \"a  b\"\nW \"a b\"\nR   \"a  b\"\n");
    let with = options("write=op,page=key:text,separator=space", 0);
    assert_eq!(read(&path, &with).unwrap(), batch(&[(0, false), (1, true), (0, false)]));
    // Two files that were put together, and an answer that leaves the other words as they are.
    let path = scratch.file("d.csv", "key,op\na,W\nkey,op\nb,R\n");
    assert!(refusal(&path, &options("page=key:text,write=op:W,read=op:*", 0)).contains("once more"));
    let path = scratch.file("w.csv", "page,op\n7,FF\n7,WS\n8.0,R\n");
    assert_eq!(read(&path, &options("page=page,write=op,skip=op:FF", 0)).unwrap(), batch(&[(7, true), (8, false)]));
    // Devices that some rows count in floating point; and what each column without a role may mean.
    let path = scratch.file("v.csv", "dev,page,op\n8,1,W\n8.0,1,R\n");
    assert_eq!(read(&path, &options("page=page,volume=dev,write=op", 0)).unwrap(), batch(&[(1, true), (1, false)]));
    let path = scratch.file("u.csv", "lba,nblk,op,tag,time\n8,8,W,x,1\n");
    let unread = notes(&path, &options("page=lba,write=op", 0));
    assert!(unread[0].contains("'nblk'") && unread[1].ends_with("not read: tag") && unread.len() == 2, "{unread:?}");
    // Each request has a line for each action of the block layer.
    let path = scratch.file("o.csv", "act,lba,op\nQ,1,W\nC,1,W\nQ,2,R\nD,2,R\n");
    let only = options("page=lba,write=op,only=act:Q", 0);
    assert_eq!(read(&path, &only).unwrap(), batch(&[(1, true), (2, false)]));
    let source = Source::parse_with(&path, &only).unwrap();
    read_from(&source, 9).unwrap();
    assert!(source.late_notes()[0].contains("2 left out by only="));
    // A trim without a size ends its page; and one with several volumes may go on to the end.
    let path = scratch.file("t.csv", "offset,op\n8192,W\n8192,UNMAP\n8192,R\n");
    let expected = Batch { trims: trims(&[(1, 2, 2)]), ..batch(&[(2, true), (2, false)]) };
    assert_eq!(all_of(&Source::parse_with(&path, &options("offset=offset,write=op", 4096)).unwrap()), expected);
    let path = scratch.file("l.csv", "dev,offset,size,op\na,0,4096,R\nb,0,4096,R\nb,4096,9223372036854775807,UNMAP\n");
    let all = all_of(&Source::parse_with(&path, &options("volume=dev,offset=offset,size=size,write=op", 4096)).unwrap());
    assert_eq!(all.trims, trims(&[(2, (1 << 48) + 1, (2 << 48) - 1)]));
    // Parts whose names were numbered when each was converted cannot be put together.
    let parts = ["sda,1,W\nsdb,2,W\n", "sdb,2,R\nsda,1,R\n"]
        .map(|text| scratch.file(&format!("{}.csv", text.len() + usize::from(text.starts_with("sdb"))), text));
    let named = options("volume=#1,page=#2,write=#3", 0);
    let both = Source::concat(&parts, &named).unwrap();
    assert_eq!(read_from(&both, 9).unwrap().pages, [1, (1 << 48) + 2, (1 << 48) + 2, 1]);
    for ending in ["parquet", "txt", "u32"] {
        let converted = [0, 1].map(|part| {
            let path = scratch.path(&format!("{part}.{ending}"));
            let source = Source::parse_with(&parts[part], &named).unwrap();
            let metadata = source.open().unwrap().metadata().clone();
            let references = if ending == "u32" { batch(&[(1, true)]) } else { read_from(&source, 9).unwrap() };
            write(&path, Format::of_name(&path).unwrap(), &metadata, &references).unwrap();
            path.to_str().unwrap().to_owned()
        });
        let plain = ReadOptions::default();
        let refused = Source::concat(&converted, &plain).unwrap().open().unwrap_err().to_string();
        assert!(refused.contains("--apart"), "{refused}");
        assert!(Source::concat(&converted, &ReadOptions { apart: true, ..plain.clone() }).unwrap().open().is_ok());
        let twice = [converted[0].clone(), converted[0].clone()];
        assert!(Source::concat(&twice, &plain).unwrap().open().is_ok());
    }
    // A name may begin with the sign.
    let path = scratch.file("s.csv", "#page,op\n7,R\n");
    assert_eq!(read(&path, &options("page=#page,write=op", 0)).unwrap(), batch(&[(7, false)]));
    // Keys of a file with lengths have their blanks.
    let path = scratch.path("k.parquet");
    write_parquet(&path, &["k", "op"], &[["a ", "R"], ["a", "W"]].map(|row| row.map(str::to_owned).to_vec()));
    let read = read(path.to_str().unwrap(), &options("page=k:text,write=op", 0)).unwrap();
    assert_eq!(read, batch(&[(0, false), (1, true)]));
}

#[test]
fn what_a_stranger_meets_first_has_its_answer() {
    let scratch = Scratch::new();
    let read_table = |content: &str, columns: &str| {
        let source = Source::parse_with(&scratch.file("table.csv", content), &options(columns, 0)).unwrap();
        let all = read_from(&source, 1000).map_err(|error| error.to_string());
        (all, source.late_notes())
    };
    // A value that no line has, and lines of other events, with other widths.
    let events = "dev,page,op\nsda,1,W\nsdb 7\n1.0,3,R\n";
    let (read, notes) = read_table(events, "page=page,write=op,only=dev:sda|sbd|1");
    assert_eq!(read.unwrap(), batch(&[(1, true), (3, false)]));
    assert!(notes[0].contains("1 left out by only=, of whose values no line has 'sbd'"), "{notes:?}");
    // T is not only yes.
    let (read, _) = read_table("page,op\n1,W\n1,T\n", "page=page,write=op");
    assert!(read.unwrap_err().contains("trim=op:T if it ends pages"));
    // Three zeros may be thousands.
    assert_eq!(read_table("page,op\n1.0,W\n2.0000,R\n", "page=page,write=op").0.unwrap(), batch(&[(1, true), (2, false)]));
    assert!(read_table("page,op\n25.000,W\n", "page=page,write=op").0.unwrap_err().contains("'25.000'"));
    // The end of pages that no volume has.
    let beyond = "v,page,op\na,0,W\nb,0,W\nb,18446744073709551614,TRIM\nb,0,R\n";
    let pages = read_table(beyond, "volume=v,page=page,write=op").0.unwrap().pages;
    assert_eq!(pages, [0, 1 << 48, 1 << 48]);
    // The block within a record of a log is no page.
    let log = Source::parse(&scratch.file("wal.csv", "block_id,relblocknumber,op\n0,77,W\n"), None).unwrap();
    let error = read_from(&log, 9).map(|all| all.pages).map_err(|error| error.to_string());
    assert!(error.as_ref().is_err_and(|error| error.contains("page=relblocknumber")), "{error:?}");
    // Times that begin behind trims.
    let path = scratch.path("times.parquet");
    let mut writer = Writer::create(&path, Format::Native, &Metadata::default()).unwrap();
    writer.expect(OptionalColumns::ALL);
    let mut trims = Batch::new();
    trims.trim(1, 2, 5);
    writer.write(&trims).unwrap();
    let mut timed = batch(&[(1, true)]);
    timed.requests = vec![RequestDetail { time_us: 7, bypass: 0 }];
    writer.write(&timed).unwrap();
    writer.finish().unwrap();
    let mut reader = Source::parse(path.to_str().unwrap(), None).unwrap().open_with(OptionalColumns::ALL).unwrap();
    let mut found = Batch::new();
    assert!(reader.next_batch(&mut found, 9).unwrap());
    assert_eq!((&found.requests, found.trims[0].time_us), (&timed.requests, 5));
}
