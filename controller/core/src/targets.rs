//! The Nodes that load balancers send to: which they are, and when a change of them goes out.
//!
//! ```text
//!  node changed ─► change ─► Debounce ─► (time) ─► EmptyTargets ─► TargetPool ─► Targets of each Service ─► updates
//! ```
//!
//! There is one set for all Services without a selector: `externalTrafficPolicy` makes no difference (S-51). The event
//! handlers of service-lb ask [`change`] about each step of a Node, and its rollout takes the [`TargetPool`] of the moment.
//! A [`Revision`] names the content of a set: load balancers whose revision is the current one need no call.
//!
//! ```
//! use outrigger_core::{
//!     node::NodeView,
//!     targets::{LABEL_EXCLUDE, TargetChange, TargetLabels, TargetPool, change},
//! };
//! use serde_json::{Value, json};
//! use std::sync::Arc;
//!
//! let node = |labels: Value| {
//!     let object = json!({"metadata": {"name": "node-1", "labels": labels}});
//!     serde_json::from_value::<NodeView>(object).map(Arc::new)
//! };
//! let (before, excluded) = (node(json!({}))?, node(json!({LABEL_EXCLUDE: "true"}))?);
//! let labels = TargetLabels::default();
//! assert_eq!(change(Some(&before), Some(&excluded), &labels), TargetChange::Removed);
//!
//! let pool = TargetPool::among([before], labels.clone());
//! assert_eq!(pool.all().nodes().len(), 1);
//! let pool = TargetPool::among([excluded], labels);
//! assert!(pool.all().nodes().is_empty());
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::sync::Arc;

use crate::{
    digest::{Digest, Encoder},
    node::{NodeView, address},
    string_map::StringMap,
};

mod debounce;
mod pool;
mod record;

pub use debounce::{Debounce, EmptyTargets, Pace};
pub use pool::{ANNOTATION_NODE_SELECTOR, TargetPool, node_selector};
pub use record::{ANNOTATION_TARGETS, Inheritance, TargetsRecord};

/// A provider's declarations about targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetRules {
    /// `target_label_keys`: labels that are part of a target, sorted, each once.
    pub label_keys: Box<[Box<str>]>,
}

/// The labels of nodes that targets depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetLabels {
    /// The provider's declarations.
    pub rules: TargetRules,
    /// True if a Service has a selector: then all labels count, whichever it looks at.
    pub has_selectors: bool,
}

impl TargetLabels {
    fn are_same(&self, a: &StringMap, b: &StringMap) -> bool {
        let mut keys = self.rules.label_keys.iter();
        a == b || (!self.has_selectors && keys.all(|key| a.get(key) == b.get(key)))
    }
}

/// Label that keeps a node out of all load balancers, unless its value is a false one.
pub const LABEL_EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Taint of a node that the cluster autoscaler is about to delete.
pub const TAINT_AUTOSCALER: &str = "ToBeDeletedByClusterAutoscaler";

/// Bytes of a target's provider ID, addresses and taints. A kubelet may give its Node a megabyte of them, and the Nodes of
/// one call share a message; the smallest that a provider may accept, 64 KiB, holds this and the labels that are sent.
const LARGEST: usize = 32 << 10;

/// Bytes around an address or taint in a message.
const AROUND: usize = 16;

/// Values that Go reads as false.
const FALSE: [&str; 6] = ["0", "f", "F", "false", "False", "FALSE"];

/// Returns true if `node` is a target (S-50): not one that is being deleted, has [`LABEL_EXCLUDE`] with the value true,
/// none, or one that is neither true nor false, or [`TAINT_AUTOSCALER`] with any value and effect, nor one
/// that [`is_too_large`].
///
/// Readiness, cordon, initialisation, the role of control plane and a provider ID do not matter (S-51): the load balancer's
/// own health checks decide which targets serve.
pub fn is_target(node: &NodeView) -> bool {
    let label = node.labels.get(LABEL_EXCLUDE);
    let is_excluded = label.is_some_and(|value| !FALSE.contains(&value));
    let is_tainted = || node.taints.iter().any(|t| &*t.key == TAINT_AUTOSCALER);
    node.deleted.is_none() && !is_excluded && !is_tainted() && !is_too_large(node)
}

/// Returns true if `node` takes so much that a message with it, and with the other targets, might not be sent.
pub fn is_too_large(node: &NodeView) -> bool {
    let addresses = node.addresses.iter();
    let addresses = addresses.map(|address| AROUND + address.kind.len() + address.address.len());
    let taints = node.taints.iter();
    let taints =
        taints.map(|taint| AROUND + taint.key.len() + taint.value.len() + taint.effect.len());
    node.provider_id.len() + addresses.chain(taints).sum::<usize>() > LARGEST
}

/// The effect of a step of one node on the targets; `None` is a node that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetChange {
    /// Nothing that a load balancer is made of is another.
    None,
    /// A target that is new, or not what it was.
    Added,
    /// A target that is none any more: it goes out immediately, for it may stop serving any moment.
    Removed,
}

