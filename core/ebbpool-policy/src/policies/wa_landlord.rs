//! Writeback-Aware Landlord.

use std::hint::black_box;

use crate::lists::FrameLists;
use crate::policy::{Access, Capabilities, Costs, Frame, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry};

/// The list of pages with credit for a read; the other list has those with credit for a read and a
/// write. Each is in order of grant.
const READ: usize = 0;
const WRITE: usize = 1;

/// Every page has credit equal to the cost of losing it. The page with the least credit is evicted,
/// and the credit of all others is drained by what it had left.
///
/// The amount drained from all pages is stored as one number. A grant is the same for all pages of
/// a list, so each list is in order of credit and only the two LRU ends are compared. A
/// reconstruction from the paper's abstract and Landlord itself: how far a hit renews credit, how
/// much of it a write-back takes, and whether changed costs revalue it are decided here.
pub struct WaLandlord {
    lists: FrameLists<2>,
    has_write_credit: Vec<bool>,
    /// `drained` when the page was granted its credit.
    drained_at_grant: Vec<f64>,
    /// The amount drained from all pages so far, in page reads.
    drained: f64,
    /// R, the write cost in units of the read cost.
    asymmetry: f64,
}

impl RegisteredPolicy for WaLandlord {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "wa-landlord",
        aliases: &[],
        params: &[],
        summary: "Landlord with write-backs: every page lives on credit, a written page on more, and the page with the least credit is evicted.",
        how: "A page that is read gets credit of one page read, a page that is written credit of one read and one write, unless it has more left. The page with the least credit is evicted, and all others lose as much as it had left. Among equals a page without credit for a write is evicted first, then the oldest grant. A page written back while it stays has credit for a read, as if just read. When costs change, the credit for writes follows the new cost. A reconstruction: the paper's theorems allow any renewal by a hit up to the full cost; here a read never renews the credit for a write.",
        when: "Use it where writes cost much more than reads; where they do not, it loses little. The paper proves for its algorithm the best competitive ratio that a deterministic online policy can have. It does not learn: a page written often has no more credit than one written once.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(17),
        source: "Beckmann, Gibbons, Haeupler and McGuffey, APOCS 2020; reconstructed from the abstract",
    };

    fn new(_config: (), frames: u32) -> Self {
        WaLandlord {
            lists: FrameLists::new(frames),
            has_write_credit: vec![false; frames as usize],
            drained_at_grant: vec![0.0; frames as usize],
            drained: 0.0,
            asymmetry: Costs::default().asymmetry(),
        }
    }
}

impl WaLandlord {
    #[inline]
    fn list_of(&self, frame: Frame) -> usize {
        usize::from(self.has_write_credit[frame as usize])
    }

    /// The value of `drained` at which the page's credit is used up.
    #[inline]
    fn used_up_at(&self, frame: Frame) -> f64 {
        let granted = match self.list_of(frame) {
            READ => 1.0,
            _ => 1.0 + self.asymmetry,
        };
        self.drained_at_grant[frame as usize] + granted
    }

    #[inline]
    fn grant(&mut self, frame: Frame, list: usize) {
        self.has_write_credit[frame as usize] = list == WRITE;
        self.drained_at_grant[frame as usize] = self.drained;
        self.lists.push_mru(list, frame);
    }

    #[inline]
    fn renew(&mut self, frame: Frame, list: usize) {
        self.lists.remove(self.list_of(frame), frame);
        self.grant(frame, list);
    }
}

impl Policy for WaLandlord {
    const CAPABILITIES: Capabilities = Capabilities::COSTS;

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        if access.is_write() {
            self.renew(frame, WRITE);
        } else if self.list_of(frame) == READ || self.used_up_at(frame) < self.drained + 1.0 {
            self.renew(frame, READ);
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        black_box((self.has_write_credit[frame as usize], self.drained_at_grant[frame as usize]));
        self.lists.prefetch(frame);
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let poorest = |list| self.lists.find_from_lru(list, &may_evict);
        match (poorest(READ), poorest(WRITE)) {
            (Some(read), Some(write)) if self.used_up_at(write) < self.used_up_at(read) => Some(write),
            (read, write) => read.or(write),
        }
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.grant(frame, usize::from(access.is_write()));
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.lists.remove(self.list_of(frame), frame);
        self.drained = self.drained.max(self.used_up_at(frame));
    }

    fn cleaned(&mut self, frame: Frame) {
        if self.list_of(frame) == WRITE {
            self.renew(frame, READ);
        }
    }

    fn costs(&mut self, costs: Costs) {
        self.asymmetry = costs.asymmetry();
    }
}
