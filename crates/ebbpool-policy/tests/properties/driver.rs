//! A driver that checks every answer of the policy against the contract of `Policy`.

use ebbpool_policy::{Access, Costs, DynPolicy, Frame, Ghost, MOST_GHOSTS, NextUse};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;

/// What happens to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was brought in.
    Read(u64),
    /// It was dirty and left.
    Write(u64),
    /// It left.
    Evict(u64),
    /// Nobody could make room for it.
    Refuse(u64),
    /// The background writer was told it would go next.
    Named(u64),
}

/// What the driver does with ghosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ghosts {
    /// Keeps the last answer for each page, and drops a ghost that the policy gave up.
    #[default]
    Latest,
    /// Keeps the last ghost for each page even where the policy remembers the page no more.
    KeptForGood,
    /// Loses every second one.
    Lost,
}

/// How the driver goes about what the contract leaves to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// Calls `prefetch` and `prefetch_ghost` before each reference.
    pub hints: bool,
    /// What becomes of ghosts.
    pub ghosts: Ghosts,
}

/// A page table over known pages, frames handed out in order, pins by frame.
pub struct Driver {
    policy: Box<dyn DynPolicy + Send>,
    habits: Habits,
    pages: Vec<u64>,
    /// Where each page of `pages` is.
    frame_of: Vec<Option<Frame>>,
    ghost_of: Vec<Option<Ghost>>,
    /// Which page of `pages` each frame holds, and whether it is dirty.
    holds: Vec<Option<(usize, bool)>>,
    pinned: u64,
    references: u64,
    misses: u64,
    hand: usize,
    leaving: Vec<Frame>,
    together: Vec<Frame>,
    events: Vec<Event>,
}

/// For each reference the position of the next one to the same page.
pub fn next_uses(referenced: &[Option<usize>], pages: usize) -> Vec<Option<u64>> {
    let mut last = vec![None; pages];
    let mut next: Vec<Option<u64>> = referenced
        .iter()
        .enumerate()
        .rev()
        .map(|(at, page)| page.and_then(|page| last[page].replace(at as u64)))
        .collect();
    next.reverse();
    next
}

impl Driver {
    pub fn new(
        policy: Box<dyn DynPolicy + Send>,
        frames: u32,
        pages: Vec<u64>,
        habits: Habits,
    ) -> Self {
        Driver {
            policy,
            habits,
            frame_of: vec![None; pages.len()],
            ghost_of: vec![None; pages.len()],
            pages,
            holds: vec![None; frames as usize],
            pinned: 0,
            references: 0,
            misses: 0,
            hand: 0,
            leaving: Vec::with_capacity(frames as usize),
            together: Vec::with_capacity(frames as usize),
            events: Vec::with_capacity(2 * frames as usize + 2),
        }
    }

    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    pub fn forget_events(&mut self) {
        self.events.clear();
    }

    pub fn pin(&mut self, mask: u64) {
        self.pinned = mask;
    }

    pub fn costs(&mut self, costs: Costs) {
        self.policy.costs(costs);
    }

    /// Writes back the dirty page that `which` chooses.
    pub fn clean(&mut self, which: &Index) -> Result<(), TestCaseError> {
        let dirty = |held: &Option<(usize, bool)>| held.is_some_and(|(_, dirty)| dirty);
        let count = self.holds.iter().filter(|held| dirty(held)).count();
        if count > 0 {
            let chosen = which.index(count);
            let frame = self
                .holds
                .iter()
                .enumerate()
                .filter(|(_, held)| dirty(held));
            if let Some((frame, _)) = frame.into_iter().nth(chosen) {
                self.clean_frame(frame);
            }
        }
        self.check_gauges()
    }

    /// Writes back the next dirty page of the frames in order, if the hand stands at one.
    pub fn clean_hand(&mut self) -> Result<(), TestCaseError> {
        self.hand = (self.hand + 1) % self.holds.len();
        if matches!(self.holds[self.hand], Some((_, true))) {
            self.clean_frame(self.hand);
        }
        self.check_gauges()
    }

