//! Doubly linked lists of frames, stored in one array indexed by frame.

use prefetch_index::prefetch_index;

use crate::policy::Frame;

/// `N` lists over the same frames; a frame is in at most one of them.
///
/// Each list runs from its LRU end to its MRU end and is closed to a ring by a sentinel node of
/// its own, stored behind the frames, so that linking needs no case distinction. Behind the `N`
/// lists, whose lengths are counted, others may be added, whose lengths are not.
///
/// ```
/// let mut lists = ebbpool_policy::FrameLists::<1>::new(3);
/// (0..3).for_each(|frame| lists.push_mru(0, frame));
/// assert_eq!((lists.lru(0), lists.mru(0), lists.len(0)), (Some(0), Some(2), 3));
/// assert_eq!(lists.find_from_lru(0, |frame| frame > 0), Some(1));
/// ```
pub struct FrameLists<const N: usize> {
    nodes: Vec<Node>,
    frames: u32,
    lens: [u32; N],
}

#[derive(Clone, Copy)]
struct Node {
    lruward: u32,
    mruward: u32,
}

impl<const N: usize> FrameLists<N> {
    /// `N` empty lists for frames `0..frames`.
    pub fn new(frames: u32) -> Self {
        let unlinked = (0..frames).map(|_| Node { lruward: 0, mruward: 0 });
        let sentinels = (0..N as u32).map(|list| Node { lruward: frames + list, mruward: frames + list });
        FrameLists { nodes: unlinked.chain(sentinels).collect(), frames, lens: [0; N] }
    }

    #[inline]
    fn sentinel(&self, list: usize) -> u32 {
        self.frames + list as u32
    }

    #[inline]
    fn unless_sentinel(&self, node: u32) -> Option<Frame> {
        (node < self.frames).then_some(node)
    }

    /// Adds lists up to number `list` if there are fewer. Their frames are not counted: `link_mru`
    /// inserts them and `unlink` removes them.
    pub(crate) fn add_up_to(&mut self, list: usize) {
        let end = self.sentinel(list);
        for sentinel in self.nodes.len() as u32..=end {
            if self.nodes.len() == self.nodes.capacity() {
                // Room for a quarter more lists: a vector left to itself would double, frames
                // included.
                self.nodes.reserve_exact(list / 4 + 1);
            }
            self.nodes.push(Node { lruward: sentinel, mruward: sentinel });
        }
    }

    /// Makes room for lists up to number `list`.
    pub(crate) fn reserve_up_to(&mut self, list: usize) {
        let nodes = self.sentinel(list) as usize + 1;
        self.nodes.reserve_exact(nodes.saturating_sub(self.nodes.len()));
    }

    /// From now on the lists are over frames `0..frames`; no other frame is in one.
    pub(crate) fn resize(&mut self, frames: u32) {
        let before = self.frames;
        let sentinels = self.nodes.split_off(before as usize);
        self.nodes.resize(frames as usize, Node { lruward: 0, mruward: 0 });
        self.nodes.extend(sentinels);
        for link in self.nodes.iter_mut().flat_map(|node| [&mut node.lruward, &mut node.mruward]) {
            *link = if *link < before { *link } else { *link - before + frames };
        }
        self.frames = frames;
    }

    /// Number of frames in `list`, which is one of the `N`.
    #[inline]
    pub fn len(&self, list: usize) -> u32 {
        self.lens[list]
    }

    /// The least recently used frame of `list`.
    #[inline]
    pub fn lru(&self, list: usize) -> Option<Frame> {
        self.unless_sentinel(self.nodes[self.sentinel(list) as usize].mruward)
    }

    /// The most recently used frame of `list`.
    #[inline]
    pub fn mru(&self, list: usize) -> Option<Frame> {
        self.unless_sentinel(self.nodes[self.sentinel(list) as usize].lruward)
    }

    /// The frame next to `frame`, one step towards the MRU end.
    #[inline]
    pub fn mruward(&self, frame: Frame) -> Option<Frame> {
        self.unless_sentinel(self.nodes[frame as usize].mruward)
    }

    /// The frame next to `frame`, one step towards the LRU end.
    #[inline]
    pub(crate) fn lruward(&self, frame: Frame) -> Option<Frame> {
        self.unless_sentinel(self.nodes[frame as usize].lruward)
    }

