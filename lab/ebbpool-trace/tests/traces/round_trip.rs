//! Everything that is written can be read again; files written by other programs can be
//! read too.

use std::fs;
use std::path::Path;

use crate::common::{all_of, data, made, read, read_from, refusal, some, source, write, written};
use ebbpool_trace::stats::TraceStatistics;
use ebbpool_trace::{Batch, Format, Metadata, OptionalColumns, ReadOptions, Source, Trim, Writer};
use proptest::prelude::*;

const ENDINGS: [&str; 3] = ["", ".gz", ".zst"];

fn metadata(name: Option<&str>) -> Metadata {
    Metadata { name: name.map(str::to_owned), page_size: Some(8192), database_pages: Some(u64::MAX), ..Metadata::default() }
}

fn round_trip(format: Format, all: &Batch, metadata: &Metadata, max: usize) {
    let directory = tempfile::tempdir().unwrap();
    for ending in ENDINGS {
        let name = format!("trace.{}{ending}", format.extensions()[0]);
        let path = directory.path().join(name);
        let written = write(&path, format, metadata, all).unwrap();
        assert_eq!(written.references, all.len() as u64);
        assert_eq!(written.bytes, fs::metadata(&path).unwrap().len());
        let source = source(&path, None).unwrap();
        let reader = source.open().unwrap();
        let nothing = Metadata::default();
        let expected = if format.keeps_metadata() { metadata } else { &nothing };
        assert_eq!(reader.metadata(), expected, "{}", path.display());
        assert_eq!(reader.notes(), &[] as &[String]);
        assert_eq!(&read_from(&source, max).unwrap(), all);
    }
}

#[test]
fn an_empty_trace_survives() {
    for format in written() {
        round_trip(format, &Batch::new(), &Metadata::default(), 10);
        round_trip(format, &Batch::new(), &metadata(Some("empty")), 10);
    }
}

#[test]
fn the_highest_pages_survive() {
    let all = Batch::from_iter([(0, true), (u64::MAX, false), (1 << 63, true), (1 << 32, false)]);
    for format in [Format::Native, Format::Text, Format::Csv] {
        round_trip(format, &all, &Metadata::default(), 3);
    }
    let all = Batch::from_iter([(0, true), ((1 << 31) - 1, true), ((1 << 31) - 1, false)]);
    round_trip(Format::U32, &all, &Metadata::default(), 1);
}

#[test]
fn several_row_groups_and_buffers() {
    // More than a row group, and more than the 256 KiB that are decoded at a time.
    let all = some((1 << 20) + 12_345, 100_000);
    for format in written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.zst");
        write(&path, format, &Metadata::default(), &all).unwrap();
        let source = source(&path, Some(format)).unwrap();
        assert_eq!(read_from(&source, 9_999).unwrap(), all);
        assert_eq!(read_from(&source, usize::MAX).unwrap(), all);
        // Two readers of one source do not disturb each other.
        let (mut a, mut b) = (source.open().unwrap(), source.open().unwrap());
        let (mut x, mut y) = (Batch::new(), Batch::new());
        for _ in 0..200 {
            assert_eq!(a.next_batch(&mut x, 5000).unwrap(), b.next_batch(&mut y, 5000).unwrap());
            assert_eq!(x, y);
        }
    }
}

/// Names of any characters, often of characters with a meaning in a file.
fn name() -> impl Strategy<Value = String> {
    let letters = prop_oneof![any::<char>(), prop::sample::select(&MEANINGFUL)];
    prop::collection::vec(letters, 0..30).prop_map(String::from_iter)
}

