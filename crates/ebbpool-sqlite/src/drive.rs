//! What a database does on the disk: epochs, checkpoints, and looks at the disk before SQLite commits.
//!
//! The thread has the lock of the files all the time, and that of the family only to take pages along and to give them
//! back: meanwhile other threads read and, where the window allows it, commit.

use std::collections::HashMap;
use std::sync::Arc;

use crate::code::{Answer, Code};
use crate::family::{Family, Source, Transaction};
use crate::health::HealthNote;
use crate::instance::Instance;
use crate::shared::{Shared, State};
use crate::store::{SLICE, Store};

impl Instance {
    /// Calls `with` with the files of a database, if they are this process's.
    fn with_store<R: Default>(
        &self,
        shared: &Shared,
        with: impl FnOnce(&mut Store) -> Answer<R>,
    ) -> Answer<R> {
        match shared.writer_for_commit()?.as_mut() {
            Some(store) => with(store),
            None => Ok(R::default()),
        }
    }

    /// Makes everything committed durable.
    ///
    /// # Errors
    ///
    /// Then nothing has changed, and the next attempt writes all of it again.
    pub(crate) fn epoch(&self, shared: &Shared) -> Answer<()> {
        self.with_store(shared, |store| self.epoch_with(shared, store, None))
    }

    /// The last epoch before a database is closed.
    pub(crate) fn last_epoch(&self, shared: &Shared, store: &mut Store) -> Answer<()> {
        self.epoch_with(shared, store, None)
    }

    /// Makes durable what is committed, and a transaction that is about to be.
    fn epoch_with(
        &self,
        shared: &Shared,
        store: &mut Store,
        transaction: Option<&Transaction>,
    ) -> Answer<()> {
        let taken = shared.with_family(self.now(), |family| {
            let Some(pages) = family.pool() else {
                return Ok(None);
            };
            Ok(family.take_off(transaction).map(|flight| (flight, pages)))
        })?;
        let Some((flight, pages)) = taken else {
            return Ok(());
        };
        let written = store.write_epoch(&flight, &pages);
        // Before another thread can see that the flight has landed: the log has less room by now.
        store.publish();
        let change = match written {
            Ok(change) => change,
            Err(code) => {
                shared.with_family(self.now(), |family| {
                    family.bring_back(code);
                    Ok(())
                })?;
                shared.publish_health(self.now());
                self.arm_for(shared);
                return Err(code);
            }
        };
        // Read without the family's lock, which readers need.
        let lagging = shared.with_family(self.now(), |family| Ok(family.lagging_pages(&flight)))?;
        let memory = shared.with_family(self.now(), |family| Ok(family.memory.clone()))?;
        let mut before = HashMap::new();
        for page in lagging {
            if let Ok(old) = pages.read(page, |old| memory.store_surely(old)) {
                before.insert(page, Arc::new(old));
            }
        }
        let landed = shared.with_family(self.now(), |family| family.land(flight, change, before));
        if !store.is_closing
            && let Err(error) = store.place_what_is_only_in_wal()
        {
            // The epoch is durable; the next one brings it in place first.
            tracing::warn!(%error, "an epoch cannot be brought in place");
        }
        store.publish();
        shared.with_family(self.now(), |family| {
            family.note_places();
            Ok(())
        })?;
        shared.publish_health(self.now());
        self.arm_for(shared);
        landed
    }

    /// Makes everything committed durable, and brings it in place. With `is_asked` a program is about to look at the files:
    /// they get no mark until the next epoch.
    pub(crate) fn checkpoint(&self, shared: &Shared, is_asked: bool) -> Answer<()> {
        self.epoch(shared)?;
        loop {
            let mut writer = shared.writer_for_work()?;
            let Some(store) = writer.as_mut() else {
                return Ok(());
            };
            if shared.with_family(self.now(), |family| Ok(family.is_epoch_due()))? {
                self.epoch_with(shared, store, None)?;
            }
            if self.do_slice(shared, store, is_asked, self.slice(store))? {
                return Ok(());
            }
            drop(writer);
            shared.let_commits_in();
        }
    }

    /// Brings in place what the logs hold.
    pub(crate) fn bring_in_place(
        &self,
        shared: &Shared,
        store: &mut Store,
        removes_mark: bool,
    ) -> Answer<()> {
        self.do_slice(shared, store, removes_mark, u64::MAX)
            .map(drop)
    }

