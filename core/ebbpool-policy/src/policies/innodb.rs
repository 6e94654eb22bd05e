//! InnoDB's buffer pool.

mod midpoint_list;

use self::midpoint_list::{MidpointList, RATIO, TailSearch};
use super::request_clock::RequestClock;
use crate::lists::FrameLists;
use crate::parameters::{parameters, whole};
use crate::policy::{Access, BackgroundWrite, BackgroundWriter, Capabilities, Frame, Ghost, Page, Policy, RecordedRequest};
use crate::registry::RegisteredPolicy;
use crate::spec::{MAX_PAGES, MemoryUse, PolicyEntry, text_beside};

/// The pages among which a thread without a free frame looks for a clean one
/// (`BUF_LRU_SEARCH_SCAN_THRESHOLD`).
const SEARCHED: usize = 100;

/// The time between two rounds of the page cleaner, in µs.
const ROUND_US: u64 = 1_000_000;

/// An LRU list with a midpoint, and a list of dirty pages in order of their first change.
pub struct Innodb {
    list: MidpointList,
    /// The dirty pages, that with the oldest change first.
    changed: FrameLists<1>,
    dirty: Vec<bool>,
    /// The number of evictions when the page was moved to the head; 0 for a page that entered at the midpoint.
    moved_at: Vec<u32>,
    /// The time of the page's first access, in µs.
    accessed_at: Vec<u64>,
    /// Evictions so far (`freed_page_clock`).
    evictions: u32,
    /// A young page is moved again only after as many evictions: a quarter of the young part.
    fresh: u32,
    frames: u32,
    clock: RequestClock,
    /// True if the times of references are known.
    has_times: bool,
    old_blocks_time_us: u64,
    most_dirty: u32,
    scan_depth: u64,
    /// Frames that the page cleaner leaves in the list.
    least: u64,
    next_round_us: u64,
    /// True if a thread found no clean page and woke the page cleaner.
    is_woken: bool,
    /// True if a page was written since the page cleaner's last round, and before that one.
    is_active: [bool; 2],
    /// The frames that the page cleaner frees at the next miss.
    to_free: u64,
}

parameters! {
    /// The parameters of [`Innodb`].
    pub struct InnodbConfig {
        old_blocks_pct: u64 = {
            kind: whole(5, 95),
            default: "37",
            about: "the old part of the list, in per cent",
        },
        old_blocks_time: u64 = {
            kind: whole(0, u32::MAX as u64),
            default: "1000",
            about: "ms after its first access from which an old page becomes young when it is hit",
        },
        old_blocks_min: u64 = {
            kind: whole(1, MAX_PAGES),
            default: "512",
            about: "the length from which the list has an old part; a constant in the server",
        },
        max_dirty_pages_pct: u64 = {
            kind: whole(0, 100),
            default: "90",
            about: "dirty pages in per cent of the frames above which the oldest changes are written",
        },
        lru_scan_depth: u64 = {
            kind: whole(0, MAX_PAGES),
            default: "1024",
            about: "frames that the page cleaner keeps free; 0 is none",
        },
        rate: u64 = {
            kind: whole(0, 1 << 40),
            default: "0",
            about: "references a second, in place of the trace's times; 0 uses those",
        },
    }
}

impl RegisteredPolicy for Innodb {
    type Config = InnodbConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "innodb",
        aliases: &[("mysql", "")],
        params: InnodbConfig::PARAMS,
        summary: "InnoDB's LRU list with a midpoint: a page becomes young when it is hit again a second after its first access.",
        how: text_beside!("innodb.md"),
        when: "Use it to predict what a MySQL or MariaDB server of another innodb_buffer_pool_size reads, or as the present state with which other policies are compared. The trace should have times. How many pages such a server writes depends more on its redo log than on replacement.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(30),
        source: "MySQL 8.4: buf0lru.cc, buf0buf.ic and buf0flu.cc",
    };

    // Figures from samples have too few writes, by more than their error (docs/curves.md).
    const HAS_MINIATURE: bool = false;

    fn new(config: InnodbConfig, frames: u32) -> Self {
        let list = MidpointList::new(config.old_blocks_pct, config.old_blocks_min, frames);
        let fresh = u64::from(frames) * (RATIO - list.ratio()) / (RATIO * 4);
        let most_dirty = u64::from(frames) * config.max_dirty_pages_pct / 100;
        Innodb {
            list,
            changed: FrameLists::new(frames),
            dirty: vec![false; frames as usize],
            moved_at: vec![0; frames as usize],
            accessed_at: vec![0; frames as usize],
            evictions: 0,
            fresh: fresh as u32,
            frames,
            clock: RequestClock::new(config.rate),
            has_times: config.rate > 0,
            old_blocks_time_us: config.old_blocks_time * 1000,
            most_dirty: most_dirty as u32,
            scan_depth: config.lru_scan_depth,
            least: config.old_blocks_min / 2,
            next_round_us: ROUND_US,
            is_woken: false,
            is_active: [false; 2],
            to_free: 0,
        }
    }
}

