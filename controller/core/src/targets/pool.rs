//! The targets of all Services at one moment: one set for all Services that select alike.
//!
//! A selector is evaluated for one Service, and its targets are not kept: whoever may create Services decides how many
//! selectors there are. Each node is hashed once, for all of them.

use std::{collections::BTreeSet, sync::Arc};

use super::{Revision, TargetRules, Targets, encode, is_target, node_selector};
use crate::{
    digest::{Digest, Encoder},
    node::NodeView,
    selector::Selector,
    service::ServiceView,
    string_map::StringMap,
};

/// Everything that targets depend on beside the nodes: gathered before the nodes are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetRequests {
    rules: TargetRules,
    /// Keys of the labels that selectors look at.
    selected: BTreeSet<Box<str>>,
}

impl TargetRequests {
    /// The requests of a provider with these rules, and of no Service yet.
    pub const fn new(rules: TargetRules) -> Self {
        Self {
            rules,
            selected: BTreeSet::new(),
        }
    }

    /// Adds those of a Service with these annotations. Annotations that cannot be read request nothing.
    pub fn add(&mut self, annotations: &StringMap) {
        if let Ok(Some(selector)) = node_selector(annotations) {
            let new = selector.keys().filter(|key| !self.selected.contains(*key));
            let new: Vec<_> = new.map(Into::into).collect();
            self.selected.extend(new);
        }
    }

    /// Returns true if a Service with these annotations adds nothing.
    pub fn cover(&self, annotations: &StringMap) -> bool {
        let has_keys = |selector: Selector| selector.keys().all(|key| self.selected.contains(key));
        node_selector(annotations).is_ok_and(|selector| selector.is_none_or(has_keys))
    }

    /// Keys of the labels that targets depend on.
    pub fn label_keys(&self) -> impl Iterator<Item = &Box<str>> {
        self.rules.label_keys.iter().chain(&self.selected)
    }
}

/// The targets of all Services at one moment.
#[derive(Clone, Debug)]
pub struct TargetPool {
    requests: Arc<TargetRequests>,
    all: Arc<Targets>,
    /// Hashes of the nodes of `all`, in their order.
    hashes: Box<[NodeHash]>,
    revision: Revision,
}

/// The hashes that revisions are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodeHash {
    /// Hash of the fields that a target is made of.
    target: Digest,
    /// Hash of the labels that selectors look at.
    selected: Digest,
}

impl NodeHash {
    fn of(node: &NodeView, requests: &TargetRequests) -> Self {
        #[cfg(test)]
        counts::HASHED.with(|hashed| hashed.set(hashed.get() + 1));
        let mut target = Encoder::new("outrigger target 1");
        encode(&mut target, node, &requests.rules.label_keys);
        let mut selected = Encoder::new("outrigger selected labels 1");
        for (key, value) in node.labels.iter() {
            if requests.selected.contains(key) {
                selected.text(key);
                selected.text(value);
            }
        }
        Self {
            target: target.finish(),
            selected: selected.finish(),
        }
    }
}

impl Default for TargetPool {
    /// Without a node.
    fn default() -> Self {
        Self::among([], &Arc::default())
    }
}

impl TargetPool {
    /// The targets among `nodes`, which may come in any order.
    pub fn among(
        nodes: impl IntoIterator<Item = Arc<NodeView>>,
        requests: &Arc<TargetRequests>,
    ) -> Self {
        let nodes = nodes.into_iter();
        let targets = nodes.filter(|node| is_target(node));
        Self::of(targets.collect(), requests, None)
    }

