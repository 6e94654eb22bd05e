//! The references and pages of each class.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::reference::Batch;

/// Classes below this are found in an array, others by hashing.
const DIRECT: usize = 1 << 16;

/// The uses of one class of pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassStatistics {
    /// The number of the class; 0 is that of the pages of no known class.
    #[cfg_attr(feature = "schema", schemars(extend("x-role" = "key")))]
    pub class: u32,
    /// The name of the class, if the trace names it.
    pub name: Option<String>,
    /// Distinct pages that were of this class at their first reference.
    pub pages: u64,
    /// References to pages of the class.
    pub references: u64,
    /// References that write.
    pub writes: u64,
    /// Share of all references, 0 to 1.
    pub reference_share: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    pages: u64,
    references: u64,
    writes: u64,
}

/// Counts the uses of each class.
#[derive(Debug, Clone, Default)]
pub(super) struct ClassUses {
    /// Of the classes below [`DIRECT`].
    direct: Vec<Uses>,
    hashed: HashMap<u32, Uses>,
}

impl ClassUses {
    /// Counts references to pages with these dense numbers; those from `new` on are new.
    pub(super) fn add(&mut self, batch: &Batch, numbers: &[u32], mut new: u32) {
        for ((&class, &write), &number) in batch.classes.iter().zip(&batch.writes).zip(numbers) {
            let at = class as usize;
            if at >= self.direct.len() && at < DIRECT {
                self.direct.resize(at + 1, Uses::default());
            }
            let uses = match self.direct.get_mut(at) {
                Some(uses) => uses,
                None => self.hashed.entry(class).or_default(),
            };
            uses.references += 1;
            uses.writes += u64::from(write);
            uses.pages += u64::from(number == new);
            new += u32::from(number == new);
        }
    }

    /// The classes, those with most references first; `references` is the number of all references.
    pub(super) fn statistics(&self, references: u64) -> Vec<ClassStatistics> {
        let of = |(class, uses): (u32, &Uses)| ClassStatistics {
            class,
            name: None,
            pages: uses.pages,
            references: uses.references,
            writes: uses.writes,
            reference_share: uses.references as f64 / references.max(1) as f64,
        };
        let direct = (0..).zip(&self.direct).filter(|(_, uses)| uses.references > 0);
        let hashed = self.hashed.iter().map(|(&class, uses)| (class, uses));
        let mut classes: Vec<ClassStatistics> = direct.chain(hashed).map(of).collect();
        classes.sort_unstable_by_key(|class| (std::cmp::Reverse(class.references), class.class));
        classes
    }
}
