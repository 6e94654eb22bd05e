//! Cells that share a pass over a trace.

use std::collections::HashMap;

use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::{MemorySize, Pricing};
use ebbpool_sim::BufferSize;
use ebbpool_trace::Source;

use super::parsed::Parsed;
use super::plan::{CellPolicy, ExperimentCell, PseudoPolicy, RunConfig, RunDevice};
use super::runner::pricing_of;
use super::work::WorkKind;
use crate::error::ExperimentError;

/// Cells that run in one pass over a trace.
pub(crate) struct CellGroup {
    pub(crate) config: RunConfig,
    pub(crate) policies: GroupPolicies,
    pub(crate) frames: Vec<Parsed<MemorySize>>,
    pub(crate) asymmetries: Vec<Option<Parsed<AsymmetrySpec>>>,
}

/// The policies of a group of cells, or the bound that takes their place.
pub(crate) enum GroupPolicies {
    /// No pseudo-policy is among them.
    Simulated(Vec<CellPolicy>),
    Pseudo(PseudoPolicy),
}

impl CellGroup {
    /// The number of simulations. A policy that does not look at costs has one for all asymmetries.
    pub(crate) fn simulations(&self) -> f64 {
        let asymmetries = self.asymmetries.len();
        let of_policy = |policy: &CellPolicy| match policy.looks_at_costs() {
            true => asymmetries,
            false => asymmetries.min(1),
        };
        let each = match &self.policies {
            GroupPolicies::Simulated(policies) => policies.iter().map(of_policy).sum(),
            GroupPolicies::Pseudo(_) => asymmetries,
        };
        (each * self.frames.len()) as f64
    }

    /// The work over a trace with that many references. A flash device that is filled first takes some time before.
    pub(crate) fn work(&self, references: f64) -> f64 {
        const FILLING: f64 = 1e6;
        let is_filled = match &self.config.device {
            Some(RunDevice::Model(name)) => ["precondition=full", "precondition=steady"]
                .iter()
                .any(|it| name.contains(it)),
            _ => false,
        };
        let before = if is_filled { FILLING } else { 0.0 };
        self.simulations() * (before + references)
    }

    /// What takes most of the time.
    pub(crate) fn kind(&self) -> WorkKind {
        match (&self.policies, &self.config.device) {
            _ if self.config.is_on_file() => WorkKind::File,
            (GroupPolicies::Pseudo(PseudoPolicy::LowerBound), _) => WorkKind::Bound,
            (_, Some(RunDevice::Model(name))) if name.starts_with("flash:") => WorkKind::Flash,
            _ => WorkKind::Counting,
        }
    }

    /// The pricing for each asymmetry.
    pub(crate) fn pricings(&self, source: &Source) -> Result<Vec<Pricing>, ExperimentError> {
        let metadata = source.open()?.metadata().clone();
        let asymmetries = self.asymmetries.iter();
        asymmetries
            .map(|asymmetry| pricing_of(&self.config, asymmetry.as_ref(), &metadata))
            .collect()
    }

    pub(crate) fn sizes(&self) -> Vec<BufferSize> {
        self.frames.iter().map(|frames| frames.get().size).collect()
    }

    /// All cells of the group.
    #[cfg(unix)]
    pub(crate) fn all(&self) -> impl Iterator<Item = ExperimentCell> {
        let policies: Vec<CellPolicy> = match &self.policies {
            GroupPolicies::Simulated(policies) => policies.clone(),
            GroupPolicies::Pseudo(pseudo) => vec![CellPolicy::Pseudo(*pseudo)],
        };
        policies.into_iter().flat_map(move |policy| {
            self.frames.iter().flat_map(move |frames| {
                let policy = policy.clone();
                self.asymmetries
                    .iter()
                    .map(move |asymmetry| ExperimentCell {
                        config: self.config.clone(),
                        policy: policy.clone(),
                        frames: frames.clone(),
                        asymmetry: asymmetry.clone(),
                    })
            })
        })
    }

    /// The group of a single cell.
    pub(crate) fn of(cell: &ExperimentCell) -> Self {
        CellGroup {
            config: cell.config.clone(),
            policies: match &cell.policy {
                CellPolicy::Pseudo(pseudo) => GroupPolicies::Pseudo(*pseudo),
                policy => GroupPolicies::Simulated(vec![policy.clone()]),
            },
            frames: vec![cell.frames.clone()],
            asymmetries: vec![cell.asymmetry.clone()],
        }
    }
}

fn push_new<T: PartialEq + Clone>(all: &mut Vec<T>, one: &T) {
    if !all.contains(one) {
        all.push(one.clone());
    }
}

/// Groups the cells into grids: policies with the same config, sizes and asymmetries form one group. The
/// order is that of the first cell of each group.
pub(crate) fn groups(cells: &[ExperimentCell]) -> Vec<CellGroup> {
    let mut of_policies: Vec<CellGroup> = Vec::new();
    let mut group_of: HashMap<(&RunConfig, &CellPolicy), usize> = HashMap::new();
    for cell in cells {
        let key = (&cell.config, &cell.policy);
        let at = *group_of.entry(key).or_insert(of_policies.len());
        if at == of_policies.len() {
            of_policies.push(CellGroup::of(cell));
        } else {
            push_new(&mut of_policies[at].frames, &cell.frames);
            push_new(&mut of_policies[at].asymmetries, &cell.asymmetry);
        }
    }
    let mut groups: Vec<CellGroup> = Vec::new();
    for group in of_policies {
        let GroupPolicies::Simulated(policies) = &group.policies else {
            groups.push(group);
            continue;
        };
        let same = groups
            .iter_mut()
            .find_map(|other| match &mut other.policies {
                GroupPolicies::Simulated(same)
                    if other.config == group.config
                        && other.frames == group.frames
                        && other.asymmetries == group.asymmetries =>
                {
                    Some(same)
                }
                _ => None,
            });
        match same {
            Some(same) => same.extend(policies.iter().cloned()),
            None => groups.push(group),
        }
    }
    groups
}
