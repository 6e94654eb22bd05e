//! Pages in memory: for tests, and for data that need not survive.

use std::io;

use parking_lot::RwLock;

use super::{Read, Storage, Write};

/// A storage in memory, whose pages are lost when it is dropped.
#[derive(Debug)]
pub struct MemoryStorage {
    page_size: usize,
    pages: RwLock<Vec<Box<[u8]>>>,
}

impl MemoryStorage {
    /// Pages of `page_size` bytes, none so far.
    pub fn new(page_size: usize) -> Self {
        MemoryStorage { page_size, pages: RwLock::new(Vec::new()) }
    }
}

impl Storage for MemoryStorage {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn pages(&self) -> io::Result<u64> {
        Ok(self.pages.read().len() as u64)
    }

    fn grow(&self, pages_needed: u64) -> io::Result<()> {
        let needed = usize::try_from(pages_needed).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut pages = self.pages.write();
        let more = needed.saturating_sub(pages.len());
        pages.try_reserve(more).map_err(|_| io::ErrorKind::OutOfMemory)?;
        pages.extend((0..more).map(|_| vec![0; self.page_size].into_boxed_slice()));
        Ok(())
    }

    fn truncate(&self, pages: u64) -> io::Result<()> {
        self.pages.write().truncate(usize::try_from(pages).unwrap_or(usize::MAX));
        Ok(())
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        let pages = self.pages.read();
        for read in reads {
            let page = usize::try_from(read.page).ok().and_then(|at| pages.get(at));
            match page {
                Some(page) => read.buffer.copy_from_slice(page),
                None => read.buffer.fill(0),
            }
            read.outcome = Ok(());
        }
        None
    }

    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        for write in writes {
            write.outcome = self.grow(write.page.saturating_add(1)).map(|()| {
                self.pages.write()[write.page as usize].copy_from_slice(write.buffer);
            });
        }
        None
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        "memory".into()
    }
}
