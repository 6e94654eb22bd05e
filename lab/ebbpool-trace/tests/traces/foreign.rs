//! Traces of other programs: small samples written by hand.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;

use crate::common::read_from;
use ebbpool_trace::{Batch, Format, Metadata, ReadOptions, Source, TraceError, Writer};
use proptest::prelude::*;

/// Where the pages of the second volume begin.
const VOLUME: u64 = 1 << 48;

const SPC: &str = "\
0,15,1024,w,0.026214
 1 , 8, 4096 ,R, 1.5,more
0,7,0,r,2.0

0,7,512,r,2.5\r
";

const MSR: &str = "\
128166372003061629,hm,1,Read,383496192,32768,413
128166372016382155,hm,1,Write,4095,2,1
128166372026382245,hm,0,Read,0,512,37
128166372036382245,web,1,Write,4096,4096,37
";

const FIO_2: &str = "\
fio version 2 iolog
/dev/sdb add
/dev/sdb open
/dev/sdb read 4095 2
/dev/sdb write 8192 4096
b.dat write 0 4096
/dev/sdb wait 1000
/dev/sdb datasync 0 0
/dev/sdb trim 0 4096
/dev/sdb read 0 0
/dev/sdb close
";

const FIO_3: &str = "\
fio version 3 iolog
0 /dev/sdb add
10 /dev/sdb open
20 /dev/sdb read 4095 2
888 /dev/sdb write 8192 4096
890 b.dat write 0 4096
900 /dev/sdb close
";

const BLKPARSE: &str = "\
  8,16   1        1     0.000000000  1234  Q  WS 15 + 2 [kworker/1:1]
  8,16   1        2     0.000001200  1234  G  WS 15 + 2 [kworker/1:1]
  8,16   1        3     0.000002000  1234  P   N [kworker/1:1]
  8,16   1        0     0.000002100     0  m   N cfq1234 insert Q
  8,16   1        4     0.000003000  1234  D  WS 15 + 2 [kworker/1:1]
  8,16   0        1     0.000004000     0  C  WS 15 + 2 [0]
259,0    0        1     1.000000000   77  A RA 800 + 8 <- (259,1) 792
259,0    0        2     1.000000100   77  Q RA 800 + 8 [cat]
  8,16   0        2     2.000000000   12  Q FWS [jbd2/sdb-8]
  8,16   0        3     2.000000000   12  Q   D 64 + 64 [fstrim]
  8,16   0        4     2.000000000   12  Q  RM 0 + 8 [ext4 lazy + 1]
  8,16   0        5     2.000000000   12  Q   R 36 (12 00 00 00 24 00) [smartd]
CPU0 (8,16):
 Reads Queued:           1,        4KiB\t Writes Queued:           1,        1KiB
 Read depth:             1        \t Write depth:             1

Throughput (R/W): 4KiB/s / 1KiB/s
Events (8,16): 9 entries
";

const LIRS: &str = "*\n5\n18446744073709551615\r\n*\n\n5\n";

const ARC: &str = "64 3 0 0\n18446744073709551615 1 0 1\r\n9 0 0 2\n8 2 0 3\n";

/// A field of a binary record, little-endian.
fn field(record: &mut Vec<u8>, bytes: usize, value: u64) {
    record.extend_from_slice(&value.to_le_bytes()[..bytes]);
}

fn record(fields: &[(usize, u64)]) -> Vec<u8> {
    let mut record = Vec::new();
    for &(bytes, value) in fields {
        field(&mut record, bytes, value);
    }
    record
}

/// (command, length in bytes, sector)
const COMMANDS: [(u64, u64, u64); 6] = [
    (0x28, 1024, 15),
    (0x2A, 4096, 8),
    // TEST UNIT READY, and UNMAP of sector 8.
    (0x00, 0, 0),
    (0x42, 4096, 8),
    (0x8A, 512, 80),
    (0x88, 0, 80),
];

