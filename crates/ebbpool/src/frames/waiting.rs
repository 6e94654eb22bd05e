//! Waiting for a latch, or for a copy to land.

use crossbeam_utils::CachePadded;

use super::{Frames, WaitCondition};
use crate::sync::{Condvar, Instant, Mutex};

/// The number of waiting rooms, which the frames share.
const ROOMS: usize = 64;

/// The rooms in which threads wait. All threads that wait for a frame wait in the same room, and threads that wait
/// for other frames wait there too.
pub(super) struct WaitingRooms(Box<[CachePadded<WaitingRoom>]>);

#[derive(Default)]
struct WaitingRoom {
    /// The frames that writers wait for, and the number of writers of each.
    writers: Mutex<Vec<(u32, u32)>>,
    woken: Condvar,
}

impl Default for WaitingRooms {
    fn default() -> Self {
        WaitingRooms((0..ROOMS).map(|_| CachePadded::default()).collect())
    }
}

impl WaitingRooms {
    fn of(&self, frame: u32) -> &WaitingRoom {
        &self.0[frame as usize % ROOMS]
    }
}

/// A writer in the queue for the exclusive latch of a frame: readers let it go first. Dropping this removes the
/// writer from the queue, whether it has the latch then or has given up.
pub(crate) struct QueuedWriter<'f> {
    frames: &'f Frames,
    frame: u32,
}

impl Frames {
    /// Wakes the threads that wait for a frame.
    #[cold]
    pub(super) fn wake(&self, frame: u32) {
        let room = self.rooms.of(frame);
        // A thread that noted that it waits sleeps by then (`word.rs`, 6).
        drop(room.writers.lock());
        room.woken.notify_all();
    }

    /// Waits until the condition may hold for the page in the frame, or the frame has another page; false once
    /// `deadline` has passed. `queued` is a writer's place in the queue while it goes on waiting for the same frame.
    #[cold]
    pub(crate) fn wait<'f>(
        &'f self,
        (frame, page): (u32, u64),
        awaited: WaitCondition,
        queued: &mut Option<QueuedWriter<'f>>,
        deadline: Instant,
    ) -> bool {
        // The queue for another frame is left first, since that takes a room's lock.
        if queued.as_ref().is_some_and(|writer| writer.frame != frame) {
            *queued = None;
        }
        let room = self.rooms.of(frame);
        let mut writers = room.writers.lock();
        if !self.header(frame).word.note_waiter(awaited) {
            return true;
        }
        if awaited.is_writer() && queued.is_none() {
            match writers.iter_mut().find(|(of, _)| *of == frame) {
                Some((_, count)) => *count += 1,
                None => writers.push((frame, 1)),
            }
            *queued = Some(QueuedWriter {
                frames: self,
                frame,
            });
        }
        // The page may have left the frame before the waiter was noted; a thread that removes it later wakes this one.
        if self.page_in(frame) != page {
            drop(writers);
            *queued = None;
            return true;
        }
        !room.woken.wait_until(&mut writers, deadline).timed_out()
    }
}

impl Drop for QueuedWriter<'_> {
    fn drop(&mut self) {
        let room = self.frames.rooms.of(self.frame);
        let mut writers = room.writers.lock();
        let Some(at) = writers.iter().position(|(of, _)| *of == self.frame) else {
            return debug_assert!(false, "the writer is in the queue of its room");
        };
        writers[at].1 -= 1;
        if writers[at].1 > 0 {
            return;
        }
        writers.swap_remove(at);
        if self.frames.header(self.frame).word.last_writer_stopped() {
            drop(writers);
            // Readers waited for this writer, and no release of a latch will wake them.
            room.woken.notify_all();
        }
    }
}
