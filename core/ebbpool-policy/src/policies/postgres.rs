//! PostgreSQL's buffer replacement, with its background writer and its checkpoints.

mod checkpointer;
mod cleaner;
mod frames;
mod rings;

use ebbpool_cost::Decimal;

use self::checkpointer::Checkpointer;
use self::cleaner::Cleaner;
use self::frames::Frames;
use self::rings::ScanRings;
use super::request_clock::RequestClock;
use crate::parameters::{parameters, whole};
use crate::policy::{Access, BackgroundWrite, Capabilities, Frame, Ghost, Page, Policy, RecordedRequest};
use crate::registry::RegisteredPolicy;
use crate::spec::{MAX_PAGES, MemoryUse, ParameterKind, PolicyEntry, text_beside};

/// The frames in a circle with a hand and usage counts, rings for large scans, a background writer and checkpoints.
pub struct Postgres {
    frames: Frames,
    rings: ScanRings,
    clock: RequestClock,
    cleaner: Cleaner,
    checkpointer: Checkpointer,
    /// The ring of the present request.
    ring: Option<usize>,
    /// True if the ring gives up dirty pages.
    gives_up: bool,
    /// The frame that the page missed last gets from its ring.
    reused: Option<Frame>,
    /// True if the driver has an empty frame, and evicts because of `reused`.
    early: bool,
    /// Misses served from outside the rings since the background writer's last round.
    allocations: u64,
    /// References that wrote.
    written: u64,
}

parameters! {
    /// The parameters of [`Postgres`].
    pub struct PostgresConfig {
        bulkread: u32 = {
            kind: whole(0, MAX_PAGES),
            default: "32",
            about: "pages of the ring of a large sequential scan, at most an eighth of the frames; 0 is no ring",
        },
        bulkwrite: u32 = {
            kind: whole(0, MAX_PAGES),
            default: "2048",
            about: "the same for COPY and CREATE TABLE AS",
        },
        vacuum: u32 = {
            kind: whole(0, MAX_PAGES),
            default: "32",
            about: "the same for VACUUM; 256 from PostgreSQL 17 on",
        },
        bgwriter_delay: u64 = {
            kind: whole(10, 10_000),
            default: "200",
            about: "ms between two rounds of the background writer",
        },
        bgwriter_lru_maxpages: u64 = {
            kind: whole(0, 1_073_741_823),
            default: "100",
            about: "the most pages that it writes in a round; 0 turns it off",
        },
        bgwriter_lru_multiplier: u64 = {
            kind: whole(0, 10),
            default: "2",
            about: "the share of the misses of recent rounds for which it provides clean pages",
        },
        checkpoint_timeout: u64 = {
            kind: whole(0, 86_400),
            default: "0",
            about: "seconds between two checkpoints, 300 in a server by default; 0 is never",
        },
        checkpoint_completion_target: Decimal = {
            kind: ParameterKind::Share,
            default: "0.9",
            about: "the share of the time to the next checkpoint over which the writes of one are spread",
        },
        checkpoint_writes: u64 = {
            kind: whole(0, 1 << 40),
            default: "0",
            about: "references that write after which there is a checkpoint, as max_wal_size has it; 0 is never",
        },
        rate: u64 = {
            kind: whole(0, 1 << 40),
            default: "0",
            about: "references a second, in place of the trace's times; 0 uses those",
        },
    }
}

impl RegisteredPolicy for Postgres {
    type Config = PostgresConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "postgres",
        aliases: &[("postgresql", "")],
        params: PostgresConfig::PARAMS,
        summary: "PostgreSQL's clock sweep with usage counts up to 5, the rings of its large scans, its background writer and its checkpoints.",
        how: text_beside!("postgres.md"),
        when: "Use it to predict what a PostgreSQL server of another shared_buffers reads and writes, or as the present state with which other policies are compared. The trace should have times and rings, as one captured from a server has.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(1),
        source: "PostgreSQL 15 and 17: freelist.c, bufmgr.c and checkpointer.c",
    };

    fn new(config: PostgresConfig, frames: u32) -> Self {
        let rings = [config.bulkread, config.bulkwrite, config.vacuum];
        Postgres {
            frames: Frames::new(frames),
            rings: ScanRings::new(rings, frames),
            clock: RequestClock::new(config.rate),
            cleaner: Cleaner::new(config.bgwriter_delay, config.bgwriter_lru_maxpages, config.bgwriter_lru_multiplier),
            checkpointer: Checkpointer::new(
                config.checkpoint_timeout,
                config.checkpoint_writes,
                config.checkpoint_completion_target.to_f64(),
                frames,
            ),
            ring: None,
            gives_up: false,
            reused: None,
            early: false,
            allocations: 0,
            written: 0,
        }
    }
}

