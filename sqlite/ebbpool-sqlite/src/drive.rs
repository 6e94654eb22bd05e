//! What a database does on the disk: epochs, checkpoints, and looks at the disk before SQLite commits.
//!
//! The thread has the lock of the files all the time, and that of the state only to take pages along and to give them
//! back: meanwhile other threads read and, where the window allows it, commit.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::code::{SqliteCode, SqliteResult};
use crate::database_state::{DatabaseState, MainEvent, PageInWal, PageSource, Transaction};
use crate::disk::FileIdentity;
use crate::disk::ForeignChange;
use crate::ffi;
use crate::health::HealthNote;
use crate::instance::Instance;
use crate::shared::{Ownership, SharedDatabase};
use crate::store::{DurableFiles, ForeignHarm, SLICE};

impl Instance {
    /// Calls `with` with the files of a database, if they are this process's.
    fn with_store<R: Default>(
        &self,
        shared: &SharedDatabase,
        with: impl FnOnce(&mut DurableFiles) -> SqliteResult<R>,
    ) -> SqliteResult<R> {
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
    pub(crate) fn epoch(&self, shared: &SharedDatabase) -> SqliteResult<()> {
        self.with_store(shared, |store| self.epoch_with(shared, store, None))
    }

    /// The last epoch before a database is closed.
    pub(crate) fn last_epoch(&self, shared: &SharedDatabase, store: &mut DurableFiles) -> SqliteResult<()> {
        self.epoch_with(shared, store, None)
    }

    /// Makes durable what is committed, and a transaction that is about to be.
    fn epoch_with(
        &self,
        shared: &SharedDatabase,
        store: &mut DurableFiles,
        transaction: Option<&Transaction>,
    ) -> SqliteResult<()> {
        self.refuse_foreign(shared, store)?;
        if let Err(code) = self.refuse_nameless(shared, store) {
            // Nothing that is left is of use to anyone, and a log beside the other file would be taken for that file's.
            shared.with_state(self.now(), |state| {
                state.bring_back(code);
                Ok(())
            })?;
            return Err(code);
        }
        let taken = shared.with_state(self.now(), |state| {
            let Some(pages) = state.pool() else {
                return Ok(None);
            };
            Ok(state.take_off(transaction).map(|flight| (flight, pages)))
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
                shared.with_state(self.now(), |state| {
                    state.bring_back(code);
                    Ok(())
                })?;
                shared.publish_health(self.now());
                self.arm_for(shared);
                return Err(code);
            }
        };
        // Read without the lock of the state, which readers need.
        let (lagging, of_snapshots, memory) = shared.with_state(self.now(), |state| {
            Ok((state.lagging_pages(&flight), state.pages_of_snapshots(&flight), state.memory.clone()))
        })?;
        let earlier = |page| Some((page, Arc::new(store.stored().earlier(page, &pages, &memory).ok()?)));
        let before: HashMap<_, _> = lagging.into_iter().filter_map(earlier).collect();
        for page in of_snapshots {
            // The state reads those again, from the pool.
            let _ = pages.read(page, |_| ());
        }
        let landed = shared.with_state(self.now(), |state| state.land(flight, change, before));
        if !store.is_closing
            && let Err(error) = store.place_what_is_only_in_wal(self.slice(store))
        {
            // The epoch is durable; the next one brings it in place first.
            tracing::warn!(%error, "an epoch cannot be brought in place");
        }
        store.publish();
        shared.with_state(self.now(), |state| {
            state.note_places();
            Ok(())
        })?;
        shared.publish_health(self.now());
        self.arm_for(shared);
        landed
    }

    /// Looks, before a connection reads, whether another program has written the database, unless that was done a moment ago.
    ///
    /// # Errors
    ///
    /// As `refuse_foreign`.
    pub(crate) fn look_before_reading(&self, shared: &SharedDatabase) -> SqliteResult<()> {
        /// Seconds: a look takes a microsecond, which is half of a short query.
        const EVERY: f64 = 0.01;
        match shared.has_looked_within(EVERY, self.now()) {
            true => Ok(()),
            false => self.look_for_foreign(shared),
        }
    }

    /// Looks whether another program has written the database. Where another thread has the files, that one looks.
    ///
    /// # Errors
    ///
    /// As `refuse_foreign`.
    pub(crate) fn look_for_foreign(&self, shared: &SharedDatabase) -> SqliteResult<()> {
        self.with_idle_store(shared, |store| self.refuse_foreign(shared, store))
    }

    /// Calls `with` with the files, unless another thread has them.
    fn with_idle_store(
        &self,
        shared: &SharedDatabase,
        with: impl FnOnce(&mut DurableFiles) -> SqliteResult<()>,
    ) -> SqliteResult<()> {
        if shared.is_own()
            && let Some(mut writer) = shared.writer_within(Duration::ZERO)
            && let Some(store) = writer.as_mut()
        {
            return with(store);
        }
        Ok(())
    }

    /// SQLite has found that the file has another name, or none. With a rollback journal it writes nothing more.
    pub(crate) fn name_is_lost(&self, shared: &SharedDatabase) {
        let _ = self.with_idle_store(shared, |store| {
            // The other file may be a copy, to which the logs belong.
            self.refuse_foreign(shared, store)?;
            self.refuse_nameless(shared, store)
        });
    }

    /// Refuses a commit to a file that no name leads to any more, while another file has its name: no program would find it again.
    /// Plain SQLite does the same with a rollback journal. Without another file the program may have deleted its own on purpose.
    /// The logs get other names at once: were the process killed, any SQLite would bring them in place of the other file.
    ///
    /// # Errors
    ///
    /// `READONLY_DBMOVED`.
    fn refuse_nameless(&self, shared: &SharedDatabase, store: &mut DurableFiles) -> SqliteResult<()> {
        let code = SqliteCode(ffi::READONLY_DBMOVED);
        if !store.is_nameless() || FileIdentity::for_path(&shared.path).is_none() {
            return Ok(());
        }
        if let Err(code) = store.rename_logs() {
            self.log(
                code,
                &format!("{}: its logs cannot get other names: delete them before the other file is opened", shared.path),
            );
        }
        let text = format!(
            "{}: another file has its name by now, and the one that is open has none left: commits are refused. Open it again",
            shared.path
        );
        match shared.has_said_nameless.swap(true, Ordering::Relaxed) {
            true => self.log(code, &text),
            false => self.say(code, &text),
        }
        Err(code)
    }

    /// Gives a database up that another program has written, as it is now. The logs, which belong to
    /// another content, get other names, unless a copy has the database's name to which they belong.
    ///
    /// # Errors
    ///
    /// `IO` if that is so: the handles are good for nothing more.
    fn refuse_foreign(&self, shared: &SharedDatabase, store: &mut DurableFiles) -> SqliteResult<()> {
        let change = store.foreign_change();
        if change.is_none() && !store.is_log_cut_off() {
            return Ok(());
        }
        let (pages, oldest) = shared.with_state(self.now(), |state| Ok((state.pool(), state.oldest())))?;
        let harm = match change {
            Some(change) => store.harm_of(change, pages.as_deref())?,
            None => None,
        };
        let harm = harm.or_else(|| store.has_lost_records(pages.as_deref()).then_some(ForeignHarm::LogCut));
        let Some(harm) = harm else {
            if change == Some(ForeignChange::Time) && (oldest.is_some() || !store.is_in_place()) {
                let text =
                    "its time has changed and its content has not; should a backup have been put back, later commits stay";
                self.log(SqliteCode(ffi::NOTICE), &format!("{}: {text}", shared.path));
            }
            return Ok(());
        };
        let (path, was_in_place) = (&shared.path, store.is_in_place());
        let done = match harm {
            ForeignHarm::Copied => {
                store.leave_to_copy();
                "another file has its name by now, a copy of it as `sed -i` makes one. The copy has its log".to_owned()
            }
            ForeignHarm::Written | ForeignHarm::LogCut => {
                let logs = match store.put_aside() {
                    Ok(()) => "get names that end in .stale",
                    Err(_) => "cannot get other names: delete them before the database is opened",
                };
                let marked = match store.is_marked_in_place() {
                    true => format!(". It has the mark of its log: `ebbpool sqlite check {path}` says how it opens again"),
                    false => String::new(),
                };
                let what = match harm {
                    ForeignHarm::LogCut => "another program has cut off its log while it was open, and what that had is lost",
                    _ => "another program has written it while it was open, as when a backup is copied over it",
                };
                format!("{what}. It stays as it is now, and its logs, if there are any, {logs}{marked}")
            }
        };
        shared.lock()?.state = Ownership::Lost(SqliteCode::IO);
        let lost = match (oldest.is_some(), was_in_place) {
            (true, _) => "commits that were not durable are lost",
            (false, true) => "it had every commit",
            (false, false) => "every commit is durable, the last ones in its logs",
        };
        self.say(SqliteCode::IO, &format!("{path}: {done}; {lost}. Open it again"));
        self.forget(shared);
        shared.publish_health(self.now());
        Err(SqliteCode::IO)
    }

    /// Makes everything committed durable, and brings it in place. With `is_asked` a program is about to look at the files:
    /// they get no mark until the next epoch.
    pub(crate) fn checkpoint(&self, shared: &SharedDatabase, is_asked: bool) -> SqliteResult<()> {
        self.epoch(shared)?;
        loop {
            let mut writer = shared.writer_for_work()?;
            let Some(store) = writer.as_mut() else {
                return Ok(());
            };
            if shared.with_state(self.now(), |state| Ok(state.is_epoch_due()))? {
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
        shared: &SharedDatabase,
        store: &mut DurableFiles,
        removes_mark: bool,
    ) -> SqliteResult<()> {
        self.do_slice(shared, store, removes_mark, u64::MAX).map(drop)
    }

    /// Bytes of a slice of a checkpoint. Simulated databases are small.
    fn slice(&self, store: &DurableFiles) -> u64 {
        const PAGES_IN_SIMULATIONS: u64 = 8;
        match self.is_simulated() {
            true => PAGES_IN_SIMULATIONS * store.page_size() as u64,
            false => SLICE,
        }
    }

    /// Does a slice of about `bytes` bytes of what brings the logs in place, and returns true if it was the last one.
    fn do_slice(
        &self,
        shared: &SharedDatabase,
        store: &mut DurableFiles,
        removes_mark: bool,
        bytes: u64,
    ) -> SqliteResult<bool> {
        let pages = shared.with_state(self.now(), |state| Ok(state.pool()))?;
        let Some(pages) = pages else {
            return Ok(true);
        };
        self.refuse_foreign(shared, store)?;
        let was_in_place = store.is_in_place();
        let placed = store.do_slice(&pages, removes_mark, bytes);
        store.publish();
        shared.with_state(self.now(), |state| {
            if let Err(code) = placed {
                state.checkpoint_has_failed(code);
            }
            state.note_places();
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
    pub(crate) fn do_what_is_due(&self, shared: &SharedDatabase, store: &mut DurableFiles) -> SqliteResult<bool> {
        if shared.with_state(self.now(), |state| Ok(state.is_epoch_due()))? {
            self.epoch_with(shared, store, None)?;
        }
        let mut is_done = true;
        if shared.with_state(self.now(), |state| Ok(state.is_checkpoint_due()))? {
            is_done = self.do_slice(shared, store, false, self.slice(store))?;
        }
        if store.must_cover() {
            store.cover_what_failed();
            store.publish();
        }
        match store.must_cover() {
            true => Err(SqliteCode::IO),
            false => Ok(is_done),
        }
    }

    /// Where no thread does it, does a slice of the checkpoint if the logs are long or old. The commit before is durable, or as
    /// durable as the window says, whatever becomes of this.
    fn checkpoint_if_due(&self, shared: &SharedDatabase) {
        if !self.is_simulated() {
            return;
        }
        let done =
            self.with_store(shared, |store| match shared.with_state(self.now(), |state| Ok(state.is_checkpoint_due()))? {
                true => self.do_slice(shared, store, false, self.slice(store)).map(drop),
                false => Ok(()),
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
    fn prepare(&self, shared: &SharedDatabase, transaction: &Transaction) -> SqliteResult<bool> {
        let prepared = self.look_for_room(shared, transaction);
        if let Err(code) = prepared {
            self.note_refusal(shared, code)?;
        }
        prepared
    }

    /// Notes that a transaction was refused, for other processes.
    fn note_refusal(&self, shared: &SharedDatabase, code: SqliteCode) -> SqliteResult<()> {
        shared.with_state(self.now(), |state| {
            let text = format!("a transaction was refused: {code}");
            state.notes.last_refusal = Some(HealthNote::now(text));
            Ok(())
        })?;
        shared.publish_health(self.now());
        Ok(())
    }

    fn look_for_room(&self, shared: &SharedDatabase, transaction: &Transaction) -> SqliteResult<bool> {
        if shared.with_state(self.now(), |state| Ok(state.is_flight_late()))? {
            self.with_store(shared, |_| Ok(()))?;
        }
        let (is_urgent, room, figures) = shared.with_state(self.now(), |state| {
            let figures = state.stored.figures();
            Ok((
                // What is late is tried again before more is committed: a power cut loses the commits of one window only.
                state.is_urgent(transaction) || state.is_late(),
                state.room_for(transaction),
                figures,
            ))
        })?;
        if is_urgent {
            self.with_store(shared, |store| {
                self.or_after_checkpoint(shared, store, |store| self.epoch_with(shared, store, Some(transaction)))
            })?;
        } else if room > figures.room {
            self.with_store(shared, |store| {
                self.refuse_foreign(shared, store)?;
                self.refuse_nameless(shared, store)?;
                self.or_after_checkpoint(shared, store, |store| store.make_room(room))
            })?;
        } else {
            self.with_idle_store(shared, |store| {
                self.refuse_foreign(shared, store)?;
                self.refuse_nameless(shared, store)
            })?;
        }
        Ok(is_urgent)
    }

    /// Does what needs room for the log; on a full disk once more, after what the log has was brought in place.
    fn or_after_checkpoint(
        &self,
        shared: &SharedDatabase,
        store: &mut DurableFiles,
        work: impl Fn(&mut DurableFiles) -> SqliteResult<()>,
    ) -> SqliteResult<()> {
        match work(store) {
            Err(SqliteCode(ffi::FULL)) if !store.is_in_place() => {
                self.bring_in_place(shared, store, false)?;
                work(store)
            }
            done => done,
        }
    }

    /// Writes to SQLite's WAL, and prepares the commit that this completes.
    pub(crate) fn write_wal(&self, shared: &SharedDatabase, at: u64, bytes: &[u8]) -> SqliteResult<()> {
        if !self.with_state(shared, |state| state.write_wal(at, bytes))? {
            return Ok(());
        }
        let needs_store = self.with_state(shared, |state| Ok(state.wal_needs_store()))?;
        let found = match needs_store {
            true => self.with_store(shared, |store| shared.with_state(self.now(), |state| state.wal_transaction(Some(store)))),
            false => self.with_state(shared, |state| state.wal_transaction(None)),
        };
        let prepared = found.and_then(|found| match found {
            _ if self.with_state(shared, |state| Ok(state.has_missed_commit()))? => {
                self.note_refusal(shared, SqliteCode::IO)?;
                Err(SqliteCode::IO)
            }
            Some(transaction) => {
                let is_durable = self.prepare(shared, &transaction)?;
                Ok(Some((transaction, is_durable)))
            }
            None => Ok(None),
        });
        self.with_state(shared, |state| match prepared {
            Ok(Some((transaction, is_durable))) => {
                state.prepare_wal(transaction, is_durable);
                Ok(())
            }
            // A VFS above has yet to write frames; the commit is looked for again when its writer ends.
            Ok(None) => Ok(()),
            Err(code) => {
                state.refuse_wal()?;
                Err(code)
            }
        })
    }

    /// SQLite is about to commit, or has undone, what it has written to the main file.
    pub(crate) fn prepare_main(&self, shared: &SharedDatabase) -> SqliteResult<()> {
        self.change_page_size(shared)?;
        let (before, transaction) =
            self.with_state(shared, |state| Ok((state.main_is(MainEvent::Sync), state.main_transaction_in_doubt()?)))?;
        let Some(transaction) = transaction else {
            return Ok(());
        };
        match self.prepare(shared, &transaction) {
            Ok(is_durable) => self.with_state(shared, |state| {
                state.main_is(if is_durable { MainEvent::Log } else { MainEvent::Prepare });
                Ok(())
            }),
            Err(code) => match self.with_state(shared, |state| state.undo_main(before))? {
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
    pub(crate) fn commit_main(&self, shared: &Arc<SharedDatabase>) -> SqliteResult<()> {
        self.change_page_size(shared)?;
        let (has_changed, is_prepared, window, super_journal) = self.with_state(shared, |state| {
            let has_changed = state.take_main()?;
            let is_prepared = state.main_is(MainEvent::Settle).is_prepared();
            let window = state.options.window;
            Ok((has_changed, is_prepared, window, state.main.super_journal.take()))
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
    pub(crate) fn commit_wal(&self, shared: &SharedDatabase) -> SqliteResult<()> {
        let (is_late, has_missed) = self.with_state(shared, |state| {
            state.wal_is_committed();
            let is_late = state.options.window == 0.0 && state.due().is_some();
            Ok((is_late, state.has_missed_commit()))
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
    fn change_page_size(&self, shared: &SharedDatabase) -> SqliteResult<()> {
        let new = |state: &mut DatabaseState| state.new_page_size();
        if self.with_state(shared, new)?.is_none() {
            return Ok(());
        }
        self.with_store(shared, |store| {
            self.epoch_with(shared, store, None)?;
            self.bring_in_place(shared, store, false)?;
            shared.with_state(self.now(), |state| match state.new_page_size()? {
                Some(page_size) => state.change_page_size(store, page_size),
                None => Ok(()),
            })
        })
    }

    // The main file.

    /// Writes to the main file.
    pub(crate) fn write_main(&self, shared: &SharedDatabase, at: u64, bytes: &[u8], is_checkpoint: bool) -> SqliteResult<()> {
        let count = bytes.len();
        if let Some(size) = self.with_state(shared, |f| Ok(f.page_size_of_write(count)))? {
            self.with_store(shared, |store| shared.with_state(self.now(), |state| state.begin_with_page_size(store, size)))?;
        }
        if is_checkpoint {
            self.read_ahead(shared, at)?;
        }
        self.with_state(shared, |state| state.write_main(at, bytes, is_checkpoint))
    }

    /// Has the pool read the page that SQLite's checkpoint writes, which is compared, before the state is locked.
    fn read_ahead(&self, shared: &SharedDatabase, at: u64) -> SqliteResult<()> {
        let source = self.with_state(shared, |state| Ok(state.part_at(at).map(|(page, ..)| (page, state.source(page)))))?;
        if let Some((page, PageSource::Pool { pages, .. })) = source {
            pages.read(page, |_| ())?;
        }
        Ok(())
    }

    /// Reads the main file, zeros beyond the end, and returns true if all bytes were there.
    pub(crate) fn read_main(&self, shared: &SharedDatabase, at: u64, into: &mut [u8]) -> SqliteResult<bool> {
        let length = self.with_state(shared, |state| Ok(state.length()))?;
        let there = length.saturating_sub(at).min(into.len() as u64) as usize;
        into[there..].fill(0);
        let mut done = 0;
        while done < there {
            done += self.read_part(shared, at + done as u64, &mut into[done..there])?;
        }
        Ok(there == into.len())
    }

    /// Reads SQLite's WAL, zeros beyond the end, and returns true if all bytes were there.
    pub(crate) fn read_wal(&self, shared: &SharedDatabase, at: u64, into: &mut [u8]) -> SqliteResult<bool> {
        let mut done = 0;
        loop {
            let rest = &mut into[done..];
            let (is_whole, part) = self.with_state(shared, |state| state.read_wal(at + done as u64, rest))?;
            let Some(PageInWal { done: before, page, within, source: PageSource::Pool { pages, stored, moves } }) = part else {
                return Ok(is_whole);
            };
            let target = &mut rest[before..];
            let count = pages.read(page, |bytes| {
                let count = target.len().min(bytes.len() - within);
                target[..count].copy_from_slice(&bytes[within..within + count]);
                count
            })?;
            // Otherwise an epoch has come in between, and the frame may be elsewhere now.
            if stored.moves() == moves {
                done += before + count;
            }
        }
    }

    /// Reads within a page, and returns the number of bytes.
    fn read_part(&self, shared: &SharedDatabase, at: u64, into: &mut [u8]) -> SqliteResult<usize> {
        loop {
            let part = self.with_state(shared, |state| {
                state.grow_pool();
                let Some((page, within, rest)) = state.part_at(at) else {
                    state.stored.read_in_place(at, into)?;
                    return Ok(None);
                };
                Ok(Some((page, within, rest, state.source(page))))
            })?;
            let Some((page, within, rest, source)) = part else {
                return Ok(into.len());
            };
            let count = rest.min(into.len());
            let target = &mut into[..count];
            match source {
                PageSource::Image(image) => {
                    target.copy_from_slice(&image.bytes()?[within..within + count]);
                }
                PageSource::Zeros => target.fill(0),
                PageSource::Pool { pages, stored, moves } => {
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
    pub(crate) fn is_passed(&self, shared: &SharedDatabase, is_read_only: bool) -> SqliteResult<bool> {
        loop {
            let mut inner = shared.lock()?;
            let is_passed = match &inner.state {
                Ownership::Owned(state) if state.is_closing => None,
                Ownership::Owned(_) => Some(false),
                Ownership::Free if inner.is_owning => None,
                Ownership::Free => Some(is_read_only || inner.passing > 0 || inner.refusal.is_some()),
                Ownership::Lost(code) => return Err(*code),
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
    pub(crate) fn has_passed(&self, shared: &SharedDatabase) -> SqliteResult<()> {
        shared.lock()?.passing -= 1;
        Ok(())
    }
}
