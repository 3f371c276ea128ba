//! Leader migration: which controllers run under a second Lease, shared with the component that
//! ran them before.

use serde::Deserialize;

use super::controllers::Controller;

/// The Lease of the built-in configuration.
const DEFAULT_LEASE: &str = "cloud-provider-extraction-migration";

/// The name of this program as a `component`.
const COMPONENT: &str = "cloud-controller-manager";

/// The Lease under which a controller runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The controller manager's own.
    Main,
    /// The one of the migration.
    Migration,
    /// None of ours: another component runs it.
    Elsewhere,
}

/// A checked `LeaderMigrationConfiguration`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Name of the second Lease, in the namespace of the first.
    pub lease_name: String,
    locks: Vec<(Controller, Lock)>,
}

impl Default for Migration {
    /// Without `--leader-migration-config`.
    fn default() -> Self {
        let locks = [
            Controller::NodeRoute,
            Controller::ServiceLb,
            Controller::CloudNodeLifecycle,
        ];
        Self {
            lease_name: DEFAULT_LEASE.into(),
            locks: locks.map(|moved| (moved, Lock::Migration)).into(),
        }
    }
}

impl Migration {
    /// Reads the YAML or JSON of the file. Also returns a warning for each name that is none of
    /// our controllers.
    ///
    /// # Errors
    /// Sentences without the file's name.
    pub fn parse(text: &str) -> Result<(Self, Vec<String>), Vec<String>> {
        let file: File = serde_saphyr::from_str(text).map_err(|error| {
            let text = error.to_string();
            vec![text.lines().next().unwrap_or_default().to_owned()]
        })?;
        let errors = file.errors();
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut locks = Vec::new();
        let mut warnings = Vec::new();
        for Leader { name, component } in file.controller_leaders {
            let lock = match component.as_str() {
                COMPONENT | "*" => Lock::Migration,
                _ => Lock::Elsewhere,
            };
            match named(&name) {
                Some(controller) => locks.push((controller, lock)),
                None => warnings.push(format!(
                    "controllerLeaders names {name:?}, which is no controller of this program; \
                     it is left to others"
                )),
            }
        }
        let migration = Self {
            lease_name: file.leader_name,
            locks,
        };
        Ok((migration, warnings))
    }

    /// The Lease under which the controller runs. The last entry for a controller counts, as
    /// upstream.
    pub fn lock(&self, controller: Controller) -> Lock {
        self.locks
            .iter()
            .rfind(|(named, _)| *named == controller)
            .map_or(Lock::Main, |(_, lock)| *lock)
    }
}

/// By canonical name, alias, or the name that upstream's built-in configuration still uses
/// although its controllers have another by now.
fn named(name: &str) -> Option<Controller> {
    match name {
        "service-controller" => Some(Controller::ServiceLb),
        "route-controller" => Some(Controller::NodeRoute),
        _ => Controller::of_name(name),
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    leader_name: String,
    resource_lock: Option<String>,
    controller_leaders: Vec<Leader>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Leader {
    name: String,
    component: String,
}

impl File {
    fn errors(&self) -> Vec<String> {
        let has_lock_field = match self.api_version.as_str() {
            "controllermanager.config.k8s.io/v1" => false,
            "controllermanager.config.k8s.io/v1beta1"
            | "controllermanager.config.k8s.io/v1alpha1" => true,
            other => {
                return vec![format!(
                    "apiVersion is {other:?}; it must be controllermanager.config.k8s.io/v1, \
                     /v1beta1 or /v1alpha1"
                )];
            }
        };
        if self.kind != "LeaderMigrationConfiguration" {
            return vec![format!(
                "kind is {:?}; it must be LeaderMigrationConfiguration",
                self.kind
            )];
        }
        let mut errors = Vec::new();
        if self.leader_name.is_empty() {
            errors.push(
                "leaderName: Required value: leaderName must be set for \
                 LeaderMigrationConfiguration"
                    .into(),
            );
        }
        match (has_lock_field, self.resource_lock.as_deref()) {
            (false, None) | (true, Some("leases")) => {}
            (false, Some(_)) => errors.push(
                "unknown field \"resourceLock\": v1 has none, since the lock is always a Lease"
                    .into(),
            ),
            // Upstream accepts it and exits later, when it has become the leader.
            (true, Some("endpoints")) => errors.push(
                "resourceLock: Invalid value: \"endpoints\": Kubernetes has no such lock any \
                 more; write leases"
                    .into(),
            ),
            (true, other) => errors.push(format!(
                "resourceLock: Invalid value: {:?}: resource Lock must be one of 'leases' or \
                 'endpoints'",
                other.unwrap_or_default()
            )),
        }
        for (index, leader) in self.controller_leaders.iter().enumerate() {
            for (field, value) in [("component", &leader.component), ("name", &leader.name)] {
                if value.is_empty() {
                    errors.push(format!(
                        "controllerLeaders[{index}].{field}: Required value"
                    ));
                }
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests;
