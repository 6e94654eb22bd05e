//! Commits in the rollback modes: the change counter in the header, and the pages that differ from those of the last look.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::{ImageMemory, PageImage, WatchedBytes, WatchedCommit, WatchedPage};
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

/// A page and its content, if there was memory for it.
type ChangedImage = (u32, Option<Arc<PageImage>>);

pub(super) struct RollbackWatch {
    page_size: usize,
    counter: Option<u32>,
    prints: Vec<u64>,
    images: HashMap<u32, Arc<PageImage>>,
    refused: u32,
    pub(super) written: WatchedBytes,
}

impl RollbackWatch {
    pub(super) fn new(page_size: usize) -> RollbackWatch {
        RollbackWatch {
            page_size,
            counter: None,
            prints: Vec::new(),
            images: HashMap::new(),
            refused: 0,
            written: WatchedBytes::default(),
        }
    }

    pub(super) fn poll(
        &mut self,
        database: &File,
        memory: &mut ImageMemory,
    ) -> io::Result<Vec<WatchedCommit>> {
        let counter = counter(database)?;
        if self.counter == Some(counter) {
            return Ok(Vec::new());
        }
        let is_busy = || lock_holder(database).is_some_and(|holder| holder.is_exclusive);
        if is_busy() && self.refused < PATIENCE {
            self.refused += 1;
            return Ok(Vec::new());
        }
        let (prints, changed) = self.changes(database, memory)?;
        if (is_busy() || self::counter(database)? != counter) && self.refused < PATIENCE {
            // A commit came in between: the next look sees both.
            self.refused += 1;
            return Ok(Vec::new());
        }
        self.refused = 0;
        let commits = self.counter.map(|before| counter.wrapping_sub(before));
        self.counter = Some(counter);
        let old_pages = self.prints.len() as u32;
        self.prints = prints;
        let mut pages = Vec::new();
        for (page, after) in changed {
            let before = match &after {
                Some(after) => self.images.insert(page, Arc::clone(after)),
                None => self.images.remove(&page),
            };
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
            page_size: self.page_size,
        }])
    }

    /// The fingerprints of all pages, and those pages that are not as they were.
    fn changes(
        &self,
        database: &File,
        memory: &mut ImageMemory,
    ) -> io::Result<(Vec<u64>, Vec<ChangedImage>)> {
        let length = database.metadata()?.len() as usize;
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
                if self.prints.get(index) != Some(&print) {
                    changed.push((index as u32 + 1, memory.image(page)));
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
