//! Every kind of failure of a disk or a program, one at a time.

mod checkpoints;
mod declared;
mod disk;
mod foreign;
mod threads;
mod unwritable;
#[path = "../crash/wal.rs"]
mod wal;

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ebbpool::storage::{DiskOperation, FaultyDisk};
use ebbpool::{Lsn, Pool, PoolError, PoolOptions};

pub(crate) const PAGE: usize = 2048;

pub(crate) fn options(frames: u32) -> PoolOptions {
    let patience = Duration::from_secs(10);
    PoolOptions::new(frames).policy("lru").unwrap().background(false).dirty_budget(1.0, Duration::ZERO).patience(patience)
}

pub(crate) fn pool(disk: &FaultyDisk, frames: u32) -> Pool {
    options(frames).open(disk.pages("data", PAGE)).unwrap()
}

pub(crate) fn put(pool: &Pool, page: u64, byte: u8) -> Result<(), PoolError> {
    pool.fix_write(page)?.fill(byte);
    Ok(())
}

/// Changes a page with an LSN, so that the pool can find a lost write.
pub(crate) fn put_at(pool: &Pool, page: u64, byte: u8, lsn: Lsn) {
    let mut fixed = pool.fix_write(page).unwrap();
    fixed.fill(byte);
    fixed.set_lsn(lsn);
}

/// The byte that fills the page.
pub(crate) fn get(pool: &Pool, page: u64) -> Result<u8, PoolError> {
    let fixed = pool.fix_read(page)?;
    assert!(fixed.iter().all(|byte| *byte == fixed[0]), "page {page} is mixed");
    Ok(fixed[0])
}

pub(crate) fn errno(error: &PoolError) -> Option<i32> {
    match error {
        PoolError::Write { source, .. } | PoolError::Read { source, .. } | PoolError::Storage { source, .. } => {
            source.raw_os_error()
        }
        _ => None,
    }
}

pub(crate) fn restarted(disk: &FaultyDisk, seed: u64) {
    disk.heal();
    disk.crash(seed);
    disk.restart();
}

/// Runs `work` in a thread of its own when the page is first written, and blocks the write until `work` calls its
/// argument.
pub(crate) fn during_the_write_of(
    disk: &FaultyDisk,
    page: u64,
    work: impl FnOnce(&dyn Fn()) + Send + 'static,
) -> Arc<Mutex<Option<JoinHandle<()>>>> {
    let thread = Arc::new(Mutex::new(None));
    let (begun, work) = (Arc::clone(&thread), Mutex::new(Some(work)));
    disk.observe(move |io| {
        if io.operation != DiskOperation::Write || io.page != Some(page) {
            return;
        }
        if let Some(work) = work.lock().unwrap().take() {
            let (go_on, blocked) = channel();
            let spawned = std::thread::spawn(move || {
                work(&|| {
                    let _ = go_on.send(());
                });
            });
            *begun.lock().unwrap() = Some(spawned);
            let _ = blocked.recv();
        }
    });
    thread
}

pub(crate) fn joined(thread: &Mutex<Option<JoinHandle<()>>>) {
    let thread = thread.lock().unwrap().take();
    thread.expect("the page was written").join().unwrap();
}
