//! Figures that depend on random numbers: their means over seeds, with confidence intervals.

use distrs::StudentsT;

use super::verdict::number;

/// The probability with which an interval contains the mean over all seeds.
const CONFIDENCE: f64 = 0.95;

/// A mean over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    /// Half of the 95 % confidence interval; `None` for a figure that does not depend on random numbers.
    pub(crate) half_width: Option<f64>,
}

impl Estimate {
    /// The estimate from one sample for each seed, or from a single sample of a figure that does not depend on
    /// random numbers. `None` without a sample.
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

    /// The estimate with the opposite sign.
    pub(crate) fn opposite(self) -> Self {
        Estimate {
            mean: -self.mean,
            ..self
        }
    }

    /// The estimate as a text, such as `3.5 ± 0.2 %`.
    pub(crate) fn text(&self, unit: &str) -> String {
        value_text(self.mean, self.half_width, unit)
    }
}

/// A value and half of its interval as a text.
pub(crate) fn value_text(value: f64, half_width: Option<f64>, unit: &str) -> String {
    format!("{}{}{unit}", number(value), interval_text(half_width))
}

/// Half of an interval as a text, with two significant digits; more would not be meaningful.
pub(crate) fn interval_text(half_width: Option<f64>) -> String {
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

/// The mean over several series of samples, seed by seed. A series of one sample does not depend on random
/// numbers and is part of the mean of each seed. `None` without a sample.
pub(crate) fn mean_of<'a>(all: impl Iterator<Item = &'a [f64]> + Clone) -> Option<Estimate> {
    Estimate::of(&means(all, |value| value))
}

/// As [`mean_of`], with the geometric mean for each seed.
pub(crate) fn geometric_mean<'a>(all: impl Iterator<Item = &'a [f64]> + Clone) -> Option<Estimate> {
    let logarithms = means(all, f64::ln);
    let means: Vec<f64> = logarithms.into_iter().map(f64::exp).collect();
    Estimate::of(&means).filter(|mean| mean.mean.is_finite())
}

/// For each seed, the mean of `counts` over the values of all series.
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
    fn a_figure_without_random_numbers_has_no_interval() {
        let one = Estimate::of(&[7.0]).expect("an estimate");
        assert_eq!(one.half_width, None);
        assert_eq!(one.text(" %"), "7 %");
        let same = Estimate::of(&[7.0, 7.0]).expect("an estimate");
        assert_eq!(same.text(" %"), "7 ± 0 %");
    }

    #[test]
    fn intervals_have_two_significant_digits() {
        let texts = [0.0, 0.00043719, 0.043719, 4.3719, 43.719, 437.19];
        let texts = texts.map(|half| interval_text(Some(half)));
        let expected = [
            " ± 0",
            " ± 0.00044",
            " ± 0.044",
            " ± 4.4",
            " ± 44",
            " ± 437",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn means_over_points_go_seed_by_seed() {
        // The series of one sample is part of the mean of each seed.
        let all: [&[f64]; 2] = [&[1.0, 3.0], &[5.0]];
        assert_eq!(mean_of(all.iter().copied()), Estimate::of(&[3.0, 4.0]));
        let none: [&[f64]; 0] = [];
        assert_eq!(mean_of(none.iter().copied()), None);
        let all: [&[f64]; 2] = [&[1.0, 4.0], &[4.0]];
        let mean = geometric_mean(all.iter().copied()).expect("a mean");
        assert!((mean.mean - 3.0).abs() < 1e-12 && mean.half_width.is_some());
    }
}
