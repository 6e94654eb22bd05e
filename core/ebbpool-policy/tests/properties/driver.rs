//! A driver that checks every answer of the policy against the contract of `Policy`.

use ebbpool_policy::{
    Access, BackgroundWrite, Capabilities, Costs, DynPolicy, Frame, Ghost, GhostPages, MOST_GHOSTS, NextUse, PageClass,
    PageProbabilities, PageProbability, RecordedRequest,
};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;

/// What happens to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was read into a frame.
    Read(u64),
    /// It was dirty and is written back.
    Write(u64),
    /// It was evicted.
    Evict(u64),
    /// No frame could be evicted for it.
    Refuse(u64),
    /// The policy named it to the background writer as the next victim.
    Named(u64),
    /// It no longer exists.
    Drop(u64),
    /// It could not be written when it was evicted, and is back in its frame.
    Return(u64),
}

/// What the driver does with ghosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ghosts {
    /// Stores the last answer for each page, and drops a ghost that the policy gave up.
    #[default]
    Latest,
    /// Stores the last ghost for each page even where the policy no longer remembers the page.
    KeptForever,
    /// Loses every second ghost.
    Forgotten,
    /// Stores them in the table of the pool and of the C interface, which begins without room.
    InTable,
}

/// What the driver does where the contract leaves it a choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriverBehaviour {
    /// Calls `prefetch` and `prefetch_ghost` before each reference.
    pub prefetches: bool,
    /// What it does with ghosts.
    pub ghosts: Ghosts,
    /// Plays a background writer that asks for victims before each reference, the more often the more frames there are.
    pub asks_often: bool,
    /// Passes requests with times and rings, writes in the background, and evicts early where the policy does.
    pub plays_server: bool,
    /// Calls only methods whose capability the policy declares.
    pub only_declared: bool,
    /// Moves a page to another frame before each reference, if one is empty.
    pub moves: bool,
}

/// A page table over a fixed set of pages, frames handed out in order, pins by frame.
pub struct Driver {
    policy: Box<dyn DynPolicy + Send>,
    declared: Capabilities,
    /// What the policy has done so far, of what it can declare.
    done: Capabilities,
    behaviour: DriverBehaviour,
    pages: Vec<u64>,
    /// The frame of each page of `pages`.
    frame_of: Vec<Option<Frame>>,
    ghost_of: Vec<Option<Ghost>>,
    /// The same where the driver stores ghosts in it.
    table: GhostPages,
    /// The page of `pages` in each frame, and whether it is dirty.
    occupants: Vec<Option<(usize, bool)>>,
    pinned: u64,
    references: u64,
    misses: u64,
    hand: usize,
    evictions: Vec<Frame>,
    /// The frames that the reference has evicted, the victim first, and their pages.
    evicted: Vec<(Frame, usize)>,
    /// The next eviction is undone, since its page cannot be written.
    write_fails: bool,
    together: Vec<Frame>,
    background: Vec<BackgroundWrite>,
    events: Vec<Event>,
}

/// For each reference the position of the next one to the same page.
pub fn next_uses(referenced: &[Option<usize>], pages: usize) -> Vec<Option<u64>> {
    let mut last = vec![None; pages];
    let mut next: Vec<Option<u64>> =
        referenced.iter().enumerate().rev().map(|(at, page)| page.and_then(|page| last[page].replace(at as u64))).collect();
    next.reverse();
    next
}

