//! Which values are refused, and with what words.

use super::{config, misuse, refusal};

#[test]
fn values_of_another_type_are_refused() {
    for (arg, expected) in [
        (
            "--node-monitor-period=5",
            "invalid argument \"5\" for \"--node-monitor-period\" flag: time: missing unit in \
             duration \"5\"; write it as 5s or 5m",
        ),
        (
            "--secure-port=x",
            "invalid argument \"x\" for \"--secure-port\" flag: it is not a whole \
             number such as 16, 1_000 or 0x10",
        ),
        (
            "--concurrent-node-syncs=5000000000",
            "invalid argument \"5000000000\" for \"--concurrent-node-syncs\" flag: value \
             out of range",
        ),
        (
            "--kube-api-qps=x",
            "invalid argument \"x\" for \"--kube-api-qps\" flag: it is not a number such as \
             20, 0.5 or 1e3",
        ),
        (
            "--bind-address=foo",
            "invalid argument \"foo\" for \"--bind-address\" flag: it is not an IP address",
        ),
        (
            "--feature-gates=Bogus=x",
            "invalid argument \"Bogus=x\" for \"--feature-gates\" flag: invalid value of Bogus=x: it \
             must be true or false",
        ),
        (
            "--tls-curve-preferences=x",
            "invalid argument \"x\" for \"--tls-curve-preferences\" flag: \"x\": it is not a whole number \
             such as 16, 1_000 or 0x10",
        ),
        (
            "--log-text-info-buffer-size=12Q",
            "invalid argument \"12Q\" for \"--log-text-info-buffer-size\" flag: it is not an \
             amount of bytes such as 512, 1K or 2Ki",
        ),
        (
            "--vmodule=x",
            "invalid argument \"x\" for \"--vmodule\" flag: \"x\" does not have the pattern=N format",
        ),
        (
            "--provider-endpoint=tcp://1.2.3.4:5",
            "invalid argument \"tcp://1.2.3.4:5\" for \"--provider-endpoint\" flag: provider endpoint \
             \"tcp://1.2.3.4:5\" is a network address; only Unix sockets are supported, since TCP \
             without mutual TLS would let anyone answer: write unix:///path/to/provider.sock",
        ),
    ] {
        assert_eq!(misuse(&[arg]), expected);
    }
}

#[test]
fn values_out_of_range_are_refused() {
    for (arg, expected) in [
        //
        (
            "--concurrent-node-syncs=0",
            "concurrent-node-syncs must be at least 1, but got 0",
        ),
        (
            "--concurrent-service-syncs=-1",
            "concurrent-service-syncs must be at least 1, but got -1",
        ),
        // CLI-32
        (
            "--concurrent-node-lifecycle-syncs=0",
            "concurrent-node-lifecycle-syncs must be at least 1, but got 0",
        ),
        (
            "--node-monitor-period=0",
            "--node-monitor-period must be greater than 0, but got 0s",
        ),
        (
            "--node-deletion-burst=-1",
            "--node-deletion-burst must not be negative, but got -1",
        ),
        (
            "--node-deletion-confirm=0",
            "node-deletion-confirm must be at least 1, but got 0",
        ),
        (
            "--node-deletion-fraction=1.5",
            "--node-deletion-fraction must be between 0 and 1, but got 1.5",
        ),
        (
            "--node-deletion-window=0",
            "--node-deletion-window must be greater than 0, but got 0s",
        ),
        (
            "--load-balancer-update-idle=-1s",
            "--load-balancer-update-idle must not be negative, but got -1s",
        ),
        (
            "--load-balancer-update-ceiling=500ms",
            "--load-balancer-update-ceiling must not be less than --load-balancer-update-idle, \
             but got 500ms and 1s",
        ),
        (
            "--load-balancer-drift-period=-1h",
            "--load-balancer-drift-period must not be negative, but got -1h0m0s",
        ),
        (
            "--plan-output=yaml",
            "--plan-output must be table or json, but got \"yaml\"",
        ),
        (
            "--node-selector=cloud=(red)",
            "--node-selector \"cloud=(red)\" has \"(\" at 7, where a value should be",
        ),
        (
            "--min-resync-period=-5s",
            "--min-resync-period must not be negative, but got -5s",
        ),
        (
            "--shutdown-grace-period=-1s",
            "--shutdown-grace-period must not be negative, but got -1s",
        ),
        // CLI-51, Q-32
        (
            "--secure-port=-1",
            "--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port",
        ),
        // CLI-72
        (
            "--secure-port=10260",
            "--webhook-secure-port cannot be the same value as --secure-port",
        ),
        // CLI-44
        (
            "--logging-format=xml",
            "format: Invalid value: \"xml\": Unsupported log format; --logging-format must be \
             text or json",
        ),
        // CLI-70
        (
            "--webhooks=foo",
            "\"foo\" is not in the list of known webhooks",
        ),
        (
            "--cluster-cidr=10.0.0.0",
            "--cluster-cidr: \"10.0.0.0\" is no CIDR; name one, such as 10.244.0.0/16, or one for each IP \
             family with a comma between them",
        ),
        (
            "--cluster-cidr=10.0.0.0/16,10.1.0.0/16",
            "--cluster-cidr: 10.0.0.0/16 and 10.1.0.0/16 are both IPv4; name one, such as 10.244.0.0/16, or \
             one for each IP family with a comma between them",
        ),
        (
            "--service-cluster-ip-range=10.0.0.0/16,fd00::/112,fd01::/112",
            "--service-cluster-ip-range: 3 CIDRs are more than one for each IP family; name one, such as \
             10.244.0.0/16, or one for each IP family with a comma between them",
        ),
        (
            "--kube-api-burst=-1",
            "--kube-api-burst must be at least 1 when --kube-api-qps limits requests, but got -1",
        ),
        (
            "--provider-user=10002,root",
            "--provider-user: \"root\" is no number of a user, such as 10002",
        ),
        (
            "--provider-effect-prefixes=vendor.example/,status-",
            "--provider-effect-prefixes: \"status-\" is no domain with a slash, such as vendor.example/ \
             or vendor.example/status-: a prefix without one would cover other domains that begin so",
        ),
        (
            "--provider-effect-prefixes=external-dns.alpha.kubernetes.io/",
            "--provider-effect-prefixes: \"external-dns.alpha.kubernetes.io/\" belongs to kubernetes.io, \
             which no provider may write to: annotations and conditions there direct Kubernetes and \
             this controller",
        ),
    ] {
        assert_eq!(refusal(&[arg]), expected, "{arg}");
    }
}

#[test]
fn proc_25_times_of_the_lease_must_fit_together() {
    let error = refusal(&["--leader-elect-lease-duration=10s"]);
    assert!(error.starts_with("leaseDuration must be greater than renewDeadline"));
    let error = refusal(&["--leader-elect-retry-period=9s"]);
    assert!(error.starts_with("renewDeadline must be greater than retryPeriod*JitterFactor"));
    config(&["--leader-elect=false", "--leader-elect-retry-period=9s"]);
    let error = refusal(&["--leader-elect-resource-name="]);
    assert!(
        error.starts_with("--leader-elect-resource-name: \"\""),
        "{error}"
    );
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
        let refusal = refusal(&[&ALLOCATES[..], args].concat());
        assert!(refusal.contains(expected), "{args:?}: {refusal}");
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
