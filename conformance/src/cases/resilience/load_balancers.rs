//! Load balancers whose calls are duplicated, cut off, or met by the end of the provider.

use std::time::Duration;

use futures::future::{join, try_join_all};
use outrigger_api::v1::{LoadBalancerDisposition as Disposition, Service};
use tokio::time::sleep;

use crate::{
    capability::Capability::LoadBalancers,
    case::{Builder, Case, must, should},
    client::Client,
    needs,
    subject::{Subject, answered_or_lost, describe},
    verdict::{Verdict, expect, skipped},
};

const FILE: &str = "common.proto";
const DUPLICATES: &str = "A provider serialises per key or answers OPERATION_IN_PROGRESS;";

pub(super) fn cases() -> Vec<Case> {
    let case = |builder: Builder| builder.of(LoadBalancers).mutates();
    vec![
        case(must("RES-01", "a provider that is killed in an Ensure converges with the next one"))
            .needs(needs::PROCESS)
            .clause(FILE, "", "leaves a state from which the next call converges")
            .check(|subject| Box::pin(killed_in_ensure(subject))),
        case(must("RES-23", "an Ensure after a cancelled one finds what that one made, and nothing changes after its answer"))
            .needs(needs::CLOUD_CHANGES)
            .clause(FILE, "", "the lock is held until the work has ended, also when the call was cancelled.")
            .check(|subject| Box::pin(repeated_after_cancel(subject))),
        case(must("RES-05", "Ensures of twelve Services at once all end"))
            .clause("load_balancers.proto", "LoadBalancersService", "Within a process it serialises by key;")
            .check(|subject| Box::pin(many_at_once(subject))),
        case(must("RES-16", "two Deletes of one Service at once leave nothing"))
            .clause(FILE, "", DUPLICATES)
            .check(|subject| Box::pin(two_deletes(subject))),
        case(must("RES-17", "an Ensure and a Delete at once leave nothing after one more Delete"))
            .clause(FILE, "", DUPLICATES)
            .check(|subject| Box::pin(ensure_and_delete(subject))),
        case(must("RES-18", "a load balancer is there after a restart of the provider, unless it is volatile"))
            .needs(needs::PROCESS)
            .clause("provider.proto", "LoadBalancersCapability.volatile", "the cloud is durable, and a restart of the provider leads to no call;")
            .check(|subject| Box::pin(survives_restart(subject))),
        case(should("RES-19", "an Ensure with a deadline of 5 ms leaves a load balancer that the next one completes"))
            .clause(FILE, "", "leaves a state from which the next call converges")
            .check(|subject| Box::pin(short_deadline(subject))),
    ]
}

/// Ensures, holds a list against one load balancer, and deletes.
pub(super) async fn converges(subject: &Subject, service: &Service) -> Verdict {
    let client = subject.connect().await?;
    subject.ensure_all(&client, service).await?;
    subject.is_listed_once(&client, service).await?;
    gone(subject, &client, service).await
}

/// Deletes, and holds Get against ABSENT.
async fn gone(subject: &Subject, client: &Client, service: &Service) -> Verdict {
    subject.delete(client, service).await?;
    subject.get_is(client, service, Disposition::Absent).await
}

async fn killed_in_ensure(subject: &Subject) -> Verdict {
    for moment in [0, 2, 10, 50] {
        let service = subject.service();
        let client = subject.connect().await?;
        let ensure = subject.cut_off(&client, &service, 1_000);
        let kill = async {
            sleep(Duration::from_millis(moment)).await;
            subject.kill().await
        };
        // The call ends with the connection, or before.
        let (_, killed) = Box::pin(join(ensure, kill)).await;
        killed?;
        subject.start().await?;
        converges(subject, &service).await?;
    }
    Ok(())
}

/// How long the cloud change that runs at the cancel may take.
pub(super) const RUNNING_CHANGE: Duration = Duration::from_secs(2);

async fn repeated_after_cancel(subject: &Subject) -> Verdict {
    for moment in [1, 50] {
        let service = subject.service();
        let client = subject.connect().await?;
        subject.cut_off(&client, &service, moment).await?;
        // At once: a change of the cancelled call may run still.
        subject.ensure_all(&client, &service).await?;
        let before = subject.cloud_changes().await?;
        sleep(RUNNING_CHANGE).await;
        let after = subject.cloud_changes().await?;
        expect(
            before == after,
            "no cloud change after the repeated Ensure is READY",
            format!("{} changes", after.saturating_sub(before)),
        )?;
        converges(subject, &service).await?;
    }
    Ok(())
}

async fn many_at_once(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    let services: Vec<_> = (0..12).map(|_| subject.service()).collect();
    let nodes = subject.target_nodes();
    let targets = subject.targets(&client, &nodes).await?;
    let ensured = services
        .iter()
        .map(|service| subject.ensure_with(&client, service, targets.clone()));
    Box::pin(try_join_all(ensured)).await?;
    let deleted = services
        .iter()
        .map(|service| subject.delete(&client, service));
    Box::pin(try_join_all(deleted)).await?;
    Ok(())
}

async fn two_deletes(subject: &Subject) -> Verdict {
    let (one, other) = (subject.connect().await?, subject.connect().await?);
    let service = subject.service();
    subject.ensure_all(&one, &service).await?;
    let both = join(
        subject.delete_once(&one, &service),
        subject.delete_once(&other, &service),
    );
    let (first, second) = Box::pin(both).await;
    answered_or_lost(first)?;
    answered_or_lost(second)?;
    gone(subject, &one, &service).await
}

async fn ensure_and_delete(subject: &Subject) -> Verdict {
    let (one, other) = (subject.connect().await?, subject.connect().await?);
    for _ in 0..3 {
        let service = subject.service();
        let targets = subject.targets(&one, &subject.target_nodes()).await?;
        let both = join(
            subject.ensure_once(&one, &service, targets),
            subject.delete_once(&other, &service),
        );
        let (ensured, deleted) = Box::pin(both).await;
        answered_or_lost(ensured)?;
        answered_or_lost(deleted)?;
        gone(subject, &one, &service).await?;
    }
    Ok(())
}

async fn survives_restart(subject: &Subject) -> Verdict {
    if subject.load_balancers().volatile {
        return Err(skipped("the provider declares volatile"));
    }
    let service = subject.service();
    let nodes = subject.target_nodes();
    let client = subject.connect().await?;
    let before = subject.ensure(&client, &service, &nodes).await?;
    subject.restart().await?;
    let client = subject.connect().await?;
    subject
        .get_is(&client, &service, Disposition::Ready)
        .await?;
    let after = subject.ensure(&client, &service, &nodes).await?;
    expect(
        before.status == after.status,
        describe(&before),
        describe(&after),
    )
}

async fn short_deadline(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    let hurried = client.with_deadline(Duration::from_millis(5));
    for _ in 0..3 {
        let service = subject.service();
        let targets = subject.targets(&client, &subject.target_nodes()).await?;
        // In time or not: both are answers.
        let _ = subject.ensure_once(&hurried, &service, targets).await;
        converges(subject, &service).await?;
    }
    Ok(())
}
