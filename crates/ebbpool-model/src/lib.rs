//! Slow, obvious models of Ebbpool's replacement policies.
//!
//! Each model is written from `policies.md` alone and knows nothing of the fast implementations
//! that are checked against it: pages instead of frames, plain vectors, positions found by
//! looking, everything recomputed from its definition. One file per policy, to be held against
//! the policy's paragraph line by line. What every policy shares (filling the buffer first, the
//! order of a miss, write clustering) is in `buffer.rs` once.
//!
//! [`workload`](mod@workload) makes reference strings that tell policies apart; [`count`] is an
//! independent simulator that adds up what `design.md` says is counted.

use std::collections::BTreeSet;

mod buffer;
mod clusters;
mod counts;
mod list;
mod policies;
mod pools;
mod spec;
mod two_stack;
pub mod workload;

#[cfg(test)]
mod tests;

pub use counts::{Counts, count, foresee};

/// One page read, page write or eviction.
///
/// A miss is heard as `Write(victim)` if the victim is dirty, `Write(other)` for each page written
/// in one go with it, `Evict(victim)`, `Read(page)`. If others leave with the victim, their `Write`
/// and `Evict` follow its own; with page padding all `Pad` come first, then all `Write`, then all
/// `Evict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The page was missing and is read.
    Read(u64),
    /// The page is not resident, and is read because its block is about to be written whole.
    Pad(u64),
    /// The page is dirty and about to leave, or its block is written whole: it is written.
    Write(u64),
    /// The page leaves the buffer.
    Evict(u64),
}

/// What comes for the page about to be referenced, besides its next reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Foreseen {
    /// The position of the reference at hand.
    pub position: u64,
    /// The position of the page's next write; the length of the trace if there is none and pages
    /// may stay dirty at the end.
    pub write: Option<u64>,
    /// How often the page is referenced after `position`, up to and with `write`.
    pub references_to_write: u64,
}

/// A buffer of some number of frames under one policy, at page level.
pub trait Model {
    /// One reference. `next_use` is the position in the trace of the next reference to `page`,
    /// `None` if there is none; only belady looks at it.
    ///
    /// If a victim is needed and every resident page is pinned, nothing happens and nothing is
    /// admitted; the policy has heard of the miss all the same.
    fn reference(
        &mut self,
        page: u64,
        write: bool,
        next_use: Option<u64>,
        pinned: &BTreeSet<u64>,
    ) -> Vec<Event>;

    /// What the offline policies besides belady look at, said before `reference`.
    fn foresee(&mut self, foreseen: Foreseen);

    /// For price-guided, said once: what holding a frame from the beginning to each position of the
    /// trace costs, the end included.
    fn prices(&mut self, prices: &[f64]);

    /// The page, which is resident and dirty, was written back from outside and stays.
    fn clean(&mut self, page: u64);

    /// The erase block that holds the page, which is resident, has been erased `erases` times; 0
    /// unless told otherwise since the page came in.
    fn erases(&mut self, page: u64, erases: u32);

    /// A page write now costs `asymmetry` page reads.
    fn costs(&mut self, asymmetry: f64);

    /// The resident pages and whether they are dirty, in ascending page order.
    fn resident(&self) -> Vec<(u64, bool)>;

    /// The wanted number of clean pages: Mc of fd-static and fd-buffer, tau of casa.
    fn target(&self) -> Option<f64>;

    /// fd-buffer: Pc, Pd and Pdw at the Mc that the advisor's last run chose.
    fn estimates(&self) -> Option<[f64; 3]>;
}

/// The model of the policy that `spec` names, such as `cfdc:window=0.5,cluster=64`.
///
/// # Panics
///
/// If `spec` is not a policy with parameters it has, or `frames` is 0: this is a test tool.
pub fn model(spec: &str, frames: usize) -> Box<dyn Model> {
    assert!(frames > 0, "a buffer needs a frame");
    let mut spec = spec::Spec::parse(spec);
    let model = policies::build(&mut spec, frames);
    spec.finish();
    model
}
