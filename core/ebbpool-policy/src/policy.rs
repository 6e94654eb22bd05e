//! The contract between a policy and its driver (the simulator, or the pool).

pub use ebbpool_cost::{Costs, PageProbabilities, PageProbability};

use std::num::NonZeroU64;
use std::sync::Arc;

pub use crate::capabilities::Capabilities;

/// A slot for one page, numbered from 0 to frames - 1.
pub type Frame = u32;

/// A page number. Any `u64` is a page; none is special.
pub type Page = u64;

/// The number, below [`MOST_GHOSTS`], under which a policy remembers a page that is not resident.
///
/// The driver stores it in its page table in place of the frame, so that finding a ghost takes no
/// search. A ghost that the policy has meanwhile forgotten does no harm.
pub type Ghost = u32;

/// A kind of pages that are used alike, such as the pages of a relation or the leaves of an index. Classes are numbers
/// that the caller chooses; [`UNKNOWN_CLASS`] stands for pages of which it knows nothing.
pub type PageClass = u32;

/// The class of a page whose class the caller does not know.
pub const UNKNOWN_CLASS: PageClass = 0;

/// Ghosts are below this, so that a page table has a bit left to distinguish them from frames.
pub const MOST_GHOSTS: u32 = 1 << 31;

/// What a trace recorded of a request besides its page and access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedRequest {
    /// The time of the request in µs since some moment; 0 throughout where the trace has no times.
    pub time_us: u64,
    /// Four times the number of the private ring of frames through which the requester scans, from 1 on, plus the kind
    /// of the scan (1: it reads, 2: it writes in bulk, 3: it is a vacuum, 0: it reads, and gives up the dirty pages of its
    /// ring whose log is not written yet). 0 without a ring.
    pub bypass: u32,
}

impl RecordedRequest {
    /// The number of the requester's ring and the kind of its scan, from 1 to 3; `None` without a ring.
    #[inline]
    pub fn ring(self) -> Option<(u32, u32)> {
        let (number, kind) = (self.bypass / 4, self.bypass % 4);
        (number > 0).then_some((number, kind.max(1)))
    }

    /// True if the requester's ring gives up dirty pages at this request.
    #[inline]
    pub fn gives_up(self) -> bool {
        self.bypass >= 4 && self.bypass.is_multiple_of(4)
    }
}

/// The process of a server that writes a dirty page which stays resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundWriter {
    /// The one that cleans pages before they are evicted.
    Cleaner,
    /// The one that writes all dirty pages at a checkpoint, or at a commit.
    Checkpointer,
}

/// A page that a background process of the server writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundWrite {
    /// The frame of the page.
    pub frame: Frame,
    /// The process that writes it.
    pub writer: BackgroundWriter,
}

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
    /// The target number of clean pages: Mc of FD-Buffer, tau of CASA.
    pub target: Option<f64>,
    /// The policy advisor's latest estimates at the chosen Mc: Pc, Pd and Pdw (FD-Buffer,
    /// equations 5 to 7), each a share between 0 and 1.
    pub estimates: Option<[f64; 3]>,
    /// The policy that chooses victims now, of several that compete: `ebb` or `lru` in the duel of ebb.
    pub leader: Option<&'static str>,
}

/// The future of the page about to be referenced. Positions count references from 0.
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
    /// The number of references to the page after this one up to and including `write`.
    pub references_to_write: u32,
}

impl NextUse {
    /// Stands for a position that does not exist.
    pub const NEVER: u64 = u64::MAX;

    /// Before the first reference.
    pub(crate) const UNKNOWN: NextUse =
        NextUse { position: 0, reference: Self::NEVER, write: Self::NEVER, references_to_write: 0 };
}

/// How much of the future a policy requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Foresight {
    /// Nothing.
    #[default]
    Nothing,
    /// The next reference to each page.
    References,
    /// Also the next write.
    Writes,
    /// Also the price of a frame at each position.
    Prices,
}

/// A replacement policy over a fixed number of frames.
///
/// The driver owns the page table, does the I/O and calls, for each reference, exactly one of
///
/// * `hit(frame)` when the page is resident, or
/// * `miss(page)`, then, if no frame is free or the policy `evicts_early`, `victim`, `cleaned_with` and `cleaned` for each frame
///   written with it, `evicted_with` and `evicted` for each frame that is evicted, then
///   `admit(frame, page)`; `not_admitted` instead if every frame is pinned.
///
/// Between references it may call `cleaned(frame)` for a dirty page that was written back and
/// stays, and `costs` when the device's costs have changed. A policy does no I/O, reads no
/// clock, and never hashes a resident page.
pub trait Policy: Send {
    /// False if the policy ignores page numbers, so that a driver need not load them before a miss.
    const LOOKS_AT_PAGES: bool = true;

