//! Which slot has the page referenced longest ago, by groups of 64 slots.

pub(super) struct Oldest {
    slots: usize,
    /// When the oldest page of each group was referenced, as it was found last.
    times: Vec<u64>,
}

impl Oldest {
    pub(super) fn new(slots: usize) -> Oldest {
        Oldest { slots, times: vec![0; slots.div_ceil(64)] }
    }

    /// The oldest slot that may be evicted. Only the group of the earliest time is looked at, until it was right. Of those in which
    /// no slot may be evicted, the first 16 keep their times, and all where there is no such slot at all.
    pub(super) fn first(
        &mut self,
        now: u64,
        referenced_at: impl Fn(usize) -> Option<u64>,
        may_evict: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let may_be_evicted = |slot| referenced_at(slot).is_some() && may_evict(slot);
        if !(0..self.slots).any(may_be_evicted) {
            return None;
        }
        let mut aside = Vec::new();
        loop {
            let groups = (0..self.times.len()).filter(|group| !aside.contains(group));
            let group = groups.min_by_key(|group| self.times[*group])?;
            let slots = (0..self.slots).filter(|slot| slot / 64 == group && may_evict(*slot));
            let oldest = slots.filter_map(|slot| Some((referenced_at(slot)?, slot))).min();
            if oldest.is_none() && self.times[group] < now && aside.len() < 16 {
                aside.push(group);
                continue;
            }
            let at = oldest.map_or(now, |(at, _)| at);
            if self.times[group] == at {
                // Without one the other groups have this time too.
                let all = (0..self.slots).filter(|slot| may_evict(*slot));
                let all = all.filter_map(|slot| Some((referenced_at(slot)?, slot)));
                return oldest.or_else(|| all.min()).map(|(_, slot)| slot);
            }
            self.times[group] = at;
        }
    }
}
