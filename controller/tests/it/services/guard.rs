//! A set of nodes that loses most of its members at once is not believed at once.

use std::time::Duration;

use futures::future::join_all;
use outrigger_testbed::nodes::Machine;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{alone, fleet};
use crate::{
    cluster::services::load_balancer,
    look::uid,
    stage::{Setup, Stage},
    wait::{holds, stays},
};

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Eight nodes of which two may go at once.
fn guarded(hold: &str) -> Setup {
    alone(&[]).machines(fleet(8)).flags(&[
        "--load-balancer-shrink-count=1",
        "--load-balancer-shrink-fraction=0.2",
        &format!("--load-balancer-shrink-hold={hold}"),
    ])
}

impl Stage {
    /// Excludes all nodes but the first, or takes them in again, all at once.
    async fn label_all_but_one(&self, value: Value) {
        let names: Vec<_> = (1..8).map(|n| format!("n-{n:05}")).collect();
        let label = json!({"metadata": {"labels": {EXCLUDE: value}}});
        join_all(names.iter().map(|name| self.merge(name, label.clone()))).await;
    }
}

#[tokio::test]
async fn a_mass_departure_is_held_then_believed() {
    let mut stage = guarded("3s").start().await;
    let service = stage.serve(load_balancer("web")).await;
    let began = Instant::now();
    stage.label_all_but_one("true".into()).await;
    // One or another may have gone before the others.
    stays("most are kept", Duration::from_secs(2), async || {
        let targets = stage.mock.targets(uid(&service)).await;
        holds(targets.len() >= 6, || format!("{targets:?}"))
    })
    .await;
    // A load balancer that is made meanwhile has the kept targets.
    let other = stage.serve(load_balancer("other")).await;
    if began.elapsed() < Duration::from_secs(3) {
        let targets = stage.mock.targets(uid(&other)).await;
        assert!(
            targets.len() >= 6 || began.elapsed() > Duration::from_secs(3),
            "{targets:?}"
        );
    }
    stage.mock.sends_to(uid(&service), &["n-00000"]).await;
    stage.mock.sends_to(uid(&other), &["n-00000"]).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(3), "{took:?}");
    let lines = stage.controller.lines("WARN");
    assert!(lines > 0, "no load balancer is updated");
    stage.controller.terminate().await;
}

#[tokio::test]
async fn nodes_that_come_back_in_time_were_never_gone() {
    let stage = guarded("20s").start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.label_all_but_one("true".into()).await;
    stays("most are kept", Duration::from_secs(1), async || {
        let targets = stage.mock.targets(uid(&service)).await;
        holds(targets.len() >= 6, || format!("{targets:?}"))
    })
    .await;
    stage.label_all_but_one(Value::Null).await;
    let all: Vec<_> = (0..8).map(|n| format!("n-{n:05}")).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    stage.mock.sends_to(uid(&service), &all).await;
    // Nodes that are added later go out in the usual time: the guard delays nothing any more.
    stage.register(&Machine::new("o-new").initialized()).await;
    let more = [&all[..], &["o-new"]].concat();
    stage.mock.sends_to(uid(&service), &more).await;
}

#[tokio::test]
async fn without_the_guard_all_go_at_once() {
    let stage = guarded("0s").start().await;
    let service = stage.serve(load_balancer("web")).await;
    let began = Instant::now();
    stage.label_all_but_one("true".into()).await;
    stage.mock.sends_to(uid(&service), &["n-00000"]).await;
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}
