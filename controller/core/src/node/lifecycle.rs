//! The cloud-node-lifecycle loop's decisions: when the provider is asked about a Node, and what its answer means for the
//! Node.
//!
//! ```text
//!  node changed, time came ─► check ─► Ask ─► (a lookup, nothing older than now) ─► answered
//!                               │                                                       │
//!                               └► At(time), Idle(reason), RemoveTaints                 ▼
//!                                              LifecycleDecision { action, next: a Check again }
//! ```
//!
//! Only Nodes that are not ready are asked about, and the time counts from when that was seen: at once, then every monitor
//! period, then ever more rarely; young ones when they are old enough to be deleted. A Node is deleted only if all of this
//! holds:
//! - its instance is absent, which the provider confirmed as often as `--node-deletion-confirm` wants, without another
//!   answer in between, whichever loop asked;
//! - the answer is about the Node as it is now: same UID, same provider ID, and its Ready condition has not changed since
//!   the question;
//! - the Node is the provider's ([`NodeScope::owns`]), old enough for its instance to be visible, not paused by an
//!   operator;
//! - it is likely gone rather than misnamed: its instance was found before, or it has been silent and absent for 15 min;
//! - the [`DeletionLimiter`] allows it, which wants another Node to be found, and the provider, asked once more about
//!   itself, is ready; or an operator confirms this deletion.
//!
//! A Node whose instance is stopped gets a taint, and if an operator asks for that, a second one later (`out_of_service`).
//!
//! Everything else (errors, inconclusive answers, another provider's instance) keeps the Node. Rules that look like gaps: a
//! Node whose machine was made again under its name (with a new provider ID) is absent by its own, so it is deleted if it
//! is not ready, and gets an event if it is; two Nodes with one provider ID both stay as long as that instance exists.
//!
//! The caller promises to pass every answer about a Node, of whichever loop, to [`Lifecycle::observed`]; to ask
//! [`Lifecycle::last_look`] right before a measure; and to report its end ([`Lifecycle::deleted`], [`Lifecycle::removed`]).
//!
//! ```
//! use jiff::Timestamp;
//! use outrigger_core::node::{
//!     NodeView,
//!     deletion_limit::DeletionLimits,
//!     instance::{Instance, Lookup, PowerState},
//!     lifecycle::{Check, Lifecycle, LifecycleAction, LifecycleFacts},
//!     ownership::{NodeScope, Prefixes},
//! };
//! use serde_json::json;
//! use std::time::Duration;
//!
//! let silent = |name: &str| {
//!     serde_json::from_value::<NodeView>(json!({
//!         "metadata": {"name": name, "uid": format!("uid-{name}")},
//!         "spec": {"providerID": format!("example://{name}")},
//!         "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
//!     }))
//! };
//! let (node, other) = (silent("node-1")?, silent("node-2")?);
//! let start: Timestamp = "2026-01-01T00:00:00Z".parse()?;
//! let prefixes = Prefixes::new("example", None::<&str>)?;
//! let facts = LifecycleFacts {
//!     scope: NodeScope { prefixes: &prefixes, selector: None, foreign_prefix_seen: false },
//!     nodes: 2,
//!     visibility_delay: Duration::ZERO,
//!     time_of_day: start,
//!     without_provider_id: false,
//!     out_of_service_after: Duration::ZERO,
//!     not_managed: false,
//! };
//! let absent = Lookup::Absent { confirmed: true };
//! let running = Instance { power_state: PowerState::Running, ..Instance::default() };
//! let found = Lookup::Found(Box::new(running));
//!
//! let mut lifecycle = Lifecycle::new(DeletionLimits::default());
//! assert_eq!(lifecycle.check(start, &node, &facts), Check::Ask);
//! // One answer is not enough.
//! let first = lifecycle.answered(start, &node, &node, Some(&absent), &facts);
//! assert!(matches!(first.action, LifecycleAction::Withhold(..)));
//! // The second one counts, since the cloud has found another Node meanwhile.
//! let later = start + Duration::from_secs(5);
//! lifecycle.other_answered(later, &other, Some(&found));
//! let second = lifecycle.answered(later, &node, &node, Some(&absent), &facts);
//! assert!(matches!(second.action, LifecycleAction::Delete(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{
    api_time::after,
    node::{
        NodeView, Ready,
        change::NodeChange,
        deletion_limit::{Absent, Counts, DeletionLimiter, DeletionLimits, DeletionRefusal},
        instance::{Lookup, PowerState, is_same_question, no_instance},
        ownership::NodeScope,
    },
};

