//! Blocks of addresses for Pods, one of each range for an instance.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::cidr::Cidr;

/// A range that is cut into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodCidrRange {
    range: IpNet,
    prefix: u8,
}

impl PodCidrRange {
    /// A range, and the prefix length of each block.
    pub fn new(range: Cidr, prefix: u8) -> Result<Self, String> {
        let network = range.network().0;
        if (network.prefix_len()..=network.max_prefix_len()).contains(&prefix) {
            let range = network;
            return Ok(Self { range, prefix });
        }
        let (least, most) = (network.prefix_len(), network.max_prefix_len());
        Err(format!(
            "{range} has no blocks with a mask size of {prefix}; use {least} to {most}"
        ))
    }

    /// How many blocks there are.
    fn len(self) -> u128 {
        let bits = u32::from(self.prefix - self.range.prefix_len());
        1_u128.checked_shl(bits).unwrap_or(u128::MAX)
    }

    fn block(self, index: u128) -> Option<Cidr> {
        let host_bits = u32::from(self.range.max_prefix_len() - self.prefix);
        let offset = index.checked_shl(host_bits).unwrap_or(0);
        let address: IpAddr = match self.range.network() {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() | offset as u32).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() | offset).into(),
        };
        IpNet::new(address, self.prefix).ok().map(Cidr)
    }

    /// The first block that is free, from one on that follows from `hash`; none: all are allocated.
    pub(super) fn allocate(self, hash: u64, is_taken: impl Fn(Cidr) -> bool) -> Option<Cidr> {
        let (len, start) = (self.len(), u128::from(hash));
        let mut blocks = (0..len).filter_map(|step| self.block((start % len + step) % len));
        blocks.find(|block| !is_taken(*block))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::PodCidrRange;
    use crate::cidr::Cidr;
    use crate::instances::{Instance, InstanceSpec, Inventory, Placement};

    fn range(range: &str, prefix: u8) -> PodCidrRange {
        PodCidrRange::new(range.parse().unwrap(), prefix).unwrap()
    }

    fn insert(
        inventory: &mut Inventory,
        name: &str,
        own: &[&str],
        ranges: &[PodCidrRange],
    ) -> Arc<Instance> {
        let value = |text: &str| text.parse().unwrap();
        let placement = Placement::new(value("mock-1"), Vec::new(), value("mock.medium")).unwrap();
        let spec = InstanceSpec {
            pod_cidrs: own.iter().map(|cidr| cidr.parse().unwrap()).collect(),
            ..InstanceSpec::named(name.parse().unwrap())
        };
        let built = spec.build(&placement, 0, Timestamp::UNIX_EPOCH);
        inventory.insert_with_blocks(built, ranges).unwrap()
    }

    fn texts(instance: &Instance) -> Vec<String> {
        instance.pod_cidrs.iter().map(Cidr::to_string).collect()
    }

    /// Each range is allocated whole, no block twice, and from any start.
    #[test]
    fn each_block_is_given_once() {
        for (text, prefix, count) in [
            ("10.244.0.0/22", 24, 4),
            ("10.244.0.0/24", 24, 1),
            ("10.244.0.0/29", 32, 8),
            ("0.0.0.0/0", 4, 16),
            ("2001:db8::/60", 64, 16),
            ("2001:db8::/126", 128, 4),
        ] {
            let network: ipnet::IpNet = text.parse().unwrap();
            for start in [0, 7, u64::MAX] {
                let mut given = BTreeSet::new();
                while let Some(block) =
                    range(text, prefix).allocate(start, |one| given.contains(&one))
                {
                    let net = block.0;
                    assert_eq!((net.prefix_len(), net.trunc()), (prefix, net));
                    assert!(network.contains(&net), "{block} is not in {text}");
                    assert!(given.insert(block), "{block} was allocated twice");
                }
                assert_eq!(given.len(), count, "{text} in blocks of {prefix}");
            }
        }
        // One of the largest ranges is as quick as any.
        assert!(range("::/0", 128).allocate(u64::MAX, |_| false).is_some());
    }

    #[test]
    fn a_range_without_such_blocks_is_refused() {
        for (text, prefix) in [
            ("10.244.0.0/16", 15),
            ("10.244.0.0/16", 33),
            ("fd00::/64", 48),
        ] {
            let refused = PodCidrRange::new(text.parse().unwrap(), prefix).unwrap_err();
            assert!(refused.contains(text), "{refused}");
        }
    }

    #[test]
    fn an_instance_has_a_block_of_each_range_until_it_is_deleted() {
        let ranges = [range("10.244.0.0/23", 24), range("fd00:10::/63", 64)];
        let mut inventory = Inventory::default();
        let first = insert(&mut inventory, "a", &[], &ranges);
        let second = insert(&mut inventory, "b", &[], &ranges);
        let blocks: BTreeSet<_> = [&first, &second]
            .iter()
            .flat_map(|one| texts(one))
            .collect();
        let all = [
            "10.244.0.0/24",
            "10.244.1.0/24",
            "fd00:10:0:1::/64",
            "fd00:10::/64",
        ];
        assert!(blocks.iter().eq(all), "{blocks:?}");
        // A name begins at the same block with each mock.
        let again = insert(&mut Inventory::default(), "a", &[], &ranges);
        assert_eq!(again.pod_cidrs, first.pod_cidrs);

        let none = insert(&mut inventory, "c", &[], &ranges);
        assert!(none.pod_cidrs.is_empty());
        inventory.remove(&first.id);
        let third = insert(&mut inventory, "d", &[], &ranges);
        assert_eq!(third.pod_cidrs, first.pod_cidrs);
    }

    /// All or nothing: half of a dual stack is none.
    #[test]
    fn an_instance_without_a_block_of_one_family_has_none_of_the_other() {
        let ranges = [range("10.244.0.0/16", 24), range("fd00:10::/64", 64)];
        let mut inventory = Inventory::default();
        assert_eq!(insert(&mut inventory, "a", &[], &ranges).pod_cidrs.len(), 2);
        assert!(
            insert(&mut inventory, "b", &[], &ranges)
                .pod_cidrs
                .is_empty()
        );
    }

    #[test]
    fn a_block_given_by_hand_may_be_double_and_is_free_after_the_last() {
        let ranges = [range("10.244.0.0/24", 24)];
        let mut inventory = Inventory::default();
        let one = insert(&mut inventory, "a", &["10.244.0.7/24"], &ranges);
        assert_eq!(texts(&one), ["10.244.0.7/24"]);
        let two = insert(&mut inventory, "b", &["10.244.0.0/24"], &ranges);
        inventory.remove(&one.id);
        assert!(
            insert(&mut inventory, "c", &[], &ranges)
                .pod_cidrs
                .is_empty()
        );
        inventory.remove(&two.id);
        let last = insert(&mut inventory, "d", &[], &ranges);
        assert_eq!(texts(&last), ["10.244.0.0/24"]);
    }
}
