//! Judges claims that compare one setting with another: how many times as fast, and where a policy gains more.

use super::{ClaimFinding, ClaimJudge, number, of_amount, of_range, of_share};
use crate::format::{MoreCheck, TimesCheck};
use crate::ordered::Text;
use crate::seeds::{self, Estimate};

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
}
