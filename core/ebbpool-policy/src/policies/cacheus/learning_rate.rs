//! The learning rate of Cacheus.

use crate::sample::FrameSampler;

const LEAST: f64 = 0.001;
const MOST: f64 = 1.0;
/// Periods without a hit, or in which the hit ratio fell, until the rate starts anew.
const PATIENCE: u32 = 10;

/// A learning rate that follows the hit ratio by its gradient, as the authors' code computes it.
///
/// A period has as many references as there are frames. Hit ratios and rates are compared in
/// thousandths.
pub(super) struct LearningRate {
    rate: f64,
    start: f64,
    /// The rates of the last two periods.
    current: f64,
    previous: f64,
    period: u64,
    references: u64,
    hits: u64,
    hit_ratio: f64,
    /// Periods without a hit, and in which the hit ratio fell.
    idle: u32,
    falls: u32,
}

fn thousandths(value: f64) -> f64 {
    libm::rint(value * 1000.0) / 1000.0
}

impl LearningRate {
    pub(super) fn new(frames: u32) -> Self {
        let rate = libm::sqrt(2.0 * std::f64::consts::LN_2 / f64::from(frames));
        LearningRate {
            rate,
            start: rate.clamp(LEAST, MOST),
            current: rate,
            previous: 0.0,
            period: u64::from(frames),
            references: 0,
            hits: 0,
            hit_ratio: 0.0,
            idle: 0,
            falls: 0,
        }
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) fn count_hit(&mut self) {
        self.hits += 1;
    }

    /// A reference begins, whose hit is not counted yet.
    pub(super) fn tick(&mut self, sampler: &mut FrameSampler) {
        self.references += 1;
        if self.references == self.period {
            self.references = 0;
            self.end_period(sampler);
        }
    }

    fn end_period(&mut self, sampler: &mut FrameSampler) {
        let hit_ratio = thousandths(self.hits as f64 / self.period as f64);
        let gain = thousandths(hit_ratio - self.hit_ratio);
        let change = thousandths(self.current) - thousandths(self.previous);
        let step = (self.rate * change).abs();
        if change * gain > 0.0 {
            self.rate = (self.rate + step).min(MOST);
            (self.falls, self.idle) = (0, 0);
        } else if change * gain < 0.0 {
            self.rate = (self.rate - step).max(LEAST);
            (self.falls, self.idle) = (0, 0);
        } else if gain <= 0.0 {
            self.without_gradient(hit_ratio, gain, sampler);
        }
        self.previous = self.current;
        self.current = self.rate;
        self.hit_ratio = hit_ratio;
        self.hits = 0;
    }

    fn without_gradient(&mut self, hit_ratio: f64, gain: f64, sampler: &mut FrameSampler) {
        if hit_ratio <= 0.0 && gain == 0.0 {
            self.idle += 1;
        }
        if gain < 0.0 {
            self.falls += 1;
            self.idle += 1;
        }
        if self.idle >= PATIENCE {
            self.rate = self.start;
            self.idle = 0;
        } else if gain < 0.0 {
            if self.falls >= PATIENCE {
                self.rate = self.start;
                self.falls = 0;
            } else {
                self.wander(sampler);
            }
        }
    }

    /// Steps in a direction drawn by chance, or back from an extreme.
    fn wander(&mut self, sampler: &mut FrameSampler) {
        self.rate = if self.rate >= MOST {
            0.9
        } else if self.rate <= LEAST {
            0.005
        } else if sampler.happens(0.5) {
            (self.rate * 1.25).min(MOST)
        } else {
            (self.rate * 0.75).max(LEAST)
        };
    }
}
