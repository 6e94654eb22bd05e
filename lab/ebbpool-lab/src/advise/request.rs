//! What an operator asks.

use std::time::Duration;

use ebbpool_cost::{ByteSize, BytesPerDay};
use ebbpool_device::arrivals::Rate;
use ebbpool_policy::PolicySpec;

use super::measured::MeasuredWrites;
use super::server::ServerKind;
use crate::error::{AdviseError, RequestError};
use crate::memory_size::MemorySize;
use crate::pricing::PricingRequest;
use crate::run::CountingRules;

/// A request for advice: the system as it is, and what it should do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AdviseRequest {
    /// The constant asymmetry, or the device; `None` stands for the papers' asymmetry.
    pub pricing: Option<PricingRequest>,
    /// The program that made the references; `None` stands for the one that the trace's name suggests.
    pub server: Option<ServerKind>,
    /// The policy that the system has now; `None` stands for that of the server.
    pub now: Option<PolicySpec>,
    /// The size of the buffer now; `None` stands for the server's default, else for 3 % of the database.
    pub frames: Option<MemorySize>,
    /// The most memory that the buffer may have; `None` stands for its present size.
    pub budget: Option<ByteSize>,
    /// How fast references arrive; `None` stands for the trace's own times, if it has any.
    pub clock: Option<AdviceClock>,
    /// How long the device should live.
    pub life: Option<Duration>,
    /// How references are counted; its rate is ignored, because `clock` has it. Without checkpoints those of `now` are
    /// charged to every candidate.
    pub counting: CountingRules,
    /// $ a month of a GiB of memory.
    pub memory_price: Option<f64>,
    /// What the present system wrote while the trace was captured.
    pub measured: Option<MeasuredWrites>,
}

/// How fast references arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AdviceClock {
    /// References per second.
    Rate(Rate),
    /// The time in which all references of the trace arrived.
    Duration(Duration),
    /// What the system writes in a day now.
    DailyWrites(DailyWrites),
}

/// What a system writes in a day.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum DailyWrites {
    /// Pages.
    Pages(f64),
    /// Bytes.
    Bytes(BytesPerDay),
}

impl AdviseRequest {
    /// A request at this price, with all else by default.
    pub fn new(pricing: PricingRequest) -> Self {
        AdviseRequest { pricing: Some(pricing), ..AdviseRequest::default() }
    }

    /// Checks everything that can be checked before the trace is read.
    ///
    /// # Errors
    ///
    /// [`RequestError::Advise`].
    pub fn check(&self) -> Result<(), RequestError> {
        let changing = match &self.pricing {
            Some(PricingRequest::Asymmetry(spec)) => Some(spec).filter(|spec| spec.constant().is_none()),
            Some(PricingRequest::Device { changing, .. }) => changing.as_ref(),
            None => None,
        };
        if let Some(spec) = changing {
            return Err(AdviseError::Changes(spec.clone()).into());
        }
        if let Some(now) = self.now.as_ref().filter(|now| !now.online()) {
            return Err(AdviseError::NotOnline(now.to_string()).into());
        }
        match self.clock {
            Some(AdviceClock::Duration(duration)) if duration.is_zero() => {
                return Err(AdviseError::NoDuration.into());
            }
            Some(AdviceClock::DailyWrites(DailyWrites::Pages(pages))) if !(pages.is_finite() && pages > 0.0) => {
                return Err(AdviseError::NotDailyWrites(pages).into());
            }
            _ => {}
        }
        if let Some(price) = self.memory_price.filter(|price| !(price.is_finite() && *price >= 0.0)) {
            return Err(AdviseError::NotMemoryPrice(price).into());
        }
        if self.life.is_some_and(|life| life.is_zero()) {
            return Err(AdviseError::NoLife.into());
        }
        Ok(())
    }
}
