//! What the cases draw: every option of the pool, every policy, every kind of step and of fault.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::sync::Arc;

use ebbpool::Log;
use ebbpool_policy::{Access, Capabilities, DynPolicy, PolicyEntry, registry};

use crate::case::{Case, Kind};
use crate::disk::{FaultLog, FaultRates};
use crate::life::World;
use crate::policies::{policies, spec};
use crate::wal::Wal;

/// As many seeds as a second of the simulation runs.
const SEEDS: u64 = 1000;

fn cases() -> impl Iterator<Item = Case> {
    (1..=SEEDS).map(Case::new)
}

/// The pool lists its options, so that one which is added and not drawn has one value only.
#[test]
fn every_option_takes_several_values() {
    let mut values = BTreeMap::<&str, BTreeSet<String>>::new();
    for case in cases() {
        let case = Arc::new(case);
        let world = World::new(&case);
        let faults = Arc::new(FaultLog::default());
        for life in &case.lives {
            let opened = Wal::open(&world.disk, life.fault_rates, &faults);
            let (wal, _) = opened.expect("the disk is whole");
            let log = case.logged.then(|| -> Arc<dyn Log> { Arc::new(wal) });
            let options = world.options(life, log, &faults, &Arc::default());
            for (name, value) in options.named_values() {
                values.entry(name).or_default().insert(value);
            }
        }
    }
    for (name, values) in values {
        assert!(values.len() > 1, "{name} is always {values:?}");
    }
}

/// What a policy asks of its driver, besides victims.
fn demands(policy: &mut (dyn DynPolicy + Send)) -> [(&'static str, bool); 7] {
    let asked = policy.capabilities();
    let (mut leaving, mut together) = (Vec::new(), Vec::new());
    for frame in 0..4 {
        policy.miss(frame.into(), None, Access::Write);
        let early = policy.evicts_early();
        policy.admit(frame, frame.into(), Access::Write);
        if early {
            leaving.push(frame);
        }
    }
    let early = !leaving.is_empty();
    leaving.clear();
    policy.miss(9, None, Access::Read);
    if let Some(victim) = policy.victim(Some((9, Access::Read)), &|_| true) {
        policy.evicted_with(victim, &mut leaving);
        policy.cleaned_with(victim, 4, &mut together);
    }
    [
        ("leaves hits out", asked.contains(Capabilities::LEAVES_HITS_OUT)),
        ("asks for classes", asked.contains(Capabilities::CLASSES)),
        ("asks for requests", asked.contains(Capabilities::REQUESTS)),
        ("asks for erase counts", asked.contains(Capabilities::ERASE_COUNTS)),
        ("evicts early", early),
        ("evicts several pages", !leaving.is_empty()),
        ("writes several pages", !together.is_empty()),
    ]
}

#[test]
fn every_policy_is_drawn_and_every_kind_of_policy() {
    let mut drawn = BTreeSet::new();
    for case in (1..=20 * SEEDS).map(Case::new) {
        drawn.extend(case.lives.iter().map(|life| life.options.policy.clone()));
    }
    let all = policies();
    for policy in &all {
        assert!(drawn.contains(policy), "{policy} is not drawn");
    }
    let mut flags = BTreeMap::<&str, BTreeSet<bool>>::new();
    for entry in registry::entries() {
        // A flag that is added has to be considered here.
        let PolicyEntry { name, params, aliases: _, summary: _, how: _, when: _, capabilities: _, memory: _, source: _ } =
            entry;
        assert_eq!(all.iter().any(|policy| policy == name), entry.online(), "{name}");
        if !entry.online() {
            continue;
        }
        let is_of = |policy: &&String| policy.split(':').next() == Some(name);
        for param in params.iter().filter(|param| param.name == "padding") {
            let pads = |pads: bool| all.iter().filter(is_of).any(|it| spec(it).pads() == pads);
            assert!(pads(true) && pads(false), "{name}:{}", param.name);
        }
        flags.entry("looks at costs").or_default().insert(entry.capabilities.contains(Capabilities::COSTS));
        flags.entry("erase counts").or_default().insert(entry.capabilities.contains(Capabilities::ERASE_COUNTS));
        flags.entry("wraps").or_default().insert(entry.wraps_a_policy());
    }
    for policy in &all {
        let mut built = registry::boxed(&spec(policy), 4);
        for (name, demand) in demands(&mut *built) {
            flags.entry(name).or_default().insert(demand);
        }
        flags.entry("pads").or_default().insert(spec(policy).pads());
    }
    for (name, values) in flags {
        assert_eq!(values.len(), 2, "{name} is always {values:?}");
    }
}

#[test]
fn every_step_kind_and_fault_is_drawn() {
    let (mut steps, mut kinds, mut endings) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut faults = [0u64; 11];
    for case in cases() {
        *kinds.entry(format!("{:?}", case.kind)).or_insert(0) += 1;
        for life in &case.lives {
            let name = format!("{:?}", discriminant(&life.ending));
            *endings.entry(name).or_insert(0) += 1;
            let FaultRates { slow, reorder, read_error, write_error, torn, lost, flipped, sync_error, log_error, full, panics } =
                life.fault_rates;
            let rates = [slow, reorder, read_error, write_error, torn, lost, flipped, sync_error, log_error, full, panics];
            for (count, rate) in faults.iter_mut().zip(rates) {
                *count += u64::from(rate > 0);
            }
            for step in life.scripts.iter().flatten() {
                *steps.entry(format!("{:?}", discriminant(step))).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(steps.len(), 27, "{steps:?}");
    assert_eq!(endings.len(), 4, "{endings:?}");
    assert_eq!(kinds.len(), Kind::ALL, "{kinds:?}");
    assert!(faults.iter().all(|&count| count > 0), "{faults:?}");
}
