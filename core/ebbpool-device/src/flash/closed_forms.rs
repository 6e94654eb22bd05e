//! Write amplification that theory predicts for uniformly random overwrites of single pages.
//!
//! `rho` is logical pages over physical pages in rotation. The forms hold for many blocks; the model
//! is tested against them.

/// Greedy cleaning with `pages_per_block` pages in a block: the mean-field limit (Bux and Iliadis
/// 2010; Desnoyers 2012; Van Houdt 2013). `None` unless 0 < rho < 1.
pub fn greedy(rho: f64, pages_per_block: u32) -> Option<f64> {
    greedy_steady_state(rho, pages_per_block).map(|state| state.write_amplification)
}

/// The steady state of greedy cleaning.
#[derive(Clone, Debug, PartialEq)]
pub struct GreedySteadyState {
    /// Programs per host write.
    pub write_amplification: f64,
    /// Share of blocks with j valid pages, for j from 0 to the pages of a block.
    pub occupancy: Vec<f64>,
}

/// The steady state of greedy cleaning. A block with j valid pages loses one at a rate proportional to
/// j, is closed with all pages valid and cleaned with m or m - 1: the flux through all j is the same.
/// `None` unless 0 < rho < 1.
pub fn greedy_steady_state(rho: f64, pages_per_block: u32) -> Option<GreedySteadyState> {
    if !(rho > 0.0 && rho < 1.0) {
        return None;
    }
    let b = f64::from(pages_per_block);
    // H_b - H_m, growing as m falls.
    let mut harmonic = 0.0;
    for m in (1..=pages_per_block).rev() {
        let at = f64::from(m);
        if m < pages_per_block {
            harmonic += 1.0 / (at + 1.0);
        }
        let flux = (rho * b - at) / (b - at - at * harmonic);
        let rest = 1.0 - flux * harmonic;
        if flux.is_finite() && flux > 0.0 && rest >= -1e-12 && at * rest / flux <= 1.0 + 1e-12 {
            let share = |j: u32| match j {
                j if j < m => 0.0,
                j if j == m => rest,
                j => flux / f64::from(j),
            };
            return Some(GreedySteadyState {
                write_amplification: flux / rho,
                occupancy: (0..=pages_per_block).map(share).collect(),
            });
        }
    }
    // One page per block: nothing is ever copied.
    Some(GreedySteadyState { write_amplification: 1.0, occupancy: vec![1.0 - rho, rho] }).filter(|_| pages_per_block == 1)
}

/// First-in-first-out cleaning (Robinson; Menon; Desnoyers 2012), for any number of pages in a block:
/// 1 / (1 - p) with p = exp(-(1 - p) / rho). `None` unless 0 < rho < 1.
pub fn fifo(rho: f64) -> Option<f64> {
    if !(rho > 0.0 && rho < 1.0) {
        return None;
    }
    // f(p) = exp(-(1 - p) / rho) - p is positive below the solution and negative between it and 1.
    let (mut low, mut high) = (0.0_f64, 1.0 + rho * rho.ln());
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if (-(1.0 - middle) / rho).exp() > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(1.0 / (1.0 - low))
}

/// Random cleaning: a victim is as full as the average block, 1 / (1 - rho). `None` unless 0 < rho < 1.
pub fn random(rho: f64) -> Option<f64> {
    (rho > 0.0 && rho < 1.0).then(|| 1.0 / (1.0 - rho))
}

/// BAST with `log_blocks` log blocks on `data_blocks` data blocks, all mapped: a write hits a logical
/// block that has a log block with probability L / N, else a full merge copies b pages.
pub fn bast(pages_per_block: u32, log_blocks: u32, data_blocks: u32) -> f64 {
    let share = f64::from(log_blocks) / f64::from(data_blocks);
    1.0 + f64::from(pages_per_block) * (1.0 - share).max(0.0)
}

/// FAST with `log_blocks` log blocks, one of them for sequential writes, on `data_blocks` data blocks,
/// all mapped: a data block waits N writes for its first log page, which then lives for (R - 1/2) b
/// writes, R = L - 1, before a full merge copies b pages.
pub fn fast(pages_per_block: u32, log_blocks: u32, data_blocks: u32) -> f64 {
    let b = f64::from(pages_per_block);
    let data_blocks = f64::from(data_blocks);
    let random = f64::from(log_blocks) - 1.0;
    1.0 + b * data_blocks / (data_blocks + (random - 0.5) * b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 0.0006, "{value} is not {expected}");
    }

    /// Independently computed values: (rho, fifo, greedy at b = 16, 32, 64, 128 and 256).
    const TABLE: [(f64, f64, [f64; 5]); 9] = [
        (1.0 / 1.07, 7.817, [5.328, 6.347, 7.010, 7.392, 7.597]),
        (0.93, 7.318, [5.153, 6.057, 6.615, 6.945, 7.124]),
        (1.0 / 1.125, 4.680, [3.733, 4.137, 4.389, 4.528, 4.603]),
        (0.875, 4.182, [3.413, 3.750, 3.949, 4.062, 4.120]),
        (0.80, 2.693, [2.361, 2.514, 2.599, 2.645, 2.668]),
        (0.78125, 2.481, [2.202, 2.330, 2.403, 2.441, 2.461]),
        (0.75, 2.201, [1.977, 2.084, 2.140, 2.170, 2.185]),
        (0.72, 1.992, [1.813, 1.896, 1.942, 1.967, 1.979]),
        (0.50, 1.255, [1.196, 1.223, 1.239, 1.247, 1.251]),
    ];

    #[test]
    fn the_forms_have_their_published_values() {
        for (rho, by_age, by_gain) in TABLE {
            close(fifo(rho).expect("in range"), by_age);
            for (pages, expected) in [16, 32, 64, 128, 256].into_iter().zip(by_gain) {
                close(greedy(rho, pages).expect("in range"), expected);
            }
        }
    }

    #[test]
    fn occupancy_is_a_distribution_with_mean_rho() {
        for (rho, ..) in TABLE {
            let state = greedy_steady_state(rho, 64).expect("in range");
            let total: f64 = state.occupancy.iter().sum();
            let pages = |(j, share): (usize, &f64)| j as f64 * share;
            let mean: f64 = state.occupancy.iter().enumerate().map(pages).sum();
            assert!((total - 1.0).abs() < 1e-9, "{rho}: {total}");
            assert!((mean / 64.0 - rho).abs() < 1e-9, "{rho}: {mean}");
        }
    }

    #[test]
    fn log_blocks_have_their_published_values() {
        for (log_blocks, with_bast, with_fast) in [(8, 64.5, 46.5), (32, 63.0, 23.0), (128, 57.0, 8.2)] {
            assert!((bast(64, log_blocks, 1024) - with_bast).abs() < 0.05);
            assert!((fast(64, log_blocks, 1024) - with_fast).abs() < 0.06);
        }
    }

    #[test]
    fn a_rho_without_steady_state_has_no_form() {
        for rho in [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!((greedy(rho, 64), fifo(rho), random(rho)), (None, None, None));
        }
        assert_eq!(greedy(0.5, 1), Some(1.0));
    }
}
