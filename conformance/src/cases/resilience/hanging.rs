//! Calls that wait for a cloud that hangs, and that are given up meanwhile.

use std::time::Duration;

use futures::future::join_all;
use outrigger_api::v1::GetStatusRequest;
use tokio::time::{Instant, sleep, timeout};

use super::{
    is_healthy,
    load_balancers::{RUNNING_CHANGE, converges},
    look_up,
};
use crate::{
    case::{Check, check},
    client::Client,
    subject::{Subject, port},
    verdict::{Verdict, expect, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("RES-25", status_beside_lookups),
        check("RES-26", given_up_lookups),
        check("RES-27", given_up_ensure),
    ]
}

/// Lookups that wait at once: more than a small pool of threads has.
const LOOKUPS: usize = 32;
/// How often as many are given up: together more than a large pool has.
const WAVES: usize = 8;
/// The time until a provider has begun calls that were sent to it.
const BEGUN: Duration = Duration::from_millis(100);
/// `GetStatus` answers within 100 ms, with patience for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Does `work` while lookups wait for the cloud, and gives them up at its end.
async fn beside_lookups<T>(
    subject: &Subject,
    work: impl Future<Output = Verdict<T>>,
) -> Verdict<T> {
    let lookups = join_all((0..LOOKUPS).map(|_| look_up(subject)));
    tokio::select! {
        biased;
        _ended = lookups => Err(skipped("no lookup waits for the cloud that hangs")),
        worked = work => worked,
    }
}

async fn status(client: &Client, during: &str) -> Verdict {
    let start = Instant::now();
    client.call(GetStatusRequest {}).await?;
    let took = start.elapsed();
    expect(
        took <= AT_ONCE,
        format!("GetStatus is answered within {AT_ONCE:?} {during}"),
        format!("{took:?}"),
    )
}

async fn status_beside_lookups(subject: &Subject) -> Verdict {
    let during = format!("while {LOOKUPS} lookups wait for the cloud");
    let check = beside_lookups(subject, async {
        for _ in 0..5 {
            // Also those that a provider begins late fill its threads.
            sleep(BEGUN / 2).await;
            status(&subject.client, &during).await?;
        }
        subject.connect().await.map(drop)
    });
    let hangs = &subject.inputs().commands.cloud_hangs;
    Box::pin(subject.switched(hangs, check)).await
}

async fn given_up_lookups(subject: &Subject) -> Verdict {
    let given_up = async {
        for _ in 0..WAVES {
            // Some servers close a connection on which much is given up at once.
            let subject = &subject.connect().await?;
            let wait = async {
                sleep(BEGUN).await;
                Ok(())
            };
            beside_lookups(subject, wait).await?;
        }
        let during = format!("after {} lookups were given up", WAVES * LOOKUPS);
        let subject = &subject.connect().await?;
        status(&subject.client, &during).await
    };
    let hangs = &subject.inputs().commands.cloud_hangs;
    Box::pin(subject.switched(hangs, given_up)).await?;
    is_healthy(subject).await
}

async fn given_up_ensure(subject: &Subject) -> Verdict {
    let nodes = subject.target_nodes();
    let mut service = subject.service();
    subject.ensure(&service, &nodes).await?;
    // Another port and other targets: more than one change in many clouds.
    service.ports = vec![port("TCP", 81, 30081)];
    let targets = subject.targets(&nodes[..1]).await?;
    let given_up = async {
        let ensure = subject.ensure_once(&service, targets);
        match timeout(BEGUN, ensure).await {
            Ok(_ended) => Err(skipped("no Ensure waits for the cloud that hangs")),
            Err(_elapsed) => subject.cloud_changes().await,
        }
    };
    let hangs = &subject.inputs().commands.cloud_hangs;
    let before = Box::pin(subject.switched(hangs, given_up)).await?;
    sleep(RUNNING_CHANGE).await;
    let begun = subject.cloud_changes().await?.saturating_sub(before);
    expect(
        begun <= 1,
        "at most the change that ran when the Ensure was given up",
        format!("{begun} changes after that"),
    )?;
    converges(subject, &service).await
}
