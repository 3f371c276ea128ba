//! Tasks that must not die silently, and the signals that end them.

use std::{borrow::Cow, panic::AssertUnwindSafe};

use futures::{FutureExt, Stream, StreamExt as _, stream, stream::BoxStream};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};
use tracing::error;

/// Named tasks, each of which returns its name. Dropping it ends them.
#[derive(Debug, Default)]
pub(super) struct Supervisor(JoinSet<Cow<'static, str>>);

impl Supervisor {
    /// A panic ends `task` alone; its message is on standard error.
    pub(super) fn spawn(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let name = name.into();
        self.0.spawn(async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                error!(task = &*name, "task panicked");
            }
            name
        });
    }

    /// Waits for a task to end, by itself or by a panic, and returns its name. Never returns while
    /// there is none.
    pub(super) async fn ended(&mut self) -> Cow<'static, str> {
        match self.0.join_next().await {
            Some(ended) => ended.unwrap_or("a task".into()),
            None => std::future::pending().await,
        }
    }

    /// Waits for all tasks to end.
    pub(super) async fn drain(&mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

/// Requests to end.
pub struct Signals(BoxStream<'static, ()>);

impl Signals {
    /// SIGTERM and SIGINT.
    ///
    /// # Errors
    /// If they cannot be caught.
    pub(crate) fn install() -> Result<Self, String> {
        let catch = |kind| signal(kind).map_err(|error| error.to_string());
        let mut terminate = catch(SignalKind::terminate())?;
        let mut interrupt = catch(SignalKind::interrupt())?;
        Ok(Self::new(stream::poll_fn(move |cx| {
            let terminated = terminate.poll_recv(cx);
            if terminated.is_ready() {
                return terminated;
            }
            interrupt.poll_recv(cx)
        })))
    }

    /// Each item of `requests` is one.
    pub fn new(requests: impl Stream<Item = ()> + Send + 'static) -> Self {
        Self(requests.boxed())
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        if self.0.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
