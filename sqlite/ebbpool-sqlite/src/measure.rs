//! Watches what a program writes with plain SQLite, and says what this VFS would write in its place.
//!
//! The program runs on unchanged, and nothing is written to its files. [`CommitWatch`] reads them again and again, and
//! returns each commit that it sees. [`WindowModel`] puts commits into epochs as the VFS does, and counts the bytes of their
//! records. [`PageGrowth`] says how many pages a checkpoint brings in place, also one that is due only after the watch.

mod model;
mod rollback;
mod wal;

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::inspect::{
    SqliteHeader, SqliteInspection, beside, inspect_while, lock_holder, open_if_there, open_to_read, published_health,
};
use rollback::{DatabaseHeader, RollbackWatch};
use wal::WalWatch;

pub use model::{ModelledBytes, PageGrowth, WindowModel};

/// A commit of another process.
#[derive(Clone, Debug)]
pub struct WatchedCommit {
    /// The pages that it changed.
    pub pages: Vec<WatchedPage>,
    /// The commits that are seen as this one, because they were made between two looks: 1 in WAL mode.
    pub commits: u64,
    /// Bytes of a page.
    pub page_size: usize,
}

/// A page that a commit changed.
#[derive(Clone, Debug)]
pub struct WatchedPage {
    /// The number of the page, from 1 on.
    pub page: u32,
    /// Its content before; `None` if it is new, or if the content is no longer known.
    pub before: Option<Arc<PageImage>>,
    /// Its content from then on; `None` if there was no memory for it.
    pub after: Option<Arc<PageImage>>,
}

/// The content of a page, which counts as used memory as long as it exists.
#[derive(Debug)]
pub struct PageImage {
    bytes: Box<[u8]>,
    used: Arc<AtomicU64>,
}

impl Deref for PageImage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PageImage {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

/// Bytes for images of pages, those that models have included, and for fingerprints of pages.
struct ImageMemory {
    used: Arc<AtomicU64>,
    /// Bytes of fingerprints, which take at most half of `whole`.
    fingerprints: u64,
    /// The bytes that images and fingerprints may take together now.
    most: u64,
    whole: u64,
    /// Images of changed pages for which there was no room.
    refused: u64,
}

impl ImageMemory {
    /// What is there before the watch leaves room for what changes.
    fn new(whole: u64) -> ImageMemory {
        ImageMemory { used: Arc::default(), fingerprints: 0, most: whole / 2, whole, refused: 0 }
    }

    /// The whole memory is for what changes from now on.
    fn begin_watch(&mut self) {
        self.most = self.whole;
        self.refused = 0;
    }

    /// Fails if there is no room for this number of bytes of fingerprints.
    fn check_fingerprints(&self, bytes: u64) -> io::Result<()> {
        let most = self.whole / 2;
        if bytes <= most {
            return Ok(());
        }
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        Err(io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!(
                "the fingerprints of its pages take {} MiB, and half of the memory for the watch is {} MiB; give --memory {}MiB",
                mebibytes(bytes),
                most >> 20,
                2 * mebibytes(bytes),
            ),
        ))
    }

    /// An image of a page; `None` if there is no room.
    fn image(&mut self, bytes: &[u8]) -> Option<Arc<PageImage>> {
        let count = bytes.len() as u64;
        let used = self.used.load(Ordering::Relaxed) + self.fingerprints;
        if used + count > self.most {
            self.refused += 1;
            return None;
        }
        self.used.fetch_add(count, Ordering::Relaxed);
        Some(Arc::new(PageImage { bytes: bytes.into(), used: Arc::clone(&self.used) }))
    }
}

/// What SQLite wrote while it was watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchedBytes {
    /// Bytes to the journal or the WAL.
    pub log: u64,
    /// Bytes to the database.
    pub in_place: u64,
}

const USES_VFS: &str = "its program uses ebbpool already; PRAGMA ebbpool_status has the figures";

/// True if a database goes through this VFS: its files say so, or, before the first epoch, the process that has it open.
fn uses_vfs(inspection: &SqliteInspection) -> bool {
    let is_locked = inspection.lock.is_some_and(|lock| lock.is_of_vfs);
    is_locked || inspection.needs_vfs() || inspection.owner().is_some()
}

