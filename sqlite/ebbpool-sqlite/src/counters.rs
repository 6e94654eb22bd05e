//! The figures of a database for the recorder of metrics that a program has installed.

use metrics::{Counter, counter};

use crate::store::WrittenBytes;

/// What SQLite has asked for so far: what it would have written without this VFS.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestedWrites {
    pub(crate) main: u64,
    pub(crate) journal: u64,
    pub(crate) wal: u64,
    pub(crate) syncs: u64,
    pub(crate) commits: u64,
}

impl RequestedWrites {
    /// Bytes to all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.main + self.journal + self.wal
    }
}

/// The counters of a database, and what they have counted of this time that the process owns it.
pub(crate) struct Counters {
    counters: [Counter; 9],
    counted: [u64; 9],
}

impl Counters {
    /// Registers the counters. They go on where those of the same path ended.
    pub(crate) fn new(path: &str) -> Counters {
        let written =
            |to: &'static str| counter!("ebbpool_sqlite_written_bytes_total", "database" => path.to_owned(), "to" => to);
        let total = |name: &'static str| counter!(name, "database" => path.to_owned());
        Counters {
            counters: [
                written("log"),
                written("database"),
                written("temporary"),
                total("ebbpool_sqlite_syncs_total"),
                total("ebbpool_sqlite_epochs_total"),
                total("ebbpool_sqlite_checkpoints_total"),
                total("ebbpool_sqlite_requested_bytes_total"),
                total("ebbpool_sqlite_requested_syncs_total"),
                total("ebbpool_sqlite_commits_total"),
            ],
            counted: [0; 9],
        }
    }

    /// Adds what has come since the last call.
    pub(crate) fn update(&mut self, written: &WrittenBytes, temporary: u64, asked: &RequestedWrites) {
        let figures = [
            written.log,
            written.in_place,
            temporary,
            written.syncs,
            written.epochs,
            written.checkpoints,
            asked.bytes(),
            asked.syncs,
            asked.commits,
        ];
        for ((counter, counted), figure) in self.counters.iter().zip(&mut self.counted).zip(figures) {
            counter.increment(figure - *counted);
            *counted = figure;
        }
    }
}
