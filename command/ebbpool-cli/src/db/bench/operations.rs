//! The operations of the workload that the command line names.

use std::num::NonZeroU64;

use ebbpool_trace::workload::{CfdcWorkload, Mix, WorkloadOperation, Ycsb};

use super::loaded_records::LoadedRecords;
use crate::db::args::BenchArgs;
use crate::db::error::DbError;

/// The operations of a workload in their order.
pub(super) struct Operations {
    pub(super) iterator: Box<dyn Iterator<Item = WorkloadOperation> + Send>,
    /// The number of operations; `None` for an endless workload.
    pub(super) count: Option<u64>,
}

/// The operations of the workload, up to the number that the user requests.
pub(super) fn operations(args: &BenchArgs, loaded: &LoadedRecords) -> Result<Operations, DbError> {
    let most = args.operations.map(NonZeroU64::get);
    match args.workload.mix() {
        None => {
            let workload = cfdc(args, loaded.records);
            let operations = workload.operations()?;
            let count = operations.size_hint().0 as u64;
            let most = most.unwrap_or(u64::MAX);
            Ok(Operations {
                iterator: Box::new(operations.take(usize::try_from(most).unwrap_or(usize::MAX))),
                count: Some(count.min(most)),
            })
        }
        Some(mix) => {
            let workload = ycsb(args, mix, loaded.records);
            let endless = most.is_none() && args.seconds.is_some();
            Ok(Operations { count: (!endless).then_some(workload.operations), iterator: Box::new(workload.operations()?) })
        }
    }
}

fn cfdc(args: &BenchArgs, records: u64) -> CfdcWorkload {
    let default = CfdcWorkload::default();
    let workload = CfdcWorkload {
        records,
        queries: args.queries.unwrap_or(default.queries),
        updates: args.updates.unwrap_or(default.updates),
        scans: args.scans.unwrap_or(default.scans),
        update_scans: args.scan_updates.unwrap_or(default.update_scans),
        scan_records: args.scan_length.unwrap_or(default.scan_records),
        skew: args.skew.unwrap_or(default.skew),
        scattered: args.scattered,
        seed: args.seed,
    };
    match args.update_intensity {
        Some(share) => workload.with_update_intensity(share.0.to_f64()),
        None => workload,
    }
}

fn ycsb(args: &BenchArgs, mix: Mix, records: u64) -> Ycsb {
    let default = Ycsb::new(mix);
    let operations = match (args.operations, args.seconds) {
        (Some(most), _) => most.get(),
        (None, Some(_)) => u64::MAX,
        (None, None) => default.operations,
    };
    Ycsb {
        records,
        operations,
        alpha: args.alpha.unwrap_or(default.alpha),
        longest_scan: args.scan_length.unwrap_or(default.longest_scan),
        seed: args.seed,
        ..default
    }
}
