//! Files and pages that are open read-only: all writes to them stay in memory, so that a database can be
//! recovered and read without changing a byte of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Arc;

use ebbpool::Lsn;
use ebbpool::storage::{Read, Storage, Write, page_lsn};

use crate::log::LogFile;
use crate::sync::{Mutex, RwLock};

/// The size of the blocks that a write copies to memory.
const BLOCK: u64 = 4096;

/// A log's file, with later writes in memory.
pub(crate) struct OverlayFile {
    /// Nothing where the file is missing.
    base: Option<Arc<dyn LogFile>>,
    written: Mutex<WrittenBlocks>,
}

struct WrittenBlocks {
    length: u64,
    /// The length of the file's beginning that has not been cut off.
    base_length: u64,
    /// Blocks that were written, by their number.
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl OverlayFile {
    /// # Errors
    ///
    /// If the file's length cannot be read.
    pub(crate) fn new(base: Option<Arc<dyn LogFile>>) -> io::Result<Self> {
        let length = base.as_ref().map_or(Ok(0), |base| base.len())?;
        let written = Mutex::new(WrittenBlocks { length, base_length: length, blocks: BTreeMap::new() });
        Ok(OverlayFile { base, written })
    }

    /// Reads bytes of one block.
    fn read_part(&self, written: &WrittenBlocks, offset: u64, into: &mut [u8]) -> io::Result<()> {
        if let Some(block) = written.blocks.get(&(offset / BLOCK)) {
            let at = (offset % BLOCK) as usize;
            into.copy_from_slice(&block[at..at + into.len()]);
            return Ok(());
        }
        into.fill(0);
        let available = written.base_length.saturating_sub(offset);
        let available = into.len().min(usize::try_from(available).unwrap_or(usize::MAX));
        match &self.base {
            Some(base) if available > 0 => base.read_at(offset, &mut into[..available]).map(drop),
            _ => Ok(()),
        }
    }
}

/// Splits a range of bytes at the borders of blocks: where each part begins, and its length.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize)> {
    let end = offset.saturating_add(length as u64);
    let mut next = offset;
    std::iter::from_fn(move || {
        let from = next;
        next = (from - from % BLOCK + BLOCK).min(end);
        (from < end).then_some((from, (next - from) as usize))
    })
}

