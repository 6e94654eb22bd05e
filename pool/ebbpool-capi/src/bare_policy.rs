//! A policy without a pool: the checks that make every order of calls harmless, and the policy's table of ghosts.

use ebbpool_policy::{
    Access, Capabilities, Costs, DynPolicy, Frame, Ghost, GhostPages, Page, PageClass, PolicySpec, UNKNOWN_CLASS, registry,
};
use fixedbitset::FixedBitSet;

use crate::error::{CallFault, Failure};

/// The most frames of a policy, as of a pool.
const MOST_FRAMES: u32 = 1 << 30;

/// The page for which victims are chosen in advance: it is not known yet.
const UNKNOWN_PAGE: (Page, Access) = (Page::MAX, Access::Read);

/// A policy, and what it has been notified of.
pub(crate) struct BarePolicy {
    /// The policy's name with its parameters.
    pub(crate) name: Box<str>,
    policy: Box<dyn DynPolicy + Send>,
    /// By frame, the number of its page, unless the policy stores it or has no ghosts.
    pages: Option<Box<[Page]>>,
    /// The frames that have a page, and those of them with a dirty one.
    occupied: FixedBitSet,
    dirty: FixedBitSet,
    /// The frames that the call that is running has named.
    named: FixedBitSet,
    /// The number of frames that have a page.
    resident: usize,
    ghosts: GhostPages,
    missed: Option<MissedPage>,
    /// Buffers of the lists that [`Victim`] borrows.
    together: Vec<Frame>,
    also_evicted: Vec<Frame>,
    capabilities: Capabilities,
    ranks_victims: bool,
}

/// The page that was missed last, until it is admitted or refused.
#[derive(Clone, Copy)]
struct MissedPage {
    number: u64,
    access: Access,
}

/// A victim, and what the policy names with it.
pub(crate) struct Victim<'p> {
    pub(crate) frame: Frame,
    /// Dirty frames that are best written together with it and stay.
    pub(crate) together: &'p [Frame],
    /// Frames that are evicted, too.
    pub(crate) also_evicted: &'p [Frame],
    /// Pages of the block that is written whole; 0 for none.
    pub(crate) block_pages: u64,
}

/// The specification of a policy for a program, with that number of frames.
pub(crate) fn check_request(spec: &str, frames: u32) -> Result<PolicySpec, Failure> {
    let spec: PolicySpec = spec.parse()?;
    if !spec.online() {
        return Err(Failure::invalid(format!("{spec} needs to know future references, and a program does not know them")));
    }
    if spec.asks_erase_counts() {
        return Err(Failure::invalid(format!(
            "{spec} asks how often blocks were erased, which only a simulated flash device reports"
        )));
    }
    if frames == 0 || frames > MOST_FRAMES {
        return Err(Failure::invalid(format!("a policy has 1 to {MOST_FRAMES} frames, not {frames}")));
    }
    Ok(spec)
}

impl BarePolicy {
    /// The policy of a specification that [`check_request`] has returned, for that number of frames.
    pub(crate) fn new(spec: &PolicySpec, frames: u32) -> Self {
        let policy = registry::boxed(spec, frames);
        let capabilities = policy.capabilities();
        let room = |does: Capabilities| match capabilities.intersects(does) {
            true => Vec::with_capacity(frames as usize),
            false => Vec::new(),
        };
        let set = || FixedBitSet::with_capacity(frames as usize);
        BarePolicy {
            name: spec.to_string().into(),
            pages: match policy.page(0).is_none() && policy.most_ghosts() > 0 {
                true => Some(vec![0; frames as usize].into()),
                false => None,
            },
            occupied: set(),
            dirty: set(),
            named: set(),
            resident: 0,
            ghosts: GhostPages::with_capacity(&*policy, policy.most_ghosts()),
            missed: None,
            together: room(Capabilities::WRITES_TOGETHER),
            also_evicted: room(Capabilities::EVICTS_MORE),
            ranks_victims: policy.coming_victims(&|_| true, &mut []).is_some(),
            capabilities,
            policy,
        }
    }

    /// Refuses parameters that ask for what only the simulator does.
    pub(crate) fn check_parameters(&self) -> Result<(), Failure> {
        if !self.capabilities.contains(Capabilities::CHECKPOINTS) {
            return Ok(());
        }
        let name = self.name.split(':').next().unwrap_or_default();
        Err(Failure::invalid(format!(
            "{} makes checkpoints or commits, and a program makes its own; leave these parameters of {name} out",
            self.name
        )))
    }

    /// Allocates all that it may ever need; false if it may allocate even so.
    pub(crate) fn reserve(&mut self) -> bool {
        self.policy.reserve()
    }

    /// What the policy asks and does.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// True if [`Self::dirty_ranking`] is possible.
    pub(crate) fn ranks_victims(&self) -> bool {
        self.ranks_victims
    }

