//! Draws from any distribution in constant time (Walker's alias method), with integer
//! weights.

use ebbpool_cost::{PageProbabilities, PageProbability};

use super::random::Chance;

/// A column's capacity; the weights of `n` items are scaled to `n` times this.
const CAPACITY: u64 = 1 << 32;

/// A column, which two items share.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// Draws below this select `own`, others `alias`.
    threshold: u32,
    own: u32,
    alias: u32,
}

/// A distribution over numbers below 2^32.
#[derive(Debug)]
pub(crate) struct AliasTable {
    columns: Vec<Column>,
}

impl AliasTable {
    /// The distribution in which `items[i]` has a probability in proportion to
    /// `weight(i)`. Weights must be finite and positive, the first the
    /// largest; there must be at least one item. `None` if memory does not suffice.
    pub(crate) fn new(items: &[u32], weight: impl Fn(usize) -> f64) -> Option<AliasTable> {
        let count = items.len();
        let mut shares: Vec<u64> = Vec::new();
        shares.try_reserve_exact(count).ok()?;
        let mut columns: Vec<Column> = Vec::new();
        columns.try_reserve_exact(count).ok()?;

        // Smallest first and compensated (Kahan), because the first item gets the error of
        // the sum: with 10^8 items a plain sum would be wrong by about an item's share.
        let (mut sum, mut lost) = (0.0, 0.0);
        for i in (0..count).rev() {
            let next = weight(i) - lost;
            let with = sum + next;
            lost = (with - sum) - next;
            sum = with;
        }
        let scale = count as f64 * CAPACITY as f64 / sum;
        // The remainder of rounding one item down is added to the next ones, so that no
        // item is wrong by more than one.
        let mut carried = 0.0;
        let mut total = 0u128;
        for i in 0..count {
            let exact = weight(i) * scale + carried;
            let share = exact as u64;
            carried = exact - share as f64;
            total += u128::from(share);
            shares.push(share);
        }
        // The error of the scale's last bits, negligible against the largest share. The
        // arithmetic wraps because the sum may be too large as well as too small.
        let missing = (count as u128 * u128::from(CAPACITY)).wrapping_sub(total) as u64;
        shares[0] = shares[0].wrapping_add(missing);

        columns.extend(items.iter().map(|&own| Column { threshold: u32::MAX, own, alias: own }));
        let fill = |columns: &mut [Column], shares: &mut [u64], small: usize, large: usize| {
            columns[small].threshold = shares[small] as u32;
            columns[small].alias = items[large];
            shares[large] -= CAPACITY - shares[small];
        };
        // Large and small items are searched from the front. A large item fills small
        // columns until it is small itself. Then the next large item fills its column: at
        // once if the search has passed it, else when the search gets there.
        let next_large = |shares: &[u64], from: usize| {
            let found = shares[from..].iter().position(|&share| share >= CAPACITY);
            found.map(|offset| from + offset)
        };
        let mut large = next_large(&shares, 0);
        for i in 0..count {
            let mut small = i;
            while shares[small] < CAPACITY
                && let Some(filler) = large
            {
                fill(&mut columns, &mut shares, small, filler);
                if shares[filler] >= CAPACITY {
                    break;
                }
                large = next_large(&shares, filler + 1);
                if filler > i {
                    break;
                }
                small = filler;
            }
        }
        Some(AliasTable { columns })
    }

    /// Number of items.
    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }

    /// The probability of each item below `items`, as it is drawn; `None` if memory does not suffice.
    pub(crate) fn probabilities(&self, items: usize) -> Option<Vec<f64>> {
        // Sums of integers, so that equal probabilities are equal to the last bit.
        let mut shares: Vec<u64> = Vec::new();
        shares.try_reserve_exact(items).ok()?;
        shares.resize(items, 0);
        let mut add = |item: u32, share: u64| {
            if let Some(sum) = shares.get_mut(item as usize) {
                *sum += share;
            }
        };
        for column in &self.columns {
            // A column of one item has the largest threshold, and the item is its alias too.
            add(column.own, u64::from(column.threshold));
            add(column.alias, CAPACITY - u64::from(column.threshold));
        }
        let all = CAPACITY as f64 * self.columns.len() as f64;
        let mut probabilities = Vec::new();
        probabilities.try_reserve_exact(items).ok()?;
        probabilities.extend(shares.into_iter().map(|share| share as f64 / all));
        Some(probabilities)
    }

    /// The item for a random column below [`AliasTable::len`] and 32 random bits.
    #[inline]
    pub(crate) fn item(&self, column: usize, bits: u32) -> u32 {
        let Column { threshold, own, alias } = self.columns[column];
        // The choice is unpredictable, so it is made without a branch.
        [own, alias][usize::from(bits >= threshold)]
    }
}

/// The probabilities of pages, where a reference writes a page drawn from `writes` with the chance `write`, and else
/// reads one drawn from `reads`; the tables have the same pages, numbered from 0. `None` if memory does not suffice.
pub(crate) fn page_probabilities(reads: &AliasTable, writes: &AliasTable, write: Chance) -> Option<PageProbabilities> {
    let pages = reads.len();
    let write = write.to_f64();
    let mut found = Vec::new();
    found.try_reserve_exact(pages).ok()?;
    let each = reads.probabilities(pages)?.into_iter();
    found.extend(each.zip(writes.probabilities(pages)?).map(|(reads, writes)| {
        let write_probability = write * writes;
        PageProbability { reference: (1.0 - write) * reads + write_probability, write: write_probability }
    }));
    Some(PageProbabilities::from_pages(found))
}

#[cfg(test)]
mod tests {
    use super::super::power::inverse_power;
    use super::*;

    fn kahan(values: impl Iterator<Item = f64>) -> f64 {
        let (mut sum, mut lost) = (0.0, 0.0);
        for value in values {
            let next: f64 = value - lost;
            let with = sum + next;
            lost = (with - sum) - next;
            sum = with;
        }
        sum
    }

    #[test]
    fn probabilities_are_those_of_the_weights() {
        for count in [1, 2, 3, 10, 1000, 100_000] {
            for alpha in [0.0, 1e-13, 1e-9, 1e-4, 0.3, 1.0, 1.2, 5.0] {
                let weight = |i: usize| inverse_power(i as u64 + 1, alpha);
                let items: Vec<u32> = (0..count as u32).collect();
                let table = AliasTable::new(&items, weight).unwrap();
                let sum = kahan((0..count).map(weight));
                for (i, found) in table.probabilities(count).unwrap().into_iter().enumerate() {
                    let error = (found - weight(i) / sum).abs();
                    // One unit of the last place, and the error that the largest absorbs.
                    let allowed = 2.0 / (CAPACITY as f64 * count as f64) + 1e-15;
                    assert!(error <= allowed, "{count} {alpha} {i}: {error:e}");
                }
            }
        }
    }
}
