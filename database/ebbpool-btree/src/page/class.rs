//! The classes of pages, which the tree passes to the pool: for policies that ask for them, and for recorded traces.

use ebbpool::policy::PageClass;

/// The names of the classes 1, 2, 3, … of a database's pages, as in
/// [`PoolOptions::on_classed_fix`](ebbpool::PoolOptions::on_classed_fix). The root is an inner node, also where it is the
/// only leaf. Pages of no class are those that a check or the recovery reads without knowing what is in them.
pub const PAGE_CLASSES: [&str; 5] = ["meta", "allocation map", "inner", "leaf", "overflow"];

pub(crate) const META: PageClass = 1;
pub(crate) const MAP: PageClass = 2;
pub(crate) const INNER: PageClass = 3;
pub(crate) const LEAF: PageClass = 4;
pub(crate) const OVERFLOW: PageClass = 5;

/// The class of the nodes of a level, except the root.
#[inline]
pub(crate) fn of_level(level: u8) -> PageClass {
    match level {
        0 => LEAF,
        _ => INNER,
    }
}