fn vscsi(version: u64) -> Vec<u8> {
    let numbered = COMMANDS.iter().zip(0u64..);
    let records = numbered.map(|(&(command, length, sector), number)| {
        let version_field = version << 8 | 0x13;
        match version {
            1 => record(&[
                (4, number),
                (4, length),
                (4, 1),
                (2, command),
                (2, version_field),
                (8, sector),
                (8, 1_000_000 + number),
            ]),
            _ => record(&[
                (2, command),
                (2, version_field),
                (4, number),
                (4, length),
                (4, 1),
                (8, sector),
                (8, 1_000_000 + number),
                (8, 17),
            ]),
        }
    });
    records.collect::<Vec<_>>().concat()
}

/// (object, size, operation, next request of it)
const OBJECTS: [(u64, u64, u64, u64); 7] = [
    (11, 512, 1, 2),
    (u64::MAX, 70_000, 3, u64::MAX),
    (11, 512, 13, 4),
    (12, 0, 12, 5),
    (11, 512, 9, u64::MAX),
    (12, 10, 0, 6),
    (12, 10, 255, u64::MAX),
];

fn oracle_general() -> Vec<u8> {
    let numbered = OBJECTS.iter().zip(0u64..);
    let records =
        numbered.map(|(&(object, size, _, next), number)| record(&[(4, 100 + number), (8, object), (4, size), (8, next)]));
    records.collect::<Vec<_>>().concat()
}

const LCS_MAGIC: u64 = 0x1234_5678_9ABC_DEF0;

fn lcs_header(bytes: usize, version: u64, requests: u64) -> Vec<u8> {
    // Magic, version, version of the statistics, requests.
    let mut header = record(&[(8, LCS_MAGIC), (8, version), (8, 1), (8, requests)]);
    header.resize(bytes - 8, 0);
    field(&mut header, 8, LCS_MAGIC);
    header
}

fn lcs(version: u64, header: usize) -> Vec<u8> {
    let mut file = lcs_header(header, version, OBJECTS.len() as u64);
    for (&(object, size, operation, next), number) in OBJECTS.iter().zip(0u64..) {
        let operation_and_tenant = operation | 5 << 8;
        file.extend(match version {
            1 => record(&[(4, number), (8, object), (4, size), (8, next)]),
            2 => record(&[(4, number), (8, object), (4, size), (4, operation_and_tenant), (8, next)]),
            _ => record(&[(4, number), (8, object), (8, size), (4, operation_and_tenant), (4, 3600), (8, next)]),
        });
        let features = [0, 0, 0, 0, 1, 2, 4, 8, 16][version as usize];
        file.resize(file.len() + 4 * features, 0xEE);
    }
    file
}

struct Sample {
    /// A file name that implies the format.
    name: &'static str,
    format: Format,
    content: Vec<u8>,
    references: Vec<(u64, bool)>,
    /// How certainly the format follows from the content alone.
    recognised: Recognition,
    notes: usize,
}

#[derive(PartialEq)]
enum Recognition {
    Magic,
    Guess,
}

