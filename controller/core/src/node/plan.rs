//! The cloud-node loop's decision about one Node: what makes it initialised, and keeps it in sync with its machine.
//!
//! ```text
//!  Node with the taint ────► plan ─► one change: taint, provider ID, labels ─► plan ─► addresses
//!  Node without the taint ─► plan ─► addresses, labels of the old generation, managed labels
//!  what another client has undone ─► repair ─► the taint goes again, and labels of the old generation are followed
//! ```
//!
//! The loop makes sure that the Node may be written to, and that no other Node claims the provider ID; it asks [`plan`]
//! again after each write, with the view of the Node as it is then, until the plan is empty. The provider ID never changes
//! once it is set; zone and type stay as initialisation has written them, unless the provider declares that it manages
//! their labels.
//!
//! ```
//! use outrigger_core::node::{
//!     NodeAddress, NodeView, TAINT_UNINITIALIZED,
//!     instance::Instance,
//!     plan::{Policy, plan},
//! };
//! use serde_json::json;
//!
//! let node: NodeView = serde_json::from_value(json!({
//!     "metadata": {"name": "node-1", "uid": "uid-1"},
//!     "spec": {"taints": [{"key": TAINT_UNINITIALIZED, "effect": "NoSchedule"}]},
//! }))?;
//! let machine = Instance {
//!     provider_id: "example://m-1".into(),
//!     addresses: [NodeAddress { kind: "InternalIP".into(), address: "10.0.0.5".into() }].into(),
//!     ..Instance::default()
//! };
//! let policy = Policy::default();
//!
//! let first = plan(&node, &machine, &policy)?.change.ok_or("the Node is initialised")?;
//! assert_eq!(first.provider_id.as_deref(), Some("example://m-1"));
//! assert_eq!(first.remove_taints, *node.taints);
//!
//! let node = first.applied_to(&node, "2");
//! let second = plan(&node, &machine, &policy)?;
//! assert_eq!(second.addresses.as_deref(), Some(&*machine.addresses));
//!
//! let node = node.with_addresses(&machine.addresses, "3");
//! assert!(plan(&node, &machine, &policy)?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{borrow::Cow, sync::Arc};

use crate::{
    error_class::ErrorClass,
    node::{
        NodeAddress, NodeView, TAINT_UNINITIALIZED, Taint, address,
        change::NodeChange,
        instance::{Instance, no_instance},
        labels,
    },
};

/// Reason of the event about a provider ID that is another than the node's.
pub const EVENT_PROVIDER_ID: &str = "ProviderIDMismatch";

/// Reason of the event about an address that is left out.
pub const EVENT_ADDRESS: &str = "InvalidAddress";

/// The provider's declarations that initialisation needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The cloud has no provider ids: a node may be initialised without one.
    pub without_provider_id: bool,
    /// Labels that the provider keeps in sync: a node's own value does not win.
    pub managed_label_keys: Box<[Box<str>]>,
    /// The operator's gate `CloudNodeAdditionalLabelsReconciliation`: so are all additional labels of an instance.
    pub manages_additional_labels: bool,
}

/// The writes for one node, in two patches that do not depend on each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePlan {
    /// Metadata and spec, all of it in one change.
    pub change: Option<NodeChange>,
    /// `status.addresses` to write.
    pub addresses: Option<Box<[NodeAddress]>>,
    /// Values of the provider that are not written, to be logged.
    pub warnings: Vec<NodeWarning>,
}

impl NodePlan {
    /// Returns true if nothing has to be written.
    pub const fn is_empty(&self) -> bool {
        self.change.is_none() && self.addresses.is_none()
    }
}

/// Something of the provider's answer that is not written, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NodeWarning {
    /// The reason of the event on the node, where its owner cannot see the value otherwise.
    pub event: Option<&'static str>,
    /// For people.
    pub text: Box<str>,
}

impl NodeWarning {
    pub(super) fn new(event: &'static str, text: String) -> Self {
        Self {
            event: Some(event),
            text: text.into(),
        }
    }

    /// An address that is none: why.
    pub(super) fn address(why: &str) -> Self {
        Self::new(EVENT_ADDRESS, format!("leaving out an address: {why}"))
    }

    pub(super) fn provider_id(text: String) -> Self {
        Self::new(EVENT_PROVIDER_ID, text)
    }

    /// A Node whose kubelet is alive, though the provider knows no instance of it.
    pub fn absent_while_ready(node: &NodeView) -> Self {
        let text = format!(
            "the provider knows {}, but the kubelet is alive: the node is left alone; if its machine was made again, \
             delete the node, and it registers again",
            no_instance(node)
        );
        Self::new("InstanceNotFound", text)
    }

    /// A Node without the taint is never initialised ([`NodeView::is_without_cloud`]).
    pub fn not_initialized() -> Self {
        let text = format!(
            "the node has no provider ID, nor the taint {TAINT_UNINITIALIZED} that asks for one: its zone and type are not \
             set either; start its kubelet with --cloud-provider=external, or add the taint with the effect NoSchedule"
        );
        Self::new("NotInitialized", text)
    }

    pub(super) fn without_event(text: String) -> Self {
        Self {
            event: None,
            text: text.into(),
        }
    }
}

