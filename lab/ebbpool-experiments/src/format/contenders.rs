//! The policies that take part in an experiment.

use ebbpool_policy::{Capabilities, registry};
use serde::Deserialize;

use super::{Contender, Experiment};
use crate::ordered::Text;

/// A bound that takes the place of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PseudoPolicy {
    /// The cheapest of all schedules.
    Optimum,
    /// The lower bound that no policy can undercut.
    LowerBound,
}

impl PseudoPolicy {
    const ALL: [PseudoPolicy; 2] = [PseudoPolicy::Optimum, PseudoPolicy::LowerBound];

    /// The name in experiments.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PseudoPolicy::Optimum => "optimum",
            PseudoPolicy::LowerBound => "lower-bound",
        }
    }

    /// The pseudo-policy of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pseudo| pseudo.name() == name)
    }
}

/// The start of the registry's source for policies of this project.
const OWN_SOURCE: &str = "this project";

/// A family of policies of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PolicyFamily {
    /// All online policies, except for those that need the erase counts of a device, and for those of servers.
    Online,
    /// The online policies that others have published.
    Published,
}

impl PolicyFamily {
    /// The names of the policies and of their aliases.
    pub(crate) fn names(self) -> Vec<String> {
        let belongs = |own: bool| match self {
            PolicyFamily::Online => true,
            PolicyFamily::Published => !own,
        };
        registry::entries()
            .iter()
            .filter(|entry| entry.online())
            .filter(|entry| {
                let excluded = Capabilities::BACKGROUND_WRITES | Capabilities::ERASE_COUNTS;
                !entry.capabilities.intersects(excluded)
            })
            .filter(|entry| belongs(entry.source.starts_with(OWN_SOURCE)))
            .flat_map(|entry| {
                let aliases = entry.aliases.iter().map(|(alias, _)| alias.to_string());
                std::iter::once(entry.name.to_string()).chain(aliases)
            })
            .collect()
    }
}

/// A named policy that takes part in an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Participant {
    pub(crate) name: String,
    /// The value that distinguishes it from the others of its group.
    pub(crate) value: Option<String>,
    pub(crate) choice: PolicyChoice,
}

/// The policy, or the policies to choose from at each point.
#[derive(Clone, Debug)]
pub(crate) enum PolicyChoice {
    /// One policy, or a pseudo-policy such as the lower bound.
    One(String),
    /// The best of several policies, each with its value.
    BestOf(Vec<(String, String)>),
    /// The worst of several policies, each with its value.
    WorstOf(Vec<(String, String)>),
}

/// All participants of an experiment, in the file's order.
pub(crate) fn of(experiment: &Experiment) -> Vec<Participant> {
    let named = experiment.policies.0.iter();
    named.flat_map(|(name, contender)| participants(name, contender.get_ref())).collect()
}

fn participants(name: &str, contender: &Contender) -> Vec<Participant> {
    let group = match contender {
        Contender::Policy(policy) => {
            return vec![Participant { name: name.into(), value: None, choice: PolicyChoice::One(policy.clone()) }];
        }
        Contender::Group(group) => group,
    };
    let template = group.template().unwrap_or_default();
    let several = group.values().into_iter().map(|value| {
        let policy = template.replace("{}", &value);
        (value, policy)
    });
    if group.each_of.is_some() {
        let one = |(value, policy): (String, String)| Participant {
            // A member that is a policy itself, and no variant of one, keeps its own name.
            name: match template {
                "{}" => value.clone(),
                _ => format!("{name} {value}"),
            },
            value: Some(value),
            choice: PolicyChoice::One(policy),
        };
        return several.map(one).collect();
    }
    vec![Participant {
        name: name.into(),
        value: None,
        choice: match group.best_of {
            Some(_) => PolicyChoice::BestOf(several.collect()),
            None => PolicyChoice::WorstOf(several.collect()),
        },
    }]
}

/// The names, with each group's name replaced by the names of its members.
pub(crate) fn expanded(experiment: &Experiment, names: &[String]) -> Vec<String> {
    let members = |name: &String| match experiment.policies.get(name) {
        Some(contender) => participants(name, contender.get_ref()).into_iter().map(|participant| participant.name).collect(),
        None => vec![name.clone()],
    };
    names.iter().flat_map(members).collect()
}

/// The values to choose from: a list, or the policies of a family.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a list of values, or a family of policies: \"online\" or \"published\"")]
pub(crate) enum CandidateValues {
    Family(PolicyFamily),
    Values(Vec<Text>),
}

impl CandidateValues {
    pub(crate) fn values(&self) -> Vec<String> {
        match self {
            CandidateValues::Family(family) => family.names(),
            CandidateValues::Values(values) => values.iter().map(|Text(value)| value.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_the_policies_of_their_names() {
        let (online, published) = (PolicyFamily::Online.names(), PolicyFamily::Published.names());
        let has = |names: &[String], name: &str| names.iter().any(|listed| listed == name);
        for name in ["lru", "arc", "fd-buffer", "fd-exact", "w-tinylfu", "ace"] {
            assert!(has(&online, name) && has(&published, name), "{name}");
        }
        for name in ["belady", "cost-belady", "price-guided"] {
            assert!(!has(&online, name), "{name} knows the future");
        }
        assert!(has(&online, "ebb"));
        for own in ["ebb", "auto"] {
            assert!(!has(&published, own), "the source of {own} must be '{OWN_SOURCE}', otherwise it competes with itself");
        }
    }
}
