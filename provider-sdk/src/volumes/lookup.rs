use std::collections::BTreeMap;

use outrigger_api::v1::{self, AbsenceCertainty, get_volume_response::Outcome};

use crate::setters::setters;

/// The outcome of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VolumeLookup {
    /// The volume exists.
    Found(VolumeTopology),
    /// The provider looked and there is none: why, for people.
    Absent(String),
    /// Not there, but that may be a cache or eventual consistency of a young volume: why, for people.
    NotVisibleYet(String),
    /// Another provider, or none, owns it: why, for logs.
    NotManaged(String),
}

/// Where a volume can be used. Empty: everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeTopology {
    /// Labels, at most 32; of Kubernetes' own only zone and region. Several zones are one value, joined by
    /// `__`.
    pub labels: BTreeMap<String, String>,
    /// Node affinity: a Node must meet one of these, at most 16. Empty: a requirement for each label.
    pub node_terms: Vec<NodeTerm>,
}

/// The labels that a Node needs: all of the requirements, 1 to 16.
pub type NodeTerm = Vec<NodeRequirement>;

/// A Node label with one of some values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeRequirement {
    /// Label key.
    pub key: String,
    /// 1 to 64 label values.
    pub values: Vec<String>,
}

impl NodeRequirement {
    /// A Node whose label `key` has one of `values`.
    pub fn new(
        key: impl Into<String>,
        values: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            key: key.into(),
            values: values.into_iter().map(Into::into).collect(),
        }
    }
}

impl VolumeTopology {
    /// In these zones of a region; an empty region is left out.
    pub fn zonal<'a>(region: &str, zones: impl IntoIterator<Item = &'a str>) -> Self {
        let zones: Vec<_> = zones.into_iter().collect();
        let both = [
            ("topology.kubernetes.io/region", region.to_owned()),
            ("topology.kubernetes.io/zone", zones.join("__")),
        ];
        let labels = both.into_iter().filter(|(_, value)| !value.is_empty());
        Self {
            labels: labels.map(|(key, value)| (key.to_owned(), value)).collect(),
            node_terms: Vec::new(),
        }
    }
}

setters! { VolumeTopology {
    with_labels => labels: BTreeMap<String, String>,
    with_node_terms => node_terms: Vec<NodeTerm>,
} }

impl VolumeLookup {
    pub(crate) fn into_wire(self) -> Outcome {
        match self {
            Self::Found(topology) => Outcome::Found(topology.into_wire()),
            Self::Absent(reason) => absent(AbsenceCertainty::Confirmed, reason),
            Self::NotVisibleYet(reason) => absent(AbsenceCertainty::NotVisibleYet, reason),
            Self::NotManaged(reason) => Outcome::NotManaged(v1::NotManaged { reason }),
        }
    }
}

fn absent(certainty: AbsenceCertainty, reason: String) -> Outcome {
    Outcome::Absent(v1::Absent {
        certainty: certainty.into(),
        age: None,
        reason,
    })
}

impl VolumeTopology {
    fn into_wire(self) -> v1::VolumeTopology {
        let term = |term: NodeTerm| v1::VolumeNodeTerm {
            requirements: term
                .into_iter()
                .map(|NodeRequirement { key, values }| v1::VolumeNodeRequirement { key, values })
                .collect(),
        };
        v1::VolumeTopology {
            labels: self.labels.into_iter().collect(),
            node_terms: self.node_terms.into_iter().map(term).collect(),
        }
    }
}
