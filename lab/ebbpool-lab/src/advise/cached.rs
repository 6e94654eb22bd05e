//! Reads that the kernel's cache answers, so that no device serves them.
//!
//! A server without direct I/O reads through this cache. Its misses are then no reads of the device, and a bill that charges them
//! as such promises what no larger buffer can save.

use schemars::JsonSchema;
use serde::Serialize;

use super::measured::MeasuredWrites;
use super::notes::{AdviceNote, NoteKind};
use crate::numbers::decimals;

/// A smaller share is no finding: the two counters do not start at the same moment.
const LEAST: f64 = 0.1;

/// Fewer reads say nothing of the others.
const FEWEST_READS: f64 = 100.0;

/// The reads of a server while the trace was captured, where the kernel's cache answered many of them.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct CachedReads {
    /// The share of the server's page reads that the cache answered, at least: devices may have read other files, too.
    pub share: f64,
    /// The server's page reads per second.
    pub reads_per_second: f64,
    /// Bytes per second that devices read for the server.
    pub device_bytes_per_second: f64,
    /// True if the server's reads were counted; false if they are those of the simulation.
    pub counted: bool,
}

impl CachedReads {
    /// The reads of a capture, of which the present system makes `simulated` by simulation. `None` if the kernel counted nothing,
    /// or if devices served nearly all.
    pub(super) fn new(measured: &MeasuredWrites, simulated: u64, page_size: Option<u64>) -> Option<Self> {
        let page_size = page_size? as f64;
        let counted = measured.read.page_bytes;
        let asked = counted.map_or(simulated as f64 * page_size, |bytes| bytes as f64);
        let served = measured.read.process_bytes? as f64;
        let share = 1.0 - served / asked;
        (asked >= FEWEST_READS * page_size && share >= LEAST).then(|| CachedReads {
            share,
            reads_per_second: asked / page_size / measured.seconds,
            device_bytes_per_second: served / measured.seconds,
            counted: counted.is_some(),
        })
    }

    /// What the operator must know, and which figures hold.
    pub(super) fn note(&self) -> AdviceNote {
        let by = if self.counted { "" } else { " (by simulation)" };
        AdviceNote::new(
            NoteKind::CachedReads,
            format!(
                "of {} page reads a second{by} the kernel's cache answered {:.0} %, and the device read {} MB a second: the bill \
                 and \"busy\" count only what reached the device, the same share with every policy and memory. Reads a second, writes \
                 and lives hold. What more memory saves of the device's reads is not known, because the kernel's cache loses it; the \
                 commands below charge all reads",
                decimals(self.reads_per_second, 0),
                100.0 * self.share,
                decimals(self.device_bytes_per_second / 1e6, 1),
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::MeasuredReads;

    #[test]
    fn the_cache_answers_what_no_device_read() {
        let of = |pages: Option<u64>, process: Option<u64>| {
            let mut measured = MeasuredWrites::new(2.0);
            measured.read = MeasuredReads::new(pages, process);
            CachedReads::new(&measured, 300, Some(8192))
        };
        let found = of(Some(400 * 8192), Some(100 * 8192)).expect("cached reads");
        assert_eq!((found.share, found.reads_per_second, found.counted), (0.75, 200.0, true));
        assert_eq!(found.device_bytes_per_second, 50.0 * 8192.0);
        // The server has no counter.
        let found = of(None, Some(0)).expect("cached reads");
        assert_eq!((found.share, found.reads_per_second, found.counted), (1.0, 150.0, false));
        // The device reads all, or more than the server asked for.
        assert_eq!(of(Some(400 * 8192), Some(380 * 8192)), None);
        assert_eq!(of(Some(400 * 8192), Some(800 * 8192)), None);
        // Nothing is known, or hardly anything was read.
        assert_eq!((of(Some(400 * 8192), None), of(Some(99 * 8192), Some(0))), (None, None));
    }
}
