//! Skewed popularity of records.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use ebbpool_cost::Decimal;

use super::{MOST_RECORDS, WorkloadError};
use crate::generators::alias::AliasTable;
use crate::generators::arguments;
use crate::generators::random::Random;

/// A self-similar distribution: a share of the operations goes to a share of the records, and the same
/// holds within these records (Gray et al., SIGMOD 1994). Written as `0.8/0.2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skew {
    pub(crate) operations: Decimal,
    pub(crate) records: Decimal,
}

/// The error of a text that is not a skew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no skew; give two decimal numbers between 0 and 1, the first not below the second, as in 0.8/0.2")]
pub struct SkewError(String);

impl Skew {
    pub(crate) fn new((operations, records): (Decimal, Decimal)) -> Self {
        Skew { operations, records }
    }
}

impl Default for Skew {
    /// 80 % to 20 %.
    fn default() -> Self {
        let tenths = |tenths| Decimal::new(tenths, 1);
        Skew::new((tenths(8), tenths(2)))
    }
}

impl FromStr for Skew {
    type Err = SkewError;

    fn from_str(text: &str) -> Result<Self, SkewError> {
        let skew = arguments::skew(text.trim());
        skew.map(Skew::new).ok_or_else(|| SkewError(text.into()))
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [operations, records] = [self.operations, self.records];
        write!(formatter, "{operations}/{records}")
    }
}

/// A table to draw records from.
#[derive(Debug, Clone)]
pub(super) struct Popularity(Arc<AliasTable>);

impl Popularity {
    /// `table` makes the table from the records, given most popular first.
    pub(super) fn new(
        records: u64,
        scattered: bool,
        random: &mut Random,
        table: impl FnOnce(&[u32]) -> Option<AliasTable>,
    ) -> Result<Self, WorkloadError> {
        if !(1..=MOST_RECORDS).contains(&records) {
            return Err(WorkloadError::Records(records));
        }
        let count = u32::try_from(records).map_err(|_| WorkloadError::Records(records))?;
        let out_of_memory = || WorkloadError::Memory(records);
        let mut ranking: Vec<u32> = Vec::new();
        let reserved = ranking.try_reserve_exact(count as usize);
        reserved.map_err(|_| out_of_memory())?;
        ranking.extend(0..count);
        if scattered {
            random.shuffle(&mut ranking);
        }
        let table = table(&ranking).ok_or_else(out_of_memory)?;
        Ok(Popularity(Arc::new(table)))
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        let column = random.below(self.0.len() as u64) as usize;
        u64::from(self.0.item(column, random.bits32()))
    }
}
