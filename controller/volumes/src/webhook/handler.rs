//! Which request is answered by what.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use axum::{Extension, Router, extract::Request};
use http::{Method, StatusCode, header, request};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    AdmissionVerdict, Reviewer, Webhook, WebhookMetrics,
    body::Bodies,
    deadline::answer_within,
    review::{self, FailedReview},
};
use outrigger_runtime::{log_repeated, telemetry::Repeats};
use outrigger_server::{
    ClientCa, Peer, Server, ServingMetrics,
    answer::{self, Answer},
};

/// Answers about webhooks, from before there is anything to decide with.
pub struct WebhookServer {
    reviewers: BTreeMap<&'static str, OnceLock<Arc<dyn Reviewer>>>,
    client_ca: Option<ClientCa>,
    metrics: WebhookMetrics,
    bodies: Bodies,
    repeats: Repeats,
}

impl WebhookServer {
    /// Serves `webhooks`, to clients of `client_ca` alone if there is one.
    pub fn new(webhooks: &[Webhook], client_ca: Option<ClientCa>, metrics: WebhookMetrics) -> Self {
        let reviewers = webhooks
            .iter()
            .map(|webhook| (webhook.name(), OnceLock::new()));
        Self {
            reviewers: reviewers.collect(),
            client_ca,
            metrics,
            bodies: Bodies::default(),
            repeats: Repeats::default(),
        }
    }

    /// From now on `reviewer` decides for `webhook`. Before, and for one that is not served: nothing.
    pub fn decide_by(&self, webhook: Webhook, reviewer: Arc<dyn Reviewer>) {
        if let Some(place) = self.reviewers.get(webhook.name()) {
            // The first stays.
            let _ = place.set(reviewer);
        }
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
        let webhooks = Arc::clone(&self);
        let router =
            Router::new().fallback(move |Extension(peer): Extension<Peer>, request: Request| {
                let webhooks = Arc::clone(&webhooks);
                async move { webhooks.answer(request, &peer).await }
            });
        let serving = server.serve(router, metrics, stop.clone());
        tokio::join!(serving, fresh);
    }

    /// One line a minute for each code: the reason is in the answer too, and may quote the request of any
    /// client that reaches the port.
    fn log_failure(&self, webhook: Webhook, failure: &FailedReview) {
        let (webhook, code, error) = (webhook.name(), failure.code.as_u16(), &*failure.text);
        log_repeated!(
            warn,
            self.repeats,
            &format!("{webhook} {code}"),
            webhook,
            code,
            error,
            "admission request failed"
        );
    }

    async fn review(
        &self,
        webhook: Webhook,
        reviewer: &OnceLock<Arc<dyn Reviewer>>,
        request: Request,
        peer: &Peer,
    ) -> Result<Vec<u8>, FailedReview> {
        let (head, body) = request.into_parts();
        if let Some(client_ca) = &self.client_ca {
            let checked = client_ca.check(peer);
            checked.map_err(|reason| FailedReview::new(StatusCode::UNAUTHORIZED, reason))?;
        }
        check(&head)?;
        let within = answer_within(head.uri.query());
        let deadline = Instant::now() + within;
        // A client that does not send its body is no failure of the webhook.
        let place = self.bodies.place();
        let body = timeout_at(deadline, place.read(body)).await;
        let body = body.map_err(|_elapsed| {
            let millis = within.as_millis();
            let text = format!("admission request HTTP body did not arrive within {millis} ms");
            FailedReview::new(StatusCode::REQUEST_TIMEOUT, text)
        })??;
        let request = review::read(&body);
        drop(body);
        let request =
            request.map_err(|reason| FailedReview::new(StatusCode::BAD_REQUEST, reason))?;
        let reviewer = reviewer
            .get()
            .ok_or_else(|| failed("the controller has not reached the API server yet"))?;
        let late = |_elapsed| {
            let millis = within.as_millis();
            failed(&format!("no decision within {millis} ms"))
        };
        let decided = place.unless_cut_off(self.decide(webhook, &**reviewer, request));
        timeout_at(deadline, decided).await.map_err(late)?
    }

    async fn decide(
        &self,
        webhook: Webhook,
        reviewer: &dyn Reviewer,
        request: review::AdmissionRequest,
    ) -> Result<Vec<u8>, FailedReview> {
        let resource = &request.resource;
        let is_ours = webhook.concerns(&resource.group, &resource.resource)
            && request.operation == "CREATE"
            && request.sub_resource.is_empty();
        let verdict = match request.object {
            // P-20.
            Some(object) if is_ours => {
                let reviewed = reviewer.review(object).await;
                reviewed.map_err(|reason| failed(&reason))?
            }
            _ => AdmissionVerdict::Admit(Vec::new()),
        };
        self.log_verdict(webhook, &request.name, &verdict);
        review::answer(&request.uid, &verdict).map_err(|error| failed(&error.to_string()))
    }

    /// One line a minute for each kind: the answer has the rest, and any client that reaches the port can ask.
    fn log_verdict(&self, webhook: Webhook, object: &str, verdict: &AdmissionVerdict) {
        let webhook = webhook.name();
        let cause = |kind| format!("{webhook} {kind}");
        match verdict {
            AdmissionVerdict::Admit(patch) if patch.is_empty() => {
                debug!(webhook, object, "object admitted");
            }
            AdmissionVerdict::Admit(_) => {
                log_repeated!(
                    info,
                    self.repeats,
                    &cause("changed"),
                    webhook,
                    object,
                    "object admitted with changes"
                );
            }
            AdmissionVerdict::Refuse(reason) => {
                log_repeated!(
                    info,
                    self.repeats,
                    &cause("refused"),
                    webhook,
                    object,
                    reason,
                    "object refused"
                );
            }
        }
    }
}

fn check(head: &request::Parts) -> Result<(), FailedReview> {
    if head.method != Method::POST {
        let text = "405 method not allowed".to_owned();
        return Err(FailedReview::new(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    let kind = head.headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let (essence, _) = kind.split_once(';').unwrap_or((kind, ""));
    if !essence.trim().eq_ignore_ascii_case(answer::JSON) {
        let text = format!("contentType={kind}, expected {}", answer::JSON);
        return Err(FailedReview::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    Ok(())
}

/// W-6.
fn failed(reason: &str) -> FailedReview {
    let text = format!("error generating admission response: {reason}");
    FailedReview::new(StatusCode::INTERNAL_SERVER_ERROR, text)
}

impl WebhookServer {
    async fn answer(&self, request: Request, peer: &Peer) -> Answer {
        let began = Instant::now();
        let webhook = Webhook::of_path(request.uri().path());
        let served = webhook.and_then(|w| Some((w, self.reviewers.get(w.name())?)));
        let Some((webhook, reviewer)) = served else {
            return answer::not_found();
        };
        let reviewed = self.review(webhook, reviewer, request, peer).await;
        let answer = reviewed.map_or_else(
            |failure| {
                self.log_failure(webhook, &failure);
                let FailedReview { code, text } = failure;
                let answer = answer::error(code, &text);
                if code.is_server_error() {
                    // Another replica may be able to decide, and has other connections.
                    answer::last(answer)
                } else {
                    answer
                }
            },
            |review| answer::body(StatusCode::OK, answer::JSON, review),
        );
        let took = began.elapsed();
        self.metrics.answered(webhook, answer.status(), took);
        answer
    }
}