    /// The number of frames.
    pub(crate) fn frames(&self) -> usize {
        self.occupied.len()
    }

    fn check_no_miss(&self) -> Result<(), Failure> {
        match self.missed {
            None => Ok(()),
            Some(MissedPage { number, .. }) => Err(CallFault::Missed(number).into()),
        }
    }

    fn is_full(&self) -> bool {
        self.resident == self.frames()
    }

    fn check_frame(&self, frame: Frame) -> Result<(), Failure> {
        if frame as usize >= self.frames() {
            let last = self.frames() as Frame - 1;
            return Err(CallFault::NoFrame { frame, last }.into());
        }
        Ok(())
    }

    /// Refuses a frame without a page.
    fn check_occupied(&self, frame: Frame) -> Result<(), Failure> {
        self.check_frame(frame)?;
        match self.occupied.contains(frame as usize) {
            true => Ok(()),
            false => Err(CallFault::EmptyFrame(frame).into()),
        }
    }

    /// The policy remembers the page in a frame, which has one, by this ghost, or not at all.
    fn set_ghost(&mut self, frame: Frame, ghost: Option<Ghost>) {
        let page = match &self.pages {
            Some(pages) => Some(pages[frame as usize]),
            None => self.policy.page(frame),
        };
        if let Some(page) = page {
            self.ghosts.set(page, ghost, &*self.policy);
        }
    }

    /// A frame that had a page is empty.
    fn vacate(&mut self, frame: Frame) {
        self.occupied.remove(frame as usize);
        self.dirty.remove(frame as usize);
        self.resident -= 1;
    }

    fn refer(&mut self, frame: Frame, access: Access) {
        if access.is_write() {
            self.dirty.insert(frame as usize);
        }
        self.policy.hit(frame, access);
    }

    pub(crate) fn hit(&mut self, frame: Frame, access: Access) -> Result<(), Failure> {
        self.check_no_miss()?;
        self.check_occupied(frame)?;
        self.refer(frame, access);
        Ok(())
    }

    /// Several hits, of which `access_of` has the access by index; none if one of them is refused.
    pub(crate) fn hits(
        &mut self,
        frames: &[Frame],
        access_of: impl Fn(usize) -> Result<Access, Failure>,
    ) -> Result<(), Failure> {
        self.check_no_miss()?;
        for (at, &frame) in frames.iter().enumerate() {
            self.check_occupied(frame)?;
            access_of(at)?;
        }
        for (at, &frame) in frames.iter().enumerate() {
            self.refer(frame, access_of(at)?);
        }
        Ok(())
    }

    /// The page in a frame was written, and not referenced.
    pub(crate) fn wrote(&mut self, frame: Frame) -> Result<(), Failure> {
        self.check_no_miss()?;
        self.check_occupied(frame)?;
        self.dirty.insert(frame as usize);
        if !self.policy.wrote(frame) {
            self.policy.hit(frame, Access::Write);
        }
        Ok(())
    }

    pub(crate) fn omitted_hits(&mut self, hits: u64) {
        self.policy.omitted_hits(hits);
    }

    /// Notes a miss; returns whether the program has to ask for a victim.
    pub(crate) fn miss(&mut self, number: u64, class: PageClass, access: Access) -> Result<bool, Failure> {
        self.check_no_miss()?;
        if self.capabilities.contains(Capabilities::CLASSES) && class != UNKNOWN_CLASS {
            self.policy.class(class);
        }
        let ghost = self.ghosts.get(number, &*self.policy);
        self.policy.miss(number, ghost, access);
        self.missed = Some(MissedPage { number, access });
        // The policy is asked in any case, as the simulator does.
        let early = self.capabilities.contains(Capabilities::EVICTS_EARLY) && self.policy.evicts_early();
        Ok((early && self.resident > 0) || self.is_full())
    }

