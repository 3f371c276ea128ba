//! From a Service to its load balancer, its address and its conditions (S-1, S-10, S-30 to S-34, S-37, S-39, S-51, S-70, S-71,
//! H-3, H-4, H-7, B-10, Q-9).

use http::Method;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use outrigger_provider_mock::faults::Effect;
use serde_json::{Value, json};

use super::{DELETE, ENSURE, FINALIZER, MADE, UPDATE, alone, quick};
use crate::{
    cluster::services::{annotated, annotation, load_balancer, load_balancer_with},
    look::{
        reason,
        services::{
            addresses_of, annotation_of, condition, condition_message, condition_types, finalizers,
            foreign_condition, node_ports,
        },
        uid,
    },
    mock::load_balancers::about,
    wait::until,
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
        // All events have one writer.
        let client = if write.path.contains("/events") {
            " cloud-controller-manager"
        } else {
            " service-controller"
        };
        assert!(
            write.user_agent().ends_with(client),
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

/// Ports, families, source ranges and the health check: one Service for each.
#[tokio::test]
async fn s39_h3_h4_a_load_balancer_is_what_its_service_says() {
    let stage = quick(&[]).start().await;
    let ports = json!([
        {"name": "dns-tcp", "protocol": "TCP", "port": 53},
        {"name": "dns-udp", "protocol": "UDP", "port": 53},
    ]);
    let mode = |mode: &str| annotation("mock.example/address-mode", mode);
    // A change, and the form of each address. The API server's default mode is VIP.
    let cases: [(&str, Value, &[&str]); 7] = [
        ("vip", mode("ip"), &["198.* VIP"]),
        ("proxy", mode("proxy"), &["198.* Proxy"]),
        ("hostname", mode("hostname"), &["*.lb.mock.example"]),
        (
            "both",
            json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}}),
            &["198.* VIP", "2001:* VIP"],
        ),
        (
            "six",
            json!({"spec": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}}),
            &["2001:* VIP"],
        ),
        ("dns", json!({"spec": {"ports": ports}}), &["198.* VIP"]),
        (
            "local",
            json!({"spec": {
                "externalTrafficPolicy": "Local",
                "loadBalancerSourceRanges": ["192.0.2.0/24", "10.0.0.0/8", "10.0.0.0/8"],
            }}),
            &["198.* VIP"],
        ),
    ];
    for (name, change, expected) in cases {
        let service = stage.serve(load_balancer_with(name, change)).await;
        let addresses = addresses_of(&service);
        let fits = |(address, form): (&String, &&str)| {
            let (start, end) = form.split_once('*').unwrap();
            address.starts_with(start) && address.ends_with(end)
        };
        let are_right =
            addresses.len() == expected.len() && addresses.iter().zip(expected).all(fits);
        assert!(are_right, "{name}: {addresses:?}");
        let made = stage.mock.load_balancer(uid(&service)).await.unwrap();
        let protocols: Vec<_> = made.ports.iter().map(|port| &*port.protocol).collect();
        let several: &[&str] = if name == "dns" {
            &["TCP", "UDP"]
        } else {
            &["TCP"]
        };
        assert_eq!(protocols, several, "{name}");
        let ranges: &[&str] = if name == "local" {
            &["10.0.0.0/8", "192.0.2.0/24"]
        } else {
            &[]
        };
        assert_eq!(made.source_ranges, ranges, "{name}");
        let port = service.spec.as_ref().unwrap().health_check_node_port;
        assert_eq!(
            made.health_check_node_port,
            port.unwrap_or_default(),
            "{name}"
        );
        assert_eq!(made.health_check_node_port != 0, name == "local", "{name}");
    }
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

fn conditions(service: &Service) -> Vec<Condition> {
    let status = service.status.clone().unwrap_or_default();
    status.conditions.unwrap_or_default()
}

