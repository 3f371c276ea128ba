//! Load balancers of a running mock.

use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::{
    CallContext, EnsureLoadBalancerRequest, InlineNodes, LoadBalancerDisposition as Wire, Node,
    NodeTargets, Service, ServicePort, node_targets,
};

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
    assert_eq!(mock.count("load-balancers", "loadBalancers").await, 0);
    assert_eq!(ensure(&mock, "web").await, Wire::Ready);
    let listed = mock.json("load-balancers").await;
    assert_eq!(listed["loadBalancers"][0]["targets"][0]["node"], "n-1");

    let edit = "edit-load-balancer uid-web --address 203.0.113.1 --port UDP/53:30053 --node n-2";
    let edited = mock.json(edit).await;
    let edited = &edited["loadBalancers"][0];
    assert_eq!(edited["addresses"][0], "203.0.113.1");
    assert_eq!(edited["ports"][0]["nodePort"], 30_053);
    assert_eq!(edited["targets"][0]["node"], "n-2");
    let create = "create-load-balancer lb-orphan --cluster kubernetes";
    mock.ctl(&format!("{create} --service default/gone/uid-gone"))
        .await;
    for (command, says) in [
        (create, "lb-orphan already"),
        (
            "create-load-balancer lb\u{1b}[2J --cluster kubernetes",
            "has control characters",
        ),
        (
            "edit-load-balancer lb-orphan --address 203.0.113.1",
            "belongs to load balancer lb-",
        ),
        (
            "delete-load-balancers lb-orphan lb-9",
            "no load balancer lb-9; nothing was changed",
        ),
    ] {
        let refused = mock.ctl_fails(command).await;
        assert!(refused.contains(says), "{command}: {refused}");
    }
    assert_eq!(mock.json("status").await["loadBalancers"], 2);
    let deleted = mock.count("delete-load-balancers --all", "loadBalancers");
    assert_eq!(deleted.await, 2);
    mock.terminate().await;
}

/// 1,000 load balancers with 2,000 targets each fit well into 40 MiB: equal targets are kept once.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn thousands_of_targets_are_kept_once() {
    use outrigger_api::v1::node_sets_service_client::NodeSetsServiceClient;
    use outrigger_api::v1::{NodeSetRef, SyncNodeSetRequest};

    const NODES: u32 = 2_000;
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &[]).await;
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
}
