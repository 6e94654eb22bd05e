//! Advice for an operator: the policy to take, the memory worth having, and what both do to the device.
//!
//! [`Lab::advise`] asks the lab the questions that an operator would have to think of: the bill of a few policies
//! against memory ([`Lab::curve`]), and the exact counts of the best of them and of the present system
//! ([`Lab::compare`]). All else follows from these counts by arithmetic, which `docs/advise.md` describes.

mod advisor;
mod assumptions;
mod breakeven;
mod cached;
mod checkpoint_knobs;
mod clock;
mod html;
mod knobs;
mod life;
mod load;
mod measured;
mod notes;
mod paragraphs;
mod question;
mod request;
mod server;
mod simulation;
mod sizes;
mod uncached;

use ebbpool_trace::Source;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::LabError;
use crate::lab::Lab;
use crate::numbers::Number;

pub use crate::error::AdviseError;
pub use crate::knee::Knee;
pub use breakeven::BreakEven;
pub use cached::CachedReads;
pub use clock::{ArrivalRate, ClockSource};
pub use html::{AdvicePageParts, report_page};
pub use knobs::ServerSetting;
pub use life::{LifeAnswer, WritesByCause};
pub use load::SystemLoad;
pub use measured::{MeasuredDay, MeasuredDevice, MeasuredReads, MeasuredWrites};
pub use notes::{AdviceNote, NoteKind};
pub use paragraphs::{AdviceParagraph, AdviceTable};
pub use question::{AdviceQuestion, QuestionKind};
pub use request::{AdviceClock, AdviseRequest, DailyWrites};
pub use server::ServerKind;

use advisor::Advisor;
use simulation::AdviceEvents;

/// The policies that an advice chooses from, beside the present one: the classics of servers, the best without regard
/// to writes, and those that weigh writes; all are online, and an engine can embed them. `cflru`, `ccf-lru` and `ebb`
/// know which pages are dirty.
pub(crate) const CANDIDATES: [&str; 9] = ["lru", "clock", "gclock", "arc", "s3-fifo", "w-tinylfu", "cflru", "ccf-lru", "ebb"];

/// A policy and a memory size.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct MemoryChoice {
    /// The policy in canonical spelling.
    pub policy: String,
    /// Frames of the buffer.
    pub frames: u64,
    /// Their bytes, if the size of a page is known.
    pub bytes: Option<u64>,
}

/// The best policy at one memory size of the curve.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct MemoryPoint {
    /// Frames of the buffer.
    pub frames: u64,
    /// Their bytes, if the size of a page is known.
    pub bytes: Option<u64>,
    /// The policy with the smallest bill; of a server that keeps its policy that policy.
    pub policy: String,
    /// Its bill per reference, in page reads.
    pub cost: f64,
    /// The policy with the smallest bill, whatever the server can have.
    pub best_policy: String,
    /// The bill of that.
    pub best_cost: f64,
    /// The error of the bill as a share, 0 where it is exact.
    pub error: Option<f64>,
    /// The bill of the present policy.
    pub cost_now: f64,
    /// The policy's page reads per reference.
    pub reads_per_reference: f64,
    /// Its page writes per reference.
    pub writes_per_reference: f64,
    /// The bytes that it writes in a day.
    pub bytes_written_per_day: Option<f64>,
    /// The device's life with it.
    pub life_years: Option<f64>,
    /// The least and the most years, where the device's endurance has a range.
    pub life_range_years: Option<[f64; 2]>,
    /// $ a month of the device, and of this memory if the request has a price for it.
    pub dollars_per_month: Option<f64>,
}

