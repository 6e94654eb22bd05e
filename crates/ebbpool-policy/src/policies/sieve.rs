//! SIEVE.

use crate::lists::Lists;
use crate::policy::{Access, Frame, Page, Policy};
use crate::registry::Build;
use crate::spec::{Entry, Memory, PolicySpec};

/// FIFO in which nothing moves, and a hand that spares the pages hit since it last passed.
pub struct Sieve {
    lists: Lists<1>,
    visited: Vec<bool>,
    /// Where the next search begins; at the oldest page if this is `None`.
    hand: Option<Frame>,
}

impl Build for Sieve {
    const ENTRY: Entry = Entry {
        name: "sieve",
        aliases: &[],
        params: &[],
        summary: "FIFO in which a hand passes over the pages hit since it last came by, and leaves them where they are.",
        how: "A queue in order of arrival, a bit per page and a hand that goes from the oldest page to the newest, then again from the oldest. A hit sets the bit. The search goes on where the last one ended: a page with the bit set loses it and stays in its place, the first page without it leaves. Since pages that are spared do not move to the back, as under clock, a page just brought in is soon looked at.",
        when: "Where a hit must be cheap and most newcomers are not used again: on the samples at R = 32 and 3 % it saves 8.7 % (pg-tpcc) and 25.6 % (pg-tatp) against lru and costs 0.3 % more on pg-tpcb. Where what is hot changes, pages that were hot leave only one by one as the hand comes by: on our trace of scans, loops and such changes (tests/libcachesim, mixed, 2000 frames) it has 17 % more misses than lru. It takes no notice of writes.",
        memory: Memory::of(9),
        source: "Zhang et al. 2024",
        online: true,
        looks_at_costs: false,
        asks_erase_counts: false,
    };

    fn build(_spec: &PolicySpec, frames: u32) -> Self {
        Sieve {
            lists: Lists::new(frames),
            visited: vec![false; frames as usize],
            hand: None,
        }
    }
}

impl Sieve {
    /// The first frame from `at` to the newest that may go and was not visited. Those that it
    /// passes count as not visited from then on.
    #[inline]
    fn sift(&mut self, mut at: Option<Frame>, may_go: impl Fn(Frame) -> bool) -> Option<Frame> {
        while let Some(frame) = at {
            if may_go(frame) && !std::mem::take(&mut self.visited[frame as usize]) {
                return at;
            }
            at = self.lists.mruward(frame);
        }
        None
    }
}

impl Policy for Sieve {
    const LOOKS_AT_PAGES: bool = false;

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.visited[frame as usize] = true;
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        _incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        let start = self.hand.or(self.lists.lru(0));
        // Two whole rounds behind the rest of the first: one clears the last bits, one finds.
        let victim = self
            .sift(start, &may_go)
            .or_else(|| self.sift(self.lists.lru(0), &may_go))
            .or_else(|| self.sift(self.lists.lru(0), &may_go))?;
        self.hand = Some(victim);
        Some(victim)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, _access: Access) {
        self.lists.push_mru(0, frame);
        self.visited[frame as usize] = false;
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        if self.hand == Some(frame) {
            self.hand = self.lists.mruward(frame);
        }
        self.lists.remove(0, frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}
}
