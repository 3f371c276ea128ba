//! How changes of nodes reach load balancers: gathered, removed nodes immediately, and what
//! becomes of updates that fail (S-53 to S-55, S-57, Q-8, Q-28, Q-34).

use std::time::Duration;

use futures::future::join_all;
use kube::api::DeleteParams;
use outrigger_provider_mock::faults::Effect;
use outrigger_testbed::nodes::Machine;
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::{ENSURE, GET, UPDATE, fleet, quick};
use crate::{
    cluster::services::load_balancer,
    look::{services::condition, uid},
    mock::load_balancers::{about, error},
    stage::{Setup, Stage},
    wait::{holds, stays, until},
};

impl Stage {
    /// Waits until so many Services were given new targets, each time counted.
    pub(super) async fn updated(&self, times: u64) {
        until(&format!("{times} updates"), async || {
            let updates = self.mock.updates().await;
            holds(updates >= times, || format!("{updates} so far"))
        })
        .await;
    }

    /// Makes so many Services, `s-0` and so on, and waits until all are served.
    pub(super) async fn serve_many(&self, count: usize) -> Vec<String> {
        let names: Vec<_> = (0..count).map(|n| format!("s-{n}")).collect();
        let made = names
            .iter()
            .map(|name| self.create_service(load_balancer(name)));
        join_all(made).await;
        let mut uids = Vec::new();
        for name in &names {
            uids.push(uid(&self.served(name).await).to_owned());
        }
        uids
    }
}

/// S-57: upstream makes a thousand calls of this, or two thousand.
#[tokio::test]
async fn s57_ten_nodes_that_join_are_two_calls_for_each_of_a_hundred_services_at_most() {
    const SERVICES: u64 = 100;
    // The defaults, without any flag of ours.
    let setup = Setup::mock(&["--latency=5ms"])
        .flag("--controllers=service-lb-controller")
        .machines(fleet(2));
    let stage = setup.start().await;
    let uids = stage.serve_many(SERVICES as usize).await;
    assert_eq!(stage.mock.updates().await, 0);
    for n in 0..10 {
        let machine = Machine::new(format!("new-{n}")).initialized();
        stage.register(&machine).await;
    }
    until("all have all nodes", async || {
        let all = stage.mock.load_balancers().await;
        let done = all.iter().filter(|one| one.targets.len() == 12).count();
        holds(done == uids.len(), || format!("{done} of {}", uids.len()))
    })
    .await;
    let updates = stage.mock.updates().await;
    println!("{updates} updates");
    assert!(updates <= 2 * SERVICES, "{updates}");
    assert_eq!(stage.mock.calls(ENSURE).await, SERVICES);
}

