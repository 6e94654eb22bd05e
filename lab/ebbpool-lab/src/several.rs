//! Policies over several traces, and several seeds of a generator, in one table.

use crate::advice::best_choice;
use crate::best::{self, BestPolicy, BillCell, Bills, JudgedBills, distinct_prices, distinct_sizes, without_repeats};
use crate::compare::Comparison;
use crate::numbers::decimals;
use crate::policy_selection::BASELINE;
use crate::run_result::RunResult;
use crate::schema::result_row;
use crate::statistics::{FEWEST_UNITS, MeanEstimate, Resampling};
use crate::trace_set::TraceGroup;

/// The bills of a group of traces that differ in their seeds: means, each with half of its interval.
#[derive(Debug)]
pub struct SeedMeans<'a> {
    comparisons: &'a [Comparison],
}

impl<'a> SeedMeans<'a> {
    /// The comparisons of a group, at least one; all are answers to the same request.
    pub fn new(comparisons: &'a [Comparison]) -> Self {
        SeedMeans { comparisons }
    }

    /// The bill per reference of a policy at the price and the size of these indices; `None` if one is missing.
    pub fn bill(&self, (pricing, policy, size): (usize, usize, usize)) -> Option<MeanEstimate> {
        let bills = self.comparisons.iter();
        let bills = bills.map(|one| Some(result(one, (pricing, policy, size))?.cost));
        MeanEstimate::from_samples(&bills.collect::<Option<Vec<f64>>>()?)
    }
}

/// A finished result; `None` if it is missing or its device failed.
fn result(comparison: &Comparison, (pricing, policy, size): (usize, usize, usize)) -> Option<&RunResult> {
    let result = comparison.result([pricing, policy, size]);
    result.filter(|result| result.failed.is_none())
}

/// What an interval is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resampled {
    /// Other traces of the kind.
    Traces,
    /// Other seeds of the same traces.
    Seeds,
}

result_row! {
    /// A policy over several traces.
    pub struct SummaryRow {
        /// The policy in canonical spelling.
        policy: String ["" key],
        /// The geometric mean of its bills over those of lru; null without lru.
        against_baseline: Option<f64> [""],
        /// The geometric mean of its bills over those of the policy to take.
        against_best: f64 [""],
        /// The lower end of the 95 % interval of `against_best`; null where there are too few traces.
        against_best_low: Option<f64> [""],
        /// The upper end.
        against_best_high: Option<f64> [""],
        /// The cells in which no online policy costs less; each trace, size and price is one.
        wins: u64 ["cells"],
        /// All cells; the means leave out those in which the least bill of an online policy is 0.
        cells: u64 ["cells"],
        /// Its largest bill over the least bill of an online policy in the same cell, where that is not 0.
        worst: f64 [""],
        /// The trace, the size and the price of that cell.
        worst_at: String [""],
    }
}

/// All policies over several traces: one row for each policy that has finished everywhere, the best first, by the rule of
/// [`best`](crate::best).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The rows.
    pub rows: Vec<SummaryRow>,
    /// The names of the policies that are compared with each other.
    rivals: Vec<String>,
    /// Whether these know nothing of the future.
    knows_nothing: bool,
    /// What was compared, in words: "3 traces, 5 seeds of 2 of them, 4 sizes and 4 asymmetries".
    pub over: String,
    /// What the intervals are of; `None` if there are none.
    pub resampled: Option<Resampled>,
    /// What is left out because the same references were named before, each with the name of the earlier trace.
    pub repeats: Vec<(String, String)>,
    /// Cells that the means leave out because the least bill is 0.
    pub left_out: u64,
    /// The policy to take.
    best: BestPolicy,
    /// Its name.
    best_name: String,
}