impl Driver {
    pub fn new(mut policy: Box<dyn DynPolicy + Send>, frames: u32, pages: Vec<u64>, behaviour: DriverBehaviour) -> Self {
        // Some pages alike, and some beyond the table.
        let probabilities = (0..150_u32)
            .map(|page| PageProbability { reference: f64::from(page % 9) / 1000.0, write: f64::from(page % 3) / 1000.0 });
        let probabilities = PageProbabilities::from_pages(probabilities.collect());
        let declared = policy.capabilities();
        if !behaviour.only_declared || declared.contains(Capabilities::PROBABILITIES) {
            policy.probabilities(probabilities.into());
        }
        Driver {
            table: GhostPages::with_capacity(&*policy, 0),
            policy,
            declared,
            done: Capabilities::empty(),
            behaviour,
            frame_of: vec![None; pages.len()],
            ghost_of: vec![None; pages.len()],
            pages,
            occupants: vec![None; frames as usize],
            pinned: 0,
            references: 0,
            misses: 0,
            hand: 0,
            evictions: Vec::with_capacity(frames as usize),
            evicted: Vec::with_capacity(frames as usize),
            write_fails: false,
            together: Vec::with_capacity(frames as usize),
            background: Vec::with_capacity(frames as usize),
            events: Vec::with_capacity(2 * frames as usize + 2),
        }
    }

    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// What the policy has done so far, of what it can declare.
    pub fn done(&self) -> Capabilities {
        self.done
    }

    /// True if the driver calls the method of a capability.
    fn calls(&self, capability: Capabilities) -> bool {
        !self.behaviour.only_declared || self.declared.contains(capability)
    }

    /// The policy has done what belongs to a capability, which it must have declared.
    fn has_done(&mut self, capability: Capabilities) -> Result<(), TestCaseError> {
        prop_assert!(self.declared.contains(capability), "{:?} is not declared", capability);
        self.done |= capability;
        Ok(())
    }

    pub fn forget_events(&mut self) {
        self.events.clear();
    }

    pub fn pin(&mut self, mask: u64) {
        self.pinned = mask;
    }

    pub fn costs(&mut self, costs: Costs) {
        if self.calls(Capabilities::COSTS) {
            self.policy.costs(costs);
        }
    }

    /// Writes back the dirty page that `which` chooses.
    pub fn clean(&mut self, which: &Index) -> Result<(), TestCaseError> {
        let dirty = |occupant: &Option<(usize, bool)>| occupant.is_some_and(|(_, dirty)| dirty);
        let count = self.occupants.iter().filter(|occupant| dirty(occupant)).count();
        if count > 0 {
            let chosen = which.index(count);
            let frame = self.occupants.iter().enumerate().filter(|(_, occupant)| dirty(occupant));
            if let Some((frame, _)) = frame.into_iter().nth(chosen) {
                self.clean_frame(frame);
            }
        }
        self.check_gauges()
    }

    /// Writes back the next dirty page of the frames in order, if the hand stands at one.
    pub fn clean_hand(&mut self) -> Result<(), TestCaseError> {
        self.hand = (self.hand + 1) % self.occupants.len();
        if matches!(self.occupants[self.hand], Some((_, true))) {
            self.clean_frame(self.hand);
        }
        self.check_gauges()
    }

    /// Writes the page that `which` chooses under a pin that was reported before.
    pub fn write(&mut self, which: &Index) {
        let frame = which.index(self.occupants.len());
        if let Some((_, dirty)) = &mut self.occupants[frame] {
            *dirty = true;
            if !self.policy.wrote(frame as Frame) {
                self.policy.hit(frame as Frame, Access::Write);
            }
        }
    }

    /// The page in the frame that `which` chooses no longer exists.
    pub fn drop_page(&mut self, which: &Index) -> Result<(), TestCaseError> {
        let frame = which.index(self.occupants.len());
        if let Some((page, _)) = self.occupants[frame] {
            self.store(page, None)?;
            self.leave(frame as Frame, page);
            self.events.push(Event::Drop(self.pages[page]));
        }
        self.check_gauges()
    }

    /// The next eviction is undone, as the pool does if the page cannot be written.
    pub fn fail_next_write(&mut self) {
        self.write_fails = true;
    }

