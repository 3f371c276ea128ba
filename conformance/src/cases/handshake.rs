//! `ProviderService`: the handshake, its declarations, and the heartbeat.

mod declarations;

use std::time::Duration;

use outrigger_api::v1::{
    ErrorReason, GetStatusRequest, HandshakeRequest, HandshakeResponse, Readiness,
};
use tokio::time::Instant;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::{
    call_error::CallError,
    case::{Check, check},
    client::Client,
    subject::Subject,
    verdict::{Required as _, Verdict, expect, failed, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![
        check("IDN-01", chosen_minor),
        check("IDN-02", no_common_minor),
        check("IDN-03", async |subject| name(subject.handshake())),
        check("IDN-04", boot_id),
        check("IDN-07", status_before_handshake),
        check("IDN-08", repeated_handshake),
        check("IDN-09", quick_status),
        check("IDN-10", status_without_cloud),
        check("IDN-11", readiness),
        check("IDN-12", health_is_served),
        check("IDN-13", health_agrees),
    ];
    checks.extend(declarations::checks());
    checks
}

async fn chosen_minor(subject: &Subject) -> Verdict {
    let client = subject.dial().await?;
    for max_minor in [1, 1000] {
        let request = HandshakeRequest {
            max_minor,
            ..subject.handshake_request()
        };
        let minor = client.call(request).await?.minor;
        expect(
            (1..=max_minor).contains(&minor),
            format!("a minor of 1 to {max_minor}"),
            format!("minor {minor}"),
        )?;
    }
    // The suite's own minor counts from here on.
    client.call(subject.handshake_request()).await?;
    Ok(())
}

async fn no_common_minor(subject: &Subject) -> Verdict {
    let client = subject.dial().await?;
    let request = HandshakeRequest {
        min_minor: 1_000_000,
        max_minor: 1_000_001,
        ..subject.handshake_request()
    };
    let expected = "a handshake for the minors 1000000 to 1000001 is FAILED_PRECONDITION with \
                    VERSION_UNSUPPORTED";
    match client.call(request).await {
        Ok(answer) => Err(failed(expected, format!("minor {}", answer.minor))),
        Err(error) => expect(
            error.is(ErrorReason::VersionUnsupported) && error.code == Code::FailedPrecondition,
            expected,
            error,
        ),
    }
}

fn name(handshake: &HandshakeResponse) -> Verdict {
    let name = &handshake.provider_name;
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    expect(
        (1..=63).contains(&name.len()) && name.chars().all(legal),
        "provider_name is [a-z0-9-]{1,63}",
        format!("{name:?}"),
    )
}

async fn boot_id(subject: &Subject) -> Verdict {
    let mut boot_ids = Vec::new();
    for _ in 0..2 {
        let client = subject.dial().await?;
        boot_ids.push(client.call(subject.handshake_request()).await?.boot_id);
        boot_ids.push(client.call(GetStatusRequest {}).await?.boot_id);
    }
    let first = &boot_ids[0];
    expect(
        (1..=64).contains(&first.len()) && boot_ids.iter().all(|one| one == first),
        "handshake and GetStatus of two connections name one boot_id of 1 to 64 bytes",
        format!("{boot_ids:?}"),
    )
}

async fn status_before_handshake(subject: &Subject) -> Verdict {
    let client = subject.dial().await?;
    client.call(GetStatusRequest {}).await?;
    Ok(())
}

async fn repeated_handshake(subject: &Subject) -> Verdict {
    let client = subject.dial().await?;
    let mut request = subject.handshake_request();
    if let Some(cluster) = &mut request.cluster {
        cluster.uid.clear();
    }
    let first = client.call(request).await;
    first.required("a handshake without the cluster's UID is answered")?;
    let second = client.call(subject.handshake_request()).await;
    second.required("a second handshake on the connection is answered")?;
    Ok(())
}

const PROMISED: Duration = Duration::from_millis(100);

/// The median, since one late call says more about the machine than about the provider.
async fn median(client: &Client) -> Result<Duration, CallError> {
    let mut times = Vec::new();
    for _ in 0..31 {
        let began = Instant::now();
        client.call(GetStatusRequest {}).await?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

async fn quick_status(subject: &Subject) -> Verdict {
    let median = median(&subject.client).await?;
    expect(median <= PROMISED, "100 ms at most", format!("{median:?}"))
}

async fn status_without_cloud(subject: &Subject) -> Verdict {
    let check = async {
        let client = subject.dial().await?;
        let shaken = client.call(subject.handshake_request()).await;
        shaken.required("Handshake is answered while the cloud fails")?;
        let median = median(&client).await;
        let median = median.required("GetStatus is answered while the cloud fails")?;
        expect(
            median <= PROMISED,
            "GetStatus within 100 ms",
            format!("{median:?}"),
        )
    };
    Box::pin(subject.without_cloud(check)).await
}

async fn readiness(subject: &Subject) -> Verdict {
    let status = subject.client.call(GetStatusRequest {}).await?;
    let readiness = Readiness::try_from(status.readiness).unwrap_or_default();
    expect(
        ![Readiness::Unspecified, Readiness::Broken].contains(&readiness),
        "STARTING, READY or DEGRADED",
        format!(
            "readiness {} ({})",
            status.readiness,
            readiness.as_str_name()
        ),
    )
}

async fn health_is_served(subject: &Subject) -> Verdict {
    let answered = subject.client.check().await;
    answered.required("grpc.health.v1.Health/Check is answered")?;
    Ok(())
}

async fn health_agrees(subject: &Subject) -> Verdict {
    let health = match subject.client.check().await {
        Ok(answer) => answer.status(),
        Err(error) if error.code == Code::Unimplemented => {
            return Err(skipped("grpc.health.v1 is not served"));
        }
        Err(error) => return Err(error.into()),
    };
    let status = subject.client.call(GetStatusRequest {}).await?.readiness();
    let serves = [Readiness::Ready, Readiness::Degraded].contains(&status);
    expect(
        serves == (health == ServingStatus::Serving),
        format!(
            "SERVING exactly for READY and DEGRADED; GetStatus says {}",
            status.as_str_name()
        ),
        health.as_str_name(),
    )
}
