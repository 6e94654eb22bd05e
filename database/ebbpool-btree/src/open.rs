//! Opening a database: finding it, creating it, or recovering it.

use std::io;
use std::sync::Arc;

use ebbpool::{Log, PageFormat, Pool, PoolOptions};

use crate::admission::Admission;
use crate::allocation::Allocation;
use crate::checkpoint::{Checkpointer, Checkpoints};
use crate::database::{Database, DatabaseInner, ReadOnlyState};
use crate::database_files::{self, DatabaseFiles, FOREIGN, HeadKind, Storages};
use crate::error::DatabaseError;
use crate::locks::Locks;
use crate::log::{DamagePolicy, LogIdentity, Wal};
use crate::options::{DatabaseOptions, is_page_size};
use crate::overlay::OverlayPages;
use crate::page::META;
use crate::page::meta::FORMAT;
use crate::recovery::{self, Analysis, MICROS_PER_BYTE};
use crate::sync::Instant;
use crate::tree::Tree;

pub(crate) fn open(mut options: DatabaseOptions, files: DatabaseFiles) -> Result<Database, DatabaseError> {
    let begin = Instant::now();
    let opened = OpenedLog::find_or_create(&options, &files)?;
    let page_size = opened.identity.page_size as usize;
    let wal = Arc::new(opened.wal);
    let identity = opened.identity.number;
    let pool = options.take_pool()?.format(PageFormat::Checked).identity(identity);
    let foreign = files.foreign_area();
    let head = files.head.kind;
    let storages = files.storages(page_size, options.double_write)?;
    if let Some(unlike_ours) = opened.head {
        let may_be_torn = match &storages {
            (Some(pages), Some(area)) => database_files::first_page_may_be_torn((&**pages, area), head, identity),
            _ => Ok(false),
        };
        if !may_be_torn.map_err(&foreign)? {
            return Err(unlike_ours);
        }
    }
    let (pool, read_only_state) = match options.read_only {
        true => {
            let pages = open_to_read(storages, page_size, &wal, identity, &foreign)?;
            // The pool gets no log, so that pages ahead of the log are shown as they are, and counted.
            (pool.open(Arc::clone(&pages))?, Some(pages))
        }
        false => {
            let log: Arc<dyn Log> = wal.clone();
            let pool = pool.log(log);
            let area = options.double_write;
            (open_for_changes(storages, pool, area, identity, &foreign)?, None)
        }
    };
    let allocation = Allocation::new(pool.payload_size());
    let tree = Tree { pool, wal: Arc::clone(&wal), allocation, admission: Admission::new(options.frames) };
    let first_txn = opened.analysis.highest_txn.saturating_add(1);
    let latest = opened.analysis.checkpoint;
    let (every, background) = (options.checkpoint_bytes(), options.background);
    let checkpoints =
        |background, pace| Checkpoints::new(every, (options.recovery_within, pace), background, wal.end_lsn(), latest);
    let locks = Locks::new(options.patience);
    if let Some(pages) = read_only_state {
        let log_end = wal.end_lsn();
        let (mut done, skipped) = opened.analysis.recover_readable(&tree);
        done.time = begin.elapsed();
        let lost = ReadOnlyState::new(&wal, log_end, pages, skipped);
        let checkpoints = checkpoints(false, MICROS_PER_BYTE);
        let inner = DatabaseInner::new(tree, locks, options.durability, (checkpoints, done), first_txn);
        return Ok(Database::new(Arc::new(inner.with_read_only_state(lost)), None));
    }
    let mut done = opened.analysis.recover(&tree)?;
    done.time = begin.elapsed();
    let checkpoints = checkpoints(background, done.micros_per_byte(&tree.pool.stats()));
    let inner = DatabaseInner::new(tree, locks, options.durability, (checkpoints, done), first_txn);
    let inner = Arc::new(inner);
    if !done.is_nothing() {
        match inner.checkpoint() {
            // The log keeps what the checkpoint would have made superfluous.
            Err(DatabaseError::Full { .. }) => {}
            outcome => outcome?,
        }
    }
    let checkpointer = Checkpointer::start(&inner)?;
    Ok(Database::new(inner, checkpointer))
}

