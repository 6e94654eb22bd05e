//! Ranks policies by their total cost if one policy is used everywhere.

use schemars::JsonSchema;
use serde::Serialize;

use super::format::contenders;
use super::format::{Experiment, Ranking};
use super::metric::Metric;
use super::plan::PointCoordinates;
use super::point::Point;
use super::seeds::{self, MeanEstimate, geometric_mean};

/// The table of a ranking, with the best policy first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RankingTable {
    #[schemars(extend("x-role" = "key"))]
    pub(crate) title: Option<String>,
    #[schemars(extend("x-role" = "key"))]
    pub(crate) ratio_to: String,
    #[schemars(extend("x-role" = "key"))]
    pub(crate) metric: Metric,
    /// The parameter with a column for each of its values, and these values.
    columns: Option<(String, Vec<String>)>,
    rows: Vec<RankingRow>,
}

/// The ratios of a policy to the reference policy; less is better.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RankingRow {
    #[schemars(extend("x-role" = "key"))]
    policy: String,
    points: usize,
    geometric_mean: f64,
    /// Half of its 95 % confidence interval, if a figure depends on random numbers.
    geometric_mean_ci95: Option<f64>,
    worst: f64,
    worst_at: String,
    /// The geometric mean of each column.
    of_columns: Vec<Option<f64>>,
}

/// The factor by which one value is worse than another.
pub(crate) fn times_worse(metric: Metric) -> impl Fn(f64, f64) -> f64 {
    move |value, other| match metric.more_is_better() {
        true => other / value,
        false => value / other,
    }
}

/// Ranks the policies; `None` if there is nothing to compare.
pub(crate) fn rank(experiment: &Experiment, ranking: &Ranking, points: &[Point]) -> Option<RankingTable> {
    let metric = ranking.metric.unwrap_or(experiment.metric);
    let base: Vec<&Point> = of_policy(points, &ranking.ratio_to).collect();
    let selected = contenders::expanded(experiment, &ranking.policies);
    let mut policies: Vec<&str> = Vec::new();
    for point in points {
        let shown = selected.is_empty() || selected.contains(&point.policy);
        let is_base = point.policy == ranking.ratio_to;
        if shown && !is_base && !policies.contains(&point.policy.as_str()) {
            policies.push(&point.policy);
        }
    }
    let columns = ranking.columns.as_ref().map(|name| {
        let mut values: Vec<String> = Vec::new();
        for value in base.iter().filter_map(|point| point.get(name)) {
            if !values.iter().any(|listed| listed == value) {
                values.push(value.to_string());
            }
        }
        (name.clone(), values)
    });
    let rows = policies.iter().filter_map(|policy| {
        let ratios = ratios(points, policy, &base, metric);
        row(policy, &ratios, columns.as_ref())
    });
    let mut rows: Vec<RankingRow> = rows.collect();
    rows.sort_by(|a, b| a.geometric_mean.total_cmp(&b.geometric_mean));
    (!rows.is_empty()).then(|| RankingTable {
        title: ranking.title.clone(),
        ratio_to: ranking.ratio_to.clone(),
        metric,
        columns,
        rows,
    })
}

fn of_policy<'a>(points: &'a [Point], policy: &str) -> impl Iterator<Item = &'a Point> {
    points.iter().filter(move |point| point.policy == policy)
}

/// A ratio for each seed, and its coordinates.
type Ratios<'a> = (Vec<f64>, &'a PointCoordinates);

fn ratios<'a>(points: &'a [Point], policy: &str, base: &[&Point], metric: Metric) -> Vec<Ratios<'a>> {
    let times = times_worse(metric);
    let ratio = |point: &'a Point| {
        let other = base.iter().find(|other| other.place == point.place)?;
        Some((point.compared(other, metric, &times)?, &point.place))
    };
    of_policy(points, policy).filter_map(ratio).collect()
}

fn row(policy: &str, ratios: &[Ratios], columns: Option<&(String, Vec<String>)>) -> Option<RankingRow> {
    let of_all = geometric_mean(ratios.iter().map(|(samples, _)| samples.as_slice()))?;
    let mean = |(samples, place): &Ratios| Some((MeanEstimate::from_samples(samples)?.mean, place.says()));
    let worst = ratios.iter().filter_map(mean);
    let (worst, worst_at) = worst.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let of_column = |name: &str, value: &str| {
        let of_value = ratios.iter().filter(|(_, place)| place.get(name) == Some(value));
        let samples: Vec<&[f64]> = of_value.map(|(samples, _)| samples.as_slice()).collect();
        Some(geometric_mean(samples.iter().copied())?.mean)
    };
    let of_columns = columns.map(|(name, values)| {
        let means = values.iter().map(|value| of_column(name, value));
        means.collect()
    });
    Some(RankingRow {
        policy: policy.into(),
        points: ratios.len(),
        geometric_mean: of_all.mean,
        geometric_mean_ci95: of_all.half_width,
        worst,
        worst_at,
        of_columns: of_columns.unwrap_or_default(),
    })
}