    /// From now on there are that many frames: as in the pool, the pages beyond them move to empty ones, or the policy's victims are
    /// evicted to make room. Gives up at a pinned page.
    pub fn resize(&mut self, frames: usize) -> Result<(), TestCaseError> {
        if !self.declared.contains(Capabilities::RESIZES) {
            return Ok(());
        }
        while let Some(from) = self.occupants.iter().skip(frames).position(Option::is_some).map(|at| at + frames) {
            if self.pinned >> (from % 64) & 1 == 1 {
                return Ok(());
            }
            let empty = self.occupants.iter().take(frames).position(Option::is_none);
            let to = match empty {
                Some(empty) => empty,
                None => {
                    let Some(victim) = self.victim(None)? else {
                        return Ok(());
                    };
                    self.evict(victim)?;
                    victim as usize
                }
            };
            if to < frames {
                self.move_page(from, to);
            }
        }
        self.occupants.resize(frames, None);
        self.policy.resize(frames as u32);
        self.check_gauges()
    }

    fn move_page(&mut self, from: usize, to: usize) {
        self.occupants[to] = self.occupants[from].take();
        if let Some((page, _)) = self.occupants[to] {
            self.frame_of[page] = Some(to as Frame);
        }
        self.policy.moved(from as Frame, to as Frame);
    }

    /// Moves the page in the last frame that has one to the first empty one.
    fn move_last(&mut self) {
        let empty = self.occupants.iter().position(Option::is_none);
        let last = self.occupants.iter().rposition(Option::is_some);
        if let (Some(empty), Some(last)) = (empty, last)
            && self.declared.contains(Capabilities::RESIZES)
        {
            self.move_page(last, empty);
        }
    }

    /// The page leaves its frame, and the policy does not remember it.
    fn leave(&mut self, frame: Frame, page: usize) {
        self.policy.evicted(frame);
        self.occupants[frame as usize] = None;
        self.frame_of[page] = None;
    }

    /// Takes back the admission of a page, and the evictions before it: their pages are dirty in their frames again.
    fn undo_evictions(&mut self, frame: Frame, admitted: usize) -> Result<(), TestCaseError> {
        self.leave(frame, admitted);
        let evicted = std::mem::take(&mut self.evicted);
        for &(frame, page) in &evicted {
            self.store(page, None)?;
            let number = self.pages[page];
            self.policy.admit(frame, number, Access::Write);
            self.occupants[frame as usize] = Some((page, true));
            self.frame_of[page] = Some(frame);
            self.events.push(Event::Return(number));
        }
        self.evicted = evicted;
        Ok(())
    }

    /// Checks what the policy says that it would evict next.
    pub fn check_coming(&self) -> Result<(), TestCaseError> {
        let is_pinned = |frame: Frame| self.pinned >> (frame % 64) & 1 == 1;
        let mut coming = [Frame::MAX; 8];
        let found = self.policy.coming_victims(&|frame| !is_pinned(frame), &mut coming);
        let coming = &coming[..found.unwrap_or(0)];
        for (at, &frame) in coming.iter().enumerate() {
            let occupant = self.occupants.get(frame as usize).copied().flatten();
            prop_assert!(occupant.is_some(), "frame {} is empty", frame);
            prop_assert!(!is_pinned(frame), "frame {} is pinned", frame);
            prop_assert!(!coming[..at].contains(&frame), "frame {} comes twice", frame);
        }
        Ok(())
    }

    /// The first frame that the policy says it would evict next, and the one that it then names; `None` for the first if the
    /// policy does not say.
    pub fn foreseen_and_next(&mut self) -> Option<(Option<Frame>, Option<Frame>)> {
        let pinned = self.pinned;
        let may_evict = |frame: Frame| pinned >> (frame % 64) & 1 == 0;
        let mut coming = [Frame::MAX; 3];
        let found = self.policy.coming_victims(&may_evict, &mut coming)?;
        let foreseen = coming[..found].first().copied();
        Some((foreseen, self.policy.victim(None, &may_evict)))
    }

