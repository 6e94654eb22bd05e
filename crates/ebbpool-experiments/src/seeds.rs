//! Figures that depend on chance: their mean over seeds, and how sure it is.

use distrs::StudentsT;

use super::verdict::number;

/// The probability with which an interval has the mean over all seeds.
const CONFIDENCE: f64 = 0.95;

/// A mean over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    /// Half of the 95 % confidence interval; nothing where there is no chance.
    pub(crate) half_width: Option<f64>,
}

impl Estimate {
    /// Of one sample for each seed; of a single one if there is no chance. Nothing of nothing.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        match samples {
            [] => None,
            [one] => Some(Estimate {
                mean: *one,
                half_width: None,
            }),
            _ => {
                let squares = samples.iter().map(|sample| (sample - mean).powi(2));
                let deviation = (squares.sum::<f64>() / (count - 1.0)).sqrt();
                let quantile = StudentsT::ppf(0.5 + CONFIDENCE / 2.0, count - 1.0);
                Some(Estimate {
                    mean,
                    half_width: Some(quantile * deviation / count.sqrt()),
                })
            }
        }
    }

    /// The same with the other sign.
    pub(crate) fn opposite(self) -> Self {
        Estimate {
            mean: -self.mean,
            ..self
        }
    }

    /// In words, such as `3.5 ± 0.2 %`.
    pub(crate) fn told(&self, unit: &str) -> String {
        told(self.mean, self.half_width, unit)
    }
}

/// A value in words, and half of its interval.
pub(crate) fn told(value: f64, half_width: Option<f64>, unit: &str) -> String {
    format!("{}{}{unit}", number(value), around(half_width))
}

/// Half of an interval in words: to two digits, for more of them say nothing.
pub(crate) fn around(half_width: Option<f64>) -> String {
    let Some(half) = half_width else {
        return String::new();
    };
    let before_point = half.abs().log10().floor();
    let digits = match before_point.is_finite() {
        true => (1.0 - before_point).clamp(0.0, 6.0) as usize,
        false => 0,
    };
    format!(" ± {half:.digits$}")
}

/// The mean over several series of samples, seed by seed: a series of one has no chance in it and
/// goes into each. Nothing of nothing.
pub(crate) fn mean_of<'a>(all: impl Iterator<Item = &'a [f64]> + Clone) -> Option<Estimate> {
    Estimate::of(&means(all, |value| value))
}

/// The same with the geometric mean of each seed.
pub(crate) fn geometric_mean<'a>(all: impl Iterator<Item = &'a [f64]> + Clone) -> Option<Estimate> {
    let logarithms = means(all, f64::ln);
    let means: Vec<f64> = logarithms.into_iter().map(f64::exp).collect();
    Estimate::of(&means).filter(|mean| mean.mean.is_finite())
}

/// For each seed the mean over all series of what a value counts.
fn means<'a>(
    all: impl Iterator<Item = &'a [f64]> + Clone,
    counts: impl Fn(f64) -> f64,
) -> Vec<f64> {
    let seeds = all.clone().map(<[f64]>::len).filter(|len| *len > 1).min();
    let of_seed = |seed: usize| {
        let values = all.clone().filter_map(|series| match series {
            [one] => Some(counts(*one)),
            series => series.get(seed).map(|value| counts(*value)),
        });
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    (0..seeds.unwrap_or(1)).filter_map(of_seed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_students_t() {
        // Mean 3, deviation sqrt(2.5), t with 4 degrees of freedom 2.7764.
        let five = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("an estimate");
        assert_eq!(five.mean, 3.0);
        let half = five.half_width.expect("an interval");
        assert!((half - 1.9632).abs() < 1e-3, "{half}");
        // t with 1 and with 9 degrees of freedom: 12.706 and 2.2622.
        let two = Estimate::of(&[1.0, 3.0]).and_then(|two| two.half_width);
        assert!(
            two.is_some_and(|half| (half - 12.706).abs() < 1e-2),
            "{two:?}"
        );
        let ten: Vec<f64> = (0..10).map(f64::from).collect();
        let ten = Estimate::of(&ten).and_then(|ten| ten.half_width);
        let expected = 2.2622 * (82.5_f64 / 9.0).sqrt() / 10_f64.sqrt();
        assert!(
            ten.is_some_and(|half| (half - expected).abs() < 1e-3),
            "{ten:?}"
        );
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn without_chance_there_is_no_interval() {
        let one = Estimate::of(&[7.0]).expect("an estimate");
        assert_eq!(one.half_width, None);
        assert_eq!(one.told(" %"), "7 %");
        let same = Estimate::of(&[7.0, 7.0]).expect("an estimate");
        assert_eq!(same.told(" %"), "7 ± 0 %");
    }

    #[test]
    fn intervals_are_told_to_two_digits() {
        let told = [0.0, 0.00043719, 0.043719, 4.3719, 43.719, 437.19];
        let told = told.map(|half| around(Some(half)));
        let expected = [
            " ± 0",
            " ± 0.00044",
            " ± 0.044",
            " ± 4.4",
            " ± 44",
            " ± 437",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn means_over_points_go_seed_by_seed() {
        // The point without chance takes part in each.
        let all: [&[f64]; 2] = [&[1.0, 3.0], &[5.0]];
        assert_eq!(mean_of(all.iter().copied()), Estimate::of(&[3.0, 4.0]));
        let none: [&[f64]; 0] = [];
        assert_eq!(mean_of(none.iter().copied()), None);
        let all: [&[f64]; 2] = [&[1.0, 4.0], &[4.0]];
        let mean = geometric_mean(all.iter().copied()).expect("a mean");
        assert!((mean.mean - 3.0).abs() < 1e-12 && mean.half_width.is_some());
    }
}
