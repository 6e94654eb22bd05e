//! Doubly linked lists over blocks, one list per key.

use super::super::nand::NONE;

/// Lists over the blocks of a device; a block is in at most one of them.
#[derive(Clone)]
pub(super) struct BlockLists {
    prev: Vec<u32>,
    next: Vec<u32>,
    head: Vec<u32>,
    tail: Vec<u32>,
}

impl BlockLists {
    pub(super) fn new(blocks: u32, lists: u32) -> Self {
        Self {
            prev: vec![NONE; blocks as usize],
            next: vec![NONE; blocks as usize],
            head: vec![NONE; lists as usize],
            tail: vec![NONE; lists as usize],
        }
    }

    pub(super) fn lists(&self) -> u32 {
        self.head.len() as u32
    }

    /// The first block of a list.
    #[inline]
    pub(super) fn first(&self, list: u32) -> Option<u32> {
        let first = self.head[list as usize];
        (first != NONE).then_some(first)
    }

    /// The blocks of a list from its head.
    pub(super) fn iter(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.first(list), |&block| {
            let next = self.next[block as usize];
            (next != NONE).then_some(next)
        })
    }

    #[inline]
    pub(super) fn push(&mut self, list: u32, block: u32) {
        let last = self.tail[list as usize];
        self.prev[block as usize] = last;
        self.next[block as usize] = NONE;
        self.tail[list as usize] = block;
        match last {
            NONE => self.head[list as usize] = block,
            last => self.next[last as usize] = block,
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, list: u32, block: u32) {
        let (prev, next) = (self.prev[block as usize], self.next[block as usize]);
        match prev {
            NONE => self.head[list as usize] = next,
            prev => self.next[prev as usize] = next,
        }
        match next {
            NONE => self.tail[list as usize] = prev,
            next => self.prev[next as usize] = prev,
        }
    }
}
