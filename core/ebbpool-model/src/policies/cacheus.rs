//! cacheus (Rodriguez et al., FAST 2021), by the authors' code.

use std::collections::{BTreeMap, BTreeSet};

use super::lecar::reweigh;
use crate::buffer::Policy;
use crate::sampler::Sampler;

#[derive(Clone, Copy)]
struct Page {
    references: u64,
    last: u64,
    demoted: bool,
    new: bool,
}

struct Remembered {
    page: u64,
    references: u64,
    new: bool,
}

/// What the missed page is: new (and how it is admitted), or returned with a count.
#[derive(Clone, Copy)]
enum Missed {
    ToS,
    ToQ,
    NewToQ,
    Returned(u64),
}

pub(crate) struct Cacheus {
    m: usize,
    pages: BTreeMap<u64, Page>,
    /// Oldest first.
    s: Vec<u64>,
    q: Vec<u64>,
    s_limit: usize,
    histories: [Vec<Remembered>; 2],
    weights: [f64; 2],
    rate: Rate,
    sampler: Sampler,
    now: u64,
    missed: Missed,
    chosen: Option<(u64, usize)>,
}

/// The learning rate, with the authors' names.
struct Rate {
    learning_rate: f64,
    reset: f64,
    current: f64,
    previous: f64,
    hits: u64,
    hit_rate: f64,
    zero_count: u32,
    nega_count: u32,
}

fn round3(value: f64) -> f64 {
    libm::rint(value * 1000.0) / 1000.0
}

impl Rate {
    fn new(m: usize) -> Rate {
        let rate = libm::sqrt(2.0 * std::f64::consts::LN_2 / m as f64);
        Rate {
            learning_rate: rate,
            reset: rate.clamp(0.001, 1.0),
            current: rate,
            previous: 0.0,
            hits: 0,
            hit_rate: 0.0,
            zero_count: 0,
            nega_count: 0,
        }
    }

    fn end_of_period(&mut self, m: usize, sampler: &mut Sampler) {
        let hit_rate = round3(self.hits as f64 / m as f64);
        let difference = round3(hit_rate - self.hit_rate);
        let delta_rate = round3(self.current) - round3(self.previous);
        let direction = delta_rate * difference;
        let step = (self.learning_rate * delta_rate).abs();
        if direction != 0.0 {
            self.learning_rate = match direction > 0.0 {
                true => (self.learning_rate + step).min(1.0),
                false => (self.learning_rate - step).max(0.001),
            };
            self.nega_count = 0;
            self.zero_count = 0;
        } else if difference <= 0.0 {
            let fell = difference < 0.0;
            if fell || hit_rate <= 0.0 {
                self.zero_count += 1;
            }
            if fell {
                self.nega_count += 1;
            }
            if self.zero_count >= 10 {
                self.learning_rate = self.reset;
                self.zero_count = 0;
            } else if fell && self.nega_count >= 10 {
                self.learning_rate = self.reset;
                self.nega_count = 0;
            } else if fell {
                self.random_direction(sampler);
            }
        }
        self.previous = self.current;
        self.current = self.learning_rate;
        self.hit_rate = hit_rate;
        self.hits = 0;
    }

    fn random_direction(&mut self, sampler: &mut Sampler) {
        self.learning_rate = match self.learning_rate {
            rate if rate >= 1.0 => 0.9,
            rate if rate <= 0.001 => 0.005,
            rate if sampler.happens(0.5) => (rate * 1.25).min(1.0),
            rate => (rate * 0.75).max(0.001),
        };
    }
}

fn take(list: &mut Vec<u64>, page: u64) -> bool {
    let at = list.iter().position(|it| *it == page);
    if let Some(at) = at {
        list.remove(at);
    }
    at.is_some()
}

impl Cacheus {
    pub(crate) fn new(m: usize) -> Cacheus {
        let q_limit = ((0.01 * m as f64 + 0.5) as usize).max(1);
        Cacheus {
            m,
            pages: BTreeMap::new(),
            s: Vec::new(),
            q: Vec::new(),
            s_limit: m - q_limit,
            histories: [Vec::new(), Vec::new()],
            weights: [0.5, 0.5],
            rate: Rate::new(m),
            sampler: Sampler::new(),
            now: 0,
            missed: Missed::ToS,
            chosen: None,
        }
    }

    fn begin(&mut self) {
        self.now += 1;
        if self.now.is_multiple_of(self.m as u64) {
            self.rate.end_of_period(self.m, &mut self.sampler);
        }
    }

    fn demoted(&self) -> usize {
        self.pages.values().filter(|page| page.demoted).count()
    }

    fn remembered_new(&self) -> usize {
        self.histories[0].iter().filter(|it| it.new).count()
    }

    fn demote(&mut self) {
        if self.s.is_empty() {
            return;
        }
        let page = self.s.remove(0);
        self.pages.get_mut(&page).expect("a resident page").demoted = true;
        self.q.push(page);
    }

