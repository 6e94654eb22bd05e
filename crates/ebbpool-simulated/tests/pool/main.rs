//! The pool under simulated threads.

use std::sync::Arc;
use std::time::Duration;

use ebbpool_simulated::PoolOptions;
use ebbpool_simulated::storage::FaultyDisk;
use ebbpool_simulation::{Failure, Outcome, simulate, thread};

fn run(seed: u64) -> Result<Outcome<u64>, Failure> {
    simulate(seed, move || {
        let disk = FaultyDisk::new(seed);
        disk.observe(|_| thread::sleep(Duration::from_micros(20)));
        let pool = PoolOptions::new(4)
            .read_ahead(4)
            .open(disk.pages("data", 512));
        let pool = Arc::new(pool.unwrap());
        let clients = [1, 2, 3].map(|client: u64| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                for step in 0..10 {
                    let mut page = pool.fix_write((client * step) % 7).unwrap();
                    page[0] = page[0].wrapping_add(1);
                    drop(page);
                    let _ = pool.fix_read(step).unwrap()[0];
                }
            })
        });
        clients
            .into_iter()
            .for_each(|client| client.join().unwrap());
        let sum = (0..7)
            .map(|page| u64::from(pool.fix_read(page).unwrap()[0]))
            .sum();
        Arc::into_inner(pool).unwrap().close().unwrap();
        sum
    })
}

#[test]
fn a_run_is_repeated_exactly_and_loses_nothing() {
    for seed in 0..1000 {
        let (one, two) = (run(seed), run(seed));
        assert_eq!(one, two);
        assert_eq!(one.unwrap_or_else(|failure| panic!("{failure}")).value, 30);
    }
}