impl Summary {
    /// The summary of the comparisons of these groups; all are answers to the same request. `None` for a single trace,
    /// and if no policy has finished everywhere.
    pub fn from_comparisons(comparisons: &[Comparison], groups: &[TraceGroup]) -> Option<Self> {
        let first = comparisons.first()?;
        let is_complete = groups.last()?.members.end == comparisons.len();
        if !is_complete {
            return None;
        }
        let finished = |&policy: &usize| {
            let of_one = |one: &Comparison| all_results(one, policy).all(|it| it.is_some());
            comparisons.iter().all(of_one)
        };
        let policies: Vec<usize> = (0..first.policies.len()).filter(finished).collect();
        if policies.is_empty() {
            return None;
        }
        let of_these = |cell: BillCell| BillCell { bills: policies.iter().map(|&at| cell.bills[at]).collect(), ..cell };
        let cells = without_repeats(best::cells(comparisons, groups), groups);
        let cells: Vec<BillCell> = cells.into_iter().map(of_these).collect();
        let online: Vec<bool> = policies.iter().map(|&at| first.online[at]).collect();
        let bills = Bills { online: &online, cells: &cells };
        let bills = bills.judged();
        let (repeated, own): (Vec<&TraceGroup>, Vec<&TraceGroup>) = groups.iter().partition(|group| group.repeats.is_some());
        let has_cells = |trace: usize| cells.iter().any(|cell| cell.trace == trace);
        let traces = (0..comparisons.len()).filter(|&trace| has_cells(trace));
        if traces.count() < 2 || bills.paid.is_empty() {
            return None;
        }
        let compared = own.iter().copied();
        let compared: Vec<&TraceGroup> = compared.filter(|group| group.members.clone().any(has_cells)).collect();
        let units = Units::new(&own, &bills, comparisons.len());
        let best = bills.best()?;
        let names: Vec<&str> = policies.iter().map(|&at| first.policies[at].as_str()).collect();
        let name = |group: &&TraceGroup| {
            let earlier = groups.get(group.repeats?)?;
            Some((group.name.clone(), earlier.name.clone()))
        };
        Some(Summary {
            rows: rows(&names, &best, &bills, &units, comparisons),
            rivals: bills.rivals.iter().map(|&at| names[at].into()).collect(),
            knows_nothing: bills.rivals.iter().any(|&at| online[at]),
            over: over(comparisons, &compared),
            resampled: units.resampled,
            repeats: repeated.iter().filter_map(name).collect(),
            left_out: best.free as u64,
            best_name: names[best.policy].into(),
            best,
        })
    }

    /// The answer in a sentence: the policy to take, and how sure that is.
    pub fn sentence(&self) -> String {
        let mut online = self.rows.iter().filter(|row| self.knows_nothing && self.rivals.contains(&row.policy));
        let Some(best) = online.next() else {
            return String::new();
        };
        let name = &best.policy;
        let ratio = best.against_baseline.filter(|_| name != BASELINE);
        let mut text = best_choice(name, &self.over, &self.best, ratio);
        if let Some(next) = online.next() {
            text += &match next.against_best {
                ratio if ratio < 1.0 => format!(
                    "; {} costs {} % less on average, but is free in fewer cells",
                    next.policy,
                    decimals(100.0 * (1.0 - ratio), 1)
                ),
                ratio => format!("; {} costs {} % more", next.policy, percent(ratio)),
            };
            if let (Some(low), Some(high)) = (next.against_best_low, next.against_best_high) {
                text += &format!(" ({} to {})", percent(low), percent(high));
            }
        }
        text
    }

    /// True if the policy to take is the baseline, so that both ratios of the table are the same.
    fn is_baseline_best(&self) -> bool {
        self.best_name == BASELINE
    }

    /// The heads of the table's columns.
    pub fn heads(&self) -> Vec<String> {
        let over_baseline = (!self.is_baseline_best()).then(|| format!("over {BASELINE}"));
        let mut heads = vec!["policy".into()];
        heads.extend(over_baseline);
        heads.extend([format!("over {}", self.best_name), "95 %".into(), "best in".into(), "at most above".into()]);
        heads
    }

    /// The cells of each row.
    pub fn cells(&self) -> Vec<Vec<String>> {
        let ratio = |value: f64| decimals(value, 3);
        let row = |row: &SummaryRow| {
            let interval = row.against_best_low.zip(row.against_best_high);
            let over_baseline = row.against_baseline.map_or("-".into(), ratio);
            let mut cells = vec![row.policy.clone()];
            cells.extend((!self.is_baseline_best()).then_some(over_baseline));
            cells.extend([
                ratio(row.against_best),
                interval.map_or("-".into(), |(low, high)| format!("{} to {}", ratio(low), ratio(high))),
                format!("{} of {}", row.wins, row.cells),
                format!("{:.1} %", 100.0 * (row.worst - 1.0).max(0.0)),
            ]);
            cells
        };
        self.rows.iter().map(row).collect()
    }

