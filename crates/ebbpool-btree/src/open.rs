//! Opening a database: what is there, making it, or recovering it.

use std::io;
use std::sync::Arc;

use ebbpool::{Log, PageFormat, Pool, PoolOptions};

use crate::allocation::Allocation;
use crate::checkpoint::{Checkpointer, Checkpoints};
use crate::database::{Database, Inner, OnlyRead};
use crate::error::Error;
use crate::locks::Locks;
use crate::log::{Damaged, Identity, Wal};
use crate::options::{Options, is_page_size};
use crate::overlay::OverlayPages;
use crate::page::META;
use crate::page::meta::FORMAT;
use crate::place::{self, FOREIGN, HeadKind, Place, Storages};
use crate::recovery::{self, Analysis};
use crate::tree::Tree;

pub(crate) fn open(mut options: Options, place: Place) -> Result<Database, Error> {
    let opened = Opened::find_or_make(&options, &place)?;
    let page_size = opened.identity.page_size as usize;
    let wal = Arc::new(opened.wal);
    let identity = opened.identity.number;
    let pool = options
        .take_pool()?
        .format(PageFormat::Checked)
        .identity(identity);
    let foreign = place.foreign_area();
    let storages = place.storages(page_size, options.double_write)?;
    let (pool, only_read) = match options.read_only {
        true => {
            let pages = to_read(storages, page_size, &wal, identity, &foreign)?;
            // Without the log: pages that are ahead of it are shown as they are, and counted.
            (pool.open(Arc::clone(&pages))?, Some(pages))
        }
        false => {
            let log: Arc<dyn Log> = wal.clone();
            let pool = pool.log(log);
            let area = options.double_write;
            (to_change(storages, pool, area, identity, &foreign)?, None)
        }
    };
    let allocation = Allocation::new(pool.payload_size());
    let tree = Tree {
        pool,
        wal: Arc::clone(&wal),
        allocation,
    };
    let first_txn = opened.analysis.highest_txn.saturating_add(1);
    let latest = opened.analysis.checkpoint;
    let (every, background) = (options.checkpoint_every, options.background);
    let checkpoints = |background| Checkpoints::new(every, background, wal.end_lsn(), latest);
    let locks = Locks::new(options.patience);
    if let Some(pages) = only_read {
        let log_end = wal.end_lsn();
        let skipped = opened.analysis.recover_what_there_is(&tree);
        let lost = OnlyRead::new(&wal, log_end, pages, skipped);
        let checkpoints = checkpoints(false);
        let inner = Inner::new(tree, locks, options.durability, checkpoints, first_txn);
        return Ok(Database::new(Arc::new(inner.only_read(lost)), None));
    }
    let done = opened.analysis.recover(&tree)?;
    let checkpoints = checkpoints(background);
    let inner = Inner::new(tree, locks, options.durability, checkpoints, first_txn);
    let inner = Arc::new(inner);
    if !done.is_nothing() {
        inner.checkpoint()?;
    }
    let checkpointer = Checkpointer::start(&inner)?;
    Ok(Database::new(inner, checkpointer))
}

fn to_change(
    (pages, area): Storages,
    pool: PoolOptions,
    double_write: bool,
    identity: u64,
    foreign: &dyn Fn(ebbpool::Error) -> Error,
) -> Result<Pool, Error> {
    let pages = pages.ok_or_else(|| Error::Options("there is no storage of pages".into()))?;
    let pool = match area {
        Some(area) if double_write => pool.double_write(area),
        Some(area) => {
            place::retire(area, &*pages, identity).map_err(foreign)?;
            pool
        }
        None => pool,
    };
    pool.open(pages).map_err(foreign)
}

/// Pages whose changes stay in memory, torn ones restored.
fn to_read(
    (pages, area): Storages,
    page_size: usize,
    wal: &Wal,
    identity: u64,
    foreign: &dyn Fn(ebbpool::Error) -> Error,
) -> Result<Arc<OverlayPages>, Error> {
    let overlaid = |base| {
        let overlay = OverlayPages::new(base, page_size, wal.end_lsn());
        let overlay = overlay.map_err(|source| ebbpool::Error::Storage {
            what: "the storage cannot say how long it is",
            source,
        });
        overlay.map(Arc::new)
    };
    let pages = overlaid(pages)?;
    if let Some(area) = area {
        place::retire(overlaid(Some(area))?, &*pages, identity).map_err(foreign)?;
    }
    Ok(pages)
}

/// A log, and what it says.
struct Opened {
    wal: Wal,
    identity: Identity,
    analysis: Analysis,
}

impl Opened {
    /// Opens a log, or makes one where nothing is. Whatever fails, nothing is overwritten.
    fn find_or_make(options: &Options, place: &Place) -> Result<Self, Error> {
        if let Some(found) = place.head.newer() {
            return Err(Error::Newer {
                path: place.path.clone(),
                found,
                known: FORMAT,
            });
        }
        match Self::find(options, place) {
            Ok(Some(opened)) => Ok(opened),
            Ok(None) if options.read_only => Err(place.not_a_database(
                "its log is empty, so it was never finished being made or lost its log",
            )),
            Ok(None) => Self::make(options, place),
            // Of two things that are wrong, this is the one that explains the other.
            Err(error) if place.head.kind == HeadKind::Foreign && is_damage(&error) => {
                Err(place.not_a_database(FOREIGN))
            }
            Err(error) => Err(error),
        }
    }