    /// What the policy asks and does beyond the methods without a default, with any parameters; a wrapper says here what it does
    /// itself. A driver calls no method whose capability is not among them.
    const CAPABILITIES: Capabilities;

    /// What the policy, and those that it wraps, ask and do with the parameters that they have. A driver asks once.
    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    /// Allocates all that the policy may ever need and has not allocated in `new`. True if it allocates nothing from then on,
    /// whatever happens, for a driver that plays no server ([`Capabilities::SERVER`]); false if that cannot be known before. A
    /// driver without a bound for memory does not call it.
    fn reserve(&mut self) -> bool {
        true
    }

    /// Every ghost that the policy will return is below this number. A driver that lets its table grow need not ask.
    fn most_ghosts(&self) -> u32 {
        0
    }

    /// The page in `frame`, which is resident, if the policy stores it: then a driver need not.
    fn page(&self, _frame: Frame) -> Option<Page> {
        None
    }

    /// The page that the policy last remembered by `ghost`, which is below [`most_ghosts`](Self::most_ghosts), if it stores the
    /// pages of its ghosts for a driver: then a driver need not, which learns of each ghost when the policy returns it. Any page
    /// for a ghost that has not been used.
    fn ghost_page(&self, _ghost: Ghost) -> Option<Page> {
        None
    }

    /// The page in `frame` was fixed.
    fn hit(&mut self, frame: Frame, access: Access);

    /// The page in `frame` was written and not referenced: under a pin that the driver has reported already. It is dirty from
    /// then on. False if the policy does not distinguish this and has noted nothing; then the driver calls `hit`.
    fn wrote(&mut self, _frame: Frame) -> bool {
        false
    }

    /// The driver left out `hits` hits since the last call ([`Capabilities::LEAVES_HITS_OUT`]).
    fn omitted_hits(&mut self, _hits: u64) {}

    /// A page that is not resident is referenced. Called once per such reference, first. `ghost` is
    /// what `remember` or `not_admitted` last returned for this page.
    fn miss(&mut self, _page: Page, _ghost: Option<Ghost>, _access: Access) {}

    /// The page in `frame` will probably be fixed soon: loads what `hit` reads into the processor's
    /// cache (BP-Wrapper, Ding et al. 2009).
    fn prefetch(&self, _frame: Frame) {}

    /// The page remembered as `ghost` will probably be missed soon.
    fn prefetch_ghost(&self, _ghost: Ghost) {}

    /// True if the page missed last replaces another although a frame is empty
    /// ([`Capabilities::EVICTS_EARLY`]). A driver may ask after `miss`, and then calls `victim`, or may fill the empty frame.
    fn evicts_early(&mut self) -> bool {
        false
    }

    /// Chooses the frame to evict. `incoming` is the missing page, or `None` when the background
    /// writer asks which pages are evicted next: then nothing is evicted, it asks again soon, and
    /// the answer leaves the policy as it is: it uses up no second chance (a reference bit, a place
    /// of the hand, a random draw), and asking any number of times does not change what later misses
    /// evict. A test names the policies that cannot keep this. `may_evict` is false for pinned
    /// frames. Returns `None` only when every occupied frame is pinned, or when the driver has learnt
    /// that the policy [`evicts_early`](Self::evicts_early), and the page that it would evict is
    /// pinned.
    /// The policy keeps the frame until `evicted` is called; the driver
    /// may evict another frame in its place.
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame>
    where
        Self: Sized;

    /// Stores the frames that the policy would evict next, the first one first, as far as `coming` has room and `may_evict`
    /// allows, and returns their number; `None` if the policy does not say. It is a guess where the policy will learn more
    /// until then, and changes nothing: a cleaner asks for it, to write what is dirty in advance.
    fn coming_victims(&self, _may_evict: &dyn Fn(Frame) -> bool, _coming: &mut [Frame]) -> Option<usize> {
        None
    }

    /// Appends to `evictions` the frames, clean or dirty, that are evicted together with `victim`,
    /// in order ([`Capabilities::EVICTS_MORE`]). The driver skips the pinned ones.
    fn evicted_with(&self, _victim: Frame, _leaving: &mut Vec<Frame>) {}

    /// The number of pages of an erase block, if the driver has to write `victim`'s block whole as
    /// soon as it writes any page of it in this eviction: the driver first reads the pages of the
    /// block that are missing (page padding, BPLRU; [`Capabilities::PADDING`]). It also writes pinned pages of the block,
    /// which stay resident, and calls `cleaned` for them.
    fn padded_block(&self, _victim: Frame) -> Option<NonZeroU64> {
        None
    }

