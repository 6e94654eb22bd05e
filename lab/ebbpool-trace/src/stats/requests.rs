//! The times and rings of references.

use serde::{Deserialize, Serialize};

use crate::reference::RequestDetail;
use crate::ring::{Ring, RingKind};

/// What a trace says of its references besides page and write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestStatistics {
    /// Time from the first to the last reference, in µs; 0 for a trace without times.
    pub duration_us: u64,
    /// References of big scans through a ring of their own.
    pub bulk_reads: u64,
    /// References of bulk writes through a ring of their own.
    pub bulk_writes: u64,
    /// References of a vacuum through its ring.
    pub vacuums: u64,
}

/// Collects the times and rings of references.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestUses {
    /// The time of the first reference, in µs.
    first: Option<u64>,
    uses: RequestStatistics,
}

impl RequestUses {
    /// Adds the next references.
    pub(super) fn add(&mut self, requests: &[RequestDetail]) {
        for request in requests {
            let first = *self.first.get_or_insert(request.time_us);
            self.uses.duration_us = request.time_us.saturating_sub(first);
            match Ring::from_code(request.bypass).map(|ring| ring.kind) {
                None => {}
                Some(RingKind::BulkRead | RingKind::BulkReadGivingUp) => self.uses.bulk_reads += 1,
                Some(RingKind::BulkWrite) => self.uses.bulk_writes += 1,
                Some(RingKind::Vacuum) => self.uses.vacuums += 1,
            }
        }
    }

    /// The statistics, if the trace has times or rings.
    pub(super) fn statistics(&self) -> Option<RequestStatistics> {
        self.first.map(|_| self.uses)
    }
}
