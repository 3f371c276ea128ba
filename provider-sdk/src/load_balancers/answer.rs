use std::time::Duration;

use outrigger_api::v1;

use super::load_balancer::{LoadBalancer, status};
use crate::error::{cut, duration};
use crate::{Effects, Ingress};

/// Shortest and longest time after which the controller asks again.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

/// An answer about one Service, with its effects in Kubernetes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer<T> {
    /// How the load balancer stands.
    pub outcome: T,
    /// Events, annotations and conditions of the Service.
    pub effects: Option<Effects>,
    /// CamelCase: the reason of the Service's condition. Empty: the controller names one. Cut to 128
    /// bytes.
    pub reason: String,
    /// Why it stands so, for people, without changing parts. Cut to 1,024 bytes.
    pub message: String,
}

impl<T> Answer<T> {
    /// The reason for the answer.
    #[must_use]
    pub fn because(self, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
            ..self
        }
    }

    /// Adds effects on the Service.
    #[must_use]
    pub fn with_effects(mut self, effects: impl Into<Option<Effects>>) -> Self {
        self.effects = effects.into();
        self
    }
}

impl<T> From<T> for Answer<T> {
    fn from(outcome: T) -> Self {
        Self {
            outcome,
            effects: None,
            reason: String::new(),
            message: String::new(),
        }
    }
}

/// The state of a load balancer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Observed {
    /// It is as the Service asks.
    Ready(LoadBalancer),
    /// It works, but an ensure would change it. [`Answer::because`] names the difference; the
    /// controller ensures the Service.
    Differs(LoadBalancer),
    /// It is half made, half changed, or being removed; as far as it is known.
    InProgress(Option<LoadBalancer>),
    /// Another controller owns the Service.
    NotManaged,
    /// No part of it exists.
    Absent,
}

/// The outcome of an ensure.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Ensured {
    /// It is as wanted.
    Ready(LoadBalancer),
    /// Accepted; ask again. Made with [`in_progress`](Self::in_progress).
    #[non_exhaustive]
    InProgress {
        /// When; 1 s to 5 min, anything else is moved there.
        retry_after: Duration,
        /// As far as it is known. Its addresses are published unless there are none.
        load_balancer: Option<LoadBalancer>,
    },
    /// Another controller owns the Service. Nothing was touched.
    NotManaged,
}

/// The outcome of an update of targets.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Updated {
    /// They are in place. Made with [`ready`](Self::ready).
    #[non_exhaustive]
    Ready {
        /// Published if it differs; `None` leaves the Service's status as it is.
        ingress: Option<Vec<Ingress>>,
    },
    /// They were accepted; ask again. Made with [`in_progress`](Self::in_progress).
    #[non_exhaustive]
    InProgress {
        /// As in [`Ensured::InProgress`].
        retry_after: Duration,
    },
    /// Another controller owns the Service. Nothing was touched.
    NotManaged,
    /// There is no load balancer; the controller ensures it.
    Absent,
}

/// The outcome of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deleted {
    /// No part of it is left.
    Absent,
    /// Kept on purpose, because of a deletion protection.
    Retained,
    /// Another controller owns the Service; there is nothing to remove here.
    NotManaged,
    /// It has begun; ask again. The Service stays until then. Made with
    /// [`in_progress`](Self::in_progress).
    #[non_exhaustive]
    InProgress {
        /// As in [`Ensured::InProgress`].
        retry_after: Duration,
    },
}

impl Ensured {
    /// Accepted: the controller asks again after `retry_after`, moved to 1 s to 5 min, and publishes the
    /// addresses of what is known, if it has any.
    pub fn in_progress(retry_after: Duration, known: impl Into<Option<LoadBalancer>>) -> Self {
        Self::InProgress {
            retry_after,
            load_balancer: known.into(),
        }
    }
}

impl Updated {
    /// The targets are in place. `ingress` is published if it differs; `None` leaves the Service's status as
    /// it is.
    pub fn ready(ingress: impl Into<Option<Vec<Ingress>>>) -> Self {
        let ingress = ingress.into();
        Self::Ready { ingress }
    }

    /// The targets were accepted: as [`Ensured::in_progress`].
    pub fn in_progress(retry_after: Duration) -> Self {
        Self::InProgress { retry_after }
    }
}