mod out_of_service;
mod verdict;

pub use verdict::{
    Check, Deletion, Idle, Inconclusive, LifecycleAction, LifecycleDecision, Measure, Withheld,
};

/// Checks that are made one period apart, as upstream makes all of them: by then a node that will
/// be ready again soon mostly is. Each further one is twice as far.
const PROMPT: u32 = 6;

/// The longest time between two checks, unless the period itself is longer.
const LONGEST: Duration = Duration::from_mins(1);

/// Answers in a row that a machine is absent have to span this much before its volumes are detached.
const WITH_VOLUMES: Duration = Duration::from_mins(1);

/// The same for a machine that was never found: mostly its Node has another name than the cloud knows.
const NEVER_FOUND: Duration = Duration::from_mins(15);

/// Facts beside the node itself.
#[derive(Clone, Copy, Debug)]
pub struct LifecycleFacts<'a> {
    /// Which nodes are the provider's.
    pub scope: NodeScope<'a>,
    /// For how many nodes of the cluster [`NodeScope::owns`] holds.
    pub nodes: usize,
    /// No younger node is deleted: its instance may not be visible yet.
    pub visibility_delay: Duration,
    /// The time of day, by which a node's age counts, unless it has been watched for longer. All other times are
    /// those that the caller gives, which no step of the machine's clock changes.
    pub time_of_day: Timestamp,
    /// The provider's instances have no IDs.
    pub without_provider_id: bool,
    /// `--out-of-service-after`; zero: off.
    pub out_of_service_after: Duration,
    /// True if this process of the provider has answered the same question (UID, provider ID, labels) with: it does not
    /// manage this node.
    pub not_managed: bool,
}

/// State of the loop: a schedule for each node that is not ready, and the rate limit. A restart forgets
/// it without harm.
///
/// Calls about one node come one after the other, as from a queue that hands out each name once at
/// a time; only [`Self::observed`] may come at any time.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    period: Duration,
    watched: BTreeMap<Arc<str>, Watched>,
    /// Counts absences.
    limiter: DeletionLimiter,
    /// Counts stops.
    stops: DeletionLimiter,
    /// UIDs of nodes whose instance was found, by name, where the Node itself does not show that.
    instances_found: BTreeMap<Arc<str>, Box<str>>,
}

/// A node that is not ready.
#[derive(Clone, Debug)]
struct Watched {
    uid: Box<str>,
    /// First seen not to be ready.
    since: Timestamp,
    /// Last Ready status, and since when.
    heard: (Ready, Option<Timestamp>),
    /// Checks that were made.
    checks: u32,
    /// When the next check is due.
    due: Timestamp,
    /// The measure that was withheld last, and why.
    withheld: Option<(Measure, &'static str)>,
    /// The API server has deleted it, and the watch has not delivered that yet.
    is_deleted: bool,
}

impl Lifecycle {
    /// Knows of no node yet. `limits.period` is the monitor period of the checks too.
    pub fn new(limits: DeletionLimits) -> Self {
        Self {
            period: limits.period,
            watched: BTreeMap::new(),
            stops: DeletionLimiter::of_stops(&limits),
            limiter: DeletionLimiter::new(limits),
            instances_found: BTreeMap::new(),
        }
    }

