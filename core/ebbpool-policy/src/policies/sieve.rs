//! SIEVE.

use crate::lists::{FrameLists, fewest_chances};
use crate::policy::{Access, Capabilities, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

/// FIFO in which no page moves, with a hand that spares the pages hit since it last passed.
pub struct Sieve {
    lists: FrameLists<1>,
    visited: Vec<bool>,
    /// Where the next search begins; at the oldest page if this is `None`.
    hand: Option<Frame>,
}

impl RegisteredPolicy for Sieve {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "sieve",
        aliases: &[],
        params: &[],
        summary: "FIFO in which a hand spares the pages hit since it last passed, and leaves them where they are.",
        how: "A queue in order of admission, a bit per page and a hand that moves from the oldest page to the newest, then again from the oldest. A hit sets the bit. The search continues where the last one ended: a page whose bit is set loses it and stays in its position, the first page without it is evicted. Since spared pages do not move to the back, as under clock, the hand soon reaches a page just admitted.",
        when: "Use it where a hit must be cheap and most newcomers are not used again (Zhang et al.). Where the hot pages change, pages that were hot are evicted only one by one as the hand passes them, so that it can miss more often than lru. It ignores whether pages are dirty.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(9),
        source: "Zhang et al. 2024",
    };

    fn new(_config: (), frames: u32) -> Self {
        Sieve { lists: FrameLists::new(frames), visited: vec![false; frames as usize], hand: None }
    }
}

impl Sieve {
    /// The first frame from `at` to the newest that may be evicted and was not visited. Frames that
    /// it passes count as not visited from then on.
    #[inline]
    fn sift(&mut self, mut at: Option<Frame>, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        while let Some(frame) = at {
            if may_evict(frame) && !std::mem::take(&mut self.visited[frame as usize]) {
                return at;
            }
            at = self.lists.mruward(frame);
        }
        None
    }
}

impl Sieve {
    /// The frame that a search from `start` would return. No page loses its bit, and the hand stays.
    fn next_victim(&self, start: Option<Frame>, may_evict: impl Fn(Frame) -> bool) -> Option<Frame> {
        let from = |at: Option<Frame>| std::iter::successors(at, |&at| self.lists.mruward(at));
        let frames = from(start).chain(from(self.lists.lru(0)));
        fewest_chances(frames, may_evict, |frame| u8::from(self.visited[frame as usize]))
    }
}

impl Policy for Sieve {
    const LOOKS_AT_PAGES: bool = false;
    const CAPABILITIES: Capabilities = Capabilities::RESIZES;

    /// It ignores writes.
    fn wrote(&mut self, _frame: Frame) -> bool {
        true
    }

    #[inline]
    fn hit(&mut self, frame: Frame, _access: Access) {
        self.visited[frame as usize] = true;
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let start = self.hand.or(self.lists.lru(0));
        if incoming.is_none() {
            return self.next_victim(start, &may_evict);
        }
        // Two whole rounds after the rest of the first: one clears the last bits, one finds the
        // victim.
        let victim = self
            .sift(start, &may_evict)
            .or_else(|| self.sift(self.lists.lru(0), &may_evict))
            .or_else(|| self.sift(self.lists.lru(0), &may_evict))?;
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

    fn moved(&mut self, from: Frame, to: Frame) {
        self.lists.replace(from, to);
        self.visited[to as usize] = self.visited[from as usize];
        if self.hand == Some(from) {
            self.hand = Some(to);
        }
    }

    fn resize(&mut self, frames: u32) {
        self.lists.resize(frames);
        self.visited.resize(frames as usize, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_of_the_background_writer_use_up_no_second_chance() {
        let mut sieve = Sieve::new((), 4);
        (0..4).for_each(|frame| sieve.admit(frame, frame.into(), Access::Read));
        for frame in [0, 2] {
            sieve.hit(frame, Access::Read);
        }
        let incoming = Some((9, Access::Read));
        for pinned in [None, Some(1), Some(3)] {
            let may_evict = |frame| Some(frame) != pinned;
            let asked = [(); 3].map(|()| sieve.victim(None, may_evict));
            assert_eq!((sieve.hand, &sieve.visited[..]), (None, &[true, false, true, false][..]));
            let expected = if pinned == Some(1) { 3 } else { 1 };
            assert_eq!(asked, [Some(expected); 3]);
        }
        // All others are pinned, and the page was hit.
        assert_eq!(sieve.victim(None, |frame| frame == 2), Some(2));
        assert_eq!(sieve.victim(incoming, |_| true), Some(1));
    }
}
