//! Epochs of commits that were watched, and the bytes that they would take.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::{PageImage, WatchedCommit};
use crate::delta_log::{EpochDraft, RECORD, RECORDS};
use crate::disk::{BLOCK, whole_blocks};
use crate::options::Options;
use crate::wal_log::FRAME;

/// A page that changed since the last epoch: its content as of that, if it is known, and its latest one.
struct PendingPage {
    durable: Option<Arc<PageImage>>,
    latest: Option<Arc<PageImage>>,
}

/// Bytes of a record for a page whose content is not known, beside the page: those of a section with one run.
const OF_WHOLE_PAGE: usize = 12;

/// What the VFS would write to its log with one window.
pub struct WindowModel {
    options: Options,
    page_size: usize,
    /// Pages as of the last epoch; `None` where that is not known.
    durable: HashMap<u32, Option<Arc<PageImage>>>,
    pending: BTreeMap<u32, PendingPage>,
    oldest: Option<f64>,
    end: u64,
    log_bytes: u64,
    in_place_bytes: u64,
    epochs: u64,
}

impl WindowModel {
    /// A model with the options of a database.
    pub fn new(options: Options) -> WindowModel {
        WindowModel {
            options,
            page_size: 0,
            durable: HashMap::new(),
            pending: BTreeMap::new(),
            oldest: None,
            end: RECORDS,
            log_bytes: 0,
            in_place_bytes: 0,
            epochs: 0,
        }
    }

    /// The window in seconds.
    pub fn window(&self) -> f64 {
        self.options.window
    }

    /// Takes a commit that was seen at a time in seconds; times do not decrease.
    pub fn commit(&mut self, now: f64, commit: &WatchedCommit) {
        self.proceed(now);
        self.page_size = commit.page_size;
        for page in &commit.pages {
            // The image as of the last epoch; the first one is from before the watch.
            let durable = self.durable.get(&page.page).unwrap_or(&page.before);
            let entry = self.pending.entry(page.page);
            let entry = entry.or_insert_with(|| PendingPage { durable: durable.clone(), latest: None });
            entry.latest = page.after.clone();
        }
        self.oldest.get_or_insert(now);
        let pending = self.pending_bytes();
        // As the VFS: a quarter of the memory may hold what is not durable yet.
        if self.options.window == 0.0 || pending > self.options.memory / 4 {
            self.epoch();
        }
    }

    /// Makes the epoch that is due by a time in seconds.
    pub fn proceed(&mut self, now: f64) {
        if self.oldest.is_some_and(|oldest| oldest + self.options.window <= now) {
            self.epoch();
        }
    }

    fn pending_bytes(&self) -> u64 {
        (self.pending.len() * self.page_size) as u64
    }

    fn epoch(&mut self) {
        self.oldest = None;
        let bytes = self.pending_bytes();
        let pages = std::mem::take(&mut self.pending);
        if pages.is_empty() {
            return;
        }
        self.epochs += 1;
        if bytes > self.options.log_limit {
            // Too large for a record: it goes to `-wal`, and from there in place. Pages beyond the end would go in place at
            // once, but which those are is not known here, so these bytes are the most it takes.
            self.log_bytes += bytes + pages.len() as u64 * FRAME;
            self.in_place_bytes += bytes;
            for (number, page) in pages {
                self.durable.insert(number, page.latest);
            }
            return;
        }
        let mut draft = EpochDraft::new();
        let mut whole = 0;
        for (number, page) in pages {
            match &page.latest {
                Some(latest) => {
                    draft.add(number, page.durable.as_deref().map(|it| &it[..]), latest);
                }
                None => whole += self.page_size + OF_WHOLE_PAGE,
            }
            self.durable.insert(number, page.latest);
        }
        let drafted = match draft.is_empty() {
            true if whole == 0 => return,
            true => RECORD,
            false => draft.finish(1, 1, 0, 0).0.len(),
        };
        let end = self.end + (drafted + whole) as u64;
        // A sync writes the blocks that the record touches, the one that it shares with the record before too.
        self.log_bytes += whole_blocks(self.end, end - self.end);
        self.end = end;
    }

    /// The bytes of all epochs in a time in seconds, and of the checkpoints that this time needs: those that are in
    /// the log as they were counted, and pages in place as `growth` says. What is pending goes into a last epoch.
    pub fn finish(mut self, seconds: f64, growth: &PageGrowth, page_size: usize) -> ModelledBytes {
        self.epoch();
        let records = (self.end - RECORDS) as f64;
        let until_full = self.options.log_limit as f64 * seconds / records.max(1.0);
        let interval = until_full.min(self.options.checkpoint_age);
        let pages = growth.pages_after(interval, seconds);
        let checkpoints = seconds / interval;
        let page = page_size as f64;
        // In `-wal` and then in place, and the header of the next generation.
        let checkpoint = pages * (page + FRAME as f64 + page.max(BLOCK as f64)) + BLOCK as f64;
        let checkpoint_bytes = if records > 0.0 { checkpoints * checkpoint } else { 0.0 };
        ModelledBytes {
            epochs: self.epochs,
            log: self.log_bytes,
            checkpoints: checkpoint_bytes.round() as u64 + self.in_place_bytes,
            checkpoint_seconds: interval,
        }
    }
}

