//! A leader that ends, in order or not, and the replica that follows it.
//!
//! `OUTRIGGER_TEST_ROUNDS=10` hands over ten times in a row. With `OUTRIGGER_TEST_FULL=1` the leader
//! that is killed has upstream's 15 s, else less. `-- --nocapture` shows how long all took.

use std::{env, time::Duration};

use outrigger_provider_mock::faults::{Effect, Fault, Method as Call};
use outrigger_testbed::{
    faults::{Cut, Fault as ApiFault, Rule},
    nodes::Machine,
};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::{
    cluster::services::load_balancer,
    mock::instance,
    replica::LEASE,
    stage::Setup,
    wait::{holds, stays, until},
};

/// The default; after SIGTERM no replica waits for its end.
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// Times of a lease that is over soon.
const SHORT: [&str; 3] = [
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
];
const SHORT_DURATION: Duration = Duration::from_secs(5);

fn rounds() -> i32 {
    env::var("OUTRIGGER_TEST_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap())
}

/// Load balancers that are made at once: what a provider takes that does not say.
const AT_ONCE: u64 = 16;

const SERVICES: usize = 40;

/// PROC-11, PROC-12 and Q-22 are what upstream does instead.
#[tokio::test]
async fn a_leader_with_a_termination_signal_is_followed_long_before_its_lease_expires() {
    let cluster = Setup::without_provider().prepare().await;
    let mut leader = cluster.replica("round-0").await;
    leader.leads().await;
    for round in 1..=rounds() {
        let name = format!("round-{round}");
        let mut next = cluster.replica(&name).await;
        next.follows(&mut leader).await;
        next.mock.create(instance(&name)).await;

        let signalled = Instant::now();
        leader.controller.signal(Signal::TERM);
        // Without this wait the leader may look at the Node itself.
        until("the leader takes no new work", async || {
            let ending = leader.controller.lines("ending: no new work") > 0;
            holds(ending, || "it goes on".to_owned())
        })
        .await;
        cluster.register(&Machine::new(&name)).await;
        cluster.initialized(&name).await;
        let took = signalled.elapsed();
        println!("round {round}: the node was initialised {took:.2?} after SIGTERM");
        assert!(took < LEASE_DURATION, "{took:?}");

        let status = leader.controller.ended().await;
        assert_eq!(status.code(), Some(0), "{status}");
        assert!(leader.writes_of(&name).is_empty());
        leader.was_allowed_everything();
        let log = leader.controller.log();
        let (_, end) = log.split_once("ending: no new work is taken").unwrap();
        assert!(!end.contains("WARN") && !end.contains("ERROR"), "{end}");
        let released = leader.claims(LEASE).pop().unwrap().json();
        assert_eq!(released["spec"]["holderIdentity"], "");
        let lease = cluster.lease(LEASE).await;
        assert_eq!(lease.holder_identity, Some(next.identity().await));
        assert_eq!(lease.lease_transitions, Some(round));
        leader = next;
    }
}

#[tokio::test]
async fn a_leader_that_is_killed_is_followed_by_a_replica_with_a_provider_when_its_lease_has_expired()
 {
    let full = env::var("OUTRIGGER_TEST_FULL").is_ok_and(|full| full == "1");
    let setup = Setup::without_provider();
    let (lease, setup) = if full {
        (LEASE_DURATION, setup)
    } else {
        (SHORT_DURATION, setup.flags(&SHORT))
    };
    let cluster = setup.prepare().await;
    // A replica without a provider does not contend, not even for a Lease that is free.
    let mut without = cluster.part("without").without_provider().start().await;
    without.controller.says(&["no provider answers"]).await;
    let mut leader = cluster.replica("killed").await;
    leader.leads().await;
    let mut next = cluster.replica("next").await;
    next.follows(&mut leader).await;

    leader.controller.kill().await;
    let killed = Instant::now();
    next.own_node(&cluster, "orphan").await;
    cluster.initialized("orphan").await;
    let took = killed.elapsed();
    println!("the node was initialised {took:.2?} after kill -9, the lease lasts {lease:?}");
    // Upstream's promise, too: no replica takes a held lease.
    let claimed = &next.claims(LEASE)[0];
    let last = leader.claims(LEASE).pop().unwrap();
    assert!(claimed.started - last.started >= lease);
    assert_eq!(cluster.lease(LEASE).await.lease_transitions, Some(1));
    next.controller.terminate().await;
    stays("the lease is free", Duration::from_secs(2), async || {
        let holder = cluster.lease(LEASE).await.holder_identity;
        holds(holder.as_deref() == Some(""), || format!("{holder:?}"))
    })
    .await;
    assert!(without.claims(LEASE).is_empty());
    without.mock.start(&[]).await;
    without.leads().await;
}

/// The Lease lasts longer than the test waits for anything.
#[tokio::test]
async fn a_container_that_starts_again_takes_its_lease_back() {
    let setup = Setup::without_provider().flag("--leader-elect-lease-duration=10m");
    let cluster = setup.prepare().await;
    let file = cluster.dir().join("identity");
    let flag = format!("--leader-elect-identity-file={}", file.display());
    let mut leader = cluster.part("killed").flag(&flag).start().await;
    leader.leads().await;
    let own = leader.identity().await;
    let mut standby = cluster.replica("standby").await;
    standby.follows(&mut leader).await;
    leader.controller.kill().await;
    let killed = Instant::now();
    let again = cluster.part("again").flag(&flag).start().await;
    again.own_node(&cluster, "orphan").await;
    cluster.initialized("orphan").await;
    println!(
        "the node was initialised {:.2?} after kill -9",
        killed.elapsed()
    );
    let lease = cluster.lease(LEASE).await;
    assert_eq!(lease.holder_identity.as_ref(), Some(&own));
    assert_eq!(lease.lease_transitions, Some(0));
    assert!(standby.claims(LEASE).is_empty());
}

/// Only the lease is out of its reach. Tests of the election have the deadline to the millisecond. The end is upstream's (PROC-13).
#[tokio::test]
async fn a_leader_that_cannot_renew_writes_on_and_ends_before_its_lease_expires() {
    let cluster = Setup::without_provider().flags(&SHORT).prepare().await;
    let mut leader = cluster.replica("leader").await;
    leader.leads().await;
    let unreachable = Rule::new(ApiFault::Silence).path_contains("/leases");
    leader.proxy.inject(unreachable);
    leader.proxy.cut_watches("/leases", Cut::Abrupt);
    let began = Instant::now();

    // Work without end.
    let (mock, controller) = (&leader.mock, &mut leader.controller);
    let registering = async {
        for number in 0.. {
            let name = format!("many-{number}");
            mock.create(instance(&name)).await;
            cluster.register(&Machine::new(&name)).await;
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        _ = controller.ended() => {}
        () = registering => {}
    }
    let status = leader.controller.ended().await;
    let ended = Instant::now();
    assert_eq!(status.code(), Some(1), "{status}");
    let log = leader.controller.log();
    let sentence = r#""command failed" err="leaderelection lost""#;
    assert!(log.contains(sentence), "{log}");

    let expiry = leader.claims(LEASE).pop().unwrap().started + SHORT_DURATION;
    let late = ended.saturating_duration_since(expiry);
    assert_eq!(late, Duration::ZERO, "another replica may lead");
    let requests = leader.proxy.requests();
    let mut written = requests
        .iter()
        .filter(|request| request.is_write() && request.path.contains("/nodes/"));
    assert!(written.any(|request| request.started > began));
}

#[tokio::test]
async fn after_sigterm_no_ensure_begins_and_the_standby_leads_after_the_last_answer() {
    let cluster = Setup::without_provider()
        .flag("--controllers=service-lb-controller")
        .prepare()
        .await;
    let nodes = Machine::numbered("n-", 2).map(Machine::initialized);
    cluster.register_all(nodes).await;
    let mut leader = cluster.replica("leader").await;
    let hangs = Fault::on(Call::EnsureLoadBalancer, Effect::Hang { duration: None });
    leader.mock.inject(hangs.times(AT_ONCE)).await;
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
    until("as many calls as may be are in flight", async || {
        let faults = leader.mock.faults().await;
        holds(faults == 0, || format!("{faults} faults"))
    })
    .await;

    leader.controller.signal(Signal::TERM);
    leader
        .controller
        .says(&["ending: no new work is taken"])
        .await;
    assert!(next.claims(LEASE).is_empty());
    leader.mock.clear().await;
    let status = leader.controller.ended().await;
    assert_eq!(status.code(), Some(0), "{status}");
    let calls = leader.mock.calls(Call::EnsureLoadBalancer).await;
    assert_eq!(calls, AT_ONCE, "those that were in flight, and no other");
    let written = leader.mock.owners().await.len();
    assert_eq!(written as u64, AT_ONCE);

    next.leads().await;
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
