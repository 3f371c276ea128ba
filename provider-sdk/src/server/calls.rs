//! How a vendor's handler is run: in a separate task, with a deadline, and never dropped half-way.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use outrigger_api::v1;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_stream::Stream;
use tokio_util::sync::DropGuard;
use tonic::{Code, Response, Status};
use tracing::{Instrument, Span};

use super::arrival::Arrival;
use super::core::{Core, Session};
use crate::{Cluster, Context, Error, ErrorReason};

/// How long a handler may run on after its caller stopped waiting.
const CANCEL_GRACE: Duration = Duration::from_secs(30);

/// The stream of answers to a call.
pub(super) type Answers<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

/// The answer to a call, or its error as a status.
pub(super) async fn answered<T>(
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<Response<T>, Status> {
    answer.await.map(Response::new).map_err(Error::into_status)
}

/// A response that the caller would refuse is an error with the reason, not a broken call. `lower` names
/// the setting that makes responses smaller.
pub(super) fn within<M: Message>(
    max_bytes: usize,
    response: M,
    lower: &'static str,
) -> Result<M, Error> {
    let bytes = response.encoded_len();
    if bytes > max_bytes {
        return Err(Error::internal(format!(
            "the answer has {bytes} bytes, more than the {max_bytes} that the controller accepts; \
             lower {lower}"
        )));
    }
    Ok(response)
}

/// One call that passed the checks which all calls share.
pub(super) struct Call {
    pub(super) session: Session,
    core: Arc<Core>,
    ctx: Context,
    span: Span,
}

impl Call {
    /// Checks what every request but `Handshake` and `GetStatus` carries.
    pub(super) fn admit<T>(
        core: &Arc<Core>,
        rpc: &'static str,
        request: &tonic::Request<T>,
        context: impl FnOnce(&T) -> Option<&v1::CallContext>,
    ) -> Result<Self, Error> {
        let context = context(request.get_ref());
        Self::admit_context(core, rpc, Arrival::of(request), context)
    }

    /// As [`admit`](Self::admit), of a call whose context comes in a stream.
    pub(super) fn admit_context(
        core: &Arc<Core>,
        rpc: &'static str,
        arrival: Arrival,
        context: Option<&v1::CallContext>,
    ) -> Result<Self, Error> {
        if core.running.draining() {
            return Err(Error::shutting_down(
                "this provider is ending; connect again",
            ));
        }
        let context = context.ok_or_else(|| {
            Error::invalid_request("the request has no context; send request_id and cluster_name")
        })?;
        let request_id = &context.request_id;
        if request_id.is_empty() || request_id.len() > 64 {
            return Err(Error::invalid_request(format!(
                "context.request_id has {} bytes; send 1 to 64",
                request_id.len()
            )));
        }
        let session = core.session(&context.cluster_name)?;
        let traceparent = arrival.traceparent.as_deref();
        let span = tracing::info_span!("call", rpc, request_id, traceparent);
        let ctx = Context::new(
            request_id.clone(),
            cluster(&session.cluster, &context.cluster_uid),
            arrival.deadline,
            arrival.traceparent,
            core.running.stop.child_token(),
        );
        Ok(Self {
            session,
            core: Arc::clone(core),
            ctx,
            span,
        })
    }

    /// Runs a handler and waits for its answer, at most until the deadline. Dropping the returned
    /// future cancels the handler's context, but not the handler.
    pub(super) async fn run<T, H, F>(self, handler: H) -> Result<T, Error>
    where
        T: Send + 'static,
        H: FnOnce(Context) -> F,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let deadline = self.ctx.deadline();
        let guard = self.ctx.cancellation().clone().drop_guard();
        let work = handler(self.ctx.clone());
        let task = self
            .core
            .running
            .tasks
            .spawn(supervise(self.ctx, work).instrument(self.span));
        let ended = match deadline {
            Some(deadline) => timeout_at(deadline, task).await,
            None => Ok(task.await),
        };
        let Ok(ended) = ended else {
            return Err(Error::deadline_exceeded());
        };
        guard.disarm();
        match ended {
            Ok(result) => result,
            // Handlers' panics are caught, so the runtime is going away.
            Err(_) => Err(Error::shutting_down(
                "this provider is ending; connect again",
            )),
        }
    }

    /// Runs a handler that sends its messages itself, and ends the stream with its error.
    pub(super) fn stream<M, H, F>(
        self,
        handler: H,
    ) -> impl Stream<Item = Result<M, Status>> + Send + 'static
    where
        M: Send + 'static,
        H: FnOnce(Context, mpsc::Sender<Result<M, Status>>) -> F,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        // One message waits while the next is gathered: the most that a slow reader costs.
        let (sender, receiver) = mpsc::channel(1);
        let messages = Messages {
            receiver,
            deadline: self.ctx.deadline(),
            guard: Some(self.ctx.cancellation().clone().drop_guard()),
        };
        let work = handler(self.ctx.clone(), sender.clone());
        let task = async move {
            if let Err(error) = supervise(self.ctx, work).await {
                // Fails only when the reader is gone; a reader that is stuck is not waited for.
                let _ = timeout(CANCEL_GRACE, sender.send(Err(error.into_status()))).await;
            }
        };
        self.core.running.tasks.spawn(task.instrument(self.span));
        messages.into_stream()
    }
}

