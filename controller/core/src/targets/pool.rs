//! The targets of all Services at one moment: one set for all Services that select alike.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Revision, SET_OF_ALL, Selection, TargetRules, Targets, exclusion};
use crate::{
    digest::Encoder, node::NodeView, selector::Selector, service::ServiceView,
    string_map::StringMap,
};

/// Everything that targets depend on beside the nodes: gathered before the nodes are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetRequests {
    rules: TargetRules,
    /// By their text.
    selectors: BTreeMap<Box<str>, Selector>,
}

impl TargetRequests {
    /// The requests of a provider with these rules, and of no Service yet.
    pub fn new(rules: TargetRules) -> Self {
        Self {
            rules,
            selectors: BTreeMap::new(),
        }
    }

    /// Adds those of a Service with these annotations. Annotations that cannot be read request nothing.
    pub fn add(&mut self, annotations: &StringMap) {
        if let Ok(Selection {
            selector: Some((text, selector)),
        }) = Selection::of(annotations)
        {
            self.selectors.entry(text.into()).or_insert(selector);
        }
    }

    /// Returns true if a Service with these annotations adds nothing.
    pub fn cover(&self, annotations: &StringMap) -> bool {
        Selection::of(annotations).is_ok_and(|Selection { selector }| {
            selector.is_none_or(|(text, _)| self.selectors.contains_key(text))
        })
    }

    /// Keys of the labels that targets depend on.
    pub fn label_keys(&self) -> BTreeSet<Box<str>> {
        let of_selectors = self.selectors.values().flat_map(Selector::keys);
        let declared = self.rules.label_keys.iter().map(|key| &**key);
        of_selectors.chain(declared).map(Into::into).collect()
    }
}

/// The targets of all Services at one moment.
#[derive(Clone, Debug)]
pub struct TargetPool {
    rules: TargetRules,
    all: Arc<Targets>,
    /// By the text of the selector.
    selected: BTreeMap<Box<str>, Arc<Targets>>,
    revision: Revision,
}

impl Default for TargetPool {
    /// Without a node.
    fn default() -> Self {
        let all = Arc::new(Targets::among([]));
        Self {
            rules: TargetRules::default(),
            selected: BTreeMap::new(),
            revision: all.revision().clone(),
            all,
        }
    }
}

impl TargetPool {
    /// The targets among `nodes`, which may come in any order.
    pub fn among(
        nodes: impl IntoIterator<Item = Arc<NodeView>>,
        requests: &TargetRequests,
    ) -> Self {
        let nodes = nodes.into_iter();
        Self::of(
            nodes.filter(|node| exclusion(node).is_none()).collect(),
            requests,
        )
    }

    /// These nodes, excluded or not.
    pub fn of(nodes: Vec<Arc<NodeView>>, requests: &TargetRequests) -> Self {
        let TargetRequests { rules, selectors } = requests;
        let keys = &rules.label_keys;
        let selected = selectors.iter().map(|(text, selector)| {
            let selected = nodes.iter().filter(|node| selector.matches(&node.labels));
            let targets = Targets::of(selected.cloned().collect(), keys, Some(set_of(text).into()));
            (text.clone(), Arc::new(targets))
        });
        let selected: BTreeMap<_, _> = selected.collect();
        let all = Targets::of(nodes, keys, Some(SET_OF_ALL.into()));
        Self {
            revision: revision(&all, &selected),
            rules: rules.clone(),
            all: Arc::new(all),
            selected,
        }
    }

    /// The declarations of the provider that it was made for.
    pub const fn rules(&self) -> &TargetRules {
        &self.rules
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

    /// The targets of a Service with this selection.
    pub fn select(&self, selection: &Selection<'_>) -> Arc<Targets> {
        let Some((text, selector)) = &selection.selector else {
            return Arc::clone(&self.all);
        };
        if let Some(selected) = self.selected.get(*text) {
            return Arc::clone(selected);
        }
        // The annotation is newer than the pool.
        let nodes = self.all.nodes.iter();
        let nodes = nodes.filter(|node| selector.matches(&node.labels));
        let keys = &self.rules.label_keys;
        Arc::new(Targets::of(nodes.cloned().collect(), keys, None))
    }

    /// The targets of `service`; all of them, if its annotations cannot be read: then nothing is done for it.
    pub fn targets_of(&self, service: &ServiceView) -> Arc<Targets> {
        let selection = service.selection().unwrap_or_default();
        self.select(&selection)
    }

    /// The revision of the targets that a Service, whose targets are `targets` now, has by `applied`, the revision of a pool:
    /// its own, if the pool is this one. By another pool it is not known, and differs from all.
    pub fn applied<'a>(
        &self,
        applied: Option<&'a Revision>,
        targets: &'a Targets,
    ) -> Option<&'a Revision> {
        applied.map(|applied| {
            if *applied == self.revision {
                targets.revision()
            } else {
                applied
            }
        })
    }
}

/// Name of the node set of Services with this selector.
fn set_of(selector: &str) -> String {
    let mut encoder = Encoder::new("outrigger node set 1");
    encoder.text(selector);
    format!("{SET_OF_ALL}-{}", encoder.finish())
}

fn revision(all: &Targets, selected: &BTreeMap<Box<str>, Arc<Targets>>) -> Revision {
    if selected.is_empty() {
        return all.revision().clone();
    }
    let mut encoder = Encoder::new("outrigger target pool 1");
    encoder.text(all.revision().as_str());
    encoder.list(selected.iter(), |encoder, (text, targets)| {
        encoder.text(text);
        encoder.text(targets.revision().as_str());
    });
    encoder.finish().into()
}

#[cfg(test)]
mod tests;