/// Why a node cannot be initialised: its taint stays. Upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Neither the node nor the provider has a provider id (N-31).
    #[error("cloud provider does not set node provider ID for node {node}")]
    NoProviderId {
        /// The node's name.
        node: Arc<str>,
    },
    /// The instance lacks the addresses of the kubelet's `--node-ip` (N-14).
    #[error(
        "failed to get node modifiers from cloud provider: \
         provided node ip for node {node:?} is not valid: {source}"
    )]
    ProvidedNodeIp {
        /// The node's name.
        node: Arc<str>,
        /// The defect.
        source: address::Error,
    },
}

impl Error {
    /// Decides the requeue of the node.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::NoProviderId { .. } => ErrorClass::Malformed,
            Self::ProvidedNodeIp { source, .. } => source.class(),
        }
    }
}

/// The writes that bring `node` in line with `instance`, its machine.
///
/// A node with the taint is initialised: all of metadata and spec is one change, so that no node is ever seen without the
/// taint and without the rest (N-20). Its addresses follow from the next plan (N-21); none of the instance are no reason to
/// keep the taint (N-24).
///
/// A node without it is kept in sync: addresses (N-41 to N-45) and, in one change, the labels of the old generation (N-35)
/// and those that the provider manages. Provider id, taints and all other labels, zone and instance type among them, stay
/// as initialisation left them, as upstream (N-10).
///
/// The caller has made sure that the node may be written to ([`crate::node::ownership::NodeScope`],
/// [`NodeView::is_paused`]), and that no other node claims its provider id ([`crate::node::claims`]).
pub fn plan(node: &NodeView, instance: &Instance, policy: &Policy) -> Result<NodePlan, Error> {
    let (instance_id, node_id) = (&instance.provider_id, &node.provider_id);
    let faulty = instance.faulty_addresses.iter();
    let mut warnings: Vec<_> = faulty.map(|why| NodeWarning::address(why)).collect();
    let (mut change, mut addresses) = (NodeChange::default(), None);
    if node.is_uninitialized() {
        change = NodeChange::remove_taints(node, is_uninitialized);
        change.provider_id = provider_id(node, instance, policy, &mut warnings)?;
        address::check_provided(node, &instance.addresses).map_err(|source| {
            let node = Arc::clone(&node.name);
            Error::ProvidedNodeIp { node, source }
        })?;
    } else if instance.is_other_than(node) {
        // A machine that was made again under the old name has a new id, and a node's id can never change (N-13):
        // this node has to go first.
        let text = format!(
            "the provider answers with instance {instance_id:?} for the node of instance {node_id:?}: \
             nothing is taken from it"
        );
        return Ok(NodePlan {
            warnings: vec![NodeWarning::provider_id(text)],
            ..NodePlan::default()
        });
    } else {
        if node.is_without_cloud() && !instance_id.is_empty() {
            warnings.push(NodeWarning::not_initialized());
        }
        if instance.is_spelled_otherwise(node) {
            warnings.push(NodeWarning::provider_id(format!(
                "the provider calls the instance {instance_id:?} and the node has {node_id:?}: taken for two \
                 spellings of one provider ID; the node keeps its own"
            )));
        }
        match address::desired(node, &instance.addresses) {
            Ok(desired) => {
                // Not Q-1: whole lists in their order, so that two addresses of one type are no change.
                addresses = desired.filter(|desired| **desired != *node.status_addresses());
            }
            Err(error) => {
                let text = format!("leaving the addresses as they are: {error}");
                warnings.push(NodeWarning::without_event(text));
            }
        }
    }
    let mut managed = Cow::from(&*policy.managed_label_keys);
    if policy.manages_additional_labels {
        let keys = instance.additional_labels.iter().map(|(key, _)| key.into());
        managed.to_mut().extend(keys);
    }
    let is_new = node.is_uninitialized();
    let (labels, dropped) = labels::plan(&node.labels, instance, &managed, is_new);
    change.labels = labels;
    warnings.extend(dropped.into_iter().map(NodeWarning::without_event));
    Ok(NodePlan {
        change: change.unless_empty(),
        addresses,
        warnings,
    })
}

/// The write that a `node` which was initialised needs whatever its instance is: labels of the old generation (N-10), and
/// the end of the taint where another client has added it again.
pub fn repair(node: &NodeView) -> Option<NodeChange> {
    NodeChange {
        labels: labels::reconcile(&node.labels),
        ..NodeChange::remove_taints(node, is_uninitialized)
    }
    .unless_empty()
}

/// Whatever value and effect it has (N-19).
fn is_uninitialized(taint: &Taint) -> bool {
    *taint.key == *TAINT_UNINITIALIZED
}

/// The provider id to set: only if the node has none (N-13, N-31).
fn provider_id(
    node: &NodeView,
    instance: &Instance,
    policy: &Policy,
    warnings: &mut Vec<NodeWarning>,
) -> Result<Option<Box<str>>, Error> {
    let (instance_id, node_id) = (&instance.provider_id, &node.provider_id);
    match (instance_id.is_empty(), node_id.is_empty()) {
        (true, true) if policy.without_provider_id => Ok(None),
        (true, true) => Err(Error::NoProviderId {
            node: Arc::clone(&node.name),
        }),
        (false, true) => Ok(Some(instance_id.clone())),
        (true, false) => Ok(None),
        (false, false) => {
            if instance_id != node_id {
                // It can never change (N-13).
                warnings.push(NodeWarning::provider_id(format!(
                    "discarding provider ID {instance_id:?}: the node has {node_id:?} already"
                )));
            }
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests;
