//! One file per policy, and the table of their names.

mod ace;
mod acr;
mod ad_lru;
mod arc;
mod auto;
mod belady;
mod bplru;
mod cacheus;
mod car;
mod casa;
mod ccf_lru;
mod cfdc;
mod cflru;
mod cflru_c;
mod cflru_e;
mod clock;
mod cost_belady;
mod dl_cflru_e;
mod dulo;
mod ebb;
mod fab;
mod fbr;
mod fd_buffer;
mod fd_static;
mod fifo;
mod gclock;
mod h_arc;
mod hyperbolic;
mod informed;
mod innodb;
mod lecar;
mod lhd;
mod lirs;
mod lrfu;
mod lru;
mod lru_c;
mod lru_k;
mod lru_wsr;
mod operation_aware;
mod postgres;
mod price_guided;
mod recently_evicted_first;
mod s3_fifo;
mod sieve;
mod sqlite;
mod two_q;
mod w_tinylfu;
mod wa_landlord;
mod watt;

/// The example that CONTRIBUTING.md begins with.
#[cfg(test)]
#[path = "../../../docs/new-policy/model.rs"]
mod example;

use crate::Model;
use crate::buffer::{Buffer, Policy};
use crate::clusters::Clusters;
use crate::spec::{Spec, items};

/// A policy and its write clustering.
struct BuiltPolicy {
    m: usize,
    policy: Box<dyn Policy>,
    /// `None` without write clustering.
    clusters: Option<Clusters>,
}

/// Builds the model of the policy that `spec` names.
pub(crate) fn build(spec: &mut Spec, m: usize) -> Box<dyn Model> {
    let built = policy(spec, m);
    Box::new(Buffer::new(built.m, built.policy, built.clusters))
}

fn policy(spec: &mut Spec, m: usize) -> BuiltPolicy {
    classic(spec, m)
        .or_else(|| server(spec, m))
        .or_else(|| clean_first(spec, m))
        .or_else(|| adaptive(spec, m))
        .or_else(|| wrapper(spec, m))
        .unwrap_or_else(|| panic!("unknown policy `{}`", spec.name))
}

/// The policies that ignore writes, and the offline ones.
fn classic(spec: &mut Spec, m: usize) -> Option<BuiltPolicy> {
    let built = match spec.name.as_str() {
        "fifo" => clustered(spec, m, fifo::Fifo::new()),
        "lru" => clustered(spec, m, lru::Lru::new()),
        "clock" => clustered(spec, m, clock::Clock::new()),
        "gclock" => {
            let init = spec.number("init", 1);
            let max = spec.number("max", 5);
            plain(m, gclock::Gclock::new(init, max))
        }
        "lru-k" => {
            let k = spec.number("k", 2);
            plain(m, lru_k::LruK::new(m, k as usize))
        }
        "2q" => {
            let kin = spec.fraction("kin", "0.25").of(m);
            let kout = spec.fraction("kout", "0.5").of(m);
            plain(m, two_q::TwoQ::new(kin, kout))
        }
        "lrfu" => {
            let lambda = spec.fraction("lambda", "0.001");
            plain(m, lrfu::Lrfu::new(lambda.value()))
        }
        "fbr" => {
            let new = spec.fraction("new", "0.25").of(m);
            let old = spec.fraction("old", "0.5").of(m);
            let cmax = spec.number("cmax", 32);
            plain(m, fbr::Fbr::new(m, new, old, cmax))
        }
        "arc" => plain(m, arc::Arc::new(m)),
        "car" => plain(m, car::Car::new(m)),
        "lirs" => {
            let hir = spec.fraction("hir", "0.01").of(m);
            plain(m, lirs::Lirs::new(m, hir, false))
        }
        "s3-fifo" => {
            let small = spec.fraction("small", "0.1").of(m);
            plain(m, s3_fifo::S3Fifo::new(small, m))
        }
        "sieve" => plain(m, sieve::Sieve::new()),
        "w-tinylfu" => {
            let window = spec.fraction("window", "0.01").of(m).max(1);
            let protected = spec.fraction("protected", "0.8").of(m - window);
            plain(m, w_tinylfu::WTinyLfu::new(m, window, protected))
        }
        "belady" => plain(m, belady::Belady::new()),
        "cost-belady" => plain(m, cost_belady::CostBelady::new()),
        "price-guided" => plain(m, price_guided::PriceGuided::new()),
        "informed" => plain(m, informed::Informed::new()),
        _ => return None,
    };
    Some(built)
}

