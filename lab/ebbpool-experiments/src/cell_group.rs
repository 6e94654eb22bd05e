//! Cells that are one question to the lab.

use std::collections::HashMap;
use std::sync::Arc;

use ebbpool_cost::PAPERS_BASE;
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::{BoundRequest, CompareRequest, MemorySize, PolicySelection};

use super::format::contenders::PseudoPolicy;
use super::parsed::Parsed;
use super::plan::{CellPolicy, ExperimentCell, RunConfig, RunDevice};
use super::work::WorkKind;
use crate::error::ExperimentError;

/// Cells that the lab runs in one pass over a trace.
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
            Some(RunDevice::Model(name)) => ["precondition=full", "precondition=steady"].iter().any(|it| name.contains(it)),
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

    /// The lab's request for these policies, which are those of the group.
    pub(crate) fn comparison(&self, policies: &[CellPolicy]) -> Result<CompareRequest, ExperimentError> {
        let prices = self.asymmetries.iter();
        let prices = prices.map(|asymmetry| self.config.pricing(asymmetry.as_ref()));
        let specs = policies.iter().filter_map(|policy| match policy {
            CellPolicy::Policy(policy) => Some(policy.get().clone()),
            CellPolicy::Guest(_) | CellPolicy::Pseudo(_) => None,
        });
        let guests = policies.iter().filter_map(|policy| match policy {
            CellPolicy::Guest(guest) => Some(Arc::clone(&guest.0)),
            CellPolicy::Policy(_) | CellPolicy::Pseudo(_) => None,
        });
        let mut request = CompareRequest::new(PolicySelection::specs(specs), self.sizes(), prices.collect::<Result<_, _>>()?);
        request.guests = guests.collect();
        request.counting = self.config.counting();
        Ok(request)
    }

    /// The lab's request for the lower bounds of the group; `None` if an asymmetry is not constant.
    pub(crate) fn bounds(&self) -> Option<BoundRequest> {
        let RunConfig { device, changing, .. } = &self.config;
        if device.is_some() || changing.is_some() {
            return None;
        }
        let ratio = |asymmetry: &Option<Parsed<AsymmetrySpec>>| match asymmetry {
            Some(spec) => spec.get().constant(),
            None => Some(PAPERS_BASE),
        };
        let ratios = self.asymmetries.iter().map(ratio);
        let mut request = BoundRequest::new(self.sizes(), ratios.collect::<Option<_>>()?);
        request.at_end = *self.config.at_end.get();
        request.warmup = *self.config.warmup.get();
        Some(request)
    }

    fn sizes(&self) -> Vec<MemorySize> {
        let sizes = self.frames.iter();
        sizes.map(|frames| frames.get().clone()).collect()
    }

    /// The cell of the policy with the size and the asymmetry of these indices.
    pub(crate) fn cell(&self, policy: CellPolicy, size: usize, asymmetry: usize) -> ExperimentCell {
        ExperimentCell {
            config: self.config.clone(),
            policy,
            frames: self.frames[size].clone(),
            asymmetry: self.asymmetries[asymmetry].clone(),
        }
    }

    /// All cells of the group.
    pub(crate) fn all(&self) -> impl Iterator<Item = ExperimentCell> {
        let policies: Vec<CellPolicy> = match &self.policies {
            GroupPolicies::Simulated(policies) => policies.clone(),
            GroupPolicies::Pseudo(pseudo) => vec![CellPolicy::Pseudo(*pseudo)],
        };
        let (sizes, asymmetries) = (self.frames.len(), self.asymmetries.len());
        let at = (0..sizes).flat_map(move |size| (0..asymmetries).map(move |at| (size, at)));
        policies.into_iter().flat_map(move |policy| {
            let at = at.clone();
            at.map(move |(size, asymmetry)| self.cell(policy.clone(), size, asymmetry))
        })
    }

    /// The group of a single cell.
    fn new(cell: &ExperimentCell) -> Self {
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
            of_policies.push(CellGroup::new(cell));
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
        let same = groups.iter_mut().find_map(|other| match &mut other.policies {
            GroupPolicies::Simulated(same)
                if other.config == group.config && other.frames == group.frames && other.asymmetries == group.asymmetries =>
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
