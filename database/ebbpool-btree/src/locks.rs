//! Locks on keys: a transaction locks the keys that it changes until it ends.
//!
//! A lock is on the hash of a key. Two keys with the same hash share a lock, which only makes transactions
//! wait more often. Deadlocks are detected before a transaction waits, by following which transaction waits
//! for which.
//!
//! A lock is handed over to the one that has waited longest, also when the commit of its owner is in the log and not yet
//! durable: the commit of the next owner comes later in the log. But only to one that changes the key. Readers wait until
//! what they read is durable, as does the end of a next owner that commits nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use ebbpool::Lsn;
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
}

#[derive(Debug)]
struct KeyLock {
    hash: u64,
    /// The transaction, or 0 for readers outside any transaction.
    owner: TxnId,
    /// How many readers have it.
    shares: usize,
    waiting: VecDeque<Arc<LockWaiter>>,
}

/// A thread that waits for a lock.
#[derive(Debug)]
struct LockWaiter {
    txn: TxnId,
    /// It is going to change the key.
    changes: bool,
    has_it: AtomicBool,
    /// Where the commit of the owner before ends, if that may not be durable.
    after: AtomicU64,
    woken: Condvar,
}

/// The locks and removed keys of one transaction.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks {
    hashes: Vec<u64>,
    removed: Vec<Vec<u8>>,
    /// A key that was removed may be there again.
    brought_back: bool,
    /// Where the latest commit ends that its owners before may have made of its keys, if that may not be durable.
    pub(crate) after: Lsn,
}

/// A lock that a reader has waited for, and has while it reads.
pub(crate) struct ReadLock<'l> {
    locks: &'l Locks,
    held: HeldLocks,
}

