//! Commits in WAL mode: the frames of `-wal`, which no program needs to know of that they are read.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

use super::{ImageMemory, PageImage, WatchedBytes, WatchedCommit, WatchedPage};
use crate::inspect::{open_if_there, open_to_read};
use crate::wal_log::HEADER;
use crate::wal_log::WalCursor;
use crate::wal_log::read_whole;

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
    /// The latest image of each page; `None` where there was no memory for it.
    latest: HashMap<u32, Option<Arc<PageImage>>>,
    /// Commits that no look has returned yet.
    seen: Vec<WatchedCommit>,
    /// When the database was last written, as of the last look.
    changed: Option<(i64, i64)>,
    /// Looks before which a checkpoint has brought in place what no look had seen.
    pub(super) missed: u64,
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
            seen: Vec::new(),
            changed: None,
            missed: 0,
            written: WatchedBytes::default(),
        }
    }

    pub(super) fn poll(
        &mut self,
        database: &File,
        page_size: usize,
        memory: &mut ImageMemory,
        go_on: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<Vec<WatchedCommit>> {
        let is_known = self.placed < self.frames.len();
        self.look(database, page_size, memory, go_on)?;
        let metadata = database.metadata()?;
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        let is_changed = self.changed.replace(changed).is_some_and(|it| it != changed);
        // Only checkpoints write to the database.
        if is_changed && !is_known && self.seen.is_empty() {
            self.missed += 1;
        }
        Ok(std::mem::take(&mut self.seen))
    }

    fn look(
        &mut self,
        database: &File,
        page_size: usize,
        memory: &mut ImageMemory,
        go_on: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(wal) = open_if_there(&self.path)? else {
            // The last connection has brought all in place, and deleted the file.
            self.all_are_placed(page_size);
            self.cursor = None;
            return Ok(());
        };
        // Frames of the generation before are still behind those of a new one.
        self.take_commits(&wal, database, memory, go_on)?;
        let begin = WalCursor::open(&wal)?.filter(|begin| begin.page_size == page_size);
        let is_new = |begin: &WalCursor| {
            let salt = self.cursor.as_ref().map(|cursor| cursor.salt);
            salt != Some(begin.salt)
        };
        if let Some(begin) = begin.filter(is_new) {
            self.all_are_placed(page_size);
            self.cursor = Some(begin);
            self.written.log += HEADER;
            self.take_commits(&wal, database, memory, go_on)?;
        }
        self.count_placed(page_size);
        Ok(())
    }

    fn take_commits(
        &mut self,
        wal: &File,
        database: &File,
        memory: &mut ImageMemory,
        go_on: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(cursor) = &mut self.cursor else {
            return Ok(());
        };
        let page_size = cursor.page_size;
        loop {
            let mut pages: Vec<WatchedPage> = Vec::new();
            let latest = &mut self.latest;
            let count = cursor.next_commit(wal, go_on, |frame, image| {
                let page = frame.page;
                let before = match latest.remove(&page) {
                    Some(before) => before,
                    None => {
                        let mut before = vec![0; image.len()];
                        let at = u64::from(page - 1) * image.len() as u64;
                        // What is equal was brought in place before this look, and hides what was there.
                        let is_known = read_whole(database, &mut before, at)? && before[..] != *image;
                        is_known.then(|| memory.image(&before)).flatten()
                    }
                };
                let after = memory.image(image);
                latest.insert(page, after.clone());
                pages.push(WatchedPage { page, before, after });
                Ok(())
            });
            if !matches!(count, Ok(Some(_))) {
                // The next look reads these pages again.
                for page in pages.drain(..).rev() {
                    match page.before {
                        Some(before) => latest.insert(page.page, Some(before)),
                        None => latest.remove(&page.page),
                    };
                }
            }
            let Some(count) = count? else {
                return Ok(());
            };
            self.written.log += count * cursor.frame_bytes() as u64;
            self.frames.extend(pages.iter().map(|page| page.page));
            self.seen.push(WatchedCommit { pages, commits: 1, page_size });
        }
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
