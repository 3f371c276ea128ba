//! Faults of requests and watches, decided by the scenario.

use std::time::Duration;

use tokio::time::Instant;

use super::resource::Verb;

/// A request, as far as a fault depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The name that the client connected with.
    pub client: String,
    /// Its purpose.
    pub verb: Verb,
    /// The kind of its objects, in the plural: `nodes`.
    pub resource: &'static str,
    /// Its path, without the query.
    pub path: String,
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// How long it is on its way. It arrives even if its client is gone by then.
    pub before: Duration,
    /// How long the answer, or the loss of the connection, is on its way.
    pub after: Duration,
    /// The rest.
    pub kind: FaultKind,
}

/// How a request is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing happens to it.
    #[default]
    None,
    /// It does not arrive; the connection breaks.
    RequestLost,
    /// It is carried out; the connection breaks instead of the answer.
    AnswerLost,
    /// It is refused with this HTTP status.
    Refused(u16),
    /// Reads and watches see the objects as they were at this version; one that is forgotten
    /// counts as the newest.
    Past(u64),
}

/// When a watch shows a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Immediately.
    Now,
    /// Then, and those after it too.
    At(Instant),
    /// The connection breaks.
    Cut,
}

pub(super) type RequestFaults = Box<dyn FnMut(&Request) -> Fault + Send>;
pub(super) type WatchFaults = Box<dyn FnMut(&Request) -> Delivery + Send>;

/// A connection that broke.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by peer")]
pub(super) struct ConnectionLost;
