//! The traces of a comparison: files, and generators with several seeds.

use std::collections::HashMap;
use std::ops::Range;

use ebbpool_trace::{ReadOptions, Source, TraceError};

/// The traces of a comparison. Those that a generator makes from several seeds stand beside each other.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TraceSet {
    /// The traces.
    pub sources: Vec<Source>,
    /// What the caller named, each with its traces.
    pub groups: Vec<TraceGroup>,
}

/// The traces that a name stands for: more than one for a generator with several seeds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TraceGroup {
    /// The trace as the caller named it.
    pub name: String,
    /// The indices of its traces.
    pub members: Range<usize>,
    /// The index of an earlier group with the same references, of which this one is no further evidence.
    pub repeats: Option<usize>,
}

impl TraceSet {
    /// Traces that stand for themselves.
    ///
    /// # Errors
    ///
    /// As [`Source::content_key`]: of several traces each file is read.
    pub fn new(sources: Vec<Source>) -> Result<Self, TraceError> {
        let group =
            |(at, source): (usize, &Source)| TraceGroup { name: source.label().into(), members: at..at + 1, repeats: None };
        TraceSet { groups: sources.iter().enumerate().map(group).collect(), sources }.with_repeats()
    }

    /// The named traces, with this many seeds of each generator among them.
    ///
    /// # Errors
    ///
    /// As [`Source::seeds`] and [`Source::content_key`], and [`TraceError::SeedTwice`] if generators have some of their
    /// seeds in common.
    pub fn with_seeds(names: &[String], options: &ReadOptions, seeds: u64) -> Result<Self, TraceError> {
        let mut set = TraceSet { sources: Vec::new(), groups: Vec::new() };
        for name in names {
            let start = set.sources.len();
            set.sources.extend(Source::seeds(name, options, seeds)?);
            set.groups.push(TraceGroup { name: name.clone(), members: start..set.sources.len(), repeats: None });
        }
        set.with_repeats()
    }

    /// True if no trace has more than one seed.
    pub fn is_of_single_traces(&self) -> bool {
        self.groups.iter().all(|group| group.members.len() == 1)
    }

    /// Finds the groups that have the references of an earlier one.
    fn with_repeats(mut self) -> Result<Self, TraceError> {
        if self.sources.len() < 2 {
            return Ok(self);
        }
        let mut seen: HashMap<[u8; 32], usize> = HashMap::new();
        for at in 0..self.groups.len() {
            let members = self.groups[at].members.clone();
            let mut earlier = Vec::new();
            for member in members.clone() {
                match self.sources[member].content_key() {
                    Ok(key) => {
                        let first = *seen.entry(key).or_insert(at);
                        earlier.extend((first < at).then_some((member, first)));
                    }
                    // References of a caller that have no key may be any.
                    Err(TraceError::NoKey { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            let Some(&(member, first)) = earlier.first() else {
                continue;
            };
            if earlier.len() < members.len() {
                return Err(TraceError::SeedTwice {
                    trace: self.sources[member].label().into(),
                    first: self.groups[first].name.clone(),
                    second: self.groups[at].name.clone(),
                });
            }
            self.groups[at].repeats = Some(first);
        }
        Ok(self)
    }
}
