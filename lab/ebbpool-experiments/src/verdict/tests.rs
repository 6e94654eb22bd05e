use super::*;
use crate::metric::Values;

/// An experiment with two workloads, three sizes and this claim.
fn experiment(claim: &str) -> Experiment {
    let text = format!(
        r#"
id = "test"
paper = "own"
number = "Figure 0"
title = "a test"
basis = "counts"

[workloads]
"one" = "uniform:"
"two" = "uniform:"

[policies]
"A" = "lru"
"B" = "fifo"

[vary]
frames = [1, 2, 3]

[[claim]]
says = "so"
{claim}
"#
    );
    Experiment::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"))
}

/// Costs of A and B with 1, 2 and 3 frames, for workload one, then two.
type Costs = [([f64; 3], [f64; 3]); 2];

fn points(metric: Metric, costs: &Costs) -> Vec<Point> {
    let mut points = Vec::new();
    for (workload, (a, b)) in ["one", "two"].iter().zip(costs) {
        for (policy, values) in [("A", a), ("B", b)] {
            for (frames, value) in (1..).zip(values) {
                points.push(Point {
                    place: PointCoordinates { workload: workload.to_string(), at: vec![("frames".into(), frames.to_string())] },
                    policy: policy.into(),
                    is_guest: false,
                    spec: policy.into(),
                    frames: Some(frames),
                    chosen: None,
                    values: Values::from([(metric, *value)]),
                    runs: vec![Values::from([(metric, *value)])],
                    asymmetry: 1.0,
                    read_cost: 1.0,
                    moments: Vec::new(),
                });
            }
        }
    }
    points
}

fn verdict(claim: &str, costs: &Costs) -> (Verdict, String) {
    let experiment = experiment(claim);
    let claim = experiment.claims().next().expect("a claim");
    let judged = judge(&experiment, claim, &points(experiment.metric, costs));
    (judged.verdict, judged.ours)
}

const A_BETTER: Costs = [([8.0, 6.0, 4.0], [10.0, 8.0, 5.0]), ([9.0, 6.0, 4.0], [10.0, 8.0, 5.0])];
const A_MOSTLY_BETTER: Costs = [([8.0, 6.0, 4.0], [10.0, 8.0, 5.0]), ([11.0, 9.0, 4.0], [10.0, 8.0, 5.0])];

