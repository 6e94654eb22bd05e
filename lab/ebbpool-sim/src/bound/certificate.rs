//! The check that a lower bound is valid. It uses integers, the trace and the prices, nothing else.
//!
//! Whatever the prices, the bill without any resident page, less the total price of the frames,
//! less the most that each page could save by buying frames, is not more than the bill of any
//! schedule. So the check does not depend on how the prices were found. It shares no code with the
//! search for them.

use super::{RecordedTrace, UNITS};
use crate::engine::AtEnd;

/// The largest R that the check uses; a larger R is replaced by it, which can only lower the bound.
const MOST_ASYMMETRY: f64 = (1u64 << 40) as f64;

/// The cost of a page write, in 1 / [`UNITS`] page reads.
pub(super) fn write_units(asymmetry: f64) -> i128 {
    (asymmetry.min(MOST_ASYMMETRY) * UNITS as f64).floor() as i128
}

/// The state of a page during the pass over the trace.
#[derive(Clone, Copy, Default)]
struct PageState {
    /// The position of its latest reference.
    latest: Option<usize>,
    /// True since its first write.
    written: bool,
    /// The gain of keeping it resident without a break since its latest write.
    throughout: i128,
    /// The gain of keeping it resident since then only where that pays.
    where_profitable: i128,
}

/// The lower bound that the prices prove, in 1 / [`UNITS`] page reads, for the whole trace.
///
/// `prices[u]` is the price of a frame at all positions before u, also in 1 / [`UNITS`]. Returns `None` if the prices are not
/// valid: one for each position and the end, starting at 0 and never decreasing.
pub(super) fn certify(trace: &RecordedTrace, frames: u64, asymmetry: f64, at_end: AtEnd, prices: &[u64]) -> Option<i128> {
    let RecordedTrace { references, pages, whole, ends } = trace;
    let valid = prices.len() == references.len() + 1 && prices.first() == Some(&0) && prices.is_sorted() && frames > 0;
    if !valid {
        return None;
    }
    let read = i128::from(UNITS);
    let write = write_units(asymmetry);
    let price = |from: usize, to: usize| i128::from(prices[to]) - i128::from(prices[from]);
    // The most that a page can save from its latest write on, if it is never written once it waits for this position.
    let waiting = |page: &PageState, end: usize| match page.latest {
        Some(latest) if page.written => {
            let stays = write + page.throughout - price(latest + 1, end);
            page.where_profitable.max(stays)
        }
        _ => page.where_profitable,
    };
    let mut of = vec![PageState::default(); pages.len()];
    let mut bill = 0;
    let mut gains = 0;
    let mut next_end = 0;
    for (position, reference) in references.iter().enumerate() {
        while let Some(&(at, page)) = ends.get(next_end).filter(|(at, _)| *at <= position) {
            gains += waiting(&std::mem::take(&mut of[page as usize]), at);
            next_end += 1;
        }
        let page = &mut of[(reference >> 1) as usize];
        let is_whole = whole.get(position) == Some(&true);
        let read = if is_whole { 0 } else { read };
        bill += read;
        if let Some(latest) = page.latest {
            let gain = read - price(latest + 1, position);
            page.throughout += gain;
            page.where_profitable += gain.max(0);
        }
        page.latest = Some(position);
        if reference & 1 == 1 {
            gains += match page.written {
                true => page.where_profitable.max(write + page.throughout),
                false => page.where_profitable,
            };
            bill += write;
            *page = PageState { latest: Some(position), written: true, ..PageState::default() };
        }
    }
    let end = references.len();
    for &(_, page) in &ends[next_end..] {
        gains += waiting(&std::mem::take(&mut of[page as usize]), end);
    }
    for page in &of {
        gains += match at_end {
            AtEnd::Free => waiting(page, end),
            AtEnd::Flush => page.where_profitable,
        };
    }
    let sold = i128::from(frames - 1) * price(0, end);
    Some(bill - sold - gains)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u64 = UNITS;

    fn trace(references: &[u32], pages: u64) -> RecordedTrace {
        RecordedTrace { references: references.to_vec(), pages: (0..pages).collect(), ..RecordedTrace::default() }
    }

    #[test]
    fn without_prices_every_page_stays_resident() {
        // W0 R1 W0 R1 W2.
        let trace = trace(&[1, 2, 1, 2, 5], 3);
        let free = [0; 6];
        let bound = |at_end| certify(&trace, 2, 4.0, at_end, &free);
        assert_eq!(bound(AtEnd::Free), Some(3 * i128::from(ONE)));
        assert_eq!(bound(AtEnd::Flush), Some((3 + 2 * 4) * i128::from(ONE)));
    }

    #[test]
    fn a_worked_value() {
        // W0 R1 R2 W0 with two frames: 1 and 2 must be read, 0 can stay: 3 reads.
        // A price of 1.5 at position 1 sells one frame for 1.5 and leaves 0 with R + 1 - 1.5.
        let trace = trace(&[1, 2, 4, 1], 3);
        let prices = [0, 0, 3 * ONE / 2, 3 * ONE / 2, 3 * ONE / 2];
        let bound = certify(&trace, 2, 4.0, AtEnd::Flush, &prices);
        // 4 reads + 2 * 4 for writes, less 1.5 for the frame, less 3.5.
        assert_eq!(bound, Some((12 - 5) * i128::from(ONE)));
        // With one frame no page can stay, and the price reflects that.
        let high_prices = [0, 0, 5 * ONE, 5 * ONE, 5 * ONE];
        let bound = certify(&trace, 1, 4.0, AtEnd::Flush, &high_prices);
        assert_eq!(bound, Some(12 * i128::from(ONE)));
    }

    #[test]
    fn pages_that_end_are_not_written_and_whole_writes_read_nothing() {
        // W0 R1 W0, then 0 ends, and comes back by a write of all of it.
        let mut trace = trace(&[1, 2, 1, 1], 2);
        trace.whole = vec![false, false, false, true];
        trace.ends = vec![(3, 0)];
        let free = [0; 5];
        // Two reads, and the write of the page that does not end.
        assert_eq!(certify(&trace, 2, 4.0, AtEnd::Flush, &free), Some((2 + 4) * i128::from(ONE)));
        assert_eq!(certify(&trace, 2, 4.0, AtEnd::Free, &free), Some(2 * i128::from(ONE)));
        // To wait for the end costs the price at position 1, and one frame is sold for it.
        let prices = [0, 0, 3 * ONE, 3 * ONE, 3 * ONE];
        assert_eq!(certify(&trace, 2, 4.0, AtEnd::Flush, &prices), Some((3 + 3 * 4 - 3 - 2 - 4) * i128::from(ONE)));
    }

    #[test]
    fn invalid_prices_prove_nothing() {
        let bound = |prices: &[u64]| certify(&trace(&[0, 0], 1), 1, 1.0, AtEnd::Free, prices);
        assert!(bound(&[0, 1, 2]).is_some());
        assert_eq!(bound(&[0, 2, 1]), None);
        assert_eq!(bound(&[1, 1, 1]), None);
        assert_eq!(bound(&[0, 0]), None);
    }

    #[test]
    fn a_huge_asymmetry_is_no_overflow() {
        let bound = certify(&trace(&[1, 3, 1], 2), 1, f64::MAX, AtEnd::Flush, &[0, 0, 0, 0]);
        assert!(bound.is_some_and(|bound| bound > 0));
    }
}
