//! postgres, from freelist.c, bufmgr.c and checkpointer.c.

use std::collections::{BTreeMap, BTreeSet};

use crate::buffer::Policy;
use crate::sampler::EmptySlots;
use crate::spec::Spec;

const SECOND_US: u64 = 1_000_000;

pub(crate) struct Parameters {
    rings: [u64; 3],
    delay_ms: u64,
    maxpages: u64,
    multiplier: u64,
    timeout_s: u64,
    target: f64,
    checkpoint_writes: u64,
    rate: u64,
}

impl Parameters {
    pub(crate) fn from_spec(spec: &mut Spec) -> Parameters {
        Parameters {
            rings: [spec.number("bulkread", 32), spec.number("bulkwrite", 2048), spec.number("vacuum", 32)],
            delay_ms: spec.number("bgwriter_delay", 200),
            maxpages: spec.number("bgwriter_lru_maxpages", 100),
            multiplier: spec.number("bgwriter_lru_multiplier", 2),
            timeout_s: spec.number("checkpoint_timeout", 0),
            target: spec.fraction("checkpoint_completion_target", "0.9").value(),
            checkpoint_writes: spec.number("checkpoint_writes", 0),
            rate: spec.number("rate", 0),
        }
    }
}

#[derive(Clone)]
struct Buffer {
    page: u64,
    usage_count: u32,
    dirty: bool,
    checkpoint_needed: bool,
}

struct Ring {
    buffers: Vec<Option<usize>>,
    current: usize,
    last_use: u64,
}

/// What `BgBufferSync` stores between two calls.
struct BackgroundWriter {
    saved: bool,
    prev_strategy_buf_id: i64,
    prev_strategy_passes: i64,
    next_to_clean: i64,
    next_passes: i64,
    smoothed_alloc: f32,
    smoothed_density: f32,
    next_round: u64,
}

/// The present checkpoint.
#[derive(Default)]
struct Checkpoint {
    start: u64,
    start_written: u64,
    to_write: Vec<u64>,
    processed: usize,
}

pub(crate) struct Postgres {
    parameters: Parameters,
    buffers: Vec<Option<Buffer>>,
    next_victim: i64,
    complete_passes: i64,
    allocations: i64,
    rings: BTreeMap<u32, Ring>,
    ring_requests: u64,
    strategy: Option<u32>,
    /// True if `StrategyRejectBuffer` would reject each dirty page of the ring.
    rejects: bool,
    /// The buffer that the ring yields for the page missed last.
    from_ring: Option<usize>,
    /// The buffer whose page was evicted last.
    vacated: Option<usize>,
    empty: EmptySlots,
    writer: BackgroundWriter,
    checkpoint: Checkpoint,
    written: u64,
    references: u64,
    start: Option<u64>,
    now: u64,
}

impl Postgres {
    pub(crate) fn new(m: usize, parameters: Parameters) -> Postgres {
        Postgres {
            buffers: vec![None; m],
            next_victim: 0,
            complete_passes: 0,
            allocations: 0,
            rings: BTreeMap::new(),
            ring_requests: 0,
            strategy: None,
            rejects: false,
            from_ring: None,
            vacated: None,
            empty: EmptySlots::new(m),
            writer: BackgroundWriter {
                saved: false,
                prev_strategy_buf_id: 0,
                prev_strategy_passes: 0,
                next_to_clean: 0,
                next_passes: 0,
                smoothed_alloc: 0.0,
                smoothed_density: 10.0,
                next_round: parameters.delay_ms * 1000,
            },
            checkpoint: Checkpoint::default(),
            written: 0,
            references: 0,
            start: None,
            now: 0,
            parameters,
        }
    }

    fn served(&mut self, write: bool) {
        self.references += 1;
        self.written += u64::from(write);
        let by_rate = (self.references * SECOND_US).checked_div(self.parameters.rate);
        self.now = by_rate.unwrap_or(self.now);
    }

    fn id_of(&self, page: u64) -> Option<usize> {
        let is_its = |buffer: &Option<Buffer>| buffer.as_ref().is_some_and(|b| b.page == page);
        self.buffers.iter().position(is_its)
    }

