//! Tasks that must not die silently, and the signals that end them.

use std::{borrow::Cow, io};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
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

/// SIGTERM and SIGINT.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
