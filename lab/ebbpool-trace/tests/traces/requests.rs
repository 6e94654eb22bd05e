//! When references were made, through which rings, and below which cache: written, read, cut, joined and folded.

use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use crate::common::some;
use ebbpool_trace::stats::{RequestStatistics, TraceStatistics};
use ebbpool_trace::{
    Batch, Format, Metadata, OptionalColumns, PageClasses, ReadOptions, RequestDetail, Ring, RingKind, Source, Writer,
};
use parquet::data_type::{BoolType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

fn open(path: &Path, options: &ReadOptions) -> Source {
    Source::parse_with(path.to_str().unwrap(), options).unwrap()
}

fn plain(path: &Path) -> Source {
    open(path, &ReadOptions::default())
}

/// All references with all columns. A reader that is not asked for requests has none.
fn read(source: &Source, max: usize) -> Batch {
    let mut reader = source.open_with(OptionalColumns::ALL).unwrap();
    let (mut all, mut batch) = (Batch::new(), Batch::new());
    while reader.next_batch(&mut batch, max).unwrap() {
        let expected = if reader.has_requests() { batch.len() } else { 0 };
        assert_eq!(batch.requests.len(), expected);
        all.append(&mut batch);
    }
    let mut reader = source.open_with_classes().unwrap();
    let mut without = Batch::new();
    while reader.next_batch(&mut batch, max).unwrap() {
        assert!(batch.requests.is_empty() && !reader.has_requests());
        without.append(&mut batch);
    }
    without.requests.clone_from(&all.requests);
    assert_eq!(without, all);
    all
}

fn write(path: &Path, format: Format, metadata: &Metadata, all: &Batch) -> u64 {
    let classes = PageClasses::named(vec!["a".to_owned()]);
    let classes = Some(&classes).filter(|_| !all.classes.is_empty());
    let mut writer = Writer::create_with_classes(path, format, metadata, classes, None).unwrap();
    writer.write(&Batch::new()).unwrap();
    let mut at = 0;
    while at < all.len() {
        let end = all.len().min(at + 777);
        let piece = Batch {
            pages: all.pages[at..end].to_vec(),
            writes: all.writes[at..end].to_vec(),
            classes: all.classes.get(at..end).unwrap_or_default().to_vec(),
            requests: all.requests.get(at..end).unwrap_or_default().to_vec(),
            ..Batch::default()
        };
        writer.write(&piece).unwrap();
        at = end;
    }
    writer.finish().unwrap().bytes
}

fn request(time_us: u64, bypass: u32) -> RequestDetail {
    RequestDetail { time_us, bypass }
}

fn ring(number: u32, kind: RingKind) -> u32 {
    Ring { number, kind }.code()
}

fn with_requests(mut all: Batch, detail: impl Fn(u64) -> RequestDetail) -> Batch {
    all.requests = (0..all.len() as u64).map(detail).collect();
    all
}

#[test]
fn native_traces_retain_requests() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let mut all = with_requests(some(3000, 500), |at| request(1_700_000_000_000_000 + at / 3 * 17, at as u32 % 5));
    for classes in [Vec::new(), (0..3000).map(|at| at % 2).collect()] {
        all.classes = classes;
        write(&path, Format::Native, &Metadata::default(), &all);
        for max in [1, 1000, 5000] {
            assert_eq!(read(&plain(&path), max), all);
        }
    }
    // The capture's readers know before the first reference what they get.
    let reader = plain(&path).open_with(OptionalColumns::ALL).unwrap();
    assert!(reader.has_requests());
    let copy = directory.path().join("b.parquet");
    write(&copy, Format::Native, &Metadata::default(), &read(&plain(&path), 1 << 16));
    assert!(fs::read(&path).unwrap() == fs::read(&copy).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_requests_are_read_as_written(
        start in 0u64..1 << 62,
        steps in proptest::collection::vec((0u64..1 << 50, any::<u32>()), 1..200),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        let mut all = some(steps.len(), 50);
        let mut time = start;
        for (step, bypass) in steps {
            time += step;
            all.requests.push(request(time, bypass));
        }
        write(&path, Format::Native, &Metadata::default(), &all);
        prop_assert_eq!(read(&plain(&path), 64), all);
    }
}

#[test]
fn constant_columns_have_hardly_any_size() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let metadata = Metadata::default();
    let all = some(1_200_000, 5000);
    let without = write(&path, Format::Native, &metadata, &all);
    let constant = with_requests(all.clone(), |_| request(123_456_789, 0));
    let with = write(&path, Format::Native, &metadata, &constant);
    assert!(with < without + 2000, "{with} and {without} bytes");
    let steady = with_requests(all, |at| request(at * 25, 5));
    let with = write(&path, Format::Native, &metadata, &steady);
    assert!(with < without + 5000, "{with} and {without} bytes");
}

