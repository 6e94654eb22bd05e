//! The contract between a policy and its driver (the simulator, or the pool).

pub use ebbpool_cost::Costs;

use std::num::NonZeroU64;
use std::sync::Arc;

/// A slot for one page, numbered from 0 to frames - 1.
pub type Frame = u32;

/// A page number. Any `u64` is a page; none is special.
pub type Page = u64;

/// What a policy remembers a page by that is not resident: a number below [`MOST_GHOSTS`].
///
/// The driver keeps it in its page table, in the place of the frame, so that looking for a ghost
/// costs no search. A ghost that the policy has meanwhile forgotten does no harm.
pub type Ghost = u32;

/// Ghosts are below this, so that a page table has a bit left to tell them from frames.
pub const MOST_GHOSTS: u32 = 1 << 31;

/// How a page is fixed. A write marks the page dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The page is fixed for reading.
    Read,
    /// The page is fixed for writing and becomes dirty.
    Write,
}

impl Access {
    /// `Write` if `write`, else `Read`.
    #[inline]
    pub fn from_write(write: bool) -> Self {
        if write { Access::Write } else { Access::Read }
    }

    /// True for `Write`.
    #[inline]
    pub fn is_write(self) -> bool {
        self == Access::Write
    }
}

/// Readings of an adaptive policy, for plots over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// The wanted number of clean pages: Mc of FD-Buffer, tau of CASA.
    pub target: Option<f64>,
    /// The policy advisor's latest estimates at the chosen Mc: Pc, Pd and Pdw (FD-Buffer,
    /// equations 5 to 7), each a share between 0 and 1.
    pub estimates: Option<[f64; 3]>,
}

/// What the trace holds for the page about to be referenced. Positions count references from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextUse {
    /// The position of this reference.
    pub position: u64,
    /// The position of the page's next reference; [`NextUse::NEVER`] if there is none.
    pub reference: u64,
    /// The position up to which the page must stay, once dirty, to save a write: that of its next
    /// write. Without one it is the end of the trace where dirty pages are left there for free,
    /// and [`NextUse::NEVER`] where they are written.
    pub write: u64,
    /// The page's references after this one up to `write`, that one included.
    pub references_to_write: u32,
}

impl NextUse {
    /// In place of a position that does not come.
    pub const NEVER: u64 = u64::MAX;

    /// Before the first reference.
    pub(crate) const UNKNOWN: NextUse = NextUse {
        position: 0,
        reference: Self::NEVER,
        write: Self::NEVER,
        references_to_write: 0,
    };
}

/// How much of the future a policy must be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Foresight {
    /// Nothing.
    #[default]
    Nothing,
    /// The next reference to each page.
    References,
    /// Also the next write.
    Writes,
    /// Also what holding a frame is worth at each position.
    Prices,
}

/// A replacement policy over a fixed number of frames.
///
/// The driver owns the page table, does the I/O and calls, for each reference, exactly one of
///
/// * `hit(frame)` when the page is resident, or
/// * `miss(page)`, then, if no frame is free, `victim`, `write_with` and `cleaned` for each frame
///   written with it, `also_leaving` and `evicted` for each frame that leaves, then
///   `admit(frame, page)`; `refused` in its place if nobody may go.
///
/// Between references it may call `cleaned(frame)` for a dirty page that was written back and
/// stays, and `costs` when the device's costs have changed. A policy does no I/O, reads no
/// clock, and never hashes a resident page.
pub trait Policy: Send {
    /// False if the numbers of pages make no difference, so that a driver need not have them at
    /// hand before a miss.
    const LOOKS_AT_PAGES: bool = true;

    /// The page in `frame` was fixed.
    fn hit(&mut self, frame: Frame, access: Access);

    /// False if the policy need not hear of every hit. Then a driver may leave hits out, if it divides time into
    /// epochs of at most one miss for every 32 frames: it tells the first hit of each page in an epoch, the first
    /// that writes, and each that writes to a clean page. It says with [`left_out`](Self::left_out) how many
    /// others there were.
    fn wants_every_hit(&self) -> bool {
        true
    }

    /// The driver left out so many hits since it last said so.
    fn left_out(&mut self, _hits: u64) {}

