//! Judges claims on curves: where they go, where they are highest or lowest, and what is the best value of a parameter.

use ebbpool_sim::Moment;

use super::rules::{of_course, of_share};
use super::{ClaimFinding, ClaimJudge, SAME, number};
use crate::format::{BestAtCheck, DependsCheck, FlatCheck, PeakCheck, REFERENCES, TrendCheck, TrendDirection};
use crate::metric::Metric;
use crate::ordered::Text;
use crate::plan::PointCoordinates;
use crate::point::Point;

/// A value and its coordinates.
type ValueAt<'a> = (f64, &'a PointCoordinates);

/// A curve: the ordered points along a parameter.
struct Curve<'a> {
    place: PointCoordinates,
    /// The values of the parameter and of the metric.
    values: Vec<(&'a str, f64)>,
}

impl Curve<'_> {
    /// The first value and the last one.
    fn ends(&self) -> Option<(f64, f64)> {
        Some((self.values.first()?.1, self.values.last()?.1))
    }

    /// By how many per cent of its first value the curve goes in a direction; without a first value, by infinity.
    fn change(&self, sign: f64) -> f64 {
        match self.ends() {
            Some((first, last)) if first == last => 0.0,
            Some((first, last)) => 100.0 * sign * (last - first) / first.abs(),
            None => 0.0,
        }
    }

    /// The number of steps that do not go against a direction, and of all.
    fn steps(&self, sign: f64) -> (usize, usize) {
        let values: Vec<f64> = self.values.iter().map(|(_, value)| sign * value).collect();
        let size = |most: f64, value: &f64| most.max(value.abs());
        let slack = SAME * values.iter().fold(0.0, size);
        let right = values.windows(2).filter(|pair| pair[1] >= pair[0] - slack).count();
        (right, values.len() - 1)
    }
}