/// The policies of servers.
fn server(spec: &mut Spec, m: usize) -> Option<BuiltPolicy> {
    let built = match spec.name.as_str() {
        "postgres" => plain(m, postgres::Postgres::new(m, postgres::Parameters::from_spec(spec))),
        "innodb" => plain(m, innodb::Innodb::new(m, &innodb::Parameters::from_spec(spec))),
        "sqlite" => plain(m, sqlite::Sqlite::new(m, spec.number("commit", 0))),
        _ => return None,
    };
    Some(built)
}

/// The policies that evict clean pages first, spare dirty ones, or group pages by block.
fn clean_first(spec: &mut Spec, m: usize) -> Option<BuiltPolicy> {
    let built = match spec.name.as_str() {
        "cflru" => {
            let window = spec.fraction("window", "0.5");
            clustered(spec, m, cflru::Cflru::new(window.of(m)))
        }
        "cflru-c" => {
            let window = spec.fraction("window", "0.5");
            plain(m, cflru_c::CflruC::new(window.of(m)))
        }
        "cflru-e" => {
            let window = spec.fraction("window", "0.5");
            plain(m, cflru_e::CflruE::new(window.of(m)))
        }
        "dl-cflru-e" => plain(m, dl_cflru_e::DlCflruE::new()),
        "lru-wsr" => clustered(spec, m, lru_wsr::LruWsr::new()),
        "lirs-wsr" => {
            let hir = spec.fraction("hir", "0.01").of(m);
            plain(m, lirs::Lirs::new(m, hir, true))
        }
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
            plain(m, recently_evicted_first::RecentlyEvictedFirst::new(window, block, victims as usize))
        }
        "fab" => plain(m, fab::Fab::new(spec.number("block", 64))),
        "bplru" => {
            let block = spec.number("block", 64);
            let padding = match spec.text("padding", "false").as_str() {
                "false" => false,
                "true" => true,
                other => panic!("`padding={other}` is neither `false` nor `true`"),
            };
            plain(m, bplru::Bplru::new(block, padding))
        }
        _ => return None,
    };
    Some(built)
}

