//! One call: over the session of the moment, with a deadline, and with an end that is
//! understood.

use std::{future, sync::Arc, time::Duration};

use outrigger_api::{
    Method, MethodRequest,
    v1::{CallContext, ErrorReason},
};
use tokio::time::{Instant, timeout};
use tonic::{Request, Status};
use tracing::debug;
use uuid::Uuid;

use super::{
    Error, Session, Shared,
    admission::Permit,
    channel::{self, Channel},
    metrics::ProviderMetrics,
    preconditions::Preconditions,
};

/// A call of a method of the contract.
pub(super) trait ProviderCall: Send + Sized + 'static {
    /// The message that it begins with.
    type Message: MethodRequest;
    /// All that comes back.
    type Reply: Send + 'static;

    /// Where its context goes.
    fn context_mut(&mut self) -> Option<&mut Option<CallContext>>;

    /// Bytes of its largest message.
    fn bytes(&self) -> usize;

    fn deadline(&self) -> Duration {
        Self::Message::METHOD.deadline
    }

    /// Makes it.
    fn send(
        call: Request<Self>,
        channel: Channel,
        max_send: usize,
    ) -> impl Future<Output = Result<Self::Reply, Status>> + Send;
}

/// One message, and one back.
impl<M: MethodRequest> ProviderCall for M {
    type Message = M;
    type Reply = M::Response;

    fn context_mut(&mut self) -> Option<&mut Option<CallContext>> {
        MethodRequest::context_mut(self)
    }

    fn bytes(&self) -> usize {
        self.encoded_len()
    }

    async fn send(
        call: Request<M>,
        channel: Channel,
        max_send: usize,
    ) -> Result<M::Response, Status> {
        channel::client_streaming(
            channel,
            max_send,
            call.map(|message| tokio_stream::once(message)),
        )
        .await
    }
}

/// Returns true if the method is called again after UNIMPLEMENTED, which may mean one load balancer only.
fn is_called_again(method: &Method) -> bool {
    matches!(
        method.name,
        "GetLoadBalancer" | "EnsureLoadBalancer" | "DeleteLoadBalancer" | "PlanLoadBalancer"
    )
}

