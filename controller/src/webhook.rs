//! The admission webhook `persistentvolume-labels`: requests of the API server about volumes that are being created
//! (W-1 to W-9).
//!
//! ```text
//!  API server ─► crate::server::Server ─► WebhookServer ─► review ─► Review ─► AdmissionVerdict ─► answer
//!                                                                └─ the provider
//! ```
//!
//! A standby serves too, and calls its own provider. Every error is HTTP 500, so that `failurePolicy` decides.
//! The error is sent before the API server stops waiting.

mod handler;
mod review;

use std::time::Duration;

use futures::{FutureExt, future::BoxFuture};
use http::StatusCode;
use outrigger_core::{
    error_class::ErrorClass,
    volume::{Stage, VolumeDecision, VolumeStep, VolumeView, plan, step},
};
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use serde_json::value::RawValue;

pub use self::handler::WebhookServer;
use outrigger_kube::{patch::Operation, volumes};
use outrigger_provider::{Error, Provider, VolumeLookup};
use outrigger_runtime::{metric_families, telemetry::TextLabels};

/// The name in `--webhooks`, in metrics, and behind a slash in the path.
pub const WEBHOOK: &str = "persistentvolume-labels";

/// The decision about one object.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionVerdict {
    /// The object is admitted with these changes, or unchanged if there are none.
    Admit(Vec<Operation>),
    /// The object is refused, with a sentence for the user.
    Refuse(String),
}

/// Decides about one volume that is being created, by the whole object as JSON. The future is dropped when the API server
/// stops waiting. An error is a sentence for the API server's log: nothing can be decided now.
pub type Review = Box<
    dyn Fn(Box<RawValue>) -> BoxFuture<'static, Result<AdmissionVerdict, String>> + Send + Sync,
>;

/// Decides by the provider, without a condition that only the leader meets: a standby asks its own one, and a lookup changes
/// nothing.
pub fn review_by(provider: Provider) -> Review {
    Box::new(move |object| {
        let provider = provider.clone();
        let volume = serde_json::from_str(object.get());
        async move {
            let volume = volume.map_err(|error| format!("the volume cannot be read: {error}"))?;
            decide(&provider, volume).await
        }
        .boxed()
    })
}

async fn decide(provider: &Provider, volume: VolumeView) -> Result<AdmissionVerdict, String> {
    let session = provider.session();
    let state = provider.state();
    let Some(session) = session.filter(|_| state.borrow().serves()) else {
        return Err(format!("the provider does not serve: {}", *state.borrow()));
    };
    let Some(served) = session.volumes.as_ref().map(|volumes| &volumes.served) else {
        return Ok(AdmissionVerdict::Admit(Vec::new()));
    };
    let decision = match step(&volume, served, Stage::Admission) {
        VolumeStep::Leave(_) => return Ok(AdmissionVerdict::Admit(Vec::new())),
        VolumeStep::Decide(decision) => decision,
        VolumeStep::Ask => match provider.volumes().look_up(&volume).await {
            Ok(VolumeLookup::Found(topology)) => plan(&volume, &topology, served, Stage::Admission),
            Ok(VolumeLookup::NotManaged { .. }) => {
                return Ok(AdmissionVerdict::Admit(Vec::new()));
            }
            Ok(VolumeLookup::Absent { reason }) => {
                return Ok(AdmissionVerdict::Refuse(absent(&volume, &reason)));
            }
            Err(error) => return refused(&error),
        },
    };
    Ok(match decision {
        VolumeDecision::Write { patch, .. } => {
            AdmissionVerdict::Admit(volumes::operations(&volume, &patch))
        }
        VolumeDecision::Refuse(problem) => AdmissionVerdict::Refuse(problem.to_string()),
    })
}

fn absent(volume: &VolumeView, reason: &str) -> String {
    let handle = volume.source.as_ref().map_or("", |source| source.volume());
    let colon = if reason.is_empty() { "" } else { ": " };
    format!("there is no volume {handle:?} in the cloud{colon}{reason}")
}

/// Only an error about the volume itself refuses it; any other leaves it to `failurePolicy` (P-24).
fn refused(error: &Error) -> Result<AdmissionVerdict, String> {
    match error.class() {
        ErrorClass::Invalid => Ok(AdmissionVerdict::Refuse(error.to_string())),
        _ => Err(error.to_string()),
    }
}

/// Upstream's.
const BUCKETS: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

metric_families! {
    /// `cloud_provider_webhook_*`, where successes count too (not Q-26), and lookups that were not made.
    pub struct WebhookMetrics {
        requests: Family<TextLabels<2>, Counter>,
            "cloud_provider_webhook_request", "Requests to admission webhooks, by code of the answer";
        durations: Family<TextLabels<2>, Histogram, fn() -> Histogram> = Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            "cloud_provider_webhook_request_duration_seconds", "Duration of requests to admission webhooks";
        overloaded: Counter,
            "outrigger_webhook_lookups_refused",
            "Lookups for admission webhooks that were not made, for too many were in flight";
    }
}

impl WebhookMetrics {
    /// One series of each family, for tests of a whole scrape.
    #[cfg(test)]
    pub fn sample(&self) {
        self.answered(StatusCode::OK, Duration::ZERO);
    }

    /// A request found no place.
    fn overloaded(&self) {
        self.overloaded.inc();
    }

    fn answered(&self, code: StatusCode, took: Duration) {
        let code = code.as_u16().to_string();
        let labels = [("code", code), ("webhook", WEBHOOK.to_owned())];
        self.requests.get_or_create(&labels).inc();
        let durations = self.durations.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
