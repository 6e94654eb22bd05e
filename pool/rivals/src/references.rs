//! Which pages are asked for, made before anything is measured.

use rand::SeedableRng;
use rand::distr::Distribution;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand_distr::Zipf;

/// `count` page numbers below `pages`, Zipf-distributed; ranks are scattered over the numbers.
///
/// # Errors
///
/// If there is no such distribution.
pub fn zipf(pages: u32, alpha: f64, count: usize, seed: u64) -> Result<Vec<u32>, rand_distr::ZipfError> {
    let mut scattered: Vec<u32> = (0..pages).collect();
    // The same for every seed: threads agree on which pages are hot.
    scattered.shuffle(&mut SmallRng::seed_from_u64(0));
    let ranks = Zipf::new(f64::from(pages), alpha)?;
    let mut random = SmallRng::seed_from_u64(seed);
    let page = |_| scattered[ranks.sample(&mut random) as usize - 1];
    Ok((0..count).map(page).collect())
}
