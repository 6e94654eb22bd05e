//! Cases that are more than scripts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ebbpool::storage::FaultyDisk;
use ebbpool_simulation::{random, thread};

use crate::case::{Case, LifeOptions};
use crate::disk::{FaultLog, FaultRates};
use crate::life::World;
use crate::model::{Model, Tally};

/// Some threads read a long value all the time; one puts another key of the same leaf.
pub fn a_writer_among_readers_of_a_long_value(case: &Arc<Case>) -> Tally {
    fastrand::seed(case.seed);
    let world = World {
        case: Arc::clone(case),
        disk: FaultyDisk::new(case.seed),
        model: Arc::<Model>::default(),
        in_use: Arc::default(),
    };
    let slow = FaultRates { slow: 200, ..FaultRates::default() };
    let parts = world.parts(&world.disk, slow, &Arc::new(FaultLog::default()), None);
    let options = world.options(&LifeOptions::calm());
    let options = options.pool(|pool| pool.patience(Duration::from_millis(300)));
    let database = options.open_on(parts).expect("nothing goes wrong");
    let long = vec![7; case.page_size * (40 + random() as usize % 60)];
    database.put(b"a", &long).expect("nothing goes wrong");
    database.put(b"b", b"1").expect("nothing goes wrong");
    let shared = Arc::new((database, AtomicBool::new(false), long));
    let readers = (0..2 + random() % 3).map(|reader| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (database, over, long) = &*shared;
            thread::sleep(Duration::from_micros(reader * 1700));
            while !over.load(Ordering::SeqCst) {
                match database.get(b"a") {
                    Ok(Some(value)) => assert!(value == *long, "a long value is another one"),
                    Ok(None) => panic!("a long value is not there"),
                    Err(error) => panic!("a reader of a long value: {error}"),
                }
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    for number in 0..2u8 {
        thread::sleep(Duration::from_millis(20));
        if let Err(error) = shared.0.put(b"b", &[number]) {
            shared.1.store(true, Ordering::SeqCst);
            panic!("a writer among readers of a long value: {error}");
        }
    }
    shared.1.store(true, Ordering::SeqCst);
    readers.into_iter().for_each(|reader| reader.join().expect("a panic ends the run"));
    Tally::default()
}
