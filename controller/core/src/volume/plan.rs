//! Which volumes the provider is asked about, and the write that follows from its answer.
//!
//! A volume that is being created may still change in everything; the node affinity of one that exists never can, so that
//! what it lacks is reported and not written. A label that contradicts the cloud is an error that names it.

use super::{
    ANNOTATION_LABELLED, ANNOTATION_PROVISIONED_BY, NodeTerm, ServedVolumes, VolumeTopology,
    VolumeView,
    topology::{is_same_fact, is_same_value},
};
use crate::fault::Excerpt;

/// A volume that is being created, or one that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is being created: everything may still change.
    Admission,
    /// It exists: node affinity that it has can never change.
    Existing,
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
    /// Terms that the node affinity of an existing volume lacks and can never get; not written.
    pub missing: Option<Box<[NodeTerm]>>,
}

/// The volume's own label says otherwise than the provider: the webhook refuses the volume, and the loop writes nothing
/// until its labels change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "label {key} is {own}, but the volume is in {provided:?} in the cloud; \
     correct or remove the label"
)]
pub struct Contradiction {
    key: Box<str>,
    own: Excerpt,
    provided: Box<str>,
}

/// Why a provider of `served` is not asked about `volume`; none: it is, and [`plan`] follows.
pub fn left_alone(
    volume: &VolumeView,
    served: &ServedVolumes,
    stage: Stage,
) -> Option<&'static str> {
    let Some(source) = volume
        .source
        .as_ref()
        .filter(|source| served.serves(source))
    else {
        return Some("not served");
    };
    let is_provisioned = volume.annotations.contains_key(ANNOTATION_PROVISIONED_BY);
    if volume.deleted.is_some() {
        Some("being deleted")
    } else if volume.is_paused() {
        Some("paused")
    } else if source.is_placeholder() {
        Some("not made yet")
    } else if stage == Stage::Existing && served.has_labelled(volume, source) {
        // The mark of a new one was copied, perhaps without the labels and the node affinity that it speaks of.
        Some("labelled")
    } else if is_provisioned && !volume.node_terms.is_empty() {
        Some("provisioned")
    } else if source.is_too_long() {
        Some("source too long")
    } else if volume.is_affinity_too_large() {
        Some("affinity too large")
    } else {
        None
    }
}

/// The write that brings `topology`, the provider's answer about `volume`, to it.
///
/// # Errors
/// The first label of the volume's own that says otherwise.
pub fn plan(
    volume: &VolumeView,
    topology: &VolumeTopology,
    served: &ServedVolumes,
    stage: Stage,
) -> Result<VolumePatch, Contradiction> {
    let mut labels = Vec::new();
    for (key, value) in topology.labels.iter() {
        let mut own = volume
            .labels
            .iter()
            .filter(|(own, _)| is_same_fact(own, key));
        if let Some((own, its)) = own.find(|(_, its)| !is_same_value(key, its, value)) {
            return Err(Contradiction {
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
    Ok(VolumePatch {
        labels,
        labelled: volume.source.as_ref().map(|source| served.mark(source)),
        node_terms,
        missing,
    })
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
