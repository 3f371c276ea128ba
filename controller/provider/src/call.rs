//! One call: over the session of the moment, with a deadline, and with an end that is understood.
//!
//! The typed calls ([`crate::LoadBalancers`], [`crate::Routes`] and so on) go through a [`Caller`]. It waits for admission,
//! asks the fence and the object's own check right before the request leaves, and reports the end of the call to admission
//! and metrics. It repeats nothing.

use std::{future, sync::Arc};

use outrigger_api::{
    ListPage, Method, MethodRequest,
    v1::{CallContext, ErrorReason},
};
use outrigger_runtime::fence::Fence;
use tokio::time::{Instant, timeout};
use tracing::debug;
use uuid::Uuid;

use super::{Error, Session, Shared, admission::Slot, metrics::ProviderMetrics};

/// Returns true if the method is called again after UNIMPLEMENTED, which may mean one load balancer only.
fn is_called_again(method: &Method) -> bool {
    matches!(
        method.name,
        "GetLoadBalancer" | "EnsureLoadBalancer" | "DeleteLoadBalancer" | "PlanLoadBalancer"
    )
}

/// Makes a call of `method`, and reads how it ended. Dropping the future cancels the call.
pub(super) async fn send<T>(
    metrics: &ProviderMetrics,
    method: &Method,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let (rpc, after) = (method.name, method.deadline);
    let _in_flight = metrics.started(rpc);
    let started = Instant::now();
    // tonic's limit ends with the response's head, and a body may never come.
    let result = match timeout(after, call).await {
        Ok(result) => result.map_err(|error| error.after(started.elapsed(), rpc, after)),
        Err(_elapsed) => Err(Error::Timeout { rpc, after }),
    };
    metrics.ended(rpc, started.elapsed(), result.as_ref().err());
    result
}

