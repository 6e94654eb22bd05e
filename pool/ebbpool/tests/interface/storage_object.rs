//! Pages in object stores: in memory, and in a directory.
#![cfg(feature = "object-store")]

use std::io;
use std::sync::Arc;

use ebbpool::storage::{ObjectError, ObjectOptions, ObjectStorage, Read, Storage, Write};
use ebbpool_cost::{OperationCosts, Unit};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

const PAGE: usize = 512;

fn options() -> ObjectOptions {
    without_prices().prices(OperationCosts { read: 1.0, write: 100.0, unit: Unit::Dollars })
}

fn without_prices() -> ObjectOptions {
    ObjectOptions::new().page_size(PAGE).pages_per_object(4).prefix("some/pages").concurrency(8)
}

fn open(store: &Arc<dyn ObjectStore>) -> ObjectStorage {
    ObjectStorage::open(Arc::clone(store), options()).expect("it opens")
}

/// Writes pages filled with a byte; returns the dollars for all.
fn write(storage: &ObjectStorage, pages: &[(u64, u8)]) -> f64 {
    let contents: Vec<_> = pages.iter().map(|&(_, byte)| [byte; PAGE]).collect();
    let pairs = pages.iter().zip(&contents);
    let mut writes: Vec<Write> = pairs.map(|(&(page, _), buffer)| Write::new(page, buffer)).collect();
    let dollars = storage.write(&mut writes).expect("dollars");
    for write in &writes {
        write.outcome.as_ref().expect("it is written");
    }
    dollars * pages.len() as f64
}

/// The bytes that fill the pages, and the dollars for all.
fn read(storage: &ObjectStorage, pages: &[u64]) -> (Vec<u8>, f64) {
    let mut buffers = vec![[0xEE; PAGE]; pages.len()];
    let pairs = pages.iter().zip(&mut buffers);
    let mut reads: Vec<Read> = pairs.map(|(&page, buffer)| Read::new(page, buffer)).collect();
    let dollars = storage.read(&mut reads).expect("dollars");
    for read in &reads {
        read.outcome.as_ref().expect("it is read");
    }
    for buffer in &buffers {
        assert!(buffer.iter().all(|&byte| byte == buffer[0]));
    }
    let bytes = buffers.iter().map(|buffer| buffer[0]).collect();
    (bytes, dollars * pages.len() as f64)
}

fn stores() -> (tempfile::TempDir, Vec<Arc<dyn ObjectStore>>) {
    let directory = tempfile::tempdir().expect("a directory");
    let local = LocalFileSystem::new_with_prefix(directory.path()).expect("a store");
    let stores: Vec<Arc<dyn ObjectStore>> = vec![Arc::new(InMemory::new()), Arc::new(local)];
    (directory, stores)
}

fn about(dollars: f64, expected: f64) {
    assert!((dollars - expected).abs() < 1e-9, "{dollars}");
}

#[test]
fn pages_of_a_group_are_one_put() {
    let (_directory, stores) = stores();
    for store in stores {
        let storage = open(&store);
        assert_eq!(storage.pages().expect("pages"), 0);
        // Two new groups: there is no object to read before.
        about(write(&storage, &[(1, 1), (2, 2), (5, 5)]), 200.0);
        assert_eq!(storage.pages().expect("pages"), 8);
        // One group in part, and one whole: a GET, and two PUTs.
        let whole = [(2, 22), (4, 4), (5, 55), (6, 6), (7, 7)];
        about(write(&storage, &whole), 201.0);
        let (bytes, dollars) = read(&storage, &[7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(bytes, [7, 6, 55, 4, 0, 22, 1, 0]);
        about(dollars, 2.0);
        // Beyond the end no object is requested.
        let (bytes, dollars) = read(&storage, &[8, u64::MAX]);
        assert_eq!(bytes, [0, 0]);
        about(dollars, 0.0);
        storage.sync().expect("nothing to do");
    }
}

#[test]
fn written_pages_are_there_when_the_storage_is_opened_again() {
    let (_directory, stores) = stores();
    for store in stores {
        let storage = open(&store);
        write(&storage, &[(1, 1), (41, 41)]);
        storage.grow(50).expect("it grows");
        storage.grow(3).expect("nothing to do");
        drop(storage);
        let storage = open(&store);
        assert_eq!(storage.pages().expect("pages"), 52);
        // Groups that were never written are zeros, which takes a GET to find out.
        let (bytes, dollars) = read(&storage, &[1, 20, 41, 51]);
        assert_eq!(bytes, [1, 0, 41, 0]);
        about(dollars, 4.0);
    }
}

#[test]
fn another_layout_is_refused() {
    let (_directory, stores) = stores();
    for store in stores {
        drop(open(&store));
        for (page_size, pages_per_object) in [(PAGE * 2, 4), (PAGE, 8)] {
            let options = options().page_size(page_size).pages_per_object(pages_per_object);
            let error = ObjectStorage::open(Arc::clone(&store), options).expect_err("refused");
            assert!(matches!(error, ObjectError::Layout { .. }), "{error}");
            assert!(error.to_string().contains("4 pages of 512 bytes"), "{error}");
        }
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let in_microseconds = OperationCosts { read: 1.0, write: 1.0, unit: Unit::Microseconds };
    for options in [
        options().pages_per_object(0),
        options().page_size(usize::MAX),
        options().concurrency(0),
        options().prices(in_microseconds),
    ] {
        let refused = ObjectStorage::open(Arc::clone(&store), options);
        assert!(matches!(refused, Err(ObjectError::Options(_))), "{refused:?}");
    }
}

#[test]
fn default_prices_are_those_of_the_profile() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let storage = ObjectStorage::open(store, without_prices()).expect("it opens");
    assert_eq!(storage.unit(), Unit::Dollars);
    let costs = storage.assumed_costs();
    about(costs.read * 1e6, 0.4);
    about(costs.write * 1e6, 5.4);
}

#[test]
fn pages_of_one_group_written_by_many_threads_are_all_there() {
    let (_directory, stores) = stores();
    for store in stores {
        let storage = open(&store);
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let storage = &storage;
                scope.spawn(move || {
                    for round in 0..10 {
                        let pages = [(thread, round), (thread + 8, round)];
                        write(storage, &pages);
                    }
                });
            }
        });
        let pages: Vec<u64> = (0..16).collect();
        assert_eq!(read(&storage, &pages).0, [9; 16]);
    }
}

#[test]
fn an_object_of_another_length_is_an_error_and_not_zeros() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let storage = open(&store);
    write(&storage, &[(0, 1), (4, 4)]);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    // Called from within another runtime, as a server may do.
    runtime.expect("a runtime").block_on(async {
        let path = Path::from("some/pages/0000000000000000");
        let short = PutPayload::from_static(&[1; 700]);
        store.put(&path, short).await.expect("put");
        let mut buffers = [[0; PAGE]; 2];
        let [first, second] = &mut buffers;
        let mut reads = [(1, first), (4, second)].map(|(page, buffer)| Read::new(page, &mut buffer[..]));
        storage.read(&mut reads);
        let error = reads[0].outcome.as_ref().expect_err("it is too short");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        reads[1].outcome.as_ref().expect("this one is whole");
        drop(storage);
    });
}
