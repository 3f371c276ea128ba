//! The rate limit of deletions: decides when a Node whose instance does not exist may be deleted.
//!
//! A cloud that suddenly returns no instance for many Nodes is more likely to be wrong than right: a token that lost a
//! right, the wrong account, a cache that was emptied. So absences are counted, each Node once, together with the Nodes
//! deleted in the window. Above the limit no Node is deleted until a second look, one window later, has the same result. No
//! Node at all is deleted before a fresh answer since its first absence has found another one, and none while more than
//! half are absent: then an operator confirms the deletion. A Node whose end was announced
//! ([`crate::node::NodeView::is_end_announced`]) counts for nothing, and needs none of this.
//!
//! ```text
//!  answers in a row     too few ─► LookAgain, Contradicted
//!  the time they span   short ───► LookAgain
//!  switched             off ─────► Off
//!  an operator          confirms ► Allowed
//!  its end              announced► Allowed
//!  half of all nodes    more ────► Majority
//!  another one found    none ────► FindsNone
//!  the limit            within ──► Allowed
//!  since they sufficed  < window ► LimitExceeded
//!  found since then     none ────► FindsNone
//!                                  Allowed
//! ```
//!
//! [`crate::node::lifecycle`] is the only caller: it reports each answer (`found`, `absent`, `absent_while_ready`, answers
//! to other loops as `found_lately`) and each end of a Node (`removed`), and deletes only what [`DeletionLimiter::absent`]
//! allows.
//!
//! A confirmation of an operator is an act: it counts for the absence that it was given in, and is over when the answers in
//! a row begin at zero again.
//!
//! A second limiter of the same limits counts Nodes whose instance is stopped, and taken out of service for that
//! ([`crate::node::lifecycle`]): there an absence is a stop, and a deletion a taint.
//!
//! Its state is in memory only: after a restart all counts begin at zero.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use crate::api_time::after;

mod decision;

pub use decision::{DeletionRefusal, Release};

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
    /// Nodes that are not ready and absent, and whose end was not announced.
    pub absent: usize,
    /// Nodes whose deletion the last answer would have led to, and that stay for a reason that an operator may overrule.
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
    /// It counts stops: the Nodes stay in the cluster, and a small cluster is no exception.
    of_stops: bool,
    absent: BTreeMap<Arc<str>, Absence>,
    deleted: Vec<(Arc<str>, Timestamp)>,
    /// The Node that was found last, and when.
    last_found: Option<(Arc<str>, Timestamp)>,
    /// When any other Node was found last.
    other_found: Option<Timestamp>,
}

/// Facts about a Node with the answer that it is absent.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    /// How many nodes of the cluster are the provider's.
    pub nodes: usize,
    /// So many answers in a row are needed, beside those of the limits.
    pub more_answers: u32,
    /// The time that the answers in a row have to span.
    pub lasting: Duration,
    /// Its end was announced.
    pub is_announced: bool,
    /// It has the label by which an operator confirms its deletion.
    pub is_labelled: bool,
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

#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts about an absence, independent of each other"
)]
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
    /// When the answers suffice to be the first of two looks, and the second look is due.
    second_look: Timestamp,
    is_announced: bool,
    /// See [`Counts::awaiting_operator`].
    is_withheld: bool,
    /// An answer in this row came before an operator set the label: a label that is older is of another absence.
    was_unlabelled: bool,
    /// An operator confirmed all deletions that were withheld, this one among them.
    is_released: bool,
}

impl Confirmed {
    /// Confirmations in a row that nothing contradicts.
    const fn agreed(&self) -> u32 {
        self.confirmations - self.contradicted
    }

    /// Since when another Node has to have been found.
    fn needs_other_since(&self, now: Timestamp) -> Timestamp {
        if now < self.second_look {
            self.since
        } else {
            self.second_look
        }
    }
}

impl DeletionLimiter {
    /// A limiter without absences.
    pub const fn new(limits: DeletionLimits) -> Self {
        Self {
            limits,
            of_stops: false,
            absent: BTreeMap::new(),
            deleted: Vec::new(),
            last_found: None,
            other_found: None,
        }
    }

    /// A limiter that counts stops. The switch is for deletions alone, and one answer never suffices.
    pub fn of_stops(limits: &DeletionLimits) -> Self {
        Self {
            of_stops: true,
            ..Self::new(DeletionLimits {
                enabled: true,
                confirm: limits.confirm.max(2),
                ..limits.clone()
            })
        }
    }

