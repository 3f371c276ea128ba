//! Targets: when they go out, and to which load balancers.

use outrigger_core::targets::LABEL_EXCLUDE;

use super::{applied::annotation, *};
use outrigger_kube::fixture::{lease::Mood, settled};
use outrigger_runtime::fixture::Warnings;

/// One call for each of 100 Services, not one for each of 10 nodes (not S-57).
#[tokio::test(start_paused = true)]
async fn nodes_that_join_go_out_together() {
    let rig = with_services(100, Setup::default()).await;
    let writes = rig.writes();
    for n in 10..20 {
        rig.join(&format!("n{n}"));
        sleep(Duration::from_millis(300)).await;
    }
    secs(30).await;
    assert_eq!(rig.calls("UpdateLoadBalancerNodes"), 100);
    let all = rig.cloud.load_balancers();
    assert!(all.iter().all(|lb| lb.targets.len() == 20), "{}", all.len());
    // Nodes that come and go write no Service.
    assert_eq!(rig.writes(), writes);
    assert!(rig.events().contains(&"UpdatedLoadBalancer".to_owned()));
}

/// In a slow cloud the cloud-node loop gives a node its addresses long after it joined: the watch
/// tells nothing then that the store does not have already.
#[tokio::test(start_paused = true)]
async fn our_own_writes_about_a_node_go_out_too() {
    let rig = with_services(1, Setup::default()).await;
    let mut late = settled("late", "", "True");
    late["metadata"]["resourceVersion"] = "1000".into();
    rig.observe(late.clone());
    secs(20).await;
    let address = |rig: &Rig| {
        let load_balancer = rig.cloud.load_balancers().into_iter().next().unwrap();
        let mut targets = load_balancer.targets.iter();
        let late = targets.find(|target| &*target.node == "late");
        late.unwrap().address
    };
    assert_eq!(address(&rig), None);
    late["metadata"]["resourceVersion"] = "1001".into();
    late["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.9"}]);
    let text = |key| late["metadata"][key].as_str().unwrap();
    let written = rig.nodes.written("late", text("uid"), "1001", None, |_| {
        serde_json::from_value(late.clone()).unwrap()
    });
    assert!(written.is_some());
    rig.observe(late);
    rig.until("an update", |rig| address(rig).is_some()).await;
}

/// Labels a node so that it is no target.
fn exclude(rig: &Rig, name: &str) {
    let mut node = settled(name, &format!("mock://{name}"), "True");
    node["metadata"]["labels"][LABEL_EXCLUDE] = "true".into();
    rig.observe(node);
}

/// Its kubelet may fill it up, so that no load balancer could get its targets.
#[tokio::test(start_paused = true)]
async fn a_node_that_becomes_too_large_is_no_target_until_it_is_smaller() {
    let warnings = Warnings::listen();
    let rig = with_services(1, Setup::default()).await;
    let is_target = |rig: &Rig| rig.targets().contains(&"n1".to_owned());
    let mut node = settled("n1", "mock://n1", "True");
    let taint = json!({"key": "full", "effect": "NoSchedule"});
    node["spec"]["taints"] = vec![taint; 2_000].into();
    rig.observe(node);
    rig.until("it is no target", |rig| !is_target(rig)).await;
    let too_large = |count| format!("outrigger_service_nodes_too_large {count}");
    assert!(rig.metrics().contains(&too_large(1)), "{}", rig.metrics());
    let lines = warnings.with("take more than 32 KiB");
    assert!(lines.len() == 1 && lines[0].contains("n1"), "{lines:?}");
    rig.join("n1");
    rig.until("it is one again", is_target).await;
    assert!(rig.metrics().contains(&too_large(0)), "{}", rig.metrics());
}

/// Its return waits a second for others; an Ensure meanwhile has it already.
#[tokio::test(start_paused = true)]
async fn a_node_that_returns_for_less_than_a_second_stays_with_no_load_balancer() {
    let rig = with_services(1, Setup::default()).await;
    let has_it = |rig: &Rig| rig.targets().contains(&"n1".to_owned());
    exclude(&rig, "n1");
    rig.until("it is excluded", |rig| !has_it(rig)).await;
    rig.join("n1");
    rig.cluster.change_service("shop/web-0", |web| {
        web["spec"]["ports"][0]["port"] = 81.into();
    });
    rig.until("an Ensure gives it", has_it).await;
    exclude(&rig, "n1");
    secs(60).await;
    assert!(!has_it(&rig));
}

