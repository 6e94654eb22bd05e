//! Costs in the form that policies use.

use crate::costs::{OperationCosts, Unit};

/// The current costs of one page read and one page write, and the length of one unit of these costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// One page read.
    pub read: f64,
    /// One page write.
    pub write: f64,
    /// How many microseconds one unit is. Only `fd-buffer:interval=auto` weighs I/O against
    /// computing time and therefore uses it.
    pub unit_us: f64,
}

impl Costs {
    /// The read latency of the Mtron SSD in microseconds (FD-Buffer, section 5.1): the length of a page read
    /// where costs are not counted in time.
    pub const MTRON_READ_US: f64 = 176.0;

    /// The papers' plain model: a read costs 1, a write `asymmetry`.
    pub fn asymmetric(asymmetry: f64) -> Self {
        Costs { read: 1.0, write: asymmetry, unit_us: Self::MTRON_READ_US }
    }

    /// R, the write cost in units of the read cost.
    pub fn asymmetry(&self) -> f64 {
        self.write / self.read
    }

    /// R, but finite where a read costs nothing, so that R times no writes is 0.
    pub fn finite_asymmetry(&self) -> f64 {
        self.asymmetry().min(f64::MAX)
    }
}

impl Default for Costs {
    fn default() -> Self {
        Costs::asymmetric(1.0)
    }
}

/// The only conversion: the simulator and the pool both use it to pass costs to a policy.
impl From<OperationCosts> for Costs {
    fn from(costs: OperationCosts) -> Self {
        Costs {
            read: costs.read,
            write: costs.write,
            unit_us: match costs.unit {
                Unit::Microseconds => 1.0,
                Unit::PageReads | Unit::Dollars => Self::MTRON_READ_US / costs.read,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_read_takes_the_mtron_time_in_units_other_than_time() {
        for unit in [Unit::PageReads, Unit::Dollars] {
            let costs = OperationCosts { read: 0.25, write: 4.0, unit };
            let costs = Costs::from(costs);
            assert_eq!(costs.read * costs.unit_us, Costs::MTRON_READ_US);
            assert_eq!(costs.asymmetry(), 16.0);
        }
        let costs = OperationCosts { read: 40.0, write: 200.0, unit: Unit::Microseconds };
        assert_eq!(Costs::from(costs).unit_us, 1.0);
    }
}
