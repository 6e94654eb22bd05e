//! The classes of pages: read from every format that has them, written by those that store them.

use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use crate::common::some;
use ebbpool_trace::stats::TraceStatistics;
use ebbpool_trace::{Batch, Columns, Format, Metadata, PageClasses, ReadOptions, Source, Writer};
use parquet::data_type::{BoolType, ByteArrayType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

/// The references of a trace with their classes, and what is known of these at the end.
fn read(source: &Source, max: usize) -> (Batch, Option<PageClasses>) {
    let mut reader = source.open_with_classes().unwrap();
    let mut all = Batch::new();
    let mut batch = Batch::new();
    while reader.next_batch(&mut batch, max).unwrap() {
        let expected = reader.classes().map_or(0, |_| batch.len());
        assert_eq!(batch.classes.len(), expected);
        all.pages.extend_from_slice(&batch.pages);
        all.writes.extend_from_slice(&batch.writes);
        all.classes.extend_from_slice(&batch.classes);
    }
    let classes = reader.classes();
    assert_without_classes(source, &all);
    (all, classes)
}

/// A reader that does not ask for classes reads the same references.
fn assert_without_classes(source: &Source, all: &Batch) {
    let mut reader = source.open().unwrap();
    let mut batch = Batch::new();
    let mut pages = Vec::new();
    while reader.next_batch(&mut batch, 100).unwrap() {
        assert!(batch.classes.is_empty());
        pages.extend_from_slice(&batch.pages);
    }
    assert_eq!(reader.classes(), None);
    assert_eq!(pages, all.pages);
}

fn open(path: &Path, options: &ReadOptions) -> Source {
    Source::parse_with(path.to_str().unwrap(), options).unwrap()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn write(path: &Path, format: Format, all: &Batch, classes: Option<&PageClasses>) {
    let metadata = Metadata::default();
    let mut writer = Writer::create_with_classes(path, format, &metadata, classes, None).unwrap();
    let mut at = 0;
    while at < all.len() {
        let end = all.len().min(at + 777);
        let piece = Batch {
            pages: all.pages[at..end].to_vec(),
            writes: all.writes[at..end].to_vec(),
            classes: all.classes.get(at..end).unwrap_or_default().to_vec(),
            requests: Vec::new(),
            ..Batch::default()
        };
        writer.write(&piece).unwrap();
        at = end;
    }
    writer.finish().unwrap();
}

fn with_classes(mut all: Batch, class: impl Fn(usize, u64) -> u32) -> Batch {
    let pages = all.pages.iter().enumerate();
    all.classes = pages.map(|(at, &page)| class(at, page)).collect();
    all
}

#[test]
fn a_column_of_classes_survives() {
    let directory = tempfile::tempdir().unwrap();
    // More than a row group.
    let all = with_classes(some((1 << 20) + 5_000, 1000), |at, _| (at as u32 % 5) * 1_000_000_007);
    let named = PageClasses::named(names(&["one", "two \" \n", ""]));
    let path = directory.path().join("a.parquet");
    write(&path, Format::Native, &all, Some(&named));
    let source = open(&path, &ReadOptions::default());
    assert_eq!(read(&source, 9_999), (all.clone(), Some(named)));

    let path = directory.path().join("a.csv");
    write(&path, Format::Csv, &all, Some(&PageClasses::default()));
    let source = open(&path, &ReadOptions::default());
    assert_eq!(source.open().unwrap().notes(), &[] as &[String]);
    assert_eq!(read(&source, 9_999), (all, Some(PageClasses::default())));
}

#[test]
fn names_may_be_given_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let (metadata, classes) = (Metadata::default(), PageClasses::default());
    let mut writer = Writer::create_with_classes(&path, Format::Native, &metadata, Some(&classes), None).unwrap();
    let all = with_classes(some(10, 10), |at, _| at as u32);
    writer.write(&all).unwrap();
    // A batch without classes is of class 0.
    writer.write(&some(1, 10)).unwrap();
    writer.name_classes(&names(&["a", "b"]));
    writer.finish().unwrap();
    let (read, classes) = read(&open(&path, &ReadOptions::default()), 3);
    assert_eq!(read.classes[..10], all.classes);
    assert_eq!(read.classes[10], 0);
    assert_eq!(classes.unwrap().names(), names(&["a", "b"]));
}

#[test]
fn ranges_of_pages_take_no_column() {
    let directory = tempfile::tempdir().unwrap();
    let pages = vec![(100, 300, 2), (0, 50, 1), (300, 301, 3), (400, 400, 4)];
    let classes = PageClasses::from_single_pages(names(&["a", "b", "c", "d"]), pages).unwrap();
    assert_eq!(classes.ranges(), [(0, 1), (50, 0), (100, 2), (300, 3), (301, 0)]);
    let all = with_classes(some(5_000, 500), |_, page| match page {
        0..50 => 1,
        100..300 => 2,
        300 => 3,
        _ => 0,
    });
    let without = Batch { classes: Vec::new(), ..all.clone() };
    let [path, plain] = ["a.parquet", "b.parquet"].map(|name| directory.path().join(name));
    write(&path, Format::Native, &all, Some(&classes));
    write(&plain, Format::Native, &without, None);
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(size(&path) < size(&plain) + 300);
    let source = open(&path, &ReadOptions::default());
    assert_eq!(read(&source, 777), (all.clone(), Some(classes.clone())));

    // The .json beside a .u32 stores ranges as relations; the empty relation d is not restored.
    let path = directory.path().join("a.u32.zst");
    write(&path, Format::U32, &all, Some(&classes));
    let source = open(&path, &ReadOptions::default());
    let (read_again, again) = read(&source, 777);
    assert_eq!(read_again, all);
    let again = again.unwrap();
    assert_eq!(again.ranges(), classes.ranges());
    assert_eq!(again.names(), names(&["a", "b", "c"]));
    // Without classes the .json must not claim those of another trace.
    write(&path, Format::U32, &without, None);
    assert_eq!(read(&open(&path, &ReadOptions::default()), 777), (without, None));
}

#[test]
fn pages_of_two_classes_are_refused() {
    assert!(PageClasses::from_single_pages(Vec::new(), vec![(0, 10, 1), (9, 20, 2)]).is_none());
    let whole = PageClasses::from_single_pages(Vec::new(), vec![(0, u64::MAX, 1)]).unwrap();
    assert_eq!(whole.ranges(), [(0, 1)]);
}

#[test]
fn relations_beside_words_are_classes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.u32");
    let words: Vec<u8> = [0u32, 3, 4, 9, 20].iter().flat_map(|page| (page << 1).to_le_bytes()).collect();
    fs::write(&path, words).unwrap();
    let json = r#"{"page_size": 8192, "relations": [
        {"name": "t", "fork": "main", "base": 0, "blocks": 3, "refs": 1},
        {"name": "t", "fork": "vm", "base": 3, "blocks": 1},
        {"name": "i", "base": 4, "blocks": 6}]}"#;
    fs::write(directory.path().join("a.json"), json).unwrap();
    let (all, classes) = read(&open(&path, &ReadOptions::default()), 2);
    assert_eq!(all.classes, [1, 2, 3, 3, 0]);
    assert_eq!(classes.unwrap().names(), names(&["t", "t (vm)", "i"]));
    for relations in
        [r#""t""#, r#"[{"name": "t"}]"#, r#"[{"name": "t", "base": 0, "blocks": 5}, {"name": "u", "base": 4, "blocks": 5}]"#]
    {
        let json = format!(r#"{{"relations": {relations}}}"#);
        fs::write(directory.path().join("a.json"), json).unwrap();
        let source = open(&path, &ReadOptions::default());
        assert!(source.open().is_ok(), "only classes need the relations");
        let message = source.open_with_classes().unwrap_err().to_string();
        assert!(message.contains("relations"), "{message}");
    }
}

/// Writes a Parquet trace whose column of classes is declared and written as given.
fn foreign(
    path: &Path,
    column: &str,
    keys: &[(&str, &str)],
    put: impl FnOnce(&mut parquet::file::writer::SerializedColumnWriter),
) {
    let schema = format!("message trace {{ REQUIRED INT64 page; REQUIRED BOOLEAN write; {column}; }}");
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let pairs = keys.iter().map(|(key, value)| parquet::file::metadata::KeyValue::new((*key).to_owned(), (*value).to_owned()));
    let properties = WriterProperties::builder().set_key_value_metadata(Some(pairs.collect())).build();
    let file = fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut pages = group.next_column().unwrap().unwrap();
    let values = [1, 2, 3, 4];
    pages.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
    pages.close().unwrap();
    let mut writes = group.next_column().unwrap().unwrap();
    writes.typed::<BoolType>().write_batch(&[true; 4], None, None).unwrap();
    writes.close().unwrap();
    let mut classes = group.next_column().unwrap().unwrap();
    put(&mut classes);
    classes.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn classes_of_other_integer_types() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let options = ReadOptions::default();
    let classes = || read(&open(&path, &options), 3);

    foreign(&path, "OPTIONAL INT64 class", &[], |column| {
        let column = column.typed::<Int64Type>();
        column.write_batch(&[7, 4_294_967_295], Some(&[1, 0, 1, 0]), None).unwrap();
    });
    assert_eq!(classes().0.classes, [7, 0, u32::MAX, 0]);
    foreign(&path, "OPTIONAL INT32 class (INTEGER(32,false))", &[("ebbpool.classes", "[\"a\"]")], |column| {
        let column = column.typed::<Int32Type>();
        column.write_batch(&[-1, 1], Some(&[1, 1, 0, 0]), None).unwrap();
    });
    let (all, known) = classes();
    assert_eq!(all.classes, [u32::MAX, 1, 0, 0]);
    assert_eq!(known.unwrap().name(1), Some("a"));

    for wrong in [-1, 1 << 32] {
        foreign(&path, "REQUIRED INT64 class", &[], |column| {
            let column = column.typed::<Int64Type>();
            column.write_batch(&[0, 1, wrong, 2], None, None).unwrap();
        });
        let mut reader = open(&path, &options).open_with_classes().unwrap();
        let message = reader.next_batch(&mut Batch::new(), 10).unwrap_err().to_string();
        assert!(message.contains("row 2") && message.contains("class"), "{message}");
    }
    foreign(&path, "REQUIRED BYTE_ARRAY class", &[], |column| {
        let column = column.typed::<ByteArrayType>();
        column.write_batch(&["a", "b", "c", "d"].map(Into::into), None, None).unwrap();
    });
    assert_eq!(classes().1, None);
    let reader = open(&path, &options).open_with_classes().unwrap();
    assert!(reader.notes()[0].contains("column 'class' is BYTE_ARRAY"));
    for (key, value) in [("ebbpool.classes", "{"), ("ebbpool.class_ranges", "[[2,1],[1,1]]")] {
        foreign(&path, "REQUIRED INT32 class", &[(key, value)], |column| {
            column.typed::<Int32Type>().write_batch(&[1; 4], None, None).unwrap();
        });
        assert!(open(&path, &options).open().is_ok());
        let message = open(&path, &options).open_with_classes().unwrap_err().to_string();
        assert!(message.contains(key), "{message}");
    }
}

#[test]
fn columns_of_a_csv_are_numbers_or_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.csv");
    let columns: Columns = "page=blk,write=w,class=rel".parse().unwrap();
    let options = ReadOptions { columns: Some(columns), ..ReadOptions::default() };
    fs::write(&path, "blk,w,rel\n1,R,\n2,W,orders\n3,R,7\n4,R,orders\n").unwrap();
    let (all, classes) = read(&open(&path, &options), 2);
    assert_eq!(all.classes, [0, 1, 2, 1]);
    assert_eq!(classes.unwrap().names(), names(&["orders", "7"]));
    fs::write(&path, "blk,w,rel\n1,R,12\n2,W,\n3,R,0\n").unwrap();
    let (all, classes) = read(&open(&path, &options), 2);
    assert_eq!(all.classes, [12, 0, 0]);
    assert_eq!(classes, Some(PageClasses::default()));
    fs::write(&path, "blk,w,rel\n1,R,12\n2,W,orders\n").unwrap();
    let mut reader = open(&path, &options).open_with_classes().unwrap();
    let message = reader.next_batch(&mut Batch::new(), 9).unwrap_err().to_string();
    assert!(message.contains(":2:") || message.contains("line 3"), "{message}");
    assert!(message.contains("class number") && message.contains("rel"), "{message}");
    fs::write(&path, "blk,w\n1,R\n").unwrap();
    let message = open(&path, &options).open().unwrap_err().to_string();
    assert!(message.contains("no column 'rel'"), "{message}");
}

