//! Changes of a Node as values, and the view of the Node after each.
//!
//! Plans return a [`NodeChange`]; `outrigger-kube` makes one JSON patch of it, with its preconditions; the loop then puts
//! [`NodeChange::applied_to`] into the store. A change names single taints and labels, so that those of other clients stay.

use crate::node::{
    EFFECT_NO_EXECUTE, EFFECT_NO_SCHEDULE, NodeAddress, NodeView, OUT_OF_SERVICE_VALUE,
    TAINT_OUT_OF_SERVICE, TAINT_SHUTDOWN, Taint,
};

/// One write to metadata and spec of the node that it was planned on, made so that it cannot lose a concurrent change
/// (instead of Q-3, the whole object): it names the fields it changes and its preconditions, the node's UID among them, and
/// is refused as a whole when a precondition fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeChange {
    /// Taints of the node to remove.
    pub remove_taints: Vec<Taint>,
    /// A taint to add: behind those that are there, whichever they are by then. The API server refuses a second one with the
    /// same key and effect.
    pub add_taint: Option<Taint>,
    /// `spec.providerID` to set; presumed absent now, for it can never be changed.
    pub provider_id: Option<Box<str>>,
    /// Labels to write, by key.
    pub labels: Vec<LabelWrite>,
    /// True if it would do harm to a node that has changed: its resourceVersion is a precondition too.
    pub only_this_version: bool,
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

impl NodeChange {
    /// The taint of a stopped instance, unless `node` has it (Q-19: decided on the store's view).
    pub fn add_shutdown_taint(node: &NodeView) -> Option<Self> {
        let taint = Taint::new(TAINT_SHUTDOWN, "", EFFECT_NO_SCHEDULE);
        (!node.is_shut_down()).then(|| Self::add_taint(taint))
    }

    /// The taint that takes a node out of service as it is now: one that is ready by then would lose its Pods.
    pub(crate) fn take_out_of_service() -> Self {
        let taint = Taint::new(
            TAINT_OUT_OF_SERVICE,
            OUT_OF_SERVICE_VALUE,
            EFFECT_NO_EXECUTE,
        );
        Self {
            only_this_version: true,
            ..Self::add_taint(taint)
        }
    }

    pub(crate) fn add_taint(taint: Taint) -> Self {
        Self {
            add_taint: Some(taint),
            ..Self::default()
        }
    }

    /// The change that removes the taints that `node` has since its instance was stopped, if there are some.
    pub fn remove_taints_of_stop(node: &NodeView) -> Option<Self> {
        Self::remove_taints(node, Taint::is_of_stop).unless_empty()
    }

    /// Removes the taints of `node` that `is_removed` names.
    pub(crate) fn remove_taints(node: &NodeView, is_removed: impl Fn(&Taint) -> bool) -> Self {
        let taints = node.taints.iter();
        Self {
            remove_taints: taints.filter(|taint| is_removed(taint)).cloned().collect(),
            ..Self::default()
        }
    }

    /// Returns `None` if there is nothing to write.
    pub(crate) fn unless_empty(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }

    /// Returns true if it removes the taint with which the controller took the node out of service.
    pub fn takes_into_service(&self) -> bool {
        let mut removals = self.remove_taints.iter();
        removals.any(|taint| &*taint.key == TAINT_OUT_OF_SERVICE)
    }

    /// The view of whatever `node` is by now once this is written, so that a store need not wait for
    /// its watch.
    #[must_use]
    pub fn applied_to(&self, node: &NodeView, resource_version: &str) -> NodeView {
        let changed = || self.remove_taints.iter().chain(&self.add_taint);
        let mut view = node.clone();
        if changed().next().is_some() {
            let taints = node.taints.iter();
            let taints = taints
                .filter(|taint| !changed().any(|changed| taint.is(&changed.key, &changed.effect)));
            view.taints = taints.chain(&self.add_taint).cloned().collect();
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

    /// The view once it has got its Pod CIDRs.
    #[must_use]
    pub fn with_pod_cidrs(&self, cidrs: &[Box<str>], resource_version: &str) -> Self {
        Self {
            pod_cidrs: cidrs.into(),
            resource_version: resource_version.into(),
            ..self.clone()
        }
    }
}
