//! One policy, one file; shared pieces are the data structures of the parent module.

pub(crate) mod ad_lru;
pub(crate) mod belady;
pub(crate) mod casa;
pub(crate) mod ccf_lru;
pub(crate) mod cfdc;
pub(crate) mod cflru;
pub(crate) mod cflru_c;
pub(crate) mod clock;
pub(crate) mod cost_belady;
pub(crate) mod fd_buffer;
pub(crate) mod fd_static;
pub(crate) mod fifo;
pub(crate) mod lru;
pub(crate) mod lru_wsr;
mod pools;
pub(crate) mod price_guided;
pub(crate) mod recently_evicted_first;
mod regions;
mod two_stack;