impl<'a> ClaimJudge<'a> {
    /// The curves of a policy along a dimension, or of its improvement over another policy. A curve over the
    /// trace consists of the means of its three thirds.
    fn curves(&self, policy: &str, over: Option<&str>, along: &str) -> Vec<Curve<'a>> {
        if along == REFERENCES {
            let of_policy = self.points.iter().filter(|point| point.policy == policy);
            let thirds =
                of_policy.filter_map(|point| Some(Curve { place: point.place.clone(), values: thirds(point, self.metric)? }));
            return thirds.collect();
        }
        let values: Vec<ValueAt> = match over {
            Some(over) => {
                let all = self.improvements(policy, over).into_iter();
                all.map(|one| (one.value(), one.place)).collect()
            }
            None => self.of(policy).map(|(point, value)| (value, &point.place)).collect(),
        };
        let mut curves: Vec<Curve> = Vec::new();
        for (value, place) in values {
            let Some(at) = place.get(along) else { continue };
            let rest = place.without(along);
            match curves.iter_mut().find(|curve| curve.place == rest) {
                Some(curve) => curve.values.push((at, value)),
                None => curves.push(Curve { place: rest, values: vec![(at, value)] }),
            }
        }
        curves.retain(|curve| curve.values.len() > 1);
        curves
    }

    pub(super) fn trend(&self, it: &TrendCheck) -> Option<ClaimFinding> {
        let curves = self.curves(&it.policy, it.over.as_deref(), &it.along);
        let (sign, direction) = match it.goes {
            TrendDirection::Up => (1.0, "rises"),
            TrendDirection::Down => (-1.0, "falls"),
        };
        let by = it.by.unwrap_or(0.0);
        let goes_by = |least: f64| {
            let changes = curves.iter().map(|curve| curve.change(sign));
            changes.filter(|change| *change > 0.0 && *change >= least).count()
        };
        let (mut steps, mut all_steps) = (0, 0);
        for curve in &curves {
            let (right, all) = curve.steps(sign);
            steps += right;
            all_steps += all;
        }
        let example = curves.first()?;
        let (first, last) = example.ends()?;
        let by_text = match it.by {
            Some(_) => format!(", by {} %", number(example.change(sign))),
            None => String::new(),
        };
        let example_text = format!("{} to {}{by_text}", number(first), number(last));
        let ends = [goes_by(by), goes_by(by / 2.0)];
        let all = curves.len();
        Some(ClaimFinding {
            paper: match it.by {
                Some(by) => format!("{direction} by at least {} %", number(by)),
                None => direction.into(),
            },
            ours: match all {
                1 => format!("{example_text}; {steps} of {all_steps} steps"),
                _ => format!(
                    "{} of {all} curves, {steps} of {all_steps} steps; {example_text} at {}",
                    ends[0],
                    example.place.says()
                ),
            },
            verdict: of_course(ends, all, steps, all_steps),
        })
    }

    /// Whether curves are highest between their ends, or lowest.
    pub(super) fn extreme(&self, it: &PeakCheck, highest: bool) -> Option<ClaimFinding> {
        let mut curves = self.curves(&it.policy, it.over.as_deref(), &it.along);
        curves.retain(|curve| curve.values.len() > 2);
        let sign = if highest { 1.0 } else { -1.0 };
        let extreme = |curve: &Curve| {
            let values = curve.values.iter().map(|(_, value)| sign * value);
            let greatest = values.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
            greatest.map_or(0, |(at, _)| at)
        };
        let inside = |curve: &&Curve| (1..curve.values.len() - 1).contains(&extreme(curve));
        let yes = curves.iter().filter(inside).count();
        let all = curves.len();
        let first = curves.first()?;
        let word = if highest { "highest" } else { "lowest" };
        Some(ClaimFinding {
            paper: format!("{word} between the ends"),
            ours: format!(
                "{yes} of {all} curves; {} {} is {word}{}",
                it.along,
                first.values.get(extreme(first))?.0,
                match first.place.says() {
                    place if place.is_empty() => String::new(),
                    place => format!(" at {place}"),
                }
            ),
            verdict: of_share(yes, all)?,
        })
    }

    pub(super) fn flat(&self, it: &FlatCheck) -> Option<ClaimFinding> {
        let curves = self.curves(&it.policy, None, &it.along);
        let spread = |curve: &Curve| {
            let values = || curve.values.iter().map(|(_, value)| *value);
            let mean = values().sum::<f64>() / curve.values.len() as f64;
            let least = values().fold(f64::INFINITY, f64::min);
            let most = values().fold(f64::NEG_INFINITY, f64::max);
            100.0 * (most - least) / mean
        };
        let spreads: Vec<f64> = curves.iter().map(spread).collect();
        let yes = spreads.iter().filter(|spread| **spread <= it.percent).count();
        let most = spreads.iter().copied().max_by(f64::total_cmp)?;
        Some(ClaimFinding {
            paper: format!("changes by at most {} %", number(it.percent)),
            ours: format!("{yes} of {} curves; up to {} %", spreads.len(), number(most)),
            verdict: of_share(yes, spreads.len())?,
        })
    }

    /// The value of the parameter at which a curve is best.
    fn best_of(&self, curve: &Curve<'a>) -> &'a str {
        let better = |a: &&(&str, f64), b: &&(&str, f64)| match self.metric.more_is_better() {
            true => b.1.total_cmp(&a.1),
            false => a.1.total_cmp(&b.1),
        };
        curve.values.iter().min_by(better).map_or("", |(at, _)| at)
    }

    pub(super) fn best_at(&self, it: &BestAtCheck) -> Option<ClaimFinding> {
        let curves = self.curves(&it.policy, None, &it.along);
        let Text(expected) = &it.is;
        let found: Vec<&str> = curves.iter().map(|curve| self.best_of(curve)).collect();
        let yes = found.iter().filter(|at| **at == expected).count();
        Some(ClaimFinding {
            paper: format!("{} {expected}", it.along),
            ours: format!("best at {}", found.join(", ")),
            verdict: of_share(yes, found.len())?,
        })
    }

    /// Whether the best value of a parameter depends on another parameter.
    pub(super) fn depends(&self, it: &DependsCheck) -> Option<ClaimFinding> {
        let curves = self.curves(&it.policy, None, &it.along);
        let mut groups: Vec<(PointCoordinates, Vec<&str>)> = Vec::new();
        for curve in &curves {
            let (rest, best) = (curve.place.without(&it.on), self.best_of(curve));
            match groups.iter_mut().find(|(place, _)| *place == rest) {
                Some((_, found)) => found.push(best),
                None => groups.push((rest, vec![best])),
            }
        }
        groups.retain(|(_, found)| found.len() > 1);
        let differs = |(_, found): &&(PointCoordinates, Vec<&str>)| found.windows(2).any(|pair| pair[0] != pair[1]);
        let yes = groups.iter().filter(differs).count();
        let texts = groups.iter().map(|(place, found)| {
            let found = found.join(", ");
            match place.says() {
                place if place.is_empty() => found,
                place => format!("{found} at {place}"),
            }
        });
        let texts: Vec<String> = texts.collect();
        Some(ClaimFinding {
            paper: format!("the best {} depends on {}", it.along, it.on),
            ours: format!("{yes} of {}; best at {}", groups.len(), texts.join("; ")),
            verdict: of_share(yes, groups.len())?,
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