    fn clean_frame(&mut self, frame: usize) {
        if let Some((_, dirty)) = &mut self.holds[frame] {
            *dirty = false;
        }
        self.policy.cleaned(frame as Frame);
    }

    /// The background writer asks; nobody leaves.
    pub fn ask(&mut self) -> Result<(), TestCaseError> {
        if let Some(frame) = self.victim(None)? {
            let page = self.page_in(frame);
            self.events.push(Event::Named(page));
            self.check_write_with(frame)?;
        }
        Ok(())
    }

    pub fn reference(
        &mut self,
        page: usize,
        write: bool,
        next_use: Option<u64>,
    ) -> Result<(), TestCaseError> {
        let access = Access::from_write(write);
        let number = self.pages[page];
        if self.habits.hints {
            self.hint(page);
        }
        let position = self.references;
        self.references += 1;
        self.policy.next_use(NextUse {
            position,
            reference: next_use.unwrap_or(NextUse::NEVER),
            // Some pages are written when they are used next, some at the end, some never.
            write: match (number % 3, next_use) {
                (0, Some(then)) => then,
                (1, _) => 1 << 40,
                _ => NextUse::NEVER,
            },
            references_to_write: 1,
        });
        if let Some(frame) = self.frame_of[page] {
            self.policy.hit(frame, access);
            if let Some((_, dirty)) = &mut self.holds[frame as usize] {
                *dirty |= write;
            }
            return self.check_gauges();
        }
        self.misses += 1;
        let lost = self.habits.ghosts == Ghosts::Lost && self.misses.is_multiple_of(2);
        let ghost = self.ghost_of[page].filter(|_| !lost);
        self.policy.miss(number, ghost, access);
        let free = self.holds.iter().position(Option::is_none);
        let frame = match free {
            Some(frame) => frame as Frame,
            None => {
                let Some(victim) = self.victim(Some((number, access)))? else {
                    let ghost = self.policy.refused();
                    self.keep(page, ghost)?;
                    self.events.push(Event::Refuse(number));
                    return self.check_gauges();
                };
                self.check_write_with(victim)?;
                self.write_with(victim)?;
                self.leave_with(victim)?;
                victim
            }
        };
        self.events.push(Event::Read(number));
        self.policy.admit(frame, number, access);
        self.holds[frame as usize] = Some((page, write));
        self.frame_of[page] = Some(frame);
        self.check_gauges()
    }

    /// The device moves the page that `which` chooses to a block erased so often.
    pub fn wear(&mut self, which: &Index, erases: u32) -> Result<(), TestCaseError> {
        let frame = which.index(self.holds.len());
        if self.holds[frame].is_some() {
            self.policy.erase_count(frame as Frame, erases);
        }
        self.check_gauges()
    }

    fn page_in(&self, frame: Frame) -> u64 {
        self.holds[frame as usize].map_or(0, |(page, _)| self.pages[page])
    }

    /// Asks for a victim and checks the answer.
    fn victim(&mut self, incoming: Option<(u64, Access)>) -> Result<Option<Frame>, TestCaseError> {
        let pinned = self.pinned;
        let is_pinned = |frame: Frame| pinned >> (frame % 64) & 1 == 1;
        let victim = self.policy.victim(incoming, &|frame| !is_pinned(frame));
        match victim {
            Some(frame) => {
                prop_assert!(
                    (frame as usize) < self.holds.len(),
                    "no such frame: {}",
                    frame
                );
                prop_assert!(
                    self.holds[frame as usize].is_some(),
                    "frame {} is empty",
                    frame
                );
                prop_assert!(!is_pinned(frame), "frame {} is pinned", frame);
            }
            None => {
                let mut occupied = (0..).zip(&self.holds).filter(|(_, held)| held.is_some());
                let somebody = occupied.find(|(frame, _)| !is_pinned(*frame));
                prop_assert!(somebody.is_none(), "{:?} may go and is not named", somebody);
            }
        }
        Ok(victim)
    }