    /// A page that is not resident was asked for. Called once per such reference, first.
    /// `ghost` is what `remember` or `refused` last answered for this page.
    fn miss(&mut self, _page: Page, _ghost: Option<Ghost>, _access: Access) {}

    /// The page in `frame` will probably be fixed soon: reads what `hit` will look at, so that it
    /// is in the processor's cache by then (BP-Wrapper, Ding et al. 2009).
    fn prefetch(&self, _frame: Frame) {}

    /// The page remembered as `ghost` will probably be missed soon.
    fn prefetch_ghost(&self, _ghost: Ghost) {}

    /// Chooses who leaves. `incoming` is the missing page, or nothing when the background writer
    /// asks; `may_go` is false for pinned frames. Answers `None` only when every occupied frame
    /// is pinned. The frame stays the policy's until `evicted` is called; another frame may be
    /// evicted in its place.
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame>
    where
        Self: Sized;

    /// Appends to `leaving` the frames, clean or dirty, that leave together with `victim`, in
    /// order. The driver skips the pinned ones.
    fn also_leaving(&self, _victim: Frame, _leaving: &mut Vec<Frame>) {}

    /// The pages of an erase block that is written whole, if anything of it is written, when
    /// `victim` and what leaves with it go: the driver first reads the pages of `victim`'s block
    /// that are missing (page padding, BPLRU). Pinned pages of the block are written too and
    /// stay: `cleaned` is called for them.
    fn padding(&self, _victim: Frame) -> Option<NonZeroU64> {
        None
    }

    /// `page` was brought into `frame`, which was empty.
    fn admit(&mut self, frame: Frame, page: Page, access: Access);

    /// The page missed last cannot be admitted, because everybody is pinned. Answers by what it
    /// is remembered.
    fn refused(&mut self) -> Option<Ghost> {
        None
    }

    /// The page in `frame` is about to leave, `evicted` is called next. Answers by what it is
    /// remembered.
    fn remember(&mut self, _frame: Frame) -> Option<Ghost> {
        None
    }

    /// The page left `frame`; the driver has written it if it was dirty.
    fn evicted(&mut self, frame: Frame);

    /// The dirty page in `frame` was written back and stays.
    fn cleaned(&mut self, frame: Frame);

    /// Appends to `together` at most `max` dirty frames best written in one go with `victim`, which
    /// `victim` answered last. Written, they become clean and stay: the driver calls `cleaned` for
    /// each. The victim, if it is dirty, is written with them and leaves.
    fn write_with(&self, _victim: Frame, _max: usize, _together: &mut Vec<Frame>) {}

    /// The current costs of one page read and one page write.
    fn costs(&mut self, _costs: Costs) {}

    /// True if the driver must tell erase counts. Drivers whose device has none refuse the policy.
    fn asks_erase_counts(&self) -> bool {
        false
    }

    /// The erase block that holds the page in `frame` was erased `erases` times so far; 0 if no
    /// block holds it. Told after `admit`, and before the next `victim` when the device has moved
    /// the page.
    fn erase_count(&mut self, _frame: Frame, _erases: u32) {}

    /// Offline policies only: what comes for the page about to be referenced, as far as the
    /// policy's [`Foresight`] goes. Called before `hit` and `miss`.
    fn next_use(&mut self, _next: NextUse) {}

    /// Policies with [`Foresight::Prices`] only: `prices[u]` is what holding a frame from the
    /// beginning to position u is worth, in page reads; it never falls. Called once, first.
    fn prices(&mut self, _prices: Arc<[f64]>) {}

    /// Readings for plots over time.
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }
}