    /// The frame to evict for the page that was missed, or, if none was, to be written in advance.
    pub(crate) fn victim(&mut self, most_together: usize, may_evict: &dyn Fn(Frame) -> bool) -> Result<Victim<'_>, Failure> {
        self.check_any_page()?;
        let incoming = self.missed.map(|missed| (missed.number, missed.access));
        let victim = self.policy.victim(incoming, may_evict);
        let frame = victim.ok_or_else(Failure::all_fixed)?;
        let occupied = &self.occupied;
        let is_occupied = |frame: Frame| occupied.contains(frame as usize);
        assert!(is_occupied(frame), "{} names frame {frame}, which is empty", self.name);
        self.together.clear();
        self.also_evicted.clear();
        self.policy.cleaned_with(frame, most_together, &mut self.together);
        self.policy.evicted_with(frame, &mut self.also_evicted);
        self.together.retain(|&it| is_occupied(it));
        self.also_evicted.retain(|&it| it != frame && is_occupied(it) && may_evict(it));
        let block_pages = self.policy.padded_block(frame).map_or(0, |pages| pages.get());
        Ok(Victim { frame, together: &self.together, also_evicted: &self.also_evicted, block_pages })
    }

    fn check_any_page(&self) -> Result<(), Failure> {
        match self.resident {
            0 => Err(Failure::invalid_call(c"no frame has a page")),
            _ => Ok(()),
        }
    }

    /// Stores the next victims, each as if those before it were fixed; returns their number.
    pub(crate) fn victims(&mut self, may_evict: &dyn Fn(Frame) -> bool, victims: &mut [Frame]) -> Result<usize, Failure> {
        if victims.is_empty() {
            return Ok(0);
        }
        self.check_any_page()?;
        let missed = self.missed.map(|missed| (missed.number, missed.access));
        let incoming = missed.unwrap_or(UNKNOWN_PAGE);
        let mut found = 0;
        while found < victims.len() {
            let named = &self.named;
            let may_evict = |frame: Frame| !named.contains(frame as usize) && may_evict(frame);
            let Some(frame) = self.policy.victim(Some(incoming), &may_evict) else {
                break;
            };
            assert!(self.occupied.contains(frame as usize), "{} names frame {frame}, which is empty", self.name);
            self.named.insert(frame as usize);
            victims[found] = frame;
            found += 1;
        }
        for &frame in &victims[..found] {
            self.named.remove(frame as usize);
        }
        match found {
            0 => Err(Failure::all_fixed()),
            _ => Ok(found),
        }
    }

    /// Stores those of the next victims, as many as there is room for, that have dirty pages; returns their number.
    pub(crate) fn dirty_ranking(&self, may_evict: &dyn Fn(Frame) -> bool, ranking: &mut [Frame]) -> Result<usize, Failure> {
        let found = self.policy.coming_victims(may_evict, ranking);
        let found = found.ok_or(Failure::invalid_call(c"this policy does not say which pages it would evict next"))?;
        let mut dirty = 0;
        for at in 0..found {
            let frame = ranking[at];
            if self.dirty.contains(frame as usize) {
                ranking[dirty] = frame;
                dirty += 1;
            }
        }
        Ok(dirty)
    }

    /// The page in a frame was evicted. The policy may remember it.
    pub(crate) fn evicted(&mut self, frame: Frame) -> Result<(), Failure> {
        self.check_occupied(frame)?;
        let ghost = self.policy.remember(frame);
        self.set_ghost(frame, ghost);
        self.policy.evicted(frame);
        self.vacate(frame);
        Ok(())
    }

    /// The page in a frame no longer exists.
    pub(crate) fn dropped(&mut self, frame: Frame) -> Result<(), Failure> {
        self.check_occupied(frame)?;
        self.set_ghost(frame, None);
        self.policy.evicted(frame);
        self.vacate(frame);
        Ok(())
    }

    /// The page in a frame was written. A clean page stays as it is.
    pub(crate) fn cleaned(&mut self, frame: Frame) -> Result<(), Failure> {
        self.check_occupied(frame)?;
        if self.dirty.contains(frame as usize) {
            self.dirty.remove(frame as usize);
            self.policy.cleaned(frame);
        }
        Ok(())
    }

    fn missed(&self) -> Result<MissedPage, Failure> {
        self.missed.ok_or(Failure::invalid_call(c"no page was missed"))
    }

    /// The missed page is in this frame now.
    pub(crate) fn admit(&mut self, frame: Frame) -> Result<(), Failure> {
        let MissedPage { number, access } = self.missed()?;
        self.check_frame(frame)?;
        if self.occupied.contains(frame as usize) {
            return Err(CallFault::OccupiedFrame(frame).into());
        }
        self.policy.admit(frame, number, access);
        if let Some(pages) = &mut self.pages {
            pages[frame as usize] = number;
        }
        self.occupied.insert(frame as usize);
        self.dirty.set(frame as usize, access.is_write());
        self.resident += 1;
        self.missed = None;
        Ok(())
    }

    /// The missed page is not admitted.
    pub(crate) fn refuse(&mut self) -> Result<(), Failure> {
        let MissedPage { number, .. } = self.missed()?;
        // A policy expects a refusal only where all frames are in use.
        if !self.is_full() {
            return Err(Failure::invalid_call(c"a frame is empty: admit the page there"));
        }
        let ghost = self.policy.not_admitted();
        self.ghosts.set(number, ghost, &*self.policy);
        self.missed = None;
        Ok(())
    }

    pub(crate) fn costs(&mut self, costs: Costs) {
        self.policy.costs(costs);
    }

    /// The policy that chooses victims now, of several that compete.
    pub(crate) fn leader(&self) -> &'static str {
        self.policy.gauges().leader.unwrap_or_default()
    }
}