    /// Counts the confirmed absence of a node that is not ready, and decides about its deletion.
    pub fn absent(
        &mut self,
        now: Timestamp,
        name: &Arc<str>,
        node: Absent,
    ) -> Result<Release, DeletionRefusal> {
        let absence = self.confirm(now, name, &node);
        self.forget_old(now);
        let decided = self.decide(now, name, &absence, &node);
        let is_withheld = decided.is_err_and(DeletionRefusal::is_for_operator);
        self.set_withheld(name, is_withheld);
        decided
    }

    fn decide(
        &self,
        now: Timestamp,
        name: &str,
        absence: &Confirmed,
        node: &Absent,
    ) -> Result<Release, DeletionRefusal> {
        let by_operator = absence.is_released || (node.is_labelled && absence.was_unlabelled);
        let in_a_row = if by_operator {
            absence.confirmations
        } else {
            absence.agreed()
        };
        if in_a_row < self.limits.confirm + node.more_answers {
            let at = after(absence.last, self.limits.period);
            return Err(if absence.contradicted > 0 {
                DeletionRefusal::Contradicted { at }
            } else {
                DeletionRefusal::LookAgain { at }
            });
        }
        let sufficient = after(absence.since, node.lasting);
        if now < sufficient && !by_operator {
            return Err(DeletionRefusal::LookAgain { at: sufficient });
        }
        if !self.limits.enabled {
            return Err(DeletionRefusal::Off);
        }
        if by_operator {
            return Ok(Release::Operator);
        }
        if node.is_announced {
            return Ok(Release::Announced);
        }
        let counts = self.counts(node.nodes);
        let has_majority = 2 * counts.total() > counts.nodes;
        if has_majority && (self.of_stops || counts.is_exceeded()) {
            return Err(DeletionRefusal::Majority);
        }
        let other_found_at = self.other_found(name);
        let finds_other = |since| other_found_at.is_some_and(|at| at >= since);
        if !finds_other(absence.since) {
            return Err(DeletionRefusal::FindsNone);
        }
        if !counts.is_exceeded() {
            return Ok(Release::WithinLimit);
        }
        if now < absence.second_look {
            let until = absence.second_look;
            return Err(DeletionRefusal::LimitExceeded { until });
        }
        if !finds_other(absence.second_look) {
            return Err(DeletionRefusal::FindsNone);
        }
        Ok(Release::SecondLook)
    }

    /// Returns true if the next answer about this node, which may be its first absence, can lead to its deletion only if
    /// another node is found as well.
    pub fn needs_other(&self, now: Timestamp, name: &str) -> bool {
        let since = match self.absent.get(name) {
            Some(Absence::Confirmed(absence))
                if absence.is_announced || absence.confirmations == 0 =>
            {
                return false;
            }
            Some(Absence::Confirmed(absence)) => absence.needs_other_since(now),
            _ if self.limits.confirm > 1 => return false,
            _ => now,
        };
        self.other_found(name).is_none_or(|at| at < since)
    }

    /// When another node than this one was found last, by a fresh answer.
    fn other_found(&self, name: &str) -> Option<Timestamp> {
        match &self.last_found {
            Some((other, at)) if **other != *name => Some(*at),
            _ => self.other_found,
        }
    }

    /// Counts the confirmed absence of a node that stays, unless its deletion counts already. The answers in a row begin at
    /// zero again.
    pub fn absent_and_kept(&mut self, now: Timestamp, name: &Arc<str>, node: Absent) {
        self.forget_old(now);
        if self.deleted.iter().any(|(deleted, _)| deleted == name) {
            return;
        }
        self.confirm(now, name, &node);
        self.unconfirm(name);
    }

    /// The node is seen without the label by which an operator confirms its deletion.
    pub fn unlabelled(&mut self, name: &str) {
        if let Some(Absence::Confirmed(absence)) = self.absent.get_mut(name) {
            absence.was_unlabelled = true;
        }
    }

    /// Notes whether the deletion of this node is withheld for a reason that an operator may overrule. It may be also if
    /// the limit allows the deletion, or more answers are needed.
    pub fn set_withheld(&mut self, name: &str, is_withheld: bool) {
        if let Some(Absence::Confirmed(absence)) = self.absent.get_mut(name) {
            absence.is_withheld = is_withheld;
        }
    }