/// Added nodes wait for others, up to the ceiling; a removed node does not wait.
#[tokio::test]
async fn a_node_that_goes_is_sent_at_once_and_one_that_comes_waits_for_others() {
    let setup = Setup::mock(&[]).machines(fleet(4)).flags(&[
        "--controllers=service-lb-controller",
        "--load-balancer-update-idle=20s",
        "--load-balancer-update-ceiling=30s",
    ]);
    let stage = setup.start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.register(&Machine::new("new").initialized()).await;
    stays("it waits", Duration::from_secs(1), async || {
        let updates = stage.mock.updates().await;
        holds(updates == 0, || format!("{updates} updates"))
    })
    .await;
    let began = Instant::now();
    stage
        .nodes()
        .delete("n-00003", &DeleteParams::default())
        .await
        .unwrap();
    // Nodes that were added meanwhile go with it.
    let expected = ["n-00000", "n-00001", "n-00002", "new"];
    stage.mock.sends_to(uid(&service), &expected).await;
    let took = began.elapsed();
    println!("updated after {took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(stage.mock.updates().await, 1);
}

#[tokio::test]
async fn no_node_waits_longer_than_the_ceiling_however_many_follow_it() {
    let setup = Setup::mock(&[]).machines(fleet(1)).flags(&[
        "--controllers=service-lb-controller",
        "--load-balancer-update-idle=3s",
        "--load-balancer-update-ceiling=3s",
    ]);
    let stage = setup.start().await;
    stage.serve(load_balancer("web")).await;
    let began = Instant::now();
    // Never three seconds without one.
    for n in 0.. {
        stage
            .register(&Machine::new(format!("o-{n}")).initialized())
            .await;
        if stage.mock.updates().await > 0 {
            break;
        }
        sleep(Duration::from_millis(500)).await;
    }
    let took = began.elapsed();
    println!("updated after {took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test]
async fn a_provider_without_node_sets_gets_the_nodes_themselves() {
    let stage = quick(&["--without-node-sets"]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage
        .mock
        .sends_to(uid(&service), &["n-00000", "n-00001"])
        .await;
    stage.register(&Machine::new("new").initialized()).await;
    stage
        .mock
        .sends_to(uid(&service), &["n-00000", "n-00001", "new"])
        .await;
    assert_eq!(stage.mock.changes().await, [1, 1, 0]);
}

/// S-55, Q-34: an event with the names in order, and ensured at once; without S-55's question first.
#[tokio::test]
async fn s55_an_update_that_fails_makes_an_event_and_the_service_is_ensured() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    let other = stage.serve(load_balancer("other")).await;
    let failure = error(Code::FailedPrecondition, "DEPENDENCY_NOT_READY", "no luck");
    let failure = about(UPDATE, "web", Effect::Error(failure));
    stage.mock.inject(failure.times(1)).await;
    stage.register(&Machine::new("a-new").initialized()).await;
    let expected = ["a-new", "n-00000", "n-00001"];
    stage.mock.sends_to(uid(&other), &expected).await;
    let event = stage.event(&service, "UpdateLoadBalancerFailed").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let message = event.message.unwrap();
    let start = "Error updating load balancer with new hosts [a-new n-00000 n-00001] [node names \
                 limited, total number of nodes: 3], error: no luck";
    assert!(message.starts_with(start), "{message}");
    stage.mock.sends_to(uid(&service), &expected).await;
    assert_eq!(stage.mock.calls(ENSURE).await, 3);
    assert_eq!(stage.mock.calls(GET).await, 0);
    // A load balancer that healed immediately was never out of sync for long.
    let now = stage.service("web").await;
    assert_eq!(condition(&now, "TargetsInSync"), ("True", "InSync"));
}

/// S-55: where upstream is content, for there is nothing to update, there should be something.
#[tokio::test]
async fn s55_a_load_balancer_that_is_gone_when_it_is_to_be_updated_is_made_again() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.mock.lose_load_balancer("default/web").await;
    stage.register(&Machine::new("new").initialized()).await;
    stage
        .mock
        .sends_to(uid(&service), &["n-00000", "n-00001", "new"])
        .await;
    assert_eq!(stage.mock.changes().await, [2, 1, 0]);
}

/// upstream does not honour it here.
#[tokio::test]
async fn q28_an_update_that_is_under_way_is_asked_about_when_the_provider_says() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    let busy = error(Code::Aborted, "OPERATION_IN_PROGRESS", "busy");
    let busy = Effect::Error(busy.retry_after(Duration::from_secs(2)));
    stage.mock.inject(about(UPDATE, "web", busy).times(1)).await;
    stage.register(&Machine::new("new").initialized()).await;
    stage.updated(1).await;
    let began = Instant::now();
    stage.event(&service, "UpdatedLoadBalancer").await;
    let took = began.elapsed();
    // Some of the time may have passed before the test looked.
    assert!(took >= Duration::from_secs(1), "{took:?}");
    assert_eq!(stage.mock.updates().await, 2);
    assert_eq!(stage.mock.changes().await, [1, 2, 0]);
    let reasons = stage.reasons_of(&service).await;
    assert!(
        !reasons.contains(&"UpdateLoadBalancerFailed".to_owned()),
        "{reasons:?}"
    );
}

/// upstream gives targets to what is being ensured at that moment.
#[tokio::test]
async fn q8_a_service_that_is_ensured_gets_new_targets_afterwards() {
    let stage = quick(&[]).start().await;
    let other = stage.serve(load_balancer("other")).await;
    let slow = Effect::Hang { duration: None };
    stage.mock.inject(about(ENSURE, "web", slow).times(1)).await;
    let service = stage.create_service(load_balancer("web")).await;
    stage.mock.faults_are_used_up().await;
    stage.register(&Machine::new("new").initialized()).await;
    let expected = ["n-00000", "n-00001", "new"];
    stage.mock.sends_to(uid(&other), &expected).await;
    assert_eq!(stage.mock.updates().await, 1);
    stage.mock.clear().await;
    stage.mock.sends_to(uid(&service), &expected).await;
    stage.served("web").await;
}
