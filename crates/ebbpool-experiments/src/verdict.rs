//! Whether a claim holds. The rules are told in `docs/reproduction.md`.

mod ratios;

use ebbpool_sim::Moment;
use serde::Serialize;

use super::contenders;
use super::format::{
    Best, BestAt, Bound, Check, Claim, Experiment, Flat, Goes, Improvement, Near, Peak, Percent,
    REFERENCES, Take, Trend, Value,
};
use super::metric::Metric;
use super::ordered::Text;
use super::plan::Place;
use super::point::Point;
use super::seeds::{self, Estimate};

/// How a claim fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds.
    Holds,
    /// The direction is right, the size is not.
    InPart,
    /// It does not hold.
    DoesNot,
    /// There is nothing to judge by.
    Unknown,
}

impl Verdict {
    /// In words.
    pub fn says(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::InPart => "holds in part",
            Verdict::DoesNot => "does not hold",
            Verdict::Unknown => "unknown",
        }
    }
}

/// A claim beside what we found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Judged {
    /// The claim.
    pub says: String,
    /// The paper's figures.
    pub paper: String,
    /// Our figures.
    pub ours: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Why not, as far as we can say.
    pub why: Option<String>,
}

/// Differences up to this share count as none.
const SAME: f64 = 1e-9;

/// A percentage or an amount within this factor of the paper's holds.
const FACTOR: f64 = 2.0;

/// A smaller share of the paper's percentage is not the same effect.
const LEAST_SHARE: f64 = 0.1;

/// An amount within this factor still holds in part.
const LARGE_FACTOR: f64 = 5.0;

/// Judges a claim by the points of its experiment.
pub(crate) fn judge(experiment: &Experiment, claim: &Claim, points: &[Point]) -> Judged {
    let of_claim = |point: &&Point| {
        let at = &claim.at.0;
        at.iter()
            .all(|(name, wanted)| point.get(name).is_some_and(|value| wanted.has(value)))
    };
    let points: Vec<&Point> = points.iter().filter(of_claim).collect();
    let metric = claim.metric.unwrap_or(experiment.metric);
    let bench = Bench {
        experiment,
        points: &points,
        metric,
    };
    let finding = match claim.check() {
        Some(Check::Order(order)) => bench.order(order),
        Some(Check::Best(best)) => bench.first(best, false),
        Some(Check::Worst(worst)) => bench.first(worst, true),
        Some(Check::Improvement(it)) => bench.improvement(it),
        Some(Check::Trend(it)) => bench.trend(it),
        Some(Check::Peak(it)) => bench.peak(it),
        Some(Check::Value(it)) => bench.value(it),
        Some(Check::Near(it)) => bench.near(it),
        Some(Check::Bound(it)) => bench.bound(it),
        Some(Check::Flat(it)) => bench.flat(it),
        Some(Check::BestAt(it)) => bench.best_at(it),
        Some(Check::Ratio(it)) => bench.ratio(it),
        Some(Check::Fixed(it)) => bench.fixed(it),
        None => None,
    };
    let Finding {
        paper,
        ours,
        verdict,
    } = finding.unwrap_or(Finding {
        paper: String::new(),
        ours: "nothing to compare at this scale".into(),
        verdict: Verdict::Unknown,
    });
    Judged {
        says: claim.says.clone(),
        paper: claim.paper.clone().unwrap_or(paper),
        ours,
        verdict,
        why: claim.why.clone(),
    }
}

struct Finding {
    paper: String,
    ours: String,
    verdict: Verdict,
}

/// A value, and where.
type At<'a> = (f64, &'a Place);

/// A comparison of two policies at a place.
struct Compared<'a> {
    /// With each seed.
    samples: Vec<f64>,
    mean: Estimate,
    place: &'a Place,
}

impl<'a> Compared<'a> {
    fn new(samples: Vec<f64>, place: &'a Place) -> Option<Self> {
        Some(Compared {
            mean: Estimate::of(&samples)?,
            samples,
            place,
        })
    }

    fn value(&self) -> f64 {
        self.mean.mean
    }
}

/// A curve along something: its ordered points.
struct Curve<'a> {
    place: Place,
    /// The value that it goes along, and that of the metric.
    values: Vec<(&'a str, f64)>,
}

/// Whether one policy was no worse than another at a place.
struct Held<'a, 'b> {
    held: bool,
    points: (&'a Point, &'a Point),
    names: (&'b str, &'b str),
}