fn samples() -> Vec<Sample> {
    let disk = 383_496_192 / 4096;
    let mut msr: Vec<(u64, bool)> = (disk..disk + 8).map(|page| (VOLUME + page, false)).collect();
    msr.extend([(VOLUME, true), (VOLUME + 1, true), (0, false), (257 * VOLUME + 1, true)]);
    let fio = vec![(0, false), (1, false), (2, true), (VOLUME, true)];
    let commands = vec![(1, false), (2, false), (1, true), (10, true)];
    let objects = vec![(11, false), (u64::MAX, true), (11, true), (12, false), (12, false)];
    let read_objects = [11, u64::MAX, 11, 11, 12, 12].map(|page| (page, false));
    let sample = |name, format, content: &[u8], references: &[(u64, bool)], recognised, notes| Sample {
        name,
        format,
        content: content.to_vec(),
        references: references.to_vec(),
        recognised,
        notes,
    };
    let mut samples = vec![
        sample(
            "a.spc",
            Format::Spc,
            SPC.as_bytes(),
            &[(1, true), (2, true), (VOLUME + 1, false), (0, false)],
            Recognition::Guess,
            0,
        ),
        sample("a.msr", Format::Msr, MSR.as_bytes(), &msr, Recognition::Magic, 0),
        sample("a.csv", Format::Msr, MSR.as_bytes(), &msr, Recognition::Magic, 0),
        sample("a.iolog", Format::Fio, FIO_2.as_bytes(), &fio, Recognition::Magic, 0),
        sample("b.iolog", Format::Fio, FIO_3.as_bytes(), &fio, Recognition::Magic, 0),
        sample(
            "a.blkparse",
            Format::Blkparse,
            BLKPARSE.as_bytes(),
            &[(1, true), (2, true), (VOLUME + 100, false), (0, false)],
            Recognition::Guess,
            0,
        ),
        sample("a.lirs", Format::Lirs, LIRS.as_bytes(), &[(5, false), (u64::MAX, false), (5, false)], Recognition::Guess, 1),
        sample("a.trc", Format::Lirs, LIRS.as_bytes(), &[(5, false), (u64::MAX, false), (5, false)], Recognition::Guess, 1),
        sample(
            "a.lis",
            Format::Arc,
            ARC.as_bytes(),
            &[64, 65, 66, u64::MAX, 8, 9].map(|page| (page, false)),
            Recognition::Guess,
            1,
        ),
        sample("a.vscsi", Format::Vscsi, &vscsi(1), &commands, Recognition::Guess, 0),
        sample("b.vscsi", Format::Vscsi, &vscsi(2), &commands, Recognition::Guess, 0),
        sample("a.oracleGeneral.bin", Format::OracleGeneral, &oracle_general(), &read_objects, Recognition::Guess, 2),
        sample("1.lcs", Format::Lcs, &lcs(1, 8192), &read_objects, Recognition::Magic, 2),
    ];
    for version in 2..=8 {
        let content = lcs(version, 8192);
        samples.push(sample("n.lcs", Format::Lcs, &content, &objects, Recognition::Magic, 2));
    }
    samples.push(sample("early.lcs", Format::Lcs, &lcs(2, 1024), &objects, Recognition::Magic, 2));
    samples
}

fn options(format: Option<Format>) -> ReadOptions {
    ReadOptions { format, page_size: NonZeroU64::new(4096), ..ReadOptions::default() }
}

fn source(path: &Path, options: &ReadOptions) -> Result<Source, TraceError> {
    Source::parse_with(path.to_str().unwrap(), options)
}

/// Puts a file into a directory and reads it.
fn read_as(name: &str, content: &[u8], options: &ReadOptions) -> Result<Batch, TraceError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, content).unwrap();
    let result = source(&path, options).and_then(|source| read_from(&source, 3));
    if let Err(error) = &result {
        let message = error.to_string();
        assert!(!message.contains('\n') && message.contains(name), "{message}");
    }
    result
}

fn refusal(name: &str, content: &[u8]) -> String {
    read_as(name, content, &options(None)).expect_err("must be refused").to_string()
}

#[test]
fn samples_are_read_by_name_and_by_the_users_format() {
    let directory = tempfile::tempdir().unwrap();
    for sample in samples() {
        let expected: Batch = sample.references.iter().copied().collect();
        let zipped = zstd::encode_all(&sample.content[..], 3).unwrap();
        for (name, content) in [(sample.name.to_owned(), &sample.content), (format!("{}.zst", sample.name), &zipped)] {
            let path = directory.path().join(&name);
            fs::write(&path, content).unwrap();
            let source = source(&path, &options(None)).unwrap();
            assert_eq!(source.formats().unwrap(), [Some(sample.format)], "{name}");
            for max in [1, 2, 5, 1000] {
                assert_eq!(read_from(&source, max).unwrap(), expected, "{name}");
            }
            let reader = source.open().unwrap();
            assert_eq!(reader.notes().len(), sample.notes, "{:?}", reader.notes());
            assert_eq!(reader.metadata().page_size, Some(4096));
            let of_a_device = ["spc", "msr", "vscsi", "fio", "blkparse"];
            let marked = of_a_device.contains(&sample.format.name());
            assert_eq!(reader.metadata().below_cache, marked, "{name}");
        }
        let by_option = read_as("sample.bin", &sample.content, &options(Some(sample.format)));
        assert_eq!(by_option.unwrap(), expected, "{}", sample.name);
    }
}

