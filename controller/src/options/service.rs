//! How the service-lb loop works.

use std::{num::NonZeroU16, time::Duration};

use clap::Args;
use outrigger_core::{go_duration, targets::Pace};
use outrigger_loops::service::ServiceSettings;

use super::config::OutputForm;

#[derive(Args)]
#[command(next_help_heading = "Service-lb-controller")]
pub(super) struct ServiceFlags {
    /// Number of Services reconciled concurrently.
    #[arg(long, default_value = "32")]
    pub(super) concurrent_service_syncs: NonZeroU16,
    /// Period in which each load balancer is compared with the cloud, and ensured where it differs; 0:
    /// never.
    #[arg(long, default_value = "12h0m0s", value_parser = go_duration::parse)]
    load_balancer_drift_period: Duration,
    /// Maximum delay added by the debounce. A Node that leaves goes out at once.
    #[arg(long, default_value = "10s", value_parser = go_duration::parse)]
    load_balancer_update_ceiling: Duration,
    /// Debounce: update targets after this long without another Node joining.
    #[arg(long, default_value = "1s", value_parser = go_duration::parse)]
    load_balancer_update_idle: Duration,
    /// Print the planned changes of load balancers, change nothing, and exit.
    #[arg(long)]
    plan: bool,
    /// Format of --plan.
    #[arg(long, value_enum, default_value = "table")]
    plan_output: OutputForm,
}

impl ServiceFlags {
    pub(super) fn settings(&self) -> Result<ServiceSettings, String> {
        let (idle, ceiling) = (
            self.load_balancer_update_idle,
            self.load_balancer_update_ceiling,
        );
        if ceiling < idle {
            return Err(
                "--load-balancer-update-ceiling must not be less than --load-balancer-update-idle"
                    .to_owned(),
            );
        }
        let drift_period = self.load_balancer_drift_period;
        Ok(ServiceSettings {
            workers: self.concurrent_service_syncs.get().into(),
            pace: Pace { idle, ceiling },
            drift_period: Some(drift_period).filter(|period| !period.is_zero()),
        })
    }

    pub(super) fn plan(&self) -> Option<OutputForm> {
        self.plan.then_some(self.plan_output)
    }
}
