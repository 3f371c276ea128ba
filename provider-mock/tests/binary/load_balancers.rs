//! Load balancers of a running mock.

use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::{
    CallContext, EnsureLoadBalancerRequest, InlineNodes, LoadBalancerDisposition as Wire, Node,
    NodeTargets, Service, ServicePort, node_targets,
};
use serde_json::Value;

use crate::harness::{Served, within};

fn request(name: &str) -> EnsureLoadBalancerRequest {
    EnsureLoadBalancerRequest {
        context: Some(CallContext {
            request_id: "r".into(),
            cluster_name: "kubernetes".into(),
            ..CallContext::default()
        }),
        service: Some(Service {
            namespace: "default".into(),
            name: name.into(),
            uid: format!("uid-{name}"),
            ports: vec![ServicePort {
                protocol: "TCP".into(),
                port: 80,
                node_port: 30_080,
                ..ServicePort::default()
            }],
            ..Service::default()
        }),
        targets: Some(NodeTargets {
            targets: Some(node_targets::Targets::Inline(InlineNodes {
                nodes: vec![Node {
                    name: "n-1".into(),
                    ..Node::default()
                }],
            })),
        }),
        identity: None,
    }
}

async fn ensure(mock: &Served, name: &str) -> Wire {
    let mut client = LoadBalancersServiceClient::new(mock.channel().await);
    let answer = within("ensuring", client.ensure_load_balancer(request(name))).await;
    let answer = answer.unwrap().into_inner().answer;
    answer.unwrap_or_default().disposition()
}

#[tokio::test]
async fn load_balancers_are_listed_shown_edited_made_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &["--lb-pool", "192.0.2.0/30"]).await;
    assert_eq!(mock.ctl("lb list").await, "");
    assert_eq!(ensure(&mock, "web").await, Wire::Ready);
    let listed = mock.ctl("lb list").await;
    let fields: Vec<&str> = listed.trim_end().split('\t').collect();
    assert!(
        fields[0].starts_with("lb-") && fields[4].starts_with("192.0.2."),
        "{listed}"
    );
    assert_eq!(
        [fields[1], fields[2], fields[3], fields[5], fields[6]],
        ["default/web", "kubernetes", "ready", "TCP/80:30080", "1"]
    );
    let shown: Value = serde_json::from_str(&mock.ctl("lb show default/web").await).unwrap();
    let shown = &shown["loadBalancers"][0]["loadBalancer"];
    assert_eq!(shown["targets"][0]["node"], "n-1");

    let edited = mock
        .ctl("lb edit uid-web --address 203.0.113.1 --port UDP/53:30053 --without-nodes")
        .await;
    assert_eq!(edited, format!("changed {} (default/web)\n", fields[0]));
    assert!(
        mock.ctl("lb list")
            .await
            .ends_with("203.0.113.1\tUDP/53:30053\t0\n")
    );
    let created = mock
        .ctl("lb create lb-orphan --cluster kubernetes --service default/gone/uid-gone")
        .await;
    assert_eq!(created, "created lb-orphan (default/gone)\n");
    let taken = mock
        .ctl_fails("lb create lb-orphan --cluster kubernetes")
        .await;
    assert!(taken.contains("lb-orphan already"), "{taken}");
    let refused = mock
        .ctl_fails("lb create lb\u{1b}[2J --cluster kubernetes")
        .await;
    assert!(refused.contains("has control characters"), "{refused}");
    let taken = mock
        .ctl_fails("lb edit lb-orphan --address 203.0.113.1")
        .await;
    assert!(taken.contains("belongs to load balancer lb-"), "{taken}");
    let unknown = mock.ctl_fails("lb delete lb-orphan lb-9").await;
    assert!(
        unknown.contains("no load balancer lb-9; nothing was changed"),
        "{unknown}"
    );
    assert!(mock.ctl("status").await.contains("load balancers\t2\n"));
    assert_eq!(mock.ctl("lb delete --all").await.lines().count(), 2);
    let counters = mock.ctl("counters").await;
    assert!(
        counters.contains("call\tEnsureLoadBalancer\tOK\t1\n"),
        "{counters}"
    );
    mock.terminate().await;
}