#[test]
fn the_first_references_decide_whether_the_file_has_requests() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let plain_part = some(3, 9);
    let part = with_requests(some(3, 9), |at| request(at + 1, 6));
    let written = |parts: [&Batch; 2]| {
        let mut writer = Writer::create(&path, Format::Native, &Metadata::default()).unwrap();
        parts.iter().for_each(|part| writer.write(part).unwrap());
        writer.finish().unwrap();
        read(&plain(&path), 100).requests
    };
    assert_eq!(written([&plain_part, &part]), []);
    let expected = [(1, 6), (2, 6), (3, 6), (3, 0), (3, 0), (3, 0)];
    let expected = expected.map(|(time, bypass)| request(time, bypass));
    assert_eq!(written([&part, &plain_part]), expected);
}

/// Declares a column, and writes it.
type ForeignColumn<'a> = (&'a str, &'a dyn Fn(&mut SerializedColumnWriter));

/// Writes a Parquet trace of four references with further columns, declared and written as given.
fn foreign(path: &Path, columns: &[ForeignColumn]) {
    let declared: String = columns.iter().map(|(column, _)| format!("{column}; ")).collect();
    let schema = format!("message trace {{ REQUIRED INT64 page; REQUIRED BOOLEAN write; {declared}}}");
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let file = fs::File::create(path).unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut pages = group.next_column().unwrap().unwrap();
    let pages_column = pages.typed::<Int64Type>();
    pages_column.write_batch(&[1, 2, 3, 4], None, None).unwrap();
    pages.close().unwrap();
    let mut writes = group.next_column().unwrap().unwrap();
    let writes_column = writes.typed::<BoolType>();
    writes_column.write_batch(&[true; 4], None, None).unwrap();
    writes.close().unwrap();
    for (_, put) in columns {
        let mut column = group.next_column().unwrap().unwrap();
        put(&mut column);
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

fn narrow(column: &mut SerializedColumnWriter, values: &[i32], levels: Option<&[i16]>) {
    let column = column.typed::<Int32Type>();
    column.write_batch(values, levels, None).unwrap();
}

fn wide(column: &mut SerializedColumnWriter, values: &[i64], levels: Option<&[i16]>) {
    let column = column.typed::<Int64Type>();
    column.write_batch(values, levels, None).unwrap();
}

#[test]
fn columns_of_other_integer_types() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let requests = || -> Vec<(u64, u32)> {
        let requests = read(&plain(&path), 3).requests;
        let pair = |request: &RequestDetail| (request.time_us, request.bypass);
        requests.iter().map(pair).collect()
    };
    // Negative times, and a clock that was set back.
    foreign(
        &path,
        &[("REQUIRED INT64 time_us", &|column| {
            wide(column, &[-50, -20, -30, 7], None);
        })],
    );
    assert_eq!(requests(), [(0, 0), (30, 0), (30, 0), (57, 0)]);
    foreign(
        &path,
        &[("OPTIONAL INT32 time_us", &|column| {
            narrow(column, &[9, 4], Some(&[0, 1, 1, 0]));
        })],
    );
    assert_eq!(requests(), [(0, 0), (9, 0), (9, 0), (9, 0)]);
    foreign(
        &path,
        &[("REQUIRED INT64 time_us (INTEGER(64,false))", &|column| {
            wide(column, &[-4, -3, -1, -1], None);
        })],
    );
    assert_eq!(requests(), [(0, 0), (1, 0), (3, 0), (3, 0)]);
    // Rings without times.
    foreign(
        &path,
        &[("OPTIONAL INT32 bypass (INTEGER(32,false))", &|column| {
            narrow(column, &[5, -1], Some(&[1, 0, 0, 1]));
        })],
    );
    assert_eq!(requests(), [(0, 5), (0, 0), (0, 0), (0, u32::MAX)]);
    foreign(
        &path,
        &[
            ("REQUIRED INT64 bypass", &|column| {
                wide(column, &[0, 5, 6, 4_294_967_295], None);
            }),
            ("REQUIRED INT64 time_us", &|column| {
                wide(column, &[1, 2, 3, 4], None);
            }),
        ],
    );
    assert_eq!(requests(), [(1, 0), (2, 5), (3, 6), (4, u32::MAX)]);
}

#[test]
fn columns_that_are_no_requests() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let columns = OptionalColumns::ALL;
    for (bad, value) in [("REQUIRED INT64", -1), ("REQUIRED INT64", 1 << 32)] {
        foreign(
            &path,
            &[(&format!("{bad} bypass"), &|column| {
                wide(column, &[0, 0, value, 0], None);
            })],
        );
        let mut reader = plain(&path).open_with(columns).unwrap();
        let mut batch = Batch::new();
        let message = reader.next_batch(&mut batch, 100).unwrap_err().to_string();
        assert!(message.contains("row 2") && message.contains("bypass is not a number from 0 to 2^32-1"), "{message}");
        assert!(batch.is_empty() && !message.contains('\n'));
        // Only those who ask for requests need them.
        assert_eq!(crate::common::read(&path, None).unwrap().len(), 4);
    }
    foreign(
        &path,
        &[("REQUIRED DOUBLE time_us", &|column| {
            let column = column.typed::<DoubleType>();
            column.write_batch(&[0.5; 4], None, None).unwrap();
        })],
    );
    let reader = plain(&path).open_with(columns).unwrap();
    assert!(!reader.has_requests());
    assert!(reader.notes()[0].contains("column 'time_us' is DOUBLE, and times are integers"));
    assert!(plain(&path).open().unwrap().notes().is_empty());
    assert_eq!(read(&plain(&path), 100).requests, []);
}