/// Makes a call and reads how it ended. Dropping the future cancels the call.
pub(super) async fn send<C: ProviderCall>(
    metrics: &ProviderMetrics,
    channel: Channel,
    max_send: usize,
    call: C,
) -> Result<C::Reply, Error> {
    let method = C::Message::METHOD;
    let (rpc, bytes) = (method.name, call.bytes());
    if bytes > max_send {
        return Err(Error::TooLarge {
            rpc,
            bytes,
            limit: max_send,
        });
    }
    let deadline = call.deadline();
    let mut request = Request::new(call);
    // The provider receives this deadline; the channel's own time limit is not sent.
    request.set_timeout(deadline);
    let _in_flight = metrics.started(rpc);
    let started = Instant::now();
    // tonic's limit ends with the response's head, and a body may never come.
    let ended = timeout(deadline, C::send(request, channel, max_send)).await;
    let result = match ended {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(status)) => {
            let error = Error::from_status(rpc, &status);
            Err(error.after(started.elapsed(), rpc, deadline))
        }
        Err(_elapsed) => Err(Error::Timeout {
            rpc,
            after: deadline,
        }),
    };
    metrics.ended(rpc, started.elapsed(), result.as_ref().err());
    result
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

    /// Waits for a permit of a call. Returns it with the session to make the call on.
    pub(super) async fn admit(
        &self,
        method: &'static Method,
    ) -> Result<(Permit, Arc<Session>), Error> {
        let mut sessions = self.session.subscribe();
        loop {
            let session = self.session()?;
            tokio::select! {
                biased;
                // No call waits without a session.
                Ok(()) = sessions.changed() => {}
                permit = self.admission.enter(method) => return Ok((permit, session)),
            }
        }
    }

    /// Makes a call of a class: [`Shared::exchange`], whose result counts for the admission of others.
    pub(super) async fn call<C: ProviderCall>(
        &self,
        permit: &Permit,
        preconditions: &Preconditions,
        session: &Session,
        call: impl Fn(&Session) -> C,
    ) -> Result<C::Reply, Error> {
        let result = self.exchange(preconditions, session, call).await;
        match &result {
            Ok(_) => permit.succeeded(),
            Err(error) => permit.failed(error),
        }
        result
    }

    /// Makes a call, on `session` or, if the provider turns out to be a new process, once more on the next connection.
    /// `call` makes the request for a session.
    pub(super) async fn exchange<C: ProviderCall>(
        &self,
        preconditions: &Preconditions,
        session: &Session,
        call: impl Fn(&Session) -> C,
    ) -> Result<C::Reply, Error> {
        // One logical attempt, so one id, also when the transport has to repeat it.
        let context = CallContext {
            request_id: Uuid::new_v4().to_string(),
            cluster_name: self.cluster_name.clone(),
            cluster_uid: self.cluster_uid.borrow().as_sent().to_owned(),
        };
        let result = self
            .call_once(preconditions, session, &context, &call)
            .await;
        if let Err(error) = &result
            && error.reason() == Some(ErrorReason::NotHandshaked)
            && let Some(session) = preconditions
                .wait(
                    C::Message::METHOD.name,
                    self.next_session(session, C::Message::METHOD.deadline),
                )
                .await?
        {
            return self
                .call_once(preconditions, &session, &context, &call)
                .await;
        }
        result
    }

    async fn call_once<C: ProviderCall>(
        &self,
        preconditions: &Preconditions,
        session: &Session,
        context: &CallContext,
        call: &impl Fn(&Session) -> C,
    ) -> Result<C::Reply, Error> {
        let method = C::Message::METHOD;
        let rpc = method.name;
        if !is_called_again(method) && session.lacks(rpc) {
            return Err(Error::NotServed { rpc });
        }
        if method.changes_cloud {
            self.may_change()?;
        }
        let in_flight = preconditions.begin(rpc, method.changes_cloud)?;
        let started = Instant::now();
        let mut call = call(session);
        if let Some(own) = call.context_mut() {
            *own = Some(context.clone());
        }
        let channel = session.channel.clone();
        let result = tokio::select! {
            biased;
            result = send(&self.metrics, channel, session.max_send_bytes, call) => result,
            () = preconditions.cancelled() => {
                let error = Error::Cancelled { rpc };
                self.metrics.ended(rpc, started.elapsed(), Some(&error));
                Err(error)
            }
        };
        let is_answered = |error| !session.may_go_on(error);
        if let Some(in_flight) = in_flight
            && result.as_ref().err().is_none_or(is_answered)
        {
            in_flight.ended();
        }
        if let Err(error) = &result {
            match (error, error.reason()) {
                (Error::NotServed { .. }, _) => session.note_missing(method),
                // It may have said so (GOAWAY) long before its last call ends; its successor may be there already.
                (Error::ConnectionLost { .. }, _)
                | (_, Some(ErrorReason::ShuttingDown | ErrorReason::NotHandshaked)) => {
                    session.closed.cancel();
                }
                _ => {}
            }
        }
        debug!(
            rpc,
            request_id = context.request_id,
            took = ?started.elapsed(),
            error = result.as_ref().err().map(tracing::field::display),
            "call ended"
        );
        result
    }

    fn may_change(&self) -> Result<(), Error> {
        let uid = self.cluster_uid.borrow();
        if uid.allows_changes(self.allow_untagged) {
            return Ok(());
        }
        let why = uid.to_string().into();
        Err(Error::Unidentified { why })
    }

    /// Waits for a session that is newer than `session`. `None` if none comes in time.
    async fn next_session(&self, session: &Session, within: Duration) -> Option<Arc<Session>> {
        let newer = self.session_that(|now| now.generation > session.generation);
        timeout(within, newer).await.ok()
    }
}
