//! Leader election.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use outrigger_core::{go_duration, lease::Durations, syntax::subdomain};

use super::{config::Election, period};

#[derive(Args)]
#[command(next_help_heading = "Leader election")]
pub(super) struct ElectionFlags {
    /// Acquire the Lease before controllers run. Required with more than one replica.
    #[arg(long, default_value = "true")]
    pub(super) leader_elect: bool,
    /// File with the identities of this container's processes, on a volume that only this Pod has, such as an
    /// emptyDir: a process takes the Lease of the one before it without waiting, since the kernel's lock on
    /// the file proves that it is dead. Without it, it waits until the Lease expires.
    #[arg(long)]
    leader_elect_identity_file: Option<PathBuf>,
    /// Time without an observed renewal after which another replica tries to acquire the Lease.
    #[arg(long, default_value = "15s", value_parser = seconds)]
    pub(super) leader_elect_lease_duration: Duration,
    /// Time without a successful renewal after which the leader stops; less than
    /// --leader-elect-lease-duration.
    #[arg(long, default_value = "10s", value_parser = period)]
    pub(super) leader_elect_renew_deadline: Duration,
    /// Kind of the lock object; only leases exist.
    #[arg(long, default_value = "leases", value_parser = ["leases"])]
    pub(super) leader_elect_resource_lock: String,
    /// Name of the Lease.
    #[arg(long, default_value = "cloud-controller-manager", value_parser = object_name)]
    pub(super) leader_elect_resource_name: String,
    /// Namespace of the Lease.
    #[arg(long, default_value = "kube-system", value_parser = object_name)]
    pub(super) leader_elect_resource_namespace: String,
    /// Wait between two attempts to acquire or renew the Lease.
    #[arg(long, default_value = "2s", value_parser = period)]
    pub(super) leader_elect_retry_period: Duration,
}

/// A Lease counts in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let duration = period(text)?;
    let duration = Some(duration).filter(|duration| duration.as_secs() > 0);
    duration.ok_or_else(|| "it must be at least 1s".to_owned())
}

fn object_name(text: &str) -> Result<String, &'static str> {
    subdomain(text).map(|()| text.to_owned())
}

impl ElectionFlags {
    /// Absent if there is none.
    pub(super) fn settings(&self) -> Result<Option<Election>, String> {
        if !self.leader_elect {
            return Ok(None);
        }
        let (lease, renew, retry) = (
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        );
        let durations = Durations::new(lease, renew, retry).map_err(|error| {
            let [lease, renew, retry] = [lease, renew, retry].map(go_duration::format);
            format!(
                "{error}: --leader-elect-lease-duration is {lease}, --leader-elect-renew-deadline is {renew}, \
                 --leader-elect-retry-period is {retry}, and JitterFactor is 1.2"
            )
        })?;
        Ok(Some(Election {
            namespace: self.leader_elect_resource_namespace.clone(),
            name: self.leader_elect_resource_name.clone(),
            durations,
            identity_file: self.leader_elect_identity_file.clone(),
        }))
    }
}