    /// `page` was read into `frame`, which was empty. Without a `miss` of the page before it if the driver takes an eviction
    /// back, since the page could not be written: it is dirty in its frame again.
    fn admit(&mut self, frame: Frame, page: Page, access: Access);

    /// The page missed last cannot be admitted, because every frame is pinned. Returns the ghost
    /// under which the policy remembers it.
    fn not_admitted(&mut self) -> Option<Ghost> {
        None
    }

    /// The page in `frame` is about to be evicted; `evicted` is called next. Returns the ghost
    /// under which the policy remembers it.
    fn remember(&mut self, _frame: Frame) -> Option<Ghost> {
        None
    }

    /// The page was evicted from `frame`; the driver has written it if it was dirty. Without `remember` before it the page
    /// no longer exists.
    fn evicted(&mut self, frame: Frame);

    /// The dirty page in `frame` was written back and stays resident.
    fn cleaned(&mut self, frame: Frame);

    /// Appends to `together` at most `max` dirty frames that are best written together with
    /// `victim`, which `victim` returned last. Once written, they are clean and stay resident: the
    /// driver calls `cleaned` for each. It writes the victim with them, if it is dirty, and evicts
    /// it. [`Capabilities::WRITES_TOGETHER`].
    fn cleaned_with(&self, _victim: Frame, _max: usize, _together: &mut Vec<Frame>) {}

    /// The current costs of one page read and one page write ([`Capabilities::COSTS`]).
    fn costs(&mut self, _costs: Costs) {}

    /// The erase block that holds the page in `frame` was erased `erases` times so far; 0 if no
    /// block holds it ([`Capabilities::ERASE_COUNTS`]). The driver reports it after `admit`, and
    /// before the next `victim` when the device has moved the page.
    fn erase_count(&mut self, _frame: Frame, _erases: u32) {}

    /// The class of the page about to be missed ([`Capabilities::CLASSES`]); called before `miss`, and only where the driver
    /// knows classes. Without a call the class is [`UNKNOWN_CLASS`]. A page has the same class at each miss, unless its owner gave the page
    /// number to another object.
    fn class(&mut self, _class: PageClass) {}

    /// What the trace recorded of the next reference ([`Capabilities::REQUESTS`]); called before `background_writes`, `hit` and `miss`, and only
    /// where the driver knows it. Without calls there are no rings, and no time passes.
    fn request(&mut self, _request: RecordedRequest) {}

    /// Appends the dirty pages that background processes of the server write before the next reference, in order. They
    /// stay resident; the driver writes them and calls `cleaned` for each.
    ///
    /// The simulator calls it before each reference ([`Capabilities::BACKGROUND_WRITES`]). The pool has a background writer and checkpoints of its
    /// own, and does not call it.
    fn background_writes(&mut self, _writes: &mut Vec<BackgroundWrite>) {}

    /// Offline policies only: the future of the page about to be referenced, as far as the policy requires
    /// ([`Capabilities::foresight`]). Called before `hit` and `miss`.
    fn next_use(&mut self, _next: NextUse) {}

    /// Policies with [`Capabilities::PRICES`] only: `prices[u]` is the price of a frame from the
    /// beginning to position u, in page reads; it never decreases with u. Called once, before
    /// everything else.
    fn prices(&mut self, _prices: Arc<[f64]>) {}

    /// Policies with [`Capabilities::PROBABILITIES`] only: the true probabilities of the references to each page, which are independent of each other. Called once, before
    /// everything else.
    fn probabilities(&mut self, _probabilities: Arc<PageProbabilities>) {}

    /// Readings for plots over time.
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }

    /// The page in `from` is in `to` now, which was empty, and the policy holds it as before ([`Capabilities::RESIZES`]).
    fn moved(&mut self, _from: Frame, _to: Frame) {}

    /// From now on there are frames 0 to `frames` - 1, at least one ([`Capabilities::RESIZES`]). The others hold no page.
    fn resize(&mut self, _frames: u32) {}
}

