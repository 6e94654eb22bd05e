//! The background writer (`bufmgr.c`: `BgBufferSync`).

use super::frames::Frames;
use crate::policy::{BackgroundWrite, BackgroundWriter, Frame};

/// Rounds over which estimates are smoothed.
const SMOOTHING: f32 = 16.0;

/// The time in which the writer looks at all frames even if none is needed, in ms.
const WHOLE_POOL_MS: f32 = 120_000.0;

/// Cleans pages ahead of the hand, as many as the next round's misses are expected to need.
///
/// It uses the server's types, so that roundings are the server's.
pub(super) struct Cleaner {
    delay_us: u64,
    most_writes: u64,
    multiplier: f64,
    /// The time of the next round; `u64::MAX` if the writer is off.
    next_us: u64,
    previous_steps: Option<u64>,
    /// Frames that the writer has passed, in steps of the hand.
    next_to_clean: u64,
    smoothed_allocations: f32,
    /// Frames that have to be looked at for one that can be reused.
    smoothed_density: f32,
}

impl Cleaner {
    /// A round every `delay_ms` writes at most `most_writes` pages; 0 turns the writer off.
    pub(super) fn new(delay_ms: u64, most_writes: u64, multiplier: u64) -> Self {
        let delay_us = delay_ms * 1000;
        Cleaner {
            delay_us,
            most_writes,
            multiplier: multiplier as f64,
            next_us: if most_writes == 0 { u64::MAX } else { delay_us },
            previous_steps: None,
            next_to_clean: 0,
            smoothed_allocations: 0.0,
            smoothed_density: 10.0,
        }
    }

    /// The time of the next round, in µs.
    pub(super) fn next_us(&self) -> u64 {
        self.next_us
    }

    /// Does the rounds up to `now`. `allocations` are those since the last round, without those of rings.
    pub(super) fn run(&mut self, now: u64, frames: &mut Frames, allocations: &mut u64, writes: &mut Vec<BackgroundWrite>) {
        while self.next_us <= now {
            let idle = self.round(frames, std::mem::take(allocations), writes);
            self.next_us = self.next_us.saturating_add(self.delay_us);
            if idle && self.next_us <= now {
                // The rounds until then would do nothing.
                let rounds = (now - self.next_us) / self.delay_us + 1;
                self.next_us += rounds * self.delay_us;
            }
        }
    }

    /// One round. True if another would do nothing before the next miss.
    fn round(&mut self, frames: &mut Frames, allocations: u64, writes: &mut Vec<BackgroundWrite>) -> bool {
        let count = u64::from(frames.count());
        let steps = frames.steps();
        let moved = self.previous_steps.map_or(0, |before| steps - before);
        if self.previous_steps.is_none() || self.next_to_clean < steps {
            self.next_to_clean = steps;
        }
        self.previous_steps = Some(steps);
        let ahead = self.next_to_clean - steps;
        let to_lap = count - ahead.min(count);
        self.observe(moved, allocations);
        let reusable_before = (ahead as f32 / self.smoothed_density) as u64;
        let upcoming = self.upcoming(allocations, reusable_before, count);

        let (mut scanned, mut written, mut reusable) = (0, 0, reusable_before);
        while scanned < to_lap && reusable < upcoming {
            let frame = (self.next_to_clean % count) as Frame;
            self.next_to_clean += 1;
            scanned += 1;
            if !frames.is_reusable(frame) {
                continue;
            }
            reusable += 1;
            if frames.is_dirty(frame) {
                frames.cleaned(frame);
                writes.push(BackgroundWrite { frame, writer: BackgroundWriter::Cleaner });
                written += 1;
                if written >= self.most_writes {
                    break;
                }
            }
        }
        self.observe(scanned, reusable - reusable_before);
        allocations == 0 && scanned == 0 && self.smoothed_allocations == 0.0
    }

    /// `found` reusable frames were among `passed`.
    fn observe(&mut self, passed: u64, found: u64) {
        if passed > 0 && found > 0 {
            let density = passed as f32 / found as f32;
            self.smoothed_density += (density - self.smoothed_density) / SMOOTHING;
        }
    }

    /// The reusable frames that are expected to be needed by the next round: it follows a rise at once and a fall
    /// slowly. An idle server makes some progress, too.
    fn upcoming(&mut self, allocations: u64, reusable: u64, count: u64) -> u64 {
        let recent = allocations as f32;
        if self.smoothed_allocations <= recent {
            self.smoothed_allocations = recent;
        } else {
            self.smoothed_allocations += (recent - self.smoothed_allocations) / SMOOTHING;
        }
        let expected = (f64::from(self.smoothed_allocations) * self.multiplier) as u64;
        if expected == 0 {
            self.smoothed_allocations = 0.0;
        }
        let delay_ms = (self.delay_us / 1000) as f32;
        let least = (count as f32 / (WHOLE_POOL_MS / delay_ms)) as u64;
        expected.max(least + reusable)
    }
}
