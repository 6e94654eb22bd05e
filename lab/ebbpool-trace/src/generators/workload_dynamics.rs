//! `workload-dynamics`: the pages of another trace, with a share of writes that
//! changes from epoch to epoch.
//!
//! The two models of the FD-Buffer papers, and a share that stays. In epoch i, counted from 0, the share is
//!
//! - `constant`: w0, which gives a trace the share of writes of another one
//! - `wm1`: w0 (1 + i %), at most 1
//! - `wm2`: w0 in even epochs, in odd ones 0.95 w0 as the papers print it
//!   (`reading=literal`) or 0.95 (`reading=absolute`), because the papers' text
//!   speaks of writes that become dominant periodically
//!
//! Unless w0 is given, it is the base's own share of writes in its first epoch, as in the
//! papers. A base is therefore never read ahead by more than an epoch.
//!
//! An epoch changes as few of the base's reads and writes as possible: if there are too
//! few writes, random reads become writes; if there are too many, random writes become
//! reads. The number of writes is exact, rounded to the nearest integer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebbpool_cost::spec::REQUIRED;

use super::arguments::{ArgumentKind, Arguments, GeneratorParameter, SEED, whole};
use super::random::Random;
use super::{Generator, GeneratorEntry, GeneratorInfo};
use crate::error::TraceError;
use crate::formats::{Decode, OpenedTrace};
use crate::reader::Reader;
use crate::reference::{Batch, Metadata, OptionalColumns};
use crate::source::Source;

pub(super) static ENTRY: GeneratorEntry = GeneratorEntry {
    info: GeneratorInfo {
        name: "workload-dynamics",
        summary: "the pages of another trace, with a share of writes that changes every epoch",
        knows_probabilities: false,
        parameters: &[
            GeneratorParameter {
                name: "base",
                kind: ArgumentKind::Trace,
                default: REQUIRED,
                about: "the trace whose pages are used",
            },
            GeneratorParameter {
                name: "model",
                kind: ArgumentKind::Word(&["wm1", "wm2", "constant"]),
                default: "wm1",
                about: "w0 grows by 1 % each epoch until all are writes, changes every other epoch, or stays",
            },
            GeneratorParameter { name: "epoch", kind: whole(1, 1 << 24), default: "5000", about: "references of an epoch" },
            GeneratorParameter {
                name: "reading",
                kind: ArgumentKind::Word(&["literal", "absolute"]),
                default: "literal",
                about: "odd epochs of wm2 write 0.95 w0, or 0.95 of all references",
            },
            GeneratorParameter {
                name: "w0",
                kind: ArgumentKind::Decimal { max: 1 },
                default: "the base's share of writes in its first epoch",
                about: "the share of writes that the model starts from",
            },
            SEED,
        ],
    },
    build,
};

#[derive(Debug, Clone, Copy)]
enum WriteModel {
    Constant,
    Growing,
    AlternatingLiteral,
    AlternatingAbsolute,
}

/// A share of writes as an exact fraction.
#[derive(Debug, Clone, Copy)]
struct Share {
    numerator: u64,
    denominator: u64,
}

struct WorkloadDynamics {
    base: Source,
    model: WriteModel,
    epoch: usize,
    w0: Option<Share>,
    seed: u64,
    /// True once a reading has left out operations of the base.
    omits_operations: Arc<AtomicBool>,
}

fn build(arguments: &Arguments) -> Result<Box<dyn Generator>, TraceError> {
    let absolute = arguments.choice("reading")? == "absolute";
    let w0 = if arguments.is_given("w0") {
        let (numerator, denominator) = arguments.decimal("w0")?.parts();
        Some(Share { numerator, denominator })
    } else {
        None
    };
    Ok(Box::new(WorkloadDynamics {
        base: arguments.trace("base")?,
        model: match arguments.choice("model")? {
            "wm1" => WriteModel::Growing,
            "constant" => WriteModel::Constant,
            _ if absolute => WriteModel::AlternatingAbsolute,
            _ => WriteModel::AlternatingLiteral,
        },
        epoch: arguments.integer("epoch")? as usize,
        w0,
        seed: arguments.integer("seed")?,
        omits_operations: Arc::default(),
    }))
}

impl Generator for WorkloadDynamics {
    fn open(&self, spec: &str) -> Result<OpenedTrace, TraceError> {
        let base = self.base.open_with(OptionalColumns::OPERATIONS)?;
        Ok(OpenedTrace {
            metadata: Metadata { name: Some(spec.to_owned()), ..base.metadata().clone() },
            references: base.references(),
            notes: base.notes().to_vec(),
            decoder: Box::new(PhaseLengths {
                base,
                model: self.model,
                length: self.epoch,
                w0: self.w0,
                random: Random::new(self.seed),
                index: 0,
                part: Batch::new(),
                epoch: Batch::new(),
                served: 0,
                omits_operations: Arc::clone(&self.omits_operations),
            }),
        })
    }

