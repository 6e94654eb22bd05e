//! The probabilities of references, for policies that know them.

use std::sync::Arc;

use ebbpool_policy::{Capabilities, PageProbabilities, PolicySpec};
use ebbpool_trace::{Source, generators};

use crate::error::SimError;

/// Checks, before a pass over the trace, that it knows all that the policies have to know.
///
/// # Errors
///
/// [`SimError::NoProbabilities`].
pub fn check_policies<'p>(source: &Source, policies: impl IntoIterator<Item = &'p PolicySpec>) -> Result<(), SimError> {
    let knows = |policy: &&PolicySpec| policy.capabilities().contains(Capabilities::PROBABILITIES);
    match policies.into_iter().find(knows) {
        Some(policy) if !source.knows_page_probabilities() => {
            let known = generators().filter(|generator| generator.knows_probabilities);
            let names: Vec<&str> = known.map(|generator| generator.name).collect();
            Err(SimError::NoProbabilities {
                trace: source.label().into(),
                policy: policy.to_string(),
                generators: names.join(", "),
            })
        }
        _ => Ok(()),
    }
}

/// The probabilities of the trace's references, if any of the policies has to know them.
pub(crate) fn for_policies<'p>(
    source: &Source,
    policies: impl Iterator<Item = &'p PolicySpec> + Clone,
) -> Result<Option<Arc<PageProbabilities>>, SimError> {
    check_policies(source, policies.clone())?;
    if !policies.into_iter().any(|policy| policy.capabilities().contains(Capabilities::PROBABILITIES)) {
        return Ok(None);
    }
    Ok(source.page_probabilities()?.map(Arc::new))
}
