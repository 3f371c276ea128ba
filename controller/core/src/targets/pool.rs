//! The targets of all Services at one moment: one set for all Services that select alike, and subsets of it for those
//! whose load balancers take fewer.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    num::NonZeroUsize,
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    Allowance, KeptTargets, Revision, SET_OF_ALL, Selection, TargetRules, Targets, exclusion,
    shrink::ShrinkGuard, subset::Draw,
};
use crate::{
    digest::Encoder,
    node::{NodeView, labels::ZONE},
    selector::Selector,
    service::ServiceView,
    string_map::StringMap,
};

/// Everything that targets depend on beside the nodes: gathered before the nodes are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetRequests {
    rules: TargetRules,
    /// By their text.
    selectors: BTreeMap<Box<str>, Selector>,
    /// True if any load balancer may have fewer targets than there are.
    is_bounded: bool,
}

impl TargetRequests {
    /// The requests of a provider with these rules, and of no Service yet.
    pub fn new(rules: TargetRules) -> Self {
        Self {
            is_bounded: rules.most.is_some(),
            rules,
            selectors: BTreeMap::new(),
        }
    }

    /// Adds those of a Service with these annotations. Annotations that cannot be read request nothing.
    pub fn add(&mut self, annotations: &StringMap) {
        let Ok(Selection { selector, most }) = Selection::of(annotations) else {
            return;
        };
        self.is_bounded |= most.is_some();
        if let Some((text, selector)) = selector {
            self.selectors.entry(text.into()).or_insert(selector);
        }
    }

    /// Returns true if a Service with these annotations adds nothing.
    pub fn cover(&self, annotations: &StringMap) -> bool {
        Selection::of(annotations).is_ok_and(|Selection { selector, most }| {
            selector.is_none_or(|(text, _)| self.selectors.contains_key(text))
                && (most.is_none() || self.is_bounded)
        })
    }

    /// Keys of the labels that targets depend on.
    pub fn label_keys(&self) -> BTreeSet<Box<str>> {
        let of_selectors = self.selectors.values().flat_map(Selector::keys);
        let declared = self.rules.label_keys.iter().map(|key| &**key);
        let zone = self.is_bounded.then_some(ZONE);
        of_selectors
            .chain(declared)
            .chain(zone)
            .map(Into::into)
            .collect()
    }
}

/// The targets of all Services at one moment.
#[derive(Clone, Debug)]
pub struct TargetPool {
    rules: TargetRules,
    all: Candidates,
    /// By the text of the selector.
    selected: BTreeMap<Box<str>, Candidates>,
    revision: Revision,
}

/// The targets of Services that select alike.
#[derive(Clone, Debug)]
struct Candidates {
    targets: Arc<Targets>,
    /// Where subsets of them may be chosen.
    draw: Option<Draw>,
}

impl Candidates {
    fn new(
        nodes: Vec<Arc<NodeView>>,
        label_keys: &[Box<str>],
        set: &Arc<str>,
        is_bounded: bool,
    ) -> Self {
        let targets = Targets::of(nodes, label_keys, Some(Arc::clone(set)));
        Self {
            draw: is_bounded.then(|| Draw::of(&targets.nodes, label_keys)),
            targets: Arc::new(targets),
        }
    }

    fn subset(
        &self,
        label_keys: &[Box<str>],
        uid: &str,
        most: Option<NonZeroUsize>,
    ) -> Arc<Targets> {
        match (most, &self.draw) {
            (None, _) => Arc::clone(&self.targets),
            (Some(most), Some(draw)) => draw.subset(&self.targets, uid, most),
            // The annotation is newer than the pool.
            (Some(most), None) => {
                Draw::of(&self.targets.nodes, label_keys).subset(&self.targets, uid, most)
            }
        }
    }
}

