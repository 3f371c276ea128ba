//! The node set: the Nodes that load balancers send to, held once for all Services.
//!
//! The controller uploads it (`server/node_sets`) and then names a revision of it in each call about a load balancer. The
//! server looks the revision up here and gives the handler its Nodes as [`Targets`]. A revision that is not held is
//! [`Error::node_set_unknown`](crate::Error::node_set_unknown): the controller sends the set and calls again. Nothing is on
//! disk, so a provider that was restarted gets the set again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use outrigger_api::v1;
use parking_lot::Mutex;

use crate::Error;

/// Revisions that are held: calls under way still name the one before the latest.
const REVISIONS: usize = 2;

/// The backend nodes of a load balancer, ordered by name, each name once.
///
/// A view of the server's node set: clones share the Nodes, and a view stays as it is while a newer
/// revision arrives. Labels, annotations, readiness, `unschedulable` and
/// taints are some seconds older than the call at most; a change of one of them leads to no call, so that no
/// target is to be chosen by them.
///
/// # Example
///
/// ```
/// use outrigger_provider_sdk::{Targets, v1};
///
/// let node = |name: &str| v1::Node { name: name.to_owned(), ..Default::default() };
/// let targets = Targets::new([node("node-b"), node("node-a")]);
/// let names: Vec<_> = targets.iter().map(|node| node.name.as_str()).collect();
/// assert_eq!(names, ["node-a", "node-b"]);
/// assert!(targets.get("node-c").is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Targets {
    nodes: Arc<[Arc<v1::Node>]>,
    revision: Option<Arc<str>>,
}

impl Targets {
    /// Targets outside of any server, for tests of a vendor's handlers. The first of
    /// two Nodes with one name counts.
    pub fn new(nodes: impl IntoIterator<Item = v1::Node>) -> Self {
        let mut nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes.dedup_by(|later, first| later.name == first.name);
        Self {
            nodes: nodes.into(),
            revision: None,
        }
    }

    /// Names the content, for logs and as a key of a vendor's cache: the Nodes of equal revisions have
    /// equal names, provider ids, addresses and Pod CIDRs. `None` where the Service selects its Nodes, and where they came
    /// with the call.
    pub fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// The Nodes, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &v1::Node> + Clone {
        self.nodes.iter().map(AsRef::as_ref)
    }

    /// The Node of this name.
    pub fn get(&self, name: &str) -> Option<&v1::Node> {
        self.index(name).map(|index| self.nodes[index].as_ref())
    }

    fn index(&self, name: &str) -> Option<usize> {
        let by_name = |node: &Arc<v1::Node>| node.name.as_str().cmp(name);
        self.nodes.binary_search_by(by_name).ok()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// An empty set of targets is legal.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// The node set of one server: the revisions that are held, the latest last.
#[derive(Debug, Default)]
pub(crate) struct NodeSet(Mutex<VecDeque<Targets>>);

impl NodeSet {
    /// The Nodes that a call names or brings along.
    pub(crate) fn resolve(&self, targets: Option<&v1::NodeTargets>) -> Result<Targets, Error> {
        use v1::node_targets::Targets as Wire;
        match targets.and_then(|targets| targets.targets.as_ref()) {
            Some(Wire::Inline(inline)) => Ok(Targets::new(inline.nodes.iter().cloned())),
            Some(Wire::Ref(v1::NodeSetRef { revision, only })) => {
                let whole = self.held(revision).ok_or_else(|| {
                    Error::node_set_unknown(format!(
                        "revision {revision:?} of the node set is not known here; sync it and call again"
                    ))
                })?;
                match only {
                    None => Ok(whole),
                    Some(only) => selected(&whole, only.names.clone()),
                }
            }
            None => Err(Error::invalid_request(
                "the request has no targets; name a revision of the node set or send nodes inline, empty ones for \
                 no targets",
            )),
        }
    }

    fn held(&self, revision: &str) -> Option<Targets> {
        let revisions = self.0.lock();
        let named = |held: &&Targets| held.revision() == Some(revision);
        revisions.iter().find(named).cloned()
    }

    /// Makes these the Nodes of the latest revision, in the place of an equal one.
    pub(crate) fn synced(&self, revision: &str, nodes: BTreeMap<String, Arc<v1::Node>>) {
        let mut revisions = self.0.lock();
        revisions.retain(|held| held.revision() != Some(revision));
        let older = revisions.len().saturating_sub(REVISIONS - 1);
        revisions.drain(..older);
        revisions.push_back(Targets {
            nodes: nodes.into_values().collect(),
            revision: Some(revision.into()),
        });
    }
}

/// The Nodes of these names.
fn selected(whole: &Targets, mut names: Vec<String>) -> Result<Targets, Error> {
    names.sort_unstable();
    names.dedup();
    let nodes = names.iter().map(|name| {
        whole.index(name).map(|index| Arc::clone(&whole.nodes[index])).ok_or_else(|| {
            Error::node_set_unknown(format!(
                "the node set has no node {name:?} in the revision that the call names; sync it and call again"
            ))
        })
    });
    Ok(Targets {
        nodes: nodes.collect::<Result<_, _>>()?,
        revision: None,
    })
}