    fn base(&self) -> Option<&Source> {
        Some(&self.base)
    }

    fn late_note(&self) -> Option<&'static str> {
        let omits = self.omits_operations.load(Ordering::Relaxed);
        omits.then_some(": the trims of the base, and which of its writes replace whole pages, are left out")
    }
}

impl WriteModel {
    /// How many of the `references` of epoch `index` write, rounded to the nearest integer.
    fn writes(self, w0: Share, index: u64, references: usize) -> usize {
        let percent = match self {
            WriteModel::Constant => 100,
            WriteModel::Growing => index.saturating_add(100),
            _ if index.is_multiple_of(2) => 100,
            WriteModel::AlternatingLiteral | WriteModel::AlternatingAbsolute => 95,
        };
        let of = match self {
            WriteModel::AlternatingAbsolute if index % 2 == 1 => Share { numerator: 1, denominator: 1 },
            _ => w0,
        };
        let product = (references as u128).saturating_mul(u128::from(of.numerator)).saturating_mul(u128::from(percent));
        let whole = u128::from(of.denominator) * 100;
        let writes = product.saturating_add(whole / 2) / whole;
        usize::try_from(writes).unwrap_or(usize::MAX).min(references)
    }
}

/// Reads a base, one epoch at a time.
struct PhaseLengths {
    base: Reader,
    model: WriteModel,
    length: usize,
    w0: Option<Share>,
    random: Random,
    /// Number of the next epoch.
    index: u64,
    /// References that the base has yielded at once.
    part: Batch,
    epoch: Batch,
    served: usize,
    omits_operations: Arc<AtomicBool>,
}

impl PhaseLengths {
    /// Reads the next epoch of the base; false if there is none.
    fn advance(&mut self) -> Result<bool, TraceError> {
        self.served = 0;
        self.epoch.clear();
        while self.epoch.len() < self.length && self.base.next_batch(&mut self.part, self.length - self.epoch.len())? {
            self.epoch.append(&mut self.part);
        }
        if !self.epoch.trims.is_empty() || self.epoch.whole.contains(&true) {
            self.omits_operations.store(true, Ordering::Relaxed);
        }
        let references = self.epoch.len();
        if references == 0 {
            return Ok(false);
        }
        let own = self.epoch.writes.iter().filter(|&&write| write).count();
        let w0 = *self.w0.get_or_insert(Share { numerator: own as u64, denominator: references as u64 });
        let required = self.model.writes(w0, self.index, references);
        self.index += 1;
        // All choices of the references to change are equally likely: each candidate is
        // changed with the probability changes left / candidates left (Knuth's algorithm S).
        let from_write = required < own;
        let mut candidates = if from_write { own } else { references - own } as u64;
        let mut changes = required.abs_diff(own) as u64;
        for write in self.epoch.writes.iter_mut().filter(|write| **write == from_write) {
            if changes == 0 {
                break;
            }
            if self.random.below(candidates) < changes {
                *write = !from_write;
                changes -= 1;
            }
            candidates -= 1;
        }
        Ok(true)
    }
}

impl Decode for PhaseLengths {
    fn fill(&mut self, batch: &mut Batch, max: usize) -> Result<(), TraceError> {
        while batch.len() < max {
            if self.served == self.epoch.len() && !self.advance()? {
                break;
            }
            let end = self.epoch.len().min(self.served + max - batch.len());
            batch.pages.extend_from_slice(&self.epoch.pages[self.served..end]);
            batch.writes.extend_from_slice(&self.epoch.writes[self.served..end]);
            self.served = end;
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.base.progress()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_papers() {
        let w0 = Share { numerator: 1, denominator: 4 };
        let growing = |index| WriteModel::Growing.writes(w0, index, 10_000);
        assert_eq!(growing(0), 2_500);
        assert_eq!(growing(1), 2_525);
        assert_eq!(growing(100), 5_000);
        assert_eq!(growing(299), 9_975);
        assert_eq!(growing(300), 10_000);
        assert_eq!(growing(u64::MAX), 10_000);
        let literal = |index| WriteModel::AlternatingLiteral.writes(w0, index, 10_000);
        assert_eq!([literal(0), literal(1), literal(2)], [2_500, 2_375, 2_500]);
        let absolute = |index| WriteModel::AlternatingAbsolute.writes(w0, index, 10_000);
        assert_eq!([absolute(0), absolute(1), absolute(2)], [2_500, 9_500, 2_500]);
        let constant = |index| WriteModel::Constant.writes(w0, index, 10_000);
        assert_eq!([constant(0), constant(1), constant(u64::MAX)], [2_500; 3]);
        let none = Share { numerator: 0, denominator: 7 };
        assert_eq!(WriteModel::Growing.writes(none, u64::MAX, 5_000), 0);
    }
}
