//! Who takes part in an experiment, one by one.

use ebbpool_lab::Capabilities;
use ebbpool_policy::registry;
use serde::Deserialize;

use super::format::{Contender, Experiment};
use super::ordered::Text;

/// What the registry says of the source of a policy that nobody else published.
const OURS: &str = "this project";

/// Policies of the registry that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Family {
    /// All that know nothing of the future, as far as they need no device that tells erase counts.
    Online,
    /// Those of them that others have published.
    Published,
}

impl Family {
    /// Their names; where a policy with another setting has a name of its own, that too.
    pub(crate) fn names(self) -> Vec<String> {
        let capabilities = Capabilities::default();
        let belongs = |ours: bool| match self {
            Family::Online => true,
            Family::Published => !ours,
        };
        registry::entries()
            .iter()
            .filter(|entry| entry.online && capabilities.supports(entry))
            .filter(|entry| belongs(entry.source.starts_with(OURS)))
            .flat_map(|entry| {
                let aliases = entry.aliases.iter().map(|(alias, _)| alias.to_string());
                std::iter::once(entry.name.to_string()).chain(aliases)
            })
            .collect()
    }
}

/// One who takes part, under its own name.
#[derive(Clone, Debug)]
pub(crate) struct Entrant {
    pub(crate) name: String,
    /// The value that tells it apart from others of its group.
    pub(crate) value: Option<String>,
    pub(crate) is: Is,
}

#[derive(Clone, Debug)]
pub(crate) enum Is {
    /// A policy, or what stands for one.
    One(String),
    /// Of several, each with its value, the best.
    BestOf(Vec<(String, String)>),
    /// Of several, each with its value, the worst.
    WorstOf(Vec<(String, String)>),
}

/// All who take part, in the file's order.
pub(crate) fn of(experiment: &Experiment) -> Vec<Entrant> {
    let named = experiment.policies.0.iter();
    named
        .flat_map(|(name, contender)| entrants(name, contender.get_ref()))
        .collect()
}

fn entrants(name: &str, contender: &Contender) -> Vec<Entrant> {
    let chosen = match contender {
        Contender::Policy(policy) => {
            return vec![Entrant {
                name: name.into(),
                value: None,
                is: Is::One(policy.clone()),
            }];
        }
        Contender::Chosen(chosen) => chosen,
    };
    let template = chosen.template().unwrap_or_default();
    let several = chosen.values().into_iter().map(|value| {
        let policy = template.replace("{}", &value);
        (value, policy)
    });
    if chosen.each_of.is_some() {
        let one = |(value, policy): (String, String)| Entrant {
            // A policy that is not a group's variant is known by its own name.
            name: match template {
                "{}" => value.clone(),
                _ => format!("{name} {value}"),
            },
            value: Some(value),
            is: Is::One(policy),
        };
        return several.map(one).collect();
    }
    vec![Entrant {
        name: name.into(),
        value: None,
        is: match chosen.best_of {
            Some(_) => Is::BestOf(several.collect()),
            None => Is::WorstOf(several.collect()),
        },
    }]
}

/// The names with those of groups replaced by their members'.
pub(crate) fn expanded(experiment: &Experiment, names: &[String]) -> Vec<String> {
    let members = |name: &String| match experiment.policies.get(name) {
        Some(contender) => entrants(name, contender.get_ref())
            .into_iter()
            .map(|entrant| entrant.name)
            .collect(),
        None => vec![name.clone()],
    };
    names.iter().flat_map(members).collect()
}

/// Several values, told or those of a family.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list of values, or a family of policies: \"online\" or \"published\""
)]
pub(crate) enum Among {
    Family(Family),
    Values(Vec<Text>),
}

impl Among {
    pub(crate) fn values(&self) -> Vec<String> {
        match self {
            Among::Family(family) => family.names(),
            Among::Values(values) => values.iter().map(|Text(value)| value.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_what_their_names_say() {
        let (online, published) = (Family::Online.names(), Family::Published.names());
        let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
        for name in ["lru", "arc", "fd-buffer", "fd-exact", "w-tinylfu", "ace"] {
            assert!(has(&online, name) && has(&published, name), "{name}");
        }
        for name in ["belady", "cost-belady", "price-guided"] {
            assert!(!has(&online, name), "{name} knows the future");
        }
        assert!(has(&online, "ebb"));
        for ours in ["ebb", "auto"] {
            assert!(
                !has(&published, ours),
                "the source of {ours} has to be '{OURS}', or it is its own rival"
            );
        }
    }
}