/// Makes the calls of one lease term, each only while it is wanted. Cheap to clone.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) shared: Arc<Shared>,
    pub(super) fence: Fence,
    /// Returns true while a call still carries the desired state of its object. Asked right before a request is sent.
    pub(super) is_current: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Caller {
    /// For calls that several objects share: they depend on none of them.
    pub(super) fn of_several(&self) -> Self {
        Self {
            is_current: Arc::new(|| true),
            ..self.clone()
        }
    }

    /// Waits for something that has to come before the call of `rpc`, but not past the stop.
    pub(super) async fn wait<T>(
        &self,
        rpc: &'static str,
        before: impl Future<Output = T>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.fence.stopped() => Err(Error::Fenced { rpc }),
            it = before => Ok(it),
        }
    }

    /// [`Shared::admit`], but not past the stop.
    pub(super) async fn admit<M: MethodRequest>(&self) -> Result<Slot, Error> {
        let admitted = self.wait(M::METHOD.name, self.shared.admit(M::METHOD));
        admitted.await.flatten()
    }

    /// A call of one message and one answer, whose end counts for the admission of others.
    pub(super) async fn call<M: MethodRequest>(
        &self,
        slot: &Slot,
        message: M,
    ) -> Result<M::Response, Error> {
        let result = self.unary(slot.begin(), message).await;
        slot.permit.ended(result.as_ref().err());
        result
    }

    /// A list, whose end counts likewise. `take` gets each entry; after an error they are not all.
    pub(super) async fn list<M: MethodRequest<Response: ListPage>>(
        &self,
        slot: &Slot,
        message: M,
        take: impl FnMut(<M::Response as ListPage>::Item),
    ) -> Result<(), Error> {
        let session = slot.begin();
        let call = |message| session.channel().list(message, take);
        let result = self.exchange(session, message, call).await;
        slot.permit.ended(result.as_ref().err());
        result
    }

    /// A call of one message and one answer.
    pub(super) async fn unary<M: MethodRequest>(
        &self,
        session: &Session,
        message: M,
    ) -> Result<M::Response, Error> {
        let call = |message| session.channel().unary(message);
        self.exchange(session, message, call).await
    }

    /// Makes a call on `session`, if it may begin, with its first message. There is no wait between this decision and its
    /// request.
    pub(super) async fn exchange<M, T, F>(
        &self,
        session: &Session,
        mut message: M,
        call: impl FnOnce(M) -> F,
    ) -> Result<T, Error>
    where
        M: MethodRequest,
        F: Future<Output = Result<T, Error>>,
    {
        let (method, rpc, shared) = (M::METHOD, M::METHOD.name, &self.shared);
        if !session.declares::<M>() {
            return Err(Error::NotOffered { rpc });
        }
        if !is_called_again(method) && session.lacks(rpc) {
            return Err(Error::NotServed { rpc });
        }
        let cluster_uid = {
            let uid = shared.cluster_uid.borrow();
            if method.changes_cloud && !uid.allows_changes(shared.allow_untagged) {
                let why = uid.to_string().into();
                return Err(Error::Unidentified { why });
            }
            uid.as_sent().to_owned()
        };
        let in_flight = self.fence.begin(method.changes_cloud);
        let in_flight = in_flight.ok_or(Error::Fenced { rpc })?;
        if !(self.is_current)() {
            in_flight.ended();
            return Err(Error::Outdated { rpc });
        }
        let started = Instant::now();
        let request_id = Uuid::new_v4().to_string();
        if let Some(context) = message.context_mut() {
            *context = Some(CallContext {
                request_id: request_id.clone(),
                cluster_name: shared.cluster_name.clone(),
                cluster_uid,
            });
        }
        // Boxed: each future around it would have its size twice.
        let call = Box::pin(call(message));
        let until_cancelled = async {
            tokio::select! {
                biased;
                result = call => result,
                () = self.fence.cancelled() => Err(Error::Cancelled { rpc }),
            }
        };
        let result = send(&shared.metrics, method, until_cancelled).await;
        let error = result.as_ref().err();
        if !error.is_some_and(|error| session.may_go_on(error)) {
            in_flight.ended();
        }
        match error.map(|error| (error, error.reason())) {
            Some((Error::NotServed { .. }, _)) => session.note_missing(method),
            // It may have said so (GOAWAY) long before its last call ends; its successor may be there already.
            Some(
                (Error::ConnectionLost { .. }, _)
                | (_, Some(ErrorReason::ShuttingDown | ErrorReason::NotHandshaked)),
            ) => session.connection.closed.cancel(),
            _ => {}
        }
        debug!(
            rpc,
            request_id,
            took = ?started.elapsed(),
            error = error.map(tracing::field::display),
            "call ended"
        );
        result
    }
}

impl Shared {
    /// The session of the moment.
    pub(super) fn session(&self) -> Result<Arc<Session>, Error> {
        let session = self.session.borrow().clone();
        session.ok_or_else(|| {
            let state = self.state.borrow();
            let reason = state.reason().cloned();
            Error::Unavailable {
                reason: reason.unwrap_or_else(|| "the first connection is still being made".into()),
            }
        })
    }

    /// Waits for the first session, the current one or a later, that `is_eligible`.
    pub(super) async fn session_that(
        &self,
        mut is_eligible: impl FnMut(&Session) -> bool,
    ) -> Arc<Session> {
        let mut sessions = self.session.subscribe();
        loop {
            // Not under the lock of the channel: `is_eligible` may look at the session of the moment.
            let session = sessions.borrow_and_update().clone();
            if let Some(session) = session.filter(|session| is_eligible(session)) {
                return session;
            }
            // The sender lives as long as this.
            if sessions.changed().await.is_err() {
                return future::pending().await;
            }
        }
    }

    /// Waits until a call may begin, on the session that comes with it. No call waits without a session, and a change of
    /// the session begins the wait again, for it changes limits.
    pub(super) async fn admit(&self, method: &Method) -> Result<Slot, Error> {
        let mut sessions = self.session.subscribe();
        loop {
            let session = self.session()?;
            tokio::select! {
                biased;
                Ok(()) = sessions.changed() => {}
                permit = self.admission.enter(method) => return Ok(Slot { permit, session }),
            }
        }
    }
}
