//! Runs are repeated exactly, find failures that depend on the schedule, and end.

use std::sync::Arc;
use std::time::Duration;

use ebbpool_simulation::{
    AtomicU64, Condvar, FailureCause, Instant, Mutex, Ordering, RwLock, Simulation, fewest_preemptions, mpsc, random, simulate,
    thread,
};

/// Threads that interact through every kind of primitive.
fn busy() -> u64 {
    let count = Arc::new(AtomicU64::new(0));
    let queue = Arc::new((Mutex::new(Vec::new()), Condvar::new(), RwLock::new(0u64)));
    let (sender, receiver) = mpsc::sync_channel(2);
    let workers = [1, 2, 3].map(|number: u64| {
        let (count, queue, sender) = (Arc::clone(&count), Arc::clone(&queue), sender.clone());
        thread::spawn(move || {
            for round in 0..5 {
                let seen = count.load(Ordering::Relaxed);
                count.store(seen * 3 + number, Ordering::Relaxed);
                queue.0.lock().push(number * 10 + round);
                queue.1.notify_one();
                *queue.2.write() += random() % 7;
                if sender.try_send(number).is_err() {
                    thread::sleep(Duration::from_micros(random() % 50));
                }
            }
        })
    });
    let mut sum = 0u64;
    for _ in 0..15 {
        let mut items = queue.0.lock();
        while items.is_empty() {
            queue.1.wait_for(&mut items, Duration::from_millis(1));
        }
        sum = sum.wrapping_mul(31) + items.remove(0);
        drop(items);
        sum += receiver.try_recv().unwrap_or(0) + *queue.2.read();
    }
    workers.into_iter().for_each(|it| it.join().unwrap());
    sum ^ count.load(Ordering::Relaxed)
}

#[test]
fn a_run_is_repeated_exactly() {
    let mut hashes = std::collections::HashSet::new();
    for seed in 0..1000 {
        let (one, two) = (simulate(seed, busy), simulate(seed, busy));
        assert_eq!(one, two, "seed {seed}");
        hashes.insert(one.unwrap().schedule_hash);
    }
    assert_eq!(hashes.len(), 1000);
}

#[test]
fn failures_are_repeated_exactly() {
    let run = |seed| {
        simulate(seed, || {
            let value = busy();
            assert!(!value.is_multiple_of(3), "it is {value}");
        })
    };
    let failed = (0..200).filter(|&seed| {
        assert_eq!(run(seed), run(seed), "seed {seed}");
        run(seed).is_err()
    });
    assert!((20..180).contains(&failed.count()));
}

#[test]
fn parallel_runs_do_not_disturb_each_other() {
    let alone: Vec<_> = (0..50).map(|seed| simulate(seed, busy)).collect();
    let threads = [0; 4].map(|_| std::thread::spawn(|| (0..50).map(|seed| simulate(seed, busy)).collect::<Vec<_>>()));
    for thread in threads {
        assert_eq!(thread.join().unwrap(), alone);
    }
}

#[test]
fn a_deadlock_reports_which_thread_waits_for_what() {
    let run = |seed| {
        simulate(seed, || {
            let locks = Arc::new((Mutex::new(()), Mutex::new(())));
            let theirs = Arc::clone(&locks);
            let other = thread::spawn(move || {
                let _one = theirs.0.lock();
                let _two = theirs.1.lock();
            });
            {
                let _two = locks.1.lock();
                let _one = locks.0.lock();
            }
            other.join().unwrap();
        })
    };
    let failures: Vec<_> = (0..100).filter_map(|seed| run(seed).err()).collect();
    assert!(!failures.is_empty() && failures.len() < 100);
    for failure in failures {
        let FailureCause::Deadlock { threads } = &failure.cause else {
            panic!("{failure}");
        };
        assert_eq!(threads.matches("for a lock").count(), 2, "{threads}");
        assert!(threads.contains("runs.rs"), "{threads}");
    }
}

#[test]
fn time_jumps_to_the_next_deadline_when_no_thread_can_run() {
    let outcome = simulate(7, || {
        let begin = Instant::now();
        let sleepers = [3, 1, 2].map(|hours| {
            thread::spawn(move || {
                thread::sleep(Duration::from_secs(hours * 3600));
                hours
            })
        });
        let sum: u64 = sleepers.map(|sleeper| sleeper.join().unwrap()).iter().sum();
        (sum, begin.elapsed())
    });
    let (sum, took) = outcome.unwrap().value;
    assert_eq!(sum, 6);
    assert!(took >= Duration::from_secs(3 * 3600) && took < Duration::from_secs(3 * 3600 + 1));
}

