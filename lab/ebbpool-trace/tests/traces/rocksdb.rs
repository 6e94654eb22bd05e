//! RocksDB's block cache traces: one that RocksDB 7.8 wrote (`tests/data/rocksdb.cc`), and damaged ones.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use ebbpool_trace::{Batch, Format, Metadata, OptionalColumns, ReadOptions, Source, TraceError, Writer};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rocksdb.trace.zst")
}

fn source(path: &Path) -> Source {
    Source::parse(path.to_str().unwrap(), None).unwrap()
}

fn read(source: &Source, max: usize) -> Result<(Batch, Vec<String>), TraceError> {
    let mut reader = source.open_with(OptionalColumns::ALL)?;
    let (mut all, mut batch) = (Batch::new(), Batch::new());
    while reader.next_batch(&mut batch, max)? {
        assert_eq!(batch.len(), batch.requests.len());
        assert_eq!(batch.len(), batch.classes.len());
        all.append(&mut batch);
    }
    Ok((all, reader.classes().unwrap().names().to_vec()))
}

fn text(text: &[u8]) -> Vec<u8> {
    assert!(text.len() < 128, "one byte of a varint");
    [&[text.len() as u8], text].concat()
}

fn record(time: u64, record_type: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&time.to_le_bytes()[..], &[record_type], &length, payload].concat()
}

fn header() -> Vec<u8> {
    let version = [7u32, 8].map(u32::to_le_bytes).concat();
    record(5, 1, &[text(b"feedcafedeadbeef"), version].concat())
}

/// An access with `more` bytes after the fields that are read.
fn access(time: u64, record_type: u8, key: &[u8], family: &str, more: usize) -> Vec<u8> {
    let payload = [
        &text(key)[..],
        &4096u64.to_le_bytes(),
        &(family.len() as u64).to_le_bytes(),
        &text(family.as_bytes()),
        &2u32.to_le_bytes(),
        &77u64.to_le_bytes(),
        &[1, 0, 0],
        &vec![9; more],
    ];
    record(time, record_type, &payload.concat())
}

fn read_bytes(content: &[u8], max: usize) -> Result<(Batch, Vec<String>), TraceError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.rocksdb");
    fs::write(&path, content).unwrap();
    let result = read(&source(&path), max);
    if let Err(error) = &result {
        crate::common::one_line(&path, error);
    }
    result
}

