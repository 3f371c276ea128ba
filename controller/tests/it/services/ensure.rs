//! From a Service to its load balancer (S-10, S-12, S-30 to S-34, S-70, S-71, B-10, H-7).

use http::Method;
use k8s_openapi::api::core::v1::{Event, Namespace, Service};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use outrigger_provider_mock::faults::{BadAnswer, Effect};
use serde_json::json;

use super::{DELETE, ENSURE, FINALIZER, MADE, UPDATE, alone, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer},
    look::{
        reason,
        services::{addresses_of, condition, finalizers, node_ports},
        uid,
    },
    mock::load_balancers::about,
    wait::{holds, until},
};

/// S-4, S-30, S-70, S-71, H-7.
#[tokio::test]
async fn s30_a_service_gets_a_finalizer_a_load_balancer_and_an_address_in_this_order() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.only_events(&service, &MADE).await;
    let made = stage.mock.load_balancer(uid(&service)).await.unwrap();
    let tag = made.service.unwrap();
    assert_eq!((&*tag.namespace, &*tag.name), ("default", "web"));
    let ports: Vec<_> = made.ports.iter().map(|port| port.node_port).collect();
    assert_eq!(ports, node_ports(&service));
    assert_ne!(ports, [0]);
    stage
        .mock
        .sends_to(uid(&service), &["n-00000", "n-00001"])
        .await;
    assert_eq!(
        addresses_of(&service),
        [format!("{} VIP", made.addresses[0])]
    );
    assert_eq!(finalizers(&service), [FINALIZER]);
    assert_eq!(stage.mock.changes().await, [1, 0, 0]);

    // One write before the call and one after it, both by the right to patch the status alone.
    let requests = stage.proxy.requests();
    let writes: Vec<_> = requests
        .iter()
        .filter(|request| request.is_write())
        .collect();
    let patches: Vec<_> = writes
        .iter()
        .filter(|request| request.method == Method::PATCH)
        .map(|request| &*request.path)
        .collect();
    let status = "/api/v1/namespaces/default/services/web/status";
    assert_eq!(patches, [status; 2]);
    let bodies = stage.patches_of("web");
    let has = |place: usize, text: &str| bodies[place].to_string().contains(text);
    assert!(has(0, FINALIZER) && !has(0, "ingress"), "{}", bodies[0]);
    assert!(!has(1, FINALIZER) && has(1, "ingress"), "{}", bodies[1]);
    for write in &writes {
        assert!(
            write.user_agent().ends_with(" service-controller"),
            "{}",
            write.user_agent()
        );
    }

    let mut events = stage.events_of(&service).await;
    events.sort_by(|a, b| a.message.cmp(&b.message));
    let messages: Vec<_> = events
        .iter()
        .map(|event| event.message.as_deref())
        .collect();
    assert_eq!(
        messages,
        [
            Some("Ensured load balancer"),
            Some("Ensuring load balancer")
        ]
    );
    for event in events {
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        let source = event.source.and_then(|source| source.component);
        assert_eq!(source.as_deref(), Some("service-controller"));
        assert_eq!(event.involved_object.kind.as_deref(), Some("Service"));
    }
}

/// B-10.
#[tokio::test]
async fn b10_events_are_in_the_namespace_of_the_service() {
    let stage = quick(&[]).start().await;
    let namespaces: Api<Namespace> = Api::all(stage.admin());
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    // An earlier test may have left the namespace: without the namespace controller it is never deleted.
    let _ = namespaces.create(&PostParams::default(), &shop).await;
    let services: Api<Service> = Api::namespaced(stage.admin(), "shop");
    let web = serde_json::from_value(load_balancer("web")).unwrap();
    let web = services.create(&PostParams::default(), &web).await.unwrap();
    let events: Api<Event> = Api::namespaced(stage.admin(), "shop");
    until("the events", async || {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let of_web = |event: &&Event| event.involved_object.uid.as_deref() == Some(uid(&web));
        let reasons: Vec<_> = events.iter().filter(of_web).map(reason).collect();
        holds(MADE.iter().all(|reason| reasons.contains(reason)), || {
            format!("{reasons:?}")
        })
    })
    .await;
    assert_eq!(stage.mock.owners().await, [uid(&web)]);
}