#[test]
fn the_content_decides_where_the_name_does_not() {
    let directory = tempfile::tempdir().unwrap();
    for sample in samples() {
        let path = directory.path().join("unnamed");
        fs::write(&path, &sample.content).unwrap();
        let source = source(&path, &options(None)).unwrap();
        assert_eq!(source.formats().unwrap(), [Some(sample.format)]);
        let reader = source.open().unwrap();
        let guessed = reader.notes().iter().any(|note| note.contains("looks like"));
        assert_eq!(guessed, sample.recognised == Recognition::Guess, "{:?}", reader.notes());
    }
}

#[test]
fn requests_in_bytes_need_a_page_size() {
    for sample in samples() {
        let result = read_as(sample.name, &sample.content, &ReadOptions::default());
        match sample.format {
            Format::OracleGeneral | Format::Lcs | Format::Lirs | Format::Arc | Format::RocksDb => {
                assert_eq!(result.unwrap().len(), sample.references.len());
            }
            _ => {
                let error = result.expect_err("needs a page size");
                assert!(error.is_usage());
                let message = error.to_string();
                assert!(message.contains("counts "), "{message}");
                assert!(message.contains("--page-size 4096"), "{message}");
            }
        }
    }
    let sectors = ReadOptions { page_size: NonZeroU64::new(512), ..ReadOptions::default() };
    assert_eq!(
        read_as("a.spc", SPC.as_bytes(), &sectors).unwrap().pages,
        [&[15, 16], &(8..16).map(|page| VOLUME + page).collect::<Vec<_>>()[..], &[7]].concat()
    );
}

#[test]
fn an_empty_file_is_an_empty_trace() {
    for &format in Format::ALL {
        let empty = read_as("nothing", b"", &options(Some(format)));
        match format {
            Format::Native | Format::Csv | Format::Lcs | Format::RocksDb => {
                assert!(empty.is_err(), "{format}");
            }
            _ => assert!(empty.unwrap().is_empty(), "{format}"),
        }
    }
}

