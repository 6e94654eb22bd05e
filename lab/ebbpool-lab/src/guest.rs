//! Policies from outside the registry: a [`GuestPolicy`] in a request makes a [`Policy`] for each number of frames.

pub use crate::policy_selection::check_names;
pub use ebbpool_policy::{
    Access, BackgroundWrite, Capabilities, Costs, Frame, FrameLists, Gauges, Ghost, MOST_GHOSTS, Page, PageClass, Policy,
    RecordedRequest, UNKNOWN_CLASS,
};
pub use ebbpool_sim::{GuestEngine, GuestHost, GuestPolicy};
