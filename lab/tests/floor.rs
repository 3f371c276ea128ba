//! The writes that are measured alone.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, NodeStatus};
use kube::{Api, api::ListParams};
use outrigger_lab::floor::{self, Form, Writes};
use outrigger_testbed::{
    nodes::{self, Load, Machine, Readiness, UNINITIALIZED_TAINT},
    shared,
};

#[tokio::test]
async fn the_floor_initialises_every_node_once() {
    for form in [Form::Merge, Form::JsonPatch, Form::Put] {
        let client = shared().await.unwrap().client().unwrap();
        // Events stay when their Nodes go.
        let prefix = format!("floor-{form:?}-").to_lowercase();
        let (prefix, last) = (&*prefix, &*format!("{prefix}00039"));
        let machines: Vec<_> = Machine::numbered(prefix, 40).collect();
        let mut count = 0;
        nodes::register_all(&client, machines, Load::default(), |done| count = done)
            .await
            .unwrap();
        assert_eq!(count, 40);

        let all = Api::<Node>::all(client.clone());
        let now = Timestamp::now();
        nodes::set_readiness(&client, last, Readiness::NotReady, now)
            .await
            .unwrap();
        let registered = all.get(last).await.unwrap();
        let writes = (Writes::ReadyAndEvent, form);
        let measure = || floor::measure(&client, prefix, 16, writes, |_| {});
        let measured = measure().await.unwrap();
        assert_eq!(measured.nodes, 40);
        assert!(!measured.api_server.is_zero());
        assert_eq!(measure().await.unwrap().nodes, 0);

        let all = Api::<Node>::all(client.clone())
            .list(&ListParams::default())
            .await
            .unwrap();
        let by_name: BTreeMap<_, _> = all
            .items
            .into_iter()
            .map(|node| (node.metadata.name.clone().unwrap(), node))
            .collect();
        let node = &by_name[last];
        let spec = node.spec.as_ref().unwrap();
        assert_eq!(
            spec.provider_id.as_deref(),
            Some(&*format!("floor://{last}"))
        );
        assert!(
            spec.taints
                .iter()
                .flatten()
                .all(|taint| taint.key != UNINITIALIZED_TAINT)
        );
        let addresses = node.status.as_ref().unwrap().addresses.as_ref().unwrap();
        assert_eq!(addresses.len(), 3);
        assert_eq!(addresses[0].address, "10.0.0.39");
        // The same result in each form: the other taint stays, and so does all else of the status, and its owner.
        let taints = spec.taints.as_ref().unwrap();
        assert_eq!(taints.len(), 1, "{taints:?}");
        assert_eq!(
            node.metadata.labels.as_ref().unwrap().len(),
            registered.metadata.labels.as_ref().unwrap().len() + 6
        );
        let others = |node: &Node| NodeStatus {
            addresses: None,
            ..node.status.clone().unwrap()
        };
        assert_eq!(others(node), others(&registered));
        let of_kubelet = |node: &Node| {
            let mut entries = node.metadata.managed_fields.iter().flatten();
            let entry = entries.find(|entry| {
                entry.manager.as_deref() == Some("kubelet")
                    && entry.subresource.as_deref() == Some("status")
            });
            entry.unwrap().fields_v1.clone()
        };
        assert_eq!(of_kubelet(node), of_kubelet(&registered));

        let events = Api::<Event>::namespaced(client.clone(), "default");
        let about = ListParams::default().fields(&format!("involvedObject.name={last}"));
        assert_eq!(events.list(&about).await.unwrap().items.len(), 1);

        let names = nodes::names(&client, prefix).await.unwrap();
        assert_eq!(names.len(), 40);
        nodes::delete_all(&client, names, Load::default(), |_| {})
            .await
            .unwrap();
        assert!(nodes::names(&client, prefix).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn the_floor_gives_each_node_a_pod_cidr_of_its_own() {
    let client = shared().await.unwrap().client().unwrap();
    let machines: Vec<_> = Machine::numbered("cidr-", 300).collect();
    nodes::register_all(&client, machines, Load::default(), |_| {})
        .await
        .unwrap();
    let measured = floor::measure(
        &client,
        "cidr-",
        16,
        (Writes::PodCidrs, Form::default()),
        |_| {},
    );
    assert_eq!(measured.await.unwrap().nodes, 300);
    let all = Api::<Node>::all(client.clone())
        .list(&ListParams::default())
        .await
        .unwrap();
    let specs = all.items.into_iter().filter_map(|node| node.spec);
    let cidrs: BTreeSet<_> = specs.filter_map(|spec| spec.pod_cidr).collect();
    assert_eq!(cidrs.len(), 300);
}

#[tokio::test]
async fn the_floor_reports_the_routes_of_each_node() {
    let client = shared().await.unwrap().client().unwrap();
    let machines: Vec<_> = Machine::numbered("routed-", 3).collect();
    nodes::register_all(&client, machines, Load::default(), |_| {})
        .await
        .unwrap();
    let measured = floor::measure(
        &client,
        "routed-",
        16,
        (Writes::NetworkCondition, Form::default()),
        |_| {},
    );
    assert_eq!(measured.await.unwrap().nodes, 3);
    let all: Api<Node> = Api::all(client.clone());
    let status = all.get("routed-00002").await.unwrap().status.unwrap();
    let conditions = status.conditions.unwrap();
    let reported = conditions
        .iter()
        .find(|condition| condition.type_ == "NetworkUnavailable");
    assert_eq!(reported.unwrap().status, "False");
    assert!(
        conditions
            .iter()
            .any(|condition| condition.type_ == "Ready")
    );
}

#[tokio::test]
async fn the_floor_leaves_events_out_if_asked() {
    let client = shared().await.unwrap().client().unwrap();
    nodes::register(&client, &Machine::new("bare-1"))
        .await
        .unwrap();
    let measured = floor::measure(
        &client,
        "bare-",
        1,
        (Writes::Ready, Form::JsonPatch),
        |_| {},
    );
    assert_eq!(measured.await.unwrap().nodes, 1);

    let node = Api::<Node>::all(client.clone())
        .get("bare-1")
        .await
        .unwrap();
    assert_eq!(
        node.spec.unwrap().provider_id.as_deref(),
        Some("floor://bare-1")
    );
    let events = Api::<Event>::namespaced(client, "default");
    let about = ListParams::default().fields("involvedObject.name=bare-1");
    assert!(events.list(&about).await.unwrap().items.is_empty());
}