    fn limit_s(&mut self) {
        while self.s.len() >= self.s_limit && !self.s.is_empty() {
            self.demote();
        }
    }
}

fn step(count: usize, divisor: usize) -> usize {
    ((count as f64 / divisor.max(1) as f64 + 0.5) as usize).max(1)
}

impl Policy for Cacheus {
    fn hit(&mut self, page: u64, _write: bool) {
        self.begin();
        self.rate.hits += 1;
        let state = self.pages.get_mut(&page).expect("a resident page");
        state.references += 1;
        state.last = self.now;
        if take(&mut self.s, page) {
            self.s.push(page);
            return;
        }
        if self.pages[&page].demoted {
            let step = step(self.remembered_new(), self.demoted());
            self.s_limit = (self.s_limit + step).min(self.m - 1);
            self.pages.get_mut(&page).expect("a resident page").demoted = false;
        }
        take(&mut self.q, page);
        if self.s.len() >= self.s_limit {
            self.demote();
        }
        self.s.push(page);
    }

    fn miss(&mut self, page: u64, _write: bool) {
        self.begin();
        for expert in 0..2 {
            let history = &mut self.histories[expert];
            let Some(at) = history.iter().position(|it| it.page == page) else {
                continue;
            };
            let remembered = history.remove(at);
            if expert == 0 && remembered.new {
                let step = step(self.demoted(), self.remembered_new());
                let q_limit = (self.m - self.s_limit + step).min((self.m - 1).max(1));
                self.s_limit = self.m - q_limit;
            }
            let factor = libm::exp(-self.rate.learning_rate);
            reweigh(&mut self.weights, expert, factor);
            self.missed = Missed::Returned(remembered.references);
            return;
        }
        let q_limit = self.m - self.s_limit;
        self.missed = if self.s.len() < self.s_limit && self.q.is_empty() {
            Missed::ToS
        } else if self.pages.len() < self.m && self.q.len() < q_limit {
            Missed::ToQ
        } else {
            Missed::NewToQ
        };
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let evictable = |page: &&u64| !pinned.contains(page);
        let lru = self.q.iter().find(evictable);
        let lru = *lru.or_else(|| self.s.iter().find(evictable)).expect("an unpinned page");
        let lfu = self.pages.iter().filter(|(page, _)| !pinned.contains(page));
        let lfu = lfu.min_by_key(|(_, state)| (state.references, u64::MAX - state.last));
        let lfu = *lfu.expect("an unpinned page").0;
        let expert = usize::from(!self.sampler.happens(self.weights[0]));
        let victim = [lru, lfu][expert];
        self.chosen = (lru != lfu).then_some((victim, expert));
        victim
    }

    fn admit(&mut self, page: u64, _write: bool) {
        let (references, new) = match self.missed {
            Missed::Returned(references) => (references, false),
            Missed::NewToQ => (1, true),
            Missed::ToS | Missed::ToQ => (1, false),
        };
        let state = Page { references, last: self.now, demoted: false, new };
        self.pages.insert(page, state);
        match self.missed {
            Missed::ToS => self.s.push(page),
            Missed::ToQ => self.q.push(page),
            Missed::NewToQ => {
                self.q.push(page);
                self.limit_s();
            }
            Missed::Returned(_) => {
                self.s.push(page);
                self.limit_s();
            }
        }
    }

    fn evict(&mut self, page: u64) {
        let state = self.pages.remove(&page).expect("a resident page");
        if !take(&mut self.q, page) {
            take(&mut self.s, page);
        }
        let Some((_, expert)) = self.chosen.take().filter(|(chosen, _)| *chosen == page) else {
            return;
        };
        let most = self.m / 2;
        let history = &mut self.histories[expert];
        if most == 0 {
            return;
        }
        if history.len() == most {
            history.remove(0);
        }
        history.push(Remembered { page, references: state.references, new: state.new });
    }
}

#[cfg(test)]
mod tests {
    use super::{Cacheus, Rate};
    use crate::sampler::Sampler;

    #[test]
    fn a_hundredth_of_the_frames_is_for_the_queue_at_first() {
        let s_limits = [1, 2, 149, 150, 250].map(|m| Cacheus::new(m).s_limit);
        assert_eq!(s_limits, [0, 1, 148, 148, 247]);
    }

    /// The rate was raised from 0, and the hit ratio rises: the rate grows by 0.118 of itself. Then the
    /// hit ratio falls while the rate grew: it shrinks by 0.014 of itself.
    #[test]
    fn the_learning_rate_follows_the_hit_ratio() {
        let mut sampler = Sampler::new();
        let mut rate = Rate::new(100);
        let first = rate.learning_rate;
        assert!((first - 0.117_741).abs() < 1e-6);
        rate.hits = 50;
        rate.end_of_period(100, &mut sampler);
        let second = rate.learning_rate;
        assert!((second - first * 1.118).abs() < 1e-12);
        rate.hits = 40;
        rate.end_of_period(100, &mut sampler);
        assert!((rate.learning_rate - second * (1.0 - 0.014)).abs() < 1e-12);
    }
}
