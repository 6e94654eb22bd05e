//! What a load costs in a month on a device that is paid for by its use: requests, provisioned performance, capacity and memory.
//!
//! `advise`, `compare` and the report ask [`Tariff::monthly`]. The rate is the mean one: a volume that must take peaks costs more.

use ebbpool_device::profiles::{PagedProfile, Quantity};
use schemars::JsonSchema;
use serde::Serialize;

/// Seconds of a month of 730 hours, by which providers bill.
const MONTH: f64 = 730.0 * 3600.0;

const MIB: f64 = (1 << 20) as f64;
const GIB: f64 = (1 << 30) as f64;

/// What a device's profile says of money.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tariff {
    /// $ of a read and of a write of a page of the trace.
    requests: [f64; 2],
    /// $ of a GiB read and written.
    transfer: [f64; 2],
    /// Operations of the device for a page of the trace.
    operations: f64,
    /// Operations per second, and MiB per second, that cost nothing, and $ a month of each further one.
    iops: (f64, Option<f64>),
    throughput: (f64, Option<f64>),
    /// $ a month of a GiB stored.
    stored: Option<f64>,
    /// Bytes of a page of the trace.
    page_bytes: Option<u64>,
}

/// Page reads and writes per second, and stored bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonthlyLoad {
    /// Page reads per second that reach the device.
    pub reads_per_second: f64,
    /// Page writes per second.
    pub writes_per_second: f64,
    /// Bytes of the database.
    pub stored_bytes: Option<u64>,
    /// Bytes of the buffer, and $ a month of a GiB of it.
    pub memory: Option<(u64, f64)>,
}

/// What a load costs in a month, in $.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct MonthlyCost {
    /// Requests, and bytes by the GiB.
    pub requests: f64,
    /// Operations and throughput above those that come free.
    pub provisioned: f64,
    /// Capacity.
    pub stored: f64,
    /// Memory of the buffer.
    pub memory: f64,
    /// All of these.
    pub total: f64,
    /// What the sum is without.
    pub without: Vec<String>,
}

impl Tariff {
    /// The prices of a profile; `None` if it has none.
    pub(crate) fn new(paged: &PagedProfile, page_bytes: Option<u64>) -> Option<Self> {
        use Quantity::*;
        let value = |quantity| paged.profile().value(quantity);
        let priced = [ReadUsd, StoredUsd, IopsUsd, ThroughputUsd, FreeIops];
        priced.into_iter().any(|quantity| value(quantity).is_some()).then(|| Tariff {
            requests: [ReadUsd, WriteUsd].map(|it| paged.device_pages() as f64 * value(it).unwrap_or(0.0)),
            transfer: [ReadGibUsd, WrittenGibUsd].map(|it| value(it).unwrap_or(0.0)),
            operations: paged.device_pages() as f64,
            iops: (value(FreeIops).unwrap_or(0.0), value(IopsUsd)),
            throughput: (value(FreeThroughput).unwrap_or(0.0), value(ThroughputUsd)),
            stored: value(StoredUsd),
            page_bytes,
        })
    }

    /// $ a month of a load, and what the sum is without.
    pub fn monthly(&self, load: &MonthlyLoad) -> MonthlyCost {
        let MonthlyLoad { reads_per_second: reads, writes_per_second: writes, .. } = *load;
        let mut cost = MonthlyCost { without: vec!["peaks".into()], ..MonthlyCost::default() };
        let page_bytes = self.page_bytes.unwrap_or(0) as f64;
        let gibs = MONTH * page_bytes / GIB;
        cost.requests = MONTH * (reads * self.requests[0] + writes * self.requests[1])
            + gibs * (reads * self.transfer[0] + writes * self.transfer[1]);
        let used = [(reads + writes) * self.operations, (reads + writes) * page_bytes / MIB];
        let names = ["operations", "MiB"];
        for ((used, (free, price)), name) in used.into_iter().zip([self.iops, self.throughput]).zip(names) {
            let above = (used - free).max(0.0);
            cost.provisioned += above * price.unwrap_or(0.0);
            if price.is_none() && free > 0.0 && above > 0.0 {
                cost.without.push(format!("{name} above {free} a second"));
            }
        }
        match self.stored.zip(load.stored_bytes) {
            Some((price, bytes)) => cost.stored = price * bytes as f64 / GIB,
            None => cost.without.push("capacity".into()),
        }
        if let Some((bytes, price)) = load.memory {
            cost.memory = price * bytes as f64 / GIB;
        }
        cost.total = cost.requests + cost.provisioned + cost.stored + cost.memory;
        cost
    }
}

/// Dollars with a cent, or without from a thousand on.
pub(crate) fn dollars(amount: f64) -> String {
    let places = if amount.abs() < 1000.0 { 2 } else { 0 };
    format!("${}", crate::numbers::decimals(amount, places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbpool_device::DeviceProfile;

    fn of(device: &str, page_bytes: u64, [reads, writes]: [f64; 2]) -> MonthlyCost {
        let profile = DeviceProfile::named(device).expect("a device");
        let tariff = Tariff::new(&profile.for_pages(Some(page_bytes)), Some(page_bytes)).expect("prices");
        let (reads_per_second, writes_per_second) = (reads, writes);
        let load =
            MonthlyLoad { reads_per_second, writes_per_second, stored_bytes: Some(100 << 30), memory: Some((4 << 30, 5.0)) };
        tariff.monthly(&load)
    }

    #[test]
    fn a_month_has_requests_performance_capacity_and_memory() {
        let near = |found: f64, by_hand: f64| assert!((found - by_hand).abs() < 1e-6 * by_hand.max(1.0), "{found} {by_hand}");
        // What comes free is enough.
        let gp3 = of("ebs-gp3", 8192, [1000.0, 1000.0]);
        assert_eq!((gp3.requests, gp3.provisioned, gp3.memory), (0.0, 0.0, 20.0));
        near(gp3.total, 8.0 + 20.0);
        assert_eq!(gp3.without, ["peaks"]);
        // 24,000 operations of 16 KiB, two for each page, and 375 MiB a second.
        near(of("ebs-gp3", 32_768, [9000.0, 3000.0]).provisioned, 21_000.0 * 0.005 + 250.0 * 0.04);
        near(of("ebs-io2bx", 8192, [1000.0, 500.0]).provisioned, 1500.0 * 0.065);
        let s3 = of("s3-standard", 8192, [100.0, 10.0]);
        near(s3.requests, 730.0 * 3600.0 * (100.0 * 4e-7 + 10.0 * 5e-6));
        near(s3.stored, 2.3);
        let express = of("s3-express-1z", 1 << 20, [10.0, 1.0]);
        near(express.requests, 2_628_000.0 * (10.0 * (3e-8 + 0.0006 / 1024.0) + 1.13e-6 + 0.0032 / 1024.0));
        // The price of a further operation is not known.
        let azure = of("azure-premium-v2", 8192, [3000.0, 1000.0]);
        assert_eq!(azure.without, ["peaks", "operations above 3000 a second", "capacity"]);
        assert_eq!(azure.provisioned, 0.0);
    }
}