/// Fails once the watch is over.
fn go_on(is_over: &dyn Fn() -> bool) -> io::Result<()> {
    match is_over() {
        false => Ok(()),
        true => Err(io::Error::new(io::ErrorKind::Interrupted, "the watch was ended while its pages or commits were read")),
    }
}

/// Watches the commits of other processes to a database.
pub struct CommitWatch {
    path: PathBuf,
    database: File,
    page_size: usize,
    memory: ImageMemory,
    mode: JournalWatch,
}

/// How the journal mode shows commits.
enum JournalWatch {
    Wal(WalWatch),
    Rollback(RollbackWatch),
}

impl CommitWatch {
    /// Begins to watch a database. `memory` bytes at most are taken for images and fingerprints of pages. `is_over` is asked
    /// again and again while pages are read.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, the database is empty or encrypted, or goes through this VFS already; `OutOfMemory` if half
    /// of the memory is too little for the fingerprints, and `Interrupted` if the watch is over before it has begun.
    pub fn open(path: &Path, memory: u64, is_over: &dyn Fn() -> bool) -> io::Result<CommitWatch> {
        let unsuitable = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        let inspection = inspect_while(path, &|| go_on(is_over))?;
        if uses_vfs(&inspection) {
            return unsuitable(USES_VFS);
        }
        let Some(header) = inspection.header else {
            return unsuitable("it is empty, encrypted, or no database of SQLite");
        };
        let database = open_to_read(path)?;
        let page_size = header.page_size as usize;
        let mode = match header.is_wal {
            true => JournalWatch::Wal(WalWatch::new(beside(path, "-wal"), beside(path, "-shm"))),
            false => JournalWatch::Rollback(RollbackWatch::new(path.to_owned(), page_size)),
        };
        let mut watch = CommitWatch { path: path.to_owned(), database, page_size, memory: ImageMemory::new(memory), mode };
        // What was there before is no commit of the watch.
        watch.poll(is_over)?;
        watch.memory.begin_watch();
        if let JournalWatch::Wal(wal) = &mut watch.mode {
            wal.written = WatchedBytes::default();
            wal.missed = 0;
        }
        Ok(watch)
    }

