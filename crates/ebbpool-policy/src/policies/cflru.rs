//! Clean-first LRU.

use super::regions::{self, Regions};
use crate::lists::CleanCursor;
use crate::policy::{Access, Frame, Page, Policy};
use crate::registry::Build;
use crate::spec::{CLUSTER, Entry, PolicySpec, WINDOW};

/// LRU that prefers a clean page within the window at the LRU end.
pub struct Cflru {
    regions: Regions,
    clean: CleanCursor,
    dirty: Vec<bool>,
}

impl Build for Cflru {
    const ENTRY: Entry = Entry {
        name: "cflru",
        aliases: &[],
        params: &[WINDOW, CLUSTER],
        summary: "LRU that evicts the least recent clean page of a window at the LRU end, and a dirty one only where the window has no clean page.",
        source: "Park et al. 2006; a rival in all five papers",
        online: true,
        looks_at_costs: false,
    };
    const WRITE_CLUSTERING: bool = true;

    fn build(spec: &PolicySpec, frames: u32) -> Self {
        Cflru {
            regions: Regions::new(frames, spec.share_of("window", frames)),
            clean: CleanCursor::default(),
            dirty: vec![false; frames as usize],
        }
    }
}

impl Cflru {
    #[inline]
    fn enter(&mut self, frame: Frame) {
        if let Some(demoted) = self.regions.enter(frame) {
            self.clean.entered(demoted);
        }
    }

    #[inline]
    fn leave(&mut self, frame: Frame) {
        if self.regions.in_window(frame) {
            self.clean.leaving(&self.regions.lists, frame);
        }
        self.regions.leave(frame);
    }
}

impl Policy for Cflru {
    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.dirty[frame as usize] |= access.is_write();
        if self.regions.in_window(frame) {
            self.leave(frame);
            self.enter(frame);
        } else {
            self.regions.touch(frame);
        }
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        _incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        let dirty = |frame: Frame| self.dirty[frame as usize];
        self.clean
            .find(&self.regions.lists, dirty, &may_go)
            .or_else(|| self.regions.lru(may_go))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.dirty[frame as usize] = access.is_write();
        self.enter(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.leave(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
        if self.regions.in_window(frame) {
            self.clean.cleaned(&self.regions.lists, regions::WINDOW);
        }
    }
}
