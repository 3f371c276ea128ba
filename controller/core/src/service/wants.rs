//! Which Services this provider makes a load balancer for, and from which it takes one away.

use super::{
    ServiceView,
    capability::Capability,
    condition::{ACCEPTED, Status},
    settled::Record,
};

/// The wish of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// A load balancer.
    LoadBalancer,
    /// That the load balancer it may have had goes, and with it the finalizer.
    Cleanup,
    /// That the load balancer it may have stays as it is: the Service has not changed, but the
    /// provider does not declare its class any more.
    Hold,
    /// Nothing: another controller's, of another type, or cleaned up already.
    Nothing,
}

/// The wish of `service` (S-10, S-11, with the classes that the provider declares).
///
/// Only a change of the Service itself leads to a cleanup: its deletion, another type, another class
/// (S-44). A class that the provider declares no longer leads to a hold: the Service asks for its
/// load balancer as before.
///
/// The finalizer is shared by many implementations. One on a Service of a class that is not served
/// means nothing without our own record, which says that this provider has worked on this very
/// Service (not Q-7). A Service of another type has no class any more: our record decides, and
/// without one it is the business of who serves Services without class.
///
/// A Service that is being deleted without a finalizer wants nothing: none can be added (not Q-6).
pub fn wants(service: &ServiceView, capability: &Capability) -> Wants {
    let is_load_balancer = service.is_load_balancer();
    let is_live = service.deleted.is_none();
    let class = service.spec.load_balancer_class.as_deref();
    let is_served = is_load_balancer && capability.serves(class);
    if is_served && is_live {
        return Wants::LoadBalancer;
    }
    let record = Record::of(service);
    let is_recorded = record
        .as_ref()
        .is_some_and(|record| *record.provider == *capability.provider);
    let is_of_other_class = record
        .as_ref()
        .is_some_and(|record| record.is_of_other_class(service));
    if is_load_balancer && is_live && is_recorded && !is_of_other_class {
        return Wants::Hold;
    }
    if !service.has_finalizer() {
        return Wants::Nothing;
    }
    let is_unrecorded = !is_load_balancer && capability.serves(None) && record.is_none();
    if is_served || is_recorded || is_unrecorded {
        Wants::Cleanup
    } else {
        Wants::Nothing
    }
}

/// Whether the load balancer of `service` was made for a class that the provider does not declare
/// now, so that its word that it does not manage the Service proves nothing.
pub fn is_withdrawn(service: &ServiceView, capability: &Capability) -> bool {
    Record::own(service, capability).is_some_and(|record| !record.is_served(service, capability))
        && !is_not_managed(service)
}

/// Whether the provider's last word was that it does not manage the Service. One that is wrong in
/// itself is not accepted either, but nothing is settled then.
pub fn is_not_managed(service: &ServiceView) -> bool {
    let accepted = service.condition(ACCEPTED);
    accepted.is_some_and(|accepted| &*accepted.status == Status::False.as_str())
        && Record::of(service).is_some_and(|record| record.is_settled())
}

/// Whether a load balancer may be left of a Service that is gone from the API server, where `last`
/// is how it was seen last (not Q-5, S-60). One whose cleanup was done had no finalizer by then.
pub fn leaves_behind(last: &ServiceView, capability: &Capability) -> bool {
    wants(last, capability) != Wants::Nothing
}

/// Whether `now`, which was `last` before, is let go of: it was deleted, or got another type or class,
/// and nothing more is done for it, and nothing holds it.
pub fn is_released(last: &ServiceView, now: &ServiceView, capability: &Capability) -> bool {
    let is_asked_for = is_changed_away(last, now) || wants(last, capability) == Wants::Cleanup;
    is_asked_for && !now.has_finalizer() && wants(now, capability) == Wants::Nothing
}

/// Whether the Service itself says that it does not want the load balancer any more that it wanted as
/// `last`.
fn is_changed_away(last: &ServiceView, now: &ServiceView) -> bool {
    now.deleted.is_some()
        || !now.is_load_balancer()
        || now.spec.load_balancer_class != last.spec.load_balancer_class
}

/// Whether the step from `old` to `new` may have left a load balancer behind on a Service that is
/// still there (not Q-5): one write took the finalizer away and, say, changed the type, or another
/// finalizer keeps a Service that is being deleted. So does the end of a cleanup.
pub fn lost_finalizer(old: &ServiceView, new: &ServiceView, capability: &Capability) -> bool {
    // Both are written before the first call.
    let was_begun = old.has_finalizer() || Record::of(old).is_some();
    was_begun && leaves_behind(old, capability) && is_released(old, new, capability)
}

#[cfg(test)]
mod tests;
