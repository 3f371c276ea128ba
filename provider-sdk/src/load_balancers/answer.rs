use std::time::Duration;

use outrigger_api::v1;

use super::load_balancer::{Ingress, LoadBalancer, status};
use crate::Effects;
use crate::error::{cut, duration};

/// Shortest and longest time after which the controller asks again.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

/// An answer about one Service, and what Kubernetes shall be told beside it.
#[derive(Clone, Debug, PartialEq)]
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
    /// Says why it stands so.
    #[must_use]
    pub fn because(self, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
            ..self
        }
    }

    /// Adds what Kubernetes shall be told about the Service.
    #[must_use]
    pub fn with_effects(mut self, effects: Effects) -> Self {
        self.effects = Some(effects);
        self
    }

    fn split(self) -> (T, Option<Effects>, String, String) {
        (
            self.outcome,
            self.effects,
            cut(self.reason, 128),
            cut(self.message, 1024),
        )
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

/// What exists.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    /// It is as the Service says.
    Ready(LoadBalancer),
    /// It is half made, being removed, or not as the Service says; as far as it is known.
    InProgress(Option<LoadBalancer>),
    /// Another controller owns the Service.
    NotManaged,
    /// No part of it exists.
    Absent,
}

/// What came of an ensure.
#[derive(Clone, Debug, PartialEq)]
pub enum Ensured {
    /// It is as wanted.
    Ready(LoadBalancer),
    /// Accepted; ask again.
    InProgress {
        /// When; 1 s to 5 min, anything else is moved there.
        retry_after: Duration,
        /// As far as it is known. Its addresses are published unless there are none.
        load_balancer: Option<LoadBalancer>,
    },
    /// Another controller owns the Service. Nothing was touched.
    NotManaged,
}

/// What came of new targets.
#[derive(Clone, Debug, PartialEq)]
pub enum Updated {
    /// They were taken.
    Ready {
        /// Published if it differs; `None` leaves the Service's status as it is.
        ingress: Option<Vec<Ingress>>,
    },
    /// They were accepted; ask again.
    InProgress {
        /// As in [`Ensured::InProgress`].
        retry_after: Duration,
    },
    /// Another controller owns the Service. Nothing was touched.
    NotManaged,
    /// There is no load balancer; the controller ensures it.
    Absent,
}

/// What came of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// No part of it is left.
    Absent,
    /// Kept on purpose, because of a deletion protection.
    Retained,
    /// Another controller owns the Service; there is nothing to remove here.
    NotManaged,
    /// It has begun; ask again. The Service stays until then.
    InProgress {
        /// As in [`Ensured::InProgress`].
        retry_after: Duration,
    },
}

fn in_range(after: Duration) -> prost_types::Duration {
    duration(after.clamp(RETRY_AFTER.0, RETRY_AFTER.1))
}

/// An empty status would take addresses away that are published already.
fn known(
    load_balancer: Option<LoadBalancer>,
) -> (
    Option<v1::LoadBalancerIdentity>,
    Option<v1::LoadBalancerStatus>,
) {
    match load_balancer.map(LoadBalancer::into_wire) {
        Some((identity, status)) => {
            let status = (!status.ingress.is_empty()).then_some(status);
            (Some(identity), status)
        }
        None => (None, None),
    }
}

impl From<Answer<Observed>> for v1::GetLoadBalancerResponse {
    fn from(answer: Answer<Observed>) -> Self {
        use v1::LoadBalancerDisposition as Wire;
        let (outcome, effects, reason, message) = answer.split();
        let (disposition, identity, status) = match outcome {
            Observed::Ready(load_balancer) => {
                let (identity, status) = load_balancer.into_wire();
                (Wire::Ready, Some(identity), Some(status))
            }
            Observed::InProgress(load_balancer) => {
                let (identity, status) = known(load_balancer);
                (Wire::InProgress, identity, status)
            }
            Observed::NotManaged => (Wire::NotManaged, None, None),
            Observed::Absent => (Wire::Absent, None, None),
        };
        Self {
            disposition: disposition.into(),
            status,
            identity,
            effects,
            reason,
            message,
        }
    }
}

impl From<Answer<Ensured>> for v1::EnsureLoadBalancerResponse {
    fn from(answer: Answer<Ensured>) -> Self {
        use v1::LoadBalancerDisposition as Wire;
        let (outcome, effects, reason, message) = answer.split();
        let (disposition, identity, status, retry_after) = match outcome {
            Ensured::Ready(load_balancer) => {
                let (identity, status) = load_balancer.into_wire();
                (Wire::Ready, Some(identity), Some(status), None)
            }
            Ensured::InProgress {
                retry_after,
                load_balancer,
            } => {
                let (identity, status) = known(load_balancer);
                (
                    Wire::InProgress,
                    identity,
                    status,
                    Some(in_range(retry_after)),
                )
            }
            Ensured::NotManaged => (Wire::NotManaged, None, None, None),
        };
        Self {
            disposition: disposition.into(),
            status,
            retry_after,
            identity,
            effects,
            reason,
            message,
        }
    }
}

impl From<Answer<Updated>> for v1::LoadBalancerUpdated {
    fn from(answer: Answer<Updated>) -> Self {
        use v1::LoadBalancerDisposition as Wire;
        let (outcome, effects, reason, message) = answer.split();
        let (disposition, status, retry_after) = match outcome {
            Updated::Ready { ingress } => (Wire::Ready, ingress.map(status), None),
            Updated::InProgress { retry_after } => {
                (Wire::InProgress, None, Some(in_range(retry_after)))
            }
            Updated::NotManaged => (Wire::NotManaged, None, None),
            Updated::Absent => (Wire::Absent, None, None),
        };
        Self {
            disposition: disposition.into(),
            status,
            retry_after,
            effects,
            reason,
            message,
        }
    }
}

impl From<Answer<Deleted>> for v1::DeleteLoadBalancerResponse {
    fn from(answer: Answer<Deleted>) -> Self {
        use v1::LoadBalancerDisposition as Wire;
        let (outcome, effects, reason, message) = answer.split();
        let (disposition, retry_after) = match outcome {
            Deleted::Absent => (Wire::Absent, None),
            Deleted::Retained => (Wire::Retained, None),
            Deleted::NotManaged => (Wire::NotManaged, None),
            Deleted::InProgress { retry_after } => (Wire::InProgress, Some(in_range(retry_after))),
        };
        Self {
            disposition: disposition.into(),
            retry_after,
            effects,
            reason,
            message,
        }
    }
}
