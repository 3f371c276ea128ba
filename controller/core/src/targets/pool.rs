//! The targets of all Services at one moment, and which of them a Service selects by its annotation.
//!
//! The rollout makes a pool of the Nodes in the store; a call takes [`TargetPool::targets_of`] its Service. A selector is
//! evaluated for one Service, and nothing of it is kept: whoever may create Services decides how many selectors there are.

use std::sync::Arc;

use super::{Revision, TargetLabels, TargetRules, Targets, is_target};
use crate::{
    digest::Encoder, node::NodeView, selector::Selector, service::ServiceView,
    string_map::StringMap,
};

/// Annotation with a label selector, as `kubectl get nodes -l` reads it: only Nodes that it selects are targets of the
/// Service's load balancer.
pub const ANNOTATION_NODE_SELECTOR: &str = "outrigger.dev/node-selector";

/// Requirements of a selector, each of which is looked at for each Node.
const MOST: usize = 16;

/// Bytes of a selector. Longer annotations of ours are not kept of a Service that is too large.
const LONGEST: usize = 1_024;

/// The selector in the annotations of a Service.
///
/// # Errors
/// A sentence for people that begins with the key of the annotation that is wrong.
pub fn node_selector(annotations: &StringMap) -> Result<Option<Selector>, String> {
    let Some(text) = annotations.get(ANNOTATION_NODE_SELECTOR) else {
        return Ok(None);
    };
    let wrong = |complaint: String| format!("{ANNOTATION_NODE_SELECTOR} {complaint}");
    if text.len() > LONGEST {
        let bytes = text.len();
        return Err(wrong(format!(
            "has {bytes} bytes; at most {LONGEST} are read"
        )));
    }
    let selector: Selector = text.parse().map_err(wrong)?;
    let requirements = selector.requirements();
    if requirements > MOST {
        let many = format!("has {requirements} requirements; at most {MOST} are read");
        return Err(wrong(many));
    }
    Ok(Some(selector))
}

/// The targets of all Services at one moment.
#[derive(Clone, Debug)]
pub struct TargetPool {
    labels: TargetLabels,
    all: Arc<Targets>,
    revision: Revision,
}

impl Default for TargetPool {
    /// Without a node.
    fn default() -> Self {
        Self::of(Vec::new(), TargetLabels::default())
    }
}

impl TargetPool {
    /// The targets among `nodes`, which may come in any order.
    pub fn among(nodes: impl IntoIterator<Item = Arc<NodeView>>, labels: TargetLabels) -> Self {
        let targets = nodes.into_iter().filter(|node| is_target(node));
        Self::of(targets.collect(), labels)
    }

    /// These nodes, excluded or not.
    pub fn of(nodes: Vec<Arc<NodeView>>, labels: TargetLabels) -> Self {
        let all = Targets::of(nodes, &labels.rules.label_keys);
        let revision = if labels.has_selectors {
            let mut encoder = Encoder::new("outrigger target pool 3");
            encoder.text(all.revision.as_str());
            for node in &all.nodes {
                encoder.list(node.labels.iter(), |encoder, (key, value)| {
                    encoder.text(key);
                    encoder.text(value);
                });
            }
            encoder.finish().into()
        } else {
            all.revision.clone()
        };
        Self {
            labels,
            all: Arc::new(all),
            revision,
        }
    }