/// With --state-sync whatever was answered survives a kill.
#[tokio::test]
async fn a_kill_loses_no_load_balancer_that_was_answered() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state.json");
    let flags = [
        "--state",
        state.to_str().unwrap(),
        "--state-sync",
        "--state-interval",
        "1ms",
    ];
    for round in 1..=3 {
        let mock = Served::start(directory.path(), &flags).await;
        assert_eq!(ensure(&mock, &format!("web-{round}")).await, Wire::Ready);
        mock.kill().await;
    }
    let mock = Served::start(directory.path(), &flags).await;
    let before = mock.ctl("lb show --all").await;
    assert_eq!(before.matches("\"n-1\"").count(), 3);
    // Found again by its tags, not made again.
    assert_eq!(ensure(&mock, "web-1").await, Wire::Ready);
    assert_eq!(mock.ctl("lb show --all").await, before);
    mock.terminate().await;
}

#[tokio::test]
async fn faults_of_load_balancers_are_set_from_outside() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &["--lb-class", "mock.example/a"]).await;
    for (command, says) in [
        (
            "lose --method EnsureLoadBalancer --service default/web --count 1",
            "set: replies of EnsureLoadBalancer are lost, about default/web, once\n",
        ),
        (
            "answers --bad missing-disposition --method GetLoadBalancer",
            "set: answers of GetLoadBalancer are bad: missing-disposition, until cleared\n",
        ),
        (
            "hang --method DeleteLoadBalancer --service default/web --for 1s",
            "set: DeleteLoadBalancer hangs for 1s, about default/web, until cleared\n",
        ),
    ] {
        assert_eq!(mock.ctl(command).await, says);
    }
    let mut client = LoadBalancersServiceClient::new(mock.channel().await);
    let lost = within("ensuring", client.ensure_load_balancer(request("web"))).await;
    assert_eq!(lost.unwrap_err().code(), tonic::Code::Unknown);
    assert_eq!(mock.ctl("lb list").await.lines().count(), 1);
    assert_eq!(ensure(&mock, "web").await, Wire::Ready);
    mock.terminate().await;
}

/// 1,000 load balancers with 2,000 targets each fit well into 40 MiB, and their state into 2 MiB: equal
/// targets are kept once.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn thousands_of_targets_are_kept_once() {
    use outrigger_api::v1::node_sets_service_client::NodeSetsServiceClient;
    use outrigger_api::v1::{NodeSetRef, SyncNodeSetRequest};

    const NODES: u32 = 2_000;
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state.json");
    let mock = Served::start(directory.path(), &["--state", state.to_str().unwrap()]).await;
    let channel = mock.channel().await;
    let node = |index: u32| Node {
        name: format!("node-{index:05}"),
        uid: format!("00000000-0000-0000-0000-{index:012}"),
        ..Node::default()
    };
    let upload = SyncNodeSetRequest {
        context: request("x").context,
        nodes: (0..NODES).map(node).collect(),
        complete: true,
        revision: "r".into(),
        node_count: NODES,
    };
    let mut sets = NodeSetsServiceClient::new(channel.clone());
    sets.sync_node_set(futures::stream::iter([upload]))
        .await
        .unwrap();
    let empty = mock.peak_kib();
    let mut client = LoadBalancersServiceClient::new(channel);
    for index in 0..1_000 {
        let mut request = request(&format!("web-{index}"));
        request.targets = Some(NodeTargets {
            targets: Some(node_targets::Targets::Ref(NodeSetRef {
                revision: "r".into(),
                only: None,
            })),
        });
        client.ensure_load_balancer(request).await.unwrap();
    }
    let grown = mock.peak_kib() - empty;
    assert!(grown < 40 << 10, "1,000 load balancers cost {grown} KiB");
    mock.terminate().await;
    let written = std::fs::metadata(&state).unwrap().len();
    assert!(written < 2 << 20, "their state has {written} bytes");
}
