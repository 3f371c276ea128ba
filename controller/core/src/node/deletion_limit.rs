//! The rate limit of deletions: decides when a node whose instance does not exist may be deleted.
//!
//! A cloud that suddenly returns no instance for many Nodes is more likely to be wrong than right: a
//! token that lost a right, the wrong account, a cache that was emptied. So absences are counted,
//! each Node once, together with the Nodes deleted in the window. Above the limit no Node is deleted
//! until a second look, one window later, has the same result; and if more than half of the Nodes are
//! absent, or the provider finds no instance at all meanwhile, an operator must confirm each deletion
//! ([`crate::node::LABEL_CONFIRM_DELETION`]).
//!
//! ```text
//!  answers in a row     too few ─► LookAgain, Contradicted
//!  the time they span   short ───► LookAgain
//!  switched             off ─────► Off
//!  confirmed deletion   set ─────► Allowed
//!  half of all nodes    more ────► AwaitsOperator, and stays so
//!  the limit            within ──► Allowed
//!  since they sufficed  < window ► LimitExceeded
//!  found since          nothing ─► AwaitsOperator
//!                                  Allowed
//! ```
//!
//! A second limiter of the same limits counts Nodes whose instance is stopped, and taken out of service for that
//! ([`crate::node::lifecycle`]): there an absence is a stop, and a deletion a taint.
//!
//! Its state is in memory only: after a restart all counts begin at zero.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use crate::api_time::after;

mod decision;

pub use decision::{DeletionRefusal, Doubt, Release};

/// How many deletions are allowed. The defaults are those of the flags.
#[derive(Clone, Debug, PartialEq)]
pub struct DeletionLimits {
    /// `--node-deletion-enabled`: off, absences are counted all the same.
    pub enabled: bool,
    /// `--node-deletion-burst`: so many nodes may be absent or deleted, however small the cluster.
    pub burst: u32,
    /// `--node-deletion-fraction`: part of the provider's nodes, 0 to 1, that may be.
    pub fraction: f64,
    /// `--node-deletion-window`: how long a deletion counts, and the time from the first absence to
    /// the second look.
    pub window: Duration,
    /// `--node-deletion-confirm`: confirmed absences in a row before a deletion, at least 1.
    pub confirm: u32,
    /// `--node-monitor-period`: time between two of them at least.
    pub period: Duration,
}

impl Default for DeletionLimits {
    fn default() -> Self {
        Self {
            enabled: true,
            burst: 3,
            fraction: 0.1,
            window: Duration::from_mins(5),
            confirm: 2,
            period: Duration::from_secs(5),
        }
    }
}

/// Counts beside the limit, for metrics and logs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// The provider's nodes, those deleted in the window among them.
    pub nodes: usize,
    /// Nodes that are not ready and absent.
    pub absent: usize,
    /// How many of these wait for an operator ([`Doubt::Majority`]).
    pub awaiting_operator: usize,
    /// Nodes that are ready, though the provider reports their instances absent.
    pub absent_while_ready: usize,
    /// Nodes that were absent when they were deleted, in the window.
    pub deleted: usize,
    /// So many absent and deleted nodes are allowed.
    pub limit: f64,
}

impl Counts {
    /// Absent and deleted nodes together.
    pub const fn total(&self) -> usize {
        self.absent + self.absent_while_ready + self.deleted
    }

    /// Returns true if the limit is exceeded, and deletion stops.
    pub fn is_exceeded(&self) -> bool {
        self.total() as f64 > self.limit
    }
}

/// Absent and deleted nodes, by name: one entry for each node of the cluster at most, and one for
/// each deletion of the window.
#[derive(Clone, Debug)]
pub struct DeletionLimiter {
    limits: DeletionLimits,
    absent: BTreeMap<Arc<str>, Absence>,
    deleted: VecDeque<(Arc<str>, Timestamp)>,
    found_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
enum Absence {
    /// The node is not ready, and its absence is confirmed.
    Confirmed(Confirmed),
    /// The node is ready: a contradiction, so that the provider is likely wrong.
    WhileReady {
        /// Time of the last such answer.
        last: Timestamp,
    },
}

#[derive(Clone, Copy, Debug)]
struct Confirmed {
    /// The first answer in a row that nothing contradicts.
    since: Timestamp,
    /// The last answer that counted.
    last: Timestamp,
    /// How many counted.
    confirmations: u32,
    /// How many of these came before another loop was answered that the instance exists. They count only for
    /// an operator's confirmation.
    contradicted: u32,
    awaits_operator: bool,
}

impl Confirmed {
    /// Confirmations in a row that nothing contradicts.
    const fn agreed(&self) -> u32 {
        self.confirmations - self.contradicted
    }
}

impl DeletionLimiter {
    /// A limiter without absences.
    pub fn new(limits: DeletionLimits) -> Self {
        Self {
            limits,
            absent: BTreeMap::new(),
            deleted: VecDeque::new(),
            found_at: None,
        }
    }