const MEANINGFUL: [char; 12] = ['\n', '\r', '\t', '\0', '\u{85}', '\u{2028}', ' ', '"', '\\', '#', '=', 'a'];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn anything_survives(
        references in prop::collection::vec((any::<u64>(), any::<bool>()), 0..3000),
        name in prop::option::of(name()),
        page_size in prop::option::of(any::<u64>()),
        max in 1..500usize,
    ) {
        let wide: Batch = references.iter().copied().collect();
        let narrow: Batch = references.iter().map(|&(page, write)| (page >> 33, write)).collect();
        let metadata = Metadata { name, page_size, ..Metadata::default() };
        round_trip(Format::Native, &wide, &metadata, max);
        round_trip(Format::Text, &wide, &metadata, max);
        round_trip(Format::Csv, &wide, &metadata, max);
        round_trip(Format::U32, &narrow, &metadata, max);
    }
}

#[test]
fn any_name_survives() {
    let all = Batch::from_iter([(1, true), (2, false)]);
    let long = "long ".repeat(10_000);
    for name in [
        "", " ", " blanks around \t", "a\nR 5\r\n#", "\u{1} # ebbpool.page_size=4096",
        "a\n# ebbpool.page_size=4096\n# ebbpool.name=b", "\"quoted\"", "\"begun", "back\\slash \\n",
        "\u{FEFF}mark \u{85}\u{2028}\u{7F}", &long,
    ] {
        for format in written() {
            round_trip(format, &all, &metadata(Some(name)), 10);
        }
    }
}

#[test]
fn a_name_that_text_cannot_hold_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.txt");
    let name = "x".repeat(1 << 18);
    let error = Writer::create(&path, Format::Text, &metadata(Some(&name))).unwrap_err();
    let message = crate::common::one_line(&path, &error);
    assert!(message.contains("shorten the trace's name"), "{message}");
    assert!(!path.exists());
    let all = Batch::from_iter([(1, true)]);
    for format in [Format::Native, Format::U32] {
        round_trip(format, &all, &metadata(Some(&name)), 10);
    }
}

#[test]
fn metadata_of_text_as_users_write_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.txt");
    let metadata = |text: &str| {
        fs::write(&path, text).unwrap();
        let reader = source(&path, Some(Format::Text)).unwrap().open().unwrap();
        reader.metadata().clone()
    };
    let named = |name: &str| Metadata { name: Some(name.to_owned()), ..Metadata::default() };
    assert_eq!(metadata("#ebbpool.name = a b \r\nR 1\n"), named("a b"));
    // A text that is not a whole JSON string is the name itself.
    for name in ["\"a\" b", "\"a", "\"\\x\"", "'a'"] {
        assert_eq!(metadata(&format!("# ebbpool.name={name}\nR 1\n")), named(name));
    }
    assert_eq!(metadata("\u{FEFF}# ebbpool.name=marked\nR 1\n"), named("marked"));
    assert_eq!(metadata("R 1\n# ebbpool.name=late\n"), Metadata::default());
    assert_eq!(metadata("# ebbpool.name=alone"), named("alone"));
    // After many comments, and never a number whose end is cut off.
    let comment = "# ebbpool.page_size=1048576\n";
    let most = (1 << 18) - comment.len();
    for before in [100, 8180, 200_000, most - 2, most, most + 2, 1 << 19] {
        let text = format!("{}{comment}R 1\n", "#\n".repeat(before / 2));
        let expected = (before <= most).then_some(1 << 20);
        assert_eq!(metadata(&text).page_size, expected, "behind {before} bytes");
    }
}

#[test]
fn files_of_other_programs() {
    let signed = made(i64::MAX as u64);
    let unsigned = made(u64::MAX);
    let narrow = made(299 * 299 * 7919 % 10007);
    for (name, all) in [
        ("pandas.parquet", &signed),
        ("pyarrow.parquet", &unsigned),
        ("polars.parquet", &unsigned),
        ("duckdb.parquet", &signed),
        ("duckdb-32.parquet", &narrow),
    ] {
        let source = source(&data(name), None).unwrap();
        for max in [1, 7, 64, 1000] {
            assert_eq!(&read_from(&source, max).unwrap(), all, "{name}");
        }
    }
    let reader = source(&data("pyarrow.parquet"), None).unwrap().open().unwrap();
    assert_eq!(
        *reader.metadata(),
        Metadata {
            name: Some("from pyarrow".to_owned()),
            page_size: Some(8192),
            database_pages: Some(10007),
            ..Metadata::default()
        }
    );
    assert_eq!(reader.references(), Some(300));
}

