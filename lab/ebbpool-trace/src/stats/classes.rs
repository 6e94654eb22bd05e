//! The references and pages of each class.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

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
pub(super) struct ClassUses(HashMap<u32, Uses>);

impl ClassUses {
    /// Counts a reference; `first` is true if it is the first to its page.
    pub(super) fn count(&mut self, class: u32, write: bool, first: bool) {
        let uses = self.0.entry(class).or_default();
        uses.references += 1;
        uses.writes += u64::from(write);
        uses.pages += u64::from(first);
    }

    /// The classes, those with most references first; `references` is the number of all references.
    pub(super) fn statistics(&self, references: u64) -> Vec<ClassStatistics> {
        let of = |(&class, uses): (&u32, &Uses)| ClassStatistics {
            class,
            name: None,
            pages: uses.pages,
            references: uses.references,
            writes: uses.writes,
            reference_share: uses.references as f64 / references.max(1) as f64,
        };
        let mut classes: Vec<ClassStatistics> = self.0.iter().map(of).collect();
        classes.sort_unstable_by_key(|class| (std::cmp::Reverse(class.references), class.class));
        classes
    }
}
