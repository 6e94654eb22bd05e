//! The asymmetries between which the recommended policy has the smallest bill.

use ebbpool_cost::Asymmetry;
use ebbpool_policy::PolicySpec;
use schemars::JsonSchema;
use serde::Serialize;

use super::question::{AdviceQuestion, QuestionKind};
use super::simulation::{SimulatedCell, TraceQuestions};
use crate::error::LabError;
use crate::numbers::rounded;
use crate::pricing::PricingRequest;
use crate::run::CountingRules;

/// The least asymmetry that is simulated.
const LEAST: f64 = 0.1;

/// The most halvings of the asymmetry that are simulated.
const MOST_HALVINGS: i32 = 8;

/// The asymmetries that are simulated between the last one at which the answer holds and the first at which it does not.
const BETWEEN: i32 = 3;

/// From which asymmetry on the recommended policy costs less than another one, with the same memory.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct BreakEven {
    /// The other policy.
    pub against: String,
    /// The recommended policy costs less from this R on, by simulation up to the present one; `None` if it does so from `lowest`
    /// on.
    pub holds_from: Option<f64>,
    /// It costs less up to this R; `None` if no such R is known.
    pub holds_to: Option<f64>,
    /// The lowest R that was looked at: 0 where the figures are solved.
    pub lowest: f64,
    /// True if the figures come from simulations at several R, because one of the policies looks at R; false if they
    /// are solved from the counts, which do not depend on R.
    pub simulated: bool,
}

/// The recommended policy's result, its rivals' with the same memory, and R.
pub(super) struct BreakEvenSearch<'a> {
    pub(super) best: &'a SimulatedCell,
    pub(super) rivals: &'a [&'a SimulatedCell],
    pub(super) asymmetry: Asymmetry,
    pub(super) counting: &'a CountingRules,
}

fn looks_at_costs(cell: &SimulatedCell) -> bool {
    let spec: Result<PolicySpec, _> = cell.result.policy.parse();
    spec.is_ok_and(|spec| spec.looks_at_costs())
}

/// Solves for R from counts that do not depend on it.
fn solved(best: &SimulatedCell, rival: &SimulatedCell, device_share: f64) -> BreakEven {
    let difference = |count: fn(&SimulatedCell) -> u64| count(best) as f64 - count(rival) as f64;
    let reads = device_share * difference(|cell| cell.result.reads);
    let writes = difference(|cell| cell.result.writes);
    // best - rival = reads + R x writes, which is 0 here.
    let root = (writes != 0.0).then(|| -reads / writes).filter(|root| *root > 0.0);
    BreakEven {
        against: rival.result.policy.clone(),
        holds_from: root.filter(|_| writes < 0.0),
        holds_to: root.filter(|_| writes > 0.0),
        lowest: 0.0,
        simulated: false,
    }
}

/// The break-even of the recommended policy with each of its rivals, and the questions asked for it.
pub(super) fn break_evens(
    questioner: &TraceQuestions,
    contest: &BreakEvenSearch,
) -> Result<(Vec<BreakEven>, Vec<AdviceQuestion>), LabError> {
    let is_simulated = |rival: &&SimulatedCell| looks_at_costs(contest.best) || looks_at_costs(rival);
    let mut asked = Vec::new();
    let mut grid = Vec::new();
    let ratios = halvings(contest.asymmetry);
    if contest.rivals.iter().any(is_simulated) && !ratios.is_empty() {
        let question = contest.question(contest.rivals, ratios.clone());
        grid = questioner.compare(&question)?;
        asked.push(question);
    }
    let mut found = Vec::new();
    for rival in contest.rivals {
        if !is_simulated(rival) {
            found.push(solved(contest.best, rival, questioner.device_share));
            continue;
        }
        let losing = contest.first_loss(&grid, &ratios, rival);
        let holds_from = match losing {
            None => None,
            Some(at) => {
                let upper = match at {
                    0 => contest.asymmetry,
                    at => ratios[at - 1],
                };
                let between = between(ratios[at], upper);
                let question = contest.question(&[rival], between.clone());
                let cells = questioner.compare(&question)?;
                let lost = contest.first_loss(&cells, &between, rival);
                asked.push(question);
                Some(match lost {
                    None => between.last().copied().unwrap_or(upper),
                    Some(0) => upper,
                    Some(at) => between[at - 1],
                })
            }
        };
        found.push(BreakEven {
            against: rival.result.policy.clone(),
            holds_from: holds_from.map(Asymmetry::ratio),
            holds_to: None,
            lowest: ratios.last().unwrap_or(&contest.asymmetry).ratio(),
            simulated: true,
        });
    }
    Ok((found, asked))
}

impl BreakEvenSearch<'_> {
    /// The bills of the recommended policy and of rivals at other asymmetries.
    fn question(&self, rivals: &[&SimulatedCell], ratios: Vec<Asymmetry>) -> AdviceQuestion {
        let cells = std::iter::once(self.best).chain(rivals.iter().copied());
        let pricing = ratios.into_iter().map(|r| PricingRequest::Asymmetry(r.into()));
        AdviceQuestion {
            about: "the R from which the answer holds",
            kind: QuestionKind::Compare(pricing.collect()),
            policies: cells.map(|cell| cell.result.policy.clone()).collect(),
            frames: vec![self.best.result.frames],
            counting: CountingRules { rate: None, ..self.counting.clone() },
        }
    }

    /// The index of the first of these ratios at which the rival has the smaller bill.
    fn first_loss(&self, cells: &[SimulatedCell], ratios: &[Asymmetry], rival: &SimulatedCell) -> Option<usize> {
        let bill = |policy: &str, ratio: &Asymmetry| {
            let cell = cells.iter().find(|cell| cell.result.policy == policy && cell.result.asymmetry.0 == ratio.ratio());
            cell.map_or(f64::INFINITY, |cell| cell.result.cost)
        };
        ratios.iter().position(|ratio| bill(&rival.result.policy, ratio) < bill(&self.best.result.policy, ratio))
    }
}

/// Half of R, a quarter, and so on.
fn halvings(asymmetry: Asymmetry) -> Vec<Asymmetry> {
    let ratio = |halving: i32| asymmetry.ratio() / 2f64.powi(halving);
    let ratios = (1..=MOST_HALVINGS).map(ratio);
    spelled(ratios.take_while(|ratio| *ratio >= LEAST))
}

/// Asymmetries between two, descending.
fn between(lower: Asymmetry, upper: Asymmetry) -> Vec<Asymmetry> {
    let step = (lower.ratio() / upper.ratio()).powf(1.0 / f64::from(BETWEEN + 1));
    spelled((1..=BETWEEN).map(|at| upper.ratio() * step.powi(at)))
}

/// Asymmetries of three decimals, so that their texts are exact.
fn spelled(ratios: impl Iterator<Item = f64>) -> Vec<Asymmetry> {
    ratios.filter_map(|ratio| rounded(ratio).parse().ok()).collect()
}
