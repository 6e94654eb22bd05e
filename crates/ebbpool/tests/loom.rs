//! The frame word and the page table under every interleaving of a few threads, up to a bound on
//! preemptions, and under every value that the memory model lets a load answer.

#![allow(unsafe_code)]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

#[allow(dead_code)]
#[path = "../src/table.rs"]
mod table;

#[allow(dead_code)]
#[path = "../src/frames/word.rs"]
mod word;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use sync::{AtomicU32, AtomicU64, Ordering, fence};
use table::{Entries, PageTable};
use word::{State, Word};

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A frame whose bytes are a cell that loom watches: it fails if two threads are at it and one of
/// them writes. The bytes say whose page they are.
struct Frame {
    word: Word,
    page: AtomicU64,
    bytes: UnsafeCell<(u64, u32)>,
}

impl Frame {
    /// Holds `page`, clean, never changed.
    fn holding(page: u64) -> Self {
        let frame = Frame {
            word: Word::new(),
            page: AtomicU64::new(0),
            bytes: UnsafeCell::new((0, 0)),
        };
        assert!(frame.word.claim());
        frame.load(page);
        assert!(!frame.word.unexclude());
        frame
    }

    /// What bringing a page in does, under the exclusive latch.
    fn load(&self, page: u64) {
        self.word.begin_load();
        self.page.store(page, Ordering::Relaxed);
        self.set_bytes((page, 0));
        self.word.loaded(false);
    }

    fn bytes(&self) -> (u64, u32) {
        // SAFETY: called with a latch, and loom tells if that does not suffice.
        self.bytes.with(|bytes| unsafe { *bytes })
    }

    fn set_bytes(&self, to: (u64, u32)) {
        // SAFETY: called with the exclusive latch, and loom tells if that does not suffice.
        self.bytes.with_mut(|bytes| unsafe { *bytes = to });
    }

    /// The page and how often it was changed, if a shared latch can be had.
    fn read(&self) -> Option<(u64, u32)> {
        self.word.share(true).ok()?;
        let (page, changes) = self.bytes();
        assert_eq!(
            page,
            self.page.load(Ordering::Relaxed),
            "bytes of another page"
        );
        self.word.unshare();
        Some((page, changes))
    }

    /// Changes the page; false if the latch could not be had.
    fn change(&self) -> bool {
        let Ok(_) = self.word.exclude() else {
            return false;
        };
        let (page, changes) = self.bytes();
        assert_eq!(
            page,
            self.page.load(Ordering::Relaxed),
            "bytes of another page"
        );
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
        // Either the change is still there, or it left with its page, which was known for dirty.
        let left_dirty = was_dirty == Some(true);
        assert_eq!(changed, changes == 1 || left_dirty);
        assert_eq!(frame.word.state() == State::Dirty, changes == 1);
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
        let said_clean = copy.is_some() && frame.word.written();
        let changed = writer.join().expect("a writer");
        let bytes = frame.bytes();
        assert_eq!(bytes, (1, if changed { 2 } else { 1 }));
        match frame.word.state() {
            State::Clean => assert!(said_clean && copy == Some(bytes)),
            State::Dirty => assert!(copy != Some(bytes)),
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
        assert_eq!(frame.word.state(), State::Dirty);
    });
}

