//! One unary call: over the session of the moment, with a deadline, and with an end that is
//! understood.

use std::{future, sync::Arc, time::Duration};

use outrigger_api::{
    DEFAULT_MAX_MESSAGE_BYTES,
    v1::{self, CallContext, ErrorReason},
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tonic::{Request, Response, Status};
use tracing::debug;
use uuid::Uuid;

use super::{
    Error, Provider, Session, Shared,
    admission::{Permit, Urgency},
    details::Checked,
    metrics::ProviderMetrics,
    preconditions::Preconditions,
    raw::ONE_OBJECT,
};

/// A unary method of the contract.
pub(super) trait Unary {
    /// The request.
    type Request: Send + 'static;
    /// The response.
    type Response: Send + 'static;
    /// Its name, for people and metrics.
    const NAME: &'static str;
    /// Deadline of a call about one object, or of a fixed number of them.
    const DEADLINE: Duration;
    /// Whether it can change the cloud.
    const CHANGES: bool = false;
    /// Whether one call is about one object. UNIMPLEMENTED may then mean that object, so that the
    /// others are asked about all the same.
    const IS_ABOUT_ONE_OBJECT: bool = false;
    /// Largest answer, in bytes.
    const RECEIVE: usize = DEFAULT_MAX_MESSAGE_BYTES;
    /// Behaviour of the controller without the method, for people.
    const WITHOUT: &'static str = "calls of it are repeated with back-off";

    /// Whether the answer is whole; else the provider may still be at work.
    fn is_whole(_response: &Self::Response) -> bool {
        true
    }

    /// Sends it.
    fn send(
        channel: Checked,
        limits: MessageLimits,
        request: Request<Self::Request>,
    ) -> impl Future<Output = Result<Response<Self::Response>, Status>> + Send;

    /// Deadline of this request.
    fn deadline(_request: &Self::Request) -> Duration {
        Self::DEADLINE
    }

    /// Bytes of a request that was not cut to the limit of the provider.
    fn bytes(_request: &Self::Request) -> usize {
        0
    }
}

/// How a session is renewed that a call found to have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// By another handshake: the provider does not know this session any more.
    Handshake,
    /// By another connection: the provider is ending, its successor may be there already.
    Connection,
}

/// Requests for a renewal, with the generation of the session that is to be renewed.
pub(super) type Renewals = mpsc::Receiver<(u64, Renewal)>;

/// Largest messages, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageLimits {
    pub(super) send: usize,
    pub(super) receive: usize,
}

/// A method that one request and one response of the contract make up. The braces have the other items of
/// [`Unary`].
macro_rules! unary {
    ($call:ident = $service:ident($request:ident) -> $response:ident { $($items:tt)* }) => {
        #[doc = concat!("`", stringify!($call), "` of the contract.")]
        pub(in $crate::provider) struct $call;

        impl $crate::provider::call::Unary for $call {
            type Request = v1::$request;
            type Response = v1::$response;
            const NAME: &'static str = stringify!($call);
            $($items)*

            async fn send(
                channel: $crate::provider::details::Checked,
                limits: $crate::provider::call::MessageLimits,
                request: tonic::Request<Self::Request>,
            ) -> Result<tonic::Response<Self::Response>, tonic::Status> {
                const PATH: &str =
                    concat!("/cloudprovider.v1.", stringify!($service), "/", stringify!($call));
                $crate::provider::raw::unary(channel, limits, PATH, stringify!($response), request).await
            }
        }
    };
}
pub(super) use unary;

unary!(Handshake = ProviderService(HandshakeRequest) -> HandshakeResponse {
    const DEADLINE: Duration = Duration::from_secs(10);
    const RECEIVE: usize = ONE_OBJECT;
});
unary!(GetStatus = ProviderService(GetStatusRequest) -> GetStatusResponse {
    const DEADLINE: Duration = Duration::from_secs(5);
    const RECEIVE: usize = ONE_OBJECT;
});

/// Makes a call and reads how it ended. Dropping the future cancels the call.
pub(super) async fn send<R: Unary>(
    metrics: &ProviderMetrics,
    channel: Checked,
    limits: MessageLimits,
    message: R::Request,
) -> Result<R::Response, Error> {
    let bytes = R::bytes(&message);
    if bytes > limits.send {
        return Err(Error::TooLarge {
            rpc: R::NAME,
            bytes,
            limit: limits.send,
        });
    }
    let limits = MessageLimits {
        receive: limits.receive.min(R::RECEIVE),
        ..limits
    };
    let deadline = R::deadline(&message);
    let mut request = Request::new(message);
    // The provider receives this deadline; the channel's own time limit is not sent.
    request.set_timeout(deadline);
    let _in_flight = metrics.started(R::NAME);
    let started = Instant::now();
    // tonic's limit ends with the response's head, and a body may never come.
    let ended = timeout(deadline, R::send(channel, limits, request)).await;
    let result = match ended {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(Error::from_status(R::NAME, deadline, &status).after(
            started.elapsed(),
            R::NAME,
            deadline,
        )),
        Err(_elapsed) => Err(Error::Timeout {
            rpc: R::NAME,
            after: deadline,
        }),
    };
    metrics.ended(R::NAME, started.elapsed(), result.as_ref().err());
    result
}