    /// Fails if a program has the database open through this VFS by now: then the watch has not seen what plain SQLite writes.
    /// A long `-wal` is read for that until `is_over`.
    ///
    /// # Errors
    ///
    /// If there is such a program, or a file cannot be read.
    pub fn refuse_owner(&self, is_over: &dyn Fn() -> bool) -> io::Result<()> {
        let uses_vfs = match inspect_while(&self.path, &|| go_on(is_over)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                let is_locked = lock_holder(&self.database).is_some_and(|lock| lock.is_of_vfs);
                let said = published_health(&self.path)?;
                let log = open_if_there(&beside(&self.path, "-ebb"))?;
                is_locked
                    || said.is_some_and(|owner| owner.database.passed.is_none())
                    || log.map_or(Ok(0), |log| log.metadata().map(|it| it.len()))? > 0
            }
            other => uses_vfs(&other?),
        };
        match uses_vfs {
            true => Err(io::Error::new(io::ErrorKind::InvalidInput, USES_VFS)),
            false => Ok(()),
        }
    }

    /// The database's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// True if the journal mode is WAL, in which every commit is seen.
    pub fn is_wal(&self) -> bool {
        matches!(self.mode, JournalWatch::Wal(_))
    }

    /// The commits since the last call, in order. `is_over` is asked again and again while pages are read.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the page size or journal mode has changed; `OutOfMemory` if half of the memory is too
    /// little for the fingerprints of pages, and `Interrupted` if the watch is over while pages or commits are read: what it
    /// has seen until then comes with the next call.
    pub fn poll(&mut self, is_over: &dyn Fn() -> bool) -> io::Result<Vec<WatchedCommit>> {
        if !self.has_its_name()? {
            return Err(io::Error::other("it was deleted or replaced while it was watched; measure again"));
        }
        let mut header = [0; 100];
        crate::inspect::read_start(&self.database, &mut header)?;
        if let Some(header) = SqliteHeader::decode(&header)
            && (header.page_size as usize != self.page_size || header.is_wal != self.is_wal())
        {
            return Err(io::Error::other("its page size or journal mode has changed; measure again"));
        }
        match &mut self.mode {
            JournalWatch::Wal(wal) => wal.poll(&self.database, self.page_size, &mut self.memory, &|| go_on(is_over)),
            JournalWatch::Rollback(rollback) => rollback.poll(&self.database, &mut self.memory, &|| go_on(is_over)),
        }
    }

    /// True if the path still leads to the file that is watched.
    fn has_its_name(&self) -> io::Result<bool> {
        let opened = self.database.metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (opened.dev(), opened.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What SQLite has written since the watch began.
    pub fn written(&self) -> WatchedBytes {
        match &self.mode {
            JournalWatch::Wal(wal) => wal.written,
            JournalWatch::Rollback(rollback) => rollback.written,
        }
    }

    /// Bytes of images and fingerprints of pages in memory, the images that models have of its commits included.
    pub fn memory(&self) -> u64 {
        self.memory.used.load(Ordering::Relaxed) + self.memory.fingerprints
    }

    /// Images of pages that were not stored, because there was no memory for them: models take such a page as written whole.
    pub fn refused_images(&self) -> u64 {
        self.memory.refused
    }

    /// Looks before which commits came that no look has seen, because the last connection to a database in WAL mode was closed
    /// before; of the commits themselves there may be more.
    pub fn missed(&self) -> u64 {
        match &self.mode {
            JournalWatch::Wal(wal) => wal.missed,
            JournalWatch::Rollback(_) => 0,
        }
    }

    /// The size of the database in pages, as its file is now.
    pub fn pages(&self) -> u64 {
        let header = DatabaseHeader::read(&self.database);
        let pages = header.and_then(|header| header.pages(&self.database, self.page_size));
        pages.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;
    use std::os::unix::fs::FileExt;

    /// A database of 8 MiB that plain SQLite has open.
    fn database(mode: &str) -> (tempfile::TempDir, PathBuf, Connection) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let database = Connection::open(&path).unwrap();
        let text = format!(
            "PRAGMA journal_mode={mode}; PRAGMA wal_autocheckpoint=0;
             CREATE TABLE t (n INTEGER PRIMARY KEY, b);
             WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 8192)
             INSERT INTO t SELECT n, randomblob(1000) FROM c"
        );
        database.execute_batch(&text).unwrap();
        (directory, path, database)
    }

    #[test]
    fn a_watch_takes_no_more_memory_than_it_may() {
        const MOST: u64 = 1 << 20;
        for mode in ["delete", "wal"] {
            let (_directory, path, database) = database(mode);
            let mut watch = CommitWatch::open(&path, MOST, &|| false).unwrap();
            assert!(watch.memory() <= MOST / 2, "{mode}");
            let mut models =
                [0.0, 300.0].map(|window| WindowModel::new(crate::Options { window, ..crate::Options::default() }));
            let change = |range: &str| {
                let sql = format!("UPDATE t SET b = randomblob(1000) WHERE n BETWEEN {range}");
                database.execute_batch(&sql).unwrap();
            };
            for (second, range) in ["1 AND 3", "4000 AND 4003", "1 AND 9000", "1 AND 3"].into_iter().enumerate() {
                change(range);
                let commits = watch.poll(&|| false).unwrap();
                assert_eq!(commits.len(), 1, "{mode}");
                for model in &mut models {
                    model.commit(second as f64, &commits[0]);
                }
                assert!(watch.memory() <= MOST, "{mode}");
                let is_large = commits[0].pages.len() > 1000;
                assert_eq!(is_large, range == "1 AND 9000", "{mode}");
                assert!(second > 1 || watch.refused_images() == 0, "{mode}");
                assert!(second < 2 || watch.refused_images() > 0, "{mode}");
            }
            let [each, merged] = models.map(|model| {
                let bytes = model.finish(4.0, &PageGrowth::default(), watch.page_size());
                (bytes.epochs, bytes.log)
            });
            assert!(each.0 > merged.0 && each.1 >= merged.1, "{mode}");
            // The large commit counts with all its pages.
            assert!(merged.1 >= 8 << 20, "{mode}: {merged:?}");
        }
    }

    #[test]
    fn what_a_file_has_behind_its_database_is_not_read() {
        let (_directory, path, _database) = database("delete");
        let pages = CommitWatch::open(&path, 1 << 20, &|| false).unwrap().pages();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(8 << 30).unwrap();
        let watch = CommitWatch::open(&path, 1 << 20, &|| false).unwrap();
        assert_eq!(watch.pages(), pages);
        // Where the header does not say how long the database is, the file does.
        file.write_all_at(&[0; 4], 28).unwrap();
        let Err(error) = CommitWatch::open(&path, 1 << 20, &|| false) else {
            panic!("there is no memory for this");
        };
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("--memory 32MiB"), "{error}");
    }

    #[test]
    fn a_watch_is_over_while_pages_are_read() {
        let (_directory, path, database) = database("delete");
        let asked = std::cell::Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > 2
        };
        let Err(error) = CommitWatch::open(&path, 1 << 20, &is_over) else {
            panic!("it has 8 MiB");
        };
        assert_eq!((error.kind(), asked.get()), (io::ErrorKind::Interrupted, 3));
        let mut watch = CommitWatch::open(&path, 1 << 20, &|| false).unwrap();
        let change = "UPDATE t SET b = randomblob(1000) WHERE n < 10";
        database.execute_batch(change).unwrap();
        let error = watch.poll(&|| true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        // What it would have seen is seen by the next look.
        assert_eq!(watch.poll(&|| false).unwrap()[0].commits, 1);
    }

    #[test]
    fn commits_that_come_at_every_look_are_seen() {
        let (_directory, path, database) = database("delete");
        database.execute_batch("PRAGMA synchronous=off").unwrap();
        let made = std::cell::Cell::new(0);
        let commit = || {
            let change = "UPDATE t SET b = randomblob(1000) WHERE n = 8000";
            database.execute_batch(change).unwrap();
            made.set(made.get() + 1);
            false
        };
        // As where reading the pages takes longer than the time between two commits.
        let mut watch = CommitWatch::open(&path, 8 << 20, &commit).unwrap();
        let (before, begin) = (made.get(), std::time::Instant::now());
        assert!(before > 0);
        let mut seen = 0;
        while seen == 0 {
            assert!(begin.elapsed().as_secs() < 30, "nothing is seen");
            commit();
            seen = watch.poll(&commit).unwrap().iter().map(|it| it.commits).sum();
        }
        assert!(begin.elapsed().as_secs_f64() >= 1.0);
        for commit in watch.poll(&|| false).unwrap() {
            seen += commit.commits;
            assert!(commit.pages.len() <= 3, "{}", commit.pages.len());
        }
        assert_eq!(seen, made.get() - before);
        assert_eq!(watch.refused_images(), 0);
    }

    #[test]
    fn commits_of_an_exclusive_connection_are_seen() {
        let (_directory, path, database) = database("delete");
        database.execute_batch("PRAGMA locking_mode=exclusive").unwrap();
        let mut watch = CommitWatch::open(&path, 32 << 20, &|| false).unwrap();
        let counter = || std::fs::read(&path).unwrap()[24..28].to_vec();
        for n in 1..=5 {
            let before = counter();
            let change = format!("UPDATE t SET b = randomblob(1000) WHERE n = {}", 1000 * n);
            database.execute_batch(&change).unwrap();
            // SQLite raises the counter with the first commit only.
            assert_eq!(counter() != before, n == 1);
            let commits = watch.poll(&|| false).unwrap();
            assert_eq!(commits.len(), 1, "{n}");
            assert_eq!(commits[0].commits, 1, "{n}");
            assert!(watch.poll(&|| false).unwrap().is_empty(), "{n}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    #[test]
    fn a_file_with_older_content_is_no_commit() {
        let (directory, path, database) = database("delete");
        let old = directory.path().join("old.db");
        std::fs::copy(&path, &old).unwrap();
        database.execute_batch("DELETE FROM t WHERE n < 9").unwrap();
        let mut watch = CommitWatch::open(&path, 32 << 20, &|| false).unwrap();
        std::fs::copy(&old, &path).unwrap();
        let error = watch.poll(&|| false).unwrap_err().to_string();
        assert!(error.contains("replaced"), "{error}");
    }

    #[test]
    fn a_watch_is_over_while_commits_are_read() {
        let (_directory, path, database) = database("wal");
        // The commit has 2000 frames and more: it is over while `-wal` is looked at, then in each of the readings of the watch.
        for most in [100, 3000, 5000] {
            let asked = std::cell::Cell::new(0);
            let is_over = || {
                asked.set(asked.get() + 1);
                asked.get() > most
            };
            let Err(error) = CommitWatch::open(&path, 1 << 20, &is_over) else {
                panic!("{most}: it has 8 MiB in its log");
            };
            assert_eq!(error.kind(), io::ErrorKind::Interrupted);
            assert_eq!(asked.get(), most + 1);
        }
        let mut watch = CommitWatch::open(&path, 32 << 20, &|| false).unwrap();
        let change = "UPDATE t SET b = randomblob(1000) WHERE n < 500";
        for _ in 0..2 {
            database.execute_batch(change).unwrap();
        }
        // A commit has about 170 frames, each of which is read twice: the looks are over in both readings of both commits.
        for most in [1, 200, 400, 200] {
            let left = std::cell::Cell::new(most);
            let is_over = || {
                left.set(left.get() - 1);
                left.get() < 0
            };
            let error = watch.poll(&is_over).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Interrupted, "{most}");
        }
        let commits = watch.poll(&|| false).unwrap();
        assert_eq!(commits.len(), 2);
        for page in commits.into_iter().flat_map(|commit| commit.pages) {
            let (before, after) = (page.before.unwrap(), page.after.unwrap());
            assert!(before[..] != after[..], "{}", page.page);
        }
        // The command asks at its end, too, who has the database.
        watch.refuse_owner(&|| true).unwrap();
        std::fs::write(beside(&path, "-ebb"), "a log").unwrap();
        for is_over in [false, true] {
            let error = watch.refuse_owner(&|| is_over).unwrap_err().to_string();
            assert_eq!(error, USES_VFS);
        }
    }

    #[test]
    fn commits_between_two_looks_that_are_not_seen_are_known() {
        let (_directory, path, database) = database("wal");
        database.close().unwrap();
        let mut watch = CommitWatch::open(&path, 1 << 20, &|| false).unwrap();
        for n in 1..4 {
            // A connection that only reads writes nothing.
            let database = Connection::open(&path).unwrap();
            let count = "SELECT count(*) FROM t";
            database.query_row(count, [], |row| row.get::<_, u32>(0)).unwrap();
            database.close().unwrap();
            assert_eq!(watch.poll(&|| false).unwrap().len(), 0);
            assert_eq!(watch.missed(), n - 1);
            let database = Connection::open(&path).unwrap();
            let change = format!("UPDATE t SET b = {n} WHERE n = 1");
            database.execute_batch(&change).unwrap();
            database.close().unwrap();
            assert_eq!(watch.poll(&|| false).unwrap().len(), 0);
            assert_eq!(watch.missed(), n);
        }
        // What checkpoints bring in place of commits that were seen is not missed.
        let database = Connection::open(&path).unwrap();
        for text in ["UPDATE t SET b = random() WHERE n = 1", "PRAGMA wal_checkpoint(TRUNCATE)"] {
            for _ in 0..3 {
                database.execute_batch(text).unwrap();
                watch.poll(&|| false).unwrap();
            }
        }
        database.execute_batch("UPDATE t SET b = random() WHERE n = 1").unwrap();
        watch.poll(&|| false).unwrap();
        database.close().unwrap();
        watch.poll(&|| false).unwrap();
        assert_eq!(watch.missed(), 3);
    }

    #[test]
    fn a_database_that_another_file_replaces_ends_the_watch() {
        for mode in ["delete", "wal"] {
            for is_replaced in [false, true] {
                let (directory, path, database) = database(mode);
                let mut watch = CommitWatch::open(&path, 1 << 20, &|| false).unwrap();
                database.close().unwrap();
                std::fs::rename(&path, directory.path().join("old.db")).unwrap();
                if is_replaced {
                    std::fs::copy(directory.path().join("old.db"), &path).unwrap();
                }
                let error = watch.poll(&|| false).unwrap_err().to_string();
                assert!(error.contains("deleted or replaced"), "{mode}: {error}");
            }
        }
    }
}
