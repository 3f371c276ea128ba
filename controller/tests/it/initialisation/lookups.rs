//! Which nodes are asked about, when, and what comes of answers that are no instance.

use std::time::Duration;

use outrigger_api::v1::{self, instance_result::Outcome};
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, InjectedError, Method};
use outrigger_testbed::nodes::{Machine, UNINITIALIZED_TAINT};
use serde_json::json;
use tonic::Code;

use crate::{
    look::{is_tainted, provider_id, reason, taints},
    mock::instance,
    scripted::{self, Scripted, handshake},
    stage::Setup,
    wait::{holds, until},
};

/// Long enough for some tries of a back-off that starts at 5 ms.
const A_WHILE: Duration = Duration::from_millis(700);

#[tokio::test]
async fn n1_a_provider_without_instances_is_said_so_and_its_successor_is_asked() {
    let backstage = Setup::without_provider().prepare().await;
    let mut poor = handshake();
    poor.capabilities = Some(v1::Capabilities::default());
    let provider = Scripted::serve(backstage.dir(), poor, |_| unreachable!("not served"));
    let mut stage = backstage.start();
    stage
        .controller
        .says(&[
            "failed to start cloud node controller",
            "cloud provider does not support instances",
        ])
        .await;
    stage.register(&Machine::new("n1")).await;
    stage.untouched("n1", A_WHILE).await;
    drop(provider);
    stage.start_mock(&["--synthesize-instances"]).await;
    stage.synced("n1").await;
}

#[tokio::test]
async fn n3_a_node_is_initialised_whenever_it_gets_the_taint() {
    let stage = Setup::synthesizing()
        .machines([Machine::new("n3-before")])
        .start()
        .await;
    stage.synced("n3-before").await;
    stage.register(&Machine::new("n3-after")).await;
    stage.synced("n3-after").await;

    stage
        .register(&Machine::new("n3-later").initialized())
        .await;
    let taint = json!([{"key": UNINITIALIZED_TAINT, "effect": "NoExecute"}]);
    stage
        .merge("n3-later", json!({"spec": {"taints": taint}}))
        .await;
    stage.synced("n3-later").await;
}

#[tokio::test]
async fn n10_and_n13_without_the_taint_nothing_is_written() {
    let stage = Setup::mock(&[])
        .machines([Machine::new("n10").initialized()])
        .start()
        .await;
    stage.mock.create(instance("n10-marker")).await;
    // Whoever is done with this one has seen the other.
    stage.register(&Machine::new("n10-marker")).await;
    stage.synced("n10-marker").await;
    assert_eq!(stage.writes_of("n10"), [""; 0]);
    assert_eq!(provider_id(&stage.node("n10").await), None);
}

#[tokio::test]
async fn n11_an_instance_that_is_not_found_is_asked_for_until_it_is_there() {
    let stage = Setup::mock(&[]).start().await;
    let registered = stage.register(&Machine::new("n11")).await;
    stage.mock.was_asked(5).await;
    stage.untouched("n11", A_WHILE).await;
    assert_eq!(stage.events_of(&registered).await, []);

    stage.mock.create(instance("n11")).await;
    let node = stage.synced("n11").await;
    assert_eq!(node.metadata.uid, registered.metadata.uid);
}

#[tokio::test]
async fn n11_an_error_changes_nothing_and_is_tried_again() {
    let stage = Setup::synthesizing().start().await;
    let errors = [
        ("internal", InjectedError::new(Code::Internal)),
        ("unknown", InjectedError::new(Code::Unknown)),
        ("not-found", InjectedError::new(Code::NotFound)),
        ("denied", InjectedError::new(Code::PermissionDenied)),
        ("not-ready", InjectedError::new(Code::FailedPrecondition)),
        (
            "quota",
            InjectedError::new(Code::ResourceExhausted).with_reason("QUOTA_EXCEEDED"),
        ),
        (
            "silent",
            InjectedError::new(Code::DeadlineExceeded).without_reason(),
        ),
    ];
    for (what, error) in &errors {
        stage
            .mock
            .fail_node(&format!("n11-{what}"), error.clone())
            .await;
    }
    let machines = errors
        .iter()
        .map(|(what, _)| Machine::new(format!("n11-{what}")));
    stage.register_all(machines).await;
    stage.register(&Machine::new("healthy")).await;
    stage.synced("healthy").await;
    stage.mock.was_asked(1 + 5 * errors.len() as u64).await;
    for node in stage.named("n11-").await {
        let name = node.metadata.name.as_deref().unwrap();
        assert!(is_tainted(&node), "{name}");
        assert_eq!(stage.writes_of(name), [""; 0]);
        assert_eq!(stage.events_of(&node).await, []);
    }

    stage.mock.clear().await;
    stage.all_synced("n11-", errors.len()).await;
}

#[tokio::test]
async fn n11_a_call_that_fails_as_a_whole_is_repeated() {
    let stage = Setup::synthesizing().start().await;
    for code in [
        Code::Internal,
        Code::Unavailable,
        Code::Aborted,
        Code::DataLoss,
    ] {
        let error = InjectedError::new(code).without_reason();
        let fault = Fault::on(Method::BatchGetInstances, Effect::Error(error));
        stage.mock.inject(fault.times(2)).await;
    }
    stage.register(&Machine::new("n11")).await;
    let node = stage.synced("n11").await;
    assert_eq!(stage.events_of(&node).await.len(), 1);
    assert_eq!(stage.mock.lookups("OK").await, 1);
    assert_eq!(stage.mock.lookups("DATA_LOSS").await, 2);
}

