//! Targets that become empty though Nodes exist: more likely a mistake, such as a label on all Nodes, than meant.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{Targets, is_target};
use crate::{api_time::after, node::NodeView};

/// How long the last targets are kept.
const HOLD: Duration = Duration::from_secs(30);

/// Since when there is no target.
#[derive(Clone, Debug, Default)]
pub struct EmptyTargets(Option<Timestamp>);

impl EmptyTargets {
    /// The targets among all `nodes`; or where there is none, for a while those of `last` that still exist, and until when.
    pub fn targets(
        &mut self,
        now: Timestamp,
        nodes: Vec<Arc<NodeView>>,
        last: &Targets,
    ) -> (Vec<Arc<NodeView>>, Option<Timestamp>) {
        let targets = nodes.iter().filter(|node| is_target(node));
        let targets: Vec<_> = targets.cloned().collect();
        if !targets.is_empty() {
            self.0 = None;
            return (targets, None);
        }
        let until = after(*self.0.get_or_insert(now), HOLD);
        let is_kept =
            |node: &Arc<NodeView>| node.deleted.is_none() && last.get(&node.name).is_some();
        let kept: Vec<_> = nodes.into_iter().filter(is_kept).collect();
        if kept.is_empty() || until <= now {
            return (targets, None);
        }
        (kept, Some(until))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::EmptyTargets;
    use crate::{
        fixture::{map, registered},
        node::NodeView,
        targets::{LABEL_EXCLUDE, Targets},
    };

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + secs).unwrap()
    }

    /// Nodes by name; `!` are excluded, `-` are being deleted.
    fn nodes(names: &str) -> Vec<Arc<NodeView>> {
        let node = |word: &str| {
            let mut node = registered(word.trim_start_matches(['!', '-']));
            if word.starts_with('!') {
                node.labels = map(&[(LABEL_EXCLUDE, "true")]);
            }
            node.deleted = word.starts_with('-').then(|| at(0));
            Arc::new(node)
        };
        names.split_whitespace().map(node).collect()
    }

    #[test]
    fn targets_that_become_empty_while_nodes_exist_wait() {
        let mut empty = EmptyTargets::default();
        let mut last = Targets::among([]);
        for (secs, now, expected, until) in [
            // At the start there is nothing to keep.
            (0, "!a !b", "", None),
            (1, "a b c", "a b c", None),
            // Any number goes, as long as one stays.
            (2, "!a !b c", "c", None),
            (3, "a b c", "a b c", None),
            (10, "!a !b !c !d", "a b c", Some(40)),
            // Departed Nodes leave at once, and a Node that is no target ends it.
            (20, "!a -b !d", "a", Some(40)),
            (25, "!a e", "e", None),
            (26, "!a !e", "e", Some(56)),
            (56, "!a !e", "", None),
            (57, "!a !e", "", None),
            (58, "a e", "a e", None),
            (59, "", "", None),
        ] {
            let (targets, held) = empty.targets(at(secs), nodes(now), &last);
            let names: Vec<_> = targets.iter().map(|node| &*node.name).collect();
            assert_eq!(names.join(" "), expected, "{secs}");
            assert_eq!(held, until.map(at), "{secs}");
            last = Targets::of(targets, &[]);
        }
    }
}
