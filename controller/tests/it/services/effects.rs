//! A provider's effects on a Service, and the annotations that it receives.

use std::collections::{BTreeMap, HashMap};

use outrigger_api::v1;
use serde_json::json;

use super::{ENSURE, MADE, SETTLED, alone, quick};
use crate::{
    cluster::services::{load_balancer, load_balancer_with},
    look::services::{annotation_of, condition_types, foreign_condition},
    scripted::load_balancers::{Balancing, balancing, ready},
    stage::{Backstage, Setup},
    wait::{holds, until},
};

/// The operator's grant.
const GRANT: &str = "--provider-effect-prefixes=status.mock.example/,flannel.example/";

/// The mock's own effects, for its own prefix.
#[tokio::test]
async fn events_annotations_and_conditions_of_the_provider_are_written_for_it() {
    let stage = quick(&["--lb-effects"]).flag(GRANT).start().await;
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

async fn scripted() -> Backstage {
    let flags = [
        "--controllers=service-lb-controller",
        "--leader-elect=false",
        GRANT,
    ];
    let setup = Setup::without_provider().flags(&flags);
    setup.machines(super::fleet(1)).prepare().await
}

fn effects() -> v1::EffectsCapability {
    v1::EffectsCapability {
        service_annotation_prefixes: vec![
            "status.mock.example/".to_owned(),
            "ungranted.example/".to_owned(),
        ],
        condition_type_prefixes: vec!["status.mock.example/".to_owned()],
        ..v1::EffectsCapability::default()
    }
}

#[tokio::test]
async fn nothing_is_written_outside_the_prefixes_that_are_declared_and_granted() {
    let backstage = scripted().await;
    let condition = |kind: &str| v1::Condition {
        r#type: kind.to_owned(),
        status: "True".to_owned(),
        reason: "Sure".to_owned(),
        message: "believe me".to_owned(),
    };
    let set = [
        "status.mock.example/id",
        "example.com/other",
        "ungranted.example/public-ip",
        "outrigger.dev/paused",
        SETTLED,
        "kubectl.kubernetes.io/last-applied-configuration",
    ];
    let kinds = [
        "status.mock.example/Listening",
        "example.com/Other",
        "outrigger.dev/Accepted",
    ];
    let event = |kind: &str, reason: &str| v1::KubernetesEvent {
        r#type: kind.to_owned(),
        reason: reason.to_owned(),
        message: "two\nlines".to_owned(),
    };
    let answer = v1::KubernetesEffects {
        events: vec![
            event("Warning", "Careful"),
            event("Shout", "Loud"),
            event("Normal", "no reason"),
        ],
        set_annotations: HashMap::from_iter(set.map(|key| (key.to_owned(), "theirs".to_owned()))),
        remove_annotations: vec![
            "example.com/mine".to_owned(),
            "status.mock.example/old".to_owned(),
        ],
        conditions: kinds.map(condition).into(),
        remove_conditions: vec!["outrigger.dev/Provisioned".to_owned()],
    };
    let _provider = Balancing::serve(backstage.dir(), balancing(effects()), move |_| {
        v1::LoadBalancerAnswer {
            effects: Some(answer.clone()),
            ..ready("192.0.2.7")
        }
    });
    let stage = backstage.start();
    let annotations = json!({"metadata": {"annotations": {
        "example.com/mine": "mine", "status.mock.example/old": "old",
    }}});
    let service = stage.serve(load_balancer_with("web", annotations)).await;
    let value = |key: &str| annotation_of(&service, key);
    assert_eq!(value("status.mock.example/id"), Some("theirs"));
    assert_eq!(value("status.mock.example/old"), None);
    assert_eq!(value("example.com/mine"), Some("mine"));
    assert!(value(SETTLED).unwrap().starts_with("mock/"));
    for key in [
        "example.com/other",
        "ungranted.example/public-ip",
        "outrigger.dev/paused",
    ] {
        assert_eq!(value(key), None, "{key}");
    }
    assert_eq!(
        condition_types(&service),
        [
            "outrigger.dev/Accepted",
            "outrigger.dev/Provisioned",
            "outrigger.dev/TargetsInSync",
            "status.mock.example/Listening",
        ]
    );
    stage
        .only_events(
            &service,
            &[&MADE[..], &["Careful"], &["EffectsDropped"; 3]].concat(),
        )
        .await;
    let event = stage.event(&service, "Careful").await;
    assert_eq!(event.message.as_deref(), Some("two\\nlines"));
}

/// A provider receives the annotations that it declared, and none of ours.
#[tokio::test]
async fn a_provider_is_shown_the_annotations_that_it_reads() {
    let backstage = scripted().await;
    let handshake = v1::HandshakeResponse {
        service_annotation_prefixes: vec!["mock.example/".to_owned()],
        ..balancing(effects())
    };
    let provider = Balancing::serve(backstage.dir(), handshake, |_| ready("192.0.2.7"));
    let stage = backstage.start();
    let change = json!({
        "metadata": {
            "annotations": {
                "mock.example/flavour": "sweet",
                "example.com/other": "x",
                "outrigger.dev/resync": "1",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
            },
            "labels": {"app": "web"},
        },
        "spec": {
            "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
        },
    });
    let service = stage.serve(load_balancer_with("web", change)).await;
    let given = provider.ensured("web").remove(0);
    let annotations: BTreeMap<_, _> = given.annotations.into_iter().collect();
    let expected = ("mock.example/flavour".to_owned(), "sweet".to_owned());
    assert_eq!(annotations, BTreeMap::from([expected]));
    assert_eq!(Some(given.uid), service.metadata.uid);
    assert_eq!(given.labels["app"], "web");
    assert_eq!(given.r#type, "LoadBalancer");
    assert_eq!(given.external_traffic_policy, "Local");
    assert_eq!(given.session_affinity, "ClientIP");
    assert_eq!(given.load_balancer_source_ranges, ["10.0.0.0/8"]);
    assert_eq!(given.ports.len(), 1);
    assert_eq!(given.ports[0].target_port, "80");
    // Another value of one that it does not read is no reason to ask.
    let change = json!({"metadata": {"annotations": {"example.com/other": "y"}}});
    stage.change_service("web", change).await;
    let change = json!({"metadata": {"annotations": {"mock.example/flavour": "sour"}}});
    stage.change_service("web", change).await;
    until("it is asked", async || {
        let ensured = provider.ensured("web");
        holds(ensured.len() == 2, || format!("{} times", ensured.len()))
    })
    .await;
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
