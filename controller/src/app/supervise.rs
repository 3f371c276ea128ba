//! Tasks that must not die silently, and the signals that end them.

use std::{borrow::Cow, io};

use futures::{Stream, StreamExt as _, stream, stream::BoxStream};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::{Id, JoinSet},
};
use tracing::error;

/// Named tasks. Dropping it ends them.
#[derive(Debug, Default)]
pub(super) struct Supervisor {
    tasks: JoinSet<()>,
    names: Vec<(Id, Cow<'static, str>)>,
}

impl Supervisor {
    pub(super) fn spawn(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let id = self.tasks.spawn(task).id();
        self.names.push((id, name.into()));
    }

    /// Waits for a task to end, by itself or by a panic, and returns its name. Never returns while
    /// there is none.
    pub(super) async fn ended(&mut self) -> Cow<'static, str> {
        match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => self.name(id),
            Some(Err(failure)) => {
                let name = self.name(failure.id());
                error!(task = &*name, error = %failure, "task ended unexpectedly");
                name
            }
            None => std::future::pending().await,
        }
    }

    /// Waits for all tasks to end.
    pub(super) async fn drain(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(failure) = ended {
                error!(task = &*self.name(failure.id()), error = %failure, "task ended unexpectedly");
            }
        }
    }

    fn name(&self, id: Id) -> Cow<'static, str> {
        self.names
            .iter()
            .find(|(task, _)| *task == id)
            .map_or(Cow::Borrowed("a task"), |(_, name)| name.clone())
    }
}

/// Requests to end.
pub struct Signals(BoxStream<'static, ()>);

impl Signals {
    /// SIGTERM and SIGINT.
    pub(crate) fn install() -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
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
