//! Parameters of experiments that are drawn at random.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Deserialize;

use super::ordered::{Ordered, Text};

/// The most values that can be drawn of a parameter.
const MOST_DRAWS: u32 = 100_000;

/// The parameters to draw; each point has the values of one draw, in place of every combination of values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Draw {
    /// The number of draws for each workload.
    pub(crate) count: u32,
    /// The seed of the draws.
    pub(crate) seed: u64,
    /// The ranges of the parameters, which are drawn in this order.
    pub(crate) range: Ordered<DrawRange>,
}

/// A range from which numbers are drawn such that their logarithms are uniform.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct DrawRange {
    from: f64,
    to: f64,
    /// A parameter drawn before, by whose value the number is multiplied.
    times: Option<String>,
    /// What is lower or higher after that is set to these.
    at_least: Option<f64>,
    at_most: Option<f64>,
    /// Rounds to a whole number; else to three significant digits.
    #[serde(default)]
    whole: bool,
}

impl Draw {
    /// What is wrong with the ranges.
    pub(crate) fn problem(&self) -> Option<String> {
        let mut before: Vec<&str> = Vec::new();
        if self.count == 0 || self.count > MOST_DRAWS {
            return Some(format!("count is {}, but must be from 1 to {MOST_DRAWS}", self.count));
        }
        for (name, range) in &self.range.0 {
            // Written so that what is not a number is wrong, too.
            if !(range.from > 0.0 && range.to >= range.from && range.to.is_finite()) {
                return Some(format!("{name} needs numbers with 0 < from <= to"));
            }
            if !(range.to / range.from).is_finite() {
                return Some(format!("{name} needs numbers that lie less far apart"));
            }
            let (least, most) = (range.at_least, range.at_most);
            let are_finite = [least, most].into_iter().flatten().all(f64::is_finite);
            let are_in_order = least.zip(most).is_none_or(|(least, most)| least <= most);
            if !(are_finite && are_in_order) {
                return Some(format!("{name} needs numbers with at-least <= at-most"));
            }
            if let Some(factor) = range.times.as_deref().filter(|it| !before.contains(it)) {
                return Some(format!("{name} times {factor}: {factor} is not drawn before"));
            }
            before.push(name);
        }
        None
    }

    /// The values of each parameter, one for each draw.
    pub(crate) fn values(&self) -> Vec<(String, Vec<Text>)> {
        let mut random = SplitMix64::seed_from_u64(self.seed);
        let ranges = &self.range.0;
        let mut all: Vec<(String, Vec<Text>)> = Vec::new();
        all.extend(ranges.iter().map(|(name, _)| (name.clone(), Vec::new())));
        for _ in 0..self.count {
            let mut drawn: Vec<(&str, f64)> = Vec::new();
            for ((name, range), (_, values)) in ranges.iter().zip(&mut all) {
                let factor = drawn.iter().find(|(other, _)| range.times.as_deref() == Some(*other));
                let value = range.value(share(&mut random), factor.map_or(1.0, |(_, value)| *value));
                drawn.push((name, value));
                values.push(Text(value.to_string()));
            }
        }
        all
    }
}

impl DrawRange {
    /// The number at a share of the range.
    fn value(&self, share: f64, factor: f64) -> f64 {
        let value = factor * self.from * (self.to / self.from).powf(share);
        let value = value.max(self.at_least.unwrap_or(f64::MIN));
        let value = value.min(self.at_most.unwrap_or(f64::MAX));
        match self.whole {
            true => value.round(),
            false => rounded(value),
        }
    }
}

/// The number with three significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// A number from 0 to less than 1.
fn share(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(seed: u64) -> Draw {
        let text = format!(
            "count = 200\nseed = {seed}\n[range]\nframes = {{ from = 16, to = 4096, whole = true }}
             share = {{ from = 0.01, to = 0.8 }}
             refs = {{ times = \"frames\", from = 10, to = 1000, at-least = 500, at-most = 1e5, whole = true }}"
        );
        toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn numbers_are_within_their_ranges_and_follow_the_seed() {
        let all = draw(7).values();
        let of = |at: usize| -> Vec<f64> {
            let values = all[at].1.iter();
            values.map(|Text(value)| value.parse().expect("a number")).collect()
        };
        let (frames, shares, refs) = (of(0), of(1), of(2));
        assert_eq!(frames.len(), 200);
        assert!(frames.iter().all(|&it| (16.0..=4096.0).contains(&it) && it.fract() == 0.0));
        let below = frames.iter().filter(|&&it| it < 256.0).count();
        assert!((80..120).contains(&below), "the logarithms are uniform: {below}");
        assert!(shares.iter().all(|it| (0.01..=0.8).contains(it)));
        for (refs, frames) in refs.iter().zip(&frames) {
            assert!((500.0..=1e5).contains(refs) && *refs < 1001.0 * frames + 500.0);
        }
        assert_eq!(draw(7).values(), all);
        assert_ne!(draw(8).values(), all);
    }

    #[test]
    fn wrong_ranges_are_found() {
        assert_eq!(draw(1).problem(), None);
        let problem = |change: fn(&mut Draw)| {
            let mut draw = draw(1);
            change(&mut draw);
            draw.problem().expect("a problem")
        };
        assert!(problem(|it| it.count = 0).contains("count is 0"));
        assert!(problem(|it| it.range.0[0].1.from = 0.0).contains("frames needs"));
        assert!(problem(|it| it.range.0[1].1.to = f64::NAN).contains("share needs"));
        assert!(problem(|it| it.range.0.swap(0, 2)).contains("frames is not drawn before"));
        let far_apart = problem(|it| (it.range.0[0].1.from, it.range.0[0].1.to) = (1e-300, 1e300));
        assert!(far_apart.contains("lie less far apart"));
        for bound in [4.0, f64::INFINITY, f64::NAN] {
            let mut draw = draw(1);
            (draw.range.0[2].1.at_least, draw.range.0[2].1.at_most) = (Some(5.0), Some(bound));
            let problem = draw.problem().expect("a problem");
            assert!(problem.contains("refs needs numbers with at-least"), "{problem}");
        }
    }
}