    /// Counts the confirmed absence of a node that is not ready, and decides about its deletion.
    /// `nodes` is how many nodes of the cluster are the provider's, `lasting` the time that the answers in a row have to
    /// span, `by_operator` whether an operator confirmed its deletion in spite of the limit.
    pub fn absent(
        &mut self,
        now: Timestamp,
        name: &Arc<str>,
        nodes: usize,
        lasting: Duration,
        by_operator: bool,
    ) -> Result<Release, DeletionRefusal> {
        let absence = self.confirm(now, name);
        self.forget_old(now);
        let counts = self.counts(nodes);
        // Whatever becomes of this node: it may be the one that makes a majority with the others.
        let majority = self.require_operator(&counts);
        let in_a_row = if by_operator {
            absence.confirmations
        } else {
            absence.agreed()
        };
        if in_a_row < self.limits.confirm {
            let at = after(absence.last, self.limits.period);
            return Err(if absence.contradicted > 0 {
                DeletionRefusal::Contradicted { at }
            } else {
                DeletionRefusal::LookAgain { at }
            });
        }
        let sufficient = after(absence.since, lasting);
        if now < sufficient {
            return Err(DeletionRefusal::LookAgain { at: sufficient });
        }
        if !self.limits.enabled {
            return Err(DeletionRefusal::Off);
        }
        if by_operator {
            return Ok(Release::Operator);
        }
        if majority || absence.awaits_operator {
            return Err(DeletionRefusal::AwaitsOperator(Doubt::Majority));
        }
        if !counts.is_exceeded() {
            return Ok(Release::WithinLimit);
        }
        let until = after(sufficient, self.limits.window);
        if now < until {
            return Err(DeletionRefusal::LimitExceeded { until });
        }
        if self
            .found_at
            .is_none_or(|found_at| found_at < absence.since)
        {
            return Err(DeletionRefusal::AwaitsOperator(Doubt::FindsNone));
        }
        Ok(Release::SecondLook)
    }

    /// Counts the confirmed absence of a node that stays, unless its deletion counts already. The answers in a row begin at
    /// zero again.
    pub fn absent_and_kept(&mut self, now: Timestamp, name: &Arc<str>, nodes: usize) {
        self.forget_old(now);
        if self.deleted.iter().any(|(deleted, _)| deleted == name) {
            return;
        }
        self.confirm(now, name);
        self.unconfirm(name);
        let counts = self.counts(nodes);
        self.require_operator(&counts);
    }

    /// Counts a node that is ready though the provider reports its instance absent, confirmed or not.
    /// It counts until its instance is found, or for two windows after the last such answer.
    pub fn absent_while_ready(&mut self, now: Timestamp, name: &Arc<str>) {
        match self.absent.entry(Arc::clone(name)) {
            // The cloud-node loop has an older view, in which the Node is ready.
            Entry::Occupied(entry) if matches!(entry.get(), Absence::Confirmed(_)) => {}
            entry => {
                entry.insert_entry(Absence::WhileReady { last: now });
            }
        }
    }

    /// The provider found the instance of this node, asked just now.
    pub fn found(&mut self, now: Timestamp, name: &str) {
        self.found_some(now);
        self.absent.remove(name);
    }

    /// Another loop was answered that the instance of this node exists, perhaps from a snapshot of some age.
    /// That is no newer than a confirmed absence, but contradicts it: the answers in a row are counted from zero again.
    pub fn found_lately(&mut self, now: Timestamp, name: &str) {
        self.found_some(now);
        match self.absent.get_mut(name) {
            Some(Absence::Confirmed(absence)) => absence.contradicted = absence.confirmations,
            Some(Absence::WhileReady { .. }) => {
                self.absent.remove(name);
            }
            None => {}
        }
    }

    /// Why the answers that allowed a deletion of this node do not allow it any more.
    pub fn contradiction(&self, name: &str) -> Option<DeletionRefusal> {
        let at = match self.absent.get(name) {
            Some(Absence::Confirmed(absence)) if absence.agreed() >= self.limits.confirm => {
                return None;
            }
            Some(Absence::Confirmed(absence)) => after(absence.last, self.limits.period),
            _ => Timestamp::MAX,
        };
        Some(DeletionRefusal::Contradicted { at })
    }