    /// What the table's figures are, in sentences.
    pub fn notes(&self) -> Vec<String> {
        let rivals = match self.knows_nothing {
            true => "an online policy",
            false => "a policy",
        };
        let mut notes = vec![
            format!("geometric means of bills over {}; above: over the least bill of {rivals}", self.over),
            self.about_intervals(),
        ];
        let repeats = self.repeats.iter();
        notes.extend(repeats.map(|(name, earlier)| format!("{name} has the references of {earlier}, and does not count")));
        if self.left_out > 0 {
            let cells = count(self.left_out as usize, "cell", "cells");
            notes.push(format!("the means leave out {cells} in which the least bill is 0"));
        }
        let best = self.rows.iter().find(|row| row.policy == self.best_name);
        notes.extend(
            best.filter(|row| row.worst > 1.0)
                .map(|row| format!("{} is farthest above the best at {}", row.policy, row.worst_at)),
        );
        notes
    }

    /// How the intervals came about, or why there are none, in a sentence.
    fn about_intervals(&self) -> String {
        match self.resampled {
            Some(Resampled::Traces) => "95 %: paired intervals, for other traces of these kinds (bootstrap over traces)".into(),
            Some(Resampled::Seeds) => "95 %: paired intervals, for other seeds of these traces (bootstrap over seeds)".into(),
            None => {
                format!("no intervals: they need {FEWEST_UNITS} traces, or {FEWEST_UNITS} seeds")
            }
        }
    }
}

/// How far a ratio is above 1, in per cent.
fn percent(ratio: f64) -> String {
    decimals(100.0 * (ratio - 1.0), 1)
}

fn all_results(comparison: &Comparison, policy: usize) -> impl Iterator<Item = Option<&RunResult>> {
    let (pricings, sizes) = (comparison.pricings.len(), comparison.sizes.len());
    let places = (0..pricings).flat_map(move |pricing| (0..sizes).map(move |size| (pricing, size)));
    places.map(move |(pricing, size)| result(comparison, (pricing, policy, size)))
}

/// A cell's trace, size and price in words.
fn place(comparisons: &[Comparison], cell: &BillCell) -> String {
    let comparison = &comparisons[cell.trace];
    let price = &comparison.pricings[cell.pricing];
    let at_price = match &price.device_name {
        Some(_) => String::new(),
        None => format!(", R = {}", price.label()),
    };
    format!("{}, {}{at_price}", comparison.name, comparison.sizes[cell.size])
}

/// A number of things in words.
fn count(number: usize, one: &str, more: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {more}"),
    }
}

/// What the intervals are of, and how they are drawn.
struct Units<'a> {
    /// Those that have cells.
    groups: Vec<&'a TraceGroup>,
    resampled: Option<Resampled>,
    resampling: Option<Resampling>,
    /// Of each trace, its cells.
    cells: Vec<Vec<usize>>,
}