    /// Nothing if there is no log, or only the beginning of one.
    fn find(options: &Options, place: &Place) -> Result<Option<Self>, Error> {
        let damaged = match options.read_only {
            true => Damaged::Salvage,
            false => Damaged::Refuse,
        };
        let Some((wal, identity)) = Wal::open(place.log(), options.checkpoint_every, damaged)?
        else {
            return Ok(None);
        };
        let page_size = identity.page_size as usize;
        if !is_page_size(page_size) {
            let why = format!("by its log, pages have {page_size} bytes, which no database has");
            return Err(place.not_a_database(why));
        }
        let analysis = Analysis::of(&wal, page_size)?;
        let opened = Opened {
            wal,
            identity,
            analysis,
        };
        if opened.analysis.records == 0 && place.head.kind == HeadKind::Empty {
            return Ok(None);
        }
        opened.check_head(place)?;
        opened.check_page_size(options, place)?;
        opened.check_length(place)?;
        Ok(Some(opened))
    }

    /// Whether the pages are those of the log.
    fn check_head(&self, place: &Place) -> Result<(), Error> {
        if let HeadKind::Ours(meta) = place.head.kind
            && (meta.identity, meta.page_size) != (self.identity.number, self.identity.page_size)
        {
            return Err(
                place.not_a_database("the log beside it is another database's; put its own back")
            );
        }
        if self.analysis.makes_anew(META) {
            return Ok(());
        }
        match place.head.kind {
            HeadKind::Ours(_) => Ok(()),
            HeadKind::Damaged => Err(Error::corrupt(META, "its checksum is wrong")),
            HeadKind::Empty => Err(place.not_a_database(format!(
                "it has {} bytes, and no first page, though there is a log beside it; put the \
                 file back that belongs to it",
                place.head.length
            ))),
            HeadKind::Foreign => {
                Err(place.not_a_database(format!("{FOREIGN}. There is a database's log beside it")))
            }
        }
    }

    fn check_page_size(&self, options: &Options, place: &Place) -> Result<(), Error> {
        let page_size = self.identity.page_size as usize;
        let mut others = [options.page_size, place.page_size()].into_iter().flatten();
        match others.find(|&other| other != page_size) {
            Some(other) => Err(Error::Options(format!(
                "{} has pages of {page_size} bytes, not {other}; open it with its own page size, or \
                 without any",
                place.path.display()
            ))),
            None => Ok(()),
        }
    }

    /// Whether the pages end where a page does.
    fn check_length(&self, place: &Place) -> Result<(), Error> {
        let page_size = u64::from(self.identity.page_size);
        let length = place.head.length;
        let last = length / page_size;
        if length.is_multiple_of(page_size) || self.analysis.makes_anew(last) {
            return Ok(());
        }
        Err(Error::corrupt(
            last,
            format!(
                "the file is truncated: it has {length} bytes, and ends within this page of \
                 {page_size}; take a copy that is whole"
            ),
        ))
    }

    fn make(options: &Options, place: &Place) -> Result<Self, Error> {
        match place.head.kind {
            HeadKind::Empty if options.create => {}
            HeadKind::Empty => {
                return Err(place.not_a_database("it is empty, and making one was not asked for"));
            }
            HeadKind::Ours(_) | HeadKind::Damaged => {
                return Err(place.not_a_database("its log is empty; put its own back"));
            }
            HeadKind::Foreign => return Err(place.not_a_database(FOREIGN)),
        }
        let page_size = match place.page_size() {
            Some(has) if options.page_size.is_some_and(|asked| asked != has) => {
                return Err(Error::Options(format!(
                    "the storage has pages of {has} bytes; leave the page size out, or give that one"
                )));
            }
            Some(has) if !is_page_size(has) => {
                return Err(Error::Options(format!(
                    "a database cannot be in a storage with pages of {has} bytes; give it one with \
                     a power of two from 512 to 32768"
                )));
            }
            has => has.unwrap_or(options.new_page_size()),
        };
        // What is left of one that was never finished being made.
        for file in place.log() {
            let emptied = file.set_len(0).and_then(|()| file.sync());
            emptied.map_err(|source| Error::Log {
                what: "made",
                source,
            })?;
        }
        let identity = Identity {
            page_size: page_size as u32,
            number: fastrand::u64(1..),
        };
        let wal = Wal::create(place.log(), identity, options.checkpoint_every)?;
        recovery::begin(&wal, identity.page_size, identity.number)?;
        let analysis = Analysis::of(&wal, page_size)?;
        Ok(Opened {
            wal,
            identity,
            analysis,
        })
    }
}

/// True if a log is not one, and false if only nobody could look.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::LogDamaged { .. } | Error::LogCut { .. } => true,
        Error::Log { source, .. } => source.kind() == io::ErrorKind::InvalidData,
        _ => false,
    }
}