#[test]
fn a_damaged_file_with_requests_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let all = with_requests(some(400, 50), |at| request(at * at, at as u32 % 9));
    write(&path, Format::Native, &Metadata::default(), &all);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&path, damaged).unwrap();
        let Ok(mut reader) = plain(&path).open_with(OptionalColumns::ALL) else {
            continue;
        };
        let mut batch = Batch::new();
        while let Ok(true) = reader.next_batch(&mut batch, 100) {
            let expected = if reader.has_requests() { batch.len() } else { 0 };
            assert_eq!(batch.requests.len(), expected);
        }
    }
}

#[test]
fn cutting_and_folding_retain_requests() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let all = with_requests(some(1000, 500), |at| request(at * 10, at as u32));
    let metadata = Metadata { page_size: Some(8192), ..Metadata::default() };
    write(&path, Format::Native, &metadata, &all);
    let cut = ReadOptions { skip: 100, limit: Some(50), ..ReadOptions::default() };
    assert_eq!(read(&open(&path, &cut), 7).requests, all.requests[100..150]);
    let paged = |size| ReadOptions { page_size: NonZeroU64::new(size), ..ReadOptions::default() };
    assert_eq!(read(&open(&path, &paged(16384)), 64).requests, all.requests);
    let split = read(&open(&path, &paged(4096)), 77).requests;
    let twice = all.requests.iter().flat_map(|&request| [request; 2]);
    assert_eq!(split, twice.collect::<Vec<_>>());
}

#[test]
fn parts_follow_each_other_in_time_and_have_rings_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let part = |name: &str, requests: &[(u64, u32)]| {
        let mut all = some(requests.len(), 9);
        let detail = |&(time, bypass): &(u64, u32)| request(time, bypass);
        all.requests = requests.iter().map(detail).collect();
        write(&path(name), Format::Native, &Metadata::default(), &all);
    };
    let (scan, vacuum) = (|number| ring(number, RingKind::BulkRead), |number| ring(number, RingKind::Vacuum));
    part("a.parquet", &[(1000, scan(1)), (1010, 0), (1015, scan(3))]);
    part("b.parquet", &[(70, vacuum(1)), (75, 0), (95, scan(2))]);
    write(&path("c.parquet"), Format::Native, &Metadata::default(), &some(2, 9));
    part("d.parquet", &[(5, scan(Ring::MOST)), (6, scan(1))]);
    let names = ["a", "b", "c", "d"].map(|name| path(&format!("{name}.parquet")));
    let names = names.map(|path| path.to_str().unwrap().to_owned());
    let expected = [
        (1000, scan(1)),
        (1010, 0),
        (1015, scan(3)),
        (1015, vacuum(4)),
        (1020, 0),
        (1040, scan(5)),
        (1040, 0),
        (1040, 0),
        // There is no number after the last.
        (1040, scan(Ring::MOST)),
        (1041, scan(6)),
    ];
    let expected = expected.map(|(time, bypass)| request(time, bypass));
    let source = Source::concat(&names, &ReadOptions::default()).unwrap();
    for max in [1, 3, 100] {
        assert_eq!(read(&source, max).requests, expected);
    }
    let skipped = ReadOptions { skip: 4, ..ReadOptions::default() };
    let source = Source::concat(&names, &skipped).unwrap();
    assert_eq!(read(&source, 2).requests, expected[4..]);
    // A part without times in front.
    let source = Source::concat(&[names[2].clone(), names[1].clone()], &ReadOptions::default());
    let times = read(&source.unwrap(), 9).requests;
    let times: Vec<u64> = times.iter().map(|request| request.time_us).collect();
    assert_eq!(times, [0, 0, 0, 5, 25]);
}