    fn buffer(&mut self, page: u64) -> &mut Buffer {
        let id = self.id_of(page).expect("the page is resident");
        self.buffers[id].as_mut().expect("a page")
    }

    /// `GetBufferFromRing` without the pins, and `StrategyRejectBuffer`.
    fn buffer_from_ring(&mut self) -> Option<usize> {
        let ring = self.rings.get_mut(&self.strategy?)?;
        ring.current = (ring.current + 1) % ring.buffers.len();
        let id = ring.buffers[ring.current]?;
        let buffer = self.buffers[id].as_ref()?;
        if buffer.usage_count > 1 {
            return None;
        }
        if self.rejects && buffer.dirty {
            ring.buffers[ring.current] = None;
            return self.buffer_from_ring();
        }
        Some(id)
    }

    /// `ClockSweepTick` and the loop of `StrategyGetBuffer`.
    fn clock_sweep(&mut self, pinned: &BTreeSet<u64>) -> u64 {
        loop {
            let id = self.next_victim as usize;
            self.next_victim += 1;
            if self.next_victim == self.buffers.len() as i64 {
                self.next_victim = 0;
                self.complete_passes += 1;
            }
            let Some(buffer) = &mut self.buffers[id] else {
                continue;
            };
            if pinned.contains(&buffer.page) {
                continue;
            }
            if buffer.usage_count == 0 {
                return buffer.page;
            }
            buffer.usage_count -= 1;
        }
    }

    /// `BgBufferSync`.
    fn sync_background(&mut self, written: &mut Vec<(u64, bool)>) {
        let buffers = self.buffers.len() as i64;
        let (strategy_buf_id, strategy_passes) = (self.next_victim, self.complete_passes);
        let recent_alloc = std::mem::take(&mut self.allocations);
        let writer = &mut self.writer;
        let mut strategy_delta = 0;
        let bufs_to_lap;
        let ahead_on_same_pass = writer.next_passes == strategy_passes && writer.next_to_clean >= strategy_buf_id;
        if writer.saved {
            strategy_delta =
                strategy_buf_id - writer.prev_strategy_buf_id + (strategy_passes - writer.prev_strategy_passes) * buffers;
        }
        if writer.saved && writer.next_passes > strategy_passes {
            bufs_to_lap = strategy_buf_id - writer.next_to_clean;
        } else if writer.saved && ahead_on_same_pass {
            bufs_to_lap = buffers - (writer.next_to_clean - strategy_buf_id);
        } else {
            writer.next_to_clean = strategy_buf_id;
            writer.next_passes = strategy_passes;
            bufs_to_lap = buffers;
        }
        writer.prev_strategy_buf_id = strategy_buf_id;
        writer.prev_strategy_passes = strategy_passes;
        writer.saved = true;
        if strategy_delta > 0 && recent_alloc > 0 {
            let scans_per_alloc = strategy_delta as f32 / recent_alloc as f32;
            writer.smoothed_density += (scans_per_alloc - writer.smoothed_density) / 16.0;
        }
        let bufs_ahead = buffers - bufs_to_lap;
        let reusable_est = (bufs_ahead as f32 / writer.smoothed_density) as i64;
        if writer.smoothed_alloc <= recent_alloc as f32 {
            writer.smoothed_alloc = recent_alloc as f32;
        } else {
            writer.smoothed_alloc += (recent_alloc as f32 - writer.smoothed_alloc) / 16.0;
        }
        let multiplier = self.parameters.multiplier as f64;
        let mut upcoming = (f64::from(writer.smoothed_alloc) * multiplier) as i64;
        if upcoming == 0 {
            writer.smoothed_alloc = 0.0;
        }
        let rounds = 120_000.0 / self.parameters.delay_ms as f32;
        upcoming = upcoming.max((buffers as f32 / rounds) as i64 + reusable_est);

        let mut num_to_scan = bufs_to_lap;
        let mut num_written = 0;
        let mut reusable = reusable_est;
        while num_to_scan > 0 && reusable < upcoming {
            let id = writer.next_to_clean as usize;
            writer.next_to_clean += 1;
            if writer.next_to_clean == buffers {
                writer.next_to_clean = 0;
                writer.next_passes += 1;
            }
            num_to_scan -= 1;
            match &mut self.buffers[id] {
                None => reusable += 1,
                Some(buffer) if buffer.usage_count > 0 => {}
                Some(buffer) => {
                    reusable += 1;
                    if buffer.dirty {
                        buffer.dirty = false;
                        buffer.checkpoint_needed = false;
                        written.push((buffer.page, false));
                        num_written += 1;
                        if num_written >= self.parameters.maxpages {
                            break;
                        }
                    }
                }
            }
        }
        let new_delta = bufs_to_lap - num_to_scan;
        let new_alloc = reusable - reusable_est;
        if new_delta > 0 && new_alloc > 0 {
            let scans_per_alloc = new_delta as f32 / new_alloc as f32;
            writer.smoothed_density += (scans_per_alloc - writer.smoothed_density) / 16.0;
        }
    }

