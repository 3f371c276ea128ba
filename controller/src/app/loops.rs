//! The loops, ready to be started for one lease term after another.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::info;

use super::supervise::Supervisor;
use crate::{
    options::controllers::Controller,
    server::{Checks, Scope},
};
use outrigger_loops::{context::Term, control_loop::Host};
use outrigger_runtime::telemetry::RunningControllers;

/// The loops that can be started. The queues of the loops fill on a standby too, so that a new
/// leader knows at once what there is to do.
pub(super) struct Loops {
    checks: Checks,
    running: RunningControllers,
    start_interval: Duration,
    hosts: Vec<(Controller, Host)>,
}

impl Loops {
    /// No loops yet. Between the starts of two there will be a pause of `start_interval`, stretched
    /// by up to its own length; those that were started have a check of their own (HTTP-6) and are
    /// counted in `running` (M-50).
    pub(super) fn new(
        checks: Checks,
        running: RunningControllers,
        start_interval: Duration,
    ) -> Self {
        Self {
            checks,
            running,
            start_interval,
            hosts: Vec::new(),
        }
    }

    /// Adds the loop that `host` runs.
    pub(super) fn add(&mut self, controller: Controller, host: Host) {
        self.hosts.push((controller, host));
    }

    /// Starts them for the lease term `term`; they end when `work` does.
    pub(super) fn start(&self, term: &Term, work: &CancellationToken, tasks: &mut Supervisor) {
        let mut pause = Duration::ZERO;
        for (controller, host) in &self.hosts {
            let running = self.after(pause, *controller, work.clone(), host(term, work.clone()));
            tasks.spawn(controller.name(), running);
            pause += self.start_interval.mul_f64(1.0 + fastrand::f64());
        }
    }

    /// Starts `running` after `pause`, unless `work` ends before.
    fn after(
        &self,
        pause: Duration,
        controller: Controller,
        work: CancellationToken,
        running: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (checks, counter) = (self.checks.clone(), self.running.clone());
        async move {
            let waited = work.run_until_cancelled(tokio::time::sleep(pause)).await;
            if waited.is_none() {
                return;
            }
            info!(controller = controller.name(), "controller started");
            // It is there; if it dies, the process ends.
            checks.add(controller.name(), Scope::Everywhere, || Ok(()));
            let _running = counter.started(controller.alias());
            running.await;
        }
    }
}