    /// These nodes, excluded or not. The hashes of nodes that `before` has too are taken from there.
    pub fn of(
        nodes: Vec<Arc<NodeView>>,
        requests: &Arc<TargetRequests>,
        before: Option<&Self>,
    ) -> Self {
        let all = Targets::of(nodes, &requests.rules.label_keys);
        let before = before.filter(|before| *before.requests == **requests);
        let mut hashes_before = before.into_iter().flat_map(Self::hashed).peekable();
        let hashes = all.nodes.iter().map(|node| {
            while hashes_before
                .next_if(|(other, _)| other.name < node.name)
                .is_some()
            {}
            match hashes_before.peek() {
                Some((other, hash)) if Arc::ptr_eq(other, node) => **hash,
                _ => NodeHash::of(node, requests),
            }
        });
        let hashes: Box<[_]> = hashes.collect();
        let revision = if requests.selected.is_empty() {
            all.revision.clone()
        } else {
            let mut encoder = Encoder::new("outrigger target pool 2");
            encoder.text(all.revision.as_str());
            for hash in &hashes {
                encoder.text(&hash.selected.to_string());
            }
            encoder.finish().into()
        };
        Self {
            requests: Arc::clone(requests),
            all: Arc::new(all),
            hashes,
            revision,
        }
    }

    fn hashed(&self) -> impl Iterator<Item = (&Arc<NodeView>, &NodeHash)> {
        self.all.nodes.iter().zip(&self.hashes)
    }

    /// The declarations of the provider that it was made for.
    pub fn rules(&self) -> &TargetRules {
        &self.requests.rules
    }

    /// Names the targets of all Services: where it is the same, each Service has the same targets, over restarts and
    /// in every release, unless its annotations are others. Without selectors it is that of the targets
    /// of all Services.
    pub const fn revision(&self) -> &Revision {
        &self.revision
    }

    /// The targets of Services without a selection.
    pub const fn all(&self) -> &Arc<Targets> {
        &self.all
    }

    /// The revision of the targets of `service`; that of all of them, if its annotations cannot be read.
    pub fn revision_for(&self, service: &ServiceView) -> Revision {
        match service.node_selector().unwrap_or_default() {
            None => self.all.revision.clone(),
            Some(selector) => Self::revision_among(self.selected(&selector)),
        }
    }

    /// The nodes that `selector` selects, with their hashes.
    fn selected(&self, selector: &Selector) -> impl Iterator<Item = (&Arc<NodeView>, &NodeHash)> {
        #[cfg(test)]
        counts::EVALUATED.with(|evaluated| evaluated.set(evaluated.get() + 1));
        self.hashed()
            .filter(|(node, _)| selector.matches(&node.labels))
    }

    fn revision_among<'a>(
        selected: impl Iterator<Item = (&'a Arc<NodeView>, &'a NodeHash)>,
    ) -> Revision {
        let mut selected = selected.peekable();
        if selected.peek().is_none() {
            return Revision::of_none();
        }
        let mut encoder = Encoder::new("outrigger selected targets 1");
        for (_, hash) in selected {
            encoder.text(&hash.target.to_string());
        }
        encoder.finish().into()
    }

    /// The targets of `service`; all of them, if its annotations cannot be read: then nothing is done for it.
    pub fn targets_of(&self, service: &ServiceView) -> Arc<Targets> {
        let Some(selector) = service.node_selector().unwrap_or_default() else {
            return Arc::clone(&self.all);
        };
        let selected: Vec<_> = self.selected(&selector).collect();
        Arc::new(Targets {
            revision: Self::revision_among(selected.iter().copied()),
            nodes: selected
                .into_iter()
                .map(|(node, _)| Arc::clone(node))
                .collect(),
            whole: Some(Arc::clone(&self.all)),
        })
    }
}

/// Counters of a test, in its thread.
#[cfg(test)]
mod counts {
    use std::cell::Cell;

    thread_local! {
        /// Nodes that were hashed.
        pub(super) static HASHED: Cell<usize> = const { Cell::new(0) };
        /// Selectors that were evaluated for all nodes.
        pub(super) static EVALUATED: Cell<usize> = const { Cell::new(0) };
    }
}

#[cfg(test)]
mod tests;
