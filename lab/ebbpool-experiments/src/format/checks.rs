//! What a claim of an experiment can check, for the authors of experiments.

/// A check, as it stands in a file of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckExample {
    /// A line of TOML.
    pub line: &'static str,
    /// When the claim holds, where its points and sizes leave that open.
    pub holds: &'static str,
}

const fn check(line: &'static str, holds: &'static str) -> CheckExample {
    CheckExample { line, holds }
}

/// An example of each check.
pub const CHECKS: [CheckExample; 20] = [
    check("order = [\"A\", \"B\"]", "each policy is as good as the next"),
    check(
        "best = { policy = \"A\", against = [\"B\"], cases = \"most\" }",
        "as good as each other one; with `cases` at more than half of the points",
    ),
    check("worst = { policy = \"A\" }", "as bad as each other one; `against` and `cases` as in best"),
    check("rank = { policy = \"A\", is = 2 }", "equals share their ranks"),
    check("no-winner = [\"A\", \"B\"]", "none is the best at more than half of the points; in part: none at all of them"),
    check(
        "improvement = { of = \"A\", over = \"B\", percent = 21, take = \"mean\" }",
        "the mean has that size; take = \"each\": at each point; \"most\": no point is above it, and the greatest is half of it or more; \"least\": it is a limit. percent = [7, 13] is a range of all points, judged at both ends",
    ),
    check(
        "trend = { policy = \"A\", over = \"B\", along = \"asymmetry\", goes = \"up\" }",
        "the ends of all curves and nine tenths of all steps; in part: more than half of both. Without over, by = 10 is by how many per cent at least",
    ),
    check("peak = { policy = \"A\", over = \"B\", along = \"write\" }", "on all curves the highest value is between the ends"),
    check("valley = { policy = \"A\", along = \"write\" }", "on all curves the lowest value is between the ends"),
    check(
        "times = { policies = [\"A\"], along = \"device\", from = \"hdd1\", to = \"ssd3\", is = 21 }",
        "the means over the policies; or percent = [2, 7]",
    ),
    check(
        "more = { of = \"A\", over = [\"B\"], along = \"asymmetry\", at = 8, than = 2 }",
        "A gains more in one setting; points = [2, 9] by that many percentage points",
    ),
    check("greatest = { of = \"A\", over = \"B\", than = [\"reads\"] }", "A improves more in the claim's metric"),
    check("value = { policy = \"A\", is = 6 }", "equal, in part within 10 %; about = 6 is a size"),
    check("near = { policy = \"A\", to = \"B\", percent = 5 }", "within that many per cent; policy may be a list"),
    check(
        "bound = { policy = \"A\", over = \"B\", percent = 1 }",
        "at most that many per cent worse; or at-most = 20, without over",
    ),
    check("flat = { policy = \"A\", along = \"frames\", percent = 3 }", "the curve changes by at most that many per cent"),
    check("best-at = { policy = \"A\", along = \"window\", is = 0.75 }", "on all curves"),
    check(
        "depends = { policy = \"A\", along = \"window\", on = \"frames\" }",
        "the best value of one differs along the other everywhere; in part in more than half",
    ),
    check(
        "ratio = { of = \"A\", to = \"B\", at-most = 0.96, take = \"mean\" }",
        "\"all\" (the default), \"mean\" or \"geometric-mean\"; a mean holds in part at half the distance below 1, or twice that above",
    ),
    check(
        "fixed = { policy = \"A\", percent = 8 }",
        "beside the next best policy that is the same everywhere, by geometric mean; in part by half of it; if negative, no worse than that",
    ),
];
