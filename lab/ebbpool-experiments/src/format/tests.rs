use super::*;
use crate::plan;

const GOOD: &str = r#"id = "mine"
paper = "own"
number = "Figure 1"
title = "a title"
basis = "counts"

[workloads]
"one" = "zipf:pages=100,refs=1000,write={write}"

[policies]
"LRU" = "lru"
"best static" = { best-of = "fd-static:clean={}", among = [1, "50%"] }

[setting]
frames = 10

[vary]
write = [0.1, 0.5]

[full.vary]
write = [0.1, 0.3, 0.5]

[[figure]]
x = "write"

[[claim]]
says = "so"
where = { write = 0.3 }
order = ["best static", "LRU"]
"#;

fn error(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    match Experiment::parse(&GOOD.replace(from, to), "my.toml") {
        Ok(_) => panic!("{to} is accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_valid_file_is_read() {
    let experiment = Experiment::parse(GOOD, "my.toml").unwrap_or_else(|error| panic!("{error}"));
    let values = |scale| {
        let varied = experiment.varied(scale);
        let values = varied.flat_map(|(_, values)| values.iter().map(|text| text.0.clone()));
        values.collect::<Vec<_>>()
    };
    assert_eq!(values(Scale::Quick), ["0.1", "0.5"]);
    assert_eq!(values(Scale::Full), ["0.1", "0.3", "0.5"]);
    assert_eq!(experiment.setting("frames", Scale::Full), Some("10"));
    assert_eq!(experiment.policies.names().collect::<Vec<_>>(), ["LRU", "best static"]);
    assert!(!experiment.needs_time_lines());
}

#[test]
fn unknown_keys_are_refused_with_their_line() {
    let unknown = error("title =", "tittle =");
    assert!(unknown.starts_with("my.toml, line 4: unknown field `tittle`"), "{unknown}");
    for (from, to, line) in [
        ("frames = 10", "frame = 10", 15),
        ("x = \"write\"", "ex = \"write\"", 24),
        ("where =", "were =", 28),
        ("basis = \"counts\"", "basis = \"guesses\"", 5),
        ("paper = \"own\"", "paper = \"mine\"", 2),
        ("best-of", "best-off", 12),
    ] {
        let error = error(from, to);
        assert!(error.starts_with(&format!("my.toml, line {line}: ")), "{to}: {error}");
    }
}

#[test]
fn inconsistent_files_are_refused() {
    for (from, to, says) in [
        ("id = \"mine\"", "id = \"Mine\"", "line 1: 'Mine' is not an id"),
        ("write={write}", "write={wrote}", "line 8: {wrote} is used, but 'wrote' does not vary"),
        ("write={write}", "write=0.1", "line 18: write varies, but {write} is used nowhere"),
        ("[0.1, 0.5]", "[]", "line 18: write has no values"),
        ("write = [0.1, 0.3, 0.5]", "seed = [1]", "line 21: seed varies at full scale only"),
        ("frames = 10", "warmup = 1", "there is no number of frames"),
        ("x = \"write\"", "x = \"size\"", "line 23: 'size' does not vary here"),
        ("\"best static\", \"LRU\"", "\"LRU\", \"ARC\"", "line 26: there is no policy 'ARC'"),
        ("order = [\"best static\", \"LRU\"]", "order = [\"LRU\"]", "an order has at least two policies"),
        ("write = 0.3", "write = 0.7", "line 26: write is never '0.7' here; it is 0.1, 0.5, 0.3"),
        ("order = [\"best static\", \"LRU\"]", "", "line 26: a claim has exactly one of order"),
        ("order =", "best = { policy = \"LRU\" }\norder =", "line 26: a claim has exactly one of order"),
        (
            "order = [\"best static\", \"LRU\"]", "bound = { policy = \"LRU\", percent = 3 }",
            "a bound has over and percent, or at-most",
        ),
        ("order = [\"best static\", \"LRU\"]", "value = { policy = \"LRU\" }", "a value is either exact (is) or rough (about)"),
        ("order = [\"best static\", \"LRU\"]", "rank = { policy = \"LRU\", is = 0 }", "the best rank is 1"),
        (
            "order = [\"best static\", \"LRU\"]",
            "times = { along = \"write\", from = 0.1, to = 0.5 }",
            "settings differ by a number of times (is) or by per cent (percent)",
        ),
        (
            "order = [\"best static\", \"LRU\"]",
            "times = { along = \"write\", from = 0.1, to = 0.7, is = 2 }",
            "line 26: write is never '0.7' here",
        ),
        (
            "order = [\"best static\", \"LRU\"]",
            "more = { of = \"LRU\", over = [\"ARC\"], along = \"write\", at = 0.1, than = 0.5 }",
            "line 26: there is no policy 'ARC'",
        ),
        ("among = [1, \"50%\"]", "among = []", "line 12: policy 'best static' must have one of best-of"),
        (
            "\"one\" = \"zipf:pages=100,refs=1000,write={write}\"", "\"one\" = { quick = \"zipf:write={write}\" }",
            "line 8: workload 'one' must have is, or quick and full",
        ),
    ] {
        let error = error(from, to);
        assert!(error.contains(says), "{to}: {error}");
    }
}

#[test]
fn inconsistent_checks_are_refused() {
    for (to, says) in [
        (
            "improvement = { of = \"LRU\", over = \"LRU\", percent = [9, 3] }",
            "line 26: a range goes from the smaller to the larger number",
        ),
        (
            "improvement = { of = \"LRU\", over = \"LRU\", percent = -3, take = \"most\" }",
            "line 26: a limit of an improvement (take) is a number above 0",
        ),
        (
            "trend = { policy = \"LRU\", over = \"LRU\", along = \"write\", goes = \"up\", by = 3 }",
            "line 26: by is a change of the policy's own metric, without over",
        ),
        (
            "depends = { policy = \"LRU\", along = \"write\", on = \"write\" }",
            "line 26: the best value of a parameter depends on another parameter",
        ),
        ("depends = { policy = \"LRU\", along = \"write\", on = \"frames\" }", "line 26: 'frames' does not vary here"),
        ("no-winner = [\"LRU\"]", "line 26: an order has at least two policies"),
    ] {
        let error = error("order = [\"best static\", \"LRU\"]", to);
        assert!(error.contains(says), "{to}: {error}");
    }
}

#[test]
fn each_check_has_an_example_that_is_one() {
    let several = format!("says = \"A is better\"\n{}\n{}", CHECKS[0].line, CHECKS[1].line);
    let claim: Claim = toml::from_str(&several).expect("a claim");
    assert!(claim.check().is_none(), "a claim has one check");
    for CheckExample { line, .. } in CHECKS {
        let claim: Claim = toml::from_str(&format!("says = \"A is better\"\n{line}")).expect(line);
        assert!(claim.check().is_some(), "{line}");
    }
    // The message names all of them.
    let error = error("order = [\"best static\", \"LRU\"]", "");
    let (_, named) = error.split_once("exactly one of ").expect("the list");
    for CheckExample { line, .. } in CHECKS {
        let name = line.split(" = ").next().expect("a name");
        assert!(named.contains(name), "{named}: {name}");
    }
    assert_eq!(named.matches(", ").count() + 2, CHECKS.len(), "{named}");
}

#[test]
fn the_error_names_a_missing_section() {
    let without = |section: &str| {
        let start = GOOD.find(section).expect("the section");
        let end = GOOD[start + 1..].find("\n[").map_or(GOOD.len(), |at| start + 1 + at);
        let text = format!("{}{}", &GOOD[..start], &GOOD[end..]);
        let error = Experiment::parse(&text, "my.toml").expect_err("something is missing");
        error.to_string()
    };
    assert!(without("[workloads]").contains("there is no [workloads]"));
    assert!(without("[policies]").contains("there is no [policies]"));
}

#[test]
fn placeholders_are_replaced() {
    let values = [("a".to_string(), "1".to_string()), ("b".into(), "x".into())];
    assert_eq!(filled("zipf:p={a},q={b},{c}", &values), "zipf:p=1,q=x,{c}");
}

const SEEDED: &str = r#"id = "mine"
paper = "own"
number = "Figure 1"
title = "a title"
basis = "counts"

[workloads]
"one" = "zipf:pages=100,refs=1000,seed={seed}"
"two" = { quick = ["zipf:pages=100,refs=10,seed=1{seed}", "uniform:"], full = "uniform:" }

[policies]
"ebb" = "ebb"
"window" = { each-of = "cflru:window={}", among = [0.25, 0.5] }
"published" = { each-of = "{}", among = "published", except = ["fifo"] }
"hindsight best" = { best-of = "{}", among = "published" }
"lower bound" = "lower-bound"

[setting]
frames = 10
seeds = [1, 2, 3]

[full.setting]
seeds = [1, 2, 3, 4]

[[ranking]]
ratio-to = "hindsight best"
policies = ["window", "ebb"]
columns = "workload"

[[figure]]
x = "policy"
policies = ["window"]
where = { workload = "one" }
ratio-to = "ebb"

[[claim]]
says = "so"
fixed = { policy = "ebb", against = ["window"], percent = 8 }

[[claim]]
says = "so"
ratio = { of = "ebb", to = "hindsight best", at-most = 1.01, take = "mean" }
"#;

#[test]
fn seeds_groups_and_families_are_read() {
    let experiment = Experiment::parse(SEEDED, "my.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(experiment.seeds(Scale::Quick).len(), 3);
    assert_eq!(experiment.seeds(Scale::Full).len(), 4);
    let points = |scale| {
        let points = plan::points(&experiment, scale, &[]);
        points.unwrap_or_else(|error| panic!("{error}"))
    };
    let planned = points(Scale::Quick);
    let runs = |workload: &str, policy: &str| -> Vec<String> {
        let mut points = planned.iter();
        let point = points
            .find(|point| point.place.workload == workload && point.policy == policy)
            .unwrap_or_else(|| panic!("{policy} takes no part"));
        let cells = point.runs.iter().filter_map(|run| run.cells().next());
        let traces = cells.map(|cell| &cell.config.trace);
        traces.map(|trace| trace.parts().collect::<Vec<_>>().join(" then ")).collect()
    };
    assert_eq!(runs("one", "ebb"), [1, 2, 3].map(|seed| format!("zipf:pages=100,refs=1000,seed={seed}")));
    assert_eq!(runs("two", "window 0.5"), [11, 12, 13].map(|seed| format!("zipf:pages=100,refs=10,seed={seed} then uniform:")));
    assert_eq!(runs("two", "arc").len(), 3);
    assert!(planned.iter().all(|point| point.policy != "fifo"));
    // Seeds are no dimension, and a point that does not depend on the seed has one run.
    assert_eq!(experiment.dimensions(), ["workload"]);
    let full = points(Scale::Full);
    let mut of_two = full.iter().filter(|one| one.place.workload == "two");
    assert!(of_two.all(|point| point.runs.len() == 1));
    assert!(experiment.is_fixed("ebb") && experiment.is_fixed("window 0.25"));
    assert!(!experiment.is_fixed("hindsight best") && !experiment.is_fixed("lower bound"));
}

#[test]
fn errors_in_seeds_groups_and_rankings_are_reported() {
    for (from, to, says) in [
        ("frames = 10\nseeds = [1, 2, 3]", "frames = 10", "there are seeds at full scale only"),
        ("[1, 2, 3]\n", "[1, 2, 2]\n", "a seed occurs twice"),
        ("[setting]", "[vary]\nseed = [1, 2]\n\n[setting]", "seed varies in [vary], and [setting] has seeds"),
        (
            "basis = \"counts\"", "basis = \"counts\"\nkind = \"estimates\"",
            "only experiments of kind sweep or timing have seeds",
        ),
        (
            "each-of = \"cflru:window={}\"",
            "each-of = \"cflru:window={}\", best-of = \"lru\"",
            "line 13: policy 'window' must have one of best-of, worst-of and each-of",
        ),
        ("among = \"published\", except", "among = \"unpublished\", except", "line 14: expected a policy such as"),
        ("[0.25, 0.5]", "[0.25], except = [0.25]", "line 13: policy 'window' must have one of"),
        ("among = \"published\", except", "among = \"online\", except", "two policies are called 'ebb'; omit one with except"),
        ("ratio-to = \"hindsight best\"", "ratio-to = \"published\"", "line 25: there is no policy 'published' here"),
        ("columns = \"workload\"", "columns = \"frames\"", "line 25: 'frames' does not vary here"),
        (
            "where = { workload = \"one\" }", "where = { workload = \"three\" }",
            "line 30: workload is never 'three' here; it is one, two",
        ),
        (
            "ratio-to = \"ebb\"", "ratio-to = \"ebb\"\nimprovement-of = \"ebb\"",
            "line 30: a figure has improvement-of or ratio-to, not both",
        ),
        (
            "fixed = { policy = \"ebb\"",
            "fixed = { policy = \"hindsight best\"",
            "line 36: 'hindsight best' is not the same policy at all points",
        ),
        ("at-most = 1.01", "at-most = 0", "line 40: a ratio is at most a number above 0"),
        ("full = \"uniform:\"", "full = []", "line 9: workload 'two' must have is, or quick and full"),
    ] {
        assert!(SEEDED.contains(from), "{from}");
        match Experiment::parse(&SEEDED.replacen(from, to, 1), "my.toml") {
            Ok(_) => panic!("{to} is accepted"),
            Err(error) => assert!(error.to_string().contains(says), "{to}: {error}"),
        }
    }
    let unused = SEEDED.replace("{seed}", "7");
    let error = Experiment::parse(&unused, "my.toml").expect_err("seeds without a place");
    assert!(error.to_string().contains("{seed} is used nowhere"), "{error}");
    let nowhere = GOOD.replace("write={write}", "write={write},seed={seed}");
    let error = Experiment::parse(&nowhere, "my.toml").expect_err("no seeds");
    assert!(error.to_string().contains("give seeds in [setting]"), "{error}");
}
