//! Which request is answered by what, and until when.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Extension, Router,
    body::{self, Body, Bytes},
    extract::Request,
};
use http::{Method, StatusCode};
use outrigger_core::go_duration;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    AdmissionVerdict, Review, WEBHOOK, WebhookMetrics,
    review::{self, FailedReview},
};
use crate::server::{
    ClientCa, Peer, Server, ServingMetrics,
    answer::{self, Answer},
};
use outrigger_runtime::{log_repeated, telemetry::Repeats};

/// Requests at once: any client that reaches the port can cause lookups in the cloud, and take memory.
pub(super) const PLACES: usize = 64;

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

/// Answers about new volumes, from before there is anything to decide with.
pub struct WebhookServer {
    decides: OnceLock<Review>,
    client_ca: Option<ClientCa>,
    metrics: WebhookMetrics,
    pub(super) places: Semaphore,
    repeats: Repeats,
}

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
        let router =
            Router::new().fallback(move |Extension(peer): Extension<Peer>, request: Request| {
                let webhook = Arc::clone(&webhook);
                async move { webhook.answer(request, &peer).await }
            });
        let serving = server.serve(router, metrics, stop.clone());
        tokio::join!(serving, fresh);
    }

    async fn answer(&self, request: Request, peer: &Peer) -> Answer {
        let began = Instant::now();
        if request.uri().path().strip_prefix('/') != Some(WEBHOOK) {
            return answer::not_found();
        }
        let answer = match self.review(request, peer).await {
            Ok(review) => answer::body(StatusCode::OK, answer::JSON, review),
            Err(failure) => {
                self.log_failure(&failure);
                let answer = answer::error(failure.code, &failure.text);
                if failure.code.is_server_error() {
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

    async fn review(&self, request: Request, peer: &Peer) -> Result<Vec<u8>, FailedReview> {
        let (head, body) = request.into_parts();
        if let Some(client_ca) = &self.client_ca {
            let checked = client_ca.check(peer);
            checked.map_err(|reason| FailedReview::new(StatusCode::UNAUTHORIZED, reason))?;
        }
        if head.method != Method::POST {
            let text = "405 method not allowed".to_owned();
            return Err(FailedReview::new(StatusCode::METHOD_NOT_ALLOWED, text));
        }
        let within = answer_within(head.uri.query());
        let deadline = Instant::now() + within;
        let Ok(_place) = self.places.try_acquire() else {
            self.metrics.overloaded();
            let text = "too many admission requests at once".to_owned();
            return Err(FailedReview::new(StatusCode::SERVICE_UNAVAILABLE, text));
        };
        let request = {
            let body = read_body(body, deadline).await?;
            let request = review::read(&body);
            request.map_err(|reason| FailedReview::new(StatusCode::BAD_REQUEST, reason))?
        };
        let decides = self.decides.get();
        let decides =
            decides.ok_or_else(|| failed("the controller has not reached the API server yet"))?;
        let decided = timeout_at(deadline, decide(decides, request)).await;
        decided.unwrap_or_else(|_elapsed| {
            let millis = within.as_millis();
            Err(failed(&format!("no decision within {millis} ms")))
        })
    }

    /// One line a minute for each code: the reason is in the answer too, and may quote the request of any
    /// client that reaches the port.
    fn log_failure(&self, failure: &FailedReview) {
        let (webhook, code, error) = (WEBHOOK, failure.code.as_u16(), &*failure.text);
        log_repeated!(
            warn,
            self.repeats,
            &code.to_string(),
            webhook,
            code,
            error,
            "admission request failed"
        );
    }
}

async fn decide(
    decides: &Review,
    request: review::AdmissionRequest,
) -> Result<Vec<u8>, FailedReview> {
    let resource = &request.resource;
    let is_ours = (&*resource.group, &*resource.resource) == ("", "persistentvolumes")
        && request.operation == "CREATE"
        && request.sub_resource.is_empty();
    let verdict = match request.object {
        // P-20.
        Some(object) if is_ours => {
            let reviewed = decides(object).await;
            reviewed.map_err(|reason| failed(&reason))?
        }
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
async fn read_body(body: Body, deadline: Instant) -> Result<Bytes, FailedReview> {
    let deadline = deadline.min(Instant::now() + SLOW);
    let body = timeout_at(deadline, body::to_bytes(body, MOST_BYTES)).await;
    let failed = |code, reason: &str| {
        FailedReview::new(code, format!("admission request HTTP body {reason}"))
    };
    let body =
        body.map_err(|_elapsed| failed(StatusCode::REQUEST_TIMEOUT, "did not arrive in time"))?;
    body.map_err(|error| failed(StatusCode::BAD_REQUEST, &format!("cannot be read: {error}")))
}

/// W-6.
fn failed(reason: &str) -> FailedReview {
    let text = format!("error generating admission response: {reason}");
    FailedReview::new(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// How long an answer may take, by the query of the request: `timeout=10s`, less the way back.
fn answer_within(query: Option<&str>) -> Duration {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let mut timeouts = pairs.filter(|(name, _)| name == "timeout");
    let limit = timeouts.find_map(|(_, value)| go_duration::parse(&value).ok());
    let timeout = limit
        .filter(|timeout| !timeout.is_zero())
        .unwrap_or(DEFAULT)
        .clamp(LEAST, MOST);
    timeout.saturating_sub((timeout / 10).min(Duration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_before_the_api_server_stops_waiting() {
        for (query, millis) in [
            (None, 4_500),
            (Some("timeout=10s"), 9_000),
            (Some("dryRun=All&timeout=1s"), 900),
            (Some("timeout=1ns"), 900),
            (Some("timeout=30s"), 29_000),
            (Some("timeout=2h"), 29_000),
            (Some("timeout=1m30s"), 29_000),
            (Some("timeout=0s"), 4_500),
            (Some("timeout=-3s"), 4_500),
            (Some("timeout=soon"), 4_500),
            (Some("timeout"), 4_500),
        ] {
            let within = answer_within(query);
            assert_eq!(within, Duration::from_millis(millis), "{query:?}");
        }
    }
}