    /// Bytes of a slice of a checkpoint. Simulated databases are small.
    fn slice(&self, store: &Store) -> u64 {
        const PAGES_IN_SIMULATIONS: u64 = 8;
        match self.is_simulated() {
            true => PAGES_IN_SIMULATIONS * store.page_size() as u64,
            false => SLICE,
        }
    }

    /// Does a slice of about `bytes` bytes of what brings the logs in place, and returns true if it was the last one.
    fn do_slice(
        &self,
        shared: &Shared,
        store: &mut Store,
        removes_mark: bool,
        bytes: u64,
    ) -> Answer<bool> {
        let pages = shared.with_family(self.now(), |family| Ok(family.pool()))?;
        let Some(pages) = pages else {
            return Ok(true);
        };
        let was_in_place = store.is_in_place();
        let placed = store.do_slice(&pages, removes_mark, bytes);
        store.publish();
        shared.with_family(self.now(), |family| {
            if let Err(code) = placed {
                family.checkpoint_has_failed(code);
            }
            family.note_places();
            Ok(())
        })?;
        if placed.is_err() {
            shared.publish_health(self.now());
        }
        if placed == Ok(true) && !was_in_place {
            pages.note_checkpoint()?;
        }
        placed
    }

    /// Makes the epoch that is due, and a slice of the checkpoint. Returns false if another slice is to follow.
    pub(crate) fn do_what_is_due(&self, shared: &Shared, store: &mut Store) -> Answer<bool> {
        if shared.with_family(self.now(), |family| Ok(family.is_epoch_due()))? {
            self.epoch_with(shared, store, None)?;
        }
        let mut is_done = true;
        if shared.with_family(self.now(), |family| Ok(family.is_checkpoint_due()))? {
            is_done = self.do_slice(shared, store, false, self.slice(store))?;
        }
        if store.must_cover() {
            store.cover_what_failed();
            store.publish();
        }
        match store.must_cover() {
            true => Err(Code::IO),
            false => Ok(is_done),
        }
    }

    /// Where no thread does it, does a slice of the checkpoint if the logs are long or old. The commit before is durable, or as
    /// durable as the window says, whatever becomes of this.
    fn checkpoint_if_due(&self, shared: &Shared) {
        if !self.is_simulated() {
            return;
        }
        let done = self.with_store(shared, |store| {
            match shared.with_family(self.now(), |family| Ok(family.is_checkpoint_due()))? {
                true => self
                    .do_slice(shared, store, false, self.slice(store))
                    .map(drop),
                false => Ok(()),
            }
        });
        if let Err(error) = done {
            tracing::warn!(%error, "a checkpoint has failed, and is tried again");
        }
    }

    // Commits.

    /// Makes a transaction durable that SQLite is about to commit, or sees to it that the disk has room for it. Returns true
    /// if it is durable.
    ///
    /// # Errors
    ///
    /// Then SQLite rolls the transaction back.
    fn prepare(&self, shared: &Shared, transaction: &Transaction) -> Answer<bool> {
        let prepared = self.look_for_room(shared, transaction);
        if let Err(code) = prepared {
            self.note_refusal(shared, code)?;
        }
        prepared
    }

    /// Notes that a transaction was refused, for other processes.
    fn note_refusal(&self, shared: &Shared, code: Code) -> Answer<()> {
        shared.with_family(self.now(), |family| {
            let text = format!("a transaction was refused: {code}");
            family.notes.last_refusal = Some(HealthNote::now(text));
            Ok(())
        })?;
        shared.publish_health(self.now());
        Ok(())
    }

    fn look_for_room(&self, shared: &Shared, transaction: &Transaction) -> Answer<bool> {
        if shared.with_family(self.now(), |family| Ok(family.is_flight_late()))? {
            self.with_store(shared, |_| Ok(()))?;
        }
        let (is_urgent, room, figures) = shared.with_family(self.now(), |family| {
            let figures = family.stored.figures();
            Ok((
                // What is late is tried again before more is committed: a power cut loses the commits of one window only.
                family.is_urgent(transaction) || family.is_late(),
                family.room_for(transaction),
                figures,
            ))
        })?;
        if is_urgent {
            self.with_store(shared, |store| {
                self.epoch_with(shared, store, Some(transaction))
            })?;
        } else if room > figures.room {
            self.with_store(shared, |store| store.make_room(room))?;
        }
        Ok(is_urgent)
    }