/// Makes, from the signatures of [`Policy`]'s methods, the trait [`DynPolicy`] with its
/// implementation, and the macro `forward`. `victim` is apart, because its closure has another type
/// in the two traits.
///
/// The first argument is a dollar sign, for the macro's own variables.
macro_rules! dispatch {
    ($dollar:tt $self:ident $(
        fn $method:ident(&$($mutable:ident)?; $($argument:ident: $type:ty),*) $(-> $result:ty)?;
    )+) => {
        /// [`Policy`] behind dynamic dispatch, for drivers that choose one at run time.
        pub trait DynPolicy {
            /// Calls [`Policy::victim`], which chooses the frame to evict.
            fn victim(
                &mut self,
                incoming: Option<(Page, Access)>,
                may_evict: &dyn Fn(Frame) -> bool,
            ) -> Option<Frame>;
            $(
                #[doc = concat!("Calls [`Policy::", stringify!($method), "`] of the policy.")]
                fn $method(&$($mutable)? $self, $($argument: $type),*) $(-> $result)?;
            )+
        }

        impl<P: Policy> DynPolicy for P {
            fn victim(
                &mut self,
                incoming: Option<(Page, Access)>,
                may_evict: &dyn Fn(Frame) -> bool,
            ) -> Option<Frame> {
                Policy::victim(self, incoming, may_evict)
            }
            $(
                fn $method(&$($mutable)? $self, $($argument: $type),*) $(-> $result)? {
                    Policy::$method($self, $($argument),*)
                }
            )+
        }

        /// Implements methods of [`Policy`] for a wrapper by calls to the policy in a field of it:
        /// `forward!(self.policy: omitted_hits, miss);`.
        macro_rules! forward {
            ($dollar this:ident.$dollar policy:ident:
                $dollar($dollar method:ident),+ $dollar(,)?) => {
                $dollar($crate::policy::forward! {
                    @$dollar method $dollar this $dollar policy
                })+
            };
            $((@$method $dollar this:ident $dollar policy:ident) => {
                #[inline]
                fn $method(&$($mutable)? $dollar this, $($argument: $type),*) $(-> $result)? {
                    $dollar this.$dollar policy.$method($($argument),*)
                }
            };)+
        }
        pub(crate) use forward;
    };
}

dispatch! { $ self
    fn capabilities(&;) -> Capabilities;
    fn reserve(&mut;) -> bool;
    fn most_ghosts(&;) -> u32;
    fn page(&; frame: Frame) -> Option<Page>;
    fn ghost_page(&; ghost: Ghost) -> Option<Page>;
    fn hit(&mut; frame: Frame, access: Access);
    fn wrote(&mut; frame: Frame) -> bool;
    fn coming_victims(&; may_evict: &dyn Fn(Frame) -> bool, coming: &mut [Frame]) -> Option<usize>;
    fn omitted_hits(&mut; hits: u64);
    fn miss(&mut; page: Page, ghost: Option<Ghost>, access: Access);
    fn prefetch(&; frame: Frame);
    fn prefetch_ghost(&; ghost: Ghost);
    fn evicted_with(&; victim: Frame, evictions: &mut Vec<Frame>);
    fn padded_block(&; victim: Frame) -> Option<NonZeroU64>;
    fn evicts_early(&mut;) -> bool;
    fn admit(&mut; frame: Frame, page: Page, access: Access);
    fn not_admitted(&mut;) -> Option<Ghost>;
    fn remember(&mut; frame: Frame) -> Option<Ghost>;
    fn evicted(&mut; frame: Frame);
    fn cleaned(&mut; frame: Frame);
    fn cleaned_with(&; victim: Frame, max: usize, together: &mut Vec<Frame>);
    fn costs(&mut; costs: Costs);
    fn erase_count(&mut; frame: Frame, erases: u32);
    fn class(&mut; class: PageClass);
    fn request(&mut; request: RecordedRequest);
    fn background_writes(&mut; writes: &mut Vec<BackgroundWrite>);
    fn next_use(&mut; next: NextUse);
    fn prices(&mut; prices: Arc<[f64]>);
    fn probabilities(&mut; probabilities: Arc<PageProbabilities>);
    fn gauges(&;) -> Gauges;
    fn moved(&mut; from: Frame, to: Frame);
    fn resize(&mut; frames: u32);
}

/// A policy behind dynamic dispatch as a [`Policy`], for drivers whose own work costs more than the calls: they are compiled once
/// and not for each policy.
pub struct Dispatched {
    policy: Box<dyn DynPolicy + Send>,
    capabilities: Capabilities,
}

impl Dispatched {
    /// Calls the methods of `policy`.
    pub fn new(policy: Box<dyn DynPolicy + Send>) -> Self {
        Dispatched { capabilities: policy.capabilities(), policy }
    }
}

impl Policy for Dispatched {
    const CAPABILITIES: Capabilities = Capabilities::empty();

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    forward! {
        self.policy:
        reserve, most_ghosts, page, ghost_page, hit, wrote, coming_victims, omitted_hits, miss, prefetch, prefetch_ghost,
        evicted_with, padded_block, evicts_early, admit, not_admitted, remember, evicted, cleaned, cleaned_with, costs,
        erase_count, class, request, background_writes, next_use, prices, probabilities, gauges, moved, resize
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.policy.victim(incoming, &may_evict)
    }
}