#[test]
fn volumes_and_files_are_classes() {
    let directory = tempfile::tempdir().unwrap();
    let check = |name: &str, text: &str, expected: &[u32], named: &[&str]| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        let options = ReadOptions { page_size: NonZeroU64::new(4096), ..ReadOptions::default() };
        let (all, classes) = read(&open(&path, &options), 2);
        assert_eq!(all.classes, expected, "{name}");
        assert_eq!(classes.unwrap().names(), names(named), "{name}");
    };
    check("a.spc", "7,15,1024,w,0.1\n3,8,0,r,0.2\n5,8,4096,r,0.2\n7,0,512,r,1\n", &[1, 1, 2, 1], &["unit 7", "unit 5"]);
    check(
        "a.msr",
        "1,hm,1,Read,4096,4096,413\n2,hm,0,Write,0,1,1\n3,web,1,Read,0,512,37\n4,hm,1,Read,0,1,3\n",
        &[1, 2, 3, 1],
        &["hm 1", "hm 0", "web 1"],
    );
    check("a.iolog", "fio version 2 iolog\nb read 0 1\na write 0 8192\nb read 4096 1\n", &[1, 2, 2, 1], &["b", "a"]);
    check(
        "a.blkparse",
        "  8,16   1        1     0.000000000  1234  Q  WS 8 + 8 [a]\n  8,0   1        2     0.1  1234  Q  R 0 + 8 [a]\n",
        &[1, 2],
        &["8,16", "8,0"],
    );
    // Objects and bare block numbers have none.
    let path = directory.path().join("a.lirs");
    fs::write(&path, "1\n2\n").unwrap();
    assert_eq!(read(&open(&path, &ReadOptions::default()), 1).1, None);
}

