//! The targets of a load balancer that takes fewer than there are: a share of them that is the Service's own, spread over
//! zones, and stable.
//!
//! Rendezvous hashing: each node has a weight for each Service, and the heaviest are chosen. A node that leaves is replaced
//! by one other, and so is the lightest by a node that joins and is heavier. Zones take turns, so that the numbers of
//! any two zones differ by one at most, as far as they have nodes.

use std::{collections::BTreeMap, num::NonZeroUsize, sync::Arc};

use super::{Revision, Targets, encode};
use crate::{
    digest::{Digest, Encoder},
    node::{NodeView, labels::ZONE},
};

/// The facts that are computed once of the nodes that subsets are chosen from.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    nodes: Box<[Drawn]>,
    /// Hash of each zone.
    zones: Box<[u64]>,
}

#[derive(Clone, Debug)]
struct Drawn {
    hash: u64,
    /// Place in [`Draw::zones`].
    zone: usize,
    content: Digest,
}

impl Draw {
    /// The draw from these targets, in their order.
    pub(super) fn of(targets: &[Arc<NodeView>], label_keys: &[Box<str>]) -> Self {
        let mut places = BTreeMap::new();
        let mut zones = Vec::new();
        let nodes = targets.iter().map(|node| {
            // A node without a zone is in a zone of its kind.
            let zone = node.labels.get(ZONE).unwrap_or_default();
            let zone = *places.entry(zone).or_insert_with(|| {
                zones.push(hash("zone", zone));
                zones.len() - 1
            });
            let mut content = Encoder::new("outrigger target 1");
            encode(&mut content, node, label_keys);
            Drawn {
                hash: hash("node", &node.name),
                zone,
                content: content.finish(),
            }
        });
        Self {
            nodes: nodes.collect(),
            zones: zones.into(),
        }
    }

    /// `most` of `targets`, which this was made of, for the Service with this UID; all of them if there are no more.
    pub(super) fn subset(
        &self,
        targets: &Arc<Targets>,
        uid: &str,
        most: NonZeroUsize,
    ) -> Arc<Targets> {
        if self.nodes.len() <= most.get() {
            return Arc::clone(targets);
        }
        let mut chosen = self.chosen(hash("service", uid), most.get());
        chosen.sort_unstable();
        let nodes = chosen.iter().filter_map(|at| targets.nodes.get(*at));
        let nodes = nodes.cloned().collect();
        let mut revision = Encoder::new("outrigger subset 1");
        for at in &chosen {
            if let Some(drawn) = self.nodes.get(*at) {
                revision.text(&drawn.content.to_string());
            }
        }
        Arc::new(Targets {
            nodes,
            revision: Revision::from(revision.finish()),
            set: None,
        })
    }

    /// Places of the nodes that are chosen, in no order.
    fn chosen(&self, service: u64, most: usize) -> Vec<usize> {
        let mut zones: Vec<(u64, Vec<(u64, usize)>)> = self
            .zones
            .iter()
            .map(|zone| (mix(zone ^ service), Vec::new()))
            .collect();
        for (at, node) in self.nodes.iter().enumerate() {
            if let Some((_, nodes)) = zones.get_mut(node.zone) {
                nodes.push((mix(node.hash ^ service), at));
            }
        }
        zones.sort_unstable();
        let takes = turns(
            &zones
                .iter()
                .map(|(_, nodes)| nodes.len())
                .collect::<Vec<_>>(),
            most,
        );
        let mut chosen = Vec::with_capacity(most);
        for ((_, mut nodes), takes) in zones.into_iter().zip(takes) {
            if takes > 0 && takes < nodes.len() {
                nodes.select_nth_unstable_by(takes - 1, |a, b| b.cmp(a));
            }
            chosen.extend(nodes.into_iter().take(takes).map(|(_, at)| at));
        }
        chosen
    }
}

/// How many nodes each zone gives, of `sizes` that it has: one after the other until `most` are given.
fn turns(sizes: &[usize], most: usize) -> Vec<usize> {
    let mut given = vec![0; sizes.len()];
    let mut left = most;
    let mut open: Vec<usize> = (0..sizes.len()).collect();
    while left > 0 && !open.is_empty() {
        open.retain(|zone| {
            let (Some(given), Some(size)) = (given.get_mut(*zone), sizes.get(*zone)) else {
                return false;
            };
            if left > 0 && *given < *size {
                *given += 1;
                left -= 1;
            }
            *given < *size
        });
    }
    given
}

fn hash(kind: &str, text: &str) -> u64 {
    let mut encoder = Encoder::new("outrigger subset of targets 1");
    encoder.text(kind);
    encoder.text(text);
    encoder.finish().number()
}

