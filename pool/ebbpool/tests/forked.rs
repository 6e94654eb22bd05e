//! A child of `fork` that drops its parent's pool leaves it to the parent.

#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::time::Duration;

use ebbpool::storage::{Engine, FileOptions, FileStorage};
use ebbpool::{Pool, PoolOptions};

/// Runs `work` in a child of `fork`, which ends without the parent's destructors; true if it returned.
fn in_child(work: impl FnOnce()) -> bool {
    // SAFETY: other threads of the tests hold no lock that the child needs, beside those of the allocator, which the C library
    // hands over to the child.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        work();
        // SAFETY: the call does not return.
        unsafe { libc::_exit(0) }
    }
    let mut status = 0;
    // SAFETY: the status is valid for writes.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn open(path: &std::path::Path, engine: Engine, background: bool) -> Pool {
    let options = FileOptions::new().create(true).engine(engine);
    let storage = FileStorage::open(path, &options).unwrap();
    let pool = PoolOptions::new(16).background(background).max_dirty_age(Duration::from_millis(20));
    pool.open(storage).unwrap()
}

#[test]
fn a_child_that_drops_the_pool_leaves_the_file_locked_for_its_parent() {
    let directory = tempfile::tempdir().unwrap();
    for (number, engine) in [Engine::Threads, Engine::Auto].into_iter().enumerate() {
        for background in [true, false] {
            let path = directory.path().join(format!("{number}-{background}"));
            let pool = open(&path, engine, background);
            pool.fix_write(1).unwrap()[0] = 7;
            let pool = Some(pool);
            let mut in_child_only = std::mem::ManuallyDrop::new(pool);
            // SAFETY: the child ends afterwards, and the parent's pool is another one.
            assert!(in_child(|| unsafe { std::mem::ManuallyDrop::drop(&mut in_child_only) }));
            let pool = std::mem::ManuallyDrop::into_inner(in_child_only).unwrap();
            let again = FileStorage::open(&path, &FileOptions::new());
            assert!(again.is_err(), "the file is still locked");
            pool.fix_write(2).unwrap()[0] = 8;
            pool.close().unwrap();
            let pool = open(&path, engine, false);
            let bytes = [1, 2].map(|page| pool.fix_read(page).unwrap()[0]);
            assert_eq!(bytes, [7, 8]);
        }
    }
}