    /// Writes the checkpoint's pages up to the one numbered `end`.
    fn write_checkpoint(&mut self, end: usize, written: &mut Vec<(u64, bool)>) {
        for at in self.checkpoint.processed..end {
            let page = self.checkpoint.to_write[at];
            let Some(id) = self.id_of(page) else {
                continue;
            };
            let buffer = self.buffers[id].as_mut().expect("a page");
            if buffer.checkpoint_needed {
                buffer.checkpoint_needed = false;
                buffer.dirty = false;
                written.push((page, true));
            }
        }
        self.checkpoint.processed = end;
    }

    fn checkpoint(&mut self, written: &mut Vec<(u64, bool)>) {
        let timeout = self.parameters.timeout_s * SECOND_US;
        let most_written = self.parameters.checkpoint_writes;
        let elapsed = self.now - self.checkpoint.start;
        let by_time = timeout > 0 && elapsed >= timeout;
        let since = self.written - self.checkpoint.start_written;
        if by_time || most_written > 0 && since >= most_written {
            let all = self.checkpoint.to_write.len();
            self.write_checkpoint(all, written);
            let late = if by_time { elapsed % timeout } else { 0 };
            let mut to_write = Vec::new();
            for buffer in self.buffers.iter_mut().flatten() {
                if buffer.dirty {
                    buffer.checkpoint_needed = true;
                    to_write.push(buffer.page);
                }
            }
            to_write.sort_unstable();
            self.checkpoint = Checkpoint { start: self.now - late, start_written: self.written, to_write, processed: 0 };
        }
        let count = self.checkpoint.to_write.len();
        let pauses = (self.now - self.checkpoint.start) / 100_000;
        let mut progress: f64 = 0.0;
        if timeout > 0 {
            progress = (pauses * 100_000) as f64 / timeout as f64;
        }
        if most_written > 0 {
            let since = self.written - self.checkpoint.start_written;
            progress = progress.max(since as f64 / most_written as f64);
        }
        let mut end = self.checkpoint.processed;
        while end < count && (end as u64 <= pauses || end as f64 / (count as f64) * self.parameters.target < progress) {
            end += 1;
        }
        self.write_checkpoint(end, written);
    }
}

impl Policy for Postgres {
    fn request(&mut self, time_us: u64, bypass: u32) {
        let start = *self.start.get_or_insert(time_us);
        if self.parameters.rate == 0 {
            self.now = self.now.max(time_us.saturating_sub(start));
        }
        self.strategy = None;
        self.rejects = bypass >= 4 && bypass.is_multiple_of(4);
        let bypass = if self.rejects { bypass + 1 } else { bypass };
        let kind = bypass as usize % 4;
        if bypass < 4 || self.parameters.rings[kind - 1] == 0 {
            return;
        }
        self.ring_requests += 1;
        if !self.rings.contains_key(&bypass) {
            if self.rings.len() == 64 {
                let oldest = self.rings.iter().min_by_key(|(_, ring)| ring.last_use);
                let oldest = *oldest.expect("a ring").0;
                self.rings.remove(&oldest);
            }
            let most = (self.buffers.len() / 8).max(1);
            let size = (self.parameters.rings[kind - 1] as usize).min(most);
            let ring = Ring { buffers: vec![None; size], current: 0, last_use: 0 };
            self.rings.insert(bypass, ring);
        }
        let ring = self.rings.get_mut(&bypass).expect("the ring");
        ring.last_use = self.ring_requests;
        self.strategy = Some(bypass);
    }