    /// Returns true if the next question about `node` is to be put together with one about another Node, whose answer goes to
    /// [`Self::other_answered`] first: nothing follows from the absence, or stop, of this one before that.
    pub fn needs_other(&self, now: Timestamp, node: &NodeView) -> bool {
        self.limiter.needs_other(now, &node.name) || self.stops.needs_other(now, &node.name)
    }

    /// The next step for `node`. To be asked whenever it changed, and when [`Check::At`] has come.
    pub fn check(&mut self, now: Timestamp, node: &NodeView, facts: &LifecycleFacts<'_>) -> Check {
        match self.watched.get(&node.name) {
            // Deleted and registered again.
            Some(watched) if watched.uid != node.uid => self.removed(now, &node.name),
            Some(watched) if watched.is_deleted => return Check::Idle(Idle::BeingDeleted),
            _ => {}
        }
        if node.deleted.is_some() {
            // It counts until it is gone.
            return Check::Idle(Idle::BeingDeleted);
        }
        if !facts.scope.may_touch(node) {
            return self.dismiss(node, Idle::Foreign);
        }
        if node.is_paused() {
            return self.dismiss(node, Idle::Paused);
        }
        if node.ready == Ready::True {
            self.watched.remove(&node.name);
            self.limiter.ready(&node.name);
            self.stops.ready(&node.name);
            return match NodeChange::remove_taints_of_stop(node) {
                Some(change) => Check::RemoveTaints(change),
                None => Check::Idle(Idle::Ready),
            };
        }
        if facts.not_managed {
            return self.dismiss(node, Idle::NotManaged);
        }
        if !node.is_deletion_confirmed() {
            self.limiter.unlabelled(&node.name);
        }
        let heard = (node.ready, node.ready_since);
        let watched = self.watched.entry(Arc::clone(&node.name));
        let watched = watched.or_insert_with(|| Watched {
            uid: node.uid.clone(),
            since: now,
            heard,
            // Nothing could follow before, and the machines of a cluster that is being made would all
            // be asked about twice: most nodes are ready by then.
            due: visible(now, now, node, facts),
            checks: 0,
            withheld: None,
            is_deleted: false,
        });
        if watched.heard != heard {
            // The Ready condition changed in between, though the node was perhaps not seen ready: an
            // absence before that is not the first of two in a row.
            watched.heard = heard;
            self.limiter.unconfirm(&node.name);
            self.stops.unconfirm(&node.name);
        }
        if watched.due <= now {
            Check::Ask
        } else {
            Check::At(watched.due)
        }
    }

    /// The action that follows from an answer. `node` is the node as it is now, `node_at_lookup` as it was
    /// when the question was put, `lookup` the answer; none is an error, whatever kind of error.
    pub fn answered(
        &mut self,
        now: Timestamp,
        node: &NodeView,
        node_at_lookup: &NodeView,
        lookup: Option<&Lookup>,
        facts: &LifecycleFacts<'_>,
    ) -> LifecycleDecision {
        if let Some(watched) = self.watched.get_mut(&node.name) {
            watched.checks = watched.checks.saturating_add(1);
            let doublings = watched.checks.saturating_sub(PROMPT).min(16);
            let pause = self.period.saturating_mul(1 << doublings);
            watched.due = after(now, pause.min(LONGEST.max(self.period)));
        }
        let next = self.check(now, node, facts);
        let action = match next {
            Check::Ask | Check::At(_) => self.judge(now, node, node_at_lookup, lookup, facts),
            // A change meanwhile ends the question.
            Check::Idle(_) | Check::RemoveTaints(_) => LifecycleAction::Keep,
        };
        let sooner = match &action {
            LifecycleAction::NotManaged { .. } => {
                let next = self.dismiss(node, Idle::NotManaged);
                return LifecycleDecision { action, next };
            }
            // Should it fail, the question comes before it is tried again.
            LifecycleAction::Delete(_) | LifecycleAction::TakeOutOfService(_) => {
                Some(after(now, self.period))
            }
            LifecycleAction::Withhold(_, withheld) => withheld.until(),
            _ => None,
        };
        let Some(watched) = self.watched.get_mut(&node.name) else {
            return LifecycleDecision { action, next };
        };
        // A last look may still withhold a measure.
        if !matches!(
            action,
            LifecycleAction::Withhold(..)
                | LifecycleAction::Delete(_)
                | LifecycleAction::TakeOutOfService(_)
        ) {
            watched.withheld = None;
        }
        let next = match sooner {
            Some(at) => {
                watched.due = watched.due.min(at);
                Check::At(watched.due)
            }
            None => next,
        };
        LifecycleDecision { action, next }
    }