impl RankingTable {
    /// The heads of the columns.
    pub fn heads(&self) -> Vec<String> {
        let mut heads =
            vec!["policy".to_string(), format!("geometric mean over {} (worst)", self.ratio_to), "worst at".to_string()];
        if let Some((name, values)) = &self.columns {
            let plain = name == super::format::WORKLOAD;
            heads.extend(values.iter().map(|value| match plain {
                true => value.clone(),
                false => format!("{name} {value}"),
            }));
        }
        heads
    }

    /// The cells of each row.
    pub fn cells(&self) -> Vec<Vec<String>> {
        let ratio = |value: f64| format!("{value:.3}");
        let row = |row: &RankingRow| {
            let mean = format!(
                "{}{} ({})",
                ratio(row.geometric_mean),
                seeds::interval_text(row.geometric_mean_ci95),
                ratio(row.worst)
            );
            let columns = row.of_columns.iter().map(|mean| mean.map(ratio));
            let mut cells = vec![row.policy.clone(), mean, row.worst_at.clone()];
            cells.extend(columns.map(Option::unwrap_or_default));
            cells
        };
        self.rows.iter().map(row).collect()
    }

    /// The ranking as CSV.
    pub(crate) fn as_csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        let fixed = ["policy", "points", "geometric_mean", "geometric_mean_ci95", "worst", "worst_at"];
        let values = self.columns.iter().flat_map(|(_, values)| values);
        csv.write_record(fixed.into_iter().chain(values.map(String::as_str)))?;
        let optional = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        for row in &self.rows {
            let fixed = [
                row.policy.clone(),
                row.points.to_string(),
                row.geometric_mean.to_string(),
                optional(row.geometric_mean_ci95),
                row.worst.to_string(),
                row.worst_at.clone(),
            ];
            let columns = row.of_columns.iter().map(|mean| optional(*mean));
            csv.write_record(fixed.into_iter().chain(columns))?;
        }
        csv.into_inner().map_err(|error| error.into_error().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Values;

    const FILE: &str = r#"
id = "test"
paper = "own"
number = "Table 0"
title = "a test"
basis = "counts"
[workloads]
"one" = "uniform:"
"two" = "uniform:seed={seed}"
[policies]
"A" = "lru"
"group" = { each-of = "{}", among = ["fifo", "clock"] }
"best" = { best-of = "{}", among = "published" }
[setting]
frames = 10
seeds = [1, 2]
[[ranking]]
ratio-to = "best"
policies = ["A", "group"]
columns = "workload"
[[claim]]
says = "so"
best = { policy = "best" }
"#;

    fn point(workload: &str, policy: &str, runs: &[f64]) -> Point {
        let runs: Vec<Values> = runs.iter().map(|cost| Values::from([(Metric::Cost, *cost)])).collect();
        Point {
            place: PointCoordinates { workload: workload.into(), at: Vec::new() },
            policy: policy.into(),
            is_guest: false,
            spec: policy.into(),
            frames: Some(10),
            chosen: None,
            values: crate::point::means(&runs),
            runs,
            asymmetry: 1.0,
            read_cost: 1.0,
            moments: Vec::new(),
        }
    }

    #[test]
    fn the_policy_with_the_least_mean_is_first_with_its_worst_point() {
        let experiment = Experiment::parse(FILE, "test.toml").unwrap_or_else(|e| panic!("{e}"));
        let ranking = experiment.rankings().next().expect("a ranking");
        let points = [
            point("one", "best", &[2.0]),
            point("two", "best", &[1.0, 2.0]),
            point("one", "A", &[4.0]),
            point("two", "A", &[2.0, 4.0]),
            point("one", "fifo", &[2.0]),
            point("two", "fifo", &[1.0, 8.0]),
            point("one", "clock", &[2.0]),
            point("two", "clock", &[1.5, 3.0]),
        ];
        let ranked = rank(&experiment, ranking, &points).expect("a table");
        let cells = ranked.cells();
        let row = |at: usize| cells[at].join(" | ");
        assert_eq!(row(0), "clock | 1.225 ± 0 (1.500) | two | 1.000 | 1.500");
        // With seed 1 it is 1, with seed 2 it is 2: 1.5, and t with 1 degree of freedom 12.706.
        assert_eq!(row(1), "fifo | 1.500 ± 6.4 (2.500) | two | 1.000 | 2.500");
        assert_eq!(row(2), "A | 2.000 ± 0 (2.000) | two | 2.000 | 2.000");
        assert_eq!(cells.len(), 3);
        assert_eq!(ranked.heads().join(" | "), "policy | geometric mean over best (worst) | worst at | one | two");
        let csv = String::from_utf8(ranked.as_csv().expect("csv")).expect("text");
        assert_eq!(csv.lines().count(), 4);
        assert!(rank(&experiment, ranking, &points[2..]).is_none(), "nothing to compare with");
    }
}
