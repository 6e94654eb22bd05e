//! What is to be compared.

use std::path::PathBuf;

use crate::{Failure, engines};

/// What the command line asks for.
pub struct Plan {
    /// Where databases are made and removed again.
    pub directory: PathBuf,
    pub workloads: Vec<String>,
    pub engines: Vec<String>,
    pub size: Size,
}

/// Numbers that every engine is given.
#[derive(Clone, Copy)]
pub struct Size {
    /// Records of the database.
    pub records: u64,
    /// Operations of the workload.
    pub operations: u64,
    /// Bytes of each engine's own cache.
    pub cache: u64,
    pub seed: u64,
}

/// What a commit waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    None,
    Synced,
}

impl Durability {
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Synced => "synced",
        }
    }

    pub fn of(name: &str) -> Self {
        match name {
            "none" => Durability::None,
            _ => Durability::Synced,
        }
    }
}

impl Default for Size {
    /// The CFDC paper's database and buffer, and a tenth of its operations.
    fn default() -> Self {
        Size { records: 1_000_000, operations: 20_000, cache: 16 << 20, seed: 1 }
    }
}

impl Plan {
    /// Reads `DIRECTORY [records=N] [operations=N] [cache=BYTES] [seed=N] [workloads=LIST]
    /// [engines=LIST]`.
    pub fn of(arguments: &[String]) -> Result<Self, Failure> {
        let usage = "usage: db-rivals DIRECTORY [records=N] [operations=N] [cache=BYTES] [seed=N] \
                     [workloads=cfdc,ycsb-a,…] [engines=ebbpool,redb,sqlite]";
        let (directory, rest) = arguments.split_first().ok_or(usage)?;
        let mut plan = Plan {
            directory: directory.into(),
            workloads: list("cfdc,ycsb-a,ycsb-b,ycsb-d,ycsb-e,ycsb-f"),
            engines: list(&engines::NAMES.join(",")),
            size: Size::default(),
        };
        for argument in rest {
            let (name, value) = argument.split_once('=').ok_or(usage)?;
            match name {
                "workloads" => plan.workloads = list(value),
                "engines" => plan.engines = list(value),
                _ => *plan.size.of_name(name).ok_or(usage)? = number(value)?,
            }
        }
        Ok(plan)
    }

    /// The numbers, as [`Size::read`] reads them.
    pub fn numbers(&self) -> [String; 4] {
        let Size { records, operations, cache, seed } = self.size;
        [records, operations, cache, seed].map(|number| number.to_string())
    }
}

impl Size {
    fn of_name(&mut self, name: &str) -> Option<&mut u64> {
        match name {
            "records" => Some(&mut self.records),
            "operations" => Some(&mut self.operations),
            "cache" => Some(&mut self.cache),
            "seed" => Some(&mut self.seed),
            _ => None,
        }
    }

    pub fn read(numbers: &[String]) -> Result<Self, Failure> {
        match numbers {
            [records, operations, cache, seed] => Ok(Size {
                records: number(records)?,
                operations: number(operations)?,
                cache: number(cache)?,
                seed: number(seed)?,
            }),
            _ => Err("four numbers are expected".into()),
        }
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(String::from).collect()
}

fn number(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|error| format!("`{text}` is no whole number: {error}").into())
}