#[test]
fn embedded_samples() {
    static BYTES: &[u8] = include_bytes!("../data/polars.parquet");
    let source = Source::embedded("sample", BYTES, &ReadOptions::default());
    assert_eq!(source.label(), "sample");
    assert_eq!(read_from(&source, 100).unwrap(), made(u64::MAX));
    let reader = source.clone().open().unwrap();
    assert_eq!(reader.references(), Some(300));
}

#[test]
fn parquet_under_any_name() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["trace", "trace.txt", "trace.u32", "trace.u32.zst"] {
        let path = directory.path().join(name);
        fs::copy(data("pyarrow.parquet"), &path).unwrap();
        assert_eq!(read(&path, None).unwrap(), made(u64::MAX), "{name}");
    }
    // Compressed again, under any name.
    let bytes = zstd::encode_all(&fs::read(data("polars.parquet")).unwrap()[..], 3).unwrap();
    let path = directory.path().join("anything");
    fs::write(&path, bytes).unwrap();
    assert_eq!(read(&path, None).unwrap(), made(u64::MAX));
    // Magic takes precedence over the user's format, with a note.
    let reader = source(&path, Some(Format::U32)).unwrap().open().unwrap();
    let [note] = reader.notes() else { panic!("one note") };
    assert!(note.contains("is native by its first bytes"), "{note}");
}

#[test]
fn text_as_users_write_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.txt");
    let text = "\u{FEFF}# a comment\r\n\r\nR 1\r\n  w\t2   # two\n\nr 007\nW 18446744073709551615";
    fs::write(&path, text).unwrap();
    let all = Batch::from_iter([(1, false), (2, true), (7, false), (u64::MAX, true)]);
    assert_eq!(read(&path, None).unwrap(), all);
    for ending in ["\n", "\r\n", "\n\n# end"] {
        fs::write(&path, format!("{text}{ending}")).unwrap();
        assert_eq!(read(&path, None).unwrap(), all);
    }
    let comment = format!("#{}\nR 1\n", "x".repeat(200_000));
    fs::write(&path, comment).unwrap();
    assert_eq!(read(&path, None).unwrap(), Batch::from_iter([(1, false)]));
}

#[test]
fn a_guess_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.log");
    fs::write(&path, "# x\nR 123\nW 5\n").unwrap();
    let source = source(&path, None).unwrap();
    let reader = source.open().unwrap();
    let [note] = reader.notes() else { panic!("one note") };
    assert!(note.contains("looks like text"), "{note}");
    assert_eq!(read_from(&source, 10).unwrap().pages, [123, 5]);
}

#[test]
fn concatenated_members_and_frames() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.txt.zst");
    let mut bytes = zstd::encode_all(&b"R 1\nR "[..], 3).unwrap();
    bytes.extend(zstd::encode_all(&b""[..], 3).unwrap());
    bytes.extend(zstd::encode_all(&b"2\nW 3\n"[..], 3).unwrap());
    fs::write(&path, bytes).unwrap();
    let all = Batch::from_iter([(1, false), (2, false), (3, true)]);
    assert_eq!(read(&path, None).unwrap(), all);

    let gzip = |text: &[u8]| {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let path = directory.path().join("trace.txt.gz");
    fs::write(&path, [gzip(b"R 1\nR "), gzip(b""), gzip(b"2\nW 3\n")].concat()).unwrap();
    assert_eq!(read(&path, None).unwrap(), all);
}

