//! A policy without a pool: the checks that make every order of calls harmless, and the policy's table of ghosts.

use ebbpool_policy::{
    Access, Capabilities, Costs, DynPolicy, Frame, GhostPages, PageClass, PolicySpec,
    UNKNOWN_CLASS, registry,
};

use crate::error::Failure;

/// The most frames of a policy, as of a pool.
const MOST_FRAMES: u32 = 1 << 30;

/// A policy, and what it has been notified of.
pub(crate) struct BarePolicy {
    pub(crate) spec: PolicySpec,
    policy: Box<dyn DynPolicy + Send>,
    frames: Vec<Option<ResidentPage>>,
    /// The number of frames that have a page.
    resident: usize,
    ghosts: GhostPages,
    missed: Option<MissedPage>,
    /// Buffers of the lists that [`Victim`] borrows.
    together: Vec<Frame>,
    also_evicted: Vec<Frame>,
    capabilities: Capabilities,
}

#[derive(Clone, Copy)]
struct ResidentPage {
    number: u64,
    dirty: bool,
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

impl BarePolicy {
    /// The policy of a specification, for a number of frames.
    pub(crate) fn new(spec: &str, frames: u32) -> Result<Self, Failure> {
        let spec: PolicySpec = spec.parse()?;
        if !spec.online() {
            return Err(Failure::invalid(format!(
                "{spec} needs to know future references, and a program does not know them"
            )));
        }
        if spec.asks_erase_counts() {
            return Err(Failure::invalid(format!(
                "{spec} asks how often blocks were erased, which only a simulated flash device reports"
            )));
        }
        if frames == 0 || frames > MOST_FRAMES {
            return Err(Failure::invalid(format!(
                "a policy has 1 to {MOST_FRAMES} frames, not {frames}"
            )));
        }
        check_memory(&spec, frames)?;
        let policy = registry::boxed(&spec, frames);
        let capabilities = policy.capabilities();
        if capabilities.contains(Capabilities::CHECKPOINTS) {
            return Err(Failure::invalid(format!(
                "{spec} makes checkpoints or commits, and a program makes its own; leave these parameters of {} out",
                spec.entry().name
            )));
        }
        Ok(BarePolicy {
            capabilities,
            spec,
            policy,
            frames: vec![None; frames as usize],
            resident: 0,
            ghosts: GhostPages::default(),
            missed: None,
            together: Vec::new(),
            also_evicted: Vec::new(),
        })
    }

    /// What the policy asks and does.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn check_no_miss(&self) -> Result<(), Failure> {
        match self.missed {
            None => Ok(()),
            Some(MissedPage { number, .. }) => Err(Failure::invalid(format!(
                "page {number} was missed, and neither admitted nor refused yet"
            ))),
        }
    }

    fn is_full(&self) -> bool {
        self.resident == self.frames.len()
    }

    fn page_in(&mut self, frame: Frame) -> Result<&mut ResidentPage, Failure> {
        let frames = self.frames.len();
        let found = self.frames.get_mut(frame as usize);
        let found = found.ok_or_else(|| {
            Failure::invalid(format!(
                "there is no frame {frame}: they are 0 to {}",
                frames - 1
            ))
        })?;
        found
            .as_mut()
            .ok_or_else(|| Failure::invalid(format!("frame {frame} is empty")))
    }

    pub(crate) fn hit(&mut self, frame: Frame, access: Access) -> Result<(), Failure> {
        self.check_no_miss()?;
        self.page_in(frame)?.dirty |= access.is_write();
        self.policy.hit(frame, access);
        Ok(())
    }

    pub(crate) fn omitted_hits(&mut self, hits: u64) {
        self.policy.omitted_hits(hits);
    }

    /// Notes a miss; returns whether the program has to ask for a victim.
    pub(crate) fn miss(
        &mut self,
        number: u64,
        class: PageClass,
        access: Access,
    ) -> Result<bool, Failure> {
        self.check_no_miss()?;
        if self.capabilities.contains(Capabilities::CLASSES) && class != UNKNOWN_CLASS {
            self.policy.class(class);
        }
        self.policy.miss(number, self.ghosts.get(number), access);
        self.missed = Some(MissedPage { number, access });
        // The policy is asked in any case, as the simulator does.
        let early =
            self.capabilities.contains(Capabilities::EVICTS_EARLY) && self.policy.evicts_early();
        Ok((early && self.resident > 0) || self.is_full())
    }

