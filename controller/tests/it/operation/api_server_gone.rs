//! A leader that cannot renew its lease: it is over at the renew deadline, and does nothing after.

use std::time::Duration;

use outrigger_testbed::{
    faults::{Cut, Fault, Recorded, Rule},
    nodes::Machine,
};
use tokio::time::{Instant, sleep};

use crate::{
    mock::instance,
    replica::{LEASE, Replica},
    stage::Setup,
};

const RENEW_DEADLINE: Duration = Duration::from_secs(3);

/// A request that leaves in time may arrive a little later, on a machine that is busy.
const TRANSIT: Duration = Duration::from_millis(300);

fn cluster() -> Setup {
    Setup::without_provider().flags(&[
        "--leader-elect-lease-duration=5s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=500ms",
    ])
}

/// The end is upstream's (PROC-13), and no request comes after the deadline.
async fn is_over(leader: &mut Replica) -> Vec<Recorded> {
    let status = leader.controller.ended().await;
    let ended = Instant::now();
    assert_eq!(status.code(), Some(1), "{status}");
    let log = leader.controller.log();
    let sentence = r#""command failed" err="leaderelection lost""#;
    assert!(log.contains(sentence), "{log}");

    let deadline = leader.claims(LEASE).pop().unwrap().started + RENEW_DEADLINE;
    assert!(
        ended + TRANSIT > deadline,
        "{:?} too early",
        deadline - ended
    );
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
    requests
}

/// It could go on writing, and does until the deadline: only the lease is out of its reach.
#[tokio::test]
async fn a_leader_that_cannot_renew_writes_until_the_renew_deadline_and_not_after() {
    let cluster = cluster().prepare().await;
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
    let requests = is_over(&mut leader).await;
    let written = requests
        .iter()
        .filter(|request| request.is_write() && request.path.contains("/nodes/"));
    assert!(written.filter(|request| request.started > began).count() > 3);
}
