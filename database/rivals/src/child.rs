//! One measurement, in a process of its own.

use std::path::Path;
use std::time::Instant;

use ebbpool_trace::workload::{CfdcWorkload, Keys, Mix, WorkloadOperation, Ycsb, fill_value};

use crate::engines::{self, Engine};
use crate::plan::{Durability, Size};
use crate::{Failure, files};

/// Record of the paper's experiment, and YCSB's.
const VALUE_OF_CFDC: usize = 256;
const VALUE_OF_YCSB: usize = 1000;

/// What was measured of an engine.
pub struct Measured {
    pub transactions: u64,
    pub seconds: f64,
    /// Bytes written, those of closing the database included.
    pub written: u64,
    /// Bytes of keys and values that got a new value.
    pub changed: u64,
    /// Bytes of all files at the end.
    pub files: u64,
}

impl Measured {
    /// What [`run`] has printed.
    pub fn read(line: &str, files: u64) -> Result<Self, Failure> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [transactions, seconds, written, changed] => Ok(Measured {
                transactions: transactions.parse()?,
                seconds: seconds.parse()?,
                written: written.parse()?,
                changed: changed.parse()?,
                files,
            }),
            _ => Err(format!("`{line}` is no result").into()),
        }
    }
}

/// The workload, and how its records look.
struct Workload {
    operations: Box<dyn Iterator<Item = WorkloadOperation>>,
    keys: Keys,
    value: usize,
    /// How full leaves are at the start, if the engine has an option for it.
    fill: f64,
}

impl Workload {
    fn of(name: &str, size: Size) -> Result<Self, Failure> {
        if name == "cfdc" {
            let scans = size.operations / 1000;
            let workload = CfdcWorkload {
                records: size.records,
                queries: size.operations / 2,
                updates: size.operations / 2,
                scans,
                update_scans: scans,
                seed: size.seed,
                ..CfdcWorkload::default()
            };
            return Ok(Workload {
                operations: Box::new(workload.operations()?),
                keys: Keys::Numbers(4),
                value: VALUE_OF_CFDC,
                // Half of the space in the paper's leaves was unused.
                fill: 0.5,
            });
        }
        let mix: Mix = name
            .strip_prefix("ycsb-")
            .ok_or_else(|| format!("there is no workload {name}; cfdc and ycsb-a to ycsb-f are"))?
            .parse()?;
        let workload = Ycsb { records: size.records, operations: size.operations, seed: size.seed, ..Ycsb::new(mix) };
        Ok(Workload { operations: Box::new(workload.operations()?), keys: Keys::Hashed, value: VALUE_OF_YCSB, fill: 0.9 })
    }

    /// Records in order of their keys.
    fn records(&self, records: u64) -> Box<dyn Iterator<Item = (Vec<u8>, Vec<u8>)>> {
        let (keys, length) = (self.keys, self.value);
        let mut numbers: Vec<u64> = (0..records).collect();
        if keys == Keys::Hashed {
            numbers.sort_unstable_by_key(|&number| keys.key(number));
        }
        Box::new(numbers.into_iter().map(move |number| {
            let mut value = vec![0; length];
            fill_value(&mut value, number);
            (keys.key(number), value)
        }))
    }
}

/// `load|work ENGINE WORKLOAD DURABILITY DIRECTORY` and the numbers of [`Size`].
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let [what, engine, workload, durability, directory, numbers @ ..] = arguments else {
        return Err("this is for the program itself; give it a directory".into());
    };
    let size = Size::read(numbers)?;
    let workload = Workload::of(workload, size)?;
    let directory = Path::new(directory);
    if what == "load" {
        let records = workload.records(size.records);
        return engines::load(engine, directory, size.cache, workload.fill, records);
    }
    let engine = engines::open(engine, directory, size.cache, Durability::of(durability))?;
    work(engine, directory, workload)
}

fn work(mut engine: Box<dyn Engine>, directory: &Path, workload: Workload) -> Result<(), Failure> {
    let before = files::written(directory)?;
    let start = Instant::now();
    let (mut transactions, mut changed, mut seed) = (0u64, 0u64, 0u64);
    let mut value = vec![0; workload.value];
    let bytes = (workload.keys.length() + workload.value) as u64;
    let key = |record| workload.keys.key(record);
    for operation in workload.operations {
        seed += 1;
        let records = match operation {
            WorkloadOperation::Read { record } => {
                engine.read(&key(record))?;
                0
            }
            WorkloadOperation::Update { record } | WorkloadOperation::Insert { record } => {
                fill_value(&mut value, seed);
                engine.put(&key(record), &value)?;
                1
            }
            WorkloadOperation::ReadModifyWrite { record } => {
                fill_value(&mut value, seed);
                engine.read_and_put(&key(record), &value)?;
                1
            }
            WorkloadOperation::Scan { first, records } => {
                engine.scan(&key(first), records)?;
                0
            }
            WorkloadOperation::UpdateScan { first, records } => {
                fill_value(&mut value, seed);
                engine.update_scan(&key(first), records, &value)?
            }
        };
        transactions += 1;
        changed += records * bytes;
    }
    let seconds = start.elapsed().as_secs_f64();
    engine.close()?;
    let written = files::written(directory)? - before;
    println!("{transactions} {seconds} {written} {changed}");
    Ok(())
}
