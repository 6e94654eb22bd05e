//! An LRU list cut in two: the pages used most recently, and the window at the LRU end in which
//! victims are looked for (CFLRU and its kin; CFDC's working and priority regions).

use crate::lists::Lists;
use crate::policy::Frame;

const WORKING: usize = 0;
pub(crate) const WINDOW: usize = 1;

/// The two regions. While the buffer is full the window holds exactly its share of the frames.
pub(crate) struct Regions {
    pub(crate) lists: Lists<2>,
    in_window: Vec<bool>,
    working_size: u32,
}

impl Regions {
    /// Regions over `frames` frames, `window` of them in the window.
    pub(crate) fn new(frames: u32, window: u32) -> Self {
        Regions {
            lists: Lists::new(frames),
            in_window: vec![false; frames as usize],
            working_size: frames - window.min(frames),
        }
    }

    #[inline]
    pub(crate) fn in_window(&self, frame: Frame) -> bool {
        self.in_window[frame as usize]
    }

    /// A hit in the working region.
    #[inline]
    pub(crate) fn touch(&mut self, frame: Frame) {
        self.lists.move_to_mru(WORKING, frame);
    }

    /// If the working region is full, its LRU frame moves to the window and is returned.
    #[inline]
    pub(crate) fn make_room(&mut self) -> Option<Frame> {
        if self.lists.len(WORKING) < self.working_size {
            return None;
        }
        let demoted = self.lists.lru(WORKING)?;
        self.demote(demoted);
        Some(demoted)
    }

    /// `frame` enters the working region; the frame that this pushes out to the window is
    /// returned, which is `frame` itself if the working region has no room at all.
    #[inline]
    pub(crate) fn enter(&mut self, frame: Frame) -> Option<Frame> {
        self.lists.push_mru(WORKING, frame);
        self.in_window[frame as usize] = false;
        if self.lists.len(WORKING) <= self.working_size {
            return None;
        }
        let demoted = self.lists.lru(WORKING)?;
        self.demote(demoted);
        Some(demoted)
    }

    #[inline]
    fn demote(&mut self, frame: Frame) {
        self.lists.remove(WORKING, frame);
        self.lists.push_mru(WINDOW, frame);
        self.in_window[frame as usize] = true;
    }

    /// `frame` leaves its region.
    #[inline]
    pub(crate) fn leave(&mut self, frame: Frame) {
        let region = if self.in_window(frame) {
            WINDOW
        } else {
            WORKING
        };
        self.lists.remove(region, frame);
    }

    /// The frame nearest the LRU end of the whole list that may go.
    #[inline]
    pub(crate) fn lru(&self, may_go: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.lists
            .find_from_lru(WINDOW, &may_go)
            .or_else(|| self.working_lru(may_go))
    }

    /// The frame nearest the LRU end of the working region that may go.
    #[inline]
    pub(crate) fn working_lru(&self, may_go: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.lists.find_from_lru(WORKING, may_go)
    }
}
