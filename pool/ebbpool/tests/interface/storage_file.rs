//! Files as storage, with the engines and the kinds of I/O that this machine supports.

use std::io;
use std::path::Path;

use ebbpool::storage::{Engine, FileOptions, FileStorage, OpenError, Read, Storage, Write};
use ebbpool::{PoolError, PoolOptions};

/// Bytes that begin at a multiple of 4096, as frames do.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    page_size: usize,
}

impl Aligned {
    fn new(pages: usize, page_size: usize) -> Self {
        let bytes = vec![0xEE; pages * page_size + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        Aligned { bytes, start, page_size }
    }

    fn pages(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let end = self.bytes.len() - 4096 + self.start;
        self.bytes[self.start..end].chunks_mut(self.page_size)
    }
}

fn content(page: u64, round: u64, page_size: usize) -> Vec<u8> {
    let seed = page.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ round;
    (0..page_size as u64).map(|at| (seed.rotate_left((at % 61) as u32) ^ at) as u8).collect()
}

fn write(storage: &FileStorage, pages: &[u64], round: u64) -> Vec<io::Result<()>> {
    let size = storage.page_size();
    let mut memory = Aligned::new(pages.len(), size);
    let mut writes: Vec<Write> = Vec::new();
    for (buffer, &page) in memory.pages().zip(pages) {
        buffer.copy_from_slice(&content(page, round, size));
        writes.push(Write::new(page, buffer));
    }
    assert_eq!(storage.write(&mut writes), None);
    writes.into_iter().map(|write| write.outcome).collect()
}

fn read(storage: &FileStorage, pages: &[u64]) -> Vec<Vec<u8>> {
    let mut memory = Aligned::new(pages.len(), storage.page_size());
    let pairs = memory.pages().zip(pages);
    let mut reads: Vec<Read> = pairs.map(|(buffer, &page)| Read::new(page, buffer)).collect();
    assert_eq!(storage.read(&mut reads), None);
    for read in &reads {
        read.outcome.as_ref().expect("it is read");
    }
    reads.into_iter().map(|read| read.buffer.to_vec()).collect()
}

fn options(engine: Engine, direct: bool, page_size: usize) -> FileOptions {
    FileOptions::new().page_size(page_size).create(true).engine(engine).direct(direct).queue_depth(8)
}

/// A directory that is not in /tmp, because /tmp may be in memory, where direct I/O may not be possible.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

#[test]
fn every_engine_reads_what_every_other_wrote() {
    let directory = directory();
    let ways = [(Engine::Auto, true), (Engine::Auto, false), (Engine::Threads, true), (Engine::Threads, false)];
    for page_size in [512, 4096, 16384, 1 << 20] {
        let path = directory.path().join(format!("pages-{page_size}"));
        let last: u64 = if page_size > 1 << 16 { 40 } else { 300 };
        // Single pages, and two long runs.
        let pages: Vec<u64> = [1, 3, 7].into_iter().chain(10..30).chain(35..last).collect();
        let backwards: Vec<u64> = pages.iter().rev().copied().collect();
        for (round, (engine, direct)) in (0..).zip(ways) {
            let options = options(engine, direct, page_size);
            let storage = FileStorage::open(&path, &options).expect("it opens");
            for outcome in write(&storage, &pages, round) {
                outcome.expect("it is written");
            }
            storage.sync().expect("synced");
            drop(storage);
            for (engine, direct) in ways {
                let options = options.clone().engine(engine).direct(direct);
                let options = options.create(false).read_only(true);
                let storage = FileStorage::open(&path, &options).expect("it opens");
                assert_eq!(storage.pages().expect("a length"), last);
                for (&page, bytes) in backwards.iter().zip(read(&storage, &backwards)) {
                    assert!(
                        bytes == content(page, round, page_size),
                        "page {page} of {page_size} bytes: {}",
                        storage.describe()
                    );
                }
                let never = read(&storage, &[2, last, u64::MAX]);
                assert!(never.iter().flatten().all(|&byte| byte == 0));
            }
        }
    }
}

#[test]
fn only_readers_open_a_file_at_the_same_time() {
    let directory = directory();
    let path = directory.path().join("pages");
    let options = options(Engine::Auto, true, 4096);
    let first = FileStorage::open(&path, &options).expect("it opens");
    let error = FileStorage::open(&path, &options).expect_err("it is open");
    assert!(matches!(error, OpenError::InUse(_)), "{error}");
    let reader = options.clone().read_only(true).create(false);
    FileStorage::open(&path, &reader).expect_err("it is being written");
    drop(first);
    let readers = [(); 2].map(|()| FileStorage::open(&path, &reader).expect("two may read"));
    FileStorage::open(&path, &options).expect_err("it is being read");
    drop(readers);
    FileStorage::open(&path, &options).expect("it is not open any more");
}

#[test]
fn paths_that_cannot_be_a_storage_are_refused_with_a_remedy() {
    let directory = directory();
    let path = directory.path().join("missing");
    let none = FileStorage::open(&path, &FileOptions::default()).expect_err("not there");
    assert!(none.to_string().contains("missing"), "{none}");
    let wrong = FileStorage::open(directory.path(), &FileOptions::default());
    assert!(matches!(wrong, Err(OpenError::NotAFile(_))), "{wrong:?}");
    let device = FileStorage::open(Path::new("/dev/null"), &FileOptions::default());
    assert!(matches!(device, Err(OpenError::NotAFile(_))), "{device:?}");
    for page_size in [0, 256, 1000, 4097, 1 << 31] {
        let refused = FileStorage::open(&path, &options(Engine::Auto, true, page_size));
        assert!(matches!(refused, Err(OpenError::PageSize(_))));
    }
    for queue_depth in [0, 4097] {
        let options = options(Engine::Auto, true, 4096).queue_depth(queue_depth);
        let refused = FileStorage::open(&path, &options);
        assert!(matches!(refused, Err(OpenError::QueueDepth(_))));
    }
    assert!(!path.exists());
}

#[test]
fn a_read_only_storage_writes_nothing() {
    let directory = directory();
    let path = directory.path().join("pages");
    std::fs::write(&path, vec![5; 8192]).expect("a file");
    let options = FileOptions::new().read_only(true);
    let storage = FileStorage::open(&path, &options).expect("it opens");
    let error = write(&storage, &[0], 1).remove(0).expect_err("refused");
    assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    storage.grow(3).expect_err("refused");
    storage.grow(2).expect("it is long enough");
    assert_eq!(std::fs::read(&path).expect("a file"), vec![5; 8192]);
}

/// Changes of its pages could never be written: they would take all frames, and the pool could not be closed.
#[test]
fn a_pool_over_a_read_only_storage_fixes_no_page_for_writing() {
    let directory = directory();
    let path = directory.path().join("pages");
    let writer = PoolOptions::new(4).open(FileStorage::open(&path, &FileOptions::new().create(true)).unwrap()).unwrap();
    (0..8).for_each(|page| writer.fix_write(page).unwrap()[0] = page as u8);
    writer.close().unwrap();
    let pool = PoolOptions::new(4).open(FileStorage::open(&path, &FileOptions::new().read_only(true)).unwrap()).unwrap();
    let refused = [pool.fix_write(0), pool.fix_new(1), pool.allocate(), pool.fix_write(100)];
    assert!(refused.iter().all(|fixed| matches!(fixed, Err(PoolError::ReadOnly))));
    drop(refused);
    assert!((0..8).all(|page| pool.fix_read(page).unwrap()[0] == page as u8));
    assert_eq!(pool.checkpoint().unwrap().pages, 0);
    pool.flush(0).unwrap();
    pool.close().unwrap();
}

#[test]
fn grown_pages_are_zeros_and_growing_makes_no_file_shorter() {
    let directory = directory();
    let path = directory.path().join("pages");
    for engine in [Engine::Auto, Engine::Threads] {
        let storage = FileStorage::open(&path, &options(engine, true, 4096)).expect("it opens");
        let before = storage.pages().expect("pages");
        storage.grow(before + 10).expect("room");
        storage.grow(1).expect("it is long enough");
        assert_eq!(storage.pages().expect("pages"), before + 10);
        let pages: Vec<u64> = (before.max(1)..before + 20).collect();
        let zeros = read(&storage, &pages);
        assert!(zeros.iter().flatten().all(|&byte| byte == 0));
        let error = storage.grow(1 << 62).expect_err("no file is so long");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let outcomes = write(&storage, &[0, u64::MAX], 1);
        outcomes[0].as_ref().expect("this one fits");
        outcomes[1].as_ref().expect_err("this one does not");
        assert_eq!(read(&storage, &[0])[0], content(0, 1, 4096));
        storage.sync().expect("synced");
    }
    assert_eq!(std::fs::metadata(&path).expect("a file").len(), 20 * 4096);
}

#[test]
fn pages_that_are_cut_off_are_gone_and_the_file_grows_again() {
    let directory = directory();
    for (engine, direct) in [(Engine::Auto, true), (Engine::Threads, false)] {
        let path = directory.path().join(format!("pages-{direct}"));
        let length = || std::fs::metadata(&path).expect("a file").len();
        let storage = FileStorage::open(&path, &options(engine, direct, 4096)).expect("it opens");
        let pool = PoolOptions::new(8).open(storage).expect("a pool");
        (0..50).for_each(|page| pool.allocate().expect("a page")[0] = page);
        pool.checkpoint().expect("all are written");
        (20..50).for_each(|page| assert!(page < 50 && pool.free(page).is_ok()));
        assert!(pool.truncate(19).is_err());
        pool.truncate(20).expect("it is cut off");
        assert_eq!((pool.pages(), length()), (20, 20 * 4096));
        pool.truncate(30).expect("it is shorter");
        let again = pool.allocate().expect("a page");
        assert_eq!((again.page(), again[0], length()), (20, 0, 21 * 4096));
        drop(again);
        // Although these were written, and so were read as lost.
        pool.grow(40).expect("it grows");
        assert!((21..40).all(|page| pool.fix_read(page).expect("a page")[0] == 0));
        (21..40).for_each(|page| assert!(page < 40 && pool.free(page).is_ok()));
        pool.truncate(21).expect("it is cut off");
        pool.close().expect("it is closed");
        let storage = FileStorage::open(&path, &options(engine, direct, 4096).read_only(true)).expect("it opens");
        let pool = PoolOptions::new(8).open(storage).expect("a pool");
        assert!((0..20).all(|page| pool.fix_read(page).expect("a page")[0] == page as u8));
        assert!(matches!(pool.truncate(3), Err(PoolError::ReadOnly)));
    }
}

#[test]
fn a_file_that_grows_page_by_page_is_as_long_as_its_pages_and_has_no_reserved_blocks_once_closed() {
    use std::os::unix::fs::MetadataExt;

    let directory = directory();
    let path = directory.path().join("pages");
    let storage = FileStorage::open(&path, &options(Engine::Auto, true, 4096)).expect("it opens");
    for pages in 1..=2000 {
        storage.grow(pages).expect("room");
        assert_eq!(storage.pages().expect("pages"), pages);
        let length = std::fs::metadata(&path).expect("a file").len();
        assert_eq!(length, pages * 4096);
    }
    write(&storage, &[1999], 1).remove(0).expect("it is written");
    storage.sync().expect("synced");
    drop(storage);
    let found = std::fs::metadata(&path).expect("a file");
    assert_eq!(found.len(), 2000 * 4096);
    assert!(found.blocks() * 512 < found.len() + (512 << 10));
    let reader = FileStorage::open(&path, &FileOptions::default()).expect("it opens");
    assert_eq!(read(&reader, &[1999])[0], content(1999, 1, 4096));
    assert!(read(&reader, &[1998])[0].iter().all(|&byte| byte == 0));
}

/// The environment variable with the path for the other process, which inherits nothing else.
const PATH_TO_OPEN: &str = "EBBPOOL_TEST_PATH_TO_OPEN";

/// Not a test by itself, but the body of the other process of [`opened_by_another_process`].
#[test]
fn the_other_process() {
    let Some(path) = std::env::var_os(PATH_TO_OPEN) else {
        return;
    };
    let create = FileOptions::new().create(true);
    match FileStorage::open(Path::new(&path), &create) {
        Ok(_) => println!("it opened"),
        Err(OpenError::InUse(_)) => println!("it is in use"),
        Err(error) => panic!("{error}"),
    }
}

fn opened_by_another_process(path: &Path) -> bool {
    let test = std::env::current_exe().expect("the test's program");
    let output = std::process::Command::new(test)
        .args(["storage_file::the_other_process", "--exact", "--nocapture"])
        .env(PATH_TO_OPEN, path)
        .output()
        .expect("it runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    match (printed.contains("it opened"), printed.contains("it is in use")) {
        (true, false) => true,
        (false, true) => false,
        _ => panic!("{printed}"),
    }
}

#[test]
fn a_file_is_opened_once_by_any_name_and_in_any_process() {
    let directory = directory();
    let path = directory.path().join("pages");
    let names = ["hard", "soft"].map(|name| directory.path().join(name));
    let storage = FileStorage::open(&path, &options(Engine::Auto, true, 4096)).expect("it opens");
    std::fs::hard_link(&path, &names[0]).expect("a link");
    std::os::unix::fs::symlink(&path, &names[1]).expect("a link");
    std::fs::create_dir(directory.path().join("sub")).expect("a directory");
    let [hard, soft] = names;
    let names = [path.clone(), hard, soft, directory.path().join("sub/../pages"), directory.path().join("./pages")];
    for name in &names {
        for engine in [Engine::Auto, Engine::Threads] {
            match FileStorage::open(name, &options(engine, true, 4096)) {
                Err(OpenError::InUse(path)) => assert_eq!(&path, name),
                other => panic!("{other:?}"),
            }
        }
        assert!(!opened_by_another_process(name), "{}", name.display());
    }
    drop(storage);
    assert!(opened_by_another_process(&path));
}

/// The environment variable with the path for the process that is aborted.
const PATH_TO_ABORT: &str = "EBBPOOL_TEST_PATH_TO_ABORT";

/// Not a test by itself, but the body of the process that [`a_file_opens_at_once_after_its_process_was_aborted`] starts.
#[test]
fn the_process_that_is_aborted() {
    let Some(path) = std::env::var_os(PATH_TO_ABORT) else {
        return;
    };
    let storage = FileStorage::open(Path::new(&path), &options(Engine::Auto, true, 4096));
    let pool = ebbpool::PoolOptions::new(64).open(storage.expect("it opens"));
    let pool = pool.expect("a pool");
    for _ in 0..200 {
        pool.allocate().expect("a page").fill(1);
    }
    pool.checkpoint().expect("a checkpoint");
    std::process::abort();
}

#[test]
fn a_file_opens_at_once_after_its_process_was_aborted() {
    use std::os::unix::process::ExitStatusExt;

    let directory = directory();
    let path = directory.path().join("pages");
    let test = std::env::current_exe().expect("the test's program");
    for round in 0..40 {
        let ended = std::process::Command::new(&test)
            .args(["storage_file::the_process_that_is_aborted", "--exact", "--nocapture"])
            .env(PATH_TO_ABORT, &path)
            .stdout(std::process::Stdio::null())
            .status()
            .expect("it runs");
        assert_eq!(ended.signal(), Some(6), "SIGABRT");
        let opened = FileStorage::open(&path, &options(Engine::Auto, true, 4096));
        opened.unwrap_or_else(|error| panic!("after {round} crashes: {error}"));
    }
}

#[test]
fn the_file_of_a_pool_and_its_area_cannot_be_opened_again() {
    use ebbpool::PoolOptions;

    let directory = directory();
    let [pages, area] = ["pages", "area"].map(|name| directory.path().join(name));
    let open = |path: &Path| FileStorage::open(path, &options(Engine::Auto, true, 4096));
    let in_use = |path: &Path| matches!(open(path), Err(OpenError::InUse(_)));
    let storage = open(&pages).expect("it opens");
    assert!(in_use(&pages), "pages cannot be their own area");
    let pool = PoolOptions::new(8).double_write(open(&area).expect("it opens"));
    let pool = pool.open(storage).expect("a pool");
    pool.allocate().expect("a page").fill(1);
    for path in [&pages, &area] {
        assert!(in_use(path) && !opened_by_another_process(path));
    }
    pool.close().expect("it closes");
    for path in [&pages, &area] {
        assert!(!in_use(path) && opened_by_another_process(path));
    }
}

#[test]
fn a_file_that_ends_within_a_page_is_read_with_zeros_after_its_end() {
    let directory = directory();
    let path = directory.path().join("pages");
    for length in [1, 4095, 4097, 5000, 12287] {
        std::fs::write(&path, vec![7; length]).expect("a file");
        for engine in [Engine::Auto, Engine::Threads] {
            for direct in [true, false] {
                let options = options(engine, direct, 4096);
                let storage = FileStorage::open(&path, &options).expect("it opens");
                let pages = storage.pages().expect("pages");
                assert_eq!(pages, length.div_ceil(4096) as u64);
                let bytes = read(&storage, &[0, 1, 2, 3]).concat();
                assert!(bytes[..length].iter().all(|&byte| byte == 7), "{length}");
                assert!(bytes[length..].iter().all(|&byte| byte == 0), "{length}");
            }
        }
    }
}

#[test]
fn a_file_that_another_program_cuts_off_reads_no_zeros() {
    let directory = directory();
    for (number, engine) in [Engine::Auto, Engine::Threads].into_iter().enumerate() {
        for direct in [false, true] {
            let path = directory.path().join(format!("{number}-{direct}"));
            let storage = FileStorage::open(&path, &options(engine, direct, 4096)).expect("a storage");
            let pages: Vec<u64> = (0..40).collect();
            assert!(write(&storage, &pages, 1).iter().all(Result::is_ok));
            for left in [20 * 4096 + 100, 20 * 4096, 0] {
                std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(left)).expect("cut off");
                let mut memory = Aligned::new(40, 4096);
                let mut reads: Vec<Read> = memory.pages().zip(&pages).map(|(buffer, &page)| Read::new(page, buffer)).collect();
                storage.read(&mut reads);
                let failed = reads
                    .iter()
                    .filter(|read| matches!(&read.outcome, Err(error) if error.kind() == io::ErrorKind::UnexpectedEof));
                assert_eq!(failed.count() as u64, 40 - left / 4096, "{left} bytes, {engine:?}, direct: {direct}");
            }
        }
    }
}