#[test]
fn cutting_and_folding_retain_classes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let all = with_classes(some(1_000, 500), |at, _| at as u32);
    let metadata = Metadata { page_size: Some(8192), ..Metadata::default() };
    let classes = PageClasses::named(names(&["a"]));
    let mut writer = Writer::create_with_classes(&path, Format::Native, &metadata, Some(&classes), None).unwrap();
    writer.write(&all).unwrap();
    writer.finish().unwrap();
    let cut = ReadOptions { skip: 100, limit: Some(50), ..ReadOptions::default() };
    let expected: Vec<u32> = (100..150).collect();
    assert_eq!(read(&open(&path, &cut), 7).0.classes, expected);
    for (page_size, parts) in [(4096, 2), (16384, 1), (8192, 1)] {
        let options = ReadOptions { page_size: NonZeroU64::new(page_size), ..ReadOptions::default() };
        let (folded, known) = read(&open(&path, &options), 7);
        let expected: Vec<u32> = (0..1_000).flat_map(|at| vec![at; parts]).collect();
        assert_eq!(folded.classes, expected);
        assert_eq!(known.unwrap().names(), names(&["a"]));
    }
    // Classes by page do not follow from the numbers of folded pages.
    let generated = ReadOptions { page_size: NonZeroU64::new(16384), ..ReadOptions::default() };
    let source = Source::parse_with("tpcb:scale=1,refs=2000", &generated).unwrap();
    let (folded, known) = read(&source, 100);
    assert!(known.unwrap().ranges().is_empty());
    let plain = Source::parse("tpcb:scale=1,refs=2000", None).unwrap();
    assert_eq!(folded.classes, read(&plain, 100).0.classes);
}