#[test]
fn bad_lines_name_their_number_and_can_be_left_out() {
    let event = "8,16 1 1 0.5 12 Q R 8 + 8 [a]";
    for (name, first, bad, expected) in [
        ("a.spc", "0,1,512,r,0.1", "0,1,512,x,0.1", "opcode R or W"),
        ("a.spc", "0,1,512,r,0.1", "0,1,512,r", "`ASU,LBA,size"),
        ("a.spc", "0,1,512,r,0.1", "-1,1,512,r,0.1", "`ASU,LBA,size"),
        ("a.spc", "0,1,512,r,0.1", "65536,1,512,r,0.1", "65536 volumes"),
        ("a.spc", "0,1,512,r,0.1", "0,1,1099511627777,r,0.1", "2^40 bytes"),
        ("a.spc", "0,1,512,r,0.1", "0,18446744073709551615,512,r,0.1", "below 2^48 pages"),
        ("a.msr", "1,h,0,Read,0,512,1", "1,h,0,Reed,0,512,1", "Read or Write"),
        ("a.msr", "1,h,0,Read,0,512,1", "1,h,0,Read,0,512", "`Timestamp"),
        ("a.msr", "1,h,0,Read,0,512,1", "1,h,0,Read,0,512,1,2", "`Timestamp"),
        ("a.msr", "1,h,0,Read,0,512,1", "1,h,256,Read,0,512,1", "below 256"),
        ("a.iolog", "fio version 2 iolog\na read 0 1", "a raed 0 1", "`file action"),
        ("a.iolog", "fio version 2 iolog\na read 0 1", "a read 0", "`file action"),
        ("a.iolog", "fio version 3 iolog\n5 a read 0 1", "a read 0 1", "`time file"),
        ("a.blkparse", event, "oops", "`major,minor cpu"),
        ("a.blkparse", event, "8,16 1 1 5 12 Q R 8 + 8 [a]", "`major,minor cpu"),
        ("a.blkparse", event, "8,16 1 1 0.5 12 Q R 8 8 [a]", "`sector + sectors`"),
        ("a.blkparse", event, "8,16 1 1 0.5 12 Q R 8 + ", "`sector + sectors`"),
        ("a.blkparse", event, "8,16 1 1 0.5 12 Q R", "`sector + sectors`"),
        ("a.lirs", "1", "1 2", "a block number"),
        ("a.lirs", "1", "**", "a block number"),
        ("a.arc", "8 1 0 0", "8 1 0", "four numbers"),
        ("a.arc", "8 1 0 0", "8 1 0 0 0", "four numbers"),
        ("a.arc", "8 1 0 0", "8 2147483649 0 0", "2^31 blocks"),
        ("a.arc", "8 1 0 0", "18446744073709551615 2 0 0", "below 2^64"),
    ] {
        let last = first.lines().last().unwrap();
        let text = format!("{first}\n{bad}\n{last}\n");
        let line = text.lines().count() - 1;
        let message = refusal(name, text.as_bytes());
        let place = format!("{name}, line {line}: expected ");
        assert!(message.contains(&place) && message.contains(expected), "{message}");
        let tolerant = ReadOptions { bad_lines: 1, ..options(None) };
        let left = read_as(name, text.as_bytes(), &tolerant).unwrap();
        assert_eq!(left.len(), 2, "{bad}");
    }
    let message = refusal("a.iolog", b"fio version 1 iolog\n");
    assert!(message.contains("line 1: expected `fio version 2 iolog`"), "{message}");
}

#[test]
fn a_trace_without_requests_is_refused() {
    let issued = "8,16 1 1 0.5 12 D R 8 + 8 [a]\n";
    let message = refusal("a.blkparse", issued.as_bytes());
    assert!(message.contains("blktrace -a queue"), "{message}");
    let message = refusal("a.iolog", b"fio version 3 iolog\n0 a add\n");
    assert!(message.contains("action read or write"), "{message}");
    let control: Vec<u8> = vscsi(2).chunks(40).nth(2).unwrap().repeat(3);
    let message = refusal("a.vscsi", &control);
    assert!(message.contains("no SCSI command"), "{message}");
}

#[test]
fn binary_traces_that_are_cut_off() {
    for (name, content, header, size) in [
        ("a.vscsi", vscsi(1), 0, 32),
        ("a.vscsi", vscsi(2), 0, 40),
        ("a.oracleGeneral", oracle_general(), 0, 24),
        ("a.lcs", lcs(1, 8192), 8192, 24),
        ("a.lcs", lcs(2, 1024), 1024, 28),
        ("a.lcs", lcs(3, 8192), 8192, 36),
    ] {
        for cut in [1, size - 1, size + 1] {
            let truncated = &content[..content.len() - cut];
            let record = (truncated.len() - header) / size;
            let rest = (truncated.len() - header) % size;
            let expected = format!("record {record} (the first is 0): cut off after {rest} of {size} bytes");
            assert!(refusal(name, truncated).contains(&expected));
            // The length of compressed data is not known beforehand.
            let zipped = zstd::encode_all(truncated, 3).unwrap();
            let message = refusal(&format!("{name}.zst"), &zipped);
            assert!(message.contains(&expected), "{message}");
        }
    }
    let whole_records_missing = &lcs(2, 8192)[..8192 + 3 * 28];
    let message = refusal("a.lcs", whole_records_missing);
    assert!(message.contains("record 3 (the first is 0): is missing, of 7"), "{message}");
    let zipped = zstd::encode_all(whole_records_missing, 3).unwrap();
    assert!(refusal("a.lcs.zst", &zipped).contains("is missing, of 7"));
}

