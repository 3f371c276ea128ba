//! Leader election and migration.

use outrigger_core::lease::{InvalidTerms, Terms};

use super::Findings;
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
    let terms = terms(flags, f);
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
        terms: terms?,
        migration,
    })
}

/// Absent beside an error.
fn terms(flags: &GenericFlags, f: &mut Findings) -> Option<Terms> {
    let errors = f.errors.len();
    let lease_duration = f.duration(flag!(flags.leader_elect_lease_duration));
    let renew_deadline = f.period(flag!(flags.leader_elect_renew_deadline));
    let retry_period = f.period(flag!(flags.leader_elect_retry_period));
    if lease_duration.as_secs() < 1 {
        f.errors.push(format!(
            "--leader-elect-lease-duration must be at least 1s, since a Lease counts in seconds, \
             but got {}",
            flags.leader_elect_lease_duration
        ));
    }
    if f.errors.len() > errors {
        return None;
    }
    let GenericFlags {
        leader_elect_lease_duration: lease,
        leader_elect_renew_deadline: renew,
        leader_elect_retry_period: retry,
        ..
    } = flags;
    let explain = |error| match error {
        InvalidTerms::LeaseDuration => format!(
            "{error}: --leader-elect-lease-duration is {lease}, --leader-elect-renew-deadline is \
             {renew}"
        ),
        InvalidTerms::RenewDeadline => format!(
            "{error}: --leader-elect-renew-deadline is {renew}, 1.2 times \
             --leader-elect-retry-period of {retry} is not less"
        ),
        InvalidTerms::TooLong | InvalidTerms::RetryPeriod => {
            format!("{error}: --leader-elect-lease-duration is {lease}")
        }
    };
    let terms = Terms::new(lease_duration, renew_deadline, retry_period).map_err(explain);
    terms.map_err(|error| f.errors.push(error)).ok()
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
