//! Judges claims that compare one setting with another, or one metric: how many times as fast, and where a policy gains more.

use super::{ClaimFinding, ClaimJudge, number, of_amount, of_range, of_share};
use crate::format::{GreatestCheck, MoreCheck, TimesCheck};
use crate::metric::Metric;
use crate::ordered::Text;
use crate::seeds::{self, Estimate, Stated};

impl ClaimJudge<'_> {
    /// How many times as good one setting is as another, on the mean over the policies.
    pub(super) fn times(&self, it: &TimesCheck) -> Option<ClaimFinding> {
        let (Text(from), Text(to)) = (&it.from, &it.to);
        let mut ratios: Vec<Vec<f64>> = Vec::new();
        for slow in self
            .points
            .iter()
            .filter(|point| point.place.get(&it.along) == Some(from))
        {
            let is_asked = it.policies.is_empty() || it.policies.contains(&slow.policy);
            let fast = self.points.iter().find(|fast| {
                let is_same = fast.policy == slow.policy && fast.place.get(&it.along) == Some(to);
                is_same && fast.place.without(&it.along) == slow.place.without(&it.along)
            });
            let ratio = |slow: f64, fast: f64| match self.metric.more_is_better() {
                true => fast / slow,
                false => slow / fast,
            };
            let compared = fast.filter(|_| is_asked);
            ratios.extend(compared.and_then(|fast| slow.compared(fast, self.metric, ratio)));
        }
        let mean = seeds::mean_of(ratios.iter().map(Vec::as_slice))?;
        if let Some([low, high]) = it.percent {
            let percent = |samples: &Vec<f64>| Some(100.0 * (Estimate::of(samples)?.mean - 1.0));
            let percents: Vec<f64> = ratios.iter().filter_map(percent).collect();
            let least = percents.iter().copied().min_by(f64::total_cmp)?;
            let most = percents.iter().copied().max_by(f64::total_cmp)?;
            return Some(ClaimFinding {
                paper: format!("{} to {} %", number(low), number(high)),
                ours: match percents.len() {
                    1 => format!("{} %", number(most)),
                    _ => format!("{} to {} %", number(least), number(most)),
                },
                verdict: of_range([low, high], least, most),
            });
        }
        let times = it.is?;
        Some(ClaimFinding {
            paper: format!("{} times", number(times)),
            ours: mean.text(" times"),
            verdict: of_amount(times, mean.mean),
        })
    }

    /// Whether a policy gains more over others in one setting than in another.
    pub(super) fn more(&self, it: &MoreCheck) -> Option<ClaimFinding> {
        let (Text(at), Text(than)) = (&it.at, &it.than);
        let mut gains: Vec<f64> = Vec::new();
        let mut texts = Vec::new();
        for over in &it.over {
            let found = self.improvements(&it.of, over);
            let of_setting = |value: &String| {
                let value = value.clone();
                found
                    .iter()
                    .filter(move |one| one.place.get(&it.along) == Some(&value))
            };
            for here in of_setting(at) {
                let rest = here.place.without(&it.along);
                let there = of_setting(than).find(|one| one.place.without(&it.along) == rest);
                let Some(there) = there else { continue };
                gains.push(here.value() - there.value());
                let place = match rest.says() {
                    place if it.over.len() == 1 && place.is_empty() => String::new(),
                    place if place.is_empty() => format!("{over}: "),
                    place => format!("{over}, {place}: "),
                };
                let (here, there) = (here.mean.text(""), there.mean.text(" %"));
                texts.push(format!("{place}{here} against {there}"));
            }
        }
        let yes = gains.iter().filter(|gain| **gain > 0.0).count();
        let any = of_share(yes, gains.len())?;
        let (paper, verdict) = match it.points {
            Some([low, high]) => {
                let least = gains.iter().copied().min_by(f64::total_cmp)?;
                let most = gains.iter().copied().max_by(f64::total_cmp)?;
                let text = format!("{} to {} points more", number(low), number(high));
                (text, of_range([low, high], least, most))
            }
            None => ("more".into(), any),
        };
        Some(ClaimFinding {
            paper,
            ours: texts.join("; "),
            verdict,
        })
    }

    /// Whether a policy improves on another in the claim's metric more than in other metrics.
    pub(super) fn greatest(&self, it: &GreatestCheck) -> Option<ClaimFinding> {
        let of_metric = |metric: Metric| {
            let judge = ClaimJudge { metric, ..*self };
            judge.improvements(&it.of, &it.over)
        };
        let others: Vec<_> = it
            .than
            .iter()
            .map(|&metric| (metric, of_metric(metric)))
            .collect();
        let (mut yes, mut all) = (0, 0);
        let mut exception = None;
        for ours in of_metric(self.metric) {
            all += 1;
            let greater = others.iter().find_map(|(metric, found)| {
                let mut same = found.iter().filter(|other| other.place == ours.place);
                let greater = same.find(|other| other.value() > ours.value())?;
                Some((metric, greater.mean))
            });
            match greater {
                None => yes += 1,
                Some((metric, mean)) => {
                    exception.get_or_insert_with(|| {
                        let (ours_text, theirs) = (ours.mean.text(" %"), mean.text(" %"));
                        let name = metric.label();
                        format!(
                            "; {ours_text} against {theirs} of {name} at {}",
                            ours.place.says()
                        )
                    });
                }
            }
        }
        Some(ClaimFinding {
            paper: format!("the greatest of {}", 1 + it.than.len()),
            ours: format!("{yes} of {all} points{}", exception.unwrap_or_default()),
            verdict: of_share(yes, all)?,
        })
    }
}