#[tokio::test]
async fn n12_a_node_that_is_not_managed_is_asked_about_again_only_when_it_changes() {
    let mut stage = Setup::synthesizing().start().await;
    stage.mock.spoil_node("n12", BadAnswer::NotManaged).await;
    let node = stage.register(&Machine::new("n12")).await;
    stage.mock.was_asked(1).await;
    stage.untouched("n12", A_WHILE).await;
    assert_eq!(stage.mock.asked().await, 1);
    assert_eq!(stage.events_of(&node).await, []);

    // Heartbeats and the like are no reason.
    let annotation = json!({"metadata": {"annotations": {"example.com/beat": "1"}}});
    stage.merge("n12", annotation).await;
    stage.untouched("n12", A_WHILE).await;
    assert_eq!(stage.mock.asked().await, 1);

    let label = |value| json!({"metadata": {"labels": {"example.com/pool": value}}});
    stage.merge("n12", label("a")).await;
    stage.mock.was_asked(2).await;
    stage.untouched("n12", A_WHILE).await;
    stage.mock.clear().await;
    stage.merge("n12", label("b")).await;
    stage.synced("n12").await;

    // Another process may know better.
    stage.mock.spoil_node("n12-b", BadAnswer::NotManaged).await;
    stage.register(&Machine::new("n12-b")).await;
    stage.mock.was_asked(4).await;
    stage.untouched("n12-b", A_WHILE).await;
    stage.mock.kill().await;
    stage.restart_mock().await;
    stage.synced("n12-b").await;
}

#[tokio::test]
async fn n4_and_n30_nodes_share_a_lookup_and_one_slow_answer_delays_no_other() {
    let machines = Machine::numbered("n30-", 40);
    let stage = Setup::synthesizing()
        .flag("--concurrent-node-syncs=1")
        .machines(machines)
        .start()
        .await;
    stage.all_synced("n30-", 40).await;
    let calls = stage.mock.lookups("OK").await;
    assert!(calls <= 2, "{calls} calls for 40 nodes");

    let hang = Effect::Hang { duration: None };
    stage
        .mock
        .inject(Fault::on(Method::BatchGetInstances, hang).times(1))
        .await;
    stage.register(&Machine::new("n4-slow")).await;
    until("the call hangs", async || {
        // The fault is used up as soon as the call is held.
        let faults = stage.mock.faults().await;
        holds(faults == 0, || format!("{faults} faults are still set"))
    })
    .await;
    stage.register(&Machine::new("n4-quick")).await;
    stage.synced("n4-quick").await;
    assert!(is_tainted(&stage.node("n4-slow").await));
    stage.mock.clear().await;
    stage.synced("n4-slow").await;
}

#[tokio::test]
async fn n34_the_provider_sees_the_node_as_it_is() {
    let backstage = Setup::without_provider().prepare().await;
    let mut greeting = handshake();
    greeting.node_annotation_prefixes = vec!["example.com/".to_owned()];
    let provider = Scripted::serve(backstage.dir(), greeting, |node| {
        Outcome::Found(scripted::instance(&format!("mock://{}", node.name)))
    });
    let stage = backstage.start();
    let machine = Machine::new("n34")
        .label("example.com/pool", "a")
        .annotation("example.com/rack", "r1")
        .annotation("example.org/secret", "s")
        .provided_ip("10.0.0.7".parse().unwrap())
        .taint("dedicated", Some("db"), "NoSchedule");
    // The instance has no addresses, so they cannot be compared with the kubelet's.
    let registered = stage.register(&machine).await;
    let question = until("the question", async || {
        let question = provider.asked("n34");
        question.into_iter().next().ok_or_else(|| "none".to_owned())
    })
    .await;
    assert_eq!(Some(&question.uid), registered.metadata.uid.as_ref());
    assert_eq!(question.provider_id, "");
    assert_eq!(question.labels["example.com/pool"], "a");
    assert_eq!(question.labels["kubernetes.io/hostname"], "n34");
    assert_eq!(question.annotations["example.com/rack"], "r1");
    assert_eq!(question.annotations.len(), 1, "{:?}", question.annotations);
    let addresses: Vec<_> = question
        .addresses
        .iter()
        .map(|address| &*address.address)
        .collect();
    assert_eq!(addresses, ["10.0.0.7", "n34"]);
    let keys = question.taints.iter().map(|taint| &*taint.key);
    let registered_keys = [
        "dedicated",
        UNINITIALIZED_TAINT,
        "node.kubernetes.io/not-ready",
    ];
    assert!(keys.eq(registered_keys), "{:?}", question.taints);
    let info = registered
        .status
        .and_then(|status| status.node_info)
        .unwrap();
    assert_eq!(question.system_uuid, info.system_uuid);
}

#[tokio::test]
async fn n19_all_its_taints_go_and_the_others_keep_their_order() {
    let stage = Setup::synthesizing().start().await;
    let machine = Machine::new("n19")
        .taint("first", Some("1"), "NoSchedule")
        .taint(UNINITIALIZED_TAINT, None, "NoExecute")
        .taint("second", None, "PreferNoSchedule")
        .taint(UNINITIALIZED_TAINT, Some("whatever"), "PreferNoSchedule")
        .taint("third", Some("3"), "NoExecute")
        .taint("first", Some("1"), "NoExecute");
    stage.register(&machine).await;
    let node = stage.synced("n19").await;
    assert_eq!(
        taints(&node),
        [
            "first=1:NoSchedule",
            "second=:PreferNoSchedule",
            "third=3:NoExecute",
            "first=1:NoExecute",
        ]
    );
    let events = stage.events_of(&node).await;
    assert_eq!(events.iter().map(reason).collect::<Vec<_>>(), ["Synced"]);
}
