//! Waiting for a latch, or for a copy to land.

use crossbeam_utils::CachePadded;

use super::{Awaited, Frames};
use crate::sync::{Condvar, Instant, Mutex};

/// Frames share this many waiting rooms.
const ROOMS: usize = 64;

/// Where threads wait. A frame's threads wait in one room, and those of other frames too.
pub(super) struct Rooms(Box<[CachePadded<Room>]>);

#[derive(Default)]
struct Room {
    /// Of each frame that writers wait for, how many do.
    wishes: Mutex<Vec<(u32, u32)>>,
    woken: Condvar,
}

impl Default for Rooms {
    fn default() -> Self {
        Rooms((0..ROOMS).map(|_| CachePadded::default()).collect())
    }
}

impl Rooms {
    fn of(&self, frame: u32) -> &Room {
        &self.0[frame as usize % ROOMS]
    }
}

/// A writer's wish to have the exclusive latch of a frame: readers let it go first. The wish ends when it is
/// dropped, whether the writer has the latch then or has given up.
pub(crate) struct Wish<'f> {
    frames: &'f Frames,
    frame: u32,
}

impl Frames {
    /// Wakes the threads that wait for a frame.
    #[cold]
    pub(super) fn wake(&self, frame: u32) {
        let room = self.rooms.of(frame);
        // A thread that noted that it waits sleeps by then (`word.rs`, 6).
        drop(room.wishes.lock());
        room.woken.notify_all();
    }

    /// Waits until what is awaited may have come; false once `deadline` has passed. A writer's wish is
    /// kept in `wish` for as long as it goes on waiting for the same frame.
    #[cold]
    pub(crate) fn wait<'f>(
        &'f self,
        frame: u32,
        awaited: Awaited,
        wish: &mut Option<Wish<'f>>,
        deadline: Instant,
    ) -> bool {
        // A wish for another frame ends first, since ending it takes a room's lock.
        if wish.as_ref().is_some_and(|wish| wish.frame != frame) {
            *wish = None;
        }
        let room = self.rooms.of(frame);
        let mut wishes = room.wishes.lock();
        if !self.header(frame).word.note_waiter(awaited) {
            return true;
        }
        if awaited.is_writer() && wish.is_none() {
            match wishes.iter_mut().find(|(of, _)| *of == frame) {
                Some((_, writers)) => *writers += 1,
                None => wishes.push((frame, 1)),
            }
            *wish = Some(Wish {
                frames: self,
                frame,
            });
        }
        !room.woken.wait_until(&mut wishes, deadline).timed_out()
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        let room = self.frames.rooms.of(self.frame);
        let mut wishes = room.wishes.lock();
        let Some(at) = wishes.iter().position(|(of, _)| *of == self.frame) else {
            return debug_assert!(false, "the wish is among those of its room");
        };
        wishes[at].1 -= 1;
        if wishes[at].1 > 0 {
            return;
        }
        wishes.swap_remove(at);
        if self.frames.header(self.frame).word.no_longer_wanted() {
            drop(wishes);
            // Readers let this writer go first, which no release of a latch will tell them of.
            room.woken.notify_all();
        }
    }
}