    fn background(&mut self) -> Vec<(u64, bool)> {
        let mut written = Vec::new();
        while self.parameters.maxpages > 0 && self.writer.next_round <= self.now {
            self.sync_background(&mut written);
            self.writer.next_round += self.parameters.delay_ms * 1000;
        }
        self.checkpoint(&mut written);
        written
    }

    fn hit(&mut self, page: u64, write: bool) {
        self.served(write);
        let most = if self.strategy.is_some() { 1 } else { 5 };
        let buffer = self.buffer(page);
        buffer.dirty |= write;
        if buffer.usage_count < most {
            buffer.usage_count += 1;
        }
    }

    fn miss(&mut self, _page: u64, write: bool) {
        self.served(write);
        self.vacated = None;
        self.from_ring = self.buffer_from_ring();
    }

    fn early_victim(&mut self, pinned: &BTreeSet<u64>) -> Option<u64> {
        let buffer = self.buffers[self.from_ring?].as_ref()?;
        (!pinned.contains(&buffer.page)).then_some(buffer.page)
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        match self.early_victim(pinned) {
            Some(page) => page,
            None => self.clock_sweep(pinned),
        }
    }

    fn admit(&mut self, page: u64, write: bool) {
        let id = self.vacated.take().unwrap_or_else(|| self.empty.take());
        self.buffers[id] = Some(Buffer { page, usage_count: 1, dirty: write, checkpoint_needed: false });
        if self.from_ring.take() != Some(id) {
            self.allocations += 1;
        }
        if let Some(strategy) = self.strategy {
            let ring = self.rings.get_mut(&strategy).expect("the ring");
            ring.buffers[ring.current] = Some(id);
        }
    }

    fn evict(&mut self, page: u64) {
        let id = self.id_of(page).expect("the page is resident");
        self.buffers[id] = None;
        self.vacated = Some(id);
    }

    fn end(&mut self, page: u64) {
        let id = self.id_of(page).expect("the page is resident");
        self.buffers[id] = None;
        self.empty.add(id);
    }

