//! A slow simulator that counts reads, write-backs and the pages dirty at the end from the trace alone (`docs/generated/results.md`).

use std::collections::{BTreeMap, BTreeSet};

use crate::{FutureUse, Model, ModelEvent, model};

/// The counts of one trace under one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCounts {
    /// References after the warm-up.
    pub references: u64,
    /// References to resident pages.
    pub hits: u64,
    /// References to other pages.
    pub misses: u64,
    /// Pages read: one for each miss, unless the reference writes all of the page.
    pub reads: u64,
    /// Dirty pages that ended, and so were never written.
    pub trimmed: u64,
    /// Pages read only because their block was written whole.
    pub padding_reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Pages dirty in the buffer at the end.
    pub dirty_left: u64,
    /// Pages dirty in the buffer when the counting began, that did not end before they were written.
    pub dirty_before: u64,
    /// How often the written pages' cluster changes, the first write counting 1.
    pub cluster_switches: u64,
    /// `cluster_switches` over the switches of the references; `None` without references.
    pub cluster_switch_factor: Option<f64>,
    /// Different pages in the whole trace, warm-up included.
    pub distinct_pages: u64,
    /// Pages that the server's background writer wrote, also those of `dirty_before`.
    pub background_writes: u64,
    /// Pages that checkpoints or commits wrote, also those of `dirty_before`.
    pub checkpoint_writes: u64,
}

impl ModelCounts {
    /// (reads + writes * R) / references.
    pub fn cost(&self, asymmetry: f64) -> f64 {
        (self.reads as f64 + self.writes as f64 * asymmetry) / self.references as f64
    }
}

/// The position of the next reference to the same page, for each reference.
pub(crate) fn next_uses(trace: &[(u64, bool)], trims: &[(usize, u64, u64)]) -> Vec<Option<u64>> {
    let mut next_uses = vec![None; trace.len()];
    let mut next_by_page: BTreeMap<u64, u64> = BTreeMap::new();
    for (position, (page, _)) in trace.iter().enumerate().rev() {
        next_uses[position] = next_by_page.insert(*page, position as u64);
        for (_, first, last) in trims.iter().filter(|trim| trim.0 == position) {
            next_by_page.retain(|page, _| page < first || page > last);
        }
    }
    next_uses
}

/// The future at each reference, where pages dirty at the end are written (`at_end_flush`) or not.
pub fn foresee(trace: &[(u64, bool)], at_end_flush: bool) -> Vec<FutureUse> {
    foresee_trims(trace, &[], at_end_flush)
}

/// The same for a trace with trims: up to the end of a page no write of it is due.
fn foresee_trims(trace: &[(u64, bool)], trims: &[(usize, u64, u64)], at_end_flush: bool) -> Vec<FutureUse> {
    let end = (!at_end_flush).then_some(trace.len() as u64);
    // For each page the first write from here on, and the number of references up to it.
    let mut next_writes: BTreeMap<u64, (Option<u64>, u64)> = BTreeMap::new();
    let mut future = vec![FutureUse::default(); trace.len()];
    let ended_at = |at: usize| {
        let within =
            move |page: u64| trims.iter().any(|(position, first, last)| *position == at && (*first..=*last).contains(&page));
        trace.iter().map(|(page, _)| *page).filter(move |page| within(*page))
    };
    next_writes.extend(ended_at(trace.len()).map(|page| (page, (Some(trace.len() as u64), 0))));
    for (position, (page, write)) in trace.iter().enumerate().rev() {
        let position = position as u64;
        let (next_write, references) = next_writes.get(page).copied().unwrap_or((end, 0));
        future[position as usize] = FutureUse { position, write: next_write, references_to_write: references };
        let from_here = if *write { (Some(position), 1) } else { (next_write, references + 1) };
        next_writes.insert(*page, from_here);
        next_writes.extend(ended_at(position as usize).map(|page| (page, (Some(position), 0))));
    }
    future
}

/// The number of positions in the sequence at which the cluster differs from the one before; the
/// first position counts.
fn switches(pages: &[u64], cluster_size: u64) -> u64 {
    let mut switches = 0;
    for position in 0..pages.len() {
        if position == 0 || pages[position] / cluster_size != pages[position - 1] / cluster_size {
            switches += 1;
        }
    }
    switches
}

/// The dirty pages, in ascending order.
fn dirty_pages(model: &dyn Model) -> Vec<u64> {
    let mut dirty = Vec::new();
    for (page, is_dirty) in model.resident() {
        if is_dirty {
            dirty.push(page);
        }
    }
    dirty
}

