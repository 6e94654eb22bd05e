//! Cost-aware self-adaptive.

use crate::clusters::KEYS;
use crate::lists::FrameLists;
use crate::policy::{Access, Capabilities, Costs, Frame, Gauges, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{CLUSTER, MemoryUse, PolicyEntry};

const CLEAN: usize = 0;
const DIRTY: usize = 1;

/// A clean and a dirty LRU list; each hit shifts the clean list's target size tau by the cost that
/// it saved.
pub struct Casa {
    lists: FrameLists<2>,
    dirty: Vec<bool>,
    frames: f64,
    /// Target size of the clean list, in pages, not rounded.
    tau: f64,
    /// Costs of a read and a write, normalised to a sum of 1.
    read_cost: f64,
    write_cost: f64,
}

impl RegisteredPolicy for Casa {
    type Config = ();

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "casa",
        aliases: &[],
        params: &[CLUSTER, KEYS],
        summary: "A clean and a dirty LRU list whose target sizes each hit shifts by the cost that it saved.",
        how: "A clean and a dirty LRU list and a real number tau, the target size of the clean list, half of the frames at first. A read hit in the clean list raises tau by the cost share of a read times the dirty list's size over the clean one's; a write hit in the dirty list lowers it likewise by the cost share of a write. A page written moves to the dirty list. The victim is from the clean list if that is larger than tau, else from the dirty one.",
        when: "Use it where R is large and the workload shifts: it follows the costs that the driver reports and has nothing to tune (Ou and Haerder). At a small R it loses a little against lru. FD-Buffer TC finds it behind FD-Buffer on its four traces (figures 2 and 3).",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(9),
        source: "Ou and Haerder 2010; FD-Buffer TC, section 5",
    };
    const WRITE_CLUSTERING: bool = true;

    fn new(_config: (), frames: u32) -> Self {
        let mut casa = Casa {
            lists: FrameLists::new(frames),
            dirty: vec![false; frames as usize],
            frames: f64::from(frames),
            tau: f64::from(frames) / 2.0,
            read_cost: 0.0,
            write_cost: 0.0,
        };
        casa.costs(Costs::default());
        casa
    }
}

impl Casa {
    #[inline]
    fn list_of(&self, frame: Frame) -> usize {
        usize::from(self.dirty[frame as usize])
    }
}

impl Policy for Casa {
    const CAPABILITIES: Capabilities = Capabilities::COSTS;

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        let clean = f64::from(self.lists.len(CLEAN));
        let dirty = f64::from(self.lists.len(DIRTY));
        match (self.dirty[frame as usize], access) {
            (false, Access::Read) => {
                self.tau = (self.tau + self.read_cost * dirty / clean).min(self.frames);
                self.lists.move_to_mru(CLEAN, frame);
            }
            (true, Access::Read) => self.lists.move_to_mru(DIRTY, frame),
            (true, Access::Write) => {
                self.tau = (self.tau - self.write_cost * clean / dirty).max(0.0);
                self.lists.move_to_mru(DIRTY, frame);
            }
            (false, Access::Write) => {
                self.lists.remove(CLEAN, frame);
                self.lists.push_mru(DIRTY, frame);
                self.dirty[frame as usize] = true;
            }
        }
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let (first, second) = if f64::from(self.lists.len(CLEAN)) > self.tau { (CLEAN, DIRTY) } else { (DIRTY, CLEAN) };
        self.lists.find_from_lru(first, &may_evict).or_else(|| self.lists.find_from_lru(second, may_evict))
    }

    #[inline]
    fn admit(&mut self, frame: Frame, _page: Page, access: Access) {
        self.dirty[frame as usize] = access.is_write();
        self.lists.push_mru(self.list_of(frame), frame);
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        self.lists.remove(self.list_of(frame), frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        self.lists.remove(DIRTY, frame);
        self.dirty[frame as usize] = false;
        self.lists.push_mru(CLEAN, frame);
    }

    fn costs(&mut self, costs: Costs) {
        let asymmetry = costs.asymmetry();
        self.read_cost = 1.0 / (1.0 + asymmetry);
        self.write_cost = asymmetry / (1.0 + asymmetry);
    }

    fn gauges(&self) -> Gauges {
        Gauges { target: Some(self.tau), ..Gauges::default() }
    }
}
