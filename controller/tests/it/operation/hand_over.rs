//! A leader that ends, in order or not, and the one that follows it, or does not contend.
//!
//! `OUTRIGGER_TEST_ROUNDS=10` hands over ten times in a row. With `OUTRIGGER_TEST_FULL=1` the leader
//! that is killed has upstream's 15 s, else less. `-- --nocapture` shows how long all took.

use std::{env, time::Duration};

use outrigger_testbed::{
    faults::{Cut, Fault, Rule},
    nodes::Machine,
};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::{
    mock::instance,
    replica::LEASE,
    stage::Setup,
    wait::{holds, stays, until},
};

/// After SIGTERM of the leader.
const HAND_OVER: Duration = Duration::from_secs(3);

/// Besides the lease duration, after `kill -9`.
const TAKE_OVER: Duration = Duration::from_secs(2);

/// Times of a lease that is over soon.
const SHORT: [&str; 3] = [
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
];
const RENEW_DEADLINE: Duration = Duration::from_secs(3);

/// A request that leaves in time may arrive a little later, on a machine that is busy.
const TRANSIT: Duration = Duration::from_millis(300);

fn rounds() -> i32 {
    env::var("OUTRIGGER_TEST_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap())
}

/// PROC-11, PROC-12 and Q-22 are what upstream does instead.
#[tokio::test]
async fn a_leader_with_a_termination_signal_is_followed_within_3_s() {
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
        assert!(took <= HAND_OVER, "{took:?}");

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
async fn a_leader_that_is_killed_is_followed_when_its_lease_has_expired() {
    let full = env::var("OUTRIGGER_TEST_FULL").is_ok_and(|full| full == "1");
    let setup = Setup::without_provider();
    let (lease, setup) = if full {
        (Duration::from_secs(15), setup)
    } else {
        (Duration::from_secs(5), setup.flags(&SHORT))
    };
    let cluster = setup.prepare().await;
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
    assert!(took <= lease + TAKE_OVER, "{took:?}");
    // Upstream's promise, too: no replica takes a held lease.
    let claimed = &next.claims(LEASE)[0];
    let last = leader.claims(LEASE).pop().unwrap();
    assert!(claimed.started - last.started >= lease);
    assert_eq!(cluster.lease(LEASE).await.lease_transitions, Some(1));
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
    // A process that lives is not one of the past.
    let mut beside = cluster.part("beside").flag(&flag).start().await;
    beside
        .controller
        .says(&["--leader-elect-identity-file is not used"])
        .await;
    beside.follows(&mut leader).await;
    // Nor has a disk that is full anything to do with the work.
    let flag_of_none = "--leader-elect-identity-file=/dev/full";
    let mut without = cluster.part("without").flag(flag_of_none).start().await;
    without.follows(&mut leader).await;

    leader.controller.kill().await;
    let killed = Instant::now();
    let mut again = cluster.part("again").flag(&flag).start().await;
    again.own_node(&cluster, "orphan").await;
    cluster.initialized("orphan").await;
    println!(
        "the node was initialised {:.2?} after kill -9",
        killed.elapsed()
    );
    let lease = cluster.lease(LEASE).await;
    assert_eq!(lease.holder_identity.as_ref(), Some(&own));
    assert_eq!(lease.lease_transitions, Some(0));
    assert!(standby.claims(LEASE).is_empty() && beside.claims(LEASE).is_empty());

    // A process that ends by itself is not taken for one that was killed.
    assert_eq!(again.identity().await, own);
    again.controller.terminate().await;
    let identities = std::fs::read_to_string(&file).unwrap();
    assert!(!identities.contains(&own), "{identities}");
}

/// It could go on writing, and does until the deadline: only the lease is out of its reach. The end is upstream's (PROC-13).
#[tokio::test]
async fn a_leader_that_cannot_renew_writes_until_the_renew_deadline_and_not_after() {
    let cluster = Setup::without_provider().flags(&SHORT).prepare().await;
    let mut leader = cluster.replica("leader").await;
    leader.leads().await;
    let unreachable = Rule::new(Fault::Silence).path_contains("/leases");
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

    let deadline = leader.claims(LEASE).pop().unwrap().started + RENEW_DEADLINE;
    let early = deadline.saturating_duration_since(ended + TRANSIT);
    assert_eq!(early, Duration::ZERO, "too early");
    let late = ended.saturating_duration_since(deadline);
    assert!(late < Duration::from_secs(1), "{late:?} too late");
    let requests = leader.proxy.requests();
    let late = requests
        .iter()
        .filter(|request| request.started > deadline + TRANSIT);
    let late: Vec<_> = late
        .map(|request| (&request.method, &request.path, request.started - deadline))
        .collect();
    assert!(late.is_empty(), "{late:?}");
    let written = requests
        .iter()
        .filter(|request| request.is_write() && request.path.contains("/nodes/"));
    assert!(written.filter(|request| request.started > began).count() > 3);
}

#[tokio::test]
async fn a_replica_whose_provider_is_not_there_does_not_contend() {
    let cluster = Setup::without_provider()
        .flag("--leader-elect-retry-period=200ms")
        .prepare()
        .await;
    let mut without = cluster.part("without").without_provider().start().await;
    without.controller.says(&["no provider answers"]).await;
    let mut with = cluster.replica("with").await;
    with.leads().await;
    with.own_node(&cluster, "first").await;
    cluster.initialized("first").await;
    // The Lease is free, and no replica without a provider takes it.
    with.controller.terminate().await;
    stays("the lease is free", Duration::from_secs(2), async || {
        let holder = cluster.lease(LEASE).await.holder_identity;
        holds(holder.as_deref() == Some(""), || format!("{holder:?}"))
    })
    .await;
    assert!(without.claims(LEASE).is_empty());
    without.mock.start(&[]).await;
    without.leads().await;
    without.own_node(&cluster, "second").await;
    cluster.initialized("second").await;
}
