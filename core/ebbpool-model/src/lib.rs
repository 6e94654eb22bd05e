//! Slow, simple models of Ebbpool's replacement policies, to test the fast ones against.
//!
//! Each model is written from `docs/generated/policies.md` alone and shares nothing with the fast implementations
//! that are checked against it: pages instead of frames, plain vectors, positions found by
//! searching, everything recomputed from its definition. There is one file per policy, to be
//! compared with the policy's paragraph line by line. `buffer.rs` has the part that every policy
//! shares (filling the buffer first, the order of a miss, write clustering).
//!
//! [`workload`](mod@workload) makes traces on which different policies behave differently;
//! [`count`] is an independent simulator, which counts the fields of `docs/generated/results.md`.

use std::collections::{BTreeMap, BTreeSet};

mod buffer;
mod clusters;
mod counts;
mod list;
mod policies;
mod pools;
mod sampler;
mod spec;
mod two_stack;
pub mod workload;

#[cfg(test)]
mod tests;

pub use counts::{ModelCounts, ModelTrace, count, count_with_columns, foresee};

/// One page read, page write or eviction.
///
/// The events of a miss are `Write(victim)` if the victim is dirty, `Write(other)` for each page
/// written together with it, `Evict(victim)`, `Read(page)`. If other pages are evicted with the
/// victim, their `Write` and `Evict` follow its own; with page padding all `Pad` are first, then
/// all `Write`, then all `Evict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelEvent {
    /// The page was missing and is read.
    Read(u64),
    /// The page is not resident, and is read because its block is about to be written whole.
    Pad(u64),
    /// The page is written: it is dirty and about to be evicted, or its block is written whole.
    Write(u64),
    /// The page is evicted.
    Evict(u64),
}

/// The future of the page about to be referenced, besides its next reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct FutureUse {
    /// The position of the current reference.
    pub position: u64,
    /// The position of the page's next write; the length of the trace if there is none and pages
    /// may stay dirty at the end.
    pub write: Option<u64>,
    /// The number of references to the page after `position`, up to and including `write`.
    pub references_to_write: u64,
}

/// A buffer of some number of frames under one policy, at page level.
pub trait Model {
    /// One reference. `next_use` is the position in the trace of the next reference to `page`,
    /// `None` if there is none; only belady uses it.
    ///
    /// If a victim is needed and every resident page is pinned, there is no event and no admission;
    /// the policy learns of the miss nevertheless.
    fn reference(&mut self, page: u64, write: bool, next_use: Option<u64>, pinned: &BTreeSet<u64>) -> Vec<ModelEvent>;

    /// The time of the next reference in µs, and four times the number of the ring through which it is made plus the kind
    /// of that ring; passed before `background` and `reference` where they are known. A number and kind of 0 is no ring.
    fn request(&mut self, time_us: u64, bypass: u32);

    /// The pages that background processes of the server write before the next reference, in order, and whether a
    /// checkpoint or commit writes them. They become clean. For other policies it is never called.
    fn background(&mut self) -> Vec<(u64, bool)>;

    /// The future that the offline policies besides belady use, passed before `reference`.
    fn foresee(&mut self, future: FutureUse);

    /// For price-guided, passed once: the price of a frame from the beginning to each position of
    /// the trace, the end included.
    fn prices(&mut self, prices: &[f64]);

    /// For informed, passed once: the probabilities that a reference is to a page, and that it writes the page; none
    /// for other pages.
    fn probabilities(&mut self, probabilities: &BTreeMap<u64, (f64, f64)>);

    /// The page, which is resident and dirty, was written back and stays resident.
    fn clean(&mut self, page: u64);

    /// The page ends. If it is resident, it leaves unwritten; a later reference is to a new page of the same number.
    fn end(&mut self, page: u64);

    /// The erase block that holds the page, which is resident, has been erased `erases` times; 0
    /// from the page's admission until the first call.
    fn erases(&mut self, page: u64, erases: u32);

    /// The class of the page about to be referenced, passed before `reference` where classes are known. The class of a page
    /// is 0 without a call.
    fn class(&mut self, class: u32);

    /// A page write now costs `asymmetry` page reads.
    fn costs(&mut self, asymmetry: f64);

    /// The resident pages and whether they are dirty, in ascending page order.
    fn resident(&self) -> Vec<(u64, bool)>;

    /// The target number of clean pages: Mc of fd-static and fd-buffer, tau of casa.
    fn target(&self) -> Option<f64>;

    /// fd-buffer: Pc, Pd and Pdw at the Mc that the advisor's last run chose.
    fn estimates(&self) -> Option<[f64; 3]>;
}

/// The model of the policy that `spec` names, such as `cfdc:window=0.5,cluster=64`.
///
/// # Panics
///
/// If `spec` is not a policy with its own parameters, or `frames` is 0: this is a test tool.
pub fn model(spec: &str, frames: usize) -> Box<dyn Model> {
    assert!(frames > 0, "a buffer needs a frame");
    let mut spec = spec::Spec::parse(spec);
    let model = policies::build(&mut spec, frames);
    spec.finish();
    model
}
