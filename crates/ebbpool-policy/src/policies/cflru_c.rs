//! Clean-first LRU that spares pages written often.

use super::regions::{self, Regions};
use crate::heap::IndexedHeap;
use crate::lists::CleanCursor;
use crate::policy::{Access, Frame, Page, Policy};
use crate::registry::Build;
use crate::spec::{Entry, PolicySpec, WINDOW};

/// As CFLRU, but where the window has no clean page its least written page goes.
pub struct CflruC {
    regions: Regions,
    clean: CleanCursor,
    dirty: Vec<bool>,
    /// Write references since admission or the last write-back.
    writes: Vec<u32>,
    /// The window's dirty pages by (writes, order of entry).
    least_written: IndexedHeap<(u32, u64)>,
    entries: u64,
}

impl Build for CflruC {
    const ENTRY: Entry = Entry {
        name: "cflru-c",
        aliases: &[],
        params: &[WINDOW],
        summary: "CFLRU in which, where the window has no clean page, its least often written page goes.",
        source: "Yoo et al. 2007; AD-LRU, section 4",
        online: true,
        looks_at_costs: false,
    };

    fn build(spec: &PolicySpec, frames: u32) -> Self {
        CflruC {
            regions: Regions::new(frames, spec.share_of("window", frames).max(1)),
            clean: CleanCursor::default(),
            dirty: vec![false; frames as usize],
            writes: vec![0; frames as usize],
            least_written: IndexedHeap::new(frames),
            entries: 0,
        }
    }
}

impl CflruC {
    #[inline]
    fn enter(&mut self, frame: Frame) {
        if let Some(demoted) = self.regions.enter(frame) {
            self.clean.entered(demoted);
            self.entries += 1;
            if self.dirty[demoted as usize] {
                let key = (self.writes[demoted as usize], self.entries);
                self.least_written.set(demoted, key);
            }
        }
    }

    #[inline]
    fn leave(&mut self, frame: Frame) {
        if self.regions.in_window(frame) {
            self.clean.leaving(&self.regions.lists, frame);
            self.least_written.remove(frame);
        }
        self.regions.leave(frame);
    }
}

impl Policy for CflruC {
    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        if access.is_write() {
            self.dirty[frame as usize] = true;
            self.writes[frame as usize] = self.writes[frame as usize].saturating_add(1);
        }
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
            .or_else(|| self.least_written.least_where(&may_go))
            .or_else(|| self.regions.lru(may_go))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.dirty[frame as usize] = access.is_write();
        self.writes[frame as usize] = u32::from(access.is_write());
        self.enter(frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.leave(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
        self.writes[frame as usize] = 0;
        if self.regions.in_window(frame) {
            self.least_written.remove(frame);
            self.clean.cleaned(&self.regions.lists, regions::WINDOW);
        }
    }
}