impl Innodb {
    /// True if a hit moves the page to the head (`buf_page_peek_if_too_old`).
    #[inline]
    fn is_too_old(&self, frame: Frame) -> bool {
        if self.evictions == 0 {
            return false;
        }
        if self.old_blocks_time_us > 0 && self.list.is_old(frame) {
            let since = self.clock.now() - self.accessed_at[frame as usize];
            return !self.has_times || since >= self.old_blocks_time_us;
        }
        self.has_aged(frame)
    }

    /// True if a page is in danger of eviction (`buf_page_peek_if_young`).
    #[inline]
    fn has_aged(&self, frame: Frame) -> bool {
        let since = self.evictions.wrapping_sub(self.moved_at[frame as usize]);
        since >= self.fresh
    }

    fn make_young(&mut self, frame: Frame) {
        self.list.remove(frame);
        self.list.push_young(frame);
        self.moved_at[frame as usize] = self.evictions;
    }

    #[inline]
    fn mark_dirty(&mut self, frame: Frame) {
        self.is_active[0] = true;
        if !std::mem::replace(&mut self.dirty[frame as usize], true) {
            self.changed.push_mru(0, frame);
        }
    }

    /// The page cleaner's round: frees frames until there are enough (`buf_flush_LRU_list_batch`).
    #[cold]
    fn start_round(&mut self, now: u64) {
        // The next round is a second after the beginning of this one.
        let since = match std::mem::take(&mut self.is_woken) {
            true => 0,
            false => (now - self.next_round_us) % ROUND_US,
        };
        self.next_round_us = now - since + ROUND_US;
        let is_active = self.is_active.contains(&true);
        self.is_active = [false, self.is_active[0]];
        if !is_active {
            // A server that only reads is idle to the page cleaner (`buf_flush_page_coordinator_thread`).
            return;
        }
        let free = u64::from(self.frames) - self.list.len();
        let missing = self.scan_depth.saturating_sub(free);
        self.to_free = missing.min(self.list.len().saturating_sub(self.least));
    }
}

impl Policy for Innodb {
    const LOOKS_AT_PAGES: bool = false;
    const CAPABILITIES: Capabilities = Capabilities::EVICTS_EARLY
        .union(Capabilities::EVICTS_MORE)
        .union(Capabilities::REQUESTS)
        .union(Capabilities::BACKGROUND_WRITES)
        .union(Capabilities::WRITES_UNTIMED);

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.clock.serve();
        if access.is_write() {
            self.mark_dirty(frame);
        }
        if self.is_too_old(frame) {
            self.make_young(frame);
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.list.prefetch(frame);
    }

    #[inline]
    fn request(&mut self, request: RecordedRequest) {
        self.clock.request(request);
        self.has_times |= request.time_us > 0;
    }

    #[inline]
    fn background_writes(&mut self, writes: &mut Vec<BackgroundWrite>) {
        while self.changed.len(0) > self.most_dirty
            && let Some(frame) = self.changed.lru(0)
        {
            self.cleaned(frame);
            writes.push(BackgroundWrite { frame, writer: BackgroundWriter::Cleaner });
        }
    }

    fn capabilities(&self) -> Capabilities {
        let mut found = Self::CAPABILITIES;
        found.set(Capabilities::WRITES_UNTIMED, self.most_dirty < self.frames);
        found
    }

    #[inline]
    fn miss(&mut self, _page: Page, _ghost: Option<Ghost>, _access: Access) {
        let now = self.clock.now();
        if self.is_woken || now >= self.next_round_us {
            self.start_round(now);
        }
        self.clock.serve();
    }

    #[inline]
    fn evicts_early(&mut self) -> bool {
        self.to_free > 0
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let last = self.list.oldest_first().find(|&frame| may_evict(frame))?;
        if incoming.is_some() && self.to_free > 0 {
            return Some(last);
        }
        let dirty = &self.dirty;
        let is_clean = |frame: Frame| !dirty[frame as usize] && may_evict(frame);
        let clean = self.list.search(TailSearch::Clean, SEARCHED, is_clean);
        if clean.is_some() {
            return clean;
        }
        // The thread wakes the page cleaner and writes a page itself (`buf_flush_single_page_from_LRU`).
        self.is_woken = true;
        let written = self.list.search(TailSearch::Written, usize::MAX, &may_evict);
        written.or(Some(last))
    }

    fn evicted_with(&self, victim: Frame, evictions: &mut Vec<Frame>) {
        let others = self.to_free.saturating_sub(1) as usize;
        let frames = self.list.oldest_first().filter(|&frame| frame != victim);
        evictions.extend(frames.take(others));
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.to_free = 0;
        self.accessed_at[frame as usize] = self.clock.now();
        let is_old = self.list.push_at_midpoint(frame);
        self.moved_at[frame as usize] = if is_old { 0 } else { self.evictions };
        if access.is_write() {
            self.mark_dirty(frame);
        }
        // The page is accessed as soon as it is read.
        if self.old_blocks_time_us == 0 && self.is_too_old(frame) {
            self.make_young(frame);
        }
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.cleaned(frame);
        self.list.remove(frame);
        self.evictions = self.evictions.wrapping_add(1);
    }

    fn cleaned(&mut self, frame: Frame) {
        if std::mem::take(&mut self.dirty[frame as usize]) {
            self.changed.remove(0, frame);
        }
    }
}
