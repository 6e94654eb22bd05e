//! Blocks, pages and the numbers of physical pages.

/// The shape of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Erase blocks.
    pub blocks: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Bytes of data in a page.
    pub page_bytes: u32,
    slot_bits: u32,
}

/// The most physical page numbers a device may span: 512 GiB of 2 KiB pages, 2 GiB of memory.
pub const MAX_PHYSICAL: u64 = 1 << 28;

impl Geometry {
    /// The shape; `None` where a count is 0 or the page numbers exceed [`MAX_PHYSICAL`].
    pub fn new(blocks: u32, pages_per_block: u32, page_bytes: u32) -> Option<Self> {
        if blocks == 0 || pages_per_block == 0 || page_bytes == 0 {
            return None;
        }
        let slots = u64::from(pages_per_block).checked_next_power_of_two()?;
        let fits = u64::from(blocks).checked_mul(slots).is_some_and(|n| n <= MAX_PHYSICAL);
        fits.then_some(Self { blocks, pages_per_block, page_bytes, slot_bits: slots.trailing_zeros() })
    }

    /// The number of the page in `slot` of `block`. Numbers have gaps where the pages of a block
    /// are not a power of two, so that no division is needed to find the block of a page.
    #[inline]
    pub fn page(&self, block: u32, slot: u32) -> u32 {
        block << self.slot_bits | slot
    }

    /// The block of a page.
    #[inline]
    pub fn block(&self, page: u32) -> u32 {
        page >> self.slot_bits
    }

    /// The slot of a page in its block, from 0.
    #[inline]
    pub fn slot(&self, page: u32) -> u32 {
        page & ((1 << self.slot_bits) - 1)
    }

    /// One more than the largest page number.
    pub(super) fn page_numbers(&self) -> usize {
        (self.blocks as usize) << self.slot_bits
    }

    /// Physical pages.
    pub fn pages(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.pages_per_block)
    }
}
