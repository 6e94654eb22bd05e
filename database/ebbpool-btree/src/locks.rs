//! Locks on keys: a transaction locks the keys that it changes until it ends. Deadlocks are detected before a transaction
//! waits, by following which transaction waits for which.
//!
//! Readers do not wait. With its first change of a key, under the leaf's latch, a transaction notes where the log has what
//! the key was before, and a reader sees that until the transaction is *visible*: its commit is as durable as the database
//! demands. One number says up to where commits are, so all changes of a transaction, and those on which it builds, become
//! visible at once. After that a transaction releases its locks one by one, before the log may give up its records and
//! before it frees the pages of old values. So a reader that finds the same note before and after it has read an old value
//! has read what it should.
//!
//! A lock is handed over to the one that has waited longest, also when the commit of its owner is in the log and not yet
//! visible: the commit of the next owner comes later in the log. That one sees the commits up to there, and waits for them
//! at its end if it commits nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZeroU64;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use ebbpool::Lsn;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::DatabaseError;
use crate::log::{Position, TxnId};
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
    /// Commits that end up to here are visible.
    visible: AtomicU64,
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

/// A key that is locked, or whose change is not known to be visible.
#[derive(Debug)]
struct KeyLock {
    hash: u64,
    key: Box<[u8]>,
    owner: Option<Arc<LockHolder>>,
    /// What the key was before the owner changed it, if it has.
    before: Option<BeforeImage>,
    contended: Option<Box<Contended>>,
}

/// What few locks have.
#[derive(Debug, Default)]
struct Contended {
    waiting: VecDeque<Arc<LockWaiter>>,
    /// Owners before whose commits may not be visible, in their order, and what the key was before them.
    earlier: Vec<(Arc<LockHolder>, BeforeImage)>,
}

/// A transaction that has locks.
#[derive(Debug)]
struct LockHolder {
    txn: TxnId,
    /// Where its commit ends, 0 before.
    committed: AtomicU64,
}

/// What a key was before a transaction changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BeforeImage(NonZeroU64);

/// A thread that waits for a lock.
#[derive(Debug)]
struct LockWaiter {
    holder: Arc<LockHolder>,
    has_it: AtomicBool,
    /// Where the commit of the owner before ends, if that may not be visible.
    after: AtomicU64,
    woken: Condvar,
}

/// The locks and removed keys of one transaction.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks {
    /// There from the first lock on.
    holder: Option<Arc<LockHolder>>,
    hashes: Vec<u64>,
    removed: Vec<Vec<u8>>,
    /// A key that was removed may be there again.
    brought_back: bool,
    /// Where the latest commit ends that its owners before may have made of its keys, if that may not be visible.
    pub(crate) after: Lsn,
}

/// Who reads: a transaction, or 0, and up to where it sees commits that are not visible to others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reader {
    pub(crate) txn: TxnId,
    pub(crate) after: Lsn,
    /// The number of keys that it has removed itself.
    pub(crate) removed: usize,
}

impl BeforeImage {
    /// The key was not there. No record begins at this position.
    pub(crate) const ABSENT: Self = BeforeImage(NonZeroU64::MIN);

    /// The record at a position says how the change is undone.
    pub(crate) fn logged(position: Position) -> Self {
        NonZeroU64::new(position).map_or(Self::ABSENT, BeforeImage)
    }

    /// Where the log has it; nothing if the key was not there.
    pub(crate) fn position(self) -> Option<Position> {
        (self != Self::ABSENT).then_some(self.0.get())
    }
}

impl KeyLock {
    fn is_owned_by(&self, txn: TxnId) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.txn == txn)
    }

    fn earlier(&self) -> &[(Arc<LockHolder>, BeforeImage)] {
        self.contended.as_ref().map_or(&[], |contended| &contended.earlier)
    }

    /// Whether a transaction has the lock, or made a change before the owner did.
    fn concerns(&self, txn: TxnId) -> bool {
        self.is_owned_by(txn) || self.earlier().iter().any(|(holder, _)| holder.txn == txn)
    }
}

impl LockHolder {
    /// Whether its changes are to be seen where commits up to `visible` are.
    fn is_visible(&self, visible: Lsn) -> bool {
        let committed = self.committed.load(Ordering::Acquire);
        committed > 0 && committed <= visible
    }
}

