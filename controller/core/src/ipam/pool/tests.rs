use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use super::{Pool, PoolSize};
use crate::cidr::Cidr;

fn cidr(text: &str) -> Cidr {
    Cidr::parse(text).unwrap()
}

fn pool(range: &str, prefix_len: u8, services: &[&str]) -> Pool {
    let services: Vec<_> = services.iter().map(|range| cidr(range)).collect();
    Pool::new(cidr(range), prefix_len, &services).unwrap()
}

fn take(pool: &mut Pool, count: usize) -> Vec<String> {
    let taken = (0..count).map_while(|_| pool.take());
    taken.map(|cidr| cidr.to_string()).collect()
}

fn size(pool: &Pool) -> (u64, u64) {
    let PoolSize { total, free } = pool.size();
    (total, free)
}

/// I-12.
#[test]
fn allocation_goes_on_after_the_last_one_and_wraps_around() {
    let mut pool = pool("10.244.0.0/22", 24, &[]);
    assert_eq!(size(&pool), (4, 4));
    assert_eq!(take(&mut pool, 2), ["10.244.0.0/24", "10.244.1.0/24"]);
    pool.put(cidr("10.244.0.0/24"), false);
    // Not the lowest that is free.
    assert_eq!(take(&mut pool, 2), ["10.244.2.0/24", "10.244.3.0/24"]);
    assert_eq!(take(&mut pool, 2), ["10.244.0.0/24"]);
    assert_eq!(size(&pool), (4, 0));
    pool.put(cidr("10.244.2.0/24"), false);
    pool.put(cidr("10.244.2.0/24"), false);
    assert_eq!(size(&pool), (4, 1));
    assert_eq!(take(&mut pool, 2), ["10.244.2.0/24"]);
}

/// I-9.
#[test]
fn blocks_of_services_are_never_allocated() {
    // Rounded out to a whole block, and a range within another counts once.
    let services = [
        "10.244.1.128/25",
        "10.244.1.192/26",
        "10.0.0.0/24",
        "fd00::/112",
    ];
    let mut pool = pool("10.244.0.0/22", 24, &services);
    assert_eq!(size(&pool), (3, 3));
    // A Node that has a block of Services keeps it; the block is not free afterwards.
    pool.put(cidr("10.244.1.0/24"), true);
    assert_eq!(size(&pool), (3, 3));
    pool.put(cidr("10.244.1.0/24"), false);
    assert_eq!(
        take(&mut pool, 9),
        ["10.244.0.0/24", "10.244.2.0/24", "10.244.3.0/24"]
    );
    assert_eq!(size(&pool), (3, 0));
    // A large part at no cost.
    let mut pool = self::pool("0.0.0.0/0", 32, &["0.0.0.0/1"]);
    assert_eq!(size(&pool), (1 << 31, 1 << 31));
    assert_eq!(take(&mut pool, 1), ["128.0.0.0/32"]);
    // Nothing is left.
    assert!(Pool::new(cidr("10.244.0.0/16"), 24, &[cidr("10.0.0.0/8")]).is_none());
}

#[test]
fn a_cidr_of_another_size_uses_each_block_that_it_touches() {
    let mut pool = pool("10.244.0.0/22", 24, &[]);
    pool.put(cidr("10.244.2.0/23"), true);
    assert_eq!(size(&pool), (4, 2));
    pool.put(cidr("10.244.0.64/26"), true);
    assert_eq!(take(&mut pool, 9), ["10.244.1.0/24"]);
    for (given, rounded) in [
        ("10.244.0.64/26", "10.244.0.0/24"),
        ("10.244.0.0/24", "10.244.0.0/24"),
        ("10.244.2.0/23", "10.244.2.0/23"),
    ] {
        assert_eq!(pool.rounded_out(cidr(given)), cidr(rounded));
    }
    // Not its business.
    pool.put(cidr("10.243.0.0/24"), false);
    pool.put(cidr("fd00::/64"), false);
    assert_eq!(size(&pool), (4, 0));
    pool.put(cidr("10.0.0.0/8"), false);
    assert_eq!(size(&pool), (4, 4));
}

