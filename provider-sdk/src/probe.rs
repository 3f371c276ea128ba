//! [`probe`]: the answer to the kubelet's exec probes, from a process of its own.
//!
//! The sub-command `probe` of [`main`](crate::main) runs it in the provider's container. It dials the socket as the
//! controller does, so a provider whose socket is gone fails it; it shakes no hands and changes nothing. Liveness fails
//! only where a restart would help: a provider whose cloud is away is degraded, and alive.

use std::time::Duration;

use hyper_util::rt::TokioIo;
use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{GetStatusRequest, Readiness};
use tokio::net::UnixStream;
use tonic::Status;
use tonic::transport::{Channel, Uri};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::service_fn;

use crate::Endpoint;

/// How good a provider must be for a probe to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Probe {
    /// A restart would not help: everything but [`Readiness::Broken`](crate::v1::Readiness::Broken).
    Liveness,
    /// It serves: also not [`Readiness::Starting`](crate::v1::Readiness::Starting).
    Readiness,
}

/// Why a probe failed, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProbeFailure(String);

/// Dials the provider on a new connection, so that no old connection hides a dead one, and asks `grpc.health.v1`
/// and `GetStatus`, for at most `limit` in all. `Ok` and `Err` are one sentence for people.
///
/// # Errors
///
/// Nothing serves the endpoint, an answer is an error or late, or the provider's readiness is below `probe`.
/// # Cancellation
///
/// Safe to drop: it changes nothing.
///
/// ```
/// use std::time::Duration;
/// use outrigger_provider_sdk::{Endpoint, Probe, probe};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let endpoint: Endpoint = "unix:///no/such/provider.sock".parse().unwrap();
/// let failure = probe(&endpoint, Probe::Liveness, Duration::from_secs(4)).await.unwrap_err();
/// assert!(failure.to_string().contains("no provider serves unix:///no/such/provider.sock"));
/// # }
/// ```
pub async fn probe(
    endpoint: &Endpoint,
    probe: Probe,
    limit: Duration,
) -> Result<String, ProbeFailure> {
    let readiness = tokio::time::timeout(limit, ask(endpoint))
        .await
        .map_err(|_| {
            ProbeFailure(format!(
                "the provider at {endpoint} did not answer within {limit:?}"
            ))
        })??;
    let (word, dependencies) = readiness;
    let because = if dependencies.is_empty() {
        String::new()
    } else {
        format!(": {dependencies}")
    };
    let sentence = |state| format!("the provider at {endpoint} is {state}{because}");
    match word {
        Readiness::Ready => Ok(sentence("ready")),
        Readiness::Degraded | Readiness::Unspecified => Ok(sentence("degraded")),
        Readiness::Starting if probe == Probe::Readiness => Err(ProbeFailure(sentence("starting"))),
        Readiness::Starting => Ok(sentence("starting")),
        Readiness::Broken => Err(ProbeFailure(sentence("broken and wants a restart"))),
    }
}

/// The readiness of `GetStatus`, and the dependencies to blame.
async fn ask(endpoint: &Endpoint) -> Result<(Readiness, String), ProbeFailure> {
    let channel = dial(endpoint).await?;
    let failed = |call| {
        move |status: Status| {
            ProbeFailure(format!(
                "the provider at {endpoint} answered {call} with {:?}: {}",
                status.code(),
                status.message()
            ))
        }
    };
    HealthClient::new(channel.clone())
        .check(HealthCheckRequest::default())
        .await
        .map_err(failed("the health check"))?;
    let status = ProviderServiceClient::new(channel)
        .get_status(GetStatusRequest {})
        .await
        .map_err(failed("GetStatus"))?
        .into_inner();
    let dependencies: Vec<_> = status
        .dependencies
        .iter()
        .filter(|dependency| dependency.readiness() != Readiness::Ready)
        .map(|dependency| format!("{} ({})", dependency.name, dependency.message))
        .collect();
    Ok((status.readiness(), dependencies.join(", ")))
}

async fn dial(endpoint: &Endpoint) -> Result<Channel, ProbeFailure> {
    let stream = UnixStream::connect(endpoint.path())
        .await
        .map_err(|error| ProbeFailure(format!("no provider serves {endpoint}: {error}")))?;
    // The one connection that was made, so that a failure to make it shows as such.
    let mut stream = Some(TokioIo::new(stream));
    let connector = service_fn(move |_: Uri| {
        let stream = stream
            .take()
            .ok_or_else(|| std::io::Error::other("the connection was lost"));
        std::future::ready(stream)
    });
    tonic::transport::Endpoint::from_static("http://localhost")
        .connect_with_connector(connector)
        .await
        .map_err(|error| ProbeFailure(format!("{endpoint} does not speak gRPC: {error}")))
}
