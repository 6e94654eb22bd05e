//! Watches what a program writes with plain SQLite, and says what this VFS would write in its place.
//!
//! The program runs on unchanged, and nothing is written to its files. [`CommitWatch`] reads them again and again, and
//! returns each commit that it sees. [`WindowModel`] puts commits into epochs as the VFS does, and counts the bytes of their
//! records. [`PageGrowth`] says how many pages a checkpoint brings in place, also one that is due only after the watch.

mod model;
mod rollback;
mod wal;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::inspect::{SqliteHeader, beside, inspect, open_to_read};
use rollback::RollbackWatch;
use wal::WalWatch;

pub use model::{ModelledBytes, PageGrowth, WindowModel};

/// A commit of another process.
#[derive(Clone, Debug)]
pub struct WatchedCommit {
    /// The pages that it changed.
    pub pages: Vec<WatchedPage>,
    /// The commits that are seen as this one, because they were made between two looks: 1 in WAL mode.
    pub commits: u64,
}

/// A page that a commit changed.
#[derive(Clone, Debug)]
pub struct WatchedPage {
    /// The number of the page, from 1 on.
    pub page: u32,
    /// Its content before; `None` if it is new, or if the content is no longer known.
    pub before: Option<Arc<[u8]>>,
    /// Its content from then on.
    pub after: Arc<[u8]>,
}

/// What SQLite wrote while it was watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchedBytes {
    /// Bytes to the journal or the WAL.
    pub log: u64,
    /// Bytes to the database.
    pub in_place: u64,
}

/// Watches the commits of other processes to a database.
pub struct CommitWatch {
    path: PathBuf,
    database: File,
    page_size: usize,
    mode: JournalWatch,
}

/// How the journal mode shows commits.
enum JournalWatch {
    Wal(WalWatch),
    Rollback(RollbackWatch),
}

impl CommitWatch {
    /// Begins to watch a database. `memory` bytes at most are taken for images of pages.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, the database is empty or encrypted, or goes through this VFS already.
    pub fn open(path: &Path, memory: u64) -> io::Result<CommitWatch> {
        let unsuitable = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        let inspection = inspect(path)?;
        let Some(header) = inspection.header else {
            return unsuitable("it is empty, encrypted, or no database of SQLite");
        };
        if header.is_marked || inspection.log.is_some() {
            return unsuitable(
                "its program uses ebbpool already; PRAGMA ebbpool_status has the figures",
            );
        }
        let database = open_to_read(path)?;
        let page_size = header.page_size as usize;
        let mode = match header.is_wal {
            true => JournalWatch::Wal(WalWatch::new(beside(path, "-wal"), beside(path, "-shm"))),
            false => JournalWatch::Rollback(RollbackWatch::new(page_size, memory)),
        };
        let mut watch = CommitWatch {
            path: path.to_owned(),
            database,
            page_size,
            mode,
        };
        // What was there before is no commit of the watch.
        watch.poll()?;
        if let JournalWatch::Wal(wal) = &mut watch.mode {
            wal.written = WatchedBytes::default();
        }
        Ok(watch)
    }

    /// The database's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// True if the journal mode is WAL, in which every commit is seen.
    pub fn is_wal(&self) -> bool {
        matches!(self.mode, JournalWatch::Wal(_))
    }

    /// The commits since the last call, in order.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the page size or journal mode has changed.
    pub fn poll(&mut self) -> io::Result<Vec<WatchedCommit>> {
        let mut header = [0; 100];
        crate::inspect::read_start(&self.database, &mut header)?;
        if let Some(header) = SqliteHeader::decode(&header)
            && (header.page_size as usize != self.page_size || header.is_wal != self.is_wal())
        {
            return Err(io::Error::other(
                "its page size or journal mode has changed; measure again",
            ));
        }
        match &mut self.mode {
            JournalWatch::Wal(wal) => wal.poll(&self.database, self.page_size),
            JournalWatch::Rollback(rollback) => rollback.poll(&self.database),
        }
    }

    /// What SQLite has written since the watch began.
    pub fn written(&self) -> WatchedBytes {
        match &self.mode {
            JournalWatch::Wal(wal) => wal.written,
            JournalWatch::Rollback(rollback) => rollback.written,
        }
    }

    /// Bytes of images of pages in memory.
    pub fn memory(&self) -> u64 {
        match &self.mode {
            JournalWatch::Wal(wal) => wal.images() * self.page_size as u64,
            JournalWatch::Rollback(rollback) => rollback.images() * self.page_size as u64,
        }
    }

    /// The size of the database in pages, as its file is now.
    pub fn pages(&self) -> u64 {
        let length = self.database.metadata().map_or(0, |file| file.len());
        length.div_ceil(self.page_size as u64)
    }
}