impl<'a> Units<'a> {
    fn new(groups: &[&'a TraceGroup], bills: &JudgedBills, traces: usize) -> Self {
        let mut cells = vec![Vec::new(); traces];
        for (at, (cell, _)) in bills.paid.iter().enumerate() {
            cells[cell.trace].push(at);
        }
        let has_cells = |trace: usize| !cells[trace].is_empty();
        let groups = groups.iter().copied();
        let groups: Vec<&TraceGroup> = groups.filter(|group| group.members.clone().any(has_cells)).collect();
        let mut members = groups.iter().flat_map(|group| group.members.clone());
        let by_traces = Resampling::new(groups.len());
        let (resampled, resampling) = match by_traces {
            Some(by_traces) => (Some(Resampled::Traces), Some(by_traces)),
            None if members.all(has_cells) => {
                let by_seeds = Resampling::new(seeds(&groups));
                (by_seeds.as_ref().map(|_| Resampled::Seeds), by_seeds)
            }
            None => (None, None),
        };
        Units { groups, resampled, resampling, cells }
    }

    fn of_trace(&self, trace: usize, figure: &impl Fn(usize) -> f64) -> Option<f64> {
        let figures: Vec<f64> = self.cells[trace].iter().map(|&cell| figure(cell)).collect();
        (!figures.is_empty()).then(|| average(&figures))
    }

    /// The figure of each group; none of a group all of whose cells are left out.
    fn of_groups(&self, figure: &impl Fn(usize) -> f64) -> impl Iterator<Item = f64> {
        self.groups.iter().filter_map(|group| {
            let members = group.members.clone();
            let of_seeds: Vec<f64> = members.filter_map(|it| self.of_trace(it, figure)).collect();
            (!of_seeds.is_empty()).then(|| average(&of_seeds))
        })
    }

    /// The interval of the mean of a figure.
    fn interval(&self, figure: &impl Fn(usize) -> f64) -> Option<[f64; 2]> {
        let resampling = self.resampling.as_ref()?;
        let samples: Vec<f64> = match self.resampled? {
            Resampled::Traces => self.of_groups(figure).collect(),
            Resampled::Seeds => {
                let of_seed = |seed: usize| {
                    // A trace without seeds is the same with each seed of the others.
                    let trace = |group: &TraceGroup| match group.members.len() {
                        1 => group.members.start,
                        _ => group.members.start + seed,
                    };
                    let groups = self.groups.iter();
                    let of_groups: Vec<f64> = groups.filter_map(|group| self.of_trace(trace(group), figure)).collect();
                    average(&of_groups)
                };
                (0..seeds(&self.groups)).map(of_seed).collect()
            }
        };
        // The logarithm of a bill of 0, which a policy that knows the future may have, is not.
        let is_whole = samples.iter().all(|sample| sample.is_finite());
        let is_whole = is_whole && samples.len() == resampling.units();
        is_whole.then(|| resampling.interval(&samples))
    }
}

fn average(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

/// The seeds of those traces that have several; 1 if there are none.
fn seeds(groups: &[&TraceGroup]) -> usize {
    let of_each = groups.iter().map(|group| group.members.len());
    of_each.filter(|&seeds| seeds > 1).min().unwrap_or(1)
}

fn rows(names: &[&str], best: &BestPolicy, bills: &JudgedBills, units: &Units, comparisons: &[Comparison]) -> Vec<SummaryRow> {
    let (paid, free, best) = (&bills.paid, &bills.free, best.policy);
    let bill = |cell: &BillCell, policy: usize| cell.bills[policy].unwrap_or(f64::INFINITY);
    let ratio = |policy: usize| {
        move |at: usize| {
            let (cell, _) = paid[at];
            (bill(cell, policy) / bill(cell, best)).ln()
        }
    };
    let baseline = names.iter().position(|name| *name == BASELINE);
    let row = |policy: usize| {
        let above = |(cell, least): &&(&BillCell, f64)| bill(cell, policy) / least;
        let worst = paid.iter().max_by(|a, b| above(a).total_cmp(&above(b)));
        let interval = match policy == best {
            true => None,
            false => units.interval(&ratio(policy)),
        };
        let is_free = |cell: &&&BillCell| bill(cell, policy) <= 0.0;
        let wins = paid.iter().filter(|cell| above(cell) <= 1.0).count();
        SummaryRow {
            policy: names[policy].into(),
            against_baseline: baseline.and_then(|baseline| bills.mean_ratio(policy, baseline)),
            against_best: bills.mean_ratio(policy, best).unwrap_or(1.0),
            against_best_low: interval.map(|[low, _]| low.exp()),
            against_best_high: interval.map(|[_, high]| high.exp()),
            wins: (wins + free.iter().filter(is_free).count()) as u64,
            cells: (paid.len() + free.len()) as u64,
            worst: worst.map_or(1.0, |worst| above(&worst)),
            worst_at: worst.map_or(String::new(), |(cell, _)| place(comparisons, cell)),
        }
    };
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|&a, &b| bills.standing(a).total_cmp(&bills.standing(b)));
    order.into_iter().map(row).collect()
}

/// What was compared, in words.
fn over(comparisons: &[Comparison], groups: &[&TraceGroup]) -> String {
    let mut parts = vec![count(groups.len(), "trace", "traces")];
    let seeded = groups.iter().filter(|group| group.members.len() > 1).count();
    match seeded {
        0 => {}
        all if all == groups.len() => parts.push(format!("{} seeds", seeds(groups))),
        some => parts.push(format!("{} seeds of {some} of them", seeds(groups))),
    }
    // Of a small trace several sizes may be one.
    let members = groups.iter().flat_map(|group| group.members.clone());
    let sizes = members.filter_map(|trace| Some(distinct_sizes(comparisons.get(trace)?).len()));
    parts.push(count(sizes.max().unwrap_or(0), "size", "sizes"));
    let first = comparisons.first();
    let asked = first.filter(|it| it.pricings.iter().all(|price| price.device_name.is_none()));
    parts.extend(asked.map(|comparison| {
        let prices = distinct_prices(comparison).len();
        count(prices, "asymmetry", "asymmetries")
    }));
    let last = parts.pop().unwrap_or_default();
    format!("{} and {last}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use ebbpool_trace::ReadOptions;

    use super::*;
    use crate::compare::CompareRequest;
    use crate::events::Silent;
    use crate::lab::{Lab, Settings};
    use crate::memory_size::MemorySize;
    use crate::policy_selection::PolicySelection;
    use crate::pricing::PricingRequest;
    use crate::trace_set::TraceSet;

    fn compared(names: &[&str], seeds: u64, policies: &str) -> (Vec<Comparison>, Vec<TraceGroup>) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let set = TraceSet::with_seeds(&names, &ReadOptions::default(), seeds).expect("traces");
        let lab = Lab::new(Settings::default(), &Silent);
        let request = CompareRequest::new(
            PolicySelection::lists([policies]),
            vec![MemorySize::frames(20), MemorySize::frames(40)],
            vec![PricingRequest::default()],
        );
        let compared = set.sources.iter().map(|source| lab.compare(source, &request));
        let compared: Result<Vec<Comparison>, _> = compared.collect();
        (compared.expect("results"), set.groups)
    }

    fn cost(comparison: &Comparison, policy: usize, size: usize) -> f64 {
        let cell = &comparison.cells[policy * comparison.sizes.len() + size];
        cell.as_ref().expect("a result").result.cost
    }

    /// The figures are those of their definitions, worked out from the bills one by one.
    #[test]
    fn figures_are_those_of_their_definitions() {
        let names = ["zipf:pages=300,refs=3000", "uniform:pages=90,refs=3000"];
        let (all, groups) = compared(&names, 1, "lru,cflru,fifo");
        let summary = Summary::from_comparisons(&all, &groups).expect("a summary");
        assert_eq!(summary.over, "2 traces, 2 sizes and 1 asymmetry");
        assert_eq!(summary.resampled, None);
        let mut product = [1.0f64; 3];
        let (mut wins, mut worst) = ([0; 3], [0.0f64; 3]);
        for comparison in &all {
            for size in 0..2 {
                let least = (0..3).map(|it| cost(comparison, it, size)).fold(9e9, f64::min);
                for policy in 0..3 {
                    let bill = cost(comparison, policy, size);
                    product[policy] *= bill / cost(comparison, 0, size);
                    wins[policy] += u64::from(bill == least);
                    worst[policy] = worst[policy].max(bill / least);
                }
            }
        }
        for row in &summary.rows {
            let at = all[0].policies.iter().position(|it| *it == row.policy).expect("a policy");
            let mean = product[at].powf(0.25);
            let found = row.against_baseline.expect("lru is there");
            assert!((found - mean).abs() < 1e-9, "{}: {found} {mean}", row.policy);
            assert_eq!((row.wins, row.cells, row.worst), (wins[at], 4, worst[at]));
        }
        assert_eq!(summary.rows[0].policy, "cflru");
        assert_eq!(summary.rows[0].against_best, 1.0);
        assert!(summary.sentence().starts_with("cflru is the "));
    }

    /// Each trace counts as much as any other, whatever the number of its seeds.
    #[test]
    fn seeds_are_no_further_traces() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.txt");
        let lines = (0..2000u64).map(|at| format!("W {}\n", at * at * 7 % 90));
        std::fs::write(&path, lines.collect::<String>()).expect("a file");
        let names = ["zipf:pages=300,refs=3000", path.to_str().expect("UTF-8")];
        let (all, groups) = compared(&names, 5, "lru,cflru");
        assert_eq!(all.len(), 6);
        let summary = Summary::from_comparisons(&all, &groups).expect("a summary");
        assert_eq!(summary.resampled, Some(Resampled::Seeds));
        assert_eq!(summary.over, "2 traces, 5 seeds of 1 of them, 2 sizes and 1 asymmetry");
        let log = |comparison: &Comparison| {
            let of_size = |size| (cost(comparison, 1, size) / cost(comparison, 0, size)).ln();
            (of_size(0) + of_size(1)) / 2.0
        };
        let of_seeds = all[..5].iter().map(log).sum::<f64>() / 5.0;
        let mean = ((of_seeds + log(&all[5])) / 2.0).exp();
        let row = summary.rows.iter().find(|row| row.policy == "cflru").expect("a row");
        assert!((row.against_baseline.expect("lru") - mean).abs() < 1e-12);
        // The interval is that of the other policy over the best, and contains its figure.
        let other = &summary.rows[1];
        let (low, high) = (other.against_best_low, other.against_best_high);
        let (low, high) = (low.expect("a low end"), high.expect("a high end"));
        assert!(low <= other.against_best && other.against_best <= high && low < high);
    }

