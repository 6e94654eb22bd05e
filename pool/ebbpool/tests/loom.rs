//! The frame word, the page table, the set of dirty frames and the LSNs of changes, alone and together as they share
//! frames, under every interleaving of a few threads, up to a bound on preemptions, and
//! under every value that the memory model allows a load to return.

#![allow(unsafe_code)]

mod sync {
    use std::ops::Add;
    use std::time::Duration;

    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

    /// A lock whose `lock` returns the guard, as that of `parking_lot` does.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(content: T) -> Self {
            Mutex(loom::sync::Mutex::new(content))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("no thread panics")
        }
    }

    /// A clock that stands still, and so every time has come.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
    pub(crate) struct Instant;

    impl Instant {
        pub(crate) fn now() -> Self {
            Instant
        }

        pub(crate) fn elapsed(self) -> Duration {
            Duration::ZERO
        }
    }

    impl Add<Duration> for Instant {
        type Output = Instant;

        fn add(self, _: Duration) -> Instant {
            self
        }
    }
}

#[path = "../src/boxed.rs"]
mod boxed;

#[allow(dead_code)]
#[path = "../src/frames/changes.rs"]
mod changes;

#[allow(dead_code)]
#[path = "../src/frames/dirty.rs"]
mod dirty;

#[allow(dead_code)]
#[path = "../src/frames/queues.rs"]
mod queues;

#[allow(dead_code)]
#[path = "../src/table.rs"]
mod table;

#[allow(dead_code)]
#[path = "../src/frames/word.rs"]
mod word;

use std::collections::BTreeSet;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use changes::PageChanges;
use dirty::DirtySet;
use queues::{Queues, Ticket, Turn};
use sync::{AtomicU64, Ordering};
use table::{Entries, PageTable, SLOTS};
use word::{FrameState, FrameWord, HitEpoch, WaitCondition};

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A frame whose bytes are a cell that loom watches: it fails if two threads access it at the same time and one of
/// them writes. The bytes hold the page's number.
struct Frame {
    word: FrameWord,
    page: AtomicU64,
    bytes: UnsafeCell<(u64, u32)>,
}

impl Frame {
    /// A frame that holds `page`, clean and never changed.
    fn holding(page: u64) -> Self {
        let frame = Frame { word: FrameWord::new(), page: AtomicU64::new(0), bytes: UnsafeCell::new((0, 0)) };
        assert!(frame.word.claim());
        frame.load(page);
        assert!(!frame.word.unexclude());
        frame
    }

    /// Loads a page as the pool does, under the exclusive latch.
    fn load(&self, page: u64) {
        self.word.begin_load();
        self.page.store(page, Ordering::Relaxed);
        self.set_bytes((page, 0));
        self.word.loaded(false);
    }

    fn bytes(&self) -> (u64, u32) {
        // SAFETY: called with a latch, and loom reports if that does not suffice.
        self.bytes.with(|bytes| unsafe { *bytes })
    }

    fn set_bytes(&self, to: (u64, u32)) {
        // SAFETY: called with the exclusive latch, and loom reports if that does not suffice.
        self.bytes.with_mut(|bytes| unsafe { *bytes = to });
    }

    /// The page and its number of changes, if a shared latch can be taken.
    fn read(&self) -> Option<(u64, u32)> {
        self.word.share(true).ok()?;
        let (page, changes) = self.bytes();
        assert_eq!(page, self.page.load(Ordering::Relaxed), "bytes of another page");
        self.word.unshare();
        Some((page, changes))
    }

    /// Changes the page; false if the latch could not be taken.
    fn change(&self) -> bool {
        let Ok(_) = self.word.exclude(false, HitEpoch::NONE) else {
            return false;
        };
        let (page, changes) = self.bytes();
        assert_eq!(page, self.page.load(Ordering::Relaxed), "bytes of another page");
        self.set_bytes((page, changes + 1));
        self.word.unexclude();
        true
    }
}