    /// The frame to evict for the page that was missed, or, if none was, to be written in advance.
    pub(crate) fn victim(
        &mut self,
        most_together: usize,
        may_evict: &dyn Fn(Frame) -> bool,
    ) -> Result<Victim<'_>, Failure> {
        let occupied = |frames: &[Option<ResidentPage>], frame: Frame| {
            frames.get(frame as usize).is_some_and(Option::is_some)
        };
        if self.resident == 0 {
            return Err(Failure::invalid("no frame has a page"));
        }
        let incoming = self.missed.map(|missed| (missed.number, missed.access));
        let victim = self.policy.victim(incoming, may_evict);
        let frame = victim.ok_or_else(Failure::all_fixed)?;
        assert!(
            occupied(&self.frames, frame),
            "{} names frame {frame}, which is empty",
            self.spec
        );
        self.together.clear();
        self.also_evicted.clear();
        self.policy
            .cleaned_with(frame, most_together, &mut self.together);
        self.policy.evicted_with(frame, &mut self.also_evicted);
        let frames = &self.frames;
        self.together.retain(|&it| occupied(frames, it));
        self.also_evicted
            .retain(|&it| it != frame && occupied(frames, it) && may_evict(it));
        let block_pages = self
            .policy
            .padded_block(frame)
            .map_or(0, |pages| pages.get());
        Ok(Victim {
            frame,
            together: &self.together,
            also_evicted: &self.also_evicted,
            block_pages,
        })
    }

    /// The page in a frame was evicted. The policy may remember it.
    pub(crate) fn evicted(&mut self, frame: Frame) -> Result<(), Failure> {
        let number = self.page_in(frame)?.number;
        let ghost = self.policy.remember(frame);
        self.ghosts.set(number, ghost);
        self.policy.evicted(frame);
        self.frames[frame as usize] = None;
        self.resident -= 1;
        Ok(())
    }

    /// The page in a frame no longer exists.
    pub(crate) fn dropped(&mut self, frame: Frame) -> Result<(), Failure> {
        let number = self.page_in(frame)?.number;
        self.ghosts.set(number, None);
        self.policy.evicted(frame);
        self.frames[frame as usize] = None;
        self.resident -= 1;
        Ok(())
    }

    /// The page in a frame was written. A clean page stays as it is.
    pub(crate) fn cleaned(&mut self, frame: Frame) -> Result<(), Failure> {
        let page = self.page_in(frame)?;
        if page.dirty {
            page.dirty = false;
            self.policy.cleaned(frame);
        }
        Ok(())
    }

    fn missed(&self) -> Result<MissedPage, Failure> {
        self.missed
            .ok_or_else(|| Failure::invalid("no page was missed"))
    }

    /// The missed page is in this frame now.
    pub(crate) fn admit(&mut self, frame: Frame) -> Result<(), Failure> {
        let MissedPage { number, access } = self.missed()?;
        match self.frames.get(frame as usize) {
            Some(None) => {}
            Some(Some(page)) => {
                return Err(Failure::invalid(format!(
                    "frame {frame} has page {}; evict it first",
                    page.number
                )));
            }
            None => return Err(Failure::invalid(format!("there is no frame {frame}"))),
        }
        self.policy.admit(frame, number, access);
        self.frames[frame as usize] = Some(ResidentPage {
            number,
            dirty: access.is_write(),
        });
        self.resident += 1;
        self.missed = None;
        Ok(())
    }

    /// The missed page is not admitted.
    pub(crate) fn refuse(&mut self) -> Result<(), Failure> {
        let MissedPage { number, .. } = self.missed()?;
        // A policy expects a refusal only where all frames are in use.
        if !self.is_full() {
            return Err(Failure::invalid("a frame is empty: admit the page there"));
        }
        let ghost = self.policy.not_admitted();
        self.ghosts.set(number, ghost);
        self.missed = None;
        Ok(())
    }

    pub(crate) fn costs(&mut self, costs: Costs) {
        self.policy.costs(costs);
    }
}

/// Refuses a number of frames for which there is no memory: a policy allocates when it is made, and an allocation that
/// fails ends the program.
fn check_memory(spec: &PolicySpec, frames: u32) -> Result<(), Failure> {
    let memory = spec.entry().memory;
    let for_frame =
        memory.order_scattered + memory.ghosts + size_of::<Option<ResidentPage>>() as u32;
    let bytes = (u64::from(for_frame) * u64::from(frames)) as usize;
    let mut probe: Vec<u8> = Vec::new();
    probe
        .try_reserve_exact(bytes)
        .map_err(|_| Failure::no_memory(format!("{spec} takes {bytes} bytes for {frames} frames")))
}
