//! Of which hits a policy is told.

use std::sync::{Arc, Mutex};
use std::thread;

use ebbpool::storage::{MemoryStorage, Storage};
use ebbpool::{Pool, PoolOptions};
use ebbpool_policy::{Access, Frame, Page, Policy};

const FRAMES: u32 = 320;

/// Misses of an epoch.
const EPOCH: u64 = 10;

/// What a policy was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Read(Page),
    Write(Page),
    LeftOut(u64),
    Cleaned(Page),
}

/// Lets any page go, and writes down what it is told.
struct Listening {
    wants_every_hit: bool,
    pages: Vec<Page>,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Listening {
    fn note(&self, told: Told) {
        self.told.lock().expect("a lock").push(told);
    }
}

impl Policy for Listening {
    fn hit(&mut self, frame: Frame, access: Access) {
        let page = self.pages[frame as usize];
        self.note(match access {
            Access::Read => Told::Read(page),
            Access::Write => Told::Write(page),
        });
    }
    fn wants_every_hit(&self) -> bool {
        self.wants_every_hit
    }
    fn left_out(&mut self, hits: u64) {
        self.note(Told::LeftOut(hits));
    }
    fn victim<F: Fn(Frame) -> bool>(
        &mut self,
        _incoming: Option<(Page, Access)>,
        may_go: F,
    ) -> Option<Frame> {
        // The last one, so that the pages that came first stay.
        (0..FRAMES).rev().find(|&frame| may_go(frame))
    }
    fn admit(&mut self, frame: Frame, page: Page, _access: Access) {
        self.pages[frame as usize] = page;
    }
    fn evicted(&mut self, _frame: Frame) {}
    fn cleaned(&mut self, frame: Frame) {
        self.note(Told::Cleaned(self.pages[frame as usize]));
    }
}

struct Watched {
    pool: Pool,
    told: Arc<Mutex<Vec<Told>>>,
    /// Pages from here on were never asked for.
    next: Page,
}

impl Watched {
    /// All frames hold pages, from 0 up, and an epoch has just begun.
    fn new(wants_every_hit: bool, exact: bool) -> Self {
        let told = Arc::new(Mutex::new(Vec::new()));
        let policy = Listening {
            wants_every_hit,
            pages: vec![0; FRAMES as usize],
            told: Arc::clone(&told),
        };
        let storage = MemoryStorage::new(512);
        storage.grow(10_000).expect("room");
        let options = PoolOptions::new(FRAMES)
            .own_policy(policy)
            .background(false)
            .exact_hits(exact);
        let pool = options.open(storage).expect("a pool");
        let mut watched = Watched {
            pool,
            told,
            next: 0,
        };
        watched.miss(u64::from(FRAMES) + 1);
        watched
    }

    fn miss(&mut self, pages: u64) {
        for page in self.next..self.next + pages {
            drop(self.pool.fix_read(page).expect("a page"));
        }
        self.next += pages;
    }

    fn read(&self, page: Page) {
        drop(self.pool.fix_read(page).expect("a page"));
    }

    fn write(&self, page: Page) {
        drop(self.pool.fix_write(page).expect("a page"));
    }

    /// What the policy was told since this was last asked, hits that were on their way included.
    fn told(&mut self) -> Vec<Told> {
        self.miss(1);
        std::mem::take(&mut *self.told.lock().expect("a lock"))
    }
}

#[test]
fn a_policy_that_asks_for_it_is_told_of_a_pages_first_hit_in_an_epoch() {
    let mut watched = Watched::new(false, false);
    for page in [3, 4, 3, 3, 4] {
        watched.read(page);
    }
    use Told::{LeftOut, Read};
    assert_eq!(watched.told(), [LeftOut(3), Read(3), Read(4)]);
    watched.read(3);
    watched.read(5);
    assert_eq!(watched.told(), [LeftOut(1), Read(5)]);
    watched.miss(EPOCH);
    watched.read(3);
    watched.read(3);
    assert_eq!(watched.told(), [LeftOut(1), Read(3)]);
    let stats = watched.pool.stats();
    assert_eq!(stats.hits, 9);
}

#[test]
fn a_page_that_comes_back_is_new() {
    let mut watched = Watched::new(false, false);
    let page = watched.next - 1;
    watched.read(page);
    assert_eq!(watched.told(), [Told::Read(page)]);
    // It was the latest page to come, so it has left.
    let misses = watched.pool.stats().misses;
    watched.miss(1);
    watched.read(page);
    assert_eq!(watched.pool.stats().misses, misses + 2);
    watched.read(page);
    assert_eq!(watched.told(), [Told::Read(page)]);
}

#[test]
fn a_policy_is_told_of_first_writes_in_an_epoch_and_to_clean_pages() {
    use Told::{Cleaned, LeftOut, Read, Write};
    let mut watched = Watched::new(false, false);
    watched.read(3);
    watched.write(3);
    watched.write(3);
    watched.read(3);
    assert_eq!(watched.told(), [LeftOut(2), Read(3), Write(3)]);
    watched.pool.flush(3).expect("it is written");
    watched.read(3);
    watched.write(3);
    watched.write(3);
    assert_eq!(watched.told(), [Cleaned(3), LeftOut(2), Write(3)]);
    // In later epochs it is dirty, and the first write is told all the same.
    watched.miss(EPOCH);
    watched.read(3);
    watched.write(3);
    watched.write(3);
    assert_eq!(watched.told(), [LeftOut(1), Read(3), Write(3)]);
    watched.miss(EPOCH);
    watched.write(3);
    watched.read(3);
    watched.write(3);
    assert_eq!(watched.told(), [LeftOut(2), Write(3)]);
}

#[test]
fn a_policy_is_told_of_every_hit_unless_it_asks_for_less() {
    use Told::{Read, Write};
    for (wants_every_hit, exact) in [(true, false), (true, true), (false, true)] {
        let mut watched = Watched::new(wants_every_hit, exact);
        for _ in 0..300 {
            watched.read(3);
            watched.write(3);
        }
        let told: Vec<Told> = watched.told();
        let expected = [Read(3), Write(3)].repeat(300);
        assert!(told == expected, "{wants_every_hit} {exact}");
    }
}

#[test]
fn hits_of_a_thread_that_has_few_are_told_when_the_epoch_ends() {
    let mut watched = Watched::new(false, false);
    let pool = &watched.pool;
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5 {
                drop(pool.fix_read(7).expect("a page"));
            }
        });
    });
    watched.miss(EPOCH + 1);
    assert_eq!(watched.told(), [Told::LeftOut(4), Told::Read(7)]);
}
