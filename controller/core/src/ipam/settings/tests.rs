use super::IpamOptions;

const DEFAULT: IpamOptions<'_> = IpamOptions {
    allocator_type: "RangeAllocator",
    cluster_cidr: "10.244.0.0/16",
    service_cidrs: "",
    mask_size: 0,
    mask_size_ipv4: 0,
    mask_size_ipv6: 0,
};

const DUAL: &str = "fd00::/48,10.244.0.0/16";

/// The flags with these mask sizes: any family, IPv4, IPv6.
fn sizes(
    cluster_cidr: &str,
    [mask_size, mask_size_ipv4, mask_size_ipv6]: [i32; 3],
) -> IpamOptions<'_> {
    IpamOptions {
        cluster_cidr,
        mask_size,
        mask_size_ipv4,
        mask_size_ipv6,
        ..DEFAULT
    }
}

fn services(service_cidrs: &str) -> IpamOptions<'_> {
    IpamOptions {
        service_cidrs,
        ..DEFAULT
    }
}

/// Each cluster CIDR and how many CIDRs it has for Nodes.
fn pools(options: IpamOptions<'_>) -> Vec<(String, u64)> {
    let allocator = options.check().unwrap();
    let sizes = allocator.sizes();
    sizes
        .map(|(range, size)| (range.to_string(), size.total))
        .collect()
}

/// I-5, I-8, I-9.
#[test]
fn pools_are_those_of_the_flags() {
    let pool = |range: &str, total| (range.to_owned(), total);
    assert_eq!(pools(DEFAULT), [pool("10.244.0.0/16", 256)]);
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
    let options = IpamOptions {
        allocator_type: "CloudAllocator",
        cluster_cidr: "",
        service_cidrs: "junk",
        ..DEFAULT
    };
    assert!(pools(options).is_empty());
}

/// I-2 to I-6: the words of upstream first.
#[test]
fn flags_that_cannot_work_are_refused_with_a_sentence() {
    let allocator_type = |allocator_type| IpamOptions {
        allocator_type,
        ..DEFAULT
    };
    for (options, text) in [
        (
            allocator_type("IPAMFromCloud"),
            "invalid CIDR allocator type: IPAMFromCloud: --cidr-allocator-type is RangeAllocator \
             or CloudAllocator",
        ),
        (
            sizes("", [0, 0, 0]),
            "invalid CIDR[0]: <nil> (invalid CIDR address: ): --cluster-cidr is empty; name the \
             range of the Pods, such as 10.244.0.0/16",
        ),
        (
            services("10.96.0.0"),
            "--service-cluster-ip-range: \"10.96.0.0\" is no CIDR; it takes one, such as \
             10.96.0.0/12, or two with a comma between them",
        ),
        (
            services("10.96.0.0/12,10.97.0.0/16"),
            "serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles): \
             --service-cluster-ip-range has 10.96.0.0/12 and 10.97.0.0/16; name one CIDR for each \
             IP family",
        ),
        (
            services("10.96.0.0/12,fd00::/112,fd01::/112"),
            "NodeIPAM controller values are not properly set. --service-cluster-ip-range has 3 \
             CIDRs; name one for each IP family",
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
        assert_eq!(options.check().unwrap_err().to_string(), text);
    }
}