/// The reading end of a stream. Dropped early, it cancels the handler.
struct Messages<M> {
    receiver: mpsc::Receiver<Result<M, Status>>,
    deadline: Option<Instant>,
    guard: Option<DropGuard>,
}

impl<M: Send + 'static> Messages<M> {
    fn into_stream(self) -> impl Stream<Item = Result<M, Status>> + Send + 'static {
        futures::stream::unfold(Some(self), async |messages| {
            let mut messages = messages?;
            let next = match messages.deadline {
                Some(deadline) => timeout_at(deadline, messages.receiver.recv()).await,
                None => Ok(messages.receiver.recv().await),
            };
            match next {
                Ok(Some(Ok(message))) => Some((Ok(message), Some(messages))),
                Ok(ended) => {
                    messages.guard.take().map(DropGuard::disarm);
                    ended.map(|error| (error, None))
                }
                Err(_) => Some((Err(Error::deadline_exceeded().into_status()), None)),
            }
        })
    }
}

/// Runs one handler to its end: turns a panic into an error, cancels its context when the caller no
/// longer waits, and drops it if it does not end then.
async fn supervise<T>(
    ctx: Context,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let started = Instant::now();
    let abandoned = async {
        match ctx.deadline() {
            Some(deadline) => tokio::select! {
                () = ctx.cancelled() => {}
                () = sleep_until(deadline) => ctx.cancellation().cancel(),
            },
            None => ctx.cancelled().await,
        }
        sleep(CANCEL_GRACE).await;
    };
    let result = tokio::select! {
        biased;
        ended = AssertUnwindSafe(work).catch_unwind() => ended.unwrap_or_else(|panic| {
            Err(ctx.panicked(panic.as_ref()))
        }),
        () = abandoned => {
            tracing::warn!(
                grace_seconds = CANCEL_GRACE.as_secs(),
                "a handler ran on after its caller had gone and was dropped; it should watch \
                 Context::cancelled and bound its cloud requests by Context::remaining"
            );
            Err(Error::cancelled())
        }
    };
    let result = result.map_err(|error| {
        let late = ctx
            .deadline()
            .is_some_and(|deadline| deadline <= Instant::now());
        if error.code() == Code::Cancelled && late {
            Error::deadline_exceeded()
        } else {
            error
        }
    });
    log_end(started, result.as_ref().err());
    result
}

fn log_end(started: Instant, error: Option<&Error>) {
    let duration_ms = started.elapsed().as_secs_f64() * 1e3;
    match error {
        None => tracing::debug!(duration_ms, code = "Ok", "call ended"),
        Some(error) => {
            let reason = error.reason().map(ErrorReason::as_str);
            let source = std::error::Error::source(error).map(tracing::field::display);
            tracing::info!(
                duration_ms,
                code = ?error.code(),
                reason,
                %error,
                source,
                "call failed"
            );
        }
    }
}

/// The cluster of the handshake, with the UID that the call names: it may have become known since.
fn cluster(of_handshake: &Arc<Cluster>, uid: &str) -> Arc<Cluster> {
    if uid.is_empty() || uid == of_handshake.uid {
        return Arc::clone(of_handshake);
    }
    Arc::new(Cluster {
        uid: uid.to_owned(),
        ..Cluster::clone(of_handshake)
    })
}