    /// Writes to SQLite's WAL, and prepares the commit that this completes.
    pub(crate) fn write_wal(&self, shared: &Shared, at: u64, bytes: &[u8]) -> Answer<()> {
        if !self.with_family(shared, |family| family.write_wal(at, bytes))? {
            return Ok(());
        }
        let needs_store = self.with_family(shared, |family| Ok(family.wal_needs_store()))?;
        let found = match needs_store {
            true => self.with_store(shared, |store| {
                shared.with_family(self.now(), |family| family.wal_transaction(Some(store)))
            }),
            false => self.with_family(shared, |family| family.wal_transaction(None)),
        };
        let prepared = found.and_then(|found| match found {
            _ if self.with_family(shared, |family| Ok(family.has_missed_commit()))? => {
                self.note_refusal(shared, Code::IO)?;
                Err(Code::IO)
            }
            Some(transaction) => {
                let is_durable = self.prepare(shared, &transaction)?;
                Ok(Some((transaction, is_durable)))
            }
            None => Ok(None),
        });
        self.with_family(shared, |family| match prepared {
            Ok(Some((transaction, is_durable))) => {
                family.prepare_wal(transaction, is_durable);
                Ok(())
            }
            // A VFS above has yet to write frames; the commit is looked for again when its writer ends.
            Ok(None) => Ok(()),
            Err(code) => {
                family.refuse_wal()?;
                Err(code)
            }
        })
    }

    /// SQLite is about to commit, or has undone, what it has written to the main file.
    pub(crate) fn prepare_main(&self, shared: &Shared) -> Answer<()> {
        self.change_page_size(shared)?;
        let (before, transaction) = self.with_family(shared, |family| {
            Ok((family.main_is_synced(), family.main_transaction_in_doubt()?))
        })?;
        let Some(transaction) = transaction else {
            return Ok(());
        };
        match self.prepare(shared, &transaction) {
            Ok(is_durable) => self.with_family(shared, |family| {
                family.main_is_prepared(is_durable);
                Ok(())
            }),
            Err(code) => match self.with_family(shared, |family| family.undo_main(before))? {
                true => Ok(()),
                false => Err(code),
            },
        }
    }

    /// SQLite has committed, or lets go of the lock of a writer: takes what the main file has.
    ///
    /// # Errors
    ///
    /// If a VFS above has not said that the main file was about to be committed, and the epoch cannot be made durable.
    pub(crate) fn commit_main(&self, shared: &Arc<Shared>) -> Answer<()> {
        self.change_page_size(shared)?;
        let (has_changed, is_prepared, window, super_journal) =
            self.with_family(shared, |family| {
                let has_changed = family.take_main()?;
                let is_prepared = family.main_is_settled();
                let window = family.options.window;
                Ok((
                    has_changed,
                    is_prepared,
                    window,
                    family.super_journal.take(),
                ))
            })?;
        if let Some(super_journal) = super_journal {
            self.commit_together(&super_journal);
        }
        let committed = match has_changed && window == 0.0 {
            true => self.epoch(shared),
            false => Ok(()),
        };
        self.checkpoint_if_due(shared);
        if has_changed {
            self.publish_commit(shared);
        }
        match is_prepared {
            // All that can be left is the length of the file.
            true => Ok(()),
            false => committed,
        }
    }

    /// SQLite says that a transaction in its WAL is committed.
    pub(crate) fn commit_wal(&self, shared: &Shared) -> Answer<()> {
        let (is_late, has_missed) = self.with_family(shared, |family| {
            family.wal_is_committed();
            let is_late = family.options.window == 0.0 && family.due().is_some();
            Ok((is_late, family.has_missed_commit()))
        })?;
        if has_missed {
            shared.publish_health(self.now());
        }
        // Another connection has asked for no window since the transaction was prepared.
        if is_late && let Err(error) = self.epoch(shared) {
            tracing::warn!(%error, "a commit is not durable yet, and is tried again");
        }
        self.checkpoint_if_due(shared);
        self.publish_commit(shared);
        Ok(())
    }

