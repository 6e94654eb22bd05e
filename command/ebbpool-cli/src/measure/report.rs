//! The figures that follow from the measurements, and their output.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use ebbpool_cost::ByteSize;
use schemars::JsonSchema;
use serde::Serialize;

use super::bench::{Load, Measurement, Operation, Order};
use crate::table;

/// Throughput counts as saturated at this share of the best throughput; a larger share would measure
/// noise.
const SATURATED: f64 = 0.9;

/// The results of all measurements, and the figures that follow from them.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct MeasureReport {
    #[schemars(extend("x-role" = "key"))]
    pub(crate) path: String,
    /// The engine, and whether I/O was direct or buffered.
    #[schemars(extend("x-role" = "key"))]
    pub(crate) storage: String,
    pub(crate) direct: bool,
    pub(crate) page_size: usize,
    /// The number of bytes measured.
    pub(crate) bytes: u64,
    /// The time of each measurement.
    pub(crate) seconds: f64,
    /// Time of a random read of a page, one at a time.
    #[schemars(extend("x-role" = "measured"))]
    pub(crate) read_us: Option<f64>,
    /// Time of a random write of a page, one at a time.
    #[schemars(extend("x-role" = "measured"))]
    pub(crate) write_us: Option<f64>,
    /// `write_us` / `read_us`.
    #[schemars(extend("x-role" = "measured"))]
    pub(crate) alpha: Option<f64>,
    /// The smallest queue depth at which random reads reach 90 % of their best throughput.
    #[schemars(extend("x-role" = "measured"))]
    pub(crate) k_r: Option<u32>,
    /// The smallest queue depth at which random writes reach 90 % of their best throughput.
    #[schemars(extend("x-role" = "measured"))]
    pub(crate) k_w: Option<u32>,
    /// The best throughput of random reads per second.
    #[schemars(extend("x-role" = "measured"))]
    pub(crate) read_iops: Option<f64>,
    /// The best throughput of random writes per second.
    #[schemars(extend("x-role" = "measured"))]
    pub(crate) write_iops: Option<f64>,
    #[schemars(extend("x-role" = "measured"))]
    pub(crate) measurements: Vec<Measurement>,
}

impl MeasureReport {
    /// Computes the figures that follow from the measurements.
    pub(super) fn conclude(mut self) -> Self {
        let us = |operation| Some(self.at(operation, Order::Random, 1)?.us_per_page);
        let (read_us, write_us) = (us(Operation::Read), us(Operation::Write));
        let saturation = |operation| saturation(&self.by_depth(operation, Order::Random));
        let (reads, writes) = (saturation(Operation::Read), saturation(Operation::Write));
        self.alpha = read_us.zip(write_us).map(|(read, write)| write / read);
        (self.read_us, self.write_us) = (read_us, write_us);
        (self.k_r, self.read_iops) = reads.unzip();
        (self.k_w, self.write_iops) = writes.unzip();
        self
    }

    /// The measurements at all queue depths, from the smallest depth on.
    fn by_depth(&self, operation: Operation, order: Order) -> Vec<&Measurement> {
        let matches =
            |load: &Load| load.operation == operation && load.order == order && (load.batch.is_none() || load.queue_depth == 1);
        let all = self.measurements.iter();
        all.filter(|measured| matches(&measured.load)).collect()
    }

    fn at(&self, operation: Operation, order: Order, depth: u32) -> Option<&Measurement> {
        let all = self.by_depth(operation, order);
        all.into_iter().find(|one| one.load.queue_depth == depth)
    }

    fn batch(&self, operation: Operation, batch: u32) -> Option<&Measurement> {
        self.measurements
            .iter()
            .find(|one| one.load.operation == operation && one.load.batch == Some(batch) && one.load.queue_depth > 1)
    }

    /// The report as tables and sentences.
    pub(super) fn to_table(&self) -> String {
        let mut text =
            format!("{}: {} in pages of {} bytes; {}\n\n", self.path, ByteSize::new(self.bytes), self.page_size, self.storage);
        text.push_str(&self.depths());
        text.push('\n');
        text.push_str(&self.batches());
        text.push('\n');
        text.push_str(&self.sentences());
        text
    }

