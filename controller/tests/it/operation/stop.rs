//! SIGTERM while load balancers are made.

use std::time::Duration;

use http::Method;
use outrigger_provider_mock::faults::{Effect, Fault, Method as Call};
use outrigger_testbed::{
    faults::{Cut, Fault as ApiFault, Rule},
    nodes::Machine,
};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::{
    cluster::services::load_balancer,
    replica::LEASE,
    stage::Setup,
    wait::{holds, until},
};

/// How long the cloud takes for one load balancer.
const SLOW: Duration = Duration::from_secs(5);

/// Load balancers that are made at once: what a provider takes that does not say.
const AT_ONCE: u64 = 16;

const SERVICES: usize = 40;

#[tokio::test]
async fn after_sigterm_no_ensure_begins_and_the_standby_leads_after_the_last_answer() {
    let cluster = Setup::without_provider()
        .flag("--controllers=service-lb-controller")
        .prepare()
        .await;
    let nodes = Machine::numbered("n-", 2).map(Machine::initialized);
    cluster.register_all(nodes).await;
    let mut leader = cluster.replica("leader").await;
    let slow = Effect::Hang {
        duration: Some(SLOW),
    };
    let slow = Fault::on(Call::EnsureLoadBalancer, slow);
    leader.mock.inject(slow).await;
    leader.leads().await;
    let mut next = cluster.replica("next").await;
    next.follows(&mut leader).await;
    // Without the remembered targets the next leader updates all load balancers, and each replica's cloud has its own.
    cluster.targets_are_remembered().await;

    for n in 0..SERVICES {
        cluster
            .create_service(load_balancer(&format!("web-{n}")))
            .await;
    }
    // One write before each call: then as many are in flight as may be, and others wait.
    until("Services are in flight", async || {
        let requests = leader.proxy.requests();
        let patches = requests.iter().filter(|r| r.method == Method::PATCH);
        let patches = patches.count();
        holds(patches >= 32, || format!("{patches}"))
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(leader.mock.calls(Call::EnsureLoadBalancer).await, 0);

    let signalled = Instant::now();
    leader.controller.signal(Signal::TERM);
    let status = leader.controller.ended().await;
    let took = signalled.elapsed();
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(took < SLOW + Duration::from_secs(2), "{took:?}");
    let calls = leader.mock.calls(Call::EnsureLoadBalancer).await;
    assert_eq!(calls, AT_ONCE, "those that were in flight, and no other");
    let written = leader.mock.owners().await.len();
    assert_eq!(written as u64, AT_ONCE);

    next.leads().await;
    assert!(signalled.elapsed() < took + Duration::from_secs(3));
    let released = leader.claims(LEASE).pop().unwrap();
    assert_eq!(released.json()["spec"]["holderIdentity"], "");
    // The Services hold the answers that the first leader got: the next one calls for the others only.
    until("the others have their load balancers", async || {
        let made = next.mock.owners().await.len();
        let expected = SERVICES - usize::try_from(AT_ONCE).unwrap();
        holds(made == expected, || format!("{made} of {expected}"))
    })
    .await;
}

/// The lease expires for the others while this process waits for its calls.
#[tokio::test]
async fn a_lease_that_is_lost_after_sigterm_drops_the_calls_in_flight() {
    let cluster = Setup::without_provider()
        .flags(&[
            "--controllers=service-lb-controller",
            "--leader-elect-lease-duration=5s",
            "--leader-elect-renew-deadline=3s",
            "--leader-elect-retry-period=500ms",
        ])
        .prepare()
        .await;
    let nodes = Machine::numbered("n-", 2).map(Machine::initialized);
    cluster.register_all(nodes).await;
    let mut leader = cluster.replica("leader").await;
    let stuck = Effect::Hang { duration: None };
    let stuck = Fault::on(Call::EnsureLoadBalancer, stuck);
    leader.mock.inject(stuck).await;
    leader.leads().await;
    let mut next = cluster.replica("next").await;
    next.follows(&mut leader).await;
    cluster.create_service(load_balancer("web")).await;
    leader
        .controller
        .says(&["ensuring the load balancer"])
        .await;
    sleep(Duration::from_secs(1)).await;

    let unreachable = Rule::new(ApiFault::Silence);
    leader.proxy.inject(unreachable);
    leader.proxy.cut_watches("/leases", Cut::Abrupt);
    let signalled = Instant::now();
    leader.controller.signal(Signal::TERM);
    let dropped = "lease lost with work still in flight";
    until("the calls are dropped", async || {
        let lines = leader.controller.lines(dropped);
        holds(lines > 0, || "not yet".to_owned())
    })
    .await;
    let took = signalled.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    until("the call is over", async || {
        let calls = leader.mock.calls(Call::EnsureLoadBalancer).await;
        holds(calls == 1, || format!("{calls}"))
    })
    .await;
    assert!(next.claims(LEASE).is_empty(), "the next leader comes later");
    leader.controller.ended().await;
    next.leads().await;
}
