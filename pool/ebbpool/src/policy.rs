//! The replacement policies, and the trait that a policy of your own implements.
//!
//! What no pool asks of a policy (the future, the requests of a server) is in the crate `ebbpool-policy`, which has all
//! policies for programs without the pool.

pub use ebbpool_policy::{
    Access, Capabilities, Costs, DynPolicy, Frame, FrameLists, Gauges, Ghost, MOST_GHOSTS, Page, PageClass, Policy, SpecError,
    UNKNOWN_CLASS,
};

/// The names of the policies that a pool can run, in the order of the documentation. Some need a storage that knows how
/// often its blocks were erased.
pub fn names() -> impl Iterator<Item = &'static str> {
    let entries = ebbpool_policy::registry::entries().iter();
    entries.filter(|entry| entry.online()).map(|entry| entry.name)
}