    fn depths(&self) -> String {
        let kinds = [
            (Operation::Read, Order::Random),
            (Operation::Write, Order::Random),
            (Operation::Read, Order::Sequential),
            (Operation::Write, Order::Sequential),
        ];
        let mut table = table::plain();
        let mut units = vec!["depth"];
        let mut heads = vec!["queue"];
        for (operation, order) in kinds {
            if self.at(operation, order, 1).is_some() {
                let (head, unit) = match (operation, order) {
                    (Operation::Read, Order::Random) => ("random reads", "1/s"),
                    (Operation::Write, Order::Random) => ("random writes", "1/s"),
                    (Operation::Read, Order::Sequential) => ("sequential reads", "MiB/s"),
                    (Operation::Write, Order::Sequential) => ("sequential writes", "MiB/s"),
                };
                heads.push(head);
                units.push(unit);
            }
        }
        table.add_row(heads);
        table.add_row(units);
        let depths = self.by_depth(Operation::Read, Order::Random);
        for depth in depths.iter().map(|one| one.load.queue_depth) {
            let mut cells = vec![depth.to_string()];
            for (operation, order) in kinds {
                if let Some(one) = self.at(operation, order, depth) {
                    cells.push(match order {
                        Order::Random => format!("{:.0}", one.pages_per_second),
                        Order::Sequential => {
                            format!("{:.1}", one.bytes_per_second / f64::from(1 << 20))
                        }
                    });
                }
            }
            table.add_row(cells);
        }
        table::finish(table)
    }

    fn batches(&self) -> String {
        let mut table = table::plain();
        let writes = self.batch(Operation::Write, 1).is_some();
        let mut heads = vec!["pages of a batch", "read, µs/page"];
        heads.extend(writes.then_some("write, µs/page"));
        table.add_row(heads);
        for batch in super::STEPS {
            let mut cells = vec![batch.to_string()];
            for operation in [Operation::Read, Operation::Write] {
                if let Some(one) = self.batch(operation, batch) {
                    cells.push(format!("{:.1}", one.us_per_page));
                }
            }
            table.add_row(cells);
        }
        table::finish(table)
    }

    fn sentences(&self) -> String {
        let mut text = String::new();
        if let Some(read_us) = self.read_us {
            let _ = write!(text, "one at a time, a random read takes {read_us:.1} µs");
        }
        if let (Some(write_us), Some(alpha)) = (self.write_us, self.alpha) {
            let _ = write!(text, " and a write {write_us:.1} µs: R = {alpha:.3}");
        }
        text.push('\n');
        if let (Some(k_r), Some(iops)) = (self.k_r, self.read_iops) {
            let _ = write!(text, "reads get no faster from queue depth {k_r} on ({iops:.0}/s at best)");
        }
        if let (Some(k_w), Some(iops)) = (self.k_w, self.write_iops) {
            let _ = write!(text, "\nwrites from queue depth {k_w} on ({iops:.0}/s)");
        }
        text.push('\n');
        text
    }

    /// A device profile, if the report has reads and writes.
    pub(super) fn to_profile(&self, file: &Path) -> Option<MeasuredProfile> {
        let figure = |value: f64, what: &str| MeasuredFigure {
            value: rounded(value),
            basis: "measured",
            source: format!("ebbpool device measure: {what}"),
        };
        let saturation = "the smallest queue depth with 90 % of the best throughput";
        let figures = BTreeMap::from([
            ("read_us", figure(self.read_us?, "random, queue depth 1")),
            ("write_us", figure(self.write_us?, "random, queue depth 1")),
            ("alpha", figure(self.alpha?, "write_us / read_us")),
            ("k_r", figure(self.k_r?.into(), saturation)),
            ("k_w", figure(self.k_w?.into(), saturation)),
            ("read_iops_ss", figure(self.read_iops?, "random, best queue depth")),
            ("write_iops_ss", figure(self.write_iops?, "random, best queue depth")),
        ]);
        Some(MeasuredProfile {
            name: profile_name(file),
            about: format!("{}, as measured", self.path),
            medium: match self.read_us? > SLOW_READ_US {
                true => "hdd",
                false => "ssd",
            },
            page_size: self.page_size,
            asymmetry: "qd1",
            caveat: format!(
                "Each figure was measured for {} s on {}, by {}: a device that has not settled by then writes slower in the long run.",
                self.seconds,
                ByteSize::new(self.bytes),
                self.storage
            ),
            figures,
        })
    }
}