/// The effect of the step from `old` to `new`. Heartbeats, readiness, taints and labels that neither [`is_target`] nor
/// `labels` looks at mean nothing (S-52, S-56).
pub fn change(
    old: Option<&NodeView>,
    new: Option<&NodeView>,
    labels: &TargetLabels,
) -> TargetChange {
    let target = |node: Option<&'_ NodeView>| node.is_some_and(is_target);
    let departed = |node: Option<&'_ NodeView>| node.is_none_or(|node| node.deleted.is_some());
    match (old, new) {
        (Some(before), Some(now))
            if target(old)
                && target(new)
                && before.name == now.name
                && same_content(before, now)
                && labels.are_same(&before.labels, &now.labels) =>
        {
            TargetChange::None
        }
        _ if target(new) => TargetChange::Added,
        // Also one that was excluded: it may have been kept for a while.
        _ if target(old) || (!departed(old) && departed(new)) => TargetChange::Removed,
        _ => TargetChange::None,
    }
}

/// Returns true if a provider is shown the same of both: what [`change`] looks at, and labels, annotations,
/// taints, cordon and readiness, which make no revision. Heartbeats and the order of addresses make no difference.
pub fn is_same_to_provider(a: &NodeView, b: &NodeView) -> bool {
    let NodeView {
        name,
        uid,
        resource_version: _,
        created,
        deleted,
        labels,
        annotations,
        provider_id,
        pod_cidrs,
        taints,
        unschedulable,
        addresses,
        // A provider is not shown it.
        reported: _,
        ready,
        ready_since: _,
        conditions: _,
        system_uuid,
        has_volumes_in_use: _,
    } = a;
    (name, uid, created, deleted) == (&b.name, &b.uid, &b.created, &b.deleted)
        && (provider_id, pod_cidrs) == (&b.provider_id, &b.pod_cidrs)
        && address::is_same_set(addresses, &b.addresses)
        && (labels, annotations, taints) == (&b.labels, &b.annotations, &b.taints)
        && (unschedulable, ready, system_uuid) == (&b.unschedulable, &b.ready, &b.system_uuid)
}

fn same_content(a: &NodeView, b: &NodeView) -> bool {
    a.provider_id == b.provider_id
        && address::is_same_set(&a.addresses, &b.addresses)
        && a.pod_cidrs == b.pod_cidrs
}

/// Names the content of a set of targets: equal sets have equal revisions, in every release, and
/// after a restart too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revision(Box<str>);

impl Revision {
    /// A revision that was stored.
    pub fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// 32 hexadecimal digits, where it is our own.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of(nodes: &[Arc<NodeView>], label_keys: &[Box<str>]) -> Self {
        let mut encoder = Encoder::new("outrigger targets 1");
        encoder.list(nodes.iter(), |encoder, node| {
            encode(encoder, node, label_keys);
        });
        encoder.finish().into()
    }
}

impl From<Digest> for Revision {
    fn from(digest: Digest) -> Self {
        Self(digest.to_string().into())
    }
}

/// Writes the fields that a target is made of. Its addresses are a set: some clouds name them in any order.
fn encode(encoder: &mut Encoder, node: &NodeView, label_keys: &[Box<str>]) {
    encoder.text(&node.name);
    encoder.text(&node.provider_id);
    encoder.list(
        address::sorted(&node.addresses).into_iter(),
        |encoder, address| {
            encoder.text(&address.kind);
            encoder.text(&address.address);
        },
    );
    encoder.texts(&node.pod_cidrs);
    for key in label_keys {
        encoder.text(key);
        encoder.option(node.labels.get(key), Encoder::text);
    }
}

/// The targets of a Service, or of all Services that select alike, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    nodes: Box<[Arc<NodeView>]>,
    revision: Revision,
    whole: Option<Arc<Self>>,
}

impl Targets {
    /// The targets among `nodes`, which may come in any order, of Services without a selector.
    pub fn among(nodes: impl IntoIterator<Item = Arc<NodeView>>) -> Self {
        let nodes = nodes.into_iter();
        let nodes = nodes.filter(|node| is_target(node)).collect();
        Self::of(nodes, &[])
    }

    /// These nodes, excluded or not.
    fn of(mut nodes: Vec<Arc<NodeView>>, label_keys: &[Box<str>]) -> Self {
        nodes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Self {
            revision: Revision::of(&nodes, label_keys),
            nodes: nodes.into(),
            whole: None,
        }
    }

    /// By name.
    pub fn nodes(&self) -> &[Arc<NodeView>] {
        &self.nodes
    }

    /// Made of name, provider ID, addresses, pod CIDRs and the declared labels of each target.
    pub const fn revision(&self) -> &Revision {
        &self.revision
    }

    /// The targets of all Services that a selector chose these from; none: no selector did.
    pub const fn whole(&self) -> Option<&Arc<Self>> {
        self.whole.as_ref()
    }

    /// Returns true if there is none: legal, and worth a warning (S-32).
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node `name`, if it is one of them.
    pub fn get(&self, name: &str) -> Option<&Arc<NodeView>> {
        let by_name = |node: &Arc<NodeView>| (*node.name).cmp(name);
        let at = self.nodes.binary_search_by(by_name).ok()?;
        self.nodes.get(at)
    }
}

/// Names of an event about targets.
const SHOWN: usize = 20;

/// The names of `targets` as upstream's events show them: at most 20 (S-55; sorted, not Q-34).
pub fn names(targets: &Targets) -> String {
    let nodes = targets.nodes();
    let mut words: Vec<String> = nodes
        .iter()
        .take(SHOWN)
        .map(|n| n.name.to_string())
        .collect();
    if let Some(more) = nodes.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        words.push(format!("<{more} more>"));
    }
    format!(
        "[{}] [node names limited, total number of nodes: {}]",
        words.join(" "),
        nodes.len()
    )
}

#[cfg(test)]
mod tests;
