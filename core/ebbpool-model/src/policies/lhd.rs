//! lhd (Beckmann, Chen and Cidon, NSDI 2018), by the authors' code, for pages of one size.

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::sampler::{Sampler, Slots};

const AGES: usize = 20_000;
const CLASSES: usize = 16;

struct Page {
    referenced: u64,
    /// Its ages at its last hit and at the one before it; at first 0 and 20,000.
    ages: [usize; 2],
    explorer: bool,
}

/// Counts of hits and evictions, and densities, by age up to the oldest that was counted; at older ages
/// all are 0. Counts and densities are stored in single precision and computed in double.
#[derive(Default)]
struct Class {
    hits: Vec<f32>,
    evictions: Vec<f32>,
    densities: Vec<f32>,
}

impl Class {
    fn count(&mut self, age: usize, hit: bool) {
        let ages = self.hits.len().max(age + 1);
        self.hits.resize(ages, 0.0);
        self.evictions.resize(ages, 0.0);
        let counts = if hit { &mut self.hits } else { &mut self.evictions };
        counts[age] += 1.0;
    }
}

pub(crate) struct Lhd {
    pages: Slots<Page>,
    classes: Vec<Class>,
    unit: u64,
    sampler: Sampler,
    sample: usize,
    now: u64,
    interval: u64,
    reconfigurations: u64,
    explorers_left: u64,
    recent: [Option<u64>; 8],
    admissions_noted: usize,
    victims_density: f64,
}

fn class(page: &Page) -> usize {
    let sum = page.ages[0] + page.ages[1];
    if sum == 0 {
        return CLASSES - 1;
    }
    let below = |doublings: &usize| sum << doublings < AGES;
    (0..CLASSES - 1).take_while(below).count()
}

impl Lhd {
    pub(crate) fn new(m: usize, sample: u64, interval: u64) -> Lhd {
        let mut unit = 2;
        while unit < m.div_ceil(AGES / 100) as u64 {
            unit *= 2;
        }
        Lhd {
            pages: Slots::new(m),
            classes: (0..CLASSES).map(|_| Class::default()).collect(),
            unit,
            sampler: Sampler::new(),
            sample: sample as usize,
            now: 0,
            interval: (interval * m as u64).min(1 << 20),
            reconfigurations: 0,
            explorers_left: m as u64 / 100,
            recent: [None; 8],
            admissions_noted: 0,
            victims_density: 0.0,
        }
    }

    fn age(&self, page: &Page) -> usize {
        ((self.now - page.referenced) / self.unit).min(AGES as u64 - 1) as usize
    }

    fn density(&self, page: &Page) -> f32 {
        let age = self.age(page);
        if age == AGES - 1 {
            return f32::MIN;
        }
        let explored = if page.explorer { 1.0 } else { 0.0 };
        let class = class(page);
        let density = if self.reconfigurations == 0 {
            ((class + 1) as f64 / (age + 1) as f64) as f32
        } else {
            let computed = self.classes[class].densities.get(age);
            computed.copied().unwrap_or(0.0)
        };
        density + explored
    }

    /// The end of a reference to a resident page, whose ages are updated.
    fn end(&mut self, page: u64, admitted: bool) {
        let explore = self.sampler.below(32) == 0;
        let explorer = explore && self.explorers_left > 0 && self.reconfigurations < 50;
        self.explorers_left -= u64::from(explorer);
        let now = self.now;
        let state = self.pages.of(page);
        state.referenced = now;
        state.explorer = explorer;
        let slot = self.pages.slot_of(page);
        let density = f64::from(self.density(self.pages.at(slot).1));
        if admitted && !explore && density < self.victims_density {
            self.recent[self.admissions_noted % 8] = Some(page);
            self.admissions_noted += 1;
        }
        self.now += 1;
        if self.now.is_multiple_of(self.interval) {
            self.classes.iter_mut().for_each(reconfigure);
            self.reconfigurations += 1;
        }
    }
}

fn reconfigure(class: &mut Class) {
    for counts in [&mut class.hits, &mut class.evictions] {
        for count in counts {
            *count = (f64::from(*count) * 0.9) as f32;
        }
    }
    let (mut hits, mut events, mut lifetime) = (0.0, 0.0, 0.0);
    class.densities = vec![0.0; class.hits.len()];
    for age in (0..class.hits.len()).rev() {
        hits += f64::from(class.hits[age]);
        events += f64::from(class.hits[age]) + f64::from(class.evictions[age]);
        lifetime += events;
        class.densities[age] = if events > 1e-5 { (hits / lifetime) as f32 } else { 0.0 };
    }
}

impl Policy for Lhd {
    fn hit(&mut self, page: u64, _write: bool) {
        let slot = self.pages.slot_of(page);
        let state = self.pages.at(slot).1;
        let (age, class, explorer) = (self.age(state), class(state), state.explorer);
        self.classes[class].count(age, true);
        self.explorers_left += u64::from(explorer);
        let state = self.pages.of(page);
        state.ages = [age, state.ages[0]];
        self.end(page, false);
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        let size = if self.reconfigurations > 50 { self.sample } else { self.sample.min(8) };
        let evictable = self.pages.evictable(pinned);
        let mut slots = self.sampler.slots(&evictable, size);
        let recent = self.recent.iter().flatten().map(|page| self.pages.slot_of(*page));
        slots.extend(recent.filter(|slot| evictable[*slot]));
        let density = |slot: usize| self.density(self.pages.at(slot).1);
        let least = slots.into_iter().min_by(|a, b| density(*a).total_cmp(&density(*b)));
        let least = least.expect("an unpinned page");
        self.victims_density = 0.9 * self.victims_density + (1.0 - 0.9) * f64::from(density(least));
        self.pages.at(least).0
    }

    fn admit(&mut self, page: u64, _write: bool) {
        let state = Page { referenced: self.now, ages: [0, AGES], explorer: false };
        self.pages.admit(page, state);
        self.end(page, true);
    }

    fn evict(&mut self, page: u64) {
        let slot = self.pages.slot_of(page);
        let state = self.pages.at(slot).1;
        let (age, class) = (self.age(state), class(state));
        self.classes[class].count(age, false);
        self.explorers_left += u64::from(state.explorer);
        self.pages.remove(page);
        for recent in &mut self.recent {
            if *recent == Some(page) {
                *recent = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, reconfigure};

    /// Of ten pages six are hit at age 2, and four are evicted at age 5. So a page of age 3 is not hit;
    /// one of age 0 is hit with probability 0.6, and takes six ages of three and four of six.
    #[test]
    fn density_is_hits_by_time() {
        let mut class = Class::default();
        (0..6).for_each(|_| class.count(2, true));
        (0..4).for_each(|_| class.count(5, false));
        reconfigure(&mut class);
        assert_eq!(class.densities[3], 0.0);
        let expected = 6.0 / (6.0 * 3.0 + 4.0 * 6.0);
        assert!((f64::from(class.densities[0]) - expected).abs() < 1e-6);
    }
}
