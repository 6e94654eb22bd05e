//! Allocation maps: a bit for each page, set if it is in use.
//!
//! Map `i` covers the pages from `i * span` on, and is page `i * span + 1`. Payload: kind, 15 bytes of
//! nothing, then the bits, the lowest of a byte first.

use std::ops::Range;

use super::{PageKind, ROOT};
use crate::error::DatabaseError;

const MAP_HEADER: usize = 16;

/// The layout of the allocation maps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationMaps {
    /// The number of pages that a map covers.
    pub(crate) span: u64,
}

impl AllocationMaps {
    pub(crate) fn new(payload: usize) -> Self {
        let bytes = payload.saturating_sub(MAP_HEADER).max(1);
        AllocationMaps { span: bytes as u64 * 8 }
    }

    /// The map that has a page's bit.
    pub(crate) fn of(&self, page: u64) -> u64 {
        page - page % self.span + 1
    }

    pub(crate) fn is_map(&self, page: u64) -> bool {
        page % self.span == 1
    }

    /// The maps of the pages before `end`, ascending.
    pub(crate) fn below(&self, end: u64) -> impl Iterator<Item = u64> + use<> {
        (0..end).step_by(self.step()).map(|first| first + 1)
    }

    /// Where `pages` pages end, the first ones that are no maps, with their maps.
    pub(crate) fn packed_end(&self, pages: u64) -> u64 {
        let in_span = self.span - 1;
        // A map is the second page of its span.
        let rest = match pages % in_span {
            0 => 0,
            rest => rest + 1,
        };
        pages / in_span * self.span + rest
    }

    fn step(&self) -> usize {
        usize::try_from(self.span).unwrap_or(usize::MAX)
    }

    /// Whether a page is in use, by the payload of its map.
    pub(crate) fn is_used(&self, map: u64, payload: &[u8], page: u64) -> Result<bool, DatabaseError> {
        PageKind::Map.expect(map, payload)?;
        let (byte, bit) = self.bit_of(map, page)?;
        match payload.get(byte) {
            Some(bits) => Ok(bits & bit != 0),
            None => Err(ends_early(map)),
        }
    }

    /// The pages that a map marks as in use, ascending.
    pub(crate) fn used(&self, map: u64, payload: &[u8]) -> Result<Vec<u64>, DatabaseError> {
        PageKind::Map.expect(map, payload)?;
        self.check_is_map(map)?;
        let bits = payload.get(MAP_HEADER..).ok_or_else(|| ends_early(map))?;
        let mut used = Vec::new();
        for (byte, &bits) in bits.iter().enumerate() {
            let first = (map - 1).saturating_add(byte as u64 * 8);
            let set = (0..8).filter(|bit| bits & 1 << bit != 0);
            used.extend(set.map(|bit| first.saturating_add(bit)));
        }
        Ok(used)
    }

    /// Formats a payload as a map in which the map itself is marked as in use, and in the first map also
    /// the meta page and the root, which are always in use.
    pub(crate) fn format(&self, map: u64, payload: &mut [u8]) -> Result<(), DatabaseError> {
        self.check_is_map(map)?;
        self.check_length(map, payload)?;
        payload.fill(0);
        payload[0] = PageKind::Map as u8;
        let used = match map {
            1 => 0..ROOT + 1,
            _ => map..map + 1,
        };
        self.mark(map, payload, used, true)
    }

    /// Marks pages as used or free.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Corrupt`] if the payload is not a map, or not that of all these pages. Nothing has
    /// changed then.
    pub(crate) fn mark(&self, map: u64, payload: &mut [u8], pages: Range<u64>, used: bool) -> Result<(), DatabaseError> {
        PageKind::Map.expect(map, payload)?;
        self.check_length(map, payload)?;
        if pages.is_empty() {
            return Ok(());
        }
        self.bit_of(map, pages.start)?;
        self.bit_of(map, pages.end - 1)?;
        for page in pages {
            let (byte, bit) = self.bit_of(map, page)?;
            match used {
                true => payload[byte] |= bit,
                false => payload[byte] &= !bit,
            }
        }
        Ok(())
    }

