//! Priorities of clusters fall while the clusters wait (CFDC, section 3.3).

use ebbpool_policy::{Access, PolicySpec, VERSION, registry};

/// The pages that a policy evicts from `frames` frames while each of `pages`, all of them different, is written once.
fn evictions(spec: &str, frames: u32, pages: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let spec: PolicySpec = spec.parse().expect("a policy");
    let mut policy = registry::boxed(&spec, frames);
    let mut occupants: Vec<u64> = Vec::new();
    let mut evicted = Vec::new();
    for page in pages {
        policy.miss(page, None, Access::Write);
        let frame = if occupants.len() < frames as usize {
            occupants.push(page);
            occupants.len() as u32 - 1
        } else {
            let victim = policy.victim(Some((page, Access::Write)), &|_| true);
            let victim = victim.expect("a victim, since no frame is pinned");
            policy.remember(victim);
            policy.evicted(victim);
            evicted.push(std::mem::replace(&mut occupants[victim as usize], page));
            victim
        };
        policy.admit(frame, page, Access::Write);
    }
    evicted
}

/// Pages 0 and 40 make a small cluster that is not sequential; each later page is alone in its cluster.
fn pages() -> impl Iterator<Item = u64> {
    [0, 40].into_iter().chain((1..5000).map(|cluster| 64 * cluster))
}

#[test]
fn a_small_cluster_does_not_stay_for_ever() {
    let left = |spec: &str| {
        let evicted = evictions(spec, 16, pages());
        assert_eq!(evicted.len(), 4985);
        [0, 40].map(|page| evicted.iter().position(|other| *other == page))
    };
    assert_eq!(left("cfdc"), [Some(43), Some(44)]);
    assert_eq!(left("cfdc:keys=now"), [Some(43), Some(44)]);
    assert_eq!(left("cfdc:keys=entry"), [None, None]);
}

#[test]
fn write_clustering_has_the_same_default() {
    let spec = |text: &str| text.parse::<PolicySpec>().expect("a policy").to_string();
    for name in ["lru", "casa", "fd-buffer", "cflru"] {
        let clustered = format!("{name}:cluster=64");
        assert_eq!(spec(&format!("{clustered},keys=now")), clustered);
        assert!(spec(&format!("{clustered},keys=entry")).ends_with("keys=entry"));
        let now = evictions(&clustered, 16, pages());
        assert_ne!(now, evictions(&format!("{clustered},keys=entry"), 16, pages()), "{name}");
    }
}

/// Stored results know `cfdc` by this name only, which stood for `cfdc:keys=entry` in version 0.1.0.
#[test]
fn results_of_another_default_have_another_version() {
    assert_ne!(VERSION, env!("CARGO_PKG_VERSION"));
}
