//! What a policy declares beyond the core of its trait.

use bitflags::bitflags;

use crate::policy::Foresight;

bitflags! {
    /// What a policy asks of its driver, and does, beyond the core of [`Policy`](crate::policy::Policy): of the methods that belong to a
    /// capability, a driver calls those whose capability is declared. It asks once, when it gets the policy, and refuses a
    /// policy that asks for what it cannot give.
    ///
    /// ```
    /// use ebbpool_policy::{Capabilities, PolicySpec, registry};
    /// let lru = registry::boxed(&"lru".parse::<PolicySpec>()?, 100).capabilities();
    /// let ebb = registry::boxed(&"ebb".parse::<PolicySpec>()?, 100).capabilities();
    /// assert!(ebb.contains(Capabilities::COSTS) && !lru.contains(Capabilities::COSTS));
    /// # Ok::<(), ebbpool_policy::SpecError>(())
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Capabilities: u32 {
        /// The policy need not learn of every hit. A driver may leave hits out, if it divides time into epochs of at most
        /// one miss for every 32 frames: it reports the first hit of each page in an epoch, the first that writes, and
        /// each that writes to a clean page. With `omitted_hits` it reports the number of the others.
        const LEAVES_HITS_OUT = 1 << 0;
        /// The policy may replace a page although a frame is empty: `evicts_early`.
        const EVICTS_EARLY = 1 << 1;
        /// The policy may have other pages evicted with the victim: `evicted_with`.
        const EVICTS_MORE = 1 << 2;
        /// The policy may have the victim's erase block written whole: `padded_block`.
        const PADDING = 1 << 3;
        /// The policy may have other dirty pages written with the victim: `cleaned_with`.
        const WRITES_TOGETHER = 1 << 4;
        /// The costs of a read and a write change the policy's choices: `costs`.
        const COSTS = 1 << 5;
        /// The driver must report erase counts: `erase_count`. Drivers whose device has none refuse the policy.
        const ERASE_COUNTS = 1 << 6;
        /// The driver should report classes, if it knows them: `class`.
        const CLASSES = 1 << 7;
        /// The driver should report what the trace recorded of each request, if it knows it: `request`.
        const REQUESTS = 1 << 8;
        /// The policy is that of a server with processes that write pages: `background_writes`. A driver that does not call
        /// it counts fewer writes than the simulator.
        const BACKGROUND_WRITES = 1 << 9;
        /// `background_writes` may append pages even where the driver reports no requests.
        const WRITES_UNTIMED = 1 << 10;
        /// Checkpoints are among the policy's background writes, so that a driver which makes some for every policy makes
        /// none for this one.
        const CHECKPOINTS = 1 << 11;
        /// The driver must report the next reference to each page: `next_use`.
        const NEXT_USES = 1 << 12;
        /// The driver must also report the next write.
        const NEXT_WRITES = 1 << 13;
        /// The driver must report the price of a frame at each position: `prices`.
        const PRICES = 1 << 14;
        /// The driver must report the true probabilities of references: `probabilities`.
        const PROBABILITIES = 1 << 15;
        /// The number of frames may change: `resize` and `moved`.
        const RESIZES = 1 << 16;
    }
}

impl Capabilities {
    /// What no program knows in advance.
    pub const OFFLINE: Capabilities =
        Capabilities::NEXT_USES.union(Capabilities::NEXT_WRITES).union(Capabilities::PRICES).union(Capabilities::PROBABILITIES);

    /// What only a driver that plays a server can serve.
    pub const SERVER: Capabilities = Capabilities::REQUESTS
        .union(Capabilities::BACKGROUND_WRITES)
        .union(Capabilities::WRITES_UNTIMED)
        .union(Capabilities::CHECKPOINTS);

    /// What a wrapper of one policy serves that calls the wrapped policy's methods of the same names.
    pub(crate) const FORWARDED: Capabilities = Capabilities::LEAVES_HITS_OUT
        .union(Capabilities::EVICTS_MORE)
        .union(Capabilities::PADDING)
        .union(Capabilities::WRITES_TOGETHER)
        .union(Capabilities::COSTS)
        .union(Capabilities::ERASE_COUNTS)
        .union(Capabilities::CLASSES)
        .union(Capabilities::OFFLINE);

    /// What a policy with these asks and does where another one wraps it: its frames are those of the wrapper, which stay.
    pub(crate) fn wrapped(self) -> Self {
        self.difference(Capabilities::RESIZES)
    }

    /// How much of the future is required.
    pub fn foresight(self) -> Foresight {
        let levels = [
            (Capabilities::PRICES, Foresight::Prices),
            (Capabilities::NEXT_WRITES, Foresight::Writes),
            (Capabilities::NEXT_USES, Foresight::References),
        ];
        let required = levels.iter().find(|(asks, _)| self.contains(*asks));
        required.map_or(Foresight::Nothing, |&(_, level)| level)
    }
}
