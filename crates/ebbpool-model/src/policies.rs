//! One file per policy, and the table of their names.

mod ad_lru;
mod belady;
mod casa;
mod ccf_lru;
mod cfdc;
mod cflru;
mod cflru_c;
mod clock;
mod cost_belady;
mod fd_buffer;
mod fd_static;
mod fifo;
mod lru;
mod lru_wsr;
mod price_guided;
mod recently_evicted_first;

/// The example that CONTRIBUTING.md begins with.
#[cfg(test)]
#[path = "../../../docs/new-policy/model.rs"]
mod example;

use crate::Model;
use crate::buffer::{Buffer, Policy};
use crate::spec::Spec;

/// Builds the model of the policy that `spec` names.
pub(crate) fn build(spec: &mut Spec, m: usize) -> Box<dyn Model> {
    match spec.name.as_str() {
        "fifo" => clustered(spec, m, fifo::Fifo::new()),
        "lru" => clustered(spec, m, lru::Lru::new()),
        "clock" => clustered(spec, m, clock::Clock::new()),
        "belady" => plain(m, belady::Belady::new()),
        "cost-belady" => plain(m, cost_belady::CostBelady::new()),
        "price-guided" => plain(m, price_guided::PriceGuided::new()),
        "cflru" => {
            let window = spec.fraction("window", "0.5");
            clustered(spec, m, cflru::Cflru::new(window.of(m)))
        }
        "cflru-c" => {
            let window = spec.fraction("window", "0.5");
            plain(m, cflru_c::CflruC::new(window.of(m)))
        }
        "lru-wsr" => clustered(spec, m, lru_wsr::LruWsr::new()),
        "ccf-lru" => clustered(spec, m, ccf_lru::CcfLru::new()),
        "ad-lru" => {
            let min_lc = spec.fraction("min_lc", "0.1");
            clustered(spec, m, ad_lru::AdLru::new(min_lc.of(m)))
        }
        "casa" => clustered(spec, m, casa::Casa::new(m)),
        "ref" => {
            let window = spec.fraction("window", "0.5").of(m);
            let block = spec.number("block", 64);
            let victims = spec.number("victims", 4);
            assert!(block > 0 && victims > 0, "ref needs blocks and victims");
            plain(
                m,
                recently_evicted_first::Ref::new(window, block, victims as usize),
            )
        }
        "cfdc" => {
            let window = spec.fraction("window", "0.5").of(m);
            let cluster = spec.number("cluster", 64);
            let keys_now = match spec.text("keys", "entry").as_str() {
                "entry" => false,
                "now" => true,
                other => panic!("`keys={other}` is neither `entry` nor `now`"),
            };
            plain(m, cfdc::Cfdc::new(m - window, cluster, keys_now))
        }
        "fd-static" => {
            let clean = spec.text("clean", "50%");
            clustered(spec, m, fd_static::FdStatic::new(&clean, m))
        }
        "fd-buffer" => {
            let policy = fd_buffer::FdBuffer::new(spec, m, "paper");
            clustered(spec, m, policy)
        }
        "fd-exact" => {
            let policy = fd_buffer::FdBuffer::new(spec, m, "exact");
            clustered(spec, m, policy)
        }
        other => panic!("unknown policy `{other}`"),
    }
}

/// A policy without write clustering.
fn plain(m: usize, policy: impl Policy + 'static) -> Box<dyn Model> {
    Box::new(Buffer::new(m, policy, 0))
}

/// A policy with write clustering if `cluster` is given.
fn clustered(spec: &mut Spec, m: usize, policy: impl Policy + 'static) -> Box<dyn Model> {
    let cluster = spec.number("cluster", 0);
    Box::new(Buffer::new(m, policy, cluster))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{example, plain};
    use crate::{model, workload};

    #[test]
    fn the_example_is_cflru_with_the_whole_list_as_window() {
        let none = BTreeSet::new();
        for (seed, frames) in (0..).zip([1, 2, 7, 30]) {
            let mut new = plain(frames, example::CleanFirst::new());
            let mut cflru = model("cflru:window=1", frames);
            for (page, write) in workload::workload(seed, 1500, frames as u64 * 3) {
                assert_eq!(
                    new.reference(page, write, None, &none),
                    cflru.reference(page, write, None, &none)
                );
            }
        }
    }
}
