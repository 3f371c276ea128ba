//! A change of a node's metadata and spec as a value, with what it presumes.

use crate::node::{
    EFFECT_NO_EXECUTE, EFFECT_NO_SCHEDULE, NodeAddress, NodeView, OUT_OF_SERVICE_VALUE,
    TAINT_MAINTENANCE, TAINT_OUT_OF_SERVICE, TAINT_SHUTDOWN, Taint,
};

/// One write to `nodes/<name>`, made so that it cannot lose a concurrent change (instead of Q-3,
/// the whole object): it names the fields it changes and its preconditions, and is refused as a whole
/// when a precondition fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// Precondition on `metadata.uid`: a node that registered again under the name is another node.
    pub uid: Box<str>,
    /// Taints to remove, the last one first, so that each index holds when its turn comes.
    pub remove_taints: Vec<TaintRemoval>,
    /// `spec.providerID` to set; presumed absent now, for it can never be changed.
    pub provider_id: Option<Box<str>>,
    /// Labels to write, by key.
    pub labels: Vec<LabelWrite>,
    /// True if the node has no `metadata.labels` to write into. The write requires that, and creates it first.
    pub create_labels: bool,
}

/// A taint to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaintRemoval {
    /// Place in `spec.taints`.
    pub index: usize,
    /// Presumed key at that place.
    pub key: Box<str>,
    /// Its effect.
    pub effect: Box<str>,
    /// Presumed value, where it says whose taint it is.
    pub value: Option<Box<str>>,
}

impl TaintRemoval {
    /// The removals of the taints of `node` that `is_removed` names.
    pub(crate) fn of(node: &NodeView, is_removed: impl Fn(&Taint) -> bool) -> Vec<Self> {
        let taints = node.taints.iter().enumerate().rev();
        taints
            .filter(|(_, taint)| is_removed(taint))
            .map(|(index, taint)| Self {
                index,
                key: taint.key.clone(),
                effect: taint.effect.clone(),
                value: matches!(&*taint.key, TAINT_OUT_OF_SERVICE | TAINT_MAINTENANCE)
                    .then(|| taint.value.clone()),
            })
            .collect()
    }
}

/// A label to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelWrite {
    /// Label key.
    pub key: Box<str>,
    /// Label value.
    pub value: Box<str>,
    /// True if the write requires that the key is absent; otherwise it overwrites any value.
    pub must_be_absent: bool,
}

/// A taint to add: behind those that are there, whichever they are by then. The API server refuses
/// a second one with the same key and effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaintAddition {
    /// Presumed `metadata.uid`.
    pub uid: Box<str>,
    /// Presumed `metadata.resourceVersion`, where the addition would do harm to a node that has changed.
    pub resource_version: Option<Box<str>>,
    /// The taint to add.
    pub taint: Taint,
    /// True if the node has no `spec.taints` to add to. The write requires that, and creates it first.
    pub create_taints: bool,
}

impl TaintAddition {
    /// The taint of a stopped instance, unless `node` has it (Q-19: decided on the store's view).
    pub fn shutdown(node: &NodeView) -> Option<Self> {
        let addition = || Self {
            uid: node.uid.clone(),
            resource_version: None,
            taint: Taint::new(TAINT_SHUTDOWN, "", EFFECT_NO_SCHEDULE),
            create_taints: node.taints.is_empty(),
        };
        (!node.is_shut_down()).then(addition)
    }

    /// The taint that takes `node` out of service as it is now: one that is ready by then would lose its Pods.
    pub(crate) fn out_of_service(node: &NodeView) -> Self {
        Self {
            uid: node.uid.clone(),
            resource_version: Some(node.resource_version.clone()),
            taint: Taint::new(
                TAINT_OUT_OF_SERVICE,
                OUT_OF_SERVICE_VALUE,
                EFFECT_NO_EXECUTE,
            ),
            create_taints: node.taints.is_empty(),
        }
    }

    /// The view of whatever `node` is by now once this is written.
    #[must_use]
    pub fn applied_to(&self, node: &NodeView, resource_version: &str) -> NodeView {
        let Taint { key, effect, .. } = &self.taint;
        let others = node.taints.iter().filter(|taint| !taint.is(key, effect));
        NodeView {
            taints: others.chain([&self.taint]).cloned().collect(),
            resource_version: resource_version.into(),
            ..node.clone()
        }
    }
}

impl NodeChange {
    /// The change that removes the taints that `node` has since its instance was stopped, if there are some.
    pub fn remove_taints_of_stop(node: &NodeView) -> Option<Self> {
        let removals = TaintRemoval::of(node, Taint::is_of_stop);
        Self::of(node, removals, None, Vec::new())
    }

    /// Returns true if it removes the taint with which the controller took the node out of service.
    pub fn takes_into_service(&self) -> bool {
        let mut removals = self.remove_taints.iter();
        removals.any(|taint| &*taint.key == TAINT_OUT_OF_SERVICE)
    }

    /// A change of `node`, or `None` if there is nothing to write.
    pub(crate) fn of(
        node: &NodeView,
        remove_taints: Vec<TaintRemoval>,
        provider_id: Option<Box<str>>,
        labels: Vec<LabelWrite>,
    ) -> Option<Self> {
        if remove_taints.is_empty() && provider_id.is_none() && labels.is_empty() {
            return None;
        }
        Some(Self {
            uid: node.uid.clone(),
            remove_taints,
            provider_id,
            create_labels: node.labels.is_empty() && !labels.is_empty(),
            labels,
        })
    }

    /// The view of whatever `node` is by now once this is written, so that a store need not wait for
    /// its watch.
    #[must_use]
    pub fn applied_to(&self, node: &NodeView, resource_version: &str) -> NodeView {
        // Not by index, which holds for the node that it was planned on alone.
        let removed = |taint: &Taint| {
            let mut removals = self.remove_taints.iter();
            removals.any(|removal| taint.is(&removal.key, &removal.effect))
        };
        let mut view = node.clone();
        if !self.remove_taints.is_empty() {
            let taints = node.taints.iter();
            view.taints = taints.filter(|taint| !removed(taint)).cloned().collect();
        }
        if let Some(provider_id) = &self.provider_id {
            view.provider_id.clone_from(provider_id);
        }
        let writes = self.labels.iter();
        view.labels = node
            .labels
            .with(writes.map(|label| (&*label.key, &*label.value)));
        view.resource_version = resource_version.into();
        view
    }
}

/// Pod CIDRs for a Node without any; the API server lets no client change them afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCidrsWrite {
    /// UID of the Node.
    pub uid: Box<str>,
    /// A single CIDR, or one for each IP family; the first is `spec.podCIDR` too (I-14).
    pub cidrs: Box<[Box<str>]>,
}

impl PodCidrsWrite {
    /// The view of whatever `node` is by now once this is written.
    #[must_use]
    pub fn applied_to(&self, node: &NodeView, resource_version: &str) -> NodeView {
        NodeView {
            pod_cidrs: self.cidrs.clone(),
            resource_version: resource_version.into(),
            ..node.clone()
        }
    }
}

impl NodeView {
    /// The view once `addresses` are written to its status.
    #[must_use]
    pub fn with_addresses(&self, addresses: &[NodeAddress], resource_version: &str) -> Self {
        Self {
            addresses: addresses.into(),
            reported: None,
            resource_version: resource_version.into(),
            ..self.clone()
        }
    }
}
