//! Faults on purpose.
//!
//! Faults stand between the caller and a provider that is itself correct: they delay a call, answer
//! it with an error, or spoil its answer. They are tried in the order in which they were set, and a
//! fault whose budget is used up is gone.

mod bad_answer;
mod bad_load_balancer;
mod bad_route;
mod bad_volume;
mod code;
mod error;
mod method;
mod set;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use bad_answer::BadAnswer;
pub use code::Code;
pub use error::InjectedError;
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
    /// The Service that it happens to, by `namespace/name` or UID; absent: to each. Of a call about
    /// one Service the whole call, of an update its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The destination of the route whose result it happens to, in any spelling; absent: to each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Cidr>,
    /// The handle of the volume whose result it happens to; absent: to each.
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
    /// The call takes so long for each item that it is about, as if they were served one after the other. Then it
    /// is served.
    #[serde(rename_all = "camelCase")]
    OneAfterTheOther {
        /// How long each takes.
        #[serde(with = "duration::required")]
        each: Duration,
    },
    /// The call is served, and its answer lost: the caller learns nothing of the outcome.
    LoseReply,
    /// The answer is nonsense.
    BadAnswer(BadAnswer),
}

impl Effect {
    /// Two effects of a kind replace each other where a person sets them.
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
                Effect::ItemError(_) if !method.has_items() => {
                    return Err(format!(
                        "{method} has no errors of single items; use BatchGetInstances, \
                         UpdateLoadBalancerNodes, BatchCreateRoutes, BatchDeleteRoutes or BatchGetVolumes"
                    ));
                }
                Effect::BadAnswer(bad) if !bad.fits(method) => {
                    return Err(format!("{method} has no answers that could be {bad}"));
                }
                _ => {}
            }
        }
        let hangs = matches!(self.effect, Effect::Hang { .. });
        if self.node.is_some() && !self.effect.is_about_items() && !hangs {
            return Err("a whole call cannot fail for one node; fail its item instead".into());
        }
        if self.route.is_some() {
            if let Some(method) = self.method.filter(|method| !method.is_about_routes()) {
                return Err(format!("{method} is not about routes"));
            }
            if !self.effect.is_about_items() {
                return Err("a call is about many routes; fail the item of one instead".into());
            }
        }
        if self.volume.is_some() {
            if let Some(method) = self.method.filter(|method| !method.is_about_volumes()) {
                return Err(format!("{method} is not about volumes"));
            }
            if !self.effect.is_about_items() {
                return Err("a call is about many volumes; fail the item of one instead".into());
            }
        }
        if let (Some(_), Some(method)) = (&self.service, self.method) {
            if !method.is_about_services() {
                return Err(format!("{method} is not about a Service"));
            }
            if method == Method::UpdateLoadBalancerNodes && !self.effect.is_about_items() {
                return Err(
                    "an update is about many Services; fail the item of one instead".into(),
                );
            }
        }
        Ok(())
    }
}

/// The subject of a call, or of one item of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// Of a lookup all that it asks about.
    pub(crate) nodes: Vec<String>,
    /// `namespace/name` and UID.
    pub(crate) service: Option<(String, String)>,
    /// The destination of a route, without host bits.
    pub(crate) route: Option<Cidr>,
    /// The handle of a volume.
    pub(crate) volume: Option<String>,
}

impl About {
    pub(crate) fn node(name: &str) -> Self {
        Self {
            nodes: vec![name.to_owned()],
            ..Self::default()
        }
    }

    pub(crate) fn service(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            service: Some((format!("{namespace}/{name}"), uid.to_owned())),
            ..Self::default()
        }
    }

    pub(crate) fn route(destination: &str, node: &str) -> Self {
        Self {
            route: destination.parse().ok().map(Cidr::network),
            ..Self::node(node)
        }
    }

    /// A volume; none if its handle is not known.
    pub(crate) fn volume(handle: Option<&str>) -> Self {
        Self {
            volume: handle.map(str::to_owned),
            ..Self::default()
        }
    }
}

impl Fault {
    /// Whether the objects of a call's request must be known.
    pub(crate) fn needs_subjects(&self, method: Method) -> bool {
        // A result about a volume names it by a key of the request alone.
        let of_volumes = method.is_about_volumes() && self.effect.is_about_items();
        let of_call = self.node.is_some() && !self.effect.is_about_items();
        let each = matches!(self.effect, Effect::OneAfterTheOther { .. });
        self.service.is_some() || of_volumes || of_call || each
    }

    pub(crate) fn is_about(&self, about: &About) -> bool {
        let node = self
            .node
            .as_ref()
            .is_none_or(|wanted| about.nodes.iter().any(|name| name == wanted.as_str()));
        let service = self.service.as_ref().is_none_or(|wanted| {
            let service = about.service.as_ref();
            service.is_some_and(|(name, uid)| name == wanted || uid == wanted)
        });
        let route = self
            .route
            .is_none_or(|wanted| about.route == Some(wanted.network()));
        let volume = self.volume.is_none() || about.volume == self.volume;
        node && service && route && volume
    }
}