/// I-6.
#[test]
fn the_smallest_and_the_largest_pool() {
    for (range, prefix_len, blocks, first, second) in [
        ("10.0.0.0/24", 24, 1, "10.0.0.0/24", None),
        ("0.0.0.0/0", 0, 1, "0.0.0.0/0", None),
        ("::/0", 0, 1, "::/0", None),
        ("::/0", 16, 1 << 16, "::/16", Some("1::/16")),
        ("0.0.0.0/0", 32, 1 << 32, "0.0.0.0/32", Some("0.0.0.1/32")),
        (
            "fd00::/48",
            64,
            1 << 16,
            "fd00::/64",
            Some("fd00:0:0:1::/64"),
        ),
        (
            "fd00::/112",
            128,
            1 << 16,
            "fd00::/128",
            Some("fd00::1/128"),
        ),
    ] {
        let mut pool = pool(range, prefix_len, &[]);
        assert_eq!(size(&pool), (blocks, blocks), "{range}");
        let expected: Vec<_> = [Some(first), second].into_iter().flatten().collect();
        assert_eq!(take(&mut pool, 2), expected, "{range}");
    }
    for (range, prefix_len) in [("10.0.0.0/24", 23), ("10.0.0.0/24", 33), ("::/0", 64)] {
        assert!(Pool::new(cidr(range), prefix_len, &[]).is_none());
    }
}

/// Pages of 4 KiB: one bit a block where any is in use, and summaries of the parts that are full.
#[test]
fn a_pool_takes_one_bit_for_each_block() {
    for (range, prefix_len, in_use, pages) in [
        ("10.0.0.0/8", 24, None, 0),
        ("10.0.0.0/8", 24, Some("10.7.0.0/24"), 1),
        ("10.0.0.0/8", 24, Some("10.0.0.0/8"), 2 + 2),
        ("10.0.0.0/8", 32, None, 0),
        ("10.0.0.0/8", 32, Some("10.7.0.0/24"), 2),
        ("10.0.0.0/8", 32, Some("10.0.0.0/8"), 512 + 8 + 2),
        ("0.0.0.0/0", 32, Some("10.7.0.0/24"), 2),
        ("fd00::/48", 64, Some("fd00::/48"), 2 + 2),
    ] {
        let mut pool = pool(range, prefix_len, &[]);
        if let Some(used) = in_use {
            pool.put(cidr(used), true);
        }
        assert_eq!(pool.used.bytes(), pages << 12, "{range} {in_use:?}");
    }
}

proptest! {
    /// Against a list of all blocks.
    #[test]
    fn no_block_is_free_and_in_use(
        bits in 0_u8..=5,
        services in vec((18_u8..=27, any::<u8>()), 0..3),
        steps in vec((20_u8..=27, any::<u8>(), 0_u8..3), 1..60),
    ) {
        let range = cidr("10.244.0.0/19");
        let at = |len: u8, at: u8| {
            Cidr::from_bits(range.family(), range.first_bits() + (u128::from(at) << 5), len).unwrap()
        };
        let services: Vec<_> = services.into_iter().map(|(len, place)| at(len, place)).collect();
        let blocks: Vec<_> = (0..=u8::MAX).map(|place| at(19 + bits, place)).collect();
        let blocks: BTreeSet<_> = blocks.into_iter().collect();
        let is_reserved = |block: &Cidr| services.iter().any(|range| range.overlaps(*block));
        let mut used: BTreeSet<Cidr> = BTreeSet::new();
        let pool = Pool::new(range, 19 + bits, &services);
        prop_assert_eq!(pool.is_none(), blocks.iter().all(is_reserved));
        let Some(mut pool) = pool else { return Ok(()) };
        let mut last = None;
        for (len, place, step) in steps {
            let cidr = at(len, place);
            let touched = blocks.iter().filter(|block| block.overlaps(cidr));
            match step {
                0 => {
                    let mut free = blocks.iter().copied();
                    let is_free = |block: &Cidr| !used.contains(block) && !is_reserved(block);
                    let later = blocks.iter().copied().filter(|block| Some(*block) > last);
                    let expected = later.chain(free.by_ref()).find(is_free);
                    let taken = pool.take();
                    prop_assert_eq!(taken, expected);
                    used.extend(taken);
                    last = taken.or(last);
                }
                1 => {
                    used.extend(touched);
                    pool.put(cidr, true);
                }
                _ => {
                    touched.for_each(|block| { used.remove(block); });
                    pool.put(cidr, false);
                }
            }
            let total = blocks.iter().filter(|block| !is_reserved(block)).count() as u64;
            let in_use = used.iter().filter(|block| !is_reserved(block)).count() as u64;
            prop_assert_eq!(size(&pool), (total, total - in_use));
        }
    }
}
