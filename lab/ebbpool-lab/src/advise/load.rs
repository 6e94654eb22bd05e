//! Reads and writes of a system, per reference and in time.

use schemars::JsonSchema;
use serde::Serialize;

use super::clock::{ArrivalRate, DAYS_PER_YEAR};
use super::life::LifeBasis;
use super::measured::MeasuredDay;
use super::notes::{AdviceNote, NoteKind};
use super::simulation::SimulatedCell;
use crate::device_life::{DeviceLife, OwedWrites};
use crate::money::{MonthlyCost, MonthlyLoad, Tariff};
use crate::numbers::pace;

/// A policy with a memory size: its bill, its reads and writes, and what they do to the device. Figures in time are
/// `None` where the arrival of references is not known, bytes where the size of a page is not known.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct SystemLoad {
    /// The policy in canonical spelling.
    pub policy: String,
    /// Frames of the buffer.
    pub frames: u64,
    /// Bytes of the buffer.
    pub bytes: Option<u64>,
    /// The bill per reference, in page reads.
    pub cost: f64,
    /// Hits over references.
    pub hit_ratio: f64,
    /// Page reads per reference.
    pub reads_per_reference: f64,
    /// Page writes per reference.
    pub writes_per_reference: f64,
    /// Page reads per second.
    pub reads_per_second: Option<f64>,
    /// Page writes per second.
    pub writes_per_second: Option<f64>,
    /// Bytes that the system writes in a day.
    pub bytes_written_per_day: Option<f64>,
    /// Years of 365 days until the device has taken all the bytes that it can.
    pub life_years: Option<f64>,
    /// The least and the most years, where the device's endurance has a range.
    pub life_range_years: Option<[f64; 2]>,
    /// The share of the time for which the device is busy; above 1 it does not keep up.
    pub busy_share: Option<f64>,
    /// $ a month of the device, and of the memory if the request has a price for it.
    pub dollars_per_month: Option<f64>,
    /// Counted references.
    pub references: u64,
    /// Counted page reads.
    pub reads: u64,
    /// Counted page writes.
    pub writes: u64,
    /// Those of a server's background writer, where the policy models one, also those of `dirty_before`.
    pub background_writes: u64,
    /// Those of a server's checkpoints, where the policy models them, also those of `dirty_before`.
    pub checkpoint_writes: u64,
    /// Pages that were dirty at the end and written then, also those of `dirty_before`.
    pub end_writes: u64,
    /// Pages that were dirty when the counting began; as many are written and not among the writes.
    pub dirty_before: u64,
    /// Pages that are dirty at the end and not written.
    pub dirty_left: u64,
}

impl SystemLoad {
    /// Counted misses, also those that read nothing since they write all of a page.
    pub(super) fn misses(&self) -> u64 {
        ((1.0 - self.hit_ratio) * self.references as f64).round() as u64
    }
}

/// What turns counts into figures in time.
#[derive(Clone, Debug)]
pub(super) struct LoadTerms {
    pub(super) rate: Option<ArrivalRate>,
    pub(super) page_size: Option<u64>,
    pub(super) life: LifeBasis,
    pub(super) measured: Option<MeasuredTerms>,
    pub(super) counted: CountedShare,
    pub(super) money: MoneyTerms,
}

/// What the server itself counted of its page reads and writes, as a multiple of what the simulation has of the present system; 1
/// where the server did not count. Figures in time start from the server's counts, and change as in the simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CountedShare {
    pub(super) reads: f64,
    pub(super) writes: f64,
}

impl CountedShare {
    pub(super) const ALL: CountedShare = CountedShare { reads: 1.0, writes: 1.0 };

    /// The share by what the server counted in a second, if it did, and what the simulation of the present system has.
    pub(super) fn new(counted: [Option<f64>; 2], simulated: [f64; 2]) -> Self {
        let share = |at: usize| counted[at].filter(|_| simulated[at] > 0.0).map_or(1.0, |counted| counted / simulated[at]);
        CountedShare { reads: share(0), writes: share(1) }
    }

    /// True if one of the two is not near what the simulation has.
    pub(super) fn differs(&self) -> bool {
        const NEAR: std::ops::RangeInclusive<f64> = 0.9..=1.1;
        [self.reads, self.writes].iter().any(|share| !NEAR.contains(share))
    }
}

/// What turns a load into $.
#[derive(Clone, Debug)]
pub(super) struct MoneyTerms {
    pub(super) tariff: Option<Tariff>,
    pub(super) memory_price: Option<f64>,
    /// Bytes of the database, if the trace states its pages.
    pub(super) stored_bytes: Option<u64>,
    /// The share of the page reads that reach the device.
    pub(super) device_share: f64,
}

/// Measured bytes per day, from which simulated changes start.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredTerms {
    /// What the present system writes, and the most that it can have written.
    total: f64,
    most: f64,
    /// Those of pages, where they were counted apart: no policy changes the others.
    pages: Option<f64>,
    /// The simulated page writes per reference of the present system.
    writes_per_reference: f64,
}

