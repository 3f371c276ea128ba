//! The recorded requests of clients, in the order of their arrival, and a way to wait for them.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header::USER_AGENT, request::Parts};
use tokio::{sync::watch, time::Instant};

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No answer yet, or the client left before there was one.
    Pending,
    /// The API server's answer was passed on, or a fault's. For a watch this is its
    /// beginning.
    Answered(StatusCode),
    /// The connection was closed without an answer, by a fault or because the API server
    /// could not be reached.
    Lost,
}

/// A request that came to the proxy.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The HTTP method.
    pub method: Method,
    /// The path without the query.
    pub path: String,
    /// The query without its `?`; empty if there was none.
    pub query: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// When it had come in completely.
    pub started: Instant,
    /// The outcome.
    pub outcome: Outcome,
    /// True if a rule acted on it.
    pub faulted: bool,
}

impl Recorded {
    pub(super) fn new(parts: &Parts, body: Bytes) -> Self {
        Self {
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: parts.headers.clone(),
            body,
            started: Instant::now(),
            outcome: Outcome::Pending,
            faulted: false,
        }
    }

    /// Returns whether it opens a watch.
    pub fn is_watch(&self) -> bool {
        self.query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1"))
    }

    /// Returns whether it changes something.
    pub fn is_write(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    /// The `User-Agent`, empty if there was none.
    pub fn user_agent(&self) -> &str {
        let agent = self.headers.get(USER_AGENT);
        agent
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default()
    }

    /// The body as JSON, null if it is something else.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn example(method: Method, path: &str, query: &str) -> Self {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{path}?{query}"));
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Self::new(&parts, Bytes::new())
    }
}

/// The records that tests can wait for.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) requests: Vec<Recorded>,
    pub(super) listening: bool,
    /// How many requests were removed, so that an index stays valid.
    removed: usize,
}

pub(super) struct Recorder(watch::Sender<Log>);

/// The place of a request in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry(usize);

impl Default for Recorder {
    fn default() -> Self {
        Self(watch::Sender::new(Log::default()))
    }
}

impl Recorder {
    pub(super) fn add(&self, request: Recorded) -> Entry {
        let mut entry = Entry(0);
        self.0.send_modify(|log| {
            entry = Entry(log.removed + log.requests.len());
            log.requests.push(request);
        });
        entry
    }

    pub(super) fn set_outcome(&self, entry: Entry, outcome: Outcome) {
        self.0.send_modify(|log| {
            let index = entry.0.checked_sub(log.removed);
            if let Some(request) = index.and_then(|index| log.requests.get_mut(index)) {
                request.outcome = outcome;
            }
        });
    }

    pub(super) fn set_listening(&self, listening: bool) {
        self.0.send_modify(|log| log.listening = listening);
    }

    pub(super) fn requests(&self) -> Vec<Recorded> {
        self.0.borrow().requests.clone()
    }

    pub(super) fn take(&self) -> Vec<Recorded> {
        let mut taken = Vec::new();
        self.0.send_modify(|log| {
            taken = std::mem::take(&mut log.requests);
            log.removed += taken.len();
        });
        taken
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Log> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_differ_from_writes() {
        let check = |method, query, watch, write| {
            let request = Recorded::example(method, "/api/v1/nodes", query);
            assert_eq!(
                (request.is_watch(), request.is_write()),
                (watch, write),
                "{query}"
            );
        };
        check(Method::GET, "watch=true&resourceVersion=5", true, false);
        check(Method::GET, "resourceVersion=5&watch=1", true, false);
        check(Method::GET, "limit=500", false, false);
        check(Method::DELETE, "", false, true);
    }

    #[test]
    fn an_outcome_finds_its_request_after_others_were_taken() {
        let recorder = Recorder::default();
        let request = || Recorded::example(Method::GET, "/api", "");
        let old = recorder.add(request());
        recorder.take();
        let new = recorder.add(request());
        recorder.set_outcome(old, Outcome::Lost);
        assert_eq!(recorder.requests()[0].outcome, Outcome::Pending);
        recorder.set_outcome(new, Outcome::Lost);
        assert_eq!(recorder.requests()[0].outcome, Outcome::Lost);
    }
}
