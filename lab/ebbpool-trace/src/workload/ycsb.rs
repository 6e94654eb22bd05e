//! The core workloads of the Yahoo! Cloud Serving Benchmark.

use std::fmt;
use std::str::FromStr;

use super::skew::Popularity;
use super::{WorkloadError, WorkloadOperation};
use crate::generators::alias::AliasTable;
use crate::generators::power::inverse_power;
use crate::generators::random::Random;

/// One of YCSB's core workloads: the shares of the kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mix {
    /// Update heavy: 50 % reads, 50 % updates.
    A,
    /// Read mostly: 95 % reads, 5 % updates.
    B,
    /// Read only.
    C,
    /// Read latest: 95 % reads, mostly of the records that were inserted last, 5 % inserts.
    D,
    /// Short ranges: 95 % scans, 5 % inserts.
    E,
    /// Read-modify-write: 50 % reads, 50 % reads followed by an update.
    F,
}

/// A core workload of YCSB (Cooper et al., Benchmarking Cloud Serving Systems with YCSB, SoCC 2010),
/// usually with values of 1,000 bytes and [`Keys::Hashed`](super::Keys::Hashed).
///
/// Records are chosen by a Zipf distribution whose ranks a random permutation scatters; in `D` the
/// record inserted last has the first rank. YCSB differs in two ways: it scatters by a hash, which
/// gives some records several ranks and others none, and it draws from 10^10 ranks however few the
/// records are, which is less skewed. Scans begin at records that exist at the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Ycsb {
    /// The shares of the kinds of operations.
    pub mix: Mix,
    /// Records at the start; 1,000,000.
    pub records: u64,
    /// Operations; 100,000.
    pub operations: u64,
    /// Exponent of the Zipf distribution, 0 to 10; 0.99.
    pub alpha: f64,
    /// The most records of a scan; the number is uniformly random from 1 on; 100.
    pub longest_scan: u64,
    /// The seed; another seed gives another workload of the same kind; 1.
    pub seed: u64,
}

impl Ycsb {
    /// With YCSB's usual parameters.
    pub fn new(mix: Mix) -> Self {
        Ycsb { mix, records: 1_000_000, operations: 100_000, alpha: 0.99, longest_scan: 100, seed: 1 }
    }

    /// The operations in order.
    ///
    /// # Errors
    ///
    /// If there are no records or too many, or too little memory.
    pub fn operations(&self) -> Result<YcsbOperations, WorkloadError> {
        let mut random = Random::new(self.seed);
        let scattered = self.mix != Mix::D;
        let popularity = Popularity::new(self.records, scattered, &mut random, |ranking| {
            let alpha = self.alpha.clamp(0.0, 10.0);
            AliasTable::new(ranking, |rank| inverse_power(rank as u64 + 1, alpha))
        })?;
        Ok(YcsbOperations {
            mix: self.mix,
            records: self.records,
            left: self.operations,
            longest_scan: self.longest_scan.max(1),
            random,
            popularity,
        })
    }
}

/// The operations of a [`Ycsb`] workload.
#[derive(Debug, Clone)]
pub struct YcsbOperations {
    mix: Mix,
    /// Records so far.
    records: u64,
    left: u64,
    longest_scan: u64,
    random: Random,
    popularity: Popularity,
}

impl YcsbOperations {
    /// An operation that changes a record, one of the 5 or 50 of 100.
    fn change(&mut self) -> WorkloadOperation {
        match self.mix {
            Mix::D | Mix::E => {
                let record = self.records;
                self.records += 1;
                WorkloadOperation::Insert { record }
            }
            Mix::F => WorkloadOperation::ReadModifyWrite { record: self.record() },
            Mix::A | Mix::B | Mix::C => WorkloadOperation::Update { record: self.record() },
        }
    }

    fn read(&mut self) -> WorkloadOperation {
        let record = self.record();
        match self.mix {
            Mix::E => WorkloadOperation::Scan { first: record, records: 1 + self.random.below(self.longest_scan) },
            _ => WorkloadOperation::Read { record },
        }
    }

    fn record(&mut self) -> u64 {
        let drawn = self.popularity.draw(&mut self.random);
        match self.mix {
            Mix::D => self.records - 1 - drawn,
            _ => drawn,
        }
    }
}

impl Iterator for YcsbOperations {
    type Item = WorkloadOperation;

    fn next(&mut self) -> Option<WorkloadOperation> {
        self.left = self.left.checked_sub(1)?;
        let reads = match self.mix {
            Mix::A | Mix::F => 50,
            Mix::B | Mix::D | Mix::E => 95,
            Mix::C => 100,
        };
        Some(match self.random.below(100) < reads {
            true => self.read(),
            false => self.change(),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left);
        (left.unwrap_or(usize::MAX), left.ok())
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Mix::A => "a",
            Mix::B => "b",
            Mix::C => "c",
            Mix::D => "d",
            Mix::E => "e",
            Mix::F => "f",
        })
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "a" | "A" => Ok(Mix::A),
            "b" | "B" => Ok(Mix::B),
            "c" | "C" => Ok(Mix::C),
            "d" | "D" => Ok(Mix::D),
            "e" | "E" => Ok(Mix::E),
            "f" | "F" => Ok(Mix::F),
            _ => Err(format!("'{text}' is no workload of YCSB; they are a to f")),
        }
    }
}