/// [`Policy`] behind dynamic dispatch, for drivers that choose one at run time.
pub trait DynPolicy {
    /// See [`Policy::hit`].
    fn hit(&mut self, frame: Frame, access: Access);
    /// See [`Policy::wants_every_hit`].
    fn wants_every_hit(&self) -> bool;
    /// See [`Policy::left_out`].
    fn left_out(&mut self, hits: u64);
    /// See [`Policy::miss`].
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, access: Access);
    /// See [`Policy::prefetch`].
    fn prefetch(&self, frame: Frame);
    /// See [`Policy::prefetch_ghost`].
    fn prefetch_ghost(&self, ghost: Ghost);
    /// See [`Policy::victim`].
    fn victim(
        &mut self,
        incoming: Option<(Page, Access)>,
        may_go: &dyn Fn(Frame) -> bool,
    ) -> Option<Frame>;
    /// See [`Policy::also_leaving`].
    fn also_leaving(&self, victim: Frame, leaving: &mut Vec<Frame>);
    /// See [`Policy::padding`].
    fn padding(&self, victim: Frame) -> Option<NonZeroU64>;
    /// See [`Policy::admit`].
    fn admit(&mut self, frame: Frame, page: Page, access: Access);
    /// See [`Policy::refused`].
    fn refused(&mut self) -> Option<Ghost>;
    /// See [`Policy::remember`].
    fn remember(&mut self, frame: Frame) -> Option<Ghost>;
    /// See [`Policy::evicted`].
    fn evicted(&mut self, frame: Frame);
    /// See [`Policy::cleaned`].
    fn cleaned(&mut self, frame: Frame);
    /// See [`Policy::write_with`].
    fn write_with(&self, victim: Frame, max: usize, together: &mut Vec<Frame>);
    /// See [`Policy::costs`].
    fn costs(&mut self, costs: Costs);
    /// See [`Policy::asks_erase_counts`].
    fn asks_erase_counts(&self) -> bool;
    /// See [`Policy::erase_count`].
    fn erase_count(&mut self, frame: Frame, erases: u32);
    /// See [`Policy::next_use`].
    fn next_use(&mut self, next: NextUse);
    /// See [`Policy::prices`].
    fn prices(&mut self, prices: Arc<[f64]>);
    /// See [`Policy::gauges`].
    fn gauges(&self) -> Gauges;
}

impl<P: Policy> DynPolicy for P {
    fn hit(&mut self, frame: Frame, access: Access) {
        Policy::hit(self, frame, access);
    }
    fn wants_every_hit(&self) -> bool {
        Policy::wants_every_hit(self)
    }
    fn left_out(&mut self, hits: u64) {
        Policy::left_out(self, hits);
    }
    fn miss(&mut self, page: Page, ghost: Option<Ghost>, access: Access) {
        Policy::miss(self, page, ghost, access);
    }
    fn prefetch(&self, frame: Frame) {
        Policy::prefetch(self, frame);
    }
    fn prefetch_ghost(&self, ghost: Ghost) {
        Policy::prefetch_ghost(self, ghost);
    }
    fn victim(
        &mut self,
        incoming: Option<(Page, Access)>,
        may_go: &dyn Fn(Frame) -> bool,
    ) -> Option<Frame> {
        Policy::victim(self, incoming, may_go)
    }
    fn also_leaving(&self, victim: Frame, leaving: &mut Vec<Frame>) {
        Policy::also_leaving(self, victim, leaving);
    }
    fn padding(&self, victim: Frame) -> Option<NonZeroU64> {
        Policy::padding(self, victim)
    }
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        Policy::admit(self, frame, page, access);
    }
    fn refused(&mut self) -> Option<Ghost> {
        Policy::refused(self)
    }
    fn remember(&mut self, frame: Frame) -> Option<Ghost> {
        Policy::remember(self, frame)
    }
    fn evicted(&mut self, frame: Frame) {
        Policy::evicted(self, frame);
    }
    fn cleaned(&mut self, frame: Frame) {
        Policy::cleaned(self, frame);
    }
    fn write_with(&self, victim: Frame, max: usize, together: &mut Vec<Frame>) {
        Policy::write_with(self, victim, max, together);
    }
    fn costs(&mut self, costs: Costs) {
        Policy::costs(self, costs);
    }
    fn asks_erase_counts(&self) -> bool {
        Policy::asks_erase_counts(self)
    }
    fn erase_count(&mut self, frame: Frame, erases: u32) {
        Policy::erase_count(self, frame, erases);
    }
    fn next_use(&mut self, next: NextUse) {
        Policy::next_use(self, next);
    }
    fn prices(&mut self, prices: Arc<[f64]>) {
        Policy::prices(self, prices);
    }
    fn gauges(&self) -> Gauges {
        Policy::gauges(self)
    }
}