    fn clean_frame(&mut self, frame: usize) {
        if let Some((_, dirty)) = &mut self.occupants[frame] {
            *dirty = false;
        }
        self.policy.cleaned(frame as Frame);
    }

    /// The background writer requests a victim; no page is evicted.
    pub fn request_victim(&mut self) -> Result<(), TestCaseError> {
        if let Some(frame) = self.victim(None)? {
            let page = self.page_in(frame);
            self.events.push(Event::Named(page));
            self.check_write_with(frame)?;
        }
        Ok(())
    }

    /// Asks for the next victims, as a background writer does that looks for several dirty pages.
    fn ask_for_victims(&mut self) -> Result<(), TestCaseError> {
        let before = self.pinned;
        for _ in 0..self.occupants.len().min(3) {
            let victim = self.victim(None)?;
            self.pinned |= victim.map_or(0, |frame| 1 << (frame % 64));
        }
        self.pinned = before;
        self.victim(None).map(drop)
    }

    pub fn reference(&mut self, page: usize, write: bool, next_use: Option<u64>) -> Result<(), TestCaseError> {
        let access = Access::from_write(write);
        let number = self.pages[page];
        if self.behaviour.prefetches {
            self.hint(page);
        }
        if self.behaviour.asks_often {
            self.ask_for_victims()?;
        }
        if self.behaviour.moves {
            self.move_last();
        }
        let position = self.references;
        self.references += 1;
        if self.behaviour.plays_server {
            self.play_server(position)?;
        }
        let next_use = NextUse {
            position,
            reference: next_use.unwrap_or(NextUse::NEVER),
            // Some pages are written at their next use, some at the end, some never.
            write: match (number % 3, next_use) {
                (0, Some(then)) => then,
                (1, _) => 1 << 40,
                _ => NextUse::NEVER,
            },
            references_to_write: 1,
        };
        if self.calls(Capabilities::NEXT_USES) {
            self.policy.next_use(next_use);
        }
        if let Some(frame) = self.frame_of[page] {
            self.policy.hit(frame, access);
            if let Some((_, dirty)) = &mut self.occupants[frame as usize] {
                *dirty |= write;
            }
            return self.check_gauges();
        }
        self.misses += 1;
        let loses_ghost = self.behaviour.ghosts == Ghosts::Forgotten && self.misses.is_multiple_of(2);
        let ghost = match self.behaviour.ghosts {
            Ghosts::InTable => self.table.get(number, &*self.policy),
            _ => self.ghost_of[page].filter(|_| !loses_ghost),
        };
        if self.calls(Capabilities::CLASSES) {
            self.policy.class((number % 5) as PageClass);
        }
        self.policy.miss(number, ghost, access);
        let early = self.behaviour.plays_server && self.calls(Capabilities::EVICTS_EARLY) && self.policy.evicts_early();
        if early {
            self.has_done(Capabilities::EVICTS_EARLY)?;
        }
        self.evicted.clear();
        let free = self.occupants.iter().position(Option::is_none);
        let victim = match free {
            Some(_) if !early => None,
            Some(_) => self.early_victim((number, access))?,
            None => self.victim(Some((number, access)))?,
        };
        let frame = match (victim, free) {
            (None, Some(frame)) => frame as Frame,
            (victim, _) => {
                let Some(victim) = victim else {
                    let ghost = self.policy.not_admitted();
                    self.store(page, ghost)?;
                    self.events.push(Event::Refuse(number));
                    return self.check_gauges();
                };
                self.check_write_with(victim)?;
                self.cleaned_with(victim)?;
                self.evict_with(victim)?;
                victim
            }
        };
        self.events.push(Event::Read(number));
        self.policy.admit(frame, number, access);
        self.occupants[frame as usize] = Some((page, write));
        self.frame_of[page] = Some(frame);
        if !self.evicted.is_empty() && std::mem::take(&mut self.write_fails) {
            self.undo_evictions(frame, page)?;
        }
        self.check_gauges()
    }

