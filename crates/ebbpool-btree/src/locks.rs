//! Locks on keys: a transaction has those that it changed until it ends.
//!
//! By the hash of the key: two keys with one hash are never both changed at once, and nothing else comes
//! of it. Waiting in a circle is found at once, by following who waits for whom.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::time::Duration;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::log::TxnId;
use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Instant, Mutex, MutexGuard, Ordering, RwLock,
};

const SHARDS: usize = 64;

/// What is locked, for the whole database.
///
/// A mutex of a shard may be held while that of `waits` is taken, and not the other way round.
#[derive(Debug)]
pub(crate) struct Locks {
    shards: Box<[Shard]>,
    /// Transactions that have a lock.
    holders: AtomicUsize,
    /// Which transaction each of those that wait waits for.
    waits: Mutex<HashMap<TxnId, TxnId>>,
    /// Keys that are removed, and by whom.
    removed: RwLock<BTreeMap<Vec<u8>, TxnId>>,
    removed_count: AtomicUsize,
    brought_back: AtomicU64,
    /// Some locks are never released.
    stuck: AtomicBool,
    patience: Duration,
}

/// Locks whose hashes have something in common.
#[derive(Debug, Default)]
struct Shard {
    count: AtomicUsize,
    owners: Mutex<HashTable<Lock>>,
    released: Condvar,
}

#[derive(Debug)]
struct Lock {
    hash: u64,
    owner: TxnId,
}

/// What one transaction has locked.
#[derive(Debug, Default)]
pub(crate) struct Held {
    hashes: Vec<u64>,
    removed: Vec<Vec<u8>>,
    /// Something that was removed may be there again.
    brought_back: bool,
}

/// Somebody who waits for locks, until a deadline.
struct Waiting<'l> {
    locks: &'l Locks,
    txn: TxnId,
    since: Instant,
    registered: bool,
}