    /// The declarations of the provider that it was made for.
    pub const fn rules(&self) -> &TargetRules {
        &self.labels.rules
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

    /// The targets of `service`; all of them, if its annotation cannot be read: then nothing is done for it.
    pub fn targets_of(&self, service: &ServiceView) -> Arc<Targets> {
        let Some(selector) = service.node_selector().unwrap_or_default() else {
            return Arc::clone(&self.all);
        };
        let nodes = self.all.nodes.iter();
        let selected = nodes.filter(|node| selector.matches(&node.labels));
        let nodes: Box<[_]> = selected.cloned().collect();
        Arc::new(Targets {
            revision: Revision::of(&nodes, &self.labels.rules.label_keys),
            nodes,
            whole: Some(Arc::clone(&self.all)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;
    use crate::{
        fixture::{load_balancer, map, registered},
        node::labels::ZONE,
        targets::LABEL_EXCLUDE,
    };

    #[test]
    fn what_is_selected() {
        assert_eq!(node_selector(&map(&[])), Ok(None));
        let annotations = map(&[(ANNOTATION_NODE_SELECTOR, "pool in (a, b),!gpu")]);
        let selector = node_selector(&annotations).unwrap().unwrap();
        assert!(selector.matches(&map(&[("pool", "b")])));
        assert!(!selector.matches(&map(&[("pool", "b"), ("gpu", "")])));
    }

    #[test]
    fn wrong_values_are_named() {
        let long = "a,".repeat(512) + "a";
        let many = "a,".repeat(16) + "a";
        for (value, complaint) in [
            ("", "is empty, which would select everything"),
            ("pool=", ""),
            (
                "pool in (a",
                "has \"pool in (a\", which is neither key in (values) nor key notin (values)",
            ),
            (&long, "has 1025 bytes; at most 1024 are read"),
            (&many, "has 17 requirements; at most 16 are read"),
        ] {
            let annotations = map(&[(ANNOTATION_NODE_SELECTOR, value)]);
            let error = node_selector(&annotations).err();
            let expected =
                (!complaint.is_empty()).then(|| format!("{ANNOTATION_NODE_SELECTOR} {complaint}"));
            assert_eq!(error, expected, "{value}");
        }
    }

    type Labels<'a> = &'a [(&'a str, &'a str)];

    fn node(name: &str, labels: Labels<'_>) -> Arc<NodeView> {
        Arc::new(NodeView {
            labels: map(labels),
            ..registered(name)
        })
    }

    fn service(annotations: Labels<'_>) -> ServiceView {
        ServiceView {
            annotations: map(annotations),
            ..load_balancer("web")
        }
    }

    fn selecting(selector: &str) -> ServiceView {
        service(&[(ANNOTATION_NODE_SELECTOR, selector)])
    }

    fn pool_of(rules: &TargetRules, nodes: &[Arc<NodeView>], has_selectors: bool) -> TargetPool {
        let rules = rules.clone();
        let labels = TargetLabels {
            rules,
            has_selectors,
        };
        TargetPool::among(nodes.iter().cloned(), labels)
    }

    fn pool(nodes: &[Arc<NodeView>]) -> TargetPool {
        pool_of(&TargetRules::default(), nodes, true)
    }

    fn names(targets: &Targets) -> Vec<&str> {
        targets.nodes().iter().map(|node| &*node.name).collect()
    }

    fn six() -> Vec<Arc<NodeView>> {
        vec![
            node("a", &[("pool", "x"), (ZONE, "1")]),
            node("b", &[("pool", "x"), (ZONE, "2")]),
            node("c", &[("pool", "x"), (ZONE, "3"), (LABEL_EXCLUDE, "")]),
            node("d", &[("pool", "y"), (ZONE, "1")]),
            node("e", &[("pool", "y"), (ZONE, "2")]),
            node("f", &[]),
        ]
    }

    #[test]
    fn a_service_gets_the_targets_that_it_selects() {
        let (x, y) = (selecting("pool=x"), selecting("pool notin (x)"));
        let pool = pool(&six());
        assert_eq!(names(pool.all()), ["a", "b", "d", "e", "f"]);
        assert_eq!(
            names(&pool.targets_of(&service(&[]))),
            ["a", "b", "d", "e", "f"]
        );
        assert_eq!(names(&pool.targets_of(&x)), ["a", "b"]);
        assert_eq!(names(&pool.targets_of(&y)), ["d", "e", "f"]);
        // Nothing is done for it.
        assert_eq!(
            names(&pool.targets_of(&selecting("pool in"))),
            ["a", "b", "d", "e", "f"]
        );
    }

    /// Without annotations and declarations all is as it was: the Lease's revision too.
    #[test]
    fn no_selection_makes_no_difference() {
        let pool = pool_of(&TargetRules::default(), &six(), false);
        let plain = Targets::among(six());
        assert_eq!(pool.revision(), plain.revision());
        assert_eq!(**pool.all(), plain);
    }

    /// A revision of a pool names the targets of each Service: another one for whatever makes a difference to any.
    #[test]
    fn what_makes_another_pool() {
        let with_label = |key: &str| {
            let mut nodes = six();
            nodes[5] = node("f", &[(key, "7")]);
            nodes
        };
        let declared = TargetRules {
            label_keys: ["rack".into()].into(),
        };
        for (has_selectors, key, expected) in [
            (false, "pool", false),
            (false, "rack", true),
            (true, "pool", true),
        ] {
            let before = pool_of(&declared, &six(), has_selectors);
            let after = pool_of(&declared, &with_label(key), has_selectors);
            let is_other = before.revision() != after.revision();
            assert_eq!(is_other, expected, "{has_selectors} {key}");
        }
    }

    #[test]
    fn a_selection_names_the_set_that_it_is_of() {
        let x = selecting("pool=x");
        let pool = pool(&six());
        assert_eq!(pool.targets_of(&x).whole(), Some(pool.all()));
        assert_eq!(pool.targets_of(&service(&[])).whole(), None);
    }

    /// Whoever may create Services decides how many selectors there are.
    #[test]
    fn selectors_keep_nothing() {
        let nodes = six();
        let pool = pool(&nodes);
        for n in 0..300 {
            let selected = pool.targets_of(&selecting(&format!("!a{n:03}")));
            assert_eq!(selected.nodes().len(), 5);
        }
        assert_eq!(Arc::strong_count(&nodes[0]), 2, "here, and in the pool");
    }

    proptest! {
        /// A pool that names the same revision has the same targets for each Service, whatever the nodes are.
        #[test]
        fn equal_revisions_have_equal_targets(
            nodes in vec(vec(select(vec!["pool", "gpu", "rack", ZONE]), 0..3), 0..12),
            edited in vec(vec(select(vec!["pool", "gpu", "rack", ZONE]), 0..3), 0..12),
        ) {
            let services = [
                service(&[]),
                selecting("pool"),
                selecting("!gpu"),
            ];
            let rules = TargetRules {
                label_keys: ["rack".into()].into(),
            };
            let pool = |nodes: &[Vec<&str>]| {
                let nodes: Vec<_> = nodes.iter().enumerate().map(|(at, keys)| {
                    let labels: Vec<_> = keys.iter().map(|key| (*key, "1")).collect();
                    node(&format!("n{at}"), &labels)
                }).collect();
                pool_of(&rules, &nodes, true)
            };
            let (a, b) = (pool(&nodes), pool(&edited));
            for service in &services {
                let own = |pool: &TargetPool| pool.targets_of(service).revision().clone();
                prop_assert_eq!(own(&a) == *Targets::among([]).revision(), a.targets_of(service).is_empty());
            }
            if a.revision() == b.revision() {
                for service in &services {
                    let (a, b) = (a.targets_of(service), b.targets_of(service));
                    prop_assert_eq!(a.revision(), b.revision());
                    prop_assert_eq!(names(&a), names(&b));
                }
            }
        }
    }
}