fn open_for_changes(
    (pages, area): Storages,
    pool: PoolOptions,
    double_write: bool,
    identity: u64,
    foreign: &dyn Fn(ebbpool::PoolError) -> DatabaseError,
) -> Result<Pool, DatabaseError> {
    let pages = pages.ok_or_else(|| DatabaseError::Options("there is no storage of pages".into()))?;
    let pool = match area {
        Some(area) if double_write => pool.double_write(area),
        Some(area) => {
            database_files::retire(area, &*pages, identity).map_err(foreign)?;
            pool
        }
        None => pool,
    };
    pool.open(pages).map_err(foreign)
}

/// Restores torn pages, in pages whose changes stay in memory.
fn open_to_read(
    (pages, area): Storages,
    page_size: usize,
    wal: &Wal,
    identity: u64,
    foreign: &dyn Fn(ebbpool::PoolError) -> DatabaseError,
) -> Result<Arc<OverlayPages>, DatabaseError> {
    let overlaid = |base| {
        let overlay = OverlayPages::new(base, page_size, wal.end_lsn());
        let overlay =
            overlay.map_err(|source| ebbpool::PoolError::Storage { what: "the storage cannot say how long it is", source });
        overlay.map(Arc::new)
    };
    let pages = overlaid(pages)?;
    if let Some(area) = area {
        database_files::retire(overlaid(Some(area))?, &*pages, identity).map_err(foreign)?;
    }
    Ok(pages)
}

/// An open log, and the analysis of its records.
struct OpenedLog {
    wal: Wal,
    identity: LogIdentity,
    analysis: Analysis,
    /// The error that the first page is, unless a crash has torn it and the double-write area has its image.
    head: Option<DatabaseError>,
}

impl OpenedLog {
    /// Opens a log, or creates one if there is nothing. If it fails, nothing has been overwritten.
    fn find_or_create(options: &DatabaseOptions, files: &DatabaseFiles) -> Result<Self, DatabaseError> {
        if let Some(found) = files.head.newer() {
            return Err(DatabaseError::Newer { path: files.path.clone(), found, supported: FORMAT });
        }
        match Self::find(options, files) {
            Ok(Some(opened)) => Ok(opened),
            Ok(None) if options.read_only => {
                Err(files.not_a_database("its log is empty, so its creation was interrupted or its log was lost"))
            }
            Ok(None) => Self::create(options, files),
            // Both the pages and the log are wrong; the pages explain why the log is.
            Err(error) if files.head.kind == HeadKind::Foreign && is_damage(&error) => Err(files.not_a_database(FOREIGN)),
            Err(error) => Err(error),
        }
    }

    /// Returns nothing if there is no log, or only an unfinished one.
    fn find(options: &DatabaseOptions, files: &DatabaseFiles) -> Result<Option<Self>, DatabaseError> {
        let damaged = match options.read_only {
            true => DamagePolicy::Salvage,
            false => DamagePolicy::Refuse,
        };
        let Some((wal, identity)) = Wal::open(files.log(), options.checkpoint_bytes(), damaged)? else {
            return Ok(None);
        };
        let page_size = identity.page_size as usize;
        if !is_page_size(page_size) {
            let why = format!("by its log, pages have {page_size} bytes, which no database has");
            return Err(files.not_a_database(why));
        }
        let analysis = Analysis::from_log(&wal, page_size)?;
        let mut opened = OpenedLog { wal, identity, analysis, head: None };
        if opened.analysis.records == 0 && files.head.kind == HeadKind::Empty {
            return Ok(None);
        }
        opened.head = match opened.check_head(files)? {
            Some(unlike_ours) if !files.has_area() => return Err(unlike_ours),
            head => head,
        };
        opened.check_page_size(options, files)?;
        opened.check_length(files)?;
        Ok(Some(opened))
    }