#[test]
fn parts_share_classes_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("a.csv"), "page,write,class\n1,R,b\n2,R,a\n").unwrap();
    fs::write(path("b.csv"), "page,write,class\n1,R,a\n2,R,c\n3,R,b\n").unwrap();
    fs::write(path("c.csv"), "page,write\n9,R\n").unwrap();
    fs::write(path("d.csv"), "page,write,class\n1,R,5\n").unwrap();
    let parts = ["a.csv", "b.csv", "c.csv", "d.csv"].map(path);
    let source = Source::concat(&parts, &ReadOptions::default()).unwrap();
    let (all, classes) = read(&source, 4);
    assert_eq!(all.classes, [1, 2, 2, 3, 1, 0, 4]);
    assert_eq!(classes.unwrap().names(), names(&["b", "a", "c", "5"]));
    // Parts with the same ranges keep them.
    let parts = ["tpcb:scale=1,refs=10", "tpcb:scale=1,refs=10"].map(str::to_owned);
    let source = Source::concat(&parts, &ReadOptions::default()).unwrap();
    assert!(!read(&source, 4).1.unwrap().ranges().is_empty());
    let parts = [path("c.csv"), path("c.csv")];
    let source = Source::concat(&parts, &ReadOptions::default()).unwrap();
    assert_eq!(read(&source, 4).1, None);
}

