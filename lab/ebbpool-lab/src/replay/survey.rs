//! A first pass over the trace, which determines its length and the pages that the file needs.

use ebbpool_sim::{BufferSize, SimError};
use ebbpool_trace::{Metadata, OptionalColumns, Source};
use hashbrown::HashSet;

use super::{ReplayError, ReplayRequest};
use crate::error::LabError;
use crate::lab::Lab;

/// Requests for more frames than this are limited to the number of distinct pages, as in the simulator.
const MOST_UNCHECKED_FRAMES: u64 = 1 << 20;

/// The facts that a replay needs before it begins.
pub(super) struct TraceSurvey {
    pub(super) metadata: Metadata,
    pub(super) references: u64,
    /// True if pages end, or writes replace whole pages.
    pub(super) has_operations: bool,
    /// The number of pages that the file needs.
    pub(super) pages: u64,
    /// The frames of the request.
    pub(super) frames: u64,
    /// The frames of the pool.
    pub(super) pool_frames: u32,
    pub(super) warmup: u64,
}

/// Reads the trace once.
pub(super) fn survey(lab: &Lab, request: &ReplayRequest, source: &Source) -> Result<TraceSurvey, LabError> {
    let mut reader = source.open_with(OptionalColumns::OPERATIONS)?;
    lab.notes(reader.notes());
    let metadata = reader.metadata().clone();
    lab.note_capture(source, &metadata);
    let stated = metadata.database_pages;
    // A memory size in bytes has room for pages of the replay's size.
    let replayed = Metadata { page_size: Some(super::page_size(request, &metadata)? as u64), ..metadata.clone() };
    let frames_of = |pages| {
        let size = request.size.size;
        size.to_frames(pages, &replayed, source.label())
    };
    let counts_pages = match request.size.size {
        BufferSize::Share(_) => true,
        BufferSize::Frames(_) | BufferSize::Bytes(_) => frames_of(0)? > MOST_UNCHECKED_FRAMES,
    };
    let mut distinct = HashSet::new();
    let mut references = 0u64;
    let mut highest = None;
    let (mut has_trims, mut has_whole) = (false, false);
    lab.for_each_batch(&mut reader, "reading the trace", |batch| {
        references += batch.len() as u64;
        highest = highest.max(batch.pages.iter().copied().max());
        has_trims |= !batch.trims.is_empty();
        has_whole |= batch.whole.contains(&true);
        if counts_pages {
            distinct.extend(batch.pages.iter().copied());
        }
        Ok::<(), LabError>(())
    })?;
    let trace = || source.label().to_string();
    let Some(highest) = highest else {
        return Err(SimError::Empty { trace: trace() }.into());
    };
    let distinct = distinct.len() as u64;
    let frames = frames_of(stated.unwrap_or(distinct))?;
    let in_pool = match frames > MOST_UNCHECKED_FRAMES {
        true => frames.min(distinct),
        false => frames,
    };
    let warmup = request.warmup.to_references(references);
    if warmup >= references {
        return Err(SimError::AllWarmup { trace: trace(), references, warmup }.into());
    }
    if has_trims && warmup > 0 {
        return Err(ReplayError::TrimsAfterWarmup { trace: trace() }.into());
    }
    let pages = highest.checked_add(1).ok_or_else(|| ReplayError::PageNumber { trace: trace(), page: highest })?;
    Ok(TraceSurvey {
        metadata,
        references,
        has_operations: has_trims || has_whole,
        pages: pages.max(stated.unwrap_or(0)),
        frames,
        pool_frames: u32::try_from(in_pool).unwrap_or(u32::MAX),
        warmup,
    })
}
