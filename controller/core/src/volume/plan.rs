//! Which volumes the provider is asked about, and the write that follows from its answer.

use super::{
    ANNOTATION_LABELLED, ANNOTATION_PROVISIONED_BY, NodeTerm, ServedVolumes, VolumeTopology,
    VolumeView,
    topology::{NO_ZONES, is_same_fact, is_same_value},
};
use crate::{
    fault::Excerpt,
    node::labels::{REGION, REGION_BETA, ZONE, ZONE_BETA},
    string_map::StringMap,
};

/// The next step about a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeStep {
    /// Nothing is to be done.
    Leave(LeftAlone),
    /// The provider is asked; [`plan`] follows.
    Ask,
    /// The provider need not be asked (P-21).
    Decide(VolumeDecision),
}

/// Why nothing is done about a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftAlone {
    /// It is being deleted.
    Deleting,
    /// An operator has paused it.
    Paused,
    /// Its source is none that the provider serves.
    NotServed,
    /// It is not made yet (P-23).
    Placeholder,
    /// Its source breaks a limit of the contract.
    TooLong,
    /// It was labelled from this source before.
    Labelled,
    /// Its provisioner gave it node affinity.
    Provisioned,
}

impl LeftAlone {
    /// For logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deleting => "deleting",
            Self::Paused => "paused",
            Self::NotServed => "not_served",
            Self::Placeholder => "placeholder",
            Self::TooLong => "too_long",
            Self::Labelled => "labelled",
            Self::Provisioned => "provisioned",
        }
    }
}

/// A volume that is being created, or one that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is being created: everything may still change.
    Admission,
    /// It exists: node affinity that it has can never change.
    Existing,
}

/// The decision about a volume whose topology is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeDecision {
    /// To be written. `missing` are the terms that its node affinity lacks and can never get.
    Write {
        /// The write.
        patch: VolumePatch,
        /// [`Stage::Existing`] only.
        missing: Option<Box<[NodeTerm]>>,
    },
    /// The webhook refuses the volume; the loop writes nothing until its labels change.
    Refuse(LabelProblem),
}

/// One write to a volume; nothing in it is there already but the terms that it keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumePatch {
    /// Labels that are absent.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// The value of [`ANNOTATION_LABELLED`].
    pub labelled: Option<Box<str>>,
    /// All terms of the node affinity; none leaves it as it is.
    pub node_terms: Option<Box<[NodeTerm]>>,
}

/// A label of the volume that cannot be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelProblem {
    /// The provider says otherwise.
    #[error(
        "label {key} is {own}, but the volume is in {provided:?} in the cloud; \
         correct or remove the label"
    )]
    Contradiction {
        /// Key of the volume's own label.
        key: Box<str>,
        /// Its value.
        own: Excerpt,
        /// The value that the provider gives.
        provided: Box<str>,
    },
    /// It is no list of zones (P-30).
    #[error("label {key} {value} {}", NO_ZONES)]
    NoZones {
        /// Key of the label.
        key: Box<str>,
        /// Its value.
        value: Excerpt,
    },
}

/// The next step about `volume` with a provider of `served`.
pub fn step(volume: &VolumeView, served: &ServedVolumes, stage: Stage) -> VolumeStep {
    let leave = |why| VolumeStep::Leave(why);
    let Some(source) = volume
        .source
        .as_ref()
        .filter(|source| served.serves(source))
    else {
        return leave(LeftAlone::NotServed);
    };
    if volume.deleted.is_some() {
        return leave(LeftAlone::Deleting);
    }
    if volume.is_paused() {
        return leave(LeftAlone::Paused);
    }
    if source.is_placeholder() {
        return leave(LeftAlone::Placeholder);
    }
    // The mark of a new one was copied, perhaps without the labels and the node affinity that it speaks of.
    if stage == Stage::Existing && served.has_labelled(volume, source) {
        return leave(LeftAlone::Labelled);
    }
    if volume.annotations.contains_key(ANNOTATION_PROVISIONED_BY) {
        if !volume.node_terms.is_empty() {
            return leave(LeftAlone::Provisioned);
        }
        if let Some(labels) = provisioned(&volume.labels) {
            return VolumeStep::Decide(trusted(labels));
        }
    }
    if source.is_too_long() {
        return leave(LeftAlone::TooLong);
    }
    VolumeStep::Ask
}

