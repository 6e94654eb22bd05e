//! The order in which every driver (the simulator, the pool, the miniatures of `auto`) serves a miss: which of a
//! policy's methods it calls, and when. Drivers differ in what they do with a frame, not in the order.

use std::mem;

use crate::policy::{Access, Capabilities, DynPolicy, Frame, Ghost, Page};

/// The frames that a policy names beside a victim. A driver owns one, so that no miss allocates.
///
/// It is one pointer, since it is moved twice in each miss.
#[derive(Debug, Default)]
pub struct MissScratch(Option<Box<CompanionLists>>);

#[derive(Debug, Default)]
struct CompanionLists {
    /// Dirty frames that are written in one go with the victim and stay.
    together: Vec<Frame>,
    /// Frames that are evicted with the victim.
    evicted: Vec<Frame>,
}

impl MissScratch {
    /// Room for the companions of victims of a buffer of `frames` frames.
    pub fn with_capacity(frames: usize) -> Self {
        MissScratch(Some(Box::new(CompanionLists {
            together: Vec::with_capacity(frames),
            evicted: Vec::with_capacity(frames),
        })))
    }
}

/// A buffer that is driven by a policy: what it does with each frame that the policy names.
pub trait Driver {
    /// The policy that decides.
    type Policy: DynPolicy + ?Sized;

    /// The policy that decides.
    fn policy(&mut self) -> &mut Self::Policy;

    /// The driver's lists, which are empty between two misses.
    fn companions(&mut self) -> &mut MissScratch;

    /// A frame that holds no page, if there is one.
    fn empty_frame(&mut self) -> Option<Frame>;

    /// Asks the policy for a victim and claims it; `None` if every page is pinned.
    fn claim_victim(&mut self, incoming: (Page, Access)) -> Option<Frame>;

    /// The most pages that are written in one go with a victim.
    fn most_together(&self) -> usize;

    /// Writes the victim and the frames `together`, as far as they are dirty, and calls `cleaned` for each of
    /// `together`. Called where `together` is not empty.
    fn write_together(&mut self, victim: Frame, together: &[Frame]);

    /// Claims a frame that is evicted with the victim; false if its page is pinned and stays.
    fn claim(&mut self, _frame: Frame) -> bool {
        true
    }

    /// Writes the victim's whole block of `block` pages, if any of the frames that are evicted is dirty, and reads
    /// the pages of it that are missing first.
    fn write_block(&mut self, block: u64, victim: Frame, others: &[Frame]);

    /// Evicts a claimed frame: calls `remember`, writes the page if it is still dirty, and calls `evicted`.
    fn evict(&mut self, frame: Frame);

    /// The frame was evicted with a victim, and is empty.
    fn free(&mut self, frame: Frame);

    /// Makes `page` resident in `frame`, which is empty, and calls `admit`.
    fn admit(&mut self, frame: Frame, page: Page, access: Access);

    /// No page can be evicted for `page`: the policy remembers it as `ghost`.
    fn refuse(&mut self, page: Page, ghost: Option<Ghost>);
}

/// Serves a miss of `page`, which `ghost` remembers. Returns the frame that the page is admitted to, or `None`
/// if every page is pinned.
#[inline]
pub fn miss<D: Driver>(driver: &mut D, page: Page, ghost: Option<Ghost>, access: Access) -> Option<Frame> {
    let policy = driver.policy();
    policy.miss(page, ghost, access);
    let does = policy.capabilities();
    let incoming = (page, access);
    let frame = if does.contains(Capabilities::EVICTS_EARLY) && policy.evicts_early() {
        replace(driver, does, incoming).or_else(|| driver.empty_frame())
    } else {
        match driver.empty_frame() {
            Some(frame) => Some(frame),
            None => replace(driver, does, incoming),
        }
    };
    match frame {
        Some(frame) => driver.admit(frame, page, access),
        None => {
            let ghost = driver.policy().not_admitted();
            driver.refuse(page, ghost);
        }
    }
    frame
}

/// Evicts the policy's victim, and what the policy evicts with it.
#[inline]
fn replace<D: Driver>(driver: &mut D, does: Capabilities, incoming: (Page, Access)) -> Option<Frame> {
    const MORE_THAN_THE_VICTIM: Capabilities =
        Capabilities::WRITES_TOGETHER.union(Capabilities::EVICTS_MORE).union(Capabilities::PADDING);
    let victim = driver.claim_victim(incoming)?;
    if !does.intersects(MORE_THAN_THE_VICTIM) {
        driver.evict(victim);
        return Some(victim);
    }
    let mut lists = mem::take(driver.companions()).0.unwrap_or_default();
    let most = driver.most_together();
    let CompanionLists { together, evicted } = &mut *lists;
    if does.contains(Capabilities::WRITES_TOGETHER) {
        driver.policy().cleaned_with(victim, most, together);
    }
    if !together.is_empty() {
        driver.write_together(victim, together);
    }
    if does.contains(Capabilities::EVICTS_MORE) {
        driver.policy().evicted_with(victim, evicted);
    }
    evicted.retain(|&frame| frame != victim && driver.claim(frame));
    if does.contains(Capabilities::PADDING)
        && let Some(block) = driver.policy().padded_block(victim)
    {
        driver.write_block(block.get(), victim, evicted);
    }
    driver.evict(victim);
    for &frame in &*evicted {
        driver.evict(frame);
        driver.free(frame);
    }
    together.clear();
    evicted.clear();
    *driver.companions() = MissScratch(Some(lists));
    Some(victim)
}
