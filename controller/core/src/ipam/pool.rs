//! The CIDRs of one cluster CIDR, to be allocated to Nodes.

use std::{cmp::Reverse, ops::RangeInclusive};

use crate::cidr::Cidr;

mod bitmap;

use bitmap::Bitmap;

/// Bits of a block's number: all of IPv4.
const MAX_BITS: u8 = 32;

/// One cluster CIDR, cut into blocks of equal size of which a Node gets one.
///
/// A block is in use, reserved for Services, or free. Memory is one bit for each block of a part of
/// the range that was ever in use.
#[derive(Clone, Debug)]
pub struct Pool {
    range: Cidr,
    prefix_len: u8,
    used: Bitmap,
    /// Blocks with addresses of Services, apart from those in use, so that no release frees them.
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
            used: Bitmap::new(1 << bits),
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
        (pool.size().total > 0).then_some(pool)
    }

    /// The cluster CIDR.
    pub const fn range(&self) -> Cidr {
        self.range
    }

    /// Length of a block's prefix.
    pub const fn node_prefix(&self) -> u8 {
        self.prefix_len
    }

    /// Returns true if no block is free.
    pub fn is_exhausted(&self) -> bool {
        self.free_from(0).is_none()
    }

    /// Takes the first free block after the block that was taken last, and starts over at the end of
    /// the range (I-12). Returns `None` if all are in use (I-13).
    pub fn take(&mut self) -> Option<Cidr> {
        let block = self.free_from(self.next).or_else(|| self.free_from(0))?;
        self.used.put(block..=block, true);
        self.next = block + 1;
        self.cidr(block)
    }

    /// Notes that each block with an address of `cidr` is in use, or is not any more. Once more is
    /// the same as once.
    pub fn put(&mut self, cidr: Cidr, in_use: bool) {
        if let Some(blocks) = self.blocks(cidr) {
            self.used.put(blocks, in_use);
        }
    }

    /// The smallest CIDR of whole blocks around `cidr`, or `cidr` itself.
    pub fn rounded_out(&self, cidr: Cidr) -> Cidr {
        let mut supernets = cidr.supernets();
        let block = supernets.find(|range| range.prefix_len() == self.prefix_len);
        block.unwrap_or(cidr)
    }

    /// How many blocks there are, and how many of them are free.
    pub fn size(&self) -> PoolSize {
        let (mut total, mut free) = (self.used.len(), self.used.len() - self.used.ones());
        for reserved in &self.reserved {
            let blocks = reserved.end() - reserved.start() + 1;
            total -= blocks;
            // Blocks of Services that a Node has all the same.
            free -= blocks - self.used.ones_in(reserved);
        }
        PoolSize { total, free }
    }

    fn free_from(&self, mut block: u64) -> Option<u64> {
        loop {
            block = self.used.next_zero(block)?;
            match self.reserved.iter().find(|range| range.contains(&block)) {
                Some(range) => block = range.end() + 1,
                None => return Some(block),
            }
        }
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