    /// The frames of `list`, from its LRU end.
    #[inline]
    pub(crate) fn frames(&self, list: usize) -> impl Iterator<Item = Frame> {
        std::iter::successors(self.lru(list), |&frame| self.mruward(frame))
    }

    /// The first frame from the LRU end of `list` that satisfies `condition`.
    #[inline]
    pub fn find_from_lru(&self, list: usize, condition: impl Fn(Frame) -> bool) -> Option<Frame> {
        self.find_from(self.lru(list), condition)
    }

    /// The first frame from `at` towards the MRU end of its list that satisfies `condition`.
    #[inline]
    pub(crate) fn find_from(&self, mut at: Option<Frame>, condition: impl Fn(Frame) -> bool) -> Option<Frame> {
        while let Some(frame) = at {
            if condition(frame) {
                return at;
            }
            at = self.mruward(frame);
        }
        None
    }

    /// Links `frame`, which is in no list, at the MRU end of `list`.
    #[inline]
    pub fn push_mru(&mut self, list: usize, frame: Frame) {
        self.link_mru(list, frame);
        self.lens[list] += 1;
    }

    /// Links `frame`, which is in no list, at the LRU end of `list`.
    #[inline]
    pub fn push_lru(&mut self, list: usize, frame: Frame) {
        let end = self.sentinel(list);
        let oldest = self.nodes[end as usize].mruward;
        self.nodes[frame as usize] = Node { lruward: end, mruward: oldest };
        self.nodes[oldest as usize].lruward = frame;
        self.nodes[end as usize].mruward = frame;
        self.lens[list] += 1;
    }

    /// Links `frame`, which is in no list, next to `neighbour` of `list`, one step towards the LRU end.
    #[inline]
    pub(crate) fn push_lruward_of(&mut self, list: usize, neighbour: Frame, frame: Frame) {
        let lruward = self.nodes[neighbour as usize].lruward;
        self.nodes[frame as usize] = Node { lruward, mruward: neighbour };
        self.nodes[lruward as usize].mruward = frame;
        self.nodes[neighbour as usize].lruward = frame;
        self.lens[list] += 1;
    }

    /// Unlinks `frame` from `list`, which holds it.
    #[inline]
    pub fn remove(&mut self, list: usize, frame: Frame) {
        self.unlink(frame);
        self.lens[list] -= 1;
    }

    /// Loads what moving `frame` reads into the processor's cache.
    #[inline]
    pub fn prefetch(&self, frame: Frame) {
        let Node { lruward, mruward } = self.nodes[frame as usize];
        prefetch_index(&self.nodes, lruward as usize);
        prefetch_index(&self.nodes, mruward as usize);
    }

    /// Moves `frame` to the MRU end of `list`, which holds it.
    #[inline]
    pub fn move_to_mru(&mut self, list: usize, frame: Frame) {
        self.unlink(frame);
        self.link_mru(list, frame);
    }

    /// Replaces `frame` in its list by `by`, which is in no list.
    #[inline]
    pub fn replace(&mut self, frame: Frame, by: Frame) {
        let Node { lruward, mruward } = self.nodes[frame as usize];
        self.nodes[by as usize] = Node { lruward, mruward };
        self.nodes[lruward as usize].mruward = by;
        self.nodes[mruward as usize].lruward = by;
    }

    /// Links `frame`, which is in no list, at the MRU end of `list` without counting it.
    #[inline]
    pub(crate) fn link_mru(&mut self, list: usize, frame: Frame) {
        let end = self.sentinel(list);
        let newest = self.nodes[end as usize].lruward;
        self.nodes[frame as usize] = Node { lruward: newest, mruward: end };
        self.nodes[newest as usize].mruward = frame;
        self.nodes[end as usize].lruward = frame;
    }

    /// Unlinks `frame` from its list, in which it was not counted.
    #[inline]
    pub(crate) fn unlink(&mut self, frame: Frame) {
        let Node { lruward, mruward } = self.nodes[frame as usize];
        self.nodes[lruward as usize].mruward = mruward;
        self.nodes[mruward as usize].lruward = lruward;
    }
}

