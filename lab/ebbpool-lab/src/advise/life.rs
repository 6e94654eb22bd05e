//! How long the device lives.

use std::time::Duration;

use ebbpool_device::profiles::Endurance;
use schemars::JsonSchema;
use serde::Serialize;

use super::clock::DAYS_PER_YEAR;
use super::load::{LoadTerms, SystemLoad, life_of, sure_years};
use super::measured::{MeasuredDay, MeasuredWrites};
use super::simulation::SimulatedCell;
use super::{MemoryChoice, MemoryPoint};
use crate::pricing::Pricing;

/// From where the bytes that a host may write are known.
#[derive(Clone, Debug)]
pub(super) enum LifeBasis {
    /// The figures of a profile, and the bytes that a write of a page makes, in whole pages of the device.
    Rated(Endurance, Option<u64>),
    /// The model of a simulated device reports them after each run.
    Simulated,
    /// They are not known, for this reason.
    Unknown(String),
}

impl LifeBasis {
    /// What is known of the device that prices the runs.
    pub(super) fn for_pricing(pricing: &Pricing) -> Self {
        match (&pricing.device_name, &pricing.endurance) {
            (None, _) => LifeBasis::Unknown("no device is named".into()),
            (Some(_), Some(endurance)) => LifeBasis::Rated(endurance.clone(), pricing.written_bytes),
            (Some(name), None) if name.starts_with("flash:") => LifeBasis::Simulated,
            (Some(name), None) => {
                LifeBasis::Unknown(format!("the profile of {name} does not say how much can be written to it"))
            }
        }
    }

    /// The bytes that a write of a page of `page_size` bytes takes of the device's life.
    pub(super) fn written_bytes(&self, page_size: Option<u64>) -> Option<u64> {
        match self {
            LifeBasis::Rated(_, written_bytes) => written_bytes.or(page_size),
            LifeBasis::Simulated | LifeBasis::Unknown(_) => page_size,
        }
    }

    /// The bytes that the host may write to the device of a run.
    pub(super) fn host_bytes(&self, cell: &SimulatedCell) -> Option<f64> {
        match self {
            LifeBasis::Rated(endurance, _) => Some(endurance.host_bytes),
            LifeBasis::Simulated => cell.device.as_ref()?.flash.as_ref()?.lifetime_host_bytes,
            LifeBasis::Unknown(_) => None,
        }
    }

    /// The lowest and the highest number of bytes that the host may write.
    pub(super) fn range(&self) -> Option<[f64; 2]> {
        match self {
            LifeBasis::Rated(endurance, _) => endurance.range,
            LifeBasis::Simulated | LifeBasis::Unknown(_) => None,
        }
    }

    /// The assumption in a sentence, or why there is no life.
    fn assumption(&self, cell: &SimulatedCell) -> String {
        match self {
            LifeBasis::Rated(endurance, _) => endurance.assumption.clone(),
            LifeBasis::Unknown(why) => format!("The device's life is not known: {why}."),
            LifeBasis::Simulated => {
                let report = cell.device.as_ref().and_then(|device| device.flash.as_ref());
                let Some(report) = report else {
                    return "The device's life is not known: the device has no report.".into();
                };
                match (report.byte_write_amplification, &report.not_steady) {
                    (Some(amplification), _) => format!(
                        "The simulated device programs {amplification:.2} bytes for each byte of the host{}.",
                        match &report.lifetime_assumes {
                            Some(assumes) => format!("; {assumes}"),
                            None => ", and the run shows how evenly its blocks wear".into(),
                        }
                    ),
                    (None, Some(why)) => format!("The device's life is not known: it has not reached a steady state ({why})."),
                    (None, None) => "The device's life is not known: the run wrote too little.".into(),
                }
            }
        }
    }
}

/// A cause of writes, and how much of the present system's writes it makes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct WritesByCause {
    /// The cause.
    pub cause: String,
    /// Page writes per reference; below 0 for those that are not counted since their pages were dirty at the start. Those that are
    /// included add up to the load's.
    pub writes_per_reference: f64,
    /// Bytes per day, if time and page size are known.
    pub bytes_per_day: Option<f64>,
    /// True if `writes_per_second` of the load and its life include them.
    pub included: bool,
}

