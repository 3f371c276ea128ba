//! Nodes as kubelets register them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use outrigger_testbed::{
    nodes::{self, Machine, Readiness, UNINITIALIZED_TAINT},
    shared,
};

#[tokio::test]
async fn a_node_registers_as_with_an_external_cloud_provider() {
    let client = shared().await.unwrap().client().unwrap();
    let machine = Machine::new("kubelet-1")
        .provided_ip("10.0.0.5".parse().unwrap())
        .taint("dedicated", Some("db"), "NoExecute");
    let node = nodes::register(&client, &machine).await.unwrap();

    let spec = node.spec.as_ref().unwrap();
    assert_eq!(spec.provider_id, None);
    let taints = spec.taints.as_ref().unwrap();
    let taints: Vec<_> = taints
        .iter()
        .map(|taint| (&*taint.key, taint.value.as_deref(), &*taint.effect))
        .collect();
    // The last one comes from the API server's own admission.
    assert_eq!(
        taints,
        [
            ("dedicated", Some("db"), "NoExecute"),
            (UNINITIALIZED_TAINT, Some("true"), "NoSchedule"),
            ("node.kubernetes.io/not-ready", None, "NoSchedule"),
        ]
    );
    assert_eq!(
        node.metadata.annotations.as_ref().unwrap()["alpha.kubernetes.io/provided-node-ip"],
        "10.0.0.5"
    );
    let addresses = node.status.as_ref().unwrap().addresses.as_ref().unwrap();
    let addresses: Vec<_> = addresses.iter().map(|a| (&*a.type_, &*a.address)).collect();
    assert_eq!(
        addresses,
        [("InternalIP", "10.0.0.5"), ("Hostname", "kubelet-1")]
    );

    let size = serde_json::to_vec(&node).unwrap().len();
    assert!((12_000..16_000).contains(&size), "{size} bytes");
}

#[tokio::test]
async fn readiness_changes_one_condition() {
    let client = shared().await.unwrap().client().unwrap();
    nodes::register(&client, &Machine::new("silent-1"))
        .await
        .unwrap();
    let since: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    nodes::set_readiness(&client, "silent-1", Readiness::Unknown, since)
        .await
        .unwrap();

    let node = Api::<Node>::all(client).get("silent-1").await.unwrap();
    let conditions = node.status.unwrap().conditions.unwrap();
    assert_eq!(conditions.len(), 4);
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
        .unwrap();
    assert_eq!(ready.status, "Unknown");
    assert_eq!(ready.last_transition_time.as_ref().unwrap().0, since);
}