impl Deleted {
    /// The deletion has begun: the controller asks again after `retry_after`, moved to 1 s to 5 min.
    pub fn in_progress(retry_after: Duration) -> Self {
        Self::InProgress { retry_after }
    }
}

fn in_range(after: Duration) -> prost_types::Duration {
    duration(after.clamp(RETRY_AFTER.0, RETRY_AFTER.1))
}

/// The parts of an answer that follow from its outcome.
#[derive(Default)]
struct Parts {
    disposition: v1::LoadBalancerDisposition,
    identity: Option<v1::LoadBalancerIdentity>,
    status: Option<v1::LoadBalancerStatus>,
    retry_after: Option<Duration>,
}

impl Parts {
    fn of(disposition: v1::LoadBalancerDisposition) -> Self {
        Self {
            disposition,
            ..Self::default()
        }
    }

    fn ready(load_balancer: LoadBalancer) -> Self {
        let (identity, status) = load_balancer.into_wire();
        Self {
            identity: Some(identity),
            status: Some(status),
            ..Self::of(v1::LoadBalancerDisposition::Ready)
        }
    }

    /// Without addresses the status is left out, since an empty one says nothing.
    fn known(mut self, load_balancer: Option<LoadBalancer>) -> Self {
        if let Some((identity, status)) = load_balancer.map(LoadBalancer::into_wire) {
            self.identity = Some(identity);
            self.status = (!status.ingress.is_empty()).then_some(status);
        }
        self
    }

    fn in_progress(retry_after: Option<Duration>) -> Self {
        Self {
            retry_after,
            ..Self::of(v1::LoadBalancerDisposition::InProgress)
        }
    }
}

impl<T> Answer<T> {
    #[expect(
        private_bounds,
        reason = "only this crate knows what an outcome is sent as"
    )]
    pub(crate) fn into_wire(self) -> v1::LoadBalancerAnswer
    where
        T: Into<Parts>,
    {
        let Parts {
            disposition,
            identity,
            status,
            retry_after,
        } = self.outcome.into();
        v1::LoadBalancerAnswer {
            disposition: disposition.into(),
            status,
            retry_after: retry_after.map(in_range),
            identity,
            effects: self.effects.map(Effects::into_wire),
            reason: cut(self.reason, 128),
            message: cut(self.message, 1024),
        }
    }
}

impl From<Observed> for Parts {
    fn from(observed: Observed) -> Self {
        use v1::LoadBalancerDisposition as Wire;
        match observed {
            Observed::Ready(load_balancer) => Self::ready(load_balancer),
            Observed::Differs(load_balancer) => Self::of(Wire::Differs).known(Some(load_balancer)),
            Observed::InProgress(load_balancer) => Self::in_progress(None).known(load_balancer),
            Observed::NotManaged => Self::of(Wire::NotManaged),
            Observed::Absent => Self::of(Wire::Absent),
        }
    }
}

impl From<Ensured> for Parts {
    fn from(ensured: Ensured) -> Self {
        match ensured {
            Ensured::Ready(load_balancer) => Self::ready(load_balancer),
            Ensured::InProgress {
                retry_after,
                load_balancer,
            } => Self::in_progress(Some(retry_after)).known(load_balancer),
            Ensured::NotManaged => Self::of(v1::LoadBalancerDisposition::NotManaged),
        }
    }
}

impl From<Updated> for Parts {
    fn from(updated: Updated) -> Self {
        use v1::LoadBalancerDisposition as Wire;
        match updated {
            Updated::Ready { ingress } => Self {
                status: ingress.map(status),
                ..Self::of(Wire::Ready)
            },
            Updated::InProgress { retry_after } => Self::in_progress(Some(retry_after)),
            Updated::NotManaged => Self::of(Wire::NotManaged),
            Updated::Absent => Self::of(Wire::Absent),
        }
    }
}

impl From<Deleted> for Parts {
    fn from(deleted: Deleted) -> Self {
        use v1::LoadBalancerDisposition as Wire;
        match deleted {
            Deleted::Absent => Self::of(Wire::Absent),
            Deleted::Retained => Self::of(Wire::Retained),
            Deleted::NotManaged => Self::of(Wire::NotManaged),
            Deleted::InProgress { retry_after } => Self::in_progress(Some(retry_after)),
        }
    }
}
