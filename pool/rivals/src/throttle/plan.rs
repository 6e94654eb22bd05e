//! What is to be measured.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use super::workload::Workload;

/// A storage of the pool's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// A file in the directory of the command line, with direct I/O where the file system has it.
    File,
    /// Memory: a write takes less time than waking a thread.
    Memory,
    /// Memory with the times of a slow flash medium.
    Slow,
}

impl StorageKind {
    const ALL: [StorageKind; 3] = [StorageKind::File, StorageKind::Memory, StorageKind::Slow];

    pub fn name(self) -> &'static str {
        match self {
            StorageKind::File => "file",
            StorageKind::Memory => "memory",
            StorageKind::Slow => "slow",
        }
    }
}

/// What the command line asks for.
pub struct Plan {
    /// Where the file is made, and removed again.
    pub directory: PathBuf,
    pub rounds: usize,
    /// How long each run is measured.
    pub seconds: Duration,
    pub storages: Vec<StorageKind>,
    pub policies: Vec<String>,
    pub workloads: Vec<Workload>,
}

const USAGE: &str = "usage: pool-rivals throttle DIRECTORY [rounds=5] [seconds=1] [storages=file,memory,slow] \
                     [policies=ebb,lru] [workloads=uniform,hot,bursts]";

impl Plan {
    /// Reads the arguments after `throttle`.
    pub fn read(arguments: &[String]) -> Result<Self, Box<dyn Error>> {
        let (directory, rest) = arguments.split_first().ok_or(USAGE)?;
        let mut plan = Plan {
            directory: directory.into(),
            rounds: 5,
            seconds: Duration::from_secs(1),
            storages: StorageKind::ALL.to_vec(),
            policies: vec!["ebb".into(), "lru".into()],
            workloads: Workload::ALL.to_vec(),
        };
        for argument in rest {
            let (name, value) = argument.split_once('=').ok_or(USAGE)?;
            match name {
                "rounds" => plan.rounds = value.parse::<usize>()?.max(1),
                "seconds" => plan.seconds = Duration::try_from_secs_f64(value.parse()?)?,
                "storages" => plan.storages = named(value, &StorageKind::ALL, StorageKind::name)?,
                "policies" => plan.policies = value.split(',').map(String::from).collect(),
                "workloads" => plan.workloads = named(value, &Workload::ALL, Workload::name)?,
                _ => return Err(USAGE.into()),
            }
        }
        Ok(plan)
    }
}

fn named<T: Copy>(list: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<Vec<T>, Box<dyn Error>> {
    let find = |word: &str| {
        let found = all.iter().copied().find(|&item| name(item) == word);
        found.ok_or_else(|| format!("`{word}` is unknown; {USAGE}").into())
    };
    list.split(',').map(find).collect()
}