/// A frame, and the waiting room that `Frames::wait` and `Frames::wake` make of a lock and a
/// condition variable.
struct Awaited {
    frame: Frame,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Awaited {
    fn new() -> Arc<Self> {
        Arc::new(Awaited {
            frame: Frame::holding(1),
            lock: Mutex::new(()),
            woken: Condvar::new(),
        })
    }

    fn wake_if(&self, wanted: bool) {
        if wanted {
            drop(self.lock.lock().expect("the lock"));
            self.woken.notify_all();
        }
    }

    fn wait(&self, to_change: bool) {
        let lock = self.lock.lock().expect("the lock");
        if self.frame.word.note_waiter(to_change) {
            drop(self.woken.wait(lock).expect("the lock"));
        }
    }

    /// Waits for the exclusive latch as long as need be. Nobody else takes the latch again after
    /// he has given it back, so that a flag which got lost is a deadlock, and loom tells.
    fn change(&self) {
        while self.frame.word.exclude().is_err() {
            self.wait(true);
        }
        let (page, changes) = self.frame.bytes();
        self.frame.set_bytes((page, changes + 1));
        self.wake_if(self.frame.word.unexclude());
    }

    fn read(&self) -> u32 {
        let mut polite = true;
        while self.frame.word.share(polite).is_err() {
            self.wait(false);
            polite = false;
        }
        let (_, changes) = self.frame.bytes();
        self.wake_if(self.frame.word.unshare());
        changes
    }
}

#[test]
fn a_writer_is_woken_by_the_last_of_two_readers() {
    check(2, || {
        let awaited = Awaited::new();
        let readers = [0, 1].map(|_| {
            let awaited = Arc::clone(&awaited);
            thread::spawn(move || awaited.read())
        });
        awaited.change();
        for reader in readers {
            assert!(reader.join().expect("a reader") <= 1);
        }
        assert_eq!(awaited.frame.bytes(), (1, 1));
    });
}

#[test]
fn whoever_waits_for_a_writer_is_woken() {
    check(2, || {
        let awaited = Awaited::new();
        let writer = thread::spawn({
            let awaited = Arc::clone(&awaited);
            move || awaited.change()
        });
        let reader = thread::spawn({
            let awaited = Arc::clone(&awaited);
            move || awaited.read()
        });
        awaited.change();
        writer.join().expect("a writer");
        assert!(reader.join().expect("a reader") <= 2);
        assert_eq!(awaited.frame.bytes(), (1, 2));
    });
}

#[test]
fn whoever_waits_for_a_page_to_come_is_woken() {
    check(3, || {
        let awaited = Awaited::new();
        assert_eq!(awaited.frame.word.claim_victim(), Some(false));
        awaited.frame.word.begin_load();
        let reader = thread::spawn({
            let awaited = Arc::clone(&awaited);
            move || awaited.read()
        });
        awaited.frame.set_bytes((1, 7));
        awaited.frame.word.loaded(false);
        awaited.wake_if(awaited.frame.word.downgrade());
        assert_eq!(reader.join().expect("a reader"), 7);
        assert!(!awaited.frame.word.unshare());
    });
}

/// Page numbers and chains of three frames.
struct Chained {
    table: PageTable,
    pages: [AtomicU64; 3],
    next: [AtomicU32; 3],
}

impl Entries for Chained {
    fn page(&self, frame: u32) -> &AtomicU64 {
        &self.pages[frame as usize]
    }
    fn next(&self, frame: u32) -> &AtomicU32 {
        &self.next[frame as usize]
    }
}

/// Pages of which the first four share a chain where there are two, and the next are in the other.
fn two_chains() -> ([u64; 4], [u64; 4]) {
    let first_bit = |&page: &u64| page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63;
    let (some, others): (Vec<u64>, Vec<u64>) = (1..20).partition(|page| first_bit(page) == 0);
    let four = |pages: Vec<u64>| [pages[0], pages[1], pages[2], pages[3]];
    (four(some), four(others))
}

impl Chained {
    fn holding(pages: &[u64], dense: usize) -> Arc<Self> {
        let chained = Chained {
            table: PageTable::new(1, dense),
            pages: std::array::from_fn(|_| AtomicU64::new(0)),
            next: std::array::from_fn(|_| AtomicU32::new(u32::MAX)),
        };
        for (frame, &page) in (0..).zip(pages) {
            chained.insert(page, frame);
        }
        Arc::new(chained)
    }

    fn insert(&self, page: u64, frame: u32) {
        self.pages[frame as usize].store(page, Ordering::Relaxed);
        self.table.insert(page, frame, self);
    }

    fn replace(&self, page: u64, frame: u32, by: u64) {
        self.table.remove(page, frame, self);
        self.insert(by, frame);
    }

