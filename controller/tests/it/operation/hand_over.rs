//! A leader that ends, in order or not, and the one that follows it.
//!
//! `OUTRIGGER_TEST_ROUNDS=10` hands over ten times in a row. With `OUTRIGGER_TEST_FULL=1` the leader
//! that is killed has upstream's 15 s, else less. `-- --nocapture` shows how long all took.

use std::{env, time::Duration};

use outrigger_testbed::nodes::Machine;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::{
    mock::instance,
    replica::LEASE,
    stage::Setup,
    wait::{holds, until},
};

/// After SIGTERM of the leader.
const HAND_OVER: Duration = Duration::from_secs(3);

/// Besides the lease duration, after `kill -9`.
const TAKE_OVER: Duration = Duration::from_secs(2);

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
        let flags = [
            "--leader-elect-lease-duration=4s",
            "--leader-elect-renew-deadline=3s",
            "--leader-elect-retry-period=500ms",
        ];
        (Duration::from_secs(4), setup.flags(&flags))
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