impl Provider {
    /// [`Shared::admit`], but not past the stop.
    pub(super) async fn admit<R: Unary>(
        &self,
        urgency: Urgency,
    ) -> Result<(Permit, Arc<Session>), Error> {
        self.preconditions
            .wait(R::NAME, self.shared.admit(urgency))
            .await?
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

    /// The first session, of now and later, that is `wanted`.
    pub(super) async fn session_that(
        &self,
        mut wanted: impl FnMut(&Session) -> bool,
    ) -> Arc<Session> {
        let mut sessions = self.session.subscribe();
        loop {
            // Not under the lock of the channel: `wanted` may look at the session of the moment.
            let session = sessions.borrow_and_update().clone();
            if let Some(session) = session.filter(|session| wanted(session)) {
                return session;
            }
            // The sender lives as long as this.
            if sessions.changed().await.is_err() {
                return future::pending().await;
            }
        }
    }

    /// Waits for a permit of a call. Returns it with the session to make the call on.
    pub(super) async fn admit(&self, urgency: Urgency) -> Result<(Permit, Arc<Session>), Error> {
        let mut sessions = self.session.subscribe();
        loop {
            let session = self.session()?;
            tokio::select! {
                biased;
                // No call waits without a session.
                Ok(()) = sessions.changed() => {}
                permit = self.admission.enter(urgency) => return Ok((permit, session)),
            }
        }
    }

    /// Makes a call of a class: [`Shared::exchange`], whose result counts for the admission of others.
    pub(super) async fn call<R: Unary>(
        &self,
        permit: &Permit,
        preconditions: &Preconditions,
        session: &Session,
        message: impl Fn(&Session, CallContext) -> R::Request,
    ) -> Result<R::Response, Error> {
        let result = self.exchange::<R>(preconditions, session, message).await;
        match &result {
            Ok(_) => permit.succeeded(),
            Err(error) => permit.failed(error),
        }
        result
    }

    /// Makes a call, on `session` or, if the provider turns out to be a new process, once more after a
    /// new handshake. `message` makes the request for a session.
    pub(super) async fn exchange<R: Unary>(
        &self,
        preconditions: &Preconditions,
        session: &Session,
        message: impl Fn(&Session, CallContext) -> R::Request,
    ) -> Result<R::Response, Error> {
        // One logical attempt, so one id, also when the transport has to repeat it.
        let context = CallContext {
            request_id: Uuid::new_v4().to_string(),
            cluster_name: self.cluster_name.clone(),
            cluster_uid: self.cluster_uid.borrow().as_sent().to_owned(),
        };
        let result = self
            .call_once::<R>(preconditions, session, &context, &message)
            .await;
        if let Err(error) = &result
            && error.reason() == Some(ErrorReason::NotHandshaked)
            && let Some(session) = preconditions
                .wait(R::NAME, self.shake_hands_again(session, R::DEADLINE))
                .await?
        {
            return self
                .call_once::<R>(preconditions, &session, &context, &message)
                .await;
        }
        result
    }

    async fn call_once<R: Unary>(
        &self,
        preconditions: &Preconditions,
        session: &Session,
        context: &CallContext,
        message: &impl Fn(&Session, CallContext) -> R::Request,
    ) -> Result<R::Response, Error> {
        if !R::IS_ABOUT_ONE_OBJECT && session.lacks(R::NAME) {
            return Err(Error::NotServed { rpc: R::NAME });
        }
        if R::CHANGES {
            self.may_change(R::NAME)?;
        }
        let in_flight = preconditions.begin(R::NAME, R::CHANGES)?;
        let started = Instant::now();
        let request = message(session, context.clone());
        let channel = session.channel.clone();
        let result = tokio::select! {
            biased;
            result = send::<R>(&self.metrics, channel, session.limits, request) => result,
            () = preconditions.cancelled() => {
                let error = Error::Cancelled { rpc: R::NAME };
                self.metrics.ended(R::NAME, started.elapsed(), Some(&error));
                Err(error)
            }
        };
        let is_answered = match &result {
            Ok(response) => R::is_whole(response),
            Err(error) => !session.may_go_on(error),
        };
        if let Some(in_flight) = in_flight.filter(|_| is_answered) {
            in_flight.ended();
        }
        if let Err(error) = &result {
            match error {
                Error::NotServed { .. } => session.note_missing::<R>(),
                error if error.reason() == Some(ErrorReason::ShuttingDown) => {
                    self.renew(session, Renewal::Connection);
                }
                _ => {}
            }
        }
        debug!(
            rpc = R::NAME,
            request_id = context.request_id,
            took = ?started.elapsed(),
            error = result.as_ref().err().map(tracing::field::display),
            "call ended"
        );
        result
    }

    fn may_change(&self, rpc: &'static str) -> Result<(), Error> {
        let uid = self.cluster_uid.borrow();
        if uid.allows_changes(self.allow_untagged) {
            return Ok(());
        }
        let why = uid.to_string().into();
        Err(Error::Unidentified { rpc, why })
    }

    /// Waits for a session that is newer than `session`. `None` if none comes in time.
    async fn shake_hands_again(&self, session: &Session, within: Duration) -> Option<Arc<Session>> {
        self.renew(session, Renewal::Handshake);
        let newer = self.session_that(|now| now.generation > session.generation);
        timeout(within, newer).await.ok()
    }

    fn renew(&self, session: &Session, renewal: Renewal) {
        // A full queue has such a request already.
        let _ = self.renewals.try_send((session.generation, renewal));
    }
}
