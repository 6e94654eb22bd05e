//! What a request leaves open, and what stands in its place.

use ebbpool_policy::PolicySpec;
use ebbpool_trace::Metadata;

use super::notes::{AdviceNote, NoteKind};
use super::request::AdviseRequest;
use super::server::ServerKind;
use crate::error::AdviseError;
use crate::error::RequestError;
use crate::memory_size::MemorySize;
use crate::numbers::{frames_and_bytes, rounded};

/// A share of the database, for a buffer about which nothing is known: FD-Buffer's default.
const USUAL_SHARE: &str = "3%";

/// The budget in frames.
pub(super) fn budget(request: &AdviseRequest, metadata: &Metadata) -> Result<Option<u64>, RequestError> {
    let Some(budget) = request.budget else {
        return Ok(None);
    };
    let page_size = metadata.page_size.ok_or(AdviseError::BudgetWithoutPageSize(budget))?;
    match budget.bytes() / page_size.max(1) {
        0 => Err(AdviseError::BudgetBelowPage { budget, page_size }.into()),
        frames => Ok(Some(frames)),
    }
}

/// The present size of the buffer: that of the request, else the server's default, else a usual share of the
/// database.
pub(super) fn present(
    request: &AdviseRequest,
    server: ServerKind,
    metadata: &Metadata,
    budget: Option<u64>,
) -> Result<MemorySize, RequestError> {
    if let Some(size) = &request.frames {
        return Ok(size.clone());
    }
    if let (Some(bytes), Some(page_size)) = (server.default_memory(), metadata.page_size) {
        return Ok(MemorySize::frames(bytes.bytes() / page_size.max(1)));
    }
    if let Some(budget) = budget {
        return Ok(MemorySize::frames(budget));
    }
    Ok(USUAL_SHARE.parse().unwrap_or(MemorySize::frames(1)))
}

/// What the request leaves open, and what stands in its place.
pub(super) fn assumed(
    request: &AdviseRequest,
    server: ServerKind,
    now: &PolicySpec,
    present: u64,
    budget: Option<u64>,
    metadata: &Metadata,
) -> Vec<AdviceNote> {
    let mut notes = Vec::new();
    if request.now.is_none() {
        let text = match server.name() {
            Some(name) => format!("the present policy is {now}, as that of {name}"),
            None => format!("the present policy is {now}"),
        };
        notes.push(AdviceNote::new(NoteKind::Policy, text));
    }
    if request.frames.is_none() {
        let size = frames_and_bytes(present, metadata.page_size);
        let why = match (server.name(), metadata.page_size, budget) {
            (Some(name), Some(_), _) => format!("{name}'s default"),
            (_, _, Some(_)) => "the budget".into(),
            (_, _, None) => "3 % of the pages".into(),
        };
        let text = format!("the present buffer has {size}, {why}");
        notes.push(AdviceNote::new(NoteKind::Frames, text));
    }
    notes.extend(assumed_asymmetry(request));
    notes
}

/// The R of a request that has none.
pub(super) fn assumed_asymmetry(request: &AdviseRequest) -> Option<AdviceNote> {
    let ratio = rounded(ebbpool_cost::PAPERS_BASE.ratio());
    let text = format!("R is {ratio}, as in the papers");
    let is_open = request.pricing.is_none();
    is_open.then(|| AdviceNote::new(NoteKind::Asymmetry, text))
}
