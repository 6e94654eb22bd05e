//! A pool over several files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbpool::storage::{MemoryStorage, Read, Storage, Write};
use ebbpool::{OptionsError, Pool, PoolError, PoolOptions};

fn several<const FILES: usize>() -> [Arc<MemoryStorage>; FILES] {
    [(); FILES].map(|()| Arc::new(MemoryStorage::new(512)))
}

fn open(options: PoolOptions, files: &[Arc<MemoryStorage>]) -> Pool {
    let files = files.iter().map(|file| Arc::clone(file) as Arc<dyn Storage>);
    options.open_files(files).expect("a pool")
}

#[test]
fn each_file_has_its_pages_and_its_numbers() {
    let files = several::<3>();
    let options = || PoolOptions::new(8).background(false);
    let pool = open(options(), &files);
    for page in 0..20u64 {
        for file in 0..3 {
            let mut allocated = pool.of_file(file).allocate().expect("a page");
            assert_eq!(pool.place(allocated.page()), (file, page));
            allocated[0] = (10 * page + u64::from(file)) as u8;
        }
    }
    let freed = pool.of_file(1).number(5).expect("a number");
    pool.free(freed).expect("it is freed");
    assert_eq!(pool.of_file(0).allocate().expect("a page").page(), 20);
    assert_eq!(pool.of_file(1).allocate().expect("a page").page(), freed);
    assert_eq!([0, 1, 2].map(|file| pool.of_file(file).pages().expect("a file")), [21, 20, 20]);
    assert_eq!(pool.pages(), 61);
    pool.of_file(2).grow(30).expect("it grows");
    pool.checkpoint().expect("all is written");
    for last in [19, 18] {
        pool.free(pool.of_file(1).number(last).expect("a number")).expect("it is freed");
    }
    // A free page is read, and is not what is read once the file has grown again.
    assert_eq!(pool.of_file(1).fix_read(18).expect("a page")[0], 181);
    let in_use = pool.of_file(1).truncate(17).expect_err("a page is in use").to_string();
    assert!(in_use.contains(&format!("page {} is in use", pool.of_file(1).number(17).expect("a number"))), "{in_use}");
    pool.of_file(1).truncate(18).expect("it is cut off");
    assert_eq!(pool.of_file(1).pages().expect("a file"), 18);
    pool.of_file(1).grow(19).expect("it grows");
    assert_eq!(pool.of_file(1).fix_read(18).expect("a page")[0], 0);
    pool.free(pool.of_file(1).number(18).expect("a number")).expect("it is freed");
    let fixed = pool.of_file(1).fix_read(18).expect("a page");
    assert!(pool.of_file(1).truncate(18).is_err(), "a guard has it");
    drop(fixed);
    pool.of_file(1).truncate(18).expect("it is cut off");
    pool.close().expect("it is closed");
    assert_eq!(files.each_ref().map(|file| file.pages().expect("a length")), [21, 18, 30]);
    let pool = open(options(), &files);
    assert_eq!(pool.place(pool.of_file(2).allocate().expect("a page").page()), (2, 30));
    assert_eq!(pool.place(pool.of_file(1).allocate().expect("a page").page()), (1, 18));
    for page in (0..18).filter(|&page| page != 5) {
        for file in 0..3 {
            let found = pool.of_file(file).fix_read(page).expect("a page");
            assert_eq!(found[0], (10 * page + u64::from(file)) as u8);
        }
    }
}

#[test]
fn a_wild_page_number_harms_its_file_only() {
    let files = several::<2>();
    let pool = open(PoolOptions::new(8).background(false), &files);
    let stray = pool.of_file(0).fix_write((1 << 40) - 1).expect("a page").page();
    assert!(matches!(pool.of_file(0).allocate(), Err(PoolError::Grow { .. })));
    assert_eq!(pool.place(pool.of_file(1).allocate().expect("a page").page()), (1, 0));
    pool.discard(stray).expect("it is dropped");
    assert_eq!(pool.of_file(0).allocate().expect("a page").page(), 0);
    for (file, page) in [(0, 1 << 40), (1, u64::MAX), (2, 0), (u32::MAX, 7)] {
        assert!(matches!(pool.of_file(file).fix_read(page), Err(PoolError::NoPage { .. })), "{file}, {page}");
        assert!(matches!(pool.of_file(file).grow(page.saturating_add(1)), Err(PoolError::NoPage { .. })), "{file}, {page}");
    }
    // In the pool's own numbers there is no third file.
    assert!(matches!(pool.fix_read(2 << 40), Err(PoolError::NoPage { .. })));
    assert!(pool.of_file(2).costs().is_none());
    let single = PoolOptions::new(8).open(MemoryStorage::new(512)).expect("a pool");
    assert_eq!(single.of_file(0).fix_read(1 << 50).expect("a page").page(), 1 << 50);
    assert!(matches!(single.of_file(1).fix_read(0), Err(PoolError::NoPage { .. })));
}

