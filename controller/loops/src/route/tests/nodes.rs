//! Routes of Nodes that come, change and stay.

use tokio::time::timeout;

use super::*;
use outrigger_runtime::fixture::Warnings;

const A: &str = "10.244.1.0/24";
const B: &str = "10.244.2.0/24";

/// a Node that is new has its route at once, in a call of its own.
#[tokio::test(start_paused = true)]
async fn a_new_node_has_its_route_at_once() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);
    fixture.register(routed("b", 2, &[B]));
    let made = async {
        while routes(&fixture).len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(1), made).await.unwrap();
    fixture.settle().await;
    assert_eq!(changes(&fixture), 2);
    assert_eq!(lists(&fixture), 1);
    assert_eq!(condition(&fixture, "b").as_deref(), CREATED);
    let metrics = fixture.metrics();
    assert!(
        metrics.contains("outrigger_node_route_routes 2"),
        "{metrics}"
    );
}

/// R-10 with our default period: two lists an hour, and nothing else.
#[tokio::test(start_paused = true)]
async fn an_idle_cluster_has_two_lists_an_hour_and_no_writes() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    let (listed, changed) = (lists(&fixture), changes(&fixture));
    let written = fixture.api_writes().len();
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        // A heartbeat of the kubelet.
        fixture.cluster.change_node("a", |_| {});
        fixture.refresh("a");
    }
    assert!(lists(&fixture) - listed <= 2);
    assert_eq!(changes(&fixture), changed);
    assert_eq!(fixture.api_writes().len(), written);
}

/// R-43, M-10.
#[tokio::test(start_paused = true)]
async fn lists_and_destinations_are_counted() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    next_list(&fixture).await;
    let metrics = fixture.metrics();
    let count = |outcome, trigger, count| {
        let series = format!(
            "route_controller_route_sync_total{{outcome=\"{outcome}\",trigger=\"{trigger}\"}} {count}\n"
        );
        assert!(metrics.contains(&series), "{series} of {metrics}");
    };
    count("noop", "periodic", 2);
    count("changed", "node_change", 1);
}

/// A kubelet that registers with a part of another Node's range, or with that of all: no traffic of others leads to it.
#[tokio::test(start_paused = true)]
async fn a_node_gets_no_route_to_addresses_of_another() {
    let warnings = Warnings::listen();
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    fixture.register(routed("b", 2, &["10.244.1.0/25"]));
    fixture.register(routed("c", 3, &["10.244.0.0/16"]));
    fixture.settle().await;
    next_list(&fixture).await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);
    assert_eq!(
        fixture.events(),
        ["DuplicatePodCIDR", "FailedToCreateRoute"]
    );
    assert_eq!(
        warnings
            .with("10.244.1.0/25 of Node b overlaps with 10.244.1.0/24 of Node a")
            .len(),
        1
    );
    assert_eq!(
        warnings.with("10.244.0.0/16 of Node c is wider than").len(),
        1
    );
    for refused in ["b", "c"] {
        assert_eq!(condition(&fixture, refused).as_deref(), NOT_CREATED);
    }
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
    let metrics = fixture.metrics();
    assert!(
        metrics.contains("outrigger_node_route_problems_total{reason=\"DuplicatePodCIDR\"} 1"),
        "{metrics}"
    );

    // The route that another client deletes is made again, whoever waits for that.
    fixture.cloud.edit_routes(|table| {
        let name = table.iter().next().unwrap().name.clone();
        table.remove(&name).unwrap();
    });
    next_list(&fixture).await;
    assert_eq!(routes(&fixture), ["10.244.1.0/24 a 192.168.0.1"]);

    // The next one has them once the first is gone.
    fixture.vanish("a");
    fixture.settle().await;
    assert_eq!(routes(&fixture), ["10.244.1.0/25 b 192.168.0.2"]);
}

/// A standby remembers nothing; each lease term lists again.
#[tokio::test(start_paused = true)]
async fn a_new_lease_term_begins_with_a_list() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    fixture.end_term();
    fixture.settle().await;
    fixture.cloud.edit_routes(|table| {
        let name = table.iter().next().unwrap().name.clone();
        table.remove(&name).unwrap();
    });
    fixture.register(routed("b", 2, &[B]));
    fixture.settle().await;
    assert_eq!(routes(&fixture), [""; 0]);
    fixture.begin_term();
    fixture.settle().await;
    assert_eq!(lists(&fixture), 2);
    assert_eq!(routes(&fixture).len(), 2);
}