#[test]
fn compression_is_recognised_under_any_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.txt");
    fs::write(&path, zstd::encode_all(&b"R 1\n"[..], 3).unwrap()).unwrap();
    assert_eq!(read(&path, None).unwrap().pages, [1]);
    // A name that says otherwise than the content is an error.
    let path = directory.path().join("plain.txt.gz");
    fs::write(&path, "R 1\n").unwrap();
    let message = refusal(&path, None);
    assert!(message.contains("gzip") && message.contains("not compressed"), "{message}");
    // A u32 trace that begins like gzip but cannot be gzip.
    let path = directory.path().join("trace.u32");
    let words: [u32; 3] = [0x0008_8B1F, 0x0000_0002, 0x0000_0105];
    fs::write(&path, words.map(u32::to_le_bytes).concat()).unwrap();
    assert_eq!(read(&path, None).unwrap().pages, [0x0008_8B1F >> 1, 1, 0x82]);
}

#[test]
fn sidecars() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.u32.zst");
    let sidecar = directory.path().join("trace.json");
    let all = Batch::from_iter([(1, true)]);
    let metadata = metadata(Some("named"));

    write(&path, Format::U32, &Metadata::default(), &all).unwrap();
    assert!(!sidecar.exists());
    write(&path, Format::U32, &metadata, &all).unwrap();
    let text = fs::read_to_string(&sidecar).unwrap();
    assert!(text.contains("\"page_size\": 8192"), "{text}");

    // Fields of other programs remain, and an unchanged file is not rewritten.
    let more = r#"{"database_pages":18446744073709551615,"name":"named","page_size":8192,"relations":[1]}"#;
    fs::write(&sidecar, more).unwrap();
    let plain = directory.path().join("trace.u32");
    write(&plain, Format::U32, &metadata, &all).unwrap();
    assert_eq!(fs::read_to_string(&sidecar).unwrap(), more);
    // Metadata of another trace is removed.
    write(&plain, Format::U32, &Metadata::default(), &all).unwrap();
    assert_eq!(source(&plain, None).unwrap().open().unwrap().metadata(), &Metadata::default());
    assert!(fs::read_to_string(&sidecar).unwrap().contains("relations"));
}

#[test]
fn levels() {
    let directory = tempfile::tempdir().unwrap();
    let all = some(20_000, 300);
    for level in [-5, 1, 19, 99] {
        for name in ["t.parquet", "t.u32.zst", "t.txt.gz"] {
            let path = directory.path().join(name);
            let format = Format::of_name(&path).unwrap();
            let mut writer = Writer::create_with(&path, format, &Metadata::default(), Some(level)).unwrap();
            writer.write(&all).unwrap();
            writer.finish().unwrap();
            assert_eq!(read(&path, None).unwrap(), all);
        }
    }
}

#[test]
fn a_pipe_can_be_opened_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in [("pipe", b"R 1\nW 2\n".to_vec()), ("pipe2", fs::read(data("polars.parquet")).unwrap())] {
        let path = directory.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let writer = std::thread::spawn({
            let path = path.clone();
            move || fs::write(path, bytes).unwrap()
        });
        let source = source(&path, None).unwrap();
        let first = read_from(&source, 10).unwrap();
        writer.join().unwrap();
        assert!(first.len() >= 2);
        assert_eq!(read_from(&source.clone(), 7).unwrap(), first);
    }
}

#[test]
fn statistics_of_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.u32");
    let all = some(50_000, 700);
    write(&path, Format::U32, &Metadata::default(), &all).unwrap();
    let info = TraceStatistics::from_reader(&mut source(&path, None).unwrap().open().unwrap()).unwrap();
    let distinct: std::collections::HashSet<u64> = all.pages.iter().copied().collect();
    assert_eq!(info.references, 50_000);
    assert_eq!(info.distinct_pages, distinct.len() as u64);
    assert_eq!(info.writes, all.writes.iter().filter(|&&write| write).count() as u64);
    assert_eq!(info.lowest_page, all.pages.iter().min().copied());
    assert_eq!(info.highest_page, all.pages.iter().max().copied());
    assert_eq!(info.pages_both + info.pages_only_read + info.pages_only_written, info.distinct_pages);
}

