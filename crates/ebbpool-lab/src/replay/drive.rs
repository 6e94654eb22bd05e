//! A trace through a pool, by one thread or several.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use ebbpool::{Error, Pool};
use ebbpool_trace::{Batch, Reader};

use super::{ReplayError, page};
use crate::error::LabError;

/// References that a thread takes at a time.
const PIECE: usize = 256;

/// Pieces that may wait for each thread: little is left to be done after Ctrl-C.
const QUEUE: usize = 4;

/// References that are decoded at a time.
const BATCH: usize = 1 << 16;

/// What to do with each reference.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) pool: &'a Pool,
    pub(super) page_size: usize,
    /// Tells this run's writes from those before.
    pub(super) run: u64,
}

/// What has been replayed.
#[derive(Default)]
pub(super) struct Played {
    /// References, warm-up included.
    pub(super) references: u64,
    pub(super) distinct_pages: u64,
    /// Of the counted references.
    pub(super) cluster_switches: u64,
    /// Writes of each page, as far as they are to be verified.
    pub(super) writes: Vec<u32>,
    pub(super) interrupted: bool,
}

enum Message {
    References(Vec<(u64, bool)>),
    /// To be answered when everything before is done.
    AllDone(mpsc::Sender<()>),
}

/// Sends pieces of the trace to the threads, in turn.
struct Feeder<'a> {
    threads: &'a [SyncSender<Message>],
    next: usize,
    piece: Vec<(u64, bool)>,
}

/// A thread has failed, and says itself why.
struct Gone;

/// What the feeder has to know.
pub(super) struct Course<'a> {
    /// Set by the caller to stop.
    pub(super) stop: &'a AtomicBool,
    pub(super) threads: u16,
    pub(super) warmup: u64,
    pub(super) cluster_size: u64,
    /// Pages of the file.
    pub(super) pages: u64,
    pub(super) verify: bool,
}

/// Replays; `counting` is called once the warm-up is over, while nothing else happens.
pub(super) fn drive(
    work: Work<'_>,
    course: &Course,
    reader: &mut Reader,
    counting: impl FnOnce(),
) -> Result<Played, LabError> {
    let mut played = Played::new(course)?;
    let mut seen = Seen::new(course.pages)?;
    thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut threads = Vec::new();
        for _ in 0..course.threads {
            let (sender, receiver) = mpsc::sync_channel(QUEUE);
            senders.push(sender);
            threads.push(scope.spawn(move || serve(work, receiver)));
        }
        let mut feeder = Feeder {
            threads: &senders,
            next: 0,
            piece: Vec::with_capacity(PIECE),
        };
        let fed = feeder.feed(course, reader, &mut seen, &mut played, counting);
        drop(senders);
        for thread in threads {
            match thread.join() {
                Ok(served) => served.map_err(ReplayError::Pool)?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        fed
    })?;
    played.distinct_pages = seen.count;
    Ok(played)
}

fn serve(work: Work<'_>, messages: Receiver<Message>) -> Result<(), Error> {
    for message in messages {
        match message {
            Message::References(references) => {
                for (number, write) in references {
                    if write {
                        let mut fixed = work.pool.fix_write(number)?;
                        page::write(&mut fixed, work.page_size, work.run);
                    } else {
                        let fixed = work.pool.fix_read(number)?;
                        std::hint::black_box(page::writes(&fixed, work.run));
                    }
                }
            }
            // Whoever asked may have given up.
            Message::AllDone(done) => _ = done.send(()),
        }
    }
    Ok(())
}

impl Played {
    fn new(course: &Course) -> Result<Self, LabError> {
        let pages = if course.verify { course.pages } else { 0 };
        Ok(Played {
            writes: zeros(pages)?,
            ..Played::default()
        })
    }
}

/// Which pages have been referenced.
struct Seen {
    bits: Vec<u64>,
    count: u64,
}

impl Seen {
    fn new(pages: u64) -> Result<Self, LabError> {
        let bits = zeros(pages.div_ceil(64))?;
        Ok(Seen { bits, count: 0 })
    }

    fn note(&mut self, page: u64) {
        let Some(word) = self.bits.get_mut((page / 64) as usize) else {
            return;
        };
        let bit = 1 << (page % 64);
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
    }
}

fn zeros<T: Clone + Default>(count: u64) -> Result<Vec<T>, ReplayError> {
    let none = || ReplayError::TooManyPages(count);
    let count = usize::try_from(count).map_err(|_| none())?;
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(count).map_err(|_| none())?;
    zeros.resize(count, T::default());
    Ok(zeros)
}

impl Feeder<'_> {
    fn feed(
        &mut self,
        course: &Course,
        reader: &mut Reader,
        seen: &mut Seen,
        played: &mut Played,
        counting: impl FnOnce(),
    ) -> Result<(), LabError> {
        let mut counting = Some(counting);
        let mut batch = Batch::with_capacity(BATCH);
        let mut last_cluster = None;
        loop {
            let more = reader.next_batch(&mut batch, BATCH)?;
            for (page, write) in batch.iter() {
                if played.references == course.warmup
                    && let Some(counting) = counting.take()
                {
                    if self.wait_for_all().is_err() {
                        return Ok(());
                    }
                    counting();
                }
                played.references += 1;
                seen.note(page);
                if write && let Some(writes) = played.writes.get_mut(page as usize) {
                    *writes = writes.wrapping_add(1);
                }
                if counting.is_none() {
                    let cluster = page / course.cluster_size;
                    let switches = last_cluster.replace(cluster) != Some(cluster);
                    played.cluster_switches += u64::from(switches);
                }
                self.piece.push((page, write));
                if self.piece.len() == PIECE {
                    if self.send().is_err() {
                        return Ok(());
                    }
                    if course.stop.load(Ordering::Relaxed) {
                        played.interrupted = true;
                        break;
                    }
                }
            }
            if !more || played.interrupted {
                break;
            }
        }
        // A thread that has failed says so when it is joined.
        let _ = self.wait_for_all();
        Ok(())
    }

    /// Sends what has gathered to the next thread, who may have to be waited for.
    fn send(&mut self) -> Result<(), Gone> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        let thread = &self.threads[self.next];
        self.next = (self.next + 1) % self.threads.len();
        thread.send(Message::References(piece)).map_err(|_| Gone)
    }

    fn wait_for_all(&mut self) -> Result<(), Gone> {
        self.send()?;
        let (sender, answers) = mpsc::channel();
        for thread in self.threads {
            thread
                .send(Message::AllDone(sender.clone()))
                .map_err(|_| Gone)?;
        }
        drop(sender);
        match answers.iter().count() == self.threads.len() {
            true => Ok(()),
            false => Err(Gone),
        }
    }
}
