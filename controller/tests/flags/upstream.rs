//! Upstream's list of flags as data, and ours as a document.

use std::{any::TypeId, collections::BTreeMap, net::IpAddr, time::Duration};

use clap::Arg;
use outrigger_controller::options::{command, no_effect::NO_EFFECT};

use super::document;

/// Flags whose default or range differs from upstream's, and why.
pub(crate) const BETTER: [(&str, &str); 9] = [
    (
        "allocate-node-cidrs",
        "two programs must not allocate: vendors pass the flag to a program of theirs that does, or to one that does not",
    ),
    (
        "cloud-provider",
        "optional, since the provider is chosen by its socket; if it is set, a provider of another name is refused",
    ),
    (
        "concurrent-node-lifecycle-syncs",
        "as for --concurrent-node-syncs",
    ),
    (
        "concurrent-node-syncs",
        "with upstream's 1, one slow answer of the cloud delays all others",
    ),
    ("concurrent-service-syncs", "as for --concurrent-node-syncs"),
    (
        "kube-api-burst",
        "with upstream's 30, clusters of thousands of nodes wait for the client",
    ),
    (
        "kube-api-qps",
        "with upstream's 20, clusters of thousands of nodes wait for the client",
    ),
    ("logging-format", "json works too"),
    (
        "route-reconciliation-period",
        "changes in the cluster are acted on at once, so that the period only finds what others changed in the cloud; upstream \
         lists all routes every 10s",
    ),
];

/// Flags that upstream has not, and why.
pub(crate) const OURS: [(&str, &str); 22] = [
    (
        "cluster-uid",
        "providers mark resources with it, and the administrator of a hosted cluster is a neighbour of the others in the \
         account",
    ),
    (
        "history-memory",
        "why an object is as it is can be asked, and not only looked for in logs",
    ),
    (
        "leader-elect-identity-file",
        "after a crash the loops go on within seconds",
    ),
    (
        "load-balancer-drift-period",
        "upstream never finds changes that others made to a load balancer",
    ),
    (
        "load-balancer-update-ceiling",
        "upstream calls the cloud for each load balancer and each node that joins",
    ),
    (
        "load-balancer-update-idle",
        "as for --load-balancer-update-ceiling",
    ),
    (
        "maintenance-condition",
        "upstream's providers have no way to say it; off while the type of condition is alpha",
    ),
    ("maintenance-taint-before", "as for --maintenance-condition"),
    (
        "node-deletion-burst",
        "a cloud that suddenly knows many instances no more is more likely to be wrong than right; upstream deletes all of \
         their Nodes",
    ),
    (
        "node-deletion-confirm",
        "upstream deletes a Node on one answer; 1 does the same",
    ),
    (
        "node-deletion-enabled",
        "a cluster may want to keep its Nodes whatever the cloud answers",
    ),
    ("node-deletion-fraction", "as for --node-deletion-burst"),
    ("node-deletion-window", "as for --node-deletion-burst"),
    ("node-selector", "several providers can share a cluster"),
    (
        "out-of-service-after",
        "with upstream, the Pods of a StatefulSet wait until an operator adds the taint by hand",
    ),
    (
        "plan",
        "a change of configuration or version can be looked at before it is made",
    ),
    ("plan-output", "as for --plan"),
    (
        "provider-effect-prefixes",
        "annotations of other programs, such as those of DNS and of the Pod network, direct traffic, and a provider is not \
         trusted with them; upstream's provider writes whatever its account may",
    ),
    ("provider-endpoint", "the provider is reached over a socket"),
    (
        "provider-user",
        "whoever answers at the socket is asked what the cloud is, and the kernel knows which user that is",
    ),
    (
        "shutdown-grace-period",
        "a call that is cut off leaves the cloud half changed; with 4s more for the results it must fit into the Pod's \
         terminationGracePeriodSeconds. Upstream ends at once",
    ),
    ("webhook-client-ca-file", "upstream answers any client"),
];

/// All flags that something depends on.
pub(crate) fn flags() -> Vec<Arg> {
    let all = command(&BTreeMap::new());
    let flags = all.get_arguments().filter(|flag| !flag.is_hide_set());
    flags.cloned().collect()
}

/// The names of the others.
pub(crate) fn no_effect<'a>() -> impl Iterator<Item = &'a str> {
    NO_EFFECT.iter().flat_map(|(names, _)| *names).copied()
}

pub(crate) fn name(flag: &Arg) -> &str {
    flag.get_long().unwrap()
}

pub(crate) fn default(flag: &Arg) -> String {
    let texts = flag.get_default_values().iter();
    let texts: Vec<_> = texts.map(|text| text.to_string_lossy()).collect();
    texts.join(",")
}

/// The type of its values.
pub(crate) fn kind(flag: &Arg) -> &'static str {
    let id = flag.get_value_parser().type_id();
    if flag.get_value_delimiter().is_some() {
        "list"
    } else if id == TypeId::of::<bool>() {
        "switch"
    } else if id == TypeId::of::<Duration>() {
        "duration"
    } else if id == TypeId::of::<IpAddr>() {
        "address"
    } else if default(flag).parse::<f64>().is_ok() {
        "number"
    } else {
        "text"
    }
}

/// The word of [`kind`] for a type of Go's flag library.
fn kind_of_go(kind: &str) -> &'static str {
    match kind {
        "bool" => "switch",
        "duration" => "duration",
        "ip" => "address",
        "int" | "int32" | "float32" | "Level" => "number",
        "strings" | "int32Slice" | "mapStringBool" | "pattern=N,..." => "list",
        _ => "text",
    }
}

#[test]
fn cli_9_every_flag_of_upstream_exists_with_its_type_and_default() {
    let ours = flags();
    let ours: BTreeMap<&str, &Arg> = ours.iter().map(|flag| (name(flag), flag)).collect();
    let mut differences = Vec::new();
    let mut theirs = Vec::new();
    let lines = include_str!("../data/upstream-flags.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let [name, type_, upstream, ..] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        theirs.push(name);
        // clap's own.
        let is_claps = ["help", "version"].contains(&name);
        if is_claps || no_effect().any(|idle| idle == name) {
            continue;
        }
        let flag = ours.get(name).expect(name);
        assert_eq!(kind(flag), kind_of_go(type_), "type of --{name}");
        let (upstream, ours) = (upstream.trim_matches(['[', ']']), default(flag));
        if ours != upstream {
            differences.push(format!("{name}: {upstream} → {ours}"));
        }
    }
    assert_eq!(theirs.len(), 89);
    // A change here is a decision: docs/flags.md has the reasons.
    assert_eq!(
        differences,
        [
            "concurrent-node-lifecycle-syncs: 1 → 32",
            "concurrent-node-syncs: 1 → 32",
            "concurrent-service-syncs: 1 → 32",
            "kube-api-burst: 30 → 2000",
            "kube-api-qps: 20 → 1000",
            "route-reconciliation-period: 10s → 30m0s",
        ]
    );
    for difference in differences {
        let is_explained = |(name, _): &(&str, &str)| difference.starts_with(&format!("{name}:"));
        assert!(BETTER.iter().any(is_explained), "{difference}");
    }
    let all = ours.keys().copied().chain(no_effect());
    let added: Vec<_> = all.filter(|name| !theirs.contains(name)).collect();
    let explained: Vec<_> = OURS.iter().map(|(name, _)| *name).collect();
    assert_eq!(added, explained);
}

#[test]
fn the_documentation_lists_exactly_the_flags_that_exist() {
    expect_test::expect_file!["../../../docs/flags.md"].assert_eq(&document::document());
}
