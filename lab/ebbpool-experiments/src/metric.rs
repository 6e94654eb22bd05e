//! The metrics that an experiment measures at a point.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A figure of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Metric {
    /// Cost per reference, in page reads.
    Cost,
    /// Device time per reference, in µs.
    CostUs,
    /// Page reads.
    Reads,
    /// Page writes.
    Writes,
    /// Reads and writes together.
    Transfers,
    /// Hits per reference.
    HitRatio,
    /// Cluster switches of the writes (PPE: CSC).
    ClusterSwitches,
    /// Cluster switches of the writes over those of the references (PPE: CSF).
    ClusterSwitchFactor,
    /// Pages written from one cluster switch to the next.
    PagesPerSwitch,
    /// Clean pages in the buffer, averaged over time.
    Clean,
    /// Clean pages as a share of the frames, averaged over time.
    CleanShare,
    /// The target of the clean pool as a share of the frames, averaged over time.
    TargetShare,
    /// Standard deviation over time of the clean pages as a share of the frames.
    CleanSpread,
    /// Total device time, in s.
    Seconds,
    /// Device time per page write, in µs.
    UsPerWrite,
    /// Device time of a page read over that of a page write.
    ReadInWrites,
    /// References per second of device time.
    PerSecond,
    /// Energy of device and host, in J.
    Joules,
    /// Power of device and host, in W.
    Watts,
    /// Erases of a simulated device.
    Erases,
    /// Erases per page write.
    ErasesPerWrite,
    /// Programs of a simulated device per page that the host writes.
    WriteAmplification,
    /// Error of the estimate of Pc, in per cent of the measured value.
    PcError,
    /// Error of the estimate of Pd.
    PdError,
    /// Error of the estimate of Pdw.
    PdwError,
    /// A cluster's priority (CFDC, formula 1).
    Priority,
    /// Computing time per reference, in ns.
    ComputingNs,
    /// Computing time as a share of computing and device time together.
    ComputingShare,
}

/// The measured values of a point.
pub(crate) type Values = BTreeMap<Metric, f64>;

impl Metric {
    /// The name in axes and table heads.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Metric::Cost => "cost per reference (page reads)",
            Metric::CostUs => "time per reference (µs)",
            Metric::Reads => "page reads",
            Metric::Writes => "page writes",
            Metric::Transfers => "page reads and writes",
            Metric::HitRatio => "hit ratio",
            Metric::ClusterSwitches => "cluster switches",
            Metric::ClusterSwitchFactor => "cluster-switch factor",
            Metric::PagesPerSwitch => "pages written per cluster switch",
            Metric::Clean => "mean clean pages",
            Metric::CleanShare => "clean pages (share of the buffer)",
            Metric::TargetShare => "target of the clean pool (share)",
            Metric::CleanSpread => "spread of the clean share over time",
            Metric::Seconds => "device time (s)",
            Metric::UsPerWrite => "time per page write (µs)",
            Metric::ReadInWrites => "time of a page read (page writes)",
            Metric::PerSecond => "references per second of device time",
            Metric::Joules => "energy (J)",
            Metric::Watts => "power (W)",
            Metric::Erases => "erases",
            Metric::ErasesPerWrite => "erases per page write",
            Metric::WriteAmplification => "write amplification",
            Metric::PcError => "error of Pc (%)",
            Metric::PdError => "error of Pd (%)",
            Metric::PdwError => "error of Pdw (%)",
            Metric::Priority => "priority",
            Metric::ComputingNs => "computing time per reference (ns)",
            Metric::ComputingShare => "computing share of the run time",
        }
    }

    /// The name in experiment files and CSV heads.
    pub(crate) fn key(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(key)) => key,
            _ => String::new(),
        }
    }

    /// True if a larger value is better.
    pub(crate) fn more_is_better(self) -> bool {
        matches!(self, Metric::HitRatio | Metric::PagesPerSwitch | Metric::PerSecond)
    }

    /// True if the metric is computing time, which varies from run to run.
    pub(crate) fn is_computing_time(self) -> bool {
        matches!(self, Metric::ComputingNs | Metric::ComputingShare)
    }

    /// True if the metric needs the state of the buffer over time.
    pub(crate) fn needs_time_line(self) -> bool {
        matches!(self, Metric::Clean | Metric::CleanShare | Metric::TargetShare | Metric::CleanSpread)
    }

    /// The per cent by which one value is better than another.
    pub(crate) fn improvement(self, value: f64, over: f64) -> f64 {
        100.0
            * match self.more_is_better() {
                true => value / over - 1.0,
                false => 1.0 - value / over,
            }
    }
}
