//! Upstream's list of flags as data, and ours as a document.

use std::collections::BTreeMap;

use outrigger_controller::options::{
    flag::{Flag, Parity},
    table::FLAGS,
};

use super::document;

struct Upstream {
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    group: &'static str,
    deprecated: bool,
}

fn upstream() -> Vec<Upstream> {
    include_str!("../data/upstream-flags.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| match line.split('|').collect::<Vec<_>>()[..] {
            [name, kind, default, group, state] => Upstream {
                name,
                kind,
                default,
                group,
                deprecated: state == "deprecated",
            },
            _ => panic!("{line}"),
        })
        .collect()
}

#[test]
fn cli_9_every_flag_of_upstream_exists_with_its_type_group_and_default() {
    let ours: BTreeMap<String, &Flag> = FLAGS.iter().map(|flag| (flag.name(), flag)).collect();
    let upstream = upstream();
    assert_eq!(upstream.len(), 89);
    let mut differences = Vec::new();
    for theirs in &upstream {
        let flag = ours.get(theirs.name).expect(theirs.name);
        assert_eq!(flag.kind, theirs.kind, "type of --{}", theirs.name);
        assert_eq!(flag.group, theirs.group, "group of --{}", theirs.name);
        assert_eq!(
            flag.deprecated.is_some(),
            theirs.deprecated,
            "--{}",
            theirs.name
        );
        if flag.default() != theirs.default {
            let why = match &flag.parity {
                Parity::Better(why) | Parity::NoEffect(why) => why,
                other => panic!("--{}: {other:?}, but another default", theirs.name),
            };
            assert!(!why.is_empty());
            differences.push(format!(
                "{}: {} → {}",
                theirs.name,
                theirs.default,
                flag.default()
            ));
        }
    }
    // A change here is a decision: docs/flags.md has the reasons.
    assert_eq!(
        differences,
        [
            "concurrent-node-lifecycle-syncs: 1 → 32",
            "concurrent-node-syncs: 1 → 32",
            "concurrent-service-syncs: 1 → 32",
            "kube-api-burst: 30 → 2000",
            "kube-api-content-type: application/vnd.kubernetes.protobuf → application/json",
            "kube-api-qps: 20 → 1000",
            "route-reconciliation-period: 10s → 30m0s",
        ]
    );
    let names: Vec<&str> = upstream.iter().map(|flag| flag.name).collect();
    for (name, flag) in &ours {
        let is_ours = matches!(flag.parity, Parity::Ours(_));
        assert_eq!(is_ours, !names.contains(&name.as_str()), "--{name}");
    }
}

#[test]
fn the_documentation_lists_exactly_the_flags_that_exist() {
    expect_test::expect_file!["../../../docs/flags.md"].assert_eq(&document::flags());
}
