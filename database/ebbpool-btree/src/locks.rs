//! Locks on keys: a transaction locks the keys that it changes until it ends.
//!
//! A lock is on the hash of a key. Two keys with the same hash share a lock, which only makes transactions
//! wait more often. Deadlocks are detected before a transaction waits, by following which transaction waits
//! for which.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::time::Duration;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::DatabaseError;
use crate::log::TxnId;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Instant, Mutex, MutexGuard, Ordering, RwLock};

const SHARDS: usize = 64;

/// The locks of the whole database.
///
/// A thread may lock `waits` while it holds the mutex of a shard, but not the other way round.
#[derive(Debug)]
pub(crate) struct Locks {
    shards: Box<[LockShard]>,
    /// The number of transactions that have a lock.
    holders: AtomicUsize,
    /// By waiting transaction, the one that it waits for.
    waits: Mutex<HashMap<TxnId, TxnId>>,
    /// Keys that are removed, and the transactions that removed them.
    removed: RwLock<BTreeMap<Vec<u8>, TxnId>>,
    removed_count: AtomicUsize,
    brought_back: AtomicU64,
    /// True if some locks will never be released.
    stuck: AtomicBool,
    patience: Duration,
}

/// The locks of one part of the hashes.
#[derive(Debug, Default)]
struct LockShard {
    count: AtomicUsize,
    owners: Mutex<HashTable<KeyLock>>,
    released: Condvar,
}

#[derive(Debug)]
struct KeyLock {
    hash: u64,
    owner: TxnId,
}

/// The locks and removed keys of one transaction.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks {
    hashes: Vec<u64>,
    removed: Vec<Vec<u8>>,
    /// A key that was removed may be there again.
    brought_back: bool,
}

/// A thread that waits for locks, until a deadline.
struct LockWait<'l> {
    locks: &'l Locks,
    txn: TxnId,
    since: Instant,
    registered: bool,
}

impl Locks {
    pub(crate) fn new(patience: Duration) -> Self {
        Locks {
            shards: (0..SHARDS).map(|_| LockShard::default()).collect(),
            holders: AtomicUsize::new(0),
            waits: Mutex::default(),
            removed: RwLock::default(),
            removed_count: AtomicUsize::new(0),
            brought_back: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            patience,
        }
    }

    fn shard(&self, hash: u64) -> &LockShard {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Locks a key for a transaction, which may have locked it already.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Conflict`].
    pub(crate) fn lock(&self, txn: TxnId, key: &[u8], held: &mut HeldLocks) -> Result<(), DatabaseError> {
        let hash = xxh3_64(key);
        let shard = self.shard(hash);
        let mut owners = self.wait_until_free(txn, hash)?;
        self.take(shard, &mut owners, hash, txn, held);
        Ok(())
    }

    /// Locks a key if that needs no waiting, and returns whether the transaction has the lock.
    pub(crate) fn try_lock(&self, txn: TxnId, key: &[u8], held: &mut HeldLocks) -> bool {
        let hash = xxh3_64(key);
        let shard = self.shard(hash);
        let mut owners = shard.owners.lock();
        match owner(&owners, hash) {
            Some(other) if other != txn => return false,
            _ => self.take(shard, &mut owners, hash, txn, held),
        }
        true
    }

    /// Takes a lock that no other transaction has.
    fn take(&self, shard: &LockShard, owners: &mut HashTable<KeyLock>, hash: u64, txn: TxnId, held: &mut HeldLocks) {
        if owner(owners, hash).is_some() {
            return;
        }
        if held.hashes.is_empty() {
            self.holders.fetch_add(1, Ordering::Relaxed);
        }
        shard.count.fetch_add(1, Ordering::Relaxed);
        let lock = KeyLock { hash, owner: txn };
        owners.insert_unique(hash, lock, |lock| lock.hash);
        held.hashes.push(hash);
    }

    /// Whether another transaction than `txn` (0: none) has locked the key. Cheap if there are no locks.
    ///
    /// The caller holds the leaf's latch, and a transaction that changed the leaf had locked the key
    /// before. The latch therefore orders the relaxed counters: the caller sees their values at that change
    /// or later ones.
    pub(crate) fn is_locked(&self, txn: TxnId, key: &[u8]) -> bool {
        if self.holders.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let hash = xxh3_64(key);
        let shard = self.shard(hash);
        shard.count.load(Ordering::Relaxed) > 0 && owner(&shard.owners.lock(), hash).is_some_and(|owner| owner != txn)
    }

    /// Waits until no other transaction has locked the key.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Conflict`].
    pub(crate) fn wait_for(&self, txn: TxnId, key: &[u8]) -> Result<(), DatabaseError> {
        self.wait_until_free(txn, xxh3_64(key)).map(drop)
    }