/// The policies with regions or pools, and those that adapt or learn.
fn adaptive(spec: &mut Spec, m: usize) -> Option<BuiltPolicy> {
    let built = match spec.name.as_str() {
        "cfdc" => {
            let window = spec.fraction("window", "0.5").of(m);
            let cluster = spec.number("cluster", 64);
            plain(m, cfdc::Cfdc::new(m - window, cluster, keys_now(spec)))
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
        "acr" => {
            let top = spec.fraction("top", "0.5");
            let cost = spec.text("cost", "both");
            plain(m, acr::Acr::new(m, top, &cost))
        }
        "for" => plain(m, operation_aware::OperationAware::new(m)),
        "dulo" => {
            let correlation = spec.pages("correlation", "5%", m);
            let bank = spec.pages("bank", "10%", m);
            plain(m, dulo::Dulo::new(correlation, bank))
        }
        "ebb" => plain(m, ebb::Ebb::new(m, ebb::Parameters::from_spec(spec, m))),
        "h-arc" => plain(m, h_arc::HArc::new(m)),
        "hyperbolic" => plain(m, hyperbolic::Hyperbolic::new(m, spec.number("sample", 64))),
        "lhd" => {
            let sample = spec.number("sample", 32);
            let interval = spec.number("interval", 16);
            plain(m, lhd::Lhd::new(m, sample, interval))
        }
        "lecar" => plain(m, lecar::Lecar::new(m)),
        "cacheus" => plain(m, cacheus::Cacheus::new(m)),
        "watt" => {
            let sample = spec.number("sample", 8);
            let epochs = spec.number("epochs", 4);
            let first = spec.fraction("first", "0.1").value();
            plain(m, watt::Watt::new(m, sample, epochs, first))
        }
        "lru-c" => {
            let batch = spec.number("batch", 64);
            plain(m, lru_c::LruC::new(batch as usize))
        }
        "wa-landlord" => plain(m, wa_landlord::WaLandlord::new()),
        _ => return None,
    };
    Some(built)
}

/// The policies that run other policies.
fn wrapper(spec: &mut Spec, m: usize) -> Option<BuiltPolicy> {
    let built = match spec.name.as_str() {
        "ace" => {
            let wrapped = spec.text("policy", "lru");
            let wrapped = wrapped.trim_matches(['(', ')']);
            let batch = spec.number("batch", 8) as usize;
            let mut wrapped = Spec::parse(wrapped);
            let built = policy(&mut wrapped, m);
            wrapped.finish();
            assert!(built.clusters.is_none(), "write clustering under ace is not modelled");
            plain(m, ace::Ace::new(built.policy, batch))
        }
        "auto" => {
            let experts = spec.text("experts", "(ebb,w-tinylfu,s3-fifo,h-arc)");
            let experts = listed(&experts);
            let parameters = auto::Parameters::from_spec(spec, &experts, m);
            let expert = |text: &String, frames: usize| {
                let mut expert = Spec::parse(text);
                let built = policy(&mut expert, frames);
                expert.finish();
                assert!(built.clusters.is_none(), "write clustering under auto is not modelled");
                built.policy
            };
            let twice = |text| (expert(text, m), expert(text, parameters.part));
            let experts = experts.iter().map(twice).collect();
            plain(m, auto::Auto::new(experts, parameters))
        }
        _ => return None,
    };
    Some(built)
}

/// The policies of a list in parentheses, in which an item with `=` and no `:` before it continues
/// the policy before it.
fn listed(text: &str) -> Vec<String> {
    let inside = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let mut policies: Vec<String> = Vec::new();
    for item in items(inside.unwrap_or(text)) {
        let before_value = item.split('=').next().unwrap_or(item);
        match policies.last_mut() {
            Some(last) if item.contains('=') && !before_value.contains(':') => {
                last.push(',');
                last.push_str(item);
            }
            _ => policies.push(item.to_string()),
        }
    }
    policies
}

/// A policy without write clustering.
fn plain(m: usize, policy: impl Policy + 'static) -> BuiltPolicy {
    BuiltPolicy { m, policy: Box::new(policy), clusters: None }
}

/// A policy with write clustering if `cluster` is given.
fn clustered(spec: &mut Spec, m: usize, policy: impl Policy + 'static) -> BuiltPolicy {
    let (size, keys_now) = (spec.number("cluster", 0), keys_now(spec));
    BuiltPolicy { clusters: (size > 0).then(|| Clusters::new(size, keys_now)), ..plain(m, policy) }
}

/// True if priorities of clusters are those at the choice of a victim, false if they are those at the last entry.
fn keys_now(spec: &mut Spec) -> bool {
    match spec.text("keys", "now").as_str() {
        "now" => true,
        "entry" => false,
        other => panic!("`keys={other}` is neither `now` nor `entry`"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::example;
    use crate::buffer::Buffer;
    use crate::{Model, model, workload};

    #[test]
    fn the_example_is_cflru_with_the_whole_list_as_window() {
        let none = BTreeSet::new();
        for (seed, frames) in (0..).zip([1, 2, 7, 30]) {
            let mut new = Buffer::new(frames, Box::new(example::CleanFirst::new()), None);
            let mut cflru = model("cflru:window=1", frames);
            for (page, write) in workload::workload(seed, 1500, frames as u64 * 3) {
                assert_eq!(new.reference(page, write, None, &none), cflru.reference(page, write, None, &none));
            }
        }
    }
}
