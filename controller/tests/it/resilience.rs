//! An API server that is killed: nothing is missed, and nothing is done twice.

use std::{env, time::Duration};

use outrigger_testbed::nodes::Machine;

use crate::{
    look::{addresses, is_tainted, provider_id},
    plane::USER,
    stage::{Setup, Stage},
    wait::{holds, until},
};

/// How long the killed program is away.
const AWAY: Duration = Duration::from_secs(1);

fn count() -> usize {
    env::var("OUTRIGGER_TEST_NODES").map_or(60, |count| count.parse().unwrap())
}

/// A cloud that is so slow that there is a middle.
fn slow(count: usize) -> Setup {
    let batch = format!("--max-batch-size={}", count.div_ceil(8).min(500));
    let args = ["--synthesize-instances", "--latency=1s", &batch];
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
