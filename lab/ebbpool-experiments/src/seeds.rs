//! Figures that depend on random numbers: their means over seeds, with confidence intervals.

pub(crate) use ebbpool_lab::statistics::MeanEstimate;

/// Relative differences up to this share count as equality.
pub(crate) const SAME: f64 = 1e-9;

/// What an experiment prints of an estimate.
pub(crate) trait Stated {
    /// The estimate with the opposite sign.
    fn opposite(self) -> Self;

    /// The estimate as a text, such as `3.5 ± 0.2 %`.
    fn text(&self, unit: &str) -> String;
}

impl Stated for MeanEstimate {
    fn opposite(self) -> Self {
        MeanEstimate { mean: -self.mean, ..self }
    }

    fn text(&self, unit: &str) -> String {
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
pub(crate) fn mean_of<'a>(all: impl Iterator<Item = &'a [f64]> + Clone) -> Option<MeanEstimate> {
    MeanEstimate::from_samples(&means(all, |value| value))
}

/// The mean over the seeds of the geometric mean over several series; `None` without a sample or a finite mean.
pub(crate) fn geometric_mean<'a>(all: impl Iterator<Item = &'a [f64]> + Clone) -> Option<MeanEstimate> {
    let logarithms = means(all, f64::ln);
    let means: Vec<f64> = logarithms.into_iter().map(f64::exp).collect();
    MeanEstimate::from_samples(&means).filter(|mean| mean.mean.is_finite())
}

/// For each seed, the mean of `counts` over the values of all series.
pub(crate) fn means<'a>(all: impl Iterator<Item = &'a [f64]> + Clone, counts: impl Fn(f64) -> f64) -> Vec<f64> {
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

/// A number with about three significant digits. What is not zero does not look like zero, but for errors of rounding.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if size <= SAME || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.001 => 4,
        _ => (2.0 - size.log10().floor()) as usize,
    };
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text.as_str(),
    };
    match text {
        "-0" => "0".into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_without_random_numbers_has_no_interval() {
        let one = MeanEstimate::from_samples(&[7.0]).expect("an estimate");
        assert_eq!(one.half_width, None);
        assert_eq!(one.text(" %"), "7 %");
        let same = MeanEstimate::from_samples(&[7.0, 7.0]).expect("an estimate");
        assert_eq!(same.text(" %"), "7 ± 0 %");
    }

    #[test]
    fn intervals_have_two_significant_digits() {
        let texts = [0.0, 0.00043719, 0.043719, 4.3719, 43.719, 437.19];
        let texts = texts.map(|half| interval_text(Some(half)));
        let expected = [" ± 0", " ± 0.00044", " ± 0.044", " ± 4.4", " ± 44", " ± 437"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn means_over_points_go_seed_by_seed() {
        // The series of one sample is part of the mean of each seed.
        let all: [&[f64]; 2] = [&[1.0, 3.0], &[5.0]];
        assert_eq!(mean_of(all.iter().copied()), MeanEstimate::from_samples(&[3.0, 4.0]));
        let none: [&[f64]; 0] = [];
        assert_eq!(mean_of(none.iter().copied()), None);
        let all: [&[f64]; 2] = [&[1.0, 4.0], &[4.0]];
        let mean = geometric_mean(all.iter().copied()).expect("a mean");
        assert!((mean.mean - 3.0).abs() < 1e-12 && mean.half_width.is_some());
    }
}