#[test]
fn a_thread_that_spins_for_ever_ends_the_run() {
    let outcome = Simulation::new(1).step_limit(10_000).run(|| {
        let never = AtomicU64::new(0);
        while never.load(Ordering::Relaxed) == 0 {}
    });
    let failure = outcome.unwrap_err();
    assert!(matches!(failure.cause, FailureCause::NoProgress { .. }), "{failure}");
}

#[test]
fn a_panic_in_any_thread_ends_the_run_and_the_others_unwind() {
    for seed in 0..100 {
        let dropped = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&dropped);
        let outcome = simulate(seed, move || {
            struct Noted(Arc<AtomicU64>);
            impl Drop for Noted {
                fn drop(&mut self) {
                    self.0.fetch_add(1, Ordering::SeqCst);
                }
            }
            let lock = Arc::new(Mutex::new(()));
            let held = lock.lock();
            let waiting = [0; 2].map(|_| {
                let (lock, noted) = (Arc::clone(&lock), Noted(Arc::clone(&count)));
                thread::spawn(move || {
                    let _noted = noted;
                    let _waits = lock.lock();
                })
            });
            thread::spawn(move || assert!(seed > 100, "as expected")).join().unwrap();
            drop(held);
            waiting.into_iter().for_each(|it| it.join().unwrap());
        });
        let failure = outcome.unwrap_err();
        let FailureCause::Panic { message, .. } = &failure.cause else {
            panic!("{failure}");
        };
        assert!(message.contains("as expected") && message.contains("runs.rs"), "{message}");
        assert_eq!(dropped.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn threads_may_borrow() {
    for seed in 0..20 {
        let outcome = simulate(seed, || {
            let count = AtomicU64::new(0);
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| count.fetch_add(1, Ordering::SeqCst));
                }
                scope.spawn(|| count.fetch_add(1, Ordering::SeqCst)).join().unwrap();
            });
            count.into_inner()
        });
        assert_eq!(outcome.unwrap().value, 4);
    }
}

#[test]
fn the_fewest_preemptions_that_lose_an_update_are_one() {
    let run = |seed, most| {
        Simulation::new(seed).preemptions(most).run(|| {
            let count = Arc::new(AtomicU64::new(0));
            let threads = [0; 3].map(|_| {
                let count = Arc::clone(&count);
                thread::spawn(move || {
                    for _ in 0..3 {
                        let seen = count.load(Ordering::SeqCst);
                        count.store(seen + 1, Ordering::SeqCst);
                    }
                })
            });
            threads.into_iter().for_each(|it| it.join().unwrap());
            assert_eq!(count.load(Ordering::SeqCst), 9);
        })
    };
    let failing = (0..100).find_map(|seed| Some((seed, run(seed, u64::MAX).err()?)));
    let (seed, failure) = failing.unwrap();
    let fewest = fewest_preemptions(failure.preemptions, |most| run(seed, most).is_err());
    assert!(fewest >= 1 && run(seed, fewest).is_err() && run(seed, 0).is_ok());
}

#[test]
fn outside_a_run_the_primitives_are_plain() {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let theirs = Arc::clone(&shared);
    let thread = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1));
        *theirs.0.lock() += 1;
        theirs.1.notify_all();
    });
    let mut count = shared.0.lock();
    while *count == 0 {
        shared.1.wait(&mut count);
    }
    drop(count);
    thread.join().unwrap();
    let begin = Instant::now();
    let (_sender, receiver) = mpsc::sync_channel::<()>(1);
    assert!(receiver.recv_timeout(Duration::from_millis(1)).is_err());
    // Outside a run time passes by itself, and no clock has to jump.
    while begin.elapsed().is_zero() {
        thread::yield_now();
    }
}

#[test]
fn a_thread_that_is_to_be_refused_cannot_be_started() {
    let started = || thread::Builder::new().spawn(|| ()).is_ok();
    let outcome = simulate(1, move || {
        let refused = thread::refusing(1, || [started(), started(), started()]);
        (refused, started())
    });
    let (refused, after) = outcome.expect("nothing fails").value;
    assert_eq!(refused, [true, false, true]);
    assert!(after);
}
