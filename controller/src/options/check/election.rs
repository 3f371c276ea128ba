//! Leader election.

use std::path::PathBuf;

use outrigger_core::{lease::Durations, syntax::subdomain};

use super::Findings;
use crate::options::{config::Election, table::Flags};

/// Absent if there is none, and beside an error.
pub(super) fn election(flags: &Flags, f: &mut Findings) -> Option<Election> {
    if !flags.leader_elect.value {
        return None;
    }
    if flags.leader_elect_resource_lock.value != "leases" {
        f.errors
            .push("resourceLock value must be \"leases\"".into());
    }
    let (namespace, name) = (
        &flags.leader_elect_resource_namespace,
        &flags.leader_elect_resource_name,
    );
    for flag in [namespace, name] {
        if subdomain(flag).is_err() {
            f.errors.push(format!(
                "{flag}: {:?} is no name of an object: it must be made of lower-case letters, digits, \
                 hyphens and dots",
                flag.value
            ));
        }
    }
    Some(Election {
        namespace: namespace.value.clone(),
        name: name.value.clone(),
        durations: durations(flags, f)?,
        identity_file: Some(&flags.leader_elect_identity_file.value)
            .filter(|file| !file.is_empty())
            .map(PathBuf::from),
    })
}

/// Absent beside an error.
fn durations(flags: &Flags, f: &mut Findings) -> Option<Durations> {
    let (lease, renew, retry) = (
        &flags.leader_elect_lease_duration,
        &flags.leader_elect_renew_deadline,
        &flags.leader_elect_retry_period,
    );
    let errors = f.errors.len();
    let (lease_duration, renew_deadline) = (f.duration(lease), f.period(renew));
    let retry_period = f.period(retry);
    if lease_duration.as_secs() < 1 {
        f.errors.push(format!(
            "{lease} must be at least 1s, since a Lease counts in seconds, but got {}",
            lease.value
        ));
    }
    if f.errors.len() > errors {
        return None;
    }
    let durations = Durations::new(lease_duration, renew_deadline, retry_period);
    let explain = |error| {
        let (lease_value, renew_value, retry_value) = (lease.value, renew.value, retry.value);
        f.errors.push(format!(
            "{error}: {lease} is {lease_value}, {renew} is {renew_value}, {retry} is {retry_value}, and \
             JitterFactor is 1.2"
        ));
    };
    durations.map_err(explain).ok()
}