#[test]
fn generators_of_databases_have_classes() {
    for (spec, relations) in [
        ("tpcb:scale=2,refs=3000", &["accounts", "history", "branches_key"][..]),
        ("tpcc:warehouses=1,refs=20000", &["stock", "orders", "item_key"]),
        ("tatp:subscribers=5000,refs=5000", &["subscriber", "access_info_key"]),
        ("btree:records=100000,queries=2000", &["inner", "leaf"]),
    ] {
        let source = Source::parse(spec, None).unwrap();
        let (all, classes) = read(&source, 1000);
        let classes = classes.unwrap();
        for relation in relations {
            let class = (1..).zip(classes.names()).find(|(_, name)| name == relation);
            let (class, _) = class.unwrap_or_else(|| panic!("{spec} has no {relation}"));
            assert!(all.classes.contains(&class), "{spec} references {relation}");
        }
        assert!(!all.classes.contains(&0), "{spec}");
    }
    let zipf = Source::parse("zipf:pages=10,refs=10", None).unwrap();
    assert_eq!(read(&zipf, 1000).1, None);
}

#[test]
fn leaves_of_a_generated_tree_are_the_last_of_their_paths() {
    let source = Source::parse("btree:records=100000,queries=500,updates=0,scans=0,scan-updates=0", None);
    let (all, _) = read(&source.unwrap(), 1000);
    let height = all.len() / 500;
    assert!(height > 1);
    for path in all.classes.chunks(height) {
        let (leaf, inner) = path.split_last().unwrap();
        assert_eq!(*leaf, 4);
        assert!(inner.iter().all(|class| *class == 3));
    }
}

#[test]
fn statistics_count_classes() {
    let all = Batch {
        pages: vec![1, 2, 1, 3, 1],
        writes: vec![true, false, true, false, false],
        // Page 1 is of class 5 at its first reference, and of class 0 later.
        classes: vec![5, 5, 0, 2, 0],
        requests: Vec::new(),
        ..Batch::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    write(&path, Format::Native, &all, Some(&PageClasses::named(names(&["x", "y"]))));
    let source = open(&path, &ReadOptions::default());
    let statistics = TraceStatistics::from_reader(&mut source.open_with_classes().unwrap()).unwrap();
    let classes: Vec<_> =
        statistics.classes.iter().map(|one| (one.class, one.name.as_deref(), one.pages, one.references, one.writes)).collect();
    assert_eq!(classes, [(0, None, 0, 2, 1), (5, None, 2, 2, 1), (2, Some("y"), 1, 1, 0)]);
    assert_eq!(statistics.classes[0].reference_share, 0.4);
    let without = TraceStatistics::from_reader(&mut source.open().unwrap()).unwrap();
    assert!(without.classes.is_empty());
    assert_eq!(without.references, statistics.references);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_classes_survive(
        references in prop::collection::vec((any::<u64>(), any::<bool>(), any::<u32>()), 0..2000),
        named in prop::collection::vec(".*", 0..5),
        max in 1..500usize,
    ) {
        let mut all: Batch = references.iter().map(|one| (one.0, one.1)).collect();
        all.classes = references.iter().map(|one| one.2).collect();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        let classes = PageClasses::named(named);
        write(&path, Format::Native, &all, Some(&classes));
        let (again, known) = read(&open(&path, &ReadOptions::default()), max);
        prop_assert_eq!(&again, &all);
        prop_assert_eq!(known, Some(classes));
        let path = directory.path().join("a.csv");
        write(&path, Format::Csv, &all, Some(&PageClasses::default()));
        let (again, _) = read(&open(&path, &ReadOptions::default()), max);
        prop_assert_eq!(&again, &all);
    }
}
