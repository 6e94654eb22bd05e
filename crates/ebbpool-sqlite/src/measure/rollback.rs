//! Commits in the rollback modes: the change counter in the header, and the pages that differ from those of the last look.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::{WatchedBytes, WatchedCommit, WatchedPage};
use crate::inspect::{lock_holder, read_start};
use crate::wal_file::read_whole;
use crate::wal_log::be32;

/// Bytes of a journal's header, and those beside each page in it.
const JOURNAL_HEADER: u64 = 512;
const JOURNAL_PAGE: u64 = 8;
/// Pages are read together up to this many bytes.
const BATCH: usize = 1 << 20;
/// A program that writes at every look is read while it writes after this many looks.
const PATIENCE: u32 = 20;

/// A page and its content.
type ChangedImage = (u32, Vec<u8>);

pub(super) struct RollbackWatch {
    page_size: usize,
    /// Pages of which images may be stored.
    most_images: usize,
    counter: Option<u32>,
    prints: Vec<u64>,
    images: HashMap<u32, Arc<[u8]>>,
    refused: u32,
    pub(super) written: WatchedBytes,
}

impl RollbackWatch {
    pub(super) fn new(page_size: usize, memory: u64) -> RollbackWatch {
        RollbackWatch {
            page_size,
            most_images: (memory / page_size as u64) as usize,
            counter: None,
            prints: Vec::new(),
            images: HashMap::new(),
            refused: 0,
            written: WatchedBytes::default(),
        }
    }

    pub(super) fn images(&self) -> u64 {
        self.images.len() as u64
    }

    pub(super) fn poll(&mut self, database: &File) -> io::Result<Vec<WatchedCommit>> {
        let counter = counter(database)?;
        if self.counter == Some(counter) {
            return Ok(Vec::new());
        }
        let is_busy = || lock_holder(database).is_some_and(|holder| holder.is_exclusive);
        if is_busy() && self.refused < PATIENCE {
            self.refused += 1;
            return Ok(Vec::new());
        }
        let (prints, changed) = self.changes(database)?;
        if (is_busy() || self::counter(database)? != counter) && self.refused < PATIENCE {
            // A commit came in between: the next look sees both.
            self.refused += 1;
            return Ok(Vec::new());
        }
        self.refused = 0;
        let commits = self.counter.map(|before| counter.wrapping_sub(before));
        self.counter = Some(counter);
        let is_first = self.prints.is_empty();
        let old_pages = self.prints.len() as u32;
        self.prints = prints;
        let mut pages = Vec::new();
        for (page, image) in changed {
            let after: Arc<[u8]> = image.into();
            if is_first && self.images.len() >= self.most_images {
                continue;
            }
            let before = self.images.insert(page, Arc::clone(&after));
            pages.push(WatchedPage {
                page,
                before,
                after,
            });
        }
        let Some(commits) = commits else {
            return Ok(Vec::new());
        };
        self.count(&pages, old_pages, u64::from(commits));
        Ok(vec![WatchedCommit {
            pages,
            commits: u64::from(commits),
        }])
    }

    /// The fingerprints of all pages, and those pages that are not as they were.
    fn changes(&self, database: &File) -> io::Result<(Vec<u64>, Vec<ChangedImage>)> {
        let length = database.metadata()?.len() as usize;
        let is_first = self.prints.is_empty();
        let mut prints = Vec::with_capacity(length / self.page_size);
        let mut changed = Vec::new();
        let mut bytes = vec![0; BATCH];
        let mut at = 0;
        while at < length {
            let count = BATCH.min(length - at) / self.page_size * self.page_size;
            if count == 0 || !read_whole(database, &mut bytes[..count], at as u64)? {
                break;
            }
            for page in bytes[..count].chunks_exact(self.page_size) {
                let print = xxh3_64(page);
                let index = prints.len();
                let is_changed = self.prints.get(index) != Some(&print);
                // The first look stores what there is room for.
                if is_changed && (!is_first || index < self.most_images) {
                    changed.push((index as u32 + 1, page.to_vec()));
                }
                prints.push(print);
            }
            at += count;
        }
        Ok((prints, changed))
    }

    /// Counts what SQLite has written at least: each commit writes page 1, and the journal has the pages before.
    fn count(&mut self, pages: &[WatchedPage], old_pages: u32, commits: u64) {
        let page_size = self.page_size as u64;
        let old = pages.iter().filter(|page| page.page <= old_pages).count() as u64;
        let more = commits.saturating_sub(1);
        self.written.in_place += (pages.len() as u64 + more) * page_size;
        self.written.log += commits * JOURNAL_HEADER + (old + more) * (page_size + JOURNAL_PAGE);
    }
}

fn counter(database: &File) -> io::Result<u32> {
    let mut header = [0; 100];
    read_start(database, &mut header)?;
    Ok(be32(&header, 24))
}
