//! Results as the contract names them.

use ebbpool_cost::{Asymmetry, Unit};
use ebbpool_device::energy::Energy;
use ebbpool_sim::{Counts, DeviceOutcome, TraceFacts};
use ebbpool_trace::Metadata;
use serde::Serialize;

use crate::charge::Charge;

/// One result; the fields and their order are contract. Null where unknown.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    pub(crate) trace: String,
    pub(crate) policy: String,
    pub(crate) frames: u64,
    pub(crate) page_size: Option<u64>,
    pub(crate) asymmetry: Number,
    pub(crate) device: Option<String>,
    pub(crate) references: u64,
    pub(crate) warmup: u64,
    pub(crate) distinct_pages: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) bytes_read: Option<u64>,
    pub(crate) bytes_written: Option<u64>,
    pub(crate) dirty_left: u64,
    pub(crate) hit_ratio: f64,
    pub(crate) cost: f64,
    pub(crate) cost_us: Option<f64>,
    pub(crate) cluster_switches: u64,
    pub(crate) cluster_switch_factor: f64,
    pub(crate) seconds: Option<f64>,
    pub(crate) references_per_second: Option<f64>,
    /// Pages read only because their block was written whole (BPLRU); not among `reads`.
    pub(crate) padding_reads: u64,
    /// Of device and host as far as known; without a rate the device is taken never to wait.
    pub(crate) joules_per_reference: Option<f64>,
    /// The device failed on the way, so that the figures are of a part of the trace.
    #[serde(skip)]
    pub(crate) failed: bool,
    /// What no policy can undercut, if it was asked for.
    pub(crate) lower_bound: Option<f64>,
}

/// A result and what is known of the device's part in it, where there was one.
#[derive(Debug, Serialize)]
pub(crate) struct WithDevice<'a> {
    #[serde(flatten)]
    pub(crate) record: &'a Record,
    /// How the asymmetry changes from `asymmetry` on, as it was spelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asymmetry_changes: Option<&'a str>,
    /// The energy in J, by what took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) energy: Option<Energy>,
    /// Time for which the device waited for references that came at a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device_idle_seconds: Option<f64>,
    /// Dollars, of a device that is paid by request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dollars_per_reference: Option<f64>,
    /// What a simulated flash device did inside.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) flash: Option<Inside>,
}

/// A simulated flash device's part in a result, in its own pages.
#[derive(Debug, Serialize)]
pub(crate) struct Inside {
    pub(crate) host_writes: u64,
    pub(crate) programs: u64,
    pub(crate) erases: u64,
    pub(crate) write_amplification: Option<f64>,
    /// Why there is no write amplification.
    pub(crate) not_steady: Option<String>,
    pub(crate) lifetime_host_bytes: Option<f64>,
}

impl<'a> WithDevice<'a> {
    pub(crate) fn new(
        record: &'a Record,
        charge: &'a Charge,
        device: Option<&DeviceOutcome>,
    ) -> Self {
        let bill = device.map(|device| device.report.bill());
        let dollars = bill.filter(|bill| bill.unit == Unit::Dollars);
        WithDevice {
            record,
            asymmetry_changes: charge.changing.as_deref(),
            energy: device.and_then(|device| device.energy),
            device_idle_seconds: device.and_then(|device| Some(device.idle_us? / 1e6)),
            flash: device
                .and_then(|device| device.flash.as_ref())
                .map(|report| Inside {
                    host_writes: report.host_writes,
                    programs: report.programs,
                    erases: report.erases,
                    write_amplification: report.write_amplification,
                    not_steady: report.not_steady.clone(),
                    lifetime_host_bytes: report.lifetime_host_bytes,
                }),
            dollars_per_reference: dollars.map(|bill| bill.amount / record.references as f64),
        }
    }
}