impl HeldLocks {
    /// The reader that has these locks.
    pub(crate) fn reader(&self, txn: TxnId) -> Reader {
        Reader { txn, after: self.after, removed: self.removed.len() }
    }

    fn holder(&mut self, txn: TxnId) -> Arc<LockHolder> {
        let new = || Arc::new(LockHolder { txn, committed: AtomicU64::new(0) });
        Arc::clone(self.holder.get_or_insert_with(new))
    }
}

impl Locks {
    pub(crate) fn new(patience: Duration) -> Self {
        Locks {
            shards: (0..SHARDS).map(|_| LockShard::default()).collect(),
            holders: AtomicUsize::new(0),
            visible: AtomicU64::new(0),
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
        let owners = &mut shard.owners.lock();
        if self.take(shard, owners, hash, txn, key, held) {
            return Ok(());
        }
        let (has_it, after, woken) = (AtomicBool::new(false), AtomicU64::new(0), Condvar::new());
        let waiter = Arc::new(LockWaiter { holder: held.holder(txn), has_it, after, woken });
        if let Some(lock) = find(owners, hash, key) {
            lock.contended.get_or_insert_default().waiting.push_back(Arc::clone(&waiter));
        }
        let waited = self.wait(&waiter, hash, key, owners);
        self.waits.lock().remove(&txn);
        match waited {
            Ok(()) => {
                self.note(hash, held);
                held.after = held.after.max(waiter.after.load(Ordering::Relaxed));
            }
            Err(_) => {
                if let Some(contended) = find(owners, hash, key).and_then(|lock| lock.contended.as_mut()) {
                    contended.waiting.retain(|other| !Arc::ptr_eq(other, &waiter));
                }
            }
        }
        waited
    }

    /// Locks a key if that needs no waiting, and returns whether the transaction has the lock.
    pub(crate) fn try_lock(&self, txn: TxnId, key: &[u8], held: &mut HeldLocks) -> bool {
        let hash = xxh3_64(key);
        let shard = self.shard(hash);
        self.take(shard, &mut shard.owners.lock(), hash, txn, key, held)
    }

    /// Takes a lock that no other transaction has. Returns false if another one has it.
    fn take(
        &self,
        shard: &LockShard,
        owners: &mut Owners<'_>,
        hash: u64,
        txn: TxnId,
        key: &[u8],
        held: &mut HeldLocks,
    ) -> bool {
        match find(owners, hash, key) {
            Some(lock) if lock.owner.is_some() => return lock.is_owned_by(txn),
            Some(lock) => lock.owner = Some(held.holder(txn)),
            None => {
                shard.count.fetch_add(1, Ordering::Relaxed);
                let owner = Some(held.holder(txn));
                let lock = KeyLock { hash, key: key.into(), owner, before: None, contended: None };
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

    /// Waits until the lock is handed over.
    fn wait(&self, waiter: &LockWaiter, hash: u64, key: &[u8], owners: &mut Owners<'_>) -> Result<(), DatabaseError> {
        let since = Instant::now();
        let conflict = |deadlock| Err(DatabaseError::Conflict { deadlock, waited: since.elapsed() });
        let owner = find(owners, hash, key).and_then(|lock| lock.owner.as_ref()).map_or(0, |owner| owner.txn);
        {
            let (mut waits, txn) = (self.waits.lock(), waiter.holder.txn);
            if leads_to(&waits, owner, txn) {
                return conflict(true);
            }
            waits.insert(txn, owner);
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

    /// Makes the one that has waited longest the owner, if there is one. `after` is where the commit of the owner before
    /// ends, if it may not be visible.
    fn hand_over(&self, lock: &mut KeyLock, after: Lsn) {
        let waiting = lock.contended.as_mut().map(|contended| &mut contended.waiting);
        lock.owner = None;
        let Some((next, waiting)) = waiting.and_then(|waiting| Some((waiting.pop_front()?, waiting))) else {
            return;
        };
        lock.owner = Some(Arc::clone(&next.holder));
        next.after.store(after, Ordering::Relaxed);
        next.has_it.store(true, Ordering::Relaxed);
        next.woken.notify_one();
        let mut waits = self.waits.lock();
        // Before its thread wakes: it waits no longer, and no circle leads through it.
        waits.remove(&next.holder.txn);
        for waiter in waiting {
            waits.insert(waiter.holder.txn, next.holder.txn);
        }
    }

    /// The log has the commit of a transaction, which ends at `lsn`. Hands those of its locks over for which others wait,
    /// unless it has removed keys, since `removed` has one transaction for each.
    pub(crate) fn committed(&self, held: &HeldLocks, lsn: Lsn) {
        let Some(holder) = &held.holder else { return };
        // Before any other transaction builds on it.
        holder.committed.store(lsn, Ordering::Release);
        if !held.removed.is_empty() {
            return;
        }
        for &hash in &held.hashes {
            let owners = &mut self.shard(hash).owners.lock();
            let own = |lock: &KeyLock| lock.hash == hash && lock.is_owned_by(holder.txn);
            if let Some(lock) = owners.find_mut(hash, own)
                && let Some(contended) = lock.contended.as_mut().filter(|contended| !contended.waiting.is_empty())
            {
                contended.earlier.extend(lock.before.take().map(|before| (Arc::clone(holder), before)));
                self.hand_over(lock, lsn);
            }
        }
    }

    /// The commits up to `lsn` are as durable as they have to be.
    pub(crate) fn show(&self, lsn: Lsn) {
        self.visible.fetch_max(lsn, Ordering::AcqRel);
    }

    /// A transaction, which has locked the key and its leaf's latch, is about to change it. Only its first change counts.
    pub(crate) fn changing(&self, key: &[u8], before: BeforeImage) {
        let hash = xxh3_64(key);
        if let Some(lock) = find(&mut self.shard(hash).owners.lock(), hash, key) {
            lock.before.get_or_insert(before);
        }
    }

    /// What a reader sees of a key in place of what is in its leaf: what the key was before the first change that the
    /// reader is not to see. Nothing if there is no such change. Cheap if there are no locks.
    ///
    /// The caller holds the leaf's latch, and a transaction that changed the leaf had locked the key
    /// before. The latch therefore orders the relaxed counters: the caller sees their values at that change
    /// or later ones.
    pub(crate) fn before(&self, reader: Reader, key: &[u8]) -> Option<BeforeImage> {
        if self.holders.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let hash = xxh3_64(key);
        let shard = self.shard(hash);
        if shard.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let owners = &mut shard.owners.lock();
        let lock = find(owners, hash, key)?;
        let owner = lock.owner.iter().filter(|owner| owner.txn != reader.txn);
        let changes = lock.earlier().iter().map(|(holder, before)| (holder, *before)).chain(owner.zip(lock.before));
        let visible = reader.after.max(self.visible.load(Ordering::Acquire));
        changes.into_iter().find(|(holder, _)| !holder.is_visible(visible)).map(|(_, before)| before)
    }

    /// Announces that a transaction is about to remove a key that it has locked: scans no longer find the
    /// key, and have to look it up. Returns false if this was announced before.
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

    /// Keys between the bounds that other transactions have removed: the first `most` of them in ascending order, or the last
    /// in descending order.
    pub(crate) fn removed_between(
        &self,
        reader: Reader,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        ascending: bool,
        most: usize,
    ) -> Vec<Vec<u8>> {
        // Without those of others it need not pass its own.
        if self.removed_count.load(Ordering::Acquire) == reader.removed || is_empty(from, to) {
            return Vec::new();
        }
        let (removed, txn) = (self.removed.read(), reader.txn);
        let between = removed.range::<[u8], _>((from, to)).filter(|&(_, &by)| by != txn).map(|(key, _)| key.clone());
        match ascending {
            true => between.take(most).collect(),
            false => between.rev().take(most).collect(),
        }
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
            let owners = shard.owners.lock();
            for waiter in owners.iter().filter_map(|lock| lock.contended.as_ref()).flat_map(|contended| &contended.waiting) {
                waiter.woken.notify_one();
            }
        }
    }

    /// Releases the locks of a transaction that has ended; `rolled_back` if its removals were undone.
    pub(crate) fn release(&self, held: &mut HeldLocks, rolled_back: bool) {
        let held = std::mem::take(held);
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
        let txn = held.holder.map_or(0, |holder| holder.txn);
        for &hash in &held.hashes {
            let shard = self.shard(hash);
            let mut owners = shard.owners.lock();
            let Ok(mut entry) = owners.find_entry(hash, |lock| lock.hash == hash && lock.concerns(txn)) else {
                continue;
            };
            let lock = entry.get_mut();
            if let Some(contended) = &mut lock.contended {
                contended.earlier.retain(|(holder, _)| holder.txn != txn);
            }
            if lock.is_owned_by(txn) {
                lock.before = None;
                self.hand_over(lock, 0);
            }
            if lock.owner.is_none() && lock.earlier().is_empty() {
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

fn find<'o>(owners: &'o mut Owners<'_>, hash: u64, key: &[u8]) -> Option<&'o mut KeyLock> {
    owners.find_mut(hash, |lock| lock.hash == hash && *lock.key == *key)
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
        assert!(!locks.try_lock(2, b"a", &mut two) && locks.try_lock(2, b"b", &mut two));
        let refused = locks.lock(2, b"a", &mut two);
        assert!(matches!(refused, Err(DatabaseError::Conflict { deadlock: false, .. })));
        locks.release(&mut one, false);
        assert!(locks.try_lock(2, b"a", &mut two) && !locks.try_lock(1, b"a", &mut one));
        locks.release(&mut two, false);
        assert_eq!(left(&locks), (0, 0));
        assert!(locks.waits.lock().is_empty());
    }

    /// How many locks and holders there are.
    fn left(locks: &Locks) -> (usize, usize) {
        let locked = locks.shards.iter().map(|shard| shard.owners.lock().len());
        (locked.sum(), locks.holders.load(Ordering::Relaxed))
    }

    /// The locks of transaction 2, which waits for the key until that of `one` commits.
    fn handed_over(locks: &Locks, one: &HeldLocks, commit: Lsn) -> HeldLocks {
        std::thread::scope(|threads| {
            let second = threads.spawn(|| {
                let mut two = HeldLocks::default();
                locks.lock(2, b"a", &mut two).map(|()| two)
            });
            waits_for_any(locks, 1);
            locks.committed(one, commit);
            second.join().unwrap().unwrap()
        })
    }

    #[test]
    fn a_reader_sees_what_a_key_was_before_the_first_change_that_is_not_visible() {
        let locks = Locks::new(NEVER);
        let mut one = HeldLocks::default();
        let seen = |txn, after| {
            let seen = locks.before(Reader { txn, after, removed: 0 }, b"a");
            seen.map(|before| before.position().unwrap_or(0))
        };
        assert_eq!(seen(0, 0), None);
        locks.lock(1, b"a", &mut one).unwrap();
        assert_eq!(seen(0, 0), None, "it is only locked");
        locks.changing(b"a", BeforeImage::ABSENT);
        locks.changing(b"a", BeforeImage::logged(70));
        assert_eq!([seen(0, 0), seen(1, 0), seen(2, 0)], [Some(0), None, Some(0)]);
        let mut two = handed_over(&locks, &one, 90);
        // The second one builds on the commit of the first one, which others do not see yet.
        assert_eq!([seen(0, 0), seen(2, two.after), seen(3, 89)], [Some(0), None, Some(0)]);
        locks.changing(b"a", BeforeImage::logged(100));
        assert_eq!([seen(0, 0), seen(2, two.after), seen(3, 90)], [Some(0), None, Some(100)]);
        locks.show(90);
        assert_eq!([seen(0, 0), seen(2, two.after)], [Some(100), None]);
        locks.release(&mut one, false);
        assert_eq!(seen(0, 0), Some(100));
        locks.committed(&two, 120);
        assert_eq!(seen(0, 0), Some(100));
        locks.show(130);
        assert_eq!(seen(0, 0), None);
        assert_eq!(left(&locks), (1, 1));
        locks.release(&mut two, false);
        assert_eq!(left(&locks), (0, 0));
    }

    /// The commit of the later one makes that of the earlier one visible, which releases its locks last.
    #[test]
    fn an_earlier_change_remains_known_until_its_transaction_releases_it() {
        let locks = Locks::new(NEVER);
        let [mut one, mut three] = std::array::from_fn(|_| HeldLocks::default());
        locks.lock(1, b"a", &mut one).unwrap();
        locks.changing(b"a", BeforeImage::logged(70));
        let mut two = handed_over(&locks, &one, 90);
        locks.changing(b"a", BeforeImage::logged(100));
        locks.committed(&two, 120);
        locks.show(120);
        locks.release(&mut two, false);
        assert_eq!(locks.before(Reader::default(), b"a"), None);
        assert!(locks.try_lock(3, b"a", &mut three));
        locks.changing(b"a", BeforeImage::logged(130));
        assert_eq!(locks.before(Reader::default(), b"a"), Some(BeforeImage::logged(130)));
        locks.release(&mut three, true);
        assert_eq!(left(&locks), (1, 1));
        locks.release(&mut one, false);
        assert_eq!(left(&locks), (0, 0));
    }

    #[test]
    fn keys_with_the_same_hash_have_locks_of_their_own() {
        let locks = Locks::new(Duration::ZERO);
        let (shard, [mut one, mut two]) = (locks.shard(7), std::array::from_fn(|_| HeldLocks::default()));
        let take = |txn, key: &[u8], held: &mut HeldLocks| locks.take(shard, &mut shard.owners.lock(), 7, txn, key, held);
        assert!(take(1, b"a", &mut one) && take(2, b"b", &mut two) && take(1, b"c", &mut one));
        assert!(!take(2, b"c", &mut two) && take(2, b"b", &mut two));
        locks.release(&mut one, false);
        assert_eq!(left(&locks), (1, 1));
        assert!(!take(1, b"b", &mut one) && take(1, b"a", &mut one));
        locks.release(&mut two, false);
        locks.release(&mut one, false);
        assert_eq!(left(&locks), (0, 0));
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
                    locks.release(&mut held, false);
                });
            }
            waits_for_any(&locks, 4);
            done.store(true, Ordering::SeqCst);
            locks.release(&mut one, false);
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
                        locks.release(&mut held, false);
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
                locks.release(&mut one, false);
                outcome
            });
            waits_for_any(&locks, 2);
            // Transaction 2 ends, and 3, which has waited longer, gets the lock that 1 waits for.
            locks.release(&mut two, false);
            let mut three = third.join().unwrap().unwrap();
            assert!(is_deadlock(locks.lock(3, b"b", &mut three)));
            locks.release(&mut three, false);
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
        std::thread::scope(|threads| {
            for (count, txn) in [2, 4, 3].into_iter().enumerate() {
                let (locks, order) = (&locks, &order);
                threads.spawn(move || {
                    let mut held = HeldLocks::default();
                    locks.lock(txn, b"a", &mut held).unwrap();
                    order.lock().push((txn, held.after));
                    locks.release(&mut held, false);
                });
                waits_for_any(locks, count + 1);
            }
            // The log has the commit of 1: the next one need not wait until it is durable.
            locks.committed(&one, 77);
        });
        assert_eq!(*order.lock(), [(2, 77), (4, 0), (3, 0)]);
        locks.release(&mut one, false);
        assert_eq!(left(&locks), (0, 0));
    }

    #[test]
    fn other_transactions_see_removals_until_they_end() {
        let locks = Locks::new(NEVER);
        let mut held = HeldLocks::default();
        locks.lock(1, b"k", &mut held).unwrap();
        assert!(locks.removing(1, b"k", &mut held));
        assert!(!locks.removing(1, b"k", &mut held));
        let k: &[u8] = b"k";
        let all = (Bound::Unbounded, Bound::Unbounded);
        let after = (Bound::Excluded(k), Bound::Unbounded);
        let seen = |txn, within, ascending| {
            // The first one has removed one key where it is asked.
            let removed = usize::from(txn == 1);
            locks.removed_between(Reader { txn, after: 0, removed }, within, ascending, 1)
        };
        assert_eq!(seen(2, all, true), [b"k".to_vec()]);
        assert!(seen(1, all, true).is_empty() && seen(2, after, true).is_empty());
        assert!(seen(2, (Bound::Excluded(k), Bound::Excluded(k)), true).is_empty());
        let before = locks.brought_back();
        locks.removing(1, b"l", &mut held);
        assert_eq!([seen(2, all, true), seen(2, all, false)], [[b"k".to_vec()], [b"l".to_vec()]]);
        locks.not_removed(&mut held);
        assert!(seen(2, after, true).is_empty());
        locks.release(&mut held, true);
        assert_ne!(locks.brought_back(), before);
        assert!(seen(2, all, true).is_empty());
    }
}