#[test]
fn reader_writer_and_eviction_exclude_each_other() {
    check(2, || {
        let frame = Arc::new(Frame::holding(1));
        let reader = thread::spawn({
            let frame = Arc::clone(&frame);
            move || frame.read()
        });
        let writer = thread::spawn({
            let frame = Arc::clone(&frame);
            move || frame.change()
        });
        let was_dirty = frame.word.claim_victim();
        if was_dirty.is_some() {
            frame.load(2);
            frame.word.unexclude();
        }
        let read = reader.join().expect("a reader");
        let changed = writer.join().expect("a writer");
        let (page, changes) = frame.bytes();
        assert_eq!(page, if was_dirty.is_some() { 2 } else { 1 });
        // Either the change is in the frame, or its page was evicted, and then it was dirty.
        let evicted_dirty = was_dirty == Some(true);
        assert_eq!(changed, changes == 1 || evicted_dirty);
        assert_eq!(frame.word.state() == FrameState::Dirty, changes == 1);
        if let Some((page, changes)) = read {
            assert!(page <= 2 && changes <= 1);
        }
    });
}

#[test]
fn a_page_changed_while_it_is_written_stays_dirty() {
    check(4, || {
        let frame = Arc::new(Frame::holding(1));
        assert!(frame.change());
        let writer = thread::spawn({
            let frame = Arc::clone(&frame);
            move || frame.change()
        });
        let mut copy = None;
        if frame.word.share(false).is_ok() {
            if frame.word.begin_write() {
                copy = Some(frame.bytes());
            }
            frame.word.unshare();
        }
        let was_clean = copy.is_some() && frame.word.written().clean;
        let changed = writer.join().expect("a writer");
        let bytes = frame.bytes();
        assert_eq!(bytes, (1, if changed { 2 } else { 1 }));
        match frame.word.state() {
            FrameState::Clean => assert!(was_clean && copy == Some(bytes)),
            FrameState::Dirty => assert!(copy != Some(bytes)),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_write_back_that_failed_leaves_the_page_dirty() {
    check(4, || {
        let frame = Arc::new(Frame::holding(1));
        assert!(frame.change());
        let writer = thread::spawn({
            let frame = Arc::clone(&frame);
            move || frame.change()
        });
        if frame.word.share(false).is_ok() {
            let begun = frame.word.begin_write();
            frame.word.unshare();
            if begun {
                frame.word.write_failed();
            }
        }
        writer.join().expect("a writer");
        assert_eq!(frame.word.state(), FrameState::Dirty);
    });
}

/// Of two readers that want to change the page at most one does, and a writer gets no latch beside it.
#[test]
fn at_most_one_of_two_readers_becomes_the_writer() {
    check(3, || {
        let frame = Arc::new(Frame::holding(1));
        let upgrades = |frame: &Frame| {
            if frame.word.share(false).is_err() {
                return 0;
            }
            let (page, changes) = frame.bytes();
            if frame.word.upgrade(HitEpoch::NONE).is_err() {
                frame.word.unshare();
                return 0;
            }
            assert_eq!(frame.bytes(), (page, changes), "another thread has changed the page in between");
            frame.set_bytes((page, changes + 1));
            frame.word.unexclude();
            1
        };
        let (other, third) = (Arc::clone(&frame), Arc::clone(&frame));
        let upgrader = thread::spawn(move || upgrades(&other));
        let writer = thread::spawn(move || u32::from(third.change()));
        let changes = upgrades(&frame) + upgrader.join().expect("a reader") + writer.join().expect("a writer");
        assert_eq!(frame.read(), Some((1, changes)));
        assert_eq!(frame.word.state(), if changes > 0 { FrameState::Dirty } else { FrameState::Clean });
    });
}

/// A thread that lowers the bound of the pages in use finds a page that another one changes, or that one loads the lower
/// bound, and raises it (`numbers.rs`, 2).
#[test]
fn a_page_that_is_changed_is_in_use() {
    check(3, || {
        let frame = Arc::new(Frame::holding(1));
        let bound = Arc::new(AtomicU64::new(9));
        let lowers = thread::spawn({
            let (frame, bound) = (Arc::clone(&frame), Arc::clone(&bound));
            move || {
                bound.swap(0, Ordering::AcqRel);
                let found = frame.word.ordered_state() != FrameState::Clean;
                bound.fetch_max(if found { 2 } else { 0 }, Ordering::AcqRel);
            }
        });
        frame.word.exclude(false, HitEpoch::NONE).expect("the latch");
        if bound.load(Ordering::Relaxed) <= 1 {
            bound.fetch_max(2, Ordering::AcqRel);
        }
        frame.word.unexclude();
        lowers.join().expect("a thread");
        assert!(bound.load(Ordering::Relaxed) > 1);
    });
}

/// If two threads hit a page in one epoch, exactly one of them reports its hit to the policy.
#[test]
fn one_of_two_hits_in_an_epoch_is_reported() {
    check(3, || {
        let frame = Arc::new(Frame::holding(1));
        let epoch = HitEpoch::NONE.next();
        let other = thread::spawn({
            let frame = Arc::clone(&frame);
            move || {
                let fixed = frame.word.fix(false, epoch).expect("a shared latch");
                frame.word.unshare();
                fixed.reported
            }
        });
        let fixed = frame.word.fix(false, epoch).expect("a shared latch");
        frame.word.unshare();
        let reported = other.join().expect("a reader");
        assert_ne!(fixed.reported, reported);
        let later = frame.word.fix(false, epoch.next());
        assert!(later.is_ok_and(|fixed| !fixed.reported));
    });
}

/// Once a copy of a page is taken, the policy may believe the page clean: then the next change has to be reported, in
/// any epoch.
#[test]
fn the_first_change_after_a_copy_is_reported() {
    check(3, || {
        let frame = Arc::new(Frame::holding(1));
        let epoch = HitEpoch::NONE.next();
        assert!(frame.word.exclude(false, epoch).is_ok_and(|it| !it.fixed.reported));
        frame.word.unexclude();
        assert!(frame.word.exclude(false, epoch).is_ok_and(|it| it.fixed.reported));
        frame.word.unexclude();
        let writer = thread::spawn({
            let frame = Arc::clone(&frame);
            move || {
                let excluded = frame.word.exclude(false, epoch).ok()?;
                frame.word.unexclude();
                Some(excluded.fixed.reported)
            }
        });
        let mut copied = false;
        if frame.word.share(false).is_ok() {
            copied = frame.word.begin_write();
            frame.word.unshare();
        }
        let clean = copied && frame.word.written().clean;
        let reported = writer.join().expect("a writer");
        match reported {
            // The change was made before the copy, or after it.
            Some(true) => assert!(!copied || clean),
            Some(false) => assert_eq!(frame.word.state(), FrameState::Dirty),
            None => {}
        }
    });
}

/// A thread panics while it changes the page, at any moment of a copy's flight.
#[test]
fn an_abandoned_page_keeps_its_frame_until_its_copy_has_landed() {
    check(4, || {
        let frame = Arc::new(Frame::holding(1));
        assert!(frame.change());
        let panics = thread::spawn({
            let frame = Arc::clone(&frame);
            move || {
                let excluded = frame.word.exclude(false, HitEpoch::NONE).is_ok();
                if excluded {
                    frame.word.abandon();
                    frame.word.unexclude();
                }
                excluded
            }
        });
        let mut in_flight = false;
        if frame.word.share(false).is_ok() {
            in_flight = frame.word.begin_write();
            frame.word.unshare();
        }
        if in_flight {
            // A caller tries to discard the page before the copy has landed.
            assert!(frame.word.claim_to_drop().is_err());
            assert!(frame.word.claim_victim().is_none());
            frame.word.written();
        }
        let abandoned = panics.join().expect("a thread");
        let state = frame.word.state();
        assert_eq!(state == FrameState::Abandoned, abandoned, "{state:?}");
        assert_eq!(frame.word.claim_to_drop(), Ok(()));
        frame.word.vacate();
        assert_eq!(frame.word.state(), FrameState::Free);
    });
}

/// A frame, and its waiting room as in `frames/waiting.rs`, made of a lock and a condition variable.
struct FrameWithWaiters {
    frame: Frame,
    room: Mutex<Room>,
    woken: Condvar,
}

/// The number of the only frame.
const FRAME: u32 = 0;

#[derive(Default)]
struct Room {
    queues: Queues,
    /// The number of elders that sleep in their turns.
    sleep_in_turn: u32,
}

/// How a thread is queued.
#[derive(Default)]
struct QueuedThread {
    is_writer: bool,
    elder: Option<Ticket>,
    has_turn: bool,
}

/// When a thread of the model becomes an elder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Becomes {
    Newcomer,
    Elder,
    Urgent,
}

impl FrameWithWaiters {
    fn new() -> Arc<Self> {
        Arc::new(FrameWithWaiters { frame: Frame::holding(1), room: Mutex::new(Room::default()), woken: Condvar::new() })
    }

    fn wake_if(&self, has_waiters: bool) {
        if has_waiters {
            drop(self.room.lock().expect("the lock"));
            self.woken.notify_all();
        }
    }

    fn wait(&self, awaited: WaitCondition, becomes: Becomes, queued: &mut QueuedThread) {
        let mut room = self.room.lock().expect("the lock");
        if becomes != Becomes::Newcomer && queued.elder.is_none() {
            let urgent = becomes == Becomes::Urgent;
            queued.elder = Some(room.queues.add_elder(FRAME, urgent));
        }
        let turn = queued.elder.map(|ticket| room.queues.turn(FRAME, ticket));
        queued.has_turn = turn == Some(Turn::Now);
        let awaited = awaited.in_turn(queued.has_turn);
        if !self.frame.word.note_waiter(awaited, queued.has_turn) {
            return;
        }
        if awaited.is_writer() && !queued.is_writer {
            room.queues.add_writer(FRAME);
            queued.is_writer = true;
        }
        room.sleep_in_turn += u32::from(queued.has_turn);
        let mut room = self.woken.wait(room).expect("the lock");
        room.sleep_in_turn -= u32::from(queued.has_turn);
    }

    fn end(&self, queued: &QueuedThread) {
        if !queued.is_writer && queued.elder.is_none() {
            return;
        }
        let mut room = self.room.lock().expect("the lock");
        let mut wakes = false;
        if let Some(ticket) = queued.elder {
            let left = room.queues.remove_elder(FRAME, ticket);
            if left.ends_turns {
                self.frame.word.turn_ended();
            }
            wakes = left.wakes;
        }
        if queued.is_writer && room.queues.remove_writer(FRAME) {
            wakes |= self.frame.word.last_writer_stopped();
        }
        if room.sleep_in_turn > 0 {
            assert!(self.frame.word.elder_waits(), "the end of a turn ends another");
        }
        drop(room);
        if wakes {
            self.woken.notify_all();
        }
    }

    /// Waits for the exclusive latch without a deadline. No thread takes the latch again after it has released it, so
    /// that a lost flag is a deadlock, which loom finds.
    fn change(&self) {
        self.change_as(Becomes::Newcomer);
    }

    fn change_as(&self, becomes: Becomes) {
        let mut queued = QueuedThread::default();
        while self.frame.word.exclude(queued.has_turn, HitEpoch::NONE).is_err() {
            self.wait(WaitCondition::Exclusive { in_turn: false }, becomes, &mut queued);
        }
        self.end(&queued);
        let (page, changes) = self.frame.bytes();
        self.frame.set_bytes((page, changes + 1));
        self.wake_if(self.frame.word.unexclude());
    }

    /// Waits for the exclusive latch once, and then gives up.
    fn give_up(&self) {
        if self.frame.word.exclude(false, HitEpoch::NONE).is_ok() {
            self.wake_if(self.frame.word.unexclude());
            return;
        }
        let mut queued = QueuedThread::default();
        let mut room = self.room.lock().expect("the lock");
        let awaited = WaitCondition::Exclusive { in_turn: false };
        if self.frame.word.note_waiter(awaited, false) {
            room.queues.add_writer(FRAME);
            queued.is_writer = true;
        }
        drop(room);
        self.end(&queued);
    }

    fn read(&self) -> u32 {
        let since = self.frame.word.version_now();
        loop {
            let polite = self.frame.word.version_now() == since;
            if self.frame.word.share(polite).is_ok() {
                break;
            }
            let polite_since = Some(since);
            let awaited = WaitCondition::Shared { polite_since };
            self.wait(awaited, Becomes::Newcomer, &mut QueuedThread::default());
        }
        let (_, changes) = self.frame.bytes();
        self.wake_if(self.frame.word.unshare());
        changes
    }

    /// Reads as a thread that has waited for long.
    fn read_as(&self, becomes: Becomes) -> u32 {
        let mut queued = QueuedThread::default();
        while self.frame.word.share(false).is_err() {
            let awaited = WaitCondition::Shared { polite_since: None };
            self.wait(awaited, becomes, &mut queued);
        }
        self.end(&queued);
        let (_, changes) = self.frame.bytes();
        self.wake_if(self.frame.word.unshare());
        changes
    }

    /// Checks that readers do not wait.
    fn assert_quiet(&self) {
        let room = self.room.lock().expect("the lock");
        assert!(room.queues.is_empty());
        drop(room);
        assert!(self.frame.word.exclude(false, HitEpoch::NONE).is_ok());
        self.frame.word.unexclude();
        assert_eq!(self.frame.word.share(true), Ok(false));
        assert!(!self.frame.word.unshare());
    }
}

#[test]
fn no_reader_waits_after_the_last_writer_has_stopped_waiting() {
    check(2, || {
        let waited = FrameWithWaiters::new();
        let writer = thread::spawn({
            let waited = Arc::clone(&waited);
            move || waited.change()
        });
        let impatient = thread::spawn({
            let waited = Arc::clone(&waited);
            move || waited.give_up()
        });
        assert!(waited.read() <= 1);
        writer.join().expect("a writer");
        impatient.join().expect("a writer");
        waited.assert_quiet();
    });
}

#[test]
fn elders_and_those_that_let_them_go_first_are_woken() {
    let (newcomer, elder) = (Becomes::Newcomer, Becomes::Elder);
    for both in [[elder, elder], [elder, newcomer], [newcomer, elder]] {
        check(2, move || {
            let waited = FrameWithWaiters::new();
            let writers = both.map(|becomes| {
                let waited = Arc::clone(&waited);
                thread::spawn(move || waited.change_as(becomes))
            });
            waited.change();
            for writer in writers {
                writer.join().expect("a writer");
            }
            assert_eq!(waited.frame.bytes(), (1, 3));
            waited.assert_quiet();
        });
    }
}

#[test]
fn a_reader_that_is_an_elder_is_woken_and_leaves_no_flag() {
    for (reads, writes) in [
        (Becomes::Elder, Becomes::Elder),
        (Becomes::Elder, Becomes::Newcomer),
        // The background writer beside an elder: the end of its turn leaves that of the other one.
        (Becomes::Urgent, Becomes::Elder),
    ] {
        check(2, move || {
            let waited = FrameWithWaiters::new();
            let reader = thread::spawn({
                let waited = Arc::clone(&waited);
                move || waited.read_as(reads)
            });
            let writer = thread::spawn({
                let waited = Arc::clone(&waited);
                move || waited.change_as(writes)
            });
            waited.change();
            writer.join().expect("a writer");
            assert!(reader.join().expect("a reader") <= 2);
            waited.assert_quiet();
        });
    }
}

#[test]
fn a_thread_that_waits_for_a_copy_to_land_is_woken() {
    check(3, || {
        let waited = FrameWithWaiters::new();
        assert!(waited.frame.change());
        assert!(waited.frame.word.share(false).is_ok());
        assert!(waited.frame.word.begin_write());
        waited.frame.word.unshare();
        let drops = thread::spawn({
            let waited = Arc::clone(&waited);
            move || {
                let mut queued = QueuedThread::default();
                while waited.frame.word.claim_to_drop().is_err() {
                    waited.wait(WaitCondition::Drop, Becomes::Newcomer, &mut queued);
                }
                waited.end(&queued);
                waited.wake_if(waited.frame.word.vacate());
            }
        });
        let landed = waited.frame.word.write_failed();
        assert!(!landed.clean);
        waited.wake_if(landed.wake);
        drops.join().expect("a thread");
        assert_eq!(waited.frame.word.state(), FrameState::Free);
    });
}

#[test]
fn threads_that_wait_for_a_writer_are_woken() {
    check(2, || {
        let waited = FrameWithWaiters::new();
        let writer = thread::spawn({
            let waited = Arc::clone(&waited);
            move || waited.change()
        });
        let reader = thread::spawn({
            let waited = Arc::clone(&waited);
            move || waited.read()
        });
        waited.change();
        writer.join().expect("a writer");
        assert!(reader.join().expect("a reader") <= 2);
        assert_eq!(waited.frame.bytes(), (1, 2));
    });
}

#[test]
fn a_thread_that_waits_for_a_page_to_be_loaded_is_woken() {
    check(3, || {
        let waited = FrameWithWaiters::new();
        assert_eq!(waited.frame.word.claim_victim(), Some(false));
        waited.frame.word.begin_load();
        let reader = thread::spawn({
            let waited = Arc::clone(&waited);
            move || waited.read()
        });
        waited.frame.set_bytes((1, 7));
        waited.frame.word.loaded(false);
        waited.wake_if(waited.frame.word.downgrade());
        assert_eq!(reader.join().expect("a reader"), 7);
        assert!(!waited.frame.word.unshare());
    });
}

const KEY: [u64; 2] = [0, 0x9e37_79b9_7f4a_7c15];

/// The number of frames of the model: a bucket full of pages, and three more.
const FRAMES: usize = SLOTS + 3;

/// A table and the page numbers of its frames.
struct Tabled {
    table: PageTable,
    pages: [AtomicU64; FRAMES],
}

impl Entries for Tabled {
    fn page(&self, frame: u32) -> &AtomicU64 {
        &self.pages[frame as usize]
    }
}

/// Pages of the first and of the second home of a table with two buckets.
fn two_homes() -> (Vec<u64>, Vec<u64>) {
    let folded_product = |page: u64| {
        let product = u128::from(page) * u128::from(KEY[1]);
        (product >> 64) as u64 ^ product as u64
    };
    (1..80).partition(|&page| folded_product(folded_product(page)) >> 63 == 0)
}

impl Tabled {
    fn holding(pages: &[u64], dense: usize) -> Arc<Self> {
        let tabled = Tabled {
            table: PageTable::new(1, dense, KEY).expect("there is memory"),
            pages: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        for (frame, &page) in (0..).zip(pages) {
            tabled.insert(page, frame);
        }
        Arc::new(tabled)
    }

    fn insert(&self, page: u64, frame: u32) {
        self.pages[frame as usize].store(page, Ordering::Relaxed);
        self.table.insert(page, frame);
    }

    fn replace(&self, page: u64, frame: u32, by: u64) {
        self.table.remove(page, frame);
        self.insert(by, frame);
    }

    fn find(&self, page: u64) -> Option<u32> {
        self.table.find(page, self)
    }
}

/// While pages are replaced, a search finds a frame that holds or held the page, or none, and always a page that stays;
/// afterwards it finds exactly the pages that are in the table.
fn searched_while_replaced(before: &[u64], steps: [(u64, u32, u64); 2], dense: usize) {
    let tabled = Tabled::holding(before, dense);
    let changes = |page: u64| steps.iter().any(|&(from, _, by)| from == page || by == page);
    let stays = before.iter().copied().rfind(|&page| !changes(page));
    let searcher = thread::spawn({
        let (tabled, before) = (Arc::clone(&tabled), before.to_vec());
        move || {
            let replaced = steps.into_iter().flat_map(|(from, _, by)| [from, by]);
            let each: BTreeSet<u64> = replaced.chain(stays).collect();
            for page in each {
                let held = |frame: u32| {
                    before.get(frame as usize) == Some(&page) || steps.iter().any(|&(_, at, by)| (at, by) == (frame, page))
                };
                let found = tabled.find(page);
                assert!(found.is_some() || Some(page) != stays, "page {page} stays");
                if let Some(frame) = found {
                    assert!(held(frame), "page {page} was never in frame {frame}");
                }
            }
        }
    });
    let mut after = before.to_vec();
    for (page, frame, by) in steps {
        tabled.replace(page, frame, by);
        after[frame as usize] = by;
    }
    searcher.join().expect("a searcher");
    for (frame, &page) in (0..).zip(&after) {
        assert_eq!(tabled.find(page), Some(frame));
    }
    for (page, ..) in steps {
        let expected = after.iter().position(|&resident| resident == page);
        assert_eq!(tabled.find(page), expected.map(|frame| frame as u32));
    }
}

#[test]
fn a_search_finds_the_right_frame_or_none_while_its_bucket_is_changed() {
    let (one, other) = two_homes();
    let [a, b, c, d] = [one[0], one[1], one[2], one[3]];
    // In the same bucket, with frames that change places, and into the other bucket and back.
    for steps in [[(b, 1, d), (a, 0, b)], [(a, 0, d), (d, 0, a)], [(c, 2, other[0]), (other[0], 2, c)]] {
        check(2, move || searched_while_replaced(&[a, b, c], steps, 0));
    }
}

#[test]
fn a_search_by_number_finds_the_right_frame_or_none() {
    check(3, || {
        searched_while_replaced(&[0, 1, 2], [(1, 1, 3), (0, 0, 1)], 4);
    });
}

/// The frames of a table, with the bytes of one of them.
struct TableWithFrame {
    tabled: Arc<Tabled>,
    frame: Frame,
}

impl TableWithFrame {
    /// Fixes a page that may be resident, as `fix_read` does.
    fn fix(&self, page: u64) {
        let Some(0) = self.tabled.find(page) else {
            return;
        };
        if self.frame.word.share(true).is_err() {
            return;
        }
        if self.tabled.pages[0].load(Ordering::Relaxed) == page {
            assert_eq!(self.frame.bytes().0, page, "bytes of another page");
        }
        self.frame.word.unshare();
    }
}

#[test]
fn a_fix_never_returns_another_page() {
    check(3, || {
        let (one, _) = two_homes();
        let (a, b) = (one[0], one[1]);
        let fixed = Arc::new(TableWithFrame { tabled: Tabled::holding(&[a], 0), frame: Frame::holding(a) });
        let reader = thread::spawn({
            let fixed = Arc::clone(&fixed);
            move || {
                fixed.fix(a);
                fixed.fix(b);
            }
        });
        // As `Replacement::replace` and `Replacement::plan` do.
        if fixed.frame.word.claim_victim().is_some() {
            fixed.tabled.table.remove(a, 0);
            fixed.frame.word.begin_load();
            fixed.tabled.insert(b, 0);
            fixed.frame.set_bytes((b, 0));
            fixed.frame.word.loaded(false);
            fixed.frame.word.unexclude();
        }
        reader.join().expect("a reader");
    });
}

/// As `Optimistic` reads: the version first, and later a copy under a latch.
#[test]
fn bytes_copied_at_the_same_version_are_those_of_the_same_page() {
    check(3, || {
        let frame = Arc::new(Frame::holding(1));
        let reader = thread::spawn({
            let frame = Arc::clone(&frame);
            move || {
                let Ok(version) = frame.word.version() else {
                    return;
                };
                let page = frame.page.load(Ordering::Relaxed);
                if frame.word.version() != Ok(version) {
                    return;
                }
                let copies = [(), ()].map(|()| {
                    frame.word.share(false).ok()?;
                    let same = frame.word.version_now() == version;
                    let copy = same.then(|| frame.bytes());
                    frame.word.unshare();
                    copy
                });
                let [Some(first), Some(second)] = copies else {
                    return;
                };
                assert_eq!(first, second, "of two moments");
                assert_eq!(first.0, page, "of another page");
            }
        });
        let _ = frame.change();
        if frame.word.claim_victim().is_some() {
            frame.load(2);
            frame.word.unexclude();
        }
        reader.join().expect("a reader");
    });
}

/// Without a bound on preemptions.
fn check_all(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = None;
    builder.check(model);
}

#[test]
fn a_list_made_while_a_frame_is_inserted_hides_it_from_no_later_list() {
    check_all(|| {
        let set = Arc::new(DirtySet::new(1).expect("there is memory"));
        // The frame's word is all clear then, and its group's bit is set.
        set.insert(0);
        set.remove_unless(0, || false);
        let lister = thread::spawn({
            let set = Arc::clone(&set);
            move || drop(set.frames())
        });
        set.insert(0);
        lister.join().expect("a lister");
        assert_eq!(set.frames(), [0]);
        assert_eq!(set.count(), 1);
    });
}

#[test]
fn the_number_of_dirty_frames_is_never_below_zero() {
    check_all(|| {
        let set = Arc::new(DirtySet::new(1).expect("there is memory"));
        let [inserts, removes] = [Arc::clone(&set), Arc::clone(&set)];
        let threads = [thread::spawn(move || inserts.insert(0)), thread::spawn(move || removes.remove_unless(0, || false))];
        assert!(set.count() <= 1, "{} of 1", set.count());
        for thread in threads {
            thread.join().expect("a thread");
        }
        assert_eq!(set.count(), set.frames().len());
    });
}

/// A frame with the set of dirty frames and the LSNs of its changes, whose threads do what those of the pool do.
struct Tracked {
    word: FrameWord,
    set: DirtySet,
    changes: PageChanges,
}

impl Tracked {
    /// A frame with a page that was changed, with this LSN.
    fn changed(lsn: u64) -> Self {
        let tracked = Tracked {
            word: FrameWord::new(),
            set: DirtySet::new(1).expect("there is memory"),
            changes: PageChanges::default(),
        };
        assert!(tracked.word.claim());
        tracked.word.loaded(false);
        tracked.word.unexclude();
        assert!(tracked.change(lsn));
        tracked
    }

    /// As `Frames::exclude` and `ExclusiveLatch::set_lsn`; false if the latch could not be taken.
    fn change(&self, lsn: u64) -> bool {
        let Ok(excluded) = self.word.exclude(false, HitEpoch::NONE) else {
            return false;
        };
        if excluded.was_clean {
            self.set.insert(0);
        }
        self.changes.note_first(lsn);
        self.word.unexclude();
        true
    }

    /// As `CopySlot::take`; false if the page is not dirty, or latched.
    fn take_copy(&self) -> bool {
        if self.word.share(false).is_err() {
            return false;
        }
        let begun = self.word.begin_write();
        if begun {
            self.changes.took_off(0);
        }
        self.word.unshare();
        begun
    }

    /// As `CopyInFlight::written`.
    fn written(&self) {
        self.changes.landed();
        if self.word.written().clean {
            self.became_clean();
        }
    }

    /// As `CopyInFlight::failed`.
    fn failed(&self) {
        self.changes.turned_back();
        self.word.write_failed();
    }

    fn became_clean(&self) {
        let is_changed = || self.word.state().is_changed();
        self.set.remove_unless(0, is_changed);
    }

    /// As `ClaimedFrame::begin_load`; false if the page cannot be evicted.
    fn evict(&self) -> bool {
        if self.word.claim_victim().is_none() {
            return false;
        }
        self.word.begin_load();
        self.became_clean();
        self.changes.forget();
        self.word.loaded(false);
        self.word.unexclude();
        true
    }

    /// As `Frames::first_unwritten`.
    fn first_unwritten(&self) -> Option<u64> {
        let dirty = self.set.frames();
        let lsn = dirty.first().map(|_| self.changes.first_unwritten());
        lsn.filter(|&lsn| lsn > 0)
    }
}

#[test]
fn the_set_has_exactly_the_dirty_frames_after_a_landing_a_change_and_an_eviction() {
    check(3, || {
        let tracked = Arc::new(Tracked::changed(1));
        assert!(tracked.take_copy());
        let lands = thread::spawn({
            let tracked = Arc::clone(&tracked);
            move || tracked.written()
        });
        tracked.change(2);
        let evicted = tracked.evict();
        assert!(tracked.set.count() <= 1, "{} of 1", tracked.set.count());
        lands.join().expect("a thread");
        let dirty = tracked.word.state().is_changed();
        assert!(!(evicted && dirty));
        assert_eq!(tracked.set.frames().len(), usize::from(dirty));
        assert_eq!(tracked.set.count(), usize::from(dirty));
    });
}

#[test]
fn a_list_made_while_a_copy_lands_has_a_page_that_was_changed_before() {
    check(3, || {
        let tracked = Arc::new(Tracked::changed(1));
        assert!(tracked.take_copy());
        let lands = thread::spawn({
            let tracked = Arc::clone(&tracked);
            move || tracked.written()
        });
        assert!(tracked.change(2));
        // As a checkpoint that begins after the change.
        assert_eq!(tracked.set.frames(), [0]);
        assert!(matches!(tracked.first_unwritten(), Some(1 | 2)));
        lands.join().expect("a thread");
        assert_eq!(tracked.first_unwritten(), Some(2));
    });
}

#[test]
fn no_first_change_is_overlooked_while_a_copy_takes_off_and_fails() {
    check(3, || {
        let tracked = Arc::new(Tracked::changed(1));
        let writes = thread::spawn({
            let tracked = Arc::clone(&tracked);
            move || {
                let begun = tracked.take_copy();
                if begun {
                    tracked.failed();
                }
                begun
            }
        });
        let changed = tracked.change(2);
        assert_eq!(tracked.first_unwritten(), Some(1));
        let _begun = writes.join().expect("a thread");
        assert_eq!(tracked.first_unwritten(), Some(1), "changed again: {changed}");
        assert_eq!(tracked.word.state(), FrameState::Dirty);
    });
}

mod slow {
    use super::*;

    #[test]
    fn a_writer_is_woken_by_the_last_of_two_readers() {
        check(2, || {
            let waited = FrameWithWaiters::new();
            let readers = [0, 1].map(|_| {
                let waited = Arc::clone(&waited);
                thread::spawn(move || waited.read())
            });
            waited.change();
            for reader in readers {
                assert!(reader.join().expect("a reader") <= 1);
            }
            assert_eq!(waited.frame.bytes(), (1, 1));
        });
    }
}

mod whole {
    use super::*;

    #[test]
    fn a_search_finds_a_page_that_has_passed_its_home_while_others_pass_it_or_leave_it() {
        let (one, _) = two_homes();
        let (last, next) = (SLOTS as u32 + 1, one[SLOTS + 2]);
        // The home is full and two pages are in the other bucket. One of them goes and comes back, and one leaves the home, so
        // that a page that would have passed it is in it.
        for steps in
            [[(one[SLOTS + 1], last, next), (next, last, one[SLOTS + 1])], [(one[0], 0, next), (one[SLOTS + 1], last, one[0])]]
        {
            let pages = one[..SLOTS + 2].to_vec();
            check(2, move || searched_while_replaced(&pages, steps, 0));
        }
    }
}
