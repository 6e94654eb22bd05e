//! Judges claims on the ratio of two policies' costs, and on policies that are the same at all points.

use super::rules::{of_limit, of_share};
use super::{ClaimFinding, ClaimJudge, PolicyComparison};
use crate::format::{FixedCheck, RatioAggregate, RatioCheck};
use crate::ranking::times_worse;
use crate::seeds::{self, MeanEstimate, Stated};

impl ClaimJudge<'_> {
    pub(super) fn ratio(&self, it: &RatioCheck) -> Option<ClaimFinding> {
        let found = self.compared(&it.of, &it.to, times_worse(self.metric));
        let worst = found.iter().max_by(|a, b| a.value().total_cmp(&b.value()))?;
        let samples = || found.iter().map(|one| one.samples.as_slice());
        let (words, mean) = match it.take {
            RatioAggregate::All => return self.each(it, &found, worst),
            RatioAggregate::Mean => ("mean", seeds::mean_of(samples())?),
            RatioAggregate::GeometricMean => ("geometric mean", seeds::geometric_mean(samples())?),
        };
        Some(ClaimFinding {
            paper: format!("{words} at most {}", it.at_most),
            ours: format!("{words} {} of {}", ratio_text(mean), found.len()),
            verdict: of_limit(it.at_most - 1.0, mean.mean - 1.0),
        })
    }

    /// The finding on the ratio at every point.
    fn each(&self, it: &RatioCheck, found: &[PolicyComparison], worst: &PolicyComparison) -> Option<ClaimFinding> {
        let yes = found.iter().filter(|one| one.value() <= it.at_most).count();
        Some(ClaimFinding {
            paper: format!("at most {}", it.at_most),
            ours: format!("{yes} of {}; up to {} at {}", found.len(), ratio_text(worst.mean), worst.place.says()),
            verdict: of_share(yes, found.len())?,
        })
    }

    /// The finding on a policy against each of the others, if the same policy is used at all points.
    pub(super) fn fixed(&self, it: &FixedCheck) -> Option<ClaimFinding> {
        let mut rivals = self.expanded(&it.against);
        if rivals.is_empty() {
            for point in self.points {
                let is_new = point.policy != it.policy && !rivals.contains(&point.policy);
                if is_new && self.experiment.is_fixed(&point.policy) {
                    rivals.push(point.policy.clone());
                }
            }
        }
        let next_best = match rivals.as_slice() {
            [_] => "",
            _ => " than the next best",
        };
        let is_other = |rival: &String| {
            let pairs = self.pairs(&it.policy, rival);
            pairs.iter().any(|(ours, other)| ours.spec != other.spec)
        };
        rivals.retain(is_other);
        let against = |rival: String| {
            let found = self.compared(&it.policy, &rival, times_worse(self.metric));
            let mean = seeds::geometric_mean(found.iter().map(|one| one.samples.as_slice()))?;
            Some((mean, rival))
        };
        let all = rivals.into_iter().filter_map(against);
        let (next, rival) = all.max_by(|a, b| a.0.mean.total_cmp(&b.0.mean))?;
        let better = MeanEstimate { mean: 100.0 * (1.0 - next.mean), half_width: next.half_width.map(|half| 100.0 * half) };
        Some(ClaimFinding {
            paper: match it.percent < 0.0 {
                true => format!("at most {} % worse{next_best}", -it.percent),
                false => format!("at least {} % better{next_best}", it.percent),
            },
            ours: match better.mean < 0.0 {
                true => format!("{} worse than {rival}", better.opposite().text(" %")),
                false => format!("{} better than {rival}", better.text(" %")),
            },
            verdict: of_limit(-it.percent, -better.mean),
        })
    }
}

/// A ratio as a text, with three decimals.
fn ratio_text(ratio: MeanEstimate) -> String {
    format!("{:.3}{}", ratio.mean, seeds::interval_text(ratio.half_width))
}