    /// Passes a request with a time and a ring, and writes what is written in the background.
    fn play_server(&mut self, position: u64) -> Result<(), TestCaseError> {
        if self.calls(Capabilities::REQUESTS) {
            let scan = 1 + (position / 16 % 9) as u32;
            let bypass = if position.is_multiple_of(4) { scan * 4 + scan % 4 } else { 0 };
            let pause = position / 100 * 700_000;
            let time_us = position * 1500 + pause;
            self.policy.request(RecordedRequest { time_us, bypass });
        }
        let mut background = std::mem::take(&mut self.background);
        background.clear();
        if self.calls(Capabilities::BACKGROUND_WRITES) {
            self.policy.background_writes(&mut background);
        }
        if !background.is_empty() {
            self.has_done(Capabilities::BACKGROUND_WRITES)?;
        }
        for write in &background {
            let occupant = self.occupants.get(write.frame as usize).copied().flatten();
            let dirty = occupant.is_some_and(|(_, dirty)| dirty);
            prop_assert!(dirty, "frame {} is not dirty", write.frame);
            self.events.push(Event::Write(self.page_in(write.frame)));
            self.clean_frame(write.frame as usize);
        }
        self.background = background;
        self.check_gauges()
    }

    /// Requests a victim while a frame is empty. There may be none.
    fn early_victim(&mut self, incoming: (u64, Access)) -> Result<Option<Frame>, TestCaseError> {
        let pinned = self.pinned;
        let may_evict = |frame: Frame| pinned >> (frame % 64) & 1 == 0;
        let victim = self.policy.victim(Some(incoming), &may_evict);
        if let Some(frame) = victim {
            let occupant = self.occupants.get(frame as usize).copied().flatten();
            prop_assert!(occupant.is_some(), "frame {} is empty", frame);
            prop_assert!(may_evict(frame), "frame {} is pinned", frame);
        }
        Ok(victim)
    }

    /// The device moves the page that `which` chooses to a block erased `erases` times.
    pub fn wear(&mut self, which: &Index, erases: u32) -> Result<(), TestCaseError> {
        let frame = which.index(self.occupants.len());
        if self.occupants[frame].is_some() {
            self.policy.erase_count(frame as Frame, erases);
        }
        self.check_gauges()
    }

    fn page_in(&self, frame: Frame) -> u64 {
        self.occupants[frame as usize].map_or(0, |(page, _)| self.pages[page])
    }

    /// Requests a victim and checks the answer.
    fn victim(&mut self, incoming: Option<(u64, Access)>) -> Result<Option<Frame>, TestCaseError> {
        let pinned = self.pinned;
        let is_pinned = |frame: Frame| pinned >> (frame % 64) & 1 == 1;
        let victim = self.policy.victim(incoming, &|frame| !is_pinned(frame));
        match victim {
            Some(frame) => {
                prop_assert!((frame as usize) < self.occupants.len(), "no such frame: {}", frame);
                prop_assert!(self.occupants[frame as usize].is_some(), "frame {} is empty", frame);
                prop_assert!(!is_pinned(frame), "frame {} is pinned", frame);
            }
            None => {
                let mut occupied = (0..).zip(&self.occupants).filter(|(_, occupant)| occupant.is_some());
                let evictable = occupied.find(|(frame, _)| !is_pinned(*frame));
                prop_assert!(evictable.is_none(), "{:?} may be evicted and is not named", evictable);
            }
        }
        Ok(victim)
    }

