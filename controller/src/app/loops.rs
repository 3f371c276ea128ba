//! The loops, ready to be started for one time in office after another.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::supervise::Supervisor;
use crate::{
    leader::Leading,
    node::{self, CloudNode, Intake},
    options::controllers::Controller,
    serving::{Checks, Scope},
};

/// What the loops are made of. Their queues fill on a standby too, so that a new leader knows at
/// once what there is to do.
pub(super) struct Loops {
    pub(super) checks: Checks,
    /// Pause between the starts of two, stretched by up to its own length.
    pub(super) start_interval: Duration,
    pub(super) node: node::Parts,
    pub(super) node_intake: Intake,
}

impl Loops {
    /// Starts `controllers` for the time in office `leading`; they end when `work` does.
    pub(super) fn start(
        &self,
        controllers: &[Controller],
        leading: &Leading,
        work: &CancellationToken,
        tasks: &mut Supervisor,
    ) {
        let mut pause = Duration::ZERO;
        for &controller in controllers {
            match controller {
                Controller::CloudNode => {
                    let mut parts = self.node.clone();
                    let leading = leading.clone();
                    parts.api = parts.api.fenced(Arc::new(move || leading.is_valid_now()));
                    let cloud_node = CloudNode::new(parts, self.node_intake.clone());
                    let running = cloud_node.run(work.clone());
                    tasks.spawn(
                        controller.name(),
                        self.after(pause, controller, work.clone(), running),
                    );
                }
                Controller::CloudNodeLifecycle
                | Controller::NodeIpam
                | Controller::NodeRoute
                | Controller::ServiceLb => {
                    warn!(
                        "{:?} is not part of this version yet; skipping it",
                        controller.name()
                    );
                    continue;
                }
            }
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
        let checks = self.checks.clone();
        async move {
            let waited = work.run_until_cancelled(tokio::time::sleep(pause)).await;
            if waited.is_none() {
                return;
            }
            info!("Started {:?}", controller.name());
            // HTTP-6: shows that it was started; if it dies, the process ends.
            checks.add(controller.name(), Scope::Everywhere, || Ok(()));
            running.await;
        }
    }
}
