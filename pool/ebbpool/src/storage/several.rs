//! Several storages as one, in which the upper bits of a page's number say which of them has it.

use std::io;
use std::sync::Arc;

use ebbpool_cost::measured::MeasuredCosts;
use ebbpool_cost::{OperationCosts, Unit};

use super::{Read, Storage, Write};
use crate::frames::FrameMemory;
use crate::spaces::{MOST_FILES, MOST_PAGES, PageSpaces, place};
use crate::sync::{AtomicBool, Instant, Mutex, Ordering};

/// Costs are recorded as whole numbers of this fraction of their unit.
const PARTS: f64 = 1e6;

/// Several storages, which the pool refuses unless their pages are of one size, and their costs in one unit.
pub(crate) struct SeveralStorages(pub(crate) Box<[PartOfSeveral]>);

/// One of several storages.
pub(crate) struct PartOfSeveral {
    storage: Box<dyn Storage>,
    /// Pages were written, or it has grown, since the latest sync began.
    unsynced: AtomicBool,
    measured: Mutex<MeasuredCosts>,
}

impl PartOfSeveral {
    pub(crate) fn new(storage: Box<dyn Storage>) -> Self {
        PartOfSeveral { storage, unsynced: AtomicBool::new(false), measured: Mutex::new(MeasuredCosts::default()) }
    }

    /// What a read and a write of a page cost lately.
    pub(crate) fn costs(&self) -> OperationCosts {
        let measured = self.measured.lock().averages();
        measured.map_or_else(
            || self.storage.assumed_costs(),
            |(read, write)| OperationCosts { read: read / PARTS, write: write / PARTS, unit: self.storage.unit() },
        )
    }

    /// Runs a call for a number of pages, and returns its cost for all of them.
    fn measured(&self, pages: usize, call: impl FnOnce() -> Option<f64>, record: impl Fn(&mut MeasuredCosts, u64)) -> f64 {
        let start = Instant::now();
        let cost = call().unwrap_or_else(|| start.elapsed().as_secs_f64() * 1e6 / pages as f64);
        let mut measured = self.measured.lock();
        (0..pages).for_each(|_| record(&mut measured, (cost * PARTS) as u64));
        cost * pages as f64
    }
}

impl SeveralStorages {
    /// Or why they do not suit each other.
    pub(crate) fn new(storages: impl Iterator<Item = Box<dyn Storage>>) -> Result<Self, String> {
        let parts: Box<[PartOfSeveral]> = storages.map(PartOfSeveral::new).collect();
        let files = parts.len();
        let Some(PartOfSeveral { storage: first, .. }) = parts.first() else {
            return Err("are none".into());
        };
        if files > MOST_FILES {
            return Err(format!("are {files}, and no more than {MOST_FILES} are possible"));
        }
        for (file, PartOfSeveral { storage, .. }) in parts.iter().enumerate() {
            let (size, of_first) = (storage.page_size(), first.page_size());
            if size != of_first {
                return Err(format!(
                    "have pages of one size, and those of file {file} have {size} bytes, of file 0 {of_first}"
                ));
            }
            if storage.unit() != first.unit() || storage.writable() != first.writable() {
                return Err(format!(
                    "are alike in the unit of their costs, and take writes or do not; file {file} is not as file 0"
                ));
            }
        }
        Ok(SeveralStorages(parts))
    }

    /// The pages that they have.
    pub(crate) fn spaces(&self) -> io::Result<PageSpaces> {
        let pages = self.0.iter().map(|part| part.storage.pages());
        let pages = pages.collect::<io::Result<Vec<u64>>>()?;
        if let Some(pages) = pages.iter().find(|&&pages| pages > MOST_PAGES) {
            return Err(io::Error::other(format!("a file of several has at most {MOST_PAGES} pages, not {pages}")));
        }
        Ok(PageSpaces::new(pages[0], &pages[1..]))
    }

    fn first(&self) -> &dyn Storage {
        &*self.0[0].storage
    }

    /// The storage of a page, and the page's number there.
    fn of(&self, page: u64) -> io::Result<(&PartOfSeveral, u64)> {
        let (file, page) = place(page);
        let part = self.0.get(file).ok_or_else(|| io::Error::other("the pool has no such file"))?;
        Ok((part, page))
    }
}