/// kubernetes/kubernetes#105946: also those that were excluded before.
#[tokio::test(start_paused = true)]
async fn nodes_that_depart_leave_at_once_while_others_are_kept() {
    let rig = with_services(1, Setup::default()).await;
    for n in 0..10 {
        exclude(&rig, &format!("n{n}"));
    }
    secs(5).await;
    assert_eq!(rig.targets().len(), 10);
    let began = Instant::now();
    for n in 0..3 {
        rig.leave(&format!("n{n}"));
    }
    rig.until("an update", |rig| rig.targets().len() == 7).await;
    let took = began.elapsed();
    assert!(took <= Duration::from_millis(105), "{took:?}");
}

/// An Ensure takes them at that moment, with a change of a label that announces nothing.
#[tokio::test(start_paused = true)]
async fn nodes_whose_time_ends_with_an_ensure_leave_the_other_load_balancers_too() {
    let rig = with_services(1, Setup::default()).await;
    let began = Instant::now();
    for n in 0..10 {
        exclude(&rig, &format!("n{n}"));
    }
    secs(27).await;
    rig.leave("n9");
    rig.until("an update", |rig| rig.targets().len() == 9).await;
    // Whoever follows the nodes waits until the Lease says that all have them.
    rig.lease.mood(Mood::Silent);
    sleep(Duration::from_secs(31).saturating_sub(began.elapsed())).await;
    let mut labelled = settled("n8", "mock://n8", "True");
    labelled["metadata"]["labels"][LABEL_EXCLUDE] = "true".into();
    labelled["metadata"]["labels"]["example.com/rack"] = "7".into();
    rig.observe(labelled);
    rig.cluster.create_service(service("late"));
    secs(1).await;
    rig.lease.mood(Mood::Well);
    rig.ready("shop/late").await;
    secs(10).await;
    for load_balancer in rig.cloud.load_balancers() {
        assert!(load_balancer.targets.is_empty(), "{load_balancer:?}");
    }
}

/// The debounce is for load balancers that exist.
#[tokio::test(start_paused = true)]
async fn a_new_load_balancer_is_made_with_the_nodes_of_now() {
    let rig = with_services(20, Setup::default()).await;
    let events = rig.events().len();
    for n in 10..20 {
        rig.join(&format!("n{n}"));
        rig.cluster.create_service(service(&format!("late-{n}")));
        sleep(Duration::from_millis(200)).await;
    }
    let made = rig.cloud.load_balancer("shop/late-10").unwrap();
    assert_eq!(made.targets.len(), 11, "{made:?}");
    assert_eq!(rig.calls("UpdateLoadBalancerNodes"), 0);
    secs(30).await;
    let all = rig.cloud.load_balancers();
    assert!(all.iter().all(|lb| lb.targets.len() == 20), "{all:?}");
    // One of each, and one update of each but the last one.
    assert_eq!(rig.calls("EnsureLoadBalancer"), 30);
    assert_eq!(rig.calls("UpdateLoadBalancerNodes"), 29);
    let events = &rig.events()[events..];
    let updated = events.iter().filter(|e| *e == "UpdatedLoadBalancer");
    assert_eq!(updated.count(), 29, "all but the last one");
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_was_being_made_gets_what_changed_meanwhile() {
    let rig = with_services(1, Setup::default()).await;
    let slow = Effect::Hang {
        duration: Some(Duration::from_secs(20)),
    };
    rig.cloud
        .inject(Fault::on(Method::EnsureLoadBalancer, slow).times(1));
    rig.cluster.create_service(service("web"));
    secs(1).await;
    rig.leave("n1");
    secs(10).await;
    // The other has it, but not all have.
    assert_eq!(annotation(&rig), None);
    rig.ready(WEB).await;
    rig.until("all have it", |rig| annotation(rig).is_some())
        .await;
    assert!(
        rig.cloud
            .load_balancers()
            .iter()
            .all(|lb| lb.targets.len() == 9)
    );
}

/// The provider's process goes on, so that its boot id says nothing of the time without a connection.
#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_while_the_connection_is_away_goes_out_after_it() {
    let rig = with_services(3, Setup::default()).await;
    rig.wire.cut();
    secs(5).await;
    rig.leave("n1");
    secs(5).await;
    rig.wire.mend();
    secs(5).await;
    for load_balancer in rig.cloud.load_balancers() {
        assert_eq!(load_balancer.targets.len(), 9, "{load_balancer:?}");
    }
}
