//! Maintenance of a machine that its cloud has announced: the conditions `MaintenancePlanned` and `MaintenanceInProgress`
//! of its Node (KEP-5683), and a taint ahead of time.
//!
//! The cloud-node loop passes each answer about a Node to [`Unannounced::count`] and [`plan`], and carries out one write
//! after the other until there is none. One answer without an announcement takes nothing back.
//!
//! The controller changes its own alone, which carry [`ANNOUNCED`]: a condition of these types with another reason, and a
//! taint of that key with another value, are an operator's and stay as they are.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    api_time::after,
    condition::{self, Condition, ConditionChange, Status},
    event::EventContent,
    node::{
        EFFECT_PREFER_NO_SCHEDULE, NodeView, TAINT_MAINTENANCE, Taint, change::NodeChange,
        effects::EffectsWrite, instance::Instance,
    },
    text,
};

/// Type of the condition of maintenance that is announced.
pub const MAINTENANCE_PLANNED: &str = "MaintenancePlanned";
/// Type of the condition of maintenance that has begun.
pub const MAINTENANCE_IN_PROGRESS: &str = "MaintenanceInProgress";

/// Value of the taint, and end of the reason of a condition, where the controller has written them.
pub(crate) const ANNOUNCED: &str = "AnnouncedByCloud";
/// Reason of the conditions of a machine that ends for ever.
const RETIREMENT: &str = "RetirementAnnouncedByCloud";

/// Bytes of the reason; the contract's limit.
const MAX_REASON: usize = 256;
/// Bytes of the id; the contract's limit.
const MAX_ID: usize = 128;

/// Answers in a row that lack an announcement, until it counts as taken back.
const ANSWERS_TO_TAKE_BACK: u8 = 2;

/// Kind of a maintenance, by its effect on the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaintenanceKind {
    /// Not known.
    #[default]
    Unknown,
    /// It stops and starts again.
    Reboot,
    /// It moves to other hardware.
    Replace,
    /// It ends for ever.
    Retire,
    /// Any of these without notice.
    Emergency,
}

/// Maintenance that the cloud has announced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedMaintenance {
    /// When it begins, in whole seconds; none: not known.
    pub starts_at: Option<Timestamp>,
    /// When it ends at the latest, in whole seconds; none: not known.
    pub ends_at: Option<Timestamp>,
    /// Its kind.
    pub kind: MaintenanceKind,
    /// Its id in the cloud; may be empty.
    pub id: Box<str>,
    /// It has begun.
    pub in_progress: bool,
    /// The work, for people; may be empty.
    pub reason: Box<str>,
}

/// How many answers in a row lack the announcement that a Node shows. Default: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unannounced(u8);

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

impl MaintenanceKind {
    /// Reason of the conditions, and the work for people.
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Unknown => (ANNOUNCED, "maintenance"),
            Self::Reboot => ("RebootAnnouncedByCloud", "a reboot"),
            Self::Replace => ("ReplacementAnnouncedByCloud", "the replacement"),
            Self::Retire => (RETIREMENT, "the retirement"),
            Self::Emergency => ("EmergencyAnnouncedByCloud", "emergency maintenance"),
        }
    }
}

impl PlannedMaintenance {
    /// The part that the contract allows: a time that is not after 1970-01-01T00:00:00Z is a field without a value.
    pub(crate) fn checked(self) -> Self {
        let whole_seconds = |at: Timestamp| Timestamp::from_second(at.as_second()).ok();
        let time = |at: Option<Timestamp>| {
            let at = at.and_then(whole_seconds);
            at.filter(|at| *at > Timestamp::UNIX_EPOCH)
        };
        let starts_at = time(self.starts_at);
        let ends_at = time(self.ends_at).filter(|at| starts_at.is_none_or(|start| start <= *at));
        let is_id = self.id.len() <= MAX_ID && self.id.bytes().all(|c| c.is_ascii_graphic());
        Self {
            starts_at,
            ends_at,
            id: if is_id { self.id } else { "".into() },
            reason: text::cut(&self.reason, MAX_REASON).into(),
            ..self
        }
    }

    fn message(&self, has: &str) -> String {
        let time = match (self.starts_at, self.ends_at) {
            (Some(start), Some(end)) => format!(" from {start} to {end}"),
            (Some(start), None) => format!(" from {start} on"),
            (None, Some(end)) => format!(" until {end}"),
            (None, None) => String::new(),
        };
        let unless_empty = |before, text: &str, after| match text {
            "" => String::new(),
            text => format!("{before}{text}{after}"),
        };
        let (_, work) = self.kind.texts();
        let id = unless_empty(" (", &self.id, ")");
        let reason = unless_empty(": ", &self.reason, "");
        format!("the cloud has {has} {work} of the machine{time}{id}{reason}")
    }
}

