//! Runs a vendor's handler: checks first, then a task of its own, a deadline, and an end that is logged.
//!
//! Each gRPC service calls `unary`, `batch` or `list` with a closure around the vendor's method. Before the closure runs, a
//! call without a handshake, about another cluster or to a server that drains is refused. After the deadline, or when the
//! caller goes away, the call is answered at once and the handler's [`Context`] cancelled, while the handler itself goes on
//! for up to 30 s. A handler that panics fails its own call.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use outrigger_api::{ListPage, Method, MethodRequest, v1};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_stream::Stream;
use tokio_util::sync::DropGuard;
use tonic::{Code, Request, Response, Status};
use tracing::{Instrument, Span};

use super::arrival::Arrival;
use super::core::{Core, ending};
use super::results::respond;
use crate::sink::Sink;
use crate::{Context, Error, ErrorReason, Lookups};

/// How long a handler may run on after its caller stopped waiting.
const CANCEL_GRACE: Duration = Duration::from_secs(30);

/// The stream of answers to a call.
pub(super) type Answers<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

/// Where the answers of a stream go.
pub(super) type Sender<M> = mpsc::Sender<Result<M, Status>>;

/// One call that passed the checks which all calls share.
pub(super) struct Call {
    /// Largest message that the controller accepts, in bytes.
    max_bytes: usize,
    core: Arc<Core>,
    ctx: Context,
    span: Span,
}

impl Core {
    /// Answers a call with one message.
    pub(super) async fn unary<R, F>(
        self: &Arc<Self>,
        request: Request<R>,
        handler: impl FnOnce(Context, R) -> F,
    ) -> Result<Response<R::Response>, Status>
    where
        R: MethodRequest,
        F: Future<Output = Result<R::Response, Error>> + Send + 'static,
    {
        let (call, request) = Call::admit(self, request)?;
        call.run(|ctx| handler(ctx, request)).await
    }

    /// Answers a lookup of Nodes.
    pub(super) async fn batch<F>(
        self: &Arc<Self>,
        request: Request<v1::BatchGetInstancesRequest>,
        handler: impl FnOnce(Context, v1::BatchGetInstancesRequest) -> F,
    ) -> Result<Response<v1::BatchGetInstancesResponse>, Status>
    where
        F: Future<Output = Result<Lookups, Error>> + Send + 'static,
    {
        let (call, request) = Call::admit(self, request)?;
        let keys = request.items.iter().map(|item| item.name.clone()).collect();
        let response = call.run(|ctx| {
            let answers = handler(ctx, request);
            async move { Ok(respond(keys, answers.await?)) }
        });
        response.await
    }

    /// Answers a call with a list.
    pub(super) fn list<R, F>(
        self: &Arc<Self>,
        request: Request<R>,
        is_served: bool,
        handler: impl FnOnce(Context, R, Sink<R::Response>) -> F,
    ) -> Result<Response<Answers<R::Response>>, Status>
    where
        R: MethodRequest<Response: ListPage<Item: std::fmt::Debug>>,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        if !is_served {
            return Err(not_served::<R>().into_status());
        }
        let (call, request) = Call::admit(self, request)?;
        let max_bytes = call.max_bytes;
        let messages = call.stream(|ctx, sender| {
            let sink = Sink::new(ctx.clone(), sender, max_bytes);
            handler(ctx, request, sink)
        });
        Ok(Response::new(Box::pin(messages)))
    }
}

/// The error of a method that this provider leaves out.
pub(super) fn not_served<R: MethodRequest>() -> Error {
    Error::capability_disabled(format!("this provider does not serve {}", R::METHOD.name))
}

impl Call {
    /// Checks what every request but `Handshake` and `GetStatus` carries.
    fn admit<R: MethodRequest>(core: &Arc<Core>, request: Request<R>) -> Result<(Self, R), Status> {
        let arrival = Arrival::of(&request);
        let mut request = request.into_inner();
        let context = request.context_mut().and_then(Option::take);
        let call = Self::admit_context(core, R::METHOD, arrival, context);
        Ok((call.map_err(Error::into_status)?, request))
    }

    /// Like [`admit`](Self::admit), for a call whose context comes in a stream.
    pub(super) fn admit_context(
        core: &Arc<Core>,
        method: &Method,
        arrival: Arrival,
        context: Option<v1::CallContext>,
    ) -> Result<Self, Error> {
        core.refuse_when_draining()?;
        let context = context.unwrap_or_default();
        let session = core.session(&context.cluster_name)?;
        let (rpc, request_id) = (method.name, &context.request_id);
        let traceparent = arrival.traceparent.as_deref();
        let span = tracing::info_span!("call", rpc, request_id, traceparent);
        let ctx = Context::new(
            context.request_id,
            cluster(&session.cluster, &context.cluster_uid),
            arrival.deadline,
            arrival.traceparent,
            core.running.stop.child_token(),
        );
        Ok(Self {
            max_bytes: session.max_send_bytes,
            core: Arc::clone(core),
            ctx,
            span,
        })
    }

    /// Runs a handler and waits for its answer, at most until the deadline. Dropping the returned
    /// future cancels the handler's context, but not the handler.
    pub(super) async fn run<T, F>(
        self,
        handler: impl FnOnce(Context) -> F,
    ) -> Result<Response<T>, Status>
    where
        T: Send + 'static,
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
            return Err(Error::deadline_exceeded().into_status());
        };
        guard.disarm();
        // Handlers' panics are caught, so the runtime is going away.
        let result = ended.unwrap_or_else(|_| Err(ending()));
        result.map(Response::new).map_err(Error::into_status)
    }

    /// Runs a handler that sends its messages itself, and ends the stream with its error.
    fn stream<M, F>(
        self,
        handler: impl FnOnce(Context, Sender<M>) -> F,
    ) -> impl Stream<Item = Result<M, Status>> + Send + 'static
    where
        M: Send + 'static,
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
fn cluster(of_handshake: &Arc<v1::ClusterInfo>, uid: &str) -> Arc<v1::ClusterInfo> {
    if uid.is_empty() || uid == of_handshake.uid {
        return Arc::clone(of_handshake);
    }
    Arc::new(v1::ClusterInfo {
        uid: uid.to_owned(),
        ..v1::ClusterInfo::clone(of_handshake)
    })
}
