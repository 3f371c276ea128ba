//! One set for each selector, as far as the provider holds them.

use std::time::Duration;

use outrigger_core::targets::{Selection, TargetPool, TargetRequests, TargetRules};

use super::*;

/// The targets of selectors that select one node each, of so many nodes.
fn selected(nodes: usize, selectors: std::ops::Range<usize>) -> Vec<Arc<Targets>> {
    let labelled = |at: usize| {
        let mut node = (*node(&format!("node-{at:04}"))).clone();
        node.labels = node.labels.with([("pool", &*at.to_string())]);
        Arc::new(node)
    };
    let texts: Vec<_> = selectors.map(|at| format!("pool={at}")).collect();
    let mut requests = TargetRequests::new(TargetRules::default());
    let annotations = |text: &str| {
        let key = outrigger_core::targets::ANNOTATION_NODE_SELECTOR;
        [(key, text)].into_iter().collect()
    };
    for text in &texts {
        requests.add(&annotations(text));
    }
    let pool = TargetPool::among((0..nodes).map(labelled), &Arc::new(requests));
    let targets = texts.iter().map(|text| {
        let annotations = annotations(text);
        pool.select(&Selection::of(&annotations).unwrap())
    });
    targets.collect()
}

/// A provider that holds so many sets.
async fn holding(max_sets: u32) -> Rig {
    let declared = v1::NodeSetsCapability {
        max_sets,
        deltas: true,
    };
    Rig::balancing(move |offered| offered.node_sets = Some(declared)).await
}

/// The sets that the calls since have named; none: the nodes came along.
fn named(rig: &Rig, since: usize) -> Vec<Option<String>> {
    let calls = rig.fake.balancers.ensure.calls();
    let calls = calls.into_iter().skip(since);
    let targets = calls.map(|(_, request)| request.targets.unwrap().targets.unwrap());
    targets
        .map(|targets| match targets {
            node_targets::Targets::Ref(reference) => Some(reference.set_id),
            node_targets::Targets::Inline(inline) => {
                assert_eq!(inline.nodes.len(), 1);
                None
            }
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn sets_beyond_those_that_the_provider_holds_go_inline() {
    let rig = holding(3).await;
    let some = selected(5, 0..4);
    for targets in &some {
        ensure(&rig, "web", targets).await.unwrap();
    }
    let sets = named(&rig, 0);
    let expected: Vec<_> = some
        .iter()
        .map(|t| t.set().map(ToString::to_string))
        .collect();
    assert_eq!(sets[..3], expected[..3]);
    assert_eq!(sets[3], None);
    assert_eq!(uploads(&rig).len(), 3);
    // The set of all comes first, and takes the place of the one that was synced longest ago.
    ensure(&rig, "web", &numbered(0..5)).await.unwrap();
    assert_eq!(named(&rig, 4), [Some("targets".to_owned())]);
    ensure(&rig, "web", &some[1]).await.unwrap();
    assert_eq!(named(&rig, 5), [expected[1].clone()]);
    ensure(&rig, "web", &some[0]).await.unwrap();
    assert_eq!(named(&rig, 6), [None]);
    assert_eq!(uploads(&rig).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_idle_set_makes_room() {
    let rig = holding(2).await;
    let some = selected(5, 0..3);
    for targets in &some[..2] {
        ensure(&rig, "web", targets).await.unwrap();
    }
    sleep(Duration::from_mins(9)).await;
    ensure(&rig, "web", &some[0]).await.unwrap();
    sleep(Duration::from_mins(2)).await;
    // The first, which was synced longest ago, was named since.
    ensure(&rig, "web", &some[2]).await.unwrap();
    assert_eq!(named(&rig, 3), [None]);
    sleep(Duration::from_mins(10)).await;
    ensure(&rig, "web", &some[2]).await.unwrap();
    assert_eq!(named(&rig, 4), [some[2].set().map(ToString::to_string)]);
    assert_eq!(uploads(&rig).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn another_process_has_room_again() {
    let rig = holding(1).await;
    let some = selected(5, 0..2);
    for targets in &some {
        ensure(&rig, "web", targets).await.unwrap();
    }
    let first = some[0].set().map(ToString::to_string);
    assert_eq!(named(&rig, 0), [first, None]);
    restart(&rig, "boot-2").await;
    ensure(&rig, "web", &some[1]).await.unwrap();
    assert_eq!(named(&rig, 2), [some[1].set().map(ToString::to_string)]);
}
