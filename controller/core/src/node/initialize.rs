//! The cloud-node loop's decision about one node: what makes it initialised.

use std::sync::Arc;

use crate::{
    error_class::ErrorClass,
    node::{
        NodeView, TAINT_UNINITIALIZED,
        address::{self, DesiredAddresses},
        change::{NodeChange, TaintRemoval},
        instance::{AskedFor, Instance},
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
}

/// The write to metadata and spec of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitializationPlan {
    /// The change to write; `None` if nothing has to be written.
    pub change: Option<NodeChange>,
    /// Values of the provider that are not written, to be logged.
    pub warnings: Vec<NodeWarning>,
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
    /// An address that is none: why.
    pub(super) fn address(why: &str) -> Self {
        Self {
            event: Some(EVENT_ADDRESS),
            text: format!("leaving out an address: {why}").into(),
        }
    }

    pub(super) fn provider_id(text: String) -> Self {
        Self {
            event: Some(EVENT_PROVIDER_ID),
            text: text.into(),
        }
    }

    /// A Node whose kubelet is alive, though the provider knows no instance of it.
    pub fn absent_while_ready(node: &NodeView) -> Self {
        Self {
            event: Some("InstanceNotFound"),
            text: format!(
                "the provider knows {}, but the kubelet is alive: the node is left alone; if its machine was made again, \
                 delete the node, and it registers again",
                AskedFor::about(node)
            )
            .into(),
        }
    }

    /// A Node without the taint is never initialised.
    pub(super) fn not_initialized() -> Self {
        Self {
            event: Some("NotInitialized"),
            text: format!(
                "the node has no provider ID, nor the taint {TAINT_UNINITIALIZED} that asks for one: its zone and type are not \
                 set either; start its kubelet with --cloud-provider=external, or add the taint with the effect NoSchedule"
            )
            .into(),
        }
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

/// The write that initialises `node`, with `instance` as its machine. Its [`addresses`] follow.
///
/// All of metadata and spec is one change, so that no node is ever seen without the taint and
/// without the rest (N-20). A node without the taint only gets [`reconcile`] (N-10): its provider id
/// is not looked at.
pub fn plan(
    node: &NodeView,
    instance: &Instance,
    policy: &Policy,
) -> Result<InitializationPlan, Error> {
    if !node.is_uninitialized() {
        return Ok(InitializationPlan {
            change: reconcile(node),
            warnings: Vec::new(),
        });
    }
    let mut warnings = Vec::new();
    let provider_id = provider_id(node, instance, policy, &mut warnings)?;
    address::check_provided(node, &instance.addresses).map_err(|e| invalid_node_ip(node, e))?;
    let (labels, dropped) =
        labels::from_instance(&node.labels, instance, &policy.managed_label_keys);
    warnings.extend(dropped.into_iter().map(NodeWarning::without_event));
    let faulty = instance.faulty_addresses.iter();
    warnings.extend(faulty.map(|why| NodeWarning::address(why)));
    // Whatever value and effect it has (N-19).
    let taints = TaintRemoval::of(node, |taint| &*taint.key == TAINT_UNINITIALIZED);
    Ok(InitializationPlan {
        change: NodeChange::of(node, taints, provider_id, labels),
        warnings,
    })
}

/// The addresses that `node` should have once the change of its [`plan`] is written (N-21). None of the
/// instance are no reason to keep the taint (N-24).
pub fn addresses(node: &NodeView, instance: &Instance) -> Result<DesiredAddresses, Error> {
    address::desired(node, &instance.addresses).map_err(|e| invalid_node_ip(node, e))
}

/// The write that an initialised node still needs, without a lookup (N-10).
pub fn reconcile(node: &NodeView) -> Option<NodeChange> {
    let labels = labels::reconcile(&node.labels);
    NodeChange::of(node, Vec::new(), None, labels)
}

/// The write for a `node` that was initialised, and that another client has given the taint again: nothing of its instance is
/// needed for it.
pub fn untaint(node: &NodeView) -> Option<NodeChange> {
    let taints = TaintRemoval::of(node, |taint| &*taint.key == TAINT_UNINITIALIZED);
    NodeChange::of(node, taints, None, labels::reconcile(&node.labels))
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

fn invalid_node_ip(node: &NodeView, source: address::Error) -> Error {
    Error::ProvidedNodeIp {
        node: Arc::clone(&node.name),
        source,
    }
}

#[cfg(test)]
mod tests;
