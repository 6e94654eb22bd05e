//! Finds the records in the database that a workload was loaded for.

use ebbpool_btree::Database;
use ebbpool_trace::workload::Keys;

use crate::db::args::{BenchArgs, WorkloadArg};
use crate::db::error::DbError;
use crate::db::lines::shown;

/// The records that `ebbpool db load` wrote for a workload.
#[derive(Debug)]
pub(super) struct LoadedRecords {
    pub(super) keys: Keys,
    pub(super) records: u64,
    /// Bytes of a value.
    pub(super) value_bytes: usize,
}

impl LoadedRecords {
    /// Finds the records of a workload, or reports why the database has none.
    pub(super) fn find(args: &BenchArgs, database: &Database) -> Result<Self, DbError> {
        let refuse = |why: String| DbError::OtherWorkload {
            path: args.path.clone(),
            workload: match args.workload {
                WorkloadArg::Cfdc => "cfdc",
                _ => "ycsb",
            },
            why,
        };
        let mut range = database.range::<[u8; 0]>(..).expecting(1);
        let Some((first, _)) = range.next().transpose()? else {
            return Err(refuse("it has no records".into()));
        };
        drop(range);
        let keys = match args.workload {
            WorkloadArg::Cfdc => Keys::Numbers(first.len()),
            _ => Keys::Hashed,
        };
        if keys.suffice(1).is_err() {
            let length = first.len();
            return Err(refuse(format!("its first key has {length} bytes, not 1 to 8")));
        }
        let zero = keys.key(0);
        let Some(value) = database.get(&zero)? else {
            return Err(refuse(format!("it has no key {}", shown(&zero))));
        };
        let records = match keys {
            Keys::Numbers(_) => numbered(database, keys)?,
            Keys::Hashed => Some(hashed(database, keys)?),
        };
        Ok(LoadedRecords {
            keys,
            records: records.ok_or_else(|| refuse("its last key is not a number".into()))?,
            value_bytes: value.len(),
        })
    }
}

/// The number of records whose keys are the numbers from 0: the last key determines it.
fn numbered(database: &Database, keys: Keys) -> Result<Option<u64>, DbError> {
    let mut range = database.range::<[u8; 0]>(..).expecting(1);
    let last = range.next_back().transpose()?;
    let number = last.and_then(|(key, _)| keys.record(&key));
    Ok(number.and_then(|number| number.checked_add(1)))
}

/// The number of records whose keys are hashed numbers. The numbers are consecutive, so a binary search
/// finds the first number without a record.
fn hashed(database: &Database, keys: Keys) -> Result<u64, DbError> {
    let exists = |record: u64| database.get(&keys.key(record)).map(|value| value.is_some());
    let (mut present, mut absent) = (0, 1);
    while absent < u64::MAX / 2 && exists(absent)? {
        (present, absent) = (absent, absent * 2);
    }
    while absent - present > 1 {
        let middle = present + (absent - present) / 2;
        match exists(middle)? {
            true => present = middle,
            false => absent = middle,
        }
    }
    Ok(absent)
}