impl Postgres {
    /// The frame in the ring's next slot, if the ring can use it again. A slot whose dirty page is given up is empty then, and
    /// the one behind it is next.
    #[inline]
    fn frame_of_ring(&mut self, ring: usize) -> Option<Frame> {
        loop {
            let frame = self.rings.advance(ring)?;
            if !self.frames.is_reusable_by_ring(frame) {
                return None;
            }
            if !(self.gives_up && self.frames.is_dirty(frame)) {
                return Some(frame);
            }
            self.rings.empty(ring);
        }
    }

    /// Writes what the background processes write up to `now`.
    #[cold]
    fn run_background(&mut self, now: u64, writes: &mut Vec<BackgroundWrite>) {
        let Postgres { frames, allocations, .. } = self;
        self.cleaner.run(now, frames, allocations, writes);
        self.checkpointer.run(now, self.written, frames, writes);
    }
}

impl Policy for Postgres {
    const CAPABILITIES: Capabilities = Capabilities::EVICTS_EARLY
        .union(Capabilities::REQUESTS)
        .union(Capabilities::BACKGROUND_WRITES)
        .union(Capabilities::WRITES_UNTIMED)
        .union(Capabilities::CHECKPOINTS);

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.clock.serve();
        self.written += u64::from(access.is_write());
        let through_ring = self.ring.is_some();
        self.frames.hit(frame, through_ring, access.is_write());
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.frames.prefetch(frame);
    }

    #[inline]
    fn request(&mut self, request: RecordedRequest) {
        self.clock.request(request);
        self.ring = request.ring().and_then(|scan| self.rings.of(scan));
        self.gives_up = request.gives_up();
    }

    #[inline]
    fn background_writes(&mut self, writes: &mut Vec<BackgroundWrite>) {
        let now = self.clock.now();
        if now >= self.cleaner.next_us()
            || now >= self.checkpointer.next_us()
            || self.written >= self.checkpointer.next_written()
        {
            self.run_background(now, writes);
        }
    }

    fn capabilities(&self) -> Capabilities {
        let never = u64::MAX;
        let by_time = self.cleaner.next_us() != never || self.checkpointer.next_us() != never;
        let untimed = by_time && self.clock.has_rate() || self.checkpointer.next_written() != never;
        let mut found = Self::CAPABILITIES;
        found.set(Capabilities::WRITES_UNTIMED, untimed);
        found.set(Capabilities::CHECKPOINTS, self.checkpointer.is_on());
        found
    }

    #[inline]
    fn miss(&mut self, _page: Page, _ghost: Option<Ghost>, access: Access) {
        self.clock.serve();
        self.written += u64::from(access.is_write());
        self.early = false;
        self.reused = self.ring.and_then(|ring| self.frame_of_ring(ring));
    }

    #[inline]
    fn evicts_early(&mut self) -> bool {
        self.early = self.reused.is_some() && !self.frames.are_full();
        self.early
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        if incoming.is_none() {
            return self.frames.next(may_evict);
        }
        let reused = self.reused.filter(|&frame| may_evict(frame));
        if reused.is_some() || self.early {
            return reused;
        }
        self.frames.sweep(may_evict)
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        if let Some(ring) = self.ring {
            self.rings.fill(ring, frame);
        }
        self.allocations += u64::from(self.reused != Some(frame));
        self.early = false;
        self.reused = None;
        self.frames.admit(frame, access.is_write());
        self.checkpointer.admit(frame, page);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.frames.evicted(frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.frames.cleaned(frame);
    }
}
