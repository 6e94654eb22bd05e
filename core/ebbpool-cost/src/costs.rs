//! Costs of page reads and writes, with their unit.

use std::fmt;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::Asymmetry;

/// The unit in which a cost is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum Unit {
    /// One page read is 1: the papers' plain model.
    PageReads,
    /// Microseconds of the device's time.
    Microseconds,
    /// US dollars.
    Dollars,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Unit::PageReads => "page reads",
            Unit::Microseconds => "µs",
            Unit::Dollars => "$",
        })
    }
}

/// What one page read and one page write cost.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct OperationCosts {
    /// One page read, in `unit`.
    pub read: f64,
    /// One page write, in `unit`.
    pub write: f64,
    /// The unit of both.
    pub unit: Unit,
}

impl OperationCosts {
    /// R, the cost of a write in reads; infinite where a read costs nothing.
    pub fn ratio(&self) -> f64 {
        self.write / self.read
    }

    /// What `reads` page reads and `writes` page writes cost.
    pub fn bill(&self, reads: u64, writes: u64) -> Bill {
        Bill { amount: reads as f64 * self.read + writes as f64 * self.write, unit: self.unit }
    }
}

impl From<Asymmetry> for OperationCosts {
    fn from(asymmetry: Asymmetry) -> Self {
        OperationCosts { read: 1.0, write: asymmetry.ratio(), unit: Unit::PageReads }
    }
}

/// An amount of a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct Bill {
    /// How much, in `unit`.
    pub amount: f64,
    /// The unit of the amount.
    pub unit: Unit,
}

impl fmt::Display for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount, self.unit)
    }
}
