//! Nodes that wait for a Pod CIDR.

use super::*;

/// Waits until `names` have Pod CIDRs, for less than their back-off has grown to.
async fn all_served(fixture: &Fixture, names: &[&str]) {
    let served = || names.iter().all(|name| !cidrs(fixture, name).is_empty());
    for _ in 0..50 {
        if served() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let missing: Vec<_> = names
        .iter()
        .filter(|name| cidrs(fixture, name).is_empty())
        .collect();
    panic!("no Pod CIDR within 5 s: {missing:?}");
}

/// Not I-17's wait: as many as there is room for. The deleted Node's CIDR is from before a change of the mask size.
#[tokio::test(start_paused = true)]
async fn all_nodes_that_the_freed_cidrs_are_enough_for_get_one() {
    let waiting = ["a", "b", "c", "d", "e"];
    let mut nodes = vec![with_cidr("large", "10.0.0.0/24")];
    nodes.extend(waiting.map(node));
    let fixture = begun(from_pool("10.0.0.0/24", 26), nodes).await;
    sleep(Duration::from_mins(10)).await;
    fixture.vanish("large");
    all_served(&fixture, &waiting[..4]).await;
    assert_eq!(cidrs(&fixture, "e"), [""; 0]);
    // Once for each wait.
    let events = fixture.events();
    let waits = events.iter().filter(|reason| *reason == "CIDRNotAvailable");
    assert_eq!(waits.count(), 5, "{events:?}");
}

/// A Node that is woken and does not take the block leaves it to the next.
#[tokio::test(start_paused = true)]
async fn a_block_that_a_paused_node_does_not_take_goes_to_the_next() {
    let nodes = [with_cidr("large", "10.0.0.0/24"), node("a"), node("b")];
    let fixture = begun(from_pool("10.0.0.0/24", 24), nodes).await;
    sleep(Duration::from_mins(10)).await;
    fixture.cluster.change_node("a", |node| {
        node["metadata"]["labels"] =
            json!({"outrigger.dev.node-restriction.kubernetes.io/paused": "true"});
    });
    fixture.refresh("a");
    fixture.vanish("large");
    all_served(&fixture, &["b"]).await;
}

/// The documented remedy of a duplicate: one of the two Nodes is deleted.
#[tokio::test(start_paused = true)]
async fn a_node_refused_as_a_duplicate_goes_on_when_the_other_is_gone() {
    let fixture = allocating_cloud();
    fixture.register(node("a"));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    let [taken] = &cidrs(&fixture, "a")[..] else {
        panic!("no Pod CIDR");
    };
    fixture.register(with_cidr("other", taken));
    fixture.cluster.delete_node("a");
    fixture
        .nodes
        .delete("a", outrigger_kubernetes::store::Origin::Watch);
    fixture.register(node("a"));
    sleep(Duration::from_mins(30)).await;
    assert_eq!(cidrs(&fixture, "a"), [""; 0]);
    fixture.vanish("other");
    all_served(&fixture, &["a"]).await;
}

/// The cloud gives the CIDR late: it is asked again within half a minute, however long that takes.
#[tokio::test(start_paused = true)]
async fn a_node_that_waits_for_the_cloud_is_asked_about_again_soon() {
    let range = PodCidrRange::new("10.9.0.0/16".parse().unwrap(), 24).unwrap();
    let mut fixture = Fixture::new(Setup {
        cloud: cloud(|config| config.pod_cidrs = vec![range]),
        ..Setup::default()
    });
    host(&mut fixture, Allocator::from_provider());
    fixture.register(node("a"));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    sleep(Duration::from_hours(1)).await;
    assert_eq!(cidrs(&fixture, "a"), [""; 0]);
    fixture.create("a");
    sleep(Duration::from_secs(31)).await;
    assert_eq!(cidrs(&fixture, "a").len(), 1);
}