#[test]
fn a_trace_below_a_cache_says_so_in_every_format_with_metadata() {
    let directory = tempfile::tempdir().unwrap();
    let metadata = Metadata { below_cache: true, ..Metadata::default() };
    assert!(!metadata.is_empty());
    for (format, name) in [(Format::Native, "a.parquet"), (Format::Text, "a.txt"), (Format::U32, "a.u32")] {
        let path = directory.path().join(name);
        write(&path, format, &metadata, &some(10, 5));
        assert_eq!(*plain(&path).open().unwrap().metadata(), metadata, "{name}");
        // A part below a cache makes the whole one below a cache.
        let names = ["uniform:pages=5,refs=10", path.to_str().unwrap()].map(str::to_owned);
        for names in [names.clone(), [names[1].clone(), names[0].clone()]] {
            let both = Source::concat(&names, &ReadOptions::default()).unwrap();
            assert!(both.open().unwrap().metadata().below_cache);
        }
        // A later trace in the place of this one does not inherit the mark.
        write(&path, format, &Metadata::default(), &some(10, 5));
        assert!(!plain(&path).open().unwrap().metadata().below_cache);
    }
    let sidecar = directory.path().join("a.json");
    fs::write(&sidecar, r#"{"below_cache": 1}"#).unwrap();
    let error = plain(&directory.path().join("a.u32")).open().unwrap_err();
    assert!(error.to_string().contains("below_cache is 1, expected true or false"));
}

#[test]
fn other_formats_omit_requests() {
    let directory = tempfile::tempdir().unwrap();
    let all = with_requests(some(10, 5), |at| request(at, 5));
    for format in crate::common::written() {
        let path = directory.path().join(format!("a.{}", format.extensions()[0]));
        write(&path, format, &Metadata::default(), &all);
        let found = read(&plain(&path), 100);
        assert_eq!(found.pages, all.pages);
        assert_eq!(!found.requests.is_empty(), format.keeps_requests(), "{format}");
    }
}

#[test]
fn statistics_count_times_and_rings() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let mut all = some(6, 5);
    let codes = [
        0,
        ring(1, RingKind::BulkRead),
        ring(2, RingKind::BulkRead),
        ring(3, RingKind::BulkWrite),
        ring(1, RingKind::Vacuum),
        ring(2, RingKind::BulkReadGivingUp),
    ];
    all.requests = codes.iter().zip(10..).map(|(&code, at)| request(at * at, code)).collect();
    write(&path, Format::Native, &Metadata::default(), &all);
    let of = |columns| TraceStatistics::from_reader(&mut plain(&path).open_with(columns).unwrap()).unwrap();
    let expected = RequestStatistics { duration_us: 225 - 100, bulk_reads: 3, bulk_writes: 1, vacuums: 1 };
    assert_eq!(of(OptionalColumns::ALL).requests, Some(expected));
    assert_eq!(of(OptionalColumns::default()).requests, None);
    let arrivals = plain(&path).recorded_arrivals(0).unwrap().unwrap();
    assert_eq!((arrivals.references, arrivals.time.as_micros()), (5, 125));
}

#[test]
fn what_a_buffer_had_at_the_first_moment_has_not_arrived() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let mut all = some(6000, 97);
    let prefix = std::iter::repeat_n(0, 5000);
    let times = prefix.chain((1..=1000).map(|at| 1000 * at));
    all.requests = times.map(|time| request(time, 0)).collect();
    write(&path, Format::Native, &Metadata::default(), &all);
    let name = path.to_str().unwrap().to_owned();
    let twice = Source::concat(&[name.clone(), name], &ReadOptions::default()).unwrap();
    for (source, warmup, references) in [
        (plain(&path), 0, 1000),
        (plain(&path), 3000, 1000),
        (plain(&path), 5000, 1000),
        (plain(&path), 5400, 600),
        (twice.clone(), 0, 2000),
        (twice.clone(), 5400, 1600),
        (twice.clone(), 11_900, 100),
        (Source::sequence(&[twice], &ReadOptions::default()), 11_000, 1000),
    ] {
        let arrivals = source.recorded_arrivals(warmup).unwrap().unwrap();
        let found = (arrivals.references, arrivals.time.as_millis());
        assert_eq!(found, (references, u128::from(references)), "{warmup}");
    }
    assert_eq!(plain(&path).recorded_arrivals(6000).unwrap(), None);
}
