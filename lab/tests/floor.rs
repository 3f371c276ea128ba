//! The writes that are measured alone.

use k8s_openapi::api::core::v1::{Event, Node};
use kube::{Api, api::ListParams};
use outrigger_lab::floor;
use outrigger_testbed::{
    nodes::{self, Load, Machine, UNINITIALIZED_TAINT},
    shared,
};

#[tokio::test]
async fn the_floor_initialises_every_node_once_with_events_or_without() {
    let client = shared().await.unwrap().client().unwrap();
    for with_events in [false, true] {
        let prefix = format!("floor-{with_events}-");
        let last = &*format!("{prefix}00039");
        let machines: Vec<_> = Machine::numbered(&prefix, 40).collect();
        nodes::register_all(&client, machines, Load::default(), |_| {})
            .await
            .unwrap();
        let all = Api::<Node>::all(client.clone());
        let registered = all.get(last).await.unwrap();
        let measure = || floor::measure(&client, &prefix, 16, with_events, |_| {});
        let measured = measure().await.unwrap();
        assert_eq!(measured.nodes, 40);
        assert!(!measured.api_server.is_zero());
        assert_eq!(measure().await.unwrap().nodes, 0);

        let node = all.get(last).await.unwrap();
        let spec = node.spec.unwrap();
        assert_eq!(spec.provider_id, Some(format!("floor://{last}")));
        let mut taints = spec.taints.iter().flatten();
        assert!(taints.all(|taint| taint.key != UNINITIALIZED_TAINT));
        let addresses = node.status.unwrap().addresses.unwrap();
        assert_eq!(addresses.len(), 3);
        let labels = |node: &Node| node.metadata.labels.as_ref().unwrap().len();
        let after = node.metadata.labels.as_ref().unwrap().len();
        assert_eq!(after, labels(&registered) + 6);
        let events = Api::<Event>::namespaced(client.clone(), "default");
        let about = ListParams::default().fields(&format!("involvedObject.name={last}"));
        let events = events.list(&about).await.unwrap().items.len();
        assert_eq!(events, usize::from(with_events));
    }
}