impl Drop for ReadLock<'_> {
    fn drop(&mut self) {
        self.locks.release(std::mem::take(&mut self.held), false);
    }
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
        self.lock_hash(txn, xxh3_64(key), true, held)
    }

    /// Locks a key if that needs no waiting, and returns whether the transaction has the lock.
    pub(crate) fn try_lock(&self, txn: TxnId, key: &[u8], held: &mut HeldLocks) -> bool {
        let hash = xxh3_64(key);
        let shard = self.shard(hash);
        self.take(shard, &mut shard.owners.lock(), hash, txn, held)
    }

    /// Takes a lock that no other transaction has. Returns false if another one has it.
    fn take(&self, shard: &LockShard, owners: &mut Owners<'_>, hash: u64, txn: TxnId, held: &mut HeldLocks) -> bool {
        match find(owners, hash) {
            Some(lock) if lock.owner != txn || txn == 0 && !lock.waiting.is_empty() => return false,
            Some(_) if txn != 0 => return true,
            Some(lock) => lock.shares += 1,
            None => {
                shard.count.fetch_add(1, Ordering::Relaxed);
                let lock = KeyLock { hash, owner: txn, shares: 1, waiting: VecDeque::new() };
                owners.insert_unique(hash, lock, |lock| lock.hash);
            }
        }
        self.note(hash, held);
        true
    }

    fn note(&self, hash: u64, held: &mut HeldLocks) {
        if held.hashes.is_empty() {
            self.holders.fetch_add(1, Ordering::Relaxed);
        }
        held.hashes.push(hash);
    }

    fn lock_hash(&self, txn: TxnId, hash: u64, changes: bool, held: &mut HeldLocks) -> Result<(), DatabaseError> {
        let shard = self.shard(hash);
        let owners = &mut shard.owners.lock();
        if self.take(shard, owners, hash, txn, held) {
            return Ok(());
        }
        let (has_it, after, woken) = (AtomicBool::new(false), AtomicU64::new(0), Condvar::new());
        let waiter = Arc::new(LockWaiter { txn, changes, has_it, after, woken });
        if let Some(lock) = find(owners, hash) {
            lock.waiting.push_back(Arc::clone(&waiter));
        }
        let waited = self.wait(&waiter, hash, owners);
        if txn != 0 {
            self.waits.lock().remove(&txn);
        }
        match waited {
            Ok(()) => {
                self.note(hash, held);
                held.after = held.after.max(waiter.after.load(Ordering::Relaxed));
            }
            Err(_) => {
                if let Some(lock) = find(owners, hash) {
                    lock.waiting.retain(|other| !Arc::ptr_eq(other, &waiter));
                }
            }
        }
        waited
    }

    /// Waits until the lock is handed over.
    fn wait(&self, waiter: &LockWaiter, hash: u64, owners: &mut Owners<'_>) -> Result<(), DatabaseError> {
        let since = Instant::now();
        let conflict = |deadlock| Err(DatabaseError::Conflict { deadlock, waited: since.elapsed() });
        // No transaction waits for a reader outside any transaction for long.
        if waiter.txn != 0 {
            let owner = find(owners, hash).map_or(0, |lock| lock.owner);
            let mut waits = self.waits.lock();
            if leads_to(&waits, owner, waiter.txn) {
                return conflict(true);
            }
            waits.insert(waiter.txn, owner);
        }
        // With so long a patience that the deadline overflows, there is none.
        let deadline = since.checked_add(self.patience);
        while !waiter.has_it.load(Ordering::Relaxed) {
            if self.stuck.load(Ordering::Acquire) || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return conflict(false);
            }
            match deadline {
                Some(deadline) => _ = waiter.woken.wait_until(owners, deadline),
                None => waiter.woken.wait(owners),
            }
        }
        Ok(())
    }

    /// Makes the one that has waited longest the owner; with it the readers outside any transaction behind it, if it is
    /// one. `after` is where the commit of the owner before ends, if it may not be durable.
    fn hand_over(&self, lock: &mut KeyLock, after: Lsn) {
        lock.shares = 0;
        while let Some(next) = lock.waiting.pop_front_if(|next| lock.shares == 0 || lock.owner == 0 && next.txn == 0) {
            (lock.owner, lock.shares) = (next.txn, lock.shares + 1);
            next.after.store(after, Ordering::Relaxed);
            next.has_it.store(true, Ordering::Relaxed);
            next.woken.notify_one();
        }
        let mut waits = self.waits.lock();
        for waiter in lock.waiting.iter().filter(|waiter| waiter.txn != 0) {
            waits.insert(waiter.txn, lock.owner);
        }
    }

    /// Hands the locks over for which transactions wait that are going to change the keys: the log has the commit of the
    /// owner, which ends at `lsn`. Keys that it has removed stay locked, since scans wait for them.
    pub(crate) fn hand_over_to_changes(&self, held: &mut HeldLocks, lsn: Lsn) {
        if !held.removed.is_empty() || held.hashes.is_empty() {
            return;
        }
        held.hashes.retain(|&hash| {
            let owners = &mut self.shard(hash).owners.lock();
            match find(owners, hash) {
                Some(lock) if lock.waiting.front().is_some_and(|next| next.changes) => {
                    self.hand_over(lock, lsn);
                    false
                }
                _ => true,
            }
        });
        if held.hashes.is_empty() {
            self.holders.fetch_sub(1, Ordering::Relaxed);
        }
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
        shard.count.load(Ordering::Relaxed) > 0
            && find(&mut shard.owners.lock(), hash).is_some_and(|lock| lock.owner != txn && lock.owner != 0)
    }

    /// Waits until no other transaction has locked the key, and locks it for the reader.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Conflict`].
    pub(crate) fn wait_for(&self, txn: TxnId, key: &[u8]) -> Result<ReadLock<'_>, DatabaseError> {
        let mut held = HeldLocks::default();
        self.lock_hash(txn, xxh3_64(key), false, &mut held)?;
        Ok(ReadLock { locks: self, held })
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
            for waiter in shard.owners.lock().iter().flat_map(|lock| &lock.waiting) {
                waiter.woken.notify_one();
            }
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
            let Ok(mut entry) = owners.find_entry(hash, |lock| lock.hash == hash) else {
                continue;
            };
            let lock = entry.get_mut();
            lock.shares -= 1;
            if lock.shares == 0 {
                self.hand_over(lock, 0);
            }
            if lock.shares == 0 {
                entry.remove();
                shard.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
        if !held.hashes.is_empty() {
            self.holders.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

type Owners<'o> = MutexGuard<'o, HashTable<KeyLock>>;

fn find<'o>(owners: &'o mut Owners<'_>, hash: u64) -> Option<&'o mut KeyLock> {
    owners.find_mut(hash, |lock| lock.hash == hash)
}

/// True if no key can be between the bounds.
pub(crate) fn is_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
    }
}

