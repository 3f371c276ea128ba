use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use super::{Pool, PoolSize};
use crate::cidr::Cidr;

fn cidr(text: &str) -> Cidr {
    Cidr::parse(text).unwrap()
}

/// A pool, and the CIDRs in use.
struct InUse {
    pool: Pool,
    cidrs: BTreeSet<Cidr>,
}

impl InUse {
    fn of(range: &str, prefix_len: u8, services: &[&str]) -> Self {
        let services: Vec<_> = services.iter().map(|range| cidr(range)).collect();
        Self {
            pool: Pool::new(cidr(range), prefix_len, &services).unwrap(),
            cidrs: BTreeSet::new(),
        }
    }

    fn take_one(&mut self) -> Option<Cidr> {
        let cidrs = &self.cidrs;
        let in_use = |block: Cidr| cidrs.iter().copied().find(|used| used.overlaps(block));
        let taken = self.pool.free(in_use)?;
        self.pool.taken(taken);
        self.cidrs.insert(taken);
        Some(taken)
    }

    fn take(&mut self, count: usize) -> Vec<String> {
        let taken = (0..count).map_while(|_| self.take_one());
        taken.map(|cidr| cidr.to_string()).collect()
    }

    fn size(&self) -> (u64, u64) {
        let PoolSize { total, free } = self.pool.size(self.cidrs.iter().copied());
        (total, free)
    }
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
    let mut pool = InUse::of("10.244.0.0/22", 24, &services);
    assert_eq!(pool.size(), (3, 3));
    // A Node that has a block of Services keeps it.
    pool.cidrs.insert(cidr("10.244.1.0/24"));
    assert_eq!(pool.size(), (3, 3));
    assert_eq!(
        pool.take(9),
        ["10.244.0.0/24", "10.244.2.0/24", "10.244.3.0/24"]
    );
    assert_eq!(pool.size(), (3, 0));
    // A large part at no cost.
    let mut pool = InUse::of("0.0.0.0/0", 32, &["0.0.0.0/1"]);
    assert_eq!(pool.size(), (1 << 31, 1 << 31));
    assert_eq!(pool.take(1), ["128.0.0.0/32"]);
    // Nothing is left.
    assert!(Pool::new(cidr("10.244.0.0/16"), 24, &[cidr("10.0.0.0/8")]).is_none());
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
        let mut pool = InUse::of(range, prefix_len, &[]);
        assert_eq!(pool.size(), (blocks, blocks), "{range}");
        let expected: Vec<_> = [Some(first), second].into_iter().flatten().collect();
        assert_eq!(pool.take(2), expected, "{range}");
    }
    for (range, prefix_len) in [("10.0.0.0/24", 23), ("10.0.0.0/24", 33), ("::/0", 64)] {
        assert!(Pool::new(cidr(range), prefix_len, &[]).is_none());
    }
}

proptest! {
    /// I-12, against a list of all blocks.
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
        let blocks: BTreeSet<_> = (0..=u8::MAX).map(|place| at(19 + bits, place)).collect();
        let is_reserved = |block: &Cidr| services.iter().any(|range| range.overlaps(*block));
        let pool = Pool::new(range, 19 + bits, &services);
        prop_assert_eq!(pool.is_none(), blocks.iter().all(is_reserved));
        let Some(pool) = pool else { return Ok(()) };
        let mut pool = InUse { pool, cidrs: BTreeSet::new() };
        let mut last = None;
        for (len, place, step) in steps {
            let cidr = at(len, place);
            match step {
                0 => {
                    let is_used = |block: &Cidr| pool.cidrs.iter().any(|used| used.overlaps(*block));
                    let is_free = |block: &Cidr| !is_used(block) && !is_reserved(block);
                    let later = blocks.iter().copied().filter(|block| Some(*block) > last);
                    let expected = later.chain(blocks.iter().copied()).find(is_free);
                    let taken = pool.take_one();
                    prop_assert_eq!(taken, expected);
                    last = taken.or(last);
                }
                1 => {
                    pool.cidrs.insert(cidr);
                }
                _ => pool.cidrs.retain(|used| !used.overlaps(cidr)),
            }
            let is_used = |block: &&Cidr| pool.cidrs.iter().any(|used| used.overlaps(**block));
            let total = blocks.iter().filter(|block| !is_reserved(block));
            let (total, in_use) = (total.clone().count(), total.filter(is_used).count());
            prop_assert_eq!(pool.size(), (total as u64, (total - in_use) as u64));
        }
    }
}
