//! Where a volume can be used: a provider's answer, checked.
//!
//! The provider client calls [`RawTopology::check`]. Labels of Kubernetes' domains other than zone and region are refused,
//! and an answer with labels and no terms gets the node affinity that goes with them.

use std::collections::{BTreeMap, BTreeSet};

use super::{NodeRequirement, NodeTerm};
use crate::{
    fault::{Excerpt, Fault, few, legal},
    node::labels::{REGION, REGION_BETA, ZONE, ZONE_BETA, is_reserved},
    string_map::StringMap,
    syntax::{self, Complaint},
};

const MAX_LABELS: usize = 32;
const MAX_TERMS: usize = 16;
const MAX_REQUIREMENTS: usize = 16;
const MAX_VALUES: usize = 64;

const NO_ZONES: Complaint = "has an empty zone: zones are joined by \"__\"";

/// The labels of Kubernetes that a volume may get.
const TOPOLOGY: [&str; 4] = [ZONE, REGION, ZONE_BETA, REGION_BETA];

/// Between the zones of a volume in one label (P-30, P-33).
const ZONES: &str = "__";

/// Checked: legal labels, and the node affinity that goes with them. Empty: the volume can be used
/// everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeTopology {
    pub(super) labels: StringMap,
    pub(super) node_terms: Box<[NodeTerm]>,
}

/// An answer as it arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawTopology {
    /// Labels by key.
    pub labels: BTreeMap<String, String>,
    /// Terms; of each the requirements, a label key and values.
    pub node_terms: Vec<Vec<(String, Vec<String>)>>,
}

impl RawTopology {
    /// The topology, if every part of it is legal.
    ///
    /// # Errors
    /// The first part that breaks a limit of the contract: an error of this volume.
    pub fn check(self) -> Result<VolumeTopology, Fault> {
        few("labels", self.labels.len(), MAX_LABELS)?;
        for (key, value) in &self.labels {
            legal("labels key", key, label_key)?;
            let field = format_args!("labels[{}]", Excerpt::of(key));
            legal(field, value, syntax::label_value)?;
        }
        few("node_terms", self.node_terms.len(), MAX_TERMS)?;
        let terms = self.node_terms.into_iter().enumerate();
        let terms = terms
            .map(|(at, requirements)| term(at, requirements))
            .collect::<Result<Box<[_]>, _>>()?;
        let labels: StringMap = self.labels.into_iter().collect();
        let of_labels = term_of_labels(&labels)?;
        let node_terms = if terms.is_empty() {
            of_labels.into_iter().collect()
        } else {
            terms
        };
        Ok(VolumeTopology { labels, node_terms })
    }
}

/// A term with a requirement for each label (P-30); no labels, no term (P-32, not Q-27).
fn term_of_labels(labels: &StringMap) -> Result<Option<NodeTerm>, Fault> {
    let mut requirements = Vec::with_capacity(labels.len());
    for (key, value) in labels.iter() {
        let values = if is_zone(key) {
            zones(value).ok_or_else(|| {
                let field = format!("labels[{}]", Excerpt::of(key));
                Fault::illegal(field, value, NO_ZONES)
            })?
        } else {
            BTreeSet::from([value])
        };
        let values = values.into_iter().map(Box::from).collect();
        requirements.push(NodeRequirement::within(key, values));
    }
    Ok((!requirements.is_empty()).then(|| NodeTerm {
        match_expressions: requirements,
        ..NodeTerm::default()
    }))
}

fn term(at: usize, requirements: Vec<(String, Vec<String>)>) -> Result<NodeTerm, Fault> {
    let count = requirements.len();
    let field = format!("node_terms[{at}].requirements");
    few(&field, count, MAX_REQUIREMENTS)?;
    // A term without a requirement matches no Node at all.
    legal(&field, "", |_| {
        if count == 0 { Err("is empty") } else { Ok(()) }
    })?;
    let mut keys = BTreeSet::new();
    let mut expressions = Vec::with_capacity(count);
    for (key, values) in requirements {
        // Both of two requirements would have to be met, and the affinity can never be changed.
        legal(format_args!("{field} key"), &key, |key| {
            syntax::label_key(key)?;
            if keys.insert(key.to_owned()) {
                Ok(())
            } else {
                Err("is there twice")
            }
        })?;
        let field = format!("{field} values");
        few(&field, values.len(), MAX_VALUES)?;
        if values.is_empty() {
            return Err(Fault::illegal(&field, &key, "has no values"));
        }
        for value in &values {
            legal(&field, value, syntax::label_value)?;
        }
        let distinct: BTreeSet<Box<str>> = values.into_iter().map(Box::from).collect();
        let values = distinct.into_iter().collect();
        expressions.push(NodeRequirement::within(&key, values));
    }
    Ok(NodeTerm {
        match_expressions: expressions,
        ..NodeTerm::default()
    })
}

/// Keys outside of Kubernetes' domains and ours, and those of the topology.
fn label_key(key: &str) -> Result<(), Complaint> {
    syntax::label_key(key)?;
    if (is_reserved(key) && !TOPOLOGY.contains(&key)) || key.starts_with("outrigger.dev/") {
        return Err("is in a domain of Kubernetes or Outrigger, and no zone or region");
    }
    Ok(())
}

fn is_zone(key: &str) -> bool {
    key == ZONE || key == ZONE_BETA
}

/// The zones in the value of a label, sorted; none if one of them is empty (P-30).
fn zones(value: &str) -> Option<BTreeSet<&str>> {
    let zones = value.split(ZONES).map(str::trim);
    zones
        .map(|zone| (!zone.is_empty()).then_some(zone))
        .collect()
}

/// Returns true if two label keys name the same fact: they are equal, or its old and new key.
pub(super) fn is_same_fact(a: &str, b: &str) -> bool {
    let fact = |key| match key {
        ZONE_BETA => ZONE,
        REGION_BETA => REGION,
        key => key,
    };
    fact(a) == fact(b)
}

/// Returns true if two values of a label mean the same: zones in any order.
pub(super) fn is_same_value(key: &str, a: &str, b: &str) -> bool {
    a == b || (is_zone(key) && zones(a).is_some_and(|of_a| zones(b) == Some(of_a)))
}

#[cfg(test)]
mod tests {
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
}
