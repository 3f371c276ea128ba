//! Faults on purpose.
//!
//! Faults stand between the caller and a provider that is itself correct: they delay a call, answer
//! it with an error, or spoil its answer. They are tried in the order in which they were set, and a
//! fault whose budget is used up is gone.

mod about;
mod answers;
mod error;
mod method;
mod set;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use about::About;
pub use answers::BadAnswer;
pub(crate) use answers::Objects;
pub use error::{Code, InjectedError};
pub use method::Method;
pub(crate) use set::Faults;

use crate::cidr::Cidr;
use crate::duration;
use crate::instances::NodeName;

/// Something that goes wrong, where, and how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Fault {
    /// The method it happens to; absent: to each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// The node whose answer it happens to; absent: to each. A call that is about it hangs as a whole, and fails for
    /// its item alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// The Service that it happens to, by `namespace/name` or UID; absent: to each. A call
    /// about one Service fails as a whole, an update in its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The destination of the route that it happens to, in any spelling; absent: to each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Cidr>,
    /// The handle of the volume that it happens to; absent: to each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The effect.
    pub effect: Effect,
    /// How often.
    #[serde(default)]
    pub budget: Budget,
}

/// The effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// The call fails.
    Error(InjectedError),
    /// Single items of an answer fail, the call does not.
    ItemError(InjectedError),
    /// The call hangs: so long, or until the faults are cleared or the caller goes away. Then it
    /// is served.
    #[serde(rename_all = "camelCase")]
    Hang {
        /// How long; absent: for ever.
        #[serde(default, rename = "for", with = "duration::optional")]
        duration: Option<Duration>,
    },
    /// The call is served, and its answer lost: the caller learns nothing of the outcome.
    LoseReply,
    /// The answer is nonsense.
    BadAnswer(BadAnswer),
}

impl Effect {
    /// Two effects of a kind replace each other where an operator sets them.
    fn same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    fn is_about_items(&self) -> bool {
        matches!(self, Self::ItemError(_) | Self::BadAnswer(_))
    }
}

/// How often a fault happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Budget {
    /// Each time, until it is cleared.
    #[default]
    Always,
    /// So many times, then never again.
    Count(u64),
    /// With this probability, 0 to 1.
    Rate(f64),
}

impl Fault {
    /// This effect on each call of a method.
    pub fn on(method: Method, effect: Effect) -> Self {
        Self {
            method: Some(method),
            node: None,
            service: None,
            route: None,
            volume: None,
            effect,
            budget: Budget::Always,
        }
    }

    /// So many times only.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self {
            budget: Budget::Count(count),
            ..self
        }
    }

    /// With this probability, 0 to 1.
    #[must_use]
    pub fn with_rate(self, rate: f64) -> Self {
        Self {
            budget: Budget::Rate(rate),
            ..self
        }
    }

    /// For this node only.
    #[must_use]
    pub fn for_node(self, node: NodeName) -> Self {
        Self {
            node: Some(node),
            ..self
        }
    }

    /// For this Service only, by `namespace/name` or UID.
    #[must_use]
    pub fn for_service(self, service: &str) -> Self {
        Self {
            service: Some(service.to_owned()),
            ..self
        }
    }

    /// For the route to this destination only.
    #[must_use]
    pub fn for_route(self, destination: Cidr) -> Self {
        Self {
            route: Some(destination),
            ..self
        }
    }

    /// For the volume with this handle only.
    #[must_use]
    pub fn for_volume(self, handle: &str) -> Self {
        Self {
            volume: Some(handle.to_owned()),
            ..self
        }
    }

    /// The reason why it makes no sense, if there is one.
    pub fn check(&self) -> Result<(), String> {
        match self.budget {
            Budget::Rate(rate) if !(0.0..=1.0).contains(&rate) => {
                return Err(format!("the rate {rate} is no probability; use 0 to 1"));
            }
            Budget::Count(0) => return Err("a count of 0 would do nothing; use 1 or more".into()),
            _ => {}
        }
        if let Some(method) = self.method {
            match &self.effect {
                Effect::ItemError(_) if !method.is_batch() => {
                    return Err(format!(
                        "{method} has no errors of single items; BatchGetInstances has"
                    ));
                }
                Effect::BadAnswer(bad) if !method.can_be(*bad) => {
                    return Err(format!("{method} has no answers that could be {bad}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
