//! Which values are refused, and with what words.

use super::{config, refusal};

fn check(args: &[&str], expected: &str) {
    let refusal = refusal(args);
    assert!(refusal.contains(expected), "{args:?}: {refusal}");
}

#[test]
fn values_of_another_type_are_refused() {
    for (flag, value, expected) in [
        ("node-monitor-period", "5", "is no duration"),
        ("secure-port", "x", "invalid digit"),
        ("concurrent-node-syncs", "5000000000", "number too large"),
        ("kube-api-qps", "NaN", "it must be a number"),
        ("bind-address", "foo", "invalid IP address"),
        (
            "provider-endpoint",
            "tcp://1.2.3.4:5",
            "is not a Unix socket",
        ),
        // CLI-44.
        ("logging-format", "xml", "text or json"),
        ("plan-output", "yaml", "table, json"),
        ("leader-elect-resource-lock", "endpoints", "leases"),
        ("leader-elect-resource-name", "", "DNS subdomain"),
        (
            "node-selector",
            "cloud=(red)",
            "has \"cloud=(red)\", which is neither key in (values)",
        ),
        (
            "cluster-cidr",
            "10.0.0.0",
            "\"10.0.0.0\" is no CIDR; name one, such as",
        ),
        (
            "cluster-cidr",
            "10.0.0.0/16,10.1.0.0/16",
            "are both IPv4; name one",
        ),
        (
            "service-cluster-ip-range",
            "10.0.0.0/16,fd00::/112,fd01::/112",
            "3 CIDRs are more",
        ),
        (
            "cluster-uid",
            "0B5BF7B5-1C2E-4B4A-9D7C-6C2F0E8D5A10",
            "a UUID in lower case",
        ),
        ("provider-user", "10002,root", "invalid digit"),
    ] {
        let arg = format!("--{flag}={value}");
        check(&[&arg], expected);
        check(&[&arg], &format!("--{flag}"));
    }
}

#[test]
fn values_out_of_range_are_refused() {
    for (arg, expected) in [
        //
        ("--concurrent-node-syncs=0", "number would be zero"),
        ("--concurrent-service-syncs=-1", "invalid digit"),
        // CLI-32.
        (
            "--concurrent-node-lifecycle-syncs=0",
            "number would be zero",
        ),
        ("--node-monitor-period=0", "it must be greater than 0"),
        ("--node-deletion-burst=-1", "-1 is not in 0..=4294967295"),
        ("--node-deletion-confirm=0", "number would be zero"),
        ("--node-deletion-fraction=1.5", "between 0 and 1"),
        ("--load-balancer-update-idle=-1s", "it must not be negative"),
        (
            "--load-balancer-update-ceiling=500ms",
            "--load-balancer-update-ceiling must not be less than --load-balancer-update-idle",
        ),
        // CLI-51, Q-32.
        ("--secure-port=70000", "70000 is not in 0..=65535"),
        // CLI-72.
        (
            "--secure-port=10260",
            "--webhook-secure-port cannot be the same value as --secure-port",
        ),
        // CLI-26.
        (
            "--controllers=foo",
            "\"foo\" is not in the list of known controllers",
        ),
        // CLI-70.
        (
            "--webhooks=foo",
            "\"foo\" is not in the list of known webhooks",
        ),
        ("--kube-api-burst=-1", "-1 is not in 0..=4294967295"),
        (
            "--provider-effect-prefixes=vendor.example/,status-",
            "--provider-effect-prefixes: \"status-\" is no domain with a slash",
        ),
        (
            "--provider-effect-prefixes=external-dns.alpha.kubernetes.io/",
            "belongs to kubernetes.io, which no provider may write to",
        ),
    ] {
        check(&[arg], expected);
    }
}

#[test]
fn proc_25_times_of_the_lease_must_fit_together() {
    check(
        &["--leader-elect-lease-duration=10s"],
        "leaseDuration must be greater than renewDeadline",
    );
    check(
        &["--leader-elect-retry-period=9s"],
        "renewDeadline must be greater than retryPeriod*JitterFactor",
    );
    check(
        &["--leader-elect-lease-duration=900ms"],
        "must be at least 1s",
    );
    config(&["--leader-elect=false", "--leader-elect-retry-period=9s"]);
}

const ALLOCATES: [&str; 2] = ["--allocate-node-cidrs", "--controllers=node-ipam"];

/// The rules are core's; here they meet the flags.
#[test]
fn i_5_mask_sizes_follow_upstreams_rules() {
    let totals = |args: &[&str]| -> Vec<u64> {
        let config = config(&[&ALLOCATES[..], args].concat());
        let sizes = config.ipam.unwrap();
        sizes.sizes().map(|(_, size)| size.total).collect()
    };
    let dual = "--cluster-cidr=10.0.0.0/16,fd00::/48";
    assert_eq!(totals(&[dual]), [256, 65_536]);
    let ipv4 = "--cluster-cidr=10.0.0.0/16";
    assert_eq!(totals(&[ipv4, "--node-cidr-mask-size=26"]), [1_024]);
    let services = "--service-cluster-ip-range=10.0.0.0/24";
    assert_eq!(totals(&[ipv4, services]), [255]);
    let cloud = "--cidr-allocator-type=CloudAllocator";
    assert_eq!(totals(&[cloud]), [0; 0]);

    let check = |args: &[&str], expected: &str| {
        check(&[&ALLOCATES[..], args].concat(), expected);
    };
    check(&[], "--cluster-cidr");
    check(
        &[ipv4, "--cidr-allocator-type=Foo"],
        "invalid CIDR allocator type: Foo",
    );
    check(
        &[dual, "--node-cidr-mask-size=24"],
        "usage of --node-cidr-mask-size is not allowed with dual-stack clusters",
    );
    check(
        &[
            ipv4,
            "--node-cidr-mask-size=24",
            "--node-cidr-mask-size-ipv4=24",
        ],
        "is not allowed if --node-cidr-mask-size is set",
    );
    check(
        &[ipv4, "--node-cidr-mask-size-ipv6=64"],
        "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster",
    );
    check(
        &["--cluster-cidr=fd00::/48", "--node-cidr-mask-size-ipv4=24"],
        "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster",
    );
    check(&["--cluster-cidr=10.0.0.0/25"], "Invalid --cluster-cidr");
    check(
        &["--cluster-cidr=fd00::/40"],
        "the node CIDR size is too big",
    );
}

#[test]
fn cidrs_are_made_canonical() {
    let config = config(&["--cluster-cidr= 10.244.1.2/16, 2001:DB8::1/48 "]);
    assert_eq!(config.cluster.pod_cidrs, ["10.244.0.0/16", "2001:db8::/48"]);
}
