//! The workload that the command line asks for.

use std::num::NonZeroU64;

use ebbpool_trace::workload::{Cfdc, Mix, Operation, Ycsb};

use super::subject::Subject;
use crate::db::args::BenchArgs;
use crate::db::error::DbError;

/// Operations, one after the other.
pub(super) struct Operations {
    pub(super) each: Box<dyn Iterator<Item = Operation> + Send>,
    /// How many there are, if they end.
    pub(super) all: Option<u64>,
}

/// The operations of the workload, up to the number that is asked for.
pub(super) fn operations(args: &BenchArgs, subject: &Subject) -> Result<Operations, DbError> {
    let most = args.operations.map(NonZeroU64::get);
    match args.workload.mix() {
        None => {
            let workload = cfdc(args, subject.records);
            let each = workload.operations()?;
            let all = each.size_hint().0 as u64;
            let most = most.unwrap_or(u64::MAX);
            Ok(Operations {
                each: Box::new(each.take(usize::try_from(most).unwrap_or(usize::MAX))),
                all: Some(all.min(most)),
            })
        }
        Some(mix) => {
            let workload = ycsb(args, mix, subject.records);
            let endless = most.is_none() && args.seconds.is_some();
            Ok(Operations {
                all: (!endless).then_some(workload.operations),
                each: Box::new(workload.operations()?),
            })
        }
    }
}

fn cfdc(args: &BenchArgs, records: u64) -> Cfdc {
    let usual = Cfdc::default();
    let workload = Cfdc {
        records,
        queries: args.queries.unwrap_or(usual.queries),
        updates: args.updates.unwrap_or(usual.updates),
        scans: args.scans.unwrap_or(usual.scans),
        update_scans: args.scan_updates.unwrap_or(usual.update_scans),
        scan_records: args.scan_length.unwrap_or(usual.scan_records),
        skew: args.skew.unwrap_or(usual.skew),
        scattered: args.scattered,
        seed: args.seed,
    };
    match args.update_intensity {
        Some(share) => workload.with_update_intensity(share.0.to_f64()),
        None => workload,
    }
}

fn ycsb(args: &BenchArgs, mix: Mix, records: u64) -> Ycsb {
    let usual = Ycsb::new(mix);
    let operations = match (args.operations, args.seconds) {
        (Some(most), _) => most.get(),
        (None, Some(_)) => u64::MAX,
        (None, None) => usual.operations,
    };
    Ycsb {
        records,
        operations,
        alpha: args.alpha.unwrap_or(usual.alpha),
        longest_scan: args.scan_length.unwrap_or(usual.longest_scan),
        seed: args.seed,
        ..usual
    }
}