    /// The byte and the bit of a page in the payload of its map.
    fn bit_of(&self, map: u64, page: u64) -> Result<(usize, u8), DatabaseError> {
        self.check_is_map(map)?;
        if self.of(page) != map {
            return Err(DatabaseError::corrupt(map, format!("it is not the map of page {page}")));
        }
        let index = page % self.span;
        Ok((MAP_HEADER + (index / 8) as usize, 1 << (index % 8)))
    }

    fn check_is_map(&self, map: u64) -> Result<(), DatabaseError> {
        match self.is_map(map) {
            true => Ok(()),
            false => Err(DatabaseError::corrupt(map, "no allocation map belongs there")),
        }
    }

    fn check_length(&self, map: u64, payload: &[u8]) -> Result<(), DatabaseError> {
        let bits = payload.len().saturating_sub(MAP_HEADER) as u64 * 8;
        match bits == self.span {
            true => Ok(()),
            false => Err(ends_early(map)),
        }
    }
}

fn ends_early(map: u64) -> DatabaseError {
    DatabaseError::corrupt(map, "the allocation map is of another length")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_new_map_marks_itself_and_the_first_one_all_permanent_pages() {
        let maps = AllocationMaps::new(480);
        assert_eq!(maps.span, 464 * 8);
        let mut payload = vec![7; 480];
        maps.format(1, &mut payload).unwrap();
        assert_eq!(payload[16], 0b111);
        assert_eq!(maps.used(1, &payload).unwrap(), [0, 1, 2]);
        maps.format(maps.span + 1, &mut payload).unwrap();
        assert_eq!(maps.used(maps.span + 1, &payload).unwrap(), [maps.span + 1]);
        assert!(maps.format(2, &mut payload).is_err());
        let below: Vec<_> = maps.below(maps.span + 1).collect();
        assert_eq!(below, [1, maps.span + 1]);
        assert_eq!(maps.below(maps.span).count(), 1);
        let span = maps.span;
        let ends = [2, 3, span - 2, span - 1, span, span + 1].map(|pages| maps.packed_end(pages));
        assert_eq!(ends, [3, 4, span - 1, span, span + 2, span + 3]);
    }

    #[test]
    fn pages_of_another_map_are_refused() {
        let maps = AllocationMaps::new(480);
        let mut payload = vec![0; 480];
        maps.format(1, &mut payload).unwrap();
        let before = payload.clone();
        for (map, pages) in [
            (1, maps.span - 1..maps.span + 1),
            (1, maps.span..maps.span + 1),
            (2, 3..4),
            (maps.span + 1, 3..4),
            (1, u64::MAX - 1..u64::MAX),
        ] {
            assert!(maps.mark(map, &mut payload, pages, true).is_err());
        }
        assert_eq!(payload, before);
        assert!(maps.is_used(1, &payload, maps.span).is_err());
        assert!(maps.is_used(maps.of(u64::MAX), &payload, 3).is_err());
    }

    proptest! {
        #[test]
        fn marks_are_a_set(
            which in 0..3u64,
            marks in prop::collection::vec((0..464 * 8u64, 1..40u64, any::<bool>()), 1..40),
        ) {
            let maps = AllocationMaps::new(480);
            let begin = which * maps.span;
            let map = begin + 1;
            let mut payload = vec![0; 480];
            maps.format(map, &mut payload).unwrap();
            let mut model: BTreeSet<u64> = maps.used(map, &payload).unwrap().into_iter().collect();
            for (first, count, used) in marks {
                let pages = begin + first..begin + (first + count).min(maps.span);
                maps.mark(map, &mut payload, pages.clone(), used).unwrap();
                for page in pages {
                    match used {
                        true => model.insert(page),
                        false => model.remove(&page),
                    };
                    prop_assert_eq!(maps.is_used(map, &payload, page).unwrap(), used);
                }
            }
            let used: BTreeSet<u64> = maps.used(map, &payload).unwrap().into_iter().collect();
            prop_assert_eq!(used, model);
        }
    }
}