    /// The node is ready (again).
    pub fn ready(&mut self, name: &str) {
        if matches!(self.absent.get(name), Some(Absence::Confirmed(_))) {
            self.absent.remove(name);
        }
    }

    /// The node must not be deleted for now: no more lookups of it.
    pub fn dismiss(&mut self, name: &str) {
        self.absent.remove(name);
    }

    /// The absence is not confirmed any more: the node counts, but the answers in a row begin at zero again.
    pub fn unconfirm(&mut self, name: &str) {
        if let Some(Absence::Confirmed(absence)) = self.absent.get_mut(name) {
            absence.confirmations = 0;
            absence.contradicted = 0;
        }
    }

    /// The Node object is gone. If its instance was absent it counts for one window more, whoever
    /// deleted it.
    pub fn removed(&mut self, now: Timestamp, name: &str) {
        self.forget_old(now);
        if let Some((name, Absence::Confirmed(_))) = self.absent.remove_entry(name) {
            self.deleted.push_back((name, now));
        }
    }

    /// The counts at `now`, with `nodes` of the provider's in the cluster.
    pub fn count(&mut self, now: Timestamp, nodes: usize) -> Counts {
        self.forget_old(now);
        self.counts(nodes)
    }

    fn found_some(&mut self, now: Timestamp) {
        self.found_at = self.found_at.max(Some(now));
    }

    fn confirm(&mut self, now: Timestamp, name: &Arc<str>) -> Confirmed {
        let first = Confirmed {
            since: now,
            last: now,
            confirmations: 1,
            contradicted: 0,
            awaits_operator: false,
        };
        let absence = match self.absent.get(&**name) {
            Some(Absence::Confirmed(absence)) => *absence,
            _ => return self.store(name, first),
        };
        let absence = if absence.confirmations == 0 {
            Confirmed {
                awaits_operator: absence.awaits_operator,
                ..first
            }
        } else if now >= after(absence.last, self.limits.period) {
            let begins = absence.agreed() == 0;
            Confirmed {
                since: if begins { now } else { absence.since },
                last: now,
                confirmations: absence.confirmations.saturating_add(1),
                ..absence
            }
        } else {
            absence
        };
        self.store(name, absence)
    }

    fn store(&mut self, name: &Arc<str>, absence: Confirmed) -> Confirmed {
        self.absent
            .insert(Arc::clone(name), Absence::Confirmed(absence));
        absence
    }

    /// Returns true if more than half of the nodes are absent or deleted. A confirmation does not end that, even when
    /// the deletions among them are no longer counted.
    fn require_operator(&mut self, counts: &Counts) -> bool {
        let more_than_half = |count: usize| counts.is_exceeded() && 2 * count > counts.nodes;
        if more_than_half(counts.absent + counts.deleted) {
            for absence in self.absent.values_mut() {
                if let Absence::Confirmed(absence) = absence {
                    absence.awaits_operator = true;
                }
            }
        }
        more_than_half(counts.total())
    }

    fn counts(&self, nodes: usize) -> Counts {
        let (mut absent, mut awaiting_operator) = (0, 0);
        for absence in self.absent.values() {
            if let Absence::Confirmed(absence) = absence {
                absent += 1;
                awaiting_operator += usize::from(absence.awaits_operator);
            }
        }
        let deleted = self.deleted.len();
        // The caller knows no more of those deleted, and perhaps not yet of those absent.
        let nodes = nodes.max(self.absent.len()) + deleted;
        Counts {
            nodes,
            absent,
            awaiting_operator,
            absent_while_ready: self.absent.len() - absent,
            deleted,
            limit: (self.limits.fraction * nodes as f64).max(f64::from(self.limits.burst)),
        }
    }

    fn forget_old(&mut self, now: Timestamp) {
        while let Some((_, at)) = self.deleted.front()
            && self.is_old(now, *at)
        {
            self.deleted.pop_front();
        }
        let mut absent = std::mem::take(&mut self.absent);
        absent.retain(|_, absence| !self.is_over(now, absence));
        self.absent = absent;
    }

    /// Returns true if a deletion at that time counts no more.
    fn is_old(&self, now: Timestamp, deleted: Timestamp) -> bool {
        after(deleted, self.limits.window) <= now
    }

    /// Returns true if such an absence counts no more.
    fn is_over(&self, now: Timestamp, absence: &Absence) -> bool {
        match absence {
            Absence::WhileReady { last } => {
                after(*last, self.limits.window.saturating_mul(2)) <= now
            }
            Absence::Confirmed(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
