//! Arguments of Python as parts of requests to the lab.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use ebbpool_device::arrivals::Rate;
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_lab::guest::check_names;
use ebbpool_lab::{CheckpointSchedule, CountingRules, DeviceFeatures, MemorySize, PolicySelection, PricingRequest};
use ebbpool_sim::{AtEnd, GuestPolicy};
use pyo3::prelude::*;

use crate::calls::Calls;
use crate::errors::{lab_error, wrong};
use crate::policy::guest;

/// A text as a value; the error names the argument.
pub(crate) fn parsed<T: FromStr>(py: Python<'_>, argument: &str, text: &str) -> PyResult<T>
where
    T::Err: Display,
{
    text.parse().map_err(|error| wrong(py, argument, error))
}

/// Texts as values.
pub(crate) fn all_parsed<T: FromStr>(py: Python<'_>, argument: &str, texts: &[String]) -> PyResult<Vec<T>>
where
    T::Err: Display,
{
    let parse = |text: &String| parsed(py, argument, text);
    texts.iter().map(parse).collect()
}

/// How references are counted.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Counting {
    warmup: String,
    at_end: String,
    cluster_size: u64,
    rate: Option<String>,
    checkpoints: Option<String>,
}

pub(crate) fn at_end(py: Python<'_>, text: &str) -> PyResult<AtEnd> {
    match text {
        "free" => Ok(AtEnd::Free),
        "flush" => Ok(AtEnd::Flush),
        other => {
            let text = format!("'{other}' is neither 'free' nor 'flush'");
            Err(wrong(py, "at_end", text))
        }
    }
}

/// When all dirty pages are written.
pub(crate) fn checkpoints(py: Python<'_>, text: Option<&str>) -> PyResult<Option<CheckpointSchedule>> {
    let schedule = text.map(|text| parsed::<CheckpointSchedule>(py, "checkpoints", text));
    schedule.transpose()
}

impl Counting {
    pub(crate) fn rules(&self, py: Python<'_>) -> PyResult<CountingRules> {
        let warmup = self.warmup.parse().map_err(|error| wrong(py, "warmup", error))?;
        if self.cluster_size == 0 {
            return Err(wrong(py, "cluster_size", "a cluster has at least 1 page"));
        }
        let rate = self.rate.as_deref();
        let rate = rate.map(|text| parsed::<Rate>(py, "rate", text));
        let mut counting = CountingRules::default();
        counting.warmup = warmup;
        counting.at_end = at_end(py, &self.at_end)?;
        counting.cluster_size = self.cluster_size;
        counting.rate = rate.transpose()?;
        counting.checkpoints = checkpoints(py, self.checkpoints.as_deref())?;
        Ok(counting)
    }
}

/// Memory sizes.
pub(crate) fn sizes(py: Python<'_>, frames: &[String]) -> PyResult<Vec<MemorySize>> {
    all_parsed(py, "frames", frames)
}

/// One price for each asymmetry, or that of a device.
pub(crate) fn pricing(py: Python<'_>, asymmetry: &[String], device: Option<&str>) -> PyResult<Vec<PricingRequest>> {
    let specs: Vec<AsymmetrySpec> = all_parsed(py, "asymmetry", asymmetry)?;
    let one = |spec| PricingRequest::new(spec, device).map_err(|error| lab_error(py, error.into()));
    match specs.is_empty() {
        true => Ok(vec![one(None)?]),
        false => specs.into_iter().map(|spec| one(Some(spec))).collect(),
    }
}

/// Policies by name, and those of the caller.
pub(crate) type Policies = (PolicySelection, Vec<Arc<dyn GuestPolicy>>);

/// The policies of a list, in which texts are names and all else is a policy of the caller. `None` stands for the
/// policies of the papers.
pub(crate) fn policies(py: Python<'_>, calls: &Arc<Calls>, policies: Option<Vec<Bound<'_, PyAny>>>) -> PyResult<Policies> {
    let Some(policies) = policies else {
        return Ok((PolicySelection::evaluated_in_papers(), Vec::new()));
    };
    let mut names: Vec<String> = Vec::new();
    let mut guests: Vec<Arc<dyn GuestPolicy>> = Vec::new();
    for policy in policies {
        match policy.extract::<String>() {
            Ok(name) => names.push(name),
            Err(_) => guests.push(guest(py, calls, &policy)?),
        }
    }
    // An empty selection would stand for the policies of the papers.
    if names.is_empty() {
        names.push(String::new());
    }
    Ok((PolicySelection::lists(names), guests))
}

/// Raises an error if a policy of the caller has the name of another policy, or none. The lab checks this as well, but only when
/// an executor has already done its part.
#[pyfunction]
#[pyo3(signature = (given))]
pub(crate) fn check_policies(py: Python<'_>, given: Option<Vec<Bound<'_, PyAny>>>) -> PyResult<()> {
    let (selection, guests) = policies(py, &Calls::new(), given)?;
    // The names of an own device's policies are known only with the device; the lab checks them.
    let registered = selection.resolve(&DeviceFeatures::default());
    let names = registered.unwrap_or_default();
    check_names(names.iter().map(ToString::to_string), &guests).map_err(|error| lab_error(py, error.into()))
}
