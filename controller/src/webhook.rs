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

mod review;

use std::{
    future::ready,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Extension, Router,
    body::{self, Body, Bytes},
    extract::Request,
    routing::post,
};
use futures::{FutureExt, future::BoxFuture};
use http::StatusCode;
use outrigger_core::{
    error_class::ErrorClass,
    go_duration,
    volume::{Stage, VolumeView, left_alone, plan},
};
use prometheus_client::metrics::{counter::Counter, histogram::Histogram};
use serde_json::value::RawValue;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use self::review::AdmissionRequest;
use crate::server::{
    ClientCa, Peer, Server, ServingMetrics,
    answer::{self, Answer},
};
use outrigger_kube::{patch::Operation, volumes};
use outrigger_provider::{Error, Provider, VolumeLookup};
use outrigger_runtime::{
    log_repeated, metric_families,
    telemetry::{Labelled, Repeats},
};

/// The name in `--webhooks`, in metrics, and behind a slash in the path.
pub const WEBHOOK: &str = "persistentvolume-labels";

/// Requests at once: any client that reaches the port can cause lookups in the cloud, and take memory.
const PLACES: usize = 64;

/// Twice as much as the annotations of an object can have.
const MOST_BYTES: usize = 512 * 1024;

/// A body arrives within this time: a client that sends slowly keeps no place from others.
const SLOW: Duration = Duration::from_secs(2);

/// The time that the API server waits, without a `timeout` in the query.
const DEFAULT: Duration = Duration::from_secs(5);

/// The shortest that Kubernetes allows: a shorter one is no API server's, and would be a failure that any client can
/// bring about.
const LEAST: Duration = Duration::from_secs(1);

