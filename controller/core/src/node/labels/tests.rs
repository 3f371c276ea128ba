use super::{INSTANCE_TYPE, MOST_SENT, ZONE, ZONE_BETA, is_reserved, plan, reconcile, sent};
use crate::{
    fixture::map,
    node::{LABEL_CONFIRM_DELETION, LABEL_PAUSED, change::LabelWrite, instance::Instance},
    string_map::StringMap,
};

/// Writes as `key=value`, with a `?` where the key must be absent.
fn shown(writes: &[LabelWrite]) -> Vec<String> {
    let mark = |write: &LabelWrite| if write.must_be_absent { "?" } else { "" };
    let writes = writes.iter();
    writes
        .map(|write| format!("{}={}{}", write.key, write.value, mark(write)))
        .collect()
}

fn writes(current: &StringMap, instance: &Instance) -> Vec<String> {
    shown(&plan(current, instance, &[], true).0)
}

fn with_additional(labels: &[(&str, &str)]) -> Instance {
    Instance {
        additional_labels: map(labels),
        ..Instance::default()
    }
}

#[test]
fn n16_zone_and_region_are_written_in_both_generations() {
    let instance = Instance {
        zone: "z1".into(),
        region: "r1".into(),
        ..Instance::default()
    };
    let all = [
        "failure-domain.beta.kubernetes.io/region=r1",
        "failure-domain.beta.kubernetes.io/zone=z1",
        "topology.kubernetes.io/region=r1",
        "topology.kubernetes.io/zone=z1",
    ];
    assert_eq!(writes(&map(&[]), &instance), all);
    let other = map(&[("topology.kubernetes.io/zone", "elsewhere")]);
    assert_eq!(writes(&other, &instance), all);
}

#[test]
fn n17_what_the_provider_does_not_know_stays() {
    let current = map(&[
        ("topology.kubernetes.io/zone", "mine"),
        ("node.kubernetes.io/instance-type", "mine"),
        ("topology.kubernetes.io/region", "mine"),
    ]);
    assert_eq!(writes(&current, &Instance::default()), [""; 0]);
    assert_eq!(writes(&map(&[]), &Instance::default()), [""; 0]);
}

#[test]
fn n18_only_kubernetes_own_prefixes_are_reserved() {
    // No provider pauses a Node, or releases its deletion.
    assert!(is_reserved(LABEL_PAUSED) && is_reserved(LABEL_CONFIRM_DELETION));
    for (key, reserved) in [
        ("kubernetes.io/x", true),
        ("k8s.io/x", true),
        ("node.kubernetes.io/x", true),
        ("a.b.k8s.io/x", true),
        ("mykubernetes.io/x", false),
        ("myk8s.io/x", false),
        ("kubernetes.io.example.com/x", false),
        ("example.com/kubernetes.io", false),
        ("kubernetes.io", false),
        ("x.k8s.io", false),
        ("x", false),
    ] {
        assert_eq!(is_reserved(key), reserved, "{key}");
    }
}

#[test]
fn n18_additional_labels_are_added_where_there_are_none() {
    let current = map(&[("kept", "mine"), ("same", "v")]);
    let instance = with_additional(&[
        ("kept", "theirs"),
        ("same", "v"),
        ("example.com/new", ""),
        ("mykubernetes.io/x", "1"),
        ("node.k8s.io/x", "1"),
        ("topology.kubernetes.io/zone", "smuggled"),
    ]);
    let (writes, dropped) = plan(&current, &instance, &[], true);
    // A label presumed absent may be set by a concurrent writer meanwhile.
    assert_eq!(
        shown(&writes),
        ["example.com/new=?", "mykubernetes.io/x=1?"]
    );
    let expected = [
        r#"discarding node label kept with value "theirs" that is already present with value "mine""#,
        "discarding node label node.k8s.io/x with kubernetes namespace",
        "discarding node label topology.kubernetes.io/zone with kubernetes namespace",
    ];
    assert_eq!(dropped, expected);
}

#[test]
fn a_label_that_the_provider_manages_wins_over_the_nodes() {
    let current = map(&[("managed", "old"), ("kept", "mine")]);
    let instance = with_additional(&[("managed", "new"), ("kept", "theirs"), ("k8s.io/m", "1")]);
    let managed = ["managed".into(), "absent".into(), "k8s.io/m".into()];
    let (writes, dropped) = plan(&current, &instance, &managed, true);
    assert_eq!(shown(&writes), ["managed=new"]);
    assert_eq!(dropped.len(), 2);
}