    /// An operator confirms all deletions that are withheld now, of which there are `expected` at most. Returns the names of
    /// their Nodes.
    ///
    /// # Errors
    /// So many more are withheld; none is confirmed.
    pub fn confirm_withheld(&mut self, expected: usize) -> Result<Vec<Arc<str>>, usize> {
        let absent = self.absent.iter_mut();
        let withheld = absent.filter_map(|(name, absence)| match absence {
            Absence::Confirmed(absence) if absence.is_withheld => Some((name, absence)),
            _ => None,
        });
        let withheld: Vec<_> = withheld.collect();
        if withheld.len() > expected {
            return Err(withheld.len());
        }
        let release = |(name, absence): (&Arc<str>, &mut Confirmed)| {
            absence.is_released = true;
            absence.is_withheld = false;
            Arc::clone(name)
        };
        Ok(withheld.into_iter().map(release).collect())
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
    pub fn found(&mut self, now: Timestamp, name: &Arc<str>) {
        self.absent.remove(name);
        let other = self.other_found(name);
        self.other_found = other;
        self.last_found = Some((Arc::clone(name), now));
    }

    /// Another loop was answered that the instance of this node exists, perhaps from a snapshot of some age.
    /// That is no newer than a confirmed absence, but contradicts it: the answers in a row are counted from zero again.
    pub fn found_lately(&mut self, name: &str) {
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

    /// The absence is not confirmed any more: the node counts, but the answers in a row begin at zero again, and a
    /// confirmation of an operator is over.
    pub fn unconfirm(&mut self, name: &str) {
        if let Some(Absence::Confirmed(absence)) = self.absent.get_mut(name) {
            absence.confirmations = 0;
            absence.contradicted = 0;
            absence.is_withheld = false;
        }
    }

    /// The Node object is gone. If its instance was absent it counts for one window more, whoever
    /// deleted it.
    pub fn removed(&mut self, now: Timestamp, name: &str) {
        self.forget_old(now);
        if let Some((name, Absence::Confirmed(absence))) = self.absent.remove_entry(name)
            && !absence.is_announced
        {
            self.deleted.push((name, now));
        }
    }

    /// The counts at `now`, with `nodes` of the provider's in the cluster.
    pub fn count(&mut self, now: Timestamp, nodes: usize) -> Counts {
        self.forget_old(now);
        self.counts(nodes)
    }

    fn confirm(&mut self, now: Timestamp, name: &Arc<str>, node: &Absent) -> Confirmed {
        let mut absence = match self.absent.get(&**name) {
            Some(Absence::Confirmed(absence)) if absence.confirmations > 0 => *absence,
            _ => Confirmed::default(),
        };
        if absence.confirmations == 0 || now >= after(absence.last, self.limits.period) {
            if absence.agreed() == 0 {
                absence.since = now;
            }
            absence.last = now;
            absence.confirmations = absence.confirmations.saturating_add(1);
        }
        absence.second_look = after(after(absence.since, node.lasting), self.limits.window);
        absence.is_announced = node.is_announced;
        absence.was_unlabelled |= !node.is_labelled;
        let counted = Absence::Confirmed(absence);
        self.absent.insert(Arc::clone(name), counted);
        absence
    }

    fn counts(&self, nodes: usize) -> Counts {
        let mut counts = Counts::default();
        for absence in self.absent.values() {
            match absence {
                Absence::Confirmed(absence) => {
                    counts.absent += usize::from(!absence.is_announced);
                    counts.awaiting_operator += usize::from(absence.is_withheld);
                }
                Absence::WhileReady { .. } => counts.absent_while_ready += 1,
            }
        }
        counts.deleted = self.deleted.len();
        // The caller perhaps does not know yet of those absent, and knows no more of those deleted.
        let gone = if self.of_stops { 0 } else { counts.deleted };
        counts.nodes = nodes.max(self.absent.len()) + gone;
        counts.limit =
            (self.limits.fraction * counts.nodes as f64).max(f64::from(self.limits.burst));
        counts
    }

    fn forget_old(&mut self, now: Timestamp) {
        let window = self.limits.window;
        self.deleted.retain(|(_, at)| now < after(*at, window));
        self.absent.retain(|_, absence| match absence {
            Absence::WhileReady { last } => now < after(*last, window.saturating_mul(2)),
            Absence::Confirmed(_) => true,
        });
    }
}

#[cfg(test)]
mod tests;
