//! The bytes of one file: those on the disk, those in its volatile cache, and the changes between them.

use std::io;
use std::ops::Range;

use super::dice::Dice;
use super::{ENOSPC, SECTOR};

/// The longest file, so that a wrong page number does not use up the machine's memory.
const LONGEST: usize = 1 << 30;

/// A change that was acknowledged and not synced.
#[derive(Clone, Debug)]
enum PendingChange {
    Write { at: usize, bytes: Box<[u8]> },
    Length(usize),
}

/// One file.
#[derive(Clone, Debug, Default)]
pub(super) struct Platter {
    durable: Vec<u8>,
    cached: Vec<u8>,
    pending: Vec<PendingChange>,
    /// Room is reserved up to here.
    reserved: usize,
}

/// How much of the pending changes survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survival {
    All,
    Nothing,
    Some,
}

impl Platter {
    pub(super) fn len(&self) -> usize {
        self.cached.len()
    }

    /// The bytes that it takes of the disk: its length, or what is reserved.
    pub(super) fn taken(&self) -> usize {
        self.len().max(self.reserved)
    }

    pub(super) fn reserve(&mut self, to: u64) -> io::Result<()> {
        self.reserved = self.reserved.max(extent(to, 0)?.start);
        Ok(())
    }

    /// Reads bytes from `at` on, as the cache has them; zeros beyond the end. Returns the number of bytes before the
    /// end.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> usize {
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(self.len());
        let count = into.len().min(self.len() - from);
        into[..count].copy_from_slice(&self.cached[from..from + count]);
        into[count..].fill(0);
        count
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let range = extent(at, bytes.len())?;
        put(&mut self.cached, range.start, bytes);
        self.pending.push(PendingChange::Write { at: range.start, bytes: bytes.into() });
        Ok(())
    }

    /// Writes random sectors, and leaves the others as they are.
    pub(super) fn write_part(&mut self, at: u64, bytes: &[u8], dice: &mut Dice) -> io::Result<()> {
        let range = extent(at, bytes.len())?;
        for sector in sectors(range.clone()) {
            if dice.one_in(2) {
                let part = &bytes[sector.start - range.start..sector.end - range.start];
                self.write(sector.start as u64, part)?;
            }
        }
        Ok(())
    }

    pub(super) fn set_len(&mut self, length: u64) -> io::Result<()> {
        let length = extent(length, 0)?.start;
        if length <= self.len() {
            self.reserved = self.reserved.min(length);
        }
        self.cached.resize(length, 0);
        self.pending.push(PendingChange::Length(length));
        Ok(())
    }

    /// Flips a bit, also in pending changes: otherwise the next sync would undo the flip.
    pub(super) fn flip(&mut self, at: usize, bit: u8) -> bool {
        let pending = self.pending.iter_mut().filter_map(|pending| match pending {
            PendingChange::Write { at: from, bytes } => bytes.get_mut(at.checked_sub(*from)?),
            PendingChange::Length(_) => None,
        });
        let stored = [self.durable.get_mut(at), self.cached.get_mut(at)];
        let bytes = pending.chain(stored.into_iter().flatten());
        bytes.map(|byte| *byte ^= 1 << (bit % 8)).count() > 0
    }

    pub(super) fn sync(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                PendingChange::Write { at, bytes } => put(&mut self.durable, at, &bytes),
                PendingChange::Length(length) => self.durable.resize(length, 0),
            }
        }
    }

    /// A failed sync: some of the pending changes become durable, the rest are dropped, and the cache still shows
    /// them.
    pub(super) fn sync_and_drop(&mut self, dice: &mut Dice) {
        self.settle(dice.survival(), dice);
    }

    /// The power fails: any part of the pending changes survives, and the cache is lost; what is reserved is free again.
    pub(super) fn crash(&mut self, dice: &mut Dice) {
        self.settle(dice.survival(), dice);
        self.reserved = 0;
        self.cached.clone_from(&self.durable);
    }

    /// Applies the pending changes that survive, in the order in which they were made. Another order would change
    /// only which write of a sector survives last, and that is random anyway.
    fn settle(&mut self, survival: Survival, dice: &mut Dice) {
        for pending in std::mem::take(&mut self.pending) {
            let this_change = match survival {
                Survival::Some => dice.survival(),
                survival => survival,
            };
            match (pending, this_change) {
                (PendingChange::Write { at, bytes }, Survival::All) => put(&mut self.durable, at, &bytes),
                (PendingChange::Write { at, bytes }, Survival::Some) => self.tear(at, &bytes, dice),
                (PendingChange::Write { at, bytes }, Survival::Nothing) => {
                    // A journalled length may survive without the bytes.
                    if survival == Survival::Some && dice.one_in(4) && self.durable.len() < at + bytes.len() {
                        self.durable.resize(at + bytes.len(), 0);
                    }
                }
                (PendingChange::Length(_), Survival::Nothing) => {}
                (PendingChange::Length(length), Survival::All) => self.durable.resize(length, 0),
                (PendingChange::Length(length), Survival::Some) => {
                    if dice.one_in(2) {
                        self.durable.resize(length, 0);
                    }
                }
            }
        }
    }

    fn tear(&mut self, at: usize, bytes: &[u8], dice: &mut Dice) {
        for sector in sectors(at..at + bytes.len()) {
            let new = &bytes[sector.start - at..sector.end - at];
            match dice.below(8) {
                0 => {
                    let mut garbage = vec![0; new.len()];
                    dice.fill(&mut garbage);
                    put(&mut self.durable, sector.start, &garbage);
                }
                1..=4 => put(&mut self.durable, sector.start, new),
                _ => {}
            }
        }
    }
}

fn extent(at: u64, length: usize) -> io::Result<Range<usize>> {
    let from = usize::try_from(at).ok();
    let range = from.and_then(|from| Some(from..from.checked_add(length)?));
    range.filter(|range| range.end <= LONGEST).ok_or_else(|| io::Error::from_raw_os_error(ENOSPC))
}

fn put(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[at..end].copy_from_slice(bytes);
}

/// The parts of a range that lie in one sector each.
fn sectors(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut from = range.start;
    std::iter::from_fn(move || {
        let to = (from / SECTOR + 1).saturating_mul(SECTOR).min(range.end);
        let sector = from..to;
        from = to;
        (!sector.is_empty()).then_some(sector)
    })
}
