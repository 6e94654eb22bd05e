//! The lines that put a pool into a program: open, allocate, write, read, close.

use ebbpool::storage::{FileOptions, FileStorage};
use ebbpool::{Pool, PoolOptions};

/// Runs the example.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let options = FileOptions::new().create(true);
    let storage = FileStorage::open(directory.path().join("my.pages"), &options)?;
    let pool: Pool = PoolOptions::new(100).policy("cflru:window=0.3")?.open(storage)?;

    for greeting in 0..1000u64 {
        let mut page = pool.allocate()?;
        page[..8].copy_from_slice(&greeting.to_le_bytes());
    }
    let sum: u64 = (0..1000)
        .map(|number| {
            let page = pool.fix_read(number)?;
            Ok(u64::from_le_bytes(page[..8].try_into().unwrap_or_default()))
        })
        .sum::<Result<u64, ebbpool::PoolError>>()?;
    assert_eq!(sum, 999 * 1000 / 2);
    println!("{}", pool.stats());
    pool.close()?;
    Ok(())
}