/// The samples that ship with Ebbpool have the properties stated in traces/README.md.
#[test]
fn the_sample_traces() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    for (name, references, distinct, database) in
        [("pg-tpcc", 1_000_000, 49_604, 270_258), ("pg-tpcb", 300_000, 22_385, 292_520), ("pg-tatp", 300_000, 21_377, 53_725)]
    {
        let path = samples.join(format!("{name}.parquet"));
        let mut reader = source(&path, None).unwrap().open().unwrap();
        assert_eq!(reader.metadata().name.as_deref(), Some(name));
        assert_eq!(reader.metadata().page_size, Some(8192));
        assert_eq!(reader.metadata().database_pages, Some(database));
        let info = TraceStatistics::from_reader(&mut reader).unwrap();
        assert_eq!(info.references, references);
        assert_eq!(info.distinct_pages, distinct);
    }
}

/// References, of which some replace their page, and the ends of pages between them.
fn any_operations() -> impl Strategy<Value = Batch> {
    let page = prop_oneof![0..50u64, Just(u64::MAX), Just(1 << 40)];
    let step = (page.clone(), page, 0..6u8);
    prop::collection::vec(step, 0..60).prop_map(|steps| {
        let mut all = Batch::new();
        for (page, other, kind) in steps {
            match kind {
                0 => all.trim(page.min(other), page.max(other), 0),
                1 => all.push_whole(page),
                kind => all.push(page, kind < 4),
            }
        }
        all.whole.truncate(all.whole.iter().rposition(|whole| *whole).map_or(0, |last| last + 1));
        all
    })
}

/// Which pages end before each reference and behind the last, of the first `pages`.
fn ended(all: &Batch, pages: u64) -> Vec<(usize, u64)> {
    let of = |trim: &Trim| (trim.first..=trim.last.min(pages - 1)).map(|page| (trim.before, page)).collect::<Vec<_>>();
    all.trims.iter().flat_map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn trims_and_writes_of_whole_pages_survive(all in any_operations(), skip in 0..5u64, limit in 0..80u64) {
        let directory = tempfile::tempdir().unwrap();
        for format in [Format::Native, Format::Text] {
            let path = directory.path().join(format!("t.{}", format.extensions()[0]));
            let mut writer = Writer::create(&path, format, &Metadata::default()).unwrap();
            writer.expect(OptionalColumns::OPERATIONS);
            writer.write(&all).unwrap();
            prop_assert_eq!(writer.finish().unwrap().references, all.len() as u64);
            let named = path.to_str().unwrap();
            let of = |options: ReadOptions| all_of(&Source::parse_with(named, &options).unwrap());
            let read = of(ReadOptions::default());
            let plain = |batch: &Batch| (batch.pages.clone(), batch.writes.clone(), batch.whole.clone());
            prop_assert_eq!(plain(&read), plain(&all));
            prop_assert_eq!(ended(&read, 60), ended(&all, 60));
            // A reader that does not ask for them has the references.
            let source = source(&path, None).unwrap();
            prop_assert_eq!(read_from(&source, 7).unwrap().pages, all.pages.clone());
            // Of a part, the ends that lie in it.
            let (skip, limit) = (skip.min(all.len() as u64) as usize, limit as usize);
            let part = of(ReadOptions { skip: skip as u64, limit: Some(limit as u64), ..ReadOptions::default() });
            let to = all.len().min(skip + limit);
            prop_assert_eq!(&part.pages, &all.pages[skip..to]);
            prop_assert!(ended(&part, 60).iter().all(|(at, page)| ended(&all, 60).contains(&(at + skip, *page))));
            let inner = ended(&all, 60).into_iter().filter(|(at, _)| (skip + 1..to).contains(at)).map(|(at, page)| (at - skip, page));
            for end in inner {
                prop_assert!(ended(&part, 60).contains(&end), "{end:?}");
            }
            let whole = of(ReadOptions { whole_writes: true, ..ReadOptions::default() });
            prop_assert!((0..all.len()).all(|at| whole.is_whole(at) == all.writes[at]));
        }
    }

    #[test]
    fn trims_are_converted_with_their_pages(all in any_operations()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.txt");
        let metadata = Metadata { page_size: Some(1024), ..Metadata::default() };
        let mut small = all.clone();
        small.pages.iter_mut().for_each(|page| *page %= 1 << 41);
        let mut writer = Writer::create(&path, Format::Text, &metadata).unwrap();
        writer.expect(OptionalColumns::OPERATIONS);
        writer.write(&small).unwrap();
        writer.finish().unwrap();
        let of = |page_size| {
            let options = ReadOptions { page_size: std::num::NonZeroU64::new(page_size), ..ReadOptions::default() };
            all_of(&Source::parse_with(path.to_str().unwrap(), &options).unwrap())
        };
        // Two pages become one, which ends where both end at once.
        let merged = of(2048);
        prop_assert_eq!(merged.pages.len(), small.len());
        prop_assert!(merged.whole.is_empty());
        for (trim, at) in small.trims.iter().zip(0..) {
            let both = |page: u64| trim.first <= 2 * page && 2 * page < trim.last;
            let others = small.trims[..at].iter().chain(&small.trims[at + 1..]).filter(|other| other.before == trim.before);
            let others: Vec<&Trim> = others.collect();
            for page in 0..40 {
                let other = others.iter().any(|other| other.first <= 2 * page && 2 * page < other.last);
                prop_assert_eq!(ended(&merged, 60).contains(&(trim.before, page)), both(page) || other);
            }
        }
        // One becomes two.
        let split = of(512);
        prop_assert_eq!(split.pages.len(), 2 * small.len());
        for at in 0..split.len() {
            prop_assert_eq!(split.is_whole(at), small.is_whole(at / 2));
            prop_assert_eq!(split.pages[at], 2 * small.pages[at / 2] + at as u64 % 2);
        }
        let mut expected: Vec<(usize, u64)> = Vec::new();
        expected.extend(ended(&small, 50).iter().flat_map(|&(at, page)| [(2 * at, 2 * page), (2 * at, 2 * page + 1)]));
        prop_assert_eq!(ended(&split, 100), expected);
    }
}

