//! What is compared: each serves references to pages that are all in memory.

mod bare;
mod caches;
mod pools;

use std::error::Error;
use std::sync::Arc;

/// Bytes of a page.
pub const PAGE_SIZE: usize = 4096;

const LINE: usize = 64;

/// Something that finds pages by their number.
pub trait Rival: Sync {
    /// For the table.
    fn name(&self) -> String;
    /// What it does beside finding the page.
    fn promises(&self) -> &'static str;
    /// Touches each of the pages in one cache line; answers something that depends on all.
    fn serve(&self, references: &[u32]) -> u64;
}

/// The rivals whose names are `wanted`, over `pages` pages.
///
/// # Errors
///
/// What a pool cannot be opened for.
pub fn all(pages: u32, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Box<dyn Rival>>, Box<dyn Error>> {
    let memory: Arc<[u8]> = vec![1; pages as usize * PAGE_SIZE].into();
    let mut rivals = bare::all(pages, &memory);
    rivals.extend(caches::all(pages, &memory));
    rivals.retain(|rival| wanted(&rival.name()));
    rivals.extend(pools::all(pages, wanted)?);
    Ok(rivals)
}

/// Where a page is touched: not at the same place in each, for these would share a few sets of the
/// processor's cache.
#[inline]
fn place(page: u32) -> usize {
    (page as usize % (PAGE_SIZE / LINE - 1) + 1) * LINE
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The word that is touched of the page in a frame.
#[inline]
fn touch(memory: &[u8], frame: u32, page: u32) -> u64 {
    word(memory, frame as usize * PAGE_SIZE + place(page))
}

/// Sums the results of `find` for all pages.
#[inline]
fn sum(references: &[u32], find: impl Fn(u32) -> u64) -> u64 {
    let words = references.iter().map(|&page| find(page));
    words.fold(0, u64::wrapping_add)
}

/// In which frame each page is: not in the order of their numbers, as after some time of use.
fn frames(pages: u32) -> Vec<u32> {
    use rand::SeedableRng;
    use rand::seq::SliceRandom;
    let mut frames: Vec<u32> = (0..pages).collect();
    frames.shuffle(&mut rand::rngs::SmallRng::seed_from_u64(1));
    frames
}
