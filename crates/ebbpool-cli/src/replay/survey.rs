//! A first pass over the trace: how long it is, and which pages the file must have.

use std::sync::atomic::Ordering;

use ebbpool_sim::{SimError, Size};
use ebbpool_trace::{Batch, Metadata, Source};
use hashbrown::HashSet;

use super::args::PoolReplayArgs;
use crate::failure::Failure;
use crate::progress;

const BATCH: usize = 1 << 16;

/// Policies over more frames are given no more than there are pages, as in the simulator.
const FRAMES_TAKEN_ON_TRUST: u64 = 1 << 20;

/// What must be known before the replay begins.
pub(super) struct Survey {
    pub(super) metadata: Metadata,
    pub(super) references: u64,
    /// Pages that the file must have.
    pub(super) pages: u64,
    /// Frames as asked for.
    pub(super) frames: u64,
    /// Frames of the pool.
    pub(super) pool_frames: u32,
    pub(super) warmup: u64,
}

/// Reads the trace once.
pub(super) fn survey(args: &PoolReplayArgs, source: &Source) -> Result<Survey, Failure> {
    let mut reader = source.open()?;
    progress::report_notes(reader.notes());
    let metadata = reader.metadata().clone();
    let stated = metadata.database_pages;
    let counts_pages = match args.frames.size {
        Size::Frames(frames) => frames > FRAMES_TAKEN_ON_TRUST,
        Size::Share(_) => true,
    };
    let bar = progress::bar("reading the trace");
    let mut batch = Batch::with_capacity(BATCH);
    let mut distinct = HashSet::new();
    let mut references = 0u64;
    let mut highest = None;
    while reader.next_batch(&mut batch, BATCH)? {
        if progress::STOP.load(Ordering::Relaxed) {
            return Err(SimError::Interrupted.into());
        }
        references += batch.len() as u64;
        highest = highest.max(batch.pages.iter().copied().max());
        if counts_pages {
            distinct.extend(batch.pages.iter().copied());
        }
        progress::set(&bar, reader.progress());
    }
    bar.finish_and_clear();
    let trace = || source.label().to_string();
    let Some(highest) = highest else {
        return Err(SimError::Empty { trace: trace() }.into());
    };
    let distinct = distinct.len() as u64;
    let frames = args.frames.size.frames_of(stated.unwrap_or(distinct));
    let in_pool = match frames > FRAMES_TAKEN_ON_TRUST {
        true => frames.min(distinct),
        false => frames,
    };
    let warmup = args.warmup.references_of(references);
    if warmup >= references {
        return Err(SimError::AllWarmup {
            trace: trace(),
            references,
            warmup,
        }
        .into());
    }
    let pages = highest.checked_add(1).ok_or_else(|| {
        Failure::Usage(format!(
            "{}: a file cannot have a page {highest}; number the pages of the trace from 0",
            trace()
        ))
    })?;
    Ok(Survey {
        metadata,
        references,
        pages: pages.max(stated.unwrap_or(0)),
        frames,
        pool_frames: u32::try_from(in_pool).unwrap_or(u32::MAX),
        warmup,
    })
}
