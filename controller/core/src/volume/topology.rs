//! Where a volume can be used: a provider's answer, checked, or the labels of a trusted volume.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

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

/// A part of an answer, by its name in the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyField {
    /// `labels`, as a whole.
    Labels,
    /// Key of a label.
    LabelKey,
    /// Value of the label with this key.
    LabelValue(Excerpt),
    /// `node_terms`, as a whole.
    Terms,
    /// Requirements of a term.
    Requirements(usize),
    /// Key of a requirement of a term.
    RequirementKey(usize),
    /// Values of a requirement of a term.
    RequirementValues(usize),
}

impl fmt::Display for TopologyField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Labels => f.write_str("labels"),
            Self::LabelKey => f.write_str("labels key"),
            Self::LabelValue(key) => write!(f, "labels[{key}]"),
            Self::Terms => f.write_str("node_terms"),
            Self::Requirements(at) => write!(f, "node_terms[{at}].requirements"),
            Self::RequirementKey(at) => write!(f, "node_terms[{at}].requirements key"),
            Self::RequirementValues(at) => write!(f, "node_terms[{at}].requirements values"),
        }
    }
}

impl RawTopology {
    /// The topology, if every part of it is legal.
    ///
    /// # Errors
    /// The first part that breaks a limit of the contract: an error of this volume.
    pub fn check(self) -> Result<VolumeTopology, Fault<TopologyField>> {
        few(TopologyField::Labels, self.labels.len(), MAX_LABELS)?;
        for (key, value) in &self.labels {
            legal(TopologyField::LabelKey, key, label_key)?;
            let field = || TopologyField::LabelValue(Excerpt::of(key));
            legal(field(), value, syntax::label_value)?;
        }
        few(TopologyField::Terms, self.node_terms.len(), MAX_TERMS)?;
        let terms = self.node_terms.into_iter().enumerate();
        let terms = terms
            .map(|(at, requirements)| term(at, requirements))
            .collect::<Result<Box<[_]>, _>>()?;
        let labels: StringMap = self.labels.into_iter().collect();
        let topology =
            VolumeTopology::of_labels(labels).map_err(|(key, value)| Fault::Illegal {
                field: TopologyField::LabelValue(Excerpt::of(&key)),
                value: Excerpt::of(&value),
                complaint: NO_ZONES,
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

    /// Returns true if nothing follows from it.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.node_terms.is_empty()
    }
}

fn term(
    at: usize,
    requirements: Vec<(String, Vec<String>)>,
) -> Result<NodeTerm, Fault<TopologyField>> {
    let count = requirements.len();
    few(TopologyField::Requirements(at), count, MAX_REQUIREMENTS)?;
    // A term without a requirement matches no Node at all.
    legal(TopologyField::Requirements(at), "", |_| {
        if count == 0 { Err("is empty") } else { Ok(()) }
    })?;
    let mut keys = BTreeSet::new();
    let mut expressions = Vec::with_capacity(count);
    for (key, values) in requirements {
        let field = TopologyField::RequirementKey(at);
        legal(field, &key, |key| {
            syntax::label_key(key)?;
            if keys.contains(key) {
                return Err("is there twice");
            }
            Ok(())
        })?;
        let field = || TopologyField::RequirementValues(at);
        few(field(), values.len(), MAX_VALUES)?;
        if values.is_empty() {
            legal(field(), &key, |_| Err("has no values"))?;
        }
        let mut distinct = BTreeSet::new();
        for value in &values {
            legal(field(), value, |value| {
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