#[test]
fn orders_hold_at_all_most_or_few_points() {
    for claim in [r#"order = ["A", "B"]"#, r#"best = { policy = "A" }"#] {
        assert_eq!(verdict(claim, &A_BETTER).0, Verdict::Holds);
        let (mostly, ours) = verdict(claim, &A_MOSTLY_BETTER);
        assert_eq!(mostly, Verdict::InPart);
        assert_eq!(ours, "4 of 6 points; not A before B at two, frames 1");
    }
    assert_eq!(verdict(r#"order = ["B", "A"]"#, &A_MOSTLY_BETTER).0, Verdict::DoesNot);
    let equal = [([1.0; 3], [1.0; 3]); 2];
    assert_eq!(verdict(r#"order = ["B", "A"]"#, &equal).0, Verdict::Holds);
}

#[test]
fn orders_are_reversed_for_metrics_where_more_is_better() {
    let claim = r#"metric = "hit-ratio"
order = ["A", "B"]"#;
    let experiment = experiment(claim);
    let claim = experiment.claims().next().expect("a claim");
    let points = points(Metric::HitRatio, &A_BETTER);
    assert_eq!(judge(&experiment, claim, &points).verdict, Verdict::DoesNot);
}

#[test]
fn where_restricts_the_points() {
    let claim = r#"where = { workload = "two", frames = [1, 2] }
order = ["B", "A"]"#;
    assert_eq!(verdict(claim, &A_MOSTLY_BETTER).0, Verdict::Holds);
}

#[test]
fn percentages_hold_within_a_factor_of_two() {
    let of = |percent: &str, take: &str| {
        let claim = format!(
            r#"where = {{ workload = "one" }}
improvement = {{ of = "A", over = "B", percent = {percent}, take = "{take}" }}"#
        );
        verdict(&claim, &A_BETTER)
    };
    // 20, 25 and 20 % better: on the mean 21.7.
    assert_eq!(of("20", "mean"), (Verdict::Holds, "21.7 %".into()));
    assert_eq!(of("11", "mean").0, Verdict::Holds);
    assert_eq!(of("10", "mean").0, Verdict::InPart);
    assert_eq!(of("43", "mean").0, Verdict::Holds);
    assert_eq!(of("44", "mean").0, Verdict::InPart);
    assert_eq!(of("108", "mean").0, Verdict::InPart);
    assert_eq!(of("109", "mean").0, Verdict::DoesNot);
    assert_eq!(of("4.3", "mean").0, Verdict::DoesNot);
    assert_eq!(of("-25", "mean").0, Verdict::DoesNot);
    assert_eq!(of("[20, 30]", "mean"), (Verdict::Holds, "20 to 25 %".into()));
    // Each of them.
    assert_eq!(of("39", "each"), (Verdict::Holds, "20 to 25 %".into()));
    assert_eq!(of("12", "each").0, Verdict::InPart);
}

#[test]
fn up_to_and_at_least_are_limits() {
    let of = |percent: f64, take: &str| {
        let claim = format!(
            r#"where = {{ workload = "one" }}
improvement = {{ of = "A", over = "B", percent = {percent}, take = "{take}" }}"#
        );
        verdict(&claim, &A_BETTER)
    };
    // 20, 25 and 20 % better.
    assert_eq!(of(25.0, "most"), (Verdict::Holds, "up to 25 % (one, frames 2); 3 of 3 points".into()));
    assert_eq!(of(50.0, "most").0, Verdict::Holds);
    assert_eq!(of(51.0, "most").0, Verdict::InPart);
    assert_eq!(of(126.0, "most").0, Verdict::DoesNot);
    // One of three is above the limit, then all.
    assert_eq!(of(24.0, "most"), (Verdict::InPart, "up to 25 % (one, frames 2); 2 of 3 points".into()));
    assert_eq!(of(19.0, "most").0, Verdict::DoesNot);
    assert_eq!(of(20.0, "least"), (Verdict::Holds, "at least 20 % (one, frames 1); 3 of 3 points".into()));
    assert_eq!(of(5.0, "least").0, Verdict::Holds);
    assert_eq!(of(21.0, "least").0, Verdict::DoesNot);
}

#[test]
fn both_ends_of_a_range_are_judged() {
    let of = |range: &str, costs: &Costs| {
        let claim = format!(r#"improvement = {{ of = "A", over = "B", percent = {range} }}"#);
        verdict(&claim, costs)
    };
    // 10 to 25 %.
    assert_eq!(of("[10, 25]", &A_BETTER), (Verdict::Holds, "10 to 25 %".into()));
    assert_eq!(of("[1, 30]", &A_BETTER).0, Verdict::Holds);
    assert_eq!(of("[21, 30]", &A_BETTER).0, Verdict::InPart);
    assert_eq!(of("[1, 60]", &A_BETTER).0, Verdict::InPart);
    // -12.5 to 25 %.
    assert_eq!(of("[1, 30]", &A_MOSTLY_BETTER).0, Verdict::DoesNot);
    // No point is in the range.
    assert_eq!(of("[26, 40]", &A_BETTER).0, Verdict::DoesNot);
}

#[test]
fn trends_are_judged_by_ends_and_steps() {
    let trend = |goes: &str, costs: &Costs| {
        let claim = format!(r#"trend = {{ policy = "A", along = "frames", goes = "{goes}" }}"#);
        verdict(&claim, costs).0
    };
    assert_eq!(trend("down", &A_BETTER), Verdict::Holds);
    assert_eq!(trend("up", &A_BETTER), Verdict::DoesNot);
    // One of two curves is not more than half.
    let one_falls = [([1.0, 2.0, 3.0], [0.0; 3]), ([3.0, 2.0, 1.0], [0.0; 3])];
    assert_eq!(trend("down", &one_falls), Verdict::DoesNot);
    let one_step_back = [([3.0, 4.0, 1.0], [0.0; 3]), ([3.0, 2.0, 1.0], [0.0; 3])];
    assert_eq!(trend("down", &one_step_back), Verdict::InPart);
    let a_step_back_each = [([3.0, 4.0, 1.0], [0.0; 3]), ([3.0, 4.0, 1.0], [0.0; 3])];
    assert_eq!(trend("down", &a_step_back_each), Verdict::DoesNot);
}

#[test]
fn a_trend_may_have_a_least_size() {
    let trend = |by: &str, costs: &Costs| {
        let claim = format!(r#"trend = {{ policy = "A", along = "frames", goes = "down", by = {by} }}"#);
        verdict(&claim, costs)
    };
    // From 8 and 9 to 4, by 50 and 55.6 %.
    assert_eq!(trend("50", &A_BETTER), (Verdict::Holds, "2 of 2 curves, 4 of 4 steps; 8 to 4, by 50 % at one".into()));
    assert_eq!(trend("51", &A_BETTER).0, Verdict::InPart);
    assert_eq!(trend("100", &A_BETTER).0, Verdict::InPart);
    assert_eq!(trend("101", &A_BETTER).0, Verdict::DoesNot);
    let rises = [([4.0, 6.0, 8.0], [1.0; 3]); 2];
    assert_eq!(trend("1", &rises).0, Verdict::DoesNot);
}

#[test]
fn a_peak_lies_between_the_ends() {
    let peak = |costs: &Costs| verdict(r#"peak = { policy = "A", over = "B", along = "frames" }"#, costs).0;
    // 20, 25, 20 and 10, 25, 20 %.
    assert_eq!(peak(&A_BETTER), Verdict::Holds);
    let rising = [([9.0, 8.0, 7.0], [10.0; 3]), ([9.0, 8.0, 7.0], [10.0; 3])];
    assert_eq!(peak(&rising), Verdict::DoesNot);
}

#[test]
fn a_valley_lies_between_the_ends() {
    let valley = |costs: &Costs| verdict(r#"valley = { policy = "A", over = "B", along = "frames" }"#, costs);
    assert_eq!(valley(&A_BETTER).0, Verdict::DoesNot);
    let low = [([8.0, 9.0, 7.0], [10.0; 3]); 2];
    assert_eq!(valley(&low), (Verdict::Holds, "2 of 2 curves; frames 2 is lowest at one".into()));
}

#[test]
fn the_best_value_depends_on_another_parameter() {
    let depends = r#"depends = { policy = "A", along = "frames", on = "workload" }"#;
    // Three frames are the best on both workloads.
    assert_eq!(verdict(depends, &A_BETTER), (Verdict::DoesNot, "0 of 1; best at 3, 3".into()));
    let differs = [([8.0, 6.0, 4.0], [1.0; 3]), ([4.0, 6.0, 8.0], [1.0; 3])];
    assert_eq!(verdict(depends, &differs), (Verdict::Holds, "1 of 1; best at 3, 1".into()));
}

#[test]
fn none_of_some_policies_wins() {
    let no_winner = r#"no-winner = ["A", "B"]"#;
    assert_eq!(verdict(no_winner, &A_BETTER).0, Verdict::DoesNot);
    assert_eq!(verdict(no_winner, &A_MOSTLY_BETTER), (Verdict::InPart, "of 6 points best: A at 4, B at 2".into()));
    let half = [([1.0; 3], [2.0; 3]), ([2.0; 3], [1.0; 3])];
    assert_eq!(verdict(no_winner, &half).0, Verdict::Holds);
}

#[test]
fn values_are_exact_or_rough() {
    let of = |check: &str| {
        let claim = format!(
            r#"where = {{ workload = "one", frames = 2 }}
value = {{ policy = "A", {check} }}"#
        );
        verdict(&claim, &A_BETTER).0
    };
    assert_eq!(of("is = 6"), Verdict::Holds);
    assert_eq!(of("is = 5.5"), Verdict::InPart);
    assert_eq!(of("is = 5"), Verdict::DoesNot);
    assert_eq!(of("about = 3"), Verdict::Holds);
    assert_eq!(of("about = 2"), Verdict::InPart);
    assert_eq!(of("about = 1"), Verdict::DoesNot);
}

#[test]
fn bounds_are_one_sided_and_nearness_is_not() {
    let bound = r#"bound = { policy = "A", over = "B", percent = 1 }"#;
    assert_eq!(verdict(bound, &A_BETTER).0, Verdict::Holds);
    assert_eq!(verdict(bound, &A_MOSTLY_BETTER).0, Verdict::InPart);
    let near = |percent: u32| {
        let claim = format!(r#"near = {{ policy = "A", to = "B", percent = {percent} }}"#);
        verdict(&claim, &A_BETTER).0
    };
    assert_eq!(near(1), Verdict::DoesNot);
    assert_eq!(near(25), Verdict::Holds);
    // Each of several policies is compared.
    assert_eq!(
        verdict(r#"near = { policy = ["B", "A"], to = "B", percent = 22 }"#, &A_BETTER),
        (Verdict::InPart, "10 of 12; 25 % at A, two, frames 2".into())
    );
    assert_eq!(verdict(r#"bound = { policy = "A", at-most = 8 }"#, &A_BETTER).0, Verdict::InPart);
    assert_eq!(verdict(r#"bound = { policy = "A", at-most = 9 }"#, &A_BETTER).0, Verdict::Holds);
}

#[test]
fn flat_curves_and_best_values() {
    let flat = |percent: u32| {
        let claim = format!(r#"flat = {{ policy = "A", along = "frames", percent = {percent} }}"#);
        verdict(&claim, &A_BETTER).0
    };
    assert_eq!(flat(80), Verdict::Holds);
    // The curves change by 67 and by 79 % of their means.
    assert_eq!(flat(70), Verdict::DoesNot);
    let best = |is: u32| {
        let claim = format!(r#"best-at = {{ policy = "A", along = "frames", is = {is} }}"#);
        verdict(&claim, &A_BETTER).0
    };
    assert_eq!(best(3), Verdict::Holds);
    assert_eq!(best(1), Verdict::DoesNot);
}

#[test]
fn a_claim_without_points_is_unknown() {
    let experiment = experiment(r#"order = ["A", "B"]"#);
    let claim = experiment.claims().next().expect("a claim");
    assert_eq!(judge(&experiment, claim, &[]).verdict, Verdict::Unknown);
}

#[test]
fn numbers_have_about_three_digits() {
    let texts = [0.0, 123456.0, 99.96, 12.34, 1.234, 0.12345, -5.0, -1e-9].map(number);
    assert_eq!(texts, ["0", "123456", "100", "12.3", "1.23", "0.1235", "-5", "0"]);
}

/// Points of A and B at three sizes of one workload; A's costs with three seeds, B's with one.
fn seeded() -> Vec<Point> {
    let mut points = points(Metric::Cost, &A_BETTER);
    points.retain(|point| point.place.workload == "one");
    for point in points.iter_mut().filter(|point| point.policy == "A") {
        let mean = point.values[&Metric::Cost];
        let runs = [-0.1, 0.0, 0.1].map(|by| Values::from([(Metric::Cost, mean + by)]));
        point.runs = runs.to_vec();
    }
    points
}

fn judged(claim: &str, points: &[Point]) -> (Verdict, String) {
    let experiment = experiment(claim);
    let claim = experiment.claims().next().expect("a claim");
    let judged = judge(&experiment, claim, points);
    (judged.verdict, judged.ours)
}

#[test]
fn figures_from_several_seeds_have_intervals() {
    let ours = |claim: &str| judged(claim, &seeded()).1;
    // 8 of 10, 6 of 8 and 4 of 5, each with a deviation of 0.1; t with 2 degrees of freedom 4.303.
    assert_eq!(
        ours(r#"improvement = { of = "A", over = "B", percent = 20, take = "least" }"#),
        "at least 20 ± 2.5 % (one, frames 1); 3 of 3 points"
    );
    // The means of the seeds are 21.667 -+ 1.417 %.
    assert_eq!(ours(r#"improvement = { of = "A", over = "B", percent = 20 }"#), "21.7 ± 3.5 %");
    assert_eq!(
        ours(
            r#"where = { frames = 1 }
value = { policy = "A", is = 8 }"#
        ),
        "8 ± 0.25"
    );
    assert_eq!(ours(r#"order = ["B", "A"]"#), "0 of 3 points; not B before A at one, frames 1, which is 20 ± 2.5 % better");
    assert_eq!(
        ours(
            r#"where = { frames = [1, 2] }
ratio = { of = "A", to = "B", at-most = 0.9 }"#
        ),
        "2 of 2; up to 0.800 ± 0.025 at one, frames 1"
    );
    // Figures from a single seed have no interval.
    let plain = judged(
        r#"where = { workload = "one" }
improvement = { of = "A", over = "B", percent = 20 }"#,
        &points(Metric::Cost, &A_BETTER),
    );
    assert_eq!(plain.1, "21.7 %");
}

#[test]
fn ratios_are_limits() {
    let ratio = |at_most: f64, take: &str| {
        let claim = format!(r#"ratio = {{ of = "A", to = "B", at-most = {at_most}, take = "{take}" }}"#);
        verdict(&claim, &A_MOSTLY_BETTER)
    };
    // 0.8, 0.75, 0.8; 1.1, 1.125, 0.8: on the mean 0.896, geometrically 0.8834.
    let (holds, ours) = ratio(0.9, "mean");
    assert_eq!((holds, ours.as_str()), (Verdict::Holds, "mean 0.896 of 6"));
    assert_eq!(ratio(0.8, "mean").0, Verdict::InPart);
    assert_eq!(ratio(0.79, "mean").0, Verdict::DoesNot);
    assert_eq!(ratio(0.884, "geometric-mean").0, Verdict::Holds);
    assert_eq!(ratio(0.883, "geometric-mean").0, Verdict::InPart);
    let (part, ours) = ratio(1.01, "all");
    assert_eq!(part, Verdict::InPart);
    assert_eq!(ours, "4 of 6; up to 1.125 at two, frames 2");
    assert_eq!(ratio(1.13, "all").0, Verdict::Holds);
    assert_eq!(ratio(0.79, "all").0, Verdict::DoesNot);
    // The mean is further above 1 than the limit allows.
    let worse = r#"ratio = { of = "B", to = "A", at-most = 1.1, take = "mean" }"#;
    assert_eq!(verdict(worse, &A_MOSTLY_BETTER).0, Verdict::InPart);
}

#[test]
fn ratios_are_reversed_for_metrics_where_more_is_better() {
    let claim = r#"metric = "hit-ratio"
ratio = { of = "A", to = "B", at-most = 1 }"#;
    let points = points(Metric::HitRatio, &A_BETTER);
    let (verdict, ours) = judged(claim, &points);
    assert_eq!(verdict, Verdict::DoesNot);
    assert_eq!(ours, "0 of 6; up to 1.333 at two, frames 2");
}

#[test]
fn a_fixed_policy_is_compared_with_the_next_best() {
    let mut points = points(Metric::Cost, &A_BETTER);
    // C costs twice as much as B everywhere, D is A with another name.
    for (name, factor, spec, like) in [("C", 2.0, "C", "B"), ("D", 1.0, "A", "A")] {
        let like: Vec<Point> = points.iter().filter(|point| point.policy == like).cloned().collect();
        points.extend(like.into_iter().map(|mut point| {
            point.policy = name.into();
            point.spec = spec.into();
            for values in point.runs.iter_mut().chain([&mut point.values]) {
                values.values_mut().for_each(|value| *value *= factor);
            }
            point
        }));
    }
    let fixed = |percent: f64, against: &str| {
        let claim = format!(r#"fixed = {{ policy = "A", percent = {percent}{against} }}"#);
        judged(&claim, &points)
    };
    // Ratios of 0.8, 0.75, 0.8, 0.9, 0.75 and 0.8: geometrically 0.7985.
    assert_eq!(fixed(20.0, ""), (Verdict::Holds, "20.2 % better than B".into()));
    assert_eq!(fixed(40.0, "").0, Verdict::InPart);
    assert_eq!(fixed(41.0, "").0, Verdict::DoesNot);
    assert_eq!(fixed(8.0, r#", against = ["B"]"#).0, Verdict::Holds);
    let worse = |percent: f64| {
        let claim = format!(r#"fixed = {{ policy = "B", against = ["A"], percent = {percent} }}"#);
        judged(&claim, &points)
    };
    assert_eq!(worse(-26.0), (Verdict::Holds, "25.2 % worse than A".into()));
    assert_eq!(worse(-13.0).0, Verdict::InPart);
    assert_eq!(worse(-12.0).0, Verdict::DoesNot);
}

/// The points of the costs, and those of more policies whose costs are multiples of those of B at each point of both workloads.
fn points_with(costs: &Costs, more: &[(&str, [[f64; 3]; 2])]) -> Vec<Point> {
    let mut points = points(Metric::Cost, costs);
    let of_b: Vec<Point> = points.iter().filter(|point| point.policy == "B").cloned().collect();
    for (name, factors) in more {
        let factors = factors.iter().flatten();
        points.extend(of_b.iter().zip(factors).map(|(point, factor)| {
            let value = point.values[&Metric::Cost] * factor;
            Point {
                policy: name.to_string(),
                spec: name.to_string(),
                values: Values::from([(Metric::Cost, value)]),
                runs: vec![Values::from([(Metric::Cost, value)])],
                ..point.clone()
            }
        }));
    }
    points
}

#[test]
fn the_best_is_the_best_of_all_at_a_point() {
    // A is the best at 4 of 6 points, C costs as much as 5 B. By pairs A would be the best in 10 of 12.
    let weak = [[5.0; 3]; 2];
    let with_weak = points_with(&A_MOSTLY_BETTER, &[("C", weak), ("D", weak)]);
    let best = r#"best = { policy = "A" }"#;
    assert_eq!(judged(best, &with_weak), (Verdict::InPart, "4 of 6 points; not A before B at two, frames 1".into()));
    // Against C too it is the best at 2 of 6: C costs less at the last two sizes of the first workload.
    let with_rival = points_with(&A_MOSTLY_BETTER, &[("C", [[5.0, 0.1, 0.1], [5.0; 3]])]);
    assert_eq!(judged(best, &with_rival), (Verdict::DoesNot, "2 of 6 points; not A before C at one, frames 2".into()));
    // An order holds at a point if it does from end to end.
    let order = r#"order = ["A", "B", "A"]"#;
    assert_eq!(judged(order, &with_rival).0, Verdict::DoesNot);
    let worst = judged(r#"worst = { policy = "B" }"#, &with_weak);
    assert_eq!(worst.1, "0 of 6 points; not C before B at one, frames 1");
}

#[test]
fn in_most_cases_is_at_more_than_half_of_the_points() {
    let best = |places: &str| {
        let claim = format!("{places}\nbest = {{ policy = \"A\", cases = \"most\" }}");
        verdict(&claim, &A_MOSTLY_BETTER).0
    };
    assert_eq!(best(""), Verdict::Holds);
    assert_eq!(best(r#"where = { frames = [1, 2] }"#), Verdict::DoesNot);
}

#[test]
fn ranks_are_counted_from_the_best() {
    let rank =
        |policy: &str, is: usize, points: &[Point]| judged(&format!(r#"rank = {{ policy = "{policy}", is = {is} }}"#), points);
    let points = points_with(&A_BETTER, &[("C", [[0.1, 5.0, 5.0], [5.0; 3]])]);
    assert_eq!(rank("B", 2, &points), (Verdict::InPart, "5 of 6 points; 2nd at 5, 3rd at 1".into()));
    assert_eq!(rank("A", 2, &points).0, Verdict::DoesNot);
    // Equals share their ranks.
    let equal = points_with(&A_BETTER, &[("C", [[1.0; 3]; 2])]);
    assert_eq!(rank("B", 2, &equal).0, Verdict::Holds);
    assert_eq!(rank("B", 3, &equal).0, Verdict::Holds);
}

#[test]
fn one_setting_is_so_many_times_as_good_as_another() {
    let times = |is: &str, policies: &str| {
        let claim = format!(
            r#"where = {{ workload = "one" }}
times = {{ along = "frames", from = 1, to = 3, is = {is}{policies} }}"#
        );
        verdict(&claim, &A_BETTER)
    };
    // 8 to 4 and 10 to 5, so 18 to 9.
    assert_eq!(times("2", ""), (Verdict::Holds, "2 times".into()));
    assert_eq!(times("4", "").0, Verdict::Holds);
    assert_eq!(times("5", r#", policies = ["A"]"#).0, Verdict::InPart);
    assert_eq!(times("11", "").0, Verdict::DoesNot);
    assert_eq!(times("0.3", "").0, Verdict::DoesNot);
    let percent = |range: &str| {
        let claim = format!(r#"times = {{ along = "frames", from = 1, to = 3, percent = {range} }}"#);
        verdict(&claim, &A_BETTER)
    };
    // A costs 100 and 125 % more with one frame than with three, B 100 %.
    assert_eq!(percent("[50, 150]"), (Verdict::Holds, "100 to 125 %".into()));
    assert_eq!(percent("[2, 20]").0, Verdict::DoesNot);
}

/// The paper's factors are those of mean times, in which slow policies weigh more.
#[test]
fn a_number_of_times_is_that_of_the_means() {
    let costs = [([90.0, 1.0, 9.0], [10.0, 1.0, 10.0]); 2];
    // 100 to 19; the policies' own ratios are 10 and 1.
    let times = verdict(r#"times = { along = "frames", from = 1, to = 3, is = 5.26 }"#, &costs);
    assert_eq!(times, (Verdict::Holds, "5.26 times".into()));
}

#[test]
fn a_gain_is_greater_in_one_setting_than_in_another() {
    let more = |at: u32, than: u32| {
        let claim = format!(r#"more = {{ of = "A", over = ["B"], along = "frames", at = {at}, than = {than} }}"#);
        verdict(&claim, &A_BETTER)
    };
    // 20, 25 and 20 %; 10, 25 and 20 %.
    assert_eq!(more(2, 1), (Verdict::Holds, "B, one: 25 against 20 %; B, two: 25 against 10 %".into()));
    assert_eq!(more(3, 2).0, Verdict::DoesNot);
    // On workload one the gain at the last size is that at the first.
    assert_eq!(more(3, 1).0, Verdict::DoesNot);
    let points = |range: &str| {
        let claim = format!(
            r#"where = {{ workload = "one" }}
more = {{ of = "A", over = ["B"], along = "frames", at = 2, than = 1, points = {range} }}"#
        );
        verdict(&claim, &A_BETTER).0
    };
    assert_eq!(points("[2, 9]"), Verdict::Holds);
    assert_eq!(points("[2, 12]"), Verdict::InPart);
    assert_eq!(points("[6, 9]"), Verdict::DoesNot);
    assert_eq!(points("[2, 30]"), Verdict::DoesNot);
}

#[test]
fn verdicts_that_say_nothing_new_are_counted_apart() {
    let judged = |mark: &str| {
        let claim = format!("{mark}\norder = [\"A\", \"B\"]\nwhy = \"Indeed.\"");
        let experiment = experiment(&claim);
        let claim = experiment.claims().next().expect("a claim");
        judge(&experiment, claim, &points(Metric::Cost, &A_BETTER))
    };
    let circular = judged(r#"circular = "it was made so""#);
    assert_eq!(circular.verdict_text(), "holds (circular)");
    assert_eq!(circular.reasons(), "it was made so Indeed.");
    let unclaimed = judged(r#"unclaimed = "We ask.""#);
    assert_eq!(unclaimed.verdict_text(), "holds (not claimed)");
    assert_eq!(unclaimed.reasons(), "We ask. Indeed.");
    let repeated = judged(r#"repeats = "other-table1""#);
    assert_eq!(repeated.verdict_text(), "holds (repeated)");
    assert!(repeated.reasons().contains("`other-table1`"));
    let plain = judged("");
    assert_eq!(plain.verdict_text(), "holds");
    assert!(plain.is_counted());
    for apart in [&circular, &unclaimed, &repeated] {
        assert!(!apart.is_counted());
    }
    let all = [&circular, &plain, &circular, &unclaimed, &repeated];
    assert_eq!(
        counted_apart(all.into_iter()),
        "; 2 circular, which show nothing; 1 that no paper claims; 1 that repeat another paper's"
    );
}

/// A guest that is better than all at most points would turn each of these verdicts.
#[test]
fn guests_change_no_verdict() {
    let mut points = points_with(&A_BETTER, &[("guest", [[0.1; 3], [0.1, 5.0, 5.0]])]);
    for point in points.iter_mut().filter(|point| point.policy == "guest") {
        point.is_guest = true;
    }
    let alone = super::tests::points(Metric::Cost, &A_BETTER);
    for claim in [
        r#"best = { policy = "A" }"#, r#"worst = { policy = "B" }"#, r#"fixed = { policy = "A", percent = 10 }"#,
        r#"rank = { policy = "B", is = 2 }"#, r#"times = { along = "frames", from = 1, to = 3, is = 2 }"#,
    ] {
        assert_eq!(judged(claim, &points), judged(claim, &alone), "{claim}");
        assert_eq!(judged(claim, &alone).0, Verdict::Holds, "{claim}");
    }
    let experiment = experiment(r#"best = { policy = "A" }"#);
    let claim = experiment.claims().next().expect("a claim");
    let [guest] = &judge(&experiment, claim, &points).guests[..] else {
        panic!("one guest");
    };
    assert_eq!(guest.claim_place_text(), "guest, which you have added");
    assert_eq!(guest.ours, "better than A at 4 of 6 points");
    assert!(judge(&experiment, claim, &alone).guests.is_empty());
}

#[test]
fn an_improvement_is_greater_in_one_metric_than_in_others() {
    let greatest = |reads: [f64; 3]| {
        let mut points = points(Metric::Cost, &A_BETTER);
        let reads = [reads, [10.0; 3], reads, [10.0; 3]];
        for (point, reads) in points.iter_mut().zip(reads.iter().flatten()) {
            for values in point.runs.iter_mut().chain([&mut point.values]) {
                values.insert(Metric::Reads, *reads);
            }
        }
        judged(
            r#"where = { workload = "one" }
greatest = { of = "A", over = "B", than = ["reads"] }"#,
            &points,
        )
    };
    // By costs 20, 25 and 20 %.
    assert_eq!(greatest([9.0; 3]), (Verdict::Holds, "3 of 3 points".into()));
    let (verdict, ours) = greatest([9.0, 9.0, 7.0]);
    assert_eq!(verdict, Verdict::InPart);
    assert!(ours.starts_with("2 of 3 points; 20 % against 30 % of "), "{ours}");
}

#[test]
fn what_is_not_zero_does_not_look_like_zero() {
    let of = [0.0, 0.00003127, -0.000_04, 0.0123456, 0.1326, 4.888, 45.67, 512.4].map(number);
    let expected = ["0", "0.0000313", "-0.00004", "0.0123", "0.1326", "4.89", "45.7", "512"];
    assert_eq!(of, expected);
}
