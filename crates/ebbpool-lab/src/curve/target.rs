//! A figure and how much of it there may be: the target that memory is to be found for.

use std::fmt;
use std::str::FromStr;

use ebbpool_cost::{Asymmetry, Decimal};
use ebbpool_sim::Traffic;

/// A figure that costs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Page reads.
    Reads,
    /// Page writes.
    Writes,
    /// Page reads per reference, a write as so many as R.
    Bill,
}

impl Figure {
    /// The figure of some traffic over so many references.
    pub fn of(self, traffic: Traffic, references: u64, asymmetry: Asymmetry) -> f64 {
        match self {
            Figure::Reads => traffic.reads as f64,
            Figure::Writes => traffic.writes as f64,
            Figure::Bill => asymmetry.bill(traffic.reads, traffic.writes) / references as f64,
        }
    }

    /// Its name, as it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Reads => "reads",
            Figure::Writes => "writes",
            Figure::Bill => "bill",
        }
    }
}

/// How much of it there may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    /// This share less than the baseline has.
    Less(Decimal),
    /// So many pages; of a bill, page reads per reference.
    AtMost(f64),
}

/// A figure and how much of it there may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The figure.
    pub figure: Figure,
    amount: Amount,
}

impl Target {
    /// True if it means something only beside a baseline.
    pub fn is_relative(&self) -> bool {
        matches!(self.amount, Amount::Less(_))
    }

    /// The most that there may be, where the baseline has so much.
    pub fn limit(&self, baseline: f64) -> f64 {
        match self.amount {
            Amount::Less(share) => baseline * (1.0 - share.to_f64()),
            Amount::AtMost(most) => most,
        }
    }
}

/// Not the spelling of a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no target; give reads, writes or bill, and how much less than the baseline's it is to be, such as 'writes -50%', or how much at most, such as 'bill 1.5'"
)]
pub struct NotATarget(String);

impl FromStr for Target {
    type Err = NotATarget;

    fn from_str(text: &str) -> Result<Self, NotATarget> {
        let refused = || NotATarget(text.into());
        let mut words = text.split_whitespace();
        let (Some(figure), Some(amount), None) = (words.next(), words.next(), words.next()) else {
            return Err(refused());
        };
        let figure = match figure {
            "reads" => Figure::Reads,
            "writes" => Figure::Writes,
            "bill" => Figure::Bill,
            _ => return Err(refused()),
        };
        let less = amount
            .strip_prefix('-')
            .filter(|share| share.ends_with('%'));
        let amount = match less {
            Some(share) => {
                let share: Decimal = share.parse().map_err(|_| refused())?;
                if share.is_zero() || share.exceeds_one() {
                    return Err(refused());
                }
                Amount::Less(share)
            }
            None => match amount.parse::<f64>() {
                Ok(most) if most.is_finite() && most >= 0.0 => Amount::AtMost(most),
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
            Amount::Less(share) => write!(f, "{name} -{}", share.percent()),
            Amount::AtMost(most) => write!(f, "{name} {most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_printed() {
        for text in [
            "writes -50%",
            "reads -0.5%",
            "bill 1.5",
            "bill -20%",
            "writes 0",
        ] {
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
    fn nonsense_is_refused() {
        for text in [
            "",
            "writes",
            "writes 50%",
            "writes +5%",
            "writes -0%",
            "writes -101%",
            "hits 3",
            "bill -3",
            "bill NaN",
            "bill 1 2",
            "reads --5%",
        ] {
            let refused = text.parse::<Target>().expect_err(text).to_string();
            assert!(refused.contains("writes -50%"), "{refused}");
        }
    }

    #[test]
    fn a_bill_is_per_reference() {
        let traffic = Traffic {
            reads: 10,
            writes: 5,
            dirty_left: 1,
        };
        let asymmetry = "4".parse().expect("an asymmetry");
        assert_eq!(Figure::Bill.of(traffic, 20, asymmetry), 1.5);
        assert_eq!(Figure::Reads.of(traffic, 20, asymmetry), 10.0);
        assert_eq!(Figure::Writes.of(traffic, 20, asymmetry), 5.0);
    }
}