struct Bench<'a> {
    experiment: &'a Experiment,
    points: &'a [&'a Point],
    metric: Metric,
}

impl<'a> Bench<'a> {
    fn of(&self, policy: &str) -> impl Iterator<Item = (&'a Point, f64)> {
        let of_policy = self
            .points
            .iter()
            .filter(move |point| point.policy == policy);
        of_policy.filter_map(|point| Some((*point, point.value(self.metric)?)))
    }

    /// Two policies wherever both have a value.
    fn pairs(&self, policy: &str, other: &str) -> Vec<(&'a Point, &'a Point)> {
        let others: Vec<_> = self.of(other).map(|(point, _)| point).collect();
        let pair = |(point, _): (&'a Point, f64)| {
            let same = others.iter().find(|other| other.place == point.place);
            same.map(|other| (point, *other))
        };
        self.of(policy).filter_map(pair).collect()
    }

    /// What `compare` makes of two policies' values, place by place.
    fn compared(
        &self,
        policy: &str,
        other: &str,
        compare: impl Fn(f64, f64) -> f64,
    ) -> Vec<Compared<'a>> {
        let pairs = self.pairs(policy, other).into_iter();
        let compared = pairs.filter_map(|(point, other)| {
            let samples = point.compared(other, self.metric, &compare)?;
            Compared::new(samples, &point.place)
        });
        compared.collect()
    }

    /// By how many per cent a policy is better than another, place by place.
    fn improvements(&self, policy: &str, over: &str) -> Vec<Compared<'a>> {
        self.compared(policy, over, |value, other| {
            self.metric.improvement(value, other)
        })
    }

    /// The names with those of groups replaced by their members'.
    fn expanded(&self, names: &[String]) -> Vec<String> {
        contenders::expanded(self.experiment, names)
    }

    fn no_worse(&self, value: f64, other: f64) -> bool {
        let slack = SAME * other.abs();
        match self.metric.more_is_better() {
            true => value >= other - slack,
            false => value <= other + slack,
        }
    }

    /// Where one policy is no worse than another, and where not.
    fn held<'b>(&self, first: &'b str, second: &'b str) -> Vec<Held<'a, 'b>> {
        let held = |(point, other): (&'a Point, &'a Point)| {
            let (ours, theirs) = (point.value(self.metric)?, other.value(self.metric)?);
            Some(Held {
                held: self.no_worse(ours, theirs),
                points: (point, other),
                names: (first, second),
            })
        };
        self.pairs(first, second)
            .into_iter()
            .filter_map(held)
            .collect()
    }

    fn order(&self, order: &[String]) -> Option<Finding> {
        let mut held = Vec::new();
        for pair in order.windows(2) {
            let [first, second] = pair else { continue };
            held.extend(self.held(first, second));
        }
        self.share(&held, order.join(", then "))
    }

    /// The first of all, or the last.
    fn first(&self, best: &Best, last: bool) -> Option<Finding> {
        let against = self.expanded(&best.against);
        let mut rivals: Vec<&str> = against.iter().map(String::as_str).collect();
        if rivals.is_empty() {
            for point in self.points {
                let rival = point.policy.as_str();
                if rival != best.policy && !rivals.contains(&rival) {
                    rivals.push(rival);
                }
            }
        }
        let mut held = Vec::new();
        for rival in rivals {
            let (better, worse) = match last {
                false => (best.policy.as_str(), rival),
                true => (rival, best.policy.as_str()),
            };
            held.extend(self.held(better, worse));
        }
        let end = if last { "worst" } else { "best" };
        self.share(&held, format!("{} {end}", best.policy))
    }

    /// All, most or fewer comparisons held.
    fn share(&self, held: &[Held], paper: String) -> Option<Finding> {
        let all = held.len();
        let yes = held.iter().filter(|one| one.held).count();
        Some(Finding {
            paper,
            ours: match held.iter().find(|one| !one.held) {
                None => format!("all {all} comparisons"),
                Some(exception) => format!("{yes} of {all} comparisons; {}", self.not(exception)),
            },
            verdict: of_share(yes, all)?,
        })
    }

    /// A comparison that did not hold; where it depends on chance, by how much.
    fn not(&self, exception: &Held) -> String {
        let Held {
            points: (point, other),
            names: (first, second),
            ..
        } = exception;
        let improvement = |value, other| self.metric.improvement(value, other);
        let samples = other.compared(point, self.metric, improvement);
        let chance = samples.as_deref().and_then(Estimate::of);
        let chance = chance.filter(|by| by.half_width.is_some());
        let by = chance.map(|by| format!(", which is {} better", by.told(" %")));
        format!(
            "not {first} before {second} at {}{}",
            point.place.says(),
            by.unwrap_or_default()
        )
    }

    fn improvement(&self, it: &Improvement) -> Option<Finding> {
        let found = self.improvements(&it.of, &it.over);
        let most = found
            .iter()
            .max_by(|a, b| a.value().total_cmp(&b.value()))?;
        let least = found
            .iter()
            .min_by(|a, b| a.value().total_cmp(&b.value()))?;
        let mean = seeds::mean_of(found.iter().map(|one| one.samples.as_slice()))?;
        Some(match it.percent {
            Percent::Range([low, high]) => Finding {
                paper: format!("{} to {} %", number(low), number(high)),
                ours: match found.len() {
                    1 => most.mean.told(" %"),
                    _ => format!("{} to {}", least.mean.told(""), most.mean.told(" %")),
                },
                verdict: match of_percent(high, most.value()) {
                    Verdict::Holds if low >= 0.0 && least.value() < 0.0 => Verdict::InPart,
                    verdict => verdict,
                },
            },
            Percent::One(percent) => {
                let (ours, words, at) = match it.take {
                    Take::Most => (most.mean, "up to ", Some(most.place)),
                    Take::Least => (least.mean, "at least ", Some(least.place)),
                    Take::Mean => (mean, "", None),
                };
                let at = at.filter(|_| found.len() > 1);
                let at = at.map(|place| format!(" ({})", place.says()));
                Finding {
                    paper: format!("{words}{} %", number(percent)),
                    ours: format!("{words}{}{}", ours.told(" %"), at.unwrap_or_default()),
                    verdict: of_percent(percent, ours.mean),
                }
            }
        })
    }

    /// The curves of a policy along a dimension, or of its improvement over another. Over the trace a
    /// curve is the means of the three thirds.
    fn curves(&self, policy: &str, over: Option<&str>, along: &str) -> Vec<Curve<'a>> {
        if along == REFERENCES {
            let of_policy = self.points.iter().filter(|point| point.policy == policy);
            let thirds = of_policy.filter_map(|point| {
                Some(Curve {
                    place: point.place.clone(),
                    values: thirds(point, self.metric)?,
                })
            });
            return thirds.collect();
        }
        let values: Vec<At> = match over {
            Some(over) => {
                let all = self.improvements(policy, over).into_iter();
                all.map(|one| (one.value(), one.place)).collect()
            }
            None => self
                .of(policy)
                .map(|(point, value)| (value, &point.place))
                .collect(),
        };
        let mut curves: Vec<Curve> = Vec::new();
        for (value, place) in values {
            let Some(at) = place.get(along) else { continue };
            let rest = place.without(along);
            match curves.iter_mut().find(|curve| curve.place == rest) {
                Some(curve) => curve.values.push((at, value)),
                None => curves.push(Curve {
                    place: rest,
                    values: vec![(at, value)],
                }),
            }
        }
        curves.retain(|curve| curve.values.len() > 1);
        curves
    }

    fn trend(&self, it: &Trend) -> Option<Finding> {
        let curves = self.curves(&it.policy, it.over.as_deref(), &it.along);
        let sign = match it.goes {
            Goes::Up => 1.0,
            Goes::Down => -1.0,
        };
        let mut ends = 0;
        let (mut steps, mut all_steps) = (0, 0);
        for curve in &curves {
            let values: Vec<f64> = curve.values.iter().map(|(_, value)| sign * value).collect();
            ends += usize::from(values.last() > values.first());
            all_steps += values.len() - 1;
            let slack = SAME
                * values
                    .iter()
                    .fold(0.0, |most: f64, value| most.max(value.abs()));
            steps += values
                .windows(2)
                .filter(|pair| pair[1] >= pair[0] - slack)
                .count();
        }
        let all = curves.len();
        let told = |curve: &Curve| {
            let values = &curve.values;
            Some(format!(
                "{} to {}",
                number(values.first()?.1),
                number(values.last()?.1)
            ))
        };
        let direction = match it.goes {
            Goes::Up => "rises",
            Goes::Down => "falls",
        };
        let example = curves.first().and_then(told)?;
        Some(Finding {
            paper: direction.into(),
            ours: match all {
                1 => format!("{example}; {steps} of {all_steps} steps"),
                _ => format!(
                    "{ends} of {all} curves, {steps} of {all_steps} steps; {} at {}",
                    example,
                    curves.first().map(|curve| curve.place.says())?
                ),
            },
            verdict: if ends == all && 4 * steps >= 3 * all_steps {
                Verdict::Holds
            } else if 2 * ends >= all && ends > 0 {
                Verdict::InPart
            } else {
                Verdict::DoesNot
            },
        })
    }

    fn peak(&self, it: &Peak) -> Option<Finding> {
        let mut curves = self.curves(&it.policy, it.over.as_deref(), &it.along);
        curves.retain(|curve| curve.values.len() > 2);
        let greatest = |curve: &Curve| {
            let values = curve.values.iter().map(|(_, value)| *value).enumerate();
            values
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .map_or(0, |(at, _)| at)
        };
        let inside = |curve: &&Curve| (1..curve.values.len() - 1).contains(&greatest(curve));
        let yes = curves.iter().filter(inside).count();
        let all = curves.len();
        let first = curves.first()?;
        Some(Finding {
            paper: "highest between the ends".into(),
            ours: format!(
                "{yes} of {all} curves; {} {} is highest{}",
                it.along,
                first.values.get(greatest(first))?.0,
                match first.place.says() {
                    place if place.is_empty() => String::new(),
                    place => format!(" at {place}"),
                }
            ),
            verdict: of_share(yes, all)?,
        })
    }

    fn value(&self, it: &Value) -> Option<Finding> {
        let (points, values): (Vec<&Point>, Vec<f64>) = self.of(&it.policy).unzip();
        let samples = points.iter().map(|point| point.samples(self.metric));
        let samples: Vec<Vec<f64>> = samples.collect::<Option<_>>()?;
        let mean = seeds::mean_of(samples.iter().map(Vec::as_slice))?;
        let (paper, verdict) = match (it.is, it.about) {
            (Some(is), _) => (is, of_exact(is, &values)),
            (None, Some(about)) => (about, of_amount(about, mean.mean)),
            (None, None) => return None,
        };
        Some(Finding {
            paper: number(paper),
            ours: mean.told(""),
            verdict,
        })
    }

    fn near(&self, it: &Near) -> Option<Finding> {
        let apart = self.improvements(&it.policy, &it.to);
        let most = apart
            .iter()
            .max_by(|a, b| a.value().abs().total_cmp(&b.value().abs()))?;
        let yes = apart
            .iter()
            .filter(|one| one.value().abs() <= it.percent)
            .count();
        Some(Finding {
            paper: format!("within {} %", number(it.percent)),
            ours: format!(
                "{yes} of {}; {} at {}",
                apart.len(),
                most.mean.told(" %"),
                most.place.says()
            ),
            verdict: of_share(yes, apart.len())?,
        })
    }

    fn bound(&self, it: &Bound) -> Option<Finding> {
        if let Some(most) = it.at_most {
            let values: Vec<(&Point, f64)> = self.of(&it.policy).collect();
            let yes = values.iter().filter(|(_, value)| *value <= most).count();
            let (point, greatest) = values.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            let greatest = seeds::told(*greatest, point.half_width(self.metric), "");
            return Some(Finding {
                paper: format!("at most {}", number(most)),
                ours: format!("{yes} of {}; up to {greatest}", values.len()),
                verdict: of_share(yes, values.len())?,
            });
        }
        let percent = it.percent?;
        let found = self.improvements(&it.policy, it.over.as_deref()?);
        let worst = found
            .iter()
            .min_by(|a, b| a.value().total_cmp(&b.value()))?;
        let yes = found.iter().filter(|one| -one.value() <= percent).count();
        Some(Finding {
            paper: format!("no more than {} % worse", number(percent)),
            ours: format!(
                "{yes} of {}; at worst {} at {}",
                found.len(),
                seeds::told(-worst.value(), worst.mean.half_width, " %"),
                worst.place.says()
            ),
            verdict: of_share(yes, found.len())?,
        })
    }

    fn flat(&self, it: &Flat) -> Option<Finding> {
        let curves = self.curves(&it.policy, None, &it.along);
        let spread = |curve: &Curve| {
            let values = || curve.values.iter().map(|(_, value)| *value);
            let mean = values().sum::<f64>() / curve.values.len() as f64;
            let least = values().fold(f64::INFINITY, f64::min);
            let most = values().fold(f64::NEG_INFINITY, f64::max);
            100.0 * (most - least) / mean
        };
        let spreads: Vec<f64> = curves.iter().map(spread).collect();
        let yes = spreads
            .iter()
            .filter(|spread| **spread <= it.percent)
            .count();
        let most = spreads.iter().copied().max_by(f64::total_cmp)?;
        Some(Finding {
            paper: format!("changes by at most {} %", number(it.percent)),
            ours: format!(
                "{yes} of {} curves; up to {} %",
                spreads.len(),
                number(most)
            ),
            verdict: of_share(yes, spreads.len())?,
        })
    }

    fn best_at(&self, it: &BestAt) -> Option<Finding> {
        let curves = self.curves(&it.policy, None, &it.along);
        let Text(wanted) = &it.is;
        let best = |curve: &Curve<'a>| {
            let better = |a: &&(&str, f64), b: &&(&str, f64)| match self.metric.more_is_better() {
                true => b.1.total_cmp(&a.1),
                false => a.1.total_cmp(&b.1),
            };
            curve.values.iter().min_by(better).map_or("", |(at, _)| at)
        };
        let found: Vec<&str> = curves.iter().map(best).collect();
        let yes = found.iter().filter(|at| **at == wanted).count();
        Some(Finding {
            paper: format!("{} {wanted}", it.along),
            ours: format!("best at {}", found.join(", ")),
            verdict: of_share(yes, found.len())?,
        })
    }
}

