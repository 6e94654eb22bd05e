//! Two experts whose weights are learned by regret, for LeCaR and Cacheus.

use crate::policy::Frame;
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

/// The experts' weights, and the expert that chose the last victim.
///
/// The authors' code has single precision; this has double.
pub(super) struct ExpertWeights {
    /// The weight of the expert for recency; that of the other is the rest to 1.
    recency: f64,
    /// The victim chosen last, and the expert that it is remembered for; `None` if both chose it.
    chosen: Option<(Frame, Expert)>,
}

impl ExpertWeights {
    pub(super) fn new() -> Self {
        ExpertWeights { recency: 0.5, chosen: None }
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

    /// Draws the expert whose victim is evicted.
    #[inline]
    pub(super) fn choose(&mut self, recency: Frame, frequency: Frame, sampler: &mut FrameSampler) -> Frame {
        let (victim, expert) = match sampler.happens(self.recency) {
            true => (recency, Expert::Recency),
            false => (frequency, Expert::Frequency),
        };
        self.chosen = (recency != frequency).then_some((victim, expert));
        victim
    }

    /// The victim of the expert that [`choose`](Self::choose) would draw.
    pub(super) fn next(&self, recency: Frame, frequency: Frame, sampler: &FrameSampler) -> Frame {
        match sampler.clone().happens(self.recency) {
            true => recency,
            false => frequency,
        }
    }

    /// The expert that alone chose `frame` as the last victim. It answers once.
    #[inline]
    pub(super) fn take_chooser(&mut self, frame: Frame) -> Option<Expert> {
        let (_, expert) = self.chosen.take().filter(|(chosen, _)| *chosen == frame)?;
        Some(expert)
    }
}
