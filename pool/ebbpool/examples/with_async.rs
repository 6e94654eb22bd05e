//! A pool below tasks of an async runtime: a task fixes what is there, and a thread for blocking calls waits for the rest.

use std::error::Error;
use std::sync::Arc;

use ebbpool::storage::MemoryStorage;
use ebbpool::{Pool, PoolError, PoolOptions};
use tokio::runtime::Builder;
use tokio::task::{JoinError, spawn_blocking};

const TASKS: u64 = 8;

/// The first byte of a page. No guard lives across an `await`: the task would go on with it in another thread, or not at all while
/// the threads of the runtime wait for the guard.
async fn first_byte(pool: &Arc<Pool>, page: u64) -> Result<Result<u8, PoolError>, JoinError> {
    match pool.try_fix_read(page) {
        Ok(Some(page)) => return Ok(Ok(page[0])),
        Ok(None) => {}
        Err(error) => return Ok(Err(error)),
    }
    let pool = Arc::clone(pool);
    spawn_blocking(move || pool.fix_read(page).map(|page| page[0])).await
}

/// Changes a page in a thread in which it may wait, from the fix to the end of the guard.
async fn count_up(pool: &Arc<Pool>, page: u64) -> Result<Result<(), PoolError>, JoinError> {
    let pool = Arc::clone(pool);
    spawn_blocking(move || pool.fix_write(page).map(|mut page| page[0] += 1)).await
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let pool = Arc::new(PoolOptions::new(16).open(MemoryStorage::new(4096))?);
    let runtime = Builder::new_multi_thread().worker_threads(2).build()?;
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let pool = Arc::clone(&pool);
                tokio::spawn(async move { count_up(&pool, 3).await })
            })
            .collect();
        for task in tasks {
            task.await???;
        }
        assert_eq!(u64::from(first_byte(&pool, 3).await??), TASKS);
        assert_eq!(first_byte(&pool, 4).await??, 0);
        Ok(())
    })
}
