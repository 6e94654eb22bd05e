//! The bytes of one file: what the disk holds, what its volatile cache holds, and what lies between.

use std::io;
use std::ops::Range;

use super::dice::Dice;
use super::{ENOSPC, SECTOR};

/// Beyond this a file does not grow, so that a wrong page number does not take the machine's memory.
const LONGEST: usize = 1 << 30;

/// What has been acknowledged and not been synced.
#[derive(Clone, Debug)]
enum Pending {
    Write { at: usize, bytes: Box<[u8]> },
    Length(usize),
}

/// One file.
#[derive(Clone, Debug, Default)]
pub(super) struct Platter {
    durable: Vec<u8>,
    cached: Vec<u8>,
    pending: Vec<Pending>,
}

/// How much of what is pending is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    All,
    Nothing,
    Some,
}

impl Platter {
    pub(super) fn len(&self) -> usize {
        self.cached.len()
    }

    /// Bytes from `at` on, as the cache has them; zeros beyond the end. Answers how many there were.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> usize {
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(self.len());
        let there = into.len().min(self.len() - from);
        into[..there].copy_from_slice(&self.cached[from..from + there]);
        into[there..].fill(0);
        there
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let range = extent(at, bytes.len())?;
        put(&mut self.cached, range.start, bytes);
        self.pending.push(Pending::Write {
            at: range.start,
            bytes: bytes.into(),
        });
        Ok(())
    }

    /// Writes those sectors that the dice say, and leaves the others as they are.
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
        self.cached.resize(length, 0);
        self.pending.push(Pending::Length(length));
        Ok(())
    }

    /// Of what is pending too, or the next sync would undo it.
    pub(super) fn flip(&mut self, at: usize, bit: u8) -> bool {
        let pending = self.pending.iter_mut().filter_map(|pending| match pending {
            Pending::Write { at: from, bytes } => bytes.get_mut(at.checked_sub(*from)?),
            Pending::Length(_) => None,
        });
        let there = [self.durable.get_mut(at), self.cached.get_mut(at)];
        let bytes = pending.chain(there.into_iter().flatten());
        bytes.map(|byte| *byte ^= 1 << (bit % 8)).count() > 0
    }

    pub(super) fn sync(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Write { at, bytes } => put(&mut self.durable, at, &bytes),
                Pending::Length(length) => self.durable.resize(length, 0),
            }
        }
    }

    /// What a failed sync leaves: some of what was pending is durable, the rest is forgotten, and
    /// the cache shows it nevertheless.
    pub(super) fn sync_and_drop(&mut self, dice: &mut Dice) {
        self.settle(dice.mood(), dice);
    }

    /// The power fails: of what is pending any part is kept, and the cache is empty.
    pub(super) fn crash(&mut self, dice: &mut Dice) {
        self.settle(dice.mood(), dice);
        self.cached.clone_from(&self.durable);
    }

    /// The pending changes are applied in the order in which they came: which is the last one of a
    /// sector that is applied is what any other order would decide too.
    fn settle(&mut self, mood: Mood, dice: &mut Dice) {
        for pending in std::mem::take(&mut self.pending) {
            let fate = match mood {
                Mood::Some => dice.mood(),
                mood => mood,
            };
            match (pending, fate) {
                (Pending::Write { at, bytes }, Mood::All) => put(&mut self.durable, at, &bytes),
                (Pending::Write { at, bytes }, Mood::Some) => self.tear(at, &bytes, dice),
                (Pending::Write { at, bytes }, Mood::Nothing) => {
                    // A journalled length may survive without the bytes.
                    if mood == Mood::Some && dice.one_in(4) && self.durable.len() < at + bytes.len()
                    {
                        self.durable.resize(at + bytes.len(), 0);
                    }
                }
                (Pending::Length(_), Mood::Nothing) => {}
                (Pending::Length(length), Mood::All) => self.durable.resize(length, 0),
                (Pending::Length(length), Mood::Some) => {
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
    range
        .filter(|range| range.end <= LONGEST)
        .ok_or_else(|| io::Error::from_raw_os_error(ENOSPC))
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
