//! Backups of a database while threads read and write it.
//!
//! A copy is what a crash would leave behind, and opening it recovers it: pages, each as it was at some moment since the backup began,
//! and a log that has every change since then. A checkpoint that is taken meanwhile speaks of the database's own pages, of which the copy may
//! have older ones; so the copied log ends with a checkpoint of the backup's beginning, and the latest one counts.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use ebbpool::storage::{FileOptions, FileStorage};
use ebbpool::{PageFormat, PoolError, PoolOptions, PoolScan};

use crate::database::DatabaseInner;
use crate::error::DatabaseError;
use crate::files::{self, DatabasePaths, failed, sync_directory};
use crate::log::LogFile;

/// Frames of the pool that writes the copy's pages.
const FRAMES: u32 = 64;

/// What a backup has copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Pages of the database.
    pub pages: u64,
    /// Bytes of its log.
    pub log_bytes: u64,
}

/// Files that are removed unless the backup is complete.
struct Unfinished(Vec<PathBuf>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // The first one last, which is locked.
        for path in self.0.iter().rev() {
            let _ = fs::remove_file(path);
        }
    }
}

impl Unfinished {
    fn create(&mut self, path: &Path) -> Result<File, DatabaseError> {
        let file = create(path)?;
        self.0.push(path.to_owned());
        Ok(file)
    }
}

fn create(path: &Path) -> Result<File, DatabaseError> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    file.map_err(failed(path, "create it for a backup"))
}

/// Ends what a backup holds back: the log becomes shorter again.
struct KeptLog<'d> {
    inner: &'d DatabaseInner,
    txn: u64,
}

impl Drop for KeptLog<'_> {
    fn drop(&mut self) {
        self.inner.live.end(self.txn);
    }
}

impl DatabaseInner {
    /// Copies the database to `path`, while `goes_on` wants it; `txn` is no transaction's number.
    pub(crate) fn back_up(&self, path: &Path, txn: u64, goes_on: &mut dyn FnMut(f64) -> bool) -> Result<Backup, DatabaseError> {
        let paths = DatabasePaths::new(path);
        let [first, second] = &paths.log;
        let part = second.with_added_extension("part");
        let mut names = paths.all().into_iter().chain([&*part]);
        if let Some(there) = names.find(|path| path.symlink_metadata().is_ok()) {
            let names = [paths.pages.as_path(), first, &part].map(|path| path.display().to_string()).join(", ");
            let remedy = match part.exists() && !second.exists() {
                true => format!("a backup is under way there, or was killed; if it was, remove {names}"),
                false => "it already exists".into(),
            };
            return Err(failed(there, "back up a database into it")(io::Error::new(io::ErrorKind::AlreadyExists, remedy)));
        }
        // While it is locked no program creates a database there. One that was faster keeps it.
        let locked = create(first)?;
        files::locked(locked.try_lock(), path, first)?;
        let mut unfinished = Unfinished(vec![first.clone()]);
        drop(unfinished.create(&paths.pages)?);
        // The name of the second file comes last: without it no copy is taken for a database.
        let logs = [&locked, &unfinished.create(&part)?];
        let kept = KeptLog { inner: self, txn };
        let redo_from = self.keep_log(txn)?;
        let pages = self.copy_pages(&paths.pages, goes_on)?;
        let names = [first, &part];
        let log_bytes = self.copy_log(redo_from, &mut |file, offset, bytes| {
            LogFile::write_at(logs[file], offset, bytes).map_err(failed(names[file], "write it"))
        })?;
        drop(kept);
        for (file, name) in logs.into_iter().zip(names) {
            file.sync_all().map_err(failed(name, "sync it"))?;
        }
        fs::rename(&part, second).map_err(failed(&part, "rename it"))?;
        unfinished.0.push(second.clone());
        sync_directory(path).map_err(failed(path, "sync its directory"))?;
        unfinished.0.clear();
        Ok(Backup { pages, log_bytes })
    }

    /// Copies the pages in use through the pool, each under its latch, and makes them durable.
    fn copy_pages(&self, path: &Path, goes_on: &mut dyn FnMut(f64) -> bool) -> Result<u64, DatabaseError> {
        let pool = &self.tree.pool;
        let page_size = pool.stats().page_size;
        let storage = FileStorage::open(path, &FileOptions::new().page_size(page_size))
            .map_err(|error| DatabaseError::Options(error.to_string()))?;
        let identity = self.tree.wal.identity();
        // Not those of the database itself.
        let of_copy = |error: PoolError| failed(path, "write it")(io::Error::other(error));
        let copy = PoolOptions::new(FRAMES).format(PageFormat::Checked).identity(identity).open(storage).map_err(of_copy)?;
        let (pages, mut scan, mut payload) = (pool.pages(), PoolScan::new(), vec![0; pool.payload_size()]);
        for map in self.tree.allocation.maps.below(pages) {
            for page in self.used(map)?.into_iter().filter(|&page| page < pages) {
                if !goes_on(page as f64 / pages as f64) {
                    return Err(failed(path, "back up a database into it")(io::ErrorKind::Interrupted.into()));
                }
                let from = match pool.fix_scan(page, &mut scan) {
                    // It was freed meanwhile, so the copy's recovery needs nothing of it.
                    Err(PoolError::Damaged { .. }) if !self.used(map)?.contains(&page) => continue,
                    from => from?,
                };
                payload.copy_from_slice(&from);
                let lsn = from.lsn();
                drop(from);
                let mut page = copy.fix_new(page).map_err(of_copy)?;
                page.copy_from_slice(&payload);
                page.set_lsn(lsn);
            }
        }
        copy.grow(pages).map_err(of_copy)?;
        copy.close().map_err(|error| failed(path, "write it")(io::Error::other(error)))?;
        Ok(pages)
    }

    /// The pages that a map marks as in use, itself among them. The copy needs no others: of a page that comes into use later the log has
    /// all, from its formatting on.
    fn used(&self, map: u64) -> Result<Vec<u64>, DatabaseError> {
        Ok(self.tree.allocation.read_map(&self.tree.pool, map)?.unwrap_or_default())
    }
}
