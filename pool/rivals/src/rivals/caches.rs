//! Caches of other crates, with room for twice the pages, so that none is evicted.

use std::sync::Arc;

use super::{PAGE_SIZE, Rival, frames, place, sum, touch, word};

pub(super) fn all(pages: u32, memory: &Arc<[u8]>) -> Vec<Box<dyn Rival>> {
    let room = pages as usize * 2;
    let quick = quick_cache::sync::Cache::new(room);
    let whole = quick_cache::sync::Cache::new(room);
    let foyer = foyer_memory::CacheBuilder::new(room).build();
    let moka = moka::sync::Cache::new(room as u64);
    for (page, frame) in (0..).zip(frames(pages)) {
        quick.insert(page, frame);
        whole.insert(page, vec![1; PAGE_SIZE].into());
        foyer.insert(page, frame);
        moka.insert(page, frame);
    }
    moka.run_pending_tasks();
    vec![
        Box::new(Quick(quick, Arc::clone(memory))),
        Box::new(QuickWhole(whole)),
        Box::new(Foyer(foyer, Arc::clone(memory))),
        Box::new(Moka(moka, Arc::clone(memory))),
    ]
}

struct Quick(quick_cache::sync::Cache<u64, u32>, Arc<[u8]>);

impl Rival for Quick {
    fn name(&self) -> String {
        "quick_cache of frame numbers".into()
    }
    fn promises(&self) -> &'static str {
        "replacement; no pins"
    }
    fn serve(&self, references: &[u32]) -> u64 {
        sum(references, |page| {
            let frame = self.0.get(&u64::from(page));
            frame.map_or(0, |frame| touch(&self.1, frame, page))
        })
    }
}

struct QuickWhole(quick_cache::sync::Cache<u64, Arc<[u8]>>);

impl Rival for QuickWhole {
    fn name(&self) -> String {
        "quick_cache of pages in `Arc`".into()
    }
    fn promises(&self) -> &'static str {
        "replacement, pin; no change in place"
    }
    fn serve(&self, references: &[u32]) -> u64 {
        sum(references, |page| {
            let bytes = self.0.get(&u64::from(page));
            bytes.map_or(0, |bytes| word(&bytes, place(page)))
        })
    }
}

struct Foyer(foyer_memory::Cache<u64, u32>, Arc<[u8]>);

impl Rival for Foyer {
    fn name(&self) -> String {
        "foyer-memory of frame numbers".into()
    }
    fn promises(&self) -> &'static str {
        "replacement, pin"
    }
    fn serve(&self, references: &[u32]) -> u64 {
        sum(references, |page| {
            let entry = self.0.get(&u64::from(page));
            entry.map_or(0, |entry| touch(&self.1, *entry.value(), page))
        })
    }
}

struct Moka(moka::sync::Cache<u64, u32>, Arc<[u8]>);

impl Rival for Moka {
    fn name(&self) -> String {
        "moka of frame numbers".into()
    }
    fn promises(&self) -> &'static str {
        "replacement; no pins"
    }
    fn serve(&self, references: &[u32]) -> u64 {
        sum(references, |page| {
            let frame = self.0.get(&u64::from(page));
            frame.map_or(0, |frame| touch(&self.1, frame, page))
        })
    }
}
