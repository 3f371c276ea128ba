//! One write to `services/<name>/status` as a value: finalizer, annotations, conditions and addresses together, so that a
//! crash leaves all of it or nothing.
//!
//! Each part names one change, never the whole of a list that others write too: finalizers and annotations by name,
//! conditions by type. Only the list of addresses is replaced as a whole, which is this loop's alone (S-38). The plan makes
//! a [`StatusPatch`]; `outrigger-kube` turns it into one PATCH with its preconditions; [`StatusPatch::applied_to`] is the
//! view after it.

use std::net::IpAddr;

use jiff::Timestamp;

use super::{
    FINALIZER, Ingress, ServiceView,
    condition::WAITING,
    last_applied::{ANNOTATION_LAST_APPLIED, LastApplied},
};
use crate::{
    condition::{ConditionChange, Status},
    effects::{DesiredCondition, DropCause, Dropped, Effects, is_of_controller},
    repairs::Undone,
};

/// The change of our finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerChange {
    /// It is added. Presumes that the Service is not being deleted, or the API server refuses it.
    Add,
    /// It is removed, and the others stay (S-46).
    Remove,
}

/// The write, with its preconditions. Nothing in it is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPatch {
    /// Presumed `metadata.uid`: a Service of the same name that was made again is another one.
    pub uid: Box<str>,
    /// `metadata.finalizers`.
    pub finalizer: Option<FinalizerChange>,
    /// `metadata.annotations`: key and value; none removes the key.
    pub annotations: Vec<(Box<str>, Option<Box<str>>)>,
    /// `status.conditions`, each type once.
    pub conditions: Vec<ConditionChange>,
    /// `status.loadBalancer.ingress`, the whole list; an empty one clears it (S-71).
    pub ingress: Option<Box<[Ingress]>>,
}

impl StatusPatch {
    /// Returns true if the write is right only for the version that it was planned on: it may arrive long after its
    /// sender has ended. By then the Service may have a load balancer and need the finalizer, or none
    /// that could be settled, or wait no longer.
    pub fn is_exact(&self) -> bool {
        let mut conditions = self.conditions.iter();
        self.finalizer == Some(FinalizerChange::Remove)
            || self.settles()
            || conditions.any(|change| change.kind() == WAITING)
    }

    /// Returns true if the record that is written has a hash.
    fn settles(&self) -> bool {
        self.annotations.iter().any(|(key, value)| {
            **key == *ANNOTATION_LAST_APPLIED
                && value.as_deref().is_some_and(LastApplied::is_with_hash)
        })
    }

    /// The same without the provider's effects, and which those are; none if there are none. The controller's own
    /// annotations and conditions are all under its domain.
    pub fn without_effects(&self) -> Option<(Self, Dropped)> {
        let mut dropped = Dropped::default();
        let mut is_ours = |key: &str| {
            let is_ours = is_of_controller(key);
            if !is_ours {
                dropped.add(DropCause::Refused, key);
            }
            is_ours
        };
        let mut rest = self.clone();
        rest.annotations.retain(|(key, _)| is_ours(key));
        rest.conditions.retain(|change| is_ours(change.kind()));
        (dropped.count() > 0).then_some((rest, dropped))
    }

    /// The field of `service` that this puts right, before a call or without one: another client has undone it since it was
    /// written. An answer of the provider is no such write.
    pub fn undone(&self, service: &ServiceView) -> Option<Undone> {
        if self.ingress.is_some() {
            Some(Undone::Addresses)
        } else if self.finalizer == Some(FinalizerChange::Add) {
            // Both are written before the first call.
            let is_known = LastApplied::of(service).is_some() || self.settles();
            is_known.then_some(Undone::Finalizer)
        } else {
            self.settles().then_some(Undone::Record)
        }
    }

    /// The view once this is written, so that a store need not wait for its watch.
    #[must_use]
    pub fn applied_to(&self, service: &ServiceView, resource_version: &str) -> ServiceView {
        let mut view = service.clone();
        view.resource_version = resource_version.into();
        match self.finalizer {
            // It may be there by now.
            Some(FinalizerChange::Add) if service.has_finalizer() => {}
            Some(FinalizerChange::Add) => {
                let finalizers = service.finalizers.iter().cloned();
                view.finalizers = finalizers.chain([FINALIZER.into()]).collect();
            }
            Some(FinalizerChange::Remove) => {
                let finalizers = service.finalizers.iter();
                let others = finalizers.filter(|name| ***name != *FINALIZER);
                view.finalizers = others.cloned().collect();
            }
            None => {}
        }
        view.annotations = service.annotations.changed(&self.annotations);
        view.conditions = ConditionChange::apply_all(&self.conditions, &service.conditions);
        if let Some(ingress) = &self.ingress {
            view.ingress = defaulted(ingress);
        }
        view
    }
}

