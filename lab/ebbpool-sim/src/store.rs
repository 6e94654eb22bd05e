//! Results stored from one sweep to the next.

use ebbpool_trace::{LateNote, Source};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::checkpoints::CheckpointIntervals;
use crate::curve::{LruCurve, PageSample, PartTraffic};
use crate::engine::Counts;
use crate::on_device::{DeviceAtStart, DeviceOutcome};
use crate::stream::{SimCell, SimOptions, TraceFacts};
use crate::time_line::TimeLine;

/// Stores results by key.
///
/// A store is for one trace and one version of the program: the keys contain everything else that a
/// result depends on. Results that cannot be stored are computed again.
pub trait ResultStore {
    /// The value stored under `key`.
    fn get(&self, key: &str) -> Option<Vec<u8>>;
    /// Stores `value` under `key`.
    fn put(&self, key: &str, value: &[u8]);
}

/// A store that stores nothing.
pub struct NoStore;

impl ResultStore for NoStore {
    fn get(&self, _key: &str) -> Option<Vec<u8>> {
        None
    }
    fn put(&self, _key: &str, _value: &[u8]) {}
}

/// The result of one cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredCell {
    pub(crate) counts: Counts,
    pub(crate) time_line: Option<TimeLine>,
    pub(crate) device: Option<DeviceOutcome>,
}

/// The size of a trace.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct TraceExtent {
    pub(crate) references: u64,
    pub(crate) distinct_pages: u64,
}

impl TraceExtent {
    pub(crate) fn from_facts(facts: &TraceFacts) -> Self {
        TraceExtent { references: facts.references, distinct_pages: facts.distinct_pages }
    }
}

/// The results in a store, by their types.
pub(crate) struct StoredResults<'a> {
    store: &'a dyn ResultStore,
    /// The device that serves all cells.
    device: Option<String>,
}

impl<'a> StoredResults<'a> {
    pub(crate) fn new(store: &'a dyn ResultStore, device: Option<&DeviceAtStart>) -> Self {
        StoredResults { store, device: device.map(DeviceAtStart::key) }
    }

    fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_slice(&self.store.get(key)?).ok()
    }

    fn put<T: Serialize>(&self, key: &str, value: &T) {
        if let Ok(value) = serde_json::to_vec(value) {
            self.store.put(key, &value);
        }
    }

    pub(crate) fn extent(&self) -> Option<TraceExtent> {
        self.get("extent")
    }

    /// The notes of a reader that has read the trace to its end, with the names that its files have in this source.
    pub(crate) fn late_notes(&self, source: &Source) -> Vec<String> {
        let stored: Option<Vec<LateNote>> = self.get("late notes");
        source.labelled(&stored.unwrap_or_default())
    }

    /// To be called when the trace has been read to its end.
    pub(crate) fn put_extent(&self, extent: TraceExtent, source: &Source) {
        self.put("extent", &extent);
        self.put("late notes", &source.unlabelled_notes());
    }

    pub(crate) fn facts(&self, options: &SimOptions) -> Option<TraceFacts> {
        self.get(&facts_key(options))
    }

    pub(crate) fn put_facts(&self, options: &SimOptions, facts: &TraceFacts) {
        self.put(&facts_key(options), facts);
    }

    /// The cell's result, with a time line if `time_line`; a stored one serves both requests. None is stored of a policy from
    /// outside the registry, whose name does not identify its code.
    pub(crate) fn result(&self, cell: &SimCell, options: &SimOptions, time_line: bool) -> Option<StoredCell> {
        let stored = |with_line| {
            let result: StoredCell = self.get(&self.cell_key(cell, options, with_line)?)?;
            let whole = result.time_line.is_some() == with_line && result.device.is_some() == self.device.is_some();
            whole.then_some(result)
        };
        let without_its_line = || {
            let result = stored(true)?;
            Some(StoredCell { time_line: None, ..result })
        };
        stored(time_line).or_else(|| if time_line { None } else { without_its_line() })
    }

    pub(crate) fn put_result(&self, cell: &SimCell, options: &SimOptions, result: &StoredCell) {
        if let Some(key) = self.cell_key(cell, options, result.time_line.is_some()) {
            self.put(&key, result);
        }
    }

    /// LRU at every size.
    pub(crate) fn lru_curve(&self, options: &SimOptions) -> Option<LruCurve> {
        self.get(&lru_curve_key(options))
    }

    pub(crate) fn put_lru_curve(&self, options: &SimOptions, curve: &LruCurve) {
        self.put(&lru_curve_key(options), curve);
    }

    /// The cell's traffic over each part of the sample.
    pub(crate) fn part_traffic(&self, cell: &SimCell, options: &SimOptions, sample: &PageSample) -> Option<Vec<PartTraffic>> {
        let parts: Vec<PartTraffic> = self.get(&of_parts_key(cell, options, sample)?)?;
        (parts.len() as u64 == sample.parts()).then_some(parts)
    }

    pub(crate) fn put_part_traffic(&self, cell: &SimCell, options: &SimOptions, sample: &PageSample, parts: &[PartTraffic]) {
        if let Some(key) = of_parts_key(cell, options, sample) {
            self.put(&key, &parts);
        }
    }

    fn cell_key(&self, cell: &SimCell, options: &SimOptions, time_line: bool) -> Option<String> {
        let cell = cell_key(cell, options, time_line)?;
        Some(match &self.device {
            Some(device) => format!("{cell} on {device} rate={:?}", options.rate),
            None => cell,
        })
    }
}

