//! Says whether a change of a Service needs its load balancer to be looked at.
//!
//! The event handlers of the loop call [`needs_sync`] with both views of a change. Most changes of Services mean nothing to
//! a load balancer, and the writes of this controller are no reason either.

use super::{
    ServiceView,
    capability::Capability,
    last_applied::{Hash, LastApplied},
    ownership::Ownership,
};

/// Returns true if the step from `old` to `new` changes which load balancer there should be: it wants one
/// now and did not before, or the reverse (S-20), or a field of S-21 differs. Two differences from
/// upstream: `ipFamilies` counts in full with `ipFamilyPolicy`, not by its length alone, and of the
/// annotations only those that the provider reads ([`Capability`]).
pub fn needs_update(old: &ServiceView, new: &ServiceView, capability: &Capability) -> bool {
    let wants_balancer = |service| Ownership::of(service, Some(capability)) == Ownership::Provide;
    match (wants_balancer(old), wants_balancer(new)) {
        (false, false) => false,
        (true, true) => Hash::of(old, capability) != Hash::of(new, capability),
        (true, false) | (false, true) => true,
    }
}

/// Returns true if the step from `old` to `new` is a reason to ask for the next step immediately
/// ([`super::plan::Progress::next`]): an update (S-13), another desired state or a pause. Writes of this controller are no
/// reason: they would cut the back-off after a failure short.
pub fn needs_sync(old: &ServiceView, new: &ServiceView, capability: &Capability) -> bool {
    let ownership = |service| Ownership::of(service, Some(capability));
    let (before, now) = (ownership(old), ownership(new));
    (before != now && (before.may_be_ours() || now.may_be_ours()))
        || old.is_paused() != new.is_paused()
        || old.is_too_large != new.is_too_large
        || needs_update(old, new, capability)
}

/// Returns true if another client has removed the finalizer (not Q-5) in the step from `old` to `new`, or written other
/// addresses than those that the record speaks of.
pub fn is_undone(old: &ServiceView, new: &ServiceView) -> bool {
    let has_other_addresses =
        || LastApplied::of(new).is_some_and(|record| !record.has_addresses(&new.ingress));
    (old.has_finalizer() && !new.has_finalizer())
        || (old.ingress != new.ingress && has_other_addresses())
}

#[cfg(test)]
mod tests;
