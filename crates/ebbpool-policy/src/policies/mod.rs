//! One policy, one file; shared pieces are the data structures of the parent module.
//!
//! [`registry`](crate::registry) makes policies from specifications; with
//! [`Build::new`](crate::registry::Build::new) a program makes one from its config.

pub mod ace;
pub mod acr;
pub mod ad_lru;
pub mod arc;
pub mod auto;
pub mod belady;
pub mod bplru;
pub mod cacheus;
pub mod car;
pub mod casa;
pub mod ccf_lru;
pub mod cfdc;
pub mod cflru;
pub mod cflru_c;
pub mod cflru_e;
pub mod clock;
pub mod cost_belady;
mod directory;
pub mod dl_cflru_e;
pub mod dulo;
pub mod ebb;
mod expert_weights;
pub mod fab;
pub mod fbr;
pub mod fd_buffer;
pub mod fd_static;
pub mod fifo;
mod frequency_sketch;
pub mod gclock;
pub mod h_arc;
pub mod hyperbolic;
pub mod informed;
pub mod lecar;
pub mod lhd;
pub mod lirs;
pub mod lirs_wsr;
pub mod lrfu;
pub mod lru;
pub mod lru_c;
pub mod lru_k;
pub mod lru_wsr;
pub mod operation_aware;
mod pools;
pub mod price_guided;
mod recency_sets;
pub mod recently_evicted_first;
mod regions;
pub mod s3_fifo;
pub mod sieve;
pub mod two_q;
pub(crate) mod two_stack;
pub mod w_tinylfu;
pub mod wa_landlord;
pub mod watt;
