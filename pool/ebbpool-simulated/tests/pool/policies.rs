//! The policies that the simulation draws.

use ebbpool_policy::{PolicySpec, registry};
use ebbpool_simulation::Random;

/// Policies with which the pool does more than to evict one page after the other: half of the lives have one of these.
const FREQUENT: [&str; 8] = [
    "lru", "ebb", "cflru", "cfdc:cluster=4", "bplru:block=4,padding=true", "bplru:block=2,padding=true", "bplru:block=4",
    "clock",
];

/// Every policy that a pool can have: each entry of the registry, and the forms of it with which the pool behaves in another
/// way, since pages are written together or blocks whole.
pub fn policies() -> Vec<String> {
    let mut all = Vec::new();
    for entry in registry::entries() {
        let forms = entry.params.iter().filter_map(|param| match param.name {
            "cluster" | "block" => Some(format!("{}:{}=4", entry.name, param.name)),
            "group" => Some(format!("{}:group=1", entry.name)),
            "padding" => Some(format!("{}:block=4,padding=true", entry.name)),
            _ => None,
        });
        let forms = forms.chain([entry.name.to_string()]);
        all.extend(forms.filter(|form| spec(form).online()));
    }
    all
}

pub fn spec(policy: &str) -> PolicySpec {
    policy.parse().expect("the policy is known")
}

/// One of the policies.
pub fn draw(random: &mut Random, policies: &[String]) -> String {
    match random.below(2) {
        0 => random.pick(&FREQUENT).into(),
        _ => policies[random.below(policies.len() as u64) as usize].clone(),
    }
}