/// What formats of requests say: of the pages that a write touches, the inner ones are replaced, and a trim ends whole pages.
#[test]
fn requests_say_which_pages_they_replace_and_end() {
    let directory = tempfile::tempdir().unwrap();
    let of = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        let options = ReadOptions { page_size: std::num::NonZeroU64::new(4096), ..ReadOptions::default() };
        all_of(&Source::parse_with(path.to_str().unwrap(), &options).unwrap())
    };
    let mut expected = Batch::new();
    expected.push(0, true);
    expected.push_whole(1);
    expected.push(2, true);
    expected.push(1, false);
    let without = expected.clone();
    expected.trim(1, 2, 0);
    let fio = "fio version 2 iolog\na add\na open\nb trim 0 4096\na write 2048 8192\na read 4096 4096\na trim 2048 10240\n";
    assert_eq!(of("a.iolog", fio), expected);
    let blkparse = "8,0 1 1 0.000000001 9 Q W 4 + 16 [x]\n8,0 1 2 0.1 9 Q R 8 + 8 [x]\n8,0 1 3 0.2 9 Q D 4 + 20 [x]\n8,0 1 3 0.2 9 Q D 4 + 8 [x]\n";
    assert_eq!(of("a.blkparse", blkparse), expected);
    let zoned = "8,0 1 1 0.0 9 Q WS 0 + 8 [x]\n8,0 1 2 0.1 9 Q ZR 0 + 16 [x]\n8,0 1 3 0.2 9 Q ZAS 8 + 8 [x]\n8,0 1 3 0.2 9 Q ZO 0 + 16 [x]\n";
    let mut zones = Batch::new();
    zones.push_whole(0);
    zones.trim(0, 1, 0);
    zones.push_whole(1);
    assert_eq!(of("z.blkparse", zoned), zones);
    // What ends no page, though it may look so, is counted.
    let late = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        let options = ReadOptions { page_size: std::num::NonZeroU64::new(4096), ..ReadOptions::default() };
        let source = Source::parse_with(path.to_str().unwrap(), &options).unwrap();
        assert!(all_of(&source).trims.is_empty());
        source.late_notes().join(" ")
    };
    let events = "8,0 1 1 0.0 9 Q WS 0 + 8 [x]\n8,0 1 2 0.1 9 Q ZR [x]\n8,0 1 2 0.1 9 Q ZRS 0 + 0 [x]\n8,0 1 3 0.2 9 Q FN [x]\n8,0 1 3 0.2 9 Q FWS [x]\n";
    let notes = late("l.blkparse", events);
    assert!(notes.contains("are skipped: 2 flushes, 2 resets of zones without a length"), "{notes}");
    let notes = late("l.iolog", "fio version 2 iolog\na add\na write 0 4096\na sync 0 0\na datasync 0 0\n");
    assert!(notes.contains("are skipped: 2 flushes"), "{notes}");
    assert_eq!(of("a.spc", "0,4,8192,w,0.1\n0,8,4096,r,0.2\n"), without);
    assert_eq!(of("a.msr", "128166372003061629,h,0,Write,2048,8192,1\n128166372003061630,h,0,Read,4096,4096,1\n"), without);
    // A text of another program announces nothing, and Parquet has its columns from the first reference on.
    let path = directory.path().join("late.txt");
    fs::write(&path, format!("{}T 5\n", "R 1\n".repeat(100_000))).unwrap();
    let source = source(&path, None).unwrap();
    let mut reader = source.open_with(OptionalColumns::ALL).unwrap();
    assert!(!reader.has_operations());
    let mut writer = Writer::create(directory.path().join("late.parquet"), Format::Native, &Metadata::default()).unwrap();
    let mut batch = Batch::new();
    let mut refused = Ok(());
    while refused.is_ok() && reader.next_batch(&mut batch, 1000).unwrap() {
        refused = writer.write(&batch);
    }
    assert!(refused.unwrap_err().to_string().contains("# ebbpool.operations=true"));
}