/// N-37: whoever edits the new one is overruled.
#[test]
fn n35_the_old_generation_is_copied_to_the_new_one() {
    let reconciled = |entries: &[(&str, &str)]| shown(&reconcile(&map(entries)));
    for (beta, stable) in super::GENERATIONS {
        let write = [format!("{stable}=v")];
        assert_eq!(reconciled(&[(beta, "v")]), write);
        assert_eq!(reconciled(&[(beta, "v"), (stable, "w")]), write);
        assert_eq!(reconciled(&[(beta, "v"), (stable, "v")]), [""; 0]);
        // Never the other way round.
        assert_eq!(reconciled(&[(stable, "w")]), [""; 0]);
        assert_eq!(reconciled(&[(beta, "")]), [format!("{stable}=")]);
    }
    assert_eq!(reconciled(&[("rack", "r")]), [""; 0]);
}

fn kept(current: &StringMap, instance: &Instance, managed: &[&str]) -> Vec<String> {
    let managed: Vec<Box<str>> = managed.iter().map(|key| (*key).into()).collect();
    shown(&plan(current, instance, &managed, false).0)
}

#[test]
fn only_managed_labels_are_kept_in_sync() {
    let current = map(&[("rack", "7"), ("row", "1"), (INSTANCE_TYPE, "large")]);
    let instance = Instance {
        instance_type: "small".into(),
        ..with_additional(&[("rack", "8"), ("row", "2"), ("new", "n"), ("k8s.io/x", "y")])
    };
    for (managed, expected) in [
        (vec![], vec![]),
        (vec!["rack"], vec!["rack=8"]),
        // Lost in the cloud: the provider's silence removes nothing.
        (vec!["gone"], vec![]),
        // Not there yet, or removed by another client.
        (vec!["new"], vec!["new=n"]),
        (
            vec![INSTANCE_TYPE],
            vec!["node.kubernetes.io/instance-type=small"],
        ),
        // N-18: whoever manages it, it is Kubernetes' own.
        (vec!["k8s.io/x"], vec![]),
    ] {
        assert_eq!(kept(&current, &instance, &managed), expected, "{managed:?}");
    }
    // N-17: what is not known stays as it is.
    assert!(kept(&current, &Instance::default(), &["rack", INSTANCE_TYPE]).is_empty());
}

/// N-35, N-37: else the old generation would write its value over the new one, for ever.
#[test]
fn n35_both_generations_follow_a_managed_one() {
    let instance = Instance {
        zone: "z2".into(),
        ..Instance::default()
    };
    let (beta, stable) = (format!("{ZONE_BETA}=z2"), format!("{ZONE}=z2"));
    for (current, managed, expected) in [
        (map(&[(ZONE, "z1")]), vec![ZONE], vec![&stable]),
        (map(&[]), vec![ZONE], vec![&stable]),
        (
            map(&[(ZONE_BETA, "z1"), (ZONE, "z1")]),
            vec![ZONE],
            vec![&beta, &stable],
        ),
        (
            map(&[(ZONE_BETA, "z1"), (ZONE, "z2")]),
            vec![ZONE],
            vec![&beta],
        ),
        (map(&[(ZONE, "z1")]), vec![ZONE_BETA], vec![&beta, &stable]),
        (
            map(&[(ZONE_BETA, "z2"), (ZONE, "z2")]),
            vec![ZONE_BETA, ZONE],
            vec![],
        ),
    ] {
        let expected: Vec<String> = expected.into_iter().cloned().collect();
        assert_eq!(
            kept(&current, &instance, &managed),
            expected,
            "{current:?} {managed:?}"
        );
    }
}

#[test]
fn a_node_with_too_many_labels_is_sent_those_that_count() {
    let value = "v".repeat(MOST_SENT / 4);
    let key = |key: &str| (key.to_owned(), value.clone());
    let many = ["a", "b", "topology.kubernetes.io/zone", "rack", "z"].map(key);
    let labels: StringMap = many.into_iter().collect();
    let keys = |declared: &[&str]| {
        let declared: Vec<_> = declared.iter().map(|key| Box::from(*key)).collect();
        let sent = sent(&labels, &declared).into_iter();
        sent.map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(keys(&[]), ["topology.kubernetes.io/zone", "a", "b"]);
    assert_eq!(
        keys(&["rack", "z"]),
        ["rack", "z", "topology.kubernetes.io/zone"]
    );
    let few = map(&[("b", "2"), ("a", "1")]);
    assert_eq!(sent(&few, &[]), [("a", "1"), ("b", "2")]);
}
