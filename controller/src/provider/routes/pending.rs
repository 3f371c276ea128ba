//! Routes that wait to be made or deleted.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use outrigger_api::{MethodRequest, v1};
use outrigger_core::{
    cidr::Cidr,
    route::{ObservedRoute, WantedRoute},
};
use prost::Message;
use tokio::time::Instant;

use super::{RouteAnswer, calls::send_batch, message};
use crate::{
    fence::Fence,
    provider::{
        Error, Session, Shared,
        admission::{Permit, Urgency},
        batch::{BatchCaller, BatchItem, WaitingItems, fail_not_offered, take_batch},
        preconditions::Preconditions,
    },
};

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
    pub(super) caller: BatchCaller<RouteAnswer>,
}

/// Changes that have not gone out, each kind oldest first.
#[derive(Default)]
pub(in crate::provider) struct WaitingRoutes {
    creates: VecDeque<PendingRoute>,
    deletes: VecDeque<PendingRoute>,
}

impl RouteChange {
    /// Name of the method.
    pub(super) const fn rpc(&self) -> &'static str {
        match self {
            Self::Create(_) => v1::BatchCreateRoutesRequest::METHOD.name,
            Self::Delete(_) => v1::BatchDeleteRoutesRequest::METHOD.name,
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
        if self.caller.is_gone() {
            return None;
        }
        if !self.preconditions.is_wanted() {
            let rpc = self.change.rpc();
            self.fail(Error::Outdated { rpc });
            return None;
        }
        self.caller.mark_sent();
        Some(self)
    }
}

impl BatchItem for PendingRoute {
    fn rpc(&self) -> &'static str {
        self.change.rpc()
    }

    fn bytes(&self, _session: &Session) -> usize {
        self.change.message().encoded_len()
    }

    fn term(&self) -> Option<&Fence> {
        self.preconditions.fence()
    }

    fn fail(self, error: Error) {
        self.caller.answer(error.into());
    }
}

impl WaitingRoutes {
    /// Removes all.
    fn drain(&mut self) -> impl Iterator<Item = PendingRoute> {
        self.creates.drain(..).chain(self.deletes.drain(..))
    }
}

impl WaitingItems for WaitingRoutes {
    type Item = PendingRoute;
    type Batch = Vec<PendingRoute>;
    type Ended = ();

    fn join(&mut self, pending: PendingRoute, _: &Shared) {
        match pending.change {
            RouteChange::Create(_) => self.creates.push_back(pending),
            RouteChange::Delete(_) => self.deletes.push_back(pending),
        }
    }

    fn urgency(&mut self, _: Instant) -> Option<Urgency> {
        let is_empty = self.creates.is_empty() && self.deletes.is_empty();
        (!is_empty).then_some(Urgency::Routes)
    }

    /// Creates or deletes, whichever of them have waited longer, and no destination twice.
    fn take(&mut self, _: Instant, session: &Session) -> Option<Vec<PendingRoute>> {
        let Some(offered) = &session.routes else {
            fail_not_offered(self.drain());
            return None;
        };
        for queue in [&mut self.creates, &mut self.deletes] {
            queue.retain(|pending| !pending.caller.is_gone());
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
        let batch = take_batch(&mut once, session, offered.max_batch_size, 0);
        once.extend(again);
        *queue = once;
        (!batch.is_empty()).then_some(batch)
    }

    fn fail_due(&mut self, _: Instant, error: &Error) {
        for pending in self.drain() {
            pending.fail(error.clone());
        }
    }

    fn call(
        shared: Arc<Shared>,
        admitted: (Permit, Arc<Session>),
        batch: Vec<PendingRoute>,
    ) -> impl Future<Output = ()> + Send + 'static {
        send_batch(shared, admitted, batch)
    }

    fn ended(&mut self, (): ()) {}
}
