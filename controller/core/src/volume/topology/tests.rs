use proptest::prelude::*;

use super::{RawTopology, VolumeTopology, is_same_fact, is_same_value};
use crate::{
    node::labels::{REGION, ZONE, ZONE_BETA},
    volume::tests::{all_of, within},
};

fn labels(labels: &[(&str, &str)]) -> RawTopology {
    let labels = labels.iter();
    RawTopology {
        labels: labels.map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        ..RawTopology::default()
    }
}

fn terms(terms: &[&[(&str, &[&str])]]) -> RawTopology {
    let requirement = |(key, values): &(&str, &[&str])| {
        let values = values.iter().map(|value| (*value).to_owned());
        ((*key).to_owned(), values.collect())
    };
    let terms = terms.iter();
    RawTopology {
        node_terms: terms
            .map(|term| term.iter().map(requirement).collect())
            .collect(),
        ..RawTopology::default()
    }
}

/// P-30.
#[test]
fn each_label_becomes_a_requirement_and_zones_a_set() {
    let answer = labels(&[
        (REGION, "r"),
        (ZONE, "z-b__z-a"),
        ("example.com/tier", "a__b"),
    ]);
    let topology = answer.check().unwrap();
    let term = all_of([
        within("example.com/tier", &["a__b"]),
        within(REGION, &["r"]),
        within(ZONE, &["z-a", "z-b"]),
    ]);
    assert_eq!(*topology.node_terms, [term]);
    let beta = labels(&[(ZONE_BETA, "b__a__b")]).check().unwrap();
    assert_eq!(*beta.node_terms, [all_of([within(ZONE_BETA, &["a", "b"])])]);
}

/// P-32, not Q-27.
#[test]
fn no_labels_make_no_term() {
    assert_eq!(
        RawTopology::default().check(),
        Ok(VolumeTopology::default())
    );
}

#[test]
fn terms_of_the_provider_replace_those_of_labels() {
    let answer = RawTopology {
        labels: labels(&[(ZONE, "a")]).labels,
        ..terms(&[
            &[("topology.disk.example/zone", &["b", "a"])],
            &[(ZONE, &["a"])],
        ])
    };
    let topology = answer.check().unwrap();
    assert_eq!(topology.labels.len(), 1);
    let expected = [
        all_of([within("topology.disk.example/zone", &["a", "b"])]),
        all_of([within(ZONE, &["a"])]),
    ];
    assert_eq!(*topology.node_terms, expected);
}

#[test]
fn an_answer_that_breaks_a_limit_is_refused() {
    let long = "x".repeat(64);
    let many: Vec<_> = (0..33).map(|n| (format!("l{n}"), String::new())).collect();
    let many = RawTopology {
        labels: many.into_iter().collect(),
        ..RawTopology::default()
    };
    let values: Vec<_> = (0..65).map(|n| format!("v{n}")).collect();
    let values: Vec<_> = values.iter().map(String::as_str).collect();
    let wide: Vec<(&str, &[&str])> = (0..17).map(|_| ("k", &["v"][..])).collect();
    for (answer, field) in [
        (labels(&[("no key", "v")]), "labels key \"no key\""),
        (labels(&[("k", &long)]), "labels[\"k\"]"),
        (labels(&[("k", "a b")]), "labels[\"k\"]"),
        (labels(&[("kubernetes.io/hostname", "n")]), "labels key"),
        (
            labels(&[("topology.kubernetes.io/rack", "n")]),
            "labels key",
        ),
        (labels(&[("outrigger.dev/paused", "true")]), "labels key"),
        (labels(&[(ZONE, "a____b")]), "has an empty zone"),
        (labels(&[(ZONE, "")]), "has an empty zone"),
        (many, "labels has 33 entries"),
        (terms(&[&[][..]; 17]), "node_terms has 17 entries"),
        (terms(&[&[]]), "node_terms[0].requirements \"\" is empty"),
        (terms(&[&wide]), "node_terms[0].requirements has 17"),
        (
            terms(&[&[("k", &["v"]), ("k", &["w"])]]),
            "requirements key \"k\" is there twice",
        ),
        (terms(&[&[("k k", &["v"])]]), "requirements key \"k k\""),
        (terms(&[&[("k", &[])]]), "has no values"),
        (
            terms(&[&[("k", &["a", "a"])]]),
            "values \"a\" is there twice",
        ),
        (terms(&[&[("k", &["a b"])]]), "values \"a b\""),
        (terms(&[&[("k", &values)]]), "values has 65 entries"),
    ] {
        let fault = answer.clone().check().unwrap_err().to_string();
        assert!(fault.contains(field), "{answer:?}: {fault}");
    }
}

#[test]
fn generations_and_orders_of_zones_mean_the_same() {
    assert!(is_same_fact(ZONE, ZONE_BETA) && !is_same_fact(ZONE, REGION));
    assert!(is_same_value(ZONE_BETA, "a__b", "b__a"));
    assert!(!is_same_value(ZONE, "a__b", "a"));
    assert!(!is_same_value("k", "a__b", "b__a"));
    assert!(!is_same_value(ZONE, "a__", "__a"));
}

proptest! {
    #[test]
    fn checked_labels_make_requirements_that_the_api_server_takes(
        found in prop::collection::btree_map("[a-z/.]{1,9}", "[a-z_ ]{0,6}", 0..4),
        zones in prop::option::of("[a-b_]{0,6}"),
    ) {
        let mut labels = found;
        labels.extend(zones.map(|zones| (ZONE.to_owned(), zones)));
        let answer = RawTopology { labels, ..RawTopology::default() };
        let Ok(VolumeTopology { labels, node_terms }) = answer.check() else { return Ok(()) };
        prop_assert_eq!(node_terms.len(), usize::from(!labels.is_empty()));
        for requirement in node_terms.iter().flat_map(|term| &term.match_expressions) {
            prop_assert!(labels.contains_key(&requirement.key));
            prop_assert!(!requirement.values.is_empty());
            let sorted = requirement.values.is_sorted_by(|a, b| a < b);
            prop_assert!(sorted, "{:?}", requirement);
        }
    }
}