/// The longest that Kubernetes allows.
const MOST: Duration = Duration::from_secs(30);

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
    if left_alone(&volume, served, Stage::Admission).is_some() {
        return Ok(AdmissionVerdict::Admit(Vec::new()));
    }
    let topology = match provider.volumes().look_up(&volume).await {
        Ok(VolumeLookup::Found(topology)) => topology,
        Ok(VolumeLookup::NotManaged { .. }) => return Ok(AdmissionVerdict::Admit(Vec::new())),
        Ok(VolumeLookup::Absent { reason }) => {
            return Ok(AdmissionVerdict::Refuse(absent(&volume, &reason)));
        }
        Err(error) => return refused(&error),
    };
    Ok(match plan(&volume, &topology, served, Stage::Admission) {
        Ok(patch) => AdmissionVerdict::Admit(volumes::operations(&volume, &patch)),
        Err(contradiction) => AdmissionVerdict::Refuse(contradiction.to_string()),
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

/// Answers about new volumes, from before there is anything to decide with.
pub struct WebhookServer {
    decides: OnceLock<Review>,
    client_ca: Option<ClientCa>,
    metrics: WebhookMetrics,
    places: Semaphore,
    repeats: Repeats,
}

/// An answer that is no review: the API server takes it for a failure of the webhook.
type Failure = (StatusCode, String);

impl WebhookServer {
    /// Serves clients of `client_ca` alone if there is one.
    pub fn new(client_ca: Option<ClientCa>, metrics: WebhookMetrics) -> Self {
        Self {
            decides: OnceLock::new(),
            client_ca,
            metrics,
            places: Semaphore::new(PLACES),
            repeats: Repeats::default(),
        }
    }

    /// From now on `review` decides; before, each request is an error. The first one stays.
    pub fn decide_by(&self, review: Review) {
        let _ = self.decides.set(review);
    }

    /// Answers requests at `server` until `stop`, then lets those in flight finish.
    pub async fn run(
        self: Arc<Self>,
        server: Server,
        metrics: ServingMetrics,
        stop: CancellationToken,
    ) {
        let fresh = async {
            if let Some(client_ca) = &self.client_ca {
                stop.run_until_cancelled(client_ca.keep_fresh()).await;
            }
        };
        let webhook = Arc::clone(&self);
        let answer = move |Extension(peer): Extension<Peer>, request: Request| {
            let webhook = Arc::clone(&webhook);
            async move { webhook.answer(request, &peer).await }
        };
        let router = Router::new()
            .route(&format!("/{WEBHOOK}"), post(answer))
            .fallback(|| ready(answer::not_found()))
            .method_not_allowed_fallback(|| ready(answer::wrong_method()));
        let serving = server.serve(router, metrics, stop.clone());
        tokio::join!(serving, fresh);
    }

    async fn answer(&self, request: Request, peer: &Peer) -> Answer {
        let began = Instant::now();
        let answer = match self.review(request, peer).await {
            Ok(review) => answer::body(StatusCode::OK, answer::JSON, review),
            Err((code, text)) => {
                self.log_failure(code, &text);
                let answer = answer::error(code, &text);
                if code.is_server_error() {
                    // Another replica may be able to decide, and has other connections.
                    answer::last(answer)
                } else {
                    answer
                }
            }
        };
        self.metrics.answered(answer.status(), began.elapsed());
        answer
    }

    async fn review(&self, request: Request, peer: &Peer) -> Result<Vec<u8>, Failure> {
        if let Some(client_ca) = &self.client_ca {
            let checked = client_ca.check(peer);
            checked.map_err(|reason| (StatusCode::UNAUTHORIZED, reason))?;
        }
        let within = answer_within(request.uri().query());
        let deadline = Instant::now() + within;
        let Ok(_place) = self.places.try_acquire() else {
            let text = "too many admission requests at once".to_owned();
            return Err((StatusCode::SERVICE_UNAVAILABLE, text));
        };
        let body = read_body(request.into_body(), deadline).await?;
        let request = review::read(&body).map_err(|reason| (StatusCode::BAD_REQUEST, reason))?;
        drop(body);
        let decides = self.decides.get();
        let decides =
            decides.ok_or_else(|| failed("the controller has not reached the API server yet"))?;
        let decided = timeout_at(deadline, decide_request(decides, request)).await;
        decided.unwrap_or_else(|_elapsed| {
            let millis = within.as_millis();
            Err(failed(&format!("no decision within {millis} ms")))
        })
    }

    /// One line a minute for each code: the reason is in the answer too, and may quote the request of any
    /// client that reaches the port.
    fn log_failure(&self, status: StatusCode, error: &str) {
        let code = status.as_u16();
        log_repeated!(
            warn,
            self.repeats,
            status.as_str(),
            webhook = WEBHOOK,
            code,
            error,
            "admission request failed"
        );
    }
}

async fn decide_request(decides: &Review, request: AdmissionRequest) -> Result<Vec<u8>, Failure> {
    let is_ours = request.is_about_a_new_volume();
    let verdict = match request.object {
        // P-20.
        Some(object) if is_ours => decides(object).await.map_err(|reason| failed(&reason))?,
        _ => AdmissionVerdict::Admit(Vec::new()),
    };
    debug!(
        webhook = WEBHOOK,
        volume = request.name,
        ?verdict,
        "volume reviewed"
    );
    review::answer(&request.uid, &verdict).map_err(|error| failed(&error.to_string()))
}

/// A client that does not send its body, or too much, is no failure of the webhook.
async fn read_body(body: Body, deadline: Instant) -> Result<Bytes, Failure> {
    let deadline = deadline.min(Instant::now() + SLOW);
    let failed = |code, reason: &str| (code, format!("admission request HTTP body {reason}"));
    match timeout_at(deadline, body::to_bytes(body, MOST_BYTES)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) => {
            let reason = format!("cannot be read: {error}");
            Err(failed(StatusCode::BAD_REQUEST, &reason))
        }
        Err(_elapsed) => Err(failed(
            StatusCode::REQUEST_TIMEOUT,
            "did not arrive in time",
        )),
    }
}

/// W-6.
fn failed(reason: &str) -> Failure {
    let text = format!("error generating admission response: {reason}");
    (StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// How long an answer may take, by the query of the request: `timeout=10s`, less the way back.
fn answer_within(query: Option<&str>) -> Duration {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let mut timeouts = pairs.filter(|(name, _)| name == "timeout");
    let timeout = timeouts.find_map(|(_, value)| go_duration::parse(&value).ok());
    timeout.unwrap_or(DEFAULT).clamp(LEAST, MOST).mul_f64(0.9)
}

/// Upstream's.
const BUCKETS: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

const LABELS: [&str; 2] = ["code", "webhook"];

metric_families! {
    /// `cloud_provider_webhook_*`, where successes count too (not Q-26).
    pub struct WebhookMetrics {
        requests: Labelled<2, Counter> = Labelled::by(LABELS),
            "cloud_provider_webhook_request", "Requests to admission webhooks, by code of the answer";
        durations: Labelled<2, Histogram> = Labelled::made_by(LABELS, || Histogram::new(BUCKETS)),
            "cloud_provider_webhook_request_duration_seconds", "Duration of requests to admission webhooks";
    }
}

impl WebhookMetrics {
    fn answered(&self, code: StatusCode, took: Duration) {
        let labels = [code.as_str(), WEBHOOK].map(str::to_owned);
        self.requests.of(labels.clone()).inc();
        self.durations.of(labels).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
