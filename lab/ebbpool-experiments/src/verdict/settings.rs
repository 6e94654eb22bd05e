//! Judges claims that compare one setting with another, or one metric: how many times as fast, and where a policy gains more.

use super::rules::{of_range, of_share, of_size};
use super::{ClaimFinding, ClaimJudge, number};
use crate::format::{GreatestCheck, MoreCheck, TimesCheck};
use crate::metric::Metric;
use crate::ordered::Text;
use crate::point::Point;
use crate::seeds::{self, MeanEstimate, Stated};

impl ClaimJudge<'_> {
    /// How many times as good one setting is as another: the mean over the policies there, over their mean here. With a range of
    /// per cent each policy has its ratio.
    pub(super) fn times(&self, it: &TimesCheck) -> Option<ClaimFinding> {
        let pairs = self.settings_of(it);
        let pairs: Vec<(Vec<f64>, Vec<f64>)> =
            pairs.into_iter().filter_map(|(from, to)| Some((from.samples(self.metric)?, to.samples(self.metric)?))).collect();
        let ratio_of = |from: &[f64], to: &[f64]| {
            let of_seed = |(from, to): (&f64, &f64)| match self.metric.more_is_better() {
                true => to / from,
                false => from / to,
            };
            MeanEstimate::from_samples(&paired(from, to).map(of_seed).collect::<Vec<f64>>())
        };
        if let Some([low, high]) = it.percent {
            let percents: Option<Vec<f64>> =
                pairs.iter().map(|(from, to)| Some(100.0 * (ratio_of(from, to)?.mean - 1.0))).collect();
            let percents = percents?;
            let least = percents.iter().copied().min_by(f64::total_cmp)?;
            let most = percents.iter().copied().max_by(f64::total_cmp)?;
            return Some(ClaimFinding {
                paper: format!("{} to {} %", number(low), number(high)),
                ours: match percents.len() {
                    1 => format!("{} %", number(most)),
                    _ => format!("{} to {} %", number(least), number(most)),
                },
                verdict: of_range([low, high], &percents)?,
            });
        }
        let mean = |series: Vec<&[f64]>| seeds::means(series.into_iter(), |value| value);
        let from = mean(pairs.iter().map(|(from, _)| from.as_slice()).collect());
        let to = mean(pairs.iter().map(|(_, to)| to.as_slice()).collect());
        let times = it.is?;
        let ratio = ratio_of(&from, &to)?;
        Some(ClaimFinding {
            paper: format!("{} times", number(times)),
            ours: ratio.text(" times"),
            verdict: of_size(times, ratio.mean),
        })
    }

    /// For each policy of a claim on two settings, its points in the worse one and in the better one.
    fn settings_of(&self, it: &TimesCheck) -> Vec<(&Point, &Point)> {
        let (Text(from), Text(to)) = (&it.from, &it.to);
        let is_asked = |point: &Point| {
            let is_named = it.policies.is_empty() || it.policies.contains(&point.policy);
            is_named && point.place.get(&it.along) == Some(from)
        };
        let points = self.points.iter().copied();
        let in_worse = points.clone().filter(|point| is_asked(point));
        let pair = |worse: &'_ Point| {
            let rest = worse.place.without(&it.along);
            points.clone().find(|better| {
                let is_better = better.place.get(&it.along) == Some(to);
                let is_same = better.policy == worse.policy;
                is_better && is_same && better.place.without(&it.along) == rest
            })
        };
        in_worse.filter_map(|worse| Some((worse, pair(worse)?))).collect()
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
                found.iter().filter(move |one| one.place.get(&it.along) == Some(&value))
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
                let text = format!("{} to {} points more", number(low), number(high));
                (text, of_range([low, high], &gains)?)
            }
            None => ("more".into(), any),
        };
        Some(ClaimFinding { paper, ours: texts.join("; "), verdict })
    }

    /// Whether a policy improves on another in the claim's metric more than in other metrics.
    pub(super) fn greatest(&self, it: &GreatestCheck) -> Option<ClaimFinding> {
        let of_metric = |metric: Metric| {
            let judge = ClaimJudge { metric, ..*self };
            judge.improvements(&it.of, &it.over)
        };
        let others: Vec<_> = it.than.iter().map(|&metric| (metric, of_metric(metric))).collect();
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
                        format!("; {ours_text} against {theirs} of {name} at {}", ours.place.says())
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

/// The samples of two series seed by seed. A series of one sample does not depend on random numbers.
fn paired<'a>(one: &'a [f64], other: &'a [f64]) -> impl Iterator<Item = (&'a f64, &'a f64)> {
    let seeds = one.len().max(other.len());
    let repeated = |series: &'a [f64]| {
        let times = if series.len() == 1 { seeds } else { 1 };
        std::iter::repeat_n(series, times).flatten()
    };
    repeated(one).zip(repeated(other))
}
