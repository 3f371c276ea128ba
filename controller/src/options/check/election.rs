//! Leader election and migration.

use super::{Findings, not_negative, positive};
use crate::options::{
    config::Election,
    flags::{GenericFlags, MigrationFlags},
    migration::Migration,
};

/// Absent if there is none.
pub(super) fn check(
    flags: &GenericFlags,
    migration: &MigrationFlags,
    f: &mut Findings,
) -> Option<Election> {
    if !flags.leader_elect.0 {
        if migration.enable_leader_migration.0 {
            f.warnings.push(
                "--enable-leader-migration has no effect with --leader-elect=false: all \
                 controllers run at once"
                    .into(),
            );
        }
        return None;
    }
    if flags.leader_elect_resource_lock != "leases" {
        f.errors
            .push("resourceLock value must be \"leases\"".into());
    }
    let lease_duration = f.take(not_negative(
        "leader-elect-lease-duration",
        flags.leader_elect_lease_duration,
    ));
    let renew_deadline = f.take(positive(
        "leader-elect-renew-deadline",
        flags.leader_elect_renew_deadline,
    ));
    let retry_period = f.take(positive(
        "leader-elect-retry-period",
        flags.leader_elect_retry_period,
    ));
    if lease_duration.as_secs() < 1 {
        f.errors.push(format!(
            "--leader-elect-lease-duration must be at least 1s, since a Lease counts in seconds, \
             but got {}",
            flags.leader_elect_lease_duration
        ));
    }
    if lease_duration <= renew_deadline {
        f.errors.push(format!(
            "leaseDuration must be greater than renewDeadline: --leader-elect-lease-duration is \
             {}, --leader-elect-renew-deadline is {}",
            flags.leader_elect_lease_duration, flags.leader_elect_renew_deadline
        ));
    }
    if renew_deadline <= retry_period.mul_f64(1.2) {
        f.errors.push(format!(
            "renewDeadline must be greater than retryPeriod*JitterFactor: \
             --leader-elect-renew-deadline is {}, 1.2 times --leader-elect-retry-period of {} is \
             not less",
            flags.leader_elect_renew_deadline, flags.leader_elect_retry_period
        ));
    }
    let names = [
        ("namespace", &flags.leader_elect_resource_namespace),
        ("name", &flags.leader_elect_resource_name),
    ];
    for (what, name) in names {
        if !is_object_name(name) {
            f.errors.push(format!(
                "--leader-elect-resource-{what}: {name:?} is no name of an object: it must be \
                 made of lower-case letters, digits, hyphens and dots"
            ));
        }
    }
    let migration = migration
        .enable_leader_migration
        .0
        .then(|| read(&migration.leader_migration_config, f));
    Some(Election {
        namespace: flags.leader_elect_resource_namespace.clone(),
        name: flags.leader_elect_resource_name.clone(),
        lease_duration,
        renew_deadline,
        retry_period,
        migration,
    })
}

fn is_object_name(name: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253
        && name.starts_with(alphanumeric)
        && name.ends_with(alphanumeric)
        && name
            .chars()
            .all(|c| alphanumeric(c) || c == '-' || c == '.')
}

fn read(file: &str, f: &mut Findings) -> Migration {
    if file.is_empty() {
        return Migration::default();
    }
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            f.errors.push(format!(
                "unable to read leader migration configuration from {file:?}: {error}"
            ));
            return Migration::default();
        }
    };
    match Migration::parse(&text) {
        Ok((migration, warnings)) => {
            let warnings = warnings.into_iter();
            f.warnings
                .extend(warnings.map(|warning| format!("{file}: {warning}")));
            migration
        }
        Err(errors) => {
            f.errors.push(format!(
                "failed to parse leader migration configuration: {file}: {}",
                errors.join(", ")
            ));
            Migration::default()
        }
    }
}