/// Stores those of the frames that may be evicted, as far as there is room for them, and returns their number:
/// [`crate::Policy::coming_victims`] of a policy that evicts frames in this order.
pub(crate) fn store_coming(
    frames: impl Iterator<Item = Frame>,
    may_evict: &dyn Fn(Frame) -> bool,
    coming: &mut [Frame],
) -> usize {
    let frames = frames.filter(|&frame| may_evict(frame));
    let stored = coming.iter_mut().zip(frames);
    stored.map(|(place, frame)| *place = frame).count()
}

/// Walks `list` from its LRU end as second-chance policies do: for each frame that may be evicted
/// `spare` decides whether it moves to the MRU end, where the walk meets it again.
///
/// The walk ends because `spare` returns false for each frame sooner or later.
pub(crate) fn second_chance<const N: usize>(
    lists: &mut FrameLists<N>,
    list: usize,
    may_evict: impl Fn(Frame) -> bool,
    mut spare: impl FnMut(Frame) -> bool,
) -> Option<Frame> {
    let mut at = lists.lru(list);
    while let Some(frame) = at {
        let next = lists.mruward(frame);
        if !may_evict(frame) {
            at = next;
        } else if spare(frame) {
            lists.move_to_mru(list, frame);
            at = next.or(Some(frame));
        } else {
            return Some(frame);
        }
    }
    None
}

/// The number of frames that a search without an effect passes at most once it has found one: it repeats the walk each time,
/// where a search with an effect shortens the next one.
pub(crate) const LOOK_AHEAD: usize = 4096;

/// The frame that a search with second chances would find next, without using one up: of the frames that may be evicted the
/// first of those with the fewest chances left, where the search begins with the first of `frames`. In a large buffer it looks
/// at the next few thousand frames only.
pub(crate) fn fewest_chances(
    frames: impl Iterator<Item = Frame>,
    may_evict: impl Fn(Frame) -> bool,
    chances: impl Fn(Frame) -> u8,
) -> Option<Frame> {
    let mut fewest: Option<(u8, Frame)> = None;
    for (passed, frame) in frames.enumerate() {
        if passed >= LOOK_AHEAD && fewest.is_some() {
            break;
        }
        let left = chances(frame);
        if fewest.is_none_or(|(fewest, _)| left < fewest) && may_evict(frame) {
            fewest = Some((left, frame));
            if left == 0 {
                break;
            }
        }
    }
    fewest.map(|(_, frame)| frame)
}

/// Finds the clean frame nearest the LRU end of one list without walking the dirty frames at that
/// end each time: everything on the LRU side of the cursor is dirty.
///
/// The owner reports each frame that enters the list (at the MRU end), leaves it, or is cleaned.
/// When frames are cleaned the search starts over at the LRU end, but only until it has met as many
/// clean frames as were cleaned; then it resumes where it was.
#[derive(Default)]
pub(crate) struct CleanCursor {
    at: Option<Frame>,
    /// Where the search resumes when it has met all frames that were cleaned.
    resume: Option<Frame>,
    /// The most clean frames that there can be on the LRU side of `resume`.
    cleaned: u32,
}

impl CleanCursor {
    /// A search that begins there.
    pub(crate) fn at(start: Option<Frame>) -> Self {
        CleanCursor { at: start, ..CleanCursor::default() }
    }

    #[inline]
    pub(crate) fn entered(&mut self, frame: Frame) {
        let end = if self.cleaned > 0 { &mut self.resume } else { &mut self.at };
        end.get_or_insert(frame);
    }

    /// To be called before `frame`, which is `dirty` or clean, is unlinked.
    #[inline]
    pub(crate) fn before_unlink<const N: usize>(&mut self, lists: &FrameLists<N>, frame: Frame, dirty: bool) {
        if self.cleaned > 0 && self.resume == Some(frame) {
            self.resume = lists.mruward(frame);
        }
        if self.at == Some(frame) {
            self.advance(lists, frame);
            if self.cleaned > 0 && !dirty {
                self.cleaned -= 1;
                if self.cleaned == 0 {
                    self.at = self.resume;
                }
            }
        }
    }

    /// The page in `from` is in `to` now, at the same place of its list.
    pub(crate) fn moved(&mut self, from: Frame, to: Frame) {
        for end in [&mut self.at, &mut self.resume] {
            *end = end.map(|at| if at == from { to } else { at });
        }
    }

