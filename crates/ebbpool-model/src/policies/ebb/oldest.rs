//! Which slots have the pages referenced longest ago, found by passing 128 slots for each victim.

/// When a page was referenced, and its slot.
type Referenced = (u64, usize);

pub(super) struct Oldest {
    slots: usize,
    /// The victims of a round over all slots.
    victims: usize,
    /// What the last round found, the oldest first: up to the last time, and after the time before.
    found: Vec<Referenced>,
    times: Option<(u64, u64)>,
    /// What this round has passed that was referenced before it began, and not found before.
    passed: Vec<Referenced>,
    begun: u64,
    next: usize,
}

impl Oldest {
    pub(super) fn new(slots: usize) -> Oldest {
        Oldest {
            slots,
            victims: slots.div_ceil(128),
            found: Vec::new(),
            times: None,
            passed: Vec::new(),
            begun: 0,
            next: 0,
        }
    }

    /// The oldest slot that was found, was not referenced since, and may be evicted. It and those before it are found no longer.
    pub(super) fn take_first(
        &mut self,
        is_still: impl Fn(Referenced) -> bool,
        may_evict: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let found = std::mem::take(&mut self.found);
        let mut found = found.into_iter();
        let first = found.find(|it| is_still(*it) && may_evict(it.1));
        self.found = found.collect();
        first.map(|(_, slot)| slot)
    }

    pub(super) fn pass(
        &mut self,
        now: u64,
        referenced_at: impl Fn(usize) -> Option<u64>,
        may_evict: impl Fn(usize) -> bool,
    ) {
        if self.next == 0 && self.found.len() >= self.victims {
            return;
        }
        if self.next == 0 {
            self.begun = now;
        }
        for slot in (self.next..self.slots).take(128) {
            self.next = slot + 1;
            let Some(at) = referenced_at(slot) else {
                continue;
            };
            let was_found = self
                .times
                .is_some_and(|(since, until)| at > since && at <= until);
            if !was_found && at <= self.begun && may_evict(slot) {
                self.passed.push((at, slot));
            }
        }
        if self.next == self.slots {
            self.passed.sort();
            self.passed.truncate(self.victims.max(64));
            self.found = std::mem::take(&mut self.passed);
            let until = self.times.map_or(0, |(_, until)| until);
            let youngest = self.found.last().map_or(0, |(at, _)| *at);
            self.times = Some((until, until.max(youngest)));
            self.next = 0;
        }
    }
}
