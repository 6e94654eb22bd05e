//! `ebbpool db put`: lines from standard input, each a transaction.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use ebbpool_btree::Database;

use super::args::{FramesArg, PutArgs};
use super::error::DbError;
use super::lines::{Form, Line, Lines};
use super::open::close;
use crate::progress::STOP;

/// How often it is looked whether Ctrl-C was pressed.
const GLANCE: Duration = Duration::from_millis(100);

/// Lines that are read ahead.
const AHEAD: usize = 256;

/// Pages of a database that is made.
const PAGE_SIZE: usize = 4096;

type Received = Result<Line, DbError>;

pub(super) fn put(args: &PutArgs) -> Result<(), DbError> {
    let path = &args.path;
    let options = match args.opening.frames {
        FramesArg::Bytes(_) if exists(path) => args.opening.options_of(path, false)?.create(true),
        _ => args.opening.options(PAGE_SIZE)?,
    };
    let options = options.durability(args.durability.into());
    let database = options.open(path).map_err(DbError::at(path))?;
    let lines = read(Form::of(args.escape));
    let outcome = put_all(&database, &lines);
    close(database, path, outcome)
}

fn exists(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.len() > 0)
}

/// Lines are read by a thread of their own, for reading from a terminal does not end when Ctrl-C is
/// pressed.
fn read(form: Form) -> Receiver<Received> {
    let (lines, received) = mpsc::sync_channel(AHEAD);
    std::thread::spawn(move || {
        for line in Lines::new(io::stdin().lock(), "standard input", form) {
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
            let kept = format!("{done} records were put and are kept");
            return Err(DbError::Interrupted(kept));
        }
        let line = match lines.recv_timeout(GLANCE) {
            Ok(line) => line?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let put = database.put(&line.key, &line.value);
        put.map_err(|error| DbError::Line {
            file: "standard input".into(),
            line: line.number,
            problem: error.to_string(),
        })?;
        done += 1;
        let mut told = b"ok ".to_vec();
        told.extend_from_slice(&line.shown);
        told.push(b'\n');
        out.write_all(&told).map_err(DbError::Output)?;
        out.flush().map_err(DbError::Output)?;
    }
}
