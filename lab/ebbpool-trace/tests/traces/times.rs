//! Times of CSV and of other programs' traces: their units, the arrivals that follow from them, and bad ones.

use std::fs;
use std::num::NonZeroU64;
use std::path::Path;

use ebbpool_trace::stats::TraceStatistics;
use ebbpool_trace::{Batch, Format, OptionalColumns, ReadOptions, Source, Writer};

const SPC: &str = "0,15,1024,w,0.026214\n1,8,4096,R,1.5,more\n0,7,512,r,2.5\n";

const MSR: &str = "\
128166372003061629,hm,1,Read,0,8192,413
128166372016382155,hm,1,Write,4095,1,1
128166372026382245,hm,0,Read,0,512,37
";

const FIO_2: &str = "fio version 2 iolog\na add\na read 0 8192\na write 8192 4096\n";

const FIO_3: &str = "\
fio version 3 iolog
0 a add
20 a read 4095 2
888 a write 8192 4096
890 a close
";

const BLKPARSE: &str = "\
  8,16   1        1     0.000000000  1234  Q  WS 15 + 2 [kworker/1:1]
  8,16   1        4     0.500003000  1234  D  WS 15 + 2 [kworker/1:1]
259,0    0        2     1.000000900   77  Q RA 800 + 8 [cat]
  8,16   0        3     2.000001000   12  Q   D 64 + 64 [fstrim]
  8,16   0        4     1.000000000   12  Q  RM 0 + 8 [ext4 lazy + 1]
";

/// Commands of VMware's disks: (command, sector, length in bytes, time in µs).
const COMMANDS: [(u16, u64, u32, u64); 4] =
    [(0x28, 15, 1024, 1_000_000), (0x00, 0, 0, 1_000_001), (0x2A, 8, 4096, 1_000_002), (0x8A, 80, 512, 1_000_900)];

fn vscsi(version: u16) -> Vec<u8> {
    let mut file = Vec::new();
    for (command, sector, length, time) in COMMANDS {
        let command = [command.to_le_bytes(), (version << 8).to_le_bytes()].concat();
        let size = [0u32, length, 1].map(u32::to_le_bytes).concat();
        let parts: [&[u8]; 2] = match version {
            1 => [&size, &command],
            _ => [&command, &size],
        };
        file.extend(parts.concat());
        file.extend([sector, time].map(u64::to_le_bytes).concat());
        if version > 1 {
            file.extend(17u64.to_le_bytes());
        }
    }
    file
}

fn options(columns: &str) -> ReadOptions {
    ReadOptions {
        columns: (!columns.is_empty()).then(|| columns.parse().unwrap()),
        page_size: NonZeroU64::new(4096),
        ..ReadOptions::default()
    }
}

fn source(path: &Path, columns: &str) -> Source {
    Source::parse_with(path.to_str().unwrap(), &options(columns)).unwrap()
}

/// The pages and times of a trace; no times if it has none.
fn timed(source: &Source, max: usize) -> (Vec<u64>, Vec<u64>) {
    let mut reader = source.open_with(OptionalColumns::ALL).unwrap();
    let (mut pages, mut times) = (Vec::new(), Vec::new());
    let mut batch = Batch::new();
    while reader.next_batch(&mut batch, max).unwrap() {
        pages.extend_from_slice(&batch.pages);
        assert_eq!(batch.requests.is_empty(), !reader.has_requests());
        times.extend(batch.requests.iter().map(|request| request.time_us));
    }
    (pages, times)
}

/// What happened at a time: a reference, or the end of pages.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Reference(u64, bool),
    End(u64, u64),
}

/// The events of a trace, with their times.
fn events(source: &Source, max: usize) -> Vec<(u64, Event)> {
    let mut reader = source.open_with(OptionalColumns::ALL).unwrap();
    let (mut events, mut batch) = (Vec::new(), Batch::new());
    while reader.next_batch(&mut batch, max).unwrap() {
        let mut trims = batch.trims.iter().peekable();
        for at in 0..=batch.len() {
            while let Some(trim) = trims.next_if(|trim| trim.before <= at) {
                events.push((trim.time_us, Event::End(trim.first, trim.last)));
            }
            if at < batch.len() {
                events.push((batch.requests[at].time_us, Event::Reference(batch.pages[at], batch.writes[at])));
            }
        }
    }
    events
}