/// The API server's defaults of a list of addresses: one without `ipMode` gets `VIP`.
pub(super) fn defaulted(ingress: &[Ingress]) -> Box<[Ingress]> {
    let mut ingress: Box<[Ingress]> = ingress.into();
    for entry in &mut ingress {
        if !entry.ip.is_empty() && entry.ip_mode.is_none() {
            entry.ip_mode = Some("VIP".into());
        }
    }
    ingress
}

/// Returns true if two lists have the same addresses once they are stored (S-37, H-6, not Q-9), in any order: some clouds
/// list them without one.
pub fn is_same(a: &[Ingress], b: &[Ingress]) -> bool {
    let (a, b) = (defaulted(a), defaulted(b));
    a.iter().all(|one| b.contains(one)) && b.iter().all(|one| a.contains(one))
}

/// The addresses of an answer to a change of targets, which changes no address, beside those that a Service has: each of a
/// kind (host name, IP family) that the answer lacks stays. A comparison finds an address that is gone, and an Ensure says
/// so.
pub(super) fn beside(held: &[Ingress], named: &[Ingress]) -> Vec<Ingress> {
    let kind = |one: &Ingress| one.ip.parse().ok().map(|ip: IpAddr| ip.is_ipv4());
    let lacks = |one: &&Ingress| !named.iter().any(|other| kind(other) == kind(one));
    named
        .iter()
        .chain(held.iter().filter(lacks))
        .cloned()
        .collect()
}

/// A patch in the making; what would change nothing is left out.
pub(super) struct PatchDraft<'a> {
    service: &'a ServiceView,
    now: Timestamp,
    patch: StatusPatch,
}

impl<'a> PatchDraft<'a> {
    pub(super) fn over(service: &'a ServiceView, now: Timestamp) -> Self {
        Self {
            service,
            now,
            patch: StatusPatch {
                uid: service.uid.clone(),
                finalizer: None,
                annotations: Vec::new(),
                conditions: Vec::new(),
                ingress: None,
            },
        }
    }

    pub(super) fn add_finalizer(&mut self) {
        if !self.service.has_finalizer() {
            self.patch.finalizer = Some(FinalizerChange::Add);
        }
    }

    pub(super) fn remove_finalizer(&mut self) {
        if self.service.has_finalizer() {
            self.patch.finalizer = Some(FinalizerChange::Remove);
        }
    }

    pub(super) fn annotate(&mut self, key: &str, value: Option<&str>) {
        self.patch.annotations.retain(|(k, _)| **k != *key);
        if self.service.annotations.get(key) != value {
            let change = (key.into(), value.map(Into::into));
            self.patch.annotations.push(change);
        }
    }

    pub(super) fn record(&mut self, record: &LastApplied) {
        self.annotate(ANNOTATION_LAST_APPLIED, Some(&record.to_string()));
    }

    /// The load balancer is ensured again before it counts as settled.
    pub(super) fn remove_hash(&mut self) {
        let record = LastApplied::of(self.service);
        if let Some(unsettled) = record.and_then(|record| record.without_hash()) {
            self.record(&unsettled);
        }
    }

    pub(super) fn condition(&mut self, kind: &str, status: Status, reason: &str, message: &str) {
        let current = &self.service.conditions;
        let change = ConditionChange::set(self.now, current, kind, status, reason, message);
        self.replace_condition(kind, change);
    }

    pub(super) fn remove_condition(&mut self, kind: &str) {
        let change = ConditionChange::remove(&self.service.conditions, kind);
        self.replace_condition(kind, change);
    }

    pub(super) fn ingress(&mut self, ingress: &[Ingress]) {
        let is_other = !is_same(&self.service.ingress, ingress);
        self.patch.ingress = is_other.then(|| ingress.into());
    }

    pub(super) fn effects(&mut self, effects: &Effects) {
        for (key, value) in &effects.annotations {
            self.annotate(key, value.as_deref());
        }
        for (kind, condition) in &effects.conditions {
            match condition {
                Some(DesiredCondition {
                    status,
                    reason,
                    message,
                }) => self.condition(kind, *status, reason, message),
                None => self.remove_condition(kind),
            }
        }
    }

    /// The patch, unless all of it is there already.
    pub(super) fn finish(self) -> Option<StatusPatch> {
        let patch = self.patch;
        let changes = patch.finalizer.is_some()
            || !patch.annotations.is_empty()
            || !patch.conditions.is_empty()
            || patch.ingress.is_some();
        changes.then_some(patch)
    }

    fn replace_condition(&mut self, kind: &str, change: Option<ConditionChange>) {
        self.patch.conditions.retain(|old| old.kind() != kind);
        self.patch.conditions.extend(change);
    }
}

#[cfg(test)]
mod tests;