#[test]
fn files_that_do_not_suit_each_other_are_refused() {
    let refused = |files: Vec<Arc<dyn Storage>>, options: PoolOptions| match options.open_files(files) {
        Err(PoolError::Options(OptionsError::Files(why))) => why,
        other => panic!("it is refused: {other:?}"),
    };
    let of = |size: usize| Arc::new(MemoryStorage::new(size)) as Arc<dyn Storage>;
    refused(Vec::new(), PoolOptions::new(4));
    let why = refused(vec![of(512), of(1024)], PoolOptions::new(4));
    assert!(why.contains("file 1 have 1024 bytes"), "{why}");
    refused(vec![of(512), of(512)], PoolOptions::new(4).most_pages(7));
}

/// Images in the area are of other files then.
#[test]
fn files_in_another_order_are_refused_before_a_page_is_restored() {
    let area = Arc::new(MemoryStorage::new(2048));
    let files = [(); 2].map(|()| Arc::new(MemoryStorage::new(2048)));
    let options = || PoolOptions::new(8).background(false).identity(7).double_write(Arc::clone(&area));
    let pool = open(options(), &files);
    for page in 0..10 {
        for file in 0..2 {
            pool.of_file(file).fix_write(page).expect("a page")[0] = 1 + file as u8;
        }
    }
    pool.close().expect("it is closed");
    let [a, b] = &files;
    let swapped = [b, a].map(|file| Arc::clone(file) as Arc<dyn Storage>);
    let refused = [options().open_files(swapped), options().open(Arc::clone(b))].map(|opened| opened.map(drop));
    for refused in refused {
        assert!(matches!(refused, Err(PoolError::Options(OptionsError::Files(_)))), "{refused:?}");
    }
    let pool = open(options(), &files);
    for page in 0..10 {
        let found = [0, 1].map(|file| pool.of_file(file).fix_read(page).expect("a page")[0]);
        assert_eq!(found, [1, 2], "{page}");
    }
}

/// Counts its syncs; each read costs that many units.
struct Counting {
    pages: MemoryStorage,
    cost: f64,
    syncs: AtomicU64,
}

impl Storage for Counting {
    fn page_size(&self) -> usize {
        self.pages.page_size()
    }
    fn pages(&self) -> io::Result<u64> {
        self.pages.pages()
    }
    fn grow(&self, pages: u64) -> io::Result<()> {
        self.pages.grow(pages)
    }
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        self.pages.read(reads);
        Some(self.cost)
    }
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        self.pages.write(writes);
        Some(10.0 * self.cost)
    }
    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn describe(&self) -> String {
        "counts".into()
    }
}

#[test]
fn a_file_is_synced_when_it_was_written_and_has_its_own_costs() {
    let files = [1.0, 3.0].map(|cost| Arc::new(Counting { pages: MemoryStorage::new(512), cost, syncs: AtomicU64::new(0) }));
    let storages = files.iter().map(|file| Arc::clone(file) as Arc<dyn Storage>);
    let pool = PoolOptions::new(4).background(false).open_files(storages).expect("a pool");
    let syncs = || files.each_ref().map(|file| file.syncs.load(Ordering::Relaxed));
    for _ in 0..3 {
        let page = pool.of_file(1).fix_write(7).expect("a page").page();
        pool.flush(page).expect("it is written");
    }
    assert_eq!(syncs(), [0, 3]);
    pool.checkpoint().expect("a checkpoint");
    assert_eq!(syncs(), [0, 3], "nothing was written since");
    drop(pool.of_file(0).fix_write(0).expect("a page"));
    pool.checkpoint().expect("a checkpoint");
    assert_eq!(syncs(), [1, 3]);
    for page in 0..300 {
        drop([0, 1].map(|file| pool.of_file(file).fix_write(page).expect("a page")));
    }
    let costs = [0, 1].map(|file| pool.of_file(file).costs().expect("a file"));
    assert_eq!(costs.map(|costs| (costs.read, costs.write)), [(1.0, 10.0), (3.0, 30.0)]);
    let all = pool.stats().costs;
    assert!((1.5..2.5).contains(&all.read) && (15.0..25.0).contains(&all.write), "{all:?}");
}