/// What the VFS would have written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelledBytes {
    /// The number of epochs.
    pub epochs: u64,
    /// Bytes of the blocks of their records.
    pub log: u64,
    /// Bytes of the share of checkpoints that belongs to the time of the watch.
    pub checkpoints: u64,
    /// Seconds between two checkpoints.
    pub checkpoint_seconds: f64,
}

/// How many different pages commits change, against time.
#[derive(Default)]
pub struct PageGrowth {
    seen: HashSet<u32>,
    /// Seconds at which each page was changed first, in ascending order.
    first_changes: Vec<f64>,
}

impl PageGrowth {
    /// Takes a commit that was seen at a time in seconds; times do not decrease.
    pub fn commit(&mut self, now: f64, commit: &WatchedCommit) {
        for page in &commit.pages {
            if self.seen.insert(page.page) {
                self.first_changes.push(now);
            }
        }
    }

    /// Pages that were changed.
    pub fn pages(&self) -> u64 {
        self.first_changes.len() as u64
    }

    /// The different pages that commits change within a time in seconds, from what was seen within another. Beyond it the
    /// number grows as the power of time with which it grew from half of that time on: fewer and fewer pages are new ones.
    pub fn pages_after(&self, seconds: f64, seen: f64) -> f64 {
        let until = |time: f64| self.first_changes.partition_point(|first| *first <= time) as f64;
        if seconds <= seen || seen <= 0.0 {
            return until(seconds);
        }
        let (all, half) = (until(seen), until(seen / 2.0).max(1.0));
        let power = (all.max(1.0) / half).log2().clamp(0.0, 1.0);
        all * (seconds / seen).powf(power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{ImageMemory, WatchedPage};

    fn image(byte: u8) -> Option<Arc<PageImage>> {
        let mut image = vec![7; 4096];
        image[100] = byte;
        ImageMemory::new(u64::MAX).image(&image)
    }

    fn commit(page: u32, before: u8, after: u8) -> WatchedCommit {
        WatchedCommit {
            pages: vec![WatchedPage { page, before: image(before), after: image(after) }],
            commits: 1,
            page_size: 4096,
        }
    }

    fn model(window: f64) -> WindowModel {
        WindowModel::new(Options { window, ..Options::default() })
    }

    #[test]
    fn commits_of_a_window_are_one_epoch() {
        let (mut each, mut merged) = (model(0.0), model(10.0));
        for second in 0..25u8 {
            for model in [&mut each, &mut merged] {
                model.commit(f64::from(second), &commit(5, second, second + 1));
            }
        }
        let growth = PageGrowth::default();
        let (each, merged) = (each.finish(25.0, &growth, 4096), merged.finish(25.0, &growth, 4096));
        assert_eq!(each.epochs, 25);
        // At 0, 10 and 20 a window begins.
        assert_eq!(merged.epochs, 3);
        // A record has 32 bytes, a section 8, a run 4 and a word 8, padded to 56: all are in the first block.
        assert_eq!(each.log, 25 * 4096);
        assert_eq!(merged.log, 3 * 4096);
    }

    #[test]
    fn a_page_without_an_image_is_written_whole() {
        let mut model = model(10.0);
        let mut unknown = commit(5, 1, 2);
        unknown.pages[0].after = None;
        model.commit(0.0, &unknown);
        let of_first = model.end;
        model.proceed(20.0);
        assert_eq!(model.end - of_first, 32 + 8 + 4 + 4096);
        // What it was before is not known either.
        model.commit(21.0, &commit(5, 2, 3));
        let before = model.end;
        model.proceed(40.0);
        assert!(model.end - before > 4096);
    }

    #[test]
    fn a_change_that_is_undone_within_the_window_takes_nothing() {
        let mut model = model(10.0);
        model.commit(0.0, &commit(5, 1, 2));
        model.commit(1.0, &commit(5, 2, 1));
        let bytes = model.finish(2.0, &PageGrowth::default(), 4096);
        assert_eq!((bytes.log, bytes.checkpoints), (0, 0));
    }

    #[test]
    fn growth_is_counted_within_the_watch_and_extrapolated_beyond() {
        let mut growth = PageGrowth::default();
        for page in 1..=10u32 {
            growth.commit(f64::from(page), &commit(page, 0, 1));
            growth.commit(f64::from(page), &commit(1, 0, 1));
        }
        assert_eq!(growth.pages(), 10);
        assert_eq!(growth.pages_after(4.0, 10.0), 4.0);
        // A page a second: the power is 1.
        assert_eq!(growth.pages_after(100.0, 10.0), 100.0);
        let mut still = PageGrowth::default();
        still.commit(1.0, &commit(1, 0, 1));
        assert_eq!(still.pages_after(100.0, 10.0), 1.0);
    }
}