/// The limit between flash and disks: no flash reads a page this slowly, and no disk arm moves this fast.
const SLOW_READ_US: f64 = 2000.0;

/// The smallest queue depth that is good enough, and the best throughput.
fn saturation(by_depth: &[&Measurement]) -> Option<(u32, f64)> {
    let rates = by_depth.iter().map(|one| one.pages_per_second);
    let best = rates.fold(0.0, f64::max);
    let saturated = |one: &&&Measurement| one.pages_per_second >= SATURATED * best;
    let first = by_depth.iter().find(saturated)?;
    Some((first.load.queue_depth, best))
}

/// Rounds to four significant digits; a measurement is not more precise.
fn rounded(value: f64) -> f64 {
    let scale = 10f64.powi(3 - value.abs().max(1e-9).log10().floor() as i32);
    (value * scale).round() / scale
}

/// The profile's name, derived from the file's name.
fn profile_name(file: &Path) -> String {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy());
    let stem = stem.unwrap_or_default().to_ascii_lowercase();
    let plain = |c: char| match c {
        'a'..='z' | '0'..='9' | '.' => c,
        _ => '-',
    };
    let name: String = stem.chars().map(plain).collect();
    match name.trim_matches('-') {
        "" => "measured".into(),
        name => name.into(),
    }
}

/// A device profile in the form that `DeviceProfile::from_file` reads.
#[derive(Serialize)]
pub(super) struct MeasuredProfile {
    name: String,
    about: String,
    medium: &'static str,
    page_size: usize,
    asymmetry: &'static str,
    caveat: String,
    figures: BTreeMap<&'static str, MeasuredFigure>,
}

#[derive(Serialize)]
struct MeasuredFigure {
    value: f64,
    basis: &'static str,
    source: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(operation: Operation, depth: u32, pages_per_second: f64) -> Measurement {
        Measurement {
            load: Load { operation, order: Order::Random, queue_depth: depth, batch: (depth == 1).then_some(1) },
            pages: 1,
            seconds: 1.0,
            pages_per_second,
            bytes_per_second: 4096.0 * pages_per_second,
            us_per_page: 1e6 / pages_per_second,
            median_us: None,
            p99_us: None,
        }
    }

    fn report() -> MeasureReport {
        let reads = [10e3, 20e3, 40e3, 80e3, 89e3, 88e3];
        let writes = [5e3, 9e3, 9.5e3, 8e3, 8e3, 8e3];
        let of = |operation, rates: [f64; 6]| {
            let depths = super::super::STEPS.into_iter();
            depths.zip(rates).map(move |(depth, rate)| measured(operation, depth, rate))
        };
        MeasureReport {
            path: "/dev/x".into(),
            storage: "threads".into(),
            direct: true,
            page_size: 4096,
            bytes: 1 << 30,
            seconds: 1.0,
            measurements: of(Operation::Read, reads).chain(of(Operation::Write, writes)).collect(),
            ..MeasureReport::default()
        }
        .conclude()
    }

    #[test]
    fn alpha_compares_single_operations_and_k_is_where_throughput_saturates() {
        let report = report();
        assert_eq!((report.read_us, report.write_us), (Some(100.0), Some(200.0)));
        assert_eq!(report.alpha, Some(2.0));
        assert_eq!((report.k_r, report.read_iops), (Some(16), Some(89e3)));
        assert_eq!((report.k_w, report.write_iops), (Some(2), Some(9.5e3)));
        let text = report.sentences();
        assert!(text.contains("a write 200.0 µs: R = 2.000") && text.contains("queue depth 16 on"), "{text}");
    }

    #[test]
    fn profile_names_have_only_allowed_characters() {
        for (file, expected) in [
            ("my-ssd.toml", "my-ssd"),
            ("/tmp/My SSD (2).toml", "my-ssd--2"),
            ("über.toml", "ber"),
            ("...", ".."),
            ("_.toml", "measured"),
        ] {
            assert_eq!(profile_name(Path::new(file)), expected, "{file}");
        }
    }

    #[test]
    fn figures_have_four_significant_digits() {
        assert_eq!(rounded(123_456.7), 123_500.0);
        assert_eq!(rounded(0.123_456), 0.1235);
        assert_eq!(rounded(89.5), 89.5);
    }
}