    /// A page somewhere in `list` has become clean.
    pub(crate) fn cleaned<const N: usize>(&mut self, lists: &FrameLists<N>, list: usize) {
        if self.cleaned == 0 {
            self.resume = self.at;
        }
        self.at = lists.lru(list);
        if self.at == self.resume {
            self.cleaned = 0;
        } else {
            self.cleaned += 1;
        }
    }

    /// Moves on from `frame`, where the cursor is.
    #[inline]
    fn advance<const N: usize>(&mut self, lists: &FrameLists<N>, frame: Frame) {
        self.at = lists.mruward(frame);
        if self.at == self.resume {
            self.cleaned = 0;
        }
    }

    /// The clean frame nearest the LRU end that may be evicted.
    pub(crate) fn find<const N: usize>(
        &mut self,
        lists: &FrameLists<N>,
        dirty: impl Fn(Frame) -> bool,
        may_evict: impl Fn(Frame) -> bool,
    ) -> Option<Frame> {
        while let Some(frame) = self.at
            && dirty(frame)
        {
            self.advance(lists, frame);
        }
        let mut at = self.at;
        while let Some(frame) = at {
            if !dirty(frame) && may_evict(frame) {
                return at;
            }
            at = lists.mruward(frame);
        }
        // The owner may now move dirty frames without reporting it, also the frame at `resume`.
        self.cleaned = 0;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_order_and_length() {
        let mut lists = FrameLists::<2>::new(4);
        for frame in 0..3 {
            lists.push_mru(0, frame);
        }
        lists.push_mru(1, 3);
        lists.move_to_mru(0, 0);
        assert_eq!(lists.lru(0), Some(1));
        assert_eq!(lists.mruward(1), Some(2));
        assert_eq!(lists.mruward(2), Some(0));
        assert_eq!(lists.mruward(0), None);
        lists.remove(0, 2);
        assert_eq!((lists.len(0), lists.len(1)), (2, 1));
        assert_eq!(lists.find_from_lru(0, |frame| frame == 0), Some(0));
        assert_eq!(lists.find_from_lru(1, |frame| frame == 0), None);
        lists.push_lru(0, 2);
        assert_eq!((lists.lru(0), lists.mruward(2)), (Some(2), Some(1)));
        assert_eq!((lists.mru(0), lists.len(0)), (Some(0), 3));
    }

    #[test]
    fn lists_are_added_behind_the_counted_ones() {
        let mut lists = FrameLists::<1>::new(3);
        lists.add_up_to(2);
        lists.push_mru(0, 1);
        lists.link_mru(2, 2);
        lists.link_mru(2, 0);
        assert_eq!(lists.frames(2).collect::<Vec<_>>(), [2, 0]);
        assert_eq!((lists.lruward(0), lists.lruward(2)), (Some(2), None));
        lists.unlink(2);
        assert_eq!(lists.lru(2), Some(0));
        assert_eq!((lists.lru(0), lists.lru(1)), (Some(1), None));
    }

    #[test]
    fn a_replacement_takes_the_position() {
        let mut lists = FrameLists::<1>::new(5);
        (0..3).for_each(|frame| lists.push_mru(0, frame));
        for (frame, by) in [(1, 3), (0, 4), (2, 1)] {
            lists.replace(frame, by);
        }
        let order: Vec<_> = std::iter::successors(lists.lru(0), |&at| lists.mruward(at)).collect();
        assert_eq!(order, [4, 3, 1]);
        lists.push_mru(0, 0);
        assert_eq!((lists.mruward(1), lists.len(0)), (Some(0), 4));
    }

    #[test]
    fn lists_over_another_number_of_frames_keep_their_order() {
        let mut lists = FrameLists::<2>::new(6);
        lists.add_up_to(2);
        [4, 0, 2].into_iter().for_each(|frame| lists.push_mru(0, frame));
        lists.push_mru(1, 5);
        lists.link_mru(2, 3);
        lists.replace(4, 1);
        lists.remove(1, 5);
        for frames in [4, 4, 9, 5] {
            lists.resize(frames);
            assert_eq!(lists.frames(0).collect::<Vec<_>>(), [1, 0, 2], "{frames}");
            assert_eq!((lists.lru(1), lists.lru(2)), (None, Some(3)));
        }
        lists.push_mru(1, 4);
        assert_eq!((lists.lru(1), lists.len(0), lists.len(1)), (Some(4), 3, 1));
    }

    #[test]
    fn second_chance_spares_each_frame_once() {
        let mut lists = FrameLists::<1>::new(3);
        (0..3).for_each(|frame| lists.push_mru(0, frame));
        let mut bits = [true; 3];
        let chosen = second_chance(&mut lists, 0, |frame| frame != 1, |frame| std::mem::take(&mut bits[frame as usize]));
        assert_eq!(chosen, Some(0));
        assert_eq!(bits, [false, true, false]);
        assert_eq!(second_chance(&mut lists, 0, |_| false, |_| true), None);
    }

    #[test]
    fn a_search_without_an_effect_finds_what_one_with_second_chances_would() {
        let filled = || {
            let mut lists = FrameLists::<1>::new(6);
            (0..6).for_each(|frame| lists.push_mru(0, frame));
            lists
        };
        for chances in [[1, 0, 1, 0, 2, 0], [1, 2, 1, 2, 1, 2], [3; 6]] {
            for pinned in 0..6 {
                let may_evict = |frame: Frame| frame != pinned;
                let left = |frame: Frame| chances[frame as usize];
                let next = fewest_chances(filled().frames(0), may_evict, left);
                let (mut lists, mut left) = (filled(), chances);
                let found = second_chance(&mut lists, 0, may_evict, |frame| {
                    let left = &mut left[frame as usize];
                    let spared = *left > 0;
                    *left -= u8::from(spared);
                    spared
                });
                assert_eq!(next, found, "{chances:?}, {pinned}");
            }
        }
        assert_eq!(fewest_chances(filled().frames(0), |_| false, |_| 0), None);
    }

    #[test]
    fn clean_cursor_starts_over_when_a_page_is_cleaned() {
        let mut lists = FrameLists::<1>::new(3);
        let mut cursor = CleanCursor::default();
        let mut dirty = [true, true, false];
        for frame in 0..3 {
            lists.push_mru(0, frame);
            cursor.entered(frame);
        }
        let find = |cursor: &mut CleanCursor, dirty: &[bool; 3]| cursor.find(&lists, |frame| dirty[frame as usize], |_| true);
        assert_eq!(find(&mut cursor, &dirty), Some(2));
        dirty[0] = false;
        cursor.cleaned(&lists, 0);
        assert_eq!(find(&mut cursor, &dirty), Some(0));
    }

    #[test]
    fn clean_cursor_goes_on_where_it_was() {
        let mut lists = FrameLists::<1>::new(6);
        let mut cursor = CleanCursor::default();
        let mut dirty = [true, true, true, true, false, false];
        for frame in 0..5 {
            lists.push_mru(0, frame);
            cursor.entered(frame);
        }
        let looked_at = std::cell::Cell::new(0);
        let find = |cursor: &mut CleanCursor, lists: &FrameLists<1>, dirty: &[bool; 6]| {
            looked_at.set(0);
            let is_dirty = |frame: Frame| {
                looked_at.set(looked_at.get() + 1);
                dirty[frame as usize]
            };
            cursor.find(lists, is_dirty, |_| true)
        };
        assert_eq!(find(&mut cursor, &lists, &dirty), Some(4));
        cursor.before_unlink(&lists, 4, false);
        lists.remove(0, 4);
        // The list is dirty to its end; the search meets frames that enter there after cleaned
        // ones.
        for frame in [0, 1] {
            dirty[frame] = false;
            cursor.cleaned(&lists, 0);
        }
        lists.push_mru(0, 5);
        cursor.entered(5);
        for frame in [0, 1] {
            assert_eq!(find(&mut cursor, &lists, &dirty), Some(frame));
            cursor.before_unlink(&lists, frame, false);
            lists.remove(0, frame);
        }
        // The search skips 2 and 3, which it passed before.
        assert_eq!(find(&mut cursor, &lists, &dirty), Some(5));
        assert_eq!(looked_at.get(), 2);
    }
}