/// The life of the device.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct LifeAnswer {
    /// Bytes that the host may write in the device's life; of a simulated device, under the recommendation.
    pub host_bytes: Option<f64>,
    /// The lowest and the highest value of `host_bytes`, if only these limits are known.
    pub range: Option<[f64; 2]>,
    /// What the life rests on, or why it is not known, in a sentence.
    pub assumption: String,
    /// What the present system wrote while the trace was captured, in bytes per day.
    pub measured: Option<MeasuredDay>,
    /// What is written besides, and in no figure: with an entry, every life is the longest possible one.
    pub not_counted: Vec<String>,
    /// The writes of pages of the present system by cause, by simulation.
    pub causes: Vec<WritesByCause>,
    /// The life that the request asks for.
    pub required_years: Option<f64>,
    /// Whether the present system reaches it, at the lower end of the range.
    pub reached_now: Option<bool>,
    /// Whether the recommended system reaches it, at the lower end of the range.
    pub reached_then: Option<bool>,
    /// Bytes in a day with which the device reaches it, at the lower end of the range.
    pub allowed_bytes_per_day: Option<f64>,
    /// The smallest memory of the curve, and its best policy, that reach it at the lower end of the range, apart from what is not
    /// counted.
    pub reached_by: Option<MemoryChoice>,
    /// The recommended policy with twice the recommended memory.
    pub larger_buffer: Option<SystemLoad>,
}

/// The systems that a life is computed for.
pub(super) struct ComparedLoads<'a> {
    pub(super) now: &'a SystemLoad,
    pub(super) then: &'a SystemLoad,
    pub(super) then_cell: &'a SimulatedCell,
    pub(super) larger: Option<SystemLoad>,
    pub(super) curve: &'a [MemoryPoint],
    pub(super) checkpoints: Option<WritesByCause>,
    pub(super) not_counted: Vec<String>,
    pub(super) measured: Option<&'a MeasuredWrites>,
}

impl LifeAnswer {
    pub(super) fn new(terms: &LoadTerms, required: Option<Duration>, of: ComparedLoads) -> Self {
        let host_bytes = terms.life.host_bytes(of.then_cell);
        let required_years = required.map(|life| life.as_secs_f64() / (86_400.0 * DAYS_PER_YEAR));
        // A life that is the longest possible one can be too short for certain, and never long enough.
        let is_complete = of.not_counted.is_empty();
        let reaches = |load: &SystemLoad| {
            let reached = match terms.wears(load.writes_per_reference) {
                false => host_bytes.and(required_years).map(|_| true),
                true => Some(sure_years(load.life()?) >= required_years?),
            };
            reached.filter(|&reached| is_complete || !reached)
        };
        // The device takes whole pages of its own; what the host may write is less by the same ratio.
        let own_share = match (terms.page_size, terms.life.written_bytes(terms.page_size)) {
            (Some(page), Some(written)) => page as f64 / written as f64,
            _ => 1.0,
        };
        let sure_bytes = terms.life.range().map(|[low, _]| low).or(host_bytes);
        let allowed = sure_bytes.zip(required_years).map(|(bytes, years)| own_share * bytes / (years * DAYS_PER_YEAR));
        let fits = |point: &&MemoryPoint| {
            let life = life_of(point.life_years, point.life_range_years);
            let lives = match terms.wears(point.writes_per_reference) {
                false => Some(f64::INFINITY),
                true => life.map(sure_years),
            };
            lives.zip(required_years).is_some_and(|(years, required)| years >= required)
        };
        let reached_by = of.curve.iter().find(fits).map(|point| MemoryChoice {
            policy: point.policy.clone(),
            frames: point.frames,
            bytes: point.bytes,
        });
        LifeAnswer {
            host_bytes,
            range: terms.life.range(),
            assumption: terms.life.assumption(of.then_cell),
            measured: of.measured.map(MeasuredWrites::per_day),
            not_counted: of.not_counted,
            causes: causes(terms, of.now, of.checkpoints),
            required_years,
            reached_now: reaches(of.now),
            reached_then: reaches(of.then),
            allowed_bytes_per_day: allowed,
            reached_by,
            larger_buffer: of.larger,
        }
    }
}

fn causes(terms: &LoadTerms, now: &SystemLoad, checkpoints: Option<WritesByCause>) -> Vec<WritesByCause> {
    let cause = |cause: &str, writes: i128, included| {
        let writes_per_reference = writes as f64 / now.references.max(1) as f64;
        WritesByCause {
            cause: cause.into(),
            writes_per_reference,
            bytes_per_day: terms.bytes_of_pages(writes_per_reference),
            included,
        }
    };
    let SystemLoad { background_writes, checkpoint_writes, end_writes, dirty_before, dirty_left, .. } = *now;
    let [background, of_checkpoints, at_end, before] =
        [background_writes, checkpoint_writes, end_writes, dirty_before].map(i128::from);
    // What is counted of these adds up to the writes.
    let evictions = i128::from(now.writes) + before - background - of_checkpoints - at_end;
    let all = [
        ("evictions", evictions, true),
        ("the background writer", background, true),
        ("checkpoints", of_checkpoints, true),
        ("pages still dirty at the end", at_end, true),
        ("pages still dirty at the end", i128::from(dirty_left), false),
        ("pages that were dirty at the start", -before, true),
    ];
    let some = all.into_iter().filter(|&(name, writes, _)| name == "evictions" || writes != 0);
    some.map(|(name, writes, included)| cause(name, writes, included)).chain(checkpoints).collect()
}
