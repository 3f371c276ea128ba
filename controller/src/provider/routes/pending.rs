//! Routes that wait to be made or deleted.

use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use outrigger_api::v1;
use outrigger_core::{
    cidr::Cidr,
    route::{ObservedRoute, WantedRoute},
};
use prost::Message;
use tokio::{sync::oneshot, time::Instant};

use super::{
    RouteAnswer,
    calls::{BatchCreateRoutes, BatchDeleteRoutes},
    message,
};
use crate::provider::{
    Error, Session,
    batch::{BatchItem, take_batch},
    call::Unary,
    preconditions::Preconditions,
};

/// Bytes of a request besides its routes, generously.
const ENVELOPE: usize = 1024;
/// Bytes around one route: a tag and a length.
const AROUND: usize = 6;

/// A wanted change of one route.
#[derive(Clone, Debug)]
pub(super) enum RouteChange {
    Create(WantedRoute),
    Delete(ObservedRoute),
}

/// A change that waits for its call, and its caller.
pub(in crate::provider) struct PendingRoute {
    pub(super) change: RouteChange,
    /// Of this route alone.
    pub(super) preconditions: Preconditions,
    pub(super) since: Instant,
    pub(super) answer: oneshot::Sender<RouteAnswer>,
    /// Whether the change went out with a call.
    pub(super) is_sent: Arc<AtomicBool>,
}

/// Changes that have not gone out, each kind oldest first.
#[derive(Default)]
pub(super) struct WaitingRoutes {
    creates: VecDeque<PendingRoute>,
    deletes: VecDeque<PendingRoute>,
}

impl RouteChange {
    /// Name of the method.
    pub(super) const fn rpc(&self) -> &'static str {
        match self {
            Self::Create(_) => BatchCreateRoutes::NAME,
            Self::Delete(_) => BatchDeleteRoutes::NAME,
        }
    }

    pub(super) const fn destination(&self) -> Cidr {
        match self {
            Self::Create(route) => route.destination,
            Self::Delete(route) => route.destination(),
        }
    }

    /// The route of the request.
    pub(super) fn message(&self) -> v1::Route {
        match self {
            Self::Create(route) => message::wanted(route),
            Self::Delete(route) => message::observed(route),
        }
    }
}

impl PendingRoute {
    /// Whether the change is sent, asked right before that. If not, its caller has the error.
    pub(super) fn begin(self) -> Option<Self> {
        if self.answer.is_closed() {
            return None;
        }
        if !self.preconditions.is_wanted() {
            let rpc = self.change.rpc();
            self.fail(Error::Outdated { rpc });
            return None;
        }
        self.is_sent.store(true, Ordering::Release);
        Some(self)
    }

    /// A caller that is gone needs no answer.
    pub(super) fn answer(self, answer: RouteAnswer) {
        let _ = self.answer.send(answer);
    }
}

impl BatchItem for PendingRoute {
    fn rpc(&self) -> &'static str {
        self.change.rpc()
    }

    fn bytes(&self, _session: &Session) -> usize {
        self.change.message().encoded_len() + AROUND
    }

    fn fail(self, error: Error) {
        self.answer(error.into());
    }
}

impl WaitingRoutes {
    pub(super) fn is_empty(&self) -> bool {
        self.creates.is_empty() && self.deletes.is_empty()
    }

    pub(super) fn join(&mut self, pending: PendingRoute) {
        match pending.change {
            RouteChange::Create(_) => self.creates.push_back(pending),
            RouteChange::Delete(_) => self.deletes.push_back(pending),
        }
    }

    /// Takes out the routes of the next call, at most `most`: creates or deletes, whichever of them have
    /// waited longer, and no destination twice.
    pub(super) fn take(&mut self, session: &Session, most: usize) -> Vec<PendingRoute> {
        for queue in [&mut self.creates, &mut self.deletes] {
            queue.retain(|pending| !pending.answer.is_closed());
        }
        let first = |queue: &VecDeque<PendingRoute>| queue.front().map(|pending| pending.since);
        let creates_first = match (first(&self.creates), first(&self.deletes)) {
            (Some(create), Some(delete)) => create < delete,
            (create, _) => create.is_some(),
        };
        let queue = if creates_first {
            &mut self.creates
        } else {
            &mut self.deletes
        };
        let mut destinations = HashSet::new();
        let (mut once, again): (VecDeque<_>, VecDeque<_>) = queue
            .drain(..)
            .partition(|pending| destinations.insert(pending.change.destination()));
        let batch = take_batch(&mut once, session, most, ENVELOPE);
        once.extend(again);
        *queue = once;
        batch
    }

    /// Fails all of them.
    pub(super) fn fail(&mut self, error: impl Fn(&'static str) -> Error) {
        for pending in self.creates.drain(..).chain(self.deletes.drain(..)) {
            let error = error(pending.change.rpc());
            pending.fail(error);
        }
    }
}