/// A program that writes a trace anew drops its metadata, and with it what the columns mean: this is asked for.
#[test]
fn operations_without_their_metadata_are_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rewritten.parquet");
    let schema = "message trace { required int64 page; required int32 action; required int64 pages; }";
    let schema = std::sync::Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let mut file =
        parquet::file::writer::SerializedFileWriter::new(fs::File::create(&path).unwrap(), schema, Default::default()).unwrap();
    let mut group = file.next_row_group().unwrap();
    let (pages, actions, counts) = ([3i64, 4, 3], [1i32, 2, 3], [1i64, 1, 2]);
    for at in 0..3 {
        let mut column = group.next_column().unwrap().unwrap();
        match at {
            1 => column.typed::<parquet::data_type::Int32Type>().write_batch(&actions, None, None).unwrap(),
            at => column
                .typed::<parquet::data_type::Int64Type>()
                .write_batch(if at == 0 { &pages } else { &counts }, None, None)
                .unwrap(),
        };
        column.close().unwrap();
    }
    group.close().unwrap();
    file.close().unwrap();
    let question = source(&path, None).unwrap().open().err().unwrap().to_string();
    assert!(question.contains("ebbpool.operations=true is missing: --trace-format native if this is one"), "{question}");
    let mut expected = Batch::new();
    expected.push(3, true);
    expected.push_whole(4);
    expected.trim(3, 4, 0);
    assert_eq!(all_of(&source(&path, Some(Format::Native)).unwrap()), expected);
    let options = ReadOptions { columns: Some("page=page,write=action:1".parse().unwrap()), ..ReadOptions::default() };
    let table = Source::parse_with(path.to_str().unwrap(), &options).unwrap();
    let refused = table.open().map(|mut reader| reader.next_batch(&mut Batch::new(), 9));
    assert!(refused.unwrap().unwrap_err().to_string().contains("for '2' --columns"));
}
