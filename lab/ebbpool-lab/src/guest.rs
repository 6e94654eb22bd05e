//! Policies from outside the registry: a [`GuestPolicy`] in a request makes a [`Policy`] for each number of frames.

pub use crate::policy_selection::check_names;
pub use ebbpool_policy::{
    Access, BackgroundWrite, Capabilities, Costs, Frame, Gauges, Ghost, Lists, MOST_GHOSTS, Page, PageClass, Policy,
    RecordedRequest, UNKNOWN_CLASS,
};
pub use ebbpool_sim::{GuestEngine, GuestHost, GuestPolicy};
