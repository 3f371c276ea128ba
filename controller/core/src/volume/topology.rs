//! Where a volume can be used: a provider's answer, checked, or the labels of a trusted volume.

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

/// The labels of Kubernetes that a volume may get.
pub(super) const TOPOLOGY: [&str; 4] = [ZONE, REGION, ZONE_BETA, REGION_BETA];

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
        let topology = VolumeTopology::of_labels(labels).map_err(|(key, value)| {
            let field = format!("labels[{}]", Excerpt::of(&key));
            Fault::illegal(field, &value, NO_ZONES)
        })?;
        Ok(if terms.is_empty() {
            topology
        } else {
            VolumeTopology {
                node_terms: terms,
                ..topology
            }
        })
    }
}

pub(super) const NO_ZONES: Complaint = "has an empty zone: zones are joined by \"__\"";

impl VolumeTopology {
    /// These labels, and one term with a requirement for each (P-30); no labels, no term (P-32, not Q-27).
    ///
    /// # Errors
    /// Key and value of a label that is no list of zones.
    pub(super) fn of_labels(labels: StringMap) -> Result<Self, (Box<str>, Box<str>)> {
        let mut requirements = Vec::with_capacity(labels.len());
        for (key, value) in labels.iter() {
            let values = if is_zone(key) {
                zones(value).ok_or_else(|| (key.into(), value.into()))?
            } else {
                BTreeSet::from([value])
            };
            let values = values.into_iter().map(Box::from).collect();
            requirements.push(NodeRequirement::within(key, values));
        }
        let term = NodeTerm {
            match_expressions: requirements,
            ..NodeTerm::default()
        };
        Ok(Self {
            node_terms: if labels.is_empty() {
                Box::default()
            } else {
                [term].into()
            },
            labels,
        })
    }
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
        legal(format_args!("{field} key"), &key, |key| {
            syntax::label_key(key)?;
            if keys.contains(key) {
                return Err("is there twice");
            }
            Ok(())
        })?;
        let field = format!("{field} values");
        few(&field, values.len(), MAX_VALUES)?;
        if values.is_empty() {
            legal(&field, &key, |_| Err("has no values"))?;
        }
        let mut distinct = BTreeSet::new();
        for value in &values {
            legal(&field, value, |value| {
                syntax::label_value(value)?;
                if !distinct.insert(Box::<str>::from(value)) {
                    return Err("is there twice");
                }
                Ok(())
            })?;
        }
        expressions.push(NodeRequirement::within(
            &key,
            distinct.into_iter().collect(),
        ));
        keys.insert(key);
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
mod tests;
