//! Checks the whole database for damage.

mod pages;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;

use crate::error::DatabaseError;
use crate::tree::{Tree, TreeShape};

use pages::PageCheck;
use walk::TreeWalk;

/// Something wrong with a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckFinding {
    /// The page.
    pub page: u64,
    /// What is wrong.
    pub what: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// The shape of the tree, as far as its pages could be read.
    pub shape: TreeShape,
    /// The number of pages in the storage.
    pub pages: u64,
    /// The number of pages that the allocation maps mark as in use.
    pub used: u64,
    /// What is wrong.
    pub findings: Vec<CheckFinding>,
}

impl fmt::Display for CheckFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}: {}", self.page, self.what)
    }
}

/// Walks the tree and the maps. No thread changes them meanwhile.
///
/// # Errors
///
/// Errors of the pool, except for pages that cannot be read or are damaged: these are findings.
pub(crate) fn check(tree: &Tree) -> Result<CheckReport, DatabaseError> {
    // After the checkpoint no page is dirty, so the check can read all pages from the storage.
    tree.pool.checkpoint()?;
    let mut pages = PageCheck::new(tree);
    pages.check_maps()?;
    pages.check_meta()?;
    let shape = TreeWalk::new(&mut pages).run()?;
    pages.check_leaks();
    Ok(pages.into_report(shape))
}
