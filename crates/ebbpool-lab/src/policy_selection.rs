//! Which policies a request is about.

use ebbpool_policy::{PolicySpec, registry, split_list};

use crate::error::RequestError;
use crate::pricing::Capabilities;

/// The online policies that the five papers evaluate.
const OF_THE_PAPERS: &str = "fifo,lru,clock,cflru,cflru-c,lru-wsr,ccf-lru,ad-lru,casa,ref,cfdc,\
                             fd-static,fd-buffer";

/// The policy to take where a user does not want to choose (`docs/choosing.md`).
pub const RECOMMENDED: &str = "ebb";

/// The policy that savings are counted against.
pub const BASELINE: &str = "lru";

/// Policies as a user names them; which they are is known once the device is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySelection {
    lists: Vec<String>,
    with_recommended: bool,
    one: Option<String>,
}

impl PolicySelection {
    /// The online policies that the five papers evaluate.
    pub fn of_the_papers() -> Self {
        Self::default()
    }

    /// Lists of policies separated by commas, of which `all` are the online policies that the device supports;
    /// without a list, those of the papers.
    pub fn lists<T: Into<String>>(lists: impl IntoIterator<Item = T>) -> Self {
        PolicySelection {
            lists: lists.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// One policy, whose parameters may stand after commas.
    pub fn one(policy: &str) -> Self {
        PolicySelection {
            one: Some(policy.into()),
            ..Self::default()
        }
    }

    /// The same, and the recommended policy too where no list is named.
    #[must_use]
    pub fn with_recommended(mut self) -> Self {
        self.with_recommended = self.lists.is_empty();
        self
    }

    /// The policies, each once.
    ///
    /// # Errors
    ///
    /// [`RequestError::NoPolicy`], and what [`Capabilities::policy`] refuses.
    pub fn resolve(&self, capabilities: &Capabilities) -> Result<Vec<PolicySpec>, RequestError> {
        if let Some(policy) = &self.one {
            return Ok(vec![capabilities.policy(policy)?]);
        }
        let mut specs: Vec<PolicySpec> = Vec::new();
        let lists = match self.lists.is_empty() {
            true => vec![OF_THE_PAPERS],
            false => self.lists.iter().map(String::as_str).collect(),
        };
        for item in lists.into_iter().flat_map(split_list) {
            if item == "all" {
                let online = registry::entries().iter().filter(|entry| entry.online);
                let supported = online.filter(|entry| capabilities.supports(entry));
                specs.extend(supported.map(PolicySpec::of));
            } else {
                specs.push(capabilities.policy(&item)?);
            }
        }
        if self.with_recommended {
            specs.push(capabilities.policy(RECOMMENDED)?);
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
