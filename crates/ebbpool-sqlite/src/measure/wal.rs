//! Commits in WAL mode: the frames of `-wal`, which no program needs to know of that they are read.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{WatchedBytes, WatchedCommit, WatchedPage};
use crate::inspect::{open_if_there, open_to_read};
use crate::wal_file::{CommitFrames, read_whole};
use crate::wal_log::HEADER;
use crate::wal_log::WalCursor;

/// Where `-shm` has the number of frames that checkpoints have brought in place (`WalCkptInfo.nBackfill`), in the machine's
/// byte order.
const BACKFILLED: u64 = 96;

pub(super) struct WalWatch {
    path: PathBuf,
    shared_memory: PathBuf,
    cursor: Option<WalCursor>,
    /// The page of each frame of the present generation, and how many of them are in place.
    frames: Vec<u32>,
    placed: usize,
    latest: HashMap<u32, Arc<[u8]>>,
    pub(super) written: WatchedBytes,
}

impl WalWatch {
    pub(super) fn new(path: PathBuf, shared_memory: PathBuf) -> WalWatch {
        WalWatch {
            path,
            shared_memory,
            cursor: None,
            frames: Vec::new(),
            placed: 0,
            latest: HashMap::new(),
            written: WatchedBytes::default(),
        }
    }

    pub(super) fn images(&self) -> u64 {
        self.latest.len() as u64
    }

    pub(super) fn poll(
        &mut self,
        database: &File,
        page_size: usize,
    ) -> io::Result<Vec<WatchedCommit>> {
        let mut commits = Vec::new();
        let Some(wal) = open_if_there(&self.path)? else {
            // The last connection has brought all in place, and deleted the file.
            self.all_are_placed(page_size);
            self.cursor = None;
            return Ok(commits);
        };
        // Frames of the generation before are still behind those of a new one.
        self.take_commits(&wal, database, &mut commits)?;
        let begin = WalCursor::open(&wal)?.filter(|begin| begin.page_size == page_size);
        let is_new = |begin: &WalCursor| {
            let salt = self.cursor.as_ref().map(|cursor| cursor.salt);
            salt != Some(begin.salt)
        };
        if let Some(begin) = begin.filter(is_new) {
            self.all_are_placed(page_size);
            self.cursor = Some(begin);
            self.written.log += HEADER;
            self.take_commits(&wal, database, &mut commits)?;
        }
        self.count_placed(page_size);
        Ok(commits)
    }

    fn take_commits(
        &mut self,
        wal: &File,
        database: &File,
        commits: &mut Vec<WatchedCommit>,
    ) -> io::Result<()> {
        while let Some(cursor) = &mut self.cursor {
            let Some(frames) = cursor.next_commit(wal)? else {
                break;
            };
            self.written.log += (frames.len() * cursor.frame_bytes()) as u64;
            let commit = self.take_commit(frames, database)?;
            commits.push(commit);
        }
        Ok(())
    }

    fn take_commit(&mut self, frames: CommitFrames, database: &File) -> io::Result<WatchedCommit> {
        let mut pages: Vec<WatchedPage> = Vec::with_capacity(frames.len());
        for (frame, image) in frames {
            self.frames.push(frame.page);
            let after: Arc<[u8]> = image.into();
            let before = match self.latest.insert(frame.page, Arc::clone(&after)) {
                Some(before) => Some(before),
                None => {
                    let mut before = vec![0; after.len()];
                    let at = u64::from(frame.page - 1) * after.len() as u64;
                    // What is equal was brought in place before this look, and hides what was there.
                    let is_known =
                        read_whole(database, &mut before, at)? && before[..] != after[..];
                    is_known.then(|| before.into())
                }
            };
            pages.push(WatchedPage {
                page: frame.page,
                before,
                after,
            });
        }
        Ok(WatchedCommit { pages, commits: 1 })
    }

    /// Counts what checkpoints have brought in place since the last look.
    fn count_placed(&mut self, page_size: usize) {
        let mut count = [0; 4];
        let shared = open_to_read(&self.shared_memory);
        let read = shared.and_then(|file| file.read_exact_at(&mut count, BACKFILLED));
        // In exclusive mode there is no such file: then pages count when the log begins anew.
        if read.is_ok() {
            let count = u32::from_ne_bytes(count) as usize;
            if count <= self.frames.len() {
                self.place(count, page_size);
            }
        }
    }

    fn all_are_placed(&mut self, page_size: usize) {
        self.place(self.frames.len(), page_size);
        self.frames.clear();
        self.placed = 0;
    }

    fn place(&mut self, count: usize, page_size: usize) {
        if count > self.placed {
            let pages: HashSet<u32> = self.frames[self.placed..count].iter().copied().collect();
            self.written.in_place += (pages.len() * page_size) as u64;
            self.placed = count;
        }
    }
}