fn lru_curve_key(options: &SimOptions) -> String {
    let SimOptions { warmup, cluster_size: _, at_end, threads: _, rate: _, checkpoints } = options;
    format!("lru curve warmup={warmup} at-end={}{}", at_end.name(), of_checkpoints(checkpoints))
}

fn of_parts_key(cell: &SimCell, options: &SimOptions, sample: &PageSample) -> Option<String> {
    let PageSample { rate, grain } = sample;
    let cell = cell_key(cell, options, false)?;
    Some(format!("parts of {cell} sample={rate:?} grain={grain}"))
}

fn facts_key(options: &SimOptions) -> String {
    let SimOptions { warmup, cluster_size, at_end: _, threads: _, rate: _, checkpoints: _ } = options;
    format!("facts warmup={warmup} cluster={cluster_size}")
}

/// `None` of a policy from outside the registry.
fn cell_key(cell: &SimCell, options: &SimOptions, time_line: bool) -> Option<String> {
    let SimCell { policy, frames, asymmetry } = cell;
    let SimOptions { warmup, at_end, cluster_size, threads: _, rate: _, checkpoints } = options;
    let policy = policy.registered()?;
    let asymmetry = match policy.looks_at_costs() {
        true => format!(" R={asymmetry:?}"),
        false => String::new(),
    };
    Some(format!(
        "cell {policy} frames={frames}{asymmetry} warmup={warmup} at-end={} cluster={cluster_size} time-line={time_line}{}",
        at_end.name(),
        of_checkpoints(checkpoints)
    ))
}

/// The part of a key for checkpoints.
fn of_checkpoints(checkpoints: &Option<CheckpointIntervals>) -> String {
    let key = checkpoints.as_ref().map(CheckpointIntervals::key);
    key.map_or_else(String::new, |key| format!(" checkpoints {key}"))
}

#[cfg(test)]
mod tests {
    use ebbpool_cost::PAPERS_BASE;
    use ebbpool_device::changing::AsymmetrySpec;
    use ebbpool_device::{AnyDevice, ChangingDevice, DeviceProfile};

    use super::*;
    use crate::engine::AtEnd;