    /// Where a transaction has written the database anew, with pages of another size, brings in place what was committed
    /// before, and cuts the transaction into such pages.
    fn change_page_size(&self, shared: &Shared) -> Answer<()> {
        let new = |family: &mut Family| family.new_page_size();
        if self.with_family(shared, new)?.is_none() {
            return Ok(());
        }
        self.with_store(shared, |store| {
            self.epoch_with(shared, store, None)?;
            self.bring_in_place(shared, store, false)?;
            shared.with_family(self.now(), |family| match family.new_page_size()? {
                Some(page_size) => family.change_page_size(store, page_size),
                None => Ok(()),
            })
        })
    }

    // The main file.

    /// Writes to the main file.
    pub(crate) fn write_main(
        &self,
        shared: &Shared,
        at: u64,
        bytes: &[u8],
        is_checkpoint: bool,
    ) -> Answer<()> {
        let count = bytes.len();
        if let Some(size) = self.with_family(shared, |f| Ok(f.page_size_of_write(count)))? {
            self.with_store(shared, |store| {
                shared.with_family(self.now(), |family| {
                    family.begin_with_page_size(store, size)
                })
            })?;
        }
        if is_checkpoint {
            self.read_ahead(shared, at)?;
        }
        self.with_family(shared, |family| family.write_main(at, bytes, is_checkpoint))
    }

    /// Has the pool read the page that SQLite's checkpoint writes, which the family compares, before it is locked.
    fn read_ahead(&self, shared: &Shared, at: u64) -> Answer<()> {
        let source = self.with_family(shared, |family| {
            Ok(family
                .part_at(at)
                .map(|(page, ..)| (page, family.source(page))))
        })?;
        if let Some((page, Source::Pool { pages, .. })) = source {
            pages.read(page, |_| ())?;
        }
        Ok(())
    }

    /// Reads the main file, zeros beyond the end, and returns true if all bytes were there.
    pub(crate) fn read_main(&self, shared: &Shared, at: u64, into: &mut [u8]) -> Answer<bool> {
        let length = self.with_family(shared, |family| Ok(family.length()))?;
        let there = length.saturating_sub(at).min(into.len() as u64) as usize;
        into[there..].fill(0);
        let mut done = 0;
        while done < there {
            done += self.read_part(shared, at + done as u64, &mut into[done..there])?;
        }
        Ok(there == into.len())
    }

    /// Reads within a page, and returns the number of bytes.
    fn read_part(&self, shared: &Shared, at: u64, into: &mut [u8]) -> Answer<usize> {
        loop {
            let part = self.with_family(shared, |family| {
                family.grow_pool();
                let Some((page, within, rest)) = family.part_at(at) else {
                    family.stored.read_in_place(at, into)?;
                    return Ok(None);
                };
                Ok(Some((page, within, rest, family.source(page))))
            })?;
            let Some((page, within, rest, source)) = part else {
                return Ok(into.len());
            };
            let count = rest.min(into.len());
            let target = &mut into[..count];
            match source {
                Source::Image(image) => {
                    target.copy_from_slice(&image.bytes()?[within..within + count]);
                }
                Source::Zeros => target.fill(0),
                Source::Pool {
                    pages,
                    stored,
                    moves,
                } => {
                    pages.read(page, |bytes| {
                        target.copy_from_slice(&bytes[within..within + count]);
                    })?;
                    if stored.moves() != moves {
                        // An epoch has come in between, and the main file may show an older page than the pool.
                        continue;
                    }
                }
            }
            return Ok(count);
        }
    }

    /// True if SQLite's own VFS is to serve a handle that has no lock: another handle of this process is served so, or the
    /// library cannot make its files.
    pub(crate) fn is_passed(&self, shared: &Shared, is_read_only: bool) -> Answer<bool> {
        loop {
            let mut inner = shared.lock()?;
            let is_passed = match &inner.state {
                State::Owned(family) if family.is_closing => None,
                State::Owned(_) => Some(false),
                State::Free if inner.is_owning => None,
                State::Free => Some(is_read_only || inner.passing > 0 || inner.refusal.is_some()),
                State::Lost => return Err(Code::CANT_OPEN),
            };
            match is_passed {
                Some(is_passed) => {
                    inner.passing += u32::from(is_passed);
                    return Ok(is_passed);
                }
                None => {
                    drop(inner);
                    shared.wait_for_writer()?;
                }
            }
        }
    }

    /// A handle that SQLite's own VFS serves has no lock any more, and no index of the WAL.
    pub(crate) fn has_passed(&self, shared: &Shared) -> Answer<()> {
        shared.lock()?.passing -= 1;
        Ok(())
    }
}
