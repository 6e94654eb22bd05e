use super::*;

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
fn a_good_file_is_understood() {
    let experiment = Experiment::parse(GOOD, "my.toml").unwrap_or_else(|error| panic!("{error}"));
    let values = |scale| {
        let varied = experiment.varied(scale);
        let values = varied.flat_map(|(_, values)| values.iter().map(|text| text.0.clone()));
        values.collect::<Vec<_>>()
    };
    assert_eq!(values(Scale::Quick), ["0.1", "0.5"]);
    assert_eq!(values(Scale::Full), ["0.1", "0.3", "0.5"]);
    assert_eq!(experiment.setting("frames", Scale::Full), Some("10"));
    assert_eq!(
        experiment.policies.names().collect::<Vec<_>>(),
        ["LRU", "best static"]
    );
    assert!(!experiment.needs_time_lines());
}

#[test]
fn unknown_keys_are_refused_with_their_line() {
    let unknown = error("title =", "tittle =");
    assert!(
        unknown.starts_with("my.toml, line 4: unknown field `tittle`"),
        "{unknown}"
    );
    for (from, to, line) in [
        ("frames = 10", "frame = 10", 15),
        ("x = \"write\"", "ex = \"write\"", 24),
        ("where =", "were =", 28),
        ("basis = \"counts\"", "basis = \"guesses\"", 5),
        ("paper = \"own\"", "paper = \"mine\"", 2),
        ("best-of", "best-off", 12),
    ] {
        let error = error(from, to);
        assert!(
            error.starts_with(&format!("my.toml, line {line}: ")),
            "{to}: {error}"
        );
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    for (from, to, says) in [
        ("id = \"mine\"", "id = \"Mine\"", "line 1: 'Mine' is no id"),
        (
            "write={write}",
            "write={wrote}",
            "line 8: nothing named 'wrote' varies",
        ),
        (
            "write={write}",
            "write=0.1",
            "line 18: write varies, but {write} stands nowhere",
        ),
        ("[0.1, 0.5]", "[]", "line 18: write has no values"),
        (
            "write = [0.1, 0.3, 0.5]",
            "seed = [1]",
            "line 21: seed varies with --full only",
        ),
        ("frames = 10", "warmup = 1", "there is no number of frames"),
        (
            "x = \"write\"",
            "x = \"size\"",
            "line 23: 'size' does not vary here",
        ),
        (
            "\"best static\", \"LRU\"",
            "\"LRU\", \"ARC\"",
            "line 26: there is no policy 'ARC'",
        ),
        (
            "order = [\"best static\", \"LRU\"]",
            "order = [\"LRU\"]",
            "an order has two policies",
        ),
        (
            "write = 0.3",
            "write = 0.7",
            "line 26: write is never '0.7' here; it is 0.1, 0.5, 0.3",
        ),
        (
            "order = [\"best static\", \"LRU\"]",
            "",
            "line 26: a claim has exactly one of order",
        ),
        (
            "order =",
            "best = { policy = \"LRU\" }\norder =",
            "line 26: a claim has exactly one of order",
        ),
        (
            "order = [\"best static\", \"LRU\"]",
            "bound = { policy = \"LRU\", percent = 3 }",
            "a bound has over and percent, or at-most",
        ),
        (
            "order = [\"best static\", \"LRU\"]",
            "value = { policy = \"LRU\" }",
            "a value is either exact (is) or rough (about)",
        ),
        (
            "among = [1, \"50%\"]",
            "among = []",
            "line 12: policy 'best static' has to say best-of or worst-of",
        ),
        (
            "\"one\" = \"zipf:pages=100,refs=1000,write={write}\"",
            "\"one\" = { quick = \"zipf:write={write}\" }",
            "line 8: workload 'one' has to say is, or quick and full",
        ),
    ] {
        let error = error(from, to);
        assert!(error.contains(says), "{to}: {error}");
    }
}

#[test]
fn sections_that_are_missing_are_named() {
    let without = |section: &str| {
        let start = GOOD.find(section).expect("the section");
        let end = GOOD[start + 1..]
            .find("\n[")
            .map_or(GOOD.len(), |at| start + 1 + at);
        let text = format!("{}{}", &GOOD[..start], &GOOD[end..]);
        let error = Experiment::parse(&text, "my.toml").expect_err("something is missing");
        error.to_string()
    };
    assert!(without("[workloads]").contains("there is no [workloads]"));
    assert!(without("[policies]").contains("there is no [policies]"));
}

#[test]
fn places_are_filled() {
    let values = [("a".to_string(), "1".to_string()), ("b".into(), "x".into())];
    assert_eq!(filled("zipf:p={a},q={b},{c}", &values), "zipf:p=1,q=x,{c}");
}
