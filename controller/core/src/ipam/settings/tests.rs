use super::{IpamOptions, MaskSizes};
use crate::{cidr::cidr_list, ipam::Allocator};

type Checked = Result<Allocator, String>;

const SINGLE: &str = "10.244.0.0/16";

const DUAL: &str = "fd00::/48,10.244.0.0/16";

/// The flags with these mask sizes: any family, IPv4, IPv6.
fn check(
    allocator_type: &str,
    cluster_cidr: &str,
    service_cidrs: &str,
    [any, ipv4, ipv6]: [i32; 3],
) -> Checked {
    let options = IpamOptions {
        allocator_type,
        cluster_cidrs: &cidr_list(cluster_cidr).unwrap(),
        service_cidrs: &cidr_list(service_cidrs).unwrap(),
        mask_sizes: MaskSizes { any, ipv4, ipv6 },
    };
    options.check()
}

fn sizes(cluster_cidr: &str, mask_sizes: [i32; 3]) -> Checked {
    check("RangeAllocator", cluster_cidr, "", mask_sizes)
}

fn services(service_cidrs: &str) -> Checked {
    check("RangeAllocator", SINGLE, service_cidrs, [0; 3])
}

/// Each cluster CIDR and how many CIDRs it has for Nodes.
fn pools(checked: Checked) -> Vec<(String, u64)> {
    let allocator = checked.unwrap();
    let sizes = allocator.sizes();
    sizes
        .map(|(range, size)| (range.to_string(), size.total))
        .collect()
}

/// I-5, I-8, I-9.
#[test]
fn pools_are_those_of_the_flags() {
    let pool = |range: &str, total| (range.to_owned(), total);
    assert_eq!(pools(services("")), [pool("10.244.0.0/16", 256)]);
    for (mask_sizes, ipv6, ipv4) in [
        ([0, 0, 0], 1 << 16, 256),
        ([0, 26, 0], 1 << 16, 1024),
        ([0, 0, 56], 256, 256),
        ([0, 16, 48], 1, 1),
    ] {
        let expected = [pool("fd00::/48", ipv6), pool("10.244.0.0/16", ipv4)];
        assert_eq!(pools(sizes(DUAL, mask_sizes)), expected);
    }
    assert_eq!(
        pools(sizes("fd00::/56", [60, 0, 0])),
        [pool("fd00::/56", 16)]
    );
    assert_eq!(
        pools(sizes("fd00::/56", [0, 0, 0])),
        [pool("fd00::/56", 256)]
    );
    assert_eq!(
        pools(sizes("10.0.0.0/8", [32, 0, 0])),
        [pool("10.0.0.0/8", 1 << 24)]
    );
    assert_eq!(
        pools(services("10.244.8.0/22")),
        [pool("10.244.0.0/16", 252)]
    );
    assert_eq!(
        pools(services("fd00::/112, 10.96.0.0/12")),
        [pool("10.244.0.0/16", 256)]
    );
}

/// I-20 is not copied.
#[test]
fn the_provider_needs_no_ranges() {
    assert!(pools(check("CloudAllocator", "", "", [0; 3])).is_empty());
}

/// I-3 to I-6: the words of upstream first.
#[test]
fn flags_that_cannot_work_are_refused_with_a_sentence() {
    for (checked, text) in [
        (
            check("IPAMFromCloud", SINGLE, "", [0; 3]),
            "invalid CIDR allocator type: IPAMFromCloud: --cidr-allocator-type is RangeAllocator \
             or CloudAllocator",
        ),
        (
            sizes("", [0, 0, 0]),
            "invalid CIDR[0]: <nil> (invalid CIDR address: ): --cluster-cidr is empty; name the \
             range of the Pods, such as 10.244.0.0/16",
        ),
        (
            services("10.0.0.0/8"),
            "--service-cluster-ip-range leaves no CIDR of 10.244.0.0/16 in --cluster-cidr to \
             Nodes; name ranges without a common address",
        ),
        (
            sizes(DUAL, [24, 0, 0]),
            "usage of --node-cidr-mask-size is not allowed with dual-stack clusters: use \
             --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6",
        ),
        (
            sizes("10.244.0.0/16", [24, 24, 0]),
            "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if \
             --node-cidr-mask-size is set. For dual-stack clusters please unset it and use \
             IPFamily specific flags",
        ),
        (
            sizes("fd00::/48", [0, 24, 0]),
            "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster: \
             unset it, or name a CIDR of the other IP family in --cluster-cidr too",
        ),
        (
            sizes("10.244.0.0/16", [0, 0, 64]),
            "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster: \
             unset it, or name a CIDR of the other IP family in --cluster-cidr too",
        ),
        (
            sizes("10.244.0.0/26", [0, 0, 0]),
            "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or \
             equal to --node-cidr-mask-size configured for CIDR family: 10.244.0.0/26 has no room \
             for a /24; set --node-cidr-mask-size to 26 or more, or name a larger range",
        ),
        (
            sizes(DUAL, [0, 0, 65]),
            "New CIDR set failed; the node CIDR size is too big: fd00::/48 has more than 65536 \
             CIDRs of /65; set --node-cidr-mask-size-ipv6 to 64 or less, or name a smaller range \
             in --cluster-cidr",
        ),
        (
            sizes("10.244.0.0/16", [0, 33, 0]),
            "--node-cidr-mask-size-ipv4 must be between 0 and 32, but got 33",
        ),
        (
            sizes("10.244.0.0/16", [64, 0, 0]),
            "--node-cidr-mask-size must be between 0 and 32, but got 64",
        ),
        (
            sizes("fd00::/112", [-1, 0, 0]),
            "--node-cidr-mask-size must be between 0 and 128, but got -1",
        ),
    ] {
        assert_eq!(checked.unwrap_err(), text);
    }
}