/// S-10, S-20: nothing is done for other types, whatever becomes of them.
#[tokio::test]
async fn s10_other_types_are_left_alone() {
    let stage = quick(&[]).start().await;
    for (name, kind) in [("inner", "ClusterIP"), ("outer", "NodePort")] {
        let mut service = load_balancer(name);
        service["spec"]["type"] = kind.into();
        stage.create_service(service).await;
        stage
            .change_service(name, annotation("mock.example/note", "a"))
            .await;
        stage.delete_service(name).await;
    }
    stage.serve(load_balancer("web")).await;
    assert_eq!(stage.mock.changes().await, [1, 0, 0]);
    for name in ["inner", "outer"] {
        assert!(
            stage.writes_of(name).is_empty(),
            "{:?}",
            stage.writes_of(name)
        );
    }
}

/// S-12: what was there before the controller.
#[tokio::test]
async fn s12_services_that_were_there_before_are_served() {
    let backstage = quick(&[]).prepare().await;
    for name in ["a", "b", "c"] {
        backstage.create_service(load_balancer(name)).await;
    }
    let stage = backstage.start();
    let mut uids = Vec::new();
    for name in ["a", "b", "c"] {
        uids.push(uid(&stage.served(name).await).to_owned());
    }
    uids.sort_unstable();
    assert_eq!(stage.mock.owners().await, uids);
}

/// S-30, S-32.
#[tokio::test]
async fn s32_without_nodes_the_load_balancer_is_made_all_the_same() {
    let stage = alone(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    let event = stage.event(&service, "UnAvailableLoadBalancer").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let message = "There are no available nodes for LoadBalancer";
    assert_eq!(event.message.as_deref(), Some(message));
    stage.event(&service, "EnsuredLoadBalancer").await;
    assert_eq!(stage.mock.targets(uid(&service)).await, [""; 0]);
}

/// S-33. The same Service is ensured again with back-off; a change of it at once.
#[tokio::test]
async fn s33_ready_without_a_status_is_an_error() {
    let stage = quick(&[]).prepare().await;
    let bad = Effect::BadAnswer(BadAnswer::MissingStatus);
    stage.mock.inject(about(ENSURE, "web", bad).times(1)).await;
    let stage = stage.start();
    let service = stage.create_service(load_balancer("web")).await;
    let event = stage.event(&service, "SyncLoadBalancerFailed").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let message = event.message.unwrap_or_default();
    let text = "Error syncing load balancer: the provider answered EnsureLoadBalancer with READY and \
                without an address";
    assert!(message.starts_with(text), "{message}");
    assert_eq!(addresses_of(&stage.service("web").await), [""; 0]);
    stage
        .change_service("web", annotation("mock.example/note", "a"))
        .await;
    stage.served("web").await;
}

/// S-34, S-43, S-55, Q-29.
#[tokio::test]
async fn s34_a_service_that_another_controller_manages_is_left_alone() {
    let mut stage = quick(&[]).start().await;
    let foreign = annotated("theirs", "mock.example/not-managed", "true");
    stage.create_service(foreign).await;
    let service = stage
        .service_that("theirs", "is not accepted", |service| {
            condition(service, "Accepted") == ("False", "NotManaged")
        })
        .await;
    assert_eq!(finalizers(&service), [FINALIZER]);
    assert_eq!(condition(&service, "Provisioned"), ("", ""));
    assert_eq!(addresses_of(&service), [""; 0]);
    stage.only_events(&service, &["EnsuringLoadBalancer"]).await;
    // The status of its true owner stays.
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    stage.change_service_status("theirs", status).await;

    // Another set of nodes is no reason to ask again; a start is, in the background and without an event.
    stage.restart_controller().await;
    stage.mock.was_called(ENSURE, 2).await;
    stage
        .nodes()
        .delete("n-00001", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    stage.serve(load_balancer("ours")).await;
    assert_eq!(stage.mock.calls(ENSURE).await, 3);
    assert_eq!(stage.mock.calls(UPDATE).await, 0);
    let service = stage.service("theirs").await;
    assert_eq!(addresses_of(&service), ["192.0.2.1 VIP"]);

    // And at its end the provider has nothing to say.
    stage.delete_service("theirs").await;
    stage.service_is_gone("theirs").await;
    assert_eq!(stage.mock.calls(DELETE).await, 1);
    let warnings = stage.events_of(&service).await;
    let mut warnings = warnings
        .iter()
        .filter(|event| event.type_.as_deref() == Some("Warning"));
    assert_eq!(warnings.next(), None);
}
