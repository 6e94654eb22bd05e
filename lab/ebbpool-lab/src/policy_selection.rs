//! The selection of policies in a request.

use std::collections::HashSet;
use std::sync::Arc;

use ebbpool_cost::is_invisible;
use ebbpool_policy::{PolicySpec, registry, split_list};
use ebbpool_sim::GuestPolicy;

use crate::error::RequestError;
use crate::pricing::DeviceFeatures;

/// The online policies that the five papers evaluate.
const OF_THE_PAPERS: &str = "fifo,lru,clock,cflru,cflru-c,lru-wsr,ccf-lru,ad-lru,casa,ref,cfdc,\
                             fd-static,fd-buffer";

/// The policy for users who do not want to choose (`docs/choosing.md`).
pub const RECOMMENDED: &str = "ebb";

/// The policy that savings are relative to.
pub const BASELINE: &str = "lru";

/// Policies as a user names them, or as a program has them. They are resolved when the device is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySelection {
    lists: Vec<String>,
    with_recommended: bool,
    /// Takes the place of the lists.
    specs: Option<Vec<PolicySpec>>,
}

impl PolicySelection {
    /// The online policies that the five papers evaluate.
    pub fn evaluated_in_papers() -> Self {
        Self::default()
    }

    /// Lists of policies separated by commas. `all` stands for the online policies that the device supports.
    /// Without a list the selection is that of the papers.
    pub fn lists<T: Into<String>>(lists: impl IntoIterator<Item = T>) -> Self {
        PolicySelection { lists: lists.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// These policies.
    pub fn specs(policies: impl IntoIterator<Item = PolicySpec>) -> Self {
        PolicySelection { specs: Some(policies.into_iter().collect()), ..Self::default() }
    }

    /// Adds the recommended policy if the user gives no list.
    #[must_use]
    pub fn with_recommended(mut self) -> Self {
        self.with_recommended = self.lists.is_empty();
        self
    }

    /// The policies, or none if the selection is empty, which a request with policies from outside may have.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve) and [`check_names`].
    pub(crate) fn resolve_with(
        &self,
        guests: &[Arc<dyn GuestPolicy>],
        capabilities: &DeviceFeatures,
    ) -> Result<Vec<PolicySpec>, RequestError> {
        let registered = match self.resolve(capabilities) {
            Err(RequestError::NoPolicy) if !guests.is_empty() => Vec::new(),
            resolved => resolved?,
        };
        check_names(registered.iter().map(ToString::to_string), guests)?;
        Ok(registered)
    }

    /// The policies, each once.
    ///
    /// # Errors
    ///
    /// [`RequestError::NoPolicy`], [`RequestError::Policy`], and the errors of [`DeviceFeatures::supported`].
    pub fn resolve(&self, capabilities: &DeviceFeatures) -> Result<Vec<PolicySpec>, RequestError> {
        let mut specs: Vec<PolicySpec> = Vec::new();
        let lists = match (&self.specs, self.lists.is_empty()) {
            (Some(_), _) => Vec::new(),
            (None, true) => vec![OF_THE_PAPERS],
            (None, false) => self.lists.iter().map(String::as_str).collect(),
        };
        for spec in self.specs.iter().flatten() {
            specs.push(capabilities.supported(spec.clone())?);
        }
        for item in lists.into_iter().flat_map(split_list) {
            if item == "all" {
                let online = registry::entries().iter().filter(|entry| entry.online());
                let supported = online.filter(|entry| capabilities.supports(entry));
                specs.extend(supported.map(PolicySpec::from_entry));
            } else {
                specs.push(capabilities.supported(item.parse()?)?);
            }
        }
        if self.with_recommended {
            specs.push(capabilities.supported(RECOMMENDED.parse()?)?);
        }
        if specs.is_empty() {
            return Err(RequestError::NoPolicy);
        }
        let mut seen = Vec::new();
        specs.retain(|spec| {
            let spelled = spec.to_string();
            let new = !seen.contains(&spelled);
            seen.push(spelled);
            new
        });
        Ok(specs)
    }
}

/// Checks that policies from outside the registry have names by which results can be distinguished from each other, and from
/// those with the names of `others`.
///
/// # Errors
///
/// [`RequestError::TwoPolicies`], [`RequestError::PolicyName`], and [`RequestError::RegisteredName`] for one that would be taken for
/// a registered policy, for example for the baseline.
pub fn check_names(others: impl IntoIterator<Item = String>, guests: &[Arc<dyn GuestPolicy>]) -> Result<(), RequestError> {
    if guests.is_empty() {
        return Ok(());
    }
    let mut names: HashSet<String> = others.into_iter().collect();
    for guest in guests {
        let name = guest.name();
        if name.is_empty() || name.trim() != name || name.contains(is_invisible) {
            return Err(RequestError::PolicyName(name.into()));
        }
        if name.parse::<PolicySpec>().is_ok() {
            return Err(RequestError::RegisteredName(name.into()));
        }
        if !names.insert(name.into()) {
            return Err(RequestError::TwoPolicies(name.into()));
        }
    }
    Ok(())
}