/// The means of the metric over the three thirds of a trace.
fn thirds(point: &Point, metric: Metric) -> Option<Vec<(&'static str, f64)>> {
    let frames = point.frames.unwrap_or(1) as f64;
    let value = |moment: &Moment| match metric {
        Metric::Clean => Some(moment.clean as f64),
        Metric::CleanShare => Some(moment.clean as f64 / frames),
        Metric::TargetShare => Some(moment.target? as f64 / frames),
        _ => None,
    };
    let values: Vec<f64> = point.moments.iter().map(value).collect::<Option<_>>()?;
    let third = values.len() / 3;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    (third > 0).then(|| {
        vec![
            ("first third", mean(&values[..third])),
            ("second third", mean(&values[third..2 * third])),
            ("last third", mean(&values[2 * third..])),
        ]
    })
}

/// All, most, or fewer; nothing of nothing.
fn of_share(yes: usize, all: usize) -> Option<Verdict> {
    match (yes, all) {
        (_, 0) => None,
        (yes, all) if yes == all => Some(Verdict::Holds),
        (yes, all) if 2 * yes > all => Some(Verdict::InPart),
        _ => Some(Verdict::DoesNot),
    }
}

/// Within a factor of two, the same sign and no less than a tenth, or not.
fn of_percent(paper: f64, ours: f64) -> Verdict {
    let ratio = ours / paper;
    if (1.0 / FACTOR..=FACTOR).contains(&ratio) {
        Verdict::Holds
    } else if ratio >= LEAST_SHARE {
        Verdict::InPart
    } else {
        Verdict::DoesNot
    }
}

/// Within a factor of two, of five, or not.
fn of_amount(paper: f64, ours: f64) -> Verdict {
    let ratio = ours / paper;
    if (1.0 / FACTOR..=FACTOR).contains(&ratio) {
        Verdict::Holds
    } else if (1.0 / LARGE_FACTOR..=LARGE_FACTOR).contains(&ratio) {
        Verdict::InPart
    } else {
        Verdict::DoesNot
    }
}

/// Equal everywhere, within 10 %, or not.
fn of_exact(paper: f64, ours: &[f64]) -> Verdict {
    let apart = |value: &f64| (value - paper).abs();
    let all_within = |share: f64| ours.iter().all(|value| apart(value) <= share * paper.abs());
    if all_within(SAME) {
        Verdict::Holds
    } else if all_within(0.1) {
        Verdict::InPart
    } else {
        Verdict::DoesNot
    }
}

/// A number to three digits or so.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if value == 0.0 || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests;