/// Bytes that a system writes in a day.
#[derive(Clone, Copy, Debug)]
struct DailyBytes {
    pages: f64,
    /// The log and other files, and the most that these can be.
    others: [f64; 2],
}

impl MeasuredTerms {
    pub(super) fn new(day: &MeasuredDay, writes_per_reference: f64) -> Self {
        MeasuredTerms { total: day.total, most: day.most.unwrap_or(day.total), pages: day.pages, writes_per_reference }
    }

    /// The bytes of a system with this number of page writes per reference. `None` for another system than the present one if its
    /// pages were not counted apart, or if the present one writes none by simulation.
    fn bytes(&self, writes_per_reference: f64) -> Option<DailyBytes> {
        let pages = self.pages.unwrap_or(0.0);
        let others = [self.total - pages, self.most - pages];
        if writes_per_reference == self.writes_per_reference {
            return Some(DailyBytes { pages, others });
        }
        self.pages.filter(|_| self.writes_per_reference > 0.0)?;
        let change = writes_per_reference / self.writes_per_reference;
        Some(DailyBytes { pages: pages * change, others })
    }
}

/// A life of this many years.
pub(super) fn life_of(years: Option<f64>, range: Option<[f64; 2]>) -> Option<DeviceLife> {
    years.map(|years| DeviceLife { years, range })
}

/// The years that a device reaches in any case: the lower end of the range of its life.
pub(super) fn sure_years(life: DeviceLife) -> f64 {
    life.range.map_or(life.years, |[low, _]| low)
}

impl SystemLoad {
    /// The device's life, with its range.
    pub(super) fn life(&self) -> Option<DeviceLife> {
        life_of(self.life_years, self.life_range_years)
    }

    pub(super) fn owed_writes(&self) -> OwedWrites {
        OwedWrites::new(self.writes, self.end_writes, self.dirty_left, self.dirty_before)
    }
}

impl LoadTerms {
    /// These terms, with the measured bytes as those of a system with this number of page writes per reference.
    pub(super) fn measured_at(&self, writes_per_reference: f64) -> Self {
        let mut counted = self.counted;
        let measured = self.measured.map(|measured| {
            if measured.pages.is_some() && writes_per_reference > 0.0 {
                counted.writes *= measured.writes_per_reference / writes_per_reference;
            }
            MeasuredTerms { writes_per_reference, ..measured }
        });
        LoadTerms { measured, counted, ..self.clone() }
    }

    /// Page reads and writes a second of a system that makes these per reference by simulation.
    fn per_second(&self, [reads, writes]: [f64; 2]) -> Option<[f64; 2]> {
        let CountedShare { reads: of_reads, writes: of_writes } = self.counted;
        self.rate.map(|rate| [reads * of_reads, writes * of_writes].map(|pages| rate.per_second(pages)))
    }

    /// The bytes that this number of page writes per reference makes in a day.
    pub(super) fn bytes_of_pages(&self, writes_per_reference: f64) -> Option<f64> {
        Some(self.rate?.per_day(self.counted.writes * writes_per_reference) * self.page_size? as f64)
    }

    /// The bytes that a system with this number of page writes per reference writes in a day: the measured ones, with the pages
    /// changed as in the simulation, or else the simulated pages.
    pub(super) fn bytes_per_day(&self, writes_per_reference: f64) -> Option<f64> {
        match &self.measured {
            Some(measured) => {
                let DailyBytes { pages, others } = measured.bytes(writes_per_reference)?;
                Some(pages + others[0])
            }
            None => self.bytes_of_pages(writes_per_reference),
        }
    }

    /// True unless a system with this number of page writes per reference writes nothing at all to the device.
    pub(super) fn wears(&self, writes_per_reference: f64) -> bool {
        let others = self.measured.is_some_and(|measured| measured.most > 0.0);
        writes_per_reference > 0.0 || others
    }

    /// How long a device that takes `host_bytes` takes this number of page writes per reference.
    pub(super) fn life(&self, host_bytes: Option<f64>, writes_per_reference: f64) -> Option<DeviceLife> {
        let bytes = self.life.written_bytes(self.page_size)? as f64;
        let [per_day, most] = match (&self.measured, self.page_size) {
            (Some(measured), Some(page_size)) => {
                let DailyBytes { pages, others } = measured.bytes(writes_per_reference)?;
                others.map(|others| pages * bytes / page_size as f64 + others)
            }
            _ => [self.rate?.per_day(writes_per_reference) * bytes; 2],
        };
        let years = |host_bytes: f64, per_day: f64| host_bytes / per_day / DAYS_PER_YEAR;
        let host_bytes = host_bytes.filter(|_| per_day > 0.0)?;
        let range = match self.life.range() {
            Some([low, high]) => Some([years(low, most), years(high, per_day)]),
            None => (most > per_day).then(|| [most, per_day].map(|bytes| years(host_bytes, bytes))),
        };
        Some(DeviceLife { years: years(host_bytes, per_day), range })
    }