#[test]
fn binary_traces_that_are_damaged() {
    let mut mixed = vscsi(2);
    mixed[40 * 3 + 3] = 1;
    let message = refusal("a.vscsi", &mixed);
    assert!(message.contains("record 3 (the first is 0): expected version 2"), "{message}");
    let message = refusal("a.vscsi", &[7; 80]);
    assert!(message.contains("neither version 1 nor 2"), "{message}");

    let mut operation = lcs(3, 8192);
    operation[8192 + 36 + 20] = 99;
    let message = refusal("a.lcs", &operation);
    assert!(message.contains("record 1 (the first is 0): expected an operation"), "{message}");
    let mut negative = lcs(3, 8192);
    negative[8192 + 12 + 7] = 0x80;
    assert!(refusal("a.lcs", &negative).contains("its size is -"));
    let message = refusal("a.lcs", &lcs_header(8192, 9, 0));
    assert!(message.contains("its version is 9"), "{message}");
    for header in [&lcs_header(2048, 1, 0)[..], &lcs_header(8192, 1, 0)[..8191], b"", b"R 1\n"] {
        let message = refusal("a.lcs", header);
        assert!(message.contains("between magic numbers"), "{message}");
    }
}

#[test]
fn formats_of_other_programs_are_not_written() {
    let directory = tempfile::tempdir().unwrap();
    for &format in Format::ALL {
        let path = directory.path().join("out");
        let created = Writer::create(&path, format, &Metadata::default());
        assert_eq!(created.is_ok(), format.is_written(), "{format}");
        if let Err(error) = created {
            assert!(error.is_usage());
            let message = error.to_string();
            assert!(message.ends_with("write one of native, text, u32, csv"));
        }
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_csv_with_column_names_is_recognised_as_csv() {
    let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    let text = format!("{header}{MSR}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("named.csv");
    fs::write(&path, text).unwrap();
    let source = source(&path, &options(None)).unwrap();
    assert_eq!(source.formats().unwrap(), [Some(Format::Csv)]);
    let question = read_from(&source, 9).unwrap_err().to_string();
    let answer = "offset=Offset,size=Size,volume=Hostname,volume=DiskNumber,write=Type";
    assert!(question.contains(answer), "{question}");
    let columns = ReadOptions { columns: Some(answer.parse().unwrap()), ..options(None) };
    let named = read_from(&self::source(&path, &columns).unwrap(), 9).unwrap();
    // Both have the disks apart, each with numbers of its own.
    let known = read_as("m.csv", MSR.as_bytes(), &self::options(Some(Format::Msr))).unwrap();
    let apart = |batch: &Batch| batch.pages.iter().map(|page| page % (1 << 48)).collect::<Vec<_>>();
    let volumes = |batch: &Batch| batch.pages.iter().map(|page| page >> 48).collect::<BTreeSet<_>>().len();
    assert_eq!((&named.writes, apart(&named), volumes(&named)), (&known.writes, apart(&known), volumes(&known)));
}

#[test]
fn parts_may_have_different_formats() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let parts = [put("a.spc", SPC), "uniform:refs=5".to_owned(), put("a.lirs", LIRS)];
    let source = Source::concat(&parts, &options(None)).unwrap();
    assert_eq!(source.formats().unwrap(), [Some(Format::Spc), None, Some(Format::Lirs)]);
    assert_eq!(read_from(&source, 4).unwrap().len(), 4 + 5 + 3);
}

/// A request in bytes: volume, first sector, bytes, write.
type Sectors = (u64, u64, u64, bool);

/// One reference per page, computed byte by byte.
fn slow_pages(requests: &[Sectors], page_size: u64) -> Batch {
    let mut all = Batch::new();
    for &(volume, sector, bytes, write) in requests {
        let mut last = None;
        for byte in sector * 512..sector * 512 + bytes {
            let page = volume * VOLUME + byte / page_size;
            if last.replace(page) != Some(page) {
                all.push(page, write);
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The same requests in every format that can hold them.
    #[test]
    fn formats_agree(
        requests in prop::collection::vec((0..3u64, 0..100u64, 0..20u64, any::<bool>()), 1..30),
        page_size in prop::sample::select(vec![512u64, 1000, 4096, 16384]),
    ) {
        // Volumes appear in the order of their numbers, for formats that number by appearance.
        let mut requests: Vec<Sectors> = requests
            .into_iter()
            .map(|(volume, sector, sectors, write)| (volume, sector, sectors * 512, write))
            .collect();
        requests.splice(0..0, (0..3).map(|volume| (volume, 0, 512, false)));
        let expected = slow_pages(&requests, page_size);
        let line = |print: fn(&Sectors) -> String| -> Vec<u8> {
            requests.iter().map(print).collect::<String>().into_bytes()
        };
        let files = [
            ("p.spc", line(|(volume, sector, bytes, write)| {
                let opcode = if *write { 'W' } else { 'r' };
                format!("{volume},{sector},{bytes},{opcode},0.25\n")
            })),
            ("p.csv", line(|(volume, sector, bytes, write)| {
                let kind = if *write { "Write" } else { "Read" };
                format!("128166372003061629,h,{volume},{kind},{},{bytes},0\r\n", sector * 512)
            })),
            ("p.iolog", [b"fio version 2 iolog\n".to_vec(), line(|(volume, sector, bytes, write)| {
                let action = if *write { "write" } else { "read" };
                format!("f{volume} {action} {} {bytes}\n", sector * 512)
            })].concat()),
            ("p.blkparse", line(|(volume, sector, bytes, write)| {
                let kind = if *write { "WS" } else { "R" };
                let sectors = bytes / 512;
                format!("8,{volume} 0 1 0.000000001 7 Q {kind} {sector} + {sectors} [p]\n")
            })),
        ];
        let options = ReadOptions { page_size: NonZeroU64::new(page_size), ..ReadOptions::default() };
        for (name, content) in files {
            prop_assert_eq!(&read_as(name, &content, &options).unwrap(), &expected, "{}", name);
        }
    }

    /// Any file is read, or refused with a message of one line.
    #[test]
    fn anything_is_read_or_refused(
        lines in prop::collection::vec("[0-9,*+.:rwRWQD \t-]{0,30}|fio version [23] iolog|[0-9]{1,20}", 0..12),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        for &format in Format::ALL {
            let _ = read_as("any", lines.join("\n").as_bytes(), &options(Some(format)));
            let _ = read_as("any", &bytes, &options(Some(format)));
        }
    }
}

/// Of a duration Parquet keeps no unit, and a table of several disks asks in Parquet what it asks as a CSV.
#[test]
fn a_table_in_parquet_leads_to_the_same_questions() {
    let open = |file: &str, columns: Option<&str>| {
        let columns = columns.map(|columns| columns.parse().unwrap());
        let options = ReadOptions { columns, ..ReadOptions::default() };
        Source::parse_with(&format!("tests/data/{file}"), &options).and_then(|source| source.open().map(|_| source))
    };
    let error = open("duration.parquet", Some("page=page,write=write,time=since")).unwrap_err().to_string();
    assert!(error.contains("time=since:us"), "{error}");
    let source = open("duration.parquet", Some("page=page,write=write,time=since:us")).unwrap();
    let arrivals = source.recorded_arrivals(0).unwrap().unwrap();
    assert_eq!(arrivals.time.as_micros(), 20_000);
    let error = open("disks.parquet", None).unwrap_err().to_string();
    assert!(error.contains("column 'disk' may say") && !error.contains("__index"), "{error}");
    assert!(open("disks.parquet", Some("page=page,write=write,volume=disk")).is_ok());
}
