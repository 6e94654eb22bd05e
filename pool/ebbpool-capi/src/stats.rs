//! The figures of a pool.

#![allow(unsafe_code)]

use ebbpool::{Pool, ReadCause, WriteCause};

use crate::error::StatusCode;
use crate::handle::{PoolHandle, with_pool};
use crate::pointers::{Versioned, write_versioned};

/// What a pool has done since it was opened. Set `struct_size` before the call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolFigures {
    /// `sizeof(ebbpool_stats)`.
    pub struct_size: usize,
    /// Bytes of a page in storage.
    pub page_size: u64,
    /// Bytes of a page that belong to the program.
    pub payload_size: u64,
    /// Pages of the storage.
    pub pages: u64,
    /// Frames of the pool.
    pub frames: u64,
    /// Frames that have a page.
    pub resident: u64,
    /// Frames whose page is dirty.
    pub dirty: u64,
    /// Pages that are fixed by functions of this library, each as often as it is fixed.
    pub fixed: u64,
    /// Fixes of resident pages.
    pub hits: u64,
    /// Fixes of pages that were not resident.
    pub misses: u64,
    /// Pages read, for all causes.
    pub pages_read: u64,
    /// Pages read because they were fixed.
    pub read_for_misses: u64,
    /// Pages read ahead of sequential fixes.
    pub read_ahead: u64,
    /// Pages written, for all causes.
    pub pages_written: u64,
    /// Pages written because they were evicted, or together with such a page.
    pub written_for_evictions: u64,
    /// Pages written by checkpoints.
    pub written_by_checkpoints: u64,
    /// Pages written in the background.
    pub written_in_background: u64,
    /// Pages that were flushed.
    pub flushed: u64,
    /// Pages written to the double-write area.
    pub double_write_pages: u64,
    /// Calls of the storage that wrote.
    pub write_calls: u64,
    /// Syncs of the storage.
    pub syncs: u64,
    /// How often the log had to be made durable because a page was to be written.
    pub log_flushes: u64,
    /// Pages that could not be read, or were damaged.
    pub failed_reads: u64,
    /// Pages that could not be written.
    pub failed_writes: u64,
    /// Fixes that waited for a latch.
    pub waits_for_latches: u64,
    /// Misses that waited for a dirty page to be written.
    pub waits_for_writes: u64,
    /// Misses that waited because all frames were fixed.
    pub waits_for_frames: u64,
    /// Fixes that waited because too many pages were dirty.
    pub delays: u64,
    /// The total time of these delays, in µs.
    pub delayed_us: u64,
    /// 1 if a sync has failed and the pool only reads; 0 otherwise.
    pub sync_failed: u64,
    /// What a page read costs, as the policy knows it, in µs.
    pub read_cost: f64,
    /// What a page write costs, as the policy knows it, in µs.
    pub write_cost: f64,
}

// SAFETY: the struct is `repr(C)`, its first field is its size, and all its fields are numbers.
unsafe impl Versioned for PoolFigures {
    const NAME: &'static str = "ebbpool_stats";
}

fn figures(handle: &PoolHandle, pool: &Pool) -> PoolFigures {
    let stats = pool.stats();
    let read = |cause| stats.read_for(cause);
    let written = |cause| stats.written_for(cause);
    PoolFigures {
        struct_size: size_of::<PoolFigures>(),
        page_size: stats.page_size as u64,
        payload_size: pool.payload_size() as u64,
        pages: pool.pages(),
        frames: stats.frames.into(),
        resident: stats.resident.into(),
        dirty: stats.dirty.into(),
        fixed: handle.fixed.count() as u64,
        hits: stats.hits,
        misses: stats.misses,
        pages_read: stats.reads(),
        read_for_misses: read(ReadCause::Miss),
        read_ahead: read(ReadCause::ReadAhead),
        pages_written: stats.writes(),
        written_for_evictions: written(WriteCause::Eviction) + written(WriteCause::Cluster),
        written_by_checkpoints: written(WriteCause::Checkpoint),
        written_in_background: written(WriteCause::Background),
        flushed: written(WriteCause::Flush),
        double_write_pages: stats.double_write_pages,
        write_calls: stats.write_calls,
        syncs: stats.syncs,
        log_flushes: stats.log_forces,
        failed_reads: stats.failed_reads,
        failed_writes: stats.failed_writes,
        waits_for_latches: stats.waits_for_latches,
        waits_for_writes: stats.waits_for_writes,
        waits_for_frames: stats.waits_for_frames,
        delays: stats.delays,
        delayed_us: u64::try_from(stats.delayed.as_micros()).unwrap_or(u64::MAX),
        sync_failed: stats.poisoned.is_some().into(),
        read_cost: stats.costs.read,
        write_cost: stats.costs.write,
    }
}

/// Stores what the pool has done so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_pool_stats(pool: *mut PoolHandle, stats: *mut PoolFigures) -> StatusCode {
    let body = |handle: &PoolHandle, pool: &Pool| {
        // SAFETY: the pointer may be written, as the header requires.
        unsafe { write_versioned(stats, figures(handle, pool)) }
    };
    // SAFETY: the pointer is that of a pool, as the header requires.
    unsafe { with_pool(pool, body) }
}
