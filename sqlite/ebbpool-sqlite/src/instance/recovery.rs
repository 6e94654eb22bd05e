//! Takes a database over: has SQLite bring it to a state without journal and WAL, makes that durable, and reads the log.

use super::Instance;
use crate::code::{SqliteCode, SqliteResult};
use crate::database_state::DatabaseState;
use crate::disk::BaseFile;
use crate::disk::FileIdentity;
use crate::encrypted;
use crate::ffi;
use crate::mirror::{self, SuiteCopy};
use crate::options::LogKind;
use crate::owner;
use crate::shared::{Ownership, SharedDatabase};
use crate::store::{DurableFiles, Taking, is_marked, is_plain};
use crate::sync::gate;

impl Instance {
    /// Makes the files this process's alone, after SQLite has brought them to a state without journal and WAL.
    ///
    /// # Errors
    ///
    /// `BUSY` if another process has the database, or a handle of this one that SQLite's own VFS serves.
    pub(crate) fn own(&self, shared: &SharedDatabase) -> SqliteResult<()> {
        let mut writer = shared.writer()?;
        {
            let mut inner = shared.lock()?;
            match &inner.state {
                // SQLite's own VFS serves it, or is to.
                Ownership::Free if inner.passing > 0 || inner.refusal.is_some() => {
                    return Err(SqliteCode::BUSY);
                }
                Ownership::Free => inner.is_owning = true,
                _ => return Ok(()),
            }
        }
        let taken = self.take_over(shared);
        let mut inner = shared.lock()?;
        inner.is_owning = false;
        let (store, mut state) = taken.inspect_err(|code| {
            if *code == SqliteCode::CANT_OPEN {
                let text = format!(
                    "{0}: its log belongs to another version of it, is damaged, was deleted, or a later release of Ebbpool has written it; see: ebbpool sqlite check {0}",
                    shared.path
                );
                self.log(*code, &text);
            }
        })?;
        state.options.window = inner.window().unwrap_or(state.options.window);
        shared.set_due(state.next_work());
        inner.identity = FileIdentity::for_path(&shared.path);
        inner.state = Ownership::Owned(Box::new(state));
        *writer = Some(store);
        drop(inner);
        shared.publish_health(self.now());
        self.arm_for(shared);
        Ok(())
    }

    fn take_over(&self, shared: &SharedDatabase) -> SqliteResult<(DurableFiles, DatabaseState)> {
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_MAIN_DB;
        owner::ask(&shared.path)?;
        let mut file = BaseFile::open(self.base, &shared.path, flags)?;
        let lock = self.lock_recovered(shared, &mut file)?;
        let taken = self.take_files(shared, file, lock);
        taken.map_err(|(code, file)| {
            if let Some(mut file) = file {
                file.unlock();
            }
            code
        })
    }

    /// Locks the database when it has no journal and no WAL, and has SQLite take them in where it has.
    fn lock_recovered(&self, shared: &SharedDatabase, file: &mut BaseFile) -> SqliteResult<owner::OwnerLock> {
        let (journal, wal) = (format!("{}-journal", shared.path), format!("{}-wal", shared.path));
        let is_left = || Ok(self.has_hot_journal(&journal)? || self.base.exists(&wal)?);
        let mut recovered = Ok(());
        let mut has_recovered = self.base.exists(&format!("{}-ebb", shared.path))?;
        for _ in 0..3 {
            if is_left()? {
                owner::ask(&shared.path)?;
                recovered = self.recover(&shared.path);
                has_recovered = true;
            }
            let lock = owner::lock_alone(&shared.path, file)?;
            let mut finish = || {
                encrypted::take_in_wal(self.base, &shared.path, file)?;
                if is_left()? {
                    // Another process was here in between.
                    return Ok(false);
                }
                // A process that was killed, or whose sync has failed, may have written or cut off what is not durable: after a
                // power cut `-wal` would be back.
                if has_recovered || is_left_marked(file)? {
                    if file.length()? == 0 {
                        // The sync may have failed that was to make it empty, and the next one would do nothing.
                        file.truncate(0)?;
                    }
                    file.sync()?;
                    self.forget_recovered(&journal, &wal)?;
                }
                Ok(true)
            };
            match finish() {
                Ok(true) => return Ok(lock),
                Ok(false) => {}
                Err(code) => {
                    file.unlock();
                    return Err(code);
                }
            }
            drop(lock);
            file.unlock();
        }
        recovered.and(Err(SqliteCode::BUSY))
    }

