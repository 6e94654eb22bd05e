//! Sends a trace through a pool, on one thread or several.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use ebbpool::policy::{PageClass, UNKNOWN_CLASS};
use ebbpool::{Pool, PoolError};
use ebbpool_trace::{Batch, Reader};

use super::{ReplayError, page};
use crate::error::LabError;

/// The number of references that a thread receives at a time.
const PIECE: usize = 256;

/// Pieces that may wait for each thread. The number is small so that little work remains after Ctrl-C.
const QUEUE: usize = 4;

/// References that the feeder decodes at a time.
const BATCH: usize = 1 << 16;

/// The pool that the threads use, and the marks for its pages.
#[derive(Clone, Copy)]
pub(super) struct ReplayPool<'a> {
    pub(super) pool: &'a Pool,
    pub(super) page_size: usize,
    /// Distinguishes the writes of this run from earlier ones.
    pub(super) run: u64,
}

/// The counts of a replay.
#[derive(Default)]
pub(super) struct ReplayCounts {
    /// References, warm-up included.
    pub(super) references: u64,
    pub(super) distinct_pages: u64,
    /// Cluster switches of the counted references.
    pub(super) cluster_switches: u64,
    /// The number of writes of each page since the one that has replaced all of it, 0 where it is not known; empty if the replay
    /// does not verify them.
    pub(super) writes: Vec<u32>,
    /// Dirty pages that ended after the warm-up.
    pub(super) trimmed: u64,
    pub(super) interrupted: bool,
}

/// What a reference does with its page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Read,
    Write,
    /// Replaces all of it.
    Overwrite,
}

/// A page, its class, and what is done with it.
type Reference = (u64, PageClass, Action);

/// The number of writes of a page whose content is not known, since it has ended.
const UNKNOWN: u32 = u32::MAX;

enum FeedMessage {
    References(Vec<Reference>),
    /// Requests an answer when the thread has finished all earlier messages.
    AllDone(mpsc::Sender<()>),
}

/// Sends pieces of the trace to the threads in turn.
struct Feeder<'a> {
    pool: &'a Pool,
    threads: &'a [SyncSender<FeedMessage>],
    next: usize,
    piece: Vec<Reference>,
}

/// A thread has failed. Its own result has the reason.
struct ThreadFailed;

/// The options of the feeder.
pub(super) struct FeedOptions<'a> {
    /// The caller sets it to stop the replay.
    pub(super) stop: &'a AtomicBool,
    pub(super) threads: u16,
    pub(super) warmup: u64,
    pub(super) cluster_size: u64,
    /// The number of pages of the file.
    pub(super) pages: u64,
    pub(super) verify: bool,
}

/// What happens while no thread has work.
pub(super) enum FeedEvent {
    /// The warm-up ends.
    Counting,
    /// The trace ends these pages, the last one included.
    Trim { first: u64, last: u64 },
}

/// Replays the trace.
pub(super) fn drive(
    replay: ReplayPool<'_>,
    options: &FeedOptions,
    reader: &mut Reader,
    note: impl FnMut(FeedEvent),
) -> Result<ReplayCounts, LabError> {
    let mut counts = ReplayCounts::new(options)?;
    let mut referenced = PageBitmap::new(options.pages)?;
    thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut threads = Vec::new();
        for _ in 0..options.threads {
            let (sender, receiver) = mpsc::sync_channel(QUEUE);
            senders.push(sender);
            threads.push(scope.spawn(move || serve(replay, receiver)));
        }
        let mut feeder = Feeder { pool: replay.pool, threads: &senders, next: 0, piece: Vec::with_capacity(PIECE) };
        let fed = feeder.feed(options, reader, &mut referenced, &mut counts, note);
        drop(senders);
        for thread in threads {
            match thread.join() {
                Ok(served) => served.map_err(ReplayError::Pool)?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        fed
    })?;
    counts.distinct_pages = referenced.count;
    for writes in counts.writes.iter_mut().filter(|writes| **writes == UNKNOWN) {
        *writes = 0;
    }
    Ok(counts)
}

fn serve(replay: ReplayPool<'_>, messages: Receiver<FeedMessage>) -> Result<(), PoolError> {
    for message in messages {
        match message {
            FeedMessage::References(references) => {
                for (number, class, action) in references {
                    let pool = replay.pool.of_class(class);
                    let mut fixed = match action {
                        Action::Read => {
                            let fixed = pool.fix_read(number)?;
                            std::hint::black_box(page::writes(&fixed, replay.run));
                            continue;
                        }
                        Action::Write => pool.fix_write(number)?,
                        Action::Overwrite => pool.fix_new(number)?,
                    };
                    page::write(&mut fixed, replay.page_size, replay.run);
                }
            }
            // The feeder may have stopped waiting.
            FeedMessage::AllDone(done) => _ = done.send(()),
        }
    }
    Ok(())
}

impl ReplayCounts {
    fn new(options: &FeedOptions) -> Result<Self, LabError> {
        let pages = if options.verify { options.pages } else { 0 };
        Ok(ReplayCounts { writes: zeros(pages)?, ..ReplayCounts::default() })
    }
}

/// The set of referenced pages.
struct PageBitmap {
    bits: Vec<u64>,
    count: u64,
}