    fn leave_with(&mut self, victim: Frame) -> Result<(), TestCaseError> {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.clear();
        self.policy.also_leaving(victim, &mut leaving);
        for (at, frame) in leaving.iter().enumerate() {
            let held = self.holds.get(*frame as usize).copied().flatten();
            prop_assert!(held.is_some(), "frame {} leaves and is empty", frame);
            prop_assert!(*frame != victim, "frame {} leaves twice", frame);
            prop_assert!(
                !leaving[..at].contains(frame),
                "frame {} leaves twice",
                frame
            );
        }
        self.leave(victim)?;
        for &frame in &leaving {
            if self.pinned >> (frame % 64) & 1 == 0 {
                self.leave(frame)?;
            }
        }
        self.leaving = leaving;
        Ok(())
    }

    fn leave(&mut self, frame: Frame) -> Result<(), TestCaseError> {
        if let Some((page, dirty)) = self.holds[frame as usize].take() {
            let ghost = self.policy.remember(frame);
            self.keep(page, ghost)?;
            self.policy.evicted(frame);
            self.frame_of[page] = None;
            if dirty {
                self.events.push(Event::Write(self.pages[page]));
            }
            self.events.push(Event::Evict(self.pages[page]));
        }
        Ok(())
    }

    fn keep(&mut self, page: usize, ghost: Option<Ghost>) -> Result<(), TestCaseError> {
        if let Some(ghost) = ghost {
            prop_assert!(ghost < MOST_GHOSTS, "ghost {} is too large", ghost);
        }
        if ghost.is_some() || self.habits.ghosts != Ghosts::KeptForGood {
            self.ghost_of[page] = ghost;
        }
        Ok(())
    }

    /// Asks what is best written with `victim`, with little room and with room for all.
    fn check_write_with(&mut self, victim: Frame) -> Result<(), TestCaseError> {
        let mut together = std::mem::take(&mut self.together);
        for max in [0, 1, 3, self.holds.len()] {
            together.clear();
            self.policy.write_with(victim, max, &mut together);
            prop_assert!(together.len() <= max, "more than {} to write", max);
            for (at, &frame) in together.iter().enumerate() {
                let held = self.holds.get(frame as usize).copied().flatten();
                let dirty = held.is_some_and(|(_, dirty)| dirty);
                prop_assert!(dirty, "frame {} is not dirty", frame);
                prop_assert!(frame != victim, "frame {} is written twice", frame);
                prop_assert!(
                    !together[..at].contains(&frame),
                    "frame {} is written twice",
                    frame
                );
                prop_assert!(
                    self.pinned >> (frame % 64) & 1 == 0,
                    "frame {} is pinned",
                    frame
                );
            }
        }
        self.together = together;
        Ok(())
    }

    /// Writes `victim` and what is best written with it, as `check_write_with` left it.
    fn write_with(&mut self, victim: Frame) -> Result<(), TestCaseError> {
        let together = std::mem::take(&mut self.together);
        if !together.is_empty()
            && let Some((page, dirty)) = &mut self.holds[victim as usize]
            && std::mem::take(dirty)
        {
            self.events.push(Event::Write(self.pages[*page]));
        }
        for &frame in &together {
            self.events.push(Event::Write(self.page_in(frame)));
            self.clean_frame(frame as usize);
        }
        self.together = together;
        self.check_gauges()
    }

    fn check_gauges(&self) -> Result<(), TestCaseError> {
        let gauges = self.policy.gauges();
        if let Some(target) = gauges.target {
            let range = 0.0..=self.holds.len() as f64;
            prop_assert!(range.contains(&target), "target {}", target);
        }
        for estimate in gauges.estimates.into_iter().flatten() {
            prop_assert!((0.0..=1.0).contains(&estimate), "estimate {}", estimate);
        }
        Ok(())
    }

    fn hint(&self, page: usize) {
        match (self.frame_of[page], self.ghost_of[page]) {
            (Some(frame), _) => self.policy.prefetch(frame),
            (None, Some(ghost)) => self.policy.prefetch_ghost(ghost),
            (None, None) => {}
        }
        for (frame, held) in (0..).zip(&self.holds) {
            if held.is_some() {
                self.policy.prefetch(frame);
            }
        }
    }
}