/// Runs `trace` (pages, and whether they are written) through the model of `spec`.
///
/// The first `warmup` references count nothing. With `at_end_flush` the pages that are dirty at
/// the end are written in ascending order and counted, and none is left; as many writes as pages were dirty after the
/// warm-up are not counted.
pub fn count(
    spec: &str,
    frames: usize,
    trace: &[(u64, bool)],
    asymmetry: f64,
    warmup: usize,
    at_end_flush: bool,
    cluster_size: u64,
) -> ModelCounts {
    let options = (warmup, at_end_flush, cluster_size);
    let trace = ModelTrace { references: trace, ..ModelTrace::default() };
    count_with_columns(spec, frames, trace, asymmetry, options)
}

/// The columns of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelTrace<'a> {
    /// Pages, and whether they are written.
    pub references: &'a [(u64, bool)],
    /// The class of each reference's page; empty if there are none. A page has the class of its first reference.
    pub classes: &'a [u32],
    /// The time of each reference in µs, and the number of its ring; empty if there are none.
    pub requests: &'a [(u64, u32)],
    /// The positions before which a checkpoint writes all dirty pages, ascending; none for a server with its own.
    pub checkpoints: &'a [usize],
    /// True where a reference writes all of its page; empty if none does.
    pub whole: &'a [bool],
    /// The positions before which pages end, and the first and last of these pages. They end before a checkpoint at the same
    /// position.
    pub trims: &'a [(usize, u64, u64)],
}