/// The write that brings `topology`, the provider's answer about `volume`, to it.
pub fn plan(
    volume: &VolumeView,
    topology: &VolumeTopology,
    served: &ServedVolumes,
    stage: Stage,
) -> VolumeDecision {
    let mut labels = Vec::new();
    for (key, value) in topology.labels.iter() {
        let mut own = volume
            .labels
            .iter()
            .filter(|(own, _)| is_same_fact(own, key));
        if let Some((own, its)) = own.find(|(_, its)| !is_same_value(key, its, value)) {
            return VolumeDecision::Refuse(LabelProblem::Contradiction {
                key: own.into(),
                own: Excerpt::of(its),
                provided: value.into(),
            });
        }
        if !volume.labels.contains_key(key) {
            labels.push((key.into(), value.into()));
        }
    }
    let (node_terms, missing) = match affinity(&volume.node_terms, &topology.node_terms) {
        None => (None, None),
        Some(_) if stage == Stage::Existing && !volume.node_terms.is_empty() => {
            (None, Some(topology.node_terms.clone()))
        }
        terms => (terms, None),
    };
    let patch = VolumePatch {
        labels,
        labelled: volume.source.as_ref().map(|source| served.mark(source)),
        node_terms,
    };
    VolumeDecision::Write { patch, missing }
}

/// The labels of zone and region that a provisioner set, both of one generation (P-21).
fn provisioned(labels: &StringMap) -> Option<StringMap> {
    let both = |keys: [&'static str; 2]| {
        let values = keys.map(|key| labels.get(key).map(|value| (key, value)));
        values.into_iter().collect::<Option<StringMap>>()
    };
    both([ZONE, REGION]).or_else(|| both([ZONE_BETA, REGION_BETA]))
}

/// The node affinity that follows from the volume's own labels; it has none yet.
fn trusted(labels: StringMap) -> VolumeDecision {
    match VolumeTopology::of_labels(labels) {
        Ok(topology) => VolumeDecision::Write {
            patch: VolumePatch {
                node_terms: Some(topology.node_terms),
                ..VolumePatch::default()
            },
            missing: None,
        },
        Err((key, value)) => VolumeDecision::Refuse(LabelProblem::NoZones {
            key,
            value: Excerpt::of(&value),
        }),
    }
}

/// The terms `own` with `added` in every one of them, or none if nothing changes: there is nothing to
/// add, or a term of `own` has a requirement about the same fact (P-31).
fn affinity(own: &[NodeTerm], added: &[NodeTerm]) -> Option<Box<[NodeTerm]>> {
    let requirements = |terms: &[NodeTerm]| {
        let all = terms.iter().flat_map(|term| &term.match_expressions);
        all.map(|requirement| requirement.key.clone())
            .collect::<Vec<_>>()
    };
    let own_keys = requirements(own);
    let is_known = |key: &str| own_keys.iter().any(|own| is_same_fact(own, key));
    if added.is_empty() || requirements(added).iter().any(|key| is_known(key)) {
        return None;
    }
    let empty = [NodeTerm::default()];
    let own = if own.is_empty() { &empty } else { own };
    let both = |own: &NodeTerm, added: &NodeTerm| {
        let mut term = own.clone();
        let added = added.match_expressions.iter().cloned();
        term.match_expressions.extend(added);
        term
    };
    let terms = own.iter();
    Some(
        terms
            .flat_map(|own| added.iter().map(move |added| both(own, added)))
            .collect(),
    )
}

impl VolumePatch {
    /// The view once this is written, so that a store need not wait for its watch.
    #[must_use]
    pub fn applied_to(&self, volume: &VolumeView, resource_version: &str) -> VolumeView {
        let mut view = volume.clone();
        view.resource_version = resource_version.into();
        let labels = self.labels.iter().map(|(key, value)| (&**key, &**value));
        view.labels = view.labels.with(labels);
        if let Some(labelled) = &self.labelled {
            view.annotations = view.annotations.with([(ANNOTATION_LABELLED, &**labelled)]);
            view.has_annotations = true;
        }
        if let Some(terms) = &self.node_terms {
            view.node_terms.clone_from(terms);
        }
        view
    }
}

#[cfg(test)]
mod tests;
