//! Checkpoints (`bufmgr.c`: `BufferSync`; `checkpointer.c`: `CheckpointWriteDelay`).

use super::frames::Frames;
use crate::policy::{BackgroundWrite, BackgroundWriter, Frame, Page};

/// The pause after each page while the checkpoint is ahead of its schedule.
const PAUSE_US: u64 = 100_000;

/// Writes the pages that are dirty when a checkpoint begins, in order of page number, spread over a share of the time
/// to the next one.
pub(super) struct Checkpointer {
    /// µs between the beginnings of two checkpoints; 0 if time causes none.
    timeout_us: u64,
    /// References that write between the beginnings of two checkpoints; 0 if they cause none.
    most_written: u64,
    /// The share of the time, or of those references, over which writes are spread.
    target: f64,
    /// The page in each frame; empty if there are no checkpoints.
    pages: Vec<Page>,
    /// The frames that the present checkpoint writes, and the number of those that it has passed.
    to_write: Vec<Frame>,
    passed: usize,
    /// When the last checkpoint began.
    start_us: u64,
    start_written: u64,
    /// When it next has something to do: a time, or a number of references that write.
    next_us: u64,
    next_written: u64,
}

impl Checkpointer {
    pub(super) fn new(timeout_s: u64, most_written: u64, target: f64, frames: u32) -> Self {
        let off = timeout_s == 0 && most_written == 0;
        let frames = if off { 0 } else { frames as usize };
        let timeout_us = timeout_s * 1_000_000;
        let unless_off = |number: u64| if number == 0 { u64::MAX } else { number };
        Checkpointer {
            timeout_us,
            most_written,
            target,
            pages: vec![0; frames],
            to_write: Vec::with_capacity(frames),
            passed: 0,
            start_us: 0,
            start_written: 0,
            next_us: unless_off(timeout_us),
            next_written: unless_off(most_written),
        }
    }

    /// True if time or references that write cause checkpoints.
    pub(super) fn is_on(&self) -> bool {
        self.timeout_us > 0 || self.most_written > 0
    }

    /// When it next has something to do, in µs.
    pub(super) fn next_us(&self) -> u64 {
        self.next_us
    }

    /// When it next has something to do, in references that write.
    pub(super) fn next_written(&self) -> u64 {
        self.next_written
    }

    #[inline]
    pub(super) fn admit(&mut self, frame: Frame, page: Page) {
        if let Some(in_frame) = self.pages.get_mut(frame as usize) {
            *in_frame = page;
        }
    }

    /// Does what is due at `now`, after `written` references that write.
    pub(super) fn run(&mut self, now: u64, written: u64, frames: &mut Frames, writes: &mut Vec<BackgroundWrite>) {
        if now < self.next_us && written < self.next_written {
            return;
        }
        let by_time = self.timeout_us > 0 && now - self.start_us >= self.timeout_us;
        let by_writes = self.most_written > 0 && written - self.start_written >= self.most_written;
        if by_time || by_writes {
            self.write(self.to_write.len(), frames, writes);
            self.begin(now, written, frames);
        }
        self.proceed(now, written, frames, writes);
    }

    /// Collects the dirty pages.
    fn begin(&mut self, now: u64, written: u64, frames: &mut Frames) {
        // The intervals are those of the server's clock, whenever a reference shows it.
        self.start_us = match self.timeout_us {
            0 => now,
            timeout if now - self.start_us >= timeout => now - (now - self.start_us) % timeout,
            _ => now,
        };
        self.start_written = written;
        self.passed = 0;
        self.to_write.clear();
        for frame in 0..frames.count() {
            if frames.is_dirty(frame) {
                frames.mark_for_checkpoint(frame);
                self.to_write.push(frame);
            }
        }
        let pages = &self.pages;
        self.to_write.sort_unstable_by_key(|&frame| pages[frame as usize]);
    }

    /// Writes as many pages as the schedule asks for, and at least one after each pause. Time counts in whole pauses, so
    /// that another call before the next one does nothing.
    fn proceed(&mut self, now: u64, written: u64, frames: &mut Frames, writes: &mut Vec<BackgroundWrite>) {
        let pauses = (now - self.start_us) / PAUSE_US;
        let count = self.to_write.len();
        let share = |part: u64, whole: u64| match whole {
            0 => 0.0,
            whole => part as f64 / whole as f64,
        };
        let progress = share(pauses * PAUSE_US, self.timeout_us).max(share(written - self.start_written, self.most_written));
        let by_pauses = usize::try_from(pauses + 1).unwrap_or(usize::MAX);
        let mut passed = self.passed.max(by_pauses.min(count));
        while passed < count && passed as f64 / count as f64 * self.target < progress {
            passed += 1;
        }
        self.write(passed, frames, writes);
        self.plan(pauses);
    }

    /// Writes the pages up to the one numbered `end`, unless they have been written since the checkpoint began.
    fn write(&mut self, end: usize, frames: &mut Frames, writes: &mut Vec<BackgroundWrite>) {
        for &frame in &self.to_write[self.passed..end] {
            if frames.is_marked_for_checkpoint(frame) {
                frames.cleaned(frame);
                writes.push(BackgroundWrite { frame, writer: BackgroundWriter::Checkpointer });
            }
        }
        self.passed = end;
    }

    /// Notes when there is something to do again.
    fn plan(&mut self, pauses: u64) {
        let running = self.passed < self.to_write.len();
        let after_pause = self.start_us + (pauses + 1) * PAUSE_US;
        let next_begin = |start: u64, interval: u64| match interval {
            0 => u64::MAX,
            interval => start + interval,
        };
        self.next_us = next_begin(self.start_us, self.timeout_us);
        self.next_written = next_begin(self.start_written, self.most_written);
        if running {
            self.next_us = self.next_us.min(after_pause);
            // The next page is due after that many references that write, or, because of rounding, one later.
            let due = (self.passed as f64 / self.to_write.len() as f64 * self.target) * self.most_written as f64;
            if self.most_written > 0 {
                let due = self.start_written + due as u64;
                self.next_written = self.next_written.min(due);
            }
        }
    }
}