/// Calls `each` with the storage of each of the pages, the places of its pages in `pages`, and their numbers there. Returns the cost
/// of a page on average.
fn by_part<'s>(
    several: &'s SeveralStorages,
    pages: impl Iterator<Item = u64>,
    mut each: impl FnMut(&'s PartOfSeveral, &[(usize, u64)]) -> f64,
) -> Option<f64> {
    let mut places: Vec<(usize, usize, u64)> = pages.enumerate().map(|(at, page)| (place(page).0, at, place(page).1)).collect();
    let total = places.len();
    // Stable: pages to be written stay in ascending order.
    places.sort_by_key(|&(file, ..)| file);
    let mut cost = 0.0;
    for of_file in places.chunk_by(|(one, ..), (other, ..)| one == other) {
        if let Some(part) = several.0.get(of_file[0].0) {
            let pages: Vec<(usize, u64)> = of_file.iter().map(|&(_, at, page)| (at, page)).collect();
            cost += each(part, &pages);
        }
    }
    Some(cost / total.max(1) as f64)
}

impl Storage for SeveralStorages {
    fn page_size(&self) -> usize {
        self.first().page_size()
    }

    /// The pool asks each of them.
    fn pages(&self) -> io::Result<u64> {
        self.first().pages()
    }

    fn writable(&self) -> bool {
        self.0.iter().all(|part| part.storage.writable())
    }

    fn grow(&self, pages: u64) -> io::Result<()> {
        let (part, last) = self.of(pages.saturating_sub(1))?;
        part.storage.grow(last + 1)?;
        part.unsynced.store(true, Ordering::Release);
        Ok(())
    }

    fn truncate(&self, pages: u64) -> io::Result<()> {
        let (part, pages) = self.of(pages)?;
        part.storage.truncate(pages)?;
        part.unsynced.store(true, Ordering::Release);
        Ok(())
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        let numbers: Vec<u64> = reads.iter().map(|read| read.page).collect();
        let mut slots: Vec<Option<&mut Read<'_>>> = reads.iter_mut().map(Some).collect();
        by_part(self, numbers.into_iter(), |part, pages| {
            let mut whole: Vec<&mut Read<'_>> = pages.iter().filter_map(|&(at, _)| slots[at].take()).collect();
            let local = whole.iter_mut().zip(pages).map(|(read, &(_, page))| Read::new(page, &mut *read.buffer));
            let mut local: Vec<Read<'_>> = local.collect();
            let cost = part.measured(pages.len(), || part.storage.read(&mut local), MeasuredCosts::record_read);
            let outcomes: Vec<io::Result<()>> = local.into_iter().map(|read| read.outcome).collect();
            whole.into_iter().zip(outcomes).for_each(|(read, outcome)| read.outcome = outcome);
            cost
        })
    }

    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        let numbers: Vec<u64> = writes.iter().map(|write| write.page).collect();
        by_part(self, numbers.into_iter(), |part, pages| {
            let local = pages.iter().map(|&(at, page)| Write::new(page, writes[at].buffer));
            let mut local: Vec<Write<'_>> = local.collect();
            let cost = part.measured(pages.len(), || part.storage.write(&mut local), MeasuredCosts::record_write);
            // After the write: a sync that has begun before need not cover it.
            part.unsynced.store(true, Ordering::Release);
            let outcomes: Vec<io::Result<()>> = local.into_iter().map(|write| write.outcome).collect();
            pages.iter().zip(outcomes).for_each(|(&(at, _), outcome)| writes[at].outcome = outcome);
            cost
        })
    }

    /// Syncs those that were written since.
    fn sync(&self) -> io::Result<()> {
        let unsynced = self.0.iter().filter(|part| part.unsynced.swap(false, Ordering::AcqRel));
        unsynced.map(|part| part.storage.sync()).fold(Ok(()), io::Result::and)
    }

    fn register(&self, memory: &Arc<FrameMemory>) {
        self.0.iter().for_each(|part| part.storage.register(memory));
    }

    fn unit(&self) -> Unit {
        self.first().unit()
    }

    fn assumed_costs(&self) -> OperationCosts {
        self.first().assumed_costs()
    }

    fn erases_of(&self, page: u64) -> Option<u32> {
        let (part, page) = self.of(page).ok()?;
        part.storage.erases_of(page)
    }

    fn describe(&self) -> String {
        let each: Vec<String> = self.0.iter().map(|part| part.storage.describe()).collect();
        format!("{} files: {}", each.len(), each.join("; "))
    }
}