    /// Decides whether `measure`, which follows from an answer, may be taken now. `provider_trouble` is what the provider
    /// reported about itself after the answer; `None` if it is ready.
    ///
    /// # Errors
    /// The provider is not ready, or another loop's answer contradicts the measure.
    pub fn last_look(
        &mut self,
        node: &NodeView,
        measure: Measure,
        provider_trouble: Option<Box<str>>,
    ) -> Result<(), Withheld> {
        let limiter = match measure {
            Measure::Deletion => &mut self.limiter,
            Measure::OutOfService => &mut self.stops,
        };
        let why = match provider_trouble {
            Some(reason) => Withheld::ProviderNotReady { reason },
            None => match limiter.contradiction(&node.name) {
                Some(refusal) => refusal.into(),
                None => return Ok(()),
            },
        };
        limiter.set_withheld(&node.name, true);
        Err(why)
    }

    /// Notes that `measure` is withheld from `node`. Returns true if it, or the reason, is another than it was last.
    pub fn is_news(&mut self, node: &NodeView, measure: Measure, why: &Withheld) -> bool {
        let news = Some((measure, why.as_str()));
        let watched = self.watched.get_mut(&node.name);
        watched.is_some_and(|watched| std::mem::replace(&mut watched.withheld, news) != news)
    }

    /// An operator confirms all deletions that are withheld now, of which there are `expected` at most. Returns the names of
    /// their Nodes, which are to be checked.
    ///
    /// # Errors
    /// So many more are withheld; none is confirmed.
    pub fn confirm_withheld(
        &mut self,
        now: Timestamp,
        expected: usize,
    ) -> Result<Vec<Arc<str>>, usize> {
        let names = self.limiter.confirm_withheld(expected)?;
        for name in &names {
            if let Some(watched) = self.watched.get_mut(name) {
                watched.due = watched.due.min(now);
            }
        }
        Ok(names)
    }

    /// A fresh answer about another Node than the one that was to be asked about.
    pub fn other_answered(&mut self, now: Timestamp, node: &NodeView, lookup: Option<&Lookup>) {
        self.observed(now, node, lookup);
        if let Some(Lookup::Found(instance)) = lookup
            && !instance.is_other_than(node)
        {
            self.limiter.found(now, &node.name);
            if instance.power_state.runs() {
                self.stops.found(now, &node.name);
            }
        }
    }

    /// Counts an answer to another loop, about a ready Node too, perhaps from an older snapshot; none is an error. It
    /// contradicts an absence of this Node, or a stop, and says how far the provider is to be trusted. Must
    /// receive every answer, absences of ready Nodes above all.
    pub fn observed(&mut self, now: Timestamp, node: &NodeView, lookup: Option<&Lookup>) {
        match lookup {
            Some(Lookup::Found(instance)) if !instance.is_other_than(node) => {
                self.note_found(node);
                self.limiter.found_lately(&node.name);
                match instance.power_state {
                    PowerState::Pending | PowerState::Running => {
                        self.stops.found_lately(&node.name);
                    }
                    PowerState::Shutdown if node.ready == Ready::True => {
                        self.stops.absent_while_ready(now, &node.name);
                    }
                    PowerState::Terminating => self.stops.unconfirm(&node.name),
                    // Not asked about, mostly.
                    PowerState::Unknown | PowerState::Shutdown => {}
                }
            }
            Some(Lookup::Absent { .. })
                if node.ready == Ready::True && !node.is_end_announced() =>
            {
                self.limiter.absent_while_ready(now, &node.name);
            }
            Some(Lookup::Found(_) | Lookup::Absent { .. } | Lookup::NotManaged { .. }) | None => {
                self.stops.unconfirm(&node.name);
            }
        }
    }

