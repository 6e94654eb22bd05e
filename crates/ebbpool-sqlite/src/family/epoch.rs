//! Epochs and checkpoints: what is pending becomes durable, and goes in place.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Family, LONGEST_RECORD};
use crate::code::{Answer, Code};
use crate::delta_log::Draft;
use crate::options::LogKind;
use crate::store::Run;

impl Family {
    /// When the next epoch is due, in seconds.
    pub(crate) fn due(&self) -> Option<f64> {
        self.oldest.map(|oldest| oldest + self.options.window)
    }

    fn checkpoint_due(&self) -> Option<f64> {
        self.log_began
            .map(|began| began + self.options.checkpoint_age)
    }

    /// When there is something to do without a call of SQLite's, in seconds.
    pub(crate) fn next_work(&self) -> Option<f64> {
        self.due()
            .into_iter()
            .chain(self.checkpoint_due())
            .reduce(f64::min)
    }

    /// Makes the epoch and the checkpoint that are due.
    pub(crate) fn work(&mut self) -> Answer<()> {
        self.epoch_if_due()?;
        self.checkpoint_if_due()
    }

    /// Makes an epoch if the window is over.
    pub(crate) fn epoch_if_due(&mut self) -> Answer<()> {
        if self.due().is_some_and(|due| due <= self.now) {
            self.epoch()?;
        }
        Ok(())
    }

    /// Tries an epoch again that is late because it failed: a writer waits for it.
    pub(crate) fn retry(&mut self) -> Answer<()> {
        let is_late = self.due().is_some_and(|due| due < self.now) || self.options.window == 0.0;
        if is_late { self.epoch() } else { Ok(()) }
    }

    /// Makes everything committed durable.
    ///
    /// # Errors
    ///
    /// Then nothing has changed, and the next attempt writes all of it again.
    pub(crate) fn epoch(&mut self) -> Answer<()> {
        if self.oldest.is_none() {
            return Ok(());
        }
        let before = self.store.lock().size();
        let written = match self.store.lock().kind() {
            LogKind::Deltas
                if before == 0
                    || self.pending_bytes > LONGEST_RECORD.min(self.options.log_limit) =>
            {
                None
            }
            LogKind::Deltas => Some(true),
            LogKind::Wal => Some(false),
        };
        match written {
            Some(true) => self.epoch_of_deltas()?,
            Some(false) => self.epoch_of_pages()?,
            None => self.epoch_in_place()?,
        }
        self.oldest = None;
        self.log_began = match self.store.lock().is_in_place() {
            true => None,
            false => Some(self.log_began.unwrap_or(self.now)),
        };
        self.settle(before)?;
        self.publish();
        Ok(())
    }

    pub(super) fn epoch_of_deltas(&mut self) -> Answer<()> {
        let mut draft = Draft::new();
        let before = self.store.lock().size();
        for (page, image) in &self.pending {
            let new = image.bytes()?;
            if *page > before || self.store.lock().wants_whole(*page) {
                draft.add(*page, None, &new);
            } else {
                self.durable(*page, |old| draft.add(*page, Some(old), &new))?;
            }
        }
        // A failed attempt to write beyond the end may have left something in place of these (invariant 4 of the store).
        let zeros = vec![0; self.page_size];
        for page in before.saturating_add(1)..=self.size {
            if !self.pending.contains_key(&page) {
                draft.add(page, None, &zeros);
            }
        }
        if draft.is_empty() && self.size == before {
            return Ok(());
        }
        self.store.lock().append_deltas(draft, self.size)
    }

    pub(super) fn epoch_of_pages(&mut self) -> Answer<()> {
        let mut changed = Vec::new();
        for (page, image) in &self.pending {
            let new = image.bytes()?;
            if self.durable(*page, |old| *old != *new)? {
                changed.push(*page);
            }
        }
        if changed.is_empty() && self.size == self.store.lock().size() {
            return Ok(());
        }
        self.log_pages(&changed, true)?;
        self.store.lock().written.epochs += 1;
        Ok(())
    }

    /// Logs pages, as they are committed, as one commit of `-wal`.
    pub(super) fn log_pages(&self, pages: &[u32], has_deltas: bool) -> Answer<()> {
        // Where only the length changed any page will do.
        let pages = if pages.is_empty() { &[1][..] } else { pages };
        self.store.lock().begin_wal(has_deltas)?;
        for (index, page) in pages.iter().enumerate() {
            let size = if index + 1 == pages.len() {
                self.size
            } else {
                0
            };
            match self.pending.get(page) {
                Some(image) => self.store.lock().append_wal(*page, &image.bytes()?, size)?,
                None => {
                    let image = self.durable(*page, <[u8]>::to_vec)?;
                    self.store.lock().append_wal(*page, &image, size)?;
                }
            }
        }
        self.store.lock().commit_wal(self.size)
    }

