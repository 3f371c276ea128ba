//! Maintenance of a machine that its cloud has announced: the condition `MaintenancePlanned` of its Node (KEP-5683), and a
//! taint ahead of time.
//!
//! The controller changes its own alone, which carry [`ANNOUNCED`]: a condition of that type with another reason, and a taint
//! of that key with another value, are an operator's and stay as they are.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    api_time::after,
    condition::{self, ConditionChange, Status},
    event::EventContent,
    node::{
        EFFECT_PREFER_NO_SCHEDULE, NodeView, TAINT_MAINTENANCE, Taint, change::NodeChange,
        effects::EffectsWrite, instance::Instance,
    },
};

/// Type of the condition.
pub const MAINTENANCE_PLANNED: &str = "MaintenancePlanned";

/// Reason of the condition and value of the taint where the controller has written them.
pub(crate) const ANNOUNCED: &str = "AnnouncedByCloud";

/// Maintenance that the cloud has announced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedMaintenance {
    /// When it begins, in whole seconds; none: not known.
    pub starts_at: Option<Timestamp>,
    /// The work, for people; may be empty.
    pub reason: Box<str>,
}

/// `--maintenance-condition` and `--maintenance-taint-before`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaintenanceSettings {
    /// The condition is written.
    pub condition: bool,
    /// So long before it begins the Node is tainted; zero: never.
    pub taint_before: Duration,
}

/// A write that brings a Node in line with what the cloud has announced. Conditions and taints are of two subresources, so
/// that there may be another after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaintenanceWrite {
    /// The condition is set or removed.
    Condition(EffectsWrite),
    /// The taint is added or removed.
    Taint(NodeChange),
}

impl PlannedMaintenance {
    /// `starts_at` is not known where it is no time after 1970-01-01T00:00:00Z: that is a field without a value.
    pub(crate) fn new(starts_at: Option<Timestamp>, reason: Box<str>) -> Self {
        let whole_seconds = |at: Timestamp| Timestamp::from_second(at.as_second()).ok();
        let starts_at = starts_at.and_then(whole_seconds);
        Self {
            starts_at: starts_at.filter(|at| *at > Timestamp::UNIX_EPOCH),
            reason,
        }
    }

    fn message(&self) -> String {
        let from = self.starts_at.map(|at| format!(" from {at} on"));
        let reason = Some(&self.reason).filter(|reason| !reason.is_empty());
        format!(
            "the cloud has announced maintenance of the machine{}{}",
            from.unwrap_or_default(),
            reason
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default(),
        )
    }
}

impl MaintenanceWrite {
    /// The event about it; none for a taint.
    pub fn event(&self) -> Option<EventContent> {
        let Self::Condition(write) = self else {
            return None;
        };
        write.conditions.first().map(|change| match change {
            ConditionChange::Set(condition) => {
                EventContent::warning(MAINTENANCE_PLANNED, &condition.message)
            }
            ConditionChange::Remove(_) => EventContent::normal(
                "MaintenanceOver",
                "the cloud announces no maintenance of the machine any more",
            ),
        })
    }
}

/// The next write for `node`, whose machine is `instance`; none if it has all that it should have. Nothing is decided about a Node
/// that is not initialised, or of which this is not the machine.
pub fn plan(
    now: Timestamp,
    node: &NodeView,
    instance: &Instance,
    settings: MaintenanceSettings,
) -> Option<MaintenanceWrite> {
    if node.is_uninitialized() || instance.is_other_than(node) {
        return None;
    }
    let maintenance = instance.planned_maintenance.as_ref();
    let is_shown = maintenance.filter(|_| settings.condition);
    let is_due = maintenance
        .filter(|_| !settings.taint_before.is_zero())
        .and_then(|maintenance| maintenance.starts_at)
        .is_some_and(|starts_at| starts_at <= after(now, settings.taint_before));
    condition(now, node, is_shown)
        .map(MaintenanceWrite::Condition)
        .or_else(|| taint(node, is_due).map(MaintenanceWrite::Taint))
}

fn condition(
    now: Timestamp,
    node: &NodeView,
    maintenance: Option<&PlannedMaintenance>,
) -> Option<EffectsWrite> {
    let conditions = &node.conditions;
    if let Some(held) = condition::find(conditions, MAINTENANCE_PLANNED)
        && &*held.reason != ANNOUNCED
    {
        return None;
    }
    let change = match maintenance {
        Some(maintenance) => ConditionChange::set(
            now,
            conditions,
            MAINTENANCE_PLANNED,
            Status::True,
            ANNOUNCED,
            &maintenance.message(),
        ),
        None => ConditionChange::remove(conditions, MAINTENANCE_PLANNED),
    };
    Some(EffectsWrite {
        // An operator may have written a condition of this type that the store does not show yet.
        only_this_version: true,
        ..EffectsWrite::of_condition(now, change?)
    })
}

fn taint(node: &NodeView, is_due: bool) -> Option<NodeChange> {
    let held = node.taints.iter().find(|taint| taint.is_of_maintenance());
    match held {
        None if is_due => {
            let taint = Taint::new(TAINT_MAINTENANCE, ANNOUNCED, EFFECT_PREFER_NO_SCHEDULE);
            Some(NodeChange::add_taint(taint))
        }
        Some(held) if &*held.value == ANNOUNCED && !is_due => {
            NodeChange::remove_taints(node, Taint::is_of_maintenance).unless_empty()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