    fn note_found(&mut self, node: &NodeView) {
        if node.provider_id.is_empty() || node.is_uninitialized() {
            self.instances_found
                .insert(Arc::clone(&node.name), node.uid.clone());
        } else {
            self.instances_found.remove(&node.name);
        }
    }

    /// Returns true if nothing shows that the instance of `node` was ever found: cloud-node has not initialised it.
    fn is_never_found(&self, node: &NodeView, facts: &LifecycleFacts<'_>) -> bool {
        let has_id = !node.provider_id.is_empty() || facts.without_provider_id;
        let is_initialized = has_id && !node.is_uninitialized();
        !is_initialized && self.instances_found.get(&node.name) != Some(&node.uid)
    }

    /// The API server has accepted the deletion of `node`: it counts at once, and is left alone
    /// until it is gone from the store too.
    pub fn deleted(&mut self, now: Timestamp, node: &NodeView) {
        let watched = self.watched.get_mut(&node.name);
        if let Some(watched) = watched.filter(|watched| watched.uid == node.uid) {
            watched.is_deleted = true;
            self.limiter.removed(now, &node.name);
        }
    }

    /// The Node object is gone from the store, whoever deleted it.
    pub fn removed(&mut self, now: Timestamp, name: &str) {
        self.watched.remove(name);
        self.instances_found.remove(name);
        self.limiter.removed(now, name);
        self.stops.removed(now, name);
    }

    /// The counts of the rate limit, with `nodes` of the provider's in the cluster.
    pub fn counts(&mut self, now: Timestamp, nodes: usize) -> Counts {
        self.limiter.count(now, nodes)
    }

    fn dismiss(&mut self, node: &NodeView, why: Idle) -> Check {
        self.watched.remove(&node.name);
        self.limiter.dismiss(&node.name);
        self.stops.dismiss(&node.name);
        Check::Idle(why)
    }

    fn judge(
        &mut self,
        now: Timestamp,
        node: &NodeView,
        node_at_lookup: &NodeView,
        lookup: Option<&Lookup>,
        facts: &LifecycleFacts<'_>,
    ) -> LifecycleAction {
        let is_same = is_same_question(node, node_at_lookup);
        let says_nothing = |lookup: &Lookup| {
            lookup.is_stopped(node)
                || matches!(lookup, Lookup::Found(instance)
                    if instance.power_state == PowerState::Unknown && !instance.is_other_than(node))
        };
        if !is_same || !lookup.is_some_and(says_nothing) {
            self.stops.unconfirm(&node.name);
        }
        let Some(lookup) = lookup else {
            return LifecycleAction::Inconclusive(Inconclusive::NoAnswer);
        };
        if !is_same {
            return LifecycleAction::Inconclusive(Inconclusive::NodeChanged);
        }
        match lookup {
            Lookup::NotManaged { reason } => LifecycleAction::NotManaged {
                reason: reason.clone(),
            },
            Lookup::Found(instance) if instance.is_other_than(node) => {
                self.limiter.unconfirm(&node.name);
                LifecycleAction::Inconclusive(Inconclusive::AnotherInstance {
                    instance_id: instance.provider_id.clone(),
                })
            }
            Lookup::Found(instance) => {
                self.note_found(node);
                self.limiter.found(now, &node.name);
                self.powered(now, node, node_at_lookup, instance.power_state, facts)
            }
            Lookup::Absent { confirmed: false } => {
                self.limiter.unconfirm(&node.name);
                LifecycleAction::Inconclusive(Inconclusive::NotConfirmed)
            }
            Lookup::Absent { confirmed: true } => self.absent(now, node, node_at_lookup, facts),
        }
    }