    /// An epoch too large for a record, or the first one of a database: pages beyond the end go in place at once, others to
    /// `-wal`, and from there in place.
    pub(super) fn epoch_in_place(&mut self) -> Answer<()> {
        if !self.store.lock().is_in_place() {
            self.bring_in_place()?;
        }
        let end = self.store.lock().end_in_place()?;
        let pages: Vec<u32> = self.pending.keys().copied().collect();
        let (pages, beyond) = pages.split_at(pages.partition_point(|page| *page <= end));
        self.append_pages(beyond, |page| match self.pending.get(&page) {
            Some(image) => image.bytes(),
            None => Err(Code::IO),
        })?;
        self.log_pages(pages, false)?;
        self.store.lock().committed_without_deltas();
        let placed = self.store.lock().place();
        if let Err(error) = placed {
            // The epoch is durable; the next one brings it in place first.
            tracing::warn!(%error, "an epoch cannot be brought in place");
        }
        Ok(())
    }

    /// After an epoch: the pool has what was pending, and the view what differs from the pool now.
    pub(super) fn settle(&mut self, before: u32) -> Answer<()> {
        let view_pages = match self.page_size {
            0 => 0,
            size => self.length.div_ceil(size as u64) as u32,
        };
        // What SQLite's main file still shows of the pages that change now.
        let lagging: Vec<u32> = match self.wal {
            Some(_) => self.lagging_pages(before, view_pages),
            None => Vec::new(),
        };
        for page in lagging {
            let old = self
                .pages()?
                .read(page, |bytes| self.memory.store(bytes))??;
            self.view.insert(page, Arc::new(old));
        }
        self.pages()?.note_epoch();
        for page in before.saturating_add(1)..=self.size {
            if !self.pending.contains_key(&page) {
                // The pool may have the page as it was before the database was cut off; now it is zeros.
                self.pages()?.forget(page)?;
            }
        }
        // More pages than the pool has frames would only replace each other, and all that was there.
        let fits = self.pending.len() as u64 <= u64::from(self.pages()?.frames());
        for (page, image) in std::mem::take(&mut self.pending) {
            let pages = self.pages()?;
            let replace = || image.bytes().and_then(|bytes| pages.replace(page, &bytes));
            if !fits || replace().is_err() {
                pages.forget(page)?;
            }
            if self
                .view
                .get(&page)
                .is_some_and(|shown| Arc::ptr_eq(shown, &image))
            {
                self.view.remove(&page);
            }
        }
        self.pending_bytes = 0;
        Ok(())
    }

    /// Pages that differ from the pool from now on, because SQLite's main file does not have the commits of its WAL yet.
    pub(super) fn lagging_pages(&self, before: u32, view_pages: u32) -> Vec<u32> {
        let is_shown =
            |page: &u32| *page <= view_pages.min(before) && !self.view.contains_key(page);
        let cut_off = self.size.saturating_add(1)..=before;
        let changed = self.pending.keys().copied();
        changed.chain(cut_off).filter(is_shown).collect()
    }

    // Checkpoints.

    /// Brings the logs in place if they are long or old.
    pub(crate) fn checkpoint_if_due(&mut self) -> Answer<()> {
        let (bytes, is_in_place) = {
            let store = self.store.lock();
            (store.log_bytes(), store.is_in_place())
        };
        let is_old = self.checkpoint_due().is_some_and(|due| due <= self.now);
        if !is_in_place && (bytes > self.options.log_limit || is_old) {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Makes everything committed durable, and brings it in place.
    pub(crate) fn checkpoint(&mut self) -> Answer<()> {
        self.epoch()?;
        if !self.store.lock().is_in_place() {
            self.bring_in_place()?;
        }
        Ok(())
    }

    pub(super) fn bring_in_place(&mut self) -> Answer<()> {
        let pages = self.store.lock().pages_of_deltas();
        let is_deltas = self.store.lock().kind() == LogKind::Deltas;
        if !pages.is_empty() || is_deltas {
            let end = self.store.lock().end_in_place()?;
            let (pages, beyond) = pages.split_at(pages.partition_point(|page| *page <= end));
            self.append_pages(beyond, |page| {
                Ok(self.pages()?.read(page, <[u8]>::to_vec)?.into())
            })?;
            self.log_durable_pages(pages)?;
        }
        self.store.lock().place()?;
        self.log_began = None;
        self.publish();
        self.pages()?.note_checkpoint()
    }

    /// Writes pages beyond the end of the database in place: no crash leaves a version behind that has them, until `-wal`
    /// has a commit with the new size.
    pub(super) fn append_pages<'a>(
        &self,
        pages: &[u32],
        image: impl Fn(u32) -> Answer<Cow<'a, [u8]>>,
    ) -> Answer<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let mut run = Run::default();
        for page in pages {
            let image = image(*page)?;
            self.store.lock().place_page(&mut run, *page, &image)?;
        }
        self.store.lock().end_run(&mut run)
    }

    /// Logs pages, as of the last epoch, as one commit of `-wal`.
    pub(super) fn log_durable_pages(&self, pages: &[u32]) -> Answer<()> {
        let pages = if pages.is_empty() { &[1][..] } else { pages };
        let size = self.store.lock().size();
        self.store.lock().begin_wal(true)?;
        for (index, page) in pages.iter().enumerate() {
            let image = self.pages()?.read(*page, <[u8]>::to_vec)?;
            let last = if index + 1 == pages.len() { size } else { 0 };
            self.store.lock().append_wal(*page, &image, last)?;
        }
        self.store.lock().commit_wal(size)
    }
}
