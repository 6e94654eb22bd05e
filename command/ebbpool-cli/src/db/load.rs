//! `ebbpool db load`: fills an empty database.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ebbpool_cost::ByteSize;
use ebbpool_trace::workload::{Keys, MOST_RECORDS, WorkloadError, fill_value};
use indicatif::ProgressBar;

use super::args::{LoadArgs, LoadWorkloadArg};
use super::error::DbError;
use super::lines::{LineForm, RecordLines, shown};
use super::open::close;
use crate::progress::{self, STOP};

/// Records between two updates of the progress bar, which also check for Ctrl-C.
const STEP: u64 = 1024;

type Record = Result<(Vec<u8>, Vec<u8>), DbError>;

/// The paper's fill: half of the space in its leaf pages was unused.
const FILL_OF_CFDC: f64 = 0.5;
const FILL: f64 = 0.9;

pub(super) fn load(args: &LoadArgs) -> Result<(), DbError> {
    // The input is checked before a database is created.
    let bar = progress::bar("loading");
    let records: Box<dyn Iterator<Item = Record>> = match &args.from {
        Some(file) => from_lines(file, LineForm::new(args.escape), &bar)?,
        None => of_workload(args, &bar)?,
    };
    let default_fill = match (&args.from, args.workload) {
        (None, LoadWorkloadArg::Cfdc) => FILL_OF_CFDC,
        _ => FILL,
    };
    let fill = args.fill.map_or(default_fill, |fill| fill.0.to_f64());
    let path = &args.path;
    let options = args.open.options_of_new(args.page_size)?;
    let options = options.page_size(args.page_size);
    let start = Instant::now();
    let mut database = options.open(path).map_err(DbError::at(path))?;
    let loaded = database.load(records, fill);
    bar.finish_and_clear();
    let count = close(database, path, loaded)?;
    let summary = summary(path, count, args.page_size, start);
    writeln!(io::stdout().lock(), "{summary}").map_err(DbError::Output)
}

fn summary(path: &Path, count: u64, page_size: usize, start: Instant) -> String {
    let bytes = path.metadata().map_or(0, |found| found.len());
    format!(
        "{}: {count} records in {} pages of {page_size} bytes ({}), loaded in {:.2} s",
        path.display(),
        bytes / page_size as u64,
        ByteSize::new(bytes),
        start.elapsed().as_secs_f64()
    )
}

fn of_workload<'b>(args: &LoadArgs, bar: &'b ProgressBar) -> Result<Box<dyn Iterator<Item = Record> + 'b>, DbError> {
    let records = args.records;
    if !(1..=MOST_RECORDS).contains(&records) {
        return Err(WorkloadError::Records(records).into());
    }
    let (keys, value_bytes) = match args.workload {
        LoadWorkloadArg::Cfdc => (Keys::Numbers(args.key_bytes.map_or(4, usize::from)), args.value_bytes.unwrap_or(256)),
        LoadWorkloadArg::Ycsb => (Keys::Hashed, args.value_bytes.unwrap_or(1000)),
    };
    if let (LoadWorkloadArg::Ycsb, Some(bytes)) = (args.workload, args.key_bytes)
        && bytes != 8
    {
        let problem = "keys of ycsb have 8 bytes; omit --key-bytes";
        return Err(ebbpool_btree::DatabaseError::Options(problem.into()).into());
    }
    keys.suffice(records)?;
    let numbers: Box<dyn Iterator<Item = u64>> = match keys {
        Keys::Numbers(_) => Box::new(0..records),
        Keys::Hashed => Box::new(in_order(records)?.into_iter()),
    };
    let record = move |number: u64| {
        let mut value = vec![0; value_bytes];
        fill_value(&mut value, number);
        Ok((keys.key(number), value))
    };
    let records = (0u64..).zip(numbers).map(move |(done, number)| {
        if done.is_multiple_of(STEP) {
            progress::set(bar, done as f64 / records as f64);
            check_interrupted()?;
        }
        record(number)
    });
    Ok(Box::new(records))
}

/// The numbers of the records in the order of their keys.
fn in_order(records: u64) -> Result<Vec<u64>, DbError> {
    let mut numbers = Vec::new();
    let reserved = numbers.try_reserve_exact(records as usize);
    reserved.map_err(|_| WorkloadError::Memory(records))?;
    numbers.extend(0..records);
    numbers.sort_unstable_by_key(|&number| Keys::Hashed.key(number));
    Ok(numbers)
}

fn check_interrupted() -> Result<(), DbError> {
    match STOP.load(Ordering::Relaxed) {
        true => Err(DbError::Interrupted("nothing was loaded".into())),
        false => Ok(()),
    }
}

fn from_lines<'b>(file: &Path, form: LineForm, bar: &'b ProgressBar) -> Result<Box<dyn Iterator<Item = Record> + 'b>, DbError> {
    if file == Path::new("-") {
        let lines = RecordLines::new(io::stdin().lock(), "standard input", form);
        return Ok(Box::new(sorted(lines, form, None, bar)));
    }
    let failed = |what| move |source| DbError::Io { file: file.display().to_string(), what, source };
    let opened = File::open(file).map_err(failed("open it"))?;
    let found = opened.metadata().map_err(failed("look at it"))?;
    let length = found.is_file().then_some(found.len());
    let lines = RecordLines::new(BufReader::new(opened), &file.display().to_string(), form);
    Ok(Box::new(sorted(lines, form, length, bar)))
}

/// The records of the lines; an error if their keys do not ascend.
fn sorted<'b, R: BufRead + 'b>(
    mut lines: RecordLines<R>,
    form: LineForm,
    length: Option<u64>,
    bar: &'b ProgressBar,
) -> impl Iterator<Item = Record> + 'b {
    let mut previous: Option<Vec<u8>> = None;
    std::iter::from_fn(move || {
        let line = match lines.next()? {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        if let Some(previous) = &previous
            && line.key <= *previous
        {
            let problem = unsorted(&line.key, previous, form);
            return Some(Err(lines.refuse(line.number, problem)));
        }
        if line.number.is_multiple_of(STEP) {
            if let Some(length) = length {
                progress::set(bar, lines.bytes() as f64 / length.max(1) as f64);
            }
            if let Err(error) = check_interrupted() {
                return Some(Err(error));
            }
        }
        previous = Some(line.key.clone());
        Some(Ok((line.key, line.value)))
    })
}

fn unsorted(key: &[u8], previous: &[u8], form: LineForm) -> String {
    if key == previous {
        let key = shown(key);
        return format!("the key {key} occurs twice; give each key once");
    }
    let (key, previous) = (shown(key), shown(previous));
    let remedy = match form {
        LineForm::Raw => r#"sort the lines with LC_ALL=C sort -t "$(printf '\t')" -k1,1"#,
        LineForm::Escaped => {
            "sort the lines by the bytes that their keys represent, as ebbpool db dump --escape does (LC_ALL=C sort is enough if no key contains a backslash)"
        }
    };
    format!("the key {key} follows {previous}, which is greater; {remedy}")
}
