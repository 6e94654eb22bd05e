//! Targets: a figure and its largest allowed value, for which the lab finds the smallest memory.

use std::fmt;
use std::str::FromStr;

use ebbpool_cost::{Asymmetry, Decimal};
use ebbpool_sim::Traffic;

/// The figure that a target limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetFigure {
    /// Page reads.
    Reads,
    /// Page writes.
    Writes,
    /// The bill per reference in page reads; a write costs R of them.
    Bill,
}

impl TargetFigure {
    /// The figure of some traffic over this number of references.
    pub fn value(self, traffic: Traffic, references: u64, asymmetry: Asymmetry) -> f64 {
        match self {
            TargetFigure::Reads => traffic.reads as f64,
            TargetFigure::Writes => traffic.writes as f64,
            TargetFigure::Bill => asymmetry.bill(traffic.all_reads(), traffic.writes) / references as f64,
        }
    }

    /// The name of the figure in a target's spelling.
    pub fn name(self) -> &'static str {
        match self {
            TargetFigure::Reads => "reads",
            TargetFigure::Writes => "writes",
            TargetFigure::Bill => "bill",
        }
    }
}

/// The limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TargetLimit {
    /// This share less than the baseline's figure.
    Less(Decimal),
    /// At most this number of pages; of a bill, page reads per reference.
    AtMost(f64),
}

/// A figure and its largest allowed value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Target {
    /// The figure.
    pub figure: TargetFigure,
    amount: TargetLimit,
}

impl Target {
    /// True if the target is relative to a baseline.
    pub(crate) fn is_relative(&self) -> bool {
        matches!(self.amount, TargetLimit::Less(_))
    }

    /// The largest allowed value, given the baseline's value.
    pub fn limit(&self, baseline: f64) -> f64 {
        match self.amount {
            TargetLimit::Less(share) => baseline * (1.0 - share.to_f64()),
            TargetLimit::AtMost(most) => most,
        }
    }
}

/// The error for a text that is not a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a target; give reads, writes or bill, and the share by which it is less than the baseline's, such as 'writes -50%', or a limit, such as 'bill 1.5'"
)]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let refused = || TargetError(text.into());
        let mut words = text.split_whitespace();
        let (Some(figure), Some(amount), None) = (words.next(), words.next(), words.next()) else {
            return Err(refused());
        };
        let figure = match figure {
            "reads" => TargetFigure::Reads,
            "writes" => TargetFigure::Writes,
            "bill" => TargetFigure::Bill,
            _ => return Err(refused()),
        };
        let less = amount.strip_prefix('-').filter(|share| share.ends_with('%'));
        let amount = match less {
            Some(share) => {
                let share: Decimal = share.parse().map_err(|_| refused())?;
                if share.is_zero() || share.exceeds_one() {
                    return Err(refused());
                }
                TargetLimit::Less(share)
            }
            None => match amount.parse::<f64>() {
                Ok(most) if most.is_finite() && most >= 0.0 => TargetLimit::AtMost(most),
                _ => return Err(refused()),
            },
        };
        Ok(Target { figure, amount })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.figure.name();
        match self.amount {
            TargetLimit::Less(share) => write!(f, "{name} -{}", share.percent()),
            TargetLimit::AtMost(most) => write!(f, "{name} {most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_printed() {
        for text in ["writes -50%", "reads -0.5%", "bill 1.5", "bill -20%", "writes 0"] {
            let target: Target = text.parse().expect("a target");
            assert_eq!(target.to_string(), text);
        }
        let target: Target = "  writes   -25% ".parse().expect("a target");
        assert_eq!(target.limit(200.0), 150.0);
        assert!(target.is_relative());
        let target: Target = "bill 1.5".parse().expect("a target");
        assert_eq!(target.limit(200.0), 1.5);
    }

    #[test]
    fn invalid_targets_are_refused() {
        for text in [
            "", "writes", "writes 50%", "writes +5%", "writes -0%", "writes -101%", "hits 3", "bill -3", "bill NaN",
            "bill 1 2", "reads --5%",
        ] {
            let refused = text.parse::<Target>().expect_err(text).to_string();
            assert!(refused.contains("writes -50%"), "{refused}");
        }
    }

    #[test]
    fn a_bill_is_per_reference() {
        let traffic = Traffic { reads: 10, writes: 5, ..Traffic::default() };
        let asymmetry = "4".parse().expect("an asymmetry");
        assert_eq!(TargetFigure::Bill.value(traffic, 20, asymmetry), 1.5);
        assert_eq!(TargetFigure::Reads.value(traffic, 20, asymmetry), 10.0);
        assert_eq!(TargetFigure::Writes.value(traffic, 20, asymmetry), 5.0);
    }
}