/// The records of a trace after the first, decoded a second time as `BlockCacheTraceWriter` encodes them.
fn expected(trace: &[u8]) -> Vec<(Vec<u8>, u8, u64, String)> {
    let number = |at: usize, bytes: usize| {
        let field = trace[at..at + bytes].iter().rev();
        field.fold(0u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let mut records = Vec::new();
    let mut at = 0;
    while at < trace.len() {
        let payload = at + 13;
        if trace[at + 8] != 1 {
            let key = usize::from(trace[payload]);
            let family = payload + 1 + key + 16;
            let name = &trace[family + 1..][..usize::from(trace[family])];
            records.push((
                trace[payload + 1..][..key].to_vec(),
                trace[at + 8],
                number(at, 8),
                String::from_utf8(name.to_vec()).unwrap(),
            ));
        }
        at = payload + number(at + 9, 4) as usize;
    }
    records
}

#[test]
fn a_trace_of_rocksdb_is_read() {
    let path = golden();
    let trace = zstd::decode_all(fs::File::open(&path).unwrap()).unwrap();
    let expected = expected(&trace);
    assert_eq!(expected.len(), 174);
    let source = source(&path);
    assert_eq!(source.formats().unwrap(), [Some(Format::RocksDb)]);
    let notes = source.open().unwrap().notes().join("\n");
    assert!(notes.contains("all references are reads") && notes.contains("every block is one page"));
    for max in [1, 7, 1000] {
        let (all, names) = read(&source, max).unwrap();
        assert_eq!(all.len(), expected.len());
        let mut pages = HashMap::new();
        let contents = HashMap::from([(7, "index"), (8, "filter"), (9, "data")]);
        for (at, (key, record_type, time, family)) in expected.iter().enumerate() {
            let next = pages.len() as u64;
            let page = *pages.entry(key.clone()).or_insert(next);
            assert_eq!((all.pages[at], all.writes[at]), (page, false));
            let name = &names[all.classes[at] as usize - 1];
            assert_eq!(*name, format!("{family}, {}", contents[record_type]));
            assert_eq!((all.requests[at].time_us, all.requests[at].bypass), (*time, 0));
        }
        assert_eq!(pages.len(), 25);
        assert_eq!(names.len(), 6);
    }
    let (first, last) = (expected[0].2, expected[173].2);
    let time = source.recorded_arrivals(0).unwrap().unwrap().time;
    assert_eq!(time.as_micros(), u128::from(last - first));
    let cut = ReadOptions { skip: 10, limit: Some(100), ..ReadOptions::default() };
    let cut = Source::parse_with(path.to_str().unwrap(), &cut).unwrap();
    let time = cut.recorded_arrivals(0).unwrap().unwrap().time;
    assert_eq!(time.as_micros(), u128::from(expected[109].2 - expected[10].2));
}

#[test]
fn a_native_copy_has_the_same_references_times_and_classes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let (all, names) = read(&source(&golden()), 1000).unwrap();
    let classes = ebbpool_trace::PageClasses::named(names.clone());
    let metadata = Metadata::default();
    let mut writer = Writer::create_with_classes(&path, Format::Native, &metadata, Some(&classes), None).unwrap();
    writer.write(&all).unwrap();
    writer.finish().unwrap();
    assert_eq!(read(&source(&path), 1000).unwrap(), (all, names));
}

#[test]
fn traces_are_read_whatever_their_records() {
    let long = [7; 100];
    let parts = [
        header(),
        access(10, 9, b"a", "default", 0),
        // A key of a user that does not fit into the buffer.
        access(20, 9, b"b", "default", 1 << 20),
        access(15, 7, b"a", "default", 3),
        record(30, 2, b""),
        // A second trace in the same file.
        header(),
        access(40, 11, &long, "", 0),
        access(41, 10, b"a", "x", 0),
    ];
    for max in [1, 3, 100] {
        let (all, names) = read_bytes(&parts.concat(), max).unwrap();
        assert_eq!(all.pages, [0, 1, 0, 2, 0]);
        let times: Vec<u64> = all.requests.iter().map(|request| request.time_us).collect();
        assert_eq!(times, [10, 20, 20, 40, 41]);
        assert_eq!(all.classes, [1, 1, 2, 3, 4]);
        assert_eq!(names, ["default, data", "default, index", ", range deletions", "x, compression dictionary"]);
    }
    assert!(read_bytes(&header(), 9).unwrap().0.is_empty());
}

#[test]
fn damaged_traces_are_refused() {
    let refusal = |parts: &[&[u8]]| read_bytes(&parts.concat(), 9).unwrap_err().to_string();
    let (header, access) = (header(), access(10, 9, b"key", "default", 4));
    let queries = record(5, 1, b"feedcafedeadbeef\tTrace Version: 0.2");
    for (parts, expected) in [
        (&[&b""[..]][..], "does not begin with the header"),
        (&[&header[..20]], "does not begin with the header"),
        (&[&access], "does not begin with the header"),
        (&[&queries], "is a trace of queries"),
        (&[&header, &access[..5]], "record 1 (the first is 0): cut off after 5 of 13 bytes"),
        (&[&header, &access, &access[..40]], "record 2 (the first is 0): cut off after 40 of"),
        (&[&header, &record(1, 3, b"")], "its type is 3, and blocks have types 7 to 11"),
        (&[&header, &record(1, 9, b"")], "its fields are longer than the record"),
        (&[&header, &record(1, 9, b"\xff\xff\xff\xff\x0f")], "its fields are longer"),
        (&[&header, &record(1, 9, &[0xff; 40])], "its fields are longer"),
    ] {
        let message = refusal(parts);
        assert!(message.contains(expected), "{message}");
    }
    // The length of a payload is not believed before its bytes are there.
    let mut endless = access.clone();
    endless[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
    let message = refusal(&[&header, &endless]);
    assert!(message.contains("cut off after"), "{message}");
    let message = refusal(&[&header, &endless, &vec![0; 1 << 17]]);
    assert!(message.contains("cut off before its last"), "{message}");
}

/// Blocks have one number in all parts, whichever part they appear in first.
#[test]
fn parts_have_the_same_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let of = |keys: &[&[u8]], name: &str| {
        let records: Vec<u8> = keys.iter().flat_map(|key| access(9, 9, key, "default", 0)).collect();
        let path = directory.path().join(name);
        fs::write(&path, [header(), records].concat()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let parts = [of(&[b"a", b"b", b"a"], "1.rocksdb"), of(&[b"b", b"0123456789abcdef0", b"a"], "2.rocksdb")];
    let pages = |options: &ReadOptions| read(&Source::concat(&parts, options).unwrap(), 9).unwrap().0.pages;
    assert_eq!(pages(&ReadOptions::default()), [0, 1, 0, 1, 2, 0]);
    let whole = pages(&ReadOptions { apart: true, ..ReadOptions::default() });
    assert_eq!(HashSet::<u64>::from_iter(whole).len(), 5);
}

#[test]
fn no_cut_and_no_flipped_bit_is_a_fault() {
    let trace = zstd::decode_all(fs::File::open(golden()).unwrap()).unwrap();
    let trace = &trace[..1500];
    let starts: HashSet<usize> = {
        let mut starts = HashSet::from([0]);
        let mut at = 0;
        while at + 13 <= trace.len() {
            at += 13 + u32::from_le_bytes(trace[at + 9..at + 13].try_into().unwrap()) as usize;
            starts.insert(at);
        }
        starts
    };
    for cut in 38..trace.len() {
        let read = read_bytes(&trace[..cut], 1000);
        assert_eq!(read.is_ok(), starts.contains(&cut), "{cut}");
    }
    for at in 0..trace.len() {
        let mut damaged = trace.to_vec();
        damaged[at] ^= 1 << (at % 8);
        let _ = read_bytes(&damaged, 1000);
    }
}