/// A double that is written without a fraction where it has none, `32` and not `32.0`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Number(pub(crate) f64);

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0 < 1e15 {
            serializer.serialize_u64(self.0 as u64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

/// What all results of a trace share.
pub(crate) struct OfTrace<'a> {
    pub(crate) label: &'a str,
    pub(crate) metadata: &'a Metadata,
    pub(crate) facts: TraceFacts,
    pub(crate) warmup: u64,
}

impl Record {
    /// What the bill is above what no policy can undercut, as a share of that, if that is known.
    pub(crate) fn above_bound(&self) -> Option<f64> {
        let bound = self.lower_bound.filter(|bound| *bound > 0.0)?;
        Some(self.cost / bound - 1.0)
    }

    /// Charges the device in place of the asymmetry.
    pub(crate) fn charge(&mut self, charge: &Charge, device: &DeviceOutcome) {
        let bill = device.report.bill();
        let references = self.references as f64;
        self.device.clone_from(&charge.name);
        self.failed = device.failed.is_some();
        self.cost = charge.in_page_reads(bill.amount) / references;
        if bill.unit == Unit::Microseconds {
            self.cost_us = Some(bill.amount / references);
        }
        self.joules_per_reference = device
            .energy
            .and_then(|energy| energy.joules_per_reference(self.references));
    }

    pub(crate) fn new(
        of: &OfTrace,
        policy: String,
        frames: u64,
        asymmetry: Asymmetry,
        counts: &Counts,
    ) -> Self {
        let references = counts.references as f64;
        let page_size = of.metadata.page_size;
        let bytes = |pages: u64| page_size.map(|size| pages.saturating_mul(size));
        Record {
            trace: of.label.into(),
            policy,
            frames,
            page_size,
            asymmetry: Number(asymmetry.ratio()),
            device: None,
            references: counts.references,
            warmup: of.warmup,
            distinct_pages: of.facts.distinct_pages,
            hits: counts.hits(),
            misses: counts.misses,
            reads: counts.misses,
            writes: counts.writes,
            bytes_read: bytes(counts.misses),
            bytes_written: bytes(counts.writes),
            dirty_left: counts.dirty_left,
            hit_ratio: counts.hits() as f64 / references,
            cost: asymmetry.bill(counts.misses, counts.writes) / references,
            cost_us: None,
            cluster_switches: counts.cluster_switches,
            cluster_switch_factor: counts.cluster_switches as f64
                / of.facts.cluster_switches as f64,
            seconds: None,
            references_per_second: None,
            padding_reads: counts.padding_reads,
            failed: false,
            joules_per_reference: None,
            lower_bound: None,
        }
    }
}

/// Results as a Parquet file, one column a field.
pub(crate) fn parquet(records: &[&Record]) -> Result<Vec<u8>, std::io::Error> {
    let rows: Vec<serde_json::Map<String, serde_json::Value>> = records
        .iter()
        .filter_map(|record| match serde_json::to_value(record) {
            Ok(serde_json::Value::Object(row)) => Some(row),
            _ => None,
        })
        .collect();
    parquet_table::write(&rows).map_err(std::io::Error::other)
}

mod parquet_table {
    //! Columns by name, typed by the contract: names are text, ratios doubles, counts integers.

    use std::sync::Arc;

    use parquet::basic::{LogicalType, Repetition, Type as Physical};
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
    use parquet::errors::ParquetError;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::types::Type;
    use serde_json::{Map, Value};

    const TEXT: &[&str] = &["trace", "policy", "device"];
    const COLUMNS: &[&str] = &[
        "trace",
        "policy",
        "frames",
        "page_size",
        "asymmetry",
        "device",
        "references",
        "warmup",
        "distinct_pages",
        "hits",
        "misses",
        "reads",
        "writes",
        "bytes_read",
        "bytes_written",
        "dirty_left",
        "hit_ratio",
        "cost",
        "cost_us",
        "cluster_switches",
        "cluster_switch_factor",
        "seconds",
        "references_per_second",
        "padding_reads",
        "joules_per_reference",
        "lower_bound",
    ];
    const REAL: &[&str] = &[
        "asymmetry",
        "hit_ratio",
        "cost",
        "cost_us",
        "cluster_switch_factor",
        "seconds",
        "references_per_second",
        "joules_per_reference",
        "lower_bound",
    ];

    pub(super) fn write(rows: &[Map<String, Value>]) -> Result<Vec<u8>, ParquetError> {
        let field = |name: &&str| {
            let physical = match name {
                name if TEXT.contains(name) => Physical::BYTE_ARRAY,
                name if REAL.contains(name) => Physical::DOUBLE,
                _ => Physical::INT64,
            };
            let text = TEXT.contains(name).then_some(LogicalType::String);
            Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(text)
                .build()
                .map(Arc::new)
        };
        let fields = COLUMNS.iter().map(field).collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder("results").with_fields(fields);
        let schema = Arc::new(schema.build()?);
        let properties = Arc::new(WriterProperties::builder().build());
        let mut file = SerializedFileWriter::new(Vec::new(), schema, properties)?;
        let mut group = file.next_row_group()?;
        for name in COLUMNS {
            let values = || rows.iter().filter_map(|row| row.get(*name));
            let present = |row: &Map<String, Value>| row.get(*name).is_some_and(|v| !v.is_null());
            let levels: Vec<i16> = rows.iter().map(|row| i16::from(present(row))).collect();
            let Some(mut column) = group.next_column()? else {
                break;
            };
            if TEXT.contains(name) {
                let texts: Vec<ByteArray> = values()
                    .filter_map(Value::as_str)
                    .map(ByteArray::from)
                    .collect();
                column
                    .typed::<ByteArrayType>()
                    .write_batch(&texts, Some(&levels), None)?;
            } else if REAL.contains(name) {
                let numbers: Vec<f64> = values().filter_map(Value::as_f64).collect();
                column
                    .typed::<DoubleType>()
                    .write_batch(&numbers, Some(&levels), None)?;
            } else {
                let numbers: Vec<i64> = values()
                    .filter_map(Value::as_u64)
                    .map(|number| i64::try_from(number).unwrap_or(i64::MAX))
                    .collect();
                column
                    .typed::<Int64Type>()
                    .write_batch(&numbers, Some(&levels), None)?;
            }
            column.close()?;
        }
        group.close()?;
        file.into_inner()
    }
}