#[test]
fn buffers_of_the_wrong_size_or_alignment_are_refused_one_by_one() {
    let directory = directory();
    let path = directory.path().join("pages");
    for engine in [Engine::Auto, Engine::Threads] {
        let storage = FileStorage::open(&path, &options(engine, true, 4096)).expect("it opens");
        let mut memory = Aligned::new(2, 4096);
        let at = memory.start;
        let mut writes = [(0, at..at + 4096), (1, at..at + 512)].map(|(page, span)| Write::new(page, &memory.bytes[span]));
        storage.write(&mut writes);
        writes[0].outcome.as_ref().expect("it is written");
        let error = writes[1].outcome.as_ref().expect_err("it is too short");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        if storage.is_direct() {
            let mut reads = [Read::new(0, &mut memory.bytes[at + 1..at + 4097])];
            storage.read(&mut reads);
            let error = reads[0].outcome.as_ref().expect_err("it is not aligned");
            assert!(error.to_string().contains("multiple of"), "{error}");
        }
    }
}

#[test]
fn pages_smaller_than_the_file_systems_blocks_are_buffered() {
    let directory = directory();
    let path = directory.path().join("pages");
    let blocks = rustix::fs::statvfs(directory.path()).expect("its figures").f_frsize;
    let open = |page_size: usize| {
        let storage = FileStorage::open(&path, &options(Engine::Auto, true, page_size));
        storage.expect("it opens").describe()
    };
    if blocks > 512 {
        let small = open(512);
        assert!(small.contains("buffered I/O ("), "{small}");
    }
    // Which of the two it is depends on the file system, but not on the page size from here on.
    let large = [4096, 1 << 16].map(open);
    assert_eq!(large[0], large[1]);
}

