//! What a workload finds in the database.

use ebbpool_btree::Database;
use ebbpool_trace::workload::Keys;

use crate::db::args::{BenchArgs, WorkloadArg};
use crate::db::error::DbError;
use crate::db::lines::shown;

/// The records that were loaded.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) keys: Keys,
    pub(super) records: u64,
    /// Bytes of a value.
    pub(super) value: usize,
}

impl Subject {
    /// Looks for the records of a workload.
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
            return Err(refuse(format!(
                "its first key has {length} bytes, not 1 to 8"
            )));
        }
        let zero = keys.key(0);
        let Some(value) = database.get(&zero)? else {
            return Err(refuse(format!("it has no key {}", shown(&zero))));
        };
        let records = match keys {
            Keys::Numbers(_) => numbered(database, keys)?,
            Keys::Hashed => Some(hashed(database, keys)?),
        };
        Ok(Subject {
            keys,
            records: records.ok_or_else(|| refuse("its last key is no number".into()))?,
            value: value.len(),
        })
    }
}

/// Records with the numbers from 0 on: the last one tells how many.
fn numbered(database: &Database, keys: Keys) -> Result<Option<u64>, DbError> {
    let mut range = database.range::<[u8; 0]>(..).expecting(1);
    let last = range.next_back().transpose()?;
    let number = last.and_then(|(key, _)| keys.record(&key));
    Ok(number.and_then(|number| number.checked_add(1)))
}

/// Records whose keys do not tell their order: the first number that none has is looked for, since
/// numbers follow each other.
fn hashed(database: &Database, keys: Keys) -> Result<u64, DbError> {
    let there = |record: u64| database.get(&keys.key(record)).map(|value| value.is_some());
    let (mut some, mut none) = (0, 1);
    while none < u64::MAX / 2 && there(none)? {
        (some, none) = (none, none * 2);
    }
    while none - some > 1 {
        let middle = some + (none - some) / 2;
        match there(middle)? {
            true => some = middle,
            false => none = middle,
        }
    }
    Ok(none)
}
