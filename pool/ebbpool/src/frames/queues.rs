//! Who waits for the frames of a waiting room: the writers, which readers let go first, and the elders in the order of their
//! turns.

use std::time::Duration;

use crate::sync::Instant;

/// The least time between the turns of two elders of a frame. A turn hands the latch over to a thread that sleeps: where many
/// threads change a page for a moment each, they would do nothing else.
const BETWEEN_TURNS: Duration = Duration::from_millis(1);

/// The queues of the writers and elders that wait in a room.
#[derive(Default)]
pub(super) struct Queues {
    writers: Vec<WriterQueue>,
    /// The elders of all frames, in the order of their turns.
    elders: Vec<Elder>,
    next_ticket: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

struct Elder {
    frame: u32,
    ticket: Ticket,
    /// When it has its turn, at the earliest, if it is the first one of its frame.
    turn: Instant,
    /// Its turn has begun, and goes on until it leaves the queue.
    has_turn: bool,
}

/// The writers that wait for a frame.
struct WriterQueue {
    frame: u32,
    writers: u32,
    /// When a writer last left the queue, or the first one joined it.
    since: Instant,
}

/// When an elder has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    /// Then, unless an urgent one comes before.
    At(Instant),
    /// When the elders before it have left the queue.
    AfterOthers,
}

/// What an elder leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeftQueue {
    /// It had its turn, and no other elder of the frame has one now.
    pub(super) ends_turns: bool,
    /// The next elder waits for its turn, or writers have let this one go first.
    pub(super) wakes: bool,
}

impl Queues {
    pub(super) fn add_writer(&mut self, frame: u32) {
        match self.writers.iter_mut().find(|queue| queue.frame == frame) {
            Some(queue) => queue.writers += 1,
            None => self.writers.push(WriterQueue { frame, writers: 1, since: Instant::now() }),
        }
    }

    /// True if it was the last writer that waited for the frame.
    pub(super) fn remove_writer(&mut self, frame: u32) -> bool {
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

    /// How long the writers of a frame have waited for a turn.
    pub(super) fn writers_waited(&self, frame: u32) -> Duration {
        let queue = self.writers.iter().find(|queue| queue.frame == frame);
        queue.map_or(Duration::ZERO, |queue| queue.since.elapsed())
    }

    /// The last of the elders, or the first if it is `urgent`.
    pub(super) fn add_elder(&mut self, frame: u32, urgent: bool) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let at = if urgent { 0 } else { self.elders.len() };
        let elder = Elder { frame, ticket, turn: Instant::now(), has_turn: false };
        self.elders.insert(at, elder);
        ticket
    }

    /// When this elder of the frame has its turn, which begins if it is now. A turn that has begun goes on beside that of an
    /// urgent elder.
    pub(super) fn turn(&mut self, frame: u32, ticket: Ticket) -> Turn {
        let is_first = self.is_first(frame, ticket);
        let Some(elder) = self.elders.iter_mut().find(|it| it.ticket == ticket) else {
            return Turn::AfterOthers;
        };
        elder.has_turn |= is_first && elder.turn <= Instant::now();
        match (elder.has_turn, is_first) {
            (true, _) => Turn::Now,
            (false, true) => Turn::At(elder.turn),
            (false, false) => Turn::AfterOthers,
        }
    }

    /// Removes an elder. After its turn the next one waits a while for its own.
    pub(super) fn remove_elder(&mut self, frame: u32, ticket: Ticket) -> LeftQueue {
        let was_first = self.is_first(frame, ticket);
        let place = self.elders.iter().position(|it| it.ticket == ticket);
        let had_turn = place.is_some_and(|at| self.elders.remove(at).has_turn);
        let mut others = self.elders.iter_mut().filter(|it| it.frame == frame);
        let next = others.next();
        let goes_on = next.as_ref().is_some_and(|it| it.has_turn) || others.any(|it| it.has_turn);
        let ends_turns = had_turn && !goes_on;
        if ends_turns && let Some(next) = next {
            next.turn = Instant::now() + BETWEEN_TURNS;
        }
        LeftQueue { ends_turns, wakes: was_first || had_turn }
    }

    fn is_first(&self, frame: u32, ticket: Ticket) -> bool {
        let mut elders = self.elders.iter();
        let first = elders.find(|elder| elder.frame == frame);
        first.is_some_and(|first| first.ticket == ticket)
    }

    /// True if no thread is in a queue.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.writers.is_empty() && self.elders.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_of_an_urgent_elder_leaves_one_that_has_begun() {
        let mut queues = Queues::default();
        let first = queues.add_elder(7, false);
        let second = queues.add_elder(7, false);
        assert_eq!(queues.turn(7, first), Turn::Now);
        let urgent = queues.add_elder(7, true);
        assert_eq!(queues.turn(7, urgent), Turn::Now);
        assert_eq!(queues.turn(7, first), Turn::Now, "it goes on");
        assert_eq!(queues.turn(7, second), Turn::AfterOthers);
        assert!(!queues.remove_elder(7, urgent).ends_turns);
        assert!(queues.remove_elder(7, first).ends_turns);
        assert!(!queues.remove_elder(7, second).ends_turns, "it had none");
        assert!(queues.is_empty());
    }
}