    fn find(&self, page: u64) -> Option<u32> {
        self.table.find(page, self)
    }
}

/// While pages of `frames` are replaced, a search finds a frame that holds or held the page, or
/// none; afterwards it finds exactly those that are there.
fn searched_while_replaced(before: [u64; 3], steps: [(u64, u32, u64); 2], dense: usize) {
    let chained = Chained::holding(&before, dense);
    let searcher = thread::spawn({
        let chained = Arc::clone(&chained);
        move || {
            let all = before.into_iter().chain(steps.map(|(_, _, by)| by));
            for page in all {
                let held = |frame: u32| {
                    before[frame as usize] == page
                        || steps.iter().any(|&(_, at, by)| (at, by) == (frame, page))
                };
                if let Some(frame) = chained.find(page) {
                    assert!(held(frame), "page {page} was never in frame {frame}");
                }
            }
        }
    });
    let mut after = before;
    for (page, frame, by) in steps {
        chained.replace(page, frame, by);
        after[frame as usize] = by;
    }
    searcher.join().expect("a searcher");
    for (frame, page) in (0..).zip(after) {
        assert_eq!(chained.find(page), Some(frame));
    }
    for (page, ..) in steps {
        let expected = after.iter().position(|&there| there == page);
        assert_eq!(chained.find(page), expected.map(|frame| frame as u32));
    }
}

#[test]
fn a_search_finds_the_right_frame_or_none_while_its_chain_is_changed() {
    let ([a, b, c, d], [e, ..]) = two_chains();
    // In the middle of the chain, at its end, and into the other chain and back.
    for steps in [
        [(b, 1, d), (a, 0, b)],
        [(a, 0, d), (d, 0, a)],
        [(c, 2, e), (e, 2, c)],
    ] {
        check(2, move || searched_while_replaced([a, b, c], steps, 0));
    }
}

#[test]
fn a_search_by_number_finds_the_right_frame_or_none() {
    check(3, || {
        searched_while_replaced([0, 1, 2], [(1, 1, 3), (0, 0, 1)], 4);
    });
}

/// The frames of a table, with the bytes of one of them.
struct Fixed {
    chained: Arc<Chained>,
    frame: Frame,
}

impl Fixed {
    /// What `fix_read` does of a page that may be resident.
    fn fix(&self, page: u64) {
        let Some(0) = self.chained.find(page) else {
            return;
        };
        if self.frame.word.share(true).is_err() {
            return;
        }
        if self.chained.pages[0].load(Ordering::Relaxed) == page {
            assert_eq!(self.frame.bytes().0, page, "bytes of another page");
        }
        self.frame.word.unshare();
    }
}

#[test]
fn a_fix_never_answers_with_another_page() {
    check(3, || {
        let ([a, b, ..], _) = two_chains();
        let fixed = Arc::new(Fixed {
            chained: Chained::holding(&[a], 0),
            frame: Frame::holding(a),
        });
        let reader = thread::spawn({
            let fixed = Arc::clone(&fixed);
            move || {
                fixed.fix(a);
                fixed.fix(b);
            }
        });
        // As `Replacement::replace` and `Replacement::plan` do.
        if fixed.frame.word.claim_victim().is_some() {
            fixed.chained.table.remove(a, 0, &*fixed.chained);
            fixed.frame.word.begin_load();
            fixed.chained.insert(b, 0);
            fixed.frame.set_bytes((b, 0));
            fixed.frame.word.loaded(false);
            fixed.frame.word.unexclude();
        }
        reader.join().expect("a reader");
    });
}

/// Bytes that are read without a latch are two atomics here: what is torn is two that differ.
#[test]
fn an_optimistic_read_that_validates_is_of_one_moment() {
    check(3, || {
        let frame = Arc::new((Frame::holding(1), AtomicU64::new(0), AtomicU64::new(0)));
        let reader = thread::spawn({
            let frame = Arc::clone(&frame);
            move || {
                let Ok(version) = frame.0.word.version() else {
                    return;
                };
                let seen = [&frame.1, &frame.2].map(|half| half.load(Ordering::Relaxed));
                // As `Optimistic::validate` does.
                fence(Ordering::Acquire);
                if frame.0.word.version() == Ok(version) {
                    assert_eq!(seen[0], seen[1], "torn");
                }
            }
        });
        for change in 1..=2 {
            if frame.0.word.exclude().is_ok() {
                frame.1.store(change, Ordering::Relaxed);
                frame.2.store(change, Ordering::Relaxed);
                frame.0.word.unexclude();
            }
        }
        reader.join().expect("a reader");
    });
}

#[test]
fn an_optimistic_read_does_not_outlive_its_page() {
    check(3, || {
        let frame = Arc::new((Frame::holding(1), AtomicU64::new(1)));
        let reader = thread::spawn({
            let frame = Arc::clone(&frame);
            move || {
                let Ok(version) = frame.0.word.version() else {
                    return;
                };
                let page = frame.0.page.load(Ordering::Relaxed);
                let bytes = frame.1.load(Ordering::Relaxed);
                fence(Ordering::Acquire);
                if frame.0.word.version() == Ok(version) {
                    assert_eq!(bytes, page, "bytes of another page");
                }
            }
        });
        if frame.0.word.claim_victim().is_some() {
            frame.1.store(2, Ordering::Relaxed);
            frame.0.load(2);
            frame.0.word.unexclude();
        }
        reader.join().expect("a reader");
    });
}
