//! The weights of two experts, learned by regret, for LeCaR and Cacheus.

use crate::sample::FrameSampler;

/// Neither weight becomes larger than this, so that both experts are always heard.
const LARGEST: f64 = 0.99;

/// One of the two experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expert {
    /// Least recently used.
    Recency,
    /// Least frequently used.
    Frequency,
}

/// The weight of the expert for recency; that of the other is the rest to 1.
///
/// The authors' code has single precision; this has double.
pub(super) struct ExpertWeights {
    recency: f64,
}

impl ExpertWeights {
    pub(super) fn new() -> Self {
        ExpertWeights { recency: 0.5 }
    }

    /// The expert evicted a page that was missed: its weight is multiplied by e^-`penalty`.
    pub(super) fn penalise(&mut self, expert: Expert, penalty: f64) {
        let factor = libm::exp(-penalty);
        let (recency, frequency) = match expert {
            Expert::Recency => (self.recency * factor, 1.0 - self.recency),
            Expert::Frequency => (self.recency, (1.0 - self.recency) * factor),
        };
        self.recency = (recency / (recency + frequency)).clamp(1.0 - LARGEST, LARGEST);
    }

    /// Draws the expert that chooses the victim.
    #[inline]
    pub(super) fn draw(&self, sampler: &mut FrameSampler) -> Expert {
        match sampler.happens(self.recency) {
            true => Expert::Recency,
            false => Expert::Frequency,
        }
    }
}
