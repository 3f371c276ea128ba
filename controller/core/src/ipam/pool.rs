//! The blocks of one cluster CIDR, one for each Node.
//!
//! The allocator asks for a free block and says itself which CIDRs are in use; a pool knows only its range, the blocks that
//! Services reserve, and where the last search ended, so that a block that was freed is not given away at once.

use std::{
    cmp::Reverse,
    ops::{Range, RangeInclusive},
};

use crate::cidr::Cidr;

/// Bits of a block's number: all of IPv4.
const MAX_BITS: u8 = 32;

/// One cluster CIDR, cut into blocks of equal size of which a Node gets one. Which are in use the caller knows.
#[derive(Clone, Debug)]
pub struct Pool {
    range: Cidr,
    prefix_len: u8,
    /// Blocks with addresses of Services.
    reserved: Vec<RangeInclusive<u64>>,
    /// The block after the one that was allocated last.
    next: u64,
}

/// How many blocks a [`Pool`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// All that a Node may get: those reserved for Services are not counted.
    pub total: u64,
    /// Blocks that no Node has.
    pub free: u64,
}

impl Pool {
    /// The blocks of `range` with a prefix of `prefix_len` bits, except those with addresses of
    /// `services`, which are rounded out to whole blocks (I-9). Returns `None` if `range` has no such blocks, or
    /// all of them are reserved.
    pub fn new(range: Cidr, prefix_len: u8, services: &[Cidr]) -> Option<Self> {
        let bits = prefix_len.checked_sub(range.prefix_len())?;
        if bits > MAX_BITS || prefix_len > range.family().bits() {
            return None;
        }
        let mut pool = Self {
            range,
            prefix_len,
            reserved: Vec::new(),
            next: 0,
        };
        let reserved = services
            .iter()
            .filter_map(|services| pool.blocks(*services));
        let mut reserved: Vec<_> = reserved.collect();
        reserved.sort_unstable_by_key(|blocks| (*blocks.start(), Reverse(*blocks.end())));
        // A range lies within an earlier one, or has no block of it.
        reserved.dedup_by(|later, earlier| earlier.contains(later.start()));
        pool.reserved = reserved;
        (pool.size([]).total > 0).then_some(pool)
    }

    /// The cluster CIDR.
    pub const fn range(&self) -> Cidr {
        self.range
    }

    /// Length of a block's prefix.
    pub const fn node_prefix(&self) -> u8 {
        self.prefix_len
    }

    /// The first free block after the block that was taken last, or from the start of the range on (I-12). `in_use` returns
    /// a CIDR in use that has an address of a block, if there is one. Returns `None` if all are in use (I-13).
    pub fn free(&self, in_use: impl Fn(Cidr) -> Option<Cidr>) -> Option<Cidr> {
        let search = |blocks| self.free_among(blocks, &in_use);
        search(self.next..self.len()).or_else(|| search(0..self.next))
    }

    /// `block` is allocated: the next search begins behind it.
    pub fn taken(&mut self, block: Cidr) {
        self.next = self.block(block.first_bits()) + 1;
    }

    /// How many blocks there are, and how many of them are free of the CIDRs `in_use`, which come in their order.
    pub fn size(&self, in_use: impl IntoIterator<Item = Cidr>) -> PoolSize {
        let (mut used, mut counted) = (0, 0);
        for blocks in in_use.into_iter().filter_map(|cidr| self.blocks(cidr)) {
            let (first, end) = (counted.max(*blocks.start()), blocks.end() + 1);
            used += self.unreserved(first..end);
            counted = counted.max(end);
        }
        let total = self.unreserved(0..self.len());
        let free = total - used;
        PoolSize { total, free }
    }

    /// How many of `blocks` are not reserved.
    fn unreserved(&self, blocks: Range<u64>) -> u64 {
        let reserved = self.reserved.iter().map(|reserved| {
            let end = blocks.end.min(reserved.end() + 1);
            end.saturating_sub(blocks.start.max(*reserved.start()))
        });
        let reserved: u64 = reserved.sum();
        blocks.end.saturating_sub(blocks.start) - reserved
    }

    fn free_among(
        &self,
        mut blocks: Range<u64>,
        in_use: impl Fn(Cidr) -> Option<Cidr>,
    ) -> Option<Cidr> {
        while !blocks.is_empty() {
            let block = self.cidr(blocks.start)?;
            let mut reserved = self.reserved.iter();
            let reserved = reserved.find(|reserved| reserved.contains(&blocks.start));
            let used = || self.blocks(in_use(block)?);
            let Some(passed) = reserved.cloned().or_else(used) else {
                return Some(block);
            };
            blocks.start = passed.end() + 1;
        }
        None
    }

    /// How many blocks there are, those of Services among them.
    fn len(&self) -> u64 {
        1 << (self.prefix_len - self.range.prefix_len())
    }

    /// The blocks with addresses of `cidr`.
    fn blocks(&self, cidr: Cidr) -> Option<RangeInclusive<u64>> {
        let whole = if cidr.contains(self.range) {
            self.range
        } else if self.range.contains(cidr) {
            cidr
        } else {
            return None;
        };
        Some(self.block(whole.first_bits())..=self.block(whole.last_bits()))
    }

    /// The block of an address of the range.
    fn block(&self, address: u128) -> u64 {
        let offset = address - self.range.first_bits();
        // A shift by all bits leaves one block.
        let block = offset.checked_shr(self.host_bits()).unwrap_or(0);
        block as u64
    }

    fn cidr(&self, block: u64) -> Option<Cidr> {
        let offset = u128::from(block).checked_shl(self.host_bits()).unwrap_or(0);
        let first = self.range.first_bits() + offset;
        Cidr::from_bits(self.range.family(), first, self.prefix_len)
    }

    fn host_bits(&self) -> u32 {
        u32::from(self.range.family().bits() - self.prefix_len)
    }
}

#[cfg(test)]
mod tests;