impl PageBitmap {
    fn new(pages: u64) -> Result<Self, LabError> {
        let bits = zeros(pages.div_ceil(64))?;
        Ok(PageBitmap { bits, count: 0 })
    }

    /// The pages of the set from `first` to `last`.
    fn within(&self, first: u64, last: u64) -> impl Iterator<Item = u64> + '_ {
        let words = (first / 64)..(last / 64 + 1).min(self.bits.len() as u64);
        let set = words.filter(|word| self.bits[*word as usize] > 0).flat_map(|word| (0..64).map(move |bit| (word, bit)));
        let pages = set.filter(|(word, bit)| self.bits[*word as usize] >> bit & 1 == 1).map(|(word, bit)| word * 64 + bit);
        pages.filter(move |page| (first..=last).contains(page))
    }

    fn insert(&mut self, page: u64) {
        let Some(word) = self.bits.get_mut((page / 64) as usize) else {
            return;
        };
        let bit = 1 << (page % 64);
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
    }
}

fn zeros<T: Clone + Default>(count: u64) -> Result<Vec<T>, ReplayError> {
    let no_memory = || ReplayError::TooManyPages(count);
    let count = usize::try_from(count).map_err(|_| no_memory())?;
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(count).map_err(|_| no_memory())?;
    zeros.resize(count, T::default());
    Ok(zeros)
}

impl Feeder<'_> {
    fn feed(
        &mut self,
        options: &FeedOptions,
        reader: &mut Reader,
        referenced: &mut PageBitmap,
        counts: &mut ReplayCounts,
        mut note: impl FnMut(FeedEvent),
    ) -> Result<(), LabError> {
        let mut counts_now = false;
        let mut batch = Batch::with_capacity(BATCH);
        let mut last_cluster = None;
        loop {
            let more = reader.next_batch(&mut batch, BATCH)?;
            let mut classes = batch.classes.iter();
            let mut trims = batch.trims.iter().peekable();
            for at in 0..=batch.len() {
                if !counts_now && counts.references == options.warmup {
                    if self.wait_for_all().is_err() {
                        return Ok(());
                    }
                    counts_now = true;
                    note(FeedEvent::Counting);
                }
                while let Some(trim) = trims.next_if(|trim| trim.before <= at) {
                    if self.wait_for_all().is_err() {
                        return Ok(());
                    }
                    let trimmed = self.end(referenced.within(trim.first, trim.last), &mut counts.writes)?;
                    counts.trimmed += if counts_now { trimmed } else { 0 };
                    note(FeedEvent::Trim { first: trim.first, last: trim.last });
                }
                let (Some(&page), Some(&write)) = (batch.pages.get(at), batch.writes.get(at)) else {
                    break;
                };
                let class = classes.next().copied().unwrap_or(UNKNOWN_CLASS);
                let action = match (write, batch.is_whole(at)) {
                    (_, true) => Action::Overwrite,
                    (true, false) => Action::Write,
                    (false, false) => Action::Read,
                };
                counts.references += 1;
                referenced.insert(page);
                if let Some(writes) = counts.writes.get_mut(page as usize) {
                    *writes = match action {
                        Action::Overwrite => 1,
                        Action::Write if *writes != UNKNOWN => writes.saturating_add(1),
                        Action::Write | Action::Read => *writes,
                    };
                }
                if counts_now {
                    let cluster = page / options.cluster_size;
                    let switches = last_cluster.replace(cluster) != Some(cluster);
                    counts.cluster_switches += u64::from(switches);
                }
                self.piece.push((page, class, action));
                if self.piece.len() == PIECE {
                    if self.send().is_err() {
                        return Ok(());
                    }
                    if options.stop.load(Ordering::Relaxed) {
                        counts.interrupted = true;
                        break;
                    }
                }
            }
            if !more || counts.interrupted {
                break;
            }
        }
        // If a thread has failed, joining it returns the error.
        let _ = self.wait_for_all();
        Ok(())
    }

    /// Ends pages while no thread has work: they leave the pool unwritten. Returns how many of them were dirty.
    fn end(&self, pages: impl Iterator<Item = u64>, writes: &mut [u32]) -> Result<u64, ReplayError> {
        let mut trimmed = 0;
        for page in pages {
            // Nothing is allocated here, so that the page may be fixed again.
            trimmed += u64::from(self.pool.free(page).map_err(ReplayError::Pool)?);
            if let Some(writes) = writes.get_mut(page as usize) {
                *writes = UNKNOWN;
            }
        }
        Ok(trimmed)
    }

    /// Sends the current piece to the next thread, and waits if the thread's queue is full.
    fn send(&mut self) -> Result<(), ThreadFailed> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        let thread = &self.threads[self.next];
        self.next = (self.next + 1) % self.threads.len();
        thread.send(FeedMessage::References(piece)).map_err(|_| ThreadFailed)
    }

    fn wait_for_all(&mut self) -> Result<(), ThreadFailed> {
        self.send()?;
        let (sender, answers) = mpsc::channel();
        for thread in self.threads {
            thread.send(FeedMessage::AllDone(sender.clone())).map_err(|_| ThreadFailed)?;
        }
        drop(sender);
        match answers.iter().count() == self.threads.len() {
            true => Ok(()),
            false => Err(ThreadFailed),
        }
    }
}
