//! Which Services are this provider's: one answer for each, on which all that is done for it rests.
//!
//! [`Ownership::of`] is asked by the plan, by the event handlers and by the count of Services in metrics. It decides from
//! the Service and the handshake alone, so that each caller gets the same answer, and only a change of the Service itself
//! leads to a cleanup.
//!
//! ```
//! use outrigger_core::service::{ServiceView, capability::Capability, ownership::Ownership};
//!
//! let service: ServiceView = serde_json::from_str(
//!     r#"{"metadata": {"namespace": "shop", "name": "web"}, "spec": {"type": "LoadBalancer"}}"#,
//! )?;
//! let capability = Capability::default();
//! assert_eq!(Ownership::of(&service, Some(&capability)), Ownership::Provide);
//! assert_eq!(Ownership::of(&service, None), Ownership::Undecided);
//! # Ok::<(), serde_json::Error>(())
//! ```

use super::{ServiceView, capability::Capability, condition::ACCEPTED, last_applied::LastApplied};
use crate::condition::Status;

/// The relation of a Service to this provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// It wants a load balancer of this provider.
    Provide,
    /// The load balancer that it may have stays as it is: the Service has not changed, but the provider
    /// does not declare its class any more.
    Hold,
    /// The load balancer that it may have is deleted, and with it the finalizer.
    Cleanup,
    /// The provider's declarations decide, and they are not known.
    Undecided,
    /// It is another implementation's, or cleaned up already.
    Foreign,
    /// It is of another type and has no finalizer.
    Unrelated,
}

impl Ownership {
    /// The relation of `service` to the provider with this capability (S-10, S-11, with the classes that
    /// the provider declares). Without a capability: as far as every declaration leads to the same.
    ///
    /// Only a change of the Service itself leads to a cleanup: its deletion, another type, another class
    /// (S-44). A class that the provider declares no longer leads to a hold: the Service still wants its
    /// load balancer.
    ///
    /// Many implementations share the finalizer. On a Service of a class that is not served, it means
    /// nothing without our own record, which names the provider that has worked on this very Service
    /// (not Q-7). A Service of another type has no class any more: it counts as one of the class that its
    /// record names, of whatever provider, since ours may have got another name; and without a record as a
    /// Service without class.
    ///
    /// A Service that is being deleted without a finalizer wants nothing: none can be added (not Q-6).
    pub fn of(service: &ServiceView, capability: Option<&Capability>) -> Self {
        let is_load_balancer = service.is_load_balancer();
        let is_live = service.deleted.is_none();
        let has_finalizer = service.has_finalizer();
        let wants_load_balancer = is_load_balancer && is_live;
        if !has_finalizer && !wants_load_balancer {
            return if is_load_balancer {
                Self::Foreign
            } else {
                Self::Unrelated
            };
        }
        let Some(capability) = capability else {
            return Self::Undecided;
        };
        let class = service.spec.load_balancer_class.as_deref();
        let is_served = is_load_balancer && capability.serves(class);
        if is_served && is_live {
            return Self::Provide;
        }
        let record = LastApplied::of(service);
        let own = record
            .as_ref()
            .filter(|record| *record.provider == *capability.provider);
        if is_load_balancer && is_live && own.is_some_and(|own| !own.is_of_other_class(service)) {
            return Self::Hold;
        }
        let was_served = match &record {
            Some(record) => record.is_served(capability),
            None => capability.serves(None),
        };
        let is_served = is_served || (!is_load_balancer && was_served);
        if has_finalizer && (is_served || own.is_some()) {
            Self::Cleanup
        } else {
            Self::Foreign
        }
    }

    /// Returns true if this provider may have a load balancer for the Service. It may also be gone from the API
    /// server: its load balancer is orphaned then (not Q-5, S-60), since a cleanup would have removed the finalizer before.
    pub const fn may_be_ours(self) -> bool {
        !matches!(self, Self::Foreign | Self::Unrelated)
    }
}

/// Returns true if `service` has the finalizer and, where that is not enough, the record that are written
/// before the provider is called for it the first time.
pub fn is_claimed(service: &ServiceView, capability: &Capability) -> bool {
    let has_class = service.spec.load_balancer_class.is_some();
    // Should the Service change its type before it is settled, or the provider declare its class no
    // longer, a finalizer alone does not name its owner.
    let is_enough = !has_class && capability.serves(None);
    service.has_finalizer() && (is_enough || LastApplied::own(service, capability).is_some())
}

/// Returns true if the provider's last answer was that it does not manage the Service. A Service that is wrong in
/// itself is not accepted either, but nothing is settled then.
pub fn is_not_managed(service: &ServiceView) -> bool {
    let accepted = service.condition(ACCEPTED);
    accepted.is_some_and(|accepted| &*accepted.status == Status::False.as_str())
        && LastApplied::of(service).is_some_and(|record| record.has_hash())
}

/// Returns true if `now`, which was `last` before, is released: it was deleted, or got another type or class,
/// wants nothing of this provider, and has no finalizer.
pub fn is_released(last: &ServiceView, now: &ServiceView, capability: Option<&Capability>) -> bool {
    let is_asked_for =
        is_changed_away(last, now) || Ownership::of(last, capability) == Ownership::Cleanup;
    is_asked_for && !now.has_finalizer() && !Ownership::of(now, capability).may_be_ours()
}

/// Returns true if the Service no longer wants the load balancer that it wanted as `last`, by a change of its own.
fn is_changed_away(last: &ServiceView, now: &ServiceView) -> bool {
    now.deleted.is_some()
        || !now.is_load_balancer()
        || now.spec.load_balancer_class != last.spec.load_balancer_class
}

/// Returns true if the step from `old` to `new` may have orphaned a load balancer, though the Service is
/// still there (not Q-5): one write took the finalizer away and, say, changed the type, or another
/// finalizer keeps a Service that is being deleted. So does the end of a cleanup.
pub fn lost_finalizer(
    old: &ServiceView,
    new: &ServiceView,
    capability: Option<&Capability>,
) -> bool {
    // Both are written before the first call.
    let was_begun = old.has_finalizer() || LastApplied::of(old).is_some();
    was_begun && Ownership::of(old, capability).may_be_ours() && is_released(old, new, capability)
}

#[cfg(test)]
mod tests;
