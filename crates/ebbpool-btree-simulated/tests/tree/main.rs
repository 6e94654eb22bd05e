//! The tree under simulated threads.

use std::sync::Arc;
use std::time::Duration;

extern crate ebbpool_simulated as ebbpool;

use ebbpool::storage::FaultyDisk;
use ebbpool_btree_simulated::{Options, Parts};
use ebbpool_simulation::{Failure, Outcome, simulate, thread};

fn run(seed: u64) -> Result<Outcome<usize>, Failure> {
    simulate(seed, move || {
        fastrand::seed(seed);
        let disk = FaultyDisk::new(seed);
        disk.observe(|_| thread::sleep(Duration::from_micros(20)));
        let parts = Parts {
            pages: Box::new(disk.pages("data", 1024)),
            double_write: Some(Box::new(disk.pages("area", 1024))),
            log: ["log0", "log1"].map(|name| Box::new(disk.bytes(name)) as _),
        };
        let options = Options::new(24).page_size(1024).checkpoint_every(4096);
        let database = Arc::new(options.open_on(parts).unwrap());
        let clients = [1, 2, 3].map(|client: u8| {
            let database = Arc::clone(&database);
            thread::spawn(move || {
                for step in 0..5u8 {
                    let key = [step, client];
                    database.put(&key, &[step; 300]).unwrap();
                    assert_eq!(database.get(&key).unwrap(), Some(vec![step; 300]));
                }
            })
        });
        clients
            .into_iter()
            .for_each(|client| client.join().unwrap());
        let found = database.range::<&[u8]>(..).count();
        Arc::into_inner(database).unwrap().close().unwrap();
        found
    })
}

#[test]
fn a_run_is_repeated_exactly_and_loses_nothing() {
    for seed in 0..200 {
        let (one, two) = (run(seed), run(seed));
        assert_eq!(one, two);
        assert_eq!(one.unwrap_or_else(|failure| panic!("{failure}")).value, 15);
    }
}
