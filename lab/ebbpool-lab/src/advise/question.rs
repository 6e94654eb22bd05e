//! The questions to the lab whose answers an advice consists of.

use ebbpool_cost::Asymmetry;

use crate::memory_size::MemorySize;
use crate::pricing::PricingRequest;
use crate::run::CountingRules;

/// A question to the lab, and which figures of the advice its answer has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AdviceQuestion {
    /// The figures that the answer has, in a few words.
    pub about: &'static str,
    /// Which command or method answers it.
    pub kind: QuestionKind,
    /// The policies.
    pub policies: Vec<String>,
    /// Memory sizes in frames, ascending.
    pub frames: Vec<u64>,
    /// How references are counted.
    pub counting: CountingRules,
}

/// Which method of the lab answers a question.
#[derive(Clone, Debug)]
pub enum QuestionKind {
    /// [`Lab::compare`](crate::Lab::compare) at these prices.
    Compare(Vec<PricingRequest>),
    /// [`Lab::curve`](crate::Lab::curve) at this asymmetry, from a sample of this share of the pages.
    Curve(Asymmetry, Option<f64>),
}

impl AdviceQuestion {
    pub(super) fn sizes(&self) -> Vec<MemorySize> {
        self.frames.iter().copied().map(MemorySize::frames).collect()
    }
}