/// The finalizer of `SplitMix64`: each bit of the result depends on each bit of `x`.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        num::NonZeroUsize,
        sync::Arc,
    };

    use proptest::{collection::btree_map, prelude::*};

    use super::{Draw, ZONE};
    use crate::{
        fixture::{map, registered},
        node::NodeView,
        targets::Targets,
    };

    /// The names of the nodes that the Service `uid` gets of these: name and zone.
    fn chosen<'a>(
        nodes: impl IntoIterator<Item = (&'a String, &'a u8)>,
        uid: &str,
        most: usize,
    ) -> BTreeSet<String> {
        let nodes = nodes.into_iter().map(|(name, zone)| {
            let zone = zone.to_string();
            Arc::new(NodeView {
                labels: map(&[(ZONE, &zone)]),
                ..registered(name)
            })
        });
        let targets = Arc::new(Targets::among(nodes));
        let most = NonZeroUsize::new(most).unwrap();
        let subset = Draw::of(&targets.nodes, &[]).subset(&targets, uid, most);
        let names: Vec<_> = subset
            .nodes()
            .iter()
            .map(|node| node.name.to_string())
            .collect();
        assert!(names.is_sorted(), "by name");
        names.into_iter().collect()
    }

    /// So many nodes in each of three zones.
    fn three_zones(each: usize) -> BTreeMap<String, u8> {
        let nodes = (0..3 * each).map(|at| (format!("n{at}"), (at % 3) as u8));
        nodes.collect()
    }

    /// Kept in the cloud: a release that chooses otherwise moves the traffic of every cluster.
    #[test]
    fn the_choice_never_changes() {
        let nodes = three_zones(4);
        let names = chosen(&nodes, "uid-web", 4);
        assert_eq!(names, ["n2", "n3", "n4", "n5"].map(String::from).into());
    }

    #[test]
    fn services_get_other_nodes_and_nodes_as_many_services() {
        let nodes = three_zones(10);
        let mut loads: BTreeMap<String, usize> = BTreeMap::new();
        for service in 0..1_000 {
            for name in chosen(&nodes, &format!("uid-{service}"), 6) {
                *loads.entry(name).or_default() += 1;
            }
        }
        // 6,000 places on 30 nodes: 200 each, with a deviation of 13.
        assert_eq!(loads.len(), 30);
        assert!(
            loads.values().all(|load| (140..=260).contains(load)),
            "{loads:?}"
        );
    }

    #[test]
    fn the_same_content_has_the_same_revision_and_another_one_another() {
        let of = |provider_id: &str| {
            let nodes = (0..9).map(|at| {
                Arc::new(NodeView {
                    provider_id: provider_id.into(),
                    ..registered(&format!("n{at}"))
                })
            });
            let targets = Arc::new(Targets::among(nodes));
            let most = NonZeroUsize::new(3).unwrap();
            let subset = Draw::of(&targets.nodes, &[]).subset(&targets, "uid", most);
            subset.revision().clone()
        };
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
    }

    proptest! {
        #[test]
        fn a_subset_is_full_spread_and_stable(
            mut nodes in btree_map("[a-z]{1,6}", 0..5_u8, 1..40),
            most in 1..20_usize,
            leaves in any::<prop::sample::Index>(),
            uid in "[a-f0-9]{8}",
        ) {
            let before = chosen(&nodes, &uid, most);
            // Never empty, and as many as are allowed.
            prop_assert_eq!(before.len(), nodes.len().min(most));
            // Spread: a zone with two fewer than another has no more.
            let mut zones: BTreeMap<u8, (usize, usize)> = BTreeMap::new();
            for (name, zone) in &nodes {
                let (size, taken) = zones.entry(*zone).or_default();
                *size += 1;
                *taken += usize::from(before.contains(name));
            }
            for (size, taken) in zones.values() {
                for (_, most_taken) in zones.values() {
                    prop_assert!(taken == size || taken + 1 >= *most_taken, "{:?}", zones);
                }
            }
            // Stable: one leaves, and at most one other comes in its place. The reverse is a node that joins.
            let name = nodes.keys().nth(leaves.index(nodes.len())).unwrap().clone();
            nodes.remove(&name);
            let after = chosen(&nodes, &uid, most);
            let gone: Vec<_> = before.difference(&after).collect();
            let came = after.difference(&before).count();
            if before.contains(&name) {
                prop_assert_eq!(gone, [&name]);
                prop_assert!(came <= 1);
            } else {
                // It may have been all of its zone: the others take the same turns.
                prop_assert_eq!((gone.len(), came), (0, 0));
            }
        }
    }
}