/// Whether `from` waits for `to`, directly or through other transactions. Only a transaction that begins to wait can close
/// a circle: one that a lock is handed over to waits for none.
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
        assert!(in_vain(refused) && in_vain(locks.wait_for(0, b"a").map(drop)));
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
    fn a_circle_through_the_next_owner_of_a_lock_is_found() {
        let locks = Locks::new(NEVER);
        let [mut one, mut two, mut three] = std::array::from_fn(|_| HeldLocks::default());
        locks.lock(1, b"b", &mut one).unwrap();
        locks.lock(2, b"a", &mut two).unwrap();
        std::thread::scope(|threads| {
            let third = threads.spawn(|| locks.lock(3, b"a", &mut three).map(|()| three));
            waits_for_any(&locks, 1);
            let first = threads.spawn(|| {
                let outcome = locks.lock(1, b"a", &mut one);
                locks.release(one, false);
                outcome
            });
            waits_for_any(&locks, 2);
            // Transaction 2 ends, and 3, which has waited longer, gets the lock that 1 waits for.
            locks.release(two, false);
            let mut three = third.join().unwrap().unwrap();
            assert!(is_deadlock(locks.lock(3, b"b", &mut three)));
            locks.release(three, false);
            first.join().unwrap().unwrap();
        });
        assert!(locks.waits.lock().is_empty());
    }

    #[test]
    fn waiting_threads_get_a_lock_in_the_order_in_which_they_came() {
        let locks = Locks::new(NEVER);
        let mut one = HeldLocks::default();
        locks.lock(1, b"a", &mut one).unwrap();
        let order = Mutex::new(Vec::new());
        let came = |count| {
            let hash = xxh3_64(b"a");
            while find(&mut locks.shard(hash).owners.lock(), hash).unwrap().waiting.len() < count {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|threads| {
            // Of these, 0 are readers.
            for (count, txn) in [2, 3, 0, 0, 4].into_iter().enumerate() {
                let (locks, order) = (&locks, &order);
                threads.spawn(move || {
                    let mut held = HeldLocks::default();
                    locks.lock_hash(txn, xxh3_64(b"a"), txn != 0, &mut held).unwrap();
                    order.lock().push((txn, held.after));
                    locks.release(held, false);
                });
                came(count + 1);
            }
            // The log has the commit of 1: the next one need not wait until it is durable.
            locks.hand_over_to_changes(&mut one, 77);
            assert!(one.hashes.is_empty());
        });
        assert_eq!(*order.lock(), [(2, 77), (3, 0), (0, 0), (0, 0), (4, 0)]);
        assert!(!locks.is_locked(9, b"a") && locks.holders.load(Ordering::Relaxed) == 0);
        let mut five = HeldLocks::default();
        locks.lock(5, b"a", &mut five).unwrap();
        std::thread::scope(|threads| {
            let reader = threads.spawn(|| drop(locks.wait_for(0, b"a").unwrap()));
            came(1);
            // A reader waits until it is durable.
            locks.hand_over_to_changes(&mut five, 99);
            assert_eq!(five.hashes.len(), 1);
            locks.release(five, false);
            reader.join().unwrap();
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