/// Runs a trace with classes, times and checkpoints through the model of `spec`. The options are the warm-up in references,
/// whether dirty pages are written at the end, and the pages of a cluster.
pub fn count_with_columns(
    spec: &str,
    frames: usize,
    columns: ModelTrace,
    asymmetry: f64,
    (warmup, at_end_flush, cluster_size): (usize, bool, u64),
) -> ModelCounts {
    let ModelTrace { references: trace, classes, requests, checkpoints, whole, trims } = columns;
    let mut class_of: BTreeMap<u64, u32> = BTreeMap::new();
    for ((page, _), class) in trace.iter().zip(classes) {
        class_of.entry(*page).or_insert(*class);
    }
    let mut model = model(spec, frames);
    model.costs(asymmetry);
    let no_pins = BTreeSet::new();
    let (mut hits, mut misses, mut reads, mut padding_reads) = (0, 0, 0, 0);
    let mut referenced = Vec::new();
    let mut written = Vec::new();
    let (mut background_writes, mut checkpoint_writes) = (0, 0);
    let next_uses = next_uses(trace, trims);
    let future = if spec.contains("cost-belady") { foresee_trims(trace, trims, at_end_flush) } else { Vec::new() };
    // Dirty since before the counting began.
    let mut owed: BTreeSet<u64> = BTreeSet::new();
    let (mut dirty_before, mut trimmed) = (0, 0);
    let mut end_pages = |model: &mut dyn Model, owed: &mut BTreeSet<u64>, dirty_before: &mut usize, position: usize| {
        for (_, first, last) in trims.iter().filter(|trim| trim.0 == position) {
            for (page, is_dirty) in model.resident() {
                if (*first..=*last).contains(&page) {
                    model.end(page);
                    trimmed += u64::from(is_dirty && position >= warmup);
                    if owed.remove(&page) {
                        *dirty_before -= 1;
                    }
                }
            }
        }
    };
    for (position, ((page, write), next_use)) in trace.iter().zip(next_uses).enumerate() {
        if position == warmup {
            owed = dirty_pages(model.as_ref()).into_iter().collect();
            dirty_before = owed.len();
        }
        end_pages(model.as_mut(), &mut owed, &mut dirty_before, position);
        if checkpoints.contains(&position) {
            for dirty in dirty_pages(model.as_ref()) {
                model.clean(dirty);
                owed.remove(&dirty);
                if position >= warmup {
                    written.push(dirty);
                    checkpoint_writes += 1;
                }
            }
        }
        if let Some(future) = future.get(position) {
            model.foresee(*future);
        }
        if let Some(class) = class_of.get(page) {
            model.class(*class);
        }
        if let Some((time_us, bypass)) = requests.get(position) {
            model.request(*time_us, *bypass);
        }
        let background = model.background();
        let events = model.reference(*page, *write, next_use, &no_pins);
        if position < warmup {
            continue;
        }
        for (page, by_checkpoint) in background {
            owed.remove(&page);
            written.push(page);
            match by_checkpoint {
                true => checkpoint_writes += 1,
                false => background_writes += 1,
            }
        }
        referenced.push(*page);
        if events.contains(&ModelEvent::Read(*page)) {
            misses += 1;
        } else {
            hits += 1;
        }
        for event in events {
            match event {
                ModelEvent::Read(_) if whole.get(position) == Some(&true) => {}
                ModelEvent::Read(_) => reads += 1,
                ModelEvent::Pad(_) => padding_reads += 1,
                ModelEvent::Write(page) => {
                    owed.remove(&page);
                    written.push(page);
                }
                ModelEvent::Evict(_) => {}
            }
        }
    }
    end_pages(model.as_mut(), &mut owed, &mut dirty_before, trace.len());
    let mut dirty = dirty_pages(model.as_ref());
    let mut not_counted = 0;
    if at_end_flush {
        written.append(&mut dirty);
        not_counted = dirty_before;
    }
    let distinct_pages: BTreeSet<u64> = trace.iter().map(|(page, _)| *page).collect();
    let cluster_switches = switches(&written, cluster_size);
    let reference_switches = switches(&referenced, cluster_size);
    ModelCounts {
        references: referenced.len() as u64,
        hits,
        misses,
        reads,
        trimmed,
        padding_reads,
        writes: (written.len() - not_counted) as u64,
        dirty_left: dirty.len() as u64,
        dirty_before: dirty_before as u64,
        cluster_switches,
        cluster_switch_factor: (reference_switches > 0).then(|| cluster_switches as f64 / reference_switches as f64),
        distinct_pages: distinct_pages.len() as u64,
        background_writes,
        checkpoint_writes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_the_definitions() {
        // lru, 2 frames: R1 W2 W3(1) R20(w2) R3 W40(20) R41(w3); in the end 40 is dirty.
        let trace = [(1, false), (2, true), (3, true), (20, false), (3, false), (40, true), (41, false)];
        let counts = count("lru", 2, &trace, 2.0, 0, false, 16);
        assert_eq!(
            counts,
            ModelCounts {
                references: 7,
                hits: 1,
                misses: 6,
                reads: 6,
                trimmed: 0,
                padding_reads: 0,
                writes: 2,
                dirty_left: 1,
                dirty_before: 0,
                // 2 and 3 are of one cluster; the clusters of the references are 0 0 0 1 0 2 2.
                cluster_switches: 1,
                cluster_switch_factor: Some(1.0 / 4.0),
                distinct_pages: 6,
                background_writes: 0,
                checkpoint_writes: 0,
            }
        );
        assert_eq!(counts.cost(2.0), 10.0 / 7.0);
        let flushed = count("lru", 2, &trace, 2.0, 0, true, 16);
        assert_eq!((flushed.writes, flushed.dirty_left), (3, 0));
        assert_eq!(flushed.cluster_switches, 2);
        // After 4 references: R3 hits, W40 and R41 miss, 3 is written: the first counted write.
        let warm = count("lru", 2, &trace, 2.0, 4, false, 16);
        assert_eq!((warm.references, warm.hits, warm.misses), (3, 1, 2));
        assert_eq!((warm.reads, warm.writes, warm.cluster_switches), (2, 1, 1));
        // The clusters of the references are 0 2 2.
        assert_eq!(warm.cluster_switch_factor, Some(0.5));
        assert_eq!(warm.distinct_pages, 6);
        // 3 was dirty after the warm-up, and is written after it.
        let warm = count("lru", 2, &trace, 2.0, 4, true, 16);
        assert_eq!((warm.writes, warm.dirty_left, warm.dirty_before), (1, 0, 1));
        // 2 and 3 are dirty before the third reference to 3, and 40 after it.
        let checkpoints = |checkpoints, warmup, flush| {
            let trace = ModelTrace { references: &trace, checkpoints, ..ModelTrace::default() };
            let counts = count_with_columns("lru", 2, trace, 2.0, (warmup, flush, 16));
            (counts.writes, counts.checkpoint_writes, counts.dirty_left)
        };
        assert_eq!(checkpoints(&[3, 4], 0, false), (2, 2, 1));
        assert_eq!(checkpoints(&[6], 0, false), (3, 2, 0));
        assert_eq!(checkpoints(&[6], 6, true), (0, 2, 0));
        assert_eq!(checkpoints(&[6], 7, false), (0, 0, 0));
        // 2 and 3 end while they are dirty, and 3 is missed by a write of all of it.
        let ending = |trims, warmup| {
            let whole = [false, false, true];
            let trace = ModelTrace { references: &trace, whole: &whole, trims, ..ModelTrace::default() };
            let counts = count_with_columns("lru", 2, trace, 2.0, (warmup, true, 16));
            (counts.reads, counts.misses, counts.writes, counts.trimmed, counts.dirty_before)
        };
        assert_eq!(ending(&[], 0), (5, 6, 3, 0, 0));
        assert_eq!(ending(&[(3, 2, 3)], 0), (6, 7, 1, 2, 0));
        assert_eq!(ending(&[(4, 0, 9)], 4), (3, 3, 1, 1, 0));
        assert_eq!(ending(&[(7, 40, 40)], 0), (5, 6, 2, 1, 0));
        // All warm-up.
        let nothing = count("lru", 2, &trace, 2.0, 100, false, 16);
        assert_eq!((nothing.references, nothing.reads, nothing.dirty_left), (0, 0, 1));
        assert_eq!(nothing.cluster_switch_factor, None);
    }
}
