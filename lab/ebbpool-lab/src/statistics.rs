//! Means over random samples, and how certain they are.

use distrs::{Normal, StudentsT};

/// The probability with which an interval contains what it is an interval of.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// The fewest units from which an interval can be resampled: the least and the largest of fewer means are too close to
/// each other.
pub(crate) const FEWEST_UNITS: usize = 5;

/// Resamples of an interval: with the fewest units its ends are the tenth of them from either side.
const RESAMPLES: usize = 10_000;

/// A mean over samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanEstimate {
    /// The mean.
    pub mean: f64,
    /// Half of the 95 % confidence interval by Student's t; `None` for a figure that does not depend on random numbers.
    pub half_width: Option<f64>,
}

impl MeanEstimate {
    /// The estimate from one sample for each seed, or from a single sample of a figure that does not depend on
    /// random numbers. `None` without a sample.
    pub fn from_samples(samples: &[f64]) -> Option<Self> {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        match samples {
            [] => None,
            [one] => Some(MeanEstimate { mean: *one, half_width: None }),
            _ => {
                let squares = samples.iter().map(|sample| (sample - mean).powi(2));
                let deviation = (squares.sum::<f64>() / (count - 1.0)).sqrt();
                let quantile = StudentsT::ppf(0.5 + CONFIDENCE / 2.0, count - 1.0);
                Some(MeanEstimate { mean, half_width: Some(quantile * deviation / count.sqrt()) })
            }
        }
    }
}

/// Means over units that are drawn again and again, each with replacement: the same draws for every series of samples, so
/// that differences between two series are paired.
pub(crate) struct Resampling {
    /// For each resample, how often it has each unit.
    times: Vec<Vec<u32>>,
    units: usize,
}

impl Resampling {
    /// Draws from this many units; `None` if these are fewer than [`FEWEST_UNITS`].
    pub(crate) fn new(units: usize) -> Option<Self> {
        let below = u32::try_from(units).ok().filter(|_| units >= FEWEST_UNITS)?;
        // The same units give the same interval at every call and on every machine.
        let mut random = fastrand::Rng::with_seed(0);
        let draw = |_| {
            let mut times = vec![0; units];
            for _ in 0..units {
                times[random.u32(..below) as usize] += 1;
            }
            times
        };
        Some(Resampling { times: (0..RESAMPLES).map(draw).collect(), units })
    }

    /// The units of each draw.
    pub(crate) fn units(&self) -> usize {
        self.units
    }

    /// The 95 % interval of the mean over the units. It is the expanded percentile interval of the bootstrap (Hesterberg,
    /// What Teachers Should Know about the Bootstrap, The American Statistician 69, 2015): the plain percentiles are too
    /// narrow for few units, since they take the deviation of the samples for that of all that could have been drawn.
    pub(crate) fn interval(&self, samples: &[f64]) -> [f64; 2] {
        let mean = |times: &Vec<u32>| {
            let sum: f64 = times.iter().zip(samples).map(|(&times, sample)| f64::from(times) * sample).sum();
            sum / self.units as f64
        };
        let mut means: Vec<f64> = self.times.iter().map(mean).collect();
        means.sort_unstable_by(f64::total_cmp);
        let units = self.units as f64;
        let t = StudentsT::ppf(0.5 + CONFIDENCE / 2.0, units - 1.0);
        let below = Normal::cdf(-t * (units / (units - 1.0)).sqrt(), 0.0, 1.0);
        let at = ((means.len() as f64 * below) as usize).min(means.len() - 1);
        [means[at], means[means.len() - 1 - at]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_students_t() {
        // Mean 3, deviation sqrt(2.5), t with 4 degrees of freedom 2.7764.
        let five = MeanEstimate::from_samples(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("an estimate");
        assert_eq!(five.mean, 3.0);
        let half = five.half_width.expect("an interval");
        assert!((half - 1.9632).abs() < 1e-3, "{half}");
        // t with 1 and with 9 degrees of freedom: 12.706 and 2.2622.
        let two = MeanEstimate::from_samples(&[1.0, 3.0]).and_then(|two| two.half_width);
        assert!(two.is_some_and(|half| (half - 12.706).abs() < 1e-2), "{two:?}");
        let ten: Vec<f64> = (0..10).map(f64::from).collect();
        let ten = MeanEstimate::from_samples(&ten).and_then(|ten| ten.half_width);
        let expected = 2.2622 * (82.5_f64 / 9.0).sqrt() / 10_f64.sqrt();
        assert!(ten.is_some_and(|half| (half - expected).abs() < 1e-3), "{ten:?}");
        assert_eq!(MeanEstimate::from_samples(&[]), None);
    }

    /// Of a few samples that are far from normal, the interval contains the mean less often: documents say so.
    #[test]
    fn skewed_samples_have_intervals_that_are_too_short() {
        let mut random = fastrand::Rng::with_seed(8);
        let resampling = Resampling::new(FEWEST_UNITS).expect("enough units");
        // One unit in five differs from the others.
        let mut sample = || f64::from(u8::from(random.f64() < 0.2));
        let rounds = 400;
        let covered = (0..rounds).filter(|_| {
            let samples: Vec<f64> = (0..FEWEST_UNITS).map(|_| sample()).collect();
            let [low, high] = resampling.interval(&samples);
            (low..=high).contains(&0.2)
        });
        let share = covered.count() as f64 / f64::from(rounds);
        assert!((0.6..=0.8).contains(&share), "{share}");
    }

    #[test]
    fn there_is_no_interval_of_few_units() {
        assert!(Resampling::new(FEWEST_UNITS - 1).is_none());
    }

    mod whole {
        use super::*;

        /// Of normal samples, the interval contains the mean about as often as it says, with few units and with many.
        #[test]
        fn resampled_intervals_contain_the_mean_as_often_as_they_say() {
            let mut random = fastrand::Rng::with_seed(7);
            // The sum of twelve even draws is as good as normal here.
            let mut sample = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            for units in [5, 8, 20] {
                let resampling = Resampling::new(units).expect("enough units");
                let rounds = 400;
                let covered = (0..rounds).filter(|_| {
                    let samples: Vec<f64> = (0..units).map(|_| sample()).collect();
                    let [low, high] = resampling.interval(&samples);
                    (low..=high).contains(&0.0)
                });
                let share = covered.count() as f64 / f64::from(rounds);
                assert!((0.91..=0.98).contains(&share), "{units}: {share}");
            }
        }
    }
}