    fn evict_with(&mut self, victim: Frame) -> Result<(), TestCaseError> {
        let mut evictions = std::mem::take(&mut self.evictions);
        evictions.clear();
        if self.calls(Capabilities::EVICTS_MORE) {
            self.policy.evicted_with(victim, &mut evictions);
        }
        if !evictions.is_empty() {
            self.has_done(Capabilities::EVICTS_MORE)?;
        }
        if self.calls(Capabilities::PADDING) && self.policy.padded_block(victim).is_some() {
            self.has_done(Capabilities::PADDING)?;
        }
        for (at, frame) in evictions.iter().enumerate() {
            let occupant = self.occupants.get(*frame as usize).copied().flatten();
            prop_assert!(occupant.is_some(), "frame {} is evicted and is empty", frame);
            prop_assert!(*frame != victim, "frame {} is evicted twice", frame);
            prop_assert!(!evictions[..at].contains(frame), "frame {} is evicted twice", frame);
        }
        self.evict(victim)?;
        for &frame in &evictions {
            if self.pinned >> (frame % 64) & 1 == 0 {
                self.evict(frame)?;
            }
        }
        self.evictions = evictions;
        Ok(())
    }

    fn evict(&mut self, frame: Frame) -> Result<(), TestCaseError> {
        if let Some((page, dirty)) = self.occupants[frame as usize] {
            let stored = self.policy.page(frame);
            prop_assert!(stored.is_none_or(|stored| stored == self.pages[page]));
            let ghost = self.policy.remember(frame);
            self.store(page, ghost)?;
            self.leave(frame, page);
            self.evicted.push((frame, page));
            if dirty {
                self.events.push(Event::Write(self.pages[page]));
            }
            self.events.push(Event::Evict(self.pages[page]));
        }
        Ok(())
    }

    fn store(&mut self, page: usize, ghost: Option<Ghost>) -> Result<(), TestCaseError> {
        if let Some(ghost) = ghost {
            prop_assert!(ghost < MOST_GHOSTS, "ghost {} is too large", ghost);
            let most = self.policy.most_ghosts();
            prop_assert!(ghost < most, "ghost {} of {}", ghost, most);
        }
        if self.behaviour.ghosts == Ghosts::InTable {
            self.table.set(self.pages[page], ghost, &*self.policy);
        }
        if ghost.is_some() || self.behaviour.ghosts != Ghosts::KeptForever {
            self.ghost_of[page] = ghost;
        }
        Ok(())
    }

    /// Requests the pages best written with `victim`, with little room and with room for all.
    fn check_write_with(&mut self, victim: Frame) -> Result<(), TestCaseError> {
        let mut together = std::mem::take(&mut self.together);
        for max in [0, 1, 3, self.occupants.len()] {
            together.clear();
            if self.calls(Capabilities::WRITES_TOGETHER) {
                self.policy.cleaned_with(victim, max, &mut together);
            }
            if !together.is_empty() {
                self.has_done(Capabilities::WRITES_TOGETHER)?;
            }
            prop_assert!(together.len() <= max, "more than {} to write", max);
            for (at, &frame) in together.iter().enumerate() {
                let occupant = self.occupants.get(frame as usize).copied().flatten();
                let dirty = occupant.is_some_and(|(_, dirty)| dirty);
                prop_assert!(dirty, "frame {} is not dirty", frame);
                prop_assert!(frame != victim, "frame {} is written twice", frame);
                prop_assert!(!together[..at].contains(&frame), "frame {} is written twice", frame);
                prop_assert!(self.pinned >> (frame % 64) & 1 == 0, "frame {} is pinned", frame);
            }
        }
        self.together = together;
        Ok(())
    }

    /// Writes `victim` and the pages best written with it, as `check_write_with` stored them.
    fn cleaned_with(&mut self, victim: Frame) -> Result<(), TestCaseError> {
        let together = std::mem::take(&mut self.together);
        if !together.is_empty()
            && let Some((page, dirty)) = &mut self.occupants[victim as usize]
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
            let range = 0.0..=self.occupants.len() as f64;
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
        for (frame, occupant) in (0..).zip(&self.occupants) {
            if occupant.is_some() {
                self.policy.prefetch(frame);
            }
        }
    }
}
