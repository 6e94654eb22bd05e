//! Waiting for a latch, or for a copy to land.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::queues::{Queues, Ticket, Turn};
use super::{Frames, WaitCondition};
use crate::sync::{Condvar, Instant, Mutex};

/// The number of waiting rooms, which the frames share.
const ROOMS: usize = 64;

/// The rooms in which threads wait. All threads that wait for a frame wait in the same room, and threads that wait
/// for other frames wait there too.
pub(super) struct WaitingRooms(Box<[CachePadded<WaitingRoom>]>);

#[derive(Default)]
struct WaitingRoom {
    queues: Mutex<Queues>,
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

/// How a thread is queued that begins, or goes on, to wait for a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seniority {
    /// Threads that came later may be before it.
    Newcomer,
    /// It has waited for long: it gets a turn, in which it goes before all writers that have none, after the elders before it.
    Elder,
    /// The next turn is its own.
    Urgent,
}

/// A thread in the queue for the latch of a frame: a writer, which readers let go first, or an elder, which writers let go
/// first. Dropping this removes the thread from the queue, whether it has the latch then or has given up.
pub(crate) struct QueuedThread<'f> {
    frames: &'f Frames,
    frame: u32,
    is_writer: bool,
    elder: Option<Ticket>,
    has_turn: bool,
}

impl QueuedThread<'_> {
    /// True if it is the thread's turn, as an elder.
    pub(crate) fn has_turn(&self) -> bool {
        self.has_turn
    }
}

impl Frames {
    /// Wakes the threads that wait for a frame.
    #[cold]
    pub(super) fn wake(&self, frame: u32) {
        let room = self.rooms.of(frame);
        // A thread that noted that it waits sleeps by then (`word.rs`, 6).
        drop(room.queues.lock());
        room.woken.notify_all();
    }

    /// How long the writers in the queue for a frame have waited for a turn.
    pub(crate) fn writers_waited(&self, frame: u32) -> Duration {
        self.rooms.of(frame).queues.lock().writers_waited(frame)
    }

    /// Waits until the condition may hold for the page in the frame, or the frame has another page; false once
    /// `deadline` has passed. `queued` is the thread's place in the queue while it goes on waiting for the same frame.
    #[cold]
    pub(crate) fn wait<'f>(
        &'f self,
        (frame, page): (u32, u64),
        (awaited, seniority): (WaitCondition, Seniority),
        queued: &mut Option<QueuedThread<'f>>,
        deadline: Instant,
    ) -> bool {
        // The queue for another frame is left first, since that takes a room's lock.
        if queued.as_ref().is_some_and(|thread| thread.frame != frame) {
            *queued = None;
        }
        let room = self.rooms.of(frame);
        let mut queues = room.queues.lock();
        loop {
            if seniority != Seniority::Newcomer {
                let thread = queued.get_or_insert_with(|| QueuedThread::new(self, frame));
                let urgent = seniority == Seniority::Urgent;
                (thread.elder).get_or_insert_with(|| queues.add_elder(frame, urgent));
            }
            let elder = queued.as_ref().and_then(|thread| thread.elder);
            let turn = elder.map_or(Turn::AfterOthers, |ticket| queues.turn(frame, ticket));
            let has_turn = turn == Turn::Now;
            if let Some(thread) = queued {
                thread.has_turn = has_turn;
            }
            let word = &self.header(frame).word;
            if !word.note_waiter(awaited.in_turn(has_turn), has_turn) {
                return true;
            }
            if awaited.is_writer() {
                let thread = queued.get_or_insert_with(|| QueuedThread::new(self, frame));
                if !std::mem::replace(&mut thread.is_writer, true) {
                    queues.add_writer(frame);
                }
            }
            // The page may have left the frame before the waiter was noted; a thread that removes it later wakes this one.
            if self.page_in(frame) != page {
                drop(queues);
                *queued = None;
                return true;
            }
            let until = match turn {
                Turn::At(turn) => turn.min(deadline),
                Turn::Now | Turn::AfterOthers => deadline,
            };
            if !room.woken.wait_until(&mut queues, until).timed_out() {
                return true;
            }
            if until == deadline {
                return false;
            }
        }
    }
}

impl<'f> QueuedThread<'f> {
    fn new(frames: &'f Frames, frame: u32) -> Self {
        QueuedThread { frames, frame, is_writer: false, elder: None, has_turn: false }
    }
}

impl Drop for QueuedThread<'_> {
    fn drop(&mut self) {
        let room = self.frames.rooms.of(self.frame);
        let word = &self.frames.header(self.frame).word;
        let mut queues = room.queues.lock();
        let mut wakes = false;
        if let Some(ticket) = self.elder {
            let left = queues.remove_elder(self.frame, ticket);
            if left.ends_turns {
                word.turn_ended();
            }
            // No release of a latch will wake those that waited for this one.
            wakes = left.wakes;
        }
        if self.is_writer && queues.remove_writer(self.frame) {
            // Readers waited for this writer, and no release of a latch will wake them.
            wakes |= word.last_writer_stopped();
        }
        drop(queues);
        if wakes {
            room.woken.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_urgent_turn_leaves_one_that_has_begun() {
        let frames = Frames::new((1, 1), 1, 64).expect("there is memory");
        let mut claimed = frames.claim(0).expect("it is empty");
        claimed.begin_load(7);
        claimed.loaded(0, false);
        let _held = claimed.into_exclusive();
        let waits = |awaited, seniority, queued: &mut _| {
            let in_time = frames.wait((0, 7), (awaited, seniority), queued, Instant::now());
            assert!(!in_time, "another thread has the latch");
        };
        let writes = WaitCondition::Exclusive { in_turn: false };
        let reads = WaitCondition::Shared { polite_since: None };
        let (mut elder, mut urgent) = (None, None);
        waits(writes, Seniority::Elder, &mut elder);
        waits(reads, Seniority::Urgent, &mut urgent);
        drop(urgent);
        let word = &frames.header(0).word;
        assert!(word.elder_waits(), "writers let the other one go first");
        drop(elder);
        assert!(!word.elder_waits());
    }

    #[test]
    fn a_reader_lets_an_elder_go_first_before_it_upgrades() {
        let frames = Frames::new((1, 1), 1, 64).expect("there is memory");
        let mut claimed = frames.claim(0).expect("it is empty");
        claimed.begin_load(7);
        claimed.loaded(0, false);
        let latch = claimed.into_shared();
        let mut elder = None;
        let writes = WaitCondition::Exclusive { in_turn: false };
        assert!(!frames.wait((0, 7), (writes, Seniority::Elder), &mut elder, Instant::now()), "the reader has the latch");
        let latch = latch.upgrade().err().expect("an elder has its turn");
        drop(elder);
        assert!(latch.upgrade().is_ok(), "it has given up");
    }
}
