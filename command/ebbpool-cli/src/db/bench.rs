//! `ebbpool db bench`: runs a workload and measures it.

mod loaded_records;
mod operations;
mod recorder;
mod report;
mod workers;

use std::path::{Path, PathBuf};
use std::slice;
use std::time::{Duration, Instant};

use ebbpool_btree::{Database, DatabaseError, DatabasePaths, DatabaseStats};
use ebbpool_lab::replay::PoolActivity;
use ebbpool_lab::schema::{ResultSchema, ResultShape};
use ebbpool_trace::Metadata;
use ebbpool_trace::output::refuse_overwriting;

use super::args::{BenchArgs, with_promises};
use super::error::DbError;
use super::open::close;
use loaded_records::LoadedRecords;
use operations::operations;
use recorder::WorkloadRecorder;
pub(super) use report::FileSizes;
use report::{BenchReport, WrittenBytes};
use workers::{WorkloadResult, WorkloadRun};

pub(super) fn schema() -> ResultSchema {
    ResultSchema::for_type::<BenchReport>("db bench", 1, ResultShape::One)
}

pub(super) fn bench(args: &BenchArgs) -> Result<(), DbError> {
    if let Some(option) = args.misplaced() {
        let workload = args.workload.name();
        let problem = format!("{workload} has no {option}; --help lists the options of each workload");
        return Err(DatabaseError::Options(problem).into());
    }
    let path = &args.path;
    if let Some(record) = &args.record {
        let paths = DatabasePaths::new(path);
        let files = paths.all().map(Path::to_path_buf);
        refuse_overwriting(&files, slice::from_ref(record))?;
    }
    let recorder = args.record.as_ref().map(|_| WorkloadRecorder::default());
    let options = args.open.options_of(path, false)?;
    let mut options = with_promises(options, args.durability, args.recovery_seconds);
    if let Some(recorder) = &recorder {
        let sink = recorder.sink();
        options = options.pool(|pool| pool.on_classed_fix(sink));
    }
    let database = options.open(path).map_err(DbError::at(path))?;
    let outcome = measure(args, &database, recorder.as_ref());
    let report = close(database, path, outcome)?;
    let report = report.with_files(FileSizes::for_path(path));
    args.format.print(&report, BenchReport::to_table).map_err(DbError::Output)?;
    match report.interrupted() {
        true => Err(DbError::Interrupted("the measurements up to then are printed, and the database is closed".into())),
        false => Ok(()),
    }
}

fn measure(args: &BenchArgs, database: &Database, recorder: Option<&WorkloadRecorder>) -> Result<BenchReport, DbError> {
    let path = &args.path;
    let loaded = LoadedRecords::find(args, database)?;
    let operations = operations(args, &loaded)?;
    let before = database.stats();
    if let (Some(recorder), Some(file)) = (recorder, &args.record) {
        recorder.begin(file, &metadata(args, path, &before))?;
    }
    let run = WorkloadRun {
        threads: args.threads,
        limit: args.seconds.map(Duration::from_secs_f64),
        seed: args.seed,
        loaded: &loaded,
    };
    let result = workers::run_workload(database, operations, &run)?;
    let worked = database.stats();
    if let Some(recorder) = recorder {
        recorder.finish()?;
    }
    // The workload caused the remaining dirty pages too, so their write-back counts.
    let start = Instant::now();
    database.checkpoint()?;
    let checkpoint = start.elapsed();
    let after = database.stats();
    let statistics = BenchStatistics { args, loaded: &loaded, before, worked, after, checkpoint };
    Ok(statistics.report(&result))
}

fn metadata(args: &BenchArgs, path: &Path, stats: &DatabaseStats) -> Metadata {
    let page_size = stats.pool.page_size as u64;
    let bytes = path.metadata().map_or(0, |found| found.len());
    Metadata {
        name: Some(format!("{} of {}", args.workload.name(), path.display())),
        page_size: Some(page_size),
        database_pages: Some(bytes / page_size.max(1)),
        ..Metadata::default()
    }
}

/// The database's statistics before the workload, after it, and after the last checkpoint.
struct BenchStatistics<'a> {
    args: &'a BenchArgs,
    loaded: &'a LoadedRecords,
    before: DatabaseStats,
    worked: DatabaseStats,
    after: DatabaseStats,
    checkpoint: Duration,
}

impl BenchStatistics<'_> {
    fn report(&self, result: &WorkloadResult) -> BenchReport {
        let (before, worked, after) = (&self.before, &self.worked, &self.after);
        let activity = PoolActivity::between(&before.pool, &after.pool);
        let page_size = after.pool.page_size as u64;
        let images = after.pool.double_write_pages - before.pool.double_write_pages;
        let bytes = WrittenBytes {
            pages: activity.writes() * page_size,
            log: after.log_bytes - before.log_bytes,
            double_write: images * page_size,
        };
        let hits = worked.pool.hits - before.pool.hits;
        let misses = worked.pool.misses - before.pool.misses;
        BenchReport {
            path: self.args.path.display().to_string(),
            workload: self.args.workload.name(),
            records: self.loaded.records,
            page_size,
            frames: after.pool.frames,
            policy: self.args.open.policy().into(),
            threads: self.args.threads,
            durability: self.args.durability.name(),
            transactions: result.transactions(),
            seconds: result.seconds,
            transactions_per_second: result.transactions() as f64 / result.seconds,
            operations: result.latencies(),
            not_found: result.not_found,
            conflicts: result.conflicts,
            commits: worked.commits - before.commits,
            hits,
            misses,
            hit_ratio: hits as f64 / (hits + misses).max(1) as f64,
            dirty_left: worked.pool.dirty,
            pages_read: activity.pages_read(),
            pages_written: activity.pages_written(),
            log_syncs: after.log_syncs - before.log_syncs,
            checkpoints: after.checkpoints - before.checkpoints,
            checkpoint_failure: worked.checkpoint_failure.clone(),
            oldest_transaction_seconds: worked.oldest_transaction.map(|oldest| oldest.age.as_secs_f64()),
            recovery_estimate_seconds: worked.recovery_estimate.as_secs_f64(),
            recovery_seconds: (before.recovery.log_bytes > 0).then_some(before.recovery.time.as_secs_f64()),
            last_checkpoint_seconds: self.checkpoint.as_secs_f64(),
            bytes_read: activity.reads() * page_size,
            bytes_written: bytes.all(),
            bytes_written_to: bytes,
            bytes_changed: result.bytes_changed,
            write_amplification: (result.bytes_changed > 0).then(|| bytes.all() as f64 / result.bytes_changed as f64),
            files: FileSizes::default(),
            interrupted: result.interrupted,
        }
    }
}

impl FileSizes {
    /// The lengths of the files of the database at this path.
    pub(in crate::db) fn for_path(path: &Path) -> Self {
        let length = |file: &PathBuf| file.metadata().map_or(0, |found| found.len());
        let paths = DatabasePaths::new(path);
        FileSizes {
            pages: length(&paths.pages),
            log: paths.log.iter().map(length).sum(),
            double_write: length(&paths.double_write),
        }
    }
}