impl Default for TargetPool {
    /// Without a node.
    fn default() -> Self {
        let all = Candidates::new(Vec::new(), &[], &SET_OF_ALL.into(), false);
        Self {
            rules: TargetRules::default(),
            selected: BTreeMap::new(),
            revision: all.targets.revision().clone(),
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
    /// in every release, unless its annotations are others. Without selectors and bounds it is that of the
    /// targets of all Services.
    pub const fn revision(&self) -> &Revision {
        &self.revision
    }

    /// The targets of Services without a selection.
    pub const fn all(&self) -> &Arc<Targets> {
        &self.all.targets
    }

    /// The node `name`, if it is a target of any Service.
    pub fn get(&self, name: &str) -> Option<&Arc<NodeView>> {
        let selected = self.selected.values().map(|candidates| &candidates.targets);
        std::iter::once(&self.all.targets)
            .chain(selected)
            .find_map(|targets| targets.get(name))
    }

    /// How many targets `selection` may have, whatever the nodes are: by its annotation, and by the provider.
    pub fn most(&self, selection: &Selection<'_>) -> Option<NonZeroUsize> {
        let bounds = selection.most.into_iter().chain(self.rules.most);
        bounds.min()
    }

    /// The targets of the Service with this UID and `selection`.
    pub fn select(&self, uid: &str, selection: &Selection<'_>) -> Arc<Targets> {
        let keys = &self.rules.label_keys;
        let most = self.most(selection);
        let Some((text, selector)) = &selection.selector else {
            return self.all.subset(keys, uid, most);
        };
        if let Some(selected) = self.selected.get(*text) {
            return selected.subset(keys, uid, most);
        }
        // The annotation is newer than the pool.
        let nodes = self.all.targets.nodes.iter();
        let nodes = nodes.filter(|node| selector.matches(&node.labels));
        let targets = Arc::new(Targets::of(nodes.cloned().collect(), keys, None));
        let candidates = Candidates {
            targets,
            draw: None,
        };
        candidates.subset(keys, uid, most)
    }

    /// The targets of `service`; all of them, if its annotations cannot be read: then nothing is done for it.
    pub fn targets_of(&self, service: &ServiceView) -> Arc<Targets> {
        let selection = service.selection().unwrap_or_default();
        self.select(&service.uid, &selection)
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
        let TargetRequests {
            rules,
            selectors,
            is_bounded,
        } = requests;
        self.selected.retain(|text, _| selectors.contains_key(text));
        let mut held: Option<KeptTargets> = None;
        let mut propose = |guarded: &mut Guarded, selector| {
            let (nodes, kept) = guarded.guard.propose(now, &nodes, selector, missing);
            held = match (held, kept) {
                (Some(a), Some(b)) => Some(a.with(b)),
                (a, b) => a.or(b),
            };
            Candidates::new(nodes, &rules.label_keys, &guarded.set, *is_bounded)
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
        let revision = revision(&all, &selected, requests, &nodes);
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

fn revision(
    all: &Candidates,
    selected: &BTreeMap<Box<str>, Candidates>,
    requests: &TargetRequests,
    nodes: &[Arc<NodeView>],
) -> Revision {
    let plain = all.targets.revision();
    if selected.is_empty() && !requests.is_bounded {
        return plain.clone();
    }
    let mut encoder = Encoder::new("outrigger target pool 1");
    encoder.text(plain.as_str());
    encoder.list(selected.iter(), |encoder, (text, candidates)| {
        encoder.text(text);
        encoder.text(candidates.targets.revision().as_str());
    });
    let most = requests.rules.most.map(|most| most.to_string());
    encoder.option(most, |encoder, most| encoder.text(&most));
    if requests.is_bounded {
        let targets = nodes.iter().filter(|node| exclusion(node).is_none());
        for node in targets {
            encoder.text(&node.name);
            encoder.option(node.labels.get(ZONE), Encoder::text);
        }
    }
    encoder.finish().into()
}

#[cfg(test)]
mod tests;
