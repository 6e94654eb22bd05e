//! A log that keeps the write-ahead rule, and redo after a crash.
//!
//! Each page holds an account; threads add to the accounts, and each addition is acknowledged once the log is durable
//! up to it. Then the program "crashes": the pool is dropped with its dirty pages, and records that the log had not
//! yet written are lost. Recovery must restore every acknowledged addition.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ebbpool::storage::{FileOptions, FileStorage};
use ebbpool::{Log, Lsn, Pool, PoolOptions};
use xxhash_rust::xxh3::xxh3_64;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ACCOUNTS: u64 = 64;
/// Fewer frames than accounts, so that pages are stolen.
const FRAMES: u32 = 8;
const THREADS: u64 = 4;
const ADDITIONS: u64 = 10;

/// The number of bytes of a record: account, balance after the change, and a checksum.
const RECORD: usize = 32;

/// A log file of consecutive records. The LSN of a record is the offset at which it ends, in bytes.
struct FileLog {
    file: File,
    tail: Mutex<Tail>,
    /// Held by the thread that syncs.
    turn: Mutex<()>,
    durable: AtomicU64,
    syncs: AtomicU64,
}

/// The records that are not written yet.
struct Tail {
    bytes: Vec<u8>,
    end: Lsn,
    failed: bool,
}

impl FileLog {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let end = file.metadata()?.len();
        Ok(FileLog {
            file,
            tail: Mutex::new(Tail { bytes: Vec::new(), end, failed: false }),
            turn: Mutex::new(()),
            durable: AtomicU64::new(end),
            syncs: AtomicU64::new(0),
        })
    }

    /// Appends a record: the account's page has this balance now.
    fn append(&self, account: u64, balance: u64) -> Lsn {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.end += RECORD as u64;
        let lsn = tail.end;
        let body: Vec<u8> = [lsn, account, balance].map(u64::to_le_bytes).concat();
        tail.bytes.extend(&body);
        tail.bytes.extend(xxh3_64(&body).to_le_bytes());
        lsn
    }
}

impl Log for FileLog {
    fn durable_lsn(&self) -> Lsn {
        self.durable.load(Ordering::Acquire)
    }

    fn force(&self, lsn: Lsn) -> io::Result<()> {
        if self.durable_lsn() >= lsn {
            return Ok(());
        }
        // A thread that waited for its turn mostly finds that the thread before has synced for it.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.durable_lsn() >= lsn {
            return Ok(());
        }
        let (bytes, end) = {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            if tail.failed {
                return Err(io::Error::other("the log could not be written before"));
            }
            (std::mem::take(&mut tail.bytes), tail.end)
        };
        let written = (&self.file).write_all(&bytes);
        if let Err(error) = written.and_then(|()| self.file.sync_data()) {
            // It is unknown how much is in the file: another attempt could leave a gap.
            self.tail.lock().unwrap_or_else(PoisonError::into_inner).failed = true;
            return Err(error);
        }
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.durable.store(end, Ordering::Release);
        Ok(())
    }

    fn end_lsn(&self) -> Lsn {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).end
    }
}

fn open(directory: &Path, log: &Arc<FileLog>) -> Outcome<Pool> {
    let options = FileOptions::new().create(true);
    let storage = FileStorage::open(directory.join("accounts.pages"), &options)?;
    let log: Arc<dyn Log> = log.clone();
    Ok(PoolOptions::new(FRAMES).policy("lru")?.log(log).open(storage)?)
}

fn balance(page: &[u8]) -> u64 {
    page.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// Adds 1 to an account, and returns once that survives a crash.
fn add_one(pool: &Pool, log: &FileLog, account: u64) -> Outcome<()> {
    let mut page = pool.fix_write(account)?;
    let new = balance(&page) + 1;
    page[..8].copy_from_slice(&new.to_le_bytes());
    let lsn = log.append(account, new);
    page.set_lsn(lsn);
    drop(page);
    log.force(lsn)?;
    Ok(())
}

/// Redoes the changes that the log has from `from` on and the pages lack; ends at the first record that was not
/// written whole.
fn recover(pool: &Pool, log: &Path, from: Lsn) -> Outcome<u64> {
    let bytes = fs::read(log)?;
    let from = usize::try_from(from)?;
    let mut redone = 0;
    for record in bytes.get(from..).unwrap_or_default().chunks_exact(RECORD) {
        let (body, checksum) = record.split_at(RECORD - 8);
        if xxh3_64(body).to_le_bytes() != checksum {
            break;
        }
        let field = |at: usize| balance(&body[8 * at..]);
        let (lsn, account, new) = (field(0), field(1), field(2));
        let mut page = pool.fix_write(account)?;
        if page.lsn() < lsn {
            page[..8].copy_from_slice(&new.to_le_bytes());
            page.set_lsn(lsn);
            redone += 1;
        }
    }
    Ok(redone)
}

/// Runs the example.
pub fn main() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    let directory = directory.path();
    let path = directory.join("accounts.log");
    let log = Arc::new(FileLog::open(&path)?);
    let pool = open(directory, &log)?;

    let add_in_turn = |thread: u64| -> Outcome<()> {
        for at in 0..ADDITIONS {
            add_one(&pool, &log, (thread + at * 7) % ACCOUNTS)?;
        }
        Ok(())
    };
    let add_at_once = || {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || add_in_turn(thread))).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|outcome| outcome.unwrap_or_else(|_| Err("a thread panicked".into()))).collect::<Outcome<Vec<()>>>()
        })
    };
    add_at_once()?;
    // Recovery begins at the LSN of the last checkpoint; a program stores that in a file.
    let checkpoint = pool.checkpoint()?;
    add_at_once()?;
    let acknowledged = 2 * THREADS * ADDITIONS;
    println!(
        "{acknowledged} additions, {} syncs of the log, {} forced by the pool",
        log.syncs.load(Ordering::Relaxed),
        pool.stats().log_forces
    );

    // The crash: dirty pages are lost, and a change that was never acknowledged.
    let mut page = pool.fix_write(0)?;
    let lsn = log.append(0, 1_000_000);
    page.set_lsn(lsn);
    drop(page);
    drop(pool);
    drop(log);

    let log = Arc::new(FileLog::open(&path)?);
    let pool = open(directory, &log)?;
    let redone = recover(&pool, &path, checkpoint.covered)?;
    let mut sum = 0;
    for account in 0..ACCOUNTS {
        sum += balance(&pool.fix_read(account)?);
    }
    println!("{redone} changes redone; the accounts hold {sum}");
    assert_eq!(sum, acknowledged, "what was acknowledged survives, and nothing else");
    pool.close()?;
    Ok(())
}
