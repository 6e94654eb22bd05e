//! Waiting for a latch, or for a copy to land.

use std::time::Duration;

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
    queues: Mutex<Queues>,
    woken: Condvar,
}

#[derive(Default)]
struct Queues {
    writers: Vec<WriterQueue>,
    /// The elders of all frames, each with its frame, in the order in which they take their latches.
    elders: Vec<(u32, Ticket)>,
    next_ticket: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Ticket(u64);

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
        self.elders.insert(at, (frame, ticket));
        ticket
    }

    /// True if it was the last elder that waited for the frame.
    fn remove_elder(&mut self, frame: u32, ticket: Ticket) -> bool {
        self.elders.retain(|&(_, it)| it != ticket);
        self.elders.iter().all(|&(of, _)| of != frame)
    }

    fn first_elder(&self, frame: u32) -> Option<Ticket> {
        let mut of_frame = self.elders.iter().filter(|(of, _)| *of == frame);
        of_frame.next().map(|&(_, ticket)| ticket)
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
    /// It has waited for long: it goes before all writers that are no elders, and after the elders before it.
    Elder,
    /// It goes before all others.
    Urgent,
}

/// A thread in the queue for the latch of a frame: a writer, which readers let go first, or an elder, which writers let go
/// first. Dropping this removes the thread from the queue, whether it has the latch then or has given up.
pub(crate) struct QueuedThread<'f> {
    frames: &'f Frames,
    frame: u32,
    is_writer: bool,
    elder: Option<Ticket>,
    is_first: bool,
}

impl QueuedThread<'_> {
    /// True if the thread is the first of the elders.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
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
    /// `deadline` has passed. `queued` is the thread's place in the queue while it goes on waiting for the same frame. An elder
    /// goes on waiting until it is the first one.
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
        let is_elder = seniority != Seniority::Newcomer;
        let room = self.rooms.of(frame);
        let mut queues = room.queues.lock();
        loop {
            let ticket = queued.as_ref().and_then(|thread| thread.elder);
            let first = queues.first_elder(frame);
            let is_first = ticket.is_some() && ticket == first;
            if let Some(thread) = queued {
                thread.is_first = is_first;
            }
            // An elder that is not the first one is woken when the first one leaves the queue.
            let is_turn = ticket.is_none() || is_first;
            let word = &self.header(frame).word;
            if is_turn && !word.note_waiter(awaited.of_first(is_first), is_elder) {
                return true;
            }
            let joins_writers =
                awaited.is_writer() && !queued.as_ref().is_some_and(|it| it.is_writer);
            let joins_elders = is_elder && ticket.is_none();
            if joins_writers || joins_elders {
                let thread = queued.get_or_insert_with(|| QueuedThread {
                    frames: self,
                    frame,
                    is_writer: false,
                    elder: None,
                    is_first: false,
                });
                if joins_writers {
                    queues.add_writer(frame);
                    thread.is_writer = true;
                }
                if joins_elders {
                    thread.elder = Some(queues.add_elder(frame, seniority == Seniority::Urgent));
                    continue;
                }
            }
            // The page may have left the frame before the waiter was noted; a thread that removes it later wakes this one.
            if self.page_in(frame) != page {
                drop(queues);
                *queued = None;
                return true;
            }
            if room.woken.wait_until(&mut queues, deadline).timed_out() {
                return false;
            }
            if ticket.is_none() {
                return true;
            }
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
            if queues.remove_elder(self.frame, ticket) {
                word.last_elder_stopped();
            }
            // The next elder waits for its turn, or writers wait that are no elders, and no release of a latch will wake them.
            wakes = true;
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