/// upstream writes each time what is there already.
#[tokio::test]
async fn q9_conditions_say_since_when_and_what_is_there_already_is_not_written_again() {
    let stage = quick(&[]).start().await;
    let slow = Effect::Hang { duration: None };
    stage.mock.inject(about(ENSURE, "web", slow).times(1)).await;
    let slow = annotated("web", "mock.example/provisioning-time", "1s");
    let service = stage.create_service(slow).await;
    let pending = stage
        .service_that("web", "is pending", |service| {
            condition(service, "Provisioned") == ("False", "Pending")
        })
        .await;
    assert_eq!(condition(&pending, "Accepted"), ("Unknown", "Pending"));
    let message = condition_message(&pending, "Provisioned");
    assert_eq!(message, "Waiting for the provider");
    stage.mock.clear().await;
    let served = stage.served("web").await;
    let ours = ["Accepted", "Provisioned", "TargetsInSync"];
    assert_eq!(
        condition_types(&served),
        ours.map(|kind| format!("outrigger.dev/{kind}"))
    );
    for kind in ours {
        assert_eq!(condition(&served, kind).0, "True", "{kind}");
        assert_ne!(condition(&served, kind).1, "", "{kind}");
    }
    stage.only_events(&service, &MADE).await;
    // Ensured again, it is as it was, and has been so all the time.
    let before = (conditions(&served), stage.patches_of("web").len());
    stage
        .change_service("web", annotation("outrigger.dev/resync", "1"))
        .await;
    stage.only_events(&service, &[MADE, MADE].concat()).await;
    assert_eq!(conditions(&stage.service("web").await), before.0);
    for patch in stage.patches_of("web").split_off(before.1) {
        assert!(!patch.to_string().contains("ingress"), "{patch}");
    }
}

/// A second client writes an address of its own whenever it sees another one.
#[tokio::test]
async fn an_address_that_another_client_overwrites_comes_back_with_back_off_and_without_a_call() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.only_events(&service, &MADE).await;
    let before = stage.patches_of("web").len();
    let warned = until("the Warning", async || {
        let service = stage.service("web").await;
        if addresses_of(&service) != ["203.0.113.99"] {
            let foreign =
                json!({"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.99"}]}}});
            stage.change_service_status("web", foreign).await;
        }
        let events = stage.events_of(&service).await;
        let warning = events
            .into_iter()
            .find(|event| reason(event) == "OverwrittenByAnotherClient");
        warning.ok_or_else(|| "none yet".to_owned())
    })
    .await;
    let patches = stage.patches_of("web").len() - before;
    assert!(patches <= 2, "{patches}");
    assert_eq!(stage.mock.calls(ENSURE).await, 1);
    let entries = stage.service("web").await.metadata.managed_fields.unwrap();
    let names = entries.into_iter().filter_map(|entry| entry.manager);
    let others: Vec<_> = names.filter(|name| name != "outrigger").collect();
    let message = warned.message.unwrap();
    assert!(
        others
            .iter()
            .any(|name| message.contains(&format!("{name:?}"))),
        "{message} {others:?}"
    );
}

/// The mock's own effects, for its own prefix.
#[tokio::test]
async fn events_annotations_and_conditions_of_the_provider_are_written_for_it() {
    let stage = quick(&["--lb-effects"])
        .flag("--provider-effect-prefixes=status.mock.example/")
        .start()
        .await;
    let service = stage.serve(load_balancer("web")).await;
    stage
        .only_events(&service, &[&MADE[..], &["MockLoadBalancerMade"]].concat())
        .await;
    let id = annotation_of(&service, "status.mock.example/id").unwrap();
    assert!(id.starts_with("lb-"), "{id}");
    let listening = foreign_condition(&service, "status.mock.example/Listening");
    assert_eq!(listening, ("True", "AllPorts"));
    // With the rest, in one write, and no reason to be asked again.
    assert_eq!(stage.patches_of("web").len(), 2);
    stage.silent(std::time::Duration::from_millis(500)).await;
    assert_eq!(stage.mock.calls(ENSURE).await, 1);
}

/// S-1: a provider without load balancers ends nothing.
#[tokio::test]
async fn s1_a_provider_without_load_balancers_serves_no_service() {
    let mut stage = alone(&["--without-load-balancers"]).start().await;
    stage.create_service(load_balancer("web")).await;
    stage
        .controller
        .says(&["does not support external load balancers"])
        .await;
    stage.silent(std::time::Duration::from_millis(500)).await;
    assert!(stage.patches_of("web").is_empty());
}