impl Locks {
    pub(crate) fn new(patience: Duration) -> Self {
        Locks {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            holders: AtomicUsize::new(0),
            waits: Mutex::default(),
            removed: RwLock::default(),
            removed_count: AtomicUsize::new(0),
            brought_back: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            patience,
        }
    }

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Locks a key for a transaction, that may have it already.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`].
    pub(crate) fn lock(&self, txn: TxnId, key: &[u8], held: &mut Held) -> Result<(), Error> {
        let hash = xxh3_64(key);
        let shard = self.shard(hash);
        let mut owners = self.wait_until_free(txn, hash)?;
        self.take(shard, &mut owners, hash, txn, held);
        Ok(())
    }

    /// Locks a key if that can be done without waiting, and answers whether the transaction has it.
    pub(crate) fn try_lock(&self, txn: TxnId, key: &[u8], held: &mut Held) -> bool {
        let hash = xxh3_64(key);
        let shard = self.shard(hash);
        let mut owners = shard.owners.lock();
        match owner(&owners, hash) {
            Some(other) if other != txn => return false,
            _ => self.take(shard, &mut owners, hash, txn, held),
        }
        true
    }

    /// Nobody else has it.
    fn take(
        &self,
        shard: &Shard,
        owners: &mut HashTable<Lock>,
        hash: u64,
        txn: TxnId,
        held: &mut Held,
    ) {
        if owner(owners, hash).is_some() {
            return;
        }
        if held.hashes.is_empty() {
            self.holders.fetch_add(1, Ordering::Relaxed);
        }
        shard.count.fetch_add(1, Ordering::Relaxed);
        let lock = Lock { hash, owner: txn };
        owners.insert_unique(hash, lock, |lock| lock.hash);
        held.hashes.push(hash);
    }

    /// Whether another transaction than `txn` (0: none) has the key. Cheap where nobody has any.
    ///
    /// Whoever asks has the leaf's latch, and whoever has changed the leaf had locked the key before:
    /// so the counters, which nothing else orders, are seen as they were then, or later.
    pub(crate) fn is_locked(&self, txn: TxnId, key: &[u8]) -> bool {
        if self.holders.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let hash = xxh3_64(key);
        let shard = self.shard(hash);
        shard.count.load(Ordering::Relaxed) > 0
            && owner(&shard.owners.lock(), hash).is_some_and(|owner| owner != txn)
    }

    /// Waits until nobody else has the key.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`].
    pub(crate) fn wait_for(&self, txn: TxnId, key: &[u8]) -> Result<(), Error> {
        self.wait_until_free(txn, xxh3_64(key)).map(drop)
    }

    fn wait_until_free(
        &self,
        txn: TxnId,
        hash: u64,
    ) -> Result<MutexGuard<'_, HashTable<Lock>>, Error> {
        let shard = self.shard(hash);
        let mut owners = shard.owners.lock();
        let mut waiting = None;
        while let Some(other) = owner(&owners, hash).filter(|&owner| owner != txn) {
            let waiting = waiting.get_or_insert_with(|| Waiting::new(self, txn));
            waiting.for_one(other, shard, &mut owners)?;
        }
        Ok(owners)
    }

    /// A transaction is about to remove a key that it has locked: scans do not see the key any more, and
    /// have to know that it may come back. Answers whether that is news.
    pub(crate) fn removing(&self, txn: TxnId, key: &[u8], held: &mut Held) -> bool {
        let mut removed = self.removed.write();
        let new = removed.insert(key.to_vec(), txn).is_none();
        if new {
            self.removed_count.fetch_add(1, Ordering::Relaxed);
            held.removed.push(key.to_vec());
        }
        new
    }

    /// The removal that was announced last did not happen.
    pub(crate) fn not_removed(&self, held: &mut Held) {
        if let Some(key) = held.removed.pop()
            && self.removed.write().remove(&key).is_some()
        {
            self.removed_count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A transaction has put a key that it may have removed before.
    pub(crate) fn put(&self, key: &[u8], held: &mut Held) {
        if !held.removed.is_empty() && !held.brought_back {
            // Nobody else can have it there: the key is locked.
            held.brought_back = self.removed.read().contains_key(key);
        }
    }

    /// An operation was taken back, perhaps a removal.
    pub(crate) fn taken_back(held: &mut Held) {
        held.brought_back = true;
    }

    /// A key between the bounds that another transaction has removed and may bring back.
    pub(crate) fn removed_between(
        &self,
        txn: TxnId,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Option<Vec<u8>> {
        if self.removed_count.load(Ordering::Acquire) == 0 || is_empty(from, to) {
            return None;
        }
        let removed = self.removed.read();
        let mut between = removed.range::<[u8], _>((from, to));
        let (key, _) = between.find(|&(_, &by)| by != txn)?;
        Some(key.clone())
    }

    /// How often removed keys have come back so far. A scan during which this has changed may have missed a key.
    pub(crate) fn brought_back(&self) -> u64 {
        self.brought_back.load(Ordering::Acquire)
    }

    /// Some locks are never released any more: from now on nobody waits.
    pub(crate) fn give_up(&self) {
        self.stuck.store(true, Ordering::Release);
        for shard in &self.shards {
            // Whoever has looked and does not wait yet has the mutex.
            drop(shard.owners.lock());
            shard.released.notify_all();
        }
    }

    /// The transaction has ended; `rolled_back` if its removals were taken back.
    pub(crate) fn release(&self, held: Held, rolled_back: bool) {
        if !held.removed.is_empty() {
            let mut removed = self.removed.write();
            if rolled_back || held.brought_back {
                // A scan that no longer finds the removals has to find this.
                self.brought_back.fetch_add(1, Ordering::Release);
            }
            for key in &held.removed {
                removed.remove(key);
            }
            self.removed_count
                .fetch_sub(held.removed.len(), Ordering::Release);
        }
        for &hash in &held.hashes {
            let shard = self.shard(hash);
            let mut owners = shard.owners.lock();
            if let Ok(lock) = owners.find_entry(hash, |lock| lock.hash == hash) {
                lock.remove();
                shard.count.fetch_sub(1, Ordering::Relaxed);
            }
            shard.released.notify_all();
        }
        if !held.hashes.is_empty() {
            self.holders.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn owner(owners: &HashTable<Lock>, hash: u64) -> Option<TxnId> {
    let lock = owners.find(hash, |lock| lock.hash == hash)?;
    Some(lock.owner)
}

/// True if no key can be between the bounds.
pub(crate) fn is_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from >= to,
    }
}

impl<'l> Waiting<'l> {
    fn new(locks: &'l Locks, txn: TxnId) -> Self {
        Waiting {
            locks,
            txn,
            since: Instant::now(),
            registered: false,
        }
    }

    /// Waits until a lock of the shard was released, which need not be the one that is wanted.
    fn for_one(
        &mut self,
        owner: TxnId,
        shard: &Shard,
        owners: &mut MutexGuard<'_, HashTable<Lock>>,
    ) -> Result<(), Error> {
        let conflict = |deadlock| {
            Err(Error::Conflict {
                deadlock,
                waited: self.since.elapsed(),
            })
        };
        if self.locks.stuck.load(Ordering::Acquire) {
            return conflict(false);
        }
        // Nobody waits for whoever is no transaction.
        if self.txn != 0 {
            let mut waits = self.locks.waits.lock();
            if leads_to(&waits, owner, self.txn) {
                return conflict(true);
            }
            waits.insert(self.txn, owner);
            self.registered = true;
        }
        // A patience without end has no deadline.
        let Some(deadline) = self.since.checked_add(self.locks.patience) else {
            shard.released.wait(owners);
            return Ok(());
        };
        if Instant::now() >= deadline {
            return conflict(false);
        }
        shard.released.wait_until(owners, deadline);
        Ok(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.registered {
            self.locks.waits.lock().remove(&self.txn);
        }
    }
}

/// Whether `from` waits for `to`, or for one that does, and so on.
///
/// What is registered of one that waits may be out of date: whom it waits for has ended then, and waits for
/// nobody. It finds out on its own, and registers anew.
fn leads_to(waits: &HashMap<TxnId, TxnId>, from: TxnId, to: TxnId) -> bool {
    let mut at = from;
    for _ in 0..=waits.len() {
        if at == to {
            return true;
        }
        match waits.get(&at) {
            Some(&next) => at = next,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    const NEVER: Duration = Duration::from_secs(3600);

    fn is_deadlock(outcome: Result<(), Error>) -> bool {
        matches!(outcome, Err(Error::Conflict { deadlock: true, .. }))
    }

    fn waits_for_any(locks: &Locks, count: usize) {
        while locks.waits.lock().len() < count {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_key_is_one_transactions_until_it_ends() {
        let locks = Locks::new(Duration::from_millis(1));
        let (mut one, mut two) = (Held::default(), Held::default());
        locks.lock(1, b"a", &mut one).unwrap();
        locks.lock(1, b"a", &mut one).unwrap();
        assert!(!locks.is_locked(1, b"a") && locks.is_locked(2, b"a") && locks.is_locked(0, b"a"));
        assert!(!locks.is_locked(2, b"b") && !locks.try_lock(2, b"a", &mut two));
        let refused = locks.lock(2, b"a", &mut two);
        let in_vain = |outcome: Result<(), Error>| {
            matches!(
                outcome,
                Err(Error::Conflict {
                    deadlock: false,
                    ..
                })
            )
        };
        assert!(in_vain(refused) && in_vain(locks.wait_for(0, b"a")));
        locks.release(one, false);
        assert!(locks.try_lock(2, b"a", &mut two) && locks.is_locked(1, b"a"));
        locks.release(two, false);
        assert!(!locks.is_locked(0, b"a") && locks.holders.load(Ordering::Relaxed) == 0);
        assert!(locks.waits.lock().is_empty());
    }

    #[test]
    fn whoever_waits_gets_it_when_it_is_released() {
        let locks = Locks::new(NEVER);
        let mut one = Held::default();
        locks.lock(1, b"a", &mut one).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for txn in 2..6 {
                let (locks, done) = (&locks, &done);
                threads.spawn(move || {
                    let mut held = Held::default();
                    locks.lock(txn, b"a", &mut held).unwrap();
                    assert!(done.load(Ordering::SeqCst));
                    locks.release(held, false);
                });
            }
            waits_for_any(&locks, 4);
            done.store(true, Ordering::SeqCst);
            locks.release(one, false);
        });
        assert!(locks.waits.lock().is_empty());
    }

    #[test]
    fn circles_of_any_length_are_found_by_whoever_closes_them() {
        for length in 2..6u64 {
            let locks = Locks::new(NEVER);
            let found = AtomicUsize::new(0);
            let barrier = Barrier::new(length as usize);
            std::thread::scope(|threads| {
                for txn in 1..=length {
                    let (locks, found, barrier) = (&locks, &found, &barrier);
                    threads.spawn(move || {
                        let mut held = Held::default();
                        locks.lock(txn, &txn.to_le_bytes(), &mut held).unwrap();
                        barrier.wait();
                        let next = txn % length + 1;
                        if is_deadlock(locks.lock(txn, &next.to_le_bytes(), &mut held)) {
                            found.fetch_add(1, Ordering::SeqCst);
                        }
                        locks.release(held, false);
                    });
                }
            });
            assert_eq!(found.load(Ordering::SeqCst), 1, "of {length}");
        }
    }

    #[test]
    fn a_circle_is_found_that_closes_when_a_lock_changes_hands() {
        let locks = Locks::new(NEVER);
        let [mut one, mut two, mut three] = std::array::from_fn(|_| Held::default());
        locks.lock(1, b"b", &mut one).unwrap();
        locks.lock(2, b"a", &mut two).unwrap();
        locks.lock(3, b"c", &mut three).unwrap();
        let hash = xxh3_64(b"a");
        std::thread::scope(|threads| {
            let first = threads.spawn(|| {
                let outcome = locks.lock(1, b"a", &mut one);
                locks.release(one, false);
                is_deadlock(outcome)
            });
            waits_for_any(&locks, 1);
            // 2 ends, and 3 gets what 1 waits for, before 1 knows.
            let mut owners = locks.shard(hash).owners.lock();
            let lock = owners.find_mut(hash, |lock| lock.hash == hash);
            lock.unwrap().owner = 3;
            three.hashes.append(&mut two.hashes);
            locks.shard(hash).released.notify_all();
            drop(owners);
            let third = is_deadlock(locks.lock(3, b"b", &mut three));
            locks.release(three, false);
            assert_ne!(third, first.join().unwrap());
        });
    }

    #[test]
    fn removals_are_seen_by_others_until_they_end() {
        let locks = Locks::new(NEVER);
        let mut held = Held::default();
        locks.lock(1, b"k", &mut held).unwrap();
        assert!(locks.removing(1, b"k", &mut held));
        assert!(!locks.removing(1, b"k", &mut held));
        let all = (Bound::Unbounded, Bound::Unbounded);
        assert_eq!(locks.removed_between(2, all.0, all.1), Some(b"k".to_vec()));
        assert_eq!(locks.removed_between(1, all.0, all.1), None);
        let k: &[u8] = b"k";
        let after = (Bound::Excluded(k), Bound::Unbounded);
        assert_eq!(locks.removed_between(2, after.0, after.1), None);
        let inverted = (Bound::Excluded(k), Bound::Excluded(k));
        assert_eq!(locks.removed_between(2, inverted.0, inverted.1), None);
        let before = locks.brought_back();
        locks.removing(1, b"l", &mut held);
        locks.not_removed(&mut held);
        assert_eq!(locks.removed_between(2, after.0, after.1), None);
        locks.release(held, true);
        assert_ne!(locks.brought_back(), before);
        assert_eq!(locks.removed_between(2, all.0, all.1), None);
    }
}
