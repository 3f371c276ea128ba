//! The loops, ready to be started for one time in office after another.

use std::sync::Arc;

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
        for controller in controllers {
            match controller {
                Controller::CloudNode => {
                    let mut parts = self.node.clone();
                    let leading = leading.clone();
                    parts.api = parts.api.fenced(Arc::new(move || leading.is_valid_now()));
                    let cloud_node = CloudNode::new(parts, self.node_intake.clone());
                    info!("Started {:?}", controller.name());
                    tasks.spawn(controller.name(), cloud_node.run(work.clone()));
                    // HTTP-6: shows that it was started; if it dies, the process ends.
                    self.checks
                        .add(controller.name(), Scope::Everywhere, || Ok(()));
                }
                Controller::CloudNodeLifecycle
                | Controller::NodeIpam
                | Controller::NodeRoute
                | Controller::ServiceLb => {
                    warn!(
                        "{:?} is not part of this version yet; skipping it",
                        controller.name()
                    );
                }
            }
        }
    }
}
