//! `ebbpool db bench`: a workload, measured.

mod operations;
mod recorder;
mod subject;
mod told;
mod work;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ebbpool_btree::{Database, DatabaseStats, Error};
use ebbpool_lab::replay::PoolActivity;
use ebbpool_trace::Metadata;

use super::args::BenchArgs;
use super::error::DbError;
use super::open::close;
use crate::shared_args::RunFormat;
use operations::operations;
use recorder::Recorder;
use subject::Subject;
use told::{Bytes, Files, Told};
use work::{Course, Done};

pub(super) fn bench(args: &BenchArgs) -> Result<(), DbError> {
    if let Some(option) = args.misplaced() {
        let workload = args.workload.name();
        let problem = format!("{workload} has no {option}; --help says which options it has");
        return Err(Error::Options(problem).into());
    }
    let path = &args.path;
    let recorder = args.record.as_ref().map(|_| Recorder::default());
    let mut options = args.opening.options_of(path, false)?;
    options = options.durability(args.durability.into());
    if let Some(recorder) = &recorder {
        let sink = recorder.sink();
        options = options.pool(|pool| pool.on_fix(sink));
    }
    let database = options.open(path).map_err(DbError::at(path))?;
    let outcome = measure(args, &database, recorder.as_ref());
    let told = close(database, path, outcome)?;
    let told = told.with_files(Files::of(path));
    print(&told, args.format).map_err(DbError::Output)?;
    match told.interrupted() {
        true => Err(DbError::Interrupted(
            "what was measured until then is printed, and the database is closed".into(),
        )),
        false => Ok(()),
    }
}

fn print(told: &Told, format: RunFormat) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match format {
        RunFormat::Json => {
            serde_json::to_writer_pretty(&mut out, told)?;
            writeln!(out)
        }
        RunFormat::Table => out.write_all(told.to_table().as_bytes()),
    }
}

fn measure(
    args: &BenchArgs,
    database: &Database,
    recorder: Option<&Recorder>,
) -> Result<Told, DbError> {
    let path = &args.path;
    let subject = Subject::find(args, database)?;
    let operations = operations(args, &subject)?;
    let before = database.stats();
    if let (Some(recorder), Some(file)) = (recorder, &args.record) {
        recorder.begin(file, &metadata(args, path, &before))?;
    }
    let course = Course {
        threads: args.threads,
        limit: args.seconds.map(Duration::from_secs_f64),
        seed: args.seed,
        subject: &subject,
    };
    let done = work::work(database, operations, &course)?;
    let worked = database.stats();
    if let Some(recorder) = recorder {
        recorder.finish()?;
    }
    // What is dirty was caused by the workload too.
    let start = Instant::now();
    database.checkpoint()?;
    let checkpoint = start.elapsed();
    let after = database.stats();
    let run = Run {
        args,
        subject: &subject,
        before,
        worked,
        after,
        checkpoint,
    };
    Ok(run.told(&done))
}

fn metadata(args: &BenchArgs, path: &Path, stats: &DatabaseStats) -> Metadata {
    let page_size = stats.pool.page_size as u64;
    let bytes = path.metadata().map_or(0, |found| found.len());
    Metadata {
        name: Some(format!("{} of {}", args.workload.name(), path.display())),
        page_size: Some(page_size),
        database_pages: Some(bytes / page_size.max(1)),
    }
}

/// What the database had done before, when the workload was done, and when it was checkpointed.
struct Run<'a> {
    args: &'a BenchArgs,
    subject: &'a Subject,
    before: DatabaseStats,
    worked: DatabaseStats,
    after: DatabaseStats,
    checkpoint: Duration,
}

impl Run<'_> {
    fn told(&self, done: &Done) -> Told {
        let (before, worked, after) = (&self.before, &self.worked, &self.after);
        let did = PoolActivity::between(&before.pool, &after.pool);
        let page_size = after.pool.page_size as u64;
        let images = after.pool.double_write_pages - before.pool.double_write_pages;
        let bytes = Bytes {
            pages: did.writes() * page_size,
            log: after.log_bytes - before.log_bytes,
            double_write: images * page_size,
        };
        let hits = worked.pool.hits - before.pool.hits;
        let misses = worked.pool.misses - before.pool.misses;
        Told {
            path: self.args.path.display().to_string(),
            workload: self.args.workload.name(),
            records: self.subject.records,
            page_size,
            frames: after.pool.frames,
            policy: self.args.opening.policy().into(),
            threads: self.args.threads,
            durability: self.args.durability.name(),
            transactions: done.transactions(),
            seconds: done.seconds,
            transactions_per_second: done.transactions() as f64 / done.seconds,
            operations: done.latencies(),
            not_found: done.not_found,
            conflicts: done.conflicts,
            commits: worked.commits - before.commits,
            hits,
            misses,
            hit_ratio: hits as f64 / (hits + misses).max(1) as f64,
            dirty_left: worked.pool.dirty,
            pages_read: did.pages_read(),
            pages_written: did.pages_written(),
            log_syncs: after.log_syncs - before.log_syncs,
            checkpoints: after.checkpoints - before.checkpoints,
            last_checkpoint_seconds: self.checkpoint.as_secs_f64(),
            bytes_read: did.reads() * page_size,
            bytes_written: bytes.all(),
            bytes_written_to: bytes,
            bytes_changed: done.bytes_changed,
            write_amplification: (done.bytes_changed > 0)
                .then(|| bytes.all() as f64 / done.bytes_changed as f64),
            files: Files::default(),
            interrupted: done.interrupted,
        }
    }
}

impl Files {
    /// How long they are.
    fn of(path: &Path) -> Self {
        let length = |suffix| {
            let file = beside(path, suffix);
            file.metadata().map_or(0, |found| found.len())
        };
        Files {
            pages: length(""),
            log: length(".log0") + length(".log1"),
            double_write: length(".torn"),
        }
    }
}

/// One of the files that a database at this path is kept in.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