    /// Checks that the pages belong to the log. Returns the error that a first page is which a crash may have torn.
    fn check_head(&self, files: &DatabaseFiles) -> Result<Option<DatabaseError>, DatabaseError> {
        if let HeadKind::Ours(meta) = files.head.kind
            && (meta.identity, meta.page_size) != (self.identity.number, self.identity.page_size)
        {
            return Err(files.not_a_database("the log beside it is another database's; restore its own"));
        }
        if self.analysis.formats_page(META) {
            return Ok(None);
        }
        match files.head.kind {
            HeadKind::Ours(_) => Ok(None),
            HeadKind::Damaged => Ok(Some(DatabaseError::corrupt(META, "its checksum is wrong"))),
            HeadKind::Empty => Err(files.not_a_database(format!(
                "it has {} bytes, and no first page, though there is a log beside it; restore \
                 the file that belongs to it",
                files.head.length
            ))),
            HeadKind::Foreign => Ok(Some(files.not_a_database(format!("{FOREIGN}. There is a database's log beside it")))),
        }
    }

    fn check_page_size(&self, options: &DatabaseOptions, files: &DatabaseFiles) -> Result<(), DatabaseError> {
        let page_size = self.identity.page_size as usize;
        let mut others = [options.page_size, files.page_size()].into_iter().flatten();
        match others.find(|&other| other != page_size) {
            Some(other) => Err(DatabaseError::Options(format!(
                "{} has pages of {page_size} bytes, not {other}; open it with its own page size, or \
                 without any",
                files.path.display()
            ))),
            None => Ok(()),
        }
    }

    /// Checks that the file's length is a whole number of pages.
    fn check_length(&self, files: &DatabaseFiles) -> Result<(), DatabaseError> {
        let page_size = u64::from(self.identity.page_size);
        let length = files.head.length;
        let last = length / page_size;
        if length.is_multiple_of(page_size) || self.analysis.formats_page(last) {
            return Ok(());
        }
        Err(DatabaseError::corrupt(
            last,
            format!(
                "the file is truncated: it has {length} bytes, and ends within this page of \
                 {page_size}; take a copy that is whole"
            ),
        ))
    }

    fn create(options: &DatabaseOptions, files: &DatabaseFiles) -> Result<Self, DatabaseError> {
        match files.head.kind {
            HeadKind::Empty if options.create => {}
            HeadKind::Empty => {
                return Err(files.not_a_database("it is empty, and DatabaseOptions::create is off"));
            }
            HeadKind::Ours(_) | HeadKind::Damaged => {
                return Err(files.not_a_database("its log is empty; restore its own"));
            }
            HeadKind::Foreign => return Err(files.not_a_database(FOREIGN)),
        }
        let page_size = match files.page_size() {
            Some(has) if options.page_size.is_some_and(|requested| requested != has) => {
                return Err(DatabaseError::Options(format!(
                    "the storage has pages of {has} bytes; leave the page size out, or give that one"
                )));
            }
            Some(has) if !is_page_size(has) => {
                return Err(DatabaseError::Options(format!(
                    "a database cannot be in a storage with pages of {has} bytes; give it one with \
                     a power of two from 512 to 32768"
                )));
            }
            has => has.unwrap_or(options.new_page_size()),
        };
        // The files may hold a log whose creation was interrupted.
        for file in files.log() {
            let emptied = file.set_len(0).and_then(|()| file.sync());
            emptied.map_err(|source| DatabaseError::Log { what: "created", source })?;
        }
        let identity = LogIdentity { page_size: page_size as u32, number: fastrand::u64(1..) };
        let wal = Wal::create(files.log(), identity, options.checkpoint_bytes())?;
        recovery::begin(&wal, identity.page_size, identity.number)?;
        let analysis = Analysis::from_log(&wal, page_size)?;
        Ok(OpenedLog { wal, identity, analysis, head: None })
    }
}

/// True if the content of a log is wrong, false if it only could not be read.
fn is_damage(error: &DatabaseError) -> bool {
    match error {
        DatabaseError::LogDamaged { .. } | DatabaseError::LogCut { .. } => true,
        DatabaseError::Log { source, .. } => source.kind() == io::ErrorKind::InvalidData,
        _ => false,
    }
}