    /// What a system costs in a month; `None` without a price, or without a rate where the device has one.
    pub(super) fn monthly(&self, [reads, writes]: [f64; 2], frames: u64) -> Option<MonthlyCost> {
        let MoneyTerms { tariff, memory_price, stored_bytes, device_share } = &self.money;
        let memory = memory_price.zip(self.page_size).map(|(price, size)| (frames.saturating_mul(size), price));
        let [reads, writes] = self.per_second([reads, writes]).unwrap_or_default();
        let load = MonthlyLoad {
            reads_per_second: reads * device_share,
            writes_per_second: writes,
            stored_bytes: *stored_bytes,
            memory,
        };
        match (tariff, self.rate) {
            (Some(tariff), Some(_)) => Some(tariff.monthly(&load)),
            _ => memory.map(|_| MonthlyCost { without: vec!["the device".into()], ..Tariff::default().monthly(&load) }),
        }
    }

    /// The load of the present system, whose life does not depend on what the trace owes if its writes were measured.
    pub(super) fn present_load(&self, cell: &SimulatedCell) -> SystemLoad {
        let mut load = self.load(cell);
        if self.measured.is_some() {
            let life = self.life(self.life.host_bytes(cell), load.writes_per_reference);
            load.life_years = life.map(|life| life.years);
            load.life_range_years = life.and_then(|life| life.range);
        }
        load
    }

    /// What an operator must know where the simulation of the present system is not near what the server counted.
    pub(super) fn counted_note(&self, now: &SystemLoad) -> Option<AdviceNote> {
        let rate = self.rate.filter(|_| self.counted.differs())?;
        let [reads, writes] = [now.reads_per_reference, now.writes_per_reference].map(|pages| rate.per_second(pages));
        let [reads, writes, of_reads, of_writes] =
            [Some(reads), Some(writes), now.reads_per_second, now.writes_per_second].map(|pages| pace(pages.unwrap_or(0.0)));
        Some(AdviceNote::new(
            NoteKind::Counted,
            format!(
                "by simulation the present system reads {reads} and writes {writes} pages a second, and the server counted {of_reads} \
                 and {of_writes}. Figures in time start from its counts; what a setting saves is less sure. The simulation knows too \
                 little of scans by several processes, of tables that grow, and of unlogged ones"
            ),
        ))
    }

    /// For how long the device is busy with a reference, in µs.
    fn busy_us(&self, cell: &SimulatedCell) -> Option<f64> {
        let simulated = cell.result.cost_us?;
        let report = cell.device.as_ref().map(|device| &device.report);
        let [reads, writes] = report.map_or([0.0; 2], |report| [report.read_cost * self.money.device_share, report.write_cost]);
        let CountedShare { reads: of_reads, writes: of_writes } = self.counted;
        let more = reads * (of_reads - 1.0) + writes * (of_writes - 1.0);
        Some((simulated + more / cell.result.references as f64).max(0.0))
    }

    /// The load of a simulated system.
    pub(super) fn load(&self, cell: &SimulatedCell) -> SystemLoad {
        let result = &cell.result;
        let references = result.references as f64;
        let reads_per_reference = result.reads as f64 / references;
        let writes_per_reference = result.writes as f64 / references;
        let life = self.life(self.life.host_bytes(cell), writes_per_reference);
        let per_second = self.per_second([reads_per_reference, writes_per_reference]);
        let mut load = SystemLoad {
            policy: result.policy.clone(),
            frames: result.frames,
            bytes: self.page_size.map(|size| result.frames.saturating_mul(size)),
            cost: result.cost,
            hit_ratio: result.hit_ratio,
            reads_per_reference,
            writes_per_reference,
            reads_per_second: per_second.map(|[reads, _]| reads),
            writes_per_second: per_second.map(|[_, writes]| writes),
            bytes_written_per_day: self.bytes_per_day(writes_per_reference),
            life_years: life.map(|life| life.years),
            life_range_years: life.and_then(|life| life.range),
            dollars_per_month: self.monthly([reads_per_reference, writes_per_reference], result.frames).map(|cost| cost.total),
            busy_share: self.rate.zip(self.busy_us(cell)).map(|(rate, us)| rate.per_second(us / 1e6)),
            references: result.references,
            reads: result.reads,
            writes: result.writes,
            background_writes: result.background_writes,
            checkpoint_writes: result.checkpoint_writes,
            end_writes: result.end_writes,
            dirty_before: result.not_counted(),
            dirty_left: result.dirty_left,
        };
        if load.owed_writes().are_most() {
            load.life_years = None;
            load.life_range_years = None;
        }
        load
    }
}
