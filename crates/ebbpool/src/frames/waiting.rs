//! Waiting for a latch, or for a copy to land.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::{Frames, WaitCondition};
use crate::sync::{Condvar, Instant, Mutex};

/// The number of waiting rooms, which the frames share.
const ROOMS: usize = 64;

/// The least time between the turns of two elders of a frame. A turn hands the latch over to a thread that sleeps: where many
/// threads change a page for a moment each, they would do nothing else.
const BETWEEN_TURNS: Duration = Duration::from_millis(1);

/// The rooms in which threads wait. All threads that wait for a frame wait in the same room, and threads that wait
/// for other frames wait there too.
pub(super) struct WaitingRooms(Box<[CachePadded<WaitingRoom>]>);

#[derive(Default)]
struct WaitingRoom {
    queues: Mutex<Queues>,
    woken: Condvar,
}

#[derive(Default)]
struct Queues {
    writers: Vec<WriterQueue>,
    /// The elders of all frames, in the order of their turns.
    elders: Vec<Elder>,
    next_ticket: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Ticket(u64);

#[derive(Clone, Copy)]
struct Elder {
    frame: u32,
    ticket: Ticket,
    /// When it has its turn, at the earliest, if it is the first one of its frame.
    turn: Instant,
}

/// The writers that wait for a frame.
struct WriterQueue {
    frame: u32,
    writers: u32,
    /// When a writer last left the queue, or the first one joined it.
    since: Instant,
}

impl Queues {
    fn add_writer(&mut self, frame: u32) {
        match self.writers.iter_mut().find(|queue| queue.frame == frame) {
            Some(queue) => queue.writers += 1,
            None => self.writers.push(WriterQueue {
                frame,
                writers: 1,
                since: Instant::now(),
            }),
        }
    }

    /// True if it was the last writer that waited for the frame.
    fn remove_writer(&mut self, frame: u32) -> bool {
        let place = self.writers.iter().position(|queue| queue.frame == frame);
        let Some(at) = place else {
            debug_assert!(false, "the writer is in the queue of its room");
            return false;
        };
        let queue = &mut self.writers[at];
        queue.writers -= 1;
        queue.since = Instant::now();
        let is_empty = queue.writers == 0;
        if is_empty {
            self.writers.swap_remove(at);
        }
        is_empty
    }

    /// The last of the elders, or the first if it is `urgent`.
    fn add_elder(&mut self, frame: u32, urgent: bool) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let at = if urgent { 0 } else { self.elders.len() };
        let turn = Instant::now();
        let elder = Elder {
            frame,
            ticket,
            turn,
        };
        self.elders.insert(at, elder);
        ticket
    }

    /// Removes an elder; true if it was the first one of its frame. After its turn the next one waits a while for its own.
    fn remove_elder(&mut self, frame: u32, ticket: Ticket, had_turn: bool) -> bool {
        let was_first = self.turn(frame, ticket).is_some();
        self.elders.retain(|elder| elder.ticket != ticket);
        if had_turn && let Some(next) = self.elders.iter_mut().find(|elder| elder.frame == frame) {
            next.turn = Instant::now() + BETWEEN_TURNS;
        }
        was_first
    }

    /// When this elder has its turn, if it is the first one of its frame.
    fn turn(&self, frame: u32, ticket: Ticket) -> Option<Instant> {
        let first = self.elders.iter().find(|elder| elder.frame == frame)?;
        (first.ticket == ticket).then_some(first.turn)
    }
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
        let queues = self.rooms.of(frame).queues.lock();
        let mut writers = queues.writers.iter();
        let queue = writers.find(|queue| queue.frame == frame);
        queue.map_or(Duration::ZERO, |queue| queue.since.elapsed())
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
            let turn = elder.and_then(|ticket| queues.turn(frame, ticket));
            let has_turn = turn.is_some_and(|turn| turn <= Instant::now());
            if let Some(thread) = queued {
                thread.has_turn |= has_turn;
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
                Some(turn) if !has_turn => turn.min(deadline),
                _ => deadline,
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
        QueuedThread {
            frames,
            frame,
            is_writer: false,
            elder: None,
            has_turn: false,
        }
    }
}

impl Drop for QueuedThread<'_> {
    fn drop(&mut self) {
        let room = self.frames.rooms.of(self.frame);
        let word = &self.frames.header(self.frame).word;
        let mut queues = room.queues.lock();
        let mut wakes = false;
        if let Some(ticket) = self.elder {
            let was_first = queues.remove_elder(self.frame, ticket, self.has_turn);
            if self.has_turn {
                word.turn_ended();
            }
            // The next elder waits for its turn, or writers have let this one go first, and no release of a latch will wake them.
            wakes = was_first || self.has_turn;
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
