//! Epochs: what a thread takes along to write it, and what becomes of it.

use std::collections::HashMap;
use std::sync::Arc;

use super::{DatabaseState, Transaction};
use crate::code::{SqliteCode, SqliteResult};
use crate::health::{DatabaseHealth, HealthNote};
use crate::memory::Image;
use crate::store::{Flight, PlaceChange, now_in_milliseconds};

/// A checkpoint is due when it would write this many bytes in place, however short the log is: it takes as much room in
/// `-wal`, and writers wait for it.
const MOST_CHANGED: u64 = 64 << 20;
/// Seconds after which what has failed is tried again.
const RETRY: f64 = 1.0;
/// Seconds, and the share of the window, after which an epoch that is due is late.
const LATE: f64 = 0.1;
const LATE_SHARE: f64 = 0.1;

/// Commits that no epoch has made durable. Times are in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    /// When the first of them was made.
    oldest: f64,
    /// When the first window of them is over. A later window that is longer does not change what these were promised.
    promised: f64,
}

impl Waiting {
    /// Those that waited before, and one that is made now with a window in seconds.
    pub(super) fn with(before: Option<Waiting>, now: f64, window: f64) -> Waiting {
        before.map_or(Waiting { oldest: now, promised: now + window }, |before| Waiting {
            promised: before.promised.min(now + window),
            ..before
        })
    }

    /// When they have to be durable, with the window of now.
    fn due(&self, window: f64) -> f64 {
        self.promised.min(self.oldest + window)
    }
}

impl DatabaseState {
    /// When the next epoch is due, in seconds.
    pub(crate) fn due(&self) -> Option<f64> {
        self.commits.waiting.map(|waiting| waiting.due(self.options.window))
    }

    /// Seconds: when the oldest commit was made that a power cut would lose.
    pub(crate) fn oldest(&self) -> Option<f64> {
        self.commits.flying_since.or(self.commits.waiting).map(|waiting| waiting.oldest)
    }

    /// Sees to it that the next epoch is due no later than that of databases which have committed together.
    pub(crate) fn be_due_with(&mut self, oldest: f64) {
        if let Some(waiting) = &mut self.commits.waiting {
            waiting.oldest = waiting.oldest.min(oldest);
        }
    }

    fn checkpoint_due(&self) -> Option<f64> {
        let figures = self.stored.figures();
        if figures.is_in_place {
            return None;
        }
        let is_due = match figures.is_only_in_wal {
            true => self.stored.lent_pages() == 0,
            false => figures.log_bytes > self.log_limit() || figures.changed_bytes > MOST_CHANGED,
        };
        if figures.is_between_slices || is_due {
            return Some(self.now);
        }
        self.log_began.map(|began| began + self.options.checkpoint_age)
    }

    /// Bytes of the logs from which on a checkpoint is due. While a reader holds SQLite's WAL the logs may be as long as that would
    /// be in a file: plain SQLite does not bring it in place then, either.
    fn log_limit(&self) -> u64 {
        /// SQLite makes a checkpoint when its WAL has 1,000 frames, if no reader needs them.
        const HELD: u64 = 2000;
        let held = self.in_wal.taken.as_ref().filter(|taken| taken.frames > HELD);
        self.options.log_limit.max(held.map_or(0, |taken| taken.frames * taken.page_size as u64))
    }

    /// When there is something to do without a call of SQLite's, in seconds.
    pub(crate) fn next_work(&self) -> Option<f64> {
        let epoch = self.due().map(|due| due.max(self.retry_at));
        let checkpoint = self.checkpoint_due().map(|due| due.max(self.checkpoint_retry_at));
        let cover = self.stored.figures().must_cover.then_some(self.retry_at);
        let all = epoch.into_iter().chain(checkpoint).chain(cover);
        all.reduce(f64::min)
    }

    /// True if the window of the oldest commit is over.
    pub(crate) fn is_epoch_due(&self) -> bool {
        self.due().is_some_and(|due| due <= self.now)
    }

