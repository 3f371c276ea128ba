use std::time::Duration;

use outrigger_api::v1::{self, LoadBalancerDisposition as Wire};

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
        /// The load balancer, as far as it is known. Its addresses are published unless there are none.
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
        /// Same as in [`Ensured::InProgress`].
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
        /// Same as in [`Ensured::InProgress`].
        retry_after: Duration,
    },
}

impl Ensured {
    /// Accepted: the controller asks again after `retry_after`, moved to 1 s to 5 min, and publishes the
    /// addresses of what is known, if it has any.
    pub fn in_progress(
        retry_after: Duration,
        load_balancer: impl Into<Option<LoadBalancer>>,
    ) -> Self {
        Self::InProgress {
            retry_after,
            load_balancer: load_balancer.into(),
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

/// The wire form of an outcome, without the parts that go beside it.
trait Disposed {
    fn into_wire(self) -> v1::LoadBalancerAnswer;
}

impl<T> Answer<T> {
    #[expect(
        private_bounds,
        reason = "only this crate knows what an outcome is sent as"
    )]
    pub(crate) fn into_wire(self) -> v1::LoadBalancerAnswer
    where
        T: Disposed,
    {
        v1::LoadBalancerAnswer {
            effects: self.effects.map(Effects::into_wire),
            reason: cut(self.reason, 128),
            message: cut(self.message, 1024),
            ..self.outcome.into_wire()
        }
    }
}

fn stands(disposition: Wire) -> v1::LoadBalancerAnswer {
    v1::LoadBalancerAnswer {
        disposition: disposition.into(),
        ..v1::LoadBalancerAnswer::default()
    }
}

/// Without addresses the status is left out, since an empty one says nothing.
fn known(disposition: Wire, load_balancer: Option<LoadBalancer>) -> v1::LoadBalancerAnswer {
    let (identity, status) = load_balancer.map(LoadBalancer::into_wire).unzip();
    v1::LoadBalancerAnswer {
        identity,
        status: status.filter(|status| !status.ingress.is_empty()),
        ..stands(disposition)
    }
}

fn in_progress(
    retry_after: Duration,
    load_balancer: Option<LoadBalancer>,
) -> v1::LoadBalancerAnswer {
    let (shortest, longest) = RETRY_AFTER;
    v1::LoadBalancerAnswer {
        retry_after: Some(duration(retry_after.clamp(shortest, longest))),
        ..known(Wire::InProgress, load_balancer)
    }
}

impl Disposed for Observed {
    fn into_wire(self) -> v1::LoadBalancerAnswer {
        match self {
            Self::Ready(load_balancer) => known(Wire::Ready, Some(load_balancer)),
            Self::Differs(load_balancer) => known(Wire::Differs, Some(load_balancer)),
            Self::InProgress(load_balancer) => known(Wire::InProgress, load_balancer),
            Self::NotManaged => stands(Wire::NotManaged),
            Self::Absent => stands(Wire::Absent),
        }
    }
}

impl Disposed for Ensured {
    fn into_wire(self) -> v1::LoadBalancerAnswer {
        match self {
            Self::Ready(load_balancer) => known(Wire::Ready, Some(load_balancer)),
            Self::InProgress {
                retry_after,
                load_balancer,
            } => in_progress(retry_after, load_balancer),
            Self::NotManaged => stands(Wire::NotManaged),
        }
    }
}

impl Disposed for Updated {
    fn into_wire(self) -> v1::LoadBalancerAnswer {
        match self {
            Self::Ready { ingress } => v1::LoadBalancerAnswer {
                status: ingress.map(status),
                ..stands(Wire::Ready)
            },
            Self::InProgress { retry_after } => in_progress(retry_after, None),
            Self::NotManaged => stands(Wire::NotManaged),
            Self::Absent => stands(Wire::Absent),
        }
    }
}

impl Disposed for Deleted {
    fn into_wire(self) -> v1::LoadBalancerAnswer {
        match self {
            Self::Absent => stands(Wire::Absent),
            Self::Retained => stands(Wire::Retained),
            Self::NotManaged => stands(Wire::NotManaged),
            Self::InProgress { retry_after } => in_progress(retry_after, None),
        }
    }
}
