//! The probe that the kubelet runs: dials anew, asks, and says one sentence.

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

/// Asks a running provider how it is.
#[derive(Clone, Debug, clap::Args)]
pub struct ProbeArgs {
    /// Where the provider serves, as `unix:///absolute/path`
    #[arg(
        long,
        env = outrigger_api::ENDPOINT_ENV,
        default_value = outrigger_api::DEFAULT_ENDPOINT,
        value_name = "ENDPOINT"
    )]
    pub endpoint: Endpoint,

    /// Fail also while the provider is starting (for a readiness probe; without it, for a liveness
    /// probe, only a provider that a restart would help fails)
    #[arg(long)]
    pub ready: bool,

    /// Seconds to wait for the answers; keep it below the probe's timeoutSeconds
    #[arg(long, default_value_t = 4, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
    pub timeout: u64,
}

/// Why a probe failed, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProbeFailure(String);

/// Dials the provider anew, so that no old connection hides a dead one, and asks `grpc.health.v1`
/// and `GetStatus`. `Ok` and `Err` are one sentence for people.
pub async fn probe(args: &ProbeArgs) -> Result<String, ProbeFailure> {
    let endpoint = &args.endpoint;
    let time = Duration::from_secs(args.timeout);
    let readiness = tokio::time::timeout(time, ask(endpoint))
        .await
        .map_err(|_| {
            ProbeFailure(format!(
                "the provider at {endpoint} did not answer within {time:?}"
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
        Readiness::Starting if args.ready => Err(ProbeFailure(sentence("starting"))),
        Readiness::Starting => Ok(sentence("starting")),
        Readiness::Broken => Err(ProbeFailure(sentence("broken and wants a restart"))),
    }
}

/// What `GetStatus` says, and which dependencies are to blame.
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
    // The one connection that was made, so that a failure to make it could be told apart.
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