    /// True if a checkpoint is due.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        let due = self.checkpoint_due();
        due.is_some_and(|due| due.max(self.checkpoint_retry_at) <= self.now)
    }

    /// True if an epoch is late, because it has failed, because no thread can be made for it, or because the one before takes
    /// long.
    pub(crate) fn is_late(&self) -> bool {
        let patience = match self.failed {
            Some(_) => 0.0,
            None => self.patience(),
        };
        self.due().is_some_and(|due| due + patience <= self.now)
    }

    /// True if the epoch that a thread writes is late: a commit that does not wait for it would be lost with those that the epoch
    /// has.
    pub(crate) fn is_flight_late(&self) -> bool {
        let due = self.commits.flying_since.map(|flying| flying.due(self.options.window));
        due.is_some_and(|due| due + self.patience() <= self.now)
    }

    fn patience(&self) -> f64 {
        LATE.max(self.options.window * LATE_SHARE)
    }

    /// Pages that are committed and that no epoch has.
    fn unsaved_bytes(&self) -> u64 {
        let flying: u64 = self.commits.flying.values().map(|i| i.length() as u64).sum();
        self.commits.pending_bytes + flying
    }

    /// What other processes are to know.
    pub(crate) fn health(&self) -> DatabaseHealth {
        let milliseconds = |seconds: f64| (seconds * 1e3) as u64;
        let now = now_in_milliseconds();
        let notes = self.notes.clone();
        DatabaseHealth {
            log: self.stored.figures().kind,
            window_seconds: self.options.window,
            last_epoch_succeeded: self.failed.is_none() && !self.in_wal.has_missed,
            last_epoch: notes.last_epoch,
            last_error: notes.last_error,
            unsaved_commits: self.commits.unsaved + self.commits.flying_commits,
            unsaved_bytes: self.unsaved_bytes(),
            oldest_unsaved: self.oldest().map(|oldest| now.saturating_sub(milliseconds(self.now - oldest))),
            last_refusal: notes.last_refusal,
            ..DatabaseHealth::default()
        }
    }

    /// Takes along what the next epoch is of; `None` if there is nothing. Only the thread with the store does this.
    pub(crate) fn take_off(&mut self, transaction: Option<&Transaction>) -> Option<Flight> {
        if self.commits.waiting.is_none() && transaction.is_none() {
            return None;
        }
        let mut flight = Flight {
            pages: self.commits.pending.clone(),
            bytes: self.commits.pending_bytes,
            size: self.commits.size,
            transaction: transaction.map(|transaction| transaction.taken.clone()),
            wal: transaction.map_or(&self.in_wal.taken, |transaction| &transaction.taken).clone(),
        };
        if let Some(transaction) = transaction {
            for (page, image) in &transaction.pages {
                flight.pages.insert(*page, Arc::clone(image));
            }
            flight.pages.retain(|page, _| *page <= transaction.size);
            flight.size = transaction.size;
            flight.bytes += transaction.bytes;
        }
        self.commits.flying = std::mem::take(&mut self.commits.pending);
        self.commits.pending_bytes = 0;
        self.commits.flying_since = self.commits.waiting.take();
        self.commits.flying_commits = std::mem::take(&mut self.commits.unsaved);
        Some(flight)
    }

    /// The epoch has failed: what it has taken along is pending again.
    pub(crate) fn bring_back(&mut self, code: SqliteCode) {
        for (page, image) in std::mem::take(&mut self.commits.flying) {
            if page <= self.commits.size && !self.commits.pending.contains_key(&page) {
                self.set_pending(page, image);
            }
        }
        if let Some(flying) = self.commits.flying_since.take() {
            let later = self.commits.waiting.map_or(f64::INFINITY, |waiting| waiting.promised);
            self.commits.waiting = Some(Waiting { promised: flying.promised.min(later), ..flying });
        }
        self.commits.unsaved += std::mem::take(&mut self.commits.flying_commits);
        self.failed = Some(code);
        self.notes.last_error = Some(HealthNote::now(format!("an epoch has failed: {code}")));
        self.retry_at = self.now + RETRY;
    }

    /// Notes that a checkpoint has failed.
    pub(crate) fn checkpoint_has_failed(&mut self, code: SqliteCode) {
        let text = format!("a checkpoint has failed: {code}");
        self.notes.last_error = Some(HealthNote::now(text));
        self.checkpoint_retry_at = self.now + RETRY;
    }

    /// The pages that SQLite's main file is to show as they were before the epoch, because it does not have the commits of its
    /// WAL yet.
    pub(crate) fn lagging_pages(&self, flight: &Flight) -> Vec<u32> {
        if self.wal.is_none() || self.page_size == 0 {
            return Vec::new();
        }
        let before = self.stored.size();
        let shown = self.main.length.div_ceil(self.page_size as u64) as u32;
        let is_shown = |page: &u32| *page <= shown.min(before) && !self.main.view.contains_key(page);
        let cut_off = flight.size.saturating_add(1)..=before;
        let changed = flight.pages.keys().copied();
        changed.chain(cut_off).filter(is_shown).collect()
    }

    /// The epoch is durable: the pool has what it took along, and the view what differs from the pool now. `lagging` has pages
    /// as they were before; those that it lacks are read now.
    pub(crate) fn land(
        &mut self,
        flight: Flight,
        change: PlaceChange,
        mut lagging: HashMap<u32, Arc<Image>>,
    ) -> SqliteResult<()> {
        self.keep_for_snapshots(&flight)?;
        for page in self.lagging_pages(&flight) {
            let read = || self.stored.earlier(page, self.pages()?, &self.memory).map(Arc::new);
            let old = lagging.remove(&page).map_or_else(read, Ok)?;
            self.main.view.insert(page, old);
        }
        let before = self.stored.size();
        // SQLite may have taken back what could not be written: then nothing was, and the disk is as it was.
        let has_written = !matches!(change, PlaceChange::Nothing);
        self.stored.note_move();
        self.stored.apply(change);
        if self.move_to_pool(&flight, before).is_err() {
            // A pool that has read nothing yet has nothing old.
            self.use_page_size(self.page_size)?;
        }
        if let Err(error) = self.frames_are_durable(&flight) {
            // Then they stay where they are.
            tracing::warn!(%error, "frames of the WAL cannot be taken from the pool");
        }
        for (page, image) in &flight.pages {
            let is_shown = |shown: &Arc<Image>| Arc::ptr_eq(shown, image);
            if self.main.view.get(page).is_some_and(is_shown) {
                self.main.view.remove(page);
            }
        }
        self.commits.flying.clear();
        self.commits.flying_since = None;
        self.commits.flying_commits = 0;
        if has_written {
            self.failed = None;
            self.notes.last_epoch = Some(now_in_milliseconds());
        }
        match flight.transaction {
            Some(Some(taken)) => {
                self.commits.size = flight.size;
                self.in_wal.taken = Some(taken);
            }
            Some(None) => {
                self.commits.size = flight.size;
                self.main_is_durable();
            }
            None => {}
        }
        Ok(())
    }

    fn move_to_pool(&self, flight: &Flight, before: u32) -> SqliteResult<()> {
        let pages = self.pages()?;
        pages.note_epoch();
        for page in before.saturating_add(1)..=flight.size {
            if !flight.pages.contains_key(&page) {
                // The pool may have the page as it was before the database was cut off; now it is zeros.
                pages.forget(page)?;
            }
        }
        // More pages than the pool has frames would only replace each other, and all that was there.
        let fits = flight.pages.len() as u64 <= u64::from(pages.frames());
        for (page, image) in &flight.pages {
            let replace = || {
                let bytes = image.bytes()?;
                pages.replace(*page, &bytes)
            };
            if !fits || replace().is_err() {
                pages.forget(*page)?;
            }
        }
        Ok(())
    }

    /// Notes whether the database is all in place, after an epoch or a checkpoint.
    pub(crate) fn note_places(&mut self) {
        self.log_began = match self.stored.figures().is_in_place {
            true => None,
            false => Some(self.log_began.unwrap_or(self.now)),
        };
        self.publish();
    }
}
