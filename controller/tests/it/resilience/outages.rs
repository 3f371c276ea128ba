//! `kill -9` in the middle of many nodes: `OUTRIGGER_TEST_NODES` of them, or a few.

use std::{env, time::Duration};

use outrigger_testbed::nodes::Machine;

use crate::{
    look::{addresses, is_tainted, provider_id},
    plane::USER,
    stage::{Setup, Stage},
    wait::{holds, until},
};

/// How long the killed program is away.
const AWAY: Duration = Duration::from_secs(3);

fn count() -> usize {
    env::var("OUTRIGGER_TEST_NODES").map_or(60, |count| count.parse().unwrap())
}

/// A cloud that is so slow that there is a middle.
fn slow(count: usize) -> Setup {
    let batch = format!("--max-batch-size={}", count.div_ceil(8).min(500));
    let args = ["--synthesize-instances", "--latency=2s", &batch];
    Setup::mock(&args).machines(Machine::numbered("many-", count))
}

/// Waits until some nodes are initialised, of which there must be more.
async fn in_the_middle(stage: &Stage, count: usize) {
    let done = until("some nodes are initialised", async || {
        let nodes = stage.named("many-").await;
        let done = nodes.iter().filter(|node| !is_tainted(node)).count();
        holds(done > 0, || "none".to_owned())?;
        Ok(done)
    })
    .await;
    assert!(done < count, "all {count} are done: there is no middle");
}

/// Everything that is written about a node is there, once.
async fn all_done(stage: &Stage, count: usize) {
    let nodes = until("all are initialised", async || {
        let nodes = stage.named("many-").await;
        let done = nodes.iter().filter(|node| {
            let has_id = provider_id(node).is_some_and(|id| id.starts_with("mock://i-"));
            !is_tainted(node) && has_id && addresses(node).len() == 3
        });
        let done = done.count();
        holds(done == count, || format!("{done} of {count}"))?;
        Ok(nodes)
    })
    .await;
    for node in nodes {
        let events = stage.events_of(&node).await;
        let counts: Vec<_> = events.iter().map(|event| event.count).collect();
        assert!(counts.is_empty() || counts == [Some(1)], "{counts:?}");
    }
}

#[tokio::test]
async fn a_provider_that_is_killed_in_the_middle_and_comes_back_costs_nothing_but_time() {
    let count = count();
    let mut stage = slow(count).start().await;
    let pid = stage.controller.pid();
    in_the_middle(&stage, count).await;
    stage.mock.kill().await;
    stage
        .controller
        .says(&["provider down; queues wait", "provider.sock"])
        .await;
    tokio::time::sleep(AWAY).await;
    stage.restart_mock().await;
    all_done(&stage, count).await;
    stage.all_synced("many-", count).await;
    assert_eq!(
        stage.writes().len(),
        3 * count,
        "something was written twice"
    );
    assert_eq!(stage.controller.pid(), pid);
    // Once for each reason, not with each try: lost, refused, and perhaps no file.
    let lines = stage.controller.lines("provider down");
    assert!((1..=3).contains(&lines), "{lines}");
    stage.controller.says(&["provider ready"]).await;
    stage.controller.terminate().await;
}

#[tokio::test]
async fn an_api_server_that_is_killed_in_the_middle_and_comes_back_costs_nothing_but_time() {
    let count = count();
    let backstage = slow(count).prepare().await;
    let kubeconfig = backstage.plane.kubeconfig(USER, None).unwrap();
    let mut stage = backstage.start_with(&kubeconfig);
    let pid = stage.controller.pid();
    in_the_middle(&stage, count).await;
    stage.plane.kill_apiserver().await.unwrap();
    stage
        .controller
        .says(&["cannot watch; trying again with back-off"])
        .await;
    tokio::time::sleep(AWAY).await;
    stage.plane.start_apiserver().await.unwrap();
    all_done(&stage, count).await;
    stage.all_synced("many-", count).await;
    // And it sees what is new.
    stage.register(&Machine::new("afterwards")).await;
    stage.synced("afterwards").await;
    assert_eq!(stage.controller.pid(), pid);
    stage.controller.terminate().await;
}

#[tokio::test]
async fn a_controller_that_is_killed_in_the_middle_goes_on_where_it_was() {
    let count = count();
    let mut stage = slow(count).start().await;
    in_the_middle(&stage, count).await;
    stage.kill_controller().await;
    let done = stage
        .named("many-")
        .await
        .iter()
        .filter(|node| !is_tainted(node))
        .count();
    stage.start_controller();
    until("all are initialised", async || {
        let nodes = stage.named("many-").await;
        let tainted = nodes.iter().filter(|node| is_tainted(node)).count();
        holds(tainted == 0, || {
            format!("{tainted} of {count} have the taint")
        })
    })
    .await;
    assert!(done < count, "all {count} were done: there was no middle");
    let patches = stage.writes();
    let patches = patches
        .iter()
        .filter(|write| write.starts_with("PATCH") && !write.ends_with("/status"));
    // At most one that was on its way.
    let patches = patches.count();
    assert!(
        (count..=count + 32).contains(&patches),
        "{patches} patches of {count} nodes"
    );
}
