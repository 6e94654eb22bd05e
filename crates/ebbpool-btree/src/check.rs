//! Walking the whole database in search of anything wrong.

mod pages;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;

use crate::error::Error;
use crate::tree::{Shape, Tree};

use pages::Pages;
use walk::Walk;

/// Something wrong with a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The page.
    pub page: u64,
    /// What is wrong.
    pub what: String,
}

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What the tree is like, as far as it could be reached.
    pub shape: Shape,
    /// Pages of the storage.
    pub pages: u64,
    /// Pages in use, by the allocation maps.
    pub used: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}: {}", self.page, self.what)
    }
}

/// Walks the tree and the maps. Nobody changes anything meanwhile.
///
/// # Errors
///
/// What the pool fails with, but for pages that cannot be read or are damaged: these are findings.
pub(crate) fn check(tree: &Tree) -> Result<Report, Error> {
    // What is dirty is nowhere but in memory, and all else is to be seen as the storage has it.
    tree.pool.checkpoint()?;
    let mut pages = Pages::new(tree);
    pages.look_at_maps()?;
    pages.look_at_meta()?;
    let shape = Walk::new(&mut pages).run()?;
    pages.look_for_leaks();
    Ok(pages.into_report(shape))
}
