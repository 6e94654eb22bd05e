//! SQLite's page cache.

use crate::lists::FrameLists;
use crate::parameters::{parameters, whole};
use crate::policy::{Access, BackgroundWrite, BackgroundWriter, Capabilities, Frame, Ghost, Page, Policy};
use crate::registry::RegisteredPolicy;
use crate::spec::{MemoryUse, PolicyEntry, text_beside};

const CLEAN: usize = 0;
const DIRTY: usize = 1;

/// LRU lists of clean and of dirty pages; dirty ones are written at a commit, or when they fill nine tenths of the cache.
pub struct Sqlite {
    /// The clean and the dirty pages in order of use.
    lists: FrameLists<2>,
    dirty: Vec<bool>,
    frames: u32,
    /// References between two commits; 0 if there are none.
    commit: u64,
    /// The page in each frame; empty without commits.
    pages: Vec<Page>,
    since_commit: u64,
    /// The dirty page that is written with the victim, and stays.
    spilled: Option<Frame>,
    /// True if the driver has an empty frame, and evicts a clean page nevertheless.
    early: bool,
}

parameters! {
    /// The parameters of [`Sqlite`].
    pub struct SqliteConfig {
        commit: u64 = {
            kind: whole(0, 1 << 40),
            default: "0",
            about: "references between two commits, each of which writes all dirty pages; 0 is never",
        },
    }
}

impl RegisteredPolicy for Sqlite {
    type Config = SqliteConfig;

    const ENTRY: PolicyEntry = PolicyEntry {
        name: "sqlite",
        aliases: &[],
        params: SqliteConfig::PARAMS,
        summary: "SQLite's page cache: the least recently used clean page is evicted, and dirty ones stay until a commit or until they fill nine tenths of the cache.",
        how: text_beside!("sqlite.md"),
        when: "Use it to predict what one connection to a SQLite database reads and writes with another cache_size. Between two commits it writes only what does not fit. A run without commit has no commits: a page that it writes several times is written once, at the end, if it stays.",
        capabilities: Self::CAPABILITIES,
        memory: MemoryUse::new(9),
        source: "SQLite 3: pcache.c and pcache1.c",
    };

    fn new(config: SqliteConfig, frames: u32) -> Self {
        let with_commits = if config.commit > 0 { frames } else { 0 };
        Sqlite {
            lists: FrameLists::new(frames),
            dirty: vec![false; frames as usize],
            frames,
            commit: config.commit,
            pages: vec![0; with_commits as usize],
            since_commit: 0,
            spilled: None,
            early: false,
        }
    }
}

impl Sqlite {
    /// True if the next miss writes a dirty page (`pcache1FetchStage2`, `sqlite3PcacheFetchStress`).
    fn spills(&self) -> bool {
        let dirty = u64::from(self.lists.len(DIRTY));
        dirty > 0 && dirty >= u64::from(self.frames) * 9 / 10
    }

    /// The dirty page of the frame has become clean.
    fn clean(&mut self, frame: Frame) {
        self.dirty[frame as usize] = false;
        self.lists.remove(DIRTY, frame);
        self.lists.push_mru(CLEAN, frame);
    }

    /// Writes all dirty pages in order of page number. They become clean in the order of `sqlite3PcacheCleanAll`.
    #[cold]
    fn write_all(&mut self, writes: &mut Vec<BackgroundWrite>) {
        let from = writes.len();
        while let Some(frame) = self.lists.mru(DIRTY) {
            self.clean(frame);
            writes.push(BackgroundWrite { frame, writer: BackgroundWriter::Checkpointer });
        }
        let pages = &self.pages;
        writes[from..].sort_unstable_by_key(|write| pages[write.frame as usize]);
    }
}

impl Policy for Sqlite {
    const CAPABILITIES: Capabilities = Capabilities::EVICTS_EARLY
        .union(Capabilities::WRITES_TOGETHER)
        .union(Capabilities::BACKGROUND_WRITES)
        .union(Capabilities::WRITES_UNTIMED)
        .union(Capabilities::CHECKPOINTS);

    #[inline]
    fn hit(&mut self, frame: Frame, access: Access) {
        self.since_commit += 1;
        let dirty = &mut self.dirty[frame as usize];
        let was_dirty = *dirty;
        *dirty |= access.is_write();
        match (was_dirty, *dirty) {
            (false, true) => {
                self.lists.remove(CLEAN, frame);
                self.lists.push_mru(DIRTY, frame);
            }
            (_, dirty) => self.lists.move_to_mru(usize::from(dirty), frame),
        }
    }

    #[inline]
    fn prefetch(&self, frame: Frame) {
        self.lists.prefetch(frame);
    }

    #[inline]
    fn background_writes(&mut self, writes: &mut Vec<BackgroundWrite>) {
        if self.commit > 0 && self.since_commit >= self.commit {
            self.since_commit = 0;
            self.write_all(writes);
        }
    }

    fn capabilities(&self) -> Capabilities {
        let commits = Capabilities::BACKGROUND_WRITES.union(Capabilities::WRITES_UNTIMED).union(Capabilities::CHECKPOINTS);
        let mut found = Self::CAPABILITIES;
        found.set(commits, self.commit > 0);
        found
    }

    #[inline]
    fn miss(&mut self, _page: Page, _ghost: Option<Ghost>, _access: Access) {
        self.since_commit += 1;
        self.early = false;
    }

    #[inline]
    fn evicts_early(&mut self) -> bool {
        let [clean, dirty] = [CLEAN, DIRTY].map(|list| self.lists.len(list));
        let one_is_empty = clean + dirty + 1 == self.frames;
        self.early = one_is_empty && (clean > 0 || self.spills());
        self.early
    }

    #[inline]
    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        let spills = self.spills();
        self.spilled = match spills {
            true => self.lists.find_from_lru(DIRTY, &may_evict),
            false => None,
        };
        let clean = self.lists.find_from_lru(CLEAN, &may_evict);
        match (clean, self.early && !spills) {
            (None, false) => self.lists.find_from_lru(DIRTY, may_evict),
            (clean, _) => clean,
        }
    }

    #[inline]
    fn cleaned_with(&self, victim: Frame, max: usize, together: &mut Vec<Frame>) {
        let spilled = self.spilled.filter(|&frame| frame != victim && max > 0 && self.dirty[frame as usize]);
        together.extend(spilled);
    }

    #[inline]
    fn admit(&mut self, frame: Frame, page: Page, access: Access) {
        self.early = false;
        self.dirty[frame as usize] = access.is_write();
        self.lists.push_mru(usize::from(access.is_write()), frame);
        if let Some(in_frame) = self.pages.get_mut(frame as usize) {
            *in_frame = page;
        }
    }

    #[inline]
    fn evicted(&mut self, frame: Frame) {
        let dirty = std::mem::take(&mut self.dirty[frame as usize]);
        self.lists.remove(usize::from(dirty), frame);
    }

    fn cleaned(&mut self, frame: Frame) {
        if self.dirty[frame as usize] {
            self.clean(frame);
        }
    }
}
