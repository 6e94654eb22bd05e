//! The answer of a curve study in a sentence.

use ebbpool_sim::{SimPolicy, SmallestMemory};

use super::{CurveRow, CurveStudy, TargetAnswer};
use crate::dirty_end;
use crate::knee::WORTH_DOUBLING;
use crate::numbers::{less_or_more, rounded};

pub(super) fn of_study(study: &CurveStudy) -> String {
    match &study.answer {
        Some(answer) => of_answer(study, answer),
        None => of_memory(study),
    }
}

/// How far more memory pays, by the least bills, for a request without a target.
fn of_memory(study: &CurveStudy) -> String {
    let [smallest, .., largest] = study.sizes[..] else {
        return of_doubling(study);
    };
    let r = rounded(study.asymmetry.ratio());
    let percent = rounded(100.0 * WORTH_DOUBLING);
    let under = |frames| {
        let policy = study.best_policy(frames);
        policy.map_or_else(String::new, |policy| format!(" with {policy}"))
    };
    match study.knee() {
        Some(knee) if knee == smallest => format!(
            "at R={r} the smallest size, {}, is enough{}: each doubling saves less than {percent} % of the least bill",
            study.memory(knee),
            under(knee),
        ),
        Some(knee) => format!(
            "at R={r} more memory pays up to {}{}: each further doubling saves less than {percent} % of the least bill",
            study.memory(knee),
            under(knee),
        ),
        None => format!(
            "at R={r} more memory still pays at the largest size, {}{}: the last doubling saves at least {percent} % of the least bill",
            study.memory(largest),
            under(largest),
        ),
    }
}

/// The effect of twice the memory on LRU's bill, for a request with one size. LRU's bill is known at every size.
fn of_doubling(study: &CurveStudy) -> String {
    let lru = &study.lru;
    let now = study.sizes[study.sizes.len() / 2];
    let more = now.saturating_mul(2);
    let change = less_or_more(study.bill(lru.traffic_at(more)), study.bill(lru.traffic_at(now)));
    format!(
        "at R={} lru's bill is {change} with {} than with {}",
        rounded(study.asymmetry.ratio()),
        study.memory(more),
        study.memory(now),
    )
}

fn of_answer(study: &CurveStudy, answer: &TargetAnswer) -> String {
    let mut needs: Vec<(&SmallestMemory, String)> = Vec::new();
    let mut never: Vec<String> = Vec::new();
    for (policy, smallest) in study.policies.iter().zip(&answer.smallest) {
        match smallest {
            Some(smallest) => needs.push((smallest, policy.to_string())),
            None => never.push(policy.to_string()),
        }
    }
    needs.sort_by_key(|(smallest, _)| smallest.frames);
    let target = match answer.target.is_relative() {
        true => format!("{} against {} with {}", answer.target, answer.baseline, study.memory(answer.baseline_frames)),
        false => answer.target.to_string(),
    };
    let needs: Vec<String> = needs
        .iter()
        .map(|(smallest, policy)| {
            let about = match smallest.estimate.sample.is_all() {
                true => "",
                false => "about ",
            };
            format!("{policy} needs {about}{}", study.memory(smallest.frames))
        })
        .collect();
    let never = match never.is_empty() {
        true => String::new(),
        false => format!("no memory is enough for {}", never.join(", ")),
    };
    let parts: Vec<String> = needs.into_iter().chain([never]).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
    format!("{target}: {}", parts.join("; "))
}

impl CurveStudy {
    /// What the other treatment would change in the curves of a study, in a sentence: the largest change of a bill, and in how
    /// many places another online policy would be the best. `None` where no bill would change by more than 2 %, and no best policy.
    pub fn sentence_on_end(&self) -> Option<String> {
        let rows = self.rows();
        let online = |name: &str| {
            let named = self.policies.iter().find(|policy| policy.to_string() == name);
            named.is_none_or(SimPolicy::online)
        };
        let bills: Vec<dirty_end::BillEitherWay> = rows
            .iter()
            .filter(|row| row.target.is_none())
            .map(|row| dirty_end::BillEitherWay {
                policy: &row.policy,
                online: online(&row.policy),
                at: format!("{} frames", row.frames),
                cost: row.cost,
                otherwise: cost_otherwise(row),
                estimated: false,
            })
            .collect();
        dirty_end::sentence(self.at_end.name(), &bills)
    }
}

fn cost_otherwise(row: &CurveRow) -> f64 {
    let owed = dirty_end::owed(row.at_end, row.end_writes, row.dirty_left, row.dirty_before);
    row.cost + owed * row.asymmetry.0 / row.references as f64
}
