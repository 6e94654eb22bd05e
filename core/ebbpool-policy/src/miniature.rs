//! How to scale a policy down so that over a sample of the pages it behaves as the full-size policy
//! does over all pages (Waldspurger et al. 2017).

use ebbpool_cost::Decimal;
use ebbpool_cost::spec::Whole;

use crate::registry;
use crate::spec::{ParameterKind, PolicyParameter, PolicySpec, Value};

/// The pages of a DULO sequence have to be sampled together.
const SEQUENCE: u64 = 64;

/// Parameters in numbers of pages, blocks or references, of which a sample has fewer.
const NUMBERS: &[&str] = &[
    "group", "batch", "victims", "clean", "correlation", "bank", "bulkread", "bulkwrite", "vacuum", "bgwriter_lru_maxpages",
    "checkpoint_writes", "rate", "old_blocks_min", "lru_scan_depth", "commit",
];

/// Parameters that are a rate per reference, of which a sample has fewer.
const PER_REFERENCE: &[&str] = &["lambda"];

impl PolicySpec {
    /// True if the policy, or one that it wraps, acts on what it measures over a number of
    /// references, so that there is no miniature of it. A window as small as the sample measures
    /// too little, and a window of the original length ends too late: both raised the bills of
    /// fd-buffer by half.
    pub fn measures_windows(&self) -> bool {
        self.value("interval").is_some() || self.wrapped().any(PolicySpec::measures_windows)
    }

    /// True if a miniature of the policy over a sample of the pages estimates its bill: it measures no windows, and neither
    /// it nor one that it wraps is known to be off on one side ([`RegisteredPolicy::HAS_MINIATURE`](registry::RegisteredPolicy)).
    pub fn has_miniature(&self) -> bool {
        !self.measures_windows() && registry::itself_has_miniature(self) && self.wrapped().all(PolicySpec::has_miniature)
    }

    /// The number of neighbouring pages that the policy, or one that it wraps, treats as a unit, so
    /// that a sample contains all of them or none.
    pub fn grain(&self) -> u64 {
        let sequence = match self.entry().name {
            "dulo" => SEQUENCE,
            _ => 1,
        };
        let number = |name| match self.value(name) {
            Some(Value::Whole(pages)) => pages,
            _ => 1,
        };
        let own = [sequence, number("cluster"), number("block")];
        let wrapped = self.wrapped().map(PolicySpec::grain);
        own.into_iter().chain(wrapped).fold(1, u64::max)
    }

    /// The policy for a sample of this share of the pages: parameters in numbers of pages shrink
    /// with the sample, and rates per reference grow accordingly.
    pub fn in_miniature(&self, share: f64) -> PolicySpec {
        self.clone().with_values(&|param, value| scaled_down(param, value, share))
    }
}

fn scaled_down(param: &PolicyParameter, value: &Value, share: f64) -> Option<Value> {
    match value {
        Value::Whole(number) if NUMBERS.contains(&param.name) => {
            let (least, most) = match param.kind {
                ParameterKind::Whole(Whole { min, max, .. }) => (min.max(1), max),
                _ => (1, u64::MAX),
            };
            let scaled = (*number as f64 * share).round() as u64;
            (*number > 0).then(|| Value::Whole(scaled.clamp(least, most)))
        }
        Value::Decimal(fraction) if PER_REFERENCE.contains(&param.name) => {
            let scaled = (fraction.to_f64() / share).min(1.0);
            let scaled: Decimal = format!("{scaled:.9}").parse().ok()?;
            Some(Value::Decimal(scaled))
        }
        _ => None,
    }
}