#[test]
fn a_storage_describes_its_engine() {
    let directory = directory();
    let path = directory.path().join("pages");
    let threads = FileStorage::open(&path, &options(Engine::Threads, false, 4096));
    assert_eq!(threads.expect("it opens").describe(), "threads, buffered I/O (as asked for), queue depth 8");
    match FileStorage::open(&path, &options(Engine::Uring, false, 4096)) {
        Ok(storage) => assert!(storage.describe().starts_with("io_uring, "), "{storage:?}"),
        Err(error) => {
            assert!(matches!(error, OpenError::Uring(_)), "{error}");
            let auto = FileStorage::open(&path, &options(Engine::Auto, false, 4096));
            let description = auto.expect("threads will do").describe();
            assert!(description.starts_with("threads (io_uring is refused: "), "{description}");
        }
    }
}

#[test]
fn many_threads_use_a_storage_at_once() {
    let directory = directory();
    let path = directory.path().join("pages");
    for engine in [Engine::Auto, Engine::Threads] {
        let storage = FileStorage::open(&path, &options(engine, true, 4096)).expect("it opens");
        let work = |thread: u64| {
            let mine: Vec<u64> = (0..12).map(|at| thread + at * 24).collect();
            for round in 0..8 {
                // Every other time a single page, which takes another path through the code.
                let some = if round % 2 == 0 { &mine[..] } else { &mine[..1] };
                for outcome in write(&storage, some, round) {
                    outcome.expect("it is written");
                }
                for (&page, bytes) in some.iter().zip(read(&storage, some)) {
                    assert!(bytes == content(page, round, 4096), "page {page}");
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..24 {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
        storage.sync().expect("synced");
    }
}
