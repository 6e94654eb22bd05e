//! The policies, devices and generators to choose from.

use ebbpool_lab::LabError;
use ebbpool_policy::{Capabilities, PolicySpec, registry};
use ebbpool_trace::generators;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors::{Class, lab_error, raise};
use crate::requests::parsed;

fn text_of(py: Python<'_>, value: &Value) -> PyResult<String> {
    let text = serde_json::to_string(value);
    text.map_err(|error| raise(py, Class::Failure, &error.to_string()))
}

/// All policies of the registry.
#[pyfunction]
pub(crate) fn policies_json(py: Python<'_>) -> PyResult<String> {
    let all = registry::entries().iter().map(|entry| {
        json!({
            "policy": entry.name,
            "summary": entry.summary,
            "how": entry.how,
            "when": entry.when,
            "source": entry.source,
            "online": entry.online(),
            "looks_at_costs": entry.capabilities.contains(Capabilities::COSTS),
        })
    });
    text_of(py, &all.collect())
}

/// One policy with its parameters, as the caller gives them.
#[pyfunction]
pub(crate) fn policy_json(py: Python<'_>, policy: &str) -> PyResult<String> {
    let spec: PolicySpec = parsed(py, "policy", policy)?;
    let entry = spec.entry();
    let parameters = entry.params.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "value": spec.spelled(parameter.name),
            "default": parameter.default,
            "about": parameter.about,
            "values": parameter.kind.to_string(),
        })
    });
    let aliases =
        entry.aliases.iter().map(|(alias, preset)| json!({ "name": alias, "stands_for": format!("{}:{preset}", entry.name) }));
    let info = json!({
        "policy": spec.to_string(),
        "summary": entry.summary,
        "how": entry.how,
        "when": entry.when,
        "source": entry.source,
        "online": spec.online(),
        "looks_at_costs": spec.looks_at_costs(),
        "bytes_per_frame": entry.memory.order + entry.memory.ghosts,
        "parameters": parameters.collect::<Vec<Value>>(),
        "aliases": aliases.collect::<Vec<Value>>(),
    });
    text_of(py, &info)
}

/// For each policy of a list its canonical spelling, whether it is online, and whether it looks at costs.
#[pyfunction]
pub(crate) fn canonical_policies(py: Python<'_>, policies: Vec<String>) -> PyResult<Vec<(String, bool, bool)>> {
    let selection = match policies.is_empty() {
        true => ebbpool_lab::PolicySelection::evaluated_in_papers().with_recommended(),
        false => ebbpool_lab::PolicySelection::lists(policies),
    };
    let specs = selection.resolve(&Default::default());
    let specs = specs.map_err(|error| lab_error(py, error.into()))?;
    Ok(specs.iter().map(|spec| (spec.to_string(), spec.online(), spec.looks_at_costs())).collect())
}

/// The items of a list that are separated by commas; those between the parameters of an item belong to it.
#[pyfunction]
pub(crate) fn split_list(text: &str) -> Vec<String> {
    ebbpool_policy::split_list(text)
}

/// One device, or without a name all, as the command's JSON.
#[pyfunction]
#[pyo3(signature = (name = None))]
pub(crate) fn device_json(py: Python<'_>, name: Option<&str>) -> PyResult<String> {
    let described = ebbpool_cli::devices_json(name);
    described.map_err(|error: LabError| lab_error(py, error))
}

/// All generators with their parameters.
#[pyfunction]
pub(crate) fn generators_json(py: Python<'_>) -> PyResult<String> {
    let all = generators().map(|generator| {
        let parameters = generator.parameters.iter().map(|parameter| {
            json!({
                "name": parameter.name,
                "default": parameter.default,
                "about": parameter.about,
                "values": parameter.kind.to_string(),
            })
        });
        json!({
            "generator": generator.name,
            "summary": generator.summary,
            "parameters": parameters.collect::<Vec<Value>>(),
        })
    });
    text_of(py, &all.collect())
}
