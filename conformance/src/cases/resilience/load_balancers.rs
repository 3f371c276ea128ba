//! Load balancers whose calls are duplicated, cut off, or met by the end of the provider.

use std::time::Duration;

use futures::future::{join, try_join_all};
use outrigger_api::v1::{LoadBalancerDisposition as Disposition, Service};
use tokio::time::sleep;

use super::process::handshakes;
use crate::{
    case::{Check, check},
    subject::{Subject, answered_or_lost, describe},
    verdict::{Verdict, expect, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("RES-01", killed_in_ensure),
        check("RES-23", repeated_after_cancel),
        check("RES-05", many_at_once),
        check("RES-16", delete_beside),
        check("RES-18", survives_restart),
    ]
}

/// Ensures, holds a list against one load balancer, and deletes.
async fn converges(subject: &Subject, service: &Service) -> Verdict {
    let subject = &subject.connect().await?;
    subject.ensure_all(service).await?;
    subject.is_listed_once(service).await?;
    gone(subject, service).await
}

/// Deletes, and holds Get against ABSENT.
async fn gone(subject: &Subject, service: &Service) -> Verdict {
    subject.delete(service).await?;
    subject.get_is(service, Disposition::Absent).await
}

async fn killed_in_ensure(subject: &Subject) -> Verdict {
    for moment in [0, 2, 10, 50] {
        let service = subject.service();
        let subject = &subject.connect().await?;
        let ensure = subject.cut_off(&service, 1_000);
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
const RUNNING_CHANGE: Duration = Duration::from_secs(2);

async fn repeated_after_cancel(subject: &Subject) -> Verdict {
    for moment in [1, 50] {
        let service = subject.service();
        let subject = &subject.connect().await?;
        subject.cut_off(&service, moment).await?;
        // At once: a change of the cancelled call may run still.
        subject.ensure_all(&service).await?;
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
    let services: Vec<_> = (0..12).map(|_| subject.service()).collect();
    let nodes = subject.target_nodes();
    let targets = subject.targets(&nodes).await?;
    let ensured = services
        .iter()
        .map(|service| subject.ensure_with(service, targets.clone()));
    Box::pin(try_join_all(ensured)).await?;
    let deleted = services.iter().map(|service| subject.delete(service));
    Box::pin(try_join_all(deleted)).await?;
    Ok(())
}

async fn delete_beside(subject: &Subject) -> Verdict {
    let other = subject.connect().await?;
    for is_made in [true, false, false, false] {
        let service = subject.service();
        let targets = subject.targets(&subject.target_nodes()).await?;
        if is_made {
            subject.ensure_all(&service).await?;
        }
        let beside = async {
            if is_made {
                subject.delete_once(&service).await
            } else {
                subject.ensure_once(&service, targets).await
            }
        };
        let both = join(beside, other.delete_once(&service));
        let (beside, deleted) = Box::pin(both).await;
        answered_or_lost(beside)?;
        answered_or_lost(deleted)?;
        gone(subject, &service).await?;
    }
    Ok(())
}

async fn survives_restart(subject: &Subject) -> Verdict {
    let service = subject.service();
    let nodes = subject.target_nodes();
    let before = subject.ensure(&service, &nodes).await?;
    let [revision, restarted] = handshakes(subject).await?.map(|answer| {
        let offered = answer.capabilities.unwrap_or_default().load_balancers;
        offered.unwrap_or_default().configuration_revision
    });
    let subject = &subject.connect().await?;
    if restarted != revision {
        // The controller ensures all again, which is for load balancers that ended with the process.
        subject.get_is(&service, Disposition::Absent).await?;
        return Err(skipped("the load balancers end with the process"));
    }
    subject.get_is(&service, Disposition::Ready).await?;
    let after = subject.ensure(&service, &nodes).await?;
    expect(
        before.status == after.status,
        describe(&before),
        describe(&after),
    )
}
