//! Leader migration: which controllers run under a second Lease, shared with another component.

use super::controllers::Controller;

/// Under which Lease a controller runs.
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

impl Migration {
    /// Under which Lease the controller runs.
    pub fn lock(&self, controller: Controller) -> Lock {
        self.locks
            .iter()
            .rfind(|(named, _)| *named == controller)
            .map_or(Lock::Main, |(_, lock)| *lock)
    }
}