/// The answer to an operator. It serializes as one JSON object; unknown figures are null.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct Advice {
    /// The name of the trace in the request.
    pub trace: String,
    /// The program that made the references.
    pub server: ServerKind,
    /// Counted references, that is, without the warm-up.
    pub references: u64,
    /// References at the start that are replayed but not counted.
    pub warmup: u64,
    /// Distinct pages of the trace.
    pub distinct_pages: u64,
    /// Bytes of a page.
    pub page_size: Option<u64>,
    /// The device.
    pub device: Option<String>,
    /// R, the cost of a page write in page reads.
    #[schemars(with = "f64")]
    pub asymmetry: Number,
    /// How fast references arrive.
    pub arrivals: Option<ArrivalRate>,
    /// The reads that the kernel's cache answered while the trace was captured; null if they were few, or were not counted. Bills and
    /// `busy_share` leave this share of all reads out.
    pub cached_reads: Option<CachedReads>,
    /// When all dirty pages are written, in every system of the advice, as `--checkpoints` spells it.
    pub checkpoints: Option<String>,
    /// The policy to take, and its memory.
    pub recommendation: MemoryChoice,
    /// What the recommendation saves of the present bill, in per cent.
    pub saves: Option<f64>,
    /// True if the trace was recorded below a cache and the request names no present buffer. `now` is the device then, which
    /// serves the references themselves: its policy is `none`, it has 0 frames, and `then` is a further cache.
    pub uncached: bool,
    /// True if the present policy is that of a server, which has no setting for it: the recommendation, `then`, `curve` and `knee` are
    /// of this policy, with other settings.
    pub keeps_policy: bool,
    /// The best policy with the recommended memory, if the server cannot have it; null if it costs no less.
    pub other_policy: Option<SystemLoad>,
    /// The system as it is.
    pub now: SystemLoad,
    /// The recommended policy with the present memory.
    pub same_memory: SystemLoad,
    /// The system as recommended.
    pub then: SystemLoad,
    /// The bill against memory.
    pub curve: Vec<MemoryPoint>,
    /// The size from which more memory is hardly worth while; `None` if the curve does not reach it.
    pub knee: Option<Knee>,
    /// The size of the curve that costs the least $ a month, with its memory; `None` without a price of one of the two.
    pub cheapest_frames: Option<u64>,
    /// The R from which up to the present one the recommended policy costs least with its memory; `None` if no such R is known.
    #[schemars(with = "Option<f64>")]
    pub asymmetry_breakeven: Option<Number>,
    /// For each of the other policies, the R from which on the recommended policy, or `other_policy`, costs less.
    pub breakevens: Vec<BreakEven>,
    /// The life of the device.
    pub life: LifeAnswer,
    /// What the figures in $ are without; empty if there are none.
    pub dollars_without: Vec<String>,
    /// What the request does not say, and what stands in its place.
    #[schemars(with = "Vec<String>")]
    pub assumptions: Vec<AdviceNote>,
    /// What limits the answer, and what would mend it.
    #[schemars(with = "Vec<String>")]
    pub warnings: Vec<AdviceNote>,
    /// What the settings of the running server would save.
    pub knobs: Vec<ServerSetting>,
    /// The questions to the lab that have the figures.
    #[serde(skip)]
    pub questions: Vec<AdviceQuestion>,
}

impl Advice {
    /// The answer in sections for a page: sentences and tables.
    pub fn paragraphs(&self) -> Vec<AdviceParagraph> {
        paragraphs::of_advice(self)
    }
}

impl Lab<'_> {
    /// Advises an operator on policy and memory for one trace. Results that are in the store are not simulated again.
    ///
    /// ```
    /// use ebbpool_lab::{AdviseRequest, Lab, PricingRequest, Settings, Silent, Source};
    /// let trace = Source::parse("zipf:pages=200,refs=4000", None)?;
    /// let advice = Lab::new(Settings::default(), &Silent).advise(&trace, &AdviseRequest::new(PricingRequest::default()))?;
    /// assert!(!advice.paragraphs().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the request is invalid, the trace cannot be read, or the caller stops. Finished results remain in the
    /// store.
    pub fn advise(&self, source: &Source, request: &AdviseRequest) -> Result<Advice, LabError> {
        request.check()?;
        let events = AdviceEvents::new(self.events);
        let lab = self.with_events(&events);
        let advice = Advisor::new(&lab, source, request, &events)?.advice()?;
        events.report_stored(source.label());
        Ok(advice)
    }
}
