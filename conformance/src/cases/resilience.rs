//! Broken connections, deadlines, restarts, and no stale resources.

mod load_balancers;
mod process;

use std::time::Duration;

use futures::{FutureExt as _, future::join_all};
use outrigger_api::v1::{BatchGetInstancesRequest, GetStatusRequest, ListInstancesRequest};
use tokio::time::{Instant, sleep};

use crate::{
    call_error::CallError,
    capability::Capability,
    case::{Check, check},
    client::Client,
    inputs::limit,
    subject::Subject,
    verdict::{Verdict, expect, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![
        check("RES-02", lost_lookups),
        check("RES-09", nothing_left),
        check("RES-25", hanging_cloud),
    ];
    checks.extend(process::checks());
    checks.extend(load_balancers::checks());
    checks
}

async fn look_up(subject: &Subject) -> Result<(), CallError> {
    let request = BatchGetInstancesRequest {
        items: vec![subject.unknown_node()],
        ..BatchGetInstancesRequest::default()
    };
    subject.client.results(request).await.map(drop)
}

async fn is_healthy(subject: &Subject) -> Verdict {
    let subject = &subject.connect().await?;
    subject.client.call(GetStatusRequest {}).await?;
    look_up(subject).await?;
    Ok(())
}

async fn lost_lookups(subject: &Subject) -> Verdict {
    let hurried = subject.with_deadline(Duration::from_millis(1));
    for _ in 0..10 {
        // In time or not: both are answers.
        let _ = look_up(&hurried).await;
    }
    is_healthy(subject).await?;
    for wait in [0, 1, 5, 20] {
        let subject = &subject.connect().await?;
        let cut = async {
            sleep(Duration::from_millis(wait)).await;
            subject.client.cut();
        };
        // The lookup is first: its request is on the way. It may have ended before.
        let _ = tokio::join!(look_up(subject), cut);
    }
    is_healthy(subject).await?;
    if subject.declares(Capability::InstancesList) {
        for wait in [0, 1, 5] {
            let listed = subject.client.list(ListInstancesRequest::default());
            let _ = tokio::time::timeout(Duration::from_millis(wait), listed).await;
        }
    }
    is_healthy(subject).await
}

async fn nothing_left(subject: &Subject) -> Verdict {
    // Once more: a Delete that failed after its case may work by now.
    subject.clean_up().await?;
    sleep(limit(subject.inputs().limits.late)).await;
    // By UIDs: names may be empty in a list.
    let listed = if subject.load_balancers().list {
        subject.listed_services().await?
    } else {
        Vec::new()
    };
    let uids = listed.into_iter().map(|tag| tag.uid);
    let mut left = subject.leftovers().expect_again(uids);
    left.extend(subject.new_in_cloud().await?);
    expect(
        left.is_empty(),
        "the list, and commands.cloudState, have nothing of this run",
        left.join("\n"),
    )
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

async fn hanging_cloud(subject: &Subject) -> Verdict {
    let during = format!("while {LOOKUPS} lookups wait for the cloud");
    let check = async {
        let beside = async {
            for _ in 0..5 {
                // Also those that a provider begins late fill its threads.
                sleep(BEGUN / 2).await;
                status(&subject.client, &during).await?;
            }
            subject.connect().await.map(drop)
        };
        beside_lookups(subject, beside).await?;
        for _ in 0..WAVES {
            // Some servers close a connection on which much is given up at once.
            let subject = &subject.connect().await?;
            beside_lookups(subject, sleep(BEGUN).map(Ok)).await?;
        }
        let during = format!("after {} lookups were given up", WAVES * LOOKUPS);
        status(&subject.connect().await?.client, &during).await
    };
    let hangs = &subject.inputs().commands.cloud_hangs;
    Box::pin(subject.switched(hangs, check)).await?;
    is_healthy(subject).await
}