impl Unannounced {
    /// Counts an answer about `node`: its machine is `instance`.
    pub fn count(&mut self, node: &NodeView, instance: &Instance) {
        let is_shown = node.conditions.iter().any(is_own)
            || node
                .taints
                .iter()
                .any(|taint| taint.is_of_maintenance() && &*taint.value == ANNOUNCED);
        let is_taken_back = is_shown && instance.planned_maintenance.is_none();
        self.0 = if is_taken_back {
            self.0.saturating_add(1)
        } else {
            0
        };
    }
}

impl MaintenanceWrite {
    /// The events about it; none for a taint.
    pub fn events(&self) -> Vec<EventContent> {
        let Self::Condition(write) = self else {
            return Vec::new();
        };
        let event = |change: &ConditionChange| match change {
            ConditionChange::Set(condition) => {
                Some(EventContent::warning(&condition.kind, &condition.message))
            }
            ConditionChange::Remove(kind) => (**kind == *MAINTENANCE_PLANNED).then(|| {
                EventContent::normal(
                    "MaintenanceOver",
                    "the cloud announces no maintenance of the machine any more",
                )
            }),
        };
        write.conditions.iter().filter_map(event).collect()
    }
}

/// The next write for `node`, whose machine is `instance`; none if it has all that it should have. Nothing is decided about
/// a Node that is not initialised, or of which this is not the machine, and nothing goes by one answer without an
/// announcement.
pub fn plan(
    now: Timestamp,
    node: &NodeView,
    instance: &Instance,
    unannounced: Unannounced,
    settings: MaintenanceSettings,
) -> Option<MaintenanceWrite> {
    let maintenance = instance.planned_maintenance.as_ref();
    let is_doubted = maintenance.is_none() && unannounced.0 < ANSWERS_TO_TAKE_BACK;
    if is_doubted || node.is_uninitialized() || instance.is_other_than(node) {
        return None;
    }
    let is_shown = maintenance.filter(|_| settings.condition);
    let is_due = maintenance
        .filter(|_| !settings.taint_before.is_zero())
        .and_then(|maintenance| maintenance.starts_at)
        .is_some_and(|starts_at| starts_at <= after(now, settings.taint_before));
    conditions(now, node, is_shown)
        .map(MaintenanceWrite::Condition)
        .or_else(|| taint(node, is_due).map(MaintenanceWrite::Taint))
}

/// Returns true if `conditions` of a Node say that its machine ends for ever.
pub(crate) fn is_retirement_announced(conditions: &[Condition]) -> bool {
    condition::find(conditions, MAINTENANCE_PLANNED)
        .is_some_and(|held| &*held.status == "True" && &*held.reason == RETIREMENT)
}

fn is_own(condition: &Condition) -> bool {
    [MAINTENANCE_PLANNED, MAINTENANCE_IN_PROGRESS].contains(&&*condition.kind)
        && condition.reason.ends_with(ANNOUNCED)
}

fn conditions(
    now: Timestamp,
    node: &NodeView,
    maintenance: Option<&PlannedMaintenance>,
) -> Option<EffectsWrite> {
    let current = &node.conditions;
    let begun = maintenance.filter(|maintenance| maintenance.in_progress);
    let states = [
        (MAINTENANCE_PLANNED, maintenance, "announced"),
        (MAINTENANCE_IN_PROGRESS, begun, "begun"),
    ];
    let change = |(kind, maintenance, has): (&str, Option<&PlannedMaintenance>, &str)| {
        if condition::find(current, kind).is_some_and(|held| !is_own(held)) {
            return None;
        }
        let Some(maintenance) = maintenance else {
            return ConditionChange::remove(current, kind);
        };
        let (reason, _) = maintenance.kind.texts();
        let message = maintenance.message(has);
        ConditionChange::set(now, current, kind, Status::True, reason, &message)
    };
    let changes: Vec<_> = states.into_iter().filter_map(change).collect();
    (!changes.is_empty()).then(|| EffectsWrite {
        // An operator may have written a condition of this type that the store does not show yet.
        only_this_version: true,
        ..EffectsWrite::of_conditions(now, changes)
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