    /// Makes it durable that SQLite has deleted a journal and a WAL: after a power cut they would be taken in once more,
    /// although the database in place has become newer. The caller holds the database locked.
    fn forget_recovered(&self, journal: &str, wal: &str) -> SqliteResult<()> {
        for (path, kind) in [(journal, ffi::OPEN_MAIN_JOURNAL), (wal, ffi::OPEN_WAL)] {
            let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | kind;
            let mut file = BaseFile::open(self.base, path, flags)?;
            file.truncate(0)?;
            file.sync()?;
            drop(file);
            self.base.delete(path, true)?;
        }
        Ok(())
    }

    /// True if a journal would roll a transaction back. Other journals stay where SQLite is to make them persist.
    fn has_hot_journal(&self, journal: &str) -> SqliteResult<bool> {
        /// Attempts to open a file that is there, before it counts as one that cannot be opened.
        const ATTEMPTS: usize = 100;
        let flags = ffi::OPEN_READONLY | ffi::OPEN_MAIN_JOURNAL;
        for _ in 0..ATTEMPTS {
            if !self.base.exists(journal)? {
                return Ok(false);
            }
            match BaseFile::open(self.base, journal, flags) {
                Ok(mut file) => {
                    let mut first = [0];
                    file.read(0, &mut first)?;
                    return Ok(first != [0]);
                }
                // Another process has committed, and deleted it, and the next one may have made its own: the database is not locked
                // yet.
                Err(SqliteCode::CANT_OPEN) => {}
                Err(code) => return Err(code),
            }
        }
        Err(SqliteCode::CANT_OPEN)
    }

    fn take_files(
        &self,
        shared: &SharedDatabase,
        file: BaseFile,
        lock: owner::OwnerLock,
    ) -> Result<(DurableFiles, DatabaseState), (SqliteCode, Option<BaseFile>)> {
        let mut random = [0u8; 8];
        self.base.randomness(&mut random);
        let random = u64::from_le_bytes(random);
        let (base, path, database, shadow) =
            mirror::divide(self.base, &shared.path, file).map_err(|(file, code)| (code, Some(file)))?;
        let options = &shared.options;
        let taking = Taking { database, lock: Some(lock) };
        let open = || {
            let mut store = DurableFiles::take_over(base, &path, options, taking, random)?;
            let mut state = DatabaseState::new(base, &mut store, *options, self.now())?;
            if options.log == LogKind::Wal && store.kind() == LogKind::Deltas {
                if let Some(pages) = state.pool() {
                    store.bring_in_place(&pages, false)?;
                }
                store.use_wal()?;
                state.note_places();
            }
            Ok((store, state))
        };
        match open() {
            Ok((store, mut state)) => {
                state.shadow = shadow;
                Ok((store, state))
            }
            Err(code) => Err((code, shadow.and_then(SuiteCopy::into_real))),
        }
    }

    /// Has SQLite itself roll a journal back and take a WAL in, on the VFS below.
    #[allow(unsafe_code)]
    fn recover(&self, path: &str) -> SqliteResult<()> {
        let Ok(path) = std::ffi::CString::new(path) else {
            return Err(SqliteCode::CANT_OPEN);
        };
        let statements =
            c"PRAGMA locking_mode=EXCLUSIVE; SELECT 1 FROM sqlite_master LIMIT 1; PRAGMA wal_checkpoint(TRUNCATE);";
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_PRIVATECACHE;
        let (api, null) = (&self.api, std::ptr::null());
        let mut database = std::ptr::null_mut();
        // A child of fork() must not inherit a lock that SQLite's own VFS has in the middle of this.
        let _gate = gate();
        // SAFETY: these are SQLite's own functions; the texts end with a zero, and the connection is closed once, also where
        // opening it failed, as SQLite asks for.
        unsafe {
            let vfs = (*self.base.0).zName;
            let mut code = (api.open_v2)(path.as_ptr(), &mut database, flags, vfs);
            if code == ffi::OK {
                code = (api.exec)(database, statements.as_ptr(), null, null, null);
            }
            (api.close)(database);
            SqliteCode::check(code)
        }
    }
}

/// True if a process that did not close the database has left its mark.
fn is_left_marked(file: &mut BaseFile) -> SqliteResult<bool> {
    let mut header = [0; 100];
    file.read(0, &mut header)?;
    Ok(is_plain(&header) && is_marked(&header))
}