    fn wait_until_free(&self, txn: TxnId, hash: u64) -> Result<MutexGuard<'_, HashTable<KeyLock>>, DatabaseError> {
        let shard = self.shard(hash);
        let mut owners = shard.owners.lock();
        let mut waiting = None;
        while let Some(other) = owner(&owners, hash).filter(|&owner| owner != txn) {
            let waiting = waiting.get_or_insert_with(|| LockWait::new(self, txn));
            waiting.wait_once(other, shard, &mut owners)?;
        }
        Ok(owners)
    }

    /// Announces that a transaction is about to remove a key that it has locked: scans no longer see the
    /// key, and have to know that a rollback may restore it. Returns false if this was announced before.
    pub(crate) fn removing(&self, txn: TxnId, key: &[u8], held: &mut HeldLocks) -> bool {
        let mut removed = self.removed.write();
        let new = removed.insert(key.to_vec(), txn).is_none();
        if new {
            self.removed_count.fetch_add(1, Ordering::Relaxed);
            held.removed.push(key.to_vec());
        }
        new
    }

    /// Withdraws the removal that was announced last.
    pub(crate) fn not_removed(&self, held: &mut HeldLocks) {
        if let Some(key) = held.removed.pop()
            && self.removed.write().remove(&key).is_some()
        {
            self.removed_count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Notes that a transaction has put a key that it may have removed before.
    pub(crate) fn put(&self, key: &[u8], held: &mut HeldLocks) {
        if !held.removed.is_empty() && !held.brought_back {
            // The key is locked, so this transaction removed it if it is there.
            held.brought_back = self.removed.read().contains_key(key);
        }
    }

    /// Notes that an operation was undone, perhaps a removal.
    pub(crate) fn operation_undone(held: &mut HeldLocks) {
        held.brought_back = true;
    }

    /// A key between the bounds that another transaction has removed and may restore.
    pub(crate) fn removed_between(&self, txn: TxnId, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<Vec<u8>> {
        if self.removed_count.load(Ordering::Acquire) == 0 || is_empty(from, to) {
            return None;
        }
        let removed = self.removed.read();
        let mut between = removed.range::<[u8], _>((from, to));
        let (key, _) = between.find(|&(_, &by)| by != txn)?;
        Some(key.clone())
    }

    /// How often removed keys were restored so far. A scan during which this number has changed may have
    /// missed a key.
    pub(crate) fn brought_back(&self) -> u64 {
        self.brought_back.load(Ordering::Acquire)
    }

    /// Ends all waiting, now and later, since some locks will never be released.
    pub(crate) fn stop_waiting(&self) {
        self.stuck.store(true, Ordering::Release);
        for shard in &self.shards {
            // A thread that has read `stuck` and is about to wait holds the mutex.
            drop(shard.owners.lock());
            shard.released.notify_all();
        }
    }

    /// Releases the locks of a transaction that has ended; `rolled_back` if its removals were undone.
    pub(crate) fn release(&self, held: HeldLocks, rolled_back: bool) {
        if !held.removed.is_empty() {
            let mut removed = self.removed.write();
            if rolled_back || held.brought_back {
                // A scan that no longer finds the removals has to find the number changed.
                self.brought_back.fetch_add(1, Ordering::Release);
            }
            for key in &held.removed {
                removed.remove(key);
            }
            self.removed_count.fetch_sub(held.removed.len(), Ordering::Release);
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

fn owner(owners: &HashTable<KeyLock>, hash: u64) -> Option<TxnId> {
    let lock = owners.find(hash, |lock| lock.hash == hash)?;
    Some(lock.owner)
}

/// True if no key can be between the bounds.
pub(crate) fn is_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
    }
}

impl<'l> LockWait<'l> {
    fn new(locks: &'l Locks, txn: TxnId) -> Self {
        LockWait { locks, txn, since: Instant::now(), registered: false }
    }

    /// Waits until a lock of the shard is released, which need not be the requested one.
    fn wait_once(
        &mut self,
        owner: TxnId,
        shard: &LockShard,
        owners: &mut MutexGuard<'_, HashTable<KeyLock>>,
    ) -> Result<(), DatabaseError> {
        let conflict = |deadlock| Err(DatabaseError::Conflict { deadlock, waited: self.since.elapsed() });
        if self.locks.stuck.load(Ordering::Acquire) {
            return conflict(false);
        }
        // No transaction waits for a reader outside any transaction.
        if self.txn != 0 {
            let mut waits = self.locks.waits.lock();
            if leads_to(&waits, owner, self.txn) {
                return conflict(true);
            }
            waits.insert(self.txn, owner);
            self.registered = true;
        }
        // With so long a patience that the deadline overflows, there is none.
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

impl Drop for LockWait<'_> {
    fn drop(&mut self) {
        if self.registered {
            self.locks.waits.lock().remove(&self.txn);
        }
    }
}

/// Whether `from` waits for `to`, directly or through other transactions.
///
/// An entry may be out of date: the transaction in it has ended, and so waits for none. The waiting thread
/// notices that when it wakes, and registers again.
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

    fn is_deadlock(outcome: Result<(), DatabaseError>) -> bool {
        matches!(outcome, Err(DatabaseError::Conflict { deadlock: true, .. }))
    }

    fn waits_for_any(locks: &Locks, count: usize) {
        while locks.waits.lock().len() < count {
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_transaction_has_a_key_until_it_ends() {
        let locks = Locks::new(Duration::from_millis(1));
        let (mut one, mut two) = (HeldLocks::default(), HeldLocks::default());
        locks.lock(1, b"a", &mut one).unwrap();
        locks.lock(1, b"a", &mut one).unwrap();
        assert!(!locks.is_locked(1, b"a") && locks.is_locked(2, b"a") && locks.is_locked(0, b"a"));
        assert!(!locks.is_locked(2, b"b") && !locks.try_lock(2, b"a", &mut two));
        let refused = locks.lock(2, b"a", &mut two);
        let in_vain =
            |outcome: Result<(), DatabaseError>| matches!(outcome, Err(DatabaseError::Conflict { deadlock: false, .. }));
        assert!(in_vain(refused) && in_vain(locks.wait_for(0, b"a")));
        locks.release(one, false);
        assert!(locks.try_lock(2, b"a", &mut two) && locks.is_locked(1, b"a"));
        locks.release(two, false);
        assert!(!locks.is_locked(0, b"a") && locks.holders.load(Ordering::Relaxed) == 0);
        assert!(locks.waits.lock().is_empty());
    }

    #[test]
    fn waiting_threads_get_a_lock_when_it_is_released() {
        let locks = Locks::new(NEVER);
        let mut one = HeldLocks::default();
        locks.lock(1, b"a", &mut one).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for txn in 2..6 {
                let (locks, done) = (&locks, &done);
                threads.spawn(move || {
                    let mut held = HeldLocks::default();
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
    fn the_thread_that_closes_a_circle_of_any_length_finds_the_deadlock() {
        for length in 2..6u64 {
            let locks = Locks::new(NEVER);
            let found = AtomicUsize::new(0);
            let barrier = Barrier::new(length as usize);
            std::thread::scope(|threads| {
                for txn in 1..=length {
                    let (locks, found, barrier) = (&locks, &found, &barrier);
                    threads.spawn(move || {
                        let mut held = HeldLocks::default();
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
    fn a_circle_that_closes_when_a_lock_changes_its_owner_is_found() {
        let locks = Locks::new(NEVER);
        let [mut one, mut two, mut three] = std::array::from_fn(|_| HeldLocks::default());
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
            // Transaction 2 ends, and 3 gets the lock that 1 waits for, before 1 wakes.
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
    fn other_transactions_see_removals_until_they_end() {
        let locks = Locks::new(NEVER);
        let mut held = HeldLocks::default();
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
