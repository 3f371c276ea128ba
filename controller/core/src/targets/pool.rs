//! The targets of all Services at one moment: one set for all Services that select alike.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    Allowance, KeptTargets, Revision, SET_OF_ALL, Selection, TargetRules, Targets,
    shrink::ShrinkGuard,
};
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

    /// The node `name`, if it is a target of any Service.
    pub fn get(&self, name: &str) -> Option<&Arc<NodeView>> {
        std::iter::once(&self.all)
            .chain(self.selected.values())
            .find_map(|targets| targets.get(name))
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

/// Selects the targets of all Services, and keeps nodes that go without being deleted, for each selector by itself.
#[derive(Debug)]
pub struct PoolGuard {
    allowance: Allowance,
    all: Guarded,
    selected: BTreeMap<Box<str>, Guarded>,
}

#[derive(Debug)]
struct Guarded {
    guard: ShrinkGuard,
    set: Arc<str>,
}

/// The targets that go out.
#[derive(Clone, Debug)]
pub struct PoolProposal {
    /// With the nodes that are held back, if some are.
    pub pool: Arc<TargetPool>,
    /// Set while nodes are kept that are no targets by their labels, taint or absence from a list.
    pub held: Option<KeptTargets>,
}

impl PoolGuard {
    /// Knows no targets yet.
    pub fn new(allowance: Allowance) -> Self {
        Self {
            allowance,
            all: Guarded {
                guard: ShrinkGuard::new(allowance),
                set: SET_OF_ALL.into(),
            },
            selected: BTreeMap::new(),
        }
    }

    /// The targets that go out now, of all `nodes`. `missing` are names that a list did not show and whose
    /// deletion is not confirmed; any other node of the last targets that is not among `nodes` is deleted.
    pub fn propose(
        &mut self,
        now: Timestamp,
        mut nodes: Vec<Arc<NodeView>>,
        missing: &HashSet<Arc<str>>,
        requests: &TargetRequests,
    ) -> PoolProposal {
        nodes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let TargetRequests { rules, selectors } = requests;
        self.selected.retain(|text, _| selectors.contains_key(text));
        let mut held: Option<KeptTargets> = None;
        let mut propose = |guarded: &mut Guarded, selector| {
            let (nodes, kept) = guarded.guard.propose(now, &nodes, selector, missing);
            held = match (held, kept) {
                (Some(a), Some(b)) => Some(a.with(b)),
                (a, b) => a.or(b),
            };
            let set = Some(Arc::clone(&guarded.set));
            Arc::new(Targets::of(nodes, &rules.label_keys, set))
        };
        let all = propose(&mut self.all, None);
        let selected = selectors.iter().map(|(text, selector)| {
            let guarded = self
                .selected
                .entry(text.clone())
                .or_insert_with(|| Guarded {
                    guard: ShrinkGuard::new(self.allowance),
                    set: set_of(text).into(),
                });
            (text.clone(), propose(guarded, Some(selector)))
        });
        let selected: BTreeMap<_, _> = selected.collect();
        let revision = revision(&all, &selected);
        let pool = Arc::new(TargetPool {
            rules: rules.clone(),
            all,
            selected,
            revision,
        });
        PoolProposal { pool, held }
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