#[test]
fn parts_are_merged_by_their_times() {
    let directory = tempfile::tempdir().unwrap();
    let columns = "volume=dev,offset=off,size=len,write=op:W,read=op:R,trim=op:T,time=us:us";
    let mut state = 7_u64;
    let mut below = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for (parts, length) in [(1, 40), (2, 900), (3, 5000), (9, 60)] {
        let (mut names, mut all) = (Vec::new(), Vec::new());
        // The devices in the order in which the parts are read first: all parts begin with theirs.
        for part in 0..parts {
            let (mut text, mut now) = (String::from("us,dev,op,off,len\n"), below(2000));
            for line in 0..length {
                now += below(4) * below(300);
                let (device, page, pages) = (below(3), below(50), 1 + below(3));
                let device = if line == 0 { part % 3 } else { device };
                let op = if line == 0 { 'R' } else { char::from(b"RRWWT"[below(5) as usize]) };
                text += &format!("{now},d{device},{op},{},{}\n", page * 4096, pages * 4096);
                let page = page + (device << 48);
                match op {
                    'T' => all.push((now, part, Event::End(page, page + pages - 1))),
                    _ => all.extend((page..page + pages).map(|page| (now, part, Event::Reference(page, op == 'W')))),
                }
            }
            let path = directory.path().join(format!("{part}.csv"));
            fs::write(&path, text).unwrap();
            names.push(path.to_str().unwrap().to_owned());
        }
        all.sort_by_key(|(time, part, _)| (*time, *part));
        let expected: Vec<_> = all.iter().map(|(time, _, event)| (*time, *event)).collect();
        let options = ReadOptions { by_time: true, ..options(columns) };
        for max in [1, 17, 4096] {
            let merged = Source::concat(&names, &options).unwrap();
            assert!(events(&merged, max) == expected, "{parts} parts, {max} at a time");
        }
        // A file of the native format keeps times and ends.
        let stored: Vec<String> = (0..parts)
            .map(|part| directory.path().join(format!("{part}.parquet")))
            .map(|path| path.to_str().unwrap().to_owned())
            .collect();
        for (name, path) in names.iter().zip(&stored) {
            let source = self::source(Path::new(name), columns);
            let mut reader = source.open_with(OptionalColumns::ALL).unwrap();
            let mut writer = Writer::create(Path::new(path), Format::Native, reader.metadata()).unwrap();
            writer.expect(reader.columns());
            let mut batch = Batch::new();
            while reader.next_batch(&mut batch, 1000).unwrap() {
                writer.write(&batch).unwrap();
            }
            writer.finish().unwrap();
            assert_eq!(events(&self::source(Path::new(path), ""), 99), events(&source, 4096));
        }
        // What is not asked for is not there.
        let mut batch = Batch::new();
        let mut reader = Source::concat(&names, &options).unwrap().open().unwrap();
        assert!(reader.next_batch(&mut batch, 50).unwrap());
        assert!(batch.requests.is_empty() && batch.trims.is_empty());
    }
    // Requests that have no place of their own in the order are counted.
    let parts =
        [("unordered.csv", "page,write,t\n1,0,1\n2,0,9\n3,0,2\n4,0,\n"), ("ordered.csv", "page,write,t\n5,0,4\n6,0,4\n")];
    let parts = parts.map(|(name, text)| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let merged = Source::concat(&parts, &ReadOptions { by_time: true, ..options("page=page,write=write,time=t") }).unwrap();
    let _ = events(&merged, 9);
    let notes = merged.late_notes().join("; ");
    assert!(notes.contains("unordered.csv: 2 requests have no time, or an earlier one"), "{notes}");
    assert_eq!(notes.matches("requests have no time").count(), 1, "{notes}");
    // Without times, or with other clocks, nothing is merged.
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (text, date) = (file("a.txt", "R 1\n"), file("date.csv", "us,dev,op,off,len\n1700000000000000,d,R,0,1\n"));
    // Windows' times count from 1601 in MSR's traces.
    let msr = file("a.msr", MSR);
    let since_1970 = file("b.msr", "11644473600000000,h,0,Read,0,512,1\n");
    let by_time = ReadOptions { by_time: true, ..options("") };
    let error = Source::concat(&[msr, since_1970], &by_time).unwrap().open().err().unwrap().to_string();
    assert!(error.contains("more than 30 years later"), "{error}");
    let early = file("early.csv", "us,dev,op,off,len\n7000000,d,R,0,1\n");
    let by_time = ReadOptions { by_time: true, ..ReadOptions::default() };
    let error = Source::concat(&[text.clone(), text], &by_time).unwrap().open().err().unwrap().to_string();
    assert!(error.contains("part 1 has no times"), "{error}");
    let by_time = ReadOptions { by_time: true, ..options(columns) };
    let error = Source::concat(&[date, early], &by_time).unwrap().open().err().unwrap().to_string();
    assert!(error.contains("part 2 begins at 7 s, part 1 at 1700000000 s"), "{error}");
}

#[test]
fn the_times_of_requests_are_those_of_their_pages() {
    let directory = tempfile::tempdir().unwrap();
    let volume = 1 << 48;
    let (one, two) = (vscsi(1), vscsi(2));
    for (name, content, pages, times) in [
        ("a.spc", SPC.as_bytes(), vec![1, 2, volume + 1, 0], vec![26_214, 26_214, 1_500_000, 2_500_000]),
        (
            "a.msr",
            MSR.as_bytes(),
            vec![volume, volume + 1, volume, 0],
            vec![12_816_637_200_306_162, 12_816_637_200_306_162, 12_816_637_201_638_215, 12_816_637_202_638_224],
        ),
        ("a.iolog", FIO_2.as_bytes(), vec![0, 1, 2], vec![]),
        ("b.iolog", FIO_3.as_bytes(), vec![0, 1, 2], vec![20, 20, 888]),
        (
            "a.blkparse",
            BLKPARSE.as_bytes(),
            vec![1, 2, volume + 100, 0],
            // The events of several processors need not be in order: the last one follows a discard.
            vec![0, 0, 1_000_000, 2_000_001],
        ),
        ("a.vscsi", &one, vec![1, 2, 1, 10], vec![1_000_000, 1_000_000, 1_000_002, 1_000_900]),
        ("b.vscsi", &two, vec![1, 2, 1, 10], vec![1_000_000, 1_000_000, 1_000_002, 1_000_900]),
    ] {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        let source = source(&path, "");
        for max in [1, 3, 1000] {
            assert_eq!(timed(&source, max), (pages.clone(), times.clone()), "{name}");
        }
        let mut plain = source.open().unwrap();
        let mut batch = Batch::new();
        plain.next_batch(&mut batch, 10).unwrap();
        assert!(batch.requests.is_empty() && !plain.has_requests(), "{name}");
        // What arrives at the first moment is no arrival.
        let arrivals = source.recorded_arrivals(0).unwrap();
        let found = arrivals.map(|it| (it.references, it.time.as_micros()));
        let first = times.first().copied().unwrap_or(0);
        let later = times.iter().filter(|&&time| time > first);
        let last = times.last().copied().unwrap_or(0);
        let expected = (last > first).then(|| (later.count() as u64, u128::from(last - first)));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_column_of_a_csv_has_times() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.csv");
    for (header, columns, unit, factor) in [
        ("ts,blk,op", "page=blk,write=op,time=ts", "s", 1_000_000),
        ("ts,blk,op", "page=blk,write=op,time=ts:ms", "ms", 1_000),
        ("ts,blk,op", "page=blk,write=op,time=ts:us", "us", 1),
        ("time_us,page,write", "", "us", 1),
    ] {
        // An empty time is that of the reference before, and so is an earlier one.
        let rows = "10,7,R\n20,8,W\n,9,R\n5,1,R\n40.5,2,W\n";
        fs::write(&path, format!("{header}\n{rows}")).unwrap();
        let source = source(&path, columns);
        let last = 40 * factor + factor / 2;
        let times = vec![10 * factor, 20 * factor, 20 * factor, 20 * factor, last];
        for max in [1, 2, 100] {
            let expected = (vec![7, 8, 9, 1, 2], times.clone());
            assert_eq!(timed(&source, max), expected, "{unit}");
        }
        let arrivals = source.recorded_arrivals(0).unwrap().unwrap();
        let found = (arrivals.references, arrivals.time.as_micros());
        assert_eq!(found, (4, u128::from(last - 10 * factor)));
        let mut reader = source.open_with(OptionalColumns::ALL).unwrap();
        let requests = TraceStatistics::from_reader(&mut reader).unwrap().requests.unwrap();
        assert_eq!(requests.duration_us, last - 10 * factor);
    }
    let untimed = source(&path, "page=page,write=write");
    assert_eq!(timed(&untimed, 10).1, [0; 0]);
    assert_eq!(untimed.recorded_arrivals(0).unwrap(), None);
}

#[test]
fn bad_times_are_named_with_line_and_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let event = "8,16 1 1 0.5 12 Q R 8 + 8 [a]";
    for (name, first, bad, columns, expected) in [
        ("a.spc", "0,1,512,r,0.1", "0,1,512,r,0.1x", "", "a time in seconds, such as 0.026214"),
        ("a.msr", "1,h,0,Read,0,512,1", "1e18,h,0,Read,0,512,1", "", "a time in units of 100 ns"),
        ("a.iolog", "fio version 3 iolog\n5 a read 0 1", "5.5 a read 0 1", "", "a time in whole microseconds"),
        ("a.blkparse", event, "8,16 1 1 0.5.5 12 Q R 8 + 8 [a]", "", "a time in seconds, such as 0.000001200"),
        (
            "a.csv", "t,page,write\n1.5,1,R", "2024-01-01,1,R", "page=page,write=write,time=t",
            "time=t:s, ms, us, ns, filetime or date)",
        ),
        (
            "b.csv",
            "t,page,write\n1,1,R",
            "-1,1,R",
            "page=page,write=write,time=t:ms",
            "a number of milliseconds such as 12.5, less than 230 years in column 't'",
        ),
        // Milliseconds since 1970, taken for seconds.
        (
            "d.csv",
            "t,page,write\n1.5,1,R",
            "1700000000123,1,R",
            "page=page,write=write,time=t",
            "less than 230 years in column 't' (for another unit --columns …,time=t:s, ms",
        ),
    ] {
        let last = first.lines().last().unwrap();
        let text = format!("{first}\n{bad}\n{last}\n");
        let line = text.lines().count() - 1;
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        let read = |bad_lines| {
            let options = ReadOptions { bad_lines, ..options(columns) };
            let source = Source::parse_with(path.to_str().unwrap(), &options).unwrap();
            let mut reader = source.open().unwrap();
            let mut batch = Batch::new();
            reader.next_batch(&mut batch, 100).map(|_| batch.len())
        };
        let message = read(0).unwrap_err().to_string();
        let place = format!("{name}, line {line}: expected ");
        assert!(message.contains(&place), "{message}");
        assert!(message.contains(expected), "{message}");
        assert_eq!(read(1).unwrap(), 2, "{name}");
    }
    fs::write(directory.path().join("c.csv"), "page,write\n1,R\n").unwrap();
    let missing = source(&directory.path().join("c.csv"), "page=page,time=page_time");
    let message = missing.open().err().unwrap().to_string();
    assert!(message.contains("no column 'page_time'"), "{message}");
}