    /// What is named twice is no further evidence, and what is left out is neither counted nor drawn.
    #[test]
    fn equal_traces_sizes_and_cells_without_a_bill_do_not_count() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut paths = Vec::new();
        for name in ["a.txt", "b.txt"] {
            let path = directory.path().join(name);
            let lines = (0..500u64).map(|at| format!("W {}\n", at * at * 7 % 90));
            std::fs::write(&path, lines.collect::<String>()).expect("a file");
            paths.push(path.to_str().expect("UTF-8").to_owned());
        }
        let names: Vec<&str> = paths.iter().map(String::as_str).collect();
        let (all, groups) = compared(&names, 1, "lru,fifo");
        assert!(groups[1].repeats.is_some() && Summary::from_comparisons(&all, &groups).is_none());
        // A trace of 20 pages has no bill after the warm-up with either size, and the file of 24 pages has none with 40 frames.
        let few = [
            "uniform:pages=20,refs=3000", "uniform:pages=200,refs=3000", "zipf:pages=300,refs=3000", names[0],
            "zipf:pages=200,refs=3000", names[1],
        ];
        let set = TraceSet::with_seeds(&few.map(String::from), &ReadOptions::default(), 1);
        let set = set.expect("traces");
        let lab = Lab::new(Settings::default(), &Silent);
        let twice = [20, 40, 20].map(MemorySize::frames);
        let mut request = CompareRequest::new(
            PolicySelection::lists(["lru,fifo"]),
            twice.into(),
            vec![PricingRequest::default(), PricingRequest::default()],
        );
        request.counting.warmup = "50%".parse().expect("a warm-up");
        request.counting.at_end = ebbpool_sim::AtEnd::Free;
        let all = set.sources.iter().map(|source| lab.compare(source, &request));
        let all: Vec<Comparison> = all.collect::<Result<_, _>>().expect("results");
        let summary = Summary::from_comparisons(&all, &set.groups).expect("a summary");
        assert_eq!(summary.over, "5 traces, 2 sizes and 1 asymmetry");
        assert_eq!((summary.left_out, summary.repeats.len()), (3, 1));
        assert_eq!(summary.rows[0].cells, 10);
        assert_eq!(summary.resampled, None);
    }

    /// The table of all traces names the policy that the rule takes: each trace counts as much as any other, also one with fewer
    /// sizes.
    #[test]
    fn the_best_of_the_table_is_that_of_the_rule() {
        let names = ["zipf:pages=2000,refs=20000", "zipf:pages=90,refs=3000"];
        let set = TraceSet::with_seeds(&names.map(String::from), &ReadOptions::default(), 1);
        let set = set.expect("traces");
        let lab = Lab::new(Settings::default(), &Silent);
        let sizes = ["0.5%", "1%", "3%"].map(|size| size.parse().expect("a size"));
        let asymmetry = PricingRequest::Asymmetry("1".parse().expect("an asymmetry"));
        let policies = PolicySelection::lists(["sieve,lirs"]);
        let request = CompareRequest::new(policies, sizes.into(), vec![asymmetry]);
        let of = |source| lab.compare(source, &request).expect("results");
        let all: Vec<Comparison> = set.sources.iter().map(of).collect();
        let summary = Summary::from_comparisons(&all, &set.groups).expect("a summary");
        let cells = best::cells(&all, &set.groups);
        assert_eq!(cells.len(), 5);
        let online = &all[0].online;
        let best = Bills { online, cells: &cells }.best();
        let best = &all[0].policies[best.expect("a policy").policy];
        assert_eq!((best.as_str(), &summary.rows[0].policy), ("lirs", best));
        assert!(summary.sentence().starts_with("lirs is the "));
    }

    /// A bill of 0 of a policy that knows the future leaves no cell out, and where the baseline is the best it has one column.
    #[test]
    fn free_cells_are_decided_first_and_count_only_among_rivals() {
        let names = ["uniform:pages=90,refs=3000", "zipf:pages=300,refs=3000"];
        let (mut all, groups) = compared(&names, 1, "lru,fifo,belady");
        let mut set = |trace: usize, policy: usize, size: usize, cost: f64| {
            let cell = all[trace].cells[policy * 2 + size].as_mut();
            cell.expect("a result").result.cost = cost;
        };
        set(0, 2, 0, 0.0);
        set(1, 1, 1, 0.0);
        let summary = Summary::from_comparisons(&all, &groups).expect("a summary");
        assert_eq!(summary.left_out, 1);
        // fifo costs more on average, and is free in a cell in which lru is not.
        let order: Vec<&str> = summary.rows.iter().map(|row| row.policy.as_str()).collect();
        assert_eq!(order, ["fifo", "belady", "lru"]);
        assert!(summary.rows[2].against_best < 1.0);
        assert_eq!((summary.rows[0].cells, summary.rows[1].against_best), (4, 0.0));
        let stated = summary.sentence();
        assert!(stated.starts_with("fifo is the best choice over "), "{stated}");
        assert!(stated.contains("% less on average, but is free in fewer cells"), "{stated}");
        let (all, groups) = compared(&names, 1, "lru,fifo");
        let summary = Summary::from_comparisons(&all, &groups).expect("a summary");
        assert_eq!(summary.rows[0].policy, "lru");
        let heads = ["policy", "over lru", "95 %", "best in", "at most above"];
        assert_eq!(summary.heads(), heads);
        assert!(summary.cells().iter().all(|row| row.len() == heads.len()));
    }

    #[test]
    fn seeds_that_two_generators_share_are_refused() {
        let names = ["zipf:pages=9,refs=90", "zipf:pages=9,refs=90,seed=3"].map(String::from);
        let set = |seeds| TraceSet::with_seeds(&names, &ReadOptions::default(), seeds);
        assert!(set(2).is_ok());
        let error = set(5).expect_err("seed 3 is there twice");
        assert!(error.to_string().contains("seed=3 is among the seeds of both"), "{error}");
    }

    #[test]
    fn one_trace_has_no_summary_and_offline_policies_are_no_rivals() {
        let (all, groups) = compared(&["uniform:pages=90,refs=3000"], 1, "lru,fifo");
        assert!(Summary::from_comparisons(&all, &groups).is_none());
        let (all, groups) = compared(&["uniform:pages=90,refs=3000"], 5, "belady,lru,fifo");
        let summary = Summary::from_comparisons(&all, &groups).expect("a summary");
        let belady = &summary.rows[0];
        assert!(belady.policy == "belady" && belady.against_best < 1.0);
        assert!(!summary.sentence().contains("belady"));
        assert!(Summary::from_comparisons(&all[..3], &groups).is_none(), "not all have finished");
    }
}
