//! One Lease with resourceVersions and watches, as far as an elector can tell.

use std::{future::pending, sync::Arc, time::Duration};

use futures::{FutureExt, channel::mpsc};
use http::Method;
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::kube::{
    api::Api,
    scripted::{self, ScriptedAnswer},
};

/// How the API server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    #[default]
    Well,
    /// 503 to everything.
    Refuses,
    /// No answer to anything.
    Silent,
    /// Does what it is asked, but no answer arrives.
    Mute,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) mood: Mood,
    pub(super) refuse_watches: bool,
    /// How long the answer to a GET is on its way.
    pub(super) latency: Duration,
    /// How long the answer to a write is on its way.
    pub(super) write_latency: Duration,
    /// An admission webhook gives this annotation this value in each write, or removes it.
    pub(super) policy: Option<(&'static str, Option<&'static str>)>,
    pub(super) lease: Option<Value>,
    version: u64,
    watches: Vec<mpsc::UnboundedSender<Value>>,
    /// Open, but nothing comes through any more.
    deaf: Vec<mpsc::UnboundedSender<Value>>,
    /// Method and holder of each request but watches.
    pub(super) log: Vec<(Instant, String)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Store(pub(super) Arc<Mutex<Inner>>);

impl Inner {
    fn changed(&mut self, kind: &str, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = (kind != "DELETED").then(|| lease.clone());
        let event = json!({"type": kind, "object": lease});
        self.watches
            .retain(|watch| watch.unbounded_send(event.clone()).is_ok());
        lease
    }

    fn serve(&mut self, method: &Method, body: &Value) -> ScriptedAnswer {
        match (method, self.lease.clone()) {
            (&Method::GET, Some(lease)) => scripted::json(200, &lease),
            (&Method::POST, None) => {
                let mut lease = body.clone();
                lease["metadata"]["uid"] = json!("uid-1");
                scripted::json(201, &self.changed("ADDED", lease))
            }
            (&Method::POST, Some(_)) => scripted::refusal(409, "AlreadyExists"),
            (&Method::PUT, Some(lease)) => {
                if body["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"] {
                    return scripted::refusal(409, "Conflict");
                }
                let mut lease = body.clone();
                if let Some((key, value)) = self.policy
                    && let Some(annotations) = lease["metadata"]["annotations"].as_object_mut()
                {
                    match value {
                        Some(value) => annotations.insert(key.to_owned(), json!(value)),
                        None => annotations.remove(key),
                    };
                }
                scripted::json(200, &self.changed("MODIFIED", lease))
            }
            _ => scripted::refusal(404, "NotFound"),
        }
    }
}

impl Store {
    /// An admission webhook gives the annotation this value in each write, or removes it.
    pub(crate) fn policy(&self, policy: Option<(&'static str, Option<&'static str>)>) {
        self.0.lock().policy = policy;
    }

    /// Forgets the requests so far.
    pub(crate) fn forget_log(&self) {
        self.0.lock().log = Vec::new();
    }

    pub(crate) fn api(&self) -> Api {
        let store = self.clone();
        Api::new(scripted::client(move |request| {
            let store = store.clone();
            async move { store.answer(request).await }.boxed()
        }))
    }

    async fn answer(&self, request: http::Request<Body>) -> ScriptedAnswer {
        let (parts, body) = request.into_parts();
        if parts.uri.path().ends_with("/namespaces/kube-system") {
            return scripted::refusal(403, "Forbidden");
        }
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_watch = query.contains("watch=true");
        let is_read = parts.method == Method::GET && !is_watch;
        let (mood, latency, answer) = {
            let mut inner = self.0.lock();
            if !is_watch {
                assert!(query.contains("timeout=5000ms"), "{query}");
                let holder = body["spec"]["holderIdentity"].as_str().unwrap_or_default();
                inner.log.push((
                    Instant::now(),
                    format!("{} {holder}", parts.method).trim().into(),
                ));
            }
            let answer = match inner.mood {
                Mood::Silent => None,
                Mood::Refuses => Some(scripted::refusal(503, "ServiceUnavailable")),
                _ if is_watch && inner.refuse_watches => Some(scripted::refusal(403, "Forbidden")),
                _ if is_watch => {
                    assert!(
                        query.contains("fieldSelector=metadata.name%3Dccm&"),
                        "{query}"
                    );
                    let (events, answer) = scripted::live_watch();
                    if let Some(lease) = &inner.lease {
                        events
                            .unbounded_send(json!({"type": "ADDED", "object": lease}))
                            .unwrap();
                    }
                    inner.watches.push(events);
                    Some(answer)
                }
                Mood::Well | Mood::Mute => Some(inner.serve(&parts.method, &body)),
            };
            let latency = match is_read {
                true => inner.latency,
                false if is_watch => Duration::ZERO,
                false => inner.write_latency,
            };
            (inner.mood, latency, answer)
        };
        if !latency.is_zero() {
            sleep(latency).await;
        }
        match answer {
            Some(answer) if mood != Mood::Mute => answer,
            _ => pending().await,
        }
    }

    pub(crate) fn mood(&self, mood: Mood) {
        let mut inner = self.0.lock();
        inner.mood = mood;
        if mood != Mood::Well {
            inner.watches.clear();
        }
    }

    /// Ends all watches and refuses new ones.
    pub(super) fn refuse_watches(&self) {
        let mut inner = self.0.lock();
        inner.refuse_watches = true;
        inner.watches.clear();
    }

    /// Nothing comes through the open watches any more, as when a connection dies unnoticed.
    pub(super) fn deafen(&self) {
        let mut inner = self.0.lock();
        let Inner { watches, deaf, .. } = &mut *inner;
        deaf.append(watches);
    }

    /// Another client changes the Lease.
    pub(crate) fn edit(&self, edit: impl FnOnce(&mut Value)) {
        let mut inner = self.0.lock();
        let mut lease = inner.lease.clone().unwrap();
        edit(&mut lease);
        inner.changed("MODIFIED", lease);
    }

    pub(super) fn delete(&self) {
        let mut inner = self.0.lock();
        let lease = inner.lease.clone().unwrap();
        inner.changed("DELETED", lease);
    }

    pub(crate) fn lease(&self) -> Value {
        self.0.lock().lease.clone().unwrap_or_default()
    }

    pub(crate) fn holder(&self) -> String {
        self.lease()["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The requests so far, which are then forgotten.
    pub(super) fn requests(&self) -> Vec<String> {
        self.0
            .lock()
            .log
            .drain(..)
            .map(|(_, request)| request)
            .collect()
    }

    pub(super) fn last_request(&self) -> Instant {
        self.0.lock().log.last().unwrap().0
    }
}