    fn clean(&mut self, page: u64) {
        let buffer = self.buffer(page);
        buffer.dirty = false;
        buffer.checkpoint_needed = false;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::tests::Player;
    use crate::{model, workload};

    #[test]
    fn without_rings_and_times_it_is_gclock() {
        let none = BTreeSet::new();
        for (seed, frames) in (0..).zip([1, 2, 7, 30]) {
            let mut postgres = model("postgres", frames);
            let mut gclock = model("gclock", frames);
            for (page, write) in workload::workload(seed, 1500, frames as u64 * 3) {
                assert_eq!(postgres.reference(page, write, None, &none), gclock.reference(page, write, None, &none));
            }
        }
    }

    /// A model that has times and rings.
    fn player(spec: &str, frames: usize) -> Player {
        let mut player = Player::new(model(spec, frames), "");
        player.model.request(0, 0);
        player
    }

    #[test]
    fn a_scan_uses_its_ring_again_although_frames_are_empty() {
        let mut player = player("postgres:bulkread=2", 16);
        player.play("R1 R2");
        player.model.request(0, 4 + 1);
        assert_eq!(player.play("R11 R12 R13 R14 R15"), [11, 12, 13]);
        // Another scan has another ring, and so has a vacuum.
        player.model.request(0, 8 + 1);
        assert_eq!(player.play("R21 R22 R23"), [21]);
        player.model.request(0, 4 + 1);
        assert_eq!(player.play("R16"), [14]);
        player.model.request(0, 0);
        assert_eq!(player.play("R31 R32"), []);
    }

    #[test]
    fn a_page_that_others_use_stays_and_its_slot_gets_another_frame() {
        let mut player = player("postgres:bulkread=1", 16);
        player.model.request(0, 5);
        // A hit through the ring does not raise the count above 1.
        assert_eq!(player.play("R1 R1 R1 R2"), [1]);
        player.model.request(0, 0);
        player.play("R2");
        player.model.request(0, 5);
        assert_eq!(player.play("R3 R4"), [3]);
    }

    #[test]
    fn the_background_writer_cleans_pages_ahead_of_the_hand() {
        let mut player = player("postgres", 4);
        player.play("W1 W2 W3 W4");
        player.model.request(200_000, 0);
        // All counts are 1, so that none can be cleaned; the writer has passed the four frames in one round.
        assert_eq!(player.model.background(), []);
        // The hand lowers all counts and takes the frame of 1.
        assert_eq!(player.play("W5"), [1]);
        player.model.request(400_000, 0);
        // The writer was overtaken, and begins behind the hand: of five needed it finds 2, 3 and 4.
        assert_eq!(player.model.background(), [(2, false), (3, false), (4, false)]);
        assert_eq!(player.model.background(), []);
    }

    #[test]
    fn a_round_writes_at_most_maxpages() {
        let mut player = player("postgres:bgwriter_lru_maxpages=2", 4);
        player.play("W1 W2 W3 W4");
        player.model.request(200_000, 0);
        player.model.background();
        player.play("W5");
        player.model.request(400_000, 0);
        assert_eq!(player.model.background(), [(2, false), (3, false)]);
        let mut off = self::player("postgres:bgwriter_lru_maxpages=0", 4);
        off.play("W1 W2 W3 W4 W5");
        off.model.request(100_000_000, 0);
        assert_eq!(off.model.background(), []);
    }

    #[test]
    fn a_checkpoint_spreads_its_writes_in_order_of_page_number() {
        let spec = "postgres:bgwriter_lru_maxpages=0,checkpoint_timeout=10";
        let mut player = player(spec, 8);
        player.play("W5 W3 W9 R7 W1");
        player.model.request(9_999_999, 0);
        assert_eq!(player.model.background(), []);
        player.model.request(10_000_000, 0);
        assert_eq!(player.model.background(), [(1, true)]);
        // 5 is evicted or cleaned otherwise; 3 is due after the first pause.
        player.play("C5 W5");
        assert_eq!(player.model.background(), []);
        player.model.request(10_100_000, 0);
        assert_eq!(player.model.background(), [(3, true)]);
        // 5 is not of this checkpoint, since it was written after its beginning.
        player.model.request(12_000_000, 0);
        assert_eq!(player.model.background(), [(9, true)]);
        player.model.request(20_500_000, 0);
        assert_eq!(player.model.background(), [(5, true)]);
    }

    #[test]
    fn references_that_write_cause_checkpoints_too() {
        let spec = "postgres:checkpoint_writes=10,checkpoint_completion_target=0.5";
        let mut player = player(spec, 16);
        player.play("W1 W2 W3 W4 W1 W2 W3 W4 W1");
        assert_eq!(player.model.background(), []);
        player.play("R1 W2");
        assert_eq!(player.model.background(), [(1, true)]);
        // One of four is an eighth of the way: 1.25 references that write.
        player.play("W5");
        assert_eq!(player.model.background(), []);
        player.play("W5");
        assert_eq!(player.model.background(), [(2, true)]);
        player.play("W5 W5");
        assert_eq!(player.model.background(), [(3, true), (4, true)]);
    }

    #[test]
    fn a_rate_replaces_times() {
        let mut player = player("postgres:rate=10,checkpoint_timeout=1", 16);
        player.play("W1 W2 W3 W4 W5 W6 W7 W8 W9");
        assert_eq!(player.model.background(), []);
        player.play("W9");
        assert_eq!(player.model.background()[0], (1, true));
    }
}
