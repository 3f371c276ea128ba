//! Which Services this provider makes a load balancer for, and from which it takes one away.

use super::{ServiceView, capability::Capability, settled::Record};

/// What a Service wants of this provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// A load balancer.
    LoadBalancer,
    /// That the load balancer it may have had goes, and with it the finalizer.
    Cleanup,
    /// Nothing: it is somebody else's, of another type, or cleaned up already.
    Nothing,
}

/// What `service` wants (S-10, S-11, with the classes that the provider declares).
///
/// The finalizer is shared by many implementations. One on a Service of a class that is not served
/// leads to a cleanup only where our own record says that this provider has worked on this very
/// Service (not Q-7), as after a change of class by way of another type (S-44). A Service of
/// another type has no class any more: our record decides, and without one it is the business of
/// who serves Services without class.
///
/// What is being deleted and has no finalizer (any more) wants nothing: none can be added (not
///
pub fn wants(service: &ServiceView, capability: &Capability) -> Wants {
    let is_load_balancer = service.is_load_balancer();
    let class = service.spec.load_balancer_class.as_deref();
    let is_served = is_load_balancer && capability.serves(class);
    if is_served && service.deleted.is_none() {
        return Wants::LoadBalancer;
    }
    if !service.has_finalizer() {
        return Wants::Nothing;
    }
    let is_ours = is_served
        || match Record::of(service) {
            Some(record) => *record.provider == *capability.provider,
            None => !is_load_balancer && capability.serves(None),
        };
    if is_ours {
        Wants::Cleanup
    } else {
        Wants::Nothing
    }
}

/// Whether a load balancer may be left of a Service that is gone from the API server, where `last`
/// is how it was seen last (not Q-5, S-60). One whose cleanup was done had no finalizer by then.
pub fn leaves_behind(last: &ServiceView, capability: &Capability) -> bool {
    wants(last, capability) != Wants::Nothing
}

/// Whether nothing more is done for `service`, and nothing holds it.
pub fn is_released(service: &ServiceView, capability: &Capability) -> bool {
    !service.has_finalizer() && wants(service, capability) == Wants::Nothing
}

/// Whether the step from `old` to `new` may have left a load balancer behind on a Service that is still
/// there (not Q-5): one write took the finalizer away and, say, changed the type, or somebody else
/// holds what is being deleted. So does the end of a cleanup.
pub fn escapes(old: &ServiceView, new: &ServiceView, capability: &Capability) -> bool {
    // Both are written before the first call.
    let was_begun = old.has_finalizer() || Record::of(old).is_some();
    was_begun && leaves_behind(old, capability) && is_released(new, capability)
}

#[cfg(test)]
mod tests;