impl LogFile for OverlayFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written.lock().length)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let written = self.written.lock();
        let available = written.length.saturating_sub(offset);
        let available = into.len().min(usize::try_from(available).unwrap_or(usize::MAX));
        let mut rest = &mut into[..available];
        for (from, length) in parts(offset, available) {
            let (part, after) = rest.split_at_mut(length);
            self.read_part(&written, from, part)?;
            rest = after;
        }
        Ok(available)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut written = self.written.lock();
        let mut rest = bytes;
        for (from, length) in parts(offset, bytes.len()) {
            let (part, after) = rest.split_at(length);
            let (number, at) = (from / BLOCK, (from % BLOCK) as usize);
            if !written.blocks.contains_key(&number) {
                let mut block = vec![0; BLOCK as usize];
                self.read_part(&written, number * BLOCK, &mut block)?;
                written.blocks.insert(number, block);
            }
            if let Some(block) = written.blocks.get_mut(&number) {
                block[at..at + length].copy_from_slice(part);
            }
            rest = after;
        }
        written.length = written.length.max(offset.saturating_add(bytes.len() as u64));
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let written = &mut *self.written.lock();
        written.length = length;
        written.base_length = written.base_length.min(length);
        drop(written.blocks.split_off(&length.div_ceil(BLOCK)));
        if let Some(block) = written.blocks.get_mut(&(length / BLOCK)) {
            block[(length % BLOCK) as usize..].fill(0);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Pages, with later writes in memory.
pub(crate) struct OverlayPages {
    /// Nothing where the file is missing.
    base: Option<Arc<dyn Storage>>,
    page_size: usize,
    written: RwLock<WrittenPages>,
    /// The log's end when it was opened.
    log_end: Lsn,
    ahead: Mutex<HashSet<u64>>,
}

struct WrittenPages {
    count: u64,
    pages: HashMap<u64, Box<[u8]>>,
}

impl OverlayPages {
    /// # Errors
    ///
    /// If the storage cannot say how many pages it has.
    pub(crate) fn new(base: Option<Arc<dyn Storage>>, page_size: usize, log_end: Lsn) -> io::Result<Self> {
        let count = base.as_ref().map_or(Ok(0), |base| base.pages())?;
        Ok(OverlayPages {
            base,
            page_size,
            written: RwLock::new(WrittenPages { count, pages: HashMap::new() }),
            log_end,
            ahead: Mutex::default(),
        })
    }

    /// How many of the pages read so far have changes that the log lacks.
    pub(crate) fn ahead_of_log(&self) -> u64 {
        self.ahead.lock().len() as u64
    }
}

impl Storage for OverlayPages {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn pages(&self) -> io::Result<u64> {
        Ok(self.written.read().count)
    }

    fn grow(&self, pages: u64) -> io::Result<()> {
        let mut written = self.written.write();
        written.count = written.count.max(pages);
        Ok(())
    }

    fn read(&self, reads: &mut [Read<'_>]) -> Option<f64> {
        let written = self.written.read();
        for read in reads {
            match (written.pages.get(&read.page), &self.base) {
                (Some(page), _) => {
                    read.buffer.copy_from_slice(page);
                    read.outcome = Ok(());
                }
                (None, None) => {
                    read.buffer.fill(0);
                    read.outcome = Ok(());
                }
                (None, Some(base)) => {
                    base.read(std::slice::from_mut(read));
                    if page_lsn(read.buffer).is_some_and(|lsn| lsn > self.log_end) {
                        self.ahead.lock().insert(read.page);
                    }
                }
            }
        }
        None
    }

    fn write(&self, writes: &mut [Write<'_>]) -> Option<f64> {
        let mut written = self.written.write();
        for write in writes {
            written.pages.insert(write.page, write.buffer.into());
            written.count = written.count.max(write.page.saturating_add(1));
            write.outcome = Ok(());
        }
        None
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        match &self.base {
            Some(base) => format!("{}, read-only", base.describe()),
            None => "nothing, read-only".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ebbpool::storage::FaultyDisk;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u8>),
        SetLen(u64),
        Read(u64, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let offset = || 0..20_000u64;
        let bytes = prop::collection::vec(any::<u8>(), 0..6000);
        prop_oneof![
            (offset(), bytes).prop_map(|(offset, bytes)| Step::Write(offset, bytes)),
            offset().prop_map(Step::SetLen),
            (offset(), 0..9000usize).prop_map(|(offset, length)| Step::Read(offset, length)),
        ]
    }

    proptest! {
        #[test]
        fn an_overlay_behaves_like_a_file_and_leaves_its_base_unchanged(
            length in 0..12_000usize,
            steps in prop::collection::vec(step(), 0..20),
        ) {
            let disk = FaultyDisk::new(0);
            let before: Vec<u8> = (0..length).map(|at| (at % 251) as u8 + 1).collect();
            disk.bytes("log").append(&before).unwrap();
            let overlay = OverlayFile::new(Some(Arc::new(disk.bytes("log")))).unwrap();
            let mut model = before.clone();
            for step in steps {
                match step {
                    Step::Write(offset, bytes) => {
                        let end = offset as usize + bytes.len();
                        // A write of no bytes does not make the file longer.
                        if !bytes.is_empty() && model.len() < end {
                            model.resize(end, 0);
                        }
                        if !bytes.is_empty() {
                            model[offset as usize..end].copy_from_slice(&bytes);
                        }
                        overlay.write_at(offset, &bytes).unwrap();
                    }
                    Step::SetLen(length) => {
                        model.resize(length as usize, 0);
                        overlay.set_len(length).unwrap();
                    }
                    Step::Read(offset, length) => {
                        let mut found = vec![7; length];
                        let available = overlay.read_at(offset, &mut found).unwrap();
                        let from = model.len().min(offset as usize);
                        let to = model.len().min(offset as usize + length);
                        prop_assert_eq!(&found[..available], &model[from..to]);
                    }
                }
                prop_assert_eq!(overlay.len().unwrap(), model.len() as u64);
            }
            prop_assert_eq!(disk.bytes("log").read_all().unwrap(), before);
        }
    }
}
