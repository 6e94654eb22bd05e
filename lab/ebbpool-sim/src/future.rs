//! The future of each reference, for policies that look ahead.

use ebbpool_policy::NextUse;
use prefetch_index::prefetch_index;

use crate::engine::AtEnd;

/// The number of references whose memory is prefetched together.
const LOOKAHEAD: usize = 32;

/// No next use.
const NEVER: u32 = u32::MAX;

/// The largest number of references whose positions can be stored.
pub(crate) const MOST_REFERENCES: u64 = NEVER as u64 - 1;

/// The future of each page after each of its references: 4 bytes per reference, or 12 with writes.
#[derive(Debug, Default)]
pub(crate) struct Future {
    next: Vec<u32>,
    /// Empty if no policy looks ahead for writes.
    writes: Vec<NextWrite>,
    /// The latest reference to each page; none if it has ended since.
    last: Vec<u32>,
    /// The last references to pages before they end, and the positions of these ends.
    ended: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct NextWrite {
    position: u32,
    references_to: u32,
}

impl Future {
    /// Appends the next references: page << 1 | write, pages numbered densely in order of first
    /// appearance. `ends` are the pages that end among them, with their positions in the trace.
    pub(crate) fn extend(&mut self, references: &[u32], ends: &[(usize, u32)]) {
        let start = self.next.len();
        let mut taken = 0;
        for &(position, page) in ends {
            let to = position.saturating_sub(start).min(references.len());
            self.append(&references[taken..to]);
            taken = to;
            let last = self.last.get_mut(page as usize).map_or(NEVER, |last| std::mem::replace(last, NEVER));
            if last != NEVER {
                self.ended.push((last, position as u32));
            }
        }
        self.append(&references[taken..]);
    }

    fn append(&mut self, references: &[u32]) {
        self.next.reserve(references.len());
        for (at, group) in references.chunks(LOOKAHEAD).enumerate() {
            let upcoming = references.iter().skip((at + 1) * LOOKAHEAD);
            self.prefetch(upcoming);
            group.iter().for_each(|&reference| self.push(reference));
        }
    }

    /// Prefetches the memory that appending the `upcoming` references will access: for the nearest
    /// of them the entries of their pages' last uses, for those behind them the place where the
    /// last use is looked up.
    #[inline]
    fn prefetch<'a>(&self, mut upcoming: impl Iterator<Item = &'a u32>) {
        for reference in upcoming.by_ref().take(LOOKAHEAD) {
            if let Some(&before) = self.last.get((reference >> 1) as usize) {
                prefetch_index(&self.next, before as usize);
            }
        }
        for reference in upcoming.take(LOOKAHEAD) {
            prefetch_index(&self.last, (reference >> 1) as usize);
        }
    }

    #[inline]
    fn push(&mut self, reference: u32) {
        let page = (reference >> 1) as usize;
        let position = self.next.len() as u32;
        if page >= self.last.len() {
            self.last.resize(page + 1, NEVER);
        }
        let before = std::mem::replace(&mut self.last[page], position);
        if before != NEVER {
            self.next[before as usize] = position;
        }
        self.next.push(NEVER);
    }

    /// Also computes the next writes. `references` are the references that were pushed. A page that ends is waited for as for a
    /// write: up to there it can stay dirty without one.
    pub(crate) fn look_for_writes(&mut self, references: &[u32]) {
        let none = NextWrite { position: NEVER, references_to: 0 };
        self.writes = vec![none; references.len()];
        for &(last, end) in &self.ended {
            self.writes[last as usize].position = end;
        }
        for (position, &next) in self.next.iter().enumerate().rev() {
            let Some(&reference) = references.get(next as usize) else {
                continue;
            };
            self.writes[position] = match reference & 1 {
                1 => NextWrite { position: next, references_to: 1 },
                _ => {
                    let later = self.writes[next as usize];
                    NextWrite { references_to: later.references_to + 1, ..later }
                }
            };
        }
    }

    /// The future of the page referenced at `position`; no next use where the trace has grown
    /// since.
    #[inline]
    pub(crate) fn at(&self, position: usize, at_end: AtEnd) -> NextUse {
        let or_never = |position: u32| match position {
            NEVER => NextUse::NEVER,
            position => u64::from(position),
        };
        let write = self.writes.get(position);
        NextUse {
            position: position as u64,
            reference: or_never(self.next.get(position).copied().unwrap_or(NEVER)),
            write: match (write.map_or(NEVER, |write| write.position), at_end) {
                (NEVER, AtEnd::Free) => self.next.len() as u64,
                (position, _) => or_never(position),
            },
            references_to_write: write.map_or(0, |write| write.references_to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_references_and_writes() {
        let (a, b) = (0, 1 << 1);
        let references = [a | 1, b, a, b, a | 1, b, a];
        let mut future = Future::default();
        future.extend(&references, &[]);
        let at = |future: &Future, position, at_end| {
            let next = future.at(position, at_end);
            assert_eq!(next.position, position as u64);
            (next.reference, next.write, next.references_to_write)
        };
        assert_eq!(future.at(0, AtEnd::Flush).reference, 2);
        future.look_for_writes(&references);
        assert_eq!(at(&future, 0, AtEnd::Flush), (2, 4, 2));
        assert_eq!(at(&future, 2, AtEnd::Flush), (4, 4, 1));
        let never = NextUse::NEVER;
        assert_eq!(at(&future, 4, AtEnd::Flush), (6, never, 1));
        assert_eq!(at(&future, 4, AtEnd::Free), (6, 7, 1));
        assert_eq!(at(&future, 1, AtEnd::Free), (3, 7, 2));
        assert_eq!(at(&future, 6, AtEnd::Free), (never, 7, 0));
        assert_eq!(at(&future, 6, AtEnd::Flush), (never, never, 0));
        // The second page ends before its last reference, and at the end.
        let mut future = Future::default();
        future.extend(&references[..2], &[]);
        future.extend(&references[2..], &[(4, 1), (7, 1)]);
        future.look_for_writes(&references);
        assert_eq!(at(&future, 1, AtEnd::Flush), (3, 4, 1));
        assert_eq!(at(&future, 3, AtEnd::Free), (never, 4, 0));
        assert_eq!(at(&future, 5, AtEnd::Flush), (never, 7, 0));
        assert_eq!(at(&future, 0, AtEnd::Flush), (2, 4, 2));
    }
}
