//! Judges claims on the order of policies: at each point, among the policies that the claim compares there.

use super::rules::of_share;
use super::{ClaimFinding, ClaimJudge, GuestFinding, SAME, Verdict};
use crate::format::{BestCheck, Cases, RankCheck};
use crate::point::Point;
use crate::seeds::{MeanEstimate, Stated};

/// Whether a claim on an order holds at one point.
struct OrderAtPoint<'a> {
    /// A policy that should not be behind another but is, and the other; `None` if the claim holds.
    exception: Option<(&'a Point, &'a Point)>,
}

impl<'a> ClaimJudge<'a> {
    pub(super) fn order(&self, order: &[String]) -> Option<ClaimFinding> {
        let results: Vec<OrderAtPoint> = self
            .of(order.first()?)
            .filter_map(|(first, _)| {
                let at = |policy: &String| self.at(policy, first);
                let points: Vec<&Point> = order.iter().filter_map(at).collect();
                let exception =
                    points.windows(2).map(|pair| (pair[0], pair[1])).find(|(first, second)| !self.is_no_worse(first, second));
                (points.len() == order.len()).then_some(OrderAtPoint { exception })
            })
            .collect();
        self.finding(&results, order.join(", then "), Cases::All)
    }

    /// Whether a policy is the best of all at the points, or the worst.
    pub(super) fn first(&self, best: &BestCheck, last: bool) -> Option<ClaimFinding> {
        let results: Vec<OrderAtPoint> = self
            .of(&best.policy)
            .filter_map(|(point, _)| {
                let rivals = self.rivals(point, &best.against);
                let ahead = |rival: &&&'a Point| match last {
                    false => !self.is_no_worse(point, rival),
                    true => !self.is_no_worse(rival, point),
                };
                let exception = rivals.iter().find(ahead).map(|rival| match last {
                    false => (point, *rival),
                    true => (*rival, point),
                });
                (!rivals.is_empty()).then_some(OrderAtPoint { exception })
            })
            .collect();
        let end = if last { "worst" } else { "best" };
        let cases = match best.cases {
            Cases::All => "",
            Cases::Most => " in most cases",
        };
        self.finding(&results, format!("{} {end}{cases}", best.policy), best.cases)
    }

    /// Whether a policy has this rank at the points. Policies with the same value share their ranks.
    pub(super) fn rank(&self, it: &RankCheck) -> Option<ClaimFinding> {
        let ranks: Vec<(usize, usize)> = self
            .of(&it.policy)
            .filter_map(|(point, _)| {
                let rivals = self.rivals(point, &[]);
                let better = |rival: &&&Point| !self.is_no_worse(point, rival);
                let no_worse = |rival: &&&Point| self.is_no_worse(rival, point);
                let best = 1 + rivals.iter().filter(better).count();
                let last = 1 + rivals.iter().filter(no_worse).count();
                (!rivals.is_empty()).then_some((best, last))
            })
            .collect();
        let yes = ranks.iter().filter(|(best, last)| (*best..=*last).contains(&it.is)).count();
        let mut found: Vec<String> = Vec::new();
        let most = ranks.iter().map(|(_, last)| *last).max()?;
        for rank in 1..=most {
            match ranks.iter().filter(|(best, _)| *best == rank).count() {
                0 => {}
                count => found.push(format!("{} at {count}", ordinal(rank))),
            }
        }
        Some(ClaimFinding {
            paper: format!("{} {}", it.policy, ordinal(it.is)),
            ours: format!("{yes} of {} points; {}", ranks.len(), found.join(", ")),
            verdict: of_share(yes, ranks.len())?,
        })
    }

    /// Whether none of some policies is the best of them at most points.
    pub(super) fn no_winner(&self, policies: &[String]) -> Option<ClaimFinding> {
        let places = self.of(policies.first()?).map(|(point, _)| point);
        let at = |place: &Point| {
            let found = policies.iter().map(|policy| self.at(policy, place));
            found.collect::<Option<Vec<&Point>>>()
        };
        let places: Vec<Vec<&Point>> = places.filter_map(at).collect();
        let best_at = |index: usize| {
            let is_best = |points: &&Vec<&Point>| {
                let mut others = points.iter();
                others.all(|other| self.is_no_worse(points[index], other))
            };
            places.iter().filter(is_best).count()
        };
        let counts: Vec<usize> = (0..policies.len()).map(best_at).collect();
        let all = places.len();
        let most = counts.iter().copied().max().filter(|_| all > 0)?;
        let texts = policies.iter().zip(&counts);
        let texts: Vec<String> = texts.map(|(policy, count)| format!("{policy} at {count}")).collect();
        Some(ClaimFinding {
            paper: "no winner".into(),
            ours: format!("of {all} points best: {}", texts.join(", ")),
            verdict: match most {
                most if most == all => Verdict::DoesNot,
                most if 2 * most > all => Verdict::InPart,
                _ => Verdict::Holds,
            },
        })
    }

    /// The finding on a policy that is not the paper's, beside the policy that a claim is about.
    pub(super) fn beside(&self, guest: &str, policy: &str) -> Option<GuestFinding> {
        let pairs = self.pairs(guest, policy);
        let better = pairs.iter().filter(|(guest, other)| !self.is_no_worse(other, guest));
        let better = better.count();
        let all = pairs.len();
        (all > 0)
            .then(|| GuestFinding { policy: guest.into(), ours: format!("better than {policy} at {better} of {all} points") })
    }

    /// The point of a policy that has a value at the same coordinates as `point`.
    fn at(&self, policy: &str, point: &Point) -> Option<&'a Point> {
        let mut same = self.of(policy).map(|(other, _)| other);
        same.find(|other| other.place == point.place)
    }

    /// The points of the other policies at the same coordinates: of those in `against`, or of all if it is empty.
    fn rivals(&self, point: &Point, against: &[String]) -> Vec<&'a Point> {
        let against = self.expanded(against);
        let is_rival = |other: &&&'a Point| {
            let is_named = against.is_empty() || against.contains(&other.policy);
            is_named && other.policy != point.policy && other.place == point.place
        };
        let has_value = |other: &&'a Point| other.value(self.metric).is_some();
        self.points.iter().filter(is_rival).copied().filter(has_value).collect()
    }

    fn is_no_worse(&self, point: &Point, other: &Point) -> bool {
        let values = point.value(self.metric).zip(other.value(self.metric));
        values.is_some_and(|(value, other)| {
            let slack = SAME * other.abs();
            match self.metric.more_is_better() {
                true => value >= other - slack,
                false => value <= other + slack,
            }
        })
    }

    /// The finding on a number of points: the claim holds at all, most or fewer of them.
    fn finding(&self, results: &[OrderAtPoint], paper: String, cases: Cases) -> Option<ClaimFinding> {
        let all = results.len();
        let yes = results.iter().filter(|one| one.exception.is_none()).count();
        let verdict = match (of_share(yes, all)?, cases) {
            (Verdict::InPart, Cases::Most) => Verdict::Holds,
            (verdict, _) => verdict,
        };
        Some(ClaimFinding {
            paper,
            ours: match results.iter().find_map(|one| one.exception) {
                None if all == 1 => "at the only point".into(),
                None => format!("all {all} points"),
                Some((first, second)) => {
                    format!("{yes} of {all} points; {}", self.exception_text(first, second))
                }
            },
            verdict,
        })
    }

    /// An order that does not hold, in words; with its size if it depends on random numbers.
    fn exception_text(&self, first: &Point, second: &Point) -> String {
        let improvement = |value, other| self.metric.improvement(value, other);
        let samples = second.compared(first, self.metric, improvement);
        let estimate = samples.as_deref().and_then(MeanEstimate::from_samples);
        let estimate = estimate.filter(|by| by.half_width.is_some());
        let by = estimate.map(|by| format!(", which is {} better", by.text(" %")));
        format!("not {} before {} at {}{}", first.policy, second.policy, first.place.says(), by.unwrap_or_default())
    }
}

/// A rank in words.
fn ordinal(rank: usize) -> String {
    let end = match (rank % 10, rank % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{rank}{end}")
}