    /// The instance exists. Only a stopped one changes the Node; the taint stays until the kubelet reports
    /// it ready (L-10, L-13).
    fn powered(
        &mut self,
        now: Timestamp,
        node: &NodeView,
        node_at_lookup: &NodeView,
        power_state: PowerState,
        facts: &LifecycleFacts<'_>,
    ) -> LifecycleAction {
        let action = match power_state {
            PowerState::Shutdown => self.stopped(now, node, node_at_lookup, facts),
            // An instance that is being deleted counts as stopped until it is absent, but may still run.
            PowerState::Terminating => LifecycleAction::Keep,
            PowerState::Unknown => return LifecycleAction::Keep,
            PowerState::Pending | PowerState::Running => {
                self.stops.found(now, &node.name);
                return LifecycleAction::Keep;
            }
        };
        NodeChange::add_shutdown_taint(node).map_or(action, LifecycleAction::AddShutdownTaint)
    }

    fn absent(
        &mut self,
        now: Timestamp,
        node: &NodeView,
        node_at_lookup: &NodeView,
        facts: &LifecycleFacts<'_>,
    ) -> LifecycleAction {
        // The Ready condition changed since the question: perhaps the machine is back.
        if !has_same_readiness(node, node_at_lookup) {
            self.limiter.dismiss(&node.name);
            return LifecycleAction::Inconclusive(Inconclusive::NodeChanged);
        }
        let withhold = |why| LifecycleAction::Withhold(Measure::Deletion, why);
        if !facts.scope.owns(node) {
            return withhold(Withheld::NotOwned);
        }
        let watched = self.watched.get(&node.name);
        let since = watched.map_or(now, |watched| watched.since);
        let until = visible(now, since, node, facts);
        if now < until {
            return withhold(Withheld::Young { until });
        }
        let never_found = self.is_never_found(node, facts);
        let never_found = never_found.then(|| no_instance(node));
        let absent = Absent {
            nodes: facts.nodes,
            more_answers: u32::from(node.has_volumes_in_use),
            lasting: match &never_found {
                Some(_) => NEVER_FOUND,
                None if node.has_volumes_in_use => WITH_VOLUMES,
                None => Duration::ZERO,
            },
            is_announced: node.is_end_announced(),
            is_labelled: node.is_deletion_confirmed(),
        };
        if let Some(question) = &never_found
            && node.ready != Ready::Unknown
        {
            // Its kubelet lives.
            self.limiter.absent_and_kept(now, &node.name, absent);
            let question = question.clone();
            let until = None;
            return withhold(Withheld::NeverFound { question, until });
        }
        match (self.limiter.absent(now, &node.name, absent), never_found) {
            (Ok(release), never_found) => LifecycleAction::Delete(Deletion {
                release,
                never_found,
            }),
            (Err(DeletionRefusal::LookAgain { at }), Some(question)) => {
                self.limiter.set_withheld(&node.name, true);
                let until = Some(at);
                withhold(Withheld::NeverFound { question, until })
            }
            (Err(refusal), _) => withhold(refusal.into()),
        }
    }
}

/// When the instance of `node`, which has been watched since `since`, is visible at the latest. The time of day may be
/// wrong, so that a node seems younger than it is.
fn visible(
    now: Timestamp,
    since: Timestamp,
    node: &NodeView,
    facts: &LifecycleFacts<'_>,
) -> Timestamp {
    let delay = facts.visibility_delay;
    let by_age = after(node.created, delay).duration_since(facts.time_of_day);
    let by_age = after(now, by_age.try_into().unwrap_or_default());
    by_age.min(after(since, delay)).max(now)
}

/// Returns true if the Ready condition of `node` is that of `node_at_lookup`.
fn has_same_readiness(node: &NodeView, node_at_lookup: &NodeView) -> bool {
    (node.ready, node.ready_since) == (node_at_lookup.ready, node_at_lookup.ready_since)
}

#[cfg(test)]
mod tests;