    #[test]
    fn keys_contain_all_that_a_result_depends_on() {
        let cell = |policy: &str, frames, asymmetry| SimCell { policy: policy.parse().expect("a policy"), frames, asymmetry };
        let plain = SimOptions::default();
        let with = |change: fn(&mut SimOptions)| {
            let mut options = plain.clone();
            change(&mut options);
            options
        };
        let warm = with(|options| options.warmup = 1);
        let free = with(|options| options.at_end = AtEnd::Free);
        let clusters = with(|options| options.cluster_size = 1);
        let every = |intervals: CheckpointIntervals| SimOptions { checkpoints: Some(intervals), ..SimOptions::default() };
        let two = std::num::NonZeroU64::new(2);
        let none = CheckpointIntervals::default();
        let references = every(CheckpointIntervals { references: two, ..none });
        let writes = every(CheckpointIntervals { writes: two, ..none });
        let micros = every(CheckpointIntervals { micros: two, ..none });
        let keys = [
            cell_key(&cell("lru", 10, 1.0), &references, false),
            cell_key(&cell("lru", 10, 1.0), &writes, false),
            cell_key(&cell("lru", 10, 1.0), &micros, false),
            cell_key(&cell("lru", 10, 1.0), &plain, false),
            cell_key(&cell("lru", 10, 1.0), &plain, true),
            cell_key(&cell("lru", 11, 1.0), &plain, false),
            cell_key(&cell("lru", 10, 1.0), &warm, false),
            cell_key(&cell("lru", 10, 1.0), &free, false),
            cell_key(&cell("lru", 10, 1.0), &clusters, false),
            cell_key(&cell("cflru", 10, 1.0), &plain, false),
            cell_key(&cell("cflru:window=0.25", 10, 1.0), &plain, false),
            cell_key(&cell("casa", 10, 1.0), &plain, false),
            cell_key(&cell("casa", 10, 1.5), &plain, false),
        ];
        let different: std::collections::HashSet<&String> = keys.iter().flatten().collect();
        assert_eq!(different.len(), keys.len());

        let threads = with(|options| options.threads = 7);
        let same = |one: &SimCell, other: &SimCell| {
            assert_eq!(cell_key(one, &plain, false), cell_key(other, &threads, false));
        };
        same(&cell("lru", 10, 1.0), &cell("lru", 10, 32.0));
        same(&cell("fd-exact", 10, 1.0), &cell("fd-buffer:cost=exact", 10, 1.0));
        assert_ne!(facts_key(&plain), facts_key(&warm));
        assert_ne!(lru_curve_key(&plain), lru_curve_key(&warm));
        assert_ne!(lru_curve_key(&plain), lru_curve_key(&free));
        assert_ne!(lru_curve_key(&plain), lru_curve_key(&references));
        assert_ne!(lru_curve_key(&micros), lru_curve_key(&references));
        let parts_key = |rate, grain| of_parts_key(&cell("lru", 10, 1.0), &plain, &PageSample { rate, grain });
        assert_ne!(parts_key(0.1, 1), parts_key(0.2, 1));
        assert_ne!(parts_key(0.1, 1), parts_key(0.1, 2));
        assert_ne!(parts_key(1.0, 1), cell_key(&cell("lru", 10, 1.0), &plain, false));
        assert_ne!(facts_key(&plain), facts_key(&clusters));
    }

    #[test]
    fn a_device_and_the_state_that_it_begins_in_are_part_of_the_key() {
        let changing = |text: &str| {
            let spec: AsymmetrySpec = text.parse().expect("an asymmetry");
            AnyDevice::from(ChangingDevice::new(spec.load(PAPERS_BASE).expect("no file")))
        };
        let named = |name: &str| AnyDevice::from(DeviceProfile::named(name).expect("a profile").device());
        let cached = |pages| {
            let profile = DeviceProfile::named("nvme-970evoplus-1t").expect("a profile");
            AnyDevice::from(profile.device().with_cache_left(pages))
        };
        let paged = |page_bytes| {
            let profile = DeviceProfile::named("sata-850evo").expect("a profile");
            AnyDevice::from(profile.for_pages(Some(page_bytes)).device())
        };
        let flash = |keys: &str, page_bytes| {
            let config = format!("flash:slc-mt29f4g08aaa,{keys}");
            let config = config.parse().expect("a flash device");
            DeviceAtStart::flash(config, page_bytes, None).expect("it can be made")
        };
        let all = || -> Vec<DeviceAtStart> {
            vec![
                changing("rm1").into(),
                changing("rm1:base=25").into(),
                changing("rm1:epoch=100").into(),
                changing("rm2").into(),
                changing("rm2:reading=absolute").into(),
                cached(10).into(),
                cached(11).into(),
                named("flash-136").into(),
                named("emmc-5.1").into(),
                paged(4096).into(),
                paged(8192).into(),
                paged(16384).into(),
                flash("blocks=64", None),
                flash("blocks=65", None),
                flash("blocks=64,gc=fifo", None),
                flash("blocks=64,precondition=full", None),
                flash("blocks=64", Some(4096)),
            ]
        };
        let cell = SimCell { policy: "lru".parse().expect("a policy"), frames: 10, asymmetry: 1.0 };
        let key = |device: Option<&DeviceAtStart>| {
            StoredResults::new(&NoStore, device)
                .cell_key(&cell, &SimOptions::default(), false)
                .expect("a policy of the registry")
        };
        let mut keys: Vec<String> = all().iter().map(|device| key(Some(device))).collect();
        let again: Vec<String> = all().iter().map(|device| key(Some(device))).collect();
        assert_eq!(keys, again);
        keys.push(key(None));
        let slowly = SimOptions { rate: Some("100".parse().expect("a rate")), ..SimOptions::default() };
        let device = DeviceAtStart::from(cached(10));
        let slow_key = StoredResults::new(&NoStore, Some(&device)).cell_key(&cell, &slowly, false);
        keys.extend(slow_key);
        let different: std::collections::HashSet<&String> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
    }
}
