//! When a node is deleted, and when not.

use std::time::Duration;

use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, InjectedError, Method};
use serde_json::json;
use tokio::time::Instant;
use tonic::Code;

use super::{fleet, quick};
use crate::{
    look::{reason, uid},
    stage::{Setup, Stage},
    wait::{holds, stays, until},
};

async fn lost(stage: &Stage, count: usize) {
    for n in 0..count {
        stage.is_ready(&format!("n-{n:05}"), "Unknown").await;
    }
}

#[tokio::test]
async fn l7_a_node_whose_machine_is_gone_is_gone_within_30_s_at_the_default_periods() {
    let setup = Setup::mock(&["--synthesize-instances", "--visibility-delay=0s"]);
    let stage = fleet(setup, 10).await;
    let node = stage.node("n-00003").await;
    stage.mock.delete("n-00003").await;
    let began = Instant::now();
    stage.is_ready("n-00003", "Unknown").await;
    stage.has_left(9).await;
    let took = began.elapsed();
    println!("gone after {took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");

    // this node as it was looked at, and no other of its name.
    let requests = stage.proxy.requests();
    let deletes: Vec<_> = requests.iter().filter(|r| r.method == "DELETE").collect();
    assert_eq!(deletes.len(), 1);
    let presumed = &deletes[0].json()["preconditions"];
    assert_eq!(presumed["uid"], json!(uid(&node)));
    assert!(presumed["resourceVersion"].is_string(), "{presumed}");
    until("the event", async || {
        let events = stage.events_of(&node).await;
        let event = events.iter().find(|event| reason(event) == "DeletingNode");
        let event = event.ok_or("no event")?;
        assert_eq!(
            event.message.as_deref(),
            Some("Deleting node n-00003 because it does not exist in the cloud provider")
        );
        let source = event
            .source
            .as_ref()
            .and_then(|source| source.component.as_deref());
        assert_eq!(source, Some("cloud-node-lifecycle-controller"));
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn nothing_but_certainty_deletes_a_node() {
    let arguments = [
        "--synthesize-instances",
        "--visibility-delay=0s",
        "--lookup-preference=list",
    ];
    let setup = Setup::mock(&arguments)
        .flag("--node-monitor-period=200ms")
        .flag("--node-status-update-frequency=300ms");
    let stage = fleet(setup, 20).await;
    // Half of the kubelets are alive, whatever the lists say.
    lost(&stage, 10).await;
    let error = |code, reason: &str| Effect::Error(InjectedError::new(code).with_reason(reason));
    let faults = [
        error(Code::Unauthenticated, "CREDENTIALS_INVALID"),
        error(Code::Unavailable, "CLOUD_UNAVAILABLE"),
        Effect::Error(InjectedError::new(Code::NotFound)),
        Effect::Hang { duration: None },
        Effect::BadAnswer(BadAnswer::Empty),
        Effect::BadAnswer(BadAnswer::NotManaged),
        Effect::BadAnswer(BadAnswer::StaleAbsence),
    ];
    let mut faults = faults
        .map(|effect| Fault::on(Method::BatchGetInstances, effect))
        .to_vec();
    let cut_off = Effect::BadAnswer(BadAnswer::Empty);
    faults.push(Fault::on(Method::ListInstances, cut_off));
    faults.push(Fault::on(
        Method::ListInstances,
        Effect::Hang { duration: None },
    ));
    for fault in faults {
        let what = format!("no Node is deleted with {fault:?}");
        stage.mock.inject(fault).await;
        stays(&what, Duration::from_secs(1), async || {
            let left = stage.named("n-").await.len();
            holds(left == 20, || format!("{left} are left"))
        })
        .await;
        stage.mock.clear().await;
    }
    let writes = stage.writes();
    assert!(!writes.iter().any(|write| write.starts_with("DELETE")));
}

#[tokio::test]
async fn thirty_of_a_hundred_exceed_the_limit_and_deleted_after_a_second_look() {
    // The other nodes are found between the first look and the second.
    let setup = quick()
        .flag("--node-deletion-window=4s")
        .flag("--node-status-update-frequency=1s");
    let stage = fleet(setup, 100).await;
    for n in 0..30 {
        stage.mock.delete(&format!("n-{n:05}")).await;
    }
    let began = Instant::now();
    lost(&stage, 30).await;
    let node = stage.node("n-00007").await;
    until("the node gets an event", async || {
        let events = stage.events_of(&node).await;
        let is_withheld = events
            .iter()
            .any(|event| reason(event) == "NodeDeletionWithheld");
        holds(is_withheld, || format!("{events:?}"))
    })
    .await;
    stage.has_left(70).await;
    assert!(
        began.elapsed() > Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_cloud_that_has_lost_everything_deletes_nothing_until_a_person_says_so() {
    let stage = fleet(quick().flag("--node-deletion-window=1s"), 12).await;
    for n in 0..12 {
        stage.mock.delete(&format!("n-{n:05}")).await;
    }
    lost(&stage, 12).await;
    stays("all are held", Duration::from_secs(4), async || {
        let left = stage.named("n-").await.len();
        holds(left == 12, || format!("{left}"))
    })
    .await;
    let confirm = json!({"metadata": {"labels": {"outrigger.dev.node-restriction.kubernetes.io/confirm-deletion": "true"}}});
    stage.merge("n-00004", confirm).await;
    stage.has_left(11).await;
}
