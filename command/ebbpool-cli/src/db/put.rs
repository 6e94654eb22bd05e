//! `ebbpool db put`: puts lines from standard input, each as a transaction.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use ebbpool_btree::Database;
use ebbpool_sim::BufferSize;

use super::args::{PutArgs, with_promises};
use super::error::DbError;
use super::lines::{LineForm, RecordLine, RecordLines};
use super::open::close;
use crate::progress::STOP;

/// The time between two checks for Ctrl-C.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The number of lines that the reading thread reads ahead.
const AHEAD: usize = 256;

/// The page size of a new database.
const PAGE_SIZE: usize = 4096;

type Received = Result<RecordLine, DbError>;

pub(super) fn put(args: &PutArgs) -> Result<(), DbError> {
    let path = &args.path;
    let options = match args.open.frames.size {
        BufferSize::Frames(_) => args.open.options_of_new(PAGE_SIZE)?,
        _ if exists(path) => args.open.options_of(path, false)?.create(true),
        _ => args.open.options_of_new(PAGE_SIZE)?,
    };
    let options = with_promises(options, args.durability, args.recovery_seconds);
    let database = options.open(path).map_err(DbError::at(path))?;
    let lines = read(LineForm::new(args.escape));
    let outcome = put_all(&database, &lines);
    close(database, path, outcome)
}

fn exists(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.len() > 0)
}

/// Reads the lines on a separate thread, because Ctrl-C does not interrupt reading from a terminal.
fn read(form: LineForm) -> Receiver<Received> {
    let (lines, received) = mpsc::sync_channel(AHEAD);
    std::thread::spawn(move || {
        for line in RecordLines::new(io::stdin().lock(), "standard input", form) {
            let failed = line.is_err();
            if lines.send(line).is_err() || failed {
                break;
            }
        }
    });
    received
}

fn put_all(database: &Database, lines: &Receiver<Received>) -> Result<(), DbError> {
    let mut out = io::stdout().lock();
    let mut done = 0u64;
    loop {
        if STOP.load(Ordering::Relaxed) {
            let message = remaining(done);
            return Err(DbError::Interrupted(message));
        }
        let line = match lines.recv_timeout(CHECK_INTERVAL) {
            Ok(line) => line?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let put = database.put(&line.key, &line.value);
        put.map_err(|error| DbError::Line { file: "standard input".into(), line: line.number, problem: error.to_string() })?;
        done += 1;
        let mut acknowledgement = b"ok ".to_vec();
        acknowledgement.extend_from_slice(&line.shown);
        acknowledgement.push(b'\n');
        // A program that closes its end loses lines that are still to be put, so that this is no success.
        out.write_all(&acknowledgement).and_then(|()| out.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => DbError::Interrupted(format!("standard output was closed; {}", remaining(done))),
            _ => DbError::Output(error),
        })?;
    }
}

/// What an interruption leaves, in words.
fn remaining(records: u64) -> String {
    match records {
        1 => "1 record was put and remains in the database".into(),
        records => format!("{records} records were put and remain in the database"),
    }
}
