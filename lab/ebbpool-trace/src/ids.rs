//! Dense numbers for pages, in order of first appearance.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use prefetch_index::prefetch_index;

/// Pages below this are found in an array, others by hashing.
const DIRECT: u64 = 1 << 26;

/// Pages looked up together.
const TOGETHER: usize = 64;

/// Assigns each page a small number once, so that no simulation and no statistic hashes: page tables
/// are arrays, and pages that appear early, usually the hot ones, share cache lines.
#[derive(Debug, Clone, Default)]
pub struct Ids {
    /// The number + 1 of each page below [`DIRECT`]; 0 where it has none yet.
    direct: Vec<u32>,
    hashed: HashMap<u64, u32>,
    /// The same in order, once a trim has covered more pages than there are.
    ordered: Option<BTreeMap<u64, u32>>,
    count: u32,
}

impl Ids {
    /// Number of distinct pages so far.
    pub fn count(&self) -> u64 {
        u64::from(self.count)
    }

    /// Calls `each` with the numbers of the pages so far from `first` to `last`.
    #[cold]
    pub fn within(&mut self, first: u64, last: u64, mut each: impl FnMut(u32)) {
        let start = usize::try_from(first).unwrap_or(usize::MAX).min(self.direct.len());
        let end = usize::try_from(last.saturating_add(1)).unwrap_or(usize::MAX).clamp(start, self.direct.len());
        self.direct[start..end].iter().filter(|&&entry| entry > 0).for_each(|entry| each(entry - 1));
        let first = first.max(DIRECT);
        if last >= first && last - first < self.hashed.len() as u64 {
            (first..=last).filter_map(|page| self.hashed.get(&page)).for_each(|&number| each(number));
        } else if last >= first {
            let hashed = &self.hashed;
            let ordered = self.ordered.get_or_insert_with(|| hashed.iter().map(|(&page, &number)| (page, number)).collect());
            ordered.range(first..=last).for_each(|(_, &number)| each(number));
        }
    }

    /// The numbers of a few pages, in order; calls `first` with each page that is new.
    #[inline]
    pub fn ids(&mut self, batch: &[u64], mut first: impl FnMut(u64), mut each: impl FnMut(u32)) {
        for (at, pages) in batch.chunks(TOGETHER).enumerate() {
            for &page in batch.iter().skip((at + 1) * TOGETHER).take(TOGETHER) {
                prefetch_index(&self.direct, page as usize);
            }
            // All are looked up before the first is used, so that the waits for memory overlap.
            let mut entries_found = [0; TOGETHER];
            for (entries_found, &page) in entries_found.iter_mut().zip(pages) {
                *entries_found = usize::try_from(page).ok().and_then(|at| self.direct.get(at)).map_or(0, |&id| id);
            }
            for (&entries_found, &page) in entries_found.iter().zip(pages) {
                each(if entries_found > 0 { entries_found - 1 } else { self.id(page, &mut first) });
            }
        }
    }

    /// The number of `page`; calls `first` if it is new.
    #[inline]
    pub fn id(&mut self, page: u64, first: impl FnOnce(u64)) -> u32 {
        if page >= DIRECT {
            return *self.hashed.entry(page).or_insert_with(|| {
                first(page);
                self.ordered.iter_mut().for_each(|ordered| _ = ordered.insert(page, self.count));
                self.count += 1;
                self.count - 1
            });
        }
        let at = page as usize;
        if at >= self.direct.len() {
            self.direct.resize((at + 1).next_power_of_two(), 0);
        }
        if self.direct[at] == 0 {
            first(page);
            self.count += 1;
            self.direct[at] = self.count;
        }
        self.direct[at] - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_numbered_in_order_of_first_appearance() {
        // Some twice in one group, some in groups apart, some in the array and some not.
        let far = [1 << 20, DIRECT, u64::MAX];
        let batch: Vec<u64> = (0..3 * TOGETHER as u64)
            .map(|at| match at % 5 {
                3 => far[(at / 5 % 3) as usize],
                rest => at * at % 37 + rest % 2,
            })
            .collect();
        let mut expected_pages: Vec<u64> = Vec::new();
        let expected: Vec<u32> = batch
            .iter()
            .map(|page| {
                let entries_found = expected_pages.iter().position(|entries_found| entries_found == page);
                entries_found.unwrap_or_else(|| {
                    expected_pages.push(*page);
                    expected_pages.len() - 1
                }) as u32
            })
            .collect();

        let mut ids = Ids::default();
        let (mut pages, mut numbers) = (Vec::new(), Vec::new());
        for part in batch.chunks(TOGETHER + 7) {
            ids.ids(part, |page| pages.push(page), |id| numbers.push(id));
        }
        let pages_seen = expected_pages.len() as u64;
        assert_eq!((&numbers, &pages), (&expected, &expected_pages));
        assert_eq!(ids.count(), pages_seen);
        for (first, last) in [(0, 20), (20, 20), (DIRECT, u64::MAX), (DIRECT + 1, DIRECT + 2), (0, u64::MAX), (1 << 20, DIRECT)]
        {
            let mut found = Vec::new();
            ids.within(first, last, |id| found.push(pages[id as usize]));
            found.sort_unstable();
            let mut expected: Vec<u64> = pages.iter().copied().filter(|page| (first..=last).contains(page)).collect();
            expected.sort_unstable();
            assert_eq!(found, expected, "{first} to {last}");
        }
    }
}
