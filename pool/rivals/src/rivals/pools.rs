//! Ebbpool's pool.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ebbpool::storage::{Read, Storage, Write};
use ebbpool::{HEADER_BYTES, Pool, PoolOptions};

use super::{PAGE_SIZE, Rival, place, sum, word};

/// A storage without memory: pages come as zeros, and none is missed, for all stay in the pool.
struct Blank {
    pages: u64,
}

impl Storage for Blank {
    fn page_size(&self) -> usize {
        PAGE_SIZE
    }
    fn pages(&self) -> std::io::Result<u64> {
        Ok(self.pages)
    }
    fn grow(&self, _pages: u64) -> std::io::Result<()> {
        Ok(())
    }
    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        for read in reads {
            read.buffer.fill(0);
            read.outcome = Ok(());
        }
        None
    }
    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        for write in writes {
            write.outcome = Ok(());
        }
        None
    }
    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
    fn describe(&self) -> String {
        "blank".into()
    }
}

#[derive(Clone, Copy)]
enum Way {
    Read,
    /// The pages to come are asked for ahead of time.
    ReadAsked,
    Write,
    Optimistic,
}

/// How far ahead pages are asked for.
const AHEAD: usize = 8;

/// One pool, used in one way.
struct Fixed {
    pool: Arc<Pool>,
    name: String,
    way: Way,
}

/// The names of the ways.
const WAYS: [(&str, Way); 4] = [
    ("read fix", Way::Read),
    ("read fix, prefetched", Way::ReadAsked),
    ("write fix", Way::Write),
    ("optimistic read", Way::Optimistic),
];

pub(super) fn all(pages: u32, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Box<dyn Rival>>, Box<dyn Error>> {
    let mut rivals: Vec<Box<dyn Rival>> = Vec::new();
    for policy in ["lru", "ebb", "casa"] {
        for (table, dense) in [("hashed", 0), ("dense", pages as usize)] {
            let names = WAYS.map(|(how, way)| (format!("Ebbpool {policy}, {table}, {how}"), way));
            if !names.iter().any(|(name, _)| wanted(name)) {
                continue;
            }
            // All pages may be dirty: who makes them so is not to be slowed down.
            let pool = PoolOptions::new(pages)
                .policy(policy)?
                .dense_pages(dense)
                .dirty_budget(1.0, Duration::ZERO)
                .open(Blank { pages: pages.into() })?;
            let pool = Arc::new(pool);
            for page in super::frames(pages) {
                pool.fix_read(page.into())?;
            }
            for (name, way) in names.into_iter().filter(|(name, _)| wanted(name)) {
                let pool = Arc::clone(&pool);
                rivals.push(Box::new(Fixed { pool, name, way }));
            }
        }
    }
    Ok(rivals)
}

/// Where a page's place is among the caller's bytes.
#[inline]
fn payload_place(page: u32) -> usize {
    place(page) - HEADER_BYTES
}

impl Fixed {
    #[inline]
    fn read(&self, page: u32) -> u64 {
        let guard = self.pool.fix_read(page.into());
        guard.map_or(0, |guard| word(&guard, payload_place(page)))
    }

    #[inline]
    fn write(&self, page: u32) -> u64 {
        let Ok(mut guard) = self.pool.fix_write(page.into()) else {
            return 0;
        };
        let at = payload_place(page);
        let next = word(&guard, at).wrapping_add(1);
        guard[at..at + 8].copy_from_slice(&next.to_be_bytes());
        next
    }

    #[inline]
    fn read_optimistically(&self, page: u32) -> u64 {
        let mut bytes = [0; 8];
        if let Some(optimistic) = self.pool.read_optimistically(page.into())
            && optimistic.read(payload_place(page), &mut bytes)
            && optimistic.validate()
        {
            return u64::from_be_bytes(bytes);
        }
        self.read(page)
    }
}

impl Rival for Fixed {
    fn name(&self) -> String {
        self.name.clone()
    }
    fn promises(&self) -> &'static str {
        match self.way {
            Way::Read | Way::ReadAsked => "replacement, pin, shared latch",
            Way::Write => "replacement, pin, exclusive latch, dirty",
            Way::Optimistic => "consistent copy; not reported to the policy",
        }
    }
    fn serve(&self, references: &[u32]) -> u64 {
        match self.way {
            Way::Read => sum(references, |page| self.read(page)),
            Way::ReadAsked => {
                let ahead = references.iter().skip(AHEAD).chain(references);
                let words = references.iter().zip(ahead).map(|(&page, &next)| {
                    self.pool.prefetch(next.into(), payload_place(next));
                    self.read(page)
                });
                words.fold(0, u64::wrapping_add)
            }
            Way::Write => sum(references, |page| self.write(page)),
            Way::Optimistic => sum(references, |page| self.read_optimistically(page)),
        }
    }
}
